"""Measurements of a pipeline: what a step computes, keeps and sends, next to one process.

torchrun --nproc-per-node 2 labs/pipelines_measured.py
"""

import copy
import itertools

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import (
    RecomputingStage,
    Stage,
    even_sizes,
    layers_of,
    my_pipeline,
    one_batch,
    pieces_of,
    train,
)
from schedules import SCHEDULES, gpipe, one_f_one_b, rows_of

# ---- Weights ------------------------------------------------------------------------------------


def bytes_of_stages(width, stages) -> tuple[list[int], list[int]]:
    """Return each stage's number of layers and bytes of parameters, for a small transformer."""
    layers = layers_of(Transformer(width=width, layers=max(8, stages)))
    sizes = even_sizes(len(layers), stages)
    pieces = pieces_of(layers, sizes)
    return sizes, [sum(w.nbytes for w in piece.parameters()) for piece in pieces]


# ---- Activations kept ---------------------------------------------------------------------------


def count_kept(names, stages, microbatches) -> dict:
    """Return {schedule: the most micro-batches that each real rank has kept}."""
    from pedagogy_lib import launch

    rows = {name: rows_of(SCHEDULES[name], stages, microbatches) for name in names}
    return {name: launch(one_batch, of, world_size=stages).values for name, of in rows.items()}


def one_step(rows, sizes, samples, recompute=False):
    """Run a step on a rank, without emulation; what it sends and keeps is measured as "step"."""
    from pedagogy_lib import measure

    torch.manual_seed(0)
    make = RecomputingStage if recompute else Stage
    a_block_each = [3] if len(rows) == 1 else [2] + [1] * (len(rows) - 2) + [2]
    pipeline = my_pipeline(Transformer(**sizes), a_block_each, make=make)
    row = rows[pipeline.rank]
    m = 1 + max(action.microbatch for action in row)
    batch = draw_batch(standard_library(20_000), samples, 0, sizes["context"])
    with measure("step"):
        pipeline.step(row, *(part.tensor_split(m) for part in batch))


SMALL = {"width": 32, "heads": 2, "context": 16}
INPUT_BYTES = 2 * 16 * 32 * 4  # a float32 micro-batch of two samples, between two stages


def most_activations(rows, microbatches, recompute=False) -> list[int]:
    """Return each rank's peak bytes of activations; micro-batches have two samples."""
    from pedagogy_lib import launch

    sizes = SMALL | {"layers": len(rows)}
    run = launch(one_step, rows, sizes, 2 * microbatches, recompute, world_size=len(rows))
    return [peak["activations"] for peak in run["step"].peak_bytes]


def activations_of(stages, microbatches) -> tuple[dict, dict]:
    """Return {way: kB on each rank}, measured, and predicted from a step of one micro-batch."""
    one = most_activations(rows_of(gpipe, stages, 1), 1)
    rows = {name: rows_of(SCHEDULES[name], stages, microbatches) for name in ("GPipe", "1F1B")}
    found = {name: most_activations(of, microbatches) for name, of in rows.items()}
    kept = {"GPipe": [microbatches] * stages}
    kept["1F1B"] = [min(microbatches, stages - rank) for rank in range(stages)]
    theory = {name: [n * size for n, size in zip(kept[name], one)] for name in kept}
    again = "GPipe, recomputed"
    found[again] = most_activations(rows["GPipe"], microbatches, recompute=True)
    inputs = [0] + [INPUT_BYTES] * (stages - 1)  # the first stage keeps tokens, made earlier
    theory[again] = [size + (microbatches - 1) * more for size, more in zip(one, inputs)]
    return convert_to_kilobytes(found), convert_to_kilobytes(theory)


def convert_to_kilobytes(ways) -> dict:
    return {name: [size / 1e3 for size in of_ranks] for name, of_ranks in ways.items()}


# ---- Gradients and losses -----------------------------------------------------------------------


def compare_with_one_process(names, counts, sizes) -> dict:
    """Return {(schedule, micro-batches): whether (gradients, loss) equal one process's}.

    Numbers are float64. With 8 samples, 3 micro-batches have different sizes.
    """
    from pedagogy_lib import close

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    alone = Transformer(**sizes)
    split = copy.deepcopy(alone)
    inputs, targets = draw_batch(standard_library(20_000), 8, 0, sizes["context"])
    loss = mean_loss(alone(inputs), targets)
    loss.backward()
    pipeline, equal = my_pipeline(split), {}
    for name, m in itertools.product(names, counts):
        split.zero_grad()
        trained = {p for stage in pipeline.stages for p in stage.piece.parameters()}
        row = list(SCHEDULES[name](pipeline.rank, pipeline.ranks, m))
        found = pipeline.step(row, inputs.tensor_split(m), targets.tensor_split(m))
        pairs = [pq for pq in zip(split.parameters(), alone.parameters()) if pq[0] in trained]
        gradients = all(p.grad is not None and close(p.grad, q.grad) for p, q in pairs)
        is_last = pipeline.rank == pipeline.ranks - 1
        equal[name, m] = gradients, not is_last or close(found, loss.item())
    return equal


def tabulate_comparison(names, counts, stages) -> list[list[str]]:
    """Return a table's rows: whether all ranks of a pipeline equal one process."""
    from pedagogy_lib import launch

    sizes = SMALL | {"layers": stages}
    of_ranks = launch(compare_with_one_process, names, counts, sizes, world_size=stages).values
    return [
        [*map(str, key), *(str(all(found[key][part] for found in of_ranks)) for part in (0, 1))]
        for key in of_ranks[0]
    ]


def train_pipeline(text, sizes, steps) -> tuple[float, float]:
    """Train under 1F1B in float64; return the first and the last loss, known on the last rank."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    return train(my_pipeline(Transformer(**sizes)), one_f_one_b, text, steps)[:2]


def sums_of_parts(part_of_loss, counts=(1, 2, 4, 8)) -> list[tuple]:
    """Return (m, a batch's loss, its gradients' norm) for each m, summed over m micro-batches."""
    found = []
    for m in counts:
        torch.manual_seed(0)
        model = Transformer(width=16, layers=1)
        inputs, targets = draw_batch(standard_library(20_000), 8, 0)
        loss = 0.0
        for x, y in zip(inputs.tensor_split(m), targets.tensor_split(m)):
            part = part_of_loss(model(x), y, len(inputs))
            part.backward()
            loss += part.item()
        norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
        found.append((m, loss, norm.item()))
    return found


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    sizes = SMALL | {"layers": 2}
    run = launch(compare_with_one_process, ["GPipe", "1F1B"], [1, 3, 8], sizes, world_size=2)
    if run.rank == 0:
        for (name, m), parts in run.values[0].items():
            print(f"{name:6} {m} micro-batches: gradients of one process {parts[0]}")


if __name__ == "__main__":
    main()
