"""The right results, and the results of known mistakes."""

from coursekit.kit.results import NOT_ITS_OWN

from .cases import NO_GROUP

IN_ORDER = (
    "the n-th group that one rank makes meets the n-th group that another one makes, whatever is "
    "in the lists. So all ranks go through the lists in the same order"
)

ALL_OF_THEM = (
    "all ranks of the world make all groups, also those that they are not in: dist.new_group "
    "counts the calls, and all ranks have to agree on the number"
)


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


def describe_success(trial) -> str:
    return f"each rank adds up with the members of its group, {trial[0].members} and so on"
