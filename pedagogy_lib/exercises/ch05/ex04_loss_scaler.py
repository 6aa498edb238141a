"""Gradients times a factor.

Gradients of a scaled loss are given, some with inf or nan in them. The truth is
torch.amp.GradScaler.
"""

from dataclasses import dataclass

import torch
from torch import nn

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone
from ..kit.trials import numbers

SHAPES = [(4,), (2,), (3, 2), ()]
WITHOUT = 1  # which of them has never a gradient
INF, NAN = float("inf"), float("nan")
SPOILED = {  # of which parameter, how many elements, and what they are
    "I": (0, 4, INF),
    "N": (0, 4, NAN),
    "L": (3, 1, INF),  # the last parameter's only element
    "E": (2, 1, INF),
    "M": (2, 1, -INF),
}


@dataclass(frozen=True)
class Plan:
    """A scaler, and its steps: a letter of SPOILED, or a dot where all gradients are finite.

    lists  whether the parameters come as a list; else as from model.parameters()
    """

    scale: float
    window: int
    steps: str
    lists: bool = True

    def gradients(self, step) -> list:
        """Of the scaled loss: whole numbers, and what spoils them."""
        found = [numbers(step, shape, torch.float32, salt) for salt, shape in enumerate(SHAPES)]
        found[WITHOUT] = None
        if self.steps[step] in SPOILED:
            which, count, value = SPOILED[self.steps[step]]
            found[which].view(-1)[:count] = value
        return found


PLANS = {
    "all finite": Plan(2.0**16, 3, "......."),
    "true gradients of about 1e-9": Plan(2.0**30, 3, "...."),
    "some are inf or nan": Plan(8.0, 3, "..I....L.N.E.M..."),
    "several refused in a row": Plan(1.0, 2000, ".ELNI."),
    "each step ends a row": Plan(4.0, 1, "..N.."),
    "parameters as model.parameters() gives them": Plan(8.0, 2, "..L..", lists=False),
}


# ---- On a rank ---


def take_steps(answer, plan):
    """What each step has found, and left; and what torch's scaler does."""
    parameters, start = make_parameters(), make_parameters()
    taken, noted, scales = [], [], []
    scaler = answer(scale=plan.scale, window=plan.window)
    found = {"gradients": [], "returned": [], "left": [], "zeros": []}

    def take_step():
        noted.append(flat([p.grad for p in parameters]))
        found["zeros"] += [parameters[WITHOUT].grad] * (parameters[WITHOUT].grad is not None)

    for step in range(len(plan.steps)):
        give(parameters, plan.gradients(step))
        noted.clear()
        returned = scaler.step(parameters if plan.lists else (p for p in parameters), take_step)
        taken.append(len(noted))
        found["gradients"].append(noted[0] if noted else None)
        found["returned"].append(None if returned is None else bool(returned))
        found["left"].append(flat([p.grad for p in parameters]))
        scales.append(float(scaler.scale))
    return (
        found
        | scale_with_torch(plan)
        | {
            "plan": plan,
            "taken": torch.tensor(taken),
            "scale_after": torch.tensor(scales),
            "zero_scale": 0.0 in scales,
            "changed": not all(map(torch.equal, parameters, start)),
        }
    )


def make_parameters():
    return [nn.Parameter(numbers(9, shape, torch.float32, i)) for i, shape in enumerate(SHAPES)]


def give(parameters, gradients):
    for p, gradient in zip(parameters, gradients):
        p.grad = gradient


def flat(gradients):
    """All but that of the one without."""
    found = [x for i, x in enumerate(gradients) if i != WITHOUT and x is not None]
    return torch.cat([x.detach().flatten() for x in found]) if found else None


