"""The ranks that have been silent for too long, by counts that change or not, and one clock."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit.rank_trials import NOT_TOLD
from coursekit.kit.results import NO_RETURN
from coursekit.protocol import Exercise, Wrong

from .cases import CASES, FIRST, ORDER, PATIENCE, run_watchers
from .truth import truth

ALIASED = (
    "the watcher has kept the dict that it was given, and the caller has written new counts into "
    "it. So it compares the dict with itself: keep each count by itself, or a copy of the dict"
)

SHARED = (
    "two watchers know of each other: what is set in the class belongs to all of them. Set it in "
    "__init__, on self"
)


def examine(answer):
    case, looks = "two watchers", [(0, {0: 1}, 10.0), (1, {0: 1}, 12.0)]
    judge(
        case,
        call_next_to_answer(run_watchers, answer, 2, looks, None),
        looks,
        [([], FIRST), ([], SHARED)],
    )
    yield f"{case}: each has its own time"
    for case, (history, why) in CASES.items():
        looks = [(0, *one) for one in history]
        wanted = [(truth(history[: k + 1], PATIENCE), why) for k in range(len(history))]
        judge(case, call_next_to_answer(run_watchers, answer, 1, looks, None), looks, wanted)
        yield f"{case}: {wanted[-1][0]}"
    case = "one dict, in which the counts change"
    looks = [(0, {0: 2 + k, 1: 1}, 10 + 0.375 * k) for k in range(3)]
    wanted = [([], ALIASED), ([], ALIASED), ([1], ALIASED)]
    judge(case, call_next_to_answer(run_watchers, answer, 1, looks, {}), looks, wanted)
    yield f"{case}: [1]"


def judge(case, came, looks, wanted):
    """Raise `Wrong` unless `came`, the result of `run_watchers`, is the wanted one."""
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
