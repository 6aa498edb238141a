"""Exact bytes of live tensors by kind, over time.

A tensor's memory is its storage: views share one, and it lives until the last of them has gone.
While a block is measured, a dispatch mode sees every operation's outputs, a weak reference tells
when each storage is freed, and saved-tensor hooks tell what autograd saves for the backward. The
garbage collector finds the tensors that were alive before the block.

The kind that a storage turns out to have counts from its birth: the memory that Adam allocates in
its first step is optimizer state even before Adam has stored it as such.
"""

import contextlib
import functools
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..basics.torch_private import (
    NewParametersNoticed,
    OperatorMode,
    PackHookReplacement,
    ResizesWatched,
    hook_first,
)
from .bytes_of_calls import RULES, Call, calls_of, tensors_in
from .memory_log import KINDS, Log
from .reachable_tensors import Reachable, find_saved_tensors
from .saved_tensors import SavedTensor, restore
from .tensor_memory import (
    bytes_in_memory,
    is_of_parameter,
    owns_memory,
    plain_tensors,
    wraps_others,
)

PLAIN = (torch.Tensor,)


class StorageRef(weakref.ref):
    """A weak reference to a storage, which calls `on_free(tracked)` when the storage is freed."""

    __slots__ = ("changed", "key", "kind", "marked", "nbytes", "saved")
    __hash__, __eq__ = object.__hash__, object.__eq__  # by identity

    def __init__(self, storage, on_free):
        self.key, self.nbytes = id(storage), bytes_in_memory(storage)
        self.kind = "other"
        self.changed = False  # whether its kind has changed since the log began
        self.saved = 0  # how many autograd nodes save it
        self.marked = False  # whether the learner has said what it is


