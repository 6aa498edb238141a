"""Activations that are computed twice.

The truth is function(x) itself, from the same seed, without anything recomputed.
"""

import gc
import re
import warnings

import torch

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes
from .blocks_that_count import (
    WIDTH,
    Model,
    after_a_layer,
    one_after_another,
    one_block,
    one_in_another,
    one_number,
)
from .ex09_power import need_function

STALE = 0.25
CHUNKS, SAMPLES, WIDE = 4, 256, 64  # where memory is measured
X, BEFORE, WEIGHTS = "x", "the layer before", "the function's weights"


TRIALS = {  # forward, how often blocks run if each call runs twice, dropout, gradients before
    "a function with weights": (one_block, 2),
    "a layer before it": (after_a_layer, 2),
    "gradients of an earlier step still there": (after_a_layer, 2, 0.0, STALE),
    "it returns one number": (one_number, 2),
    "with dropout": (one_block, 2, 0.5),
    "four calls in a row, with dropout": (one_after_another, 8, 0.3),
    "one call in another, with dropout": (one_in_another, 7, 0.3),
}


# ---- On a rank ---


def compare(answer, forward, runs, *how):
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    need_function(answer.lab.Recomputed)
    mine = seen_in(forward, answer.lab.Recomputed.apply, slopes_of, *how)
    plain = seen_in(forward, plainly, slopes_of, *how)
    is_right = close(mine["gradients"], plain["gradients"])
    return {
        "y": mine["y"],
        gradients_in(how): mine["gradients"],
        "never_run_again": mine["runs"] == plain["runs"] and not is_right,
        "runs": (mine["runs"], runs),
        "moved": [k for k in ("forward", "backward") if not torch.equal(mine[k], plain[k])],
    }


def gradients_in(how) -> str:
    """The name under which gradients are found."""
    return "gradients_with_dropout" if any(how[:1]) else "gradients"


def known_of(case, place) -> dict:
    if case.work is not compare:
        return {}
    forward, _, *how = case.args
    with torch.random.fork_rng(devices=[]):
        right, ones, means = (
            seen_in(forward, plainly, slopes, *how)
            for slopes in (slopes_of, torch.ones_like, even_slopes_of)
        )
    return {
        "right_y": right["y"],
        "right": right["gradients"],
        "ones": ones["gradients"],
        "means": means["gradients"],
    }


def found_on(case):
    is_compared = case.work is compare
    return ("y", gradients_in(case.args[2:])) if is_compared else ("kept", "besides", "at_most")


def even_slopes_of(y):
    """Those of a mean."""
    return torch.full_like(y, 1 / max(y.numel(), 1))


def seen_in(forward, call, slopes, dropout=0.0, stale=None) -> dict:
    """What a forward and its backward do, and where they leave the generator."""
    torch.manual_seed(5)
    model = Model(dropout)
    x = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    for tensor in [x, *model.parameters()] if stale else ():
        tensor.grad = torch.full_like(tensor, stale)
    y = forward(model, x, call)
    torch.rand(3)  # somebody else draws, too
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
    """Another gradient for each element of y."""
    return torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape) ** 2 + 0.5


def plainly(function, x):
    return function(x)


