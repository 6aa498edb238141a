"""Exact bytes of live tensors by kind, over time.

A tensor's memory is its storage: views share one, and it lives until the last of them has gone.
While a block is measured, a dispatch mode sees every operation's outputs, a weak reference tells
when each storage is freed, and saved-tensor hooks tell what autograd saves for the backward. The
garbage collector finds the tensors that were alive before the block.

What cannot be followed is passed on as it is, and the reason is noted: an instrument never breaks a
program, and never changes its values.

The kind that a storage turns out to have counts from its birth: the memory that Adam allocates in
its first step is optimizer state even before Adam has stored it as such.
"""

import contextlib
import functools
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..basics.quiet_hooks import QuietHooks, hide_hooks
from ..basics.quiet_modes import (
    QuietMode,
    count_function_modes,
    count_modes,
    receives_operators,
    unseen_as_functions,
)
from ..basics.torch_private import NewParametersNoticed, ResizesWatched, hook_first
from .bytes_of_calls import RULES, Call, calls_of
from .left_out import LeftOut
from .memory_log import KINDS, Log
from .reachable_tensors import Reachable, find_saved_tensors
from .saved_tensors import SavedTensor, find_original, replace_hooks, restore
from .tensor_memory import (
    bytes_in_memory,
    is_of_parameter,
    plain_tensors,
    tensors_in,
)

PLAIN = (torch.Tensor,)
UNUSUAL = {*RULES, "higher_order"}  # namespaces of operators


def harmless(notes):
    """Make a method of the tracker, which only notes something, one that never raises an error.

    The program's subclasses and modes of `__torch_function__` do not see what it does.
    """

    @functools.wraps(notes)
    def note(tracker, *args):
        try:
            with unseen_as_functions():
                return notes(tracker, *args)
        except Exception as error:
            tracker.left_out.note("memory", error)

    return note


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


class MemoryTracker(QuietMode):
    """A tracker of every storage and every communication call between `start` and `stop`."""

    def __init__(self):
        super().__init__()
        self.storages: dict[int, StorageRef] = {}
        self.log = Log()  # outside blocks, one that is never read
        self.calls: list[Call] = []
        self.left_out = LeftOut()
        self.active = False
        self.reachable = Reachable()
        self.instruments = (
            ResizesWatched(self.track_resize),
            NewParametersNoticed(self.note),
            self,
            QuietHooks(self.keep, restore, self.wrap_hooks),
        )
        hide_hooks(find_original, replace_hooks)

    def start(self):
        """Begin a log with everything that is alive now."""
        self.active, self.first_reason = True, len(self.left_out)
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

    def reasons_of_log(self) -> list[str]:
        """Return what could not be followed since the log began, so that its bytes are too few."""
        return self.left_out.since(self.first_reason)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and types != PLAIN and any(map(receives_operators, types)) and not count_modes():
            return NotImplemented  # the tracker sees a DTensor's inner operations instead
        if func.namespace in UNUSUAL:
            return self.run_unusual(func, args, kwargs or {})
        result = func(*args, **kwargs) if kwargs else func(*args)
        try:
            if (
                type(result) is not torch.Tensor
                or count_function_modes()
                or result.layout is not torch.strided
            ):
                self.track_all(result)
            elif not result.is_meta:  # by far the most frequent case, so without detours
                self.track(result)
        except Exception as error:
            self.left_out.note(func, error)
        return result

    def run_unusual(self, func, args, kwargs):
        """Run a call of communication, or an operator whose arguments are functions."""
        if func.namespace not in RULES:
            result, was_seen = self.run_seen(func, args, kwargs)
            self.track_all(result)
            if not was_seen and not count_modes():
                self.left_out.note(func, NotImplementedError("what it computes inside is not seen"))
            return result
        calls = calls_of(func, args)
        result = func(*args, **kwargs)
        self.calls += calls  # one that raises has sent nothing
        self.note_communication([args, result])
        return result

    @harmless
    def note_communication(self, values):
        for tensor in tensors_in(values):
            self.note_role(tensor, "communication")

    @harmless
    def track_all(self, values):
        for tensor in tensors_in(values):
            for plain in plain_tensors(tensor):
                self.track(plain)

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
        saved = tensor
        try:
            with unseen_as_functions():
                saved = SavedTensor(tensor, self.let_go)
                kind = "parameters" if is_of_parameter(tensor) else "activations"
                for tracked in [self.track(plain) for plain in plain_tensors(tensor)]:
                    tracked.saved += 1
                    saved.storages.append(tracked)
                    self.give_role(tracked, kind)
        except Exception as error:
            self.left_out.note("memory", error)
        return saved

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
        """Wrap other hooks, such as activation checkpointing's, so that the tracker sees them."""
        pack = functools.partial(self.keep_elsewhere, hooks.pack_hook)
        return saved_tensors_hooks(pack, hooks.unpack_hook)

    def keep_elsewhere(self, pack, tensor):
        """Pack a tensor with other hooks, and note what they keep of it as an activation."""
        packed = tensor  # used if a recomputation has all it needs and ends with an exception
        try:
            packed = pack(tensor)
            return packed
        finally:
            self.note_kept(packed)

    @harmless
    def note_kept(self, packed):
        for kept in tensors_in(packed):
            self.note_role(kept, "activations")

    @harmless
    def note_optimizer_step(self, optimizer, args, kwargs):
        self.note_optimizer(optimizer)

    @harmless
    def note_gradient(self, parameter):
        if parameter.grad is not None:  # a Function's backward may return None
            self.note_role(parameter.grad, "gradients")

    def note_role(self, tensor, kind):
        for plain in plain_tensors(tensor):
            self.give_role(self.track(plain), kind)

    @harmless
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

    @harmless
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
