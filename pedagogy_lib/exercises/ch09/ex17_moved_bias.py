"""How the router's bias moves, so that loads get more equal."""

import torch

from ...course.checking import Wrong
from ..kit import Formula
from ..kit.values import text_of


def truth(bias, loads, rate):
    """Expert by expert, in plain Python."""
    loads, moved = loads.tolist(), []
    for b, load in zip(bias.tolist(), loads):
        more = load * len(loads) > sum(loads)
        less = load * len(loads) < sum(loads)
        moved.append(b - rate if more else b + rate if less else b)
    return moved


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def loads(*values):
    return torch.tensor(values)


# ---- Mistakes: wrong functions ---


def over(bias, loads):
    return loads.double() - loads.double().mean()


def wrong_sign(bias, loads, rate):
    return bias + rate * over(bias, loads).sign()


def by_how_much(bias, loads, rate):
    return bias - rate * over(bias, loads)


def by_share(bias, loads, rate):
    return bias - rate * over(bias, loads) / loads.sum()


def by_relative(bias, loads, rate):
    return bias - rate * over(bias, loads) / loads.double().mean()


def of_median(bias, loads, rate):
    return bias - rate * (loads.double() - loads.double().median()).sign()


def whole_mean(bias, loads, rate):
    return bias - rate * (loads - loads.sum() // len(loads)).sign()


def rounded_mean(bias, loads, rate):
    return bias - rate * (loads - loads.double().mean().round()).sign()


def mean_counts_as_less(bias, loads, rate):
    return torch.where(over(bias, loads) > 0, bias - rate, bias + rate)


def mean_counts_as_more(bias, loads, rate):
    return torch.where(over(bias, loads) >= 0, bias - rate, bias + rate)


def anew(bias, loads, rate):
    return -rate * over(bias, loads).sign()


def only_down(bias, loads, rate):
    return bias - rate * (over(bias, loads) > 0)


def only_up(bias, loads, rate):
    return bias + rate * (over(bias, loads) < 0)


def extremes(bias, loads, rate):
    moved = bias.clone()
    moved[loads.argmax()] -= rate
    moved[loads.argmin()] += rate
    return moved


def scaled(bias, loads, rate):
    return bias * (1 - rate * over(bias, loads).sign())


def keeps_dtype(answer):
    bias = torch.zeros(3)
    moved = answer(bias, loads(6, 3, 0), 0.1)
    if not isinstance(moved, torch.Tensor) or moved.dtype != bias.dtype:
        got = moved.dtype if isinstance(moved, torch.Tensor) else type(moved).__name__
        raise Wrong(
            "a bias in float32", f"expected a tensor of {bias.dtype}, got {got}",
            "a bias keeps its dtype: x.to(bias) has that of bias",
        )  # fmt: skip
    yield "a bias in float32 stays one"


EXERCISE = Formula(
    "9.17",
    "moved_bias",
    lab="experts",
    cases={
        "the statement's example": [(numbers(0, 0, 0), loads(6, 3, 0), 0.1)],
        "one had nearly everything": [(numbers(0.2, -0.1, 0, 0.3), loads(97, 1, 1, 1), 0.01)],
        "all had the same": [(numbers(0.5, -0.5, 0), loads(4, 4, 4), 0.1)],
        "the mean is no whole number": [(numbers(0.1, 0.2, 0.3), loads(2, 2, 4), 0.05)],
        "a mean of 2.4": [(numbers(0.1, 0.2, 0.3, 0.4, 0.5), loads(2, 2, 2, 2, 4), 0.05)],
        "a mean of 2.67": [(numbers(0.1, 0.2, 0.3), loads(3, 2, 3), 0.05)],
        "loads that are close": [(numbers(0.1, 0.2, 0.3), loads(257, 256, 255), 0.05)],
        "one above, three below": [(numbers(-1, 0, 1, 2), loads(9, 4, 5, 2), 0.5)],
        "two above, two below": [(numbers(0.1, -0.2, 0.3, 0), loads(7, 1, 8, 0), 0.2)],
        "one expert": [(numbers(0.7), loads(12), 0.1)],
        "a rate of 0": [(numbers(0.3, 0.1), loads(3, 1), 0.0)],
    },
    truth=truth,
    mistakes=[
        ("an expert that had too much becomes even more attractive: its bias has to go down",
         wrong_sign),
        ("the bias moves by `rate`, however large the difference is: only its sign counts",
         by_how_much),
        ("the bias moves by `rate`, however large the share is: only the sign counts", by_share),
        ("the bias moves by `rate`, however large the difference is: only its sign counts",
         by_relative),
        ("loads are compared with their mean, not with their median", of_median),
        ("the mean need not be a whole number", whole_mean),
        ("the mean need not be a whole number", rounded_mean),
        ("an expert that had exactly the mean keeps its bias", mean_counts_as_less),
        ("an expert that had exactly the mean keeps its bias", mean_counts_as_more),
        ("the bias moves from where it was: it adds up over the steps", anew),
        ("experts that had less than the mean go up as well", only_down),
        ("experts that had more than the mean go down as well", only_up),
        ("all experts move that had more or less than the mean, not the extreme ones alone",
         extremes),
        ("`rate` is subtracted from the bias; it is no share of it", scaled),
    ],
    also=keeps_dtype,
    told=lambda calls, values: text_of(values[0]),
    errors={
        "could not infer output dtype": "loads are whole numbers, and have no mean: "
        "loads.double() has one",
        "Input dtype must be": "loads are whole numbers, and have no mean: loads.double() has one",
    },
    hints=(
        "loads.double().mean() is the mean. Which sign has the difference from it, for an expert "
        "that had too much?",
        "Tensor.sign() is 1, 0 or -1.",
    ),
)  # fmt: skip
