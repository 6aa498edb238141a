"""What the mean loss of a rank's share is worth."""

import torch

from ..kit import Formula

# How many samples each rank has
SHARES = [[5, 1, 4, 2], [4, 4, 4], [1, 7], [1, 9, 1, 1], [8, 8, 8, 5], [997, 2, 3002], [6]]


def weight_of_a_sample(samples, n=1) -> float:
    """How much one sample counts in a mean over so many, if n ranks average their gradients."""
    losses = torch.ones(samples, dtype=torch.float64, requires_grad=True)
    (losses.mean() / n).backward()
    return losses.grad[0].item()


def factor(samples, all_samples, n) -> float:
    return weight_of_a_sample(all_samples) / weight_of_a_sample(samples, n)


def differs(call, wanted, got) -> str:
    samples, all_samples, n = call
    return (
        f"on a rank with {samples} of {all_samples} samples, the factor {got:.6g} makes each of "
        f"them count {got * weight_of_a_sample(samples, n):.6g} in DDP's average; in the mean over "
        f"all it counts {weight_of_a_sample(all_samples):.6g}"
    )


EXERCISE = Formula(
    "3.1",
    "loss_factor",
    cases={
        f"ranks with {' '.join(map(str, sizes))} samples":
            [(samples, sum(sizes), len(sizes)) for samples in sizes] for sizes in SHARES
    },
    truth=factor,
    told=lambda calls, values: f"the gradient of the mean over all {calls[0][1]}",
    differs=differs,
    mistakes=[
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
    ],
    hints=(
        "Exercise 1.3 again: by how much does each mean have to count, if they are added up?",
        "DDP does not stop at adding up: it divides by n, too. What has to be undone?",
        "samples times the mean loss is the sum over this rank's samples. Divide by all_samples, "
        "and multiply by what DDP divides by.",
    ),
)  # fmt: skip
