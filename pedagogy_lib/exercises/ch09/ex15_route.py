"""Which experts a token gets, and how much each counts."""

import torch

from ...basics.closeness import close
from ...course.checking import Wrong
from ...course.trying import there
from ..kit import Formula
from ..kit.values import text_of


def scores_of(seed, tokens, n) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, n, generator=chance, dtype=torch.float64)


def truth(scores, k, bias=None):
    """Token by token, in plain Python."""
    weights, experts = [], []
    for of_token in scores.tolist():
        added = [0.0] * len(of_token) if bias is None else bias.tolist()
        ranked = sorted(range(len(of_token)), key=lambda e: -(of_token[e] + added[e]))[:k]
        powers = torch.tensor([s - max(of_token) for s in of_token], dtype=torch.float64).exp()
        weights.append([(powers[e] / powers.sum()).item() for e in ranked])
        experts.append(ranked)
    return weights, experts


# ---- Mistakes: wrong functions ---


def chosen(scores, k, bias):
    return (scores if bias is None else scores + bias).topk(k, dim=-1).indices


def biased_weights(scores, k, bias=None):
    experts = chosen(scores, k, bias)
    ranked = scores if bias is None else scores + bias
    return ranked.softmax(-1).gather(-1, experts), experts


def no_bias(scores, k, bias=None):
    return biased_weights(scores, k)


def among_chosen(scores, k, bias=None):
    experts = chosen(scores, k, bias)
    return scores.gather(-1, experts).softmax(-1), experts


def plain_scores(scores, k, bias=None):
    experts = chosen(scores, k, bias)
    return scores.gather(-1, experts), experts


def ranked_scores(scores, k, bias=None):
    return tuple((scores if bias is None else scores + bias).topk(k, dim=-1))


def over_tokens(scores, k, bias=None):
    experts = chosen(scores, k, bias)
    return scores.softmax(0).gather(-1, experts), experts


def biased_probabilities(scores, k, bias=None):
    """The bias is added to the probabilities."""
    probabilities = scores.softmax(-1)
    experts = (probabilities if bias is None else probabilities + bias).topk(k, dim=-1).indices
    return probabilities.gather(-1, experts), experts


def smallest(scores, k, bias=None):
    experts = (-(scores if bias is None else scores + bias)).topk(k, dim=-1).indices
    return scores.softmax(-1).gather(-1, experts), experts


def in_order_of_numbers(scores, k, bias=None):
    experts = chosen(scores, k, bias).sort(-1).values
    return scores.softmax(-1).gather(-1, experts), experts


def best_alone(scores, k, bias=None):
    weights, experts = truth(scores, 1, bias)
    return weights, experts


def other_way_round(scores, k, bias=None):
    return truth(scores, k, bias)[::-1]


def differs(call, wanted, got) -> str:
    if len(got) != 2:
        return f"expected two tensors, got {text_of(got)}"
    for name, of_wanted, of_got in zip(("weights", "experts"), wanted, got):
        for token, pair in enumerate(zip(of_wanted, of_got)):
            if [round(x, 9) for x in pair[0]] != [round(x, 9) for x in pair[1]]:
                numbers = f"expected {text_of(pair[0])}, got {text_of(pair[1])}"
                return f"{name} of token {token}: {numbers}"
    return ""


def overflow(found, case):
    weights = found[case][0][0] if isinstance(found[case][0], list) else []
    if any(w != w for of_token in weights for w in of_token):
        return "exp of a large number is infinite: softmax subtracts the largest score first"
    return ""


SMALL_BIAS = torch.tensor([0.1, 0.0, -0.1], dtype=torch.float64)
LEARNS = "the router learns through the weights: they have to stay in autograd's graph"


def scores_and_slope(k) -> tuple[torch.Tensor, torch.Tensor]:
    return scores_of(5, 4, 3).requires_grad_(), scores_of(8, 4, k)


def gradient_through_weights(answer, k):
    """Beside the answer: the gradient of the scores; None if the weights have none."""
    scores, slope = scores_and_slope(k)
    weights, _ = answer(scores, k, SMALL_BIAS.clone())
    if not weights.requires_grad:
        return None
    return torch.autograd.grad((weights * slope).sum(), [scores])[0]


def need_gradient(answer):
    """The router learns through the weights alone: a choice has no gradient."""
    for k in (1, 2):
        got = there(gradient_through_weights, answer, k)
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
    "9.15",
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
    mistakes=[
        ("with a bias, other experts are chosen. The weights do not know of it: softmax of the "
         "scores alone", biased_weights),
        ("the bias is not looked at: it is added to the scores before the best ones are chosen",
         no_bias),
        ("the softmax is over all experts, not over the chosen ones alone; so a token's weights "
         "need not add up to 1", among_chosen),
        ("these are scores; a weight is a probability, a softmax of them", plain_scores),
        ("these are scores; a weight is a probability, a softmax of them", ranked_scores),
        ("this softmax is over the tokens. Each token has probabilities of its own: over the last "
         "dimension", over_tokens),
        ("the bias is added to the scores, not to probabilities", biased_probabilities),
        ("these are the worst experts", smallest),
        ("the best expert comes first, not the one with the smallest number", in_order_of_numbers),
        ("each token gets k experts, and not one alone", best_alone),
        ("first the weights, then the experts: these are the other way round", other_way_round),
    ],
    differs=differs,
    explain=overflow,
    whole="the numbers of experts are indices: whole numbers",
    told=lambda calls, values: f"experts {text_of(values[0][1][0])} for the first token",
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
