"""The exercises of chapter 06, both parts."""

from . import (
    broken_owners,
    broken_stages,
    broken_zero,
    disposing,
    gathering,
    reducing,
    sharding,
    stage_3,
    stages,
)

EXERCISES = sorted(
    [
        *sharding.EXERCISES,
        *reducing.EXERCISES,
        *stages.EXERCISES,
        *gathering.EXERCISES,
        *disposing.EXERCISES,
        *stage_3.EXERCISES,
        *broken_zero.EXERCISES,
        *broken_owners.EXERCISES,
        *broken_stages.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
