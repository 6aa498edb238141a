"""A unit whose memory is freed."""

import torch

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World, never

from ..shared.units_in_memory import SHAPES
from ..shared.units_in_memory_truth import shard_stays, slopes_are
from .cases import dispose_gathered, make_refill
from .truth import NO_DATA, NOTHING_TO_SEND, shard_at, why_left, why_whole

EXERCISE = RankExercise(
    "dispose",
    lab="zero",
    needs=("flatten_padded",),
    cases=[
        RankCase(World(2), (torch.float64,)),
        RankCase(World(3), (torch.float32,), ", float32"),
        RankCase(World(1), (torch.float64,)),
    ],
    work=dispose_gathered,
    facts=[
        Equals("shape", lambda trial, place: [trial.n * len(shard_at(trial, place))],
               called="the shape of flat",
               otherwise="resize_ of a tensor gives it another shape, and never gives memory back. "
               "It is the storage that is resized; flat's shape stays, gather() will need it"),
        Holds("left", lambda left: not left[0],
              lambda left: f"flat's storage has {left[0]} bytes still", why_left),
        never("other", "unit.parameters are no more the parameters that were there",
              "the model holds the parameters that were there, with their hooks: they stay the "
              "objects that they are, and change their `.data`"),
        never("whole", "after it, parameters have the shapes {}",
              why_whole),
        never("dtypes", "the dtype of parameters is {} now",
              "torch.empty(0) alone is float32. A parameter keeps its dtype, or autograd forgets "
              "what it has prepared for its gradient: p.new_empty(0) has it, or a slice of the "
              "shard"),
        *shard_stays(shard_at),
        Equals("gradient", lambda trial, place: torch.ones_like(shard_at(trial, place)),
               called="the gradient of the shard", otherwise="the optimizer's step is still to "
               "come, and it needs the gradient of the shard"),
        slopes_are(lambda trial: (make_refill(trial.case, trial.n), SHAPES),
                   "when flat is refilled, a backward gives"),
        never("taken", "flat's memory is freed, and {} bytes are taken elsewhere",
              "a copy is kept elsewhere. The other ranks have what this one gives up: gather() "
              "gets it back"),
        never("sent", "it sends {} bytes", NOTHING_TO_SEND),
    ],
    right=lambda trial: f"flat's {shard_at(trial, 0).nbytes * trial.n} bytes are free; refilled, "
    "it is good for the backward",
    errors={
        "0-dim tensor": "a parameter may have no dimension to cut: take something else without "
        "elements, such as a slice of the shard",
        "cannot resize variables that require grad": "a parameter cannot be resized. Give it "
        "another `.data`, without elements",
        "inplace operation": "what autograd has saved was changed, and it has noticed. Operations "
        "that end in _, such as zero_ and set_, change a parameter's values; another `.data` does "
        "not",
        "leaf Variable": "autograd watches over parameters: what changes is their `.data`",
        "SIGSEGV": "memory is read or written that is not there: flat's storage has 0 bytes "
        "already",
        "has to be a tensor": NO_DATA,
        "Deleting tensor data": NO_DATA,
    },
    on_hang=NOTHING_TO_SEND,
    hints=(
        "Two things: flat's storage, and the parameters, which must not be usable by mistake.",
        "unit.flat.untyped_storage() is shared by all views into flat. If it is resized, all "
        "of them lose their memory, and keep their shapes.",
        "A parameter stays the object that it is. p.data = x makes it show x: a tensor of its "
        "dtype without elements, such as unit.shard.data[:0].",
    ),
)  # fmt: skip
