"""The cases, and the code that runs next to the answer."""

from coursekit.kit.results import Outcome, outcome_of, plain

PATIENCE = 0.5

ALIVE = "a rank whose count has changed is alive, wherever the count stands, and however slowly"

SILENT = "the same count for more than `patience` seconds: the rank is silent"

ANEW = (
    "the count to compare with is that of the last look, and not the very first one: remember it "
    "anew whenever it changes"
)

ALL = "all may be silent at once: what the others do does not matter"

AGAIN = "this count was there before, but another one came between: that is a change, too"

IDENTITY = (
    "two equal numbers need not be the same object: `is` and `is not` compare objects, != compares "
    "numbers"
)

SMALLER = (
    "a process that was started again counts from 1. A smaller count is a change, and a sign of "
    "life: compare with !=, not with >"
)

SLOW = (
    "this rank counts more slowly than the others, but its count changes. What the others' counts "
    "are does not matter"
)

FIRST = (
    "when a rank is looked at for the first time, its time begins, at `now`. Nobody knows what "
    "was before; and where a clock has its 0 means nothing"
)

BACK = "its count has changed since: it is alive again, and its time begins anew"

EXACTLY = "asked is more than `patience`; this is exactly that long"

SINCE_LOOK = (
    "what counts is how long the count has been the same, and not how long ago the last look was"
)

ORDER = "in order: sorted by their numbers, whatever the order in the dict"

NOT_YET = "a rank that has not counted yet, with 0, gets as much time as any other"


def large(k) -> int:
    """Return a number that is a new object in memory each time."""
    return int(f"1000{k:03}")


CASES = {  # {case: ([(counts, now), …], diagnosis of a wrong answer)}
    "its clock shows a large number": (
        [({0: 1}, 1e6), ({0: 1}, 1e6 + 0.25)], FIRST),
    "its clock begins at 0": (
        [({0: 1}, 0.0), ({0: 1}, 0.25)], FIRST),
    "all go on": (
        [({0: 1, 1: 1}, 10.0), ({0: 2, 1: 2}, 10.4), ({0: 3, 1: 3}, 10.8)], ALIVE),
    "rank 1 falls silent": (
        [({0: 1, 1: 1}, 10.0), ({0: 2, 1: 1}, 10.25), ({0: 3, 1: 1}, 11.0)], SILENT),
    "looked at often, rank 1 is silent": (
        [({0: k + 1, 1: 7}, 10 + 0.15 * k) for k in range(9)], SINCE_LOOK),
    "silent for exactly as long as the patience": (
        [({0: 1, 1: 1}, 10.0), ({0: 2, 1: 1}, 10.5)], EXACTLY),
    "rank 1 is silent, and counts again": (
        [({0: 1, 1: 4}, 10.0), ({0: 2, 1: 4}, 11.0), ({0: 3, 1: 5}, 12.0), ({0: 4, 1: 5}, 12.25)],
        BACK),
    "rank 2 counts slowly": (
        [({0: 10 * k + 1, 1: 11 * k + 1, 2: 1 + k // 3}, 10 + k / 8) for k in range(12)], SLOW),
    "rank 0 was started again, and counts from 1": (
        [({0: 90, 1: 90}, 10.0), ({0: 1, 1: 91}, 10.4), ({0: 2, 1: 92}, 10.8),
         ({0: 3, 1: 93}, 11.2)], SMALLER),
    "rank 2 comes later": (
        [({0: 1}, 10.0), ({0: 2}, 12.0), ({0: 3, 2: 1}, 14.0), ({0: 4, 2: 1}, 14.25)], FIRST),
    "rank 1 has not counted yet": (
        [({0: 1, 1: 0}, 10.0), ({0: 2, 1: 0}, 10.25), ({0: 3, 1: 0}, 10.75)], NOT_YET),
    "silent from the beginning, on a clock that begins at 0": (
        [({0: 1, 1: 1}, 0.0), ({0: 2, 1: 1}, 0.25), ({0: 3, 1: 1}, 0.75)], FIRST),
    "rank 1 counts once more, and falls silent": (
        [({0: 1, 1: 1}, 10.0), ({0: 2, 1: 2}, 10.375), ({0: 3, 1: 2}, 10.75),
         ({0: 4, 1: 2}, 11.125)], ANEW),
    "rank 1 is silent at a large count": (
        [({0: large(k), 1: large(7)}, 10.0 + k) for k in range(2)], IDENTITY),
    "all fall silent": (
        [({0: 1, 1: 1}, 10.0), ({0: 2, 1: 2}, 10.375), ({0: 2, 1: 2}, 11.0)], ALL),
    "a count comes that was there before": (
        [({0: 3}, 10.0), ({0: 1}, 11.0), ({0: 2}, 12.0), ({0: 3}, 13.0)], AGAIN),
    "two are silent": (
        [({3: 5, 0: 1, 1: 5}, 10.0), ({3: 5, 0: 2, 1: 5}, 11.0)], ORDER),
}  # fmt: skip


def run_watchers(answer, watchers, looks, counts) -> tuple[list[Outcome], list[tuple]]:
    """Make watchers and let them look, up to the first call that raises.

    looks   [(the index of a watcher, its counts, now), …]
    counts  a dict that is changed to each of the counts; None: each look has its own dict
    Returns  the outcomes of making the watchers; the outcome of each look, and its counts then
    """
    made = [outcome_of(answer, PATIENCE) for _ in range(watchers)]
    found, is_right = [], not any(outcome.error for outcome in made)
    for number, now_counts, now in looks if is_right else ():
        given = dict(now_counts) if counts is None else counts
        given.update(now_counts)
        outcome = outcome_of(ask, made[number].value, given, now)
        found.append((outcome._replace(value=plain(outcome.value)), dict(given)))
        if outcome.error:
            break
    return [outcome._replace(value=None) for outcome in made], found


def ask(watcher, counts, now):
    return watcher.silent(counts, now)
