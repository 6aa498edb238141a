"""Gradients times a factor: what the check of 5.4 tries, on a rank.

Gradients of a scaled loss are given, some with inf or nan in them. The truth is
torch.amp.GradScaler.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.one_process import why_raised
from ..kit.trials import numbers
from ..kit.warming import warm_up

# ---- What is tried ---------------------------------------------------------------------------

SHAPES = [(4,), (2,), (3, 2), ()]
WITHOUT = 1  # which of them has never a gradient


@dataclass(frozen=True)
class Spoiled:
    """What is not finite in a step's gradients: all of a parameter's, or one element."""

    value: float
    index: int
    whole: bool = False

    def __str__(self):
        which = "the gradient" if self.whole else "one element of the gradient"
        return f"{which} of parameter {self.index} is {self.value}"


INF, NAN = float("inf"), float("nan")
SPOILED = {
    "I": Spoiled(INF, 0, whole=True),
    "N": Spoiled(NAN, 0, whole=True),
    "L": Spoiled(INF, 3),  # the last parameter's only element
    "E": Spoiled(INF, 2),
    "M": Spoiled(-INF, 2),
}


@dataclass(frozen=True)
class Trial:
    """A scaler, and its steps: a letter of SPOILED, or a dot where all gradients are finite.

    lists  whether the parameters come as a list; else as from model.parameters()
    """

    name: str
    scale: float
    window: int
    steps: str
    lists: bool = True

    def __str__(self):
        return f"{self.name}, window={self.window}"

    def gradients(self, step) -> list[Tensor | None]:
        """Of the scaled loss: whole numbers, and what spoils them."""
        found = [numbers(step, shape, torch.float32, salt) for salt, shape in enumerate(SHAPES)]
        found[WITHOUT] = None
        if spoiled := SPOILED.get(self.steps[step]):
            elements = found[spoiled.index].view(-1)
            elements[: None if spoiled.whole else 1] = spoiled.value
        return found


TRIALS = [
    Trial("all finite", 2.0**16, 3, "......."),
    Trial("true gradients of about 1e-9", 2.0**30, 3, "...."),
    Trial("some are inf or nan", 8.0, 3, "..I....L.N.E.M..."),
    Trial("several refused in a row", 1.0, 2000, ".ELNI."),
    Trial("each step ends a row", 4.0, 1, "..N.."),
    Trial("parameters as model.parameters() gives them", 8.0, 2, "..L..", lists=False),
]


# ---- On a rank -------------------------------------------------------------------------------


@dataclass
class Seen:
    """What came of one step.

    found    gradients that each call of take_step has found
    left     gradients afterwards
    changed  numbers of parameters that have changed, though no step was taken
    """

    scale: float
    returned: object
    found: list[list[Tensor | None]]
    left: list[Tensor | None]
    changed: list[int]


def parameters_of_trial():
    return [
        nn.Parameter(numbers(9, shape, torch.float32, salt)) for salt, shape in enumerate(SHAPES)
    ]


def give(parameters, gradients):
    for p, gradient in zip(parameters, gradients):
        p.grad = gradient


def gradients_of(parameters):
    return [None if p.grad is None else p.grad.detach().clone() for p in parameters]


def scale_on_rank(answer, trials) -> list[tuple]:
    """For each trial, what was seen, and the truth."""
    return [(take_steps(answer, trial), scale_with_torch(trial)) for trial in trials]


def take_steps(answer, trial) -> list[Seen]:
    parameters, seen = parameters_of_trial(), []
    start = [p.detach().clone() for p in parameters]
    scaler = answer(scale=trial.scale, window=trial.window)
    found = []

    def take_step():
        found.append(gradients_of(parameters))

    for step in range(len(trial.steps)):
        give(parameters, trial.gradients(step))
        found.clear()
        mine = list(parameters) if trial.lists else (p for p in parameters)
        returned = scaler.step(mine, take_step)
        changed = [i for i, p in enumerate(parameters) if not torch.equal(p, start[i])]
        seen.append(Seen(scaler.scale, returned, [*found], gradients_of(parameters), changed))
    return seen


def scale_with_torch(trial) -> list[tuple[float, list | None]]:
    """For each step torch's scale after it, and the gradients it steps with; None if it refuses."""
    parameters, found = parameters_of_trial(), []
    scaler = torch.amp.GradScaler("cpu", trial.scale, 2.0, 0.5, trial.window)
    scaler.scale(torch.zeros(()))  # only now it makes its scale
    optimizer = torch.optim.SGD(parameters)
    noted = []
    optimizer.register_step_pre_hook(lambda *_: noted.append(gradients_of(parameters)))
    for step in range(len(trial.steps)):
        give(parameters, trial.gradients(step))
        noted.clear()
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), noted[0] if noted else None))
    return found


