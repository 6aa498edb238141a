"""Checkpoints by hand: all ranks or none, the newest that is whole, and how often."""

import errno
import json
import math
import os
import random
import resource
import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, load_solved_lab

from pedagogy_lib import RankError
from pedagogy_lib.basics.closeness import close

CHECKPOINTS, HOW_OFTEN = load_solved_lab("checkpoints"), load_solved_lab("how_often")


def save_steps(folder, steps, keep=2, unable=None):
    """Save after each step; rank `unable` cannot write in the last of them."""
    said = []
    for step in steps:
        if dist.get_rank() == unable and step == steps[-1]:  # Python ignores SIGXFSZ
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        said.append(CHECKPOINTS.save(folder, step, {"step": step, "rank": dist.get_rank()}, keep))
    return said


def load(folder):
    return CHECKPOINTS.load_newest(folder)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- All ranks or none ---


@pytest.mark.parametrize("world_size", [1, 3])
def test_each_rank_gets_back_what_it_has_saved(world_size, tmp_path):
    folder = tmp_path / "new"
    said = launch_on_cpu(save_steps, folder, [5, 10, 15], world_size=world_size).values
    assert said == [["", "", ""]] * world_size
    assert names(folder) == ["step-000010", "step-000015"]
    listed = json.loads((folder / "step-000015" / "files.json").read_text())
    assert listed["step"] == 15
    assert sorted(listed["files"]) == [f"rank-{rank}.pt" for rank in range(world_size)]
    found = launch_on_cpu(load, folder, world_size=world_size).values
    assert found == [{"step": 15, "rank": rank} for rank in range(world_size)]


@pytest.mark.parametrize("unable", [0, 2])
def test_if_one_rank_cannot_write_nobodys_counts(unable, tmp_path):
    said = launch_on_cpu(save_steps, tmp_path, [5, 10, 15], 3, unable, world_size=3).values
    assert said == [["", "", f"rank {unable}: File too large"]] * 3
    assert names(tmp_path) == ["step-000005", "step-000010"]


def test_what_was_left_unfinished_by_more_ranks_does_not_matter(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [5], world_size=3)
    (tmp_path / "step-000005").rename(tmp_path / "unfinished")
    launch_on_cpu(save_steps, tmp_path, [10], world_size=2)
    assert names(tmp_path) == ["step-000010"]
    assert launch_on_cpu(load, tmp_path, world_size=2).values[1] == {"step": 10, "rank": 1}


def test_a_step_that_was_torn_is_saved_again(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [5], world_size=2)
    (tmp_path / "step-000005" / "rank-1.pt").write_bytes(b"torn")
    launch_on_cpu(save_steps, tmp_path, [5], world_size=2)
    assert launch_on_cpu(load, tmp_path, world_size=2).values[1] == {"step": 5, "rank": 1}


def test_a_whole_checkpoint_of_the_same_step_stays_as_it_is(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [5], world_size=2)
    before = (tmp_path / "step-000005" / "rank-1.pt").read_bytes()
    said = launch_on_cpu(save_steps, tmp_path, [5], world_size=2, seed=1).values
    assert said == [["rank 0: step-000005 exists already, and is whole"]] * 2
    assert names(tmp_path) == ["step-000005"]
    assert (tmp_path / "step-000005" / "rank-1.pt").read_bytes() == before


def save_in_separate_folders(folder):
    return CHECKPOINTS.save(folder / str(dist.get_rank()), 10, {"step": 10})


def test_a_folder_that_ranks_do_not_share_is_told_at_once_and_on_all_ranks(tmp_path):
    told = "rank 0 does not see rank-1.pt: all ranks have to save in the same folder"
    left = tmp_path / "0" / "unfinished" / "rank-1.pt"  # by a save that was killed
    for _ in range(2):
        assert launch_on_cpu(save_in_separate_folders, tmp_path, world_size=2).values == [told] * 2
        assert names(tmp_path / "0") == []
        left.parent.mkdir()
        left.write_bytes((tmp_path / "1" / "unfinished" / "rank-1.pt").read_bytes())


# ---- A damaged checkpoint ---


def test_a_list_that_nothing_can_read_is_not_whole(tmp_path):
    (tmp_path / "files.json").write_text("[" * 100_000)
    assert not CHECKPOINTS.is_whole(tmp_path)


def damage(checkpoint):
    path = checkpoint / "rank-0.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_training_does_not_begin_anew_next_to_checkpoints_that_are_all_damaged(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [100, 200], world_size=2)
    for checkpoint in tmp_path.iterdir():
        damage(checkpoint)
    failed = launch_on_cpu(errors_of_load, tmp_path, world_size=2).values
    told = f"{tmp_path} has checkpoints, but none is whole: move them away to begin anew"
    assert failed == [told] * 2


