"""Replicas of a model: equal at first, and with averaged gradients. What the checks of it try.

The truth about gradients is their mean over the ranks, None counting as zeros; the truth about
training is one process that has the whole batch. Numbers differ on every rank, so that a wrong
result tells which ranks' numbers went into it.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ..checking import Exercise, Wrong, try_on_ranks
from ..errors import HangError
from ..instruments import measure
from .trials import TOLERANCE, megabytes, numbers, tree_rounds

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
STEPS, SAMPLES = 5, 13  # of the training; 13 are never shared out evenly
WORDS, WIDTH = 7, 4
LARGE = {"words": 2000, "width": 200}  # where bytes are compared with a formula

IN_A_GROUP = (
    "in the whole world it is right, in a group of some ranks it is not: hand `group` to every "
    "call of torch.distributed, get_world_size and get_rank included"
)


# ---- Where it is tried -----------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """So many ranks; if there are members, an answer is called on these alone, as a group."""

    size: int
    members: tuple[int, ...] | None = None

    @property
    def ranks(self):
        return self.members or range(self.size)

    def __str__(self):
        if self.members:
            return f"a group of ranks {list(self.members)} among {self.size}"
        return f"{self.size} rank" + ("s" if self.size > 1 else "")


GROUP = World(4, (1, 2, 3))  # without rank 0; 3 and 4 tell its size from the world's


def on_members(work, answer, members, *args):
    """On a rank: `work(answer, group, *args)`, if it belongs to the group."""
    group = dist.new_group(list(members)) if members else None
    if members is None or dist.get_rank() in members:
        return work(answer, group, *args)


def try_in(world, work, answer, *args, what="", explain):
    """Returns what each member has found, and the calls and bytes of block "answer" on each."""
    run = try_on_ranks(
        f"{world}{what}", on_members, work, answer, world.members, *args,
        world_size=world.size, explain=explain,
    )  # fmt: skip
    block = run["answer"] if "answer" in run.labels else None
    traffic = block and [(block.calls[rank], block.sent_bytes[rank]) for rank in world.ranks]
    return [run.values[rank] for rank in world.ranks], traffic


TOO_LONG = (
    "this takes too long. Is there a call, or a round of a loop, for each element of a tensor? One "
    "call for each tensor is enough. Or is there a loop that never ends?"
)


def explain_by(meanings, mismatch=""):
    """What `try_on_ranks` explains with, from {words of an error: what they mean}.

    mismatch  what it means if ranks wait for each other for ever, or lose each other
    """

    def explain(error):
        if isinstance(error, HangError) and any(
            p and not p.operation for p in error.waits.values()
        ):
            return TOO_LONG
        lost = isinstance(error, HangError) or "gloo" in str(error)
        known = (why for words, why in meanings.items() if words in str(error))
        return next(known, mismatch if lost else "")

    return explain


class EveryKind(nn.Module):
    """A model with each kind of parameter: tied, frozen, 0-dimensional, without part in the loss.

    In evaluation mode: the statistics of a share are not those of the whole batch.
    """

    def __init__(self, words=WORDS, width=WIDTH):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(3))
        self.embedding = nn.Embedding(words, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.norm = nn.BatchNorm1d(width)
        self.alike = nn.ParameterList(torch.zeros(width) for _ in range(4))
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.output = nn.Linear(width, words)
        self.output.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(width), persistent=False)
        self.double().eval()

    def forward(self, tokens):  # (samples,)
        x = self.norm(torch.tanh(self.frozen(self.embedding(tokens))))
        for shift in self.alike:
            x = torch.tanh(x + shift) * self.mask
        return self.scale * self.output(x)


def fill(model, place):
    """Whole numbers in all parameters and buffers: no two ranks have the same anywhere."""
    for salt, tensor in enumerate([*model.parameters(), *model.buffers()]):
        values = numbers(place, tensor.shape, tensor.dtype, salt) + 8 * place
        tensor.detach().copy_(values)
    return model


def close(a, b) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, **CLOSE)


def first_difference(got, wanted) -> str:
    if got is None or wanted is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"is {kind_of(got)}, expected {kind_of(wanted)}"
    first = tuple((~torch.isclose(got, wanted, **CLOSE)).nonzero()[0].tolist())
    at = f"at {list(first)} " if first else ""
    return f"{at}is {got[first].item():.8g}, expected {wanted[first].item():.8g}"


def kind_of(x) -> str:
    return "None" if x is None else f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


# ---- 3.4: equal at first ---------------------------------------------------------------------

START_ERRORS = {
    "not part of group": "rank 0 of the world need not be in a group. The group's first member is "
    "meant, whatever its rank in the world: group_src=0",
    "leaf Variable": "autograd watches over parameters: write into tensor.detach(), which shares "
    "their memory, or under torch.no_grad()",
    "NoneType": "there are no gradients yet, `.grad` is None: the weights themselves are to be "
    "equal",
    "to the desired output type Long": "buffers may hold whole numbers, of which there is no "
    "mean. Nothing is to be averaged: everybody gets what rank 0 has",
}
EVERYBODY_IS_THE_SOURCE = (
    "not all ranks make the same calls, with the same source. The source is one rank for all, not "
    "each rank itself; and whoever only receives makes the call, too"
)


def explain_start(world):
    """With 4 ranks a large model comes, too; what fails then was right with fewer."""
    if world.members:
        return explain_by(START_ERRORS, IN_A_GROUP)
    return explain_by(START_ERRORS, EVERYBODY_IS_THE_SOURCE if world.size < 4 else TOO_LONG)


def examine_start_equal(answer):
    for world in (World(2), World(1), World(3), GROUP, World(4)):
        found, traffic = try_in(world, start_on_rank, answer, explain=explain_start(world))
        judge_start(world, found)
        yield f"{world}: parameters and buffers are rank 0's"
        if world == World(4):
            yield need_one_broadcast(world, traffic, found[0]["sizes"])


def start_on_rank(answer, group):
    """What a model had before and after; for the bytes, the same with a large one."""
    model = fill(EveryKind(), dist.get_rank(group))
    objects, before = parameters_of(model), state_of(model)
    answer(model, group)
    now = parameters_of(model)
    found = {
        "before": before,
        "after": state_of(model),
        "kinds": kinds_of(model),
        "replaced": [name for name in objects if objects[name] is not now.get(name)],
        "switched": [n for n in objects if n in now and now[n].requires_grad == ("frozen" in n)],
    }
    large = EveryKind(**LARGE if dist.get_world_size(group) == 4 else {})
    dist.barrier(group)
    with measure("answer"):
        answer(large, group)
    return found | {"sizes": sizes_of(large)}


def parameters_of(model):
    """By all names, so that a tied one is there twice."""
    return dict(model.named_parameters(remove_duplicate=False))


def tensors_of(model):
    return dict(model.named_parameters()) | dict(model.named_buffers())


def state_of(model):
    return {name: tensor.detach().clone() for name, tensor in tensors_of(model).items()}


def kinds_of(model):
    """{name: "parameter", "frozen", "buffer" or "transient", which state_dict() leaves out}."""
    kinds = {n: "parameter" if p.requires_grad else "frozen" for n, p in model.named_parameters()}
    kinds |= {name: "buffer" for name, _ in model.named_buffers()}
    return kinds | dict.fromkeys(kinds.keys() - model.state_dict().keys(), "transient")


def judge_start(world, found):
    for place, of in enumerate(found):
        for name, wanted in found[0]["before"].items():
            if not close(of["after"][name], wanted):
                what = f"rank {place}, {name} {first_difference(of['after'][name], wanted)}"
                raise Wrong(str(world), what, why_start(found))
    for place, of in enumerate(found):
        if of["replaced"]:
            what = f"the values are right, but rank {place}'s {of['replaced'][0]} is a new object"
            raise Wrong(str(world), what, REPLACED)
        if of["switched"]:
            what = f"the values are right, but of {of['switched'][0]} requires_grad has changed"
            raise Wrong(str(world), what, SWITCHED)


REPLACED = (
    "an optimizer made before, or a tied layer, still holds the parameter that was there: write "
    "the values into it, and leave the object in its place"
)
SWITCHED = "a frozen parameter stays frozen, and the others stay trainable: only values are given"
UNTOUCHED = (
    "nothing has changed on any rank. Were the values written into a copy, or was a new tensor "
    "only given a name? model.parameters() and model.buffers() give the tensors themselves"
)
LEFT_OUT = {
    "transient": "a buffer registered with persistent=False is missing in state_dict(); "
    "model.buffers() has all of them",
    "buffer": "the parameters are right, but the buffers are each rank's own: running averages "
    "and counters are in model.buffers(), not in model.parameters()",
    "frozen": "the frozen parameters are each rank's own. They differ between ranks as much as "
    "the others, and no training will ever make them equal",
    "parameter": "these parameters are each rank's own: go through all of them",
}


def why_start(found) -> str:
    before, after = ([of[when] for of in found] for when in ("before", "after"))
    wrong = [(place, name) for place in range(len(found)) for name in before[0]
             if not close(after[place][name], before[0][name])]  # fmt: skip
    own = all(close(after[place][name], before[place][name]) for place, name in wrong)
    kinds = {found[0]["kinds"][name] for _, name in wrong}
    if own:
        everything = len(wrong) == len(before[0]) * (len(found) - 1)
        left_out = next(LEFT_OUT[kind] for kind in reversed(LEFT_OUT) if kind in kinds)
        return UNTOUCHED if everything else left_out
    floats = [(place, n) for place, n in wrong if before[0][n].is_floating_point()]
    for why, guess in guesses_at_start(before).items():
        if floats and all(close(after[place][name], guess[name]) for place, name in floats):
            return why
    weights = [(place, n) for place, n in wrong if found[0]["kinds"][n] in ("parameter", "frozen")]
    if weights and all(close(after[place][name], after[0][name]) for place, name in weights):
        return (
            "all ranks are equal now, but they do not have what rank 0 had: rank 0 has changed, "
            "too. With the same seed everybody draws the same new weights; those that rank 0 has, "
            "perhaps read from a file, are lost"
        )
    return ""


def guesses_at_start(before):
    """{sentence: what a misconception gives, by name}."""
    sums = {name: sum(of[name] for of in before) for name in before[0]}
    last = len(before) - 1
    return {
        "this is the mean of all ranks' weights. It is equal everywhere, but nobody asked for it: "
        "everybody gets what rank 0 has": {n: s / len(before) for n, s in sums.items()},
        "this is the sum of all ranks' weights; everybody gets what rank 0 has": sums,
        f"everybody has what rank {last} had; asked is rank 0's, the group's first": before[last],
    }  # fmt: skip


def need_one_broadcast(world, traffic, sizes) -> str:
    """n-1 copies of the model in all, and from no rank more than a tree takes."""
    case, n, size = f"cost, {world}", len(traffic), sizes.model
    sent = [sent for _, sent in traffic]
    if sum(sent) > (n - 1) * size * (1 + TOLERANCE):
        what = f"{megabytes(sum(sent))} are sent in all; {n - 1} copies have "
        raise Wrong(case, what + megabytes((n - 1) * size), why_so_much(sum(sent), n, sizes))
    if max(sent) > tree_rounds(n) * size * (1 + TOLERANCE):
        what = f"rank {sent.index(max(sent))} sends {max(sent) / size:.0f} copies"
        raise Wrong(case, what, STAR)
    return f"{case}: {megabytes(size)} travel {n - 1} times"


@dataclass(frozen=True)
class Sizes:
    """Bytes of a model, and of parts of it; and how many of its parameters have a gradient."""

    model: int
    tied: int
    frozen: int
    gradients: int
    count: int


def sizes_of(model) -> Sizes:
    trainable = [p.nbytes for p in model.parameters() if p.requires_grad]
    return Sizes(
        sum(tensor.nbytes for tensor in tensors_of(model).values()),
        model.embedding.weight.nbytes,
        sum(p.nbytes for p in model.frozen.parameters()),
        sum(trainable),
        len(trainable),
    )


STAR = (
    "this is a star: one rank sends to all others, one after another. In a broadcast's tree those "
    "who have it help"
)


def why_so_much(sent, n, sizes) -> str:
    for why, expected in {
        "a tied parameter travels twice, once under each of its names: state_dict() has both, "
        "model.parameters() has it once": (n - 1) * (sizes.model + sizes.tied),
        "everybody's weights travel to everybody, though only rank 0's are needed: a broadcast is "
        "enough": n * (n - 1) * sizes.model,
        "an all-reduce sends everything twice, there and back; rank 0 has it all, so a broadcast "
        "is enough": 2 * (n - 1) * sizes.model,
    }.items():  # fmt: skip
        if abs(sent - expected) < 2 * TOLERANCE * expected:
            return why
    return "more is sent than everybody else once needs"


# ---- 3.5 and 3.11: gradients averaged --------------------------------------------------------

MISSING = (
    "a parameter took no part in this rank's loss: its `.grad` is None. On another rank it may "
    "have a gradient, and that rank averages it with everybody: here it counts as zeros"
)
GRADIENT_ERRORS = {
    "leaf Variable": "autograd watches over parameters; and it is their `.grad` that is averaged",
    "attempting to assign a gradient": "a part of a flat tensor has one dimension: give it the "
    "shape of its parameter, with view_as",
}
FROZEN_IS_NONE = (
    "the `.grad` of a frozen parameter is None, on all ranks and always: pass over those whose "
    "requires_grad is False"
)
NOT_THE_SAME_CALLS = "every rank has to make the same calls, with tensors of the same size"
SKIPPED = (
    "a parameter with None is passed over on this rank, and not on the others. A collective is "
    "matched by its turn alone: from there on, gradients of different parameters are mixed up. "
    "Take zeros for it"
)
# {what is tried: what words of an error mean, and what it means if ranks lose each other}
TRIES = {
    "a gradient everywhere": ({"NoneType": FROZEN_IS_NONE}, NOT_THE_SAME_CALLS),
    "None on some ranks": ({"NoneType": MISSING}, SKIPPED),
    "training": ({}, NOT_THE_SAME_CALLS),
    "cost": ({}, TOO_LONG),  # it comes after all others were right
}
AVERAGING = [
    (World(2), ["a gradient everywhere"]),
    (World(2), ["None on some ranks"]),
    (World(3), ["training"]),
    (World(1), ["a gradient everywhere", "None on some ranks", "training"]),
    (GROUP, ["None on some ranks", "training"]),
    (World(4), ["None on some ranks", "cost"]),
]


def examine_average_gradients(answer):
    yield from examine_averaging(answer, call_with_model, None)


def examine_average_buckets(answer):
    yield from examine_averaging(answer, call_with_buckets, NUMBER_OF_BUCKETS)


def call_with_model(answer, model, group):
    answer(model, group)


def call_with_buckets(answer, model, group):
    answer(buckets_of(model), group)


NUMBER_OF_BUCKETS = 4


def buckets_of(model):
    """The trainable parameters, the last first: 2, 3, 1, and the others."""
    p = [parameter for parameter in reversed(list(model.parameters())) if parameter.requires_grad]
    return [p[:2], p[2:5], p[5:6], p[6:]]


def examine_averaging(answer, call, buckets):
    """buckets  how many all-reduces there are to be; None: at most one for each parameter"""
    for world, tries in AVERAGING:
        meanings, mismatch = TRIES[tries[-1]]
        mismatch = IN_A_GROUP if world.members else mismatch
        what = f", {' and '.join(tries)}"
        explain = explain_by(GRADIENT_ERRORS | meanings, mismatch)
        found, traffic = try_in(world, average_on_rank, answer, call, tries, what=what,
                                explain=explain)  # fmt: skip
        for name in tries[: len(tries) - ("cost" in tries)]:
            yield judge_averaging(world, name, [of[name] for of in found])
        if "cost" in tries:
            yield need_all_reduces(world, traffic, found[0]["cost"], buckets)


def average_on_rank(answer, group, call, tries):
    work = {
        "a gradient everywhere": lambda: average_once(answer, group, call, some_none=False),
        "None on some ranks": lambda: average_once(answer, group, call, some_none=True),
        "training": lambda: train_by(lambda model: call(answer, model, group), group),
        "cost": lambda: average_large(answer, group, call),
    }
    return {name: work[name]() for name in tries}


def average_once(answer, group, call, some_none):
    """Weights and gradients, before and after."""
    place = dist.get_rank(group)
    model = fill(EveryKind(), place)
    give_gradients(model, place, some_none)
    before, local = state_of(model), gradients_of(model)
    call(answer, model, group)
    return before, state_of(model), local, gradients_of(model)


def give_gradients(model, place, some_none=False):
    """One for each trainable parameter; or none for one that has it on the other ranks."""
    for salt, parameter in enumerate(model.parameters(), 100):
        if parameter.requires_grad:
            parameter.grad = numbers(place, parameter.shape, parameter.dtype, salt) + 8 * place
    if some_none:
        model.unused.grad = model.alike[place].grad = None


def gradients_of(model):
    """{name: a copy of `.grad`, or None}."""
    return {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }


def average_large(answer, group, call):
    large = EveryKind(**LARGE)
    for parameter in large.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    dist.barrier(group)
    with measure("answer"):
        call(answer, large, group)
    return sizes_of(large)


def train_by(synchronize, group):
    """Weights after some steps: on a share of each batch, and with all of it alone."""
    mine, alone = equal_models(2)
    n, place = dist.get_world_size(group), dist.get_rank(group)
    train(mine, share_of(place, n), n / SAMPLES, lambda: synchronize(mine))
    train(alone, slice(None), 1 / SAMPLES, lambda: None)
    return state_of(mine), state_of(alone)


def equal_models(count, make=EveryKind):
    """Models that are equal to each other, and on all ranks."""
    torch.manual_seed(3)
    model = make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    models = [make() for _ in range(count)]
    for other in models:
        other.load_state_dict(model.state_dict())
    return models


def share_of(place, n) -> slice:
    """A share of the samples; those of the first ranks have one more than the others."""
    sizes = [len(part) for part in torch.arange(SAMPLES).tensor_split(n)]
    return slice(sum(sizes[:place]), sum(sizes[: place + 1]))


def batch_of(step):
    chance = torch.Generator().manual_seed(step)
    return torch.randint(WORDS, (2, SAMPLES), generator=chance)


def loss_of(model, step, share, factor):
    """The sum of the losses of a share of a step's samples, times a factor."""
    tokens, targets = batch_of(step)[:, share]
    return F.cross_entropy(model(tokens), targets, reduction="sum") * factor


