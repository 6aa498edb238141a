"""Tensor parallel × ZeRO: each pair of features equals one process in all stages, or is refused."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import relative_gap, rounding
from pedagogy_lib.basics.errors import RankError

STEPS = 2


ALONE, ENGINE = load_solved_lab("tensor_zero_alone"), load_solved_lab("tensor_zero")
PAIRS = ALONE.pairs()
SOME = [pair for pair in PAIRS if len(pair) != 2]  # each by itself, and all together
DEEP = pytest.mark.deep


@pytest.mark.parametrize(
    ("n", "tp", "tried"),
    [
        pytest.param(4, 2, PAIRS, marks=DEEP),
        pytest.param(3, 1, SOME, marks=DEEP),
        (2, 2, SOME),
        pytest.param(6, 2, PAIRS, marks=DEEP),
        pytest.param(4, 4, [pair for pair in SOME if "sequence" not in pair], marks=DEEP),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)} combinations",
)
def test_each_pair_equals_one_process(n, tp, tried):
    run = launch(ALONE.try_pairs, tried, ALONE.STAGES, tp, world_size=n, device="cpu", timeout=200)
    for of_rank in run.values:
        off = {what: gap for what, gap in of_rank.items() if gap > rounding(steps=STEPS)}
        assert off == {}


def test_parts_of_other_sizes_without_sequence_parallel():
    """3 ranks share 128 tokens as 43, 43 and 42."""
    tried = [("clipped", "tied"), ("accumulated", "recompute"), ("frozen", "clipped")]
    run = launch(ALONE.try_pairs, tried, (1, 3), 3, world_size=3, device="cpu")
    assert max(max(of_rank.values()) for of_rank in run.values) <= rounding(steps=STEPS)


@pytest.mark.parametrize(
    "feature", ["clipped", "tied", "dropout", "frozen"]
)  # what would not be noticed if it were left out could not be tested
def test_a_feature_changes_the_training(feature):
    ends = []
    for features in ((), (feature,)):
        one = ALONE.Alone(ALONE.plan_of(features, 1))
        for number in range(STEPS):
            one.dropout.step = number
            one.step(*ALONE.draw_batch(ALONE.standard_library(20_000), 12, number, 12))
        ends.append(one.model.blocks[0].mlp[0].weight.detach())
    assert relative_gap(*ends) > 1e-4


def measure_omission(feature):
    """How far training is off if an engine leaves out a thing that it has to do."""
    plan = ALONE.plan_of(("sequence", "clipped"), 3)
    if feature == "complete":
        ALONE.TensorZero.complete = lambda self: None
    else:  # what is whole counts once for each rank
        ALONE.torch.where = lambda condition, x, y: y
    return ALONE.gap(plan)


@pytest.mark.parametrize("feature", ["complete", "counts"])
def test_mistakes_are_seen(feature):
    values = launch(measure_omission, feature, world_size=4, device="cpu").values
    assert max(values) > 1e-4


SENTENCES = (
    "8 ranks, but 6 key-value heads",
    "with sequence parallel, ZeRO needs",
    "7 samples cannot be shared out equally",
    "4 ranks cannot make copies of 5 ranks each",
)


@pytest.mark.parametrize(("what", "sentence"), [*zip(ALONE.REFUSED, SENTENCES, strict=True)])
def test_what_is_refused(what, sentence):
    n, *tried = ALONE.REFUSED[what]
    for said in launch(ALONE.refusal, *tried, world_size=n, device="cpu").values:
        assert " ".join(said.split()).startswith(f"* {sentence}")


def step_with_ignored():
    inputs, targets = torch.zeros(2, 4, 12, dtype=torch.int64)
    targets[0, 3:] = -100
    ENGINE.TensorZero(ENGINE.Plan(), ENGINE.SGD).step(inputs, targets)


def test_targets_that_do_not_count_are_refused():
    """Copies and micro-batches count by their samples."""
    with pytest.raises(RankError, match="all 4 ranks raised ValueError: some targets are -100"):
        launch(step_with_ignored, world_size=4, device="cpu")


def clip_float16(limit, broken=0.0):
    """Clip gradients of 300 and 400 in float16, one on each rank; return the rank's afterwards."""
    rank = dist.get_rank()
    gradient = torch.tensor([(300.0, 400.0)[rank], broken if rank else 0.0]).half()
    unit = SimpleNamespace(shard=SimpleNamespace(grad=gradient))
    plan = SimpleNamespace(norm=limit, tp=2)
    engine = SimpleNamespace(units=[unit], whole=[torch.tensor([False, False])], plan=plan)
    try:
        ENGINE.TensorZero.clip(engine)
    except RuntimeError as error:
        return [*gradient.tolist(), str(error)]
    return gradient.tolist()


def test_float16_gradients_are_clipped_by_their_true_norm():
    assert launch(clip_float16, 1000, world_size=2, device="cpu").values == [[300, 0], [400, 0]]
    assert launch(clip_float16, 100, world_size=2, device="cpu").values == [[60, 0], [80, 0]]


@pytest.mark.parametrize("broken", [float("inf"), float("nan")])
def test_a_norm_that_is_not_finite_ends_the_step_on_all_ranks_before_anything_changes(broken):
    first, second = launch(clip_float16, 100, broken, world_size=2, device="cpu").values
    assert first[:2] == [300, 0] and second[0] == 400
    assert first[2] == second[2] and f"norm of all gradients is {broken}" in first[2]


def skip_a_step(stage):
    """Train two steps, between which a backward raises halfway; return the gap to one process."""
    torch.set_default_dtype(torch.float64)
    plan = ENGINE.Plan(zero=stage)
    engine, alone = ENGINE.TensorZero(plan, ENGINE.SGD), ALONE.Alone(plan)
    draw = torch.Generator().manual_seed(0)
    batches = [torch.randint(128, (2, 4, 12), generator=draw).unbind() for _ in range(3)]

    def run_out_of_memory(module, gradient):
        raise MemoryError

    for number, batch in enumerate(batches):
        if number == 1:
            hook = engine.model.blocks[0].mlp.register_full_backward_pre_hook(run_out_of_memory)
            with contextlib.suppress(MemoryError):
                engine.step(*batch)
            hook.remove()
        else:
            engine.step(*batch)
            alone.step(*batch)
    rank = dist.get_rank(engine.copy)
    with ALONE.whole(engine.zero):
        pairs = zip(engine.model.parameters(), alone.model.parameters())
        return max(relative_gap(p.detach(), ALONE.part_like(p, q.detach(), rank)) for p, q in pairs)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_step_that_raised_leaves_no_gradients_to_the_next_one(stage):
    for gap in launch(skip_a_step, stage, world_size=4, device="cpu").values:
        assert gap <= rounding(steps=STEPS)
