"""The right results, and the results of known mistakes."""

from math import prod

import torch
import torch.nn.functional as F

from .cases import IN_BYTES, NEW, shard_of

WITHOUT_GRAD = "autograd watches over the shard: leave gather() under torch.no_grad()"


def shard_in(trial, place, ago=1):
    return shard_of(place, trial.n, trial.case, trial.case.args[2] - ago)


def every_shard(trial, place=None, ago=1):
    return torch.cat([shard_in(trial, k, ago) for k in range(trial.n)])


def mistakes(trial, place):
    if trial.case.is_group:  # earlier cases, in whole worlds, were right
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
    for place, nbytes in enumerate(trial.collect_values("bytes")):
        if nbytes != wanted:
            what = f"flat's storage has {nbytes} bytes, expected {wanted}"
            nothing = "flat has no memory still: its storage has to be resized, and then filled"
            yield f"{trial.name_of_rank(place)}: {what}", IN_BYTES if nbytes else nothing


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