def train(model, share, factor, synchronize):
    for step in range(STEPS):
        loss_of(model, step, share, factor).backward()
        synchronize()
        descend(model)


@torch.no_grad()
def descend(model):
    """A step of SGD, by hand: a rank's first torch.optim may import for seconds."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter -= 0.5 * parameter.grad
            parameter.grad = None


def judge_averaging(world, name, found) -> str:
    case = f"{world}, {name}"
    if name == "training":
        judge_training(case, found)
        return f"{case}: after {STEPS} steps the weights of one process"
    before, after, local, got = zip(*found)
    judge_weights(case, before, after)
    judge_gradients(case, got, local, world)
    return f"{case}: the mean"


def judge_training(case, found):
    for place, (got, alone) in enumerate(found):
        for name, wanted in alone.items():
            if not close(got[name], wanted):
                what = f"rank {place}, after {STEPS} steps {name} "
                raise Wrong(case, what + first_difference(got[name], wanted), ONLY_AT_FIRST)


ONLY_AT_FIRST = (
    "one step is right, several are not: does something of a step stay for the next one, or does "
    "something change besides the gradients?"
)


def judge_weights(case, before, after):
    for place, (old, new) in enumerate(zip(before, after)):
        for name in old:
            if not close(new[name], old[name]):
                what = f"rank {place}, the weights themselves have changed: {name} "
                raise Wrong(case, what + first_difference(new[name], old[name]), WEIGHTS)


WEIGHTS = (
    "the weights are averaged, or written over. They are equal on all ranks and stay so, if the "
    "gradients are: what differs, and is to be averaged, is `.grad`"
)


def judge_gradients(case, got, local, world):
    """Raise `Wrong` at the first gradient that is not the mean of all places'."""
    totals = totals_of(local)
    for place, of in enumerate(got):
        for name, gradient in of.items():
            wanted = totals[name] / len(local) if name in totals else None
            if name not in totals and "frozen" not in name and gradient is not None:
                wanted = torch.zeros_like(gradient)  # None on all ranks: zeros are right as well
            if not close(gradient, wanted):
                what = f"rank {place}, .grad of {name} {first_difference(gradient, wanted)}"
                why = ZEROS_FOR_FROZEN if "frozen" in name else why_gradients(got, local, world)
                raise Wrong(case, what, why)


