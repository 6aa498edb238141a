"""Trainings that are killed at drawn moments and started again: not one bit is lost."""

import hashlib
import os
import random
import resource
import signal
import time
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import LaunchError, launch

SHARDED, CHECKPOINTS, MODELS = map(
    load_solved_lab, ("sharded_checkpoints", "checkpoints", "language_model")
)  # fmt: skip
WAYS = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "tensor parallel", "pipeline")
KINDS = ("forward", "backward", "any moment", "write")
STEPS, EVERY = 8, 3
DRAWN = 20


@dataclass(frozen=True)
class Moment:
    """When a rank dies: in which step, in what, and how far in."""

    kind: str
    rank: int
    step: int
    share: float


@dataclass(frozen=True)
class Case:
    way: str
    world_size: int
    dtype: torch.dtype
    moment: Moment

    def __str__(self):
        of = self.moment
        return (
            f"{self.way}, {self.world_size} ranks, {str(self.dtype)[6:]}, {of.kind} of step "
            f"{of.step} on {of.rank}"
        )


def test_only_the_saver_is_silenced():
    """What a rank says afterwards is heard again, also after an error."""
    before, open_files = os.fstat(2), len(os.listdir("/dev/fd"))
    with pytest.raises(KeyError), SHARDED.silence_saver():
        assert os.path.samestat(os.fstat(2), os.stat(os.devnull))
        raise KeyError
    assert os.path.samestat(os.fstat(2), before)
    assert len(os.listdir("/dev/fd")) == open_files


