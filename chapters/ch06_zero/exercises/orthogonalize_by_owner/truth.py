"""The right results, and the results of known mistakes."""

from functools import cache

import torch

from coursekit.kit import Wrong

from .cases import CASES, LARGE, matrices_of

ROUNDS = 5


def right_rows(trial, place) -> list[torch.Tensor]:
    shapes, _ = trial.case.args
    return rows_of_results(shapes, trial.n, place)


@cache
def rows_of_results(shapes, n, place) -> list[torch.Tensor]:
    """Return a rank's rows of each orthogonal matrix."""
    return [orthogonal(matrix).chunk(n)[place] for matrix in matrices_of(shapes, n)]


def orthogonal(matrix) -> torch.Tensor:
    """Return the result of Newton-Schulz, by singular values instead of products of matrices."""
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (s.square().sum().sqrt() + 1e-7)
    for _ in range(ROUNDS):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


def mistakes(trial, place):
    """Return {misconception: its rows}. Small matrices show them all, and large ones take long."""
    (shapes, owners), n = trial.case.args, trial.n
    if shapes == LARGE:
        return {}
    whole, right = matrices_of(shapes, n), right_rows(trial, place)

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
        "the owner's own rows are missing: it gets them from its own scatter":
            [torch.zeros_like(rows) if owner == place else rows
             for rows, owner in zip(right, owners)],
        "the owner returns the whole matrix. Its own rows of it are asked":
            [orthogonal(matrix) if owner == place else rows
             for matrix, rows, owner in zip(whole, right, owners)],
        "rows are listed in the order of the owners. Entry k belongs to matrix k of `shards`":
            [right[k] for k in sorted(range(len(owners)), key=lambda k: owners[k])],
        "all pieces of a matrix are the last rank's: [x] * n is one tensor n times, into which all "
        "ranks' rows are written":
            rows(lambda _, parts: orthogonal(torch.cat([parts[-1]] * n)).chunk(n)[place]),
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
                "each matrix is orthogonalized twice" if trial[place].flops == 2 * own else
                "a rank orthogonalizes the matrices that it owns and no others: that is what the "
                "owners are for"
            ))  # fmt: skip


def need_three_phases(trial):
    """Raise `Wrong` unless each rank gathers all, then computes all, then scatters all."""
    for place, events in enumerate(trial.collect_values("events") or ()):
        told = out_of_order(events)
        if told:
            what = f"the numbers are right, but {trial.name_of_rank(place)} {told}"
            raise Wrong(f"cost, {trial.case}", what, (
                "the other ranks of that call wait until this one has finished computing, so the "
                "owners work one after another. Gather all matrices first, then compute, then send "
                "all of them back"
            ))  # fmt: skip


def out_of_order(events) -> str:
    """Return what is wrong with the order of a rank's calls and products, or ""."""
    first, last = events.index, lambda name: len(events) - 1 - events[::-1].index(name)
    if {"gather", "scatter"} <= {*events} and first("scatter") < last("gather"):
        return "takes part in a scatter before the last gather"
    if {"gather", "compute"} <= {*events} and first("compute") < last("gather"):
        return "computes before its last gather"
    if {"scatter", "compute"} <= {*events} and first("scatter") < last("compute"):
        return "still computes after its first scatter"
    between = events[first("compute") : last("compute")] if "compute" in events else []
    return "communicates between its products" if {*between} - {"compute"} else ""


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
