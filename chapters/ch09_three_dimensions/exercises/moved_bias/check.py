"""The update of the router's bias that makes loads more equal."""

import torch

from coursekit.kit import Formula, Wrong
from coursekit.kit.results import text_of

from .cases import loads
from .truth import MISTAKES, truth


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


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
    mistakes=MISTAKES,
    also=keeps_dtype,
    right=lambda calls, values: text_of(values[0]),
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
