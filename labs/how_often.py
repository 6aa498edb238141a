# Built from chapters/ch04_failure_and_recovery/labs/how_often.py by `make build`.
"""Checkpoint intervals: a worker that is killed at random, and the cost of saving and of lost work.

python labs/how_often.py
"""

import math
import mmap
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import torch
from checkpoints import write_whole

STEP_SECONDS, SAVE_SECONDS, FAILURE_SECONDS = 0.001, 0.003, 0.12
FAILURES = 40
BEGUN, STEPS, WORKED, SAVES, SAVED = range(5)  # a worker's notes, in shared memory


# ---- A worker that is killed again and again ------------------------------------------------
#
# Its computation is emulated by sleeping, but its process, its file and its death are real.


def work(notes, path: Path, every, step_seconds, save_seconds):
    """Continue from the last checkpoint until killed, and save each time `every` steps are done."""
    done = int(path.read_bytes()) if path.exists() else 0
    notes[BEGUN] = 1
    while True:
        began = time.perf_counter()
        time.sleep(step_seconds)
        done, worked = done + 1, time.perf_counter()
        notes[STEPS] += 1
        notes[WORKED] += worked - began
        if done % every == 0:
            time.sleep(save_seconds)  # as if the checkpoint were large
            write_whole(path, str(done).encode())
            notes[SAVES] += 1
            notes[SAVED] += time.perf_counter() - worked


def lifetimes(mean_seconds, failures, seed) -> list[float]:
    """Return the seconds that each worker lives, exponentially distributed and in random order.

    The values are spread evenly over the distribution, so that a few of them tell as much as many
    that are drawn independently.
    """
    even = [(place + 0.5) / failures for place in range(failures)]
    random.Random(seed).shuffle(even)
    return [-mean_seconds * math.log(1 - share) for share in even]


def run_with_kills(every, failures, step_seconds=STEP_SECONDS, save_seconds=SAVE_SECONDS):
    """Start a worker, kill it after a while, and repeat; return the cost of saving and dying.

    every     steps from one save to the next
    failures  how long each worker lives, in seconds
    Returns   {"period": seconds from the beginning of one save to that of the next, "saving":
              seconds per save, "lost": steps that had to be taken again, "cost": the share of all
              time that was not spent on steps that were saved later}
    """
    shared = mmap.mmap(-1, 64)
    notes, before = memoryview(shared).cast("d"), random.getstate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "steps")
        for seconds in failures:
            notes[BEGUN] = 0
            pid = os.fork()
            if pid == 0:
                try:
                    work(notes, path, every, step_seconds, save_seconds)
                finally:
                    os._exit(1)
            while not notes[BEGUN]:  # its start takes time, too, but is not measured here
                time.sleep(0.0002)
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        useful = int(path.read_bytes()) if path.exists() else 0
    random.setstate(before)
    steps, step = int(notes[STEPS]), notes[WORKED] / notes[STEPS]
    saving = notes[SAVED] / max(notes[SAVES], 1)
    return {
        "period": every * step + saving,
        "saving": saving,
        "lost": steps - useful,
        "cost": 1 - useful * step / sum(failures),
    }


# ---- The cost by formula --------------------------------------------------------------------


def best_period(saving_seconds, failure_seconds) -> float:
    """Return the checkpoint interval, in seconds, at which saving and lost work cost least.

    Source  Young 1974, "A first order approximation to the optimum checkpoint interval"
    """
    return math.sqrt(2 * saving_seconds * failure_seconds)


def cost(period, saving, failure_seconds) -> float:
    """Return the share of all time that saving and lost work take if failures come at random.

    period           seconds from the beginning of one save to that of the next
    saving           seconds per save
    failure_seconds  from one failure to the next, on average; a restart takes no time
    Source           Daly 2006, "A higher order estimate of the optimum checkpoint interval", eq. 13
    """
    return 1 - (period - saving) / failure_seconds / math.expm1(period / failure_seconds)


def best_of(periods, costs) -> float:
    """Return the period at which a curve through measured costs is lowest; nan if there is none.

    The curve is a / period + b * period + c, fitted to the time lost per useful second. Each point
    is weighted by the curve's relative error there.
    """
    x, lost = torch.tensor(periods).double(), torch.tensor(costs).double()
    y = lost / (1 - lost)
    terms = torch.stack([1 / x, x, torch.ones_like(x)], dim=1) / y[:, None]
    a, b, _ = torch.linalg.lstsq(terms, torch.ones_like(y)[:, None]).solution.flatten().tolist()
    return math.sqrt(a / b) if a * b > 0 else math.nan


# ---- The program ----------------------------------------------------------------------------

AROUND = (1 / 3, 1 / 1.75, 1, 1.75, 3)  # the shares of a period that are tried


def steps_to_try(period, saving=SAVE_SECONDS, step_seconds=STEP_SECONDS) -> list[int]:
    """Return five numbers of steps between two saves, for periods around this one."""
    return [max(1, round((share * period - saving) / step_seconds)) for share in AROUND]


def try_periods(numbers_of_steps, mean_seconds=FAILURE_SECONDS, failures=FAILURES) -> dict:
    """Kill a worker again and again on each rank, with another interval but the same lifetimes."""
    import torch.distributed as dist

    every = numbers_of_steps[dist.get_rank()]
    return run_with_kills(every, lifetimes(mean_seconds, failures, seed=0))


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    numbers = steps_to_try(best_period(SAVE_SECONDS, FAILURE_SECONDS))
    run = launch(try_periods, numbers, world_size=len(numbers), device="cpu")
    if run.rank == 0:
        print("saving after   lost steps   cost, measured   by Daly's formula")
        for number, found in zip(numbers, run.values):
            by_formula = cost(found["period"], found["saving"], FAILURE_SECONDS)
            print(f"{number:4} steps{found['lost']:16}{found['cost']:16.0%}{by_formula:20.0%}")


if __name__ == "__main__":
    main()
