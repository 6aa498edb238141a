"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.facts import ROUNDED
from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import compare
from .chunked_losses_truth import compute_loss_and_gradients, wrong_ones


def compute_known_values(case, place) -> dict:
    if case.work is not compare:
        return {}
    with torch.random.fork_rng(devices=[]):
        right = compute_loss_and_gradients(*case.args)
        return {"right": right, "wrong": wrong_ones(right, *case.args)}


def make_mistake_lookup(name):
    return lambda trial, place: {
        why: each[name] for why, each in trial[place].wrong.items() if why in distinct(trial, name)
    }


def distinct(trial, name) -> list:
    """Return the mistakes that change this value; some of them leave the loss right."""
    wrong, right = trial[0].wrong, trial[0].right[name]
    return [why for why, each in wrong.items() if differs(each[name], right)]


def differs(a, b) -> bool:
    if isinstance(a, dict):
        return any(differs(a[key], b[key]) for key in b)
    return a is None or b is None or not torch.allclose(a, b)


KEPT = (
    "the logits of all chunks are there at once, or what cross_entropy has made of them: the graph "
    "of a chunk keeps it until its backward. Go back through each chunk before the next one is "
    "computed"
)


def why_other_rows(trial, place) -> str:
    """Return the diagnosis for chunks of another size."""
    if trial[place].rows[0] == trial.case.args[0]:
        return f"these are all positions. {KEPT[0].upper()}{KEPT[1:]}"
    return "`size` is how many positions a chunk has; it is not the number of chunks"


def why_no_loss(trial) -> str:
    """Return the diagnosis for a loss that no known mistake gives."""
    got, right = trial[0].loss, trial[0].right["loss"]
    if got is None:
        return NO_RETURN
    if not isinstance(got, torch.Tensor):
        return "one number is asked: the mean loss"
    if close_in_float32(got, right):
        return ROUNDED
    return "the loss is the mean over all positions, whatever chunk they are in"
