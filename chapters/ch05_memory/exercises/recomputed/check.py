"""Activation checkpointing: activations are recomputed in the backward.

The truth is function(x) itself, from the same seed and without recomputation.
"""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import CHUNKS, TRIALS, compare, measure_chunks
from .truth import (
    KEPT,
    MOVED,
    compute_known_values,
    describe_result,
    explain,
    list_found_names,
    mistakes,
)

EXERCISE = WarmExercise(
    "Recomputed",
    lab="memory",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone(f"memory, {CHUNKS} chunks", measure_chunks),
    ],
    work=run_alone,
    known=compute_known_values,
    found=list_found_names,
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
        Holds("besides", lambda count: count < 0.5,  # the generator's states take less
              "besides the inputs, {:.1f} times as much as x is kept for the backward",
              "x is enough: nothing else of its size may stay in ctx"),
        Holds("at_most", lambda count: count <= 3,  # y and its gradient may be saved
              "in the backward there is {:.1f} times as much as x beside one chunk's activations",
              "only one chunk at a time is to have its activations: go back through it at once, "
              "and keep nothing of it in ctx"),
    ],
    right=describe_result,
    explain=explain,
    errors={
        "does not require grad and does not have a grad_fn": "there is no graph to go back "
        "through. Autograd records nothing during a backward, unless it is told to: under "
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
