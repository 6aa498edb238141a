"""Replicas that are not equal: by checksums, and by majority."""

from collections import Counter

import torch
import torch.distributed as dist

from ...basics.errors import HangError
from ..kit import At, Equals, RankExercise, Refused, World, answering, complains
from ..kit.costs import need_cost
from ..kit.hashes import HASHES, hashes_as_elsewhere
from ..kit.tables import tabled
from ..kit.values import NO_RETURN

MOST_BYTES = 4_000  # that a rank may send: checksums, also as pickled objects, but no weights
GROUP_OF_3 = World(5, (1, 2, 4))

AS_RANK_0 = (
    "the replicas are compared with rank 0's. But rank 0 may be the one that is wrong: then this "
    "accuses all others. What most ranks have is taken to be right"
)
TIE = (
    "if no model is on more than half of the ranks, nobody knows which one is right: then it is "
    "all ranks"
)
NOBODY = f"{TIE}, and not none"
ALL_THE_WORLD = f"{TIE}, which are those of the group, from 0 to n - 1"
THE_MOST = "these are the ranks that have what most have; asked are the others"
WORLD_RANKS = "ranks are numbered within the group, as dist.get_rank(group) does"
MISSED = {
    "bit": "one bit is another: `allclose`, or a sum in floating point, may not see it. "
    "checksum([…]), from the lab, does",
    "buffer": "a model's buffers are part of its state, too: model.buffers()",
    "count": "a buffer of whole numbers is another: buffers count, whatever their dtype",
    "not saved": "a buffer is another that state_dict() leaves out, as it is registered with "
    "persistent=False. model.buffers() has it",
    "same sum": "two weights have changed, and their sum is the same. A checksum changes with each "
    "bit: checksum([…]), from the lab",
    "last": "the last parameter is another one: all of them count",
    "own": "a parameter is another that belongs to the model itself, and to none of its layers: "
    "all that model.parameters() gives count",
    "inner": "a weight is another that lies two levels deep: all that model.parameters() gives "
    "count",
    "frozen": "a frozen parameter is another one. It is not trained, and counts all the same",
}
NANS = (
    "all models are the same, to the last bit, and have a NaN in them. A NaN is not equal to "
    "itself; compare bits, as checksum([…]) of the lab does"
)


class Model(torch.nn.Module):
    """With something of every kind that a model may have."""

    def __init__(self):
        super().__init__()
        inner = torch.nn.Sequential(torch.nn.Linear(40, 100), torch.nn.BatchNorm1d(100))
        self.scale = torch.nn.Parameter(torch.empty(40))
        self.layers = torch.nn.ModuleDict({"first": inner, "last": torch.nn.Linear(100, 40)})
        self.layers["last"].weight.requires_grad_(False)
        self.register_buffer("mask", torch.empty(40), persistent=False)

    def forward(self, x):
        return self.layers["last"](self.layers["first"](x * self.scale * self.mask))


def model_of() -> torch.nn.Module:
    model = Model()
    chance = torch.Generator().manual_seed(0)
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            tensor.detach().copy_(torch.rand(tensor.shape, generator=chance) + 0.5)
    return model


def change(model, how, much=1):
    """How a model becomes another one."""
    first, last = model.layers["first"], model.layers["last"]
    weight = first[0].weight.detach()
    if how == "bit":
        weight.view(torch.int32)[0, 0] ^= much
    if how == "same sum":
        weight[0, 0], weight[0, 1] = weight[0, 1].clone(), weight[0, 0].clone()
    if how == "NaN":
        weight[0, 0] = torch.nan
    changed = {
        "buffer": first[1].running_mean,
        "count": first[1].num_batches_tracked,
        "not saved": model.mask,
        "last": last.bias,
        "own": model.scale,
        "inner": first[1].weight,
        "frozen": last.weight,
    }
    if how in changed:
        changed[how].detach().view(-1)[-1] += much


def state_of(model) -> dict:
    """All that an answer is to leave as it is."""
    return {
        "mode": [module.training for module in model.modules()],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "gradients": [parameter.grad is None for parameter in model.parameters()],
        "numbers": [x.detach().numpy().tobytes() for x in [*model.parameters(), *model.buffers()]],
    }


