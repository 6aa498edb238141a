"""Misconceptions about several collectives, recognised by their traces.

Each diagnosis takes a `CollectiveTrial` and returns the misconception that it shows, or "".
"""

import re

import torch

from coursekit.kit.diagnoses import contributions, describe_contributions, same
from coursekit.kit.rank_trials import IN_A_GROUP
from pedagogy_lib.basics.closeness import close_in_float32

NOT_A_POWER_OF_TWO = (
    "with 2 and 4 ranks it is right, with 3 it is not: in some round one has no partner, because "
    "place + reach is n or more. It passes over this round, and goes on: in a reduce it still has "
    "its sum to send, in a later one."
)


NAMES_NOBODY = "as the other side, but there are only the ranks"
WAITS_AGAIN = (
    "each rank waits for a request whose message does not come. Does the other side begin one to "
    "exactly this rank? And is a request waited for only once? A second wait() never ends."
)


ENDLESS = (
    "a loop does not end. Does what it counts change in every round? (And over Gloo a request's "
    "is_completed() stays False until somebody calls wait().)"
)


def hang_between_neighbours(case, error, both="exchange(…) does that") -> str:
    if somebody_computes(error):
        return ENDLESS
    lines, crossed = calls_in(error), diagnose_crossed_sends(error)
    if crossed or NAMES_NOBODY in str(error):  # the error explains this
        return crossed
    if len(error.waits) > 1 and len(set(lines)) == 1 and None not in lines:
        place = next(iter(error.waits.values()))
        if re.fullmatch(r"\w+\.wait\(\)", place.source()):
            return WAITS_AGAIN
        return (
            "each rank waits for the other side of a message, and nobody gets to begin it. Begin "
            f"both, and wait then: {both}"
        )
    return (
        "a message and its other side do not match. For every receive one rank has to send, to "
        "exactly this one; and a request has to be kept, and waited for, or its message is lost."
    )


def diagnose_crossed_sends(error) -> str:
    """Diagnose batches in which a rank waits for a rank that sends to a third one."""
    to, of = ({rank: peers(place, side) for rank, place in error.waits.items()}
              for side in ("dst", "src"))  # fmt: skip
    for rank, sources in of.items():
        for source in sources:
            if to.get(source) and rank not in to[source]:
                return (
                    f"rank {rank} waits for rank {source}, which sends to rank {to[source][0]}. In "
                    "a round a rank sends to one, and may have to receive from another: if all "
                    "send to rank + k, what comes is from rank - k."
                )
    return ""


def somebody_computes(error) -> bool:
    """Return whether a rank is in no call of torch.distributed and waits for no request."""
    at_work = filter(None, error.waits.values())  # the others have returned
    return not all(place.call or place.operation == "wait" for place in at_work)


def peers(place, side) -> list[int]:
    """Return the ranks at the given side, "dst" or "src", of the messages that a rank is in."""
    return [int(n) for n in re.findall(rf"{side}=(\d+)", place.call)] if place else []


def calls_in(error) -> list:
    """Return the line of its function in which each rank waits, or None if it has returned."""
    return [place and place.line for place in error.waits.values()]


TO_ITSELF = {
    "Pair is not connected": "a rank sends to itself, or receives from itself. If places are "
    "counted from the root, (rank - root) % n, a peer is at (its place + root) % n."
}


def hang_in_a_tree(case, error) -> str:
    if somebody_computes(error):
        return ENDLESS
    if case.n == 3 and not case.root:
        return NOT_A_POWER_OF_TWO
    return (
        "somebody waits for a message that nobody sends, or that nobody receives. In each round "
        "every rank is one of three: it sends, or it receives from exactly the one that sends to "
        "it, or it has nothing to do."
    )


def diagnose_other_root(trial) -> str:
    if not trial.case.root:
        return ""
    return (
        f"with root 0 it is right, with root {trial.case.root} it is not. Number the ranks from "
        "the root, (rank - root) % n, and add the root again to find a peer."
    )


def group_ignored(trial) -> str:
    return IN_A_GROUP if trial.case.members else ""


def not_a_power_of_two(trial) -> str:
    return NOT_A_POWER_OF_TWO if trial.case.n == 3 and not trial.case.root else ""


def diagnose_mean(trial) -> str:
    for place in range(trial.case.n):
        for got, wanted in zip(trial.after[place], trial.truth(place)):
            if wanted is None or not wanted.numel() or got.shape != wanted.shape:
                continue
            if trial.case.n > 1 and close_in_float32(got.double() * trial.case.n, wanted):
                return (
                    "this is the mean. The sum was asked for: dividing by n is a step of its own, "
                    "which not everybody who needs the sum wants."
                )
    return ""


def sum_of_the_wrong_ranks(trial) -> str:
    """Diagnose a wrong sum by the ranks whose numbers are in it."""
    for place in range(trial.case.n):
        for index, wanted in enumerate(trial.truth(place)):
            got = trial.after[place][index]
            if wanted is None or same(got, wanted) or got.shape != wanted.shape or not got.numel():
                continue
            times = contributions(got, [tensors[index] for tensors in trial.before])
            if times is not None and sum(times) > 1:
                name = trial.task.name_of(index, trial.case)
                return f"in rank {place}'s {name}, {describe_contributions(times)}."
    return ""


def put_into_the_list(trial) -> str:
    """Diagnose right numbers that are in other tensors than the caller's."""
    for place in range(trial.case.n):
        triples = zip(trial.after[place], trial.listed[place], trial.truth(place))
        for index, (own, listed, wanted) in enumerate(triples):
            is_right = isinstance(listed, torch.Tensor) and wanted is not None
            if is_right and not same(own, wanted) and same(listed, wanted):
                name = trial.task.name_of(index, trial.case)
                return (
                    f"the numbers are right, but in a new tensor. `{name} = …` only puts another "
                    "tensor into the list; the one that the caller looks at stays as it was. Write "
                    "into that: by receiving into it, with += or with .copy_(…)."
                )
    return ""


def changes_nothing(trial) -> str:
    unchanged = all(same(a, b) for pair in zip(trial.before, trial.after) for a, b in zip(*pair))
    if not unchanged or trial.case.n == 1:
        return ""
    if not any(trial.calls):
        return "nothing has been sent, and every rank still has what it had."
    return (
        "every rank still has what it had: the result went into another tensor, as `x = …`, "
        "clone() or torch.cat(…) make one. The caller's is changed by x.copy_(…), x += … or by "
        "receiving into it."
    )
