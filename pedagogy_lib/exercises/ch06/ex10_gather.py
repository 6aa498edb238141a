"""A unit that gets its memory back."""

import contextlib
from math import prod

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.torch_private import ResizesWatched, is_in_storage, is_same_storage
from ..kit import GROUP, At, Equals, RankExercise, Sends, World, answering, complains, never
from ..kit.refused import Refused
from ..kit.trials import numbers
from .units_in_memory import SHAPES, Held, length_of_shard, shard_stays, slopes_are

LARGE = [(2, 60_000), (), (399,)]
NEW = -1  # in memory that is new
IN_BYTES = "a storage counts bytes, whatever the dtype: flat.nbytes, not the number of its elements"
WITHOUT_GRAD = "autograd watches over the shard: leave gather() under torch.no_grad()"

# ---- On a rank ---


def gather_disposed(answer, group, case):
    dtype, shapes, times, stays = case.args
    held = Held(answer, group, dtype, shapes)
    unit, parameters = held.unit, list(held.unit.parameters)  # those that a model has
    for time in range(times):
        held.shard.data.copy_(shard_of(dist.get_rank(group), unit.n, case, time))
        if not (stays and time):  # else it has the shards as they were
            held.resize(0)
            for p in parameters:
                p.data = p.new_empty(0)
        dist.barrier(group)
        with answering(), marking_new_memory(held):
            answer(unit)
    found, is_there = held.look(), held.storage.nbytes() == unit.flat.nbytes
    found |= {
        "bytes": held.storage.nbytes(),
        "flat": unit.flat.detach().clone() if is_there else None,
        "chunks_apart": [k for k, chunk in enumerate(unit.chunks) if is_apart(chunk, held)],
        "shown": [p.detach().clone() for p in parameters] if is_there else None,
        "apart": [k for k, p in enumerate(parameters) if is_apart(p, held)],
        "history": unit.flat.requires_grad or not all(p.is_leaf for p in parameters),
    }
    return found | {"slopes": held.slope() if is_there and not found["history"] else None}


def shard_of(place, n, case, time):
    """What an optimizer has made of a shard."""
    dtype, shapes, *_ = case.args
    return numbers(place, (length_of_shard(n, shapes),), dtype, 10 + time)


def is_apart(tensor, held) -> bool:
    return not is_in_storage(tensor, held.storage)


@contextlib.contextmanager
def marking_new_memory(held):
    """So that nobody finds in it by chance what was there before. Too little of it is refused."""
    flat, needed = held.unit.flat, held.unit.flat.nbytes

    @contextlib.contextmanager
    def fill(storage, size):
        is_own, before = is_same_storage(storage, held.storage), storage.nbytes()
        if is_own and 0 < size < needed:
            raise Refused(f"flat's storage gets {size} bytes, it needs {needed}", IN_BYTES)
        yield
        if is_own and size > before:
            flat.new_empty(0).detach().set_(storage).fill_(NEW)

    with ResizesWatched(fill):
        yield


# ---- What is right, and what is not ---


def shard_in(trial, place, ago=1):
    return shard_of(place, trial.n, trial.case, trial.case.args[2] - ago)


def every_shard(trial, place=None, ago=1):
    return torch.cat([shard_in(trial, k, ago) for k in range(trial.n)])


