# Built from chapters/ch06_zero/labs/resharding.py by `make build`.
"""A checkpoint for any number of ranks, by hand: every rank writes its part and reads its new one.

torchrun --nproc-per-node 2 labs/resharding.py
"""

import shutil
import tempfile
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from composing import GradientClipOptimizer
from language_model import Transformer, draw_batch, mean_loss, standard_library
from memory import MixedPrecision
from simple_ddp import share_of_rank
from zero import STAGES, whole
from zero_on_disk import (
    collect_optimizer_state,
    get_unsharded,
    make_state,
    need_all_ranks,
    show_shards,
)

# ---- Which part is where --------------------------------------------------------------------


def parts_to_read(length, before, now, rank) -> list[tuple[int, int, int]]:
    """Exercise 6.18. Return what a rank of `now` has to read of the `before` files.

    A tensor of `length` numbers was cut into equal parts of ceil(length / before), one for each
    rank; the last parts may be shorter, or empty. File k has the part of rank k, without padding.
    Now it is cut in the same way for `now` ranks.

    Returns  [(file, start, end), …]: the new part of this rank consists of the numbers from start
             up to end (without end) of these files, one after another. Numbers are counted from the
             beginning of the file. Empty reads are left out
    Example  parts_to_read(10, 4, 2, 0) is [(0, 0, 3), (1, 0, 2)]: the files have 3, 3, 3 and 1
             numbers, the new part has 5. Rank 1 gets [(1, 2, 3), (2, 0, 3), (3, 0, 1)]
    """
    ### BEGIN SOLUTION
    old, new = -(-length // before), -(-length // now)
    begin, end = min(rank * new, length), min((rank + 1) * new, length)
    parts = []
    for file in range(before):
        first, last = max(begin, file * old), min(end, (file + 1) * old)
        if first < last:
            parts.append((file, first - file * old, last - file * old))
    return parts
    ### END SOLUTION


# ---- Saving and loading ---------------------------------------------------------------------


def shards_of(engine) -> dict[str, torch.Tensor]:
    """Return what this rank keeps of each unit, with its padding."""
    found = {}
    for number, unit in enumerate(engine.units.values()):
        kept = {
            "shard": unit.shard.detach(),
            **collect_optimizer_state(engine.optimizer, unit.shard),
        }
        found |= {f"{number}.{name}": x for name, x in kept.items()}
    return found


def save_parts(engine, folder) -> None:
    """Write one file: this rank's part of each flat tensor, without padding.

    Rank 0 also writes frozen parameters and buffers. The folder is a new one, which all ranks can
    read. What belongs to no parameter, such as the factor of a LossScaler, is not saved.

    Raises  ValueError if the engine shards over a group of some ranks only
    """
    need_all_ranks(engine)
    units = list(engine.units.values())
    parts = get_unsharded(engine) if dist.get_rank() == 0 else {}
    for name, x in shards_of(engine).items():
        unit = units[int(name.split(".")[0])]
        length, each = sum(unit.sizes), unit.shard.numel()
        here = max(0, min(each, length - unit.rank * each))
        parts[name] = x[:here].clone() if x.dim() else x  # a clone: without the rest of a storage
    torch.save(parts, Path(folder, f"rank {dist.get_rank()} of {dist.get_world_size()}.pt"))


def paths_of_ranks(folder) -> list[Path]:
    """Return the files of a checkpoint, "rank 0 of 2.pt" and so on, in the order of the ranks."""
    found = sorted(path.name for path in Path(folder).glob("rank *.pt"))
    ranks = found[0].removesuffix(".pt").split()[-1] if found else "0"
    names = [f"rank {rank} of {ranks}.pt" for rank in range(int(ranks))]
    if not found or sorted(names) != found:
        raise ValueError(
            f"{folder} needs one file of each rank, all of one checkpoint, but it has "
            f"{', '.join(found) or 'none'}: save each checkpoint in a new folder"
        )
    return [Path(folder, name) for name in names]


@torch.no_grad()
def load_parts(engine, folder) -> int:
    """Read this rank's new part of everything; return how many bytes of tensors it has read.

    Raises  ValueError if the folder has not exactly the files of one world of ranks, or if the
            engine shards over a group of some ranks only
    """
    need_all_ranks(engine)
    make_state(engine)
    paths = paths_of_ranks(folder)
    files = [torch.load(path, map_location="cpu", mmap=True) for path in paths]
    units, read = list(engine.units.values()), 0
    for name, x in shards_of(engine).items():
        new = read_part(files, name, x, units[int(name.split(".")[0])])
        target = x[: len(new)] if x.dim() else x  # without padding
        target.copy_(new)
        read += new.nbytes
    for name, x in get_unsharded(engine).items():
        x.copy_(files[0][name])
        read += x.nbytes
    show_shards(engine)
    return read


def read_part(files, name, x, unit) -> torch.Tensor:
    """Return the new part of one tensor; of the mapped files, only what is copied is read."""
    if not x.dim():
        return files[0][name]  # a counter of steps, the same in all files
    parts = parts_to_read(sum(unit.sizes), len(files), unit.n, unit.rank)
    return torch.cat([x[:0].cpu(), *(files[file][name][start:end] for file, start, end in parts)])


# ---- The program ----------------------------------------------------------------------------

STEPS = 4


def start(stage="stage 3", mixed=False):
    """Return an engine and its model: mixed precision with clipping, or float64 with Adam alone."""
    torch.manual_seed(0)
    model = Transformer(15, layers=2, heads=3)
    make_optimizer = partial(torch.optim.Adam, lr=1e-3)
    if mixed:
        clipped = partial(GradientClipOptimizer, make_optimizer=make_optimizer, max_norm=1.0)
        make_optimizer = partial(MixedPrecision, make_optimizer=clipped)
    model = model.bfloat16() if mixed else model.double()
    return STAGES[stage](model, make_optimizer, list(model.blocks)), model


def train(engine, model, text, steps) -> torch.Tensor:
    """Return the weights after steps of 12 samples each, which 1, 2, 3, 4 and 6 ranks can share."""
    for step in steps:
        inputs, targets = share_of_rank(draw_batch(text, 12, step))
        mean_loss(model(inputs), targets).backward()
        engine.step()
    with whole(engine):
        return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu()


def first_half(folder, save, text, *settings) -> torch.Tensor:
    """Train, save, and go on; return the weights at the end."""
    engine, model = start(*settings)
    train(engine, model, text, range(STEPS))
    save(engine, folder)
    return train(engine, model, text, range(STEPS, 2 * STEPS))


def second_half(folder, load, text, *settings) -> torch.Tensor:
    """Load on these ranks, and go on; return the weights at the end."""
    engine, model = start(*settings)
    load(engine, folder)
    return train(engine, model, text, range(STEPS, 2 * STEPS))


def program(text) -> float:
    """Return how far the weights of one go are from those with a checkpoint in between."""
    from pedagogy_lib import relative_gap

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    in_one_go = first_half(folder[0], save_parts, text)
    dist.barrier()
    resumed = second_half(folder[0], load_parts, text)
    dist.barrier()
    shutil.rmtree(folder[0], ignore_errors=True)
    return relative_gap(resumed, in_one_go)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(20_000), world_size=4)
    if run.rank == 0:
        print(f"resumed from the files of {len(run.values)} ranks: off by {run.values[0]:.0e}")


if __name__ == "__main__":
    main()
