"""The entry to the parallel region, from pieces of the context: exercise AllGather."""

from ..shared.pieces_truth import region

EXERCISE = region("AllGather", True, (
    "The lab has a function for either direction already: joined and summed_piece.",
    "Behind AllGather all have the whole context, and each computes with its own part of "
    "A. So on each rank another gradient comes back, for all of the context. x's is their "
    "sum; a rank has to know it for its own piece alone.",
    "Keep the group in forward, in ctx. backward returns one gradient for each "
    "argument of forward, None for the group.",
))  # fmt: skip
