"""How much the mean of each micro-batch counts."""

import torch

from ...basics.closeness import close
from ..kit import Formula
from ..kit.values import equal

SIZES = ([2, 1, 4, 1, 6], [8, 8, 8, 8], [8, 8, 8, 5], [5], [1, 7])
LIKE_THE_FIRST = (
    "another micro-batch has the factor of the first one, but not its size: each counts by its own"
)
LESS = "upside down: a larger micro-batch has to count more, not less"
FACTORS = "one factor for each micro-batch: a list"
IN_FLOAT32 = (
    "right to seven digits: a tensor of Python's numbers is float32, and loses the others. Use "
    "Python's numbers, or float64"
)


def effects(sizes) -> list[float]:
    """By how much the mean over all samples grows if one micro-batch's mean grows by one."""
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return [(owners == i).double().mean().item() for i in range(len(sizes))]


def same(got, wanted) -> bool:
    """Equal but for the rounding of float64: losses in float64 are multiplied by these."""
    if not equal(got, wanted):
        return False
    numbers = got if isinstance(got, list) else [got]
    return close(list(map(float, numbers)), wanted if isinstance(wanted, list) else [wanted])


def each(factor):
    """A wrong function, from one of a size and all sizes."""
    return lambda sizes: [factor(size, sizes) for size in sizes]


def until_then(factor):
    """The same, from one of a size, the samples up to there, and all samples."""
    return lambda sizes: [
        factor(size, sum(sizes[: i + 1]), sum(sizes)) for i, size in enumerate(sizes)
    ]


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"expected {len(wanted)} numbers, got {len(got)}"
    at = next(i for i in range(len(wanted)) if not EXERCISE.same(got[i], wanted[i]))
    return f"the factor of micro-batch {at}: expected {wanted[at]:.10g}, got {got[at]:.10g}"


def other_length_or_float32(found, case) -> str:
    (sizes,) = EXERCISE.cases[case][0]
    if len(found[case][0]) != len(sizes):
        return FACTORS
    return IN_FLOAT32 if equal(found[case][0], EXERCISE.truth(sizes)) else ""


EXERCISE = Formula(
    "1.3",
    "shares",
    cases={f"micro-batches of {sizes}": [(sizes,)] for sizes in SIZES},
    truth=effects,
    told=lambda calls, values: f"the mean over all {sum(calls[0][0])}",
    differs=differs,
    shape=FACTORS,
    same=same,
    explain=other_length_or_float32,
    mistakes=[
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
         "that of all samples", until_then(lambda size, seen, total: size / seen)),
        ("each share contains those before it: a share has the samples of one micro-batch alone",
         until_then(lambda size, seen, total: seen / total)),
        ("// cuts the fraction off; / keeps it", each(lambda size, sizes: size // sum(sizes))),
        ("these count micro-batches, not samples; how many samples are there in all?",
         each(lambda size, sizes: size / len(sizes))),
    ],
    hints=(
        "Multiplying a mean by the number of its samples gives back their sum.",
        "Sum those, and divide by the number of all samples: what stands before each mean?",
    ),
)  # fmt: skip
