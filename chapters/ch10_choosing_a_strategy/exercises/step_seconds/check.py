"""The seconds of a step in a pipeline. The truth runs a schedule, cell by cell."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "step_seconds",
    cases={
        "8 layers of 1.25 s, 4 stages, 5 micro-batches": [(1.25, 8, 4, 5, 10.0, 0.3)],
        "4 layers of 1 s, 2 stages, 3 micro-batches": [(1.0, 4, 2, 3, 2.0, 0.5)],
        "one stage": [(0.5, 6, 1, 4, 3.0, 0.0)],
        "one micro-batch": [(0.5, 8, 4, 1, 0.0, 0.0)],
        "all of it hidden": [(0.25, 8, 2, 8, 5.0, 1.0)],
        "none of it hidden": [(0.25, 8, 4, 8, 5.0, 0.0), (0.25, 8, 4, 8, 5.0, 0.75)],
        "an all-reduce that takes longer than all else": [(0.25, 8, 2, 2, 9.0, 0.5)],
        "80 layers, 16 stages": [(0.0213, 80, 16, 128, 0.4, 0.7)],
    },
    truth=truth,
    unit=" s",
    mistakes=MISTAKES,
    hints=(
        "How long does one stage take for one micro-batch?",
        "How many such turns pass until the last stage is done with the last micro-batch?",
    ),
)
