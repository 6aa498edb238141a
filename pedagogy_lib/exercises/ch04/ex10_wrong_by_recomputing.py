"""Who computes wrong gradients: each batch is computed by two ranks."""

import torch
import torch.distributed as dist

from ...basics.errors import HangError
from ..kit import At, RankExercise, Refused, World, answering, complains
from ..kit.costs import need_cost
from ..kit.hashes import HASHES, hashes_as_elsewhere
from .ex09_differing_replicas import DTYPE

MOST_BYTES = 4_000
GROUP_OF_3 = World(5, (0, 2, 3))
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


def right_gradients(batch, with_nan=False) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(100 + batch)
    gradients = [torch.randn(30, 20, generator=chance), torch.randn(20, generator=chance)]
    if with_nan:
        gradients[0][2, 3] = torch.nan
    return gradients


def wrong_gradients(batch, how) -> list[torch.Tensor]:
    gradients = right_gradients(batch, how == "NaN")
    if how == "bit":
        gradients[1].view(torch.int32)[5] ^= 1
    if how == "order":
        gradients[0] = gradients[0].flip(0)
    if how == "sign":
        gradients = [-gradient for gradient in gradients]
    return gradients


def recompute(answer, group, case):
    how, wrong = case.args
    rank, asked_for = dist.get_rank(group), []

    def gradients_of(batch):
        n = dist.get_world_size(group)
        if not isinstance(batch, int) or not 0 <= batch < n:
            raise Refused(
                f"gradients_of({batch!r:.20}) was called", f"there are ranks 0 to {n - 1}"
            )
        asked_for.append(batch)
        if rank == wrong:
            return wrong_gradients(batch, how)
        return right_gradients(batch, how == "NaN")

    with hashes_as_elsewhere(dist.get_rank()) as hashed, answering():
        value = answer(gradients_of, group)
    if value is not None and (isinstance(value, bool | list | tuple | str)):
        raise Refused(f"it returned {value!r:.40}", "asked is one rank, such as 2, or None")
    rank = value if value is None else int(value)
    return {"rank": rank, "asked_for": asked_for, "hashed": bool(hashed)}


def faults(trial):
    how, wrong = trial.case.args
    found, asked_for = trial.of("rank"), trial.of("asked_for")
    is_alone = all(set(asked) == {place} for place, asked in enumerate(asked_for))
    if any(trial.of("hashed")) and found != [wrong] * trial.n:
        yield f"{trial.who(0)}: expected {wrong}, got {found[0]}", HASHES
    for place, asked in enumerate(asked_for):
        if is_alone:
            yield f"{trial.who(place)}: computed batches {asked}", OWN_TWICE
        if set(asked) != {place, (place + 1) % trial.n}:
            wanted = [place, (place + 1) % trial.n]
            yield f"{trial.who(place)}: computed batches {asked}, and not {wanted}", WHICH
    other = next((k for k in range(trial.n) if found[k] != found[0]), None)
    if other is not None:
        what = f"{trial.who(0)} returned {found[0]}, {trial.who(other)} {found[other]}"
        yield what, ONE_KNOWS
    if found[0] != wrong:
        yield f"expected {wrong}, got {found[0]}", why(trial, how, wrong, found[0])
    for place, asked in enumerate(asked_for):
        if len(asked) != 2:
            yield f"{trial.who(place)}: computed batches {asked}", TWICE


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


EXERCISE = RankExercise(
    "4.10",
    "wrong_by_recomputing",
    lab="finding_out",
    cases=[
        At(World(4), ("order", None), ", all are right"),
        At(World(4), ("order", 1), ", rank 1 is wrong"),
        At(World(4), ("order", 0), ", rank 0 is wrong"),
        At(World(4), ("order", 3), ", rank 3 is wrong"),
        At(World(3), ("sign", 2), ", rank 2 is wrong"),
        At(World(3), ("sign", 0), ", rank 0 is wrong"),
        At(World(4), ("bit", 2), ", one bit is wrong on rank 2"),
        At(World(3), ("NaN", None), ", the same NaN in all"),
        At(GROUP_OF_3, ("order", 1), ", its second is wrong"),
    ],
    work=recompute,
    found=lambda case: ("rank", "asked_for"),
    facts=[complains(faults), need_few_bytes],
    told=lambda trial: f"{trial.case.args[1]}",
    explain=explain,
    errors={
        "list index out of range": "there are ranks 0 to n - 1: the next of the last one is rank "
        "0, (rank + 1) % n",
        "same dtype": DTYPE,
        "different dtypes": DTYPE,
        "without overflow": "a checksum has 63 bits: only an int64 has room for it",
    },
    hints=(
        "Which two ranks compute batch k? If one of them is wrong, which batches do two ranks "
        "disagree about?",
        "Batch k is computed by ranks k and k - 1. Rank r is wrong if there is disagreement about "
        "batch r and about batch (r + 1) % n.",
        "mine = torch.tensor([checksum(gradients_of(rank)), checksum(gradients_of(next))]); after "
        "an all-gather, compare sums[k][0] with sums[k - 1][1]. In Python, sums[-1] is the last.",
    ),
)  # fmt: skip
