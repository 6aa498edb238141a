"""ZeRO composes: each pair of features equals one process in all stages, or is refused."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch

COMPOSING, ALONE, MODELS, DISK, MEMORY, AHEAD = map(
    load_solved_lab,
    ("composing", "composed_alone", "language_model", "zero_on_disk", "memory", "prefetch"),
)
STAGES = ("stage 1", "stage 2", "stage 3")
PAIRS = COMPOSING.pairs()
SOME = [pair for pair in PAIRS if len(pair) != 2]  # each by itself, and all together
EQUAL = dict.fromkeys(PAIRS, True)  # the table: nothing of it is refused
EXACT = 1e-4  # of the largest change: masters in float32, far below a rounding of bfloat16
DEEP = pytest.mark.deep
TEXT = MODELS.standard_library(5_000)


def gaps(stages, combined, n):
    run = launch(ALONE.gaps, stages, combined, TEXT, world_size=n, device="cpu")
    return {pair: max(of_rank[pair] for of_rank in run.values) for pair in run.values[0]}


@pytest.mark.parametrize(
    ("n", "combined"),
    [(3, SOME[-1:]), *(pytest.param(n, PAIRS, marks=DEEP) for n in (1, 2, 3, 4))],
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)} combinations",
)
def test_each_pair_equals_one_process(n, combined):
    found = gaps(list(STAGES), combined, n)
    equal = {pair: ALONE.is_equal(pair[1], gap) for pair, gap in found.items()}
    wanted = {(stage, pair): EQUAL[pair] for pair in combined for stage in STAGES}
    assert equal == wanted, found
    assert max(gap for (_, pair), gap in found.items() if "mixed precision" in pair) < EXACT


def gaps_ahead(combined):
    """As ALONE.gaps, with the engine of labs/prefetch.py."""
    ALONE.STAGES["ahead"] = AHEAD.Prefetching
    return ALONE.gaps(["ahead"], combined, TEXT)


@pytest.mark.parametrize(
    ("n", "combined"),
    [
        (2, SOME),
        pytest.param(2, PAIRS, marks=DEEP),
        *(pytest.param(n, SOME, marks=DEEP) for n in (1, 3)),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)} combinations",
)
def test_each_pair_equals_one_process_if_messages_travel_ahead(n, combined):
    run = launch(gaps_ahead, combined, world_size=n, device="cpu")
    for found in run.values:
        assert all(ALONE.is_equal(pair, gap) for (_, pair), gap in found.items()), found


def end_of(features, n=2):
    return ALONE.alone(features, TEXT, n)


@pytest.mark.parametrize("feature", ["tied weights", "frozen weights", "clipping"])
def test_a_feature_changes_the_training(feature):
    """What would not be noticed if it were left out could not be tested."""
    plain, other = end_of(()), end_of((feature,))
    is_same = plain.shape == other.shape and torch.allclose(plain, other, rtol=1e-3)
    assert not is_same, f"{feature} changes nothing here: choose stronger values"


def train_rounded(stage, features, units):
    process = ALONE.RoundingReference(stage, features, TEXT, 2, units)
    before = torch.cat([flat.float() for flat in process.flat()])
    return torch.cat(process.train()) - before


def test_the_roundings_of_stages_1_and_2_differ_where_gradients_accumulate():
    """Each stage is therefore compared with a reference that rounds as it does."""
    units = [[name for name, _ in COMPOSING.make_model(()).named_parameters()]]
    features = ("mixed precision", "accumulation")
    one, two = (train_rounded(stage, features, units) for stage in STAGES[:2])
    assert (one - two).abs().max() > 10 * EXACT * one.abs().max()


def test_what_is_refused():
    for of_rank in launch(ALONE.refusals, world_size=2, device="cpu").values:
        assert list(of_rank) == list(ALONE.REFUSED)
        assert all(" " in sentence for sentence in of_rank.values()), of_rank


# ---- Bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=DEEP)])
@pytest.mark.parametrize("stage", STAGES)
def test_2_and_2_and_12_bytes(stage, n):
    run = launch(COMPOSING.watch, stage, TEXT, True, world_size=n, device="cpu")
    numbers = run.values[0]
    formula = COMPOSING.states_by_formula(stage, sum(numbers), n, (2, 2, 12))
    counters = 4 * len(numbers)  # of Adam's steps
    padding = 2 * n * len(numbers) if stage == "stage 1" else 0  # whole gradients have none
    for rank in range(n):
        found = COMPOSING.states_of(run["after the backward"], numbers, n, rank)
        assert found["parameters"] == formula["parameters"]
        assert found["optimizer_state"] == formula["optimizer_state"] + counters
        assert formula["gradients"] - padding <= found["gradients"] <= formula["gradients"]


@DEEP
def test_where_gradients_make_the_peak_stage_2_lowers_it():
    def peak(stage, recompute):
        run = launch(
            COMPOSING.watch, stage, TEXT, True, recompute, 12, 2, world_size=4, device="cpu"
        )
        return run["step"].peak_bytes[0]["total"]

    assert peak("stage 1", False) == peak("stage 2", False)
    assert peak("stage 2", True) < 0.9 * peak("stage 1", True)


# ---- Clipping -----------------------------------------------------------------------------------


def clip_infinite_gradient():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = COMPOSING.GradientClipOptimizer([weight], COMPOSING.SGD, 1.0)
    weight.grad = torch.full((3,), torch.inf if dist.get_rank() == 1 else 1.0)
    optimizer.step()
    return weight.tolist(), optimizer.norm


def test_a_norm_that_is_not_finite_is_refused_by_all_ranks():
    run = launch(clip_infinite_gradient, world_size=2, device="cpu")
    assert run.values == [([1.0] * 3, float("inf"))] * 2


# ---- Loss scaling -------------------------------------------------------------------------------


def take_scaled_steps(stage):
    """The scale and the weight after steps; in the second, rank 1 has an infinite gradient."""
    model = torch.nn.Linear(3, 1, bias=False).half()
    torch.nn.init.constant_(model.weight, 0.5)
    scaler = MEMORY.LossScaler(8.0, window=2)
    inner = partial(COMPOSING.LossScaleOptimizer, make_optimizer=COMPOSING.SGD, scaler=scaler)
    engine = COMPOSING.STAGES[stage](
        model, partial(MEMORY.MixedPrecision, make_optimizer=inner), group=None
    )
    found = []
    for worst in (1.0, 60_000.0, 1.0):
        x = torch.ones(1, 3).half()
        x[0, 2] = worst if dist.get_rank() == dist.get_world_size() - 1 else 1.0
        (scaler.scale * model(x).float().sum()).backward()
        engine.step()
        with ALONE.whole(engine):
            found.append((scaler.scale, scaler.good, model.weight.tolist()))
    return found


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_gradient_that_is_not_finite_is_refused_by_all_ranks(stage, n):
    run = launch(take_scaled_steps, stage, world_size=n, device="cpu")
    first, refused, last = run.values[0]
    assert first[:2] == (8.0, 1) and refused[:2] == (4.0, 0) and last[:2] == (4.0, 1)
    assert first[2] == refused[2] != last[2]
    assert run.values == [run.values[0]] * n


# ---- State on disk ------------------------------------------------------------------------------


def is_disk_equal(stage, folder, features):
    """Whether clipping around state on disk ends where clipping and state in memory do."""
    ends = []
    for where in ("memory", "disk"):
        make = COMPOSING.SGD
        if where == "disk":
            place = folder / f"rank {dist.get_rank()}"
            dtype = torch.float32 if "mixed precision" in features else None
            make = partial(
                DISK.DiskOffloadOptimizer, make_optimizer=make, folder=place, dtype=dtype
            )
        elif "mixed precision" in features:
            make = partial(MEMORY.MixedPrecision, make_optimizer=make)
        make = partial(COMPOSING.GradientClipOptimizer, make_optimizer=make, max_norm=0.2)
        model = COMPOSING.make_model(features)
        engine = COMPOSING.STAGES[stage](model, make, list(model.blocks))
        for step in range(3):
            batch = MODELS.draw_batch(TEXT, 8, step, COMPOSING.CONTEXT)
            COMPOSING.loss_of(model, [x[dist.get_rank() :: 2] for x in batch]).backward()
            engine.step()
        with ALONE.whole(engine):
            ends.append(ALONE.flat_weights(model))
    return torch.equal(*ends)


@parametrize("features", [(), ("mixed precision",)], ids=["float64", "bfloat16"], quick=1)
@pytest.mark.parametrize("stage", STAGES)
def test_clipping_around_state_on_disk(stage, features, tmp_path):
    assert (
        launch(is_disk_equal, stage, tmp_path, features, world_size=2, device="cpu").values
        == [True] * 2
    )