ZEROS_FOR_FROZEN = (
    "a frozen parameter has no gradient, and needs none: weight decay would move it, if it had "
    "zeros. Pass over those whose requires_grad is False"
)


def totals_of(local):
    """{name: the sum of what all ranks have}, of those that have any."""
    present = {name: [of[name] for of in local if of[name] is not None] for name in local[0]}
    return {name: sum(parts) for name, parts in present.items() if parts}


def why_gradients(got, local, world) -> str:
    """The misconception that gives what all ranks have got."""
    totals = totals_of(local)
    cells = [(place, name) for place in range(len(got)) for name in totals]
    if any(got[p][name] is not None and got[p][name].isnan().any() for p, name in cells):
        return NOT_A_NUMBER
    for why, guess in guesses_at_gradients(local, totals, world).items():
        if all(close(got[place][name], guess(place, name)) for place, name in cells):
            return why
    if is_shuffled(got, totals, len(local)):
        return (
            "the means are right, but they come back to the wrong parameters, or in a wrong "
            "order: cut the flat tensor in the order in which it was put together"
        )
    partly = [name for place, name in cells if close(got[place][name], local[place][name])
              and not close(got[place][name], totals[name] / len(local))]  # fmt: skip
    return OWN_IN_PART.format(partly[0]) if partly else ""


