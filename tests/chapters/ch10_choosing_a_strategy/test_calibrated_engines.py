"""Engines that were calibrated on published runs: what the planner's errors say, and their file."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from helpers import load_solved_lab

CALIBRATED, ERRORS, PUBLISHED = map(
    load_solved_lab, ("calibrated_engines", "engine_errors", "published_runs")
)
KNOWN = CALIBRATED.known_engines()
Plan = CALIBRATED.Plan


def test_every_software_has_an_engine_and_any_has_the_mean():
    assert [*KNOWN] == [*PUBLISHED.STARTS, CALIBRATED.ANY]
    for name, one in KNOWN.items():
        assert all(0 < getattr(one.engine, of) < most for of, most in PUBLISHED.SHARES.items())
        usual = CALIBRATED.Engine()
        assert all(getattr(one.engine, n) == getattr(usual, n) for n in ERRORS.OF_CLUSTER)
        timed = PUBLISHED.runs_with(name) if name in PUBLISHED.STARTS else None
        assert timed is None or one.runs == (~timed.is_oom & ~np.isnan(timed.seconds)).sum()
    mean = ERRORS.mean_engine([one.engine for name, one in KNOWN.items() if name != "any"])
    of_any = KNOWN[CALIBRATED.ANY].engine
    factor = mean.products / of_any.products
    assert 1 < factor < 1.5
    assert asdict(ERRORS.slow_down(mean, factor)) == pytest.approx(asdict(of_any))


def test_a_slower_engine_takes_longer_by_its_factor_but_on_the_network():
    cost, timing, shapes = map(load_solved_lab, ("cost_model", "cost_seconds", "model_shapes"))
    job = cost.Job(shapes.model_named("llama-3-8b"), shapes.gpu_named("H100"), 64)
    slower = replace(job, engine=ERRORS.slow_down(job.engine, 1.25))
    for plan in (cost.Plan(dp=8, zero=1), cost.Plan(tp=4, pp=2, recompute="full")):
        before, after = (timing.seconds(of, plan) for of in (job, slower))
        for cause in before:
            assert float(after[cause]) == pytest.approx(1.25 * float(before[cause]), rel=0.03)


@pytest.mark.parametrize("name", KNOWN)
def test_an_interval_is_that_of_the_kind_of_plan(name):
    one = KNOWN[name]
    for kind, (low, high, count) in one.ratios.items():
        assert 0 < low < high and count >= ERRORS.FEW, kind
    causes = {"compute": 6, "recompute": 2, "total": 10}
    low, high, _ = one.ratios["70% to 100% computing"]
    assert one.interval(Plan(dp=8), causes) == pytest.approx((10 * low, 10 * high))
    assert one.interval(Plan(dp=2 * one.largest), causes)
    assert one.interval(Plan(dp=2 * one.largest + 1), causes) is None


@pytest.mark.parametrize(
    ("pp", "share", "kind"),
    [(1, 0.1, "0% to 25% computing"), (2, 0.25, "25% to 50% computing, stages"),
     (1, 0.6, "50% to 70% computing"), (4, 1.0, "70% to 100% computing, stages")],
)  # fmt: skip
def test_kinds_of_plans(pp, share, kind):
    causes = {"compute": share, "recompute": 0, "total": 1}
    assert CALIBRATED.kind_of(Plan(pp=pp), causes) == kind


def some_runs(count=20):
    runs = PUBLISHED.runs_with("FSDP")
    return runs.where(np.arange(len(runs)) < count)


def test_quantiles_are_those_of_the_ratios():
    ratios, kinds = np.arange(1, 21) / 10, np.array(["a"] * 10 + ["b"] * 10)
    found = ERRORS.quantiles_by_kind(ratios, kinds)
    assert found == {"all": [0.2, 1.8, 20], "a": [0.1, 0.9, 10], "b": [1.1, 1.9, 10]}
    assert "b" not in ERRORS.quantiles_by_kind(ratios[:15], kinds[:15])  # five are too few


def test_the_place_of_the_best_and_what_is_told_apart():
    runs = some_runs()
    plan = replace(runs.plan, **{k: np.full(len(runs), getattr(runs.plan, k)[0]) for k in ("dp",)})
    batch = np.full(len(runs), 64.0)
    shape = replace(runs.job.shape, context=np.full(len(runs), 2048))
    runs = replace(runs, plan=plan, group=np.full(len(runs), "one"), seconds=np.arange(1.0, 21),
                   job=replace(runs.job, batch=batch, shape=shape))  # fmt: skip
    (job,) = ERRORS.jobs_of(runs)
    assert len(job) == 20
    assert ERRORS.places_of_best(runs, runs.seconds) == [1]
    assert ERRORS.places_of_best(runs, -runs.seconds + 30) == [20]
    assert ERRORS.ratio_told_apart(runs, runs.seconds) == pytest.approx(20 / 19)
    wrong = runs.seconds.copy()
    wrong[[0, 1, 2, 3]] = wrong[[3, 2, 1, 0]]  # pairs that are up to a factor of 4 apart
    assert ERRORS.ratio_told_apart(runs, wrong) > 20 / 19


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "engines.json"
    ERRORS.write_engines(KNOWN, path)
    assert CALIBRATED.known_engines(path) == KNOWN
    assert path.read_text() == CALIBRATED.find_published("engines.json").read_text()
    usual = asdict(CALIBRATED.Engine())
    assert all(usual[k] != x for one in json.loads(path.read_text()).values()
               for k, x in one["engine"].items())  # fmt: skip


@pytest.mark.deep
def test_the_file_has_what_calibrating_again_finds():
    """Processors round differently, and the search ends where little changes."""
    for name, again in ERRORS.calibrate_all().items():
        one = KNOWN[name]
        assert (again.runs, again.largest) == (one.runs, one.largest)
        for kind, (low, high, count) in again.ratios.items():
            assert (low, high) == pytest.approx(tuple(one.ratios[kind][:2]), rel=0.03), (name, kind)
            assert count == one.ratios[kind][2]


@pytest.mark.deep
def test_intervals_cover_four_fifths_of_runs_whose_group_had_no_part_in_them():
    inside = []
    for name, start in PUBLISHED.STARTS.items():
        runs = PUBLISHED.runs_with(name)
        left_out, _ = PUBLISHED.cross_validated_predictions(runs, start)
        guess = ERRORS.make_guess(runs, left_out, KNOWN[name].engine)
        ratios, kinds = guess.ratios, guess.kinds
        for group in np.unique(guess.runs.group):
            of = guess.runs.group == group
            told = ERRORS.quantiles_by_kind(ratios[~of], kinds[~of])
            for ratio, kind in zip(ratios[of], kinds[of]):
                low, high, _ = told.get(kind, told["all"])
                inside.append(low <= ratio <= high)
    assert 0.75 <= np.mean(inside) <= 0.85
