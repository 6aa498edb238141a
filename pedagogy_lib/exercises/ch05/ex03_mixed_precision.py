"""Numbers of two bytes, with masters of four.

Gradients are given, not computed, so it is known what has to become of them. The truth is an
ordinary training in float32. All numbers are sums of few powers of 2: nothing rounds them but the
parameters' own dtype.
"""

from functools import cache, partial
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim import SGD, Adam

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes, on_our_rank
from ..kit.trials import numbers

SHAPES = [(3, 4), (5,), (2, 3), ()]
FROZEN, MISSING = 1, 2  # which has never a gradient, and which has none in some steps
COUNT, SIZE = 16, 1000  # parameters, and elements of each, where bytes are counted


def draw(salt):
    return [numbers(9, shape, torch.float32, salt + i) for i, shape in enumerate(SHAPES)]


def gradients(steps, missing=()):
    """For each step one of each parameter, or None. missing: steps in which there is one less."""
    found = [[(x - 4) * 0.375 for x in draw(10 + 10 * step)] for step in range(steps)]
    for step, of_step in enumerate(found):
        of_step[FROZEN] = None
        of_step[MISSING] = None if step in missing else of_step[MISSING]
    return found


MOMENTUM = partial(SGD, lr=2.0**-6, momentum=0.5)
TRIALS = {
    "SGD, bfloat16": (torch.bfloat16, partial(SGD, lr=2.0**-6), gradients(6)),
    "momentum, gradients missing, bfloat16": (torch.bfloat16, MOMENTUM, gradients(6, (2, 4))),
    "momentum, float16": (torch.float16, MOMENTUM, gradients(6)),
    "50 small steps, bfloat16": (torch.bfloat16, partial(SGD, lr=2.0**-11), gradients(1) * 50),
}
STEPS_ON = {
    "the parameters of the model": "the optimizer gets the bfloat16 parameters themselves: what a "
    "step adds is rounded away. It steps on copies in float32",
    "numbers in float64": "float64 has twice the bytes that a master has: .float()",
    "numbers of two bytes": "the masters are copies, but not in float32: a copy has the same "
    "dtype, unless it is told otherwise: .float()",
    "a tensor that has not the values of any parameter": "a master begins as a copy of its "
    "parameter, with the same shape and the same values: p.detach().float()",
}


# ---- On a rank ---


def make_parameters(dtype):
    return [nn.Parameter((x / 4).to(dtype), i != FROZEN) for i, x in enumerate(draw(0))]


def watched(make_optimizer):
    """Makes the same optimizer, and what is seen of it then."""
    seen = SimpleNamespace(masters=[], steps=[], optimizer=None, made=0)

    def make(masters):
        optimizer = seen.optimizer = make_optimizer(masters)
        seen.made += 1
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


def train(answer, dtype, make_optimizer, gradients):
    """What is seen after each step."""
    parameters, (make, seen) = make_parameters(dtype), watched(make_optimizer)
    mixed = answer((p for p in parameters), make)
    found = {"masters": [fault_of(master, parameters) for master in seen.masters]}
    if not found["masters"] or any(found["masters"]):
        return found
    first, ordinary = values_of(seen.masters), train_in_float32(dtype, make_optimizer, gradients)
    found["no_parameters"] = not list(mixed.parameters) if hasattr(mixed, "parameters") else False
    found |= {k: [] for k in ("steps", "value_after", "dtypes", "zeros", "left", "in_masters")}
    for of_step, right in zip(gradients, ordinary):
        backward(parameters, of_step)
        mixed.step()
        found["steps"].append(len(seen.steps))
        found["value_after"].append(values_of(parameters))
        found["dtypes"] += [str(p.dtype) for p in parameters if p.dtype != dtype]
        if not close(found["value_after"][-1], right):
            continue  # this comes first
        for name, tensors in {"left": parameters, "in_masters": seen.masters}.items():
            for gradient in (x.grad for x in tensors if x.grad is not None):
                found[name if gradient.any() else "zeros"].append(gradient)
    found["made_again"] = seen.made - 1
    return found | {"is_moved": not close(first, values_of(seen.masters))}


# ---- What is known of it ---


def known_of(case, place) -> dict:
    return known_of_all()[str(case)] if case.work is train else {}


@cache
def known_of_all() -> dict:
    return on_our_rank(lambda: {name: train_by_ourselves(*of) for name, of in TRIALS.items()})


def train_by_ourselves(*trial) -> dict:
    """What an ordinary training comes to."""
    return {
        "start": values_of(make_parameters(trial[0])),
        "ordinary": train_in_float32(*trial),
        "recreated": train_in_float32(*trial, recreate=True),
        "with_zeros": train_in_float32(*trial, zeros=True),
    }


def fault_of(master, parameters) -> str:
    alike = [p for p in parameters if p.shape == master.shape and bool((p == master).all())]
    is_faulty = (
        any(master is p for p in parameters), master.dtype == torch.float64,
        master.dtype != torch.float32, not alike,
    )  # fmt: skip
    return next((fault for fault, is_so in zip(STEPS_ON, is_faulty) if is_so), "")


def train_in_float32(dtype, make_optimizer, gradients, recreate=False, zeros=False) -> list[dict]:
    """Values after each step of an ordinary training, rounded.

    recreate  whether each step begins with what it was, rounded
    zeros     whether a missing gradient is one of zeros
    """
    parameters, found = make_parameters(torch.float32), []
    optimizer = make_optimizer(parameters)
    for of_step in gradients:
        optimizer.zero_grad()
        backward(parameters, of_step)
        for p in parameters if zeros else ():
            p.grad = torch.zeros_like(p) if p.grad is None and p.requires_grad else p.grad
        optimizer.step()
        found.append(values_of(p.to(dtype) for p in parameters))
        for p in parameters if recreate else ():
            p.data = p.data.to(dtype).float()
    return found


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
        "which the model holds. A new tensor with a name of its own changes no "
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
    if "small" not in str(trial.case):
        return f"after each of {len(of.steps)} steps the parameters are the rounded masters"
    first, last = (values["parameter 0"][0, 0] for values in (of.start, of.value_after[-1]))
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
        *(Alone(name, train, trial) for name, trial in TRIALS.items()),
        Alone("bytes of a number", count_bytes),
    ],
    work=alone,
    known=known_of,
    found=lambda case: ("value_after",) if case.work is train else ("more", "in_step"),
    facts=[
        Holds("masters", bool, "there is no optimizer",
              "__init__ ends with make_optimizer(self.masters)"),
        Holds("masters", lambda faults: not any(faults),
              lambda faults: f"the optimizer steps on {max(faults)}",
              lambda trial, place: STEPS_ON[max(trial[place].masters)]),
        never("no_parameters", "after __init__ there are no parameters in self.parameters",
              "what is given may be a generator, as of model.parameters(): it can be gone through "
              "once. Make a list of it first"),
        Holds("steps", lambda steps: steps == list(range(1, len(steps) + 1)),
              "the optimizer has stepped {} times in 1, 2, 3, … calls of step()",
              lambda trial, place: "one call of step() is one step of the optimizer, after all "
              "masters have gradients" if any(trial[place].steps) else
              "step() has to call self.optimizer.step()"),
        never("made_again", "make_optimizer is called {} times more after the first",
              "a new optimizer has none of the state of the steps before, such as momentum: make "
              "it once, in __init__"),
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
        "'NoneType' object has no attribute 'grad'": "each parameter has a master, a frozen one as "
        "well: it stays without a gradient, and an optimizer passes over it",
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
