"""Activations that are computed twice: the check of 5.6."""

import warnings
from functools import partial

import torch
from torch import Tensor

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.one_process import why_raised
from ..kit.warming import warm_up
from .recomputed_blocks import CASES, STALE, Model, compare_on_rank, plainly

# ---- Judging ---------------------------------------------------------------------------------

NO_GRAPH = (
    "there is no graph to go back through. Inside of a backward autograd does not look, unless "
    "it is told to: under torch.enable_grad() the function runs, and whatever is computed from y"
)
NOT_DETACHED = (
    "the x that was kept still hangs on the graph of what came before it, and the backward goes on "
    "into that. x.detach() cuts it off: the layers before x get their turn later, from the "
    "gradient of x that is returned"
)
NO_LEAF = (
    "the x that the function runs on has no gradient: after detach() it needs requires_grad_(), "
    "and to be the same tensor that is asked for its .grad in the end"
)
ERRORS = {  # words of an error: what they mean
    "does not require grad and does not have a grad_fn": NO_GRAPH,
    "differentiated Tensors does not require grad": NO_LEAF,
    "through the graph a second time": NOT_DETACHED,
    "incorrect number of gradients": "the forward has two inputs, function and x: the backward "
    "returns a gradient for each of them, None for the function",
    "different than None at position 1": "the gradients are in the order of the forward's inputs: "
    "first None, for the function, then that of x",
    "got tuple": "torch.autograd.grad returns a tuple, here with one gradient in it",
    "created only for scalar outputs": "a backward that begins at y has to know the gradient of "
    "y: that is slope, torch.autograd.backward(y, slope)",
    "invalid gradient at index": "what is returned for x is its gradient, in the shape of x. slope "
    "is the gradient of what the function has returned",
    "Mismatch in shape": "slope is the gradient of what the function has returned, so it belongs "
    "to that: torch.autograd.backward(y, slope)",
    "must match the size": "slope has the shape of what the function has returned, x.grad that of "
    "x. And x.grad is ready: slope has gone into it",
    "has no attribute 'apply'": "Recomputed has to stay a torch.autograd.Function: apply() is its",
}  # fmt: skip
FORWARD = "what the forward returns is function(x), as it stood there"
FORWARD_CHANCE = "the forward draws as often as the function does, and leaves the generator there"
NO_WEIGHTS = (
    "the function's weights get no gradient. torch.autograd.grad hands out what it is asked for, "
    "and puts nothing into `.grad`; torch.autograd.backward fills the .grad of all leaves"
)
NO_X = (
    "what came before this call gets no gradient: x.grad of the detached x is to be returned, for "
    "x; requires_grad_() comes before the function runs"
)
TWICE = (
    "it is twice the gradient of x. The x that was kept is the caller's own tensor, whose .grad "
    "the backward fills, and then what is returned is added: run the function on x.detach()"
)
ONES = (
    "this is the gradient of the sum of what the function returns. In a chain it is only the "
    "beginning: slope says how much the loss changes with each element"
)
REPLACED = (
    "gradients that were there are gone: a backward adds to `.grad`, and so is this one to do"
)
MASKS = (
    "without dropout it is right: the second run has drawn other masks than the first. Before it "
    "the generator has to be set to ctx.chance"
)
GENERATOR = (
    "the second run has moved the generator, or set it back: what is drawn next would have been "
    "drawn before. Afterwards it has to be where it was before the backward: "
    "torch.random.fork_rng(devices=[]) puts it back, or get_rng_state before and set_rng_state "
    "after"
)
NOT_RUN = (
    "the backward has not run the function again. Of the first run there is no graph: only a "
    "second one tells the gradients of x and of the weights"
)
KEPT = (
    "nothing is computed a second time: the graph of the first run is kept, with all its "
    "activations. Keep x alone, and run the function again in the backward"
)
TOO_OFTEN = "one more run is enough: the graph that it makes has all that the backward needs"


def examine_recomputed(answer):
    warm_up()  # a backward that is given a slope imports for a second, too
    for name, cases in CASES.items():
        run = try_on_ranks(name, quietly, compare_on_rank, answer, cases, world_size=1,
                           explain=partial(why_raised, ERRORS, ""))  # fmt: skip
        for case, (mine, plain, ones) in zip(cases, run.values[0]):
            judge(case, mine, plain, ones)
            count = sum(gradient is not None for gradient in plain.gradients.values())
            yield f"{case.name}: value, {count} gradients and generator are right"
    yield from examine_memory(answer)


