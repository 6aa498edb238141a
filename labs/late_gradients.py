# Built from chapters/ch08_pipeline_parallel/labs/late_gradients.py by `make build`.
"""The effect of late gradients on training: PipeDream's ways with several seeds, late and on time.

torchrun --nproc-per-node 2 labs/late_gradients.py
"""

from statistics import mean, median

import torch
from language_model import Transformer, mean_loss, standard_library
from pipedream import ALONE, WAYS, AsynchronousPipeline, draw_batches
from pipeline_parallel import my_stages
from schedules import one_f_one_b

# ---- One training run -----------------------------------------------------------------------


def losses_of(way, text, microbatches, lr, every, seed, samples=4) -> list[float]:
    """Return the loss of each micro-batch on the last rank, and no losses on the others.

    way    "stashing": an update per micro-batch. "two versions" and "accumulating": an update per
           `every` micro-batches, the second without any delay (on one rank)
    every  also the most ranks, because the model has layers for so many
    seed   of the initial weights and of the batches
    """
    torch.manual_seed(seed)
    model = Transformer(layers=max(2, every - 2), width=32)
    several = {} if way == "stashing" else {"every": every}
    stages = my_stages(model, make=lambda piece: (WAYS | ALONE)[way](piece, lr, **several))
    pipeline = AsynchronousPipeline(stages, mean_loss, model.places.weight.shape[1])
    actions = list(one_f_one_b(pipeline.rank, pipeline.ranks, microbatches))
    pipeline.step(actions, *draw_batches(text[10_000 * seed :], microbatches, samples))
    return [loss.item() for loss in pipeline.losses]


def trainings(ways, text, microbatches, rates, seeds, every) -> dict:
    """Train in float64, run by run; return {(way, rate): [the losses of each seed]}."""
    torch.set_default_dtype(torch.float64)
    return {
        (way, lr): [losses_of(way, text, microbatches, lr, every, seed) for seed in range(seeds)]
        for way in ways
        for lr in rates
    }


def all_trainings(ranks, *args) -> dict:
    """Return {name: {rate: [losses of each seed]}}, late on `ranks` ranks, and on time on one."""
    from pedagogy_lib import launch

    *_, every = args
    late = launch(trainings, list(WAYS), *args, world_size=ranks).values[-1]
    on_time = launch(trainings, ["stashing", *ALONE], *args, world_size=1).values[0]
    names = {
        "each, on time": (on_time, "stashing"),
        "each, late": (late, "stashing"),
        f"every {every}, on time": (on_time, "accumulating"),
        f"every {every}, late": (late, "two versions"),
    }
    return {
        name: {lr: losses for (key, lr), losses in of.items() if key == way}
        for name, (of, way) in names.items()
    }


# ---- Tables and verdicts --------------------------------------------------------------------


def average_losses(found, lr, window=10) -> dict:
    """Return {name: {micro-batch: [the mean loss of the `window` before it, for each seed]}}."""
    return {
        name: {
            at: [mean(losses[at - window : at]) for losses in of[lr]]
            for at in range(window, len(of[lr][0]) + 1, window)
        }
        for name, of in found.items()
    }


def ends(found, name, lr, last=20, before=0) -> list[float]:
    """Return the mean loss over the last micro-batches, or some before the end, for each seed."""
    return [mean(losses[len(losses) - before - last :][:last]) for losses in found[name][lr]]


def rows(found, rates) -> list[list[str]]:
    """Return a table's rows: each way's last losses per rate, as median and range of the seeds."""
    return [[name, *(format_losses(ends(found, name, lr)) for lr in rates)] for name in found]


def format_losses(values) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compare_losses(found, name, other, lr) -> str:
    """Say how much higher one way's loss ends than another's, seed by seed."""
    gaps = [a - b for a, b in zip(ends(found, name, lr), ends(found, other, lr))]
    higher = sum(gap > 0 for gap in gaps)
    return f"{median(gaps):+.2f}, higher with {higher} of {len(gaps)} seeds"


def verdict(found, name, other, lr, behind) -> str:
    """Say whether a way's loss ends higher than another's, seed by seed.

    behind  by how many micro-batches its updates come later. Where the losses still fall, this
            alone makes it higher. So it is also compared with the other's losses before that many
    """
    late, now = ends(found, name, lr), ends(found, other, lr)
    then = ends(found, other, lr, before=behind)
    if all(a > max(b, c) for a, b, c in zip(late, now, then)):
        return "more than being behind explains"
    if all(a > b for a, b in zip(late, now)):
        return "no more than being behind explains"
    return "so few cannot tell"


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    from pedagogy_lib import launch

    run = launch(trainings, list(WAYS), standard_library(100_000), 40, [0.1], 2, 2, world_size=2)
    if run.rank == 0:
        for (way, lr), losses in run.values[-1].items():
            last = ", ".join(f"{mean(of[-10:]):.2f}" for of in losses)
            print(f"{way}, rate {lr:g}: loss at the end, of two seeds: {last}")


if __name__ == "__main__":
    main()
