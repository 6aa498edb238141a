"""Saved-tensor hooks that a program does not notice, by private names of torch's autograd.

Seen to work with torch 2.11 to 2.13. Private: torch._C._autograd, with which all of torch pushes,
pops, disables and enables hooks; that torch itself enters its hooks by
saved_tensors_hooks.__enter__; and that these consist only of `pack_hook` and `unpack_hook`.
"""

import contextlib
import threading
import weakref

import torch
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.autograd.graph import saved_tensors_hooks

_autograd = torch._C._autograd


def find_innermost():
    """Return the pair of hooks (pack, unpack) that autograd would call now, or None."""
    return _autograd._top_saved_tensors_default_hooks(True)


class QuietHooks:
    """A context manager under which autograd calls a pair of hooks that a program does not notice.

    Where torch disables hooks, as inside torch.func, these are not called, and raise no error.
    Other hooks, outside or inside the context, are replaced by `wrap(hooks)`, because autograd
    calls only the innermost. The context may be left before contexts that were entered inside it.
    """

    def __init__(self, pack, unpack, wrap):
        self.own, self.wrap, self.pushed = saved_tensors_hooks(pack, unpack), wrap, None

    def __enter__(self):
        outer = find_innermost()
        hooks = self.wrap(saved_tensors_hooks(*outer)) if outer else self.own
        with contextlib.suppress(RuntimeError):  # hooks are disabled here
            hooks.__enter__()
            self.pushed = hooks.pack_hook
        enter = self.enter = saved_tensors_hooks.__enter__
        saved_tensors_hooks.__enter__ = lambda hooks: enter(self.wrap(hooks))
        disable = self.disable = _autograd._saved_tensors_hooks_disable

        def disable_others(message, fail_if_non_empty=True):
            top = find_innermost()
            quiet = outer is None and top is not None and top[0] is self.pushed
            return disable(message, fail_if_non_empty and not quiet)

        _autograd._saved_tensors_hooks_disable = disable_others

    def __exit__(self, *error):
        saved_tensors_hooks.__enter__ = self.enter
        _autograd._saved_tensors_hooks_disable = self.disable
        inner = []
        while self.pushed is not None and (top := find_innermost()) is not None:
            _autograd._pop_saved_tensors_default_hooks()
            if top[0] is self.pushed:
                break
            inner.append(top)
        for hooks in reversed(inner):
            _autograd._push_saved_tensors_default_hooks(*hooks)
        self.pushed = None


@contextlib.contextmanager
def without_hooks():
    """Disable all hooks inside a `with`."""
    were_enabled = _autograd._saved_tensors_hooks_is_enabled()
    if were_enabled:
        _autograd._saved_tensors_hooks_disable("", False)
    try:
        yield
    finally:
        if were_enabled:
            _autograd._saved_tensors_hooks_enable()


class InputsOfFunctions(threading.local):
    """The tensors that a torch.autograd.Function of this thread has said last that it saves."""

    def __init__(self):
        self.context, self.tensors = lambda: None, {}

    def note(self, context, tensors):
        self.context = weakref.ref(context)
        self.tensors = {id(t): (weakref.ref(t), t._version) for t in tensors if is_inner(t)}

    def __contains__(self, tensor) -> bool:
        """Return whether the function saves `tensor`, and has not computed it."""
        if not (noted := self.tensors):
            return False
        reference, version = noted.get(id(tensor), (type(None), 0))
        saves = reference() is tensor and version == tensor._version
        return saves and tensor.grad_fn is not self.context()


def is_inner(tensor) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None


inputs_of_functions = InputsOfFunctions()


def hide_hooks(find_original, replace_hooks):
    """Let programs handle what hooks have packed as if there were no hooks.

    The backward of a torch.autograd.Function gets the very tensors that it has saved, because with
    hooks, autograd makes new ones, without the attributes and the class of the old ones. And hooks
    can be registered on a saved tensor, which may have only one pair. Private: the two classes of a
    Function's context, torch._C._autograd.SavedTensor, and `data` of a `_raw_saved_…`.

    find_original  returns the tensor behind what hooks have packed, or None
    replace_hooks  takes such a packed object, `pack` and `unpack`; returns whether it could
    """

    def save_for_backward(context, *tensors):
        save(context, *tensors)
        with contextlib.suppress(Exception):
            inputs_of_functions.note(context, tensors)

    def saved_tensors(context):
        tensors = get(context)
        originals = [find_original(raw.data) for raw in context._raw_saved_tensors]
        return tuple(t if one is None else one for t, one in zip(tensors, originals))

    def register_hooks(raw, pack, unpack):
        if not replace_hooks(raw.data, pack, unpack):
            register(raw, pack, unpack)

    save, get = FunctionCtx.save_for_backward, torch._C._FunctionBase.saved_tensors.__get__
    register = _autograd.SavedTensor.register_hooks
    FunctionCtx.save_for_backward = save_for_backward
    BackwardCFunction.saved_tensors = property(saved_tensors)
    _autograd.SavedTensor.register_hooks = register_hooks
