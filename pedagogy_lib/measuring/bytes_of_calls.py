"""The bytes that each communication call should put on the wire, for where the kernel counts none.

`counted` bytes follow the textbook's bandwidth-optimal algorithm for each collective (a ring, or a
direct exchange), which NCCL also uses for large messages. They are no measurement.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist

from ..basics.torch_private import group_named
from .left_out import reason_of
from .tensor_memory import bytes_of, is_fake, tensors_in

WORLD = "world"  # the group of all ranks
OTHERS_ARE_SPARSE = "the sparse tensors of other ranks may have other sizes"


class Call(NamedTuple):
    """One communication call of one rank."""

    name: str  # as in torch.distributed
    tensor_bytes: int | None  # that it puts in, or gets in a scatter or recv: X in the formulas
    sent_bytes: int | None  # None if not counted
    received_bytes: int | None
    peer: int | None = None  # the other rank, in a send or recv
    group: str = ""  # the name of its process group
    to: tuple[int, ...] = ()  # the ranks to which it sends, with equally many bytes for each
    not_counted: str = ""  # why its bytes are not known


class Rule(NamedTuple):
    name: str
    tensor: int  # which argument of the operator holds X
    group: int  # which argument is the process group
    root: int | None  # which argument is the root or the peer
    cost: object  # (X, n, position after the root) -> (sent, received)
    parts: object = None  # in an exchange: arguments -> (bytes to, bytes from) each rank, if uneven


def symmetric(share):
    """Return the cost function of a call in which every rank sends and receives the same."""
    return lambda x, n, position: (share(x, n), share(x, n))


def all_reduce_share(x, n):
    return 2 * (n - 1) * x // n


def gather_share(x, n):
    return (n - 1) * x


def exchange_share(x, n):
    return (n - 1) * x // n


def parts_of_lists(args):
    return [[bytes_of(tensor) for tensor in tensors] for tensors in (args[1], args[0])]


def parts_of_rows(args, given, taken, to, of):
    """Return the bytes of an exchange whose arguments `to` and `of` are numbers of rows."""
    tensors = args[given], args[taken]
    splits = args[to], args[of]
    return [
        [rows * bytes_of(tensor) // max(len(tensor), 1) for rows in split]
        for tensor, split in zip(tensors, splits)
    ]


def parts_of_base(args):
    return parts_of_rows(args, given=1, taken=0, to=4, of=3)


def parts_of_functional(args):
    return parts_of_rows(args, given=0, taken=0, to=2, of=1)


def chain_from_root(x, n, position):
    return (x if position < n - 1 else 0), (x if position else 0)


def chain_to_root(x, n, position):
    return chain_from_root(x, n, position)[::-1]


def all_to_root(x, n, position):
    return (x, 0) if position else (0, (n - 1) * x)


def root_to_all(x, n, position):
    return all_to_root(x, n, position)[::-1]


def send_share(x, n, position):
    return x, 0


def receive_share(x, n, position):
    return 0, x


ALL_REDUCE = symmetric(all_reduce_share)
ALL_GATHER = symmetric(gather_share)
EXCHANGE = symmetric(exchange_share)

# The rule of each operator, by namespace and name.
RULES = {
    "c10d": {
        "allreduce_": Rule("all_reduce", 0, 1, None, ALL_REDUCE),
        "allreduce_coalesced_": Rule("all_reduce", 0, 1, None, ALL_REDUCE),
        "allgather_": Rule("all_gather", 1, 2, None, ALL_GATHER),
        "allgather_coalesced_": Rule("all_gather", 1, 2, None, ALL_GATHER),
        "_allgather_base_": Rule("all_gather", 1, 2, None, ALL_GATHER),
        "allgather_into_tensor_coalesced_": Rule("all_gather", 1, 2, None, ALL_GATHER),
        "reduce_scatter_": Rule("reduce_scatter", 1, 2, None, EXCHANGE),
        "_reduce_scatter_base_": Rule("reduce_scatter", 1, 2, None, EXCHANGE),
        "reduce_scatter_tensor_coalesced_": Rule("reduce_scatter", 1, 2, None, EXCHANGE),
        "alltoall_": Rule("all_to_all", 1, 2, None, EXCHANGE, parts_of_lists),
        "alltoall_base_": Rule("all_to_all", 1, 2, None, EXCHANGE, parts_of_base),
        "broadcast_": Rule("broadcast", 0, 1, 2, chain_from_root),
        "reduce_": Rule("reduce", 0, 1, 3, chain_to_root),
        "gather_": Rule("gather", 1, 2, 3, all_to_root),
        "scatter_": Rule("scatter", 0, 2, 3, root_to_all),
        "send": Rule("send", 0, 1, 2, send_share),
        "recv_": Rule("recv", 0, 1, 2, receive_share),
        "recv_any_source_": Rule("recv", 0, 1, None, receive_share),
    },
    # The operators that DTensor calls.
    "_c10d_functional": {
        "all_reduce": Rule("all_reduce", 0, 2, None, ALL_REDUCE),
        "all_reduce_": Rule("all_reduce", 0, 2, None, ALL_REDUCE),
        "all_reduce_coalesced": Rule("all_reduce", 0, 2, None, ALL_REDUCE),
        "all_reduce_coalesced_": Rule("all_reduce", 0, 2, None, ALL_REDUCE),
        "all_gather_into_tensor": Rule("all_gather", 0, 2, None, ALL_GATHER),
        "all_gather_into_tensor_out": Rule("all_gather", 0, 2, None, ALL_GATHER),
        "all_gather_into_tensor_coalesced": Rule("all_gather", 0, 2, None, ALL_GATHER),
        "reduce_scatter_tensor": Rule("reduce_scatter", 0, 3, None, EXCHANGE),
        "reduce_scatter_tensor_out": Rule("reduce_scatter", 0, 3, None, EXCHANGE),
        "reduce_scatter_tensor_coalesced": Rule("reduce_scatter", 0, 3, None, EXCHANGE),
        "all_to_all_single": Rule("all_to_all", 0, 3, None, EXCHANGE, parts_of_functional),
        "broadcast": Rule("broadcast", 0, 2, 1, chain_from_root),
        "broadcast_": Rule("broadcast", 0, 2, 1, chain_from_root),
    },
    "_dtensor": {
        "shard_dim_alltoall": Rule("all_to_all", 0, 3, None, EXCHANGE),
    },
    "symm_mem": {},  # symmetric memory of GPUs: no formula is known here
}
WITHOUT_DATA = ("barrier", "monitored_barrier_")
NO_CALL = ("wait_tensor", "mesh_get_process_group", "_wrap_tensor_autograd", "check_for_nan")


def calls_of(func, args) -> list[Call]:
    """List the communication call that an operator of these namespaces makes, if it makes one."""
    name = func.overloadpacket.__name__
    if name in NO_CALL:
        return []
    if name in WITHOUT_DATA:
        return [Call(name.strip("_"), 0, 0, 0)]
    try:
        if any(is_fake(type(t)) or t.is_meta for t in tensors_in(args)):
            return []  # something tries it out without data
        rule = RULES[func.namespace].get(name)
        if rule is None:
            raise LookupError("no formula for its bytes is known here")
        return [call_by_rule(rule, args)]
    except Exception as error:
        unknown = f"{name.strip('_')}: {reason_of(error)}"
        return [Call(name.strip("_"), None, None, None, not_counted=unknown)]


def call_by_rule(rule, args) -> Call:
    tensors = list(tensors_in(args[rule.tensor]))
    size, group = sum(map(bytes_of, tensors)), group_of(args[rule.group])
    n, root = group.size(), 0 if rule.root is None else args[rule.root]
    is_p2p = rule.name in ("send", "recv") and rule.root is not None
    peer = dist.get_global_rank(group, root) if is_p2p else None
    why = "" if all(t.layout is torch.strided for t in tensors) else OTHERS_ARE_SPARSE
    cost = (None, None) if why else rule.cost(size, n, (group.rank() - root) % n)
    parts = rule.parts(args) if rule.parts else [[], []]
    if all(parts):  # empty if they are even
        cost = [sum(each) - each[group.rank()] for each in parts]
    to = receivers(rule, dist.get_process_group_ranks(group), group.rank(), root)
    return Call(rule.name, size, *cost, peer, group_name(group.group_desc), to, why)


def receivers(rule, ranks, place, root) -> tuple[int, ...]:
    """Return the ranks to which a rank sends in a call: all others, one, or the next in a ring."""
    if rule.name == "recv":
        return ()
    if rule.name in ("all_to_all", "scatter"):
        return (*ranks[:place], *ranks[place + 1 :])
    return (ranks[root if rule.name in ("send", "gather") else (place + 1) % len(ranks)],)


def group_name(description) -> str:
    """Return a group's name from its description: "tp", also for the "mesh_tp" of a DeviceMesh.

    "undefined" is torch's description of a group that was made without one.
    """
    known = {"default_pg": WORLD, "undefined": ""}
    return known.get(description, description.removeprefix("mesh_"))


def group_of(argument) -> dist.ProcessGroup:
    """Return the process group that an operator is given as such, in a box, or by its name."""
    if isinstance(argument, str):
        return group_named(argument)
    if isinstance(argument, dist.ProcessGroup):
        return argument
    return dist.ProcessGroup.unbox(argument)
