"""Parameters that are whole only while their unit computes: what the check of 6.11 tries."""

from functools import partial

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.errors import HangError
from ...course.checking import Exercise, LabFunction, Wrong, try_on_ranks
from ...course.loaded_labs import NotSolvedYet
from ...measuring.recorder import mark, measure
from ..kit.models import SAMPLES, equal_models, loss_of, share_of
from ..kit.refused import Refused
from ..kit.trials import megabytes, numbers
from ..kit.warming import warm_up
from ..kit.worlds import World, try_in
from .ex09_gather import SHAPES, examine_gather, explain_unit, made_unit
from .ex10_dispose import examine_dispose
from .watched_training import (
    COMPLETE,
    LAST,
    LINE,
    NOT_IN_BACKWARD,
    NOT_WAITED_FOR,
    PLAIN,
    RECOMPUTED,
    REST,
    STEPS,
    STOPPING,
    THREAD,
    Stack,
    Training,
    make_optimizer,
    name_of,
)

TOLERANCE = 0.01  # of the bytes
LARGE = {"width": 64, "inner": (300, 280, 310, 290)}
TRAININGS = [
    (World(2), PLAIN),
    (World(3), STOPPING),
    (World(2), COMPLETE),
    (World(2), LAST),
    (World(2), LINE),
    (World(1), PLAIN),
    (World(4), THREAD),
]


def examine_zero3(answer):
    warm_up()
    need_earlier(answer)
    for world, plan in TRAININGS:
        case = f"{world}, {plan}"
        explain = explain_training(case, errors_of(plan))
        try_in(world, train_on_rank, answer, plan, what=f", {plan}", explain=explain)
        disposed = "" if plan.prefetch else ", and nothing stays whole"
        yield f"{case}: {len(STEPS)} steps as on one process{disposed}"
    yield from cost_of_step(World(4), answer)


def explain_training(case, meanings):
    return lambda error: (
        ORDER if isinstance(error, HangError) else explain_unit(case, meanings, ORDER)(error)
    )


ORDER = "all ranks have to gather and to reduce the same units, in the same order"


def errors_of(plan):
    in_backward = RECOMPUTED if plan.around else NOT_IN_BACKWARD
    return {
        "SIGSEGV": NOT_WAITED_FOR if plan.prefetch else in_backward,
        "KeyError": "a unit may have had no part in a loss: it is reduced at the end of the "
        "backward, and its own has never begun. discard() does not mind, remove() does",
    }


def train_on_rank(answer, group, plan):
    Training(answer, group, plan).run()


# ---- What comes before -----------------------------------------------------------------------


def need_earlier(answer):
    """Raise `Wrong` if it is something that Zero3 uses that is wrong."""
    for number, name, examine in (
        ("6.9", "gather", examine_gather),
        ("6.10", "dispose", examine_dispose),
    ):
        try:
            next(examine(LabFunction(answer.lab, name)))
        except Wrong as wrong:
            why = f'first: check("{number}")'
            raise Wrong(f"{name}, which Zero3 uses", wrong.what, why) from None
    case = "what Zero3 takes from stage 2"
    try_in(World(2), try_stage_2, answer, explain=explain_training(case, {}))


def try_stage_2(answer, group):
    """Raise `Refused` unless stage 2 reduces gradients as it should."""
    for number, work in (("6.3", need_reduced), ("6.7", need_in_turn)):
        try:
            work(answer)
        except NotSolvedYet:
            raise
        except Exception as error:
            what = error if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
            raise Refused(str(what), f'first: check("{number}")') from None


def need_reduced(answer):
    unit, dtype = made_unit(answer), torch.float64
    place, n = dist.get_rank(), dist.get_world_size()
    for salt, (p, shape) in enumerate(zip(unit.parameters, SHAPES), 50):
        p.grad = numbers(place, shape, dtype, salt)
    answer.lab.reduce_gradients(unit)
    sums = [sum(numbers(k, s, dtype, salt) for k in range(n)) for salt, s in enumerate(SHAPES, 50)]
    mean, size = torch.cat([x.flatten() for x in sums]) / n, unit.shard.numel()
    wanted = mean[place * size : (place + 1) * size]
    if unit.shard.grad is None or not close(unit.shard.grad[: len(wanted)], wanted):
        raise Refused("reduce_gradients does not give the shard the mean", "")


def need_in_turn(answer):
    """Each unit is reduced once all its gradients are there, the last one first."""
    model, reduced = equal_models(1, Stack)[0], []

    class Noting(answer.lab.Zero2):
        def reduce(self, unit):
            missing = [p for p in unit.parameters if p.grad is None and p is not model.unused]
            reduced.append((unit, len(missing)))

    zero = Noting(model, make_optimizer, list(model.layers))
    loss_of(model, 0, slice(None), 1).backward()
    if reduced != [(unit, 0) for unit in reversed(zero.units.values())]:
        what = "reduce() is not called for each unit, from the last, when its gradients are there"
        raise Refused(what, "")


