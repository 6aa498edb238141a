"""The right results, and the results of known mistakes."""

from functools import partial
from math import ceil, exp

from coursekit.kit.tables import tabulate

from .cases import scores_and_slope


def best(numbers, count) -> list[int]:
    """Return the places of the largest numbers, the largest first."""
    return sorted(range(len(numbers)), key=lambda place: -numbers[place])[:count]


def softmax(numbers) -> list[float]:
    powers = [exp(x - max(numbers)) for x in numbers]
    return [power / sum(powers) for power in powers]


def truth(
    scores, k, nodes, most, bias=None, count=lambda k, most, size: ceil(k / most),
    node_of=lambda e, size, nodes: e // size, ranks_nodes=lambda own, added, p: added,
    ranks_experts=lambda own, added: added, weighs=lambda own, added, allowed, chosen: softmax(own),
    per_node=False, arranged=lambda chosen, own: chosen,
):  # fmt: skip
    """Return weights and experts, token by token in plain Python; the options make mistakes."""
    all_weights, all_experts = [], []
    for own in scores.tolist():
        n, size = len(own), len(own) // nodes
        extra = [0.0] * n if bias is None else bias.tolist()
        added = [x + y for x, y in zip(own, extra)]
        on = [[e for e in range(n) if node_of(e, size, nodes) == node] for node in range(nodes)]
        ranked = ranks_nodes(own, added, softmax(own))
        counted = max(0, min(count(k, most, size), size))
        of_node = [sum(sorted((ranked[e] for e in of), reverse=True)[:counted]) for of in on]
        chosen_nodes = best(of_node, most)
        allowed = [e for node in chosen_nodes for e in on[node]]
        by = ranks_experts(own, added)
        if per_node:  # equally many on each node: k of the best nodes, or the k best of them
            some, of_each = [], ceil(k / most)
            for node in chosen_nodes:
                some += sorted(on[node], key=lambda e: -by[e])[:of_each]
            some = some[:k] if per_node == "best nodes" else some
            chosen = sorted(some, key=lambda e: -by[e])[:k]
        else:
            chosen = sorted(allowed, key=lambda e: -by[e])[:k]
        chosen = arranged(chosen, own)
        weights = weighs(own, added, allowed, chosen)
        all_weights.append([weights[e] for e in chosen])
        all_experts.append(chosen)
    return all_weights, all_experts


@tabulate(lambda: [(scores_and_slope()[0].detach(), 2, 4, 2)])
def experts_of(scores, k, nodes, most) -> list[list[int]]:
    """Return the right experts of the call whose gradient is compared."""
    return truth(scores, k, nodes, most)[1]


def over(places, own) -> list[float]:
    """Return the softmax over some places, at all places."""
    share = dict(zip(places, softmax([own[place] for place in places])))
    return [share.get(place, 0.0) for place in range(len(own))]


def no_limit(scores, k, nodes, most, bias=None):
    return truth(scores, k, nodes, nodes, bias)


def swapped(*args):
    return truth(*args)[::-1]


