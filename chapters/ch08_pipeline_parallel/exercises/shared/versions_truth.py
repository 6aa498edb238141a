"""The right results for versions.py, and the results of known mistakes.

The truth is a list of versions, and a function of weights and input.
"""

from functools import cache
from types import SimpleNamespace

import torch

from .versions import (
    BATCHES,
    LR,
    SCRIPTS,
    actions_of,
    input_of,
    loss_of,
    piece_of,
    places_of,
    slope_of,
    target_of,
)


def weights_of(place) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in piece_of(place).named_parameters()}


def output_of(weights, x):
    """Return the output of a piece with these weights for the input x."""
    if "0.bias" in weights:
        hidden = x @ weights["0.weight"].T + weights["0.bias"]
    else:
        hidden = weights["0.weight"][x]
    return torch.tanh(hidden) @ weights["2.weight"].T + weights["2.bias"]


def both_ways(place, weights, i):
    """Return micro-batch i's output, its input's gradient (None for letters), and the weights'."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    x = input_of(place, i)
    inputs = [x.requires_grad_()] if x.is_floating_point() else []
    y = output_of(leaves, x)
    y = loss_of(y) if place == "last" else y
    total = y if place == "last" else (y * slope_of(i)).sum()
    found = torch.autograd.grad(total, [*leaves.values(), *inputs])
    return y.detach(), found[-1] if inputs else None, dict(zip(leaves, found))


@cache
def replay_script(place, back="began", adds=False, step=-LR) -> SimpleNamespace:
    """Return the right results of a stage's script, or the results of a misconception.

    back  the weights of a backward: those that its micro-batch "began" with, or the "newest"
    adds  whether the gradients of one version's micro-batches add up
    """
    versions, began, sums = [weights_of(place)], {}, {}
    found = SimpleNamespace(outputs={}, slopes={}, weights=[], delays=[], most_versions=1)
    for kind, i, _ in actions_of(SCRIPTS[place]):
        newest = len(versions) - 1
        if kind == "F":
            began[i] = newest
            found.outputs[f"F{i}"] = both_ways(place, versions[newest], i)[0]
            in_use = {newest, *began.values()}
            found.most_versions = max(found.most_versions, len(in_use))
            continue
        version = began.pop(i)
        through = versions[version if back == "began" else newest]
        _, found.slopes[f"B{i}"], gradients = both_ways(place, through, i)
        if adds:
            gradients = sums[version] = plus(
                gradients, sums.get(version, gradients), version in sums
            )
        versions.append(plus(versions[newest], gradients, step))
        found.weights.append(versions[-1])
        found.delays.append(newest - version)
    return found


def plus(a, b, factor=1) -> dict[str, torch.Tensor]:
    return {name: a[name] + factor * b[name] for name in a}


@cache
def pipeline_by_hand(n) -> list[SimpleNamespace]:
    """Return each stage's last weights, delays, versions and losses in a pipeline without a flush.

    On stage s micro-batch i goes through the version that i - (n - 1 - s) micro-batches have made.
    """
    places = places_of(n)
    stages = [[weights_of(place)] for place in places]
    losses = []
    for i in range(BATCHES):
        late = [min(i, n - 1 - s) for s in range(n)]
        used = [{name: w.clone().requires_grad_() for name, w in versions[i - d].items()}
                for versions, d in zip(stages, late)]  # fmt: skip
        x = input_of("first", i)
        for weights in used:
            x = output_of(weights, x)
        loss = loss_of(x, target_of(i))
        losses.append(loss.item())
        found = iter(torch.autograd.grad(loss, [w for weights in used for w in weights.values()]))
        for versions, weights in zip(stages, used):
            versions.append(plus(versions[-1], {name: next(found) for name in weights}, -LR))
    return [
        SimpleNamespace(weights=[versions[-1]], delays=[min(i, n - 1 - s) for i in range(BATCHES)],
                        most_versions=n - s, losses=losses if s == n - 1 else [])
        for s, versions in enumerate(stages)
    ]  # fmt: skip


def truth_of(name):
    """Return a function for a fact that gives the right value under a name."""

    def truth(trial, place):
        args = trial.case.args
        right = replay_script(args[0]) if args else pipeline_by_hand(trial.n)[place]
        return getattr(right, name)

    return truth
