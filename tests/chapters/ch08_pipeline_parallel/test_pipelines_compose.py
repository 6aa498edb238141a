"""A pipeline with each other feature of a training: equal to one process, or refused in words."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import rounding
from pedagogy_lib.basics.errors import RankError

COMPOSED, ALONE = map(load_solved_lab, ("composed_pipelines", "pipelines_alone"))
Plan = COMPOSED.Plan
PAIRS = ALONE.pairs()
REFUSED = {  # pairs, and the beginning of the sentence that refuses them
    frozenset({late, f"ZeRO {stage}"}): f"ZeRO stage {stage} {why}"
    for stage in (2, 3)
    for late, why in {
        "ZB-H1": "reduces a gradient as soon as",
        "ZB-V": "reduces a gradient as soon as",
        "tied": "has cut the gradient of a tied weight",
    }.items()
}
MORE = {  # more than two features, and other schedules
    "stage 1, all": Plan(zero=1, recomputed=True, dropout=0.2, tied=True, frozen=True, norm=0.1),
    "ZB-V, tied": Plan("ZB-V", recomputed=True, dropout=0.2, tied=True, norm=0.1),
    "stage 2, all": Plan(zero=2, recomputed=True, dropout=0.2, frozen=True, norm=0.1),
    "stage 3, all": Plan(zero=3, recomputed=True, dropout=0.2, frozen=True, norm=0.1),
    "ZB-V, stage 1": Plan("ZB-V", zero=1, recomputed=True, dropout=0.2, frozen=True, norm=0.1),
    "ZB-H2": Plan("ZB-H2", zero=1, recomputed=True, norm=0.1),
    "interleaved, stage 2": Plan("interleaved", zero=2, recomputed=True, norm=0.1),
    "interleaved, stage 3": Plan("interleaved", zero=3, dropout=0.2),
    "interleaved, tied": Plan("interleaved", tied=True, norm=0.1),
    "DualPipeV": Plan("DualPipeV", zero=1, recomputed=True, dropout=0.2, norm=0.1),
    "one micro-batch": Plan(zero=2, microbatches=1, norm=0.1),
    "4 stages": Plan(ranks=4, tied=True, recomputed=True, dropout=0.2, norm=0.1),
    "1 stage": Plan(ranks=1, microbatches=2, zero=3, tied=False, norm=0.1),
}


def try_more(alone, composed, plans):
    groups = {}
    for plan in plans.values():
        groups.setdefault(plan.ranks, composed.groups_of(plan.ranks))
    return {name: alone.gap(plan, groups[plan.ranks]) for name, plan in plans.items()}


@pytest.fixture(scope="module")
def pairs():
    return launch(ALONE.try_pairs, PAIRS, world_size=4, device="cpu", timeout=120).values


@pytest.mark.deep
@pytest.mark.parametrize("pair", PAIRS, ids=" × ".join)
def test_each_pair_equals_one_process_or_is_refused(pairs, pair):
    for of_rank in pairs:
        if said := REFUSED.get(frozenset(pair)):
            assert str(of_rank[pair]).startswith(said)
            assert of_rank[pair].endswith("take ZeRO stage 1")
        else:
            assert of_rank[pair] <= rounding()


@parametrize("name", [*MORE], quick=2)
def test_several_at_once_equal_one_process(name):
    plan = {name: MORE[name]}
    for of_rank in launch(try_more, ALONE, COMPOSED, plan, world_size=4, device="cpu").values:
        assert of_rank[name] <= rounding()


def test_a_first_stage_with_nothing_to_train_is_refused():
    def try_it(composed):
        plan = Plan(zero=1)
        model = composed.make_model(plan)
        model.letters.requires_grad_(False)
        model.places.requires_grad_(False)
        for block in model.blocks[:2]:
            block.requires_grad_(False)
        try:
            composed.DataParallelPipeline(plan, composed.SGD, model=model)
        except ValueError as error:
            return str(error)
        return ""

    first, second = launch(try_it, COMPOSED, world_size=2, device="cpu").values
    assert first.startswith("the first stage has no weight to train") and not second


def step_of_unequal_replicas(samples, ignored):
    engine = COMPOSED.DataParallelPipeline(Plan(ranks=1, microbatches=2), COMPOSED.SGD)
    inputs, targets = torch.zeros(2, samples, 8, dtype=torch.int64)
    targets[0, :ignored] = -100
    engine.step(inputs, targets)


@pytest.mark.parametrize(("samples", "ignored", "counts"), [(9, 0, "40, 32"), (8, 3, "29, 32")])
def test_replicas_with_unequal_shares_of_the_batch_are_refused(samples, ignored, counts):
    said = f"all 2 ranks raised ValueError: the replicas would have {counts} targets"
    with pytest.raises(RankError, match=said):
        launch(step_of_unequal_replicas, samples, ignored, world_size=2, device="cpu")


@pytest.mark.parametrize("schedule", ["ZB-V", "DualPipeV"])
def test_a_tied_weight_of_two_pieces_of_one_rank_is_refused(schedule):
    with pytest.raises(ValueError, match="take a schedule that is no V"):
        COMPOSED.refuse(Plan(schedule, zero=1, tied=True))


def test_mistakes_are_seen():
    """Dropout that is not drawn again, and halves of a tied weight that are not added up."""
    for of_rank in launch(ALONE.forgotten, world_size=4, device="cpu").values:
        assert of_rank[0] <= rounding() and of_rank[1] > 0.1
    for of_rank in launch(ALONE.ends_apart, world_size=4, device="cpu").values:
        assert of_rank[0] <= rounding() and of_rank[1] > 0.1


@parametrize("zero", [2, 0, 1, 3], quick=1)
def test_how_often_replicas_reduce(zero):
    run = launch(ALONE.measure_steps, [2, 6], world_size=4, device="cpu")
    for m in (2, 6):
        wanted = {0: 1.0, 1: 1.0, 2: (m + 1) / 2, 3: 3 * m / 2}[zero]
        assert ALONE.models_sent(run, zero, m) == pytest.approx(wanted, rel=0.06)
    assert (ALONE.gradients_kept(run, zero, 6) < 0.9) == (zero > 1)


def test_a_schedule_that_trains_two_copies_is_refused():
    with pytest.raises(ValueError, match=r"^DualPipe is none of 1F1B, .*: take one of these"):
        COMPOSED.refuse(Plan("DualPipe"))


def clip_float16(limit, broken=0.0):
    """Clip gradients of 300 and 400 in float16, one on each rank; return the rank's afterwards."""
    rank = dist.get_rank()
    gradient = torch.tensor([(300.0, 400.0)[rank], broken if rank else 0.0]).half()
    try:
        norm = COMPOSED.clip([(gradient, 1.0)], limit, [None])
    except RuntimeError as error:
        norm = str(error)
    return [*gradient.tolist(), norm]


