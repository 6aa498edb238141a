"""The exercises of chapter 08, both parts."""

from . import (
    balancing,
    best_sizes,
    broken_versions,
    bubbles,
    exchanges,
    generators,
    later_weights,
    losses_of_parts,
    pipelines,
    slicing,
    stage_of_pipeline,
    stashing,
    turns,
    warm_ups,
)

EXERCISES = sorted(
    [
        *balancing.EXERCISES,
        *best_sizes.EXERCISES,
        *broken_versions.EXERCISES,
        *bubbles.EXERCISES,
        *exchanges.EXERCISES,
        *generators.EXERCISES,
        *later_weights.EXERCISES,
        *losses_of_parts.EXERCISES,
        *pipelines.EXERCISES,
        *slicing.EXERCISES,
        *stage_of_pipeline.EXERCISES,
        *stashing.EXERCISES,
        *turns.EXERCISES,
        *warm_ups.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
