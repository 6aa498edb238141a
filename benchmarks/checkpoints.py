"""The checkpoint interval: whether the cheapest one is the one that the formula gives."""

import math
from pathlib import Path
from statistics import median

from rows import Measurement, Row, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch

LABS = Path(__file__).resolve().parents[1] / "solutions" / "labs"
BEST_PERCENT, COST_PERCENT = 15.0, 15.0


def measurements() -> list[Measurement]:
    return [Measurement("five periods, 40 failures each", five_periods)]


def try_periods(lab, numbers):
    return lab.try_periods(numbers)


def five_periods():
    path = LABS / "how_often.py"
    lab = Lab("how_often", path, path)
    saving, failure = lab.SAVE_SECONDS + 0.001, lab.FAILURE_SECONDS
    numbers = lab.steps_to_try(math.sqrt(2 * saving * failure), saving)
    found = launch(try_periods, lab, numbers, world_size=len(numbers), device="cpu").values
    saving = median(worker["saving"] for worker in found)
    lowest = lab.best_of([w["period"] for w in found], [w["cost"] for w in found])
    formula = math.sqrt(2 * saving * failure)
    off = 100 * (lowest / formula - 1)
    yield Row("the period that costs least, beside the formula's", milliseconds(lowest),
              milliseconds(formula), f"{off:+.1f}%", f"<= {BEST_PERCENT:.0f}%",
              abs(off) <= BEST_PERCENT, found)  # fmt: skip
    for number, worker in zip(numbers, found):
        theory = lab.cost(worker["period"], worker["saving"], failure)
        measured, expected = 1 / (1 - worker["cost"]), 1 / (1 - theory)
        off = 100 * (measured / expected - 1)
        yield Row(f"all time per useful time, saving every {number} steps",
                  f"{measured:.2f}", f"{expected:.2f}", f"{off:+.1f}%",
                  f"<= {COST_PERCENT:.0f}%", abs(off) <= COST_PERCENT, worker)  # fmt: skip
