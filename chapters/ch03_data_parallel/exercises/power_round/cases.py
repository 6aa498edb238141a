"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer

ROUNDS = 3

LARGE = (1000, 800, 64, torch.float32)


def gradient_of(place, turn, m, k) -> torch.Tensor:
    return random_matrix(m, k, 100 * turn + place + 1)


def first_q(k, r) -> torch.Tensor:
    return random_matrix(k, r, 7)


def random_matrix(rows, columns, seed) -> torch.Tensor:
    """Return random numbers that are exact in float32, too."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=chance, dtype=torch.float64).float().double()


def turns_of(case) -> range:
    return range(1 if case.args == LARGE else ROUNDS)


def compress(answer, group, case):
    """Compress a matrix in rounds; case.args: rows, columns, rank of the approximation, dtype.

    `error` and `q` are rows of larger tensors, which are looked at afterwards.
    """
    m, k, r, *dtype = case.args
    dtype = dtype[0] if dtype else torch.float64
    place, errors, qs = dist.get_rank(group), torch.zeros(1, m, k, dtype=dtype), first_q(k, r)[None]
    qs, rounds, changed = qs.to(dtype), [], False
    for turn in turns_of(case):
        given = gradient_of(place, turn, m, k).to(dtype)
        gradient = given.clone()
        with measure_answer():
            result = answer(gradient, errors[0], qs[0], group)
        changed |= not torch.equal(gradient, given)
        copied = result.clone() if isinstance(result, torch.Tensor) else result
        rounds.append({"the result": copied, "error": errors[0].clone(), "q q^T": qs[0] @ qs[0].T})
    return {"changed": changed, "rounds": rounds}
