"""The right results, and the results of known mistakes."""

from itertools import combinations, pairwise


def truth(predicted, measured):
    right, pairs = 0, 0
    for i, j in combinations(range(len(predicted)), 2):
        pairs += 1
        right += (predicted[i] < predicted[j]) == (measured[i] < measured[j])
    return right / pairs


def places(times):
    return [sorted(times).index(t) for t in times]


def neighbours(predicted, measured):
    told = list(pairwise(sorted(range(len(predicted)), key=predicted.__getitem__)))
    return sum(measured[i] < measured[j] for i, j in told) / len(told)


def compare_one_plan(which):
    """Return a function that compares only the pairs of one plan."""

    def mistaken(predicted, measured):
        i, n = which(predicted), len(predicted)
        pairs = [(i, j) for j in range(n) if j != i]
        right = sum((predicted[i] < predicted[j]) == (measured[i] < measured[j]) for i, j in pairs)
        return right / len(pairs)

    return mistaken


def correlation(predicted, measured):
    n, (x, y) = len(predicted), (predicted, measured)
    x, y = ([v - sum(values) / n for v in values] for values in (x, y))
    return sum(a * b for a, b in zip(x, y)) / (sum(a * a for a in x) * sum(b * b for b in y)) ** 0.5


MISTAKES = [
    (
        "this counts the plans that are in their place. One plan that is far off moves all "
        "others, though their order is right: compare pairs.",
        lambda p, m: sum(a == b for a, b in zip(places(p), places(m))) / len(p),
    ),
    (
        "this compares neighbours alone. Every pair counts.",
        neighbours,
    ),
    (
        "this compares neighbours of the lists. Every pair counts.",
        lambda p, m: sum(
            (p[i] < p[i + 1]) == (m[i] < m[i + 1]) for i in range(len(p) - 1)
        ) / (len(p) - 1),
    ),
    (
        "this is how many pairs are right; asked is their share of all pairs.",
        lambda p, m: truth(p, m) * len(p) * (len(p) - 1) / 2,
    ),
    (
        "this is the share of pairs in the wrong order.",
        lambda p, m: 1 - truth(p, m),
    ),
    (
        "this is Kendall's coefficient: right pairs less wrong ones. Asked is the share of "
        "right ones.",
        lambda p, m: 2 * truth(p, m) - 1,
    ),
    (
        "this divides by the square of the number of plans. A plan makes no pair with itself, "
        "and two plans make one.",
        lambda p, m: truth(p, m) * (len(p) - 1) / 2 / len(p),
    ),
    (
        "this divides by twice as many pairs as there are: n plans make n (n - 1) / 2.",
        lambda p, m: truth(p, m) / 2,
    ),
    (
        "this divides by too many pairs: n plans make n (n - 1) / 2.",
        lambda p, m: truth(p, m) * (len(p) - 1) / (len(p) + 1),
    ),
    (
        "this divides by the number of plans; asked is a share of all pairs.",
        lambda p, m: truth(p, m) * (len(p) - 1) / 2,
    ),
    (
        "each list is sorted on its own, and the n-th times no longer belong to one plan.",
        lambda p, m: truth(sorted(p), sorted(m)),
    ),
    (
        "if the second plan of a pair is the faster one, in both lists, the pair is in order, "
        "too.",
        lambda p, m: (
            sum(p[i] < p[j] and m[i] < m[j] for i, j in combinations(range(len(p)), 2))
            / (len(p) * (len(p) - 1) / 2)
        ),
    ),
    (
        "this looks at the pairs of the first plan alone. Every pair counts.",
        compare_one_plan(lambda predicted: 0),
    ),
    (
        "this looks at the pairs of one plan alone, the one predicted to be the fastest. Every "
        "pair counts.",
        compare_one_plan(lambda predicted: predicted.index(min(predicted))),
    ),
    (
        "this looks at the first pair alone. Every pair counts.",
        lambda p, m: truth(p[:2], m[:2]),
    ),
    (
        "this is a correlation. Asked is the share of pairs that are in order.",
        correlation,
    ),
    (
        "this is a correlation. Asked is the share of pairs that are in order.",
        lambda p, m: correlation(places(p), places(m)),
    ),
    (
        "each pair counts once: this has every plan beside itself among the pairs.",
        lambda p, m: (truth(p, m) * len(p) * (len(p) - 1) + len(p)) / len(p) ** 2,
    ),
]  # fmt: skip
