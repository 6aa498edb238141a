"""How much each micro-batch counts."""

import torch

from ..kit import Formula

SIZES = ([2, 1, 4, 1, 6], [8, 8, 8, 8], [8, 8, 8, 5], [5], [1, 7])


def effects(sizes):
    """By how much the mean over all samples grows if one micro-batch's mean grows by one."""
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return [(owners == i).double().mean().item() for i in range(len(sizes))]


EXERCISE = Formula(
    "1.3",
    "shares",
    cases={f"micro-batches of {sizes}": [(sizes,)] for sizes in SIZES},
    truth=effects,
    told=lambda calls, values: f"the mean over all {sum(calls[0][0])}",
    asked="a list with one factor for each micro-batch",
    shape="one factor for each micro-batch: a list",
    mistakes=[
        ("each micro-batch counts the same here: a sample of the small one then counts more than "
         "a sample of the others", lambda sizes: [1 / len(sizes)] * len(sizes)),
        ("they are too large by the number of micro-batches: you compare with their mean size; "
         "what is multiplied is added up, so compare with all samples",
         lambda sizes: [len(sizes) * size / sum(sizes) for size in sizes]),
        ("this is the factor of one sample; a micro-batch has several",
         lambda sizes: [1 / sum(sizes)] * len(sizes)),
        ("upside down: a share is a part, divided by all",
         lambda sizes: [sum(sizes) / size for size in sizes]),
        ("these make the sum over all samples, not the mean: divide by how many they are",
         lambda sizes: sizes),
        ("a larger micro-batch has to count more, not less",
         lambda sizes: [1 / size for size in sizes]),
        ("you compare with the largest micro-batch; compare with all samples",
         lambda sizes: [size / max(sizes) for size in sizes]),
        ("you compare with the first micro-batch; compare with all samples",
         lambda sizes: [size / sizes[0] for size in sizes]),
        ("// cuts the fraction off; / keeps it",
         lambda sizes: [size // sum(sizes) for size in sizes]),
        ("these count micro-batches, not samples; how many samples are there in all?",
         lambda sizes: [size / len(sizes) for size in sizes]),
        ("one factor is missing: also the last micro-batch has one",
         lambda sizes: effects(sizes)[:-1]),
    ],
    hints=(
        "Multiplying a mean by the number of its samples gives back their sum.",
        "Sum those, and divide by the number of all samples: what stands before each mean?",
    ),
)  # fmt: skip
