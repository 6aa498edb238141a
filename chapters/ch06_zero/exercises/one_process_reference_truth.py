"""What is right, and what mistakes give: see one_process_reference.py."""

from functools import cache

import torch

from coursekit.kit.reference_training import equal_models

from .one_process_reference import OneProcess


@cache
def weights_alone(make, steps, first=0) -> dict[str, dict]:
    """{"step 1": {name: weight}, …}

    steps  (the layers that take part, how many backwards there are) of each
    first  the number of the first step, from which its samples are drawn
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
