"""A unit that gives up its memory."""

from operator import is_not

import torch

from ...measuring.recorder import measure, peak_bytes_in, traffic_in
from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.trials import numbers
from .ex03_reduce_gradients import part_of
from .units_in_memory import SHAPES, Held, length_of_shard, shard_stays, slopes_are, values_at

NO_DATA = "a parameter cannot be without `.data`: give it a tensor without elements"
NOTHING_TO_SEND = "nothing has to travel: everybody gives up memory, and keeps the shard"


def dispose_gathered(answer, group, case):
    held = Held(answer, group, case.args[0])
    unit, parameters = held.unit, list(held.unit.parameters)
    unit.shard.grad = torch.ones_like(unit.shard)
    elements = unit.flat.numel()
    before = bytes_alive(f"before, {case}")
    with measure(f"during, {case}"):
        answer(unit)
    after = bytes_alive(f"after, {case}")
    found = held.look() | {
        "shape": list(unit.flat.shape),
        "left": (held.storage.nbytes(), sum(p.numel() for p in unit.parameters)),
        "other": len(unit.parameters) != len(parameters)
        or any(map(is_not, unit.parameters, parameters))
        or not all(p.requires_grad and p.is_leaf for p in parameters),
        "whole": [list(p.shape) for p in parameters if p.numel()],
        "dtypes": [str(p.dtype) for p in parameters if p.dtype != case.args[0]],
        "gradient": unit.shard.grad,
        "sent": traffic_in(f"during, {case}")[1],
        "taken": max(0, after - held.storage.nbytes() - (before - unit.flat.nbytes)),
    }
    if unit.flat.numel() == elements:
        held.resize(elements)
        unit.flat.copy_(refilled(case, unit.n))
        found["slopes"] = held.slope()
    return found


def refilled(case, n) -> torch.Tensor:
    """What a flat tensor is filled with afterwards."""
    return numbers(9, (n * length_of_shard(n, SHAPES),), case.args[0])


def bytes_alive(label) -> int:
    with measure(label):
        pass
    return peak_bytes_in(label)["total"]


def shard_at(trial, place) -> torch.Tensor:
    """It is as it was in the beginning: this rank's part of its own numbers."""
    parts = values_at(place, *trial.case.args, SHAPES)
    return part_of(torch.cat([part.flatten() for part in parts]), trial.n, place)


def why_left(trial, place) -> str:
    if trial[place].left[1]:
        return (
            "nothing is freed. Memory goes when its storage is resized, or when nobody has a view "
            "into it any more: here the chunks and autograd have some"
        )
    return (
        "the parameters have let go of it, but flat, its chunks and autograd have not: a storage "
        "lives as long as any view into it. To be resized is flat's: a parameter that has got "
        "another `.data` has another storage, too"
    )


def why_whole(trial, place) -> str:
    before = [list(shape) for shape in SHAPES]
    if not all(shape in before for shape in trial[place].whole) or trial[place].whole.count([]) > 1:
        return (
            "they have elements. Without elements is a shape with a 0 in it; the empty one, (), is "
            "that of a single number"
        )
    return (
        "its memory is gone, and it looks as before: whoever uses it by mistake reads memory that "
        "is not there, and the process dies without a word. Assign to `.data` something without "
        "elements; resizing or cutting what p.data returns does nothing to the parameter"
    )


EXERCISE = RankExercise(
    "6.11",
    "dispose",
    lab="zero",
    needs=("6.2",),
    cases=[
        At(World(2), (torch.float64,)),
        At(World(3), (torch.float32,), ", float32"),
        At(World(1), (torch.float64,)),
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
        slopes_are(lambda trial: (refilled(trial.case, trial.n), SHAPES),
                   "when flat is refilled, a backward gives"),
        never("taken", "flat's memory is freed, and {} bytes are taken elsewhere",
              "a copy is kept elsewhere. The other ranks have what this one gives up: gather() "
              "gets it back"),
        never("sent", "it sends {} bytes", NOTHING_TO_SEND),
    ],
    told=lambda trial: f"flat's {shard_at(trial, 0).nbytes * trial.n} bytes are free; refilled, "
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
    lost=NOTHING_TO_SEND,
    hints=(
        "Two things: flat's storage, and the parameters, which must not be usable by mistake.",
        "unit.flat.untyped_storage() is shared by all views into flat. If it is resized, all "
        "of them lose their memory, and keep their shapes.",
        "A parameter stays the object that it is. p.data = x makes it show x: a tensor of its "
        "dtype without elements, such as unit.shard.data[:0].",
    ),
)  # fmt: skip
