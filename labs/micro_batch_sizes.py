# Built from chapters/ch08_pipeline_parallel/labs/micro_batch_sizes.py by `make build`.
"""The time of a micro-batch, and of a step with micro-batches of that size.

torchrun --nproc-per-node 2 labs/micro_batch_sizes.py
"""

import time

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, standard_library
from pipeline_parallel import Stage, layers_of, my_pipeline, pieces_of
from schedules import one_f_one_b

MODEL = {"width": 64, "layers": 2, "heads": 4, "context": 64}  # two stages with a block each
SIZES = [1, 2, 4, 8, 16, 32]
SAMPLES = 32  # per batch


def best_of(sizes, rounds, seconds) -> dict[int, float]:
    """Return {size: its quickest round}; rounds alternate, so no disturbance hits one size alone.

    seconds  seconds(size) runs the work to measure, and returns its seconds
    """
    best = {}
    for size in list(sizes) * rounds:
        took = seconds(size)
        best[size] = min(best.get(size, took), took)
    return best


def times_of(sizes=SIZES, rounds=12) -> dict[int, float]:
    """Return {samples: seconds} of the slower of two stages, forward and backward, on one rank."""
    layers, slowest = layers_of(Transformer(**MODEL)), {}
    for piece in pieces_of(layers, [2, 2]):
        stage, takes_tokens = Stage(piece), piece[0] is layers[0]

        def seconds(size, stage=stage, takes_tokens=takes_tokens):
            x = torch.randn(size, MODEL["context"], MODEL["width"])
            x = x[..., 0].long().abs() if takes_tokens else x
            began = time.perf_counter()
            stage.backward(0, torch.ones_like(stage.forward(0, x)))
            return time.perf_counter() - began

        found = best_of(sizes, rounds, seconds)
        slowest = {size: max(slowest.get(size, 0), took) for size, took in found.items()}
    return slowest


def step_times(sizes=SIZES, rounds=5) -> dict[int, float]:
    """Return {samples per micro-batch: seconds of a step under 1F1B}, on each of two ranks."""
    torch.manual_seed(0)
    pipeline = my_pipeline(Transformer(**MODEL))
    batch = draw_batch(standard_library(20_000), SAMPLES, 0, MODEL["context"])

    def seconds(size):
        row = list(one_f_one_b(pipeline.rank, pipeline.ranks, SAMPLES // size))
        dist.barrier()
        began = time.perf_counter()
        pipeline.step(row, *(part.split(size) for part in batch))
        return time.perf_counter() - began

    return best_of(sizes, rounds, seconds)


def slowest_rank(of_ranks) -> dict[int, float]:
    """Return {size: seconds of the slowest rank}."""
    return {size: max(found[size] for found in of_ranks) for size in of_ranks[0]}


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(step_times, world_size=2, device="cpu")
    if run.rank == 0:
        for size, took in slowest_rank(run.values).items():
            print(f"micro-batches of {size:2} samples: a step takes {1e3 * took:.1f} ms")


if __name__ == "__main__":
    main()