NOT_A_NUMBER = (
    "nan: the flat tensor is used while it is still under way. What is in it counts when the "
    "function that waits has returned: wait, then divide, then put it into `.grad`"
)
OWN_IN_PART = (
    "in part it is still this rank's own gradient, that of {} for example: all have to be "
    "averaged, and each result has to be put into `.grad`"
)


def guesses_at_gradients(local, totals, world):
    """{sentence: (place, name) -> the gradient that this misconception leaves}."""
    n = len(local)
    mixed = mixed_up(local)
    having = {name: sum(of[name] is not None for of in local) for name in totals}
    return {
        "nothing has changed: every rank still has its own gradients. Was the mean put into a "
        "copy, and not into `.grad`?": lambda p, name: local[p][name],
        "only rank 0 has the mean: this is a reduce. Everybody needs it, an all-reduce gives it "
        "to all": lambda p, name: local[p][name] if p else totals[name] / n,
        "this is the sum. The mean is the sum divided by the number of ranks (of the group), once "
        "the sum is there": lambda p, name: totals[name],
        "the sum is divided by the size of the world, but it has only the ranks of the group in "
        "it: get_world_size(group)": lambda p, name: totals[name] / world.size,
        "it is divided by the number of ranks twice: before the sum and after it, or by a mean "
        "that is divided again": lambda p, name: totals[name] / n**2,
        "each rank's own gradient is divided, but nothing is summed up":
            lambda p, name: None if local[p][name] is None else local[p][name] / n,
        "this is rank 0's gradient, on all ranks: a broadcast. The other ranks' samples count "
        "as well": lambda p, name: local[0][name],
        "it is divided by how many ranks have a gradient. One that has None counts, too: as "
        "zeros": lambda p, name: totals[name] / having[name],
        "a rank that had None has None still: it needs the mean as the others do, or its weights "
        "go apart from theirs":
            lambda p, name: None if local[p][name] is None else totals[name] / n,
        SKIPPED: lambda p, name: mixed[p][name],
    }  # fmt: skip