class MemoryTracker(OperatorMode):
    """A tracker of every storage and every communication call between `start` and `stop`."""

    def __init__(self):
        super().__init__()
        self.storages: dict[int, StorageRef] = {}
        self.log = Log()  # outside blocks, one that is never read
        self.calls: list[Call] = []
        self.active = False
        self.reachable = Reachable()
        self.instruments = (
            ResizesWatched(self.track_resize),
            NewParametersNoticed(self.note),
            self,
            saved_tensors_hooks(self.keep, restore),
            PackHookReplacement(self.wrap_hooks),  # entered last, to spare the tracker's own
        )

    def start(self):
        """Begin a log with everything that is alive now."""
        self.active = True
        self.gradient_hooks = {}  # by the id of their leaf
        self.step_hook = register_optimizer_step_post_hook(self.note_optimizer_step)
        self.calls = []
        self.find_everything()
        self.log = Log()
        for tracked in list(self.storages.values()):
            tracked.changed = False
            self.log.birth_kinds[tracked] = tracked.kind
            self.log.add(tracked, tracked.nbytes)
        for instrument in self.instruments:
            instrument.__enter__()

    def stop(self):
        for instrument in reversed(self.instruments):
            instrument.__exit__(None, None, None)
        self.find_everything()
        for handle in [self.step_hook, *self.gradient_hooks.values()]:
            handle.remove()
        self.active = False
        self.log = Log()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and types != PLAIN and any(map(wraps_others, types)):
            return NotImplemented  # the tracker sees a DTensor's inner operations instead
        communicates = func.namespace in RULES
        if communicates:
            self.calls += calls_of(func, args)
        result = func(*args, **kwargs) if kwargs else func(*args)
        if communicates:
            for tensor in tensors_in([args, result]):
                self.note_role(tensor, "communication")
        if type(result) is not torch.Tensor:
            for tensor in tensors_in(result):
                for plain in plain_tensors(tensor):
                    self.track(plain)
        elif owns_memory(result):  # by far the most frequent case, so without detours
            self.track(result)
        return result

    def track(self, tensor) -> StorageRef:
        """Return the reference to the storage of `tensor`, and note it if it is new or resized."""
        storage = tensor.untyped_storage()
        tracked = self.storages.get(id(storage))
        if tracked is None:
            tracked = self.storages[id(storage)] = StorageRef(storage, self.note_free)
            self.log.add(tracked, tracked.nbytes)
        elif tracked.nbytes != storage.nbytes() and tracked.nbytes != bytes_in_memory(storage):
            self.change_size(tracked, storage.nbytes())
        return tracked

    def note_free(self, tracked):
        del self.storages[tracked.key]
        self.log.add(tracked, None)

    @contextlib.contextmanager
    def track_resize(self, storage, size):
        """Note a storage's new size after the block: FSDP frees and refills storages in place."""
        yield
        tracked = self.storages.get(id(storage))
        if tracked is not None:
            self.change_size(tracked, size)

    def change_size(self, tracked, size):
        tracked.nbytes = size
        self.log.add(tracked, size)

    def give_role(self, tracked, kind):
        """Note a role of a storage, whose kind is the one of its roles that is first in KINDS."""
        if KINDS.index(kind) < KINDS.index(tracked.kind) and not tracked.marked:
            self.change(tracked, kind)

    def mark(self, tensor, kind):
        """Note what the learner says `tensor` is, which no role that is found later changes."""
        for tracked in map(self.track, plain_tensors(tensor)):
            tracked.marked = True
            self.change(tracked, kind)

    def change(self, tracked, kind):
        tracked.kind = kind
        if tracked.changed:
            self.log.add(tracked, kind)
        elif not self.log.is_full:
            self.log.birth_kinds[tracked] = kind

    def keep(self, tensor):
        """Pack a tensor that autograd saves, which is an activation until the graph frees it."""
        storages = [self.track(plain) for plain in plain_tensors(tensor)]
        kind = "parameters" if is_of_parameter(tensor) else "activations"
        for tracked in storages:
            tracked.saved += 1
            self.give_role(tracked, kind)
        return SavedTensor(tensor, storages, self.let_go)

    def let_go(self, storages):
        for tracked in storages:
            tracked.saved -= 1
            if tracked.saved == 0:
                self.end_activation(tracked)

    def end_activation(self, tracked):
        """Note that no graph saves this storage any more."""
        if tracked.kind == "activations" and not tracked.marked:
            tracked.changed = True
            self.change(tracked, "other")

    def wrap_hooks(self, hooks):
        """Wrap other hooks, such as activation checkpointing's, so that the tracker sees them.

        Autograd calls only the innermost of nested hooks, so it does not call the tracker's.
        """
        pack = functools.partial(self.keep_elsewhere, hooks.pack_hook)
        return saved_tensors_hooks(pack, hooks.unpack_hook)

    def keep_elsewhere(self, pack, tensor):
        """Pack a tensor with other hooks, and note what they keep of it as an activation."""
        packed = tensor  # used if a recomputation has all it needs and ends with an exception
        try:
            packed = pack(tensor)
            return packed
        finally:
            for kept in tensors_in(packed):
                self.note_role(kept, "activations")

    def note_optimizer_step(self, optimizer, args, kwargs):
        self.note_optimizer(optimizer)

    def note_gradient(self, parameter):
        if parameter.grad is not None:  # a Function's backward may return None
            self.note_role(parameter.grad, "gradients")

    def note_role(self, tensor, kind):
        for plain in plain_tensors(tensor):
            self.give_role(self.track(plain), kind)

    def find_everything(self):
        """Note the roles of everything that Python can reach."""
        found = self.reachable.find()
        for thing in found:
            self.note(thing)
        kept = set()
        for tensor in find_saved_tensors(found):
            self.note_role(tensor, "activations")
            kept.update(self.track(plain) for plain in plain_tensors(tensor))
        for tracked in list(self.storages.values()):
            if tracked.saved == 0 and tracked not in kept:
                self.end_activation(tracked)

    def note(self, thing):
        """Note the roles that follow from what a tensor or an optimizer is."""
        if isinstance(thing, torch.optim.Optimizer):
            self.note_optimizer(thing)
            return
        is_parameter = isinstance(thing, torch.nn.Parameter)
        self.note_role(thing, "parameters" if is_parameter else "other")
        if thing.is_leaf and thing.requires_grad and not torch.nn.parameter.is_lazy(thing):
            self.watch_gradient(thing)
            if thing.grad is not None:
                self.note_role(thing.grad, "gradients")

    def note_optimizer(self, optimizer):
        for state in optimizer.state.values():
            for tensor in tensors_in(list(state.values()) if isinstance(state, dict) else []):
                self.note_role(tensor, "optimizer_state")
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if parameter.grad is not None:  # set by hand, it may not have been seen
                self.note_role(parameter.grad, "gradients")

    def watch_gradient(self, leaf):
        """Watch a leaf's gradient with the first hook, as the learner's own may free it at once."""
        handle = self.gradient_hooks.get(id(leaf))
        if handle is None or handle.hooks_dict_ref() is None:  # None: that leaf has gone
            self.gradient_hooks[id(leaf)] = hook_first(leaf, self.note_gradient)
