"""Pipelines with sharded stages: their plans, what they send and keep, one process's weights."""

import itertools
from functools import partial

import pytest
import torch
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import rounding

SHARDED = load_solved_lab("sharded_stages")
Move = SHARDED.Move


def rows_of(order, m, chunks, ranks=2):
    schedule = SHARDED.ORDERS[order]
    return [list(schedule(rank, ranks, m, chunks=chunks)) for rank in range(ranks)]


def fewest_gathers(row, most) -> int:
    """Return the fewest gathers of any plan, by trying every choice of what is freed."""
    states = {frozenset(): 0}  # {gathered chunks: gathers so far}
    for action in row:
        following = {}
        for held, count in states.items():
            choices = [(held, count)]
            if action.chunk not in held:
                kept = [held] if len(held) < most else [held - {chunk} for chunk in held]
                choices = [(one | {action.chunk}, count + 1) for one in kept]
            for one, total in choices:
                following[one] = min(total, following.get(one, total))
        states = following
    return min(states.values())


def test_a_plan_needs_the_fewest_gathers_that_its_room_allows():
    for order, m, chunks in itertools.product(SHARDED.ORDERS, (2, 3, 5), (1, 2, 3, 4)):
        for row in rows_of(order, m, chunks):
            for most in range(1, chunks + 1):
                plan = SHARDED.plan_with_room(row, most)
                assert SHARDED.count_moves(plan, "gather") == fewest_gathers(row, most)
                assert SHARDED.count_moves(plan, "reduce") == chunks
                assert [one for one in plan if not isinstance(one, Move)] == row


def test_breadth_first_gathers_as_often_whatever_the_number_of_micro_batches():
    for m, chunks in itertools.product((1, 2, 7), (1, 2, 4)):
        for row in rows_of("breadth-first", m, chunks):
            plan = SHARDED.plan_with_room(row, 1)
            assert SHARDED.count_moves(plan, "gather") == 2 * chunks - 1


def test_what_is_sent_is_what_the_plan_says():
    plans = {
        order: SHARDED.plan_rows(order, 4, 2, partial(SHARDED.plan_with_room, most=1))
        for order in SHARDED.ORDERS
    }
    run = launch(SHARDED.measure_plans, plans, 2, world_size=4, device="cpu")
    for order, (of_ranks, _) in plans.items():
        planned = SHARDED.models_planned(run, of_ranks[0])
        assert SHARDED.models_sent(run, order) == pytest.approx(planned, rel=0.05)
    kept = {order: SHARDED.peak_kilobytes(run, order, "gradients") for order in plans}
    assert kept["breadth-first"] < kept["depth-first"]


@parametrize("order, most", [("depth-first", 1), ("breadth-first", 1), ("depth-first", 2)], quick=1)
def test_weights_are_those_of_one_process(order, most):
    plan = partial(SHARDED.plan_with_room, most=most)
    for m, chunks in ((3, 4), (1, 2), (5, 1)):
        run = launch(SHARDED.gap_of_plan, order, m, chunks, plan, world_size=4, device="cpu")
        assert max(run.values) <= min(rounding(), 1e-12)


@pytest.mark.parametrize(
    "frozen",
    [
        ("letters", "blocks.1.norm_1", "blocks.5"),
        ("blocks.1", "blocks.2"),
        ("blocks.1", "blocks.2", "blocks.5", "norm", "output"),
    ],
)
def test_frozen_weights_stay_as_they_are(frozen):
    """With weight decay, an optimizer would move them. Blocks 1 and 2 are all of a chunk.

    In the last case, rank 1 has nothing to train. (Without weights, the first stage is refused.)
    """
    plan = partial(SHARDED.plan_with_room, most=1)
    decayed = partial(torch.optim.SGD, lr=0.1, weight_decay=0.3)
    work = partial(SHARDED.gap_of_plan, frozen=frozen, make_optimizer=decayed)
    run = launch(work, "breadth-first", 3, 2, plan, world_size=4, device="cpu")
    assert max(run.values) <= min(rounding(), 1e-12)


def reduce_each_backward(row):
    """Return the plan of 08j's exercise before its repair: as ZeRO stage 3 without a pipeline."""
    plan, held = [], None
    for action in row:
        if action.chunk != held:
            plan += [] if held is None else [Move("free", held)]
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        if action.kind == "B":
            plan += [Move("reduce", held), Move("free", held)]
            held = None
    return plan


def test_the_plan_to_be_repaired_is_right_and_gathers_with_each_micro_batch():
    for order in SHARDED.ORDERS:
        work = SHARDED.gap_of_plan
        run = launch(work, order, 3, 2, reduce_each_backward, world_size=4, device="cpu")
        assert max(run.values) <= min(rounding(), 1e-12)
    gathers = [
        SHARDED.count_moves(reduce_each_backward(rows_of("breadth-first", m, 2)[0]), "gather")
        for m in (2, 4)
    ]
    assert gathers[1] == gathers[0] + 2 * 2
