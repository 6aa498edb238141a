"""A device that multiplies matrices as slowly as one likes: times do not depend on cores then."""

import time

from torch.utils._python_dispatch import TorchDispatchMode

from .instruments import measure

PRODUCTS = ("aten.mm.default", "aten.addmm.default")  # their last two arguments are the factors


class SlowProducts(TorchDispatchMode):
    """`with SlowProducts(2e9):` a product of two matrices takes as long as with so many FLOPS.

    It is computed, and then slept for what is left; those of backwards, too. Each one is measured
    as "product", without its memory. Everything else keeps its speed.

    flops   floating-point operations per second; a product of (m, k) and (k, n) takes 2 m k n
    Raises  ValueError if it is not positive
    """

    def __init__(self, flops):
        super().__init__()
        if not flops > 0:
            raise ValueError(f"SlowProducts takes a positive number of FLOPS, not {flops!r}")
        self.flops = flops

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function) not in PRODUCTS:
            return function(*args, **(kwargs or {}))
        a, b = args[-2:]
        with measure("product", memory=False):
            end = time.perf_counter() + 2 * a.numel() * b.shape[1] / self.flops
            result = function(*args, **(kwargs or {}))
            time.sleep(max(0.0, end - time.perf_counter()))
        return result

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # torch would otherwise import its compiler at the first operation