def mistakes(trial, place):
    if trial.case.is_group:  # in the worlds before it was right
        return {}
    truth = every_shard(trial)
    marks = f"{NEW} marks memory that is new, and that nobody has written: "
    is_own = torch.arange(len(truth)) // (len(truth) // trial.n) == place
    each, length = len(truth) // trial.n, sum(map(prod, trial.case.args[1]))
    late = [k * (each - length // trial.n) for k in range(trial.n)]
    return {
        "a shard stands too early in flat. Where its chunk begins, the padding counts, too: a "
        "chunk is as long as a shard, and that may be more than sum(sizes) // n":
            torch.cat([F.pad(shard_in(trial, k)[off:], (0, off), value=NEW)
                       for k, off in enumerate(late)]),
        f"{marks}this rank's own chunk, and so it is on its way to all. Whatever was in flat "
        "before is gone, and the optimizer has changed the shard since: copy the shard into the "
        "chunk, before it travels": torch.full_like(truth, NEW),
        f"{marks}this rank's own chunk. Nobody sends it: it comes from the shard":
            truth.masked_fill(is_own, NEW),
        f"{marks}the other ranks' chunks. Either nothing comes from there, which takes an "
        "all-gather, or what comes was sent before the shard was copied into it":
            truth.masked_fill(~is_own, NEW),
        "the shards are there, in a wrong order: chunk k of flat is rank k's shard":
            torch.cat(truth.chunk(trial.n)[::-1]),
        "these are the shards as they were before. Also if flat still has its memory, an optimizer "
        "has changed the shards since: afterwards every shard as it is now is to be there":
            every_shard(trial, ago=2),
    }  # fmt: skip


def need_bytes(trial):
    wanted = every_shard(trial).nbytes
    for place, nbytes in enumerate(trial.of("bytes")):
        if nbytes != wanted:
            what = f"flat's storage has {nbytes} bytes, expected {wanted}"
            nothing = "flat has no memory still: its storage has to be resized, and then filled"
            yield f"{trial.who(place)}: {what}", IN_BYTES if nbytes else nothing


def parts(trial, place):
    shapes = [torch.Size(shape) for shape in trial.case.args[1]]
    sizes = [shape.numel() for shape in shapes]
    flat = every_shard(trial)[: sum(sizes)].split(sizes)
    return [part.view(shape) for part, shape in zip(flat, shapes)]


def other_parts(trial, place):
    of = parts(trial, place)
    return {
        "flat is there, and the parameters do not know it. Each has to become a view into flat "
        "again, by its `.data`: show_parameters does that": [x.new_empty(0) for x in of],
        "a part of flat has one dimension: give it the shape of its parameter":
            [x.flatten() for x in of],
    }  # fmt: skip


EXERCISE = RankExercise(
    "6.10",
    "gather",
    lab="zero",
    needs=("6.2", "2.7"),
    cases=[
        At(World(2), (torch.float64, SHAPES, 1, False), ", float64"),
        At(World(3), (torch.float32, SHAPES, 2, False), ", float32, the second time"),
        At(World(2), (torch.float64, SHAPES, 2, True), ", float64, flat still has its memory"),
        At(World(1), (torch.float64, SHAPES, 1, False), ", float64"),
        At(World(4), (torch.float32, LARGE, 1, False), ", float32, large"),
        At(GROUP, (torch.float64, SHAPES, 1, False), ", float64"),
    ],
    work=gather_disposed,
    facts=[
        *shard_stays(shard_in),
        complains(need_bytes),
        never("chunks_apart", "unit.chunks{} is no part of flat",
              "unit.chunks are views into flat, and the next gather() writes into them: write into "
              "a chunk with copy_, and leave the list as it is"),
        Equals("flat", every_shard, mistakes, otherwise="flat is every rank's shard, one after "
               "another: chunk k is rank k's"),
        Equals("shown", parts, other_parts, "unit.parameters", "the parameters lie in flat in the "
               "order of unit.parameters, without gaps"),
        never("apart", "the parameters {} have memory of their own",
              "the parameters are copies: the unit takes twice its memory, and dispose() frees "
              "half of it. A parameter's `.data` is a view into flat"),
        never("history", "flat has a history in autograd now",
              "the shard requires a gradient, and autograd has recorded the copy: leave gather() "
              "under torch.no_grad()"),
        slopes_are(lambda trial: (every_shard(trial), trial.case.args[1]), "a backward gives"),
        Sends(
            lambda trial, place: trial.case.args[1] is LARGE
            and every_shard(trial).nbytes * (1 - 1 / trial.n),
            "its own chunk, sent once to each of the others, has",
            {
                "all_reduce": "an all-reduce sends twice as much: it adds up what has only to be "
                "passed on. An all-gather passes on",
                "all_gather": "each rank sends all of flat to all others. What it has to give is "
                "its own chunk",
                "": "more is sent than each chunk once to everybody",
            },
        ),
    ],
    told="flat is every rank's shard, and saved views are good",
    errors={
        "SIGSEGV": "memory is read or written that is not there. A disposed unit's flat has a "
        "shape, and a storage of 0 bytes: the storage is resized first, and all else comes after "
        "it",
        "of size 0": "flat's storage has 0 bytes still, and so no part of it can be used: the "
        "storage is resized first, and all else comes after it",
        "leaf Variable": WITHOUT_GRAD,
        "created in no_grad mode": WITHOUT_GRAD,
        "split_sizes to sum": "flat is longer than the parameters: there is padding at its end. "
        "show_parameters() leaves it out",
    },
    lost="every rank of the unit's group makes the same calls, in the same order",
    hints=(
        "Four steps: memory for flat, this rank's chunk, everybody's chunks, the parameters.",
        "flat's memory is its storage: unit.flat.untyped_storage(). resize_ takes bytes. What "
        "is in it afterwards is anything.",
        "This rank's chunk comes from unit.shard, which the optimizer may have changed: "
        "unit.chunks[unit.rank].copy_(unit.shard).",
        "all_gather_ring(unit.chunks, unit.group) fills the other chunks, in place. "
        "show_parameters(unit) makes the parameters views into flat again.",
    ),
)  # fmt: skip