def mixed_up(local):
    """What comes of it if each rank averages only those that it has: by their turn, as they fit."""
    names = [[name for name in of if of[name] is not None] for of in local]
    mixed = [dict.fromkeys(of) for of in local]
    for turn in zip(*names):
        parts = [of[name] for of, name in zip(local, turn)]
        if len({part.shape for part in parts}) == 1:
            for of, name in zip(mixed, turn):
                of[name] = sum(parts) / len(parts)
    return mixed


def is_shuffled(got, totals, n) -> bool:
    """Whether the right numbers are there, at wrong places."""
    if any(of[name] is None for of in got for name in totals):
        return False
    right = torch.cat([total.flatten() for total in totals.values()]).sort().values / n
    return all(
        close(torch.cat([of[name].flatten() for name in totals]).sort().values, right)
        for of in got
    )  # fmt: skip


def need_all_reduces(world, traffic, sizes, buckets) -> str:
    """The bytes of one all-reduce of all gradients, on every rank; and how many calls it took."""
    case, n = f"cost, {world}", len(traffic)
    best = 2 * (n - 1) / n * sizes.gradients
    for place, (calls, sent) in enumerate(traffic):
        if sent > best * (1 + TOLERANCE):
            what = f"rank {place} sends {megabytes(sent)}; an all-reduce sends {megabytes(best)}"
            raise Wrong(case, what, why_so_many_bytes(sent, calls, n, sizes))
    count = all_reduces_in(traffic[0][0], n)
    if buckets is None and count > sizes.count + 1:  # one more may ask who has None
        what = f"{count:g} all-reduces for {sizes.count} gradients"
        raise Wrong(case, what, "one for each parameter is enough; each call costs a latency")
    if buckets is not None and count != buckets:
        raise Wrong(case, f"{count:g} all-reduces for {buckets} buckets", why_count(count, sizes))
    return f"{case}: {count:g} all-reduces, {megabytes(best)} from each rank"


