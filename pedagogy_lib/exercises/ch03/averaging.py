"""Gradients averaged, each by itself or in buckets: exercises 3.5 and 3.11.

The truth is one process that takes the samples of all ranks.
"""

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit.differences import first_difference
from ..kit.models import SAMPLES, STEPS, EveryKind, equal_models, loss_of, share_of, state_of
from ..kit.on_ranks import IN_A_GROUP, answering
from ..kit.trials import TOLERANCE, megabytes, numbers
from ..kit.worlds import GROUP, TOO_LONG, At, World, explain_by, try_at
from .ex04_start_equal import LARGE, fill, sizes_of

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
    cases = [At(world, (call, tries), f", {' and '.join(tries)}") for world, tries in AVERAGING]
    for at, found, traffic in try_at(cases, average_on_rank, answer, explain_averaging):
        world, (_, tries) = at.world, at.args
        for name in tries[: len(tries) - ("cost" in tries)]:
            yield judge_averaging(world, name, [of[name] for of in found])
        if "cost" in tries:
            yield need_all_reduces(world, traffic, found[0]["cost"], buckets)


def explain_averaging(at):
    meanings, mismatch = TRIES[at.args[1][-1]]
    return explain_by(GRADIENT_ERRORS | meanings, IN_A_GROUP if at.is_group else mismatch)


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
    with answering():
        call(answer, large, group)
    return sizes_of(large)


def train_by(synchronize, group):
    """Weights after some steps: on a share of each batch, and with all of it alone."""
    mine, alone = equal_models(2)
    n, place = dist.get_world_size(group), dist.get_rank(group)
    train(mine, share_of(place, n), n / SAMPLES, lambda: synchronize(mine))
    train(alone, slice(None), 1 / SAMPLES, lambda: None)
    return state_of(mine), state_of(alone)


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
        "each rank's own gradient is divided, but nothing is summed up (or too late: what is begun "
        "with async_op=True has to be waited for)":
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
    count = all_reduces_in(traffic[0][0], n)
    if buckets is None and count > sizes.count + 1:  # one more may ask who has None
        what = f"{all_reduces(count)} for {sizes.count} gradients"
        raise Wrong(case, what, "one for each parameter is enough; each call costs a latency")
    for place, (calls, sent) in enumerate(traffic):
        if sent > best * (1 + TOLERANCE):
            what = f"rank {place} sends {megabytes(sent)}; an all-reduce sends {megabytes(best)}"
            raise Wrong(case, what, why_so_many_bytes(sent, calls, n, sizes))
    if buckets is not None and count != buckets:
        raise Wrong(case, f"{all_reduces(count)} for {buckets} buckets", why_count(count, sizes))
    return f"{case}: {all_reduces(count)}, {megabytes(best)} from each rank"


def all_reduces(count) -> str:
    return f"{count:g} all-reduce" + ("" if count == 1 else "s")


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
