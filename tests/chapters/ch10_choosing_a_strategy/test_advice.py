"""Advice, judged: verdicts, contests of plans, and the map of what is chosen."""

import numpy as np
import pytest

from pedagogy_lib import LaunchError, lab, plot_map


def test_a_verdict_has_an_error():
    told = lab("advice").verdict
    assert [told(1, x, 0.25) for x in (1.3, 1.2, 0.9, 0.7)] == [
        "agrees", "cannot be told", "cannot be told", "disagrees"]  # fmt: skip
    assert told(np.inf, 1, 0.25) == "disagrees"
    assert told(1, np.inf, 0.25) == "agrees"
    assert told(np.inf, np.inf, 0.25) == "nothing fits"


def test_a_contest_knows_no_context_parallelism_unless_it_is_asked():
    advice = lab("advice")
    alone = advice.Contest("Llama 3 8B", 16, "H100")
    more = advice.Contest("Llama 3 8B", 16, "H100", with_cp=True)
    assert alone.choice().plan.cp == 1
    assert more.seconds().min() <= alone.seconds().min()
    assert alone.choice(alone.match_sizes(tp=3)) is None


def test_every_advice_has_plans_on_both_sides():
    for one in lab("advice").all_advice():
        assert one.against.any()
        assert min(one.two()) < np.inf
        assert not (one.follows & one.against).any()


def test_pairs_are_of_one_job():
    figures = lab("advice_figures")
    predicted, published = figures.pairs(figures.group_timed_runs()["Megatron-DeepSpeed"])
    assert len(predicted) == len(published) > 1000
    assert figures.share_ranked_right(predicted, published, 2)[0] > 0.95


def test_a_factor_from_which_on_pairs_are_told_right():
    figures = lab("advice_figures")
    near, far = np.array([1.05, 1.05, 1.3, 1.8, 3]), np.array([0.9, 1.1, 1.1, 1.1, 1.1])
    far_first = np.append(near, 1.2), np.append(far, 1.1)
    assert figures.right_from(*far_first) == 1.1
    assert figures.right_from(*far_first, level=0.5) == 1
    assert figures.right_from(*far_first[:1], 1 / far_first[1]) is None


def test_a_sum_across_machines_is_never_faster_than_inside():
    figures = lab("advice_figures")
    slow, fast, faster = figures.slower_layer("GPT-3 175B", "H100", [6e9, 100e9, 400e9])
    assert slow > fast == faster > 1


def test_offload_takes_from_memory_and_adds_to_the_optimizer():
    practices, advice = lab("practices"), lab("advice")
    contest = advice.Contest("llama-2-7b", 8, "V100", 64)
    ways = practices.four_ways(contest, 8e9, 150e9)
    assert ways["ZeRO 2"] is None and ways["ZeRO 2, offloaded"] is not None
    assert ways["ZeRO 2, offloaded"].memory["optimizer_state"] == 0
    slower = practices.plan_offload(contest, 8e9, 15e9)[0]
    assert slower.seconds["total"] > ways["ZeRO 2, offloaded"].seconds["total"] + 5


def test_the_best_period_is_near_the_formula_of_young():
    practices = lab("practices")
    period, lost = practices.best_period(3, 11_000)
    assert period == pytest.approx((2 * 3 * 11_000) ** 0.5, rel=0.05)
    assert 0.02 < lost < 0.03
    assert practices.describe_seconds(7200) == "2 h" and practices.describe_seconds(90) == "90 s"


def test_in_float32_states_are_16_bytes_and_messages_twice_as_long():
    practices, advice = lab("practices"), lab("advice")
    job = advice.Contest("Llama 3 8B", 64, "H100").job
    other = practices.use_float32(job, 2)
    held = sum(practices.states(other, practices.Plan(64)).values())
    assert held == pytest.approx(16 * practices.states(job, practices.Plan(64))["parameters"] / 2)
    assert other.gpu.flops == job.gpu.flops / 2 and other.engine.number_bytes == 4


def test_a_map_of_choices():
    rows = {"small": {"8": ("DDP", "1·1·8", True)}, "large": {"8": ("none", "", True)}}
    picture = plot_map({"H100": rows}, ["DDP"], "GPUs", title="Who wins")
    assert "H100, large: 8 none" in picture.alt
    for nonsense in ({}, [rows], {"a": rows, "b": {"small": rows["small"]}}):
        with pytest.raises(LaunchError, match="plot_map"):
            plot_map(nonsense, ["DDP"])
