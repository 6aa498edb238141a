"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Wrong
from coursekit.kit.tables import tabulate

from .cases import CASES, SMALL, matrices_of

ROUNDS = 5


def right_rows(trial, place) -> list[torch.Tensor]:
    shapes, _ = trial.case.args
    return rows_of_results(shapes, trial.n, place)


@tabulate(lambda: [(SMALL, 2, 0)])
def rows_of_results(shapes, n, place) -> list[torch.Tensor]:
    """Return a rank's rows of each orthogonal matrix."""
    return [orthogonal(matrix).chunk(n)[place] for matrix in matrices_of(shapes, n)]


@tabulate(lambda: [(torch.eye(2, dtype=torch.float64),)])
def orthogonal(matrix) -> torch.Tensor:
    """Return the result of Newton-Schulz, by singular values instead of products of matrices."""
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (s.square().sum().sqrt() + 1e-7)
    for _ in range(ROUNDS):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


def mistakes(trial, place):
    (shapes, owners), n = trial.case.args, trial.n
    whole = matrices_of(shapes, n)
    right = right_rows(trial, place)

    def rows(function):
        return [function(matrix, matrix.chunk(n)) for matrix in whole]

    return {
        "each rank has orthogonalized its own rows, as if they were the matrix. That is another "
        "step: gather the matrix on its owner first":
            rows(lambda _, parts: orthogonal(parts[place])),
        "these are the rows as they were. The owner orthogonalizes the matrix before it sends the "
        "rows back": rows(lambda _, parts: parts[place]),
        "every rank has the whole orthogonal matrices. Return this rank's rows of each":
            rows(lambda matrix, _: orthogonal(matrix)),
        "every rank has the first rank's rows: rank k gets piece k of each matrix":
            rows(lambda matrix, _: orthogonal(matrix).chunk(n)[0]),
        "the pieces come in another order: piece k of a matrix belongs to rank k":
            rows(lambda matrix, _: orthogonal(matrix).chunk(n)[n - 1 - place]),
        "the pieces are put next to each other, and not below each other: the matrix is cut by "
        "rows, so torch.cat joins them along dim 0":
            [orthogonal(torch.cat(m.chunk(n), 1))[:, place * m.shape[1] :][:, : m.shape[1]]
             for m in whole],
        "only the owner has its rows. All other ranks get theirs from it":
            [rows if owner == place else torch.zeros_like(rows)
             for rows, owner in zip(right, owners)],
        "this is the sum of all ranks' rows. A matrix has the rows of each rank below those of "
        "the rank before": rows(lambda _, parts: orthogonal(sum(parts))),
    }  # fmt: skip


def need_a_list(trial):
    """Raise `Wrong` unless every rank returns as many tensors as it was given."""
    wanted = len(trial.case.args[0])
    for place, kind in enumerate(trial.collect_values("kind") or ()):
        if kind or trial[place].count != wanted:
            got = kind or f"a list of {trial[place].count} tensors"
            what = f"{trial.name_of_rank(place)} returned {got}, expected a list of {wanted}"
            why = NOT_ALL if not kind and trial[place].count else (
                "return a list with this rank's rows of every matrix, of those of other owners too"
            )  # fmt: skip
            raise Wrong(str(trial.case), what, why)


NOT_ALL = (
    "rows of some matrices are missing: whoever the owner is, every rank gets its rows back, in "
    "the order of `shards`"
)


def flops_of(rows, columns) -> int:
    short, long = sorted((rows, columns))
    return ROUNDS * (4 * long * short**2 + 2 * short**3)


def need_owners_alone(trial):
    """Raise `Wrong` if a rank orthogonalizes matrices of other owners."""
    shapes, owners = trial.case.args
    for place in range(trial.n):
        own = sum(flops_of(trial.n * rows, columns)
                  for (rows, columns), owner in zip(shapes, owners) if owner == place)  # fmt: skip
        if trial[place].flops > own:
            what = (
                f"the numbers are right, but {trial.name_of_rank(place)} computes "
                f"{trial[place].flops:,} FLOPs; for the matrices that it owns it needs {own:,}"
            )
            raise Wrong(f"cost, {trial.case}", what, (
                "a rank orthogonalizes the matrices that it owns and no others: that is what the "
                "owners are for"
            ))  # fmt: skip


def need_gathered_first(trial):
    """Raise `Wrong` if a matrix is gathered after another one was sent back."""
    for place, calls in enumerate(trial.calls):
        names = [call.name for call in calls]
        if "gather" in names and "scatter" in names:
            first, last = names.index("scatter"), len(names) - 1 - names[::-1].index("gather")
            if first < last:
                what = (
                    f"the numbers are right, but {trial.name_of_rank(place)} takes part in a "
                    "scatter before the last gather"
                )
                raise Wrong(f"cost, {trial.case}", what, (
                    "all other ranks wait in the scatter until the owner of that matrix has "
                    "finished, so the owners work one after another. Gather all matrices first, "
                    "then compute, then send all of them back"
                ))  # fmt: skip


def most_bytes(trial, place):
    """Return the bytes that a rank has to send; None where they are too few to be measured."""
    (shapes, owners), n = trial.case.args, trial.n
    if trial.case is not CASES[-1]:
        return None
    total = 0.0
    for (rows, columns), owner in zip(shapes, owners):
        shard = 8 * rows * columns
        total += (n - 1) * shard if owner == place else shard
    return 1.02 * total


WHY_SENT = {
    "all_gather": "all_gather gives every matrix to every rank. Only its owner needs it: gather",
    "broadcast": "a broadcast sends the whole result to every rank. Each one needs its rows alone: "
    "scatter",
    "all_reduce": "an all-reduce sends the whole matrix, twice. Rows that are sent to their "
    "owner, and back, are enough",
    "": "a shard travels once to the owner of its matrix, and once back",
}
