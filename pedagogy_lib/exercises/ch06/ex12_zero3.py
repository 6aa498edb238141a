"""Parameters that are whole only while their unit computes."""

import gc
from functools import partial
from types import SimpleNamespace

import torch.distributed as dist

from ...basics.units import counted
from ...measuring.recorder import mark, measure, peak_bytes_in, traffic_in
from ..kit import At, Equals, RankExercise, World, complains
from ..kit.models import SAMPLES, equal_models, loss_of, share_of
from .trained_alone import Stack, make_optimizer
from .watched_training import Plan, Training, weights_of, why_absent

LARGE = {"width": 64, "inner": (300, 280, 310)}
PHASES = ("forward", "backward", "step")


def train(answer, group, case):
    if not isinstance(case, Plan):
        return cost_of_step(answer)
    training = Training(answer, group, case)
    training.run()
    return {"weights": training.weights}


def cost_of_step(answer):
    """What the second step takes: the first may differ.

    sent        bytes in forward, backward and step
    at_rest     bytes of parameters and of gradients after the step
    at_most     bytes of parameters in forward and backward
    """
    gc.collect()  # engines of the cases before; what is left of them does not count
    with measure("before"):
        pass
    before = peak_bytes_in("before")
    model = equal_models(1, partial(Stack, **LARGE))[0]
    layers, place, n = list(model.layers), dist.get_rank(), dist.get_world_size()
    zero = answer(model, make_optimizer, layers)
    for unit in zero.units.values():
        mark(unit.flat, "parameters")
    for step in ("first", "second"):
        dist.barrier()
        with measure(f"{step} forward"):
            loss = loss_of(model, len(step), share_of(place, n), n / SAMPLES)
        with measure(f"{step} backward"):
            loss.backward()
        with measure(f"{step} step"):
            zero.step()
    del loss
    with measure("rest"):
        pass
    taken = lambda label, kind: peak_bytes_in(label)[kind] - before[kind]  # noqa: E731
    return {
        "sent": [traffic_in(f"second {phase}")[1] for phase in PHASES],
        "at_rest": (taken("rest", "parameters"), taken("rest", "gradients")),
        "at_most": [taken(f"second {phase}", "parameters") for phase in PHASES[:2]],
    }


# ---- What is right, and what is not ---


def expected(n) -> SimpleNamespace:
    """Bytes: a rank's part of what it sends `once`, what it has at rest, and at most."""
    model = Stack(**LARGE)
    frozen = sum(p.nbytes for p in model.parameters() if not p.requires_grad)
    layers = [sum(p.nbytes for p in layer.parameters() if p.requires_grad)
              for layer in model.layers]  # fmt: skip
    rest = sum(p.nbytes for p in model.parameters()) - frozen - sum(layers)
    *layers, rest = (n * 8 * -(-size // (8 * n)) for size in (*layers, rest))  # with padding
    at_rest = frozen + (rest + sum(layers)) // n
    once = (n - 1) / n * (rest + sum(layers))
    return SimpleNamespace(once=once, at_rest=at_rest, at_most=at_rest + rest + max(layers))


def sent_by(of, n) -> list[float]:
    """In times (n-1)/n of the model."""
    return [nbytes / expected(n).once for nbytes in of.sent]


def cost_faults(trial):
    right, costs = expected(trial.n), [] if isinstance(trial.case, Plan) else list(trial)
    for place, of in enumerate(costs):
        sent, who = sent_by(of, trial.n), trial.who(place)
        if abs(sum(sent) - 3) >= 0.03:
            what = "sent, in times (n-1)/n of the model: forward {:.2f}, backward {:.2f}, "
            yield f"{who}: {what}step {{:.2f}}; expected 1, 2 and 0".format(*sent), why_sent(sent)
    for place, of in enumerate(costs):
        parameters, gradients = of.at_rest
        if parameters != right.at_rest or gradients:
            yield (
                f"{trial.who(place)}: after a step there are {parameters:,} bytes of parameters "
                f"and {gradients:,} of gradients, expected {right.at_rest:,} and 0",
                "each rank keeps its shards, and nothing else of the parameters",
            )
    for place, of in enumerate(costs):
        if max(of.at_most) > right.at_most:
            yield (
                f"{trial.who(place)}: there are up to {max(of.at_most):,} bytes of parameters, "
                f"expected at most {right.at_most:,}: the shards, one layer, and what is in none",
                "the numbers are right, and more units are whole at a time than there have to be: "
                "one is gathered when its own backward begins, and lets go when its gradients are "
                "reduced",
            )


def told(trial) -> str:
    if isinstance(trial.case, Plan):
        disposed = "" if trial.case.prefetch else ", and nothing stays whole"
        return f"{counted(trial.case.steps, 'step')} as on one process{disposed}"
    right = expected(trial.n)
    return (
        f"{3 * right.once / 1e6:.2f} MB in a step from each rank, 3 times half of the model; "
        f"{right.at_rest:,} bytes of parameters, and in a step two units more at most"
    )


def why_sent(sent) -> str:
    forward, backward, step = sent
    if step > 0.01:
        return "nothing travels in step(): each rank changes its shards, the next forward gathers"
    if forward < 0.99 or backward < 1.99:
        return "a unit is gathered for its forward, and again for its backward; then it is reduced"
    return (
        "the numbers are right, and something travels again that is there already: need() knows "
        "what is there, gather() does not"
    )


def why_it_failed(case, error) -> str:
    """Where memory is read that is not there, the process dies: in a backward alone."""
    return why_absent(case, "backward") if "SIGSEGV" in str(error) else ""


EXERCISE = RankExercise(
    "6.12",
    "Zero3",
    lab="zero",
    needs=("3.2", "6.10", "6.11", "6.3", "6.7"),
    warm=True,
    found=lambda case: ("weights",) if isinstance(case, Plan) else ("sent", "at_rest", "at_most"),
    cases=[
        Plan(World(2), what=", training"),
        Plan(World(3), what=", checkpointing", steps=2, around=(1, 2)),
        Plan(World(2), what=", checkpointing, the last layer too", steps=2, around=(0, 1, 2),
             stops_early=False, ends_in_layer=True),
        At(World(2), what=", cost"),
        Plan(World(2), what=", prefetch", prefetch="in line"),
        Plan(World(1), what=", training", steps=2),
        Plan(World(3), what=", prefetch in a thread", around=(0,),
             prefetch="in a thread"),
        Plan(World(3, (1, 2)), what=", training", steps=1),
    ],
    work=train,
    facts=[
        Equals("weights", weights_of, called="the weights after"),
        complains(cost_faults),
    ],
    told=told,
    errors={
        "KeyError": "a unit may have had no part in a loss: it is reduced at the end of the "
        "backward, and its own has never begun. discard() does not mind, remove() does",
    },
    lost="all ranks have to gather and to reduce the same units, in the same order",
    explain=why_it_failed,
    hints=(
        "need(unit) and drop(unit) are there already. Four methods say when: before_forward, "
        "after_forward, before_backward, and reduce, when the unit's gradients are all there.",
        "before_forward and before_backward need the unit. after_forward drops it. reduce "
        "reduces its gradients, as stage 2 does, and drops it.",
        "A forward that runs again within a backward ends with after_forward, too. "
        "before_backward puts the unit into self.held, reduce takes it out, and after_forward "
        "drops only what is not in there.",
    ),
)  # fmt: skip
