"""A unit that gets its memory back: exercise 6.9; and what tries it and dispose() on a unit."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ...basics.torch_private import ResizesWatched, is_in_storage, is_same_storage
from ...course.checking import Exercise, Wrong
from ..kit.differences import first_difference
from ..kit.on_ranks import IN_A_GROUP, answering
from ..kit.refused import Refused
from ..kit.trials import TOLERANCE, megabytes, numbers
from ..kit.worlds import GROUP, At, World, explain_by, try_at

SHAPES = [(2, 3), (), (4,)]  # 11 elements: 2, 3 or 4 ranks need padding
LARGE_SHAPES = [(300, 400), (), (399,)]


# ---- A unit to try it on ---------------------------------------------------------------------


def made_unit(answer, group=None, dtype=torch.float64, shapes=SHAPES):
    """The lab's unit, with other numbers on each rank; raises `Refused` if 6.2 is not right."""
    place, n = dist.get_rank(group), dist.get_world_size(group)
    values = [numbers(place, shape, dtype, salt) for salt, shape in enumerate(shapes)]
    unit = answer.lab.Unit([nn.Parameter(x.clone()) for x in values], group, alone=True)
    long = torch.cat([x.flatten() for x in values])
    if len(unit.flat) != -(-len(long) // n) * n or not close(unit.flat[: len(long)], long):
        raise Refused("flatten_padded gives the unit a wrong flat tensor", 'first: check("6.2")')
    return unit


def use(unit):
    """An input, and a product that has saved a view of the first parameter for its backward."""
    x = torch.ones(1, SHAPES[0][1], dtype=unit.flat.dtype, requires_grad=True)
    return x, F.linear(x, unit.parameters[0]).sum()


def slope_of(x, product):
    """What the backward gives for the input: the sum of the parameter's rows, if it is there."""
    return torch.autograd.grad(product, x)[0].flatten()


def slope_expected(flat):
    rows, columns = SHAPES[0]
    return flat[: rows * columns].view(rows, columns).sum(0)


def give_memory(flat, elements):
    """What stands for dispose() where gather() is tried, and for gather() where dispose() is."""
    flat.untyped_storage().resize_(elements * flat.itemsize)


def explain_unit(case, meanings, mismatch=""):
    def explain(error):
        refused = getattr(error, "exception", None)
        if isinstance(refused, Refused):
            raise Wrong(case, f"rank {error.rank}: {refused.what}", refused.why)
        return explain_by(meanings, mismatch)(error)

    return explain


def need_flat(unit, storage):
    """Raise `Refused` unless `flat` has the storage that it had."""
    if not isinstance(unit.flat, torch.Tensor):
        raise Refused(f"unit.flat is {unit.flat!r:.40}", FLAT_IS_GONE)
    if not is_in_storage(unit.flat, storage):
        what = f"unit.flat has another storage now; the one before has {storage.nbytes()} bytes"
        raise Refused(what, NEW_STORAGE)


FLAT_IS_GONE = (
    "the unit's flat tensor itself is to stay: chunks are views into it, and gather() and "
    "dispose() change its memory alone"
)
NEW_STORAGE = (
    "the chunks, and what autograd has saved, are views into the storage that was there: they keep "
    "it, and never see a new one. flat stays the tensor that it is; its storage is resized"
)


def need_shard(unit, shard, values, storage):
    """Raise `Refused` unless the shard is what it was, outside of flat's storage."""
    if unit.shard is not shard:
        raise Refused("unit.shard is another object now", SHARD_REPLACED)
    if is_in_storage(shard, storage):
        raise Refused("unit.shard is a view into flat now", SHARD_INSIDE)
    if shard.shape != values.shape or shard.untyped_storage().nbytes() < values.nbytes:
        raise Refused("the shard has no memory any more", SHARD_LOST)
    if not close(shard.detach(), values):
        raise Refused(f"the shard {first_difference(shard.detach(), values)}", SHARD_CHANGED)


SHARD_REPLACED = (
    "the optimizer steps on the parameter that was there: leave the object in its place"
)
SHARD_INSIDE = (
    "the shard needs memory of its own: if it lies in flat, it goes when flat's memory goes"
)
SHARD_LOST = (
    "the shard has to stay: it is this rank's part of the parameters, and nobody else has it. "
    "flat's memory alone goes"
)
SHARD_CHANGED = "the optimizer alone changes a shard: flat is filled from it, not it from flat"


# ---- 6.9: gather -----------------------------------------------------------------------------

WITHOUT_GRAD = "autograd watches over the shard: leave gather() under torch.no_grad()"
GATHER_ERRORS = {
    "SIGSEGV": "memory is read or written that is not there. A disposed unit's flat has a shape, "
    "and a storage of 0 bytes: the storage is resized first, and all else comes after it",
    "of size 0": "flat's storage has 0 bytes still, and so no part of it can be used: the storage "
    "is resized first, and all else comes after it",
    "leaf Variable": WITHOUT_GRAD,
    "created in no_grad mode": WITHOUT_GRAD,
    "split_sizes to sum": "flat is longer than the parameters: there is padding at its end. "
    "show_parameters() leaves it out",
}
OTHER_CHUNK = (
    "unit.chunks are views into flat: write into a chunk with copy_, and leave the list as it is"
)
SAME_CALLS = "every rank of the unit's group makes the same calls, in the same order"


def examine_gather(answer):
    cases = [
        At(World(2), (torch.float64,), ", float64"),
        At(World(3), (torch.float32,), ", float32"),
        At(World(1), (torch.float64,), ", float64"),
        At(GROUP, (torch.float64,), ", float64"),
        At(World(4), (), ", large"),
    ]
    for at, found, traffic in try_at(cases, gather_on_rank, answer, explain_gather):
        if at.args:
            yield f"{at}: flat is every rank's shard, and saved views are good"
        else:
            yield cost_of_gather(at.world, found, traffic)


def explain_gather(at):
    in_a_group = {"index out of range": IN_A_GROUP} if at.is_group else {}
    return explain_by(GATHER_ERRORS | in_a_group, IN_A_GROUP if at.is_group else SAME_CALLS)


def gather_on_rank(answer, group, dtype=None):
    if dtype is None:
        return gather_large(answer, group)
    unit, all_gather_is_right = made_unit(answer, group, dtype), is_all_gather(answer, group)
    for time in ("the first time", "the second time"):
        try:
            gather_once(answer, unit, group, time)
        except Refused as refused:
            why = refused.why if all_gather_is_right else 'first: check("2.7")'
            raise Refused(f"{time}, {refused.what}", why) from None


def is_all_gather(answer, group) -> bool:
    """Whether the lab's all_gather_ring, which gather may use, gives everybody all chunks."""
    place, n = dist.get_rank(group), dist.get_world_size(group)
    x = torch.zeros(n)
    x[place] = place + 1
    answer.lab.all_gather_ring(x.chunk(n), group)
    return x.tolist() == list(range(1, n + 1))


def gather_once(answer, unit, group, time):
    """Gather a disposed unit after a step of an optimizer; raises `Refused` for what is wrong."""
    saved, storage, shard = use(unit), unit.flat.untyped_storage(), unit.shard
    place, dtype = dist.get_rank(group), unit.flat.dtype
    shards = [numbers(k, shard.shape, dtype, len(time)) for k in range(dist.get_world_size(group))]
    shard.data.copy_(shards[place])
    leave_empty(unit)
    with new_memory_is_nan(unit):
        answer(unit)
    need_flat(unit, storage)
    if storage.nbytes() != unit.flat.nbytes:
        what = f"flat's storage has {storage.nbytes()} bytes, expected {unit.flat.nbytes}"
        raise Refused(what, IN_BYTES if storage.nbytes() else NO_MEMORY)
    need_shard(unit, shard, shards[place], storage)
    if unit.chunks[place].untyped_storage().data_ptr() != storage.data_ptr():
        raise Refused(f"unit.chunks[{place}] is no part of flat", OTHER_CHUNK)
    need_all_shards(unit, shards, place)
    need_parameters(unit, storage)
    slope = slope_of(*saved)
    if not close(slope, slope_expected(unit.flat)):
        raise Refused(f"a backward gives {slope.tolist()}", NEW_STORAGE)


def leave_empty(unit):
    give_memory(unit.flat, 0)
    for p in unit.parameters:
        p.data = p.new_empty(0)


@contextlib.contextmanager
def new_memory_is_nan(unit):
    """So that nobody finds in it by chance what was there before. Too little of it is refused."""
    own, needed = unit.flat.untyped_storage(), unit.flat.nbytes

    @contextlib.contextmanager
    def fill(storage, size):
        is_own, before = is_same_storage(storage, own), storage.nbytes()
        if is_own and 0 < size < needed:
            raise Refused(f"flat's storage gets {size} bytes, it needs {needed}", IN_BYTES)
        yield
        if is_own and size > before:
            unit.flat.new_empty(0).detach().set_(storage).fill_(torch.nan)

    with ResizesWatched(fill):
        yield


IN_BYTES = "a storage counts bytes, whatever the dtype: flat.nbytes, not the number of its elements"
NO_MEMORY = "flat has no memory still: its storage has to be resized, and then filled"


def need_all_shards(unit, shards, place):
    truth, flat = torch.cat(shards), unit.flat.detach()
    if close(flat, truth):
        return
    new = [bool(torch.isnan(chunk).any()) for chunk in flat.chunk(len(shards))]
    why = "flat is every rank's shard, one after another: chunk k is rank k's"
    if new[place]:
        why = f"{NAN}: {OWN_CHUNK}"
    elif any(new):
        why = f"{NAN}: {OTHERS}"
    elif flat.sort().values.equal(truth.sort().values):
        why = f"the shards are there, in a wrong order; {why}"
    raise Refused(f"flat {first_difference(flat, truth)}", why)


NAN = "nan marks memory that is new, and that nobody has written"
OWN_CHUNK = (
    "this rank's own chunk. Whatever was in flat before is gone, and the optimizer has changed the "
    "shard since: copy the shard into the chunk, before it travels"
)
OTHERS = (
    "the other ranks' chunks. Either nothing comes from there, which takes an all-gather, or what "
    "comes was sent before the shard was copied into it"
)


def need_parameters(unit, storage):
    start = 0
    for number, (p, shape) in enumerate(zip(unit.parameters, SHAPES)):
        if p.shape != torch.Size(shape):
            what = f"parameter {number} has shape {list(p.shape)}, expected {list(shape)}"
            raise Refused(what, SHAPE if p.numel() else NOT_SHOWN)
        if not is_in_storage(p, storage):
            raise Refused(f"parameter {number} has memory of its own", COPIED)
        if p.storage_offset() != start:
            raise Refused(f"parameter {number} shows another part of flat than its own", WRONG_PART)
        start += p.numel()
    if any(not is_in_storage(chunk, storage) for chunk in unit.chunks):
        raise Refused("unit.chunks are no views into flat any more", CHUNKS)
    if unit.flat.requires_grad or any(not p.is_leaf for p in unit.parameters):
        raise Refused("flat has a history in autograd now", HISTORY)


NOT_SHOWN = (
    "flat is there, and the parameters do not know it. Each has to become a view into flat again, "
    "by its `.data`: show_parameters(unit) does that"
)
SHAPE = "a part of flat has one dimension: give it the shape of its parameter"
COPIED = (
    "the parameters are copies: the unit takes twice its memory, and dispose() frees half of it. A "
    "parameter's `.data` is a view into flat"
)
WRONG_PART = "the parameters lie in flat in the order of unit.parameters, without gaps"
CHUNKS = "they are what the next gather() writes into: leave them as they are"
HISTORY = (
    "the shard requires a gradient, and autograd has recorded the copy: leave gather() under "
    "torch.no_grad()"
)


def cost_of_gather(world, found, traffic) -> str:
    case = f"cost, {world}"
    n, size = world.size, found[0]
    best = (n - 1) / n * size
    for place, (_, sent) in enumerate(traffic):
        if sent > best * (1 + TOLERANCE):
            what = f"rank {place} sends {megabytes(sent)}, expected {megabytes(best)}"
            raise Wrong(case, what, why_so_much(sent / size, n))
    return f"{case}: {megabytes(best)} from each rank, {n - 1}/{n} of flat"


def gather_large(answer, group):
    unit = made_unit(answer, group, torch.float32, LARGE_SHAPES)
    leave_empty(unit)
    dist.barrier(group)
    with answering(memory=False):
        answer(unit)
    return unit.flat.nbytes


def why_so_much(copies, n) -> str:
    """What it means to send flat so many times."""
    if abs(copies - (n - 1)) < 0.1:
        return (
            "the numbers are right, but each rank sends all of flat to all others. What it has to "
            "give is its own chunk"
        )
    if abs(copies - 2 * (n - 1) / n) < 0.1:
        return (
            "the numbers are right, but an all-reduce sends twice as much: it adds up what has "
            "only to be passed on. An all-gather passes on"
        )
    return "the numbers are right, but more is sent than each chunk once to everybody"


EXERCISE = Exercise(
    "6.9", "gather", examine_gather,
    (
        "Four steps: memory for flat, this rank's chunk, everybody's chunks, the parameters.",
        "flat's memory is its storage: unit.flat.untyped_storage(). resize_ takes bytes. What "
        "is in it afterwards is anything.",
        "This rank's chunk comes from unit.shard, which the optimizer may have changed: "
        "unit.chunks[unit.rank].copy_(unit.shard).",
        "all_gather_ring(unit.chunks, unit.group) fills the other chunks, in place. "
        "show_parameters(unit) makes the parameters views into flat again.",
    ),
    lab="zero",
)  # fmt: skip
