"""One stage of a pipeline: the first, one in the middle and the last, as on ranks 0, 1 and 2.

Plain tensors replace the messages from and to other ranks, so one process is enough. The truth is
the piece by itself.
"""

from coursekit.kit import Equals, RankCase, World, never
from coursekit.kit.single_rank import LocalExercise

from .cases import ORDER, STAGES, stage_at_work
from .truth import each, slope_mistakes, weight_mistakes, weights_of, why_at_fault

EXERCISE = LocalExercise(
    "Stage",
    lab="pipeline_parallel",
    cases=[
        RankCase(World(3), ("F0 B0", False), f"{STAGES}F0 B0"),
        RankCase(World(3), (ORDER, False), f"{STAGES}{ORDER}"),
        RankCase(World(3), ("F0 B0", True), f"{STAGES}F0 B0 of an x that has a history"),
    ],
    work=stage_at_work,
    facts=[
        Equals("outputs", lambda *at: each(*at, "outputs", lambda p: p.y.detach()),
               lambda *at: {
                   "on the last stage `then` makes the loss of what the piece returns":
                       each(*at, "outputs", lambda p: p.raw.detach()),
                   "this is x: self.piece(x) is to follow":
                       each(*at, "outputs", lambda p: p.x.detach()),
               }, "the output"),
        Equals("slopes", lambda *at: each(*at, "slopes", lambda p: p.slopes(p.of.gradient).get(
               "x")), slope_mistakes, "the gradient of x"),
        Equals("weights", weights_of, weight_mistakes, "after all backwards, the gradient"),
        never("fault", str, why_at_fault),
    ],
    right=lambda trial: f"outputs and gradients are right, kept at most {trial[0].most}",
    hints=(
        "Another rank has computed x, and its graph is there. What has x to be, so that a "
        "backward on this rank ends at it, and leaves a gradient there?",
        "x.detach() has no history, and requires_grad_() has its gradient noted. Letters have "
        "none: x.detach().requires_grad_(x.is_floating_point()).",
        "Then the piece computes, and `then` follows it. The result goes two ways: self.keep "
        "gets it with its graph, for the backward; the next stage gets it without.",
        "backward: x, y = self.kept.pop(i). y.backward(gradient) adds to the weights' "
        "gradients and leaves x.grad; of the loss gradient is None, which backward() takes.",
    ),
)  # fmt: skip
