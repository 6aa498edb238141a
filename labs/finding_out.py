# Built from chapters/ch04_failure_and_recovery/labs/finding_out.py by `make build`. Write your answers here.
"""Detecting a failure and the rank at fault, by signs of life, times and checksums.

torchrun --nproc-per-node 4 labs/finding_out.py
"""

import contextlib
import hashlib
import json
import os
import platform
import signal
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from folder_store import FolderStore
from gradient_accumulation import digits
from simple_ddp import average_gradients
from torch import Tensor, nn

COMPUTE_SECONDS = 0.02  # per step, emulated by sleep so that ranks do not compete for cores
SLOWER = 3  # how many times slower a slow rank is


# ---- A training run in which something goes wrong -------------------------------------------


class Fault(NamedTuple):
    """A fault: its kind, its rank, and how many steps precede it.

    what  "killed", "stopped" (the process hangs), "waits" (for data that never arrive), "slow",
          "wrong weights" (one bit of one weight changes after the update), or "wrong gradients"
          (they are computed, but stored in the wrong order)
    bit, pixel  for "wrong weights": see flip_a_bit
    """

    what: str
    rank: int
    after: int
    bit: int = 21
    pixel: int = 28


class Training:
    """Data parallelism by hand: compute() gradients, reduce() them, update() the weights.

    own_seconds      for each step, how long this rank computed without waiting for others
    sign             called before each collective; see Guard.enter
    group            the group of all ranks, if it is not the world
    compute_seconds  emulated seconds per step, on top of the real computation
    """

    BATCH = 16  # samples per rank

    def __init__(self, data=None, fault=None, sign=lambda: None, compute_seconds=0.0, group=None):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        images, self.labels, *_ = data or digits()
        self.images = images.float()
        self.fault, self.sign, self.group = fault, sign, group
        self.compute_seconds = compute_seconds
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the same on all ranks
            layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
            self.model = nn.Sequential(*layers).to(torch.get_default_device())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        self.steps, self.own_seconds, self.losses = 0, [], []

    def batch_of(self, rank) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a rank's batch in this step."""
        first = (self.steps * self.n + rank) * self.BATCH
        chosen = (first + torch.arange(self.BATCH, device="cpu")) % len(self.labels)
        device = torch.get_default_device()
        return self.images[chosen].to(device), self.labels[chosen].to(device)

    def gradients_of(self, rank) -> list[Tensor]:
        """Compute, in this process, the gradients of a rank's batch in this step."""
        images, labels = self.batch_of(rank)
        loss = F.cross_entropy(self.model(images), labels)
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        if rank == self.rank:
            self.losses.append(loss.item())
        if self.has("wrong gradients"):
            return [gradient.flatten().flip(0).view_as(gradient) for gradient in gradients]
        return list(gradients)

    def compute(self):
        began = time.perf_counter()
        for parameter, gradient in zip(self.model.parameters(), self.gradients_of(self.rank)):
            parameter.grad = gradient
        time.sleep(self.compute_seconds * (SLOWER if self.has("slow") else 1))
        self.own_seconds.append(time.perf_counter() - began)

    def reduce(self):
        for what, happens in ENDS.items():
            if self.has(what, only_once=True):
                happens()
        self.sign()
        average_gradients(self.model, self.group)

    def update(self):
        self.optimizer.step()
        if self.has("wrong weights", only_once=True):
            flip_a_bit(self.model[0].weight, self.fault.bit, self.fault.pixel)
        self.steps += 1

    def step(self):
        self.compute()
        self.reduce()
        self.update()

    def has(self, what, only_once=False) -> bool:
        """Return whether this rank has this fault now; if `only_once`, only in its first step."""
        if self.fault is None or (self.fault.what, self.fault.rank) != (what, self.rank):
            return False
        return self.steps == self.fault.after or (not only_once and self.steps > self.fault.after)


def flip_a_bit(weights, bit=21, pixel=28):
    """Flip a bit of one number, as a cosmic ray or a core that computes wrongly may do.

    It is the weight of the middle unit for a pixel. Pixel 0 is black in all training images, so its
    weights never count; pixel 28, in the middle of an image, is not.

    bit  0 for the lowest bit of the fraction; of a float32, 23 to 30 are the exponent
    """
    bits = weights.detach().view(torch.int32 if weights.element_size() == 4 else torch.int64)
    bits[len(bits) // 2, pixel] ^= 1 << bit


ENDS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "waits": lambda: threading.Event().wait(),
}


# ---- Signs of life --------------------------------------------------------------------------


