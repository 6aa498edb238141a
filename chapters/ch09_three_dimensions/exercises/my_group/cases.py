"""The code that runs next to the answer, and its inputs."""

import contextlib

import torch
import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.results import NO_RETURN
from pedagogy_lib.measuring.replaced_calls import replace_calls

ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))

NO_GROUP = "it returns what dist.new_group(ranks) gave for the list in which this rank is"


def make_and_sum(answer, group, case):
    groups, made = [list(ranks) for ranks in case.args[0]], []
    new_group = dist.new_group

    def record_new_group(ranks=None, *args, **kwargs):
        made.append(list(ranks) if ranks is not None else None)
        return new_group(ranks, *args, **kwargs)

    given = [list(ranks) for ranks in groups]
    with replace_calls(new_group=record_new_group):
        mine = answer(given)
    if not isinstance(mine, dist.ProcessGroup):
        why = NO_RETURN if mine is None else NO_GROUP
        raise Rejection(f"it returned {mine!r:.60}", why)
    return {"made": made, "members": who_is_in(mine), "changed": given != groups}


def who_is_in(group) -> list[int]:
    """Return the ranks that this rank really reaches: a sum shows which ones took part."""
    x = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    x[dist.get_rank()] = 1
    with contextlib.suppress(RuntimeError):  # a group of other ranks may fail: this one is alone
        dist.all_reduce(x, group=group)
    return x.nonzero().flatten().tolist()
