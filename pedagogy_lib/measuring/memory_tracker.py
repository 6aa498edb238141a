"""Exact bytes of live tensors by kind, over time.

A tensor's memory is its storage: views share one, and it lives until the last of them has gone.
While a block is measured, a dispatch mode sees every operation's outputs, a weak reference tells
when each storage is freed, and saved-tensor hooks tell what is kept for the backward. What was
alive before the block is found by asking the garbage collector.

What a storage turns out to be counts from its birth: the memory that Adam takes in its first step
is optimizer state even before Adam has filed it as such.
"""

import functools
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from .bytes_of_calls import RULES, Call, calls_of, tensors_in
from .memory_log import KINDS, Log
from .reachable_tensors import Reachable, saved_by_graphs_of

PLAIN = (torch.Tensor,)
RESIZE = torch.UntypedStorage.resize_
NEW_PARAMETER = torch.nn.Parameter.__dict__["__new__"]
ENTER_HOOKS = saved_tensors_hooks.__enter__
MODIFIED_MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: {} is at version {}; expected version {} instead."
)


def bytes_in_memory(storage) -> int:
    """What a storage takes; one that is backed by a file takes no memory of its own."""
    return 0 if storage.filename else storage.nbytes()


class Piece(weakref.ref):
    """One storage: a weak reference to it, which calls `on_free(piece)` when it is freed."""

    __slots__ = ("changed", "key", "kind", "marked", "nbytes", "saved")
    __hash__, __eq__ = object.__hash__, object.__eq__  # as an object of its own

    def __init__(self, storage, on_free):
        self.key, self.nbytes = id(storage), bytes_in_memory(storage)
        self.kind = "other"
        self.changed = False  # whether its kind has changed since the log began
        self.saved = 0  # how many autograd nodes keep it
        self.marked = False  # whether the learner has said what it is


class Saved:
    """A tensor that an autograd node keeps for the backward."""

    __slots__ = ("let_go", "pieces", "tensor", "version")

    def __init__(self, tensor, pieces, let_go):
        self.tensor, self.version = without_history(tensor), tensor._version
        self.pieces, self.let_go = pieces, let_go

    def __del__(self):
        self.let_go(self.pieces)


def without_history(tensor):
    """Its values; a node that saves its own output would otherwise keep itself alive for ever."""
    if tensor.is_leaf:
        return tensor
    if type(tensor) is not torch.Tensor:
        return tensor.detach()
    with torch._C._DisableTorchDispatch():  # quicker, as it is not seen by the tracker
        return tensor.detach()


def restore(saved):
    """Give a saved tensor back, with the check that autograd makes when there are no hooks."""
    tensor = saved.tensor
    if tensor._version != saved.version:
        name = f"[{tensor.type()} {list(tensor.shape)}]"
        raise RuntimeError(MODIFIED_MESSAGE.format(name, tensor._version, saved.version))
    return tensor


def is_of_parameter(tensor) -> bool:
    """Whether it is a parameter or a view of one: its memory may have come later, through .data."""
    return isinstance(tensor if tensor._base is None else tensor._base, torch.nn.Parameter)


@functools.cache
def wraps_others(kind) -> bool:
    """Whether this class of tensors consists of others, as DTensor does."""
    return hasattr(kind, "__tensor_flatten__")


@functools.cache
def is_fake(kind) -> bool:
    """Whether this class of tensors has no memory: DTensor tries out operations on such."""
    return any(base.__name__ == "FakeTensor" for base in kind.__mro__)


def owns_memory(tensor) -> bool:
    is_lazy = torch.nn.parameter.is_lazy(tensor)  # nn.LazyLinear's before its first batch
    return tensor.layout is torch.strided and not tensor.is_meta and not is_lazy


def plain_tensors(tensor) -> list[torch.Tensor]:
    """The tensors that own memory behind `tensor`: itself, or the inner ones of a DTensor."""
    kind = type(tensor)
    if wraps_others(kind):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return [plain for part in tensors_in(inner) for plain in plain_tensors(part)]
    return [tensor] if owns_memory(tensor) and not is_fake(kind) else []


