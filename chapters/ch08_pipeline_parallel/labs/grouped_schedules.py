"""Interleaved 1F1B in groups of any size: its bubble, what ranks keep, and slow links.

torchrun --nproc-per-node 3 labs/grouped_schedules.py
"""

from itertools import accumulate

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import my_pipeline
from schedules import breadth_first, interleaved_in_groups, rows_of

# ---- Simulated ------------------------------------------------------------------------------


def pace_of_chunks(chunks) -> dict[str, float]:
    """Return the times on one chunk; a rank's whole part takes 1 forward, and 2 backward."""
    return {"F": 1 / chunks, "B": 2 / chunks}


def group_sizes(microbatches, size) -> list[int]:
    """Return how many micro-batches each group has; the last one may have fewer than `size`."""
    return [min(size, microbatches - first) for first in range(0, microbatches, size)]


def bubble_of(rows, chunks, link_seconds=0.0) -> float:
    """Return how much longer a step is than its work, in forwards of a rank's whole part.

    Raises  ScheduleError, a ValueError, if ranks wait for each other forever
    """
    from pedagogy_lib import check_schedule, simulate

    check_schedule(rows)
    microbatches = 1 + max(action.microbatch for action in rows[0])
    return simulate(rows, pace_of_chunks(chunks), link_seconds).seconds - 3 * microbatches


def most_kept(rows) -> int:
    """Return the most forwards, each of one chunk, that rank 0 keeps for their backwards."""
    return max(accumulate(1 if action.kind == "F" else -1 for action in rows[0]))


def describe_size(ranks, microbatches, chunks, size) -> list[str]:
    """Return a table's row: the groups, the bubble, and what rank 0 keeps, or why it hangs."""
    rows = rows_of(interleaved_in_groups, ranks, microbatches, chunks=chunks, size=size)
    groups = " + ".join(map(str, group_sizes(microbatches, size)))
    try:
        bubble = f"{bubble_of(rows, chunks):g}"
    except ValueError as error:
        return [str(size), groups, "hangs", str(error).partition(";")[0]]
    return [str(size), groups, bubble, f"{most_kept(rows) / chunks:g} micro-batches"]


# ---- On real ranks --------------------------------------------------------------------------


def try_groups(cases, chunks=2, samples=13) -> dict[tuple, float]:
    """Return {(micro-batches, size): this rank's gap to one process's gradients}, in float64.

    cases    [(micro-batches, size of a group, or "breadth-first"), …]
    samples  of the batch; if they do not divide evenly, micro-batches have different sizes
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    rank, ranks, found = dist.get_rank(), dist.get_world_size(), {}
    for microbatches, size in cases:
        split, alone = (make_model(ranks * chunks) for _ in range(2))
        inputs, targets = draw_batch(standard_library(20_000), samples, 0)
        loss = mean_loss(alone(inputs), targets)
        loss.backward()
        if size == "breadth-first":
            row = breadth_first(rank, ranks, microbatches, chunks)
        else:
            row = interleaved_in_groups(rank, ranks, microbatches, chunks, size)
        pipeline = my_pipeline(split, chunks=chunks)
        parts = (part.tensor_split(microbatches) for part in (inputs, targets))
        total = pipeline.step(list(row), *parts)
        mine = {p for stage in pipeline.stages for p in stage.piece.parameters()}
        pairs = [(p.grad, q.grad) for p, q in zip(split.parameters(), alone.parameters())
                 if p in mine]  # fmt: skip
        if rank == ranks - 1:  # the only one that knows the loss
            pairs.append((torch.tensor(total), loss))
        found[microbatches, size] = max(relative_gap(*pair) for pair in pairs)
    return found


def make_model(stages) -> Transformer:
    torch.manual_seed(0)
    return Transformer(width=16, heads=2, layers=max(2, stages))


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    cases = [(7, 3), (7, 4), (5, "breadth-first")]
    run = launch(try_groups, cases, world_size=3)
    if run.rank == 0:
        for case in cases:
            gap = max(of_rank[case] for of_rank in run.values)
            print(f"{case}: loss and gradients of one process to 1e-12: {gap < 1e-12}")


if __name__ == "__main__":
    main()
