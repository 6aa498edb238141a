"""Everything that can happen to a training happens, and it ends as if nothing had."""

import tempfile
from pathlib import Path

import needs
import pytest
import torch
from coursekit.content.ch04_failure_and_recovery.exercises.keep_going.chaos_plans import (
    ALL,
    plans_of,
)
from coursekit.content.ch04_failure_and_recovery.exercises.keep_going.chaos_reasons import (
    HANGS,
    WRONG_WEIGHTS,
)
from helpers import launch_on_cpu, load_solved_lab
from machines_here import needs_machines

from pedagogy_lib import Disk, LaunchError, Machines, close, plot_happenings

CHAOS = load_solved_lab("chaos")
SEEDS = range(20)
QUICK = SEEDS[:1]  # in `make test`


def sit(plan, place, disk, data):
    return CHAOS.sit_exam(CHAOS.keep_going, plan, place, disk, data)


def data():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(320, 64, generator=chance)
    return images, torch.randint(10, (320,), generator=chance)


@pytest.fixture
def disk():
    if needs.is_missing("a disk of one's own"):
        needs.skip("a disk of one's own")
    with Disk(megabytes=1) as disk:
        yield disk


def survive(tmp_path, plan, disk, machines=None):
    run = launch_on_cpu(sit, plan, tmp_path, disk.path, data(), world_size=4, machines=machines,
                        replacements=60, timeout=100)  # fmt: skip
    right = CHAOS.one_process(data(), CHAOS.STEPS)
    assert {steps for steps, _ in run.values} == {CHAOS.STEPS}
    for _, weights in run.values:
        assert close(weights, right)
    return CHAOS.events_of(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(k, marks=[pytest.mark.deep] * (k not in QUICK)) for k in SEEDS]
)
@pytest.mark.deep
def test_all_of_it_ends_with_the_undisturbed_weights(tmp_path, disk, seed):
    plan = CHAOS.draw_plan(seed)
    happened = survive(tmp_path, plan, disk)
    assert {event.what for event in happened} == set(CHAOS.KINDS)


@needs_machines
@pytest.mark.deep
@pytest.mark.parametrize("seconds", [0.5, 1.0, 6.0])
def test_a_cable_that_is_out_for_a_while(tmp_path, disk, seconds):
    """Shorter than the group's timeout, and longer."""
    machines = Machines(2).unplug(1, after_seconds=0.4).plug(1, after_seconds=0.4 + seconds)
    survive(tmp_path, CHAOS.draw_plan(3), disk, machines)


def test_a_plan_is_the_same_for_the_same_seed_and_has_each_kind_once():
    for seed in range(50):
        plan = CHAOS.draw_plan(seed)
        assert plan == CHAOS.draw_plan(seed)
        assert sorted(event.what for event in plan) == sorted(CHAOS.KINDS)
        steps = [event.step for event in plan]
        assert steps == sorted(set(steps)) and steps[0] > 0 and steps[-1] < CHAOS.STEPS
        assert not [event for event in plan if not 0 <= event.rank < CHAOS.RANKS]
    assert len({tuple(CHAOS.draw_plan(seed)) for seed in range(50)}) == 50


def test_each_case_of_the_check_tells_its_own_story():
    assert plans_of(CHAOS).keys() == HANGS.keys() == WRONG_WEIGHTS.keys()


def test_in_the_check_nothing_heals_the_wrong_weights_but_the_answer():
    plan = plans_of(CHAOS)[ALL]
    assert sorted(event.what for event in plan) == sorted(CHAOS.KINDS)
    (wrong,) = (event for event in plan if event.what == "wrong weights")
    later = {event.rank for event in plan if event.step > wrong.step}
    assert wrong.rank not in later
    assert wrong.step > max(event.step for event in plan if event.what == "power cut")


class DiskFiller:
    """What fill_disk() uses of a training."""

    fill_disk = CHAOS.ChaosTraining.fill_disk

    def __init__(self, folder):
        self.disk = Path(folder)


def test_only_a_small_disk_is_ever_filled(disk):
    with tempfile.TemporaryDirectory() as folder:
        DiskFiller(folder).fill_disk()
        assert not list(Path(folder).iterdir())
    DiskFiller(disk.path).fill_disk()
    assert disk.free_bytes < 10_000


def test_a_checkpoint_by_one_rank_for_all(tmp_path, disk):
    assert CHAOS.load_alone(tmp_path) is None
    for step in (5, 10, 15):
        assert CHAOS.save_alone(tmp_path, step, {"x": torch.tensor(step)}) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000010", "step-000015"]
    assert CHAOS.load_alone(tmp_path)["x"] == 15
    (tmp_path / "step-000015" / "rank-0.pt").write_bytes(b"torn")
    assert CHAOS.load_alone(tmp_path)["x"] == 10
    DiskFiller(disk.path).fill_disk()
    assert "space" in CHAOS.save_alone(disk.path, 20, {"x": torch.zeros(10_000)})


def test_a_picture_of_what_happened():
    taken = {(0, 7): [(1, 0.1), (2, 0.2)], (1, 8): [(1, 0.1)], (1, 9): [(2, 0.5)]}
    picture = plot_happenings(taken, [("kill", 1, 0.15)], title="A day")
    assert picture.alt == "A day. Steps of 2 ranks over time. kill on rank 1 at 0.15 s"
    with pytest.raises(LaunchError, match="the steps of at least one process"):
        plot_happenings({}, [])


class SlipsOnce(CHAOS.ChaosTraining):
    """Rank 2 computes one micro-batch wrongly, once."""

    has_slipped = False

    def gradients_of(self, microbatch):
        gradients = super().gradients_of(microbatch)
        if (self.rank, self.steps, microbatch, self.has_slipped) != (2, 12, 2, False):
            return gradients
        self.has_slipped = True
        return gradients.flip(0)


def train_with_a_slip(folder, data):
    store = CHAOS.FolderStore(folder / "store")
    training = SlipsOnce([], store, folder, data)
    CHAOS.keep_going(training, CHAOS.Crew(store, 4), folder / "checkpoints", CHAOS.STEPS)
    weights = torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()
    return training.has_slipped, weights


def test_a_step_in_which_a_rank_is_wrong_once_is_taken_again(tmp_path):
    values = launch_on_cpu(train_with_a_slip, tmp_path, data(), world_size=4, timeout=60).values
    assert [slipped for slipped, _ in values] == [False, False, True, False]
    right = CHAOS.one_process(data(), CHAOS.STEPS)
    for _, weights in values:
        assert close(weights, right)
