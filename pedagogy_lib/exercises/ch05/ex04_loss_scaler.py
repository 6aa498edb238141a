"""Gradients times a factor.

Gradients of a scaled loss are given, some with inf or nan in them. The truth is
torch.amp.GradScaler.
"""

from functools import cache
from types import SimpleNamespace

import torch
from torch import nn

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, on_our_rank
from ..kit.trials import numbers
from .guessed_scales import FINITE, guesses_at

SHAPES = [(4,), (2,), (3, 2), ()]
WITHOUT = 1  # which of them has never a gradient
INF, NAN = float("inf"), float("nan")
SPOILED = {  # of which parameters, how many elements, and what they are
    "I": [(0, 4, INF)],
    "N": [(0, 4, NAN)],
    "L": [(3, 1, INF)],  # the last parameter's only element
    "B": [(0, 4, INF), (3, 1, INF)],
    "E": [(2, 1, INF)],
    "M": [(2, 1, -INF)],
    "H": [(0, 4, 3e38)],  # each of them is finite; their sum is not
}


TRIALS = {  # scale, window, steps: a letter of SPOILED, or a dot
    "all finite": (2.0**16, 3, "...H..."),
    "true gradients of about 1e-9": (2.0**30, 3, "...."),
    "some are inf or nan": (8.0, 3, "..I....L.N.E.M..."),
    "several refused in a row": (1.0, 2000, "HEBNI."),  # divided by 1, H still overflows a sum
    "each step ends a row": (4.0, 1, "..N.."),
    "parameters as model.parameters() gives them": (8.0, 2, "..L..", True),
}


def gradients_at(step, letter) -> list:
    """Of the scaled loss: whole numbers, and what spoils them."""
    found = [numbers(step, shape, torch.float32, salt) for salt, shape in enumerate(SHAPES)]
    found[WITHOUT] = None
    for which, count, value in SPOILED.get(letter, ()):
        found[which].view(-1)[:count] = value
    found[2] = found[2].view(2, 3).t()  # not contiguous
    return found


# ---- On a rank ---


class Torch:
    """torch's scaler, in the form of an answer."""

    def __init__(self, scale, window):
        self.scaler = torch.amp.GradScaler("cpu", scale, 2.0, 0.5, window)
        self.scaler.scale(torch.zeros(()))  # only now it makes its scale

    @property
    def scale(self):
        return self.scaler.get_scale()

    def step(self, parameters, take_step):
        optimizer, calls = torch.optim.SGD(parameters, lr=0.0), []
        optimizer.register_step_pre_hook(lambda *_: calls.append(take_step()))
        self.scaler.step(optimizer)
        self.scaler.update()
        return bool(calls)


def take_steps(answer, *trial):
    found, again = (steps_of(answer, *trial) for _ in range(2))
    return found | {"is_shared": not torch.equal(again["scale_after"], found["scale_after"])}


def known_of(case, place) -> dict:
    """What torch's scaler does."""
    return {"right": SimpleNamespace(**known_of_all()[case.args])}


@cache
def known_of_all() -> dict:
    return on_our_rank(take_steps_by_torch)


def take_steps_by_torch() -> dict:
    return {trial: steps_of(Torch, *trial) for trial in TRIALS.values()}


def steps_of(answer, scale, window, steps, is_generator=False) -> dict:
    """What each step has found, and left; None for the gradients if it is refused."""
    parameters, start = (
        [nn.Parameter(numbers(9, shape, torch.float32, salt)) for salt, shape in enumerate(SHAPES)]
        for _ in range(2)
    )
    scaler, noted, zeros = answer(scale=scale, window=window), [], []
    seen = {"taken": [], "scale_after": [], "gradients": [], "returned": [], "left": []}

    def take_step():
        noted.append(flat(p.grad for p in parameters))
        zeros.append(parameters[WITHOUT].grad is not None)

    for step, letter in enumerate(steps):
        for p, gradient in zip(parameters, gradients_at(step, letter)):
            p.grad = gradient
        noted.clear()
        returned = scaler.step((p for p in parameters) if is_generator else parameters, take_step)
        seen["taken"].append(len(noted))
        seen["scale_after"].append(float(scaler.scale))
        seen["gradients"].append(noted[0] if noted else None)
        seen["returned"].append(as_bool(returned))
        seen["left"].append(flat(p.grad for p in parameters) if noted else None)
    seen |= {name: torch.tensor(seen[name]) for name in ("taken", "scale_after")}
    return seen | {"zeros": any(zeros), "changed": not all(map(torch.equal, parameters, start))}


def as_bool(value):
    """True or False, whatever it comes in; anything else as a text."""
    try:
        return bool(value) if float(value) in (0, 1) else f"{value!r:.40}"
    except (TypeError, ValueError, RuntimeError):
        return None if value is None else f"{value!r:.40}"


def flat(gradients):
    """All but that of the one without."""
    found = [x for i, x in enumerate(gradients) if i != WITHOUT and x is not None]
    return torch.cat([x.detach().flatten() for x in found]) if found else None


