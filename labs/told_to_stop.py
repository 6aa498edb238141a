# Built from chapters/ch04_failure_and_recovery/labs/told_to_stop.py by `make build`. Write your answers here.
"""Training that is told to stop: all ranks save after the same step, leave, and later resume.

torchrun --nproc-per-node 2 --shutdown-timeout 60 labs/told_to_stop.py checkpoints
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from checkpoints import save
from restart import LeaveNotice, load, log_of
from resumable_data import ResumableLoader, ShiftedDigits
from torch import Tensor, nn

BATCH, RATE, MOMENTUM = 12, 0.5, 0.9  # samples in a step, over all ranks


# ---- One decision for all ranks -------------------------------------------------------------


def reduce_with_notice(flat: Tensor, told: bool, group=None) -> bool:
    """Exercise 4.18. Sum `flat` over the group, and ask whether any rank is told.

    It overwrites `flat` with the sum, and returns, the same on all ranks, whether `told` is true on
    at least one of them.

    flat   a tensor in one dimension, with the same length and dtype on all ranks
    told   whether this rank has been told to stop
    Cost   one all-reduce, of one element more than `flat` has, in its dtype
    """
    ...  # your code here


# ---- A training run -------------------------------------------------------------------------


class Training:
    """A classifier of digits with momentum, in float64, whose samples come from worker processes.

    data             images and labels to train with, and to test
    compute_seconds  emulated seconds per step, on top of the real computation
    """

    def __init__(self, data=None, workers=2, careless=False, compute_seconds=0.0, group=None):
        rank, n = dist.get_rank(group), dist.get_world_size(group)
        self.group, self.compute_seconds, self.steps = group, compute_seconds, 0
        self.loader = ResumableLoader(ShiftedDigits(data, careless), BATCH, rank, n, workers)
        self.batches = None
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the same on all ranks
            self.model = nn.Linear(64, 10).double()
        self.parameters = list(self.model.parameters())
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]

    def step(self, told=False) -> bool:
        """Take a step; return, the same on all ranks, whether any of them has been told to stop."""
        if self.batches is None:
            self.batches = iter(self.loader)
        images, labels = next(self.batches)
        loss = F.cross_entropy(self.model(images), labels, reduction="sum") / BATCH
        time.sleep(self.compute_seconds)
        gradients = torch.autograd.grad(loss, self.parameters)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        told = reduce_with_notice(flat, told, self.group)
        self.update(flat)
        return told

    @torch.no_grad()
    def update(self, flat):
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, momentum, part in zip(self.parameters, self.momenta, flat.split(sizes)):
            momentum.mul_(MOMENTUM).add_(part.view_as(parameter))
            parameter.sub_(RATE * (1 - MOMENTUM) * momentum)
        self.steps += 1

    def state_dict(self) -> dict:
        return {
            "model": self.model.state_dict(),
            "momenta": self.momenta,
            "steps": self.steps,
            "loader": self.loader.state_dict(),
        }

    def load_state_dict(self, state):
        self.close()
        self.model.load_state_dict(state["model"])
        for momentum, saved in zip(self.momenta, state["momenta"]):
            momentum.copy_(saved)
        self.steps = state["steps"]
        self.loader.load_state_dict(state["loader"])

    def close(self):
        """End the workers; the next step starts others at the loader's position."""
        self.batches = None

    def weights(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters])


def train(
    folder, steps, every, data=None, before_step=None, ballast=0, compute_seconds=0.0
) -> Training:
    """Train up to so many steps from the newest whole checkpoint, or until a rank is told to stop.

    All ranks then save after this step and leave. The log says what rank 0 did and when.

    every            steps between two checkpoints
    before_step      called with the training before each step
    ballast          megabytes that each rank saves besides, as if the model were larger
    compute_seconds  emulated seconds per step
    """
    notice, more = LeaveNotice(), torch.zeros(ballast * 250_000)
    Path(folder).mkdir(parents=True, exist_ok=True)
    training = Training(data, compute_seconds=compute_seconds)
    load(folder, training)
    note(folder, "begins", steps=training.steps)
    told = training.steps >= steps
    while not told:
        if before_step:
            before_step(training)
        told = training.step(notice.has_come)
        note(folder, "step", steps=training.steps, told=told)
        if told or training.steps % every == 0 or training.steps == steps:
            problem = save(folder, training.steps, training.state_dict() | {"ballast": more})
            note(folder, problem or "saved", steps=training.steps)
        told = told or training.steps == steps
    training.close()
    return training


