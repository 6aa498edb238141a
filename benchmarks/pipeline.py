"""Pipelines of solutions/labs/pipeline_parallel.py, compared with torch.distributed.pipelining."""

import functools
import time
from pathlib import Path
from statistics import mean, median

import torch
import torch.distributed as dist
from rows import Measurement, Row, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import SlowLayer, launch

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
SCHEDULES = "GPipe", "1F1B"
WHOSE = "ours", "PyTorch's"
WIDTHS, MICROBATCHES, SAMPLES = (64, 256), 8, 16
ROUNDS, WARM_UP = 11, 3
SMALL = {"width": 16, "heads": 2, "context": 8}
FORWARD_SECONDS, BACKWARD_SECONDS = 0.100, 0.200  # of a stage whose computation is emulated
WORLD_SIZES = (2, 4, 8)
STEPS = 2  # of each; the faster one counts
NEAR = 0.10  # of the formula


def time_run(step) -> float:
    dist.barrier()
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def take_turns(engines, width, batch) -> dict:
    """Time steps on this rank, in seconds: {(whose, schedule): a list with one per round}."""
    made, steps = {}, {}
    for pair in [(whose, name) for name in SCHEDULES for whose in WHOSE]:
        made[pair] = engines.ready(*pair, engines.small_model(*pair, width=width), MICROBATCHES)
        steps[pair] = lambda engine=made[pair]: engine.step(*batch)
    times = {pair: [] for pair in steps}
    for turn in range(ROUNDS + WARM_UP):
        for pair in sorted(steps, reverse=turn % 2):
            seconds = time_run(steps[pair])
            if turn >= WARM_UP:
                times[pair].append(seconds)
    return times


def emulate_steps(engines, draw_batch, text, microbatches) -> dict:
    """Time a step with slow stages, and this rank's stage alone, in seconds: {pair: (…, …)}."""
    batch = draw_batch(text, microbatches, 0, SMALL["context"])
    return {
        (whose, name): time_emulated_step(engines, whose, name, batch)
        for name in SCHEDULES
        for whose in WHOSE
    }


def time_emulated_step(engines, whose, name, batch) -> tuple[float, float]:
    torch.manual_seed(0)
    engine = engines.ready(whose, name, engines.small_model(whose, name, **SMALL), len(batch[0]))
    engine.step(*batch)
    engine.pieces[0].append(SlowLayer(FORWARD_SECONDS, BACKWARD_SECONDS))
    letters, is_first = batch[0][:1], dist.get_rank() == 0
    x = letters if is_first else torch.randn(*letters.shape, SMALL["width"], requires_grad=True)
    alone = min(time_run(lambda: engine.pieces[0](x).sum().backward()) for _ in range(STEPS + 1))
    return min(time_run(lambda: engine.step(*batch)) for _ in range(STEPS)), alone


def the_labs():
    return [
        Lab(name, *[SOLVED / f"{name}.py"] * 2) for name in ("pipeline_engines", "language_model")
    ]


def measurements() -> list[Measurement]:
    shares = []  # the rows of idle shares, for their mean
    return [
        *(
            Measurement(f"a step, width {width}", functools.partial(compare_schedules, width))
            for width in WIDTHS
        ),
        *(
            Measurement(f"idle share, p = {p}, m = {m}", functools.partial(bubbles, p, m, shares))
            for p in WORLD_SIZES
            for m in (p, 2 * p, 4 * p)
        ),
        Measurement("idle shares, their mean", functools.partial(mean_distance, shares)),
    ]


def compare_schedules(width):
    """Compare steps that really compute, with as many stages as this machine may have cores."""
    engines, language_model = the_labs()
    batch = language_model.draw_batch(language_model.standard_library(100_000), SAMPLES, 0)
    run = launch(take_turns, engines, width, batch, world_size=2, device="cpu", timeout=300)
    for name in SCHEDULES:
        ours, theirs = (
            median(map(max, zip(*(of_rank[whose, name] for of_rank in run.values))))
            for whose in WHOSE
        )
        yield Row(
            f"{name} beside PyTorch's, a step, 2 stages, width {width}",
            milliseconds(ours), milliseconds(theirs), f"{ours / theirs:.2f}x", "<= 1.0x",
            ours <= theirs, {"ours_seconds": ours, "peer_seconds": theirs},
        )  # fmt: skip


def bubbles(p, m, shares):
    """Compare the idle share of steps with emulated computation with the formula's."""
    engines, language_model = the_labs()
    text = language_model.standard_library(100_000)
    run = launch(emulate_steps, engines, language_model.draw_batch, text, m, world_size=p,
                 device="cpu", timeout=300)  # fmt: skip
    rows = [bubble_row(run.values, name, p, m) for name in SCHEDULES]
    shares += rows
    yield from rows


def mean_distance(shares):
    if not shares:  # they were not chosen, or failed
        return
    ours, theirs = (mean(distance(row, whose) for row in shares) for whose in ("ours", "peer"))
    yield Row(
        f"mean distance from the formula, of {len(shares)} idle shares",
        f"{ours:.1%}", f"{theirs:.1%}", f"{ours / theirs:.2f}x", "<= 1.0x", ours <= theirs,
        {"ours": ours, "peer": theirs},
    )  # fmt: skip


def distance(row, whose) -> float:
    """Return how far an idle share is from the formula's, as a share of the formula's."""
    return abs(row.raw[whose] / row.raw["formula"] - 1)


def idle_share(values, pair, microbatches) -> float:
    """Return the share of a step's time that exceeds a stage's own time for all micro-batches."""
    step, alone = (max(of_rank[pair][part] for of_rank in values) for part in (0, 1))
    return 1 - microbatches * alone / step


def bubble_row(values, name, p, m) -> Row:
    formula = (p - 1) / (m + p - 1)
    ours, theirs = (idle_share(values, (whose, name), m) for whose in WHOSE)
    return Row(
        f"{name}, idle share, p = {p}, m = {m}: formula {formula:.3f}",
        f"{ours:.3f}", f"{theirs:.3f}", f"{ours / formula:.2f}x formula", "within 10 %",
        abs(ours - formula) <= NEAR * formula, {"ours": ours, "peer": theirs, "formula": formula},
    )  # fmt: skip