def all_reduces_in(calls, n) -> float:
    """A ring by hand sends 2(n-1) messages for an all-reduce."""
    names = [call.name for call in calls]
    return names.count("all_reduce") + names.count("send") / (2 * (n - 1))


def why_so_many_bytes(sent, calls, n, sizes) -> str:
    names = {call.name for call in calls}
    if "all_gather" in names:
        return (
            "the numbers are right, but everybody's gradients travel to everybody: an all-gather "
            "sends n - 1 times the whole. An all-reduce sums up on the way"
        )
    if names & {"reduce", "gather", "broadcast", "scatter"}:
        return (
            "the numbers are right, but they all go through one rank, and it has more to send "
            "than the others: an all-reduce shares out the load"
        )
    share = 2 * (n - 1) / n
    for why, expected in {
        "a tied parameter is averaged twice, once under each of its names": sizes.tied,
        "the frozen parameters' gradients travel, too": sizes.frozen,
        "everything is averaged twice": sizes.gradients,
    }.items():
        if abs(sent - share * (sizes.gradients + expected)) < 2 * TOLERANCE * sent:
            return why
    return "the numbers are right, but more is sent than the gradients once"


def why_count(count, sizes) -> str:
    if count == sizes.count:
        return (
            "the numbers are right, but every parameter still has an all-reduce of its own. Send "
            "a bucket's gradients as one flat tensor: flatten makes it"
        )
    if count == 1:
        return (
            "the numbers are right, but all buckets travel as one. A bucket is to be on its way "
            "before the next one is ready: one all-reduce for each"
        )
    return "the numbers are right; asked is one all-reduce for each bucket"


