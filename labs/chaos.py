# Built from chapters/ch04_failure_and_recovery/labs/chaos.py by `make build`. Write your answers here.
"""The exam of chapter 04: training that suffers every failure and ends as if there were none.

python labs/chaos.py 7        # failures drawn from seed 7 happen to four ranks
torchrun --nproc-per-node 4 labs/chaos.py
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from checkpoints import UNFINISHED, finish, newest_whole, note_of, serialize_state, write_whole
from finding_out import Disputed, flip_a_bit, wrong_by_recomputing
from folder_store import FolderStore
from gradient_accumulation import digits
from keep_training import (
    Crew,
    Lost,
    Training,
    catch_up,
    common_folder,
    one_process,
    talking,
    train,
)
from torch.nn.utils import parameters_to_vector

STEPS, RANKS, EVERY = 40, 4, 5  # EVERY: steps from one checkpoint to the next
LARGEST_DISK = 10_000_000  # bytes: a larger disk is not filled
LONGEST_START = 20.0  # seconds until a new process runs, on a busy machine
KINDS = (
    "kill", "hang", "slow", "wrong weights", "wrong gradients", "disk full", "power cut",
)  # fmt: skip


# ---- Planned events -------------------------------------------------------------------------


class Event(NamedTuple):
    """An event that happens once, to one rank, while it computes its gradients of a step.

    what  "kill", "hang" (the process is stopped), "slow" (for five steps), "wrong weights" (one bit
          of one weight changes), "wrong gradients" (from then on, until this process ends), "disk
          full" (for ten steps), or "power cut" (to all ranks: all processes end)
    """

    what: str
    step: int
    rank: int = 0


def draw_plan(seed, kinds=KINDS, steps=STEPS, n=RANKS) -> list[Event]:
    """Draw each kind of event once, at random ranks and steps; the same plan for the same seed."""
    chance = random.Random(seed)
    room = (steps - 4) // len(kinds)  # steps for each kind
    return [
        Event(what, 2 + room * k + chance.randrange(room), chance.randrange(n))
        for k, what in enumerate(chance.sample(kinds, len(kinds)))
    ]


class ChaosTraining(Training):
    """A training run to which the planned events happen."""

    COMPUTE_SECONDS = 0.002  # per micro-batch, emulated

    def __init__(self, plan, store, disk, data=None, last=STEPS):
        super().__init__(data, compute_seconds=self.COMPUTE_SECONDS)
        self.last = last
        self.plan, self.store, self.disk = plan, store, Path(disk)
        self.rank, self.computes_wrongly, self.slow_until = int(os.environ["RANK"]), False, 0

        self.store.set(f"process of rank {self.rank}", str(os.getpid()))

    def gradients_of(self, microbatch):
        if self.steps == self.last - 4:
            self.await_all()
        for number, event in enumerate(self.plan):
            if self.is_time(event) and self.is_first(number, event):
                HAPPENS[event.what](self)
        if self.steps < self.slow_until:
            time.sleep(10 * self.COMPUTE_SECONDS)
        if self.steps >= self.disk_full_until():
            (self.disk / "ballast").unlink(missing_ok=True)
        gradients = super().gradients_of(microbatch)
        return gradients.flip(0) if self.computes_wrongly else gradients

    def await_all(self):
        """Wait until every rank has a live process, but no longer than LONGEST_START."""
        until = time.monotonic() + LONGEST_START
        keys = [f"process of rank {rank}" for rank in range(int(os.environ["WORLD_SIZE"]))]
        while time.monotonic() < until and not all(is_alive(self.store.get(key)) for key in keys):
            time.sleep(0.02)

    def update(self, whole):
        super().update(whole)
        self.store.append("steps", f"{self.rank},{os.getpid()},{self.steps},{time.perf_counter()};")

    def is_time(self, event) -> bool:
        """Return whether an event is due; except a power cut, it waits for a missing rank."""
        return self.steps == event.step or (self.steps > event.step and event.what != "power cut")

    def is_first(self, number, event) -> bool:
        """Record an event if it hits this rank for the first time; return whether it does.

        A step may be taken again, but its event happens only once.
        """
        who = self.rank if event.what == "power cut" else event.rank
        if self.rank != who or self.store.add(f"event {number} on rank {who}", 1) > 1:
            return False
        self.store.append("events", f"{event.what},{self.rank},{self.steps},{time.perf_counter()};")
        return True

    def disk_full_until(self) -> float:
        """Return the step from which on the disk has room again; infinity if it is not full."""
        full = [event.step + 10 for event in self.plan if event.what == "disk full"]
        return full[0] if full and (self.disk / "ballast").exists() else float("inf")

    def be_slow(self):
        self.slow_until = self.steps + 5

    def compute_wrongly(self):
        self.computes_wrongly = True

    def fill_disk(self):
        """Fill only a very small disk, such as Disk() of the bench, but never this computer's."""
        room = os.statvfs(self.disk)
        if room.f_blocks * room.f_frsize <= LARGEST_DISK:
            with contextlib.suppress(OSError), open(self.disk / "ballast", "wb", 0) as file:
                while file.write(bytes(1000)):
                    pass


