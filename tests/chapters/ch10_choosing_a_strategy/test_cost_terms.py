"""Terms of the cost model by hand: experts, replicas, shares, narrow formats, and many ranks."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import load_solved_lab

COST, SECONDS, SHAPES = map(load_solved_lab, ("cost_model", "cost_seconds", "model_shapes"))
Plan, Engine = COST.Plan, COST.Engine


def job(model="llama-3-8b", gpu="H100", batch=1024, **changed):
    return COST.Job(SHAPES.model_named(model), SHAPES.gpu_named(gpu), batch, Engine(**changed))


def total(of, plan) -> float:
    return float(SECONDS.seconds(of, plan)["total"])


def held(of, plan) -> float:
    return float(COST.memory(of, plan)["total"])


# ---- Many ranks -----------------------------------------------------------------------------


def test_more_ranks_along_dp_take_longer_for_the_same_work_of_each():
    """A ring's calls grow with its ranks, and calls are not hidden."""
    times = [total(job(batch=2 * n), Plan(dp=n, zero=1, micro_batch=2)) for n in (8, 256, 16384)]
    assert times[0] < times[1] < times[2]
    assert times[2] > 1.5 * times[0]
    plan = Plan(dp=64, zero=1)
    of = job(batch=64)
    without = replace(of, engine=replace(of.engine, unit=0.0))
    more = float(SECONDS.dp_seconds(of, plan) - SECONDS.dp_seconds(without, plan))
    calls = 2 * (of.shape.layers + 1) * 63  # reduced once, gathered once, a unit for each layer
    assert more == pytest.approx(of.engine.exposed_late * calls * of.engine.unit)


def test_all_wait_for_the_slowest_of_the_ranks():
    """The largest of n normal numbers is about √(2 ln n) standard deviations above the mean."""
    of = job(straggle=0.02)
    for plan in (Plan(dp=64, zero=1), Plan(dp=8, tp=8)):
        costs = SECONDS.seconds(of, plan)
        assert float(costs["waiting"] / costs["compute"]) == pytest.approx(
            0.02 * (2 * np.log(64)) ** 0.5
        )
    drawn = np.random.default_rng(0).normal(size=(2000, 1024)).max(1).mean()
    assert 0.8 < drawn / (2 * np.log(1024)) ** 0.5 < 1
    assert float(SECONDS.seconds(of, Plan())["waiting"]) == 0


@pytest.mark.parametrize(("block", "speed"), [(256, "across"), (512, "spine")])
def test_a_group_beyond_a_rail_has_the_spines_speed(block, speed):
    gpu = replace(SHAPES.gpu_named("H100"), rail=256, spine=1e9)
    assert SECONDS.card_speed(gpu, block) == getattr(gpu, speed)
    assert SECONDS.card_speed(SHAPES.gpu_named("H100"), block) == SHAPES.gpu_named("H100").across


def test_gradients_are_sent_with_their_own_bytes():
    plan = Plan(dp=64)
    narrow, wide = (job(batch=64, reduced_bytes=b, unit=0.0, exposed=1.0) for b in (2.0, 4.0))
    n = float(COST.rank_parameters(wide, plan))
    link = wide.gpu.across * wide.engine.across * wide.gpu.machine  # all cards of a machine
    inside = wide.gpu.inside * wide.engine.inside
    expected = 2 * 63 / 64 * 4 * n / min(link, inside)
    assert float(SECONDS.dp_seconds(wide, plan)) == pytest.approx(expected)
    assert float(SECONDS.dp_seconds(narrow, plan)) == pytest.approx(expected / 2)


def test_stalled_messages_count_from_their_number_of_gpus_on():
    plan, of = Plan(dp=16, pp=4, zero=1), job(batch=1024)
    stalled = replace(of, engine=replace(of.engine, stall=0.25, crowd=64))
    m = 1024 / 16
    assert total(stalled, plan) - total(of, plan) == pytest.approx(0.25 * (4 * m + 2 * 3))
    later = replace(of, engine=replace(of.engine, stall=0.25, crowd=65))
    assert total(later, plan) == total(of, plan)


# ---- Experts --------------------------------------------------------------------------------


def test_experts_are_counted_by_hand():
    """Mixtral 8x7B: 8 experts of 3 × 4096 × 14336, 2 for each token, in each of 32 layers."""
    of, one = job("mixtral-8x7b"), 3 * 4096 * 14336
    assert float(COST.rank_experts(of, Plan(dp=8))) == 32 * 8 * one
    assert float(COST.rank_experts(of, Plan(dp=8, ep=8))) == 32 * one
    assert float(COST.rank_experts(of, Plan(dp=4, tp=2, ep=4, etp=2))) == 32 * 2 * one / 2
    assert float(of.expert_copies(Plan(dp=16, ep=8))) == 2 and of.copies(Plan(dp=16, ep=8)) == 16
    # ZeRO 1 shards ordinary weights over 16 ranks, and experts over 2.
    plan = Plan(dp=16, ep=8, zero=1)
    ordinary = float(COST.rank_parameters(of, plan))
    expected = 12 * (ordinary / 16 + 32 * one / 2)
    assert float(COST.states(of, plan)["optimizer_state"]) == pytest.approx(expected)
    flops = float(COST.model_flops(of.shape, 1, causal=0))
    heads = 2 * 4096 * (4096 + 1024)
    router, ends = 4096 * 8, 32000 * 4096
    assert flops == 6 * (32 * (heads + router + 2 * one) + ends)


