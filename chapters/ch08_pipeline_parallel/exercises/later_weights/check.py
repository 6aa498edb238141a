"""A linear layer whose weights' gradients are computed later. The truth is F.linear."""

from coursekit.kit import Equals, never
from coursekit.kit.single_rank import Alone, LocalExercise

from .cases import Layer, read_initial_gradients, use
from .truth import (
    ERRORS,
    expect_weight_gradients,
    no_bias,
    report_gradients,
    right,
    why_too_few,
    why_without_bias,
    wrong_weights,
)

EXERCISE = LocalExercise(
    "LaterWeights",
    lab="pipeline_parallel",
    cases=[
        Alone(what, use, (layer,))
        for what, layer in {
            "x of 2 dims": Layer(),
            "x of 3 dims": Layer(lead=(2, 3)),
            "without a bias": Layer(lead=(2, 3), bias=False),
            "a gradient there already": Layer(before=True),
            "the same weight three times": Layer(lead=(2, 2), uses=3),
            "three times, called from the last on": Layer(lead=(2, 2), uses=3, reverse=True),
            "the first layer: x needs no gradient": Layer(frozen="x"),
            "a frozen weight": Layer(frozen="weight"),
            "a frozen bias": Layer(frozen="bias"),
            "a transposed gradient": Layer(lead=(2, 3), turned=True),
            "under torch.autograd.graph.saved_tensors_hooks": Layer(hooked=True),
        }.items()
    ],
    work=use,
    facts=[
        Equals("outputs", lambda trial, place: right(trial)[0], no_bias, "the output"),
        never(
            "early",
            "after the forward `later` has {} functions",
            "`later` gets its function in the backward: in the forward there is no gradient yet",
        ),
        Equals(
            "of_xs",
            lambda trial, place: right(trial)[1],
            lambda trial, place: {
                "the gradient of x is needed at once: the rank before waits for it": [None]
                * trial.case.args[0].uses,
            },
            "after the backward the gradient of x",
        ),
        never(
            "slope_changed",
            "the gradient that comes in has changed",
            "the weights' gradients still need it, and others may have it, too: leave it alone",
        ),
        never(
            "has_none",
            "after the backward `later` has None",
            "a function is to be put there, not its result: partial(function, x, gradient, …)",
        ),
        Equals(
            "at_once",
            read_initial_gradients,
            called="right after the backward, the gradient",
            otherwise="the backward gives the gradient of x alone, and None for the weight and "
            "the bias: theirs are what a function in `later` is for",
        ),
        never("too_few", "after {} backwards `later` has fewer functions", why_too_few),
        never(
            "flops",
            "the backward computes {} FLOPs beside the gradient of x",
            "another product is computed in the backward, and its result only added later: the "
            "rank before waits for it. Let the function in `later` compute it",
        ),
        never(
            "failed",
            str,
            lambda trial, place: EXERCISE.why_it_failed(trial.case, trial[place].failed),
        ),
        never(
            "frozen",
            "the {} is frozen, and has a gradient",
            "a weight that does not require a gradient gets none",
        ),
        Equals(
            "of_weights",
            expect_weight_gradients,
            wrong_weights,
            "when `later` has been called, the gradient",
        ),
        never(
            "graphs",
            lambda names: f"{names[0]}.grad requires a gradient itself",
            "autograd has recorded how this gradient was computed, and so keeps x and the "
            "gradient of y alive as long as weight.grad is there: compute it under "
            "torch.no_grad()",
        ),
    ],
    right=report_gradients,
    explain=why_without_bias,
    errors=ERRORS,
    hints=(
        "The backward has two things to compute, and one of them nobody waits for. What does "
        "that one need, besides the gradient that comes in?",
        "forward keeps x, weight, bias and later: save_for_backward(x), and attributes of ctx. "
        "backward returns gradient @ weight, and None for the other three.",
        "ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)): "
        "a function that needs no arguments any more, and adds what is missing.",
    ),
)