def quietly(work, *args):
    """Without torch's warning about the `.grad` of what is no leaf: the verdict says it better."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        return work(*args)


def judge(case, mine, plain, ones):
    """Raise `Wrong` at the first thing that differs from a plain call of the function."""
    if not close(mine.y, plain.y):
        what = f"the forward's value is off by up to {told_gap(mine.y, plain.y)}"
        raise Wrong(case.name, what, FORWARD)
    judge_chance(case, mine.chances[0], plain.chances[0], "forward", FORWARD_CHANCE)
    for name, wanted in plain.gradients.items():
        got = mine.gradients[name]
        if not close(got, wanted):
            what = f"{name}.grad {told_difference(got, wanted)}"
            raise Wrong(case.name, what, why_gradients(case, mine, plain, ones, name))
    judge_chance(case, mine.chances[1], plain.chances[1], "backward", GENERATOR)
    if mine.runs != case.runs:
        what = f"the numbers are right, but a block has run {mine.runs}×, expected {case.runs}×"
        raise Wrong(case.name, what, KEPT if mine.runs < case.runs else TOO_OFTEN)


def judge_chance(case, mine, plain, when, why):
    if not torch.equal(mine, plain):
        what = f"after the {when}, the generator is not where it is without recomputation"
        raise Wrong(case.name, what, why)


def told_difference(got, wanted) -> str:
    if got is None or wanted is None:
        return "is None" if got is None else "is not None, expected None"
    return f"has norm {got.norm():.6g}, expected {wanted.norm():.6g}"


def why_gradients(case, mine, plain, ones, name) -> str:
    """Why the gradients of a case are off, of which that of this name is the first."""
    got, wanted = mine.gradients, plain.gradients
    if mine.runs == plain.runs:
        return NOT_RUN
    inside = [n for n in got if n.startswith("blocks") and wanted[n] is not None]
    if not case.stale and all(got[n] is None for n in inside):
        return NO_WEIGHTS
    if got[name] is None:
        return NO_X
    if name == "x" and close(got["x"], 2 * wanted["x"]):
        return TWICE
    if case.stale and close(got[name], wanted[name] - STALE):
        return REPLACED
    if all(map(close, got.values(), ones.gradients.values())):
        return ONES
    return MASKS if case.dropout else ""


# ---- Memory ----------------------------------------------------------------------------------

CHUNKS, SAMPLES, WIDE = 4, 256, 64


def memory_on_rank(answer) -> int:
    """Blocks for what is kept between forward and backward, and in the backward; bytes of x."""
    model = Model(0.0, CHUNKS, WIDE, 2 * WIDE)
    x = torch.randn(SAMPLES, WIDE, dtype=torch.float64, requires_grad=True)
    with measure("before"):
        pass
    for label, call in {"mine": answer.lab.Recomputed.apply, "plain": plainly}.items():
        loss = chunks_of(model, x, call)
        with measure(f"{label}, kept"):
            pass
        with measure(f"{label}, backward"):
            loss.backward()
        del loss
    with measure("one chunk"):
        model.blocks[0](x)
    return x.nbytes


def chunks_of(model, x, call) -> Tensor:
    for block in model.blocks:
        x = call(block, x)
    return x.sum()


def examine_memory(answer):
    case = f"memory, {CHUNKS} chunks"
    run = try_on_ranks(case, quietly, memory_on_rank, answer, world_size=1)
    size = run.values[0]
    activations, total = (
        {label: run[label].peak_bytes[0][kind] for label in run.labels}
        for kind in ("activations", "total")
    )
    kept, wanted = activations["mine, kept"], CHUNKS * size
    if kept > wanted:
        what = f"{kept:,} bytes are kept for the backward, expected {wanted:,}, the {CHUNKS} inputs"
        raise Wrong(case, what, KEPT)
    more = total["mine, kept"] - total["before"] - (CHUNKS - 1) * size
    if more > size / 2:  # the generator's states are less
        what = f"besides the inputs, {more:,} bytes are kept for the backward"
        raise Wrong(case, what, "x is enough: nothing else of its size may stay in ctx")
    most, limit = activations["mine, backward"], (CHUNKS - 1) * size + activations["one chunk"]
    if most > limit + 3 * size:  # y and slope may be kept, too, to be multiplied
        what = f"in the backward there are up to {most:,} bytes of activations, expected {limit:,}"
        raise Wrong(case, what, ONE_BY_ONE)
    plain = activations["plain, kept"]
    yield f"memory: {kept:,} bytes are kept, the inputs of {CHUNKS} chunks; else {plain:,}"


ONE_BY_ONE = (
    "only one chunk at a time is to have its activations: go back through it at once, and keep "
    "nothing of it in ctx"
)


EXERCISE = Exercise(
    "5.6", "Recomputed", examine_recomputed,
    (
        "The backward of a function of autograd is given slope, and returns the gradient of x. "
        "All that it needs for that is a graph from x to y: so it runs the function again.",
        "It runs on x.detach().requires_grad_(), or the new graph would hang on the old one; "
        "and under torch.enable_grad(), or there would be no graph.",
        "The same random numbers: under torch.random.fork_rng(devices=[]), which puts the "
        "generator back afterwards, torch.set_rng_state(ctx.chance).",
        "Then torch.autograd.backward(y, slope): it adds to the weights' .grad, and fills "
        "x.grad. The forward had two inputs: return None, x.grad.",
    ),
    lab="memory",
)  # fmt: skip
