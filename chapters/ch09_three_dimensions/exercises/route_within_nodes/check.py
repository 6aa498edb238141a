"""The experts that a token gets if they may be on a few nodes only, and their weights."""

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from coursekit.kit.results import text_of
from pedagogy_lib.basics.closeness import close

from ..shared.routes import differs
from .cases import gradient_through_weights, route_equal_nodes, scores_and_slope, scores_of
from .truth import MISTAKES, experts_of, truth

BIAS = torch.tensor([0, 3, -3, 0.5, 0, -2, 2, 0], dtype=torch.float64)
ONLY_INFINITY = (
    "If experts of other nodes got a score such as 0 or -1000, or less than they had: scores may "
    "be below that. Only -inf is less than every score"
)
AT_MOST = "a token gets `most` nodes, not all that count as much as the last one of these"
LEARNS = "the router learns through the weights: they have to stay in autograd's graph"


def need_gradient(answer):
    """Yield a line if the weights have the right gradient; raise `Wrong` if not."""
    got = call_next_to_answer(gradient_through_weights, answer)
    if got is None:
        raise Wrong("its gradient", "the weights have no gradient", LEARNS)
    scores, slope = scores_and_slope()
    experts = torch.tensor(experts_of(scores.detach(), 2, 4, 2))
    (wanted,) = torch.autograd.grad(
        (scores.softmax(-1).gather(-1, experts) * slope).sum(), [scores]
    )
    if not close(got, wanted):
        raise Wrong("its gradient", "the weights are right, their gradient is not", LEARNS)
    yield "the weights have the gradient of a softmax over all experts"


def need_few_nodes(answer):
    """Yield a line if equal nodes do not become too many; raise `Wrong` if they do."""
    for of_token in call_next_to_answer(route_equal_nodes, answer):
        nodes = {e // 2 for e in of_token}
        if len(nodes) > 2 or len(set(of_token)) < 4:
            what = f"a token gets the experts {of_token}, expected all of 2 nodes with 2 experts"
            raise Wrong("nodes that count equally", what, AT_MOST)
    yield "of nodes that count equally, a token gets `most`"


def need_all(answer):
    yield from need_few_nodes(answer)
    yield from need_gradient(answer)


SMALLEST_IN_IT = torch.tensor(  # the smallest score is on a chosen node, whose experts all count
    [[9, -9, -5, -6, -4, -8, -7, -7.5], [-7, -7.5, -4, -8, -5, -6, 9, -9]], dtype=torch.float64
)
FAR_APART = torch.tensor([[4000, -9000, 100, 200], [100, 200, 4000, -9000]], dtype=torch.float64)

CASES = {
    "24 experts on 3 nodes, 6 for each token, on 2 nodes": [(scores_of(20, 8, 24), 6, 3, 2)],
    "8 experts on 4 nodes, 2 for each token, on 2 nodes": [(scores_of(0, 8, 8), 2, 4, 2)],
    "8 experts on 2 nodes, 3 for each token, on 1 node": [(scores_of(1, 6, 8), 3, 2, 1)],
    "12 experts on 3 nodes, 3 for each token, on 2 nodes": [(scores_of(2, 12, 12), 3, 3, 2)],
    "12 experts on 6 nodes, 4 for each token, on 3 nodes": [(scores_of(9, 9, 12), 4, 6, 3)],
    "8 experts on 4 nodes, 2 for each token, on 3 nodes": [(scores_of(3, 8, 8), 2, 4, 3)],
    "as many nodes as there are": [(scores_of(4, 5, 6), 3, 3, 3)],
    "an expert on each node": [(scores_of(5, 6, 4), 2, 4, 2)],
    "all scores far below 0": [(scores_of(6, 6, 8) - 20, 2, 4, 2)],
    "scores in the thousands": [(scores_of(6, 6, 8) + 1000, 2, 4, 2)],
    "scores of minus thousands": [(scores_of(6, 6, 8) - 5000, 2, 4, 2)],
    "scores thousands apart": [(FAR_APART, 2, 2, 1)],
    "all experts of 2 nodes": [(SMALLEST_IN_IT, 4, 4, 2)],
    "no tokens": [(scores_of(6, 0, 8), 2, 4, 2)],
    "a bias decides": [(scores_of(7, 9, 8), 2, 4, 2, BIAS)],
    "a bias, on 1 node": [(scores_of(8, 9, 8), 2, 4, 1, BIAS / 3)],
}


def diagnose_outside(found, case):
    """Return the diagnosis of experts on too many nodes, or "" if there are none."""
    scores, _, nodes, most, *_ = CASES[case][0]
    size = scores.shape[-1] // nodes
    weights, experts = found[case][0]
    if any(weight != weight for of_token in weights for weight in of_token):
        return "exp of a large score is infinite: a softmax subtracts the largest score first"
    if any(len({e // size for e in of_token}) > most for of_token in experts):
        return f"a token has experts on more than `most` nodes. {ONLY_INFINITY}"
    return ONLY_INFINITY if scores.max() < -5 else ""


def describe_first_token(calls, values) -> str:
    experts = values[0][1]
    return f"experts {text_of(experts[0])} for the first token" if experts else "no experts"


EXERCISE = Formula(
    "route_within_nodes",
    lab="expert_nodes",
    cases=CASES,
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    explain=diagnose_outside,
    whole="the numbers of experts are indices: whole numbers",
    right=describe_first_token,
    also=need_all,
    asked="two tensors, weights and experts",
    errors={
        "non-empty TensorList": "there may be no tokens: both results have the shape (0, k) then",
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
