"""Gradients of which every rank gets the mean, each by itself or in buckets.

The truth is one process that takes the samples of all ranks.
"""

from functools import partial

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.errors import HangError
from ...course.checking import Wrong
from ..kit import GROUP, At, Equals, RankExercise, Sends, World, answering, never
from ..kit.costs import TOLERANCE
from ..kit.models import SAMPLES, EveryKind, equal_models, loss_of, share_of, state_of
from ..kit.trials import numbers
from ..kit.worlds import TOO_LONG
from .ex02_start_equal import LARGE, fill, sizes_of

STEPS, RATE = 3, 4.0  # a rate so large that weights show what was rounded in their gradients
EVERYWHERE, SOME_NONE = "a gradient everywhere", "None on some ranks"
TRAINING, COST = f"{STEPS} steps", "a large model"
TRIED = [
    (World(2), EVERYWHERE), (World(2), SOME_NONE), (World(3), SOME_NONE), (World(3), TRAINING),
    (World(1), SOME_NONE), (World(4), COST), (GROUP, SOME_NONE),
]  # fmt: skip


def averaging(number, name, call, why_other_count, hints, lab) -> RankExercise:
    """An exercise that asks for the mean of all ranks' gradients, of each parameter.

    call             takes the answer, a model and a group, and calls the answer
    why_other_count  takes the number of all-reduces, and of gradients, and says what is wrong with
                     that, or ""
    """
    return RankExercise(
        number,
        name,
        lab=lab,
        cases=[At(world, (tried,), f", {tried}") for world, tried in TRIED],
        work=partial(average_on_rank, call),
        facts=[
            Equals("after", lambda trial, place: trial[place].before, called="the weight",
                   otherwise="the weights are averaged, or written over. They are equal on all "
                   "ranks and stay so, if the gradients are: what differs, and is to be averaged, "
                   "is `.grad`"),
            never("nan", "nan in the `.grad` of {}",
                  "the flat tensor is used while it is still under way. What is in it counts when "
                  "the function that waits has returned: wait, then divide, then put it into "
                  "`.grad`"),
            Equals("grad", mean_of, mistakes_of_mean, "`.grad`", why_other_gradients),
            Equals("trained", lambda trial, place: trial[place].alone, called="after training, the "
                   "weight", otherwise="one step is right, several are not: does something of a "
                   "step stay for the next one, or does something change besides the gradients?"),
            partial(need_calls, why_other_count),
            Sends(bytes_of_all_reduce, "an all-reduce of all gradients sends", why_so_many_bytes),
        ],
        told=lambda trial: "the weights of one process" if trial.of("trained") else "the mean",
        errors={
            "non-empty list of Tensors": SKIPPED,
            "leaf Variable": "autograd watches over parameters; and it is their `.grad` that is "
            "averaged",
            "attempting to assign a gradient": "a part of a flat tensor has one dimension: give it "
            "the shape of its parameter, with view_as",
        },
        explain=why_lost,
        lost="every rank has to make the same calls, with tensors of the same size",
        hints=hints,
    )  # fmt: skip


# ---- On a rank ---


def average_on_rank(call, answer, group, case):
    (tried,) = case.args
    if tried == TRAINING:
        return train_by(lambda model: call(answer, model, group), group)
    found = average_once(call, answer, group, tried != EVERYWHERE)
    return found | (average_large(call, answer, group) if tried == COST else {})


def average_once(call, answer, group, some_none):
    """Weights and gradients, before and after."""
    place = dist.get_rank(group)
    model = fill(EveryKind(), place)
    give_gradients(model, place, some_none)
    before, local = state_of(model), gradients_of(model)
    call(answer, model, group)
    grad = gradients_of(model)
    nan = [name for name, x in grad.items() if x is not None and x.isnan().any()]
    after = state_of(model)
    return {"before": before, "after": after, "local": local, "grad": grad, "nan": nan}


