"""The right results, and the results of known mistakes."""

from functools import cache

from coursekit.kit import complains, first_true
from coursekit.kit.reference_training import state_of
from pedagogy_lib.basics.errors import HangError

from ..shared.branches import loss_along
from ..shared.branches_truth import local_gradients
from ..shared.gradients_on_ranks import descend
from ..shared.mean_gradients import mean_of, mistakes_of_mean
from .bucket_watch import OVER, select_events
from .cases import ANY_ORDER, model_for


def compute_known(case, place) -> dict:
    """Return a rank's initial state, its own first gradients and the weights of one process."""
    steps, _ = case.args
    model, first = model_for(steps), [orders[place] for orders in steps[0]]
    found = {"before": state_of(model), "local": local_gradients(model, first, place)}
    return found | {"alone": weights_alone(steps, len(case.ranks))}


@cache
def weights_alone(steps, n) -> dict:
    model = model_for(steps)
    for number, step in enumerate(steps):
        for place in range(n):
            for orders in step:
                (loss_along(model, orders[place], place, number) / n).backward()
        descend(model)
    return state_of(model)


LEFT_OVER = (
    "a parameter may have had no part in the loss, perhaps on one rank alone: then its bucket is "
    "left over when the backward ends. finish() has to begin it, with zeros for what is missing, "
    "so that all ranks begin all buckets in every step"
)


@complains
def buckets_in_time(trial):
    """Complain unless each bucket begins when it can and is waited for after the backward."""
    _, is_watched = trial.case.args
    for place, of in enumerate(trial if is_watched else ()):
        for number, events in enumerate(of.events):
            where = f"{trial.name_of_rank(place)}, step {number + 1}"
            if not select_events(events, "begin"):
                yield f"{where}: self.all_reduce has not been called", why_not_begun(trial, number)
            for what, why in what_is_late(events, of.names):
                yield f"{where}: {what}", why


def why_not_begun(trial, number) -> str:
    return first_true({
        "one step is right, and in the next one nothing begins: for DDP all buckets have begun "
        "already, in the step before. finish() has to end with a new start": number > 0,
        "dist.all_reduce is called, and the argument `all_reduce` of DDP is of no use: begin with "
        "self.all_reduce(flat, self.group), which returns a function that waits":
            any(call.name == "all_reduce" for calls in trial.calls for call in calls),
        "nothing is ever begun: is_ready strikes a parameter off self.missing, and begins what is "
        "complete; finish() begins the others": True,
    })  # fmt: skip


def what_is_late(events, names):
    """Yield (error, diagnosis) for buckets that begin, or are waited for, at a wrong time."""
    in_backward, count = events[: events.index(OVER)], len(names)
    begun, wanted = begins_of(in_backward, names)
    for early in select_events(in_backward, "wait"):
        yield f"the backward is held up, waiting for bucket {early}", (
            "the numbers may be right, but nothing overlaps: is_ready begins a bucket and waits "
            "for it, and the backward stands still meanwhile. Keep the function that waits; "
            "finish() calls it"
        )  # fmt: skip
    if begun != wanted:
        begins = f"buckets begin after {join_counts(begun)} gradients are ready"
        why = why_begun_then(begun, wanted, find_completions(in_backward, names))
        yield f"{begins}; expected after {join_counts(wanted)}", why
    for never_begun in range(len(select_events(events, "begin")), count):
        yield f"bucket {never_begun} of {count} has never begun", LEFT_OVER
    for forgotten in sorted({*range(count)} - {*select_events(events, "wait")}):
        yield f"nobody has waited for bucket {forgotten}", (
            "self.all_reduce returns a function. Until that has been called and has returned, "
            "nobody may count on what is in the flat tensor: finish() calls it for each bucket"
        )  # fmt: skip


def begins_of(events, names) -> tuple[list[int], list[int]]:
    """Return the number of ready gradients when each bucket began, and when it could begin."""
    ready, begun, wanted = set(), [], []
    for event, what in events:
        if event == "begin":
            begun.append(len(ready))
        if event == "ready":
            ready.add(what)
            while len(wanted) < len(names) and set(names[len(wanted)]) <= ready:
                wanted.append(len(ready))
    return begun, wanted


def find_completions(events, names) -> list[int]:
    """Return the sorted numbers of ready gradients at which any bucket was complete."""
    at = {name: number for number, name in enumerate(select_events(events, "ready"), 1)}
    return sorted(max(map(at.get, bucket)) for bucket in names if at.keys() >= {*bucket})


def join_counts(begun) -> str:
    return ", ".join(map(str, begun)) or "none"


def why_begun_then(begun, wanted, completed) -> str:
    return first_true({
        "all buckets begin after the backward: nothing overlaps. Whenever a gradient is ready, "
        "is_ready looks whether the next bucket is complete, and begins it": not begun,
        "whenever some bucket is complete, the next one begins, and that may be another one, which "
        "still lacks gradients. The one that begins has to be complete": begun == completed,
        "a bucket begins before its last gradient is ready: what is sent lacks something. It is "
        "complete when nothing is left in its set in self.missing. Only gradients count that "
        "became ready while synchronizing was True":
            len(begun) > len(wanted) or any(b < w for b, w in zip(begun, wanted)),
        "a bucket that is complete is kept back. When one begins, those after it may have been "
        "complete for long, and have only waited for their turn: go on as long as the next one is "
        "complete (while, not if)": True,
    })  # fmt: skip


@complains
def one_call_for_each_bucket(trial):
    count = len(trial[0].names) * len(trial.case.args[0])
    for place, calls in enumerate(trial.calls):
        kinds = {call.name for call in calls}
        if kinds != {"all_reduce"} or len(calls) != count:
            made = f"{len(calls)} calls for {count} buckets, {', '.join(sorted(kinds))}"
            why = "one all-reduce for each bucket is enough, and it is self.all_reduce"
            yield f"{trial.name_of_rank(place)} makes {made}", why


def mistakes(trial, place):
    return {
        "the flat tensor is used while it is still under way. What is in it counts when the "
        "function that waits has returned: wait, then divide, then put it into `.grad`":
            {name: x * 0 if x is not None else None for name, x in mean_of(trial, place).items()},
    } | mistakes_of_mean(trial, place)  # fmt: skip


def why_lost(case, error) -> str:
    return LEFT_OVER if isinstance(error, HangError) and case.args[0] == ANY_ORDER else ""
