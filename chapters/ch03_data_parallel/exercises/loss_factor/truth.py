"""The right results, and the results of known mistakes."""

from .cases import weight_of_a_sample


def factor(samples, all_samples, n) -> float:
    return weight_of_a_sample(all_samples) / weight_of_a_sample(samples, n)


MISTAKES = [
    ("each rank counts the same here: a sample on a rank with few of them then counts more "
     "than the others.", lambda s, total, n: 1),
    ("these are the shares, so the gradient is n times too small: DDP divides the sum of the "
     "gradients by n once more.", lambda s, total, n: s / total),
    ("upside down: more samples have to count more.", lambda s, total, n: total / s),
    ("upside down: a rank with more samples than the mean has to count more than 1.",
     lambda s, total, n: total / n / s),
    ("upside down, and n is on the wrong side.", lambda s, total, n: n * total / s),
    ("this undoes the division by the number of samples the wrong way: a mean loss has been "
     "divided by `samples`, so multiply by it.", lambda s, total, n: 1 / s),
    ("these lead to the sum over all samples, divided by n: divide by how many samples there "
     "are.", lambda s, total, n: s),
    ("these lead to the sum over all samples, not the mean: divide by how many they are.",
     lambda s, total, n: n * s),
    ("n undoes the division by n; each rank still counts the same: how many samples has it?",
     lambda s, total, n: n),
    ("this is the same on every rank: a rank with more samples has to count more.",
     lambda s, total, n: n / total),
    ("this is the same on every rank, and n times too small: a rank with more samples has to "
     "count more.", lambda s, total, n: 1 / total),
    ("DDP divides by n already; and a rank with more samples has to count more.",
     lambda s, total, n: 1 / n),
    ("DDP divides by n already: undo that, do not do it twice.",
     lambda s, total, n: s / total / n),
    ("you compare with the number of ranks: what part of all samples has this rank?",
     lambda s, total, n: s / n),
    ("// cuts the fraction off; / keeps it.", lambda s, total, n: n * s // total),
    ("// cuts the fraction off, from what part of all samples a rank has; / keeps it.",
     lambda s, total, n: s // total * n),
    ("the mean number of samples need not be whole: // cuts its fraction off; / keeps it.",
     lambda s, total, n: s / (total // n)),
    ("the two factors of the example are written in: compute them.",
     lambda s, total, n: 1.5 if s > total / n else 0.5),
    ("the difference to the mean is no factor: how many times as many samples as the mean has "
     "this rank?", lambda s, total, n: s - total / n),
]  # fmt: skip
