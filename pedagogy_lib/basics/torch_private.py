"""What torch does not promise to keep: its private names, and functions put in place of its own.

Each comment or docstring names what is private. All of it has been seen to work with torch 2.11 to
2.13. Where a later version of torch changes something here, this is the only file to mend.
"""

import contextlib
from operator import attrgetter

import torch
import torch.distributed as dist
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

# ---- Tensors and storages ----

# How many times a tensor has been changed in place. Private: Tensor._version.
version_of = attrgetter("_version")

# The tensor that another one is a view of; None if it is no view. Private: Tensor._base.
base_of = attrgetter("_base")

# A number of its own for each storage that is alive. Private: UntypedStorage._cdata, an address.
identity_of_storage = attrgetter("_cdata")

# The storage behind a torch.storage.TypedStorage. Private: TypedStorage._untyped_storage, without
# the warning that its public name gives.
untyped_storage_of = attrgetter("_untyped_storage")


def typed_storage(storage, dtype) -> torch.storage.TypedStorage:
    """`storage` as one of numbers. Private: the argument that keeps torch from warning."""
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def is_in_storage(tensor, storage) -> bool:
    """Whether the memory of `tensor` is this storage."""
    return is_same_storage(tensor.untyped_storage(), storage)


def is_same_storage(one, other) -> bool:
    """Whether two objects stand for the same memory."""
    return identity_of_storage(one) == identity_of_storage(other)


# ---- Operators ----

# A context within which modes do not see operators. Private: torch._C._DisableTorchDispatch.
unseen_by_modes = torch._C._DisableTorchDispatch


class OperatorMode(TorchDispatchMode):
    """A mode in whose `__torch_dispatch__` every operator of torch arrives.

    Private: the module of TorchDispatchMode; and `_should_skip_dynamo`, without which torch would
    import its compiler at the first operation.
    """

    @classmethod
    def _should_skip_dynamo(cls):
        return False


# ---- Autograd ----


def in_backward() -> bool:
    """Whether autograd runs a backward in this thread. Private: torch._C._current_graph_task_id."""
    return torch._C._current_graph_task_id() != -1


def hook_first(parameter, hook):
    """Register a hook to be called when a gradient is complete, before those already there.

    Private: Tensor._post_accumulate_grad_hooks, an OrderedDict whose order is that of the calls.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    for other in [key for key in hooks if key != handle.id]:
        hooks[other] = hooks.pop(other)  # to the end: C++ does not see move_to_end()
    return handle


def tensors_saved_by(node):
    """Yield the tensors that a node of an autograd graph keeps for its backward.

    Private: the attributes `_raw_saved_…` of nodes, and `data` of what they hold.
    """
    for name in (name for name in dir(node) if name.startswith("_raw_saved_")):
        try:
            raw = getattr(node, name)
            for saved in raw if isinstance(raw, (list, tuple)) else [raw]:
                if isinstance(saved.data, torch.Tensor):  # else: packed by somebody's hooks
                    yield saved.data
        except RuntimeError:  # a graph whose backward has already run holds nothing
            continue


# ---- Communication ----

# The process group with this name. Private: distributed_c10d._resolve_process_group.
group_named = dist.distributed_c10d._resolve_process_group


def request_in(box):
    """The request that an operator such as c10d::send returns. Private: dist._Work."""
    return dist._Work.unbox(box)


def sender_of(request) -> int:
    """The rank in its group that a received message came from. Private: Work._source_rank."""
    return request._source_rank()


def buckets_of_ddp(tensors, bucket_bytes) -> list[list[int]]:
    """How DistributedDataParallel buckets tensors: places in the list, bucket by bucket.

    Private: dist._compute_bucket_assignment_by_size.
    """
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [bucket_bytes])
    return buckets


# ---- Calls of torch in whose place other functions are put ----

_resize = torch.UntypedStorage.resize_
_resize_watchers = []  # in no order that counts: each is to see the same


@contextlib.contextmanager
def resizes_watched_by(watch):
    """Within it, each resize of a storage happens inside of the context `watch(storage, size)`.

    Several may watch at a time, and end in any order. A watcher that raises when its context is
    entered refuses the resize. Private: that torch's own code, too, finds UntypedStorage.resize_
    in its class.

    size  in bytes, after the resize
    """
    _resize_watchers.append(watch)
    torch.UntypedStorage.resize_ = _watched_resize
    try:
        yield
    finally:
        _resize_watchers.remove(watch)
        if not _resize_watchers:
            torch.UntypedStorage.resize_ = _resize


def _watched_resize(storage, size):
    with contextlib.ExitStack() as watchers:
        for watch in list(_resize_watchers):
            watchers.enter_context(watch(storage, size))
        return _resize(storage, size)


@contextlib.contextmanager
def new_parameters_given_to(notice):
    """Within it, `notice(parameter)` is called for each nn.Parameter that is made.

    Private: that whoever makes one, a module, FSDP or the learner, calls nn.Parameter.__new__.
    """
    original = torch.nn.Parameter.__dict__["__new__"]

    def make(*args, **kwargs):
        parameter = original.__func__(*args, **kwargs)
        notice(parameter)
        return parameter

    torch.nn.Parameter.__new__ = staticmethod(make)
    try:
        yield
    finally:
        torch.nn.Parameter.__new__ = original


@contextlib.contextmanager
def saved_tensors_hooks_replaced_by(replacement):
    """Within it, whoever enters `hooks` on saved tensors enters `replacement(hooks)` instead.

    Private: that torch, too, calls `saved_tensors_hooks.__enter__`, which needs no more of its
    object than `pack_hook` and `unpack_hook`.
    """
    enter = saved_tensors_hooks.__enter__
    saved_tensors_hooks.__enter__ = lambda hooks: enter(replacement(hooks))
    try:
        yield
    finally:
        saved_tensors_hooks.__enter__ = enter
