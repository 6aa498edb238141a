"""A training step in three dimensions. The truth is the same training in one process.

A mistake is that training with the same part left out, or done in the same wrong order.
"""

from coursekit.kit import Equals, RankCase, RankExercise, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from ..shared.meshes import describe_mesh
from .cases import LONG, SHORT, STEPS, train
from .truth import averages_once, loss_mistakes, losses_of, weights_of, wrong_weights

EXERCISE = RankExercise(
    "ThreeDimensions",
    lab="three_dimensions",
    cases=[
        RankCase(World(n), (sizes, longest), f", {describe_mesh(sizes)}{what}")
        for n, sizes, longest, what in [
            (2, {"dp": 2, "pp": 1, "tp": 1}, SHORT, ""),
            (2, {"dp": 1, "pp": 2, "tp": 1}, SHORT, ""),
            (4, {"dp": 2, "pp": 1, "tp": 2}, LONG, ", short gradients"),
            (3, {"dp": 1, "pp": 3, "tp": 1}, SHORT, ""),
            (8, {"dp": 2, "pp": 2, "tp": 2}, SHORT, ""),
        ]
    ],
    work=train,
    facts=[
        Equals("weights", weights_of, wrong_weights, "the weights", same=close_in_float32),
        Equals("losses", losses_of, loss_mistakes, "the losses", same=close_in_float32),
        never("changed", lambda _: "the batch has changed",
              "it belongs to the caller: look at it, and leave it as it is"),
        averages_once,
    ],
    right=f"after {STEPS} steps, weights and losses are those of one process",
    on_hang="all ranks do the same, in the same order: the pipeline's step, the sum over the ends, "
    "the average, the clipping, the optimizer's step",
    needs=("average_over_copies", "global_norm"),
    warm=True,
    hints=(
        "Write down what one process does between two steps: zero_grad, forward and backward, "
        "clip_grad_norm_, step. Where does each axis have something to add?",
        "self.pipeline.step(self.actions, inputs, targets) takes lists of micro-batches: "
        "self.in_parts(…) makes them. It returns the loss.",
        "After it the gradients are those of this copy. First complete the tied weight's, then "
        "average, then clip: the length that counts is that of the complete mean.",
    ),
)  # fmt: skip