def scale_with_torch(plan) -> dict:
    """Scales after each step, and the gradients that it finds; None if it is refused."""
    parameters, noted, scales, gradients = make_parameters(), [], [], []
    scaler = torch.amp.GradScaler("cpu", plan.scale, 2.0, 0.5, plan.window)
    scaler.scale(torch.zeros(()))  # only now it makes its scale
    optimizer = torch.optim.SGD(parameters)
    optimizer.register_step_pre_hook(lambda *_: noted.append(flat([p.grad for p in parameters])))
    for step in range(len(plan.steps)):
        give(parameters, plan.gradients(step))
        noted.clear()
        scaler.step(optimizer)
        scaler.update()
        gradients.append(noted[0] if noted else None)
        scales.append(scaler.get_scale())
    return {"right_scales": torch.tensor(scales), "right_gradients": gradients}


# ---- What is right, and what is not ---


def right_steps(trial, place):
    return torch.tensor([int(found is not None) for found in trial[place].right_gradients])


def wrong_steps(trial, place):
    of = trial[place]
    steps = of.plan.steps

    def refuse(letters):
        return torch.tensor([int(step not in letters) for step in steps])

    wrong = {
        "all gradients are finite: take_step() has to be called, and that once":
            refuse(steps),
        "inf is seen, and nan is not: isfinite() sees both": refuse("ILEM"),
        "nan is seen, and inf is not, as by isnan(): isfinite() sees both": refuse("N"),
        "inf is seen, and -inf is not: isfinite() sees both": refuse("INLE"),
        "the first parameter's gradient is seen, and the last one's is not: all have to be finite "
        "before a step is taken": refuse("IN"),
        "the last parameter's gradient is seen, and the first one's is not: look at all of them":
            refuse("L"),
        "a gradient with a single element that is not finite is no better than one full of them: "
        "isfinite().all(), not any()": refuse("INL"),
    }  # fmt: skip
    if set(steps) == {"."}:
        return wrong
    scales = of.scale_after
    is_halved = bool((scales[1:] < scales[:-1]).any())
    return wrong | {
        "the factor is halved, and take_step() is called all the same: return before it"
        if is_halved else
        "nothing is looked at: isfinite() tells of each element whether it is neither inf nor nan":
            refuse(""),
    }  # fmt: skip


def wrong_gradients(trial, place):
    of = trial[place]
    scales = [of.plan.scale, *of.right_scales.tolist()]

    def made(gradient_of):
        """gradient_of: takes a gradient of the scaled loss, the scale, and that after the step."""
        scaled = [flat(of.plan.gradients(step)) for step in range(len(of.plan.steps))]
        found = map(gradient_of, scaled, scales, scales[1:])
        return [None if right is None else x for x, right in zip(found, of.right_gradients)]

    later = [None if right is None else x for x, right in zip(of.left, of.right_gradients)]
    return {
        "take_step() comes first, and then they are divided: the step was that much too large"
        if close(later, of.right_gradients) else
        "the optimizer finds the gradients of the scaled loss. Are they divided? A quotient is a "
        "new tensor: it has to become p.grad, or the division has to be in place (/=)":
            made(lambda x, scale, after: x),
        "divided in float16: what the factor has saved is lost again. The gradients are in "
        "float32: divide them as they are":
            made(lambda x, scale, after: (x.half() / scale).float()),
        "the first gradient is divided, and the others are not: go through all parameters":
            made(lambda x, scale, after: torch.cat([x[:4] / scale, x[4:]])),
        "the gradients are multiplied by the factor once more: the loss has been multiplied "
        "already": made(lambda x, scale, after: x * scale),
        "the gradients are divided twice": made(lambda x, scale, after: x / scale / scale),
        "the gradients are divided by the next scale: the factor changes after the division":
            made(lambda x, scale, after: x / after),
    }  # fmt: skip


def wrong_scales(trial, place):
    plan = trial[place].plan
    guesses = [guesses_at(plan.steps[:k], plan.window) for k in range(1, len(plan.steps) + 1)]
    return {
        why: torch.tensor([plan.scale * 2.0 ** guess[why] for guess in guesses])
        for why in guesses[0]
    }


