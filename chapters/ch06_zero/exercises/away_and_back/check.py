"""A tensor whose memory is freed and allocated again: storage and views, no communication."""

import torch

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World, never

from .cases import BYTES, TOKEN, lend
from .truth import APART, FORGOTTEN, flat_of, other_tails, why_not_freed

EXERCISE = RankExercise(
    "away_and_back",
    cases=[
        RankCase(World(1), ((6,), torch.float64), ", 6 numbers"),
        RankCase(World(1), ((3, 4), torch.float32), ", 3 times 4 numbers, float32"),
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
    right="0 bytes meanwhile; afterwards all views show the new numbers",
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
    on_hang="nobody sends anything here",
    hints=(
        "Three steps around meanwhile(): take the memory away, call it, get the memory back. Then "
        "write the numbers.",
        "flat.untyped_storage().resize_(0) takes the memory away, and keeps the storage: all "
        "views still look at it. resize_(flat.nbytes) gives it memory again.",
        "After that, what is in the memory is anything: flat.copy_(numbers). Keep what meanwhile() "
        "returned, and return it at the end.",
    ),
)  # fmt: skip
