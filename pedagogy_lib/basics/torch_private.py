"""Uses of torch's private names, which may change, and replacements of torch's own functions.

Each comment or docstring names what is private. All of it has been seen to work with torch 2.11 to
2.13. If a later version of torch changes something here, only this file, quiet_modes.py,
quiet_hooks.py and waits.py need a fix.
"""

import contextlib
import json
from operator import attrgetter

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.utils._python_dispatch import TorchDispatchMode

# ---- Tensors and storages ----

# The number of times that a tensor has been changed in place. Private: Tensor._version.
version_of = attrgetter("_version")

# The tensor that another tensor is a view of; None if it is no view. Private: Tensor._base.
base_of = attrgetter("_base")

# A unique number for each live storage. Private: UntypedStorage._cdata, an address.
identity_of_storage = attrgetter("_cdata")

# The storage behind a torch.storage.TypedStorage. Private: TypedStorage._untyped_storage, which
# does not give the warning of its public name.
untyped_storage_of = attrgetter("_untyped_storage")


def make_typed_storage(storage, dtype) -> torch.storage.TypedStorage:
    """Wrap `storage` as a TypedStorage. Private: `_internal`, which keeps torch from warning."""
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def is_in_storage(tensor, storage) -> bool:
    """Return whether `storage` is the memory of `tensor`."""
    return is_same_storage(tensor.untyped_storage(), storage)


def is_same_storage(one, other) -> bool:
    """Return whether two storage objects refer to the same memory."""
    return identity_of_storage(one) == identity_of_storage(other)


# ---- Operators ----

# A context in which modes do not see operators. Private: torch._C._DisableTorchDispatch.
unseen_by_modes = torch._C._DisableTorchDispatch


# Whether an operator makes a view and neither reads nor writes. Private: OpOverload.is_view.
makes_view = attrgetter("is_view")


class OperatorMode(TorchDispatchMode):
    """A mode whose `__torch_dispatch__` receives every operator of torch.

    Private: the module of TorchDispatchMode, and `_should_skip_dynamo`, without which torch would
    import its compiler at the first operation.
    """

    @classmethod
    def _should_skip_dynamo(cls):
        return False


# ---- Autograd ----


def is_in_backward() -> bool:
    """Return whether this thread runs a backward. Private: torch._C._current_graph_task_id."""
    return torch._C._current_graph_task_id() != -1