# ---- Judging ---------------------------------------------------------------------------------

ERRORS = {  # words of an error: what they mean
    "'NoneType' object is not callable": "take_step is a function without arguments: take_step()",
    "'NoneType'": "a parameter that had no part in the loss has no gradient: p.grad is None",
    "'generator'": "model.parameters() is a generator: it has no length, and can be gone "
    "through once. Make a list of it first",
    "positional argument": "take_step is a function without arguments: take_step()",
}  # fmt: skip
GENERATOR = (
    "with a list it was right. model.parameters() is a generator, and can be gone through once: "
    "the second loop finds nothing left. Begin with a list of the gradients"
)
TOOK = {
    "I": "nothing is looked at: isfinite() tells of each element whether it is neither inf nor nan",
    "N": "inf is seen, and nan is not: isfinite() sees both",
    "L": "the first parameter's gradient is seen, and the last one's is not: all have to be finite "
    "before a step is taken",
    "E": "a gradient with a single element that is not finite is no better than one full of them: "
    "isfinite().all(), not any()",
    "M": "inf is seen, and -inf is not: isfinite() sees both",
}
ONLY_NAN = "nan is seen, and inf is not, as by isnan(): isfinite() sees both"
ONLY_SOME = "the last parameter's gradient is seen, and the first one's is not: look at all of them"
STILL_STEPS = "the factor is halved, and take_step() is called all the same: return before it"
NOT_TAKEN = "all gradients are finite: take_step() has to be called, and that once"
ONCE = "take_step() is called more than once: a step each time"
NO_RETURN = "a function without `return` gives None; step() tells whether the step was taken"
LIES = "True if the step was taken, False if it was refused"
WITHOUT_GRADIENT = (
    "a parameter without a gradient keeps None: an optimizer passes over it. With zeros it would "
    "go on moving"
)
WEIGHTS = "the weights are divided, or changed in another way; it is p.grad that has the factor"
TOO_LATE = "take_step() comes first, and then they are divided: the step was that much too large"
NOT_DIVIDED = (
    "the optimizer finds the gradients of the scaled loss. Are they divided? A quotient is a new "
    "tensor: it has to become p.grad, or the division has to be in place (/=)"
)
IN_HALF = (
    "divided in float16: what the factor has saved is lost again. The gradients are in float32: "
    "divide them as they are"
)
ONLY_THE_FIRST = "the first gradient is divided, and the others are not: go through all parameters"


def examine_loss_scaler(answer):
    warm_up()
    for case, trials in {"a list of parameters": TRIALS[:-1], str(TRIALS[-1]): TRIALS[-1:]}.items():
        run = try_on_ranks(case, scale_on_rank, answer, trials, world_size=1,
                           explain=partial(why_raised, ERRORS, ""))  # fmt: skip
        for trial, (seen, truth) in zip(trials, run.values[0]):
            judge(trial, seen, truth)
            taken = sum(gradients is not None for _, gradients in truth)
            scales = f"the scale goes from {trial.scale:g} to {truth[-1][0]:g}"
            yield f"{trial}: {taken} of {len(truth)} steps are taken, {scales}"


def judge(trial, seen, truth):
    """Raise `Wrong` at the first step that differs from torch's."""
    try:
        judge_steps(trial, seen, truth)
    except Wrong as wrong:
        if trial.lists:
            raise
        raise Wrong(wrong.case, wrong.what, GENERATOR) from None


def judge_steps(trial, seen, truth):
    for number, (mine, (scale, gradients)) in enumerate(zip(seen, truth)):
        where = f"{trial}, step {number + 1}"
        before = truth[number - 1][0] if number else trial.scale
        refused = {letter for letter, of in zip(trial.steps, seen) if not of.found}
        halved = mine.scale == before / 2
        why = STILL_STEPS if halved else why_taken(trial.steps[number], refused)
        judge_taken(where, trial.steps[number], mine, gradients, why)
        if gradients is not None:
            judge_gradients(where, trial.gradients(number), mine, gradients, before)
        if mine.changed:
            raise Wrong(where, f"parameter {mine.changed[0]} has changed", WEIGHTS)
        if mine.scale != scale:
            what = f"the scale is {mine.scale:g} afterwards, expected {scale:g}"
            raise Wrong(where, what, why_scale(trial, number, [of.scale for of in seen]))
        judge_returned(where, mine.returned, gradients is not None)


def why_taken(letter, refused) -> str:
    """Why a step is taken that is to be refused, from the letters of those that are refused."""
    if letter == "I" and refused & {"N", "L"}:
        return ONLY_NAN if "N" in refused else ONLY_SOME
    return TOOK.get(letter, "")


