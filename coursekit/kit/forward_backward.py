"""Operations of several ranks, forward and backward: their results, and facts about them."""

from collections.abc import Callable
from functools import partial

import torch

from pedagogy_lib.basics.closeness import close, format_gap
from pedagogy_lib.basics.units import brief

from ..protocol import Rejection
from . import Equals, RankExercise, never
from .diagnoses import ranks_text
from .observed_calls import PASSED_BY, all_waited, note_bypassed
from .results import NO_RETURN

HANG = "every rank has to make the same calls in the same order, in the backward as well"

# ---- On a rank ---


def run_both_ways(call: Callable, leaves: dict, slope) -> dict:
    """Run a forward and a backward, and return {name: what was found}.

    call    returns y
    leaves  {name: a tensor from which y is computed}; the gradient of each is found
    slope   the loss's gradient with respect to y; there is no backward if y has another shape
    """
    before = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    with all_waited() as forward:
        y = call()
    need_tensor(y)
    found = {"y": y.detach().clone(), "constant": not y.requires_grad, "forward": forward.made}
    if y.shape == slope.shape and y.requires_grad:
        incoming = []
        y.register_hook(incoming.append)
        with note_bypassed() as passed, all_waited() as backward:
            (y * slope).sum().backward()  # y.backward(slope) would import sympy, for a second
        found |= {"backward": backward.made, "passed": passed,
                  "gradients": {name: leaf.grad for name, leaf in leaves.items()},
                  "slope_changed": not close(incoming, [slope.to(y.dtype)])}  # fmt: skip
    for leaf in leaves.values():
        leaf.grad = None
    changed = [name for name, leaf in leaves.items() if not torch.equal(leaf, before[name])]
    return found | {"changed": changed}


def autograd_function(answer):
    """Return the learner's autograd function; raise `Rejection` if it is something else now."""
    found = getattr(answer.lab, answer.__name__)
    if not isinstance(found, type) or not issubclass(found, torch.autograd.Function):
        why = f"it is to remain a class {answer.__name__}(torch.autograd.Function)"
        raise Rejection(
            f"{answer.__name__} is {type(found).__name__} now", f"{why}: the others call its apply"
        )
    return found


def need_tensor(y, who="the function"):
    if not isinstance(y, torch.Tensor):
        why = NO_RETURN if y is None else "asked is one tensor"
        raise Rejection(f"{who} returned {brief(y, 60)}", why)


# ---- Facts ---


def right(name, table, **how) -> Equals:
    """Return an `Equals` for a table of right values and mistakes.

    table  takes a trial and a place; returns the right value there, and a table of mistakes
    """
    return Equals(name, lambda *at: table(*at)[0], lambda *at: table(*at)[1], **how)


NOT_CONSTANT = never(
    "constant",
    "y.requires_grad is False",
    "y has no history: a backward cannot begin there. What is computed from x.detach(), from "
    "x.data, or under no_grad, is a constant for autograd",
)
ALL_KNOWN = never("passed", "torch warns of {0[0]} in the backward", PASSED_BY)


def which_gradients(table, trial, place) -> str:
    """Describe which gradients are wrong on which ranks, and how far common ones differ."""
    wanted = [table(trial, place)[0] for place in range(trial.n)]
    got = {name: [of.gradients[name] for of in trial] for name in wanted[0]}
    off = {name: [k for k, g in enumerate(got[name]) if not close(g, wanted[k][name])]
           for name in got}  # fmt: skip
    places = {name: ranks_text(ranks) for name, ranks in off.items() if ranks}
    wrong = "; of ".join(
        f"{', '.join(name for name in places if places[name] == ranks)} on {ranks}"
        for ranks in dict.fromkeys(places.values())
    )
    fine = ", ".join(name for name in got if name not in places)
    told = f"y is right. Wrong is the gradient of {wrong}; right is that of {fine or 'none'}"
    for name in places:
        here, there = got[name][0], got[name][-1]
        is_common = close(wanted[0][name], wanted[-1][name]) and None not in (here, there)
        if is_common and not close(here, there):
            last, gap = trial.n - 1, format_gap(here, there)
            return f"{told}. Ranks 0 and {last} differ in that of {name} by up to {gap}"
    return told


def ring_bytes(tensor_bytes, n) -> int:
    """Return the bytes that each rank sends in an all-reduce on a ring."""
    return 2 * (n - 1) * tensor_bytes // n


def make_reference_exercise(name, cases, prepare, y, gradients, needs, hints, more=()):
    """Return an exercise whose y and gradients must be those of one process, in two calls.

    prepare    takes the answer and the case; returns the arguments of `run_both_ways`
    y          a fact about y
    gradients  a table: see `right`
    more       further facts
    """

    def work(answer, group, case):
        prepared = prepare(answer, case)
        found, again = (run_both_ways(*prepared) for _ in range(2))
        if "gradients" in found:
            found["again"] = {"y": again["y"]} | again.get("gradients", {})
        return found

    def describe_trial(trial):
        forward, backward = len(trial[0].forward), len(trial[0].backward)
        count = f"y and {len(trial[0].gradients)} gradients are those of one process"
        return f"{count}; calls: {forward} forward, {backward} backward"

    facts = [
        never("changed", "{0[0]} has changed",
              "whoever calls the function still needs it as it was: change a copy, or make a new "
              "one"),
        NOT_CONSTANT,
        y,
        right("gradients", gradients, tells=partial(which_gradients, gradients)),
        Equals("again", lambda *at: {"y": y.truth(*at)} | gradients(*at)[0],
               called="the second time, that",
               otherwise="the first time it was right: what does a call leave behind? A hook on a "
               "parameter stays there, and the next call adds another one"),
        ALL_KNOWN,
        *more,
    ]  # fmt: skip
    errors = {
        "'tensor_parallel' is not defined": "run the cell with "
        'tensor_parallel = lab("tensor_parallel") first',
        "a leaf Variable": "an argument is changed in place: whoever calls the function still "
        "needs it",
        "cannot be multiplied": "a part is multiplied by what it does not fit. Who has which "
        "columns?",
    }
    return RankExercise(
        name, cases, work, facts, describe_trial, hints, errors=errors, on_hang=HANG, needs=needs
    )  # fmt: skip
