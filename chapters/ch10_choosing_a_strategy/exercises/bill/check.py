"""The cost of a training run. The truth computes it in another order."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "bill",
    cases={
        "10 parameters, 1,440 tokens": [(10, 1440, 2, 5, 0.1, 3.0)],
        "all of the peak": [(1e9, 1e9, 1, 1e14, 1.0, 2.0)],
        "llama-3-8b, 15 trillion tokens, 1,024 H100": [(8e9, 15e12, 1024, 989.5e12, 0.4, 2.5)],
        "for nothing": [(1e9, 1e9, 8, 1e14, 0.5, 0.0)],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a dict with the keys days, gpu_hours and dollars",
    shape="return a dict with three numbers, under the keys days, gpu_hours and dollars",
    hints=(
        "How many FLOPs does the whole training need? 6 for each parameter and each token.",
        "How many of them are done in one second, on all GPUs together?",
    ),
)
