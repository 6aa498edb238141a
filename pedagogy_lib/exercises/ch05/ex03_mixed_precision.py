"""Numbers of two bytes, with masters of four.

Gradients are given, not computed, so it is known what has to become of them. The truth is an
ordinary training in float32. All numbers are sums of few powers of 2: nothing rounds them but the
parameters' own dtype.
"""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim import SGD, Adam

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes
from ..kit.trials import numbers

SHAPES = [(3, 4), (5,), (2, 3), ()]
FROZEN, MISSING = 1, 2  # which has never a gradient, and which has none in some steps
COUNT, SIZE = 16, 1000  # parameters, and elements of each, where bytes are counted


@dataclass(frozen=True)
class Plan:
    """A training: values of the parameters, and for each step a gradient of each, or None."""

    dtype: torch.dtype
    make_optimizer: partial
    start: list
    gradients: list

    def parameters(self, dtype):
        frozen = FROZEN if len(self.start) > 1 else None
        return [
            nn.Parameter(x.to(dtype, copy=True), requires_grad=index != frozen)
            for index, x in enumerate(self.start)
        ]

    def train(self, recreate=False, zeros=False) -> list[dict]:
        """Values after each step of an ordinary training in float32, rounded.

        recreate  whether each step begins with what it was, rounded
        zeros     whether a missing gradient is one of zeros
        """
        parameters, found = self.parameters(torch.float32), []
        optimizer = self.make_optimizer(parameters)
        for gradients in self.gradients:
            optimizer.zero_grad()
            backward(parameters, gradients)
            for p in parameters if zeros else ():
                p.grad = torch.zeros_like(p) if p.grad is None and p.requires_grad else p.grad
            optimizer.step()
            found.append(values_of(p.to(self.dtype) for p in parameters))
            for p in parameters if recreate else ():
                p.data = p.data.to(self.dtype).float()
        return found


def plan_of(dtype, make_optimizer, missing=()):
    """Six steps. missing: in which of them one parameter has no gradient."""

    def draw(salt):
        return [numbers(9, shape, dtype, salt + i) for i, shape in enumerate(SHAPES)]

    gradients = [[(x - 4) * 0.37109375 for x in draw(10 + 10 * step)] for step in range(6)]
    for step, of_step in enumerate(gradients):
        of_step[FROZEN] = None
        of_step[MISSING] = None if step in missing else of_step[MISSING]
    return Plan(dtype, make_optimizer, [x / 4 for x in draw(0)], gradients)


def small_steps(count=50):
    """No step alone changes a bfloat16: the nearest ones are 0.0078 apart, and it adds 0.0005."""
    start, gradient = (
        torch.tensor(x, dtype=torch.bfloat16) for x in ([1.5, 1.25, -1.125], [1.0, 0.75, -1.5])
    )
    return Plan(torch.bfloat16, partial(SGD, lr=2.0**-11), [start], [[gradient]] * count)


MOMENTUM = partial(SGD, lr=2.0**-4, momentum=0.5)
PLANS = {
    "SGD, bfloat16": plan_of(torch.bfloat16, partial(SGD, lr=2.0**-4)),
    "momentum, gradients missing, bfloat16": plan_of(torch.bfloat16, MOMENTUM, (2, 4)),
    "momentum, float16": plan_of(torch.float16, MOMENTUM),
    "50 small steps, bfloat16": small_steps(),
}


# ---- On a rank ---


def watched(make_optimizer):
    """Makes the same optimizer, and what is seen of it then."""
    seen = SimpleNamespace(masters=[], steps=[], optimizer=None)

    def make(masters):
        optimizer = seen.optimizer = make_optimizer(masters)
        seen.masters = [p for group in optimizer.param_groups for p in group["params"]]
        optimizer.register_step_post_hook(lambda *_: seen.steps.append(1))
        return optimizer

    return make, seen


def backward(parameters, gradients):
    """As a loss's backward: add to what is in `.grad`."""
    pairs = [(p, g.to(p.dtype)) for p, g in zip(parameters, gradients) if g is not None]
    torch.autograd.backward(*zip(*pairs))


def values_of(tensors) -> dict:
    return {f"parameter {i}": x.detach().double() for i, x in enumerate(tensors)}


