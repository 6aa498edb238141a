"""The gradients of the model of branches.py at one place."""

import copy

from .branches import loss_along
from .gradients_on_ranks import gradients_of


def local_gradients(model, orders, place, step=0):
    """Return the summed gradients of some backwards at one place, whatever is in `.grad`."""
    twin = copy.deepcopy(model)
    twin.zero_grad()
    for order in orders:
        loss_along(twin, order, place, step).backward()
    return gradients_of(twin)
