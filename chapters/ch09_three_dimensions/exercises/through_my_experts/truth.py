"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.results import NOT_ITS_OWN
from pedagogy_lib.basics.closeness import close

from .cases import Mlps, gradients_of, make_loss, rows_of

CUT_OFF = (
    "what came back has no history that leads to the rows, and to the exchange behind them. On "
    "this rank the backward never makes its all-to-all, and the others wait for it"
)

NO_GRADIENTS = (
    "the result does not come from the experts' weights: their .grad stays None on this rank. In "
    "the average over the copies, it has nothing to add up, and the others wait for it"
)

WRONG_GRADIENTS = (
    "only the way through the experts counts: what is added for its history alone has to add "
    "nothing, forward and backward"
)


def right_ones(counts):
    """Return the experts' outputs for the rows, and all gradients."""
    experts, leaf = Mlps(len(counts)), rows_of(counts).requires_grad_()
    y = experts(leaf, torch.tensor(counts))
    make_loss(y).backward()
    return y.detach(), gradients_of(experts, leaf)


def faults(trial):
    (counts,) = trial.case.args
    of = trial[0]
    wanted, gradients = right_ones(counts)
    if of.changed:
        yield "counts has changed", NOT_ITS_OWN
    if of.y.shape != wanted.shape:
        yield f"expected the shape {list(wanted.shape)}, got {list(of.y.shape)}", ""
    elif not close(of.y, wanted):
        yield "the rows are not what the experts make of them", ""
    if of.cut_off or not of.reached:
        yield "no gradient comes back to the rows", CUT_OFF
    if of.missing:
        yield f"no gradient for the experts' {' and '.join(of.missing)}", NO_GRADIENTS
    for name, right in gradients.items():
        got = getattr(of, "gradients", {}).get(name)
        if got is None or not close(got, right):
            yield f"the gradient of {name} is not that of the experts", WRONG_GRADIENTS
