"""The exercises of chapter 07, both parts."""

from . import (
    broken_blocks,
    broken_regions,
    cut_heads,
    cutting,
    dropping,
    gradient_norms,
    likeliest,
    overlapped_product,
    partial_gradients,
    pieces,
    regions,
    row_first,
    slow_links,
    split_layers,
    split_scores,
    summed_in_place,
    vocabulary,
)

EXERCISES = sorted(
    [
        *broken_blocks.EXERCISES,
        *broken_regions.EXERCISES,
        *cut_heads.EXERCISES,
        *cutting.EXERCISES,
        *dropping.EXERCISES,
        *gradient_norms.EXERCISES,
        *likeliest.EXERCISES,
        *overlapped_product.EXERCISES,
        *partial_gradients.EXERCISES,
        *pieces.EXERCISES,
        *regions.EXERCISES,
        *row_first.EXERCISES,
        *slow_links.EXERCISES,
        *split_layers.EXERCISES,
        *split_scores.EXERCISES,
        *summed_in_place.EXERCISES,
        *vocabulary.EXERCISES,
    ],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