def is_alive(pid) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def end_by(number):
    return lambda training: os.kill(os.getpid(), number)


HAPPENS = {
    "kill": end_by(signal.SIGKILL),
    "power cut": end_by(signal.SIGKILL),
    "hang": end_by(signal.SIGSTOP),
    "slow": ChaosTraining.be_slow,
    "wrong weights": lambda training: flip_a_bit(training.model[0].weight),
    "wrong gradients": ChaosTraining.compute_wrongly,
    "disk full": ChaosTraining.fill_disk,
}


# ---- Checkpoints by one rank ----------------------------------------------------------------


def save_alone(folder, step, state, keep=2) -> str:
    """Save like `save` of the lab checkpoints, but on one rank, as all have the same state.

    Returns  "", or what went wrong
    """
    data, unfinished = serialize_state(state), Path(folder, UNFINISHED)
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write_whole(unfinished / "rank-0.pt", data)
        problem = finish(unfinished, step, {"rank-0.pt": note_of(data)}, keep)
    except OSError as error:
        problem = error.strerror
    shutil.rmtree(unfinished, ignore_errors=True)  # it has been renamed, if all went well
    return problem


def load_alone(folder) -> dict | None:
    """Return the state of the newest checkpoint that is whole; None if there is none."""
    found = newest_whole(folder)
    return torch.load(found / "rank-0.pt") if found else None


# ---- The exam -------------------------------------------------------------------------------


def keep_going(training, crew, folder, steps) -> None:
    """Exercise 4.17. Train up to so many steps, despite failures, to undisturbed weights.

    Called in every process, including those that take the place of a dead one.

    training  has `steps`, compute(rank, n), update(sums), state_dict() and load_state_dict(state)
    crew      of the lab keep_training: meet(), names, somebody_waits(), n
    folder    on a disk that all processes see, for save_alone() and load_alone()
    """
    ...  # your code here


def sit_exam(keep_going, plan, place, disk, data=None, steps=STEPS):
    """Run the exam in one process; return its steps and all weights in one row."""
    store = FolderStore(Path(place, "store"))
    crew = Crew(store, int(os.environ["WORLD_SIZE"]))
    training = ChaosTraining(plan, store, disk, data, steps)
    keep_going(training, crew, Path(disk, "checkpoints"), steps)
    return training.steps, parameters_to_vector(training.model.parameters()).detach()


class ChaosEvent(NamedTuple):
    """An event: its kind, its rank, its step, and its time on the clock `time.perf_counter()`."""

    what: str
    rank: int
    step: int
    at: float


def events_of(place) -> list[ChaosEvent]:
    """Return the events that have happened, in order."""
    told = read_store_lines(place, "events")
    return [ChaosEvent(what, int(rank), int(step), float(at)) for what, rank, step, at in told]


def steps_of(place) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Return {(rank, pid): [(step, when), …]}: the steps each process took, in order, from 1."""
    found = {}
    for rank, pid, step, at in read_store_lines(place, "steps"):
        found.setdefault((int(rank), int(pid)), []).append((int(step), float(at)))
    return found


def read_store_lines(place, name) -> list[list[str]]:
    store = FolderStore(Path(place, "store"))
    said = store.get(name).decode() if store.check([name]) else ""
    return [line.split(",") for line in said.split(";")[:-1]]


# ---- The program ----------------------------------------------------------------------------


def program(plan, data, place=None, disk=None):
    """Run the exam in one place; return the result of sit_exam and the events."""
    place = place or common_folder()
    found = sit_exam(keep_going, plan, place, disk or place, data)
    dist.barrier()
    events = events_of(place)
    dist.barrier()
    shutil.rmtree(place, ignore_errors=True)
    return *found, events


def main():
    from pedagogy_lib import Disk, launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    seed = int(sys.argv[1]) if sys.argv[1:] else 0
    if "RANK" in os.environ:  # torchrun ends all ranks when one dies: they only get slow here
        run = launch(program, draw_plan(seed, ["slow"]), digits())
    else:
        place, disk = tempfile.mkdtemp(prefix="chaos-"), Disk.here(megabytes=1)
        plan = draw_plan(seed, [what for what in KINDS if disk or what != "disk full"])
        settings = {"device": "cpu", "replacements": RANKS * len(plan)}
        run = launch(program, plan, digits(), place, disk and disk.path, **settings)
    if run.rank == 0:
        steps, weights, events = next(filter(None, run.values))
        told = dict.fromkeys(f"{one.what} in step {one.step}" for one in events)
        print("happened:", ", ".join(told))
        gap = (weights - one_process(steps=STEPS)).abs().max().item()
        print(f"{steps} steps; largest difference from an undisturbed run: {gap:.0e}")


if __name__ == "__main__":
    main()
