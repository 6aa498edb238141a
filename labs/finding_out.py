# Built from chapters/ch04_failure_and_recovery/labs/finding_out.py by `make build`. Write your answers here.
"""Finding out that something is wrong, and with which rank: signs of life, times, checksums.

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

COMPUTE_SECONDS = 0.02  # of a step, emulated by sleep: so ranks do not take each other's cores
SLOWER = 3  # times: a slow rank


# ---- A training run in which something goes wrong -------------------------------------------


class Fault(NamedTuple):
    """What goes wrong, on which rank, and after how many steps.

    what  "killed", "stopped" (the process stands still), "waits" (for data that never come),
          "slow", "wrong weights" (one bit of one weight changes after the update), or "wrong
          gradients" (they are computed, and stand in the wrong order)
    """

    what: str
    rank: int
    after: int


class Training:
    """Data parallel by hand: compute() gradients, reduce() them, update() the weights.

    own_seconds      of each step: how long this rank computed, without waiting for others
    sign             called before each collective; see Guard.enter
    group            of all ranks, if it is not the world
    compute_seconds  of a step: emulated, on top of what there is to compute
    """

    BATCH = 16  # samples of a rank

    def __init__(self, data=None, fault=None, sign=lambda: None, compute_seconds=0.0, group=None):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        images, self.labels, *_ = data or digits()
        self.images = images.float()
        self.fault, self.sign, self.group = fault, sign, group
        self.compute_seconds = compute_seconds
        with torch.random.fork_rng():
            torch.manual_seed(0)  # on all ranks alike
            layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
            self.model = nn.Sequential(*layers).to(torch.get_default_device())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        self.steps, self.own_seconds, self.losses = 0, [], []

    def batch_of(self, rank) -> tuple[Tensor, Tensor]:
        """The samples that a rank has in this step."""
        first = (self.steps * self.n + rank) * self.BATCH
        chosen = (first + torch.arange(self.BATCH, device="cpu")) % len(self.labels)
        device = torch.get_default_device()
        return self.images[chosen].to(device), self.labels[chosen].to(device)

    def gradients_of(self, rank) -> list[Tensor]:
        """The gradients for a rank's samples of this step, computed here."""
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
            flip_a_bit(self.model[0].weight)
        self.steps += 1

    def step(self):
        self.compute()
        self.reduce()
        self.update()

    def has(self, what, only_once=False) -> bool:
        """Whether this goes wrong here, now."""
        if self.fault is None or (self.fault.what, self.fault.rank) != (what, self.rank):
            return False
        return self.steps == self.fault.after or (not only_once and self.steps > self.fault.after)


def flip_a_bit(weights):
    """In one number: as a cosmic ray may do, or a core that computes wrongly now and then."""
    bits = weights.detach().view(torch.int32).flatten()
    bits[len(bits) // 2] ^= 1 << 21


ENDS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "waits": lambda: threading.Event().wait(),
}


# ---- Signs of life --------------------------------------------------------------------------


class Watcher:
    """Exercise 4.7. Who has been silent for too long? By counts, and one clock.

    patience  seconds
    """

    def __init__(self, patience: float):
        self.patience = patience
        self.changed = {}  # for each rank: (its last count, when it was first seen)

    def silent(self, counts: dict[int, int], now: float) -> list[int]:
        """Ranks whose count has been the same for more than `patience` seconds, in order.

        Any other count is a sign of life, also a smaller one. When a rank is looked at for the
        first time, its time begins.

        counts  {rank: its count}, as read now
        now     seconds, on the watcher's own clock
        """
        ...  # your code here


def furthest_behind(entered: dict[int, int]) -> list[int]:
    """Who holds up all others: the ranks that have entered the fewest collectives.

    None if all have entered equally many: then they wait for the network, or for each other's data.
    """
    fewest, most = min(entered.values()), max(entered.values())
    return [rank for rank, count in entered.items() if count == fewest < most]


class Guard:
    """On each rank: a thread that tells how it is here, and looks how it is elsewhere.

    Two counts are told. `beats` is counted by the thread: the process is alive. `entered` is
    counted by the training, before each collective: it makes progress.

    What it finds, it tells all guards. Those on the same machine kill that rank: it may wake up
    later, and must not go on with an old state then.

    store     a torch.distributed store that all ranks know
    patience  seconds of silence until something counts as wrong: more than the longest pause that
              is normal, such as a checkpoint or a validation
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
        """What any guard has found: {"what": …, "ranks": …}; None if nothing."""
        return json.loads(self.store.get("found")) if self.store.check(["found"]) else None

    def read_status(self, rank) -> tuple:
        """What it has told last: beats, collectives entered, the number of its process, where."""
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
        if now - self.looked > self.patience / 2:  # this rank was asleep itself: it knows nothing
            self.begin_anew(now)
        self.looked = now
        gone, stuck = self.alive.silent(beats, now), self.progress.silent(entered, now)
        if gone:
            self.tell_all("no sign of life", gone)
        elif len(stuck) == self.n and furthest_behind(entered):
            self.tell_all("alive, but does not come", furthest_behind(entered))

    def fence(self):
        """Kill those that were found, if they are here: elsewhere, a pid is another process's."""
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


