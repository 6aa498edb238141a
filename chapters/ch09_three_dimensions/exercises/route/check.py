"""The experts that a token gets, and their weights."""

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from coursekit.kit.results import text_of
from pedagogy_lib.basics.closeness import close

from ..shared.routes import differs
from .cases import SMALL_BIAS, gradient_through_weights, scores_and_slope, scores_of
from .truth import MISTAKES, truth


def diagnose_overflow(found, case):
    """Return the diagnosis of weights that are NaN, or "" if none is."""
    weights = found[case][0][0] if isinstance(found[case][0], list) else []
    if any(w != w for of_token in weights for w in of_token):
        return "exp of a large number is infinite: softmax subtracts the largest score first"
    return ""


LEARNS = "the router learns through the weights: they have to stay in autograd's graph"


def need_gradient(answer):
    """Yield a line if the weights have the right gradient; raise `Wrong` if not.

    The router learns through the weights alone, because a choice has no gradient.
    """
    for k in (1, 2):
        got = call_next_to_answer(gradient_through_weights, answer, k)
        if got is None:
            raise Wrong(f"its gradient, {k} for each", "the weights have no gradient", LEARNS)
        scores, slope = scores_and_slope(k)
        experts = (scores + SMALL_BIAS).topk(k, dim=-1).indices
        (wanted,) = torch.autograd.grad(
            (scores.softmax(-1).gather(-1, experts) * slope).sum(), [scores]
        )
        if not close(got, wanted):
            raise Wrong(
                f"its gradient, {k} for each", "the weights are right, their gradient is not",
                f"{LEARNS}. Each weight is a quotient, and both of its parts depend on the scores",
            )  # fmt: skip
    yield "the weights have the gradient of a softmax, so the router learns"


BIAS = torch.tensor([0.0, 3.0, -3.0, 0.5], dtype=torch.float64)

EXERCISE = Formula(
    "route",
    lab="experts",
    cases={
        "3 tokens, 4 experts, the best one": [(scores_of(0, 3, 4), 1)],
        "5 tokens, 4 experts, 2 for each": [(scores_of(1, 5, 4), 2)],
        "one token, 6 experts, 3 for each": [(scores_of(2, 1, 6), 3)],
        "all experts for each token": [(scores_of(3, 4, 3), 3)],
        "a bias of zeros": [(scores_of(0, 3, 4), 1, torch.zeros(4, dtype=torch.float64))],
        "a bias decides": [(scores_of(4, 6, 4), 1, BIAS)],
        "a bias, 2 for each": [(scores_of(6, 6, 4), 2, BIAS)],
        "scores in the thousands": [(1000 + scores_of(9, 4, 3), 2)],
        "a small bias": [(scores_of(7, 8, 4), 2, BIAS / 10)],
    },
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    explain=diagnose_overflow,
    whole="the numbers of experts are indices: whole numbers",
    right=lambda calls, values: f"experts {text_of(values[0][1][0])} for the first token",
    also=need_gradient,
    asked="two tensors, weights and experts",
    errors={
        "unsupported operand": "without a bias, bias is None",
        "too many values": "topk gives two tensors: values and indices",
    },
    hints=(
        "Tensor.topk(k, dim=-1) gives values and indices. Which of both do you need, and of what?",
        "The bias is added before topk. The softmax is taken without it: scores.softmax(-1).",
        "x.gather(-1, indices) picks, for each token, the numbers at its indices.",
    ),
)  # fmt: skip