# ---- What it costs ---------------------------------------------------------------------------


def cost_of_step(world, answer):
    case, labels = f"cost, {world}", ("second forward", "second backward", "second step")
    explain = explain_training(case, {})
    run = try_on_ranks(case, steps_on_rank, answer, world_size=world.size, explain=explain)
    for rank, (rest, flats) in enumerate(run.values):
        once = (world.size - 1) / world.size * sum(flats.values())
        parts = [run[label].sent_bytes[rank] / once for label in labels]
        judge_bytes(f"{case}, rank {rank}", parts)
        judge_memory(f"{case}, rank {rank}", run, rank, rest, flats)
    yield f"{case}: {megabytes(3 * once)} in a step from each rank, 3 times 3/4 of the model"
    yield f"memory, {world}: {rest:,} bytes of parameters, and in a step two units more at most"


def steps_on_rank(answer):
    """The parameters' bytes at rest, and those of each unit when it is whole.

    What counts is the second step: the first may differ.
    """
    model = equal_models(1, partial(Stack, **LARGE))[0]
    layers, place, n = list(model.layers), dist.get_rank(), dist.get_world_size()
    zero = answer(model, make_optimizer, layers)
    units = {name_of(module, layers): mark_flat(unit) for module, unit in zero.units.items()}
    for seed, label in enumerate(("", "second ")):
        dist.barrier()
        with measure(f"{label}forward"):
            loss = loss_of(model, seed, share_of(place, n), n / SAMPLES)
        with measure(f"{label}backward"):
            loss.backward()
        with measure(f"{label}step"):
            zero.step()
    del loss
    with measure("rest"):
        pass
    shards = sum(unit.shard.nbytes for unit in units.values())
    frozen = sum(p.nbytes for p in model.parameters() if not p.requires_grad)
    return shards + frozen, {name: unit.flat.nbytes for name, unit in units.items()}


def mark_flat(unit):
    mark(unit.flat, "parameters")
    return unit


def judge_bytes(case, parts):
    """Raise `Wrong` unless they add up to 3.

    parts  how often the model's share of (n-1)/n is sent in forward, backward and step
    """
    if abs(sum(parts) - 3) > 3 * TOLERANCE:
        told = "forward {:.2f}, backward {:.2f}, step {:.2f}".format(*parts)
        what = f"sent, in times (n-1)/n of the model: {told}; expected 1, 2 and 0"
        raise Wrong(case, what, why_bytes(*parts))


def why_bytes(forward, backward, step) -> str:
    if step > TOLERANCE:
        return "nothing travels in step(): each rank changes its shards, the next forward gathers"
    if forward < 1 - TOLERANCE or backward < 2 - TOLERANCE:
        return "a unit is gathered for its forward, and again for its backward; then it is reduced"
    return (
        "the numbers are right, and something travels again that is there already: need() knows "
        "what is there, gather() does not"
    )


def judge_memory(case, run, rank, rest, flats):
    after = run["rest"].peak_bytes[rank]
    if after["parameters"] != rest or after["gradients"]:
        got = f"{after['parameters']:,} bytes of parameters and {after['gradients']:,} of gradients"
        what = f"after a step there are {got}, expected {rest:,} and 0"
        raise Wrong(case, what, "each rank keeps its shards, and nothing else of the parameters")
    most = rest + flats[REST] + max(size for name, size in flats.items() if name != REST)
    for label in ("second forward", "second backward"):
        peak = run[label].peak_bytes[rank]["parameters"]
        if peak > most:
            what = f"in the {label} there are up to {peak:,} bytes of parameters, expected at most "
            what += f"{most:,}: the shards, one layer, and what is in none"
            raise Wrong(case, what, TOO_MANY)


TOO_MANY = (
    "the numbers are right, and more units are whole at a time than there have to be: one is "
    "gathered when its own backward begins, and lets go when its gradients are reduced"
)


EXERCISE = Exercise(
    "6.11", "Zero3", examine_zero3,
    (
        "need(unit) and drop(unit) are there already. Four methods say when: before_forward, "
        "after_forward, before_backward, and reduce, when the unit's gradients are all there.",
        "before_forward and before_backward need the unit. after_forward drops it. reduce "
        "reduces its gradients, as stage 2 does, and drops it.",
        "A forward that runs again within a backward ends with after_forward, too. "
        "before_backward puts the unit into self.held, reduce takes it out, and after_forward "
        "drops only what is not in there.",
        "With prefetch, gathers run in a thread, and messages of two threads would get mixed "
        "up. So reduce_gradients runs there as well: self.begin(partial(reduce_gradients, "
        "unit)) puts it in line, and returns a function that waits for it: call that.",
    ),
    lab="zero",
)  # fmt: skip
