"""Entry to and exit from the parallel region with pieces: exercises AllGather and ReduceScatter.

Both use two collectives: one joins the ranks' pieces, the other sums and gives each rank its piece.
The forward of one function is the backward of the other.
"""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.forward_backward import autograd_function
from coursekit.kit.observed_calls import all_waited
from pedagogy_lib.basics.closeness import close


def run_forward_backward(gathers, answer, group, case):
    """Run a forward and a backward; return their results, and the inputs that have changed."""
    function, place, n = autograd_function(answer), dist.get_rank(group), dist.get_world_size(group)
    x, slope = x_and_slope(gathers, case, place, n)
    leaf, seen = x.clone().requires_grad_(), []
    with measure_answer(), all_waited():
        y = function.apply(leaf, group)
    if not isinstance(y, torch.Tensor) or y.shape != slope.shape:
        shape = tuple(y.shape) if isinstance(y, torch.Tensor) else y and type(y).__name__
        return {"shape": shape}
    y.register_hook(seen.append)
    with all_waited() as backward:
        (gradient,) = torch.autograd.grad((y * slope).sum(), leaf, allow_unused=True)
    pairs = {"x": (leaf.detach(), x), "the incoming gradient": (seen[0], slope)}
    return {
        "shape": tuple(y.shape), "y": y.detach(), "gradient": gradient,
        "backward": backward.made,
        "changed": [name for name, pair in pairs.items() if not close(*pair)],
    }  # fmt: skip


def x_and_slope(gathers, case, place, n):
    """Return a rank's input x, and the gradient of its output."""
    piece, whole = case.args, shape_of_whole(case.args, n)
    shapes = (piece, whole) if gathers else (whole, piece)
    return [
        make_noncontiguous(numbers(place, s, torch.float64, k) / 3) for k, s in enumerate(shapes)
    ]


def shape_of_whole(piece, n):
    return (piece[0], n * piece[1], *piece[2:])
