"""Modes that a program does not notice, by private names of torch's dispatcher.

Seen to work with torch 2.11 to 2.13. Private: torch._C, `_mode_key`, and what the comments name.
"""

import functools

import torch
from torch.utils._pytree import tree_leaves

from .torch_private import OperatorMode

# How many modes of this thread see operators, and how many see functions.
count_modes = torch._C._len_torch_dispatch_stack
count_function_modes = torch._C._len_torch_function_stack

# A context in which neither modes nor subclasses see functions.
unseen_as_functions = torch._C.DisableTorchFunction

# Whether a transform of torch.func, such as vmap, wraps a tensor.
is_wrapped_by_func = torch._C._functorch.is_functorch_wrapped_tensor

KERNELS = {"cpu": torch._C.DispatchKey.CPU, "cuda": torch._C.DispatchKey.CUDA}


class QuietMode(OperatorMode):
    """A mode that receives what reaches torch's kernels, and that a program does not notice.

    It lies below the program's own modes, even those entered before, so that they see the same
    operators as without it. It may be left before modes that were entered after it. Private: the
    attributes by which torch asks what a mode allows, and the flags that torch's `__enter__` sets,
    which stay as they are.
    """

    supports_higher_order_operators = True  # such as torch.cond and flex_attention

    @classmethod
    def ignore_compile_internals(cls):
        return True  # torch.compile compiles, instead of running everything as it is

    def __enter__(self):
        replace_modes([self, *list_modes()])

    def __exit__(self, *error):
        replace_modes([mode for mode in list_modes() if mode is not self])

    def run_seen(self, operator, args, kwargs):
        """Run an operator that takes functions, and see the operators inside if that is possible.

        Where other modes are below, or a class of tensors receives operators, those say how it
        runs, and some refuse to run below a mode. Return whether it could, too.
        Private: `dispatch` of such an operator, which runs the kernel of a key, and the refusal.
        """
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        key = KERNELS.get(tensors[0].device.type) if tensors else None
        if key is None or count_modes() or any(map(receives_operators, map(type, tensors))):
            return operator(*args, **kwargs), False
        try:
            with self:
                return operator.dispatch(key, *args, **kwargs), True
        except AssertionError as error:  # before it has done anything
            if "Mode should never be enabled" not in str(error):
                raise
        return operator(*args, **kwargs), False


@functools.cache
def receives_operators(kind) -> bool:
    """Return whether a class of tensors itself defines what operators do to them."""
    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def list_modes() -> list:
    """Return the modes of this thread, without torch's own, which are always below."""
    stack = map(torch._C._get_dispatch_stack_at, range(count_modes()))
    return [mode for mode in stack if getattr(mode, "_mode_key", None) is None]


def replace_modes(modes):
    for _ in list_modes():
        torch._C._pop_torch_dispatch_stack(None)
    for mode in modes:
        torch._C._push_on_torch_dispatch_stack(mode)
