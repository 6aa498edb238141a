"""Exercise 6.13: models_sent."""

from ...course.checking import Exercise
from .sharding import examine_models_sent

EXERCISE = Exercise(
    "6.13", "models_sent", examine_models_sent,
    (
        "A reduce-scatter sends (n - 1)/n of the bytes, and so does an all-gather; an "
        "all-reduce is both. Count these halves.",
        "Which of them does each micro-batch need, and which come once a step? Look at what "
        "`backward` does in each stage, and what `step` does.",
        "Stages 0 and 1: two halves a step. Stage 2: each backward reduces, the step gathers. "
        "Stage 3: each micro-batch gathers for the forward and for the backward, and reduces.",
    ),
)  # fmt: skip
