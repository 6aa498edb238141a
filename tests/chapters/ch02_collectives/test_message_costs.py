"""Which times count, and when a difference between times is one."""

import time

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import launch

COSTS, SHOWN = load_solved_lab("message_costs"), load_solved_lab("collectives_shown")


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


@pytest.mark.parametrize(("ratio", "word"), [
    (0.8, "quicker"), (0.95, "no difference seen"), (1.05, "no difference seen"), (1.3, "slower"),
])  # fmt: skip
def test_a_difference_in_time_needs_a_margin_in_most_rounds(ratio, word):
    base = [1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 0.8, 1.0]
    assert COSTS.compare_rounds([ratio * seconds for seconds in base], base) == word
    unsteady = [ratio * seconds * (4 if k % 2 else 0.25) for k, seconds in enumerate(base)]
    assert COSTS.compare_rounds(unsteady, base) == "no difference seen"


@pytest.mark.parametrize(("both", "words"), [
    (1.1, "nearly free"), (1.4, "too unsteady"), (1.9, "not free")])  # fmt: skip
def test_words_on_two_messages_follow_the_ratio(both, words):
    one = {"one half alone": 1.0, "all": 3.0, "Gloo's all-reduce": 1.0}
    one |= {"first exchange": both + 0.5, "second exchange": both - 0.5}
    said = COSTS.describe_anatomy([one] * 5)
    assert words in said
    assert said.endswith("quicker")