class Watcher:
    """Exercise 4.7. A detector of silent ranks, which uses their counts and one clock.

    patience  seconds
    """

    def __init__(self, patience: float):
        self.patience = patience
        self.changed = {}  # for each rank: (its last count, when it was first seen)

    def silent(self, counts: dict[int, int], now: float) -> list[int]:
        """Return the ranks that have had the same count for more than `patience` seconds, in order.

        Any other count is a sign of life, even a smaller one. The time of a rank begins when it is
        looked at for the first time.

        counts  {rank: its count}, as read now
        now     seconds, on the watcher's own clock
        """
        ...  # your code here


def furthest_behind(entered: dict[int, int]) -> list[int]:
    """Return the ranks that hold up all others, having entered the fewest collectives.

    The list is empty if all have entered equally many: they then wait for the network or the
    others.
    """
    fewest, most = min(entered.values()), max(entered.values())
    return [rank for rank, count in entered.items() if count == fewest < most]


class Guard:
    """A thread on each rank that reports on this rank and watches the reports of the others.

    It reports two counts. The thread counts `beats`, which shows that the process is alive. The
    training counts `entered` before each collective, which shows that it makes progress.

    A guard reports its finding to all guards, and those on the same machine as a rank that was
    found kill that rank, because it may wake up later and must not go on with an old state then.

    store     a torch.distributed store that all ranks know
    patience  seconds of silence before something counts as wrong: more than the longest normal
              pause, such as a checkpoint or a validation
    """

    LOOKS = 0.05  # seconds from one look to the next

    def __init__(self, store, rank, n, patience):
        self.store, self.rank, self.n, self.patience = store, rank, n, patience
        self.begin_anew(time.monotonic())
        self.beats = self.entered = 0
        self.is_over = threading.Event()
        self.tell()
        store.wait([self.name_of(other) for other in range(n)])
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def begin_anew(self, now):
        self.alive, self.progress = Watcher(self.patience), Watcher(self.patience)
        self.looked = now

    def enter(self):
        self.entered += 1

    def name_of(self, rank) -> str:
        return f"signs of life of rank {rank}"

    def read_finding(self) -> dict | None:
        """Return the finding of any guard, {"what": …, "ranks": …}; None if there is none."""
        return json.loads(self.store.get("found")) if self.store.check(["found"]) else None

    def read_status(self, rank) -> tuple:
        """Return a rank's last report: beats, collectives entered, process number, machine."""
        return tuple(json.loads(self.store.get(self.name_of(rank))))

    def tell(self):
        self.beats += 1
        says = self.beats, self.entered, os.getpid(), platform.node()
        self.store.set(self.name_of(self.rank), json.dumps(says))

    def watch(self):
        while not self.read_finding() and not self.is_over.wait(self.LOOKS):
            self.tell()
            self.look()
        self.fence()

    def look(self):
        said = map(self.read_status, range(self.n))
        beats, entered, *_ = (dict(enumerate(of)) for of in zip(*said))
        now = time.monotonic()
        if now - self.looked > self.patience / 2:  # this rank was asleep itself, so it cannot judge
            self.begin_anew(now)
        self.looked = now
        gone, stuck = self.alive.silent(beats, now), self.progress.silent(entered, now)
        if gone:
            self.tell_all("no sign of life", gone)
        elif len(stuck) == self.n and furthest_behind(entered):
            self.tell_all("alive, but does not come", furthest_behind(entered))

    def fence(self):
        """Kill the ranks found, if they run here: on other machines, a pid is another process's."""
        for rank in (self.read_finding() or {"ranks": []})["ranks"]:
            *_, pid, place = self.read_status(rank)
            if place == platform.node():
                kill_if_there(pid)

    def tell_all(self, what, ranks):
        self.store.set("found", json.dumps({"what": what, "ranks": ranks}))

    def end(self):
        self.is_over.set()
        self.thread.join()


def kill_if_there(pid):
    with contextlib.suppress(ProcessLookupError):  # another rank was faster
        os.kill(pid, signal.SIGKILL)


# ---- Stragglers -----------------------------------------------------------------------------


def stragglers(seconds: list[list[float]], times=1.5) -> list[int]:
    """Exercise 4.8. Return the ranks that compute for longer than the others, in order.

    For each rank take the median over all steps. A straggler is a rank whose median is more than
    `times` the median of these medians.

    seconds  for each step: how long each rank has computed before it waits for the others
    """
    ...  # your code here


# ---- Wrong numbers --------------------------------------------------------------------------


class Disputed(RuntimeError):
    """Two ranks disagree about a batch, and nobody knows which of them has computed it wrongly."""


