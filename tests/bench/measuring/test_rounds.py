"""When a difference between times is one, and which seconds count."""

import time

import pytest
from helpers import launch_on_cpu as launch

from pedagogy_lib import LaunchError, compare_rounds, measure
from pedagogy_lib.measuring.rounds import UNDECIDED, find_quickest

BASE = [1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 0.8, 1.0]


def times(factor, seconds=BASE):
    return [factor * one for one in seconds]


@pytest.mark.parametrize(("factor", "word", "back"), [
    (0.8, "quicker", "slower"), (1.3, "slower", "quicker"),
    (0.95, UNDECIDED, UNDECIDED), (1.05, UNDECIDED, UNDECIDED),
])  # fmt: skip
def test_a_clear_difference_is_a_word_and_a_small_one_is_none(factor, word, back):
    assert compare_rounds(times(factor), BASE).word == word
    assert compare_rounds(BASE, times(factor)).word == back
    assert compare_rounds(times(factor), BASE).judge("quicker", "slower") == word


def test_rounds_that_contradict_each_other_are_no_difference():
    first = [seconds * (1.6 if k % 2 else 0.7) for k, seconds in enumerate(BASE)]
    assert compare_rounds(first, BASE).word == UNDECIDED


@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("outlier", [0.01, 100.0])
def test_one_outlier_makes_no_difference(count, outlier):
    first = [outlier, *BASE[1:count]]
    assert compare_rounds(first, BASE[:count]).word == UNDECIDED
    assert compare_rounds(BASE[:count], first).word == UNDECIDED


@pytest.mark.parametrize("outlier", [0.01, 100.0])
def test_one_outlier_among_five_rounds_hides_no_difference(outlier):
    first = [outlier, *times(1.5)[1:5]]
    assert compare_rounds(first, BASE[:5]).word == "slower"


def test_of_fewer_than_five_rounds_all_have_to_agree():
    assert compare_rounds([1.3, 1.3, 1.05], [1.0] * 3).word == UNDECIDED
    assert compare_rounds([1.3, 1.3, 1.2, 1.3], [1.0] * 4).word == "slower"
    assert compare_rounds([1.3, 1.3, 1.3, 1.3, 1.05], [1.0] * 5).word == "slower"


def test_a_disturbance_of_a_whole_round_does_not_count():
    loads = [1, 1, 5, 1, 3]  # the machine is busy in two rounds, for both ways alike
    both = [[seconds * load for load in loads] for seconds in (1.0, 1.3)]
    assert compare_rounds(*both).word == "quicker"


def test_another_margin_and_the_ratio_in_words():
    ratio = compare_rounds(times(1.3), BASE, margin=0.5)
    assert ratio.word == UNDECIDED
    assert str(ratio) == "1.3 times as long (1.3 to 1.3)"
    assert str(compare_rounds([2.0, 1.0, 1.5], [1.0, 1.0, 1.0])) == "1.5 times as long (1.0 to 2.0)"


@pytest.mark.parametrize("pair", [([1.0], [1.0]), ([1.0] * 4, [1.0] * 3), ([1, 1, 0], [1, 1, 1])])
def test_too_few_rounds_are_refused(pair):
    with pytest.raises(LaunchError, match=r"compare_rounds\(\) takes"):
        compare_rounds(*pair)


def test_the_quickest_ways_are_those_that_none_clearly_beats():
    ways = {"slow": times(2), "close": times(1.05), "best": BASE}
    assert find_quickest(ways) == ["best", "close"]
    assert find_quickest({"alone": [1.0]}) == ["alone"]
    unsteady = [4.0, 0.2, 3.0, 0.3, 2.0]
    assert find_quickest({"unsteady": unsteady, "steady": [1.0] * 5}) == ["steady", "unsteady"]


def work(seconds):
    import torch.distributed as dist

    for rank in range(2):
        with measure("both"):
            time.sleep(seconds if dist.get_rank() == rank else 0)
        dist.barrier()
    if dist.get_rank() == 0:
        with measure("alone"):
            time.sleep(seconds)


def test_the_slowest_rank_counts_in_each_round():
    run = launch(work, 0.05, world_size=2)
    assert len(run["both"].rounds) == 2
    assert min(run["both"].rounds) >= 0.05  # each rank's own quickest use took no time
    assert len(run["alone"].rounds) == 1