def train(answer, plan):
    """What is seen after each step, and what an ordinary training comes to."""
    parameters, (make_optimizer, seen) = plan.parameters(plan.dtype), watched(plan.make_optimizer)
    mixed = answer((p for p in parameters), make_optimizer)
    if fault := fault_of(seen.masters, parameters):
        return {"fault": fault}
    first, ordinary = values_of(seen.masters), plan.train()
    found = {"start": values_of(plan.start), "ordinary": ordinary}
    found |= {k: [] for k in ("steps", "value_after", "dtypes", "zeros", "left", "in_masters")}
    for gradients in plan.gradients:
        backward(parameters, gradients)
        mixed.step()
        found["steps"].append(len(seen.steps))
        found["value_after"].append(values_of(parameters))
        found["dtypes"] += [name_of(p.dtype) for p in parameters if p.dtype != plan.dtype]
        if not close(found["value_after"][-1], ordinary[len(found["steps"]) - 1]):
            continue  # this comes first
        for name, tensors in {"left": parameters, "in_masters": seen.masters}.items():
            for gradient in (x.grad for x in tensors if x.grad is not None):
                found[name if gradient.any() else "zeros"].append(gradient)
    found["is_moved"] = not close(first, values_of(seen.masters))
    return found | {"recreated": plan.train(recreate=True),
                    "with_zeros": plan.train(zeros=True)}  # fmt: skip


def fault_of(masters, parameters) -> tuple[str, str] | None:
    """What the optimizer steps on, if that is wrong, and why."""
    if not masters:
        return "nothing", "__init__ ends with make_optimizer(self.masters)"
    for master in masters:
        kind = f"tensors in {name_of(master.dtype)}, expected float32"
        shapes = [p for p in parameters if p.shape == master.shape]
        if any(master is p for p in parameters):
            return kind, (
                "the optimizer gets the bfloat16 parameters themselves: what a step adds is "
                "rounded away. It steps on copies in float32"
            )
        if master.dtype == torch.float64:
            return kind, "float64 has twice the bytes that a master has: .float()"
        if master.dtype != torch.float32:
            return kind, (
                "the masters are copies, but not in float32: a copy has the same dtype, unless it "
                "is told otherwise: .float()"
            )
        if not any(bool((p == master).all()) for p in shapes):
            return "a tensor that has not the values of any parameter", (
                "a master begins as a copy of its parameter, with the same shape and the same "
                "values: p.detach().float()"
            )
        if not isinstance(master, nn.Parameter):
            return "tensors that are no parameters", (
                "a master is a parameter, as whatever an optimizer trains, with a requires_grad of "
                "its own: nn.Parameter(p.detach().float())"
            )


