"""Replicas that are not equal, found by checksums and by majority."""

from collections import Counter

from coursekit.kit import Equals, RankCase, RankExercise, World, complains
from coursekit.kit.observed_calls import HASHES
from coursekit.kit.tables import tabulate
from pedagogy_lib.basics.errors import HangError

from .cases import GROUP_OF_3, compare
from .truth import (
    ALL_THE_WORLD,
    AS_RANK_0,
    ERRORS,
    LEAVE,
    MISSED,
    NANS,
    NOBODY,
    ONE_KNOWS,
    THE_MOST,
    TIE,
    WORLD_RANKS,
    need_few_bytes,
)


def faults(trial):
    found = trial.collect_values("ranks")
    if any(trial.collect_values("hashed")) and found != [truth(trial, k) for k in range(trial.n)]:
        yield f"{trial.name_of_rank(0)}: expected {truth(trial, 0)}, got {found[0]}", HASHES
    other = next((k for k in range(trial.n) if found[k] != found[0]), None)
    if other is not None:
        what = f"{trial.name_of_rank(0)} returned {found[0]}"
        yield f"{what}, {trial.name_of_rank(other)} {found[other]}", ONE_KNOWS
    for place, of in enumerate(trial):
        if of.changed:
            yield f"{trial.name_of_rank(place)}: the model's {of.changed[0]} changed", LEAVE


@tabulate(lambda: [case.args[1:] for case in EXERCISE.cases])
def right(versions) -> list[int]:
    usual, times = Counter(versions).most_common(1)[0]
    is_known = 2 * times > len(versions)
    return [k for k, version in enumerate(versions) if version != usual or not is_known]


@tabulate(lambda: [case.args[1:] for case in EXERCISE.cases])
def apply_other_rules(versions) -> dict[str, list[int]]:
    usual = Counter(versions).most_common(1)[0][0]
    return {
        TIE: [k for k, version in enumerate(versions) if version != usual],
        AS_RANK_0: [k for k, version in enumerate(versions) if version != versions[0]],
        THE_MOST: [k for k, version in enumerate(versions) if version == usual],
    }


def truth(trial, place):
    return right(trial.case.args[1])


def mistakes(trial, place):
    how, versions = trial.case.args
    of_world = [trial.case.ranks[k] for k in right(versions)]
    found = apply_other_rules(versions) | {WORLD_RANKS: of_world}
    if right(versions) == list(range(trial.n)):  # there is no majority
        return {NOBODY: [], ALL_THE_WORLD: list(range(trial.case.world.size))} | found
    missed = {NANS: list(range(trial.n))} if how == "NaN" else {MISSED[how]: []}
    return missed | found


def describe_ranks(trial, place) -> str:
    got, wanted = trial[place].ranks, truth(trial, place)
    return f"{trial.name_of_rank(place)}: expected {wanted}, got {got}"


def describe_trial(trial) -> str:
    return f"{truth(trial, 0)}"


EXERCISE = RankExercise(
    "differing_replicas",
    lab="finding_out",
    cases=[
        RankCase(World(4), ("bit", (0, 0, 0, 0)), ", all equal"),
        RankCase(World(4), ("bit", (0, 0, 1, 0)), ", one bit is another on rank 2"),
        RankCase(World(3), ("bit", (1, 0, 0)), ", one bit is another on rank 0"),
        RankCase(World(4), ("buffer", (0, 1, 0, 0)), ", a buffer is another on rank 1"),
        RankCase(
            World(4), ("same sum", (0, 0, 0, 1)), ", two weights have changed places on rank 3"
        ),
        RankCase(World(3), ("last", (0, 1, 0)), ", the last bias is another on rank 1"),
        RankCase(World(3), ("inner", (0, 0, 1)), ", a weight two levels deep is another on rank 2"),
        RankCase(World(3), ("own", (1, 0, 0)), ", a parameter of its own is another on rank 0"),
        RankCase(World(4), ("frozen", (0, 0, 1, 0)), ", a frozen weight is another on rank 2"),
        RankCase(World(3), ("count", (0, 1, 0)), ", a count is another on rank 1"),
        RankCase(World(3), ("not saved", (0, 0, 1)), ", a buffer that is not saved, on rank 2"),
        RankCase(World(5), ("bit", (0, 1, 0, 2, 0)), ", ranks 1 and 3 differ, each in its own way"),
        RankCase(World(2), ("bit", (0, 1)), ", they differ"),
        RankCase(World(4), ("bit", (0, 1, 1, 0)), ", two and two"),
        RankCase(World(5), ("bit", (0, 1, 2, 0, 3)), ", two alike, and three others"),
        RankCase(World(3), ("NaN", (1, 1, 1)), ", the same NaN in all"),
        RankCase(GROUP_OF_3, ("bit", (0, 0, 1)), ", its last one differs"),
        RankCase(GROUP_OF_3, ("bit", (0, 1, 2)), ", three in three ways"),
    ],
    work=compare,
    facts=[
        complains(faults),
        Equals("ranks", truth, mistakes, "the ranks", tells=describe_ranks),
        need_few_bytes,
    ],
    right=describe_trial,
    hints=(
        "Equal models have equal checksums. So what does each rank have to tell the others?",
        "torch.tensor([checksum([*model.parameters(), *model.buffers()])]), and dist.all_gather "
        "into a list of tensors of the same shape and dtype.",
        "Counter(sums).most_common(1)[0] gives the most frequent one, and how often it is there. "
        "Numbers can be counted, tensors cannot: .item().",
    ),
    errors=ERRORS,
    explain=lambda case, error: (
        "all ranks of the group call all_gather, also those whose model is right"
        if isinstance(error, HangError) and not case.is_group
        else ""
    ),
)