def give_gradients(model, place, some_none=False):
    """One for each trainable parameter; or none for one that has it on the other ranks."""
    for salt, parameter in enumerate(model.parameters(), 100):
        if parameter.requires_grad:
            whole = numbers(place, parameter.shape, parameter.dtype, salt) + 8 * place
            parameter.grad = whole / 3  # no float32
    if some_none:
        model.unused.grad = model.alike[place].grad = None
    if some_none and place == 0:
        model.norm.bias.grad = None  # a bucket by itself, see average_buckets


def gradients_of(model):
    """{name: a copy of `.grad`, or None}."""
    return {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }


def average_large(call, answer, group):
    large = EveryKind(**LARGE)
    for parameter in large.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    dist.barrier(group)
    with answering():
        call(answer, large, group)
    return {"sizes": sizes_of(large)}


def train_by(synchronize, group):
    """Weights after some steps: on a share of each batch, and with all of it alone."""
    mine, alone = equal_models(2)
    n, place = dist.get_world_size(group), dist.get_rank(group)
    train(mine, share_of(place, n), n / SAMPLES, lambda: synchronize(mine))
    train(alone, slice(None), 1 / SAMPLES, lambda: None)
    return {"trained": state_of(mine), "alone": state_of(alone)}


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
            parameter -= RATE * parameter.grad
            parameter.grad = None


# ---- What is right, and what is not ---

SKIPPED = (
    "a parameter with None is passed over on this rank, and not on the others. A collective is "
    "matched by its turn alone: from there on, gradients of different parameters are mixed up. "
    "Take zeros for it"
)


def totals_of(trial):
    """{name: the sum of what all ranks have}, of those that have any."""
    present = {name: [x for of in trial if (x := of.local[name]) is not None]
               for name in trial[0].local}  # fmt: skip
    return {name: sum(parts) for name, parts in present.items() if parts}


def mean_of(trial, place):
    """None where all ranks have None; zeros are right as well, but for what is frozen."""
    found, totals = trial[place].grad, totals_of(trial)
    zeros = {name: None if x is None or "frozen" in name else torch.zeros_like(x)
             for name, x in found.items()}  # fmt: skip
    return zeros | {name: total / trial.n for name, total in totals.items()}


def mistakes_of_mean(trial, place):
    n, local, mean, totals = trial.n, trial[place].local, mean_of(trial, place), totals_of(trial)

    def each(gradient_of):
        """Of the gradients that some rank has."""
        return mean | {name: gradient_of(name) for name in totals}

    if trial.case.is_group:
        return {
            "the sum is divided by the size of the world, but it has only the ranks of the group "
            "in it: get_world_size(group)": each(lambda name: totals[name] / trial.case.world.size)
        }
    having = {name: sum(of.local[name] is not None for of in trial) for name in totals}
    frozen = {name: x for name, x in trial[place].before.items() if "frozen" in name}
    own_or_none = lambda x, name: None if local[name] is None else x  # noqa: E731
    return {
        "it is still this rank's own gradient. Was the mean put into a copy, and not into `.grad`? "
        "All have to be averaged, and each result has to be put into `.grad`": each(local.get),
        "only rank 0 has the mean: this is a reduce. Everybody needs it, an all-reduce gives it "
        "to all": each(local.get) if place else mean,
        "this is the sum. The mean is the sum divided by the number of ranks (of the group), once "
        "the sum is there": each(totals.get),
        "it is divided by the number of ranks twice: before the sum and after it, or by a mean "
        "that is divided again": each(lambda name: mean[name] / n),
        "each rank's own gradient is divided, but nothing is summed up (or too late: what is begun "
        "with async_op=True has to be waited for)":
            each(lambda name: None if local[name] is None else local[name] / n),
        "this is rank 0's gradient, on all ranks: a broadcast. The other ranks' samples count "
        "as well": each(trial[0].local.get),
        "it is divided by how many ranks have a gradient. One that has None counts, too: as "
        "zeros": each(lambda name: totals[name] / having[name]),
        "a rank that had None has None still: it needs the mean as the others do, or its weights "
        "go apart from theirs": each(lambda name: own_or_none(mean[name], name)),
        SKIPPED: mean | mixed_up(trial)[place],
        "a frozen parameter has no gradient, and needs none: weight decay would move it, if it had "
        "zeros. Pass over those whose requires_grad is False":
            mean | {name: torch.zeros_like(x) for name, x in frozen.items()},
    }  # fmt: skip


