"""A tensor whose memory goes and comes back: storage and views, without communication."""

import contextlib

import torch
from torch import nn

from ...basics.torch_private import ResizesWatched, is_in_storage, is_same_storage
from ...measuring.recorder import measure, peak_bytes_in
from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.outcomes import plain
from ..kit.refused import Refused
from ..kit.trials import numbers

NEW, TOKEN = -1, "what meanwhile() returned"  # NEW is in memory that nobody has written
BYTES = "a storage counts bytes: flat.nbytes, which is the number of elements times their size"

# ---- On a rank ---


class Lent:
    """A tensor, what looks into it, and what is seen of it while its memory is away."""

    def __init__(self, case):
        self.shape, dtype = case.args
        self.flat, self.new = numbers(0, self.shape, dtype), numbers(1, self.shape, dtype)
        self.tail = self.flat.view(-1)[1:]
        self.weight = nn.Parameter(torch.empty(2, 2, dtype=dtype))
        self.weight.data = self.flat.view(-1)[:4].view(2, 2)
        self.x = torch.ones(2, dtype=dtype, requires_grad=True)
        self.product = torch.mv(self.weight, self.x).sum()  # has saved the weight
        self.storage, self.seen, self.case = self.flat.untyped_storage(), [], case
        self.size, self.alive = self.storage.nbytes(), bytes_alive(f"before, {case}")

    def meanwhile(self):
        kept = bytes_alive(f"away, {self.case}, {len(self.seen)}")
        rest = self.storage.nbytes()
        shape = list(self.flat.shape) if is_in_storage(self.flat, self.storage) else None
        self.seen.append((rest, kept - rest - (self.alive - self.size), shape))
        return TOKEN

    @contextlib.contextmanager
    def marking(self):
        """New memory is filled with NEW. Too little of it is refused: writing there would crash."""

        @contextlib.contextmanager
        def fill(storage, size):
            is_own, before = is_same_storage(storage, self.storage), storage.nbytes()
            if is_own and 0 < size < self.size:
                raise Refused(f"the storage gets {size} bytes, it needs {self.size}", BYTES)
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
    lent = Lent(case)
    with lent.marking():
        got = answer(lent.flat, lent.new, lent.meanwhile)
    flat, found = lent.flat, {"calls": len(lent.seen), "got": plain(got)}
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


# ---- What is right, and what is not ---


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

EXERCISE = RankExercise(
    "6.9",
    "away_and_back",
    cases=[
        At(World(1), ((6,), torch.float64), ", 6 numbers"),
        At(World(1), ((3, 4), torch.float32), ", 3 times 4 numbers, float32"),
    ],
    work=lend,
    facts=[
        Holds("calls", lambda calls: calls == 1, "meanwhile() was called {} times, expected 1",
              "call meanwhile() once, between freeing the memory and getting it back"),
        Holds("freed", lambda rest: rest == 0,
              "while meanwhile() runs, flat's storage has {} bytes, expected 0", why_not_freed),
        Holds("taken", lambda more: more <= 0,
              "flat's memory is free, and {} bytes are taken elsewhere meanwhile",
              "a copy is kept. Nothing has to be kept: `numbers` comes from the caller"),
        never("apart", "afterwards flat has another storage than before", APART),
        Equals("shape", lambda trial, place: list(trial.case.args[0]), called="the shape of flat",
               otherwise="the shape belongs to the tensor, and stays. Only the storage changes"),
        Holds("bytes", lambda size: size > 0, "afterwards flat's storage has {} bytes",
              "the memory has to come back: give the storage flat.nbytes bytes again"),
        Equals("bytes", lambda trial, place: flat_of(trial, 0).nbytes,
               called="the bytes of the storage", otherwise=BYTES),
        Equals("tail", lambda trial, place: flat_of(trial, 1)[1:], other_tails,
               "a view of flat, from its second number on,",
               "write all of `numbers` into flat, in their order"),
        Holds("given", lambda same: same, "`numbers` has changed",
              "`numbers` belongs to the caller: read it, and leave it as it is"),
        Equals("slope", lambda trial, place: flat_of(trial, 1)[:4].view(2, 2).sum(0),
               called="the gradient from a backward whose forward came before",
               otherwise="autograd has saved a view of flat, and it has to show `numbers`"),
        Holds("got", lambda got: got == TOKEN, "it returned {}", FORGOTTEN),
    ],
    told="0 bytes meanwhile; afterwards all views show the new numbers",
    errors={
        "inplace operation": "autograd has noticed that what it has saved was changed. "
        "flat.copy_(…) is fine: the parameter in this trial has a counter of its own. Which "
        "parameter's values were changed?",
        "SIGSEGV": "memory is read or written that is not there: the storage has 0 bytes. First "
        "the memory, then the numbers",
        "of size 0": "the storage has 0 bytes still: first the memory, then the numbers",
        "has no attribute": "the memory belongs to the storage, flat.untyped_storage(), which has "
        "resize_(bytes) and nbytes()",
    },
    lost="nobody sends anything here",
    hints=(
        "Three steps around meanwhile(): take the memory away, call it, get the memory back. Then "
        "write the numbers.",
        "flat.untyped_storage().resize_(0) takes the memory away, and keeps the storage: all "
        "views still look at it. resize_(flat.nbytes) gives it memory again.",
        "After that, what is in the memory is anything: flat.copy_(numbers). Keep what meanwhile() "
        "returned, and return it at the end.",
    ),
)  # fmt: skip