def name_of(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def count_bytes(answer):
    """Of a number: what the tensors have; and all that there is, in a step and after two."""
    parameters = [nn.Parameter(torch.ones(SIZE, dtype=torch.bfloat16)) for _ in range(COUNT)]
    gradients = [torch.ones(SIZE, dtype=torch.bfloat16) for _ in range(COUNT)]
    before, (make_optimizer, seen) = most_bytes()["total"], watched(partial(Adam, lr=0.1))
    mixed = answer((p for p in parameters), make_optimizer)
    backward(parameters, gradients)
    mixed.step()
    backward(parameters, gradients)
    in_step = most_bytes(mixed.step)["total"] - before
    state = [x for of in seen.optimizer.state.values() for x in of.values()]
    more = most_bytes()["total"] - before - sum(x.nbytes for x in seen.masters + state)
    return {"more": more / COUNT / SIZE, "in_step": 2 + in_step / COUNT / SIZE}


# ---- What is not right ---


def mistakes(trial, place):
    of = trial[place]
    unmoved = (
        "the masters are right, but the parameters do not get them: write into the parameters, "
        "which the model holds (p.copy_(master)). A new tensor with a name of its own changes no "
        "model"
        if of.is_moved
        else "the optimizer steps, but the masters that it was given at first do not move: their "
        "`.grad` is None when it steps, or others have been made since"
    )
    return {
        "the parameters get the masters as they were before the optimizer's step: first step, then "
        "round": [of.start, *of.ordinary[:-1]],
        unmoved: [of.start] * len(of.steps),
        "the masters are made anew from the rounded parameters: what rounding has lost stays lost, "
        "as if there were none. Copy once, in __init__; from then on a master changes by steps "
        "alone": of.recreated,
        "a parameter without a gradient has moved. Zeros are a gradient: an optimizer with a "
        "memory goes on moving then. With None it passes over the parameter: its master's `.grad` "
        "is None, too": of.with_zeros,
    }  # fmt: skip


def told(trial) -> str:
    of = trial[0]
    if trial.of("in_step"):
        return f"in a step with Adam at most {of.in_step:.1f}"
    if len(of.start) > 1:
        return f"after each of {len(of.steps)} steps the parameters are the rounded masters"
    first, last = (values["parameter 0"][0] for values in (of.start, of.value_after[-1]))
    return f"{first:g} has become {last:g}; without masters it would still be {first:g}"


NO_PAIR = (
    "masters and parameters do not belong together: each parameter has its master at the same "
    "place of the list, a frozen one as well"
)

EXERCISE = WarmExercise(
    "5.3",
    "MixedPrecision",
    lab="memory",
    cases=[
        *(Alone(name, train, (plan,)) for name, plan in PLANS.items()),
        Alone("bytes of a number", count_bytes),
    ],
    work=alone,
    facts=[
        never("fault", lambda fault: f"the optimizer steps on {fault[0]}",
              lambda trial, place: trial[place].fault[1]),
        Holds("steps", lambda steps: steps == list(range(1, len(steps) + 1)),
              "the optimizer has stepped {} times in 1, 2, 3, … calls of step()",
              lambda trial, place: "one call of step() is one step of the optimizer, after all "
              "masters have gradients" if any(trial[place].steps) else
              "step() has to call self.optimizer.step()"),
        never("left", "after step() a parameter still has a gradient; expected None",
              "the next backward adds to it. And it is memory: set p.grad to None when the master "
              "has got it"),
        never("in_masters", "after step() a master still has a gradient; expected None",
              "a master's gradient is needed during the step alone: after it, it is 4 bytes a "
              "parameter for nothing, and a parameter that has no gradient next time would step "
              "with this one: self.optimizer.zero_grad()"),
        never("zeros", "after step() there are gradients of zeros; expected None",
              "zeros are a gradient, and take as many bytes: None is meant (set_to_none=True, "
              "which is usual)"),
        never("dtypes", lambda dtypes: f"a parameter is {dtypes[0]} now",
              "the model is no longer one of two bytes a number: round into the parameter's own "
              "dtype, which may be bfloat16 or float16 (copy_ does; .to(p.dtype), too)"),
        Equals("value_after", lambda trial, place: trial[place].ordinary, mistakes),
        Holds("more", lambda each: each < 0.5,
              "between steps there are {:.1f} bytes a number that nobody has asked for",
              "a step leaves something behind besides the parameters, the masters, and what the "
              "optimizer keeps: gradients, or copies?"),
        Holds("in_step", lambda each: each < 22.5,  # 20, and what one parameter at a time needs
              "during a step there are up to {:.1f} bytes a number, expected 20",
              "that is one more float32 copy of everything: 2 for a parameter, 2 for its gradient, "
              "4 for its master, 8 for Adam, and 4 for the gradient in float32 are enough"),
    ],
    told=told,
    errors={
        "'NoneType' object": "a parameter may have no gradient: then p.grad is None. Its master's "
        "is None, too, and the optimizer passes over it",
        "assign a gradient with dtype": "the gradient has two bytes a number, and its master four: "
        "p.grad.float()",
        "a leaf Variable that requires grad": "autograd watches over parameters: write into them "
        "under torch.no_grad(), as the decorator of step() does",
        "non-leaf": "a master is a leaf of its own, not the outcome of an operation on the "
        "parameter: p.detach().float(), and nn.Parameter around it",
        "has no attribute 'masters'": "__init__ makes self.masters, a list of float32 copies; then "
        "the optimizer steps on them",
        "must match the size": NO_PAIR,
        "assign a gradient of size": NO_PAIR,
    },
    hints=(
        "What has to be float32 for a small step not to be lost: what a step is added to. "
        "Which tensors does the optimizer step on, then?",
        "__init__: for each parameter a copy in float32, p.detach().float(), as an "
        "nn.Parameter: a list, in the same order. It is made once.",
        "step, in this order: each gradient to its master, in float32 (None stays None); the "
        "optimizer's step; each master into its parameter. p.copy_(master) rounds.",
        "And no gradient is left: p.grad = None for the parameters, "
        "self.optimizer.zero_grad() for the masters.",
    ),
)  # fmt: skip