# ---- 3.10: buckets ---------------------------------------------------------------------------

# {case: (elements of each parameter, the frozen ones, bucket_bytes)}; 8 bytes an element
BUCKETS = {
    "six parameters, buckets of 64 bytes": ([3, 2, 70, 5, 9, 4], (), 64),
    "a bucket that is exactly full": ([2, 4, 4, 3, 5], (), 64),
    "a parameter larger than a bucket": ([2, 3, 40, 1, 4, 4], (), 64),
    "some are frozen": ([3, 6, 2, 9, 7, 4], (1, 5), 64),
    "each alone in its bucket": ([3, 1, 2], (), 1),
    "all in one": ([3, 1, 2], (), 10_000),
    "a single parameter": ([5], (), 64),
    "all are frozen": ([3, 4], (0, 1), 64),
}
AS_LISTS = "return a list of lists of parameters: DDP wants to go through the buckets many times"
EMPTY = (
    "there is a bucket without parameters: at the start, at the end where the last one was just "
    "full, or where there is nothing to put in. Begin one only when a parameter needs it"
)


def examine_make_buckets(answer):
    for case, (sizes, frozen, bucket_bytes) in BUCKETS.items():
        parameters = [nn.Parameter(torch.zeros(size, dtype=torch.float64)) for size in sizes]
        for index in frozen:
            parameters[index].requires_grad_(False)
        got = buckets_from(answer, case, parameters, bucket_bytes)
        wanted = buckets_of_torch(parameters, bucket_bytes)
        if got != wanted:
            guesses = guesses_at_buckets(sizes, frozen, bucket_bytes)
            why = next((why for why, guess in guesses.items() if guess == got), "")
            why = EMPTY if [] in got else why
            what = f"it gave {told(got, sizes)}, expected {told(wanted, sizes)}"
            raise Wrong(f"{case}: bytes of each parameter {[8 * s for s in sizes]}", what, why)
        yield f"{case}: {told(got, sizes)}"


def buckets_from(answer, case, parameters, bucket_bytes):
    """The answer's buckets, as numbers of parameters; `parameters` is as model.parameters() is."""
    try:
        buckets = answer((p for p in parameters), bucket_bytes)
    except (AttributeError, TypeError) as error:
        why = next((why for words, why in BUCKET_ERRORS.items() if words in str(error)), "")
        if not why:
            raise
        raise Wrong(case, f"it raised {type(error).__name__}: {error}", why) from None
    if buckets is None:
        raise Wrong(case, "it returned None", "a function without `return` gives None")
    if not isinstance(buckets, (list, tuple)):
        raise Wrong(case, f"it returned {type(buckets).__name__}", AS_LISTS)
    return [numbers_of(bucket, case, parameters) for bucket in buckets]


BUCKET_ERRORS = {
    "'NoneType' object has no attribute": "there are no gradients yet, `.grad` is None. A gradient "
    "is as large as its parameter: parameter.nbytes",
    "'generator'": "model.parameters() is a generator: it has no length, no order to turn "
    "round, and can be gone through once. Make a list of it first",
}


def numbers_of(bucket, case, parameters) -> list[int]:
    place = {id(parameter): number for number, parameter in enumerate(parameters)}
    if not isinstance(bucket, (list, tuple)):
        raise Wrong(case, f"a bucket is a {type(bucket).__name__}", AS_LISTS)
    if any(id(item) not in place for item in bucket):
        stranger = next(item for item in bucket if id(item) not in place)
        kind = f"a {type(stranger).__name__}, {stranger!r}".splitlines()[0]
        raise Wrong(case, f"in a bucket is {kind:.60}", (
            "a bucket holds the parameters themselves, because their `.grad` comes later: no "
            "copies, parts, names or gradients"
        ))  # fmt: skip
    return [place[id(item)] for item in bucket]


def buckets_of_torch(parameters, bucket_bytes) -> list[list[int]]:
    """What DistributedDataParallel does."""
    order = [k for k in reversed(range(len(parameters))) if parameters[k].requires_grad]
    if not order:
        return []
    tensors = [parameters[number] for number in order]
    found, _ = dist._compute_bucket_assignment_by_size(tensors, [bucket_bytes])
    return [[order[index] for index in bucket] for bucket in found]


def told(buckets, sizes) -> str:
    return str([[8 * sizes[number] for number in bucket] for bucket in buckets])


