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
    runs = figures.group_timed_runs()["Megatron-DeepSpeed, one machine"]
    predicted, published = figures.pairs(runs)
    assert len(predicted) == len(published) > 1000
    assert figures.share_ranked_right(predicted, published, 2)[0] > 0.95


def test_a_factor_from_which_on_pairs_are_told_right():
    figures = lab("advice_figures")
    near, far = np.array([1.05, 1.05, 1.3, 1.8, 3]), np.array([0.9, 1.1, 1.1, 1.1, 1.1])
    far_first = np.append(near, 1.2), np.append(far, 1.1)
    assert figures.right_from(*far_first) == 1.1
    assert figures.right_from(*far_first, level=0.5) == 1
    assert figures.right_from(*far_first[:1], 1 / far_first[1]) is None


def test_no_factor_is_enough_if_no_pairs_are_that_far_apart():
    """Groups without pairs above a group that is wrong say nothing."""
    figures = lab("advice_figures")
    near, far = np.array([1.3, 1.3, 1.4]), np.array([0.9, 1.1, 0.8])
    assert figures.right_from(near, far) is None
    assert np.isnan(figures.share_ranked_right(near, far, 2)[0])


def test_a_verdict_takes_the_error_of_its_scope():
    advice = lab("advice")
    inside, across = (advice.Contest("GPT-2 XL", count, "A100", 64) for count in (8, 16))
    assert (inside.error((0.1, 0.9)), across.error((0.1, 0.9))) == (0.1, 0.9)
    for contest, told in ((inside, "agrees"), (across, "cannot be told")):
        is_fastest = contest.seconds() == contest.seconds().min()
        one = advice.Advice("", contest, is_fastest, ~is_fastest)
        follows, against = one.two()
        error = against / follows - 1
        assert one.judge((error / 2, 2 * error))(contest.job.engine) == told


def test_groups_of_published_runs_are_of_one_scope():
    groups = lab("advice_figures").group_timed_runs()
    for name, of in groups.items():
        is_inside = of.plan.ranks <= of.job.gpu.machine
        assert is_inside.all() if "one machine" in name else not is_inside.any()


def test_precision_is_compared_with_a_plan_that_fits_in_float32():
    practices, advice = lab("practices"), lab("advice")
    contest = advice.Contest("GPT-2 XL", 8, "A100")
    plan = practices.float32_plan(contest, 2)
    job = practices.use_float32(contest.job, 2)
    assert practices.memory(job, plan)["total"] <= 0.93 * job.gpu.memory


def test_a_published_series_along_dp_falls():
    """Rows PB-DP, as published: tokens per second of each GPU."""
    found = lab("published_runs").published_scaling()
    assert (found[8], found[256]) == (40149.94, 15700.38)
    assert list(found.values()) == sorted(found.values(), reverse=True)


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


def test_offload_does_not_invent_a_plan_where_nothing_fits():
    practices, advice = lab("practices"), lab("advice")
    contest = advice.Contest("llama-3-405b", 8, "V100", 64)
    assert practices.plan_offload(contest, 8e9, 150e9) == (None, {})
    assert list(practices.four_ways(contest, 8e9, 150e9).values()) == [None] * 4


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


def test_with_the_context_split_no_job_of_the_largest_model_needs_recomputation():
    practices = lab("practices")
    jobs = [practices.compare_recomputation(["H100"], [512], with_cp) for with_cp in (False, True)]
    needs = [[name for name, _, without, _ in of if without == float("inf")] for of in jobs]
    assert needs == [["Llama 3 405B, 512 H100"], []]
