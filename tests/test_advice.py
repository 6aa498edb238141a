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
    assert alone.choice(alone.like(tp=3)) is None


def test_every_advice_has_plans_on_both_sides():
    for one in lab("advice").all_advice():
        assert one.against.any()
        assert min(one.two()) < np.inf
        assert not (one.follows & one.against).any()


def test_pairs_are_of_one_job():
    figures = lab("advice_figures")
    predicted, published = figures.pairs(figures.timed_runs()["Megatron-DeepSpeed"])
    assert len(predicted) == len(published) > 1000
    assert figures.told_right(predicted, published, 2)[0] > 0.95


def test_a_map_of_choices():
    rows = {"small": {"8": ("DDP", "1·1·8", True)}, "large": {"8": ("none", "", True)}}
    picture = plot_map({"H100": rows}, ["DDP"], "GPUs", title="Who wins")
    assert "H100, large: 8 none" in picture.alt
    for nonsense in ({}, [rows], {"a": rows, "b": {"small": rows["small"]}}):
        with pytest.raises(LaunchError, match="plot_map"):
            plot_map(nonsense, ["DDP"])