def test_float16_gradients_are_clipped_by_their_true_norm():
    for limit, clipped in ((1000, (300, 400)), (100, (60, 80))):
        found = launch(clip_float16, limit, world_size=2, device="cpu").values
        assert found == [[gradient, 0, 500] for gradient in clipped]


@pytest.mark.parametrize("broken", [float("inf"), float("nan")])
def test_a_norm_that_is_not_finite_ends_the_step_on_all_ranks_before_anything_changes(broken):
    first, second = launch(clip_float16, 100, broken, world_size=2, device="cpu").values
    assert first[:2] == [300, 0] and second[0] == 400
    assert first[2] == second[2] and f"norm of all gradients is {broken}" in first[2]


def steps_around_a_bad_one(plan):
    """Return the weights after a step: with none before it, and after one that was refused."""
    found, batch = [], [torch.arange(64).view(8, 8) % 50] * 2
    for fails in (False, True):
        engine = COMPOSED.DataParallelPipeline(plan, COMPOSED.SGD)
        if fails:
            last = engine.pipeline.stages[-1].piece[-1]
            hook = last.register_forward_hook(lambda module, inputs, y: y * float("inf"))
            with pytest.raises(RuntimeError, match="Leave out this step"):
                engine.step(*batch)
            hook.remove()
        engine.step(*batch)
        shards = [unit.shard for zero in engine.zeros for unit in zero.units.values()]
        found.append([p.detach().clone() for p in shards or engine.trained])
    return found


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_step_that_was_left_out_leaves_nothing_to_the_next_one(zero):
    plan = COMPOSED.Plan(ranks=1, zero=zero, norm=0.5)
    run = launch(steps_around_a_bad_one, plan, world_size=2, device="cpu")
    for undisturbed, after in run.values:
        assert not [1 for p, q in zip(undisturbed, after) if not torch.allclose(p, q)]


def masks_of_steps(plan, steps=2):
    """Train replicas with the same batch in each step; return the masks of the last block."""
    engine, masks = COMPOSED.DataParallelPipeline(plan, COMPOSED.SGD), []
    layer = engine.model.blocks[-1].mlp[-1]
    layer.register_forward_hook(lambda module, inputs, output: masks.append(output != 0))
    for _ in range(steps):
        engine.step(*(torch.zeros(4, 8, dtype=torch.int64) for _ in range(2)))
    return masks


def test_dropout_differs_between_micro_batches_steps_and_replicas():
    plan = Plan("1F1B", ranks=1, microbatches=2, dropout=0.5)
    run = launch(masks_of_steps, plan, world_size=2, device="cpu")
    assert len({str(mask.tolist()) for drawn in run.values for mask in drawn}) == 8


def test_beside_a_pipeline_zero_sends_what_one_micro_batch_needs():
    """ZeRO stage 3 of 2 replicas sends 3/2 of the weights, for any number of tokens."""
    run = launch(ALONE.measure_against_zero, [16, 64], 16, 2, world_size=2, device="cpu")
    weights = sum(p.nbytes for p in COMPOSED.make_model(Plan(), 16, 2).parameters())
    for count in (16, 64):
        assert run[f"ZeRO 3, {count}"].sent_bytes[0] == pytest.approx(1.5 * weights, rel=0.06)
