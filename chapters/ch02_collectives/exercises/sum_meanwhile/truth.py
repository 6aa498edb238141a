"""The right results, and the results of known mistakes."""

from coursekit.kit import complains

from .cases import LARGE, result_of, tensor_of

WAITS_FIRST = (
    "it waits for the sum before it calls compute(), so that nothing is computed while the message "
    "travels. Begin the sum with async_op=True, compute, and wait after that"
)
BEGINS_LATE = (
    "compute() runs before the sum has begun: the other ranks wait for this rank, and nothing "
    "travels while it computes. Begin the sum first"
)


def total(trial, place):
    return sum(tensor_of(k, trial.case) for k in range(trial.n))


def mistakes_of_sum(trial, place):
    own, whole = tensor_of(place, trial.case), total(trial, place)
    return {
        "x is still what this rank had: the sum has to end up in x itself": own,
        "this is the mean over the ranks, and the sum is asked": (whole / trial.n).to(own.dtype),
        "x has been added up twice: one all-reduce is enough": whole * trial.n,
    }


def result(trial, place):
    return result_of(place, trial.case)


def mistakes_of_result(trial, place):
    return {
        "nothing was returned: return what compute() has returned": None,
        "this is x: the sum stays in x, and what compute() has returned is to be returned": total(
            trial, place
        ),
        "x is returned, too: what compute() has returned is enough": (
            total(trial, place),
            result(trial, place),
        ),
    }


@complains
def need_overlap(trial):
    """Complain if the watched rank did not compute while the sum was under way."""
    watched = trial.case.args[2]
    if watched is None:
        return
    first = trial.name_of_rank(watched)
    for place, of in enumerate(trial.found):
        if place != watched and not of.computes_first:
            yield f"{first} does not call compute() while the other ranks have yet to come", (
                WAITS_FIRST
            )  # fmt: skip
    if not getattr(trial[watched], "has_begun", True):
        yield f"the other ranks get no sum as long as {first} computes", BEGINS_LATE


@complains
def one_all_reduce(trial):
    """Complain about another call or dtype, for which the other ranks would wait in vain."""
    for place, calls in enumerate(trial.calls):
        name, others = trial.name_of_rank(place), [c.name for c in calls if c.name != "all_reduce"]
        if others:
            why = "make one all-reduce of x, and no other call"
            yield f"{name} makes a call of {others[0]}", why
        x = tensor_of(place, trial.case)
        if len(calls) == 1 and calls[0].tensor_bytes != x.nbytes:
            yield (
                f"{name} sums {calls[0].tensor_bytes} bytes, and x has {x.nbytes}",
                ("x is summed in another dtype than it has: sum x itself, or a clone of it"),
            )


def most_bytes(trial, place):
    shape = trial.case.args[0]
    return shape == (LARGE,) and 2 * (1 - 1 / trial.n) * 8 * LARGE