class MemoryTracker(TorchDispatchMode):
    """Follows every storage while active; see the module's docstring."""

    def __init__(self):
        super().__init__()
        self.pieces: dict[int, Piece] = {}
        self.log = Log()  # outside of blocks: one that nobody reads
        self.calls: list[Call] = []
        self.active = False
        self.reachable = Reachable()
        self.hooks = saved_tensors_hooks(self.keep, restore)

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # torch would otherwise import its compiler at the first operation

    def start(self):
        """Begin a log with everything that is alive now."""
        self.active = True
        self.watched = {}
        self.handle = register_optimizer_step_post_hook(self.on_optimizer_step)
        self.calls = []
        self.find_everything()
        self.log = Log()
        for piece in list(self.pieces.values()):
            piece.changed = False
            self.log.birth_kinds[piece] = piece.kind
            self.log.add(piece, piece.nbytes)
        torch.UntypedStorage.resize_ = lambda storage, size: self.resize(storage, size)
        torch.nn.Parameter.__new__ = staticmethod(self.make_parameter)
        self.__enter__()
        self.hooks.__enter__()
        saved_tensors_hooks.__enter__ = lambda hooks: self.enter_others_hooks(hooks)

    def stop(self):
        saved_tensors_hooks.__enter__ = ENTER_HOOKS
        self.hooks.__exit__(None, None, None)
        self.__exit__(None, None, None)
        torch.UntypedStorage.resize_ = RESIZE
        torch.nn.Parameter.__new__ = NEW_PARAMETER
        self.find_everything()
        for handle in [self.handle, *self.watched.values()]:
            handle.remove()
        self.active = False
        self.log = Log()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and types != PLAIN and any(map(wraps_others, types)):
            return NotImplemented  # a DTensor's inner operations come here
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
                    self.piece_of(plain)
        elif owns_memory(result):  # by far the most frequent case, so without detours
            self.piece_of(result)
        return result

    def piece_of(self, tensor) -> Piece:
        """The storage behind `tensor`, noted as born or resized now if that is new."""
        storage = tensor.untyped_storage()
        piece = self.pieces.get(id(storage))
        if piece is None:
            piece = self.pieces[id(storage)] = Piece(storage, self.on_free)
            self.log.add(piece, piece.nbytes)
        elif piece.nbytes != storage.nbytes() and piece.nbytes != bytes_in_memory(storage):
            self.change_size(piece, storage.nbytes())
        return piece

    def on_free(self, piece):
        del self.pieces[piece.key]
        self.log.add(piece, None)

    def resize(self, storage, size):
        """FSDP frees and refills a storage in place."""
        result = RESIZE(storage, size)
        piece = self.pieces.get(id(storage))
        if piece is not None:
            self.change_size(piece, size)
        return result

    def change_size(self, piece, size):
        piece.nbytes = size
        self.log.add(piece, size)

    def give_role(self, piece, kind):
        """Note that a storage plays a role; the first of its roles in KINDS is its kind."""
        if KINDS.index(kind) < KINDS.index(piece.kind) and not piece.marked:
            self.change(piece, kind)

    def mark(self, tensor, kind):
        """The learner says what `tensor` is; this stands."""
        for piece in map(self.piece_of, plain_tensors(tensor)):
            piece.marked = True
            self.change(piece, kind)

    def change(self, piece, kind):
        piece.kind = kind
        if piece.changed:
            self.log.add(piece, kind)
        elif not self.log.is_full:
            self.log.birth_kinds[piece] = kind

    def keep(self, tensor):
        """Autograd saves `tensor`: an activation until the graph lets go of it."""
        pieces = [self.piece_of(plain) for plain in plain_tensors(tensor)]
        kind = "parameters" if is_of_parameter(tensor) else "activations"
        for piece in pieces:
            piece.saved += 1
            self.give_role(piece, kind)
        return Saved(tensor, pieces, self.let_go)

    def let_go(self, pieces):
        for piece in pieces:
            piece.saved -= 1
            if piece.saved == 0:
                self.end_activation(piece)

    def end_activation(self, piece):
        """No graph keeps this storage any more."""
        if piece.kind == "activations" and not piece.marked:
            piece.changed = True
            self.change(piece, "other")

    def enter_others_hooks(self, hooks):
        """Inside of somebody else's hooks, such as those of activation checkpointing."""
        pack = functools.partial(self.keep_elsewhere, hooks.pack_hook)
        ENTER_HOOKS(saved_tensors_hooks(pack, hooks.unpack_hook))

    def keep_elsewhere(self, pack, tensor):
        """What others keep of a tensor is an activation too, as long as it lives."""
        packed = tensor  # stands if a recomputation has all it needs and ends with an exception
        try:
            packed = pack(tensor)
            return packed
        finally:
            for kept in tensors_in(packed):
                self.note_role(kept, "activations")

    def make_parameter(self, *args, **kwargs):
        """Note a parameter when it is made: by a module, by FSDP, or by itself."""
        parameter = NEW_PARAMETER.__func__(*args, **kwargs)
        self.note(parameter)
        return parameter

    def on_optimizer_step(self, optimizer, args, kwargs):
        self.note(optimizer)

    def on_gradient(self, parameter):
        if parameter.grad is not None:  # a Function's backward may return None
            self.note_role(parameter.grad, "gradients")

    def note_role(self, tensor, kind):
        for plain in plain_tensors(tensor):
            self.give_role(self.piece_of(plain), kind)

    def find_everything(self):
        """Give everything that Python can reach its role."""
        found = self.reachable.find()
        for thing in found:
            self.note(thing)
        kept = set()
        for tensor in saved_by_graphs_of(found):
            self.note_role(tensor, "activations")
            kept.update(self.piece_of(plain) for plain in plain_tensors(tensor))
        for piece in list(self.pieces.values()):
            if piece.saved == 0 and piece not in kept:
                self.end_activation(piece)

    def note(self, thing):
        """Note the roles that follow from what a tensor or an optimizer is."""
        if isinstance(thing, torch.optim.Optimizer):
            for state in thing.state.values():
                for tensor in tensors_in(list(state.values()) if isinstance(state, dict) else []):
                    self.note_role(tensor, "optimizer_state")
            for parameter in (p for group in thing.param_groups for p in group["params"]):
                if parameter.grad is not None:  # put there by hand, it may not have been seen
                    self.note_role(parameter.grad, "gradients")
            return
        is_parameter = isinstance(thing, torch.nn.Parameter)
        self.note_role(thing, "parameters" if is_parameter else "other")
        if thing.is_leaf and thing.requires_grad and not torch.nn.parameter.is_lazy(thing):
            self.watch_gradient(thing)
            if thing.grad is not None:
                self.note_role(thing.grad, "gradients")

    def watch_gradient(self, leaf):
        """Be the first to see a gradient: the learner's own hook may free it at once."""
        handle = self.watched.get(id(leaf))
        if handle is None or handle.hooks_dict_ref() is None:  # None: that leaf has gone
            handle = leaf.register_post_accumulate_grad_hook(self.on_gradient)
            hooks = leaf._post_accumulate_grad_hooks
            for other in [key for key in hooks if key != handle.id]:
                hooks[other] = hooks.pop(other)  # to the end: move_to_end() does not impress C++
            self.watched[id(leaf)] = handle
