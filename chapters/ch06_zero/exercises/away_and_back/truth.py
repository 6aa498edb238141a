"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.collective_exercise import numbers

from .cases import NEW


def flat_of(trial, salt):
    shape, dtype = trial.case.args
    return numbers(salt, shape, dtype).view(-1)


def other_tails(trial, place):
    new = flat_of(trial, 1)
    return {
        f"{NEW} marks memory that is new, and that nobody has written. After the memory is back, "
        "the numbers have to be written into it": torch.full_like(new[1:], NEW),
        "these are the numbers that were there before. Asked is that `numbers` are there "
        "afterwards: in stage 3, an optimizer has changed them": flat_of(trial, 0)[1:],
    }


def why_not_freed(trial, place) -> str:
    if trial[place].shape_away is None:
        return APART
    if trial[place].shape_away != list(trial.case.args[0]):
        return (
            "resize_ of a tensor changes its shape, and gives no memory back. The memory belongs "
            "to its storage: flat.untyped_storage()"
        )
    return (
        "the memory is still there. It lives as long as any view looks into it, so `del` of a name "
        "frees nothing. Give the storage 0 bytes before you call meanwhile()"
    )


APART = (
    "flat looks at another storage now. The views, and what autograd has saved, look at the one "
    "that was there before: it has to come back itself"
)

FORGOTTEN = "the function returns what meanwhile() returned"
