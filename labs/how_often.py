# Built from chapters/ch04_failure_and_recovery/labs/how_often.py by `make build`.
"""How often to save: work that is killed at random moments, and what that costs.

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
BEGUN, STEPS, WORKED, SAVES, SAVED = range(5)  # what a worker notes, in memory that both see


# ---- A worker that is killed again and again ------------------------------------------------
#
# Its computing is emulated: it sleeps. Its process, its file, and its end are real.


def work(notes, path: Path, every, step_seconds, save_seconds):
    """Work on from the last saving, and save after every so many steps, until killed."""
    done = int(path.read_bytes()) if path.exists() else 0
    notes[BEGUN] = 1
    while True:
        began = time.perf_counter()
        time.sleep(step_seconds)
        done, worked = done + 1, time.perf_counter()
        notes[STEPS] += 1
        notes[WORKED] += worked - began
        if done % every == 0:
            time.sleep(save_seconds)  # as if it were large
            write_whole(path, str(done).encode())
            notes[SAVES] += 1
            notes[SAVED] += time.perf_counter() - worked


def lifetimes(mean_seconds, failures, seed) -> list[float]:
    """How long a worker lives, again and again: exponentially distributed, in random order.

    Their values are spread evenly over the distribution. So few of them tell as much as many drawn
    independently.
    """
    even = [(place + 0.5) / failures for place in range(failures)]
    random.Random(seed).shuffle(even)
    return [-mean_seconds * math.log(1 - share) for share in even]


def run_with_kills(every, failures, step_seconds=STEP_SECONDS, save_seconds=SAVE_SECONDS):
    """Start a worker, kill it after a while, start it again, …; returns what came of it.

    every     steps from one saving to the next
    failures  how long each worker lives, in seconds
    Returns   {"period": seconds from the beginning of one saving to that of the next, "saving":
               seconds of one saving, "lost": steps that had to be taken again, "cost": the share of
               all time in which no step was taken that was saved later}
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
            while not notes[BEGUN]:  # its start takes time, too, which is not what is measured here
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


# ---- What it costs, by formula --------------------------------------------------------------


def best_period(saving_seconds, failure_seconds) -> float:
    """Seconds from saving to saving for which savings and lost work cost least.

    Source  Young 1974, "A first order approximation to the optimum checkpoint interval"
    """
    return math.sqrt(2 * saving_seconds * failure_seconds)


def cost(period, saving, failure_seconds) -> float:
    """The share of all time that savings and lost work take, if failures come at random.

    period           seconds from the beginning of one saving to that of the next
    saving           seconds that one saving takes
    failure_seconds  from one failure to the next, on average; a restart takes no time
    Source           Daly 2006, "A higher order estimate of the optimum checkpoint interval", eq. 13
    """
    return 1 - (period - saving) / failure_seconds / math.expm1(period / failure_seconds)


def best_of(periods, costs) -> float:
    """Where a curve through measured costs is lowest.

    It is a / period + b * period + c, through the time that is lost for each useful second. Each
    point counts by how far the curve is off in relation to it.
    """
    x, lost = torch.tensor(periods).double(), torch.tensor(costs).double()
    y = lost / (1 - lost)
    terms = torch.stack([1 / x, x, torch.ones_like(x)], dim=1) / y[:, None]
    a, b, _ = torch.linalg.lstsq(terms, torch.ones_like(y)[:, None]).solution.flatten().tolist()
    return math.sqrt(a / b) if a * b > 0 else math.nan


# ---- The program ----------------------------------------------------------------------------

AROUND = (1 / 3, 1 / 1.75, 1, 1.75, 3)  # of a period: those that are tried


def steps_to_try(period, saving=SAVE_SECONDS, step_seconds=STEP_SECONDS) -> list[int]:
    """Five numbers of steps between two savings, for periods around this one."""
    return [max(1, round((share * period - saving) / step_seconds)) for share in AROUND]


def try_periods(numbers_of_steps, mean_seconds=FAILURE_SECONDS, failures=FAILURES) -> dict:
    """On each rank another number of steps; all are killed after the same times."""
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
