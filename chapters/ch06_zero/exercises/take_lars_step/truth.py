"""The right results, and the results of known mistakes."""

import math

from coursekit.kit import Wrong

from .cases import layers_of, part_of


def norm(numbers) -> float:
    return math.sqrt(math.fsum(x * x for x in numbers.tolist()))


def ratio(weight, gradient) -> float:
    return weight / gradient if weight > 0 and gradient > 0 else 1.0


def step_with(trial, place, find_ratio, sign=-1):
    """Return this place's weights after a step.

    find_ratio  takes the parts of a layer's weights and of its gradients, place by place
    """
    rate, count = trial.case.args
    found = []
    for whole, slopes in zip(layers_of(0, count), layers_of(1, count)):
        pairs = [[part_of(x, k, trial.n) for k in range(trial.n)] for x in (whole, slopes)]
        step = rate * find_ratio(*pairs) * pairs[1][place]
        found.append(pairs[0][place] + sign * step)
    return found


def squares(parts) -> float:
    return math.fsum(norm(part) ** 2 for part in parts)


def right(trial, place):
    return step_with(trial, place, lambda w, g: ratio(squares(w) ** 0.5, squares(g) ** 0.5))


def mistakes(trial, place):
    count = trial.case.args[1]
    before = [part_of(layer, place, trial.n) for layer in layers_of(0, count)]
    rate = trial.case.args[0]
    of_first = ratio(*(norm(layers_of(seed, count)[0]) for seed in (0, 1)))
    of_all = ratio(*(squares(layers_of(seed, count)) ** 0.5 for seed in (0, 1)))

    def wrong(find_ratio, sign=-1):
        return step_with(trial, place, find_ratio, sign)

    own = (
        "each rank takes its own ratio, from the norms of the numbers that it holds. The layer has "
        "one ratio, from the norms of all its numbers on all ranks"
    )
    if trial.calls[place]:
        own += ". all_reduce puts the sums into the very tensor that it is given: use that one"
    return {
        own: wrong(lambda w, g: ratio(norm(w[place]), norm(g[place]))),
        "norms of parts do not add up: their squares do. Sum the squares over the ranks, and take "
        "the root once": wrong(lambda w, g: ratio(sum(map(norm, w)), sum(map(norm, g)))),
        "this is the ratio of the squares: take the root of both sums":
            wrong(lambda w, g: ratio(squares(w), squares(g))),
        "the ratio is the other way round: norm of the weights by norm of the gradients":
            wrong(lambda w, g: ratio(squares(g) ** 0.5, squares(w) ** 0.5)),
        "the norm of the weights is this rank's own. It has to be summed over the ranks, like that "
        "of the gradients": wrong(lambda w, g: ratio(norm(w[place]), squares(g) ** 0.5)),
        "the norm of the gradients is this rank's own. It has to be summed over the ranks, like "
        "that of the weights": wrong(lambda w, g: ratio(squares(w) ** 0.5, norm(g[place]))),
        "this is the mean of the ranks' ratios. Sum the squares first, and divide then":
            wrong(lambda w, g: sum(ratio(norm(a), norm(b)) for a, b in zip(w, g)) / trial.n),
        "all layers have the same ratio here, from the norms of all weights and all gradients. "
        "Each layer has its own": wrong(lambda w, g: of_all),
        "this is the ratio of the first layer for all layers": wrong(lambda w, g: of_first),
        "this is the largest norm that a rank has. The layer's is the root of the sum of all "
        "squares": wrong(lambda w, g: ratio(max(map(norm, w)), max(map(norm, g)))),
        "these are sums of absolute values: a norm is the root of a sum of squares":
            wrong(lambda w, g: ratio(*(sum(float(x.abs().sum()) for x in of) for of in (w, g)))),
        "the rate is missing": wrong(
            lambda w, g: ratio(squares(w) ** 0.5, squares(g) ** 0.5) / rate),
        "something is added to the norm of the gradients. Where both norms are positive, the ratio "
        "is that of the norms": wrong(
            lambda w, g: ratio(squares(w) ** 0.5, squares(g) ** 0.5 + 1e-8 * (squares(g) > 0))),
        "whether the ratio is 1 depends on the rank's own numbers. It is 1 if a norm of the whole "
        "layer is 0": wrong(
            lambda w, g: ratio(squares(w) ** 0.5, squares(g) ** 0.5)
            if norm(w[place]) and norm(g[place]) else 1.0),
        "the step goes uphill: subtract it": wrong(
            lambda w, g: ratio(squares(w) ** 0.5, squares(g) ** 0.5), sign=1),
        "this is a step of plain SGD, without any ratio": wrong(lambda w, g: 1.0),
        "the ratio is right where both norms are positive. Otherwise it is 1, so that a layer that "
        "begins with zeros can move": wrong(
            lambda w, g: squares(w) ** 0.5 / squares(g) ** 0.5 if squares(g) > 0 else 0.0),
        "the weights are as before: change them in place, w -= …; `w.data = …` gives w other "
        "memory": before,
    }  # fmt: skip


def one_call(trial):
    """Raise `Wrong` if a rank makes several calls, or sends more than two numbers per layer."""
    count = trial.case.args[1]
    for place, calls in enumerate(trial.calls):
        who, sent = trial.name_of_rank(place), sum(call.tensor_bytes for call in calls)
        if sent > 16 * count:
            what = f"the numbers are right, but {who} brings {sent} bytes for {count} layers"
            raise Wrong(f"cost, {trial.case}", what, TWO_NUMBERS)
        if len(calls) > 1:
            what = f"the numbers are right, but {who} makes {len(calls)} calls"
            raise Wrong(f"cost, {trial.case}", what, ONE_CALL)
    return ""


ONE_CALL = (
    "one all-reduce is enough for all layers, for weights and gradients: collect two sums of "
    "squares per layer in one tensor first. Each further call costs its latency again"
)
TWO_NUMBERS = (
    "two numbers per layer are enough, whatever its length: the sum of squares of the rank's "
    "weights, and that of its gradients"
)
NOT_FINITE = (
    "a layer of zeros has norm 0, and 0 / 0 is nan: where one of the norms is 0, the ratio is 1"
)
EMPTY = (
    "a rank may hold no number of a layer, or of any. Its sums of squares are 0, and it takes part "
    "in the all-reduce like every other"
)