def judge_taken(where, letter, mine, gradients, why):
    """Raise `Wrong` unless take_step has been called once, or not at all where it must not be."""
    count, wanted = len(mine.found), int(gradients is not None)
    if count == wanted:
        return
    if not wanted:
        what = f"{SPOILED[letter]}, and the step is taken"
        raise Wrong(where, what, why)
    what = f"take_step() has been called {count} times, expected once"
    raise Wrong(where, what, ONCE if count else NOT_TAKEN)


def judge_gradients(where, scaled, mine, wanted, scale):
    """Raise `Wrong` unless the step has found the divided gradients."""
    for index, (got, right) in enumerate(zip(mine.found[0], wanted)):
        who = f"when the step is taken, the gradient of parameter {index}"
        if got is None or right is None:
            if got is not right:
                what = f"{who} is {got if got is None else got.tolist()}, expected {right}"
                raise Wrong(where, what, WITHOUT_GRADIENT if right is None else "")
        elif not equal(got, right):
            what = f"{who} has norm {got.norm():.6g}, expected {right.norm():.6g}"
            raise Wrong(where, what, why_gradient(index, got, scaled, mine.left, scale))


def equal(a, b) -> bool:
    return close(a, b, scale=b.abs())  # each element for itself: some are very small


def why_gradient(index, got, scaled, left, scale) -> str:
    if equal(got, scaled[index]):
        if left[index] is not None and equal(left[index], scaled[index] / scale):
            return TOO_LATE
        return ONLY_THE_FIRST if index else NOT_DIVIDED
    if equal(got, (scaled[index].half() / scale).float()):
        return IN_HALF
    factors = {
        "multiplied by the factor once more: the loss has been multiplied already": scale,
        "divided twice": 1 / scale / scale,
        "divided by the next scale: the factor changes after the division": 0.5 / scale,
    }
    fitting = (
        f"the gradients are {why}" for why, x in factors.items() if equal(got, scaled[index] * x)
    )
    return next(fitting, "")


def judge_returned(where, returned, wanted):
    if returned is None:
        raise Wrong(where, f"it returned None, expected {wanted}", NO_RETURN)
    if bool(returned) is not wanted:
        raise Wrong(where, f"it returned {returned!r}, expected {wanted}", LIES)


# ---- The scale -------------------------------------------------------------------------------


def why_scale(trial, number, scales) -> str:
    """Why the scale is off after a step, the first one; `scales` are those after all steps."""
    if scales[number] == 0:
        return "// makes 0 of a half: the factor may well become smaller than 1"
    for count in (len(scales), number + 1):  # what comes later tells more, if it fits as well
        guesses = [guesses_at_scale(trial.steps[:k], trial.window) for k in range(1, count + 1)]
        for why in guesses[0]:
            if scales[:count] == [trial.scale * 2.0 ** guess[why] for guess in guesses]:
                return why
    return ""


def guesses_at_scale(steps, window) -> dict[str, int]:
    """{sentence: how often a misconception has doubled, less how often it has halved}."""
    rows = [len(row) for row in "".join("." if s == "." else "x" for s in steps).split("x")]
    refused = len(rows) - 1
    doubled = sum(row // window for row in rows)
    return {
        "a refused step has to halve the scale, or the next one overflows as well": doubled,
        "a refused step ends the row: counting begins anew": sum(rows) // window - refused,
        "a refused step is no step of a row: only steps that are taken count":
            sum(s == "." for s in steps[window - 1 :: window]) - refused,
        f"it is doubled after each step; it takes {window} in a row": sum(rows) - refused,
        "after it has been doubled a new row begins: counting begins anew":
            sum(max(0, row - window + 1) for row in rows) - refused,
        "it is doubled only once in a row of steps: after that a new row begins":
            sum(min(1, row // window) for row in rows) - refused,
        f"it is doubled one step too late: after the step that makes {window} in a row":
            sum(row // (window + 1) for row in rows) - refused,
        "it is never doubled: a factor that was too large once need not be too large for ever":
            -refused,
    }  # fmt: skip


EXERCISE = Exercise(
    "5.4", "LossScaler", examine_loss_scaler,
    (
        "What must be known before take_step() is called? And in which state must the "
        "gradients be when it is?",
        "Make a list of the gradients that are not None. Divide each in place by self.scale, "
        "and look whether every element of all of them is finite.",
        "If not: halve self.scale, self.good = 0, return False, without a step.",
        "Else take the step and count it in self.good. When self.good has come to self.window, "
        "double self.scale and begin to count anew. Return True.",
    ),
    lab="memory",
)  # fmt: skip
