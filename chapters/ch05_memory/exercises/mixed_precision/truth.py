"""The right results, and the results of known mistakes."""

from functools import cache

from coursekit.kit.single_rank import run_on_one_rank

from .cases import TRIALS, make_parameters, train, train_in_float32, values_of


def compute_known_values(case, place) -> dict:
    return compute_all_known_values()[str(case)] if case.work is train else {}


@cache
def compute_all_known_values() -> dict:
    return run_on_one_rank(lambda: {name: train_by_ourselves(*of) for name, of in TRIALS.items()})


def train_by_ourselves(*trial) -> dict:
    """Return the values of an ordinary training run and of its mistaken variants."""
    return {
        "start": values_of(make_parameters(trial[0])),
        "ordinary": train_in_float32(*trial),
        "recreated": train_in_float32(*trial, recreate=True),
        "with_zeros": train_in_float32(*trial, zeros=True),
    }


def mistakes(trial, place):
    of = trial[place]
    unmoved = (
        "the masters are right, but the parameters do not get them: write into the parameters, "
        "which the model holds. A new tensor with a name of its own changes no "
        "model"
        if of.is_moved
        else "the optimizer steps, but the masters that it was given at first do not move: their "
        "`.grad` is None when it steps, or others have been made since"
    )
    return {
        "the parameters get the masters as they were before the optimizer's step: first step, then "
        "round": [of.start, *of.ordinary[:-1]],
        unmoved: [of.start] * len(of.steps),
        "the masters are made anew from the rounded parameters: what rounding has lost stays lost, "
        "as if there were none. Copy once, in __init__; from then on a master changes by steps "
        "alone": of.recreated,
        "a parameter without a gradient has moved. Zeros are a gradient: an optimizer with a "
        "memory goes on moving then. With None it passes over the parameter: its master's `.grad` "
        "is None, too": of.with_zeros,
    }  # fmt: skip


def describe_result(trial) -> str:
    of = trial[0]
    if trial.collect_values("in_step"):
        return f"in a step with Adam at most {of.in_step:.1f}"
    if "small" not in str(trial.case):
        return f"after each of {len(of.steps)} steps the parameters are the rounded masters"
    first, last = (values["parameter 0"][0, 0] for values in (of.start, of.value_after[-1]))
    return f"{first:g} has become {last:g}; without masters it would still be {first:g}"


NO_PAIR = (
    "masters and parameters do not belong together: each parameter has its master at the same "
    "place of the list, a frozen one as well"
)