def errors_of_load(folder):
    """What load_newest raises: on each rank, so that no rank waits for another."""
    try:
        CHECKPOINTS.load_newest(folder)
    except (OSError, ValueError) as error:
        return str(error)


def test_the_checkpoint_just_written_is_never_removed(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [100, 200], world_size=2)
    for checkpoint in tmp_path.iterdir():
        damage(checkpoint)
    for step in (10, 20, 30):
        assert launch_on_cpu(save_steps, tmp_path, [step], world_size=2).values == [[""]] * 2
        assert f"step-{step:06}" in names(tmp_path)


def test_a_damaged_checkpoint_does_not_count_among_those_kept(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [10, 20], world_size=1)
    damage(tmp_path / "step-000020")
    launch_on_cpu(save_steps, tmp_path, [30], world_size=1)
    whole = [path.name for path in sorted(tmp_path.iterdir()) if CHECKPOINTS.is_whole(path)]
    assert whole == ["step-000010", "step-000030"]
    launch_on_cpu(save_steps, tmp_path, [40], world_size=1)
    assert names(tmp_path) == ["step-000030", "step-000040"]


@pytest.mark.parametrize("name", ["rank-1.pt", "files.json"])
def test_what_cannot_be_read_is_not_taken_for_damaged(name, tmp_path):
    launch_on_cpu(save_steps, tmp_path, [10, 20], world_size=2)
    found = launch_on_cpu(load_on_a_bad_disk, tmp_path, name, world_size=2).values
    assert found == [("[Errno 5] Input/output error", "rank 0: Input/output error")] * 2
    assert launch_on_cpu(load, tmp_path, world_size=2).values[1] == {"step": 20, "rank": 1}


def load_on_a_bad_disk(folder, name):
    """The newest checkpoint's file cannot be read, even by root; an older checkpoint could."""
    read = Path.read_bytes

    def read_bytes(path):
        if path.name == name and path.parent.name == "step-000020":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    Path.read_bytes = read_bytes
    Path.read_text = lambda path: read_bytes(path).decode()
    return errors_of_load(folder), CHECKPOINTS.save(folder, 20, {"step": 20})


def load_without_permission(folder):
    """Nobody may list the folder, as if this process were not root."""

    def scandir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    os.scandir = os.listdir = scandir  # which Path.glob and Path.iterdir call
    return errors_of_load(folder)


def test_a_folder_that_may_not_be_read_is_not_taken_for_empty(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [10], world_size=2)
    failed = launch_on_cpu(load_without_permission, tmp_path, world_size=2).values
    assert failed == ["[Errno 13] Permission denied"] * 2


def save_something_else(folder, guilty):
    """One rank's state cannot be written; what each rank then learns."""
    state = {"call": print if dist.get_rank() != guilty else lambda: 0}
    try:
        CHECKPOINTS.save(folder, 5, state)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("guilty", [0, 1])
def test_a_state_that_one_rank_cannot_write_is_an_error_on_all(guilty, tmp_path):
    said = launch_on_cpu(save_something_else, tmp_path, guilty, world_size=3, timeout=30).values
    assert said[0] == said[1] == said[2]
    assert said[0].startswith(f"rank {guilty}: ") and "pickle" in said[0]
    assert not CHECKPOINTS.newest_whole(tmp_path)


# ---- Seeds ---


def look_at_chance(data, steps):
    """A fresh training's weights, and what dropout and shifts draw next, before and after steps."""
    training = CHECKPOINTS.Training(data)
    begun = [p.detach().clone() for p in training.model.parameters()]
    for _ in range(steps):
        training.step()
    with torch.random.fork_rng():
        drawn = torch.rand(8).tolist()
    return begun, drawn, random.getstate()


@pytest.mark.parametrize("steps", [0, 3])
def test_ranks_begin_with_equal_weights_and_draw_masks_and_shifts_of_their_own(steps):
    values = launch_on_cpu(look_at_chance, digits_like(), steps, world_size=3).values
    for begun, *_ in values[1:]:
        assert all(map(torch.equal, begun, values[0][0]))
    for kind in (1, 2):
        drawn = [value[kind] for value in values]
        assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def digits_like():
    chance = torch.Generator().manual_seed(0)
    return torch.rand(160, 64, generator=chance), torch.randint(10, (160,), generator=chance)


