"""The exercises of chapter 05."""

from . import activations, model_states, precision, recomputing

EXERCISES = sorted(
    [
        *model_states.EXERCISES,
        *activations.EXERCISES,
        *precision.EXERCISES,
        *recomputing.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
