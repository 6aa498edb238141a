"""Who has been silent for too long: counts that change, or do not, and one clock."""

from ...course.checking import Exercise, Wrong
from ...course.trying import there
from ..kit.on_ranks import NOT_TOLD
from ..kit.outcomes import Outcome, outcome_of
from ..kit.tables import tabled
from ..kit.values import NO_RETURN, plain

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
ALIASED = (
    "the watcher has kept the dict that it was given, and the caller has written new counts into "
    "it. So it compares the dict with itself: keep each count by itself, or a copy of the dict"
)
SHARED = (
    "two watchers know of each other: what is set in the class belongs to all of them. Set it in "
    "__init__, on self"
)
SINCE_LOOK = (
    "what counts is how long the count has been the same, and not how long ago the last look was"
)
ORDER = "in order: sorted by their numbers, whatever the order in the dict"
NOT_YET = "a rank that has not counted yet, with 0, gets as much time as any other"


def large(k) -> int:
    """A number of its own in memory, each time."""
    return int(f"1000{k:03}")


CASES = {  # what happens: ([(counts, now), …], what an answer has overlooked)
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


@tabled(
    lambda: [(history[: k + 1], PATIENCE) for history, _ in CASES.values()
             for k in range(len(history))]
)  # fmt: skip
def truth(looks, patience) -> list[int]:
    """After all these looks, from the whole history."""
    counts, now = looks[-1]
    silent = []
    for rank, count in counts.items():
        since = now
        for earlier, at in reversed(looks):
            if earlier.get(rank) != count:
                break
            since = at
        if now - since > patience:
            silent.append(rank)
    return sorted(silent)


# ---- Beside the answer ---


def looked(answer, watchers, looks, counts) -> tuple[list[Outcome], list[tuple]]:
    """Have watchers made, and look by them; up to the first call that raises.

    looks   [(the number of a watcher, its counts, now), …]
    counts  a dict that is changed to each of the counts; None: each look has a dict of its own
    Returns  what came of making them; and for each look what came of it, and its counts then
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


# ---- The cases ---


def examine(answer):
    case, looks = "two watchers", [(0, {0: 1}, 10.0), (1, {0: 1}, 12.0)]
    judge(case, there(looked, answer, 2, looks, None), looks, [([], FIRST), ([], SHARED)])
    yield f"{case}: each has its own time"
    for case, (history, why) in CASES.items():
        looks = [(0, *one) for one in history]
        wanted = [(truth(history[: k + 1], PATIENCE), why) for k in range(len(history))]
        judge(case, there(looked, answer, 1, looks, None), looks, wanted)
        yield f"{case}: {wanted[-1][0]}"
    case, looks = (
        "one dict, in which the counts change",
        [(0, {0: 2 + k, 1: 1}, 10 + 0.375 * k) for k in range(3)],
    )
    wanted = [([], ALIASED), ([], ALIASED), ([1], ALIASED)]
    judge(case, there(looked, answer, 1, looks, {}), looks, wanted)
    yield f"{case}: [1]"


def judge(case, came, looks, wanted):
    """came: what `looked` gives."""
    made, found = came
    for outcome in made:
        if outcome.error:
            raise Wrong(case, str(outcome), "Watcher(patience) is made with one number")
    for (_, counts, now), (outcome, after), (silent, why) in zip(looks, found, wanted):
        judge_look(case, (counts, now), outcome, silent, why)
        if after != counts:
            raise Wrong(case, f"the counts are now {after}", "silent() only looks at them")
    if len(found) != len(looks):
        raise Wrong(case, f"{len(found)} of {len(looks)} looks have told what came of it", NOT_TOLD)


def judge_look(case, given, outcome, wanted, why):
    counts, now = given
    got = outcome.value
    if outcome.error:
        raise Wrong(case, str(outcome), "")
    if got is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(got, list | tuple):
        raise Wrong(case, f"it returned {got!r:.40}", "asked is a list of ranks, such as [1]")
    if list(got) != wanted:
        what = f"at {now:g} s with counts {counts}: expected {wanted}, got {list(got)}"
        raise Wrong(case, what, ORDER if sorted(got) == wanted else why)


EXERCISE = Exercise(
    "4.7",
    "Watcher",
    examine,
    lab="finding_out",
    hints=(
        "What do you have to remember of each rank, from one look to the next?",
        "Its count, and when that count was first seen: self.changed[rank] = (count, now), "
        "whenever it is not the count of before, or the rank is new.",
        "Then silent is whoever has now - self.changed[rank][1] > self.patience.",
    ),
)  # fmt: skip
