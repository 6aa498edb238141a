"""What is right, and what mistakes give."""

import torch


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


MISTAKES = [
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
]  # fmt: skip
