"""Survivors of a failure: how long they pause, what they repeat, and what their copies cost."""

import os
import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch.distributed as dist
from rows import Measurement, Row

from coursekit.labs import Lab
from pedagogy_lib import launch

LABS = Path(__file__).resolve().parents[1] / "solutions" / "labs"
STEPS, DIE_AT, MORE_SECONDS = 60, 20, 1.0


def measurements() -> list[Measurement]:
    return [
        Measurement("a rank is lost", measure_pause),
        Measurement("copies in memory", measure_copies),
    ]


def lab(name):
    path = LABS / f"{name}.py"
    return Lab(name, path, path)


def train(keeping, folder, how):
    """Train, and return (step, time in seconds) of all steps that this process has taken."""
    crew = keeping.Crew(dist.FileStore(f"{folder}/store", -1), int(os.environ["WORLD_SIZE"]))
    training, is_first, taken = keeping.Training(), dist.is_initialized(), []

    def step(training, crew):
        if is_first and crew.me.startswith("002") and training.steps == DIE_AT:
            os.kill(os.getpid(), how)
        is_to_meet = keeping.take_step(training, crew)
        taken.append((training.steps, time.monotonic()))
        return is_to_meet

    keeping.train(training, crew, STEPS, step)
    return taken


def measure_pause():
    """Measure the longest time between two steps of a survivor, and its repeated steps."""
    keeping = lab("keep_training")
    plans = {
        "killed, and replaced": (signal.SIGKILL, 1, keeping.PATIENCE),
        "killed": (signal.SIGKILL, 0, keeping.PATIENCE),
        "stopped": (signal.SIGSTOP, 0, keeping.TIMEOUT + keeping.PATIENCE),
    }
    for what, (how, replacements, least) in plans.items():
        with tempfile.TemporaryDirectory() as folder:
            values = launch(train, keeping, folder, how, world_size=4, device="cpu",
                            replacements=replacements).values  # fmt: skip
        survivors = [value for rank, value in enumerate(values) if rank != 2]
        pause = max(after[1] - before[1] for one in survivors for before, after in pairwise(one))
        twice = max(len(one) - len(dict(one)) for one in survivors)
        yield Row(f"one of four is {what}: the others stand still for", f"{pause:.2f} s",
                  f"{least:.1f} s", limit=f"<= {least + MORE_SECONDS:.1f} s",
                  holds=pause <= least + MORE_SECONDS)  # fmt: skip
        yield Row(f"one of four is {what}: steps taken twice", str(twice), "0", limit="<= 1",
                  holds=twice <= 1)  # fmt: skip


def step_sharded(memory, with_copies):
    rank, n = dist.get_rank(), dist.get_world_size()
    training, copies = memory.ShardedTraining(rank, n), memory.Copies(rank, n, n // 2)
    if not with_copies:
        copies.exchange = lambda step, state: None
    times = []
    for _ in range(40):
        began = time.perf_counter()
        memory.take_step(training, copies)
        times.append(time.perf_counter() - began)
    return median(times[5:])


def measure_copies():
    """Measure the seconds of a step with a copy after it and without one."""
    memory = lab("memory_copies")
    with_copies, without = (
        max(launch(step_sharded, memory, which, world_size=4, device="cpu").values)
        for which in (True, False)
    )
    yield Row("a step of four shards, with copies, beside one without",
              f"{1e3 * with_copies:.1f} ms", f"{1e3 * without:.1f} ms",
              f"{with_copies / without:.2f}x", raw=[with_copies, without])  # fmt: skip