def swapped_sizes(scores, k, nodes, most, bias=None):
    return truth(scores, k, scores.shape[-1] // nodes, most, bias)


def at_experts(scores, experts):
    """Return the weights of chosen experts, and these experts."""
    return [[softmax(own)[e] for e in of] for own, of in zip(scores.tolist(), experts)], experts


def same_for_all(scores, k, nodes, most, bias=None, tokens=None):
    """Choose the nodes once for all tokens, by the sums of some of them."""
    added, size = scores if bias is None else scores + bias, scores.shape[-1] // nodes
    sums = added.unflatten(-1, (nodes, -1)).sort(-1, descending=True).values[..., : ceil(k / most)]
    places = best(sums[:tokens].sum((0, 2)).tolist(), most)
    near = [e for e in range(scores.shape[-1]) if e // size in places]
    return at_experts(scores, [sorted(near, key=lambda e: -row[e])[:k] for row in added.tolist()])


def inside_node(scores, k, nodes, most, bias=None):
    weights, experts = truth(scores, k, nodes, most, bias)
    return weights, [[e % (scores.shape[-1] // nodes) for e in of] for of in experts]


def sigmoids(own, added, *_):
    return [1 / (1 + exp(-max(x, -700))) + y - x for x, y in zip(own, added)]


MISTAKES = [
    ("these are the best experts of all nodes: a token's experts may be on `most` nodes at most",
     no_limit),
    ("a node counts by its best score alone, as if the best experts were taken one after another "
     "until `most` nodes are used. Choose the nodes first, by their sums of ceil(k / most) scores: "
     "a token may take several experts of a node", partial(truth, count=lambda k, m, s: 1)),
    ("a node counts by its two best scores, whatever k is: its ceil(k / most) best ones count",
     partial(truth, count=lambda k, most, size: 2)),
    ("a node counts by all of its scores. Those that no token would choose say nothing: the sum is "
     "over its ceil(k / most) best ones", partial(truth, count=lambda k, most, size: size)),
    ("k / most is rounded down: with k = 3 on 2 nodes, the two best scores of a node count",
     partial(truth, count=lambda k, most, size: max(1, k // most))),
    ("a node counts by its k best scores. A token takes k / most of a node, if it takes equally "
     "many of each: rounded up, so many count", partial(truth, count=lambda k, most, size: k)),
    ("the bias is not looked at where nodes are chosen: it is added to the scores before both "
     "choices", partial(truth, ranks_nodes=lambda own, added, p: own)),
    ("the bias is not looked at where a token's experts are chosen among those of its nodes",
     partial(truth, ranks_experts=lambda own, added: own)),
    ("the bias is not looked at: it is added to the scores before nodes and experts are chosen",
     partial(truth, ranks_nodes=lambda own, added, p: own, ranks_experts=lambda own, added: own)),
    ("with a bias, other nodes and experts are chosen. The weights do not know of it: softmax of "
     "the scores alone", partial(truth, weighs=lambda own, added, *_: softmax(added))),
    ("the softmax is over all experts, not over those of the chosen nodes alone",
     partial(truth, weighs=lambda own, added, allowed, chosen: over(allowed, own))),
    ("the softmax is over all experts, not over the chosen ones alone",
     partial(truth, weighs=lambda own, added, allowed, chosen: over(chosen, own))),
    ("expert e is taken to be on node e % nodes. The first node has the first n / nodes experts",
     partial(truth, node_of=lambda e, size, nodes: e % nodes)),
    ("there are `nodes` nodes, of n / nodes experts each: here it is the other way round",
     swapped_sizes),
    ("each node gives equally many experts. The token's experts are the best ones of its nodes, "
     "from whichever of them", partial(truth, per_node="best nodes")),
    ("each node gives ceil(k / most) experts at most. The token's experts are the best ones of its "
     "nodes, from whichever of them", partial(truth, per_node="best of them")),
    ("all tokens get the same nodes; each token has its own", same_for_all),
    ("all tokens get the nodes of the first one; each token has its own",
     partial(same_for_all, tokens=1)),
    ("these are numbers of experts inside their nodes: number e of node j is expert "
     "j * n / nodes + e", inside_node),
    ("the scores are compared as sigmoids, as in DeepSeek-V3. Here they are compared as they are, "
     "with the bias", partial(truth, ranks_nodes=sigmoids, ranks_experts=sigmoids)),
    ("the bias is added twice where experts are chosen", partial(
        truth, ranks_experts=lambda own, added: [2 * y - x for x, y in zip(own, added)])),
    ("the experts are right, their order is not: the one with the largest score and bias is first",
     partial(truth, arranged=lambda chosen, own: sorted(chosen, key=lambda e: -own[e]))),
    ("the best expert comes first, not the worst",
     partial(truth, arranged=lambda chosen, own: chosen[::-1])),
    ("a node counts by sums of probabilities; asked are sums of scores, with the bias",
     partial(truth, ranks_nodes=lambda own, added, p: p)),
    ("a node counts by sums of probabilities of scores with the bias; asked are sums of the scores "
     "themselves, with the bias", partial(truth, ranks_nodes=lambda own, added, p: softmax(added))),
    ("the best expert comes first, not the one with the smallest number",
     partial(truth, arranged=lambda chosen, own: sorted(chosen))),
    ("first the weights, then the experts: these are the other way round", swapped),
]  # fmt: skip
