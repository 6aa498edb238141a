"""Replicas that start equal: where the labs of chapter 03 are tried, and exercise 3.4."""

from dataclasses import dataclass

import torch.distributed as dist

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong
from ..kit.differences import first_difference
from ..kit.models import EveryKind, state_of, tensors_of
from ..kit.on_ranks import IN_A_GROUP, answering
from ..kit.trials import TOLERANCE, megabytes, numbers, tree_rounds
from ..kit.worlds import GROUP, TOO_LONG, At, World, explain_by, try_at

LARGE = {"words": 2000, "width": 200}  # where bytes are compared with a formula


# ---- Where it is tried -----------------------------------------------------------------------


def fill(model, place):
    """Whole numbers in all parameters and buffers: no two ranks have the same anywhere."""
    for salt, tensor in enumerate([*model.parameters(), *model.buffers()]):
        values = numbers(place, tensor.shape, tensor.dtype, salt) + 8 * place
        tensor.detach().copy_(values)
    return model


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


def explain_start(at):
    """With 4 ranks a large model comes, too; what fails then was right with fewer."""
    world = at.world
    if world.members:
        return explain_by(START_ERRORS, IN_A_GROUP)
    return explain_by(START_ERRORS, EVERYBODY_IS_THE_SOURCE if world.size < 4 else TOO_LONG)


def examine_start_equal(answer):
    cases = [At(world) for world in (World(2), World(1), World(3), World(4), GROUP)]
    for at, found, traffic in try_at(cases, start_on_rank, answer, explain_start):
        world = at.world
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
    with answering():
        answer(large, group)
    return found | {"sizes": sizes_of(large)}


def parameters_of(model):
    """By all names, so that a tied one is there twice."""
    return dict(model.named_parameters(remove_duplicate=False))


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


EXERCISE = Exercise(
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
)  # fmt: skip
