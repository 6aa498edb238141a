"""The FLOPs that a step needs. The truth adds up one product after another."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "needed_flops",
    cases={
        "3 tokens, 1 layer of 10": [(3, 1, 10, 2, 3, 5)],
        "two layers": [(6, 2, 10, 2, 3, 5)],
        "no output matrix": [(10, 3, 11, 7, 5, 0)],
        "samples of one token": [(5, 2, 13, 3, 1, 0)],
        "llama-3-8b, one sample": [(8192, 32, 218103808, 4096, 8192, 525336576)],
    },
    truth=truth,
    mistakes=MISTAKES,
    hints=(
        "Forward first. A matrix of 10 numbers and one token: 10 multiplications and 10 additions.",
        "The scores of one token in one layer: context times width for q·k, and as much again for "
        "scores times values; each with a multiplication and an addition.",
        "Then the backward: two products for each one of the forward.",
    ),
)