# ---- What is not right ---


def right(name):
    """What torch's scaler does."""
    return lambda trial, place: getattr(trial[place].right, name)


def wrong_steps(trial, place):
    steps, scales = trial.case.args[2], trial[place].scale_after

    def refuse(letters):
        return torch.tensor([int(step not in letters) for step in steps])

    wrong = {
        "all gradients are finite: take_step() has to be called, and that once": refuse(steps),
        "all gradients are finite, however large. A sum or a norm of them may overflow, and 65504 "
        "ends float16, not float32: ask of each element whether it is finite": refuse("IBLNEMH"),
        "inf is seen, and nan is not: isfinite() sees both": refuse("IBLEM"),
        "nan is seen, and inf is not, as by isnan(): isfinite() sees both": refuse("N"),
        "inf is seen, and -inf is not: isfinite() sees both": refuse("IBNLE"),
        "the first parameter's gradient is seen, and the last one's is not: all have to be finite "
        "before a step is taken": refuse("IBN"),
        "the last parameter's gradient is seen, and the first one's is not: look at all of them":
            refuse("LB"),
        "a gradient with a single element that is not finite is no better than one full of them: "
        "isfinite().all(), not any()": refuse("IBNL"),
    }  # fmt: skip
    if set(steps) <= set(FINITE):
        return wrong
    return wrong | {
        "the factor is halved, and take_step() is called all the same: return before it"
        if (scales[1:] < scales[:-1]).any() else
        "nothing is looked at: isfinite() tells of each element whether it is neither inf nor nan":
            refuse(""),
    }  # fmt: skip


def wrong_gradients(trial, place):
    scale, _, steps, *_ = trial.case.args
    of, scales = trial[place], [scale, *trial[place].right.scale_after.tolist()]

    def made(gradient_of):
        """gradient_of: takes a gradient of the scaled loss, the scale, and that after the step."""
        scaled = (flat(gradients_at(step, letter)) for step, letter in enumerate(steps))
        found = map(gradient_of, scaled, scales, scales[1:])
        return [None if none is None else x for x, none in zip(found, of.right.gradients)]

    return {
        "take_step() comes first, and then they are divided: the step was that much too large"
        if close(of.left, of.right.gradients) else
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
    scale, window, steps, *_ = trial.case.args
    guesses = [guesses_at(steps[:count], window) for count in range(1, len(steps) + 1)]
    return {
        why: torch.tensor([scale * 2.0 ** guess[why] for guess in guesses]) for why in guesses[0]
    }


class WithGenerator(WarmExercise):
    """Its last case has a generator, where the others have a list."""

    def judge(self, trial):
        try:
            return super().judge(trial)
        except Wrong as wrong:
            if len(trial.case.args) == 3:
                raise
            raise Wrong(wrong.case, wrong.what, (
                "with a list it was right. model.parameters() is a generator, and can be gone "
                "through once: the second loop finds nothing left. Begin with a list of the "
                "gradients"
            )) from None  # fmt: skip


def told(trial) -> str:
    taken, scales = trial[0].taken, trial[0].scale_after
    steps = f"{sum(taken)} of {len(taken)} steps are taken"
    return f"{steps}, the scale goes from {trial.case.args[0]:g} to {scales[-1]:g}"


EXERCISE = WithGenerator(
    "5.4",
    "LossScaler",
    lab="memory",
    cases=[
        Alone(f"{name}, window={trial[1]}", take_steps, trial) for name, trial in TRIALS.items()
    ],
    work=alone,
    known=known_of,
    facts=[
        Holds("scale_after", lambda scales: scales.all(), "the scale has become 0",
              "// makes 0 of a half: the factor may well become smaller than 1"),
        never("is_shared", "with a second LossScaler the same steps lead to other scales",
              "what one LossScaler has counted is in another as well: it belongs to self, and not "
              "to the class or to the file"),
        Holds("taken", lambda taken: taken.max() < 2,
              lambda taken: f"take_step() is called {taken.max()} times in a step",
              "take_step() is called more than once: a step each time"),
        Equals("taken", right("taken"), wrong_steps, "calls_of_take_step"),
        Equals("scale_after", right("scale_after"), wrong_scales),
        never("zeros", "when the step is taken, a parameter without a gradient has one",
              "a parameter without a gradient keeps None: an optimizer passes over it. With zeros "
              "it would go on moving"),
        Equals("gradients", right("gradients"), wrong_gradients, "gradients_when_stepping"),
        never("changed", "a parameter has changed",
              "the weights are divided, or changed in another way; it is p.grad that has the "
              "factor"),
        Holds("returned", lambda returned: None not in returned, "it returned None",
              "a function without `return` gives None; step() tells whether the step was taken"),
        Holds("returned", lambda returned: not any(isinstance(one, str) for one in returned),
              lambda returned: f"it returned {max(map(str, returned), key=len)}",
              "asked is whether the step was taken: True or False"),
        Equals("returned", right("returned"),
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
