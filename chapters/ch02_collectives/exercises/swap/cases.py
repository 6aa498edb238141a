"""The inputs on which the collective is tried."""

import torch

from coursekit.kit import Rejection
from pedagogy_lib.basics.units import brief

from ..shared.tasks import OneTensor


class Swap(OneTensor):
    """One tensor, for an answer that takes no group and returns its result."""

    def inputs(self, place, case):
        x = super().inputs(place, case)[0]
        return [x, torch.zeros_like(x)]

    def call(self, answer, tensors, case, group):
        returned = answer(tensors[0])
        if not isinstance(returned, torch.Tensor):
            what = f"swap returned {brief(returned)}, not a tensor"
            raise Rejection(
                what, "a function without `return` gives None: return what you received."
            )
        tensors[1] = returned

    def name_of(self, index, case):
        return "the returned tensor" if index else "x"