# ---- The log --------------------------------------------------------------------------------


def note(folder, what, **more):
    """Add a line to the log: what this process does, and when. Every rank says that it begins."""
    rank = int(os.environ.get("RANK", -1))  # -1: the scheduler
    if rank <= 0 or what == "begins":
        line = {"what": what, "time": time.time(), "rank": rank, "pid": os.getpid(), **more}
        with open(Path(folder, "log"), "a") as file:
            file.write(json.dumps(line) + "\n")


def steps_saved(folder) -> int:
    """Return the step of the newest checkpoint that was written or read, according to the log."""
    known = "saved", "begins"
    return max((said["steps"] for said in log_of(folder) if said["what"] in known), default=0)


def steps_lost(folder) -> int:
    """Return how many steps the last end of a job has cost: those after the newest checkpoint."""
    taken = [said["steps"] for said in log_of(folder) if said["what"] == "step"]
    return max(taken, default=0) - steps_saved(folder)


# ---- The scheduler --------------------------------------------------------------------------


class Scheduler:
    """A scheduler's part in the end of a job, played by a thread around the job's launch.

    It sends SIGTERM to all ranks, and SIGKILL to those that are left when the grace is over.

    n      ranks of the job
    life   steps of this life after which the end begins
    grace  seconds from the notice to the kill; 0: there is no notice
    """

    def __init__(self, folder, n, life, grace):
        self.folder, self.n, self.life, self.grace = folder, n, life, grace
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.end_job, daemon=True)

    def __enter__(self):
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        note(self.folder, "starts")
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.is_over.set()
        self.thread.join()
        note(self.folder, "ends")

    def end_job(self):
        while not self.is_time():
            if self.is_over.wait(0.003):
                return
        ranks = [said["pid"] for said in self.read_life() if said["what"] == "begins"]
        if self.grace:
            note(self.folder, "told")
            send(signal.SIGTERM, ranks)
        if not self.grace or not self.is_over.wait(self.grace):
            note(self.folder, "killed")
            send(signal.SIGKILL, ranks)

    def is_time(self) -> bool:
        what = [said["what"] for said in self.read_life()]
        return what.count("begins") == self.n and what.count("step") >= self.life

    def read_life(self) -> list[dict]:
        """Return the lines of the log since this life started."""
        log = log_of(self.folder)
        starts = max(k for k, said in enumerate(log) if said["what"] == "starts")
        return log[starts:]


def send(number, pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, number)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    own = len(sys.argv) < 2  # enough for one machine: all its ranks have the same parent
    folder = Path(tempfile.gettempdir(), f"told-{os.getppid()}") if own else Path(sys.argv[1])
    run = launch(live_twice if own else live, folder, device="cpu")
    if run.rank == 0:
        print("steps in each life:", *run.values[0])
        if own:
            shutil.rmtree(folder)


def live(folder, steps=200) -> list[int]:
    return [train(folder, steps, 50, compute_seconds=0.02).steps]


def live_twice(folder) -> list[int]:
    """Train, be told to stop on the last rank alone, and train to the end."""

    def be_told(training):
        if (training.steps, dist.get_rank()) == (7, dist.get_world_size() - 1):
            os.kill(os.getpid(), signal.SIGTERM)

    return [train(folder, 20, 50, before_step=be_told).steps, train(folder, 20, 50).steps]


if __name__ == "__main__":
    main()
