"""Diagnosis of a hang from the collectives that each rank has begun in each process group."""

from collections import defaultdict

from .flight_recorder import GroupCalls
from .rank_texts import ranks_text, subject

Calls = dict[int, dict[str, GroupCalls]]  # by rank and name of the group
WORLD = "default_pg"  # torch's name of the group of all ranks
OF_ONE_SHAPE = ("all_reduce", "broadcast", "reduce")  # whose tensors must be alike on all ranks

UNFIT = (
    "The process groups do not fit together: {} belong to one group, {} to another, and both were "
    "made as number {}. Every rank must call new_group() for every group, in the same order, also "
    "for the groups that it is not in."
)
CIRCLE = (
    "The ranks wait in a circle: {}. Ranks that use several groups must take the collectives of "
    "these groups in the same order."
)
DIFFERENCE = "Collective {} of {} is {}."
BEHIND = "{} begun {} of {} so far, and the others wait in number {}, {}."


def find_unfit_groups(calls: Calls) -> str:
    """Describe two groups that got the same number because some ranks did not make all groups."""
    members = defaultdict(dict)  # {name: {ranks: a rank that knows it so}}
    for of_rank in calls.values():
        for name, group in of_rank.items():
            members[name][group.ranks] = None
    for name, groups in members.items():
        if len(groups) > 1:
            return UNFIT.format(*map(ranks_text, list(groups)[:2]), name)
    return ""


def find_circle(calls: Calls) -> str:
    """Describe ranks that wait for each other in a circle, each in another group than the next."""
    waits = {rank: next(iter(list_waits(calls, rank)), None) for rank in calls}
    for start in calls:
        path, rank = [], start
        while waits.get(rank) and rank not in path:
            path.append(rank)
            rank = waits[rank][1]
        circle = path[path.index(rank) :] if rank in path else []
        if len({waits[one][0].label for one in circle}) > 1:
            return CIRCLE.format(", ".join(describe_wait(one, *waits[one]) for one in circle))
    return ""


def describe_wait(rank, group, other) -> str:
    return f"rank {rank} waits in {group_text(group)} for rank {other}"


def list_waits(calls: Calls, rank):
    """Yield (a group in which a rank waits, another rank that it waits for there)."""
    for name, group in calls[rank].items():
        for other in group.ranks:
            theirs = calls.get(other, {}).get(name)
            begun = theirs.begun if theirs and theirs.ranks == group.ranks else 0
            if group.ended < group.begun and other in calls and begun <= group.ended:
                yield group, other


def find_difference(calls: Calls) -> str:
    """Describe the first collective of a group that ranks disagree on, or have not all begun.

    A group's very first collective is left out, because the lines of the ranks tell as much.
    """
    for name, ranks in list_shared_groups(calls):
        of_group = {rank: calls[rank][name] for rank in ranks if name in calls.get(rank, {})}
        told = compare_calls(of_group) or compare_counts(of_group)
        if told:
            return told
    return ""


def list_shared_groups(calls: Calls) -> dict:
    """Return {(name, members): None} of all groups with several members, each once."""
    groups = ((name, group.ranks) for of_rank in calls.values() for name, group in of_rank.items())
    return dict.fromkeys(pair for pair in groups if len(pair[1]) > 1)


def compare_calls(of_group) -> str:
    known = [group.calls for group in of_group.values()]
    for number in sorted(set.intersection(*map(set, known)) - {1}):
        made = defaultdict(list)  # {what must be alike: ranks}
        for rank, group in of_group.items():
            made[comparable(group.calls[number])].append(rank)
        if len(made) > 1:
            texts = [f"{of_group[some[0]].calls[number]} on {ranks_text(some)}"
                     for some in made.values()]  # fmt: skip
            return DIFFERENCE.format(number, group_text(group), ", but ".join(texts))
    return ""


def comparable(call) -> str:
    """Return the part of a call that must be alike on all ranks of its group."""
    name = call.partition("(")[0]
    return call if name in OF_ONE_SHAPE else name


def compare_counts(of_group) -> str:
    fewest, most = (of(group.begun for group in of_group.values()) for of in (min, max))
    behind = [rank for rank, group in of_group.items() if group.begun == fewest]
    ahead = next(group for group in of_group.values() if group.begun == most)
    if fewest in (0, most) or fewest + 1 not in ahead.calls:
        return ""
    so_far = f"{fewest} collective{'s' * (fewest > 1)}"
    call = ahead.calls[fewest + 1]
    has = subject(behind, "has", "have")
    return BEHIND.format(has, so_far, group_text(ahead), fewest + 1, call)


def group_text(group) -> str:
    if group.label == WORLD:
        return "the group of all ranks"
    return f"group {group.label} ({ranks_text(group.ranks)})"
