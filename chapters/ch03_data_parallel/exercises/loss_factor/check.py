"""The factor of the mean loss of a rank's share."""

from coursekit.kit import Formula

from .cases import weight_of_a_sample
from .truth import MISTAKES, factor

# The number of samples on each rank
SHARES = [[5, 1, 4, 2], [4, 4, 4], [1, 7], [1, 9, 1, 1], [8, 8, 8, 5], [997, 2, 3002], [6]]


def differs(call, wanted, got) -> str:
    samples, all_samples, n = call
    return (
        f"on a rank with {samples} of {all_samples} samples, the factor {got:.6g} makes each of "
        f"them count {got * weight_of_a_sample(samples, n):.6g} in DDP's average; in the mean over "
        f"all it counts {weight_of_a_sample(all_samples):.6g}"
    )


EXERCISE = Formula(
    "loss_factor",
    cases={
        f"ranks with {' '.join(map(str, sizes))} samples":
            [(samples, sum(sizes), len(sizes)) for samples in sizes] for sizes in SHARES
    },
    truth=factor,
    right=lambda calls, values: f"the gradient of the mean over all {calls[0][1]}",
    differs=differs,
    mistakes=MISTAKES,
    hints=(
        "Exercise {{shares}} again: by how much does each mean have to count, if they are added "
        "up?",
        "DDP does not stop at adding up: it divides by n, too. What has to be undone?",
        "samples times the mean loss is the sum over this rank's samples. Divide by all_samples, "
        "and multiply by what DDP divides by.",
    ),
)  # fmt: skip
