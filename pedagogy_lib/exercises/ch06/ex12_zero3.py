"""Parameters that are whole only while their unit computes."""

import gc
from functools import partial

import torch.distributed as dist

from ...basics.units import counted
from ...measuring.recorder import mark, measure, peak_bytes_in, traffic_in
from ..kit import At, Holds, RankExercise, World
from ..kit.models import SAMPLES, equal_models, loss_of, share_of
from .watched_training import (
    REST,
    Plan,
    Stack,
    Training,
    make_optimizer,
    name_of,
    why_absent,
)

LARGE = {"width": 64, "inner": (300, 280, 310)}
PHASES = ("forward", "backward", "step")


def train(answer, group, case):
    if not isinstance(case, Plan):
        return cost_of_step(answer)
    Training(answer, group, case).run()
    return {}


def cost_of_step(answer):
    """What the second step takes: the first may differ.

    sent        in forward, backward and step, in times (n-1)/n of the model
    at_rest     bytes of parameters and of gradients after the step, and what is expected
    at_most     bytes of parameters in forward and backward, and what is expected
    """
    gc.collect()  # engines of the cases before; what is left of them does not count
    with measure("before"):
        pass
    before = peak_bytes_in("before")
    model = equal_models(1, partial(Stack, **LARGE))[0]
    layers, place, n = list(model.layers), dist.get_rank(), dist.get_world_size()
    zero = answer(model, make_optimizer, layers)
    flats = {name_of(module, layers): mark(unit.flat, "parameters").nbytes
             for module, unit in zero.units.items()}  # fmt: skip
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
    once = (n - 1) / n * sum(flats.values())
    shards = sum(unit.shard.nbytes for unit in zero.units.values())
    wanted = shards + sum(p.nbytes for p in model.parameters() if not p.requires_grad)
    largest = max(size for name, size in flats.items() if name != REST)
    return {
        "once": once,
        "sent": [traffic_in(f"second {phase}")[1] / once for phase in PHASES],
        "at_rest": (taken("rest", "parameters"), taken("rest", "gradients"), wanted),
        "at_most": [(taken(f"second {phase}", "parameters"), wanted + flats[REST] + largest)
                    for phase in PHASES[:2]],
    }  # fmt: skip


def told(trial) -> str:
    if isinstance(trial.case, Plan):
        disposed = "" if trial.case.prefetch else ", and nothing stays whole"
        return f"{counted(trial.case.steps, 'step')} as on one process{disposed}"
    return (
        f"{3 * trial[0].once / 1e6:.2f} MB in a step from each rank, 3 times half of the model; "
        f"{trial[0].at_rest[2]:,} bytes of parameters, and in a step two units more at most"
    )


def why_sent(trial, place) -> str:
    forward, backward, step = trial[place].sent
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
        Holds("sent", lambda sent: abs(sum(sent) - 3) < 0.03,
              lambda sent: "sent, in times (n-1)/n of the model: forward {:.2f}, backward {:.2f}, "
              "step {:.2f}; expected 1, 2 and 0".format(*sent), why_sent),
        Holds("at_rest", lambda found: found[0] == found[2] and not found[1],
              lambda found: "after a step there are {:,} bytes of parameters and {:,} of "
              "gradients, expected {:,} and 0".format(*found),
              "each rank keeps its shards, and nothing else of the parameters"),
        Holds("at_most", lambda found: all(peak <= most for peak, most in found),
              lambda found: "there are up to {:,} bytes of parameters, expected at most {:,}: the "
              "shards, one layer, and what is in none".format(*max(found)),
              "the numbers are right, and more units are whole at a time than there have to be: "
              "one is gathered when its own backward begins, and lets go when its gradients are "
              "reduced"),
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
