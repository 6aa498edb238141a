# Built from chapters/ch04_failure_and_recovery/labs/keep_training.py by `make build`. Write your answers here.
"""Training that goes on while ranks die and come: agree who is there, redo the step, catch up.

torchrun --nproc-per-node 4 labs/keep_training.py
"""

import contextlib
import gc
import json
import os
import platform
import shutil
import signal
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from folder_store import FolderStore
from gradient_accumulation import digits
from restart import microbatches_of
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

PATIENCE, TIMEOUT = 1.5, 4.0  # seconds: of a meeting, of the collectives of a group


# ---- A training whose step does not depend on who takes it ----------------------------------


class Training:
    """A classifier of digits. Each step's batch is dealt among the ranks that are there.

    The batch is cut into micro-batches. Which samples one has, and what dropout draws for it,
    depends on its number and on the step, and not on the rank that computes it.

    compute_seconds  of a micro-batch, emulated, on top of what there is to compute
    """

    MICROBATCHES, SAMPLES = 12, 4

    def __init__(self, data=None, dtype=torch.float64, compute_seconds=0.0):
        images, self.labels, *_ = data or digits()
        self.images, self.compute_seconds = images.to(dtype), compute_seconds
        with torch.random.fork_rng():
            torch.manual_seed(0)  # in all processes alike
            layers = nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)
            self.model = nn.Sequential(*layers).to(dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.steps, self.losses = 0, {}

    def gradients_of(self, microbatch) -> Tensor:
        """Its gradients, all in one row, and its loss at the end."""
        number = self.steps * self.MICROBATCHES + microbatch
        chosen = (number * self.SAMPLES + torch.arange(self.SAMPLES)) % len(self.labels)
        with torch.random.fork_rng():
            torch.manual_seed(number)
            loss = F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        time.sleep(self.compute_seconds)
        return torch.cat([*(gradient.flatten() for gradient in gradients), loss.detach().view(1)])

    def compute(self, rank, n) -> Tensor:
        """The sum over the micro-batches of this rank."""
        mine = microbatches_of(rank, n, self.MICROBATCHES)
        nothing = torch.zeros(sum(p.numel() for p in self.model.parameters()) + 1).to(self.images)
        return sum(map(self.gradients_of, mine), nothing)

    def update(self, whole: Tensor):
        """Take the step, with the sum over all micro-batches."""
        mean = whole / self.MICROBATCHES
        for parameter in self.model.parameters():
            parameter.grad, mean = (
                mean[: parameter.numel()].view_as(parameter),
                mean[parameter.numel() :],
            )
        self.optimizer.step()
        self.losses[self.steps] = mean.item()
        self.steps += 1

    def state_dict(self) -> dict:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "losses": self.losses,
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.losses = state["steps"], dict(state["losses"])


# ---- Who is there ---------------------------------------------------------------------------


def who_is_there(store, meeting, me, former, n, patience) -> list[str]:
    """Exercise 4.13. Agree on who takes part; all that ask get the same list, sorted.

    Each one announces itself, and looks now and then who has come. A list is proposed when n have
    come, as no more are expected. One that has trained with others does not wait for
    newcomers: it proposes a list as soon as all of `former` have come, or when `patience` seconds
    have passed. The first proposal counts, for everybody: who comes later gets it, too, without its
    own name. A newcomer waits for the list of the others, also for longer than `patience`.

    A process may die between any two of its calls: announce yourself in one.

    store     a torch.distributed store. append(key, text) adds to a text; compare_set(key, "",
              text) sets a text only if there is none; both are atomic
    meeting   its name: put it into all keys, as there will be other meetings
    me        the name of this process; no comma is in it
    former    names of those it has trained with, itself among them; [] for a newcomer
    """
    ...  # your code here


class Lost(Exception):
    """Somebody is lost: a collective has failed, or taken too long."""


@contextlib.contextmanager
def talking():
    """What communication fails in here is due to others; all else is a mistake of one's own."""
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in ("gloo", "timeout", "timed out")):
            raise
        raise Lost(str(error)) from None


class Name(NamedTuple):
    """Of a process. One that takes the place of another has the same rank, and another name.

    born  tells it from a later process that has its number: see `birth_of`
    """

    rank: int
    pid: int
    born: str
    machine: str

    def __str__(self):
        return f"{self.rank:03} {self.pid} {self.born} {self.machine}"

    @classmethod
    def read(cls, text):
        rank, pid, born, machine = text.split(" ", 3)
        return cls(int(rank), int(pid), born, machine)


