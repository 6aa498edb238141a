"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, World, measure_answer
from coursekit.kit.observed_calls import hashes_as_elsewhere

GROUP_OF_3 = World(5, (0, 2, 3))


def right_gradients(batch, with_nan=False) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(100 + batch)
    gradients = [torch.randn(30, 20, generator=chance), torch.randn(20, generator=chance)]
    if with_nan:
        gradients[0][2, 3] = torch.nan
    return gradients


def wrong_gradients(batch, how) -> list[torch.Tensor]:
    gradients = right_gradients(batch, how == "NaN")
    if how == "bit":
        gradients[1].view(torch.int32)[5] ^= 1
    if how == "order":
        gradients[0] = gradients[0].flip(0)
    if how == "sign":
        gradients = [-gradient for gradient in gradients]
    return gradients


def recompute(answer, group, case):
    how, wrong = case.args
    rank, asked_for = dist.get_rank(group), []

    def gradients_of(batch):
        n = dist.get_world_size(group)
        if not isinstance(batch, int) or not 0 <= batch < n:
            raise Rejection(
                f"gradients_of({batch!r:.20}) was called", f"there are ranks 0 to {n - 1}"
            )
        asked_for.append(batch)
        if rank == wrong:
            return wrong_gradients(batch, how)
        return right_gradients(batch, how == "NaN")

    with hashes_as_elsewhere(dist.get_rank()) as hashed, measure_answer():
        value = answer(gradients_of, group)
    if value is not None and (isinstance(value, bool | list | tuple | str)):
        raise Rejection(f"it returned {value!r:.40}", "asked is one rank, such as 2, or None")
    rank = value if value is None else int(value)
    return {"rank": rank, "asked_for": asked_for, "hashed": bool(hashed)}
