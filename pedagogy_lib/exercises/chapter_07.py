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

MODULES = (
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
    [exercise for module in MODULES for exercise in getattr(module, "EXERCISES", ())],
    key=lambda exercise: int(exercise.number.split(".")[1]),
)