def birth_of(pid) -> str:
    """When a process began, by Linux's clock; "?" if there is none, or on other systems."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "?"
    return told.rpartition(")")[2].split()[19]  # what stands before may have spaces


class Crew:
    """Those who train together: a process group that is formed anew when somebody dies or comes.

    names     of those who are in it, in the order of their ranks there
    meeting   the number of the last one; a newcomer learns it from the store
    patience  seconds of a meeting: more than the longest step. Who comes later is ended
    timeout   seconds of the group's collectives
    """

    def __init__(self, store, n, patience=PATIENCE, timeout=TIMEOUT):
        self.store, self.n, self.patience, self.timeout = store, n, patience, timeout
        pid = os.getpid()
        self.me = str(Name(int(os.environ["RANK"]), pid, birth_of(pid), platform.node()))
        self.names, self.meeting = [], 0

    def meet(self) -> bool:
        """Form a group of those who are there; False for a newcomer, if the training is over."""
        while self.names or not self.is_over():
            if self.names:
                leave()  # a first group stays until all have come, as some may still connect
            former = self.names  # they go to the very next one: lists form a chain
            self.meeting = (self.meeting if former else self.last_meeting()) + 1
            asked = self.store, f"meeting {self.meeting}", self.me, former, self.n, self.patience
            self.store.set(self.call_for(self.meeting), "")
            if not self.names and self.is_over():  # once more: the others look in the other order
                return False
            self.names = who_is_there(*asked)
            if self.me not in self.names:
                if former:  # too late: its state may be another than that of those who went on
                    os.kill(os.getpid(), signal.SIGKILL)
                self.names = []
                continue
            fence(set(former) - set(self.names) - self.list_finished())
            self.store.set("meeting", str(self.meeting))
            with contextlib.suppress(Lost):  # somebody may have died since: then once more
                self.form_group()
                return True
        return False

    def last_meeting(self) -> int:
        return int(self.store.get("meeting")) if self.store.check(["meeting"]) else 0

    def form_group(self):
        leave()
        forget_failed_groups()
        with talking():
            store = dist.PrefixStore(f"group {self.meeting}", self.store)
            dist.init_process_group(
                "gloo",
                store=store,
                rank=self.names.index(self.me),
                world_size=len(self.names),
                timeout=timedelta(seconds=self.timeout),
            )

    def is_over(self) -> bool:
        """Asked by newcomers. Who has begun to end may die before it has: then it is not over."""
        until = time.monotonic() + self.timeout + self.patience
        while self.store.check(["over"]) and not self.list_finished() and time.monotonic() < until:
            time.sleep(0.01)
        return bool(self.list_finished())

    def list_finished(self) -> set[str]:
        """Names of those that have taken all steps, and know that all have."""
        if not self.store.check(["ended"]):
            return set()
        return set(self.store.get("ended").decode().split(",")) - {""}

    def all_is_done(self) -> bool:
        """Called by all that have taken all steps; whether nobody waits to be let in."""
        self.store.set("over", "")  # from now on, newcomers give up; and before?
        waits = torch.tensor([self.somebody_waits()]).long()
        with talking():
            dist.all_reduce(waits)  # whoever comes through knows that all have all steps
        if waits.item() == 0:
            self.store.append("ended", f"{self.me},")
        return waits.item() == 0

    def somebody_waits(self) -> bool:
        """Whether a newcomer has come to the next meeting, which is not held yet."""
        return self.store.check([self.call_for(self.meeting + 1)])

    @staticmethod
    def call_for(meeting) -> str:
        """The key that is there as soon as somebody has come to a meeting."""
        return f"somebody has come to meeting {meeting}"


def leave():
    """Close all connections: so others that wait for this rank learn that it is gone.

    Gloo closes them when nothing refers to the group any more; the traceback of an error may.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
        gc.collect()


def forget_failed_groups():
    """Have torch number its groups from 0 again, as a newcomer does.

    The number is part of the keys under which ranks look for each other. A group that could not be
    formed keeps its number; destroying one that was formed sets it to 0.
    """
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    leave()


def fence(names):
    """Kill those who did not come, if they are here: one that stands still may wake up later."""
    for name in map(Name.read, names):
        if name.machine == platform.node() and birth_of(name.pid) == name.born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(name.pid, signal.SIGKILL)


# ---- Going on -------------------------------------------------------------------------------


def catch_up(training, group=None) -> None:
    """Exercise 4.14. Give everybody the state of a rank that is furthest.

    All that are behind get the state of the same rank, one of those with the most steps. Who is as
    far already keeps its own. Where all are equally far, nobody sends a state.

    training  has `steps`, state_dict() and load_state_dict(state)
    Cost      an all-gather of a number, and, if it is needed, a broadcast of one state
    """
    ...  # your code here


