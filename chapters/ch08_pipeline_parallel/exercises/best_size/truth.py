"""The right results, and the results of known mistakes."""

from .cases import list_valid_sizes, step_seconds


def best(seconds_of, samples, stages) -> int:
    """Return the allowed size with the shortest step, found by trying all of them."""
    times = {
        s: step_seconds(seconds_of, samples, stages, s)
        for s in list_valid_sizes(seconds_of, samples)
    }
    return min(times, key=times.get)


def best_with(seconds_of, samples, idle) -> int:
    """Return the size with the shortest step if the bubble took `idle` micro-batches."""
    sizes = list_valid_sizes(seconds_of, samples)
    return min(sizes, key=lambda size: (samples / size + idle) * seconds_of[size])


def scale_by_share(seconds_of, samples, stages, size) -> float:
    """Return the ideal time times 1 plus the bubble's share of the whole step."""
    m = samples / size
    return m * seconds_of[size] * (1 + (stages - 1) / (m + stages - 1))


def first_dip(seconds_of, samples, stages) -> int:
    sizes = list_valid_sizes(seconds_of, samples)
    times = [step_seconds(seconds_of, samples, stages, size) for size in sizes]
    rises = (k for k in range(1, len(sizes)) if times[k] > times[k - 1])
    return sizes[next(rises, len(sizes)) - 1]


def busy(seconds_of, samples, stages) -> int:
    sizes = list_valid_sizes(seconds_of, samples)
    enough = [size for size in sizes if samples // size >= stages] or sizes
    return min(enough, key=lambda size: step_seconds(seconds_of, samples, stages, size))


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

MISTAKES = [
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
     lambda *call: min(list_valid_sizes(*call[:2]), key=lambda size: scale_by_share(*call, size))),
    ("this one makes the smallest bubble; but it takes longest for each sample. What counts is "
     "how long a step takes", lambda times, samples, stages: min(list_valid_sizes(times, samples))),
    ("the largest size has the fewest micro-batches, and the largest bubble. What counts is "
     "how long a step takes", lambda times, samples, stages: max(list_valid_sizes(times, samples))),
    ("this is how many micro-batches there are; asked is how many samples each has",
     lambda times, samples, stages: samples // best(times, samples, stages)),
    ("each stage is to have a micro-batch at a time: a rule that keeps them busy. What counts "
     "is how long a step takes", busy),
    ("it stops where a step takes longer than with the size before; a later one may be faster "
     "than all", first_dip),
    ("this is the place of the best one among those allowed; asked is the size itself",
     lambda *call: list_valid_sizes(*call[:2]).index(best(*call))),
    (SECONDS, lambda times, samples, stages: step_seconds(
        times, samples, stages, best(times, samples, stages))),
    (SECONDS, lambda times, samples, stages: times[best(times, samples, stages)]),
]  # fmt: skip
