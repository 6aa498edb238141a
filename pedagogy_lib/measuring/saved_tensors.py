"""The tensors that autograd saves for the backward, packed and unpacked by saved-tensor hooks."""

import functools
import re
import warnings

import torch

from ..basics.quiet_hooks import inputs_of_functions, without_hooks
from ..basics.torch_private import unseen_by_modes, version_of


class SavedTensor:
    """A tensor that an autograd node saves for the backward.

    node      the class of the node whose output it is, or None
    output    which of the node's outputs it is
    original  whether `tensor` is the very tensor that was saved
    unpack    the program's own hook, if it has registered one
    storages  the tracker's references to its storages
    let_go    called with `storages` when the node no longer saves it
    """

    __slots__ = ("let_go", "node", "original", "output", "storages", "tensor", "unpack", "version")

    def __init__(self, tensor, let_go):
        self.storages, self.let_go, self.unpack = [], let_go, None
        self.tensor, self.version, node = tensor, version_of(tensor), tensor.grad_fn
        self.node, self.original = None, True
        if node is not None:
            self.node, self.output = type(node), tensor.output_nr
            self.original = tensor in inputs_of_functions
            if not self.original:
                self.tensor = detach(tensor)

    def __del__(self):
        self.let_go(self.storages)


def detach(tensor):
    """Detach a tensor: a node that saves its own output would keep itself alive forever."""
    if type(tensor) is not torch.Tensor:
        try:
            return tensor.detach()
        except Exception:  # its class does not know how
            return tensor
    with unseen_by_modes():
        return tensor.detach()


def find_original(packed):
    """Return the tensor that was packed, if it is the very one, and otherwise None."""
    is_it = isinstance(packed, SavedTensor) and packed.original and packed.unpack is None
    return packed.tensor if is_it else None


def replace_hooks(packed, pack, unpack) -> bool:
    """Pack a saved tensor with the program's hooks, unless it has been packed so before."""
    if not isinstance(packed, SavedTensor) or packed.unpack is not None:
        return False
    packed.tensor, packed.unpack = pack(packed.tensor), unpack
    return True


def restore(saved):
    """Return a saved tensor, after the check that autograd makes when there are no hooks."""
    if not isinstance(saved, SavedTensor):  # the tracker could not follow it
        return saved
    if saved.unpack is not None:
        return saved.unpack(saved.tensor)
    if version_of(saved.tensor) != saved.version:
        raise RuntimeError(describe_change(saved))
    return saved.tensor


def describe_change(saved) -> str:
    """Return torch's message on a saved tensor that has been modified in place."""
    torchs, tensor = ask_torch(torch.is_anomaly_enabled()), saved.tensor
    names_node = re.search("Exp(Backward0)?", torchs)
    if saved.node is None:
        torchs = re.sub(r", which is output 0 of \w+,", "", torchs)
    elif names_node:
        name = saved.node.__name__
        name = name if names_node[1] else re.sub(r"Backward\d*$", "", name)
        torchs = torchs.replace(f"output 0 of {names_node[0]}", f"output {saved.output} of {name}")
    torchs = torchs.replace("[torch.FloatTensor []]", f"[{tensor.type()} {list(tensor.shape)}]")
    return torchs.replace(
        "version 1; expected version 0",
        f"version {version_of(tensor)}; expected version {saved.version}",
    )


@functools.cache
def ask_torch(_anomaly) -> str:
    """Return the message that torch has for exp()'s result, a number, modified once."""
    with torch.enable_grad(), without_hooks(), unseen_by_modes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in anomaly mode, torch also shows where exp() was called
        y = torch.ones((), requires_grad=True).exp()
        try:
            y.add_(1).backward()
        except RuntimeError as error:
            return str(error)
