"""The cases, and the code that runs next to the answer."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from coursekit.kit import RankCase
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.forward_backward import need_tensor
from coursekit.kit.observed_calls import Calls
from pedagogy_lib.basics.torch_private import is_in_storage


@dataclass(frozen=True)
class Cut(RankCase):
    """A tensor, and the way in which it is cut."""

    shape: tuple[int, ...] = ()
    dim: int = 0
    together: int = 1
    is_turned: bool = False  # whether it is the transpose of a tensor with this shape

    def whole(self):
        x = numbers(7, self.shape, torch.float64) / 3
        x.view(-1).add_(10 * torch.arange(x.numel()))  # no two numbers are the same
        return x.t() if self.is_turned else x

    def __str__(self):
        together = f", together {self.together}" if self.together > 1 else ""
        return f"{super().__str__()}, shape {list(self.whole().shape)}, dim {self.dim}{together}"


def cut_on_rank(answer, group, case):
    whole = case.whole()
    before, together = whole.clone(), [case.together] if case.together > 1 else []
    with Calls() as calls:
        part = answer(whole, case.dim, group, *together)
    need_tensor(part, "cut")
    is_part = "is_view" if dist.get_world_size(group) > 1 else "is_x"
    return {
        "part": part.detach().clone(),
        "is_changed": not torch.equal(whole, before),
        is_part: is_in_storage(part, whole.untyped_storage()),
        "surplus": part.untyped_storage().nbytes() - part.nbytes,
        "is_strided": not part.is_contiguous(),
        "calls": calls.made,
        "is_tracked": part.requires_grad,
    }


def span(length, place, n, together) -> tuple[int, int]:
    """Return the start and the length of a part."""
    groups, rest = divmod(length // together, n)
    return together * (groups * place + min(place, rest)), together * (groups + (place < rest))


def strip(x, dim, start, size):
    """Return a slice of x along dim, which may end before `size` as any slice does."""
    return x.movedim(dim, 0)[start : start + size].movedim(0, dim)
