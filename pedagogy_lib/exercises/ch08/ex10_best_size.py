"""The best size of a micro-batch."""

from ..kit import Formula
from ..kit.tables import tabled
from .slots import slots_of

MEASURED = {1: 2.0, 2: 2.6, 4: 4.0, 8: 6.9, 16: 13.0, 32: 27.0}
# {case: ({size: seconds}, samples, stages)}
BATCHES = {
    "96 samples, 4 stages": (MEASURED, 96, 4),
    "96 samples, two dips": (MEASURED | {4: 5.5}, 96, 4),
    "96 samples, one stage": (MEASURED, 96, 1),
    "96 samples, 16 stages": (MEASURED, 96, 16),
    "96 samples, 4 stages, 8 a little slower": (MEASURED | {8: 7.1}, 96, 4),
    "60 samples, sizes that do not divide them": (
        {3: 3.3, 4: 4.0, 7: 5.0, 8: 5.5, 15: 12.0}, 60, 4,
    ),
    "8 samples, larger sizes measured, too": ({32: 9.0, 2: 2.6, 16: 8.0, 4: 4.0, 8: 5.5}, 8, 2),
    "7 samples, only one size divides them": ({2: 1.0, 7: 9.0, 4: 1.5}, 7, 3),
}  # fmt: skip


def allowed(seconds_of, samples) -> list[int]:
    return [size for size in seconds_of if samples % size == 0]


@tabled(lambda: [(*call, size) for call in BATCHES.values() for size in allowed(*call[:2])])
def step_seconds(seconds_of, samples, stages, size) -> float:
    return slots_of(stages, samples // size) * seconds_of[size]


def best(seconds_of, samples, stages) -> int:
    """Of the sizes that are allowed, by trying all of them."""
    times = {s: step_seconds(seconds_of, samples, stages, s) for s in allowed(seconds_of, samples)}
    return min(times, key=times.get)


def best_with(seconds_of, samples, idle) -> int:
    """With the shortest step, if it were so many micro-batches longer."""
    sizes = allowed(seconds_of, samples)
    return min(sizes, key=lambda size: (samples / size + idle) * seconds_of[size])


def with_share(seconds_of, samples, stages, size) -> float:
    """The ideal time, and as large a part of it as the bubble is of the whole."""
    m = samples / size
    return m * seconds_of[size] * (1 + (stages - 1) / (m + stages - 1))


def first_dip(seconds_of, samples, stages) -> int:
    sizes = allowed(seconds_of, samples)
    times = [step_seconds(seconds_of, samples, stages, size) for size in sizes]
    rises = (k for k in range(1, len(sizes)) if times[k] > times[k - 1])
    return sizes[next(rises, len(sizes)) - 1]


def busy(seconds_of, samples, stages) -> int:
    sizes = allowed(seconds_of, samples)
    enough = [size for size in sizes if samples // size >= stages] or sizes
    return min(enough, key=lambda size: step_seconds(seconds_of, samples, stages, size))


def told_step(call, size) -> str:
    if size not in allowed(*call[:2]):
        return ""
    return f", which takes {step_seconds(*call, int(size)):.4g} s a step"


def differs(call, wanted, got) -> str:
    return f"expected {wanted}{told_step(call, wanted)}, got {got:g}{told_step(call, got)}\n{call}"


NO_BUBBLE = (
    "this one computes fastest for each sample, if there were no bubble: in a pipeline a step "
    "takes stages - 1 micro-batches more"
)
DOES_NOT_DIVIDE = (
    "it does not divide the batch: all micro-batches have to be of equal size, samples % size == 0"
)
BUBBLE_TOO_LARGE = (
    "the bubble is counted too large: a step takes as long as microbatches + stages - 1 of them, "
    "each with its forward and its backward"
)
SECONDS = "these are seconds; asked is the size with which a step is shortest"

EXERCISE = Formula(
    "8.10",
    "best_size",
    cases={case: [call] for case, call in BATCHES.items()},
    truth=best,
    told=lambda calls, sizes: (
        f"{sizes[0]:g}, a step takes {step_seconds(*calls[0], int(sizes[0])):.4g} s"
    ),
    differs=differs,
    shape="asked is the size alone, one of the keys",
    errors={"empty": "none of the sizes is left: a size divides the batch if samples % size == 0"},
    mistakes=[
        (NO_BUBBLE, lambda times, samples, stages: best_with(times, samples, 0)),
        (NO_BUBBLE, lambda times, samples, stages: min(times, key=lambda s: times[s] / s)),
        (DOES_NOT_DIVIDE, lambda times, samples, stages: min(
            times, key=lambda s: (samples // s + stages - 1) * times[s])),
        (DOES_NOT_DIVIDE, lambda times, samples, stages: min(
            times, key=lambda s: (samples / s + stages - 1) * times[s])),
        (BUBBLE_TOO_LARGE, lambda times, samples, stages: best_with(times, samples, stages)),
        (BUBBLE_TOO_LARGE, lambda times, samples, stages:
            best_with(times, samples, 2 * (stages - 1))),
        ("(stages - 1) / (microbatches + stages - 1) is the bubble's share of the whole step. Here "
         "it is put on top of a step without bubble, as if it were a share of that",
         lambda *call: min(allowed(*call[:2]), key=lambda size: with_share(*call, size))),
        ("this one makes the smallest bubble; but it takes longest for each sample. What counts is "
         "how long a step takes", lambda times, samples, stages: min(allowed(times, samples))),
        ("the largest size has the fewest micro-batches, and the largest bubble. What counts is "
         "how long a step takes", lambda times, samples, stages: max(allowed(times, samples))),
        ("this is how many micro-batches there are; asked is how many samples each has",
         lambda times, samples, stages: samples // best(times, samples, stages)),
        ("each stage is to have a micro-batch at a time: a rule that keeps them busy. What counts "
         "is how long a step takes", busy),
        ("it stops where a step takes longer than with the size before; a later one may be faster "
         "than all", first_dip),
        ("this is the place of the best one among those allowed; asked is the size itself",
         lambda *call: allowed(*call[:2]).index(best(*call))),
        (SECONDS, lambda times, samples, stages: step_seconds(
            times, samples, stages, best(times, samples, stages))),
        (SECONDS, lambda times, samples, stages: times[best(times, samples, stages)]),
    ],
    hints=(
        "Write a function of a size first: how long does a step take with it? Then take the "
        "best of those that are allowed.",
        "samples // size micro-batches, and the bubble: together a step lasts as long as "
        "samples // size + stages - 1 of them, each of seconds_of[size].",
        "min(sizes, key=…) gives the size for which a function is smallest; sizes are those of "
        "seconds_of with samples % size == 0.",
    ),
)  # fmt: skip
