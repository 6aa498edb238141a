"""The backward of two slices, the second of which looks at a key of the first.

The truth is one backward through a graph of both slices, without a leaf between them.
"""

from coursekit.kit import Equals, never
from coursekit.kit.single_rank import LocalExercise

from .cases import CASES, run_both_passes
from .truth import LISTS, mistakes, truth

EXERCISE = LocalExercise(
    "back_through_both",
    cases=CASES,
    work=run_both_passes,
    facts=[
        Equals("gradients", truth, mistakes, "the gradient"),
        never("changed", "an input has changed",
              "x1, x2 and the slopes belong to the caller: work with the leaves of the first line"),
        never("passes", "the numbers are right, but the graph of the first slice is gone through "
              "{} times",
              "y1 and key go back together: one torch.autograd.backward takes a list of outputs, "
              "and a list of their gradients, and needs no retain_graph"),
    ],
    right="both gradients are those of one graph",
    errors={
        "a second time": "y1 and key share a graph, and that is gone after the first backward. One "
        "torch.autograd.backward takes both outputs in a list, and their gradients in another",
        "implicitly created only for scalar": "an output that is more than one number goes back "
        "with its gradient. If that is seen.grad, it is None until the second slice has gone back: "
        "the second slice comes first",
        "Mismatch in shape": "each output has a gradient of its own shape: y1 has slope1, the key "
        "has what arrived at `seen`, y2 has slope2",
        "'NoneType' object": "seen.grad is None until the second slice has gone back, and "
        "backward() returns None: gradients are left in the leaves",
        "does not require grad": "only what was computed from a leaf can go back: `key` has a "
        "graph; `seen` is where a gradient ends",
        "only integer tensors": LISTS,
        "Expected output to be": LISTS,
        "takes as many": "torch.autograd.backward takes as many gradients as outputs",
        "number of tensors": "torch.autograd.backward takes as many gradients as outputs",
        "got 2 tensors and": "torch.autograd.backward takes as many gradients as outputs",
    },
    hints=(
        "Which slice goes back first, and where does its backward end?",
        "y2.backward(slope2) leaves gradients in x2.grad and in seen.grad. The second one belongs "
        "to the key of the first slice.",
        "The first slice has two outputs, y1 and key, with the gradients slope1 and seen.grad. "
        "Both go into one torch.autograd.backward.",
    ),
)  # fmt: skip
