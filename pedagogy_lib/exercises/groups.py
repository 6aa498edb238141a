"""Answers that are tried in groups of ranks, and what they communicate there."""

import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ..calls import RULES, calls_of
from ..checking import Wrong, try_on_ranks
from .overlapping import Refused
from .replicas import IN_A_GROUP, explain_by

WORLDS = [[(0, 1, 2)], [(0,), (1, 2)]]  # groups that take part, each by itself


class Calls(TorchDispatchMode):
    """The communication calls that are made under it."""

    def __init__(self):
        super().__init__()
        self.made = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # torch would otherwise import its compiler at the first operation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.made += calls_of(func, args)
        return func(*args, **(kwargs or {}))


def in_groups(work, answer, groups):
    """On a rank: `work(answer, group)` in the one of these groups that it belongs to."""
    if len(groups) == 1:
        return work(answer, None)
    made = [dist.new_group(list(members)) for members in groups]
    return next(work(answer, g) for g, of in zip(made, groups) if dist.get_rank() in of)


def try_groups(groups, work, answer, errors, mismatch):
    """Yields a name for each group, and what its members have found.

    errors    {words of an error: what they mean}
    mismatch  what it means that ranks lose each other
    """
    names = [name_of(members, groups) for members in groups]
    case = " and ".join(names)
    known = explain_by(errors, IN_A_GROUP if len(groups) > 1 else mismatch)

    def explain(error):
        refused = getattr(error, "exception", None)
        if isinstance(refused, Refused):
            raise Wrong(case, f"rank {error.rank}: {refused.what}", refused.why)
        return known(error)

    size = sum(map(len, groups))
    run = try_on_ranks(case, in_groups, work, answer, groups, world_size=size, explain=explain)
    return zip(names, ([run.values[rank] for rank in members] for members in groups))


def name_of(members, groups) -> str:
    if len(groups) == 1:
        return f"{len(members)} ranks"
    return f"a group of ranks {list(members)}" if len(members) > 1 else f"rank {members[0]} alone"


def parts_of(x, n, dim=0):
    """What each of n ranks has."""
    return x.tensor_split(n, dim)
