# Built from chapters/ch10_choosing_a_strategy/labs/calibration.py by `make build`.
"""Calibration of an engine on this computer: a few small plans run, and a fit explains them.

python labs/calibration.py
"""

from dataclasses import fields
from functools import partial

import numpy as np
from cost_model import FULL, Engine, Job, Plan
from live_plans import START, Setting, best_worst_and_drawn, describe_plan, predict_plan, run_all
from model_shapes import Gpu, Shape
from published_runs import Runs, calibrate_engine

# Known, and not calibrated: they are emulated, limited by the cards, or given by float32.
KNOWN = "gradient_bytes", "across", "exposed", "products", "ragged"
cut, AGAIN = partial(Plan, sequence=False), {"recompute": FULL}
CALIBRATING = [  # small models whose costs show each number of an engine
    (Setting(8, 64, 4, 64, 8, 8e8, 10e6), plan)
    for plan in (
        cut(dp=8), cut(dp=4, tp=2, zero=2, **AGAIN), cut(dp=2, tp=4),
        cut(pp=4, dp=2), cut(pp=2, tp=2, dp=2, zero=1),
        cut(dp=2, cp=4, micro_batch=2), cut(dp=4, cp=2, **AGAIN), cut(cp=8, micro_batch=4),
        cut(dp=8, zero=3), cut(tp=8, micro_batch=4),
    )
] + [
    (Setting(4, 64, 4, 128, 8, 8e8, 20e6), plan)
    for plan in (cut(dp=4, zero=1), cut(tp=2, cp=2, micro_batch=8), cut(pp=4))
] + [  # longer messages, in fewer layers
    (Setting(8, 64, 2, 256, 8, 8e8, 20e6), plan)
    for plan in (cut(dp=8), cut(dp=2, tp=4, micro_batch=4), cut(dp=2, cp=4, micro_batch=4))
]  # fmt: skip


def together(of) -> object:
    """Combine equal dataclasses of numbers into one of arrays; the rest comes from the first."""
    first = of[0]
    if isinstance(first, (Setting, Job, Plan, Shape, Gpu)):
        names = [f.name for f in fields(first)]
        return type(first)(*(together([getattr(x, name) for x in of]) for name in names))
    return first if isinstance(first, Engine) else np.array(of)


def make_runs(rows) -> Runs:
    """Make the Runs of labs/published_runs.py from (setting, plan, seconds, bytes)."""
    settings, plans, of_steps, nbytes = zip(*rows)
    none = np.zeros(len(rows), bool)
    jobs = together([setting.job(START) for setting in settings])
    return Runs(jobs, together(plans), np.array(of_steps), np.array(nbytes), none,
                np.array([str(s) for s in settings]), np.arange(len(rows)))  # fmt: skip


def calibrate(rows=None) -> Engine:
    """Find the engine of this computer from runs, by default those of CALIBRATING, in a minute."""
    if rows is None:
        rows = run_all(CALIBRATING)
    return calibrate_engine(make_runs(rows), START, held=(0.03, 0.1), exact=KNOWN)


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    engine = calibrate(run_all(CALIBRATING[::3]))  # some are enough here
    setting = Setting(8, 96, 4, 64, 16, 1e9, 20e6)
    for plan in best_worst_and_drawn(setting, engine, count=2):
        told, told_bytes = predict_plan(setting, plan, engine)
        ((_, _, took, nbytes),) = run_all([(setting, plan)])
        print(f"{describe_plan(plan)}: predicted {told:.2f} s and {told_bytes / 1e6:.1f} MB, "
              f"measured {took:.2f} s and {nbytes / 1e6:.1f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
