"""The tensors that autograd saves for the backward, packed and unpacked by saved-tensor hooks."""

import torch

from ..basics.torch_private import unseen_by_modes, version_of

MODIFIED_MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: {} is at version {}; expected version {} instead."
)


class SavedTensor:
    """A tensor that an autograd node saves for the backward.

    storages  the tracker's references to its storages
    let_go    called with `storages` when the node no longer saves it
    """

    __slots__ = ("let_go", "storages", "tensor", "version")

    def __init__(self, tensor, storages, let_go):
        self.tensor, self.version = detach_tensor(tensor), version_of(tensor)
        self.storages, self.let_go = storages, let_go

    def __del__(self):
        self.let_go(self.storages)


def detach_tensor(tensor):
    """Detach a tensor: a node that saves its own output would keep itself alive forever."""
    if tensor.is_leaf:
        return tensor
    if type(tensor) is not torch.Tensor:
        return tensor.detach()
    with unseen_by_modes():  # quicker, as the tracker does not see it
        return tensor.detach()


def restore(saved):
    """Return a saved tensor, after the check that autograd makes when there are no hooks."""
    tensor, version = saved.tensor, version_of(saved.tensor)
    if version != saved.version:
        name = f"[{tensor.type()} {list(tensor.shape)}]"
        raise RuntimeError(MODIFIED_MESSAGE.format(name, version, saved.version))
    return tensor