def train_on(folder, data, steps):
    training = CHECKPOINTS.train_on(folder, steps, every=4, data=data)
    state = training.state_dict()
    weights = [tensor.tolist() for tensor in state["model"].values()]
    return weights, state["torch's generator"].tolist(), state["Python's generator"]


def test_resumed_on_the_same_ranks_training_equals_an_uninterrupted_run(tmp_path):
    data, on = digits_like(), {"world_size": 3}
    in_one_go = launch_on_cpu(train_on, tmp_path / "one", data, 12, **on).values
    launch_on_cpu(train_on, tmp_path / "two", data, 8, **on, seed=5)
    assert launch_on_cpu(train_on, tmp_path / "two", data, 12, **on, seed=6).values == in_one_go


def test_another_number_of_ranks_is_told(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [5], world_size=2)
    with pytest.raises(RankError, match="was saved by 2 ranks, and these are 3") as caught:
        launch_on_cpu(load, tmp_path, world_size=3)
    assert "generators" in str(caught.value) and "cannot be restored" in str(caught.value)


def test_the_newest_is_found_by_its_number(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [90, 999_999, 1_000_000], 9, world_size=1)
    found = []
    while newest := CHECKPOINTS.newest_whole(tmp_path):
        found.append(newest.name)
        shutil.rmtree(newest)
    assert found == ["step-1000000", "step-999999", "step-000090"]
    assert CHECKPOINTS.newest_whole(tmp_path / "none") is None


def test_a_copy_shares_nothing():
    x = torch.ones(3, requires_grad=True)
    state = {"a": [x, (x, {"b": x})], "n": 3, "t": "text"}
    copied = CHECKPOINTS.copy_of(state)
    with torch.no_grad():
        x.zero_()
    first, (second, third) = copied["a"]
    for one in (first, second, third["b"]):
        assert one.tolist() == [1.0, 1.0, 1.0]
        assert not one.requires_grad
    assert (copied["n"], copied["t"]) == (3, "text")


# ---- How often ---


def test_lifetimes_have_the_mean_that_was_asked_for():
    found = HOW_OFTEN.lifetimes(0.5, 1000, seed=3)
    assert abs(sum(found) / 1000 - 0.5) < 0.01
    assert sum(x > 0.5 for x in found) == round(1000 / math.e)
    assert found != sorted(found)
    assert sorted(found) == sorted(HOW_OFTEN.lifetimes(0.5, 1000, seed=4))


def simulate_cost(period, saving, mean, failures=200_000) -> float:
    """The cost, by drawing when failures come."""
    chance, done, spent = random.Random(0), 0.0, 0.0
    for _ in range(failures):
        life = chance.expovariate(1 / mean)
        done += (life // period) * (period - saving)
        spent += life
    return 1 - done / spent


@pytest.mark.parametrize("period", [5.0, 20.0, 80.0])
def test_the_cost_is_what_a_simulation_finds(period):
    found, by_formula = simulate_cost(period, 2.0, 100.0), HOW_OFTEN.cost(period, 2.0, 100.0)
    assert abs(found - by_formula) < 0.01


def test_the_lowest_point_of_a_curve_is_found():
    periods = [5.0, 10.0, 20.0, 40.0, 80.0]
    lost = [2 / p + p / 200 + 0.01 for p in periods]  # for each useful second
    assert close(HOW_OFTEN.best_of(periods, [y / (1 + y) for y in lost]), 20.0)
    rises = [p - 2 / p for p in periods]
    assert math.isnan(HOW_OFTEN.best_of(periods, [y / (1 + y) for y in rises]))


def kill_often(every, failures):
    return HOW_OFTEN.run_with_kills(every, failures, 0.001, 0.002)


def test_a_worker_that_is_killed_loses_what_it_has_not_saved():
    (often, rarely) = (
        launch_on_cpu(kill_often, every, [0.05] * 6, world_size=1).values[0] for every in (4, 10**6)
    )
    assert 0 <= often["lost"] <= 6 * 4 + 6
    assert often["saving"] >= 0.002
    assert often["cost"] > 0
    assert rarely["cost"] == 1  # nothing was ever saved


def test_a_copy_beside_the_checkpoints_is_none_of_them(tmp_path):
    launch_on_cpu(save_steps, tmp_path, [5, 10], world_size=1)
    shutil.copytree(tmp_path / "step-000010", tmp_path / "step-000010-good")
    launch_on_cpu(save_steps, tmp_path, [15, 20], world_size=1)
    assert CHECKPOINTS.newest_whole(tmp_path).name == "step-000020"
    assert names(tmp_path) == ["step-000010-good", "step-000015", "step-000020"]