def draw_case(number) -> Case:
    """Every way and every kind of moment in turn; all else is drawn."""
    chance = random.Random(number)
    way, kind = WAYS[number % len(WAYS)], KINDS[(number + number // len(WAYS)) % len(KINDS)]
    world_size = chance.randint(1, 4)
    dtype = chance.choice((torch.float32, torch.float64))
    step = chance.randrange(1, STEPS - STEPS % EVERY)  # a checkpoint is still to come
    moment = Moment(kind, chance.randrange(world_size), step, chance.random())
    return Case(way, world_size, dtype, moment)


# ---- On a rank ---


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def prepare_to_die(moment, training, last_seconds):
    """In the step that comes, at this moment of it."""
    if moment.kind == "forward":
        leaves = [leaf for module in training.way.modules for leaf in module.modules()
                  if not list(leaf.children()) and list(leaf.parameters())]  # fmt: skip
        leaves[int(moment.share * len(leaves))].register_forward_pre_hook(die)
    elif moment.kind == "backward":
        all_of_them = [p for module in training.way.modules for p in module.parameters()]
        all_of_them[int(moment.share * len(all_of_them))].register_hook(die)
    elif moment.kind == "any moment":  # also within a collective: the kernel needs no Python
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(1e-4, moment.share * last_seconds))
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = int(moment.share * len(CHECKPOINTS.serialize_state(training.state_dict())))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def train(case, text, folder, dies):
    """Train to the end, from the newest whole checkpoint on; returns a checksum of each tensor."""
    training, seconds = SHARDED.ParallelTraining(case.way, text, case.dtype), 0.0
    state = CHECKPOINTS.load_newest(folder)
    if state is not None:
        training.load_state_dict(state)
    while training.steps < STEPS:
        began = time.perf_counter()
        if dies and dist.get_rank() == case.moment.rank and training.steps == case.moment.step:
            prepare_to_die(case.moment, training, seconds)
        training.step()
        seconds = time.perf_counter() - began
        if training.steps % EVERY == 0:
            CHECKPOINTS.save(folder, training.steps, training.state_dict())
    return sums_of(training.state_dict())


def sums_of(state) -> list[str]:
    tensors = [*state["parameters"], state["generator"]]
    tensors += [x for of in state["optimizer"]["state"].values() for x in of.values()]
    return [hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest() for x in tensors]


# ---- The tests ---


@pytest.fixture(scope="module")
def text():
    return MODELS.standard_library(20_000)


@parametrize("case", [draw_case(number) for number in range(DRAWN)], quick=1, ids=str)
def test_killed_at_any_moment_it_goes_on_bit_for_bit(case, text, tmp_path):
    settings = {"world_size": case.world_size, "device": "cpu"}
    undisturbed = launch(train, case, text, tmp_path / "one go", False, **settings).values
    folder = tmp_path / "killed"
    with pytest.raises(LaunchError):
        launch(train, case, text, folder, True, **settings)
    there = sorted(folder.glob("step-*"))
    assert all(map(CHECKPOINTS.is_whole, there))
    last = case.moment.step // EVERY * EVERY  # the last one before; or the next, if it was quicker
    saved_at = int(there[-1].name[5:]) if there else 0
    assert saved_at == last or (case.moment.kind == "any moment" and saved_at == last + EVERY)
    assert launch(train, case, text, folder, False, **settings).values == undisturbed


@parametrize("dtype", [torch.float64, torch.float32], quick=1, ids=["float64", "float32"])
@parametrize("world_size", [2, 1, 3, 4], quick=1, ids="{} ranks".format)
@parametrize("way", WAYS, quick=3)
def test_a_state_is_all_that_a_training_goes_on_from(way, world_size, dtype, text, tmp_path):
    case = Case(way, world_size, dtype, Moment("", 0, 0, 0.0))
    values = launch(
        save_and_go_on, case, text, tmp_path, world_size=world_size, device="cpu"
    ).values
    assert not [(went_on, resumed) for went_on, resumed in values if went_on != resumed]


def save_and_go_on(case, text, folder):
    training = SHARDED.ParallelTraining(case.way, text, case.dtype)
    for _ in range(3):
        training.step()
    assert CHECKPOINTS.save(folder, 3, training.state_dict()) == ""
    for _ in range(2):
        training.step()
    resumed = SHARDED.ParallelTraining(case.way, text, case.dtype)
    torch.manual_seed(99)
    resumed.load_state_dict(CHECKPOINTS.load_newest(folder))
    for _ in range(2):
        resumed.step()
    return sums_of(training.state_dict())[:-1], sums_of(resumed.state_dict())[:-1]


# ---- What is drawn at random ---


def next_numbers(way, text):
    training = SHARDED.ParallelTraining(way, text)
    training.step()
    return torch.rand(4).tolist()


@parametrize("way", SHARDED.WAYS, quick=3)
def test_ranks_drop_other_numbers_unless_all_have_the_same_ones(way, text):
    drawn = launch(next_numbers, way, text, world_size=4, device="cpu").values
    assert len(set(map(tuple, drawn))) == (1 if way == "tensor parallel" else 4)


def numbers_after_training(layout, text):
    SHARDED.train_laid_out(layout, text, 1)
    return torch.rand(4).tolist()


@pytest.mark.parametrize("layout", ["FSDP2", "DDP"])
def test_in_each_layout_ranks_drop_other_numbers(layout, text):
    drawn = launch(numbers_after_training, layout, text, world_size=2, device="cpu").values
    assert drawn[0] != drawn[1]


def save_zero(text, folder):
    training = SHARDED.ParallelTraining("ZeRO-3", text, torch.float64)
    for _ in range(2):
        training.step()
    CHECKPOINTS.save(folder, 2, training.state_dict())
    for _ in range(2):
        training.step()
    return sums_of(training.state_dict())


def leave_a_shard(text, folder):
    """A save of four ranks is killed before it is finished."""
    training = SHARDED.ParallelTraining("ZeRO-3", text, torch.float64)
    left = folder / CHECKPOINTS.UNFINISHED / f"rank-{dist.get_rank()}.pt"
    left.parent.mkdir(exist_ok=True)
    torch.save(training.state_dict(), left)


def go_on_from_others(text, folder):
    training = SHARDED.ParallelTraining("ZeRO-3", text, torch.float64)
    missing = SHARDED.load_from_others(training, CHECKPOINTS.newest_whole(folder))
    for _ in range(2):
        training.step()
    return missing, sums_of(training.state_dict())


def test_shards_are_read_with_generators_by_as_many_ranks_and_others_are_told(text, tmp_path):
    saved = launch(save_zero, text, tmp_path, world_size=3, device="cpu").values
    read = launch(go_on_from_others, text, tmp_path, world_size=3, device="cpu").values
    assert read == [("", sums) for sums in saved]
    fewer = launch(go_on_from_others, text, tmp_path, world_size=2, device="cpu").values
    assert [missing for missing, _ in fewer] == ["random generators"] * 2


def test_shards_that_a_killed_save_of_more_ranks_has_left_are_not_read(text, tmp_path):
    launch(leave_a_shard, text, tmp_path, world_size=4, device="cpu")
    saved = launch(save_zero, text, tmp_path, world_size=3, device="cpu").values
    (checkpoint,) = tmp_path.iterdir()
    listed = ["files.json", *(f"rank-{rank}.pt" for rank in range(3))]
    assert sorted(path.name for path in checkpoint.iterdir()) == listed
    (checkpoint / "rank-3.pt").write_bytes(b"of an older course")
    read = launch(go_on_from_others, text, tmp_path, world_size=3, device="cpu").values
    assert read == [("", sums) for sums in saved]
