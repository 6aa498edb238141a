"""Process groups that all ranks make in the same order: who really takes part in a sum."""

import contextlib

import torch
import torch.distributed as dist

from ...measuring.replaced_calls import replaced
from ..kit import At, RankExercise, Refused, World, complains
from ..kit.values import NO_RETURN, NOT_ITS_OWN

FINDS_A_BUG = True

ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))
IN_ORDER = (
    "the n-th group that one rank makes meets the n-th group that another one makes, whatever is "
    "in the lists. So all ranks go through the lists in the same order"
)
ALL_OF_THEM = (
    "all ranks of the world make all groups, also those that they are not in: dist.new_group "
    "counts the calls, and all ranks have to agree on the number"
)
NO_GROUP = "it returns what dist.new_group(ranks) gave for the list in which this rank is"


def make_and_sum(answer, group, case):
    groups, made = [list(ranks) for ranks in case.args[0]], []
    new_group = dist.new_group

    def noted(ranks=None, *args, **kwargs):
        made.append(list(ranks) if ranks is not None else None)
        return new_group(ranks, *args, **kwargs)

    given = [list(ranks) for ranks in groups]
    with replaced(new_group=noted):
        mine = answer(given)
    if not isinstance(mine, dist.ProcessGroup):
        why = NO_RETURN if mine is None else NO_GROUP
        raise Refused(f"it returned {mine!r:.60}", why)
    return {"made": made, "members": who_is_in(mine), "changed": given != groups}


def who_is_in(group) -> list[int]:
    """Whom this rank really reaches: a sum shows who took part."""
    x = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    x[dist.get_rank()] = 1
    with contextlib.suppress(RuntimeError):  # a group of others may not answer: then it is alone
        dist.all_reduce(x, group=group)
    return x.nonzero().flatten().tolist()


def faults(trial):
    lists = [list(ranks) for ranks in trial.case.args[0]]
    for place, of in enumerate(trial):
        wanted = next(ranks for ranks in lists if place in ranks)
        if of.members != wanted:
            what = f"rank {place} adds up with the ranks {of.members}, and not with {wanted}"
            yield what, reason(trial, lists)
    for place, of in enumerate(trial):
        if of.made != trial[0].made:
            what = f"rank 0 makes the groups {trial[0].made}, and rank {place} {of.made}"
            yield what, reason(trial, lists)
        if len(of.made) > len(lists):
            what = f"rank {place} makes {len(of.made)} groups, of {len(lists)} lists"
            yield what, "each list is needed once. A group takes a while, and stays"
        if of.changed:
            yield f"rank {place}: the lists have changed", NOT_ITS_OWN


def reason(trial, lists) -> str:
    made = [of.made for of in trial]
    as_sets = [[sorted(ranks or []) for ranks in one] for one in made]
    if all(one == as_sets[0] for one in as_sets) and any(one != made[0] for one in made):
        return "within a list, too, all ranks name the members in the same order"
    if any(sorted(map(str, one)) != sorted(map(str, made[0])) for one in made):
        return ALL_OF_THEM
    return IN_ORDER if any(one != made[0] for one in made) else NO_GROUP


def told(trial) -> str:
    return f"each rank adds up with the members of its group, {trial[0].members} and so on"


EXERCISE = RankExercise(
    "9.3",
    "my_group",
    cases=[
        At(World(4), (ROWS,), ", groups [0, 1] and [2, 3]"),
        At(World(4), (COLUMNS,), ", groups [0, 2] and [1, 3]"),
        At(World(4), (((0,), (1, 2, 3)),), ", groups [0] and [1, 2, 3]"),
    ],
    work=make_and_sum,
    facts=[complains(faults)],
    told=told,
    lost=f"{ALL_OF_THEM}. And {IN_ORDER}",
    hints=(
        "On a sheet of paper: which lists does rank 0 hand to dist.new_group, in which order? And "
        "rank 3? Write the numbers 1 and 2 beside them.",
        "The first call of rank 0 and the first call of rank 3 belong together, for "
        "torch.distributed. Are they for the same list?",
    ),
)