def test_the_all_to_all_of_experts_by_hand():
    """Each rank sends the rows of its tokens; of 16 ranks, 8 are on another machine."""
    of = job("mixtral-8x7b", imbalance=1.0, exposed_ep=1.0, across=1.0, inside=1.0)
    nbytes = 8192 * 2 * 4096 * 2  # tokens, experts of each, width, bytes
    gpu = of.gpu
    alone = nbytes * 7 / 8 / gpu.inside
    assert float(SECONDS.ep_seconds(of, Plan(dp=8, ep=8))) == pytest.approx(alone)
    wide = replace(of, shape=replace(of.shape, experts=16))
    two = nbytes * (8 / 16 / gpu.across + 7 / 16 / gpu.inside)
    assert float(SECONDS.ep_seconds(wide, Plan(dp=16, ep=16))) == pytest.approx(two)
    narrow = float(SECONDS.ep_seconds(wide, Plan(dp=16, ep=16, precision="fp8")))
    assert narrow == pytest.approx(two * 3 / 4)  # 8 bits there, 16 back
    assert float(SECONDS.seconds(job(), Plan(dp=8))["ep"]) == 0


# ---- Replicas, shares, narrow formats -------------------------------------------------------


def test_replicas_keep_more_and_send_less_between_machines():
    of = job("llama-3-70b", batch=512)
    whole, hybrid = Plan(dp=64, zero=3), Plan(dp=64, zero=3, replicas=8)
    states = [COST.states(of, plan) for plan in (whole, hybrid)]
    for kind in states[0]:
        assert float(states[1][kind]) == pytest.approx(8 * float(states[0][kind]))
    slow = replace(of, gpu=replace(of.gpu, across=of.gpu.across / 20))
    assert SECONDS.dp_seconds(slow, hybrid) < SECONDS.dp_seconds(slow, whole)


@pytest.mark.parametrize("cost", [total, held])
def test_a_share_of_recomputation_lies_between_none_and_all(cost):
    of = job("llama-3-8b", batch=64)
    none, every = Plan(dp=8, zero=3), Plan(dp=8, zero=3, recompute="full")
    plans = [none, *(replace(every, recomputed=share) for share in (0.25, 0.5, 1.0))]
    costs = [cost(of, plan) for plan in plans]
    assert sorted(costs, reverse=cost is held) == costs
    nothing = replace(every, recomputed=0.0)
    assert COST.layer_activation_bytes(of, nothing) == COST.layer_activation_bytes(of, none)


@pytest.mark.parametrize(
    ("gpu", "precision", "flops"),
    [("H100", "bf16", "flops"), ("H100", "fp8", "flops_8bit"), ("B200", "mxfp8", "flops_8bit"),
     ("B200", "nvfp4", "flops_4bit")],
)  # fmt: skip
def test_products_have_the_datasheets_rate_of_their_format(gpu, precision, flops):
    of = job(gpu=gpu, products=1.0, products_8bit=1.0, products_4bit=1.0)
    found = SECONDS.product_flops(of, Plan(precision=precision))
    assert found == getattr(of.gpu, flops) * of.gpu.reach


def test_a_gpu_without_a_format_has_no_products_in_it():
    assert SECONDS.product_flops(job(gpu="A100"), Plan(precision="fp8")) == 0
    planner = load_solved_lab("planner")
    with pytest.raises(ValueError, match="the GPU has no products in this precision"):
        planner.plan("llama-3-8b", "8xA100", precision="fp8")


def test_all_fields_may_be_arrays():
    of = job("qwen-3-30b-a3b", batch=512)
    plans = [Plan(dp=16, zero=3, replicas=2), Plan(dp=8, tp=2, ep=8, zero=1), Plan(
        dp=16, ep=16, precision="fp8", recompute="full", recomputed=0.5, zero=1)]  # fmt: skip
    together = Plan(*map(np.array, zip(*(vars(plan).values() for plan in plans))))
    for number, plan in enumerate(plans):
        for cost in (SECONDS.seconds, COST.memory):
            alone, all_of = cost(of, plan), cost(of, together)
            for kind in alone:
                found = np.broadcast_to(all_of[kind], 3)[number]
                assert found == pytest.approx(float(alone[kind]), rel=1e-12)
    assert list(together.each()) == plans