def hook_first(parameter, hook):
    """Register a hook that is called on a complete gradient, before the hooks already registered.

    Private: Tensor._post_accumulate_grad_hooks, an OrderedDict in the order of the calls.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    for other in [key for key in hooks if key != handle.id]:
        hooks[other] = hooks.pop(other)  # moves it to the end; C++ does not see move_to_end()
    return handle


def tensors_saved_by(node):
    """Yield the tensors that a node of an autograd graph saves for its backward.

    Private: the attributes `_raw_saved_…` of nodes, and `data` of their values.
    """
    for name in (name for name in dir(node) if name.startswith("_raw_saved_")):
        try:
            raw = getattr(node, name)
            for saved in raw if isinstance(raw, (list, tuple)) else [raw]:
                if isinstance(saved.data, torch.Tensor):  # else hooks have packed it
                    yield saved.data
        except RuntimeError:  # a graph whose backward has run holds nothing
            continue


# ---- Communication ----

# The process group with this name. Private: distributed_c10d._resolve_process_group.
group_named = dist.distributed_c10d._resolve_process_group


def request_in(result):
    """Return the request in the result of c10d::send, for example, or None. Private: dist._Work."""
    box = result[-1] if isinstance(result, tuple) else result  # others return tensors, too
    return dist._Work.unbox(box) if isinstance(box, torch.ScriptObject) else None


def sender_of(request) -> int:
    """Return the rank in the group that sent a received message. Private: Work._source_rank."""
    return request._source_rank()


def buckets_of_ddp(tensors, bucket_bytes) -> list[list[int]]:
    """Return the buckets that DistributedDataParallel makes, each a list of indices of `tensors`.

    Private: dist._compute_bucket_assignment_by_size.
    """
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [bucket_bytes])
    return buckets


# ---- Replacements of torch's own functions: inside a `with`, for all threads of this process ----

_resize = torch.UntypedStorage.resize_
_resize_watches = []


def _resize_with_watches(storage, size):
    with contextlib.ExitStack() as watches:
        for watch in list(_resize_watches):
            watches.enter_context(watch(storage, size))
        return _resize(storage, size)


class ResizesWatched:
    """A context manager under which storages resize inside the context `watch(storage, size)`.

    If the inner context raises when it is entered, the storage keeps its size. Several objects may
    watch at a time, and each sees every resize, in whatever order they begin and end.
    Private: torch itself also calls UntypedStorage.resize_ by its name.

    size  in bytes, after the resize
    """

    def __init__(self, watch):
        self.watch = watch

    def __enter__(self):
        _resize_watches.append(self.watch)
        torch.UntypedStorage.resize_ = _resize_with_watches

    def __exit__(self, *error):
        _resize_watches.remove(self.watch)
        if not _resize_watches:
            torch.UntypedStorage.resize_ = _resize


def call_before_swaps(forget):
    """Call `forget(tensors)` before torch swaps two tensors, which must have no weak references.

    The function returns what is called after the swap. Private: modules swap by this name.
    """
    swap = torch.utils.swap_tensors

    def swap_tensors(*tensors):
        remember = forget(tensors)
        try:
            return swap(*tensors)
        finally:
            remember()

    torch.utils.swap_tensors = swap_tensors


class NewParametersNoticed:
    """A context manager that calls `notice(parameter)` for each parameter that is made.

    Private: modules, FSDP and the learner all make a parameter by calling its `__new__`.
    """

    def __init__(self, notice):
        self.notice = notice

    def __enter__(self):
        self.original = torch.nn.Parameter.__dict__["__new__"]
        torch.nn.Parameter.__new__ = staticmethod(self.make)

    def make(self, *args, **kwargs):
        parameter = self.original.__func__(*args, **kwargs)
        self.notice(parameter)
        return parameter

    def __exit__(self, *error):
        torch.nn.Parameter.__new__ = self.original


# ---- Groups ----

_make_group = distributed_c10d._new_process_group_helper
_around_new_groups = contextlib.nullcontext


def _make_group_within(*args, **kwargs):
    with _around_new_groups(kwargs.get("group_desc") or ""):
        return _make_group(*args, **kwargs)


def watch_new_groups(around):
    """Make every process group from now on inside the context around(its description).

    This includes groups without this rank. Private: distributed_c10d._new_process_group_helper,
    with which all of torch makes groups, including its meshes.
    """
    global _around_new_groups
    _around_new_groups = around
    distributed_c10d._new_process_group_helper = _make_group_within


NAMES_OF_ITS_OWN = 1000  # the groups of a world are numbered from a multiple of this
_next_names = {}  # {size of a world: number of the next group made in it}


def read_flight_records(group) -> list[dict]:
    """Read this process's last calls in a group: number, name, shape. Private: the JSON dump."""
    entries = json.loads(torch._C._distributed_c10d._dump_fr_trace_json())["entries"]
    return [
        {"number": e["collective_seq_id"], "name": e["profiling_name"].partition(":")[2],
         "shape": next(iter(e["input_sizes"]), [])}
        for e in entries if e["process_group"][0] == group.group_name
    ]  # fmt: skip


@contextlib.contextmanager
def override_default_group(group):
    """Make `group` the whole world for its ranks, inside a `with`.

    They must be the first ranks, so that they keep their numbers. Private: the default group, and
    the number of the next group.
    """
    world, count = distributed_c10d._get_default_group(), distributed_c10d._world.group_count
    distributed_c10d._update_default_pg(group)
    first = NAMES_OF_ITS_OWN * (1 + group.size())
    distributed_c10d._world.group_count = _next_names.get(group.size(), first)
    try:
        yield
    finally:
        _next_names[group.size()] = distributed_c10d._world.group_count
        distributed_c10d._update_default_pg(world)
        distributed_c10d._world.group_count = count