def take_step(training, crew) -> bool:
    """One step, by all that are there; returns whether somebody waits to be let in.

    Whether somebody waits, each rank sees at another moment. So it is summed with the gradients:
    then all know the same.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    sums = training.compute(rank, n)
    sums = torch.cat([sums, sums.new_tensor([crew.somebody_waits()])])
    with talking():
        dist.all_reduce(sums)
    training.update(sums[:-1])
    return sums[-1].item() > 0


def train(training, crew, steps, step=take_step, begin=catch_up) -> list[tuple[int, int]] | None:
    """Train up to so many steps, with whoever is there.

    step     takes one, or raises Lost; returns whether a meeting is to come next
    begin    called after each meeting, with the training
    Returns  [(steps taken, ranks that go on from there), …], one for each meeting; None for a
             newcomer that has come too late
    """
    meetings, is_to_meet = [], True
    while True:
        try:
            if is_to_meet:
                if not crew.meet():
                    return meetings or None
                with talking():
                    begin(training)
                meetings.append((training.steps, len(crew.names)))
                is_to_meet = False
            if training.steps < steps:
                is_to_meet = step(training, crew)
            elif crew.all_is_done():
                return meetings
            else:
                is_to_meet = True
        except Lost:
            is_to_meet = True


# ---- An experiment --------------------------------------------------------------------------


class RankReport(NamedTuple):
    """What a rank tells at the end.

    meetings  [(steps taken, ranks that go on from there), …]
    weights   all of them, in one row
    taken     [(step, when), …]: seconds of a clock that all ranks share
    """

    meetings: list
    weights: Tensor
    taken: list


def train_with_fault(place, data, fault, steps, late=0.0) -> RankReport | None:
    """Train; one rank meets with a fault. None for a newcomer that comes too late.

    fault  (rank, steps taken before it, signal to this process)
    late   seconds that a newcomer waits before it goes to the meeting, as a machine that boots
    """
    from pedagogy_lib import measure

    rank, is_new = int(os.environ["RANK"]), not dist.is_initialized()
    crew = Crew(FolderStore(f"{place}/store"), int(os.environ["WORLD_SIZE"]))
    training, taken = Training(data, compute_seconds=0.005), []
    guilty, die_at, number = fault
    time.sleep(late if is_new else 0)

    def step(training, crew):
        if (rank, training.steps) == (guilty, die_at) and not is_new:
            os.kill(os.getpid(), number)
        with measure("step", memory=False):
            is_to_meet = take_step(training, crew)
        taken.append((training.steps, time.monotonic()))
        return is_to_meet

    meetings = train(training, crew, steps, step)
    weights = parameters_to_vector(training.model.parameters()).detach()
    return RankReport(meetings, weights, taken) if meetings else None


# ---- The program ----------------------------------------------------------------------------


def common_folder():
    """One that all ranks know: rank 0 makes it."""
    made = [tempfile.mkdtemp(prefix="crew-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(made)
    return Path(made[0])


def away_once(step, at, crew, begin_anew):
    """`step`, but the last rank goes away before step `at`, and comes back as a newcomer."""
    is_to_go = dist.get_rank() == dist.get_world_size() - 1 > 0

    def step_or_go(training, other):
        nonlocal is_to_go
        if is_to_go and training.steps == at:
            is_to_go, crew.names = False, []
            leave()
            begin_anew()
            return True
        return step(training, other)

    return step_or_go


def program(data, steps=40) -> tuple[list, Tensor]:
    folder = common_folder()
    crew = Crew(FolderStore(folder / "store"), dist.get_world_size())
    training = Training(data)
    step = away_once(take_step, steps // 2, crew, lambda: training.__init__(data))
    meetings = train(training, crew, steps, step)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    return meetings, parameters_to_vector(training.model.parameters()).detach()


def one_process(data=None, steps=40) -> Tensor:
    """All weights in one row, after so many steps that one process has taken."""
    training, threads = Training(data), torch.get_num_threads()
    torch.set_num_threads(1)  # as a rank has; products are too small to share
    while training.steps < steps:
        training.update(training.compute(0, 1))
    torch.set_num_threads(threads)
    return parameters_to_vector(training.model.parameters()).detach()


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), device="cpu")
    if run.rank == 0:
        meetings, weights = run.values[0]
        print("meetings:", ", ".join(f"{n} ranks go on from step {step}" for step, n in meetings))
        print(f"largest difference from one process: {(weights - one_process()).abs().max():.0e}")


if __name__ == "__main__":
    main()