def measure_chunks(answer):
    """In sizes of x: what is kept between forward and backward, and what there is in the latter.

    Without the answer, too.
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


# ---- What is not right ---


def mistakes(trial, place):
    of = trial[place]
    right = of.right
    wrong = {
        "it is twice the gradient of x. The x that was kept is the caller's own tensor, whose "
        ".grad the backward fills, and then what is returned is added: run the function on "
        "x.detach()": right | {X: 2 * right[X]},
        "this is the gradient of the mean of what the function returns. In a chain it is only the "
        "beginning: grad_output says how much the loss changes with each element": of.means,
        "this is the gradient of the sum of what the function returns. In a chain it is only the "
        "beginning: grad_output says how much the loss changes with each element": of.ones,
    }
    if STALE in trial.case.args:
        weights = right[WEIGHTS].where(right[WEIGHTS] == STALE, right[WEIGHTS] - STALE)
        return wrong | {
            "gradients that were there are gone: a backward adds to `.grad`, and so is this one to "
            "do": right | {WEIGHTS: weights},
        }  # fmt: skip
    return wrong | {
        "the function's weights get no gradient. torch.autograd.grad hands out what it is asked "
        "for, and puts nothing into `.grad`; torch.autograd.backward fills the .grad of all "
        "leaves": right | {WEIGHTS: None},
        "what came before this call gets no gradient: x.grad of the detached x is to be returned, "
        "for x; requires_grad_() comes before the function runs":
            right | {X: None, BEFORE: None},
    }  # fmt: skip


def told(trial) -> str:
    if trial.of("kept"):
        kept, plain = trial[0].kept, trial[0].plain_kept
        return f"{kept:g} inputs are kept, and nothing else; without recomputation {plain:g}"
    return "value, gradients and generator are right"


def explain(case, error) -> str:
    """Of a sum that goes back in place of `grad_output`, and has no graph either."""
    goes_back = re.search(r"\w\.(sum|mean)\(\)\.backward\(\)", str(error))
    return ONES if goes_back and "does not have a grad_fn" in str(error) else ""


ONES = (
    "the gradient of y is `grad_output`; the backward of a sum of y begins with ones. Begin with "
    "grad_output, then nothing is to be multiplied afterwards. (Autograd does not "
    "look inside of a backward: a sum that is made there has no graph.)"
)
MOVED = "the generator is not where it is without recomputation"
KEPT = (
    "nothing is computed a second time: the graph of the first run is kept, with all its "
    "activations. Keep x alone, and run the function again in the backward"
)
EXERCISE = WarmExercise(
    "5.10",
    "Recomputed",
    lab="memory",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone(f"memory, {CHUNKS} chunks", measure_chunks),
    ],
    work=alone,
    known=known_of,
    found=found_on,
    facts=[
        Equals("y", lambda trial, place: trial[place].right_y, called="what the forward returns",
               otherwise="what the forward returns is function(x), as it stood there"),
        Holds("moved", lambda when: "forward" not in when, f"after the forward, {MOVED}",
              "the forward draws as often as the function does, and leaves the generator there"),
        never("never_run_again", "gradients are wrong",
              "the backward has not run the function again. Of the first run there is no graph: "
              "only a second one tells the gradients of x and of the weights"),
        Equals("gradients", lambda trial, place: trial[place].right, mistakes, ".grad"),
        Equals("gradients_with_dropout", lambda trial, place: trial[place].right, mistakes, ".grad",
               "without dropout it is right: the second run has drawn other masks than the first. "
               "Before it the generator has to be set to ctx.chance"),
        never("moved", f"after the backward, {MOVED}",
              "the second run has moved the generator, or set it back: what is drawn next would "
              "have been drawn before. Afterwards it has to be where it was before the backward: "
              "torch.random.fork_rng(devices=[]) puts it back, or get_rng_state before and "
              "set_rng_state after"),
        Holds("runs", lambda runs: runs[0] == runs[1],
              lambda runs: "the numbers are right, but a block has run {}×, expected {}×".format(
                  *runs),
              lambda trial, place: KEPT if trial[place].runs[0] < trial[place].runs[1] else
              "one more run is enough: the graph that it makes has all that the backward needs"),
        Holds("kept", lambda count: count <= CHUNKS,
              f"activations of {{:g}} times x are kept for the backward, expected {CHUNKS}", KEPT),
        Holds("besides", lambda count: count < 0.5,  # the generator's states are less
              "besides the inputs, {:.1f} times as much as x is kept for the backward",
              "x is enough: nothing else of its size may stay in ctx"),
        Holds("at_most", lambda count: count <= 3,  # y and its gradient may be kept
              "in the backward there is {:.1f} times as much as x beside one chunk's activations",
              "only one chunk at a time is to have its activations: go back through it at once, "
              "and keep nothing of it in ctx"),
    ],
    told=told,
    explain=explain,
    errors={
        "does not require grad and does not have a grad_fn": "there is no graph to go back "
        "through. Inside of a backward autograd does not look, unless it is told to: under "
        "torch.enable_grad() the function runs, and whatever is computed from y",
        "differentiated Tensors does not require grad": "the x that the function runs on has no "
        "gradient: after detach() it needs requires_grad_(), and to be the same tensor that is "
        "asked for its .grad in the end",
        "through the graph a second time": "the x that was kept still hangs on the graph of what "
        "came before it, and the backward goes on into that. x.detach() cuts it off: the layers "
        "before x get their turn later, from the gradient of x that is returned",
        "incorrect number of gradients": "the forward has two inputs, function and x: the backward "
        "returns a gradient for each of them, None for the function",
        "different than None at position 1": "the gradients are in the order of the forward's "
        "inputs: first None, for the function, then that of x",
        "expected a torch.ByteTensor": "ctx.chance is the state of torch's generator: "
        "torch.get_rng_state(), before the function draws",
        "got tuple": "torch.autograd.grad returns a tuple, here with one gradient in it",
        "created only for scalar outputs": "a backward that begins at y has to know the gradient "
        "of y: that is grad_output",
        "invalid gradient at index": "what is returned for x is its gradient, in the shape of x. "
        "grad_output is the gradient of what the function has returned",
        "Mismatch in shape": "grad_output is the gradient of what the function has returned, "
        "so it belongs to that",
        "must match the size": "grad_output has the shape of what the function has returned, "
        "x.grad that of x: nothing is to be multiplied. A backward that begins at y with "
        "grad_output, and not with the ones of y.sum().backward(), leaves x.grad ready",
        "has no attribute 'apply'": "Recomputed has to stay a torch.autograd.Function: apply() is "
        "its",
    },
    hints=(
        "The backward of a function of autograd is given grad_output, and returns the gradient "
        "of x. All that it needs for that is a graph from x to y: so it runs the function again.",
        "It runs on x.detach().requires_grad_(), or the new graph would hang on the old one; "
        "and under torch.enable_grad(), or there would be no graph.",
        "The same random numbers: under torch.random.fork_rng(devices=[]), which puts the "
        "generator back afterwards, torch.set_rng_state(ctx.chance).",
        "Then torch.autograd.backward(y, grad_output): it adds to the weights' .grad, and fills "
        "x.grad. The forward had two inputs: return None, x.grad.",
    ),
)  # fmt: skip
