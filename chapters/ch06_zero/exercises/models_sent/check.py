"""The data that a rank sends in a step of each stage, as a multiple of the model's size."""

from coursekit.kit import Formula

from .truth import MISTAKES, count_models_sent

STEPS = [(4, 1), (4, 3), (2, 5), (8, 2), (1, 4)]  # n, micro-batches

EXERCISE = Formula(
    "models_sent",
    cases={
        f"n = {n}, micro-batches: {m}": [(stage, n, m)[: 2 + (m > 1)] for stage in range(4)]
        for n, m in STEPS
    },
    truth=count_models_sent,
    right=lambda calls, values: (
        f"stages 0 to 3 send {', '.join(f'{x:g}' for x in values)} models"
    ),
    differs=lambda call, wanted, got: (
        f"stage {call[0]}: expected {wanted:g} models, got {got:g}"
    ),
    mistakes=MISTAKES,
    hints=(
        "A reduce-scatter sends (n - 1)/n of the bytes, and so does an all-gather; an "
        "all-reduce is both. Count these halves.",
        "Which of them does each micro-batch need, and which come once a step? Look at what "
        "`backward` does in each stage, and what `step` does.",
        "Stages 0 and 1: two halves a step. Stage 2: each backward reduces, the step gathers. "
        "Stage 3: each micro-batch gathers for the forward and for the backward, and reduces.",
    ),
)  # fmt: skip
