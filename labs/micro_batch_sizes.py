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


def take_turns(sizes, rounds, seconds) -> dict[int, list[float]]:
    """Return {size: seconds of its rounds}; sizes take turns, and the first round does not count.

    seconds  seconds(size) runs the work to measure, and returns its seconds
    """
    found = {size: [] for size in sizes}
    for size in list(sizes) * (1 + rounds):
        found[size].append(seconds(size))
    return {size: times[1:] for size, times in found.items()}


def times_of(sizes=SIZES, rounds=12) -> dict[int, list[float]]:
    """Return {samples: seconds of each round} of the slower of two stages, on one rank.

    A time is that of a forward and a backward.
    """
    layers, slowest = layers_of(Transformer(**MODEL)), {}
    for piece in pieces_of(layers, [2, 2]):
        stage, takes_tokens = Stage(piece), piece[0] is layers[0]

        def seconds(size, stage=stage, takes_tokens=takes_tokens):
            x = torch.randn(size, MODEL["context"], MODEL["width"])
            x = x[..., 0].long().abs() if takes_tokens else x
            began = time.perf_counter()
            stage.backward(0, torch.ones_like(stage.forward(0, x)))
            return time.perf_counter() - began

        for size, times in take_turns(sizes, rounds, seconds).items():
            slowest[size] = max(slowest.get(size, [0.0]), times, key=min)
    return slowest


def step_times(sizes=SIZES, rounds=5) -> dict[int, list[float]]:
    """Return {samples per micro-batch: seconds of steps under 1F1B}, on each of two ranks."""
    torch.manual_seed(0)
    pipeline = my_pipeline(Transformer(**MODEL))
    batch = draw_batch(standard_library(20_000), SAMPLES, 0, MODEL["context"])

    def seconds(size):
        row = list(one_f_one_b(pipeline.rank, pipeline.ranks, SAMPLES // size))
        dist.barrier()
        began = time.perf_counter()
        pipeline.step(row, *(part.split(size) for part in batch))
        return time.perf_counter() - began

    return take_turns(sizes, rounds, seconds)


def slowest_rank(of_ranks) -> dict[int, list[float]]:
    """Return {size: seconds of the slowest rank in each round}."""
    return {size: [max(of_round) for of_round in zip(*(found[size] for found in of_ranks))]
            for size in of_ranks[0]}  # fmt: skip


def name_quickest(times) -> str:
    """Name the sizes that no other size is clearly quicker than: "4 samples", "4 or 8 samples"."""
    from pedagogy_lib.measuring.rounds import find_quickest

    names = sorted(find_quickest(times))
    return " or ".join(map(str, names)) + (" sample" if names == [1] else " samples")


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(step_times, world_size=2, device="cpu")
    if run.rank == 0:
        for size, times in slowest_rank(run.values).items():
            print(f"micro-batches of {size:2} samples: a step takes {1e3 * min(times):.1f} ms")


if __name__ == "__main__":
    main()
