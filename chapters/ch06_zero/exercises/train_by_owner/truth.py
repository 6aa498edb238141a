"""The right results, and the results of known mistakes."""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch.func import functional_call

from coursekit.kit import Wrong
from coursekit.kit.diagnoses import ranks_text

from ..shared.broken_zero_truth import FRESH, MIXES, train_alone
from .cases import ConditionalLayers, batches_of, weights_of


def slopes_of(rank, parameters, step, layers, known=None):
    """Return the gradients of a rank in a step, None for unused parameters.

    known  names of the parameters whose new values each rank has; others keep their first values
    """
    inputs, targets = batches_of(rank)[step]
    weights = {
        name: p if known is None or name in known[rank] else first.requires_grad_()
        for p, (name, first) in zip(parameters, weights_of(ConditionalLayers(layers)).items())
    }
    loss = F.mse_loss(functional_call(ConditionalLayers(layers), weights, inputs), targets)
    return torch.autograd.grad(loss, list(weights.values()), allow_unused=True)


@cache
def train(n, optimizer, steps, layers, known=None, **how):
    """Return {name: weight after the last step}."""
    start = weights_of(ConditionalLayers(layers))
    slopes = partial(slopes_of, layers=layers, known=known)
    return dict(zip(start, train_alone(start.values(), slopes, n, steps, optimizer, **how)))


def right(trial, place):
    return train(trial.n, *trial.case.args)


def mistakes(trial, place):
    wanted, first = right(trial, place), weights_of(ConditionalLayers(trial.case.args[-1]))
    wrong = partial(train, trial.n, *trial.case.args)

    def mix_weights(rank):
        """Return the new weights that a rank has trained, and the old ones of all others."""
        return {name: (wanted if name in trial[rank].held else first)[name] for name in wanted}

    return {
        "it never changes, on any rank: it is not updated, or overwritten by what it was before. "
        "Who has the new numbers is who has to send them": mix_weights(0),
        "its owner has updated it, and nobody tells the others": mix_weights(place),
        "each rank has followed its own gradient: they differ, and so do the weights now":
            wrong(mix=OF_RANK[place]),
        **{why: wrong(mix=mix) for why, mix in MIXES.items()},
        "a layer that is not used in a step has no gradient in it, not one of zeros: an optimizer "
        "that has a state moves a parameter on zeros, too, and counts the step. Who puts zeros "
        "there?": wrong(unused=torch.zeros_like),
        FRESH: wrong(fresh=True),
        "gradients are those of old weights: on each rank, weights of other owners have stayed as "
        "they were in the beginning. The next forward needs what their owners have made of them":
            wrong(known=tuple(map(tuple, trial.collect_values("held")))),
    }  # fmt: skip


OF_RANK = [lambda owner, of, k=k: of[k] for k in range(4)]

ANEW = (
    "{} has had an optimizer, and gets a new one in a later step, without the state of the steps "
    "before"
)

ONE_OWNER = "the owner alone is to have the optimizer's state for a parameter"


def need_one_owner(trial):
    """Raise `Wrong` if several ranks, but not all, have state for the same parameter."""
    held = trial.collect_values("held")
    for name in sorted(set().union(*held)):
        owners = [rank for rank in range(trial.n) if name in held[rank]]
        if len(owners) > 1 and not all(of == held[0] for of in held):
            why = (
                f"{ONE_OWNER}. Here that of some steps may be on one rank, and that of others on "
                "another"
            )
            anew = next((new[0] for new in trial.collect_values("anew") if new), None)
            why += f". Besides, {ANEW.format(anew)}" if anew else ""
            what = f"{ranks_text(owners)} have optimizer state for {name}"
            raise Wrong(str(trial.case), what, why)


def need_shared(trial):
    """Raise `Wrong` unless the optimizer state is shared out among the ranks; return its counts."""
    held = trial.collect_values("held")
    parameters = len(weights_of(ConditionalLayers(trial.case.args[-1])))
    counts = f"parameters with state on each rank: {', '.join(str(len(of)) for of in held)}"
    if all(of == held[0] for of in held):
        what = "every rank has optimizer state for all parameters"
        raise Wrong(str(trial.case), what, (
            f"the weights are right, but nothing is saved: {ONE_OWNER}. It comes into being in the "
            "first step() with a gradient"
        ))  # fmt: skip
    if sum(map(bool, held)) < min(trial.n, parameters):
        why = "the ranks are to own parameters in turn: so each has about as many"
        raise Wrong(str(trial.case), counts, why)
    return f"{trial.case}: {counts}"
