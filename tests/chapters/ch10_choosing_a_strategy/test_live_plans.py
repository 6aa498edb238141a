"""Plans that are predicted and run: calibrating finds what is there, and memory is told."""

from dataclasses import replace
from statistics import median

import pytest

from coursekit.labs import find_lab


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
    real = replace(live.START, launch=2e-3, hop=6e-4, around=3e-3, message=1e-3, kept=14.0,
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
