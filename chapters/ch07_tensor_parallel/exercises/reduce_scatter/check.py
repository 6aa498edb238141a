"""The exit from the parallel region, to pieces of the sum: exercise ReduceScatter."""

from ..shared.pieces_truth import region

EXERCISE = region("ReduceScatter", False, (
    "It is AllGather the other way round: what is forward there is backward here.",
    "Everybody's x goes into all pieces of the sum, and the derivative of a sum by each of "
    "its parts is 1. So the gradient of x is the gradient of all pieces: who has them?",
    "joined(gradient, ctx.group) has them. Nothing is divided, nothing is added up.",
))  # fmt: skip
