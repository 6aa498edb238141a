"""Replicas that are not equal: by checksums, and by majority."""

from collections import Counter

import torch
import torch.distributed as dist

from ...basics.errors import HangError
from ..kit import At, Equals, RankExercise, Refused, World, answering
from ..kit.costs import need_cost

MOST_BYTES = 4_000  # that a rank may send: checksums, also as pickled objects, but no weights
GROUP_LARGE = World(5, (1, 2, 4))

AS_RANK_0 = (
    "the replicas are compared with rank 0's. But rank 0 may be the one that is wrong: then this "
    "accuses all others. What most ranks have is taken to be right"
)
TIE = (
    "if no model is on more than half of the ranks, nobody knows which one is right: then it is "
    "all ranks"
)
THE_MOST = "these are the ranks that have what most have; asked are the others"
WORLD_RANKS = "ranks are numbered within the group, as dist.get_rank(group) does"
MISSED = {
    "buffer": "a model's buffers are part of its state, too: model.buffers()",
    "same sum": "two weights have changed, and their sum is the same. A checksum changes with each "
    "bit: checksum([…]), from the lab",
    "last": "the last parameter is another one: all of them count",
    "bit": "one bit is another: `allclose`, or a sum in floating point, may not see it. "
    "checksum([…]), from the lab, does",
}
NANS = (
    "all models are the same, to the last bit, and have a NaN in them. A NaN is not equal to "
    "itself; compare bits, as checksum([…]) of the lab does"
)


def model_of() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(40, 100), torch.nn.BatchNorm1d(100),
                                torch.nn.Linear(100, 40))  # fmt: skip
    chance = torch.Generator().manual_seed(0)
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            tensor.detach().copy_(torch.rand(tensor.shape, generator=chance) + 0.5)
    return model


def change(model, how, much=1):
    """How a model becomes another one."""
    weight = model[0].weight.detach()
    if how == "bit":
        weight.view(torch.int32)[0, 0] ^= much
    if how == "buffer":
        model[1].running_mean[3] += much
    if how == "same sum":
        weight[0, 0], weight[0, 1] = weight[0, 1].clone(), weight[0, 0].clone()
    if how == "last":
        model[2].bias.detach()[-1] -= much
    if how == "NaN":
        weight[0, 0] = torch.nan


def compare(answer, group, case):
    """case.args: how models differ, and which version of it each place has (0: none)."""
    how, versions = case.args
    model, mine = model_of(), versions[dist.get_rank(group)]
    if mine:
        change(model, how, mine)
    with answering():
        value = answer(model, group)
    if value is None or not isinstance(value, list | tuple):
        raise Refused(f"it returned {value!r:.40}", "asked is a list of ranks, such as [2]")
    return {"ranks": [int(rank) for rank in value]}


def right(versions) -> list[int]:
    usual, times = Counter(versions).most_common(1)[0]
    is_known = 2 * times > len(versions)
    return [k for k, version in enumerate(versions) if version != usual or not is_known]


def truth(trial, place):
    return right(trial.case.args[1])


def mistakes(trial, place):
    how, versions = trial.case.args
    usual = Counter(versions).most_common(1)[0][0]
    found = {
        TIE: [k for k, version in enumerate(versions) if version != usual],
        AS_RANK_0: [k for k, version in enumerate(versions) if version != versions[0]],
        THE_MOST: [k for k, version in enumerate(versions) if version == usual],
        WORLD_RANKS: [trial.case.ranks[k] for k in right(versions)],
    }
    missed = {NANS: list(range(trial.n))} if how == "NaN" else {MISSED[how]: []}
    return missed | found


def in_words(trial, place) -> str:
    got, wanted = trial[place].ranks, truth(trial, place)
    return f"{trial.who(place)}: expected {wanted}, got {got}"


def need_few_bytes(trial) -> str:
    most = max(trial.sent_bytes)
    weights = sum(p.nbytes for p in model_of().parameters())
    why = (
        f"the weights themselves have {weights:,} bytes, and are not needed: equal weights have "
        "equal checksums, of 8 bytes each"
    )
    need_cost(trial, most <= MOST_BYTES, f"{most:,} bytes were sent by one rank", why)
    return ""


def told(trial) -> str:
    return f"{truth(trial, 0)}"


EXERCISE = RankExercise(
    "4.9",
    "differing_replicas",
    lab="finding_out",
    cases=[
        At(World(4), ("bit", (0, 0, 0, 0)), ", all equal"),
        At(World(4), ("bit", (0, 0, 1, 0)), ", one bit is another on rank 2"),
        At(World(3), ("bit", (1, 0, 0)), ", one bit is another on rank 0"),
        At(World(4), ("buffer", (0, 1, 0, 0)), ", a buffer is another on rank 1"),
        At(World(4), ("same sum", (0, 0, 0, 1)), ", two weights have changed places on rank 3"),
        At(World(3), ("last", (0, 1, 0)), ", the last bias is another on rank 1"),
        At(World(5), ("bit", (0, 1, 0, 2, 0)), ", ranks 1 and 3 differ, each in its own way"),
        At(World(2), ("bit", (0, 1)), ", they differ"),
        At(World(4), ("bit", (0, 1, 1, 0)), ", two and two"),
        At(World(5), ("bit", (0, 1, 2, 0, 3)), ", two alike, and three others"),
        At(World(3), ("NaN", (1, 1, 1)), ", the same NaN in all"),
        At(GROUP_LARGE, ("bit", (0, 0, 1)), ", its last one differs"),
    ],
    work=compare,
    facts=[Equals("ranks", truth, mistakes, "the ranks", tells=in_words), need_few_bytes],
    told=told,
    hints=(
        "Equal models have equal checksums. So what does each rank have to tell the others?",
        "torch.tensor([checksum([*model.parameters(), *model.buffers()])]), and dist.all_gather "
        "into a list of tensors of the same shape and dtype.",
        "Counter(sums).most_common(1)[0] gives the most frequent one, and how often it is there. "
        "Numbers can be counted, tensors cannot: .item().",
    ),
    errors={
        "Tensors must have same dtype": "a checksum is an int64, and so are the tensors into "
        "which it is gathered: torch.zeros_like(mine)",
    },
    explain=lambda case, error: (
        "all ranks of the group call all_gather, also those whose model is right"
        if isinstance(error, HangError) and not case.is_group else ""
    ),
)  # fmt: skip
