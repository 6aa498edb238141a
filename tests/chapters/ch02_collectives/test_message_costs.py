"""Which times count, and when a difference between times is one."""

import time

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import launch, measure

COSTS, SHOWN = load_solved_lab("message_costs"), load_solved_lab("collectives_shown")
ACROSS, COLLECTIVES = load_solved_lab("across_machines"), load_solved_lab("collectives")


def test_the_slowest_rank_counts_in_each_round():
    ranks = [[[1.0, 5.0], [9.0, 3.0]], [[9.0, 1.0], [2.0, 4.0]]]  # seconds of rounds and sizes
    assert COSTS.fastest_round(ranks) == [9.0, 4.0]  # each rank's best would give 2 and 3
    values = [{"ring": of_rank} for of_rank in ranks]
    assert COSTS.slowest_rank(values) == {"ring": [9000.0, 4000.0]}


def deliver_by_sleeping(shown):
    """Ranks sleep in turn: each is quick in one of two rounds, but no round is."""
    slept = []

    def sleep(x, pieces):
        slept.append(pieces)
        if (len(slept) > 2) == dist.get_rank():  # two counts in a round
            time.sleep(0.05)

    return slept, shown.deliver_in_pieces(sleep, [1, 5], 10, 1e9, rounds=2)


def test_a_chain_is_timed_in_rounds_that_all_ranks_share():
    run = launch(deliver_by_sleeping, SHOWN, world_size=2, device="cpu")
    assert [slept for slept, _ in run.values] == [[1, 5, 1, 5]] * 2
    seconds = [of_rank for _, of_rank in run.values]
    assert min(COSTS.fastest_round(seconds)) >= 0.05


def test_the_parts_of_an_all_reduce_by_hand_add_up():
    first, second = launch(COSTS.anatomy, 4_000, 3, world_size=2, device="cpu").values
    assert len(first) == len(second) == 3
    for one in first + second:
        parts = one["first exchange"] + one["addition"] + one["second exchange"]
        assert parts == pytest.approx(one["all"], rel=1e-12)
        assert all(seconds > 0 for seconds in one.values())
    assert COSTS.typical_round(first) in first


def send_and_return(way):
    rank = dist.get_rank()
    x, incoming = torch.arange(4.0) + 10 * rank, torch.zeros(2)
    way(x, incoming)
    return incoming.tolist()


def test_a_half_alone_goes_there_and_back():
    run = launch(send_and_return, COSTS.one_way_each, world_size=2, device="cpu")
    assert run.values == [[10.0, 11.0], [0.0, 1.0]]


def test_a_call_takes_as_long_as_on_its_slowest_rank():
    late = {"totals": [3.0, 3.0], "each": [[1.0, 0.1], [2.0, 0.2]]}  # finds messages there already
    early = {"totals": [9.0, 8.0], "each": [[5.0, 4.0], [6.0, 2.0]]}
    found = load_solved_lab("call_costs").find_best([late, early])
    assert found == {"totals": [3.0, 3.0], "best": [5.0, 2.0]}


@pytest.mark.parametrize(("others", "words"), [
    ((1.9, 2.2), "are not free"), ((1.0, 1.1), "cost little here"), ((1.0, 2.0), "not decided")
])  # fmt: skip
def test_words_on_messages_of_the_same_moment_follow_all_rounds(others, words):
    seconds = [1.0, 1.2, 0.9, 1.0, 1.1]

    def found(factor):
        totals = [factor * one for one in seconds]
        return {"total": min(totals), "totals": totals, "each": [1.0], "cpu": 1.0, "sleeps": 0}

    names = ("there and back", "the lab's ring", "Gloo's all-reduce")
    of_ranks = [dict(zip(names, map(found, (1.0, *others))))] * 2
    assert words in load_solved_lab("call_costs").describe_calls(of_ranks, 2)
    of_ranks[0][names[0]]["totals"][3] = 0.01  # one quick round decides nothing
    assert words in load_solved_lab("call_costs").describe_calls(of_ranks, 2)


@pytest.mark.parametrize(("both", "grows", "faster", "logarithmic"), [
    (3.0, 1.75, "right for large tensors", "depends"),
    (1.0, 3.0, "no difference seen here", "not refuted here"),
])  # fmt: skip
def test_verdicts_on_slow_cards_take_all_rounds(both, grows, faster, logarithmic):
    def rounds(factor):
        return [factor * seconds for seconds in (1.0, 1.2, 0.9, 1.0, 1.1)]

    took = {(n, 100, "reduce along a tree"): rounds(1.0) for n in (2, 4, 8)}
    took |= {(n, 100, "reduce"): rounds(1.0 + (grows - 1.0) * (n > 2)) for n in (2, 4, 8)}
    took |= {(8, 100, "reduce, then broadcast"): rounds(both), (8, 100, "all_reduce"): rounds(1.0)}
    took[8, 100, "all_reduce"][0] = 5.0  # one slow round decides nothing
    facts = load_solved_lab("collectives_measured").facts_of_time(took, 100)
    assert (facts["faster"], facts["logarithmic"]) == (faster, logarithmic)


@pytest.mark.parametrize(("both", "words"), [
    (1.1, "nearly free"), (1.4, "too unsteady"), (1.9, "not free")])  # fmt: skip
def test_words_on_two_messages_follow_the_ratio(both, words):
    one = {"one half alone": 1.0, "all": 3.0, "Gloo's all-reduce": 1.0}
    one |= {"first exchange": both + 0.5, "second exchange": both - 0.5}
    said = COSTS.describe_anatomy([one] * 5)
    assert words in said
    assert said.endswith("quicker")


def send_as_a_ring(length):
    x = torch.ones(length)
    for name in ("connect", "messages"):
        with measure(name):
            ACROSS.ring_messages(x, [0, 1, 2])
    with measure("all-reduce"):
        COLLECTIVES.all_reduce_ring(x.clone())


@pytest.mark.parametrize("length", [1_002, 1_000])
def test_messages_of_a_ring_are_those_of_an_all_reduce_of_any_length(length):
    run = launch(send_as_a_ring, length, world_size=3, device="cpu")
    assert run["messages"].sent_bytes == run["all-reduce"].sent_bytes
