"""A unit whose memory is allocated and filled again."""

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, complains, never

from ..shared.units_in_memory import SHAPES
from ..shared.units_in_memory_truth import shard_stays, slopes_are
from .cases import LARGE, gather_disposed
from .truth import WITHOUT_GRAD, every_shard, mistakes, need_bytes, other_parts, parts, shard_in

EXERCISE = RankExercise(
    "gather",
    lab="zero",
    needs=("flatten_padded", "all_gather_ring"),
    cases=[
        RankCase(World(2), (torch.float64, SHAPES, 1, False), ", float64"),
        RankCase(World(3), (torch.float32, SHAPES, 2, False), ", float32, the second time"),
        RankCase(
            World(2), (torch.float64, SHAPES, 2, True), ", float64, flat still has its memory"
        ),
        RankCase(World(1), (torch.float64, SHAPES, 1, False), ", float64"),
        RankCase(World(4), (torch.float32, LARGE, 1, False), ", float32, large"),
        RankCase(GROUP, (torch.float64, SHAPES, 1, False), ", float64"),
    ],
    work=gather_disposed,
    facts=[
        *shard_stays(shard_in),
        complains(need_bytes),
        never(
            "chunks_apart",
            "unit.chunks{} is no part of flat",
            "unit.chunks are views into flat, and the next gather() writes into them: write into "
            "a chunk with copy_, and leave the list as it is",
        ),
        Equals(
            "flat",
            every_shard,
            mistakes,
            otherwise="flat is every rank's shard, one after another: chunk k is rank k's",
        ),
        Equals(
            "shown",
            parts,
            other_parts,
            "unit.parameters",
            "the parameters lie in flat in the order of unit.parameters, without gaps",
        ),
        never(
            "apart",
            "the parameters {} have memory of their own",
            "the parameters are copies: the unit takes twice its memory, and dispose() frees "
            "half of it. A parameter's `.data` is a view into flat",
        ),
        never(
            "history",
            "flat has a history in autograd now",
            "the shard requires a gradient, and autograd has recorded the copy: leave gather() "
            "under torch.no_grad()",
        ),
        slopes_are(lambda trial: (every_shard(trial), trial.case.args[1]), "a backward gives"),
        Sends(
            lambda trial, place: (
                trial.case.args[1] is LARGE and every_shard(trial).nbytes * (1 - 1 / trial.n)
            ),
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
    right="flat is every rank's shard, and saved views are good",
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
    on_hang="every rank of the unit's group makes the same calls, in the same order",
    hints=(
        "Four steps: memory for flat, this rank's chunk, everybody's chunks, the parameters.",
        "flat's memory is its storage: unit.flat.untyped_storage(). resize_ takes bytes. What "
        "is in it afterwards is anything.",
        "This rank's chunk comes from unit.shard, which the optimizer may have changed: "
        "unit.chunks[unit.rank].copy_(unit.shard).",
        "all_gather_ring(unit.chunks, unit.group) fills the other chunks, in place. "
        "show_parameters(unit) makes the parameters views into flat again.",
    ),
)
