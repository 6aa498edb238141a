"""The waits of a step with its optimizer on the CPUs. The truth uses moments, not durations."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "offload",
    lab="practices",
    cases={
        "the example: 100 parameters on 4 ranks": [(100, 4, 10, 200, 3)],
        "the backward hides all gradients": [(100, 4, 10, 200, 8)],
        "both take equally long": [(120, 3, 16, 240, 5)],
        "one rank": [(50, 1, 20, 100, 2)],
        "a share that is no whole number": [(100, 7, 4, 350, 1.5)],
        "no time to hide anything": [(64, 8, 4, 28, 0)],
        "7 billion on 8 V100, a short backward": [(6.7e9, 8, 8e9, 153.6e9, 0.1)],
        "7 billion on 8 V100, a long backward": [(6.7e9, 8, 8e9, 153.6e9, 3.0)],
        "2 ranks, a slow memory": [(1e9, 2, 16e9, 20e9, 0.05)],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a dict with the keys gradients, update and parameters",
    shape="return a dict with three numbers, under the keys gradients, update and parameters",
    hints=(
        "How many seconds do the gradients of a rank's share need on its link?",
        "They start with the backward. How much later than the backward do they end?",
    ),
)