def compare(answer, group, case):
    """case.args: how models differ, and which version of it each place has (0: none)."""
    how, versions = case.args
    model, mine = model_of(), versions[dist.get_rank(group)]
    if mine:
        change(model, how, mine)
    before = state_of(model)
    with hashes_as_elsewhere(dist.get_rank()) as hashed, answering():
        value = answer(model, group)
    if not isinstance(value, list | tuple) or any(isinstance(rank, bool) for rank in value):
        why = NO_RETURN if value is None else "asked is a list of ranks, such as [2]"
        raise Refused(f"it returned {value!r:.40}", why)
    after = state_of(model)
    changed = [what for what in before if before[what] != after[what]]
    return {"ranks": [int(rank) for rank in value], "hashed": bool(hashed), "changed": changed}


LEAVE = "looking at a model changes nothing in it: the training goes on with it"
ONE_KNOWS = (
    "all ranks return the same list. So each has to learn what all others have: that is an "
    "all-gather"
)


def faults(trial):
    found = trial.of("ranks")
    if any(trial.of("hashed")) and found != [truth(trial, k) for k in range(trial.n)]:
        yield f"{trial.who(0)}: expected {truth(trial, 0)}, got {found[0]}", HASHES
    other = next((k for k in range(trial.n) if found[k] != found[0]), None)
    if other is not None:
        what = f"{trial.who(0)} returned {found[0]}, {trial.who(other)} {found[other]}"
        yield what, ONE_KNOWS
    for place, of in enumerate(trial):
        if of.changed:
            yield f"{trial.who(place)}: the model's {of.changed[0]} changed", LEAVE


@tabled(lambda: [case.args[1:] for case in EXERCISE.cases])
def right(versions) -> list[int]:
    usual, times = Counter(versions).most_common(1)[0]
    is_known = 2 * times > len(versions)
    return [k for k, version in enumerate(versions) if version != usual or not is_known]


@tabled(lambda: [case.args[1:] for case in EXERCISE.cases])
def by_other_rules(versions) -> dict[str, list[int]]:
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
    found = by_other_rules(versions) | {WORLD_RANKS: of_world}
    if right(versions) == list(range(trial.n)):  # nobody knows
        return {NOBODY: [], ALL_THE_WORLD: list(range(trial.case.world.size))} | found
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


DTYPE = (
    "a checksum is an int64, and so are the tensors into which it is gathered: "
    "torch.zeros_like(mine)"
)
ERRORS = {
    "Tensors must have same dtype": DTYPE,
    "different dtypes": DTYPE,
    "without overflow": "a checksum has 63 bits: only an int64 has room for it",
    "'detach'": "checksum takes tensors alone. named_parameters() gives pairs of a name and a "
    "tensor, and a dict gives its keys",
    "is not iterable": "checksum takes several tensors: a list of them, or what gives them one "
    "after another, as model.parameters() does",
    "requires grad": "a tensor that requires gradients is sent: of a parameter, parameter.detach()",
}

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
        At(World(3), ("inner", (0, 0, 1)), ", a weight two levels deep is another on rank 2"),
        At(World(3), ("own", (1, 0, 0)), ", a parameter of its own is another on rank 0"),
        At(World(4), ("frozen", (0, 0, 1, 0)), ", a frozen weight is another on rank 2"),
        At(World(3), ("count", (0, 1, 0)), ", a count is another on rank 1"),
        At(World(3), ("not saved", (0, 0, 1)), ", a buffer that is not saved, on rank 2"),
        At(World(5), ("bit", (0, 1, 0, 2, 0)), ", ranks 1 and 3 differ, each in its own way"),
        At(World(2), ("bit", (0, 1)), ", they differ"),
        At(World(4), ("bit", (0, 1, 1, 0)), ", two and two"),
        At(World(5), ("bit", (0, 1, 2, 0, 3)), ", two alike, and three others"),
        At(World(3), ("NaN", (1, 1, 1)), ", the same NaN in all"),
        At(GROUP_OF_3, ("bit", (0, 0, 1)), ", its last one differs"),
        At(GROUP_OF_3, ("bit", (0, 1, 2)), ", three in three ways"),
    ],
    work=compare,
    facts=[complains(faults), Equals("ranks", truth, mistakes, "the ranks", tells=in_words),
           need_few_bytes],
    told=told,
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
        if isinstance(error, HangError) and not case.is_group else ""
    ),
)  # fmt: skip
