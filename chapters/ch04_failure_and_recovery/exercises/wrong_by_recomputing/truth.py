"""The right results, and the results of known mistakes."""

from coursekit.kit.message_costs import need_cost
from coursekit.kit.observed_calls import HASHES
from pedagogy_lib.basics.errors import HangError

from .cases import right_gradients

MOST_BYTES = 4_000

OWN_TWICE = (
    "each rank has computed its own batch alone. A rank that computes wrongly may do so in the "
    "same way each time: only another rank can tell"
)

WHICH = (
    "gradients_of(k) is called with two ranks: with this rank, and with the next one, which is "
    "(rank + 1) % n"
)

AGREE = "two ranks compute each batch: those that agree have computed rightly, nobody is accused"

NEIGHBOUR = (
    "a neighbour is accused. Batch k is computed by rank k and by rank k - 1. So the rank that is "
    "wrong disagrees about its own batch and about the next rank's"
)

MISSED = (
    "two batches are disputed here, and nobody is accused. Are all bits compared? Sums and "
    "tolerances do not see everything; checksum(…), from the lab, does"
)

ZERO = (
    "it is rank 0, and 0 counts as nothing in a condition: `or None`, `if rank`, and any([0]) take "
    "it for no rank at all"
)

ONE_KNOWS = (
    "all ranks return the same. Here, some know it and others do not: each rank has to learn what "
    "all others have computed, not its neighbours alone"
)

TWICE = "a batch costs a forward and a backward each time: keep what gradients_of(k) has given"

IN_A_RING = (
    "a message and its other side do not match. Every rank waits for one that waits, too. One "
    "all-gather, in which all take part, tells all ranks everything"
)

LAST = "the last rank is wrong here: it computes its own batch, and that of rank 0, its next one"

NANS = "there is a NaN in the gradients, the same everywhere. Compare bits: NaN is not NaN"

WORLD_RANK = "ranks are numbered within the group, as dist.get_rank(group) does"


def faults(trial):
    how, wrong = trial.case.args
    found, asked_for = trial.collect_values("rank"), trial.collect_values("asked_for")
    is_alone = all(set(asked) == {place} for place, asked in enumerate(asked_for))
    if any(trial.collect_values("hashed")) and found != [wrong] * trial.n:
        yield f"{trial.name_of_rank(0)}: expected {wrong}, got {found[0]}", HASHES
    for place, asked in enumerate(asked_for):
        if is_alone:
            yield f"{trial.name_of_rank(place)}: computed batches {asked}", OWN_TWICE
        if set(asked) != {place, (place + 1) % trial.n}:
            wanted = [place, (place + 1) % trial.n]
            yield f"{trial.name_of_rank(place)}: computed batches {asked}, and not {wanted}", WHICH
    other = next((k for k in range(trial.n) if found[k] != found[0]), None)
    if other is not None:
        what = f"{trial.name_of_rank(0)} returned {found[0]}"
        yield f"{what}, {trial.name_of_rank(other)} {found[other]}", ONE_KNOWS
    if found[0] != wrong:
        yield f"expected {wrong}, got {found[0]}", why(trial, how, wrong, found[0])
    for place, asked in enumerate(asked_for):
        if len(asked) != 2:
            yield f"{trial.name_of_rank(place)}: computed batches {asked}", TWICE


def why(trial, how, wrong, got) -> str:
    if trial.case.is_group and wrong is not None and got == trial.case.ranks[wrong]:
        return WORLD_RANK
    if wrong is None:
        return NANS if how == "NaN" else AGREE
    if got is None:
        return ZERO if wrong == 0 else LAST if wrong == trial.n - 1 else MISSED
    return NEIGHBOUR


def explain(case, error) -> str:
    if not isinstance(error, HangError):
        return ""
    called = [place.call for place in error.waits.values() if place and place.call]
    messages = [call for call in called if "send" in call or "recv" in call]
    return IN_A_RING if messages else ""


def need_few_bytes(trial) -> str:
    most = max(trial.sent_bytes)
    weights = sum(gradient.nbytes for gradient in right_gradients(0))
    need_cost(trial, most <= min(MOST_BYTES, 2 * weights), f"{most:,} bytes were sent by one rank",
              "gradients need not be sent: equal gradients have equal checksums")  # fmt: skip
    return ""
