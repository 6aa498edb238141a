# Built from chapters/ch08_pipeline_parallel/labs/pipeline_balance.py by `make build`.
"""The time of a pipeline's step with unequal layers, and with links that take time.

torchrun --nproc-per-node 2 labs/pipeline_balance.py
"""

import torch
from language_model import Transformer, draw_batch, standard_library
from pipeline_parallel import Stage, balance, even_sizes, layers_of, no_context, one_batch
from schedules import one_f_one_b, rows_of
from simple_ddp import now

# ---- The time of layers ---------------------------------------------------------------------


def layer_times(of_model, samples=4, rounds=10) -> list[float]:
    """Return the seconds of each layer's forward and backward on this rank, fastest round."""
    layers, seconds = layers_of(Transformer(**of_model)), []
    x, _ = draw_batch(standard_library(20_000), samples, 0)
    for layer in layers:
        stage, fastest = Stage(torch.nn.Sequential(layer)), float("inf")
        for _ in range(rounds):
            began = now()
            y = stage.forward(0, x)
            stage.backward(0, torch.ones_like(y))
            fastest = min(fastest, now() - began)
        seconds.append(fastest)
        x = y
    return seconds


def work_of(weights, sizes) -> list[float]:
    """Return the work of each stage, if layers take `weights` and stages have `sizes` of them."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [sum(weights[end - size : end]) for size, end in zip(sizes, ends)]


def pace_of(weights, sizes, block=0.010) -> dict[str, list[float]]:
    """Return each stage's seconds of F and B; the forward of a layer of weight 1 takes `block`."""
    work = work_of(weights, sizes)
    return {"F": [block * one for one in work], "B": [2 * block * one for one in work]}


# ---- On real ranks --------------------------------------------------------------------------


def emulate_rows(rows, pace, link_seconds=0.0, layers=None, waits=False):
    """Return the simulated timeline of a schedule, and the one measured on real ranks.

    pace          seconds of each kind, for all stages or for each; computation is emulated
    link_seconds  seconds per message
    layers        how many layers each stage has
    waits         whether a sender waits until its message has left
    """
    from pedagogy_lib import launch, paced, simulate, timeline_of

    run = launch(
        one_batch, rows, paced(pace), link_seconds, layers, waits,
        world_size=len(rows), device="cpu",
    )  # fmt: skip
    return simulate(rows, pace, link_seconds, waits), timeline_of(run, rows)


# ---- Links of a cluster ---------------------------------------------------------------------


def message_share(width, layers, flops, link) -> float:
    """Return the time of a message over a boundary, as a share of a stage's forward.

    A token's activation has 2 * width bytes (bfloat16). Its forward takes 24 * width² FLOPs per
    block (attention's scores left out), so the number of tokens does not matter.

    layers  blocks per stage
    flops   FLOP/s that a GPU reaches
    link    bytes per second
    """
    return (2 * width / link) / (24 * width**2 * layers / flops)


def step_longer_by(rows, share) -> float:
    """Return how much longer a step takes, as a share, if a message takes `share` of a forward."""
    from pedagogy_lib import simulate

    pace = {"F": 1.0, "B": 2.0}
    return simulate(rows, pace, share).seconds / simulate(rows, pace).seconds - 1


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    weights = [0.5, 1, 1, 1, 1, 3]
    rows = rows_of(one_f_one_b, 2, 4)
    for way, sizes in (("even", even_sizes(6, 2)), ("balanced", balance(weights, 2))):
        run = launch(one_batch, rows, no_context, 0.0, sizes, world_size=2)
        if run.rank == 0:
            print(f"{way}: {sizes} layers, the slowest stage {max(work_of(weights, sizes)):g}")


if __name__ == "__main__":
    main()
