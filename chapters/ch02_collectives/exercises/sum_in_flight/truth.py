"""The right results, and the results of known mistakes."""

from coursekit.kit import complains
from pedagogy_lib.basics.units import format_count

from .cases import LARGE, tensors_of

ONE_BY_ONE = (
    "each sum is waited for before the next one begins, so that they do not overlap. Begin all of "
    "them, keep their Works in a list, and wait after that"
)


def given(trial, place):
    return tensors_of(place, trial.case)


def sums(trial, place):
    return [sum(of_ranks) for of_ranks in zip(*(given(trial, k) for k in range(trial.n)))]


def mistakes(trial, place):
    right, own = sums(trial, place), given(trial, place)
    return {
        "every entry is the last sum: the list holds one buffer again and again. Each sum needs "
        "its own tensor": [right[-1]] * len(right) if right else None,
        "these are the rank's own tensors: nothing has been added to them": own,
        "these are the means, and the sums are asked": [x / trial.n for x in right],
        "this is one sum: return a list with one sum for each tensor": right[-1] if right else None,
        "the shapes are lost: each sum has the shape of its tensor": [x.flatten() for x in right],
        "a tensor without numbers has a sum without numbers: keep its place in the list": [
            x for x in right if x.numel()
        ],
        "nothing was returned: return the list of the sums": None,
        "the sums are in the opposite order": right[::-1],
    }


def mistakes_of_given(trial, place):
    return {
        "the tensors themselves have been added up. Make a new tensor for each sum, such as "
        "x.clone()": sums(trial, place),
    }


@complains
def all_in_flight(trial):
    """Complain if sums were not under way at the same time."""
    number = len(trial.case.args[0])
    needed = sum(0 not in shape for shape in trial.case.args[0])
    for place, of in enumerate(trial):
        calls = len(trial.calls[place])
        if calls not in (number, needed):
            told = format_count(calls, "call")
            yield f"{trial.name_of_rank(place)} makes {told} for {number} tensors", (
                "each tensor is added up by its own all-reduce, and once"
            )  # fmt: skip
        if of.most < needed:
            what = f"at most {of.most} of {number} sums are under way at the same time"
            yield f"{trial.name_of_rank(place)}: the sums are right, but {what}", ONE_BY_ONE


def most_bytes(trial, place):
    return trial.case.args[0] == LARGE and 2 * (1 - 1 / trial.n) * 8 * sum(n for (n,) in LARGE)
