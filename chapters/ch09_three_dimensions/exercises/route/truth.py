"""The right results, and the results of known mistakes."""

import torch


def truth(scores, k, bias=None):
    """Return weights and experts, found token by token in plain Python."""
    weights, experts = [], []
    for of_token in scores.tolist():
        added = [0.0] * len(of_token) if bias is None else bias.tolist()
        ranked = sorted(range(len(of_token)), key=lambda e: -(of_token[e] + added[e]))[:k]
        powers = torch.tensor([s - max(of_token) for s in of_token], dtype=torch.float64).exp()
        weights.append([(powers[e] / powers.sum()).item() for e in ranked])
        experts.append(ranked)
    return weights, experts


def choose_experts(scores, k, bias):
    return (scores if bias is None else scores + bias).topk(k, dim=-1).indices


def bias_weights(scores, k, bias=None):
    experts = choose_experts(scores, k, bias)
    ranked = scores if bias is None else scores + bias
    return ranked.softmax(-1).gather(-1, experts), experts


def no_bias(scores, k, bias=None):
    return bias_weights(scores, k)


def softmax_top_k(scores, k, bias=None):
    experts = choose_experts(scores, k, bias)
    return scores.gather(-1, experts).softmax(-1), experts


def plain_scores(scores, k, bias=None):
    experts = choose_experts(scores, k, bias)
    return scores.gather(-1, experts), experts


def return_top_scores(scores, k, bias=None):
    return tuple((scores if bias is None else scores + bias).topk(k, dim=-1))


def softmax_over_tokens(scores, k, bias=None):
    experts = choose_experts(scores, k, bias)
    return scores.softmax(0).gather(-1, experts), experts


def bias_probabilities(scores, k, bias=None):
    """Add the bias to the probabilities instead of the scores."""
    probabilities = scores.softmax(-1)
    experts = (probabilities if bias is None else probabilities + bias).topk(k, dim=-1).indices
    return probabilities.gather(-1, experts), experts


def smallest(scores, k, bias=None):
    experts = (-(scores if bias is None else scores + bias)).topk(k, dim=-1).indices
    return scores.softmax(-1).gather(-1, experts), experts


def sort_experts(scores, k, bias=None):
    experts = choose_experts(scores, k, bias).sort(-1).values
    return scores.softmax(-1).gather(-1, experts), experts


def best_alone(scores, k, bias=None):
    weights, experts = truth(scores, 1, bias)
    return weights, experts


def other_way_round(scores, k, bias=None):
    return truth(scores, k, bias)[::-1]


MISTAKES = [
    ("with a bias, other experts are chosen. The weights do not know of it: softmax of the "
     "scores alone", bias_weights),
    ("the bias is not looked at: it is added to the scores before the best ones are chosen",
     no_bias),
    ("the softmax is over all experts, not over the chosen ones alone; so a token's weights "
     "need not add up to 1", softmax_top_k),
    ("these are scores; a weight is a probability, a softmax of them", plain_scores),
    ("these are scores; a weight is a probability, a softmax of them", return_top_scores),
    ("this softmax is over the tokens. Each token has probabilities of its own: over the last "
     "dimension", softmax_over_tokens),
    ("the bias is added to the scores, not to probabilities", bias_probabilities),
    ("these are the worst experts", smallest),
    ("the best expert comes first, not the one with the smallest number", sort_experts),
    ("each token gets k experts, and not one alone", best_alone),
    ("first the weights, then the experts: these are the other way round", other_way_round),
]  # fmt: skip
