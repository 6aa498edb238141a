"""The code that runs next to the answer."""

import contextlib

import torch
from torch import nn

from coursekit.kit import Rejection
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.results import detach_result
from pedagogy_lib.basics.torch_private import ResizesWatched, is_in_storage, is_same_storage
from pedagogy_lib.measuring.recorder import measure, peak_bytes_in

NEW, TOKEN = -1, "what meanwhile() returned"  # NEW marks unwritten memory

BYTES = "a storage counts bytes: flat.nbytes, which is the number of elements times their size"


class TensorProbe:
    """A tensor with views of it, and a record of its storage while its memory is freed."""

    def __init__(self, case):
        self.shape, dtype = case.args
        self.flat, self.new = numbers(0, self.shape, dtype), numbers(1, self.shape, dtype)
        self.tail = self.flat.view(-1)[1:]
        self.weight = nn.Parameter(torch.empty(2, 2, dtype=dtype))
        self.weight.data = self.flat.view(-1)[:4].view(2, 2)
        self.x = torch.ones(2, dtype=dtype, requires_grad=True)
        self.product = torch.mv(self.weight, self.x).sum()  # saves the weight, a view of flat
        self.storage, self.seen, self.case = self.flat.untyped_storage(), [], case
        self.size, self.alive = self.storage.nbytes(), bytes_alive(f"before, {case}")

    def meanwhile(self):
        kept = bytes_alive(f"away, {self.case}, {len(self.seen)}")
        rest = self.storage.nbytes()
        shape = list(self.flat.shape) if is_in_storage(self.flat, self.storage) else None
        self.seen.append((rest, kept - rest - (self.alive - self.size), shape))
        return TOKEN

    @contextlib.contextmanager
    def mark_new_memory(self):
        """Fill new memory with NEW; refuse too small a storage, where a write would crash."""

        @contextlib.contextmanager
        def fill(storage, size):
            is_own, before = is_same_storage(storage, self.storage), storage.nbytes()
            if is_own and 0 < size < self.size:
                raise Rejection(f"the storage gets {size} bytes, it needs {self.size}", BYTES)
            yield
            if is_own and size > before:
                self.x.new_empty(0).detach().set_(storage).fill_(NEW)

        with ResizesWatched(fill):
            yield


def bytes_alive(label) -> int:
    with measure(label):
        pass
    return peak_bytes_in(label)["total"]


def lend(answer, group, case):
    lent = TensorProbe(case)
    with lent.mark_new_memory():
        got = answer(lent.flat, lent.new, lent.meanwhile)
    flat, found = lent.flat, {"calls": len(lent.seen), "got": detach_result(got)}
    found["freed"], found["taken"], found["shape_away"] = lent.seen[0] if lent.seen else (0, 0, [])
    found |= {
        "shape": list(flat.shape),
        "apart": not is_in_storage(flat, lent.storage),
        "bytes": lent.storage.nbytes(),
        "given": torch.equal(lent.new, numbers(1, lent.shape, lent.new.dtype)),
    }
    if found["bytes"] == lent.size and not found["apart"]:
        found["tail"] = lent.tail.detach().clone()
        found["slope"] = torch.autograd.grad(lent.product, lent.x)[0]
    return found
