"""The exercises of chapter 03, both parts."""

from . import broken_loops, overlapping, reading, replicas, servers, shares

EXERCISES = sorted(
    [
        *servers.EXERCISES,
        *shares.EXERCISES,
        *replicas.EXERCISES,
        *overlapping.EXERCISES,
        *reading.EXERCISES,
        *broken_loops.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
