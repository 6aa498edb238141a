"""The right results, and the results of known mistakes."""

import torch

LIKE_THE_FIRST = (
    "another micro-batch has the factor of the first one, but not its size: each counts by its own"
)

LESS = "upside down: a larger micro-batch has to count more, not less"


def effects(sizes) -> list[float]:
    """Return the growth of the mean over all samples if one micro-batch's mean grows by one."""
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return [(owners == i).double().mean().item() for i in range(len(sizes))]


def each(factor):
    """Return a wrong function whose factors are `factor(size, all sizes)`."""
    return lambda sizes: [factor(size, sizes) for size in sizes]


def use_running_totals(factor):
    """Return a wrong function whose factors are `factor(size, samples so far, all samples)`."""
    return lambda sizes: [
        factor(size, sum(sizes[: i + 1]), sum(sizes)) for i, size in enumerate(sizes)
    ]


MISTAKES = [
    ("each micro-batch counts the same here: a sample of the small one then counts more than a "
     "sample of the others", each(lambda size, sizes: 1 / len(sizes))),
    ("each is as many times too large as there are micro-batches: you compare with their mean "
     "size; what is multiplied is added up, so compare with all samples",
     each(lambda size, sizes: len(sizes) * size / sum(sizes))),
    ("this is the factor of one sample; a micro-batch has several",
     each(lambda size, sizes: 1 / sum(sizes))),
    ("upside down: a share is a part, divided by all",
     each(lambda size, sizes: sum(sizes) / size)),
    ("these make the sum over all samples, not the mean: divide by how many they are",
     each(lambda size, sizes: size)),
    *((LESS, each(factor)) for factor in (
        lambda size, sizes: 1 / size,
        lambda size, sizes: 1 / size / sum(1 / other for other in sizes),
        lambda size, sizes: 1 - size / sum(sizes))),
    ("you compare with the largest micro-batch; compare with all samples",
     each(lambda size, sizes: size / max(sizes))),
    ("you compare with the first micro-batch; compare with all samples",
     each(lambda size, sizes: size / sizes[0])),
    ("these do not add up to 1: all micro-batches are taken to be as large as the largest",
     each(lambda size, sizes: size / (len(sizes) * max(sizes)))),
    ("these do not add up to 1: all micro-batches are taken to be as large as the first",
     each(lambda size, sizes: size / (len(sizes) * sizes[0]))),
    (LIKE_THE_FIRST, lambda sizes: [sizes[0] / sum(sizes)] * len(sizes)),
    (LIKE_THE_FIRST, lambda sizes: [sizes[0] / sum(sizes)] * (len(sizes) - 1)
     + [sizes[-1] / sum(sizes)]),
    ("each is divided by what has been seen until then; all are divided by the same number, "
     "that of all samples", use_running_totals(lambda size, seen, total: size / seen)),
    ("each share contains those before it: a share has the samples of one micro-batch alone",
     use_running_totals(lambda size, seen, total: seen / total)),
    ("// cuts the fraction off; / keeps it", each(lambda size, sizes: size // sum(sizes))),
    ("these count micro-batches, not samples; how many samples are there in all?",
     each(lambda size, sizes: size / len(sizes))),
]  # fmt: skip