def mixed_up(trial):
    """What comes of it if each rank averages only those that it has: by their turn, as they fit."""
    names = [[name for name, x in of.local.items() if x is not None] for of in trial]
    mixed = [dict.fromkeys(of.local) for of in trial]
    for turn in zip(*names):
        parts = [of.local[name] for of, name in zip(trial, turn)]
        if len({part.shape for part in parts}) == 1:
            for of, name in zip(mixed, turn):
                of[name] = sum(parts) / len(parts)
    return mixed


def why_other_gradients(trial) -> str:
    if all(close(sorted_numbers(of.grad), sorted_numbers(mean_of(trial, 0))) for of in trial):
        return (
            "the means are right, but they come back to the wrong parameters, or in a wrong order: "
            "cut the flat tensor in the order in which it was put together"
        )
    if trial.worlds_passed:
        return (
            "with 2 ranks it was right. Does something of an earlier call stay for the next one? "
            "Or is the number of ranks a fixed one?"
        )
    return ""


def sorted_numbers(gradients):
    return torch.cat([x.flatten() for x in gradients.values() if x is not None]).sort().values


def why_lost(case, error) -> str:
    (tried,) = case.args
    if "NoneType" in str(error):
        return (
            "the `.grad` of a frozen parameter is None, on all ranks and always: pass over those "
            "whose requires_grad is False"
            if tried == EVERYWHERE else
            "a parameter took no part in this rank's loss: its `.grad` is None. On another rank it "
            "may have a gradient, and that rank averages it with everybody: here it counts as zeros"
        )  # fmt: skip
    is_lost = isinstance(error, HangError) or "gloo" in str(error)
    known = {} if case.is_group else {SOME_NONE: SKIPPED, COST: TOO_LONG}
    return known.get(tried, "") if is_lost else ""


# ---- What it costs ---


def bytes_of_all_reduce(trial, place):
    n, sizes = trial.n, trial.of("sizes")
    return sizes and 2 * (n - 1) / n * sizes[place].gradients


def why_so_many_bytes(trial, times) -> str:
    names, sizes = {call.name for calls in trial.calls for call in calls}, trial[0].sizes
    if "all_gather" in names:
        return (
            "everybody's gradients travel to everybody: an all-gather sends n - 1 times the whole. "
            "An all-reduce sums up on the way"
        )
    if names & {"reduce", "gather", "broadcast", "scatter"}:
        return (
            "they all go through one rank, and it has more to send than the others: an all-reduce "
            "shares out the load"
        )
    for why, more in {
        "a tied parameter is averaged twice, once under each of its names": sizes.tied,
        "the frozen parameters' gradients travel, too": sizes.frozen,
        "everything is averaged twice": sizes.gradients,
    }.items():
        if abs(times - 1 - more / sizes.gradients) < 2 * TOLERANCE * times:
            return why
    return "more is sent than the gradients once"


def need_calls(why_other_count, trial) -> str:
    if trial.of("sizes") is None:
        return ""
    names = [call.name for call in trial.calls[0]]
    by_hand = names.count("send") / (2 * (trial.n - 1))  # messages of a ring
    count = names.count("all_reduce") + by_hand
    told = f"{count:g} all-reduce" + ("" if count == 1 else "s")
    why = why_other_count(count, trial[0].sizes.count)
    if why:
        raise Wrong(f"cost, {trial.case}", f"the numbers are right, and it takes {told}", why)
    return f"cost, {trial.case}: {told}"
