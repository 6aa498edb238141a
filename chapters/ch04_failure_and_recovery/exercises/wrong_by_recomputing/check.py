"""The ranks that compute wrong gradients, found because two ranks compute each batch."""

from coursekit.kit import RankCase, RankExercise, World, complains

from ..differing_replicas.truth import DTYPE
from .cases import GROUP_OF_3, recompute
from .truth import explain, faults, need_few_bytes

EXERCISE = RankExercise(
    "wrong_by_recomputing",
    lab="finding_out",
    cases=[
        RankCase(World(4), ("order", None), ", all are right"),
        RankCase(World(4), ("order", 1), ", rank 1 is wrong"),
        RankCase(World(4), ("order", 0), ", rank 0 is wrong"),
        RankCase(World(4), ("order", 3), ", rank 3 is wrong"),
        RankCase(World(3), ("sign", 2), ", rank 2 is wrong"),
        RankCase(World(3), ("sign", 0), ", rank 0 is wrong"),
        RankCase(World(4), ("bit", 2), ", one bit is wrong on rank 2"),
        RankCase(World(3), ("NaN", None), ", the same NaN in all"),
        RankCase(GROUP_OF_3, ("order", 1), ", its second is wrong"),
    ],
    work=recompute,
    found=lambda case: ("rank", "asked_for"),
    facts=[complains(faults), need_few_bytes],
    right=lambda trial: f"{trial.case.args[1]}",
    explain=explain,
    errors={
        "list index out of range": "there are ranks 0 to n - 1: the next of the last one is rank "
        "0, (rank + 1) % n",
        "same dtype": DTYPE,
        "different dtypes": DTYPE,
        "without overflow": "a checksum has 63 bits: only an int64 has room for it",
    },
    hints=(
        "Which two ranks compute batch k? If one of them is wrong, which batches do two ranks "
        "disagree about?",
        "Batch k is computed by ranks k and k - 1. Rank r is wrong if there is disagreement about "
        "batch r and about batch (r + 1) % n.",
        "mine = torch.tensor([checksum(gradients_of(rank)), checksum(gradients_of(next))]); after "
        "an all-gather, compare sums[k][0] with sums[k - 1][1]. In Python, sums[-1] is the last.",
    ),
)  # fmt: skip