def checksum(tensors) -> int:
    """Return a checksum of all bits that fits into an int64; if one bit changes, it changes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(bits.numpy().tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def differing_replicas(model, group=None) -> list[int]:
    """Exercise 4.9. Return the ranks with another model than most, in order.

    Most means more than half of the group. If no model is on that many ranks, nobody knows which is
    right, and all ranks are returned. All parameters and buffers count, to the last bit.

    Cost  an all-gather of 8 bytes from each rank
    """
    ...  # your code here


def wrong_by_recomputing(gradients_of, group=None) -> int | None:
    """Exercise 4.10. Return the rank that computes wrong gradients, or None.

    Each rank computes the gradients of its own batch and of the next rank's batch; the rank after
    the last is rank 0. Every batch is therefore computed by two ranks, and a rank that computes
    wrongly disagrees with both of its neighbours.

    gradients_of  takes a rank and computes, in this process, the gradients of that rank's batch: a
                  list of tensors, the same to the last bit wherever they are computed correctly
    group         of three ranks or more, of which at most one computes wrongly, and that each time
    Raises        Disputed if a rank is wrong only once, because two may be it. (Yours need not.)
    Cost          each batch is computed twice, and an all-gather of 16 bytes from each rank
    """
    ...  # your code here


# ---- All of it together ---------------------------------------------------------------------


def meet(folder, timeout):
    """Return a group of all ranks that has its own timeout, and a store in a folder."""
    store = FolderStore(Path(folder, "store"))
    return dist.new_group(timeout=timedelta(seconds=timeout), backend="gloo"), store


def train_until_lost(folder, data, fault, timeout, patience=None, steps=60) -> dict | None:
    """Train until another rank is lost; return what this rank knows about it, and when.

    patience  a guard's patience in seconds; without it, there is only the process group's timeout
    Returns   {"after": seconds from the fault until this rank knows, "error": the collective's
              error, "found": its guard's finding, and "ranks": the ranks found}; None if all went
              well
    """
    group, store = meet(folder, timeout)
    rank, n = dist.get_rank(), dist.get_world_size()
    guard = Guard(store, rank, n, patience) if patience else None
    training = Training(data, fault, guard.enter if guard else lambda: None, group=group)
    try:
        while training.steps < steps:
            training.compute()
            if (rank, training.steps) == (fault.rank, fault.after):
                store.set("fault", f"{time.monotonic()} {os.getpid()}")
            training.reduce()
            training.update()
        dist.barrier(group)  # a guard that ends falls silent, so all end together
    except RuntimeError as error:  # a neighbour is gone, or time has run out
        known = time.monotonic()
        if not store.check(["fault"]):  # the error has another cause
            raise
        dist.destroy_process_group()  # all groups: closes connections, so the others learn of it
        happened, pid = store.get("fault").split()
        kill_if_there(int(pid))  # it may hang, and this experiment is over
        found = (guard.read_finding() if guard else None) or {"what": "", "ranks": []}
        return {"after": known - float(happened), "error": str(error),
                "found": found["what"], "ranks": found["ranks"]}  # fmt: skip
    finally:
        if guard:
            guard.end()
    return None


def train_and_check(data, fault, steps=30, window=10) -> dict | None:
    """Train, and look for wrong numbers and slow ranks in each step.

    Two ranks can only see that their weights differ; three can tell which one computes wrongly, or
    is slow.

    Returns  the first finding, the same on all ranks: {"what": …, "ranks": …, "steps": steps from
             the fault on, 1 for the step in which it happens}; None if all went well
    """
    training, seconds = Training(data, fault, compute_seconds=COMPUTE_SECONDS), []
    while training.steps < steps:
        late = training.steps - fault.after + 1
        wrong = wrong_by_recomputing(training.gradients_of) if training.n > 2 else None
        if wrong is not None:
            return {"what": "computes wrong gradients", "ranks": [wrong], "steps": late}
        training.step()
        if differing := differing_replicas(training.model):
            return {"what": "has other weights", "ranks": differing, "steps": late}
        seconds.append(seconds_of_all(training.own_seconds[-1]))
        if slow := stragglers(seconds[-window:]) if len(seconds) >= window else []:
            return {"what": "is slow", "ranks": slow, "steps": late}
    return None


def seconds_of_all(mine) -> list[float]:
    mine = torch.tensor([mine], dtype=torch.float64)
    of_all = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, mine)
    return [one.item() for one in of_all]


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    ranks = int(os.environ.get("WORLD_SIZE", "4"))
    for what in ("wrong gradients", "wrong weights", "slow"):
        fault = Fault(what, ranks - 1, 12)
        run = launch(train_and_check, digits(), fault, world_size=ranks, device="cpu")
        if run.rank == 0:
            found, told = run.values[0], "nothing found"
            if found:
                told = f"{found['what']}, ranks {found['ranks']}, after {found['steps']} steps"
            print(f"{what} on rank {ranks - 1}: {told}")


if __name__ == "__main__":
    main()
