"""The right results, and the results of known mistakes."""

from functools import cache
from types import SimpleNamespace

import torch

from coursekit.kit.single_rank import run_on_one_rank
from pedagogy_lib.basics.closeness import close

from .cases import TRIALS, flat, gradients_at, steps_of
from .guessed_scales import FINITE, guesses_at


class Torch:
    """torch's scaler with the interface of an answer."""

    def __init__(self, scale, window):
        self.scaler = torch.amp.GradScaler("cpu", scale, 2.0, 0.5, window)
        self.scaler.scale(torch.zeros(()))  # creates the scale, which __init__ does not

    @property
    def scale(self):
        return self.scaler.get_scale()

    def step(self, parameters, take_step):
        optimizer, calls = torch.optim.SGD(parameters, lr=0.0), []
        optimizer.register_step_pre_hook(lambda *_: calls.append(take_step()))
        self.scaler.step(optimizer)
        self.scaler.update()
        return bool(calls)


def compute_known_values(case, place) -> dict:
    """Return the findings for torch's scaler."""
    return {"right": SimpleNamespace(**compute_all_known_values()[case.args])}


@cache
def compute_all_known_values() -> dict:
    return run_on_one_rank(take_steps_by_torch)


def take_steps_by_torch() -> dict:
    return {trial: steps_of(Torch, *trial) for trial in TRIALS.values()}


def right(name):
    """Return a getter of the value found for torch's scaler."""
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

    def apply_to_gradients(gradient_of):
        """Return the gradients of each step that is taken.

        gradient_of  takes a gradient of the scaled loss, the scale, and the scale after the step
        """
        scaled = (flat(gradients_at(step, letter)) for step, letter in enumerate(steps))
        found = map(gradient_of, scaled, scales, scales[1:])
        return [None if none is None else x for x, none in zip(found, of.right.gradients)]

    return {
        "take_step() comes first, and then they are divided: the step was that much too large"
        if close(of.left, of.right.gradients)
        else "the optimizer finds the gradients of the scaled loss. Are they divided? A quotient "
        "is a "
        "new tensor: it has to become p.grad, or the division has to be in place "
        "(/=)": apply_to_gradients(lambda x, scale, after: x),
        "divided in float16: what the factor has saved is lost again. The gradients are in "
        "float32: divide them as they are": apply_to_gradients(
            lambda x, scale, after: (x.half() / scale).float()
        ),
        "the first gradient is divided, and the others are not: go through all "
        "parameters": apply_to_gradients(lambda x, scale, after: torch.cat([x[:4] / scale, x[4:]])),
        "the gradients are multiplied by the factor once more: the loss has been multiplied "
        "already": apply_to_gradients(lambda x, scale, after: x * scale),
        "the gradients are divided twice": apply_to_gradients(
            lambda x, scale, after: x / scale / scale
        ),
        "the gradients are divided by the next scale: the factor changes after the "
        "division": apply_to_gradients(lambda x, scale, after: x / after),
    }


def wrong_scales(trial, place):
    scale, window, steps, *_ = trial.case.args
    guesses = [guesses_at(steps[:count], window) for count in range(1, len(steps) + 1)]
    return {
        why: torch.tensor([scale * 2.0 ** guess[why] for guess in guesses]) for why in guesses[0]
    }


def describe_result(trial) -> str:
    taken, scales = trial[0].taken, trial[0].scale_after
    steps = f"{sum(taken)} of {len(taken)} steps are taken"
    return f"{steps}, the scale goes from {trial.case.args[0]:g} to {scales[-1]:g}"
