"""The right results for one_process_reference.py, and the results of known mistakes."""

from functools import cache

import torch

from coursekit.kit.reference_training import equal_models

from .one_process_reference import OneProcess


@cache
def weights_alone(make, steps, first=0) -> dict[str, dict]:
    """Return the weights after each step: {"step 1": {name: weight}, …}.

    steps  (layers that take part, number of backwards) of each step
    first  number of the first step, which selects its samples
    """
    with torch.random.fork_rng(devices=()):
        (model,) = equal_models(1, make)
    alone, found = OneProcess(model), {}
    for number, (order, backwards) in enumerate(steps):
        model.order = order
        for backward in range(backwards):
            alone.learn(10 * (first + number) + backward)
        alone.step()
        found[f"step {number + 1}"] = alone.weights()
    return found
