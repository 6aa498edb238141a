"""The cases, and the code that runs next to the answer."""

import gc
import warnings

import torch

from coursekit.kit.single_rank import most_bytes
from pedagogy_lib.basics.closeness import close

from ..power.cases import need_function
from .blocks_that_count import (
    WIDTH,
    Model,
    layer_then_block,
    one_after_another,
    one_block,
    one_in_another,
    one_number,
)

STALE = 0.25

CHUNKS, SAMPLES, WIDE = 4, 256, 64  # for the memory trial

X, BEFORE, WEIGHTS = "x", "the layer before", "the function's weights"

TRIALS = {  # forward, how often blocks run if each call runs twice, dropout, gradients before
    "a function with weights": (one_block, 2),
    "a layer before it": (layer_then_block, 2),
    "gradients of an earlier step still there": (layer_then_block, 2, 0.0, STALE),
    "it returns one number": (one_number, 2),
    "with dropout": (one_block, 2, 0.5),
    "four calls in a row, with dropout": (one_after_another, 8, 0.3),
    "one call in another, with dropout": (one_in_another, 7, 0.3),
}


def compare(answer, forward, runs, *how):
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    need_function(answer.lab.Recomputed)
    mine = observe_passes(forward, answer.lab.Recomputed.apply, slopes_of, *how)
    plain = observe_passes(forward, plainly, slopes_of, *how)
    is_right = close(mine["gradients"], plain["gradients"])
    return {
        "y": mine["y"],
        gradients_in(how): mine["gradients"],
        "never_run_again": mine["runs"] == plain["runs"] and not is_right,
        "runs": (mine["runs"], runs),
        "moved": [k for k in ("forward", "backward") if not torch.equal(mine[k], plain[k])],
    }


def gradients_in(how) -> str:
    """Return the name under which gradients are found."""
    return "gradients_with_dropout" if any(how[:1]) else "gradients"


def observe_passes(forward, call, slopes, dropout=0.0, stale=None) -> dict:
    """Return the results of a forward and its backward, and the generator's state after each."""
    torch.manual_seed(5)
    model = Model(dropout)
    x = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    for tensor in [x, *model.parameters()] if stale else ():
        tensor.grad = torch.full_like(tensor, stale)
    y = forward(model, x, call)
    torch.rand(3)  # other code draws between forward and backward
    seen = {"y": y.detach(), "forward": torch.get_rng_state()}
    y.backward(slopes(y))
    parts = {X: [x], BEFORE: model.first.parameters(), WEIGHTS: model.blocks.parameters()}
    gradients = {part: [p.grad for p in some if p.grad is not None] for part, some in parts.items()}
    seen["gradients"] = {
        part: torch.cat([gradient.flatten() for gradient in some]) if some else None
        for part, some in gradients.items()
    }
    return seen | {"backward": torch.get_rng_state(), "runs": model.runs}


def slopes_of(y):
    """Return a gradient of y that differs for each element."""
    return torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape) ** 2 + 0.5


def plainly(function, x):
    return function(x)


def measure_chunks(answer):
    """Return bytes as multiples of x, for the answer and for plain calls ("plain_…").

    "kept"     activations saved between forward and backward
    "besides"  all new bytes at that time, except for the chunks' inputs
    "at_most"  peak activations in the backward; for the answer, beyond inputs and one chunk's own
    """
    model = Model(0.0, CHUNKS, WIDE, 2 * WIDE)
    x = torch.randn(SAMPLES, WIDE, dtype=torch.float64, requires_grad=True)
    gc.collect()
    before, found = most_bytes()["total"], {}
    for name, call in {"": answer.lab.Recomputed.apply, "plain_": plainly}.items():
        y = x
        for block in model.blocks:
            y = call(block, y)
        loss, y = y.sum(), None
        kept = most_bytes()
        found[f"{name}kept"] = kept["activations"] / x.nbytes
        found[f"{name}besides"] = (kept["total"] - before) / x.nbytes - (CHUNKS - 1)
        found[f"{name}at_most"] = most_bytes(loss.backward)["activations"] / x.nbytes
        del loss
    of_one = most_bytes(lambda: model.blocks[0](x))["activations"] / x.nbytes
    return found | {"at_most": found["at_most"] - (CHUNKS - 1) - of_one}
