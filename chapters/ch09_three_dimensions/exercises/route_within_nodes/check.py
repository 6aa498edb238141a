"""The experts that a token gets if they may be on a few nodes only, and their weights."""

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from coursekit.kit.results import text_of
from pedagogy_lib.basics.closeness import close

from ..shared.routes import differs
from .cases import gradient_through_weights, scores_and_slope, scores_of
from .truth import MISTAKES, truth

BIAS = torch.tensor([0, 3, -3, 0.5, 0, -2, 2, 0], dtype=torch.float64)
LEARNS = "the router learns through the weights: they have to stay in autograd's graph"


def need_gradient(answer):
    """Yield a line if the weights have the right gradient; raise `Wrong` if not."""
    got = call_next_to_answer(gradient_through_weights, answer)
    if got is None:
        raise Wrong("its gradient", "the weights have no gradient", LEARNS)
    scores, slope = scores_and_slope()
    experts = torch.tensor(truth(scores.detach(), 2, 4, 2)[1])
    (wanted,) = torch.autograd.grad(
        (scores.softmax(-1).gather(-1, experts) * slope).sum(), [scores]
    )
    if not close(got, wanted):
        raise Wrong("its gradient", "the weights are right, their gradient is not", LEARNS)
    yield "the weights have the gradient of a softmax over all experts"


CASES = {
    "8 experts on 4 nodes, 2 for each token, on 2 nodes": [(scores_of(0, 8, 8), 2, 4, 2)],
    "8 experts on 2 nodes, 3 for each token, on 1 node": [(scores_of(1, 6, 8), 3, 2, 1)],
    "12 experts on 3 nodes, 3 for each token, on 2 nodes": [(scores_of(2, 12, 12), 3, 3, 2)],
    "12 experts on 6 nodes, 4 for each token, on 3 nodes": [(scores_of(9, 9, 12), 4, 6, 3)],
    "8 experts on 4 nodes, 2 for each token, on 3 nodes": [(scores_of(3, 8, 8), 2, 4, 3)],
    "as many nodes as there are": [(scores_of(4, 5, 6), 3, 3, 3)],
    "an expert on each node": [(scores_of(5, 6, 4), 2, 4, 2)],
    "all scores far below 0": [(scores_of(6, 6, 8) - 20, 2, 4, 2)],
    "scores in the thousands": [(scores_of(6, 6, 8) + 1000, 2, 4, 2)],
    "a bias decides": [(scores_of(7, 9, 8), 2, 4, 2, BIAS)],
    "a bias, on 1 node": [(scores_of(8, 9, 8), 2, 4, 1, BIAS / 3)],
}


def diagnose_outside(found, case):
    """Return the diagnosis of experts on too many nodes, or "" if there are none."""
    scores, _, nodes, most, *_ = CASES[case][0]
    size = scores.shape[-1] // nodes
    if any(len({e // size for e in of_token}) > most for of_token in found[case][0][1]):
        return (
            "a token has experts on more than `most` nodes. If experts of other nodes got the "
            "score 0: that is more than any score below 0. Only -inf is less than every score"
        )
    return ""


EXERCISE = Formula(
    "route_within_nodes",
    lab="expert_nodes",
    cases=CASES,
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    explain=diagnose_outside,
    whole="the numbers of experts are indices: whole numbers",
    right=lambda calls, values: f"experts {text_of(values[0][1][0])} for the first token",
    also=need_gradient,
    asked="two tensors, weights and experts",
    errors={
        "unsupported operand": "without a bias, bias is None",
        "too many values": "topk gives two tensors: values and indices",
        "'float' object cannot be interpreted": "k / most is a fraction: rounded up, -(-k // most)",
        "must be int, not float": "k / most is a fraction: rounded up, -(-k // most)",
    },
    hints=(
        "scores.unflatten(-1, (nodes, -1)) has the shape (tokens, nodes, experts of a node). How "
        "much does each node count?",
        "Which nodes does a token get? Experts of all other nodes must not be chosen: a score of "
        "-inf is never among the best, unless nothing else is left.",
        "The weights come last, as in `route`: the softmax of the scores that were given, at the "
        "chosen experts.",
    ),
)