def guesses_at_buckets(sizes, frozen, limit):
    """{sentence: the buckets that this misconception gives}."""
    forward = [number for number in range(len(sizes)) if number not in frozen]
    order, all_of_them = forward[::-1], list(range(len(sizes)))[::-1]
    right = closed(order, sizes, limit)
    return {
        "these are in the order of the forward. A backward begins at the end of the model: the "
        "last parameter comes first": closed(forward, sizes, limit),
        "the buckets are made in the order of the forward, and then turned round: the first one to "
        "travel has what was left over": closed(forward, sizes, limit)[::-1],
        "within a bucket they are in the order of the forward: the last parameter comes first "
        "there, too": [sorted(bucket) for bucket in right],
        "this bucket is closed before it would be too large, as in exercise 2.12. Here the "
        "parameter goes in, and what has reached bucket_bytes is closed after it":
            closed_before(order, sizes, limit),
        "elements are counted; bucket_bytes are bytes: parameter.nbytes":
            closed(order, [size / 8 for size in sizes], limit),
        "4 bytes are taken for each element; a double has 8: parameter.nbytes":
            closed(order, [size / 2 for size in sizes], limit),
        "a frozen parameter has no gradient, and needs no bucket":
            closed(all_of_them, sizes, limit),
        "the last bucket is missing: what is left over at the end travels, too": right[:-1],
        "every parameter has a bucket of its own, though several fit": [[k] for k in order],
        "all are in one bucket; from bucket_bytes on, the next parameter begins a new one":
            [order] if order else [],
        "a bucket is closed when it reaches bucket_bytes, not only when it is larger":
            closed(order, sizes, limit + 1),
        "they are sorted by their size. What counts is when a gradient is ready: the order of the "
        "backward": closed(sorted(order, key=lambda k: sizes[k]), sizes, limit),
        "they are sorted by their size, the largest first. What counts is when a gradient is ready":
            closed(sorted(order, key=lambda k: -sizes[k]), sizes, limit),
        "nothing is left to put into buckets: model.parameters() is a generator, and it has been "
        "gone through already. Make a list of it first": [],
    }  # fmt: skip


def closed(order, sizes, limit):
    buckets, full = [], True
    for number in order:
        if full:
            buckets.append([])
        buckets[-1].append(number)
        full = sum(8 * sizes[k] for k in buckets[-1]) >= limit
    return buckets


def closed_before(order, sizes, limit):
    buckets = []
    for number in order:
        if not buckets or sum(8 * sizes[k] for k in [*buckets[-1], number]) > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


EXERCISES = [
    Exercise(
        "3.4", "start_equal", examine_start_equal,
        (
            "What does a model hold besides its parameters? And does it matter here whether a "
            "parameter is trained?",
            "model.parameters() and model.buffers() give the tensors themselves, each once. "
            "dist.broadcast writes into the tensor that it is given, on all ranks but the source.",
            "For each of them: dist.broadcast(tensor.detach(), group_src=0, group=group). "
            "`group_src` is a rank within the group; `src` would be one of the world.",
        ),
        lab="simple_ddp",
    ),
    Exercise(
        "3.5", "average_gradients", examine_average_gradients,
        (
            "A mean is a sum over the ranks, divided by how many there are. dist.all_reduce makes "
            "the sum, in place.",
            "Rank 0 may have a gradient where rank 1 has None. If rank 1 passes over it, which "
            "of its calls is rank 0's call matched with?",
            "Go through model.parameters(). Where requires_grad is False, there is nothing to do. "
            "Where `.grad` is None, make it torch.zeros_like(parameter). Then all_reduce, with the "
            "group, and divide by dist.get_world_size(group).",
        ),
        lab="simple_ddp",
    ),
    Exercise(
        "3.10", "make_buckets", examine_make_buckets,
        (
            "First make a list of those that have a gradient, and turn it round.",
            "Then go through it with a list of buckets. A parameter goes into the last bucket, "
            "unless that one is closed, or there is none yet: then it begins a new one.",
            "A bucket is closed if sum(p.nbytes for p in bucket) >= bucket_bytes. Look at it after "
            "the parameter has gone in.",
        ),
        lab="gradient_sync_visualizer",
    ),
    Exercise(
        "3.11", "average_buckets", examine_average_buckets,
        (
            "flatten and unflatten are there already: look at what they do with None.",
            "For each bucket: flatten, all-reduce, divide, unflatten.",
            "flatten makes a copy. So the `.grad` change only when unflatten puts the parts back.",
        ),
        lab="gradient_sync_visualizer",
    ),
]  # fmt: skip
