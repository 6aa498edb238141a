"""A step on three axes in solutions/labs/three_dimensions.py, and of PyTorch's engines composed."""

import time
from functools import partial
from pathlib import Path
from statistics import median

import torch.distributed as dist
from rows import Measurement, Row, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
WHOSE = "by hand", "PyTorch's"
MESHES = {"dp": (2, 1, 2), "3D": (2, 2, 2)}
WIDTHS, MICROBATCHES, SAMPLES = (64, 256), 4, 16
ROUNDS, WARM_UP = 9, 2
MOST = 1.1  # times the engines' step
MOST_START = 12.0  # seconds, of 64 ranks with two steps


def take_turns(engines, sizes, width, text) -> dict:
    """Time a step on this rank, in seconds: {whose: a list with one per round}."""
    made = {}
    for whose in WHOSE:
        model = engines.whole_model(tied=False, width=width)
        made[whose] = engines.ready(whose, model, sizes, MICROBATCHES, 1.0)
    batch = engines.draw_batch(text, SAMPLES, 0, engines.SIZES["context"])
    times = {whose: [] for whose in WHOSE}
    for turn in range(ROUNDS + WARM_UP):
        for whose in sorted(WHOSE, reverse=turn % 2):
            dist.barrier()
            began = time.perf_counter()
            made[whose].step(*batch)
            if turn >= WARM_UP:
                times[whose].append(time.perf_counter() - began)
    return times


def the_lab(name):
    return Lab(name, *[SOLVED / f"{name}.py"] * 2)


def sizes_of(lengths):
    return dict(zip(("dp", "pp", "tp"), lengths))


def format_sizes(sizes):
    return " × ".join(f"{axis} {size}" for axis, size in sizes.items() if size > 1)


def measurements() -> list[Measurement]:
    pairs = [(sizes_of(lengths), width) for lengths in MESHES.values() for width in WIDTHS]
    return [
        *(
            Measurement(
                f"a step, {format_sizes(sizes)}, width {width}",
                partial(compare_engines, sizes, width),
            )
            for sizes, width in pairs
        ),
        Measurement("64 ranks", sixty_four),
    ]


def compare_engines(sizes, width):
    engines, text = the_lab("three_engines"), the_lab("language_model").standard_library(100_000)
    world_size = sizes["dp"] * sizes["pp"] * sizes["tp"]
    run = launch(
        take_turns, engines, sizes, width, text, world_size=world_size, device="cpu", timeout=300
    )
    ours, theirs = (
        median(map(max, zip(*(of_rank[whose] for of_rank in run.values)))) for whose in WHOSE
    )
    yield Row(
        f"by hand beside PyTorch's engines, a step, {format_sizes(sizes)}, width {width}",
        milliseconds(ours), milliseconds(theirs), f"{ours / theirs:.2f}x", f"<= {MOST}x",
        ours <= MOST * theirs, {"ours_seconds": ours, "peer_seconds": theirs},
    )  # fmt: skip


def sixty_four():
    """Time 64 processes, their groups and two steps, from the call to the values."""
    three, text = the_lab("three_dimensions"), the_lab("language_model").standard_library(100_000)

    def work(three, text):
        three.one_step(sizes_of((4, 4, 4)), text, memory=False)

    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        launch(work, three, text, world_size=64, device="cpu", timeout=120)
        seconds.append(time.perf_counter() - began)
    found = median(seconds)
    yield Row(
        "64 ranks on dp 4 × pp 4 × tp 4, from cell to the end of a step", f"{found:.1f} s", "",
        "", f"<= {MOST_START:g} s", found <= MOST_START, {"seconds": found},
    )  # fmt: skip