def guesses_at(steps, window) -> dict[str, int]:
    """{sentence: how often a misconception has doubled, less how often it has halved}."""
    rows = [len(row) for row in "".join("." if s == "." else "x" for s in steps).split("x")]
    refused = len(rows) - 1
    doubled = sum(row // window for row in rows)
    return {
        "a refused step has to halve the scale, or the next one overflows as well": doubled,
        "a refused step ends the row: counting begins anew": sum(rows) // window - refused,
        "a refused step is no step of a row: only steps that are taken count":
            sum(s == "." for s in steps[window - 1 :: window]) - refused,
        "it is doubled after each step; it takes `window` in a row": sum(rows) - refused,
        "after it has been doubled a new row begins: counting begins anew":
            sum(max(0, row - window + 1) for row in rows) - refused,
        "it is doubled only once in a row of steps: after that a new row begins":
            sum(min(1, row // window) for row in rows) - refused,
        "it is doubled one step too late: after the step that makes `window` in a row":
            sum(row // (window + 1) for row in rows) - refused,
        "it is never doubled: a factor that was too large once need not be too large for ever":
            -refused,
    }  # fmt: skip


class WithGenerator(WarmExercise):
    """Its last case has a generator, where the others have a list."""

    def judge(self, trial):
        try:
            return super().judge(trial)
        except Wrong as wrong:
            if trial[0].plan.lists:
                raise
            raise Wrong(wrong.case, wrong.what, (
                "with a list it was right. model.parameters() is a generator, and can be gone "
                "through once: the second loop finds nothing left. Begin with a list of the "
                "gradients"
            )) from None  # fmt: skip


def told(trial) -> str:
    plan, taken, last = trial[0].plan, trial[0].taken, trial[0].scale_after[-1]
    scales = f"the scale goes from {plan.scale:g} to {last:g}"
    return f"{sum(taken)} of {len(taken)} steps are taken, {scales}"


EXERCISE = WithGenerator(
    "5.4",
    "LossScaler",
    lab="memory",
    cases=[
        Alone(f"{name}, window={plan.window}", take_steps, (plan,)) for name, plan in PLANS.items()
    ],
    work=alone,
    facts=[
        never("zero_scale", "the scale has become 0",
              "// makes 0 of a half: the factor may well become smaller than 1"),
        Holds("taken", lambda taken: taken.max() < 2,
              lambda taken: f"take_step() is called {taken.max()} times in a step",
              "take_step() is called more than once: a step each time"),
        Equals("taken", right_steps, wrong_steps, "calls_of_take_step"),
        Equals("scale_after", lambda trial, place: trial[place].right_scales, wrong_scales),
        never("zeros", "when the step is taken, a parameter without a gradient has one",
              "a parameter without a gradient keeps None: an optimizer passes over it. With zeros "
              "it would go on moving"),
        Equals("gradients", lambda trial, place: trial[place].right_gradients, wrong_gradients,
               "gradients_when_stepping"),
        never("changed", "a parameter has changed",
              "the weights are divided, or changed in another way; it is p.grad that has the "
              "factor"),
        Holds("returned", lambda returned: None not in returned, "it returned None",
              "a function without `return` gives None; step() tells whether the step was taken"),
        Equals("returned", lambda trial, place: right_steps(trial, place).bool().tolist(),
               otherwise="True if the step was taken, False if it was refused"),
    ],
    told=told,
    errors={
        "'NoneType' object is not callable": "take_step is a function without arguments: "
        "take_step()",
        "'NoneType'": "a parameter that had no part in the loss has no gradient: p.grad is None",
        "'generator'": "model.parameters() is a generator: it has no length, and can be gone "
        "through once. Make a list of it first",
        "positional argument": "take_step is a function without arguments: take_step()",
    },
    hints=(
        "What must be known before take_step() is called? And in which state must the "
        "gradients be when it is?",
        "Make a list of the gradients that are not None. Divide each in place by self.scale, "
        "and look whether every element of all of them is finite.",
        "If not: halve self.scale, self.good = 0, return False, without a step.",
        "Else take the step and count it in self.good. When self.good has come to self.window, "
        "double self.scale and begin to count anew. Return True.",
    ),
)  # fmt: skip