# ---- One that is slow -----------------------------------------------------------------------


def stragglers(seconds: list[list[float]], times=1.5) -> list[int]:
    """Exercise 4.8. Ranks that compute for longer than the others, in order.

    For each rank take the median over all steps. A straggler is a rank whose median is more than
    `times` the median of these medians.

    seconds  for each step: how long each rank has computed, before it waits for the others
    """
    ...  # your code here


# ---- A wrong number -------------------------------------------------------------------------


def checksum(tensors) -> int:
    """Of all their bits: if one bit is another, so is the checksum. It fits into an int64."""
    digest = hashlib.sha256()
    for tensor in tensors:
        bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(bits.numpy().tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def differing_replicas(model, group=None) -> list[int]:
    """Exercise 4.9. Ranks whose model is not the one that most ranks have, in order.

    Most: more than half of the group. If no model is on that many ranks, nobody knows which is
    right: then it is all ranks. All parameters and buffers count, to the last bit.

    Cost  an all-gather of 8 bytes from each rank
    """
    ...  # your code here


def wrong_by_recomputing(gradients_of, group=None) -> int | None:
    """Exercise 4.10. The rank that computes wrong gradients; None if there is none.

    Each rank computes its own batch's gradients, and those of the next rank's batch; the next of
    the last rank is rank 0. So two ranks compute each batch. One that computes wrongly disagrees
    with both of its neighbours.

    gradients_of  takes a rank, and gives the gradients of its batch, computed here: a list of
                  tensors, the same to the last bit wherever they are computed rightly
    group         of three ranks or more, of which at most one computes wrongly
    Cost          each batch is computed twice, and an all-gather of 16 bytes from each rank
    """
    ...  # your code here


# ---- All of it together ---------------------------------------------------------------------


def meet(folder, timeout):
    """A group of all ranks with a timeout of its own, and a store, which is a folder."""
    store = FolderStore(Path(folder, "store"))
    return dist.new_group(timeout=timedelta(seconds=timeout), backend="gloo"), store


def train_until_lost(folder, data, fault, timeout, patience=None, steps=60) -> dict | None:
    """Train on, until another rank is lost; returns what is known of it here, and when.

    patience  of a guard, in seconds; without one there is only the process group's timeout
    Returns   {"after": seconds from the fault until this rank knows, "error": of its collective,
               "found": what its guard has found, and "ranks": of whom}; None if all went well
    """
    group, store = meet(folder, timeout)
    rank, n = dist.get_rank(), dist.get_world_size()
    guard = patience and Guard(store, rank, n, patience)
    training = Training(data, fault, guard.enter if guard else lambda: None, group=group)
    try:
        while training.steps < steps:
            training.compute()
            if (rank, training.steps) == (fault.rank, fault.after):
                store.set("fault", f"{time.monotonic()} {os.getpid()}")
            training.reduce()
            training.update()
        dist.barrier(group)  # a guard that ends falls silent, so all end together
    except RuntimeError as error:  # of a neighbour, or of time that has run out
        known = time.monotonic()
        if not store.check(["fault"]):  # that is an error of another kind
            raise
        dist.destroy_process_group()  # of all groups: closes connections, so the others learn of it
        happened, pid = store.get("fault").split()
        kill_if_there(int(pid))  # if it stands still: this experiment is over
        found = (guard and guard.read_finding()) or {"what": "", "ranks": []}
        return {"after": known - float(happened), "error": str(error),
                "found": found["what"], "ranks": found["ranks"]}  # fmt: skip
    finally:
        if guard:
            guard.end()
    return None


def train_and_check(data, fault, steps=30, window=10) -> dict | None:
    """Train on, and look for wrong numbers and slow ranks after each step.

    Two ranks only see that their weights differ; and who computes wrongly, three can tell.

    Returns  what is found first, the same on all ranks: {"what": …, "ranks": …, "steps": so many
             after the fault, 1 for the step in which it happens}; None if all went well
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
