"""A unit that gives up its memory: exercise 6.10."""

from operator import is_not

import torch

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.refused import Refused
from ..kit.trials import numbers
from ..kit.worlds import World
from .ex09_gather import (
    NEW_STORAGE,
    explain_unit,
    give_memory,
    made_unit,
    need_flat,
    need_shard,
    slope_expected,
    slope_of,
    use,
)

NO_DATA = "a parameter cannot be without `.data`: give it a tensor without elements"
DISPOSE_ERRORS = {
    "0-dim tensor": "a parameter may have no dimension to cut: take something else without "
    "elements, such as a slice of the shard",
    "cannot resize variables that require grad": "a parameter cannot be resized. Give it another "
    "`.data`, without elements",
    "inplace operation": "what autograd has saved was changed, and it has noticed. Operations that "
    "end in _, such as zero_ and set_, change a parameter's values; another `.data` does not",
    "leaf Variable": "autograd watches over parameters: what changes is their `.data`",
    "SIGSEGV": "memory is read or written that is not there: flat's storage has 0 bytes already",
    "has to be a tensor": NO_DATA,
    "Deleting tensor data": NO_DATA,
}


def examine_dispose(answer):
    for size, dtype in ((2, torch.float64), (3, torch.float32), (1, torch.float64)):
        case = str(World(size))
        explain = explain_unit(case, DISPOSE_ERRORS, NOTHING_TO_SEND)
        run = try_on_ranks(case, dispose_on_rank, answer, dtype, world_size=size, explain=explain)
        flat = run.values[0]
        judge_freed(case, run, flat)
        yield f"{case}: flat's {flat} bytes are free; refilled, it is good for the backward"


NOTHING_TO_SEND = "nothing has to travel: everybody gives up memory, and keeps the shard"


def dispose_on_rank(answer, dtype) -> int:
    """The bytes of flat; raises `Refused` for whatever is wrong after the answer."""
    unit = made_unit(answer, dtype=dtype)
    unit.shard.grad = torch.ones_like(unit.shard)
    saved, storage, shape = use(unit), unit.flat.untyped_storage(), unit.flat.shape
    parameters, shard, values = list(unit.parameters), unit.shard, unit.shard.detach().clone()
    with measure("before"):
        pass
    with measure("answer", memory=False):
        answer(unit)
    with measure("after"):
        pass
    need_no_memory(unit, storage, shape)
    need_no_elements(unit, parameters, dtype)
    need_shard(unit, shard, values, storage)
    if unit.shard.grad is None or not close(unit.shard.grad, torch.ones_like(values)):
        raise Refused("the gradient of the shard is gone", SHARD_GRADIENT)
    need_good_again(unit, saved)
    return unit.flat.nbytes


def need_no_memory(unit, storage, shape):
    elements = [p.numel() for p in unit.parameters]
    need_flat(unit, storage)
    if unit.flat.shape != shape:
        what = f"flat has shape {list(unit.flat.shape)}, expected {list(shape)} as before"
        raise Refused(f"{what}; its storage has {storage.nbytes()} bytes", ONLY_SHAPE)
    if storage.nbytes():
        what = f"flat's storage has {storage.nbytes()} bytes still"
        raise Refused(what, UNTOUCHED if any(elements) else ONLY_PARAMETERS)


ONLY_SHAPE = (
    "resize_ of a tensor gives it another shape, and never gives memory back. It is the storage "
    "that is resized; flat's shape stays, gather() will need it"
)
UNTOUCHED = (
    "nothing is freed. Memory goes when its storage is resized, or when nobody has a view into it "
    "any more: here the chunks and autograd have some"
)
ONLY_PARAMETERS = (
    "the parameters have let go of it, but flat, its chunks and autograd have not: a storage lives "
    "as long as any view into it. Resize it"
)


def need_no_elements(unit, parameters, dtype):
    if len(unit.parameters) != len(parameters) or any(map(is_not, unit.parameters, parameters)):
        raise Refused("unit.parameters has other objects in it now", NEW_PARAMETERS)
    for number, p in enumerate(parameters):
        if p.numel():
            what = f"parameter {number} has shape {list(p.shape)} still"
            raise Refused(what, STILL_THERE)
        if p.dtype != dtype:
            raise Refused(f"parameter {number} is {p.dtype} now, expected {dtype}", OTHER_DTYPE)
        if not p.requires_grad or not p.is_leaf:
            raise Refused(f"parameter {number} is no leaf that requires a gradient", NEW_PARAMETERS)


NEW_PARAMETERS = (
    "the model holds the parameters that were there, with their hooks: they stay the objects that "
    "they are, and change their `.data`"
)
STILL_THERE = (
    "its memory is gone, and it looks as before: whoever uses it by mistake reads memory that is "
    "not there, and the process dies without a word. Assign to `.data` something without elements; "
    "resizing or cutting what p.data returns does nothing to the parameter"
)
OTHER_DTYPE = (
    "torch.empty(0) alone is float32. A parameter keeps its dtype, or autograd forgets what it has "
    "prepared for its gradient: p.new_empty(0) has it, or a slice of the shard"
)
SHARD_GRADIENT = "the optimizer's step is still to come, and it needs the gradient of the shard"


def need_good_again(unit, saved):
    """Fill flat's storage with other numbers: what autograd has saved has to show them."""
    give_memory(unit.flat, unit.flat.numel())
    new = numbers(9, unit.flat.shape, unit.flat.dtype)
    unit.flat.copy_(new)
    slope = slope_of(*saved)
    if not close(slope, slope_expected(new)):
        raise Refused(f"when flat is refilled, a backward gives {slope.tolist()}", NEW_STORAGE)


def judge_freed(case, run, flat):
    for rank in range(run.world_size):
        if sent := run["answer"].sent_bytes[rank]:
            raise Wrong(case, f"rank {rank} sends {sent} bytes", NOTHING_TO_SEND)
        before, after = (run[when].peak_bytes[rank]["total"] for when in ("before", "after"))
        if before - after < flat:
            what = f"rank {rank}: flat's {flat} bytes are freed, and {after + flat - before} taken"
            raise Wrong(case, what, KEPT_ELSEWHERE)


KEPT_ELSEWHERE = (
    "a copy is kept elsewhere. The other ranks have what this one gives up: gather() gets it back"
)


EXERCISE = Exercise(
    "6.10", "dispose", examine_dispose,
    (
        "Two things: flat's storage, and the parameters, which must not be usable by mistake.",
        "unit.flat.untyped_storage() is shared by all views into flat. If it is resized, all "
        "of them lose their memory, and keep their shapes.",
        "A parameter stays the object that it is. p.data = x makes it show x: a tensor of its "
        "dtype without elements, such as unit.shard.data[:0].",
    ),
    lab="zero",
)  # fmt: skip
