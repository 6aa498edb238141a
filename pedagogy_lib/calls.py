"""What each communication call should put on the wire, for where the kernel does not count.

`counted` bytes follow the textbook's bandwidth-optimal algorithm for each collective (a ring, or a
direct exchange), which is what NCCL does for large messages. They are no measurement.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist


class Call(NamedTuple):
    """One communication call of one rank."""

    name: str  # as in torch.distributed
    tensor_bytes: int  # X in the formulas below
    sent_bytes: int
    received_bytes: int


class Rule(NamedTuple):
    name: str
    tensor: int  # which argument of the c10d operator holds X
    group: int  # which argument is the process group
    root: int | None
    cost: object  # (X, n, position after the root) -> (sent, received)


def symmetric(share):
    """Every rank sends and receives the same."""
    return lambda x, n, position: (share(x, n), share(x, n))


def all_reduce_share(x, n):
    return 2 * (n - 1) * x // n


def others_share(x, n):
    """all_gather (X: what each rank contributes) and reduce_scatter (X: what each rank keeps)."""
    return (n - 1) * x


def exchange_share(x, n):
    return (n - 1) * x // n


def chain_from_root(x, n, position):
    return (x if position < n - 1 else 0), (x if position else 0)


def chain_to_root(x, n, position):
    return chain_from_root(x, n, position)[::-1]


def all_to_root(x, n, position):
    return (x, 0) if position else (0, (n - 1) * x)


def root_to_all(x, n, position):
    return all_to_root(x, n, position)[::-1]


RULES = {
    "allreduce_": Rule("all_reduce", 0, 1, None, symmetric(all_reduce_share)),
    "allreduce_coalesced_": Rule("all_reduce", 0, 1, None, symmetric(all_reduce_share)),
    "allgather_": Rule("all_gather", 1, 2, None, symmetric(others_share)),
    "allgather_coalesced_": Rule("all_gather", 1, 2, None, symmetric(others_share)),
    "_allgather_base_": Rule("all_gather", 1, 2, None, symmetric(others_share)),
    "allgather_into_tensor_coalesced_": Rule("all_gather", 1, 2, None, symmetric(others_share)),
    "reduce_scatter_": Rule("reduce_scatter", 0, 2, None, symmetric(others_share)),
    "_reduce_scatter_base_": Rule("reduce_scatter", 0, 2, None, symmetric(others_share)),
    "reduce_scatter_tensor_coalesced_": Rule("reduce_scatter", 0, 2, None, symmetric(others_share)),
    "alltoall_": Rule("all_to_all", 1, 2, None, symmetric(exchange_share)),
    "alltoall_base_": Rule("all_to_all", 1, 2, None, symmetric(exchange_share)),
    "broadcast_": Rule("broadcast", 0, 1, 2, chain_from_root),
    "reduce_": Rule("reduce", 0, 1, 3, chain_to_root),
    "gather_": Rule("gather", 1, 2, 3, all_to_root),
    "scatter_": Rule("scatter", 0, 2, 3, root_to_all),
    "send": Rule("send", 0, 1, None, lambda x, n, position: (x, 0)),
    "recv_": Rule("recv", 0, 1, None, lambda x, n, position: (0, x)),
    "recv_any_source_": Rule("recv", 0, 1, None, lambda x, n, position: (0, x)),
}


def tensors_in(value):
    """Every tensor in nested lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def call_of(operator: str, args) -> Call:
    """The `Call` that an operator of the c10d library stands for."""
    rule = RULES.get(operator)
    if rule is None:
        return Call(operator.strip("_"), 0, 0, 0)
    size = sum(t.nbytes for t in tensors_in(args[rule.tensor]))
    group = dist.ProcessGroup.unbox(args[rule.group])
    n, root = group.size(), args[rule.root] if rule.root is not None else 0
    return Call(rule.name, size, *rule.cost(size, n, (group.rank() - root) % n))
