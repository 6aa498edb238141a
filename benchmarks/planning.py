"""Plans that are predicted and then run: the errors, and the place of the plan predicted best."""

from pathlib import Path
from statistics import median, quantiles

from rows import Measurement, Row

from coursekit.labs import Lab

LABS = Path(__file__).resolve().parents[1] / "solutions" / "labs"
SECONDS, BYTES, FIRST, SETTINGS = 0.15, 0.03, 3, 0.9  # median errors; the place, and how often
SIZES = [  # ranks, width, layers, context, samples, FLOP/s, a card's bytes/s
    (8, 64, 4, 64, 16, 5e8, 10e6), (8, 128, 4, 64, 16, 1.5e9, 20e6), (8, 64, 8, 32, 16, 4e8, 10e6),
    (8, 64, 4, 256, 8, 1e9, 20e6), (4, 64, 4, 64, 16, 8e8, 10e6), (4, 128, 4, 64, 8, 2e9, 20e6),
    (4, 96, 4, 128, 8, 1e9, 40e6), (8, 96, 4, 64, 16, 1e9, 30e6), (4, 64, 8, 64, 16, 1e9, 10e6),
    (8, 128, 8, 64, 16, 3e9, 30e6),
]  # fmt: skip


def measurements() -> list[Measurement]:
    return [
        Measurement(
            "ten settings of twelve plans, predicted and run (10 minutes)", measure_predictions
        )
    ]


def lab(name):
    return Lab(name, *[LABS / f"{name}.py"] * 2)


def measure_predictions():
    live, calibration = lab("live_plans"), lab("calibration")
    engine, off, bytes_off, places = calibration.calibrate(), [], [], []
    for number, sizes in enumerate(SIZES):
        setting = live.Setting(*sizes)
        plans = live.best_worst_and_drawn(setting, engine, seed=number)
        ran = live.run_all([(setting, plan) for plan in plans])
        told = [live.predict_plan(setting, plan, engine) for plan in plans]
        off += [abs(t[0] / row[2] - 1) for t, row in zip(told, ran)]
        bytes_off += [abs(t[1] / row[3] - 1) for t, row in zip(told, ran)]
        took = [row[2] for row in ran]
        places.append(sorted(took).index(took[0]) + 1)
        yield (f"setting {number + 1}: the best predicted plan is number {places[-1]} of "
               f"{len(took)}; regret {took[0] / min(took) - 1:.1%}")  # fmt: skip
    yield row_of("seconds of a step", off, SECONDS)
    yield row_of("bytes at the peak", bytes_off, BYTES)
    share = sum(place <= FIRST for place in places) / len(places)
    yield Row(f"the best predicted plan is among the first {FIRST} of twelve",
              f"{share:.0%}", limit=f">= {SETTINGS:.0%}", holds=share >= SETTINGS,
              raw={"places": places})  # fmt: skip


def row_of(what, off, most) -> Row:
    ninety = quantiles(off, n=10)[-1]
    return Row(f"error of the {what}, {len(off)} runs; 90 of 100 within {ninety:.0%}",
               f"{median(off):.1%}", limit=f"<= {most:.0%}", holds=median(off) <= most,
               raw={"off": off})  # fmt: skip
