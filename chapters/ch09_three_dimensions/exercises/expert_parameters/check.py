"""The parameters of a model with experts, and those that one token uses."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "expert_parameters",
    cases={
        "1 layer, width 4, hidden 8, 3 experts, 1 for each token": [(100, 1, 4, 8, 3, 1)],
        "2 layers, width 6, hidden 4, 4 experts, 2 for each token": [(1000, 2, 6, 4, 4, 2)],
        "1 expert, which all tokens get": [(50, 3, 4, 8, 1, 1)],
        "128 experts, 8 for each token": [(1_500_000_000, 48, 2048, 768, 128, 8)],
        "64 experts, 6 for each token": [(500_000_000, 27, 2048, 1408, 64, 6)],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="two numbers",
    unit=" parameters",
    hints=(
        "One expert has 3 × width × hidden parameters. How many experts does a layer store, and "
        "how many does one token go through?",
        "Each layer has a router as well, width × n. Everything is multiplied by the number of "
        "layers, but for the rest.",
    ),
)  # fmt: skip
