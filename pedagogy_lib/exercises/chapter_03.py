"""The exercises of chapter 03, both parts."""

from . import averaging, broken_loops, bucketing, overlapping, reading, replicas, servers, shares

EXERCISES = sorted(
    [
        *servers.EXERCISES,
        *shares.EXERCISES,
        *replicas.EXERCISES,
        *averaging.EXERCISES,
        *bucketing.EXERCISES,
        *overlapping.EXERCISES,
        *reading.EXERCISES,
        *broken_loops.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
