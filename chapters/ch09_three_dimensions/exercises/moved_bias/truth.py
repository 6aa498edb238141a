"""The right results, and the results of known mistakes."""

import torch


def truth(bias, loads, rate):
    """Return the moved bias, computed expert by expert in plain Python."""
    loads, moved = loads.tolist(), []
    for b, load in zip(bias.tolist(), loads):
        more = load * len(loads) > sum(loads)
        less = load * len(loads) < sum(loads)
        moved.append(b - rate if more else b + rate if less else b)
    return moved


def subtract_mean(bias, loads):
    return loads.double() - loads.double().mean()


def wrong_sign(bias, loads, rate):
    return bias + rate * subtract_mean(bias, loads).sign()


def step_by_excess(bias, loads, rate):
    return bias - rate * subtract_mean(bias, loads)


def step_by_load_share(bias, loads, rate):
    return bias - rate * subtract_mean(bias, loads) / loads.sum()


def step_by_relative_excess(bias, loads, rate):
    return bias - rate * subtract_mean(bias, loads) / loads.double().mean()


def compare_with_median(bias, loads, rate):
    return bias - rate * (loads.double() - loads.double().median()).sign()


def whole_mean(bias, loads, rate):
    return bias - rate * (loads - loads.sum() // len(loads)).sign()


def round_mean(bias, loads, rate):
    return bias - rate * (loads - loads.double().mean().round()).sign()


def mean_counts_as_less(bias, loads, rate):
    return torch.where(subtract_mean(bias, loads) > 0, bias - rate, bias + rate)


def mean_counts_as_more(bias, loads, rate):
    return torch.where(subtract_mean(bias, loads) >= 0, bias - rate, bias + rate)


def anew(bias, loads, rate):
    return -rate * subtract_mean(bias, loads).sign()


def only_down(bias, loads, rate):
    return bias - rate * (subtract_mean(bias, loads) > 0)


def only_up(bias, loads, rate):
    return bias + rate * (subtract_mean(bias, loads) < 0)


def extremes(bias, loads, rate):
    moved = bias.clone()
    moved[loads.argmax()] -= rate
    moved[loads.argmin()] += rate
    return moved


def scale_bias(bias, loads, rate):
    return bias * (1 - rate * subtract_mean(bias, loads).sign())


MISTAKES = [
    (
        "an expert that had too much becomes even more attractive: its bias has to go down",
        wrong_sign,
    ),
    (
        "the bias moves by `rate`, however large the difference is: only its sign counts",
        step_by_excess,
    ),
    (
        "the bias moves by `rate`, however large the share is: only the sign counts",
        step_by_load_share,
    ),
    (
        "the bias moves by `rate`, however large the difference is: only its sign counts",
        step_by_relative_excess,
    ),
    ("loads are compared with their mean, not with their median", compare_with_median),
    ("the mean need not be a whole number", whole_mean),
    ("the mean need not be a whole number", round_mean),
    ("an expert that had exactly the mean keeps its bias", mean_counts_as_less),
    ("an expert that had exactly the mean keeps its bias", mean_counts_as_more),
    ("the bias moves from where it was: it adds up over the steps", anew),
    ("experts that had less than the mean go up as well", only_down),
    ("experts that had more than the mean go down as well", only_up),
    ("all experts move that had more or less than the mean, not the extreme ones alone", extremes),
    ("`rate` is subtracted from the bias; it is no share of it", scale_bias),
]
