"""Stages 1 and 2 of ZeRO: exercises 6.4 and 6.7. The truth is one process."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from ...course.checking import Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.on_ranks import IN_A_GROUP
from ..kit.refused import Refused
from ..kit.warming import warm_up
from ..kit.worlds import GROUP, World, explain_by, on_members, try_in
from .ex03_reduce_gradients import GLOO
from .sharded_training import OPTIMIZERS, Plan, Watch, give_shards, judge_training, train_on_rank
from .units_in_turn import WatchUnits

# ---- Both ------------------------------------------------------------------------------------

ERRORS = {
    "a view of a leaf Variable that requires grad": "the shard is a parameter, which autograd "
    "watches over: write into unit.chunks, which share its memory",
    "a leaf Variable that requires grad": "the shard is a parameter, which autograd watches over: "
    "write into unit.chunks, which share its memory",
    "NoneType": "what is None here? A shard has no gradient before its unit is reduced",
}
SAME_CALLS = (
    "every rank has to reduce all units, and to gather all, in the same order: a unit of which it "
    "has no gradient, too"
)


def explain_stage(world, errors, hang):
    """As explain_by, and for what a `Watch` has refused."""
    group = {"out of range": IN_A_GROUP, "not part of": IN_A_GROUP}
    explain = explain_by(errors, hang)
    if world.members:
        explain = explain_by(group | errors, IN_A_GROUP)

    def why(error):
        refused = getattr(error, "exception", None)
        return refused.why if isinstance(refused, Refused) else explain(error)

    return why


def train(answer, plan, watching, errors, hang):
    """Train as planned; raises `Wrong` unless it is as in one process."""
    explain = explain_stage(plan.world, errors, hang)
    found, _ = try_in(plan.world, train_on_rank, answer, plan, watching,
                      what=plan.what, explain=explain)  # fmt: skip
    judge_training(plan, found)


# ---- Cost ---

LAYERS, FEATURES, BACKWARDS = 6, 201, 2  # of a model whose bytes and memory are looked at
HEADERS = 0.01  # of the bytes


@dataclass
class Cost:
    """What parts of a step have taken: in models.

    sent   {"backward" or "step" or "update": what a rank sends at most, of the padded model}
    names  {likewise: the calls of rank 0}
    peak   gradients at most, of all ranks, in the backwards
    """

    sent: dict[str, float]
    names: dict[str, set[str]]
    peak: float


def cost_of(answer, case, world, explain) -> Cost:
    run = try_on_ranks(case, on_members, cost_on_rank, answer, world.members,
                       world_size=world.size, explain=explain)  # fmt: skip
    padded, model = run.values[0]
    blocks = {label: run[label] for label in ("backward", "step", "update")}
    return Cost(
        {label: max(block.sent_bytes) / padded for label, block in blocks.items()},
        {label: {call.name for call in block.calls[0]} for label, block in blocks.items()},
        max(peak["gradients"] for peak in run["backward"].peak_bytes) / model,
    )


def cost_on_rank(answer, group):
    """Bytes of a model with padding, and without; several backwards, and a step of each kind."""
    model = nn.Sequential(*(nn.Linear(FEATURES, FEATURES) for _ in range(LAYERS))).double()
    zero = answer(model, OPTIMIZERS["Adam"], list(model), group)
    x = torch.ones(1, FEATURES, dtype=torch.float64)
    dist.barrier(group)
    for _ in range(BACKWARDS):
        loss = model(x).square().mean()
        with measure("backward"):
            loss.backward()
    with measure("step"):
        zero.step()
    ones = {name: torch.ones_like(p) for name, p in model.named_parameters()}
    give_shards(zero, model, ones, dist.get_rank(group), dist.get_world_size(group))
    with measure("update"):
        zero.update()
    padded = sum(unit.flat.nbytes for unit in zero.units.values())
    return padded, sum(p.nbytes for p in model.parameters())


def need_bytes(case, cost, n, halves, why):
    """Raise `Wrong` if a part sends more than this.

    halves  {part: how often it may send (n-1)/n of the model}
    why     takes the part, and how often it has sent that
    """
    for part, count in halves.items():
        times = cost.sent[part] * n / (n - 1)
        if times > count + max(count, 1) * HEADERS:
            what = f"{WHAT[part]} sends {cost.sent[part]:.2f} models, expected "
            what += f"{count * (n - 1) / n:g}"
            gloo = "reduce_scatter" in cost.names[part]
            raise Wrong(case, what, GLOO if gloo else why(part, round(times, 1)))


WHAT = {
    "backward": f"in {BACKWARDS} backwards together, a rank",
    "step": "in step(), a rank",
    "update": "in update() alone, a rank",
}


# ---- 6.4: stage 1 ----------------------------------------------------------------------------

PLANS_1 = [
    Plan(World(2), "SGD", (1, 2)),
    Plan(World(2), "SGD", (1, 1), by_hand=True),
    Plan(World(3), "Adam", (2, 1, 1)),
    Plan(World(1), "Adam", (1, 2)),
    Plan(GROUP, "Adam", (1, 1)),
    Plan(World(4), "Adam", (1, 2)),
]


def examine_zero1(answer):
    warm_up()
    for plan in PLANS_1:
        train(answer, plan, Watch, ERRORS, SAME_CALLS)
        yield f"{plan}: as in one process"
    case, n = f"cost, {World(4)}", 4
    cost = cost_of(answer, case, World(4), explain_stage(World(4), ERRORS, SAME_CALLS))
    need_bytes(case, cost, n, {"backward": 0, "step": 2, "update": 1}, why_bytes_1)
    yield f"{case}: backwards send nothing, a step {cost.sent['step']:.2f} models"


def why_bytes_1(part, times) -> str:
    if part == "backward":
        return (
            "stage 1 sends nothing in a backward: gradients add up in `.grad`, and step() reduces "
            "them once, however many backwards there were"
        )
    if part == "update":
        return (
            "update() reduces as well. In stage 2 gradients are reduced already when it comes: "
            "reducing is for step(), and update() steps and gathers"
        )
    if times == 3:
        return (
            "the numbers are right, but something travels twice: one reduce-scatter, and one "
            "all-gather, for each unit"
        )
    return "one reduce-scatter and one all-gather for each unit are enough"


# ---- 6.7: stage 2 ----------------------------------------------------------------------------

PLANS_2 = [
    Plan(World(2), "SGD", (1, 2)),
    Plan(World(3), "Adam", (2, 1, 1)),
    Plan(World(1), "Adam", (1, 2)),
    Plan(GROUP, "Adam", (1, 1)),
    Plan(World(4), "Adam", (1, 2)),
]
ERRORS_2 = {
    "list index out of range": "when all units are reduced, self.left is empty, and has no last "
    "one: while self.left and …",
    "pop from empty list": "when all units are reduced, self.left is empty: while self.left …",
    "'NoneType' object is not subscriptable": "self.left is None between backwards alone: only "
    "the end of end_backward sets it",
} | ERRORS
MOST_GRADIENTS = 0.5  # of the model: a quarter is the shards', a sixth is a unit's


def examine_zero2(answer):
    warm_up()
    for plan in PLANS_2:
        train(answer, plan, WatchUnits, ERRORS_2, SAME_CALLS)
        yield f"{plan}: units in turn, as in one process"
    case, n = f"cost, {World(4)}", 4
    cost = cost_of(answer, case, World(4), explain_stage(World(4), ERRORS_2, SAME_CALLS))
    need_bytes(case, cost, n, {"backward": BACKWARDS, "step": 1, "update": 1}, why_bytes_2)
    if cost.peak > MOST_GRADIENTS:
        what = f"in a backward, gradients of up to {cost.peak:.2f} models are in memory"
        raise Wrong(case, what, HELD)
    yield (
        f"{case}: a backward sends {cost.sent['backward'] / BACKWARDS:.2f} models, a step "
        f"{cost.sent['step']:.2f}; gradients take {cost.peak:.2f} models at most"
    )


HELD = (
    "units are reduced in time, but something still holds their gradients: a list, an attribute, "
    "or a view into the flat tensor"
)


def why_bytes_2(part, times) -> str:
    if part == "backward":
        return "one reduce-scatter for each unit is enough, in each backward"
    if times >= 2:
        return (
            "the step reduces once more, though nothing is left to reduce: after the backwards, "
            "the shards have their gradients. update() is enough"
        )
    return "one all-gather for each unit is enough"
