"""Plans that are predicted and run: calibrating finds what is there, and memory is told."""

from dataclasses import replace
from functools import partial
from statistics import median

import pytest
import torch
from helpers import launch_on_cpu

from coursekit.labs import find_lab
from pedagogy_lib import RankError


@pytest.fixture(scope="module")
def live():
    return find_lab("live_plans")


@pytest.fixture(scope="module")
def calibration():
    return find_lab("calibration")


def predict_all(live, pairs, engine):
    return [(setting, plan, *live.predict_plan(setting, plan, engine)) for setting, plan in pairs]


def test_calibrating_finds_an_engine_that_predicts_what_was_measured(live, calibration):
    """From times and bytes of another engine alone; the plans that it predicts are others."""
    real = replace(live.START, launch=4e-3, hop=6e-4, around=3e-3, message=1e-3, kept=14.0,
                   kept_mlp=11.0, fixed=8e-3)  # fmt: skip
    found = calibration.calibrate(predict_all(live, calibration.CALIBRATING, real))
    setting = live.Setting(8, 96, 8, 64, 16, 1e9, 20e6)
    off = []
    plans = live.best_worst_and_drawn(setting, real, count=20)
    for plan in plans:
        wanted, told = (live.predict_plan(setting, plan, engine) for engine in (real, found))
        assert told == pytest.approx(wanted, rel=0.2), live.describe_plan(plan)
        off += [abs(t / w - 1) for t, w in zip(told, wanted)]
    assert median(off) < 0.03
    before = [live.predict_plan(setting, plan, live.START)[0] for plan in plans]
    wanted = [live.predict_plan(setting, plan, real)[0] for plan in plans]
    assert median(abs(b / w - 1) for b, w in zip(before, wanted)) > 0.1  # there was much to find


def test_what_is_known_is_not_calibrated(live, calibration):
    found = calibration.calibrate(predict_all(live, calibration.CALIBRATING, live.START))
    for name in ("gradient_bytes", "across", "exposed", "parameter_bytes"):
        assert getattr(found, name) == getattr(live.START, name)


def test_the_best_the_worst_and_others(live):
    setting = live.Setting(4, 64, 4, 64, 16, 8e8, 10e6)
    plans = live.best_worst_and_drawn(setting, live.START, count=5)
    seconds = [live.predict_plan(setting, plan, live.START)[0] for plan in plans]
    everyone = [live.predict_plan(setting, plan, live.START)[0] for plan in live.runnable(setting)]
    assert seconds[0] == min(everyone)
    assert seconds[1] == max(s for s in everyone if s < 3.0)
    assert len(set(map(live.mesh, plans))) == len(plans) == 7
    assert plans == live.best_worst_and_drawn(setting, live.START, count=5)


def test_a_setting_without_plans(live):
    with pytest.raises(ValueError, match="no plan is possible"):
        live.runnable(live.Setting(7, 64, 4, 64, 16, 8e8, 10e6))


def test_plans_in_words(live):
    plan = live.Plan(dp=4, tp=2, zero=3, micro_batch=2, recompute="full")
    assert live.describe_plan(plan) == "dp 4 tp 2, ZeRO 3, micro-batch 2, recomputed"
    assert live.describe_plan(live.Plan(pp=2)) == "pp 2, micro-batch 1"


@pytest.mark.slow
@pytest.mark.deep
def test_memory_is_predicted(live, calibration):
    """Really run: bytes are exact, whatever the machine is busy with. Times are not looked at."""
    pairs = [(replace(setting, flops=1e12), plan) for setting, plan in calibration.CALIBRATING]
    engine = calibration.calibrate(live.run_all(pairs[::2]))
    rows = live.run_all(pairs[1::2])
    off = [abs(live.predict_plan(s, p, engine)[1] / nbytes - 1) for s, p, _, nbytes in rows]
    assert median(off) < 0.05
    assert max(off) < 0.2


def step_after_a_failed_one(plans, zero):
    """Return what a step raises, and how far a later one is from a step without that failure."""
    torch.set_default_dtype(torch.float64)
    batch = torch.arange(8 * 32).view(8, 32) % 100
    both = []
    for fails in (False, True):
        model = plans.whole_model()
        engine = plans.AnyPlan(model, plans.Plan(dp=2, zero=zero, micro_batch=2), plans.adam)
        if fails:
            loss_of, calls = engine.pipeline.loss_of, []
            engine.pipeline.loss_of = partial(fail_in_second, calls, loss_of)
            with pytest.raises(ZeroDivisionError):
                engine.step(batch, batch)
            engine.pipeline.loss_of = loss_of
        both.append(engine.step(batch, batch) + engine.step(batch, batch))
    return both


def fail_in_second(calls, loss_of, logits, targets):
    calls.append(targets)
    return loss_of(logits, targets) / (len(calls) < 2 or 0 // 0)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_failed_step_leaves_nothing_to_the_next_one(zero):
    run = launch_on_cpu(step_after_a_failed_one, find_lab("any_plan"), zero, world_size=2)
    for undisturbed, after_a_failure in run.values:
        assert after_a_failure == pytest.approx(undisturbed, rel=1e-12)


@pytest.mark.parametrize("zero", [0, 3])
def test_unequal_copies_are_refused(zero):
    def step(plans):
        engine = plans.AnyPlan(plans.whole_model(), plans.Plan(dp=4, zero=zero), plans.adam)
        engine.step(*torch.zeros(2, 10, 32, dtype=torch.int64))

    with pytest.raises(RankError, match="10 samples for 4 copies of the model"):
        launch_on_cpu(step, find_lab("any_plan"), world_size=4)
