"""The best size of a micro-batch: exercise 8.10. Arithmetic alone, without ranks."""

from ...course.checking import Exercise, Wrong
from ..kit.outcomes import number_in, outcome_of
from .bubbles import slots_of

MEASURED = {1: 2.0, 2: 2.6, 4: 4.0, 8: 6.9, 16: 13.0, 32: 27.0}
# {case: ({size: seconds}, samples, stages)}
BATCHES = {
    "96 samples, 4 stages": (MEASURED, 96, 4),
    "96 samples, one stage": (MEASURED, 96, 1),
    "96 samples, 16 stages": (MEASURED, 96, 16),
    "96 samples, 4 stages, 8 a little slower": (MEASURED | {8: 7.1}, 96, 4),
    "60 samples, sizes that do not divide them": (
        {3: 3.3, 4: 4.0, 7: 5.0, 8: 5.5, 15: 12.0}, 60, 4,
    ),
    "8 samples, larger sizes measured, too": ({32: 9.0, 2: 2.6, 16: 8.0, 4: 4.0, 8: 7.0}, 8, 2),
    "7 samples, only one size divides them": ({2: 1.0, 7: 9.0, 4: 1.5}, 7, 3),
}  # fmt: skip


def examine_best_size(answer):
    for case, (seconds_of, samples, stages) in BATCHES.items():
        measured = dict(seconds_of)
        outcome = outcome_of(answer, measured, samples, stages)
        if isinstance(outcome.value, (tuple, list)):
            raise Wrong(case, str(outcome), "asked is the size alone, one of the keys")
        got = number_in(case, outcome)
        if measured != seconds_of:
            raise Wrong(case, f"seconds_of is now {measured}", MEASURED_STAYS)
        need_best(case, got, seconds_of, samples, stages)
        seconds = step_seconds(got, seconds_of, samples, stages)
        yield f"{case}: {got:g}, a step takes {seconds:.4g} s"


MEASURED_STAYS = "it belongs to the caller, who has measured it: leave it as it is"


def step_seconds(size, seconds_of, samples, stages) -> float:
    return slots_of(stages, samples // int(size)) * seconds_of[size]


def need_best(case, got, seconds_of, samples, stages):
    sizes = [size for size in seconds_of if samples % size == 0]
    times = {size: step_seconds(size, seconds_of, samples, stages) for size in sizes}
    right = min(times, key=times.get)
    if got != right:
        takes = f", which takes {times[got]:.4g} s a step" if got in times else ""
        call = f"best_size({seconds_of}, {samples}, {stages})"
        what = (
            f"{call}: expected {right}, which takes {times[right]:.4g} s a step, got {got:g}{takes}"
        )
        guesses = guesses_at_size(seconds_of, samples, stages, right)
        why = next((why for why, guess in guesses if guess == got), "")
        raise Wrong(case, what, why)


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
SMALLEST = (
    "this one makes the smallest bubble; but it takes longest for each sample. What counts is how "
    "long a step takes"
)
LARGEST = (
    "the largest size has the fewest micro-batches, and the largest bubble. What counts is how "
    "long a step takes"
)
COUNT = "this is how many micro-batches there are; asked is how many samples each has"
SECONDS = "these are seconds; asked is the size with which a step is shortest"


def guesses_at_size(seconds_of, samples, stages, right) -> list[tuple[str, float]]:
    """[(sentence, what this misconception gives), …]."""
    sizes = [size for size in seconds_of if samples % size == 0]

    def best(idle):
        """With the shortest step, if it were so many micro-batches longer."""
        return min(sizes, key=lambda size: (samples / size + idle) * seconds_of[size])

    return [
        (NO_BUBBLE, best(0)),
        *((DOES_NOT_DIVIDE, size) for size in seconds_of if size not in sizes),
        (BUBBLE_TOO_LARGE, best(stages)),
        (BUBBLE_TOO_LARGE, best(2 * (stages - 1))),
        (SMALLEST, min(sizes)),
        (LARGEST, max(sizes)),
        (COUNT, samples / right),
        (SECONDS, step_seconds(right, seconds_of, samples, stages)),
        (SECONDS, seconds_of[right]),
    ]


EXERCISE = Exercise(
    "8.10", "best_size", examine_best_size,
    (
        "Write a function of a size first: how long does a step take with it? Then take the "
        "best of those that are allowed.",
        "samples // size micro-batches, and the bubble: together a step lasts as long as "
        "samples // size + stages - 1 of them, each of seconds_of[size].",
        "min(sizes, key=…) gives the size for which a function is smallest; sizes are those of "
        "seconds_of with samples % size == 0.",
    ),
)  # fmt: skip
