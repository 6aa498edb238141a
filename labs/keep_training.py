# Built from chapters/ch04_failure_and_recovery/labs/keep_training.py by `make build`. Write your answers here.
"""Training that goes on while ranks die and join: agree on members, redo the step, catch up.

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

PATIENCE, TIMEOUT = 1.5, 4.0  # seconds: of a meeting; of a group's collectives


# ---- A step that does not depend on the ranks -----------------------------------------------


class Training:
    """A classifier of digits whose batches are dealt among the ranks that are present.

    Each batch is cut into micro-batches. The samples of a micro-batch, and its dropout, depend on
    its number and on the step, but not on the rank that computes it.

    compute_seconds  emulated seconds per micro-batch, on top of the real computation
    """

    MICROBATCHES, SAMPLES = 12, 4

    def __init__(self, data=None, dtype=torch.float64, compute_seconds=0.0):
        images, self.labels, *_ = data or digits()
        self.images, self.compute_seconds = images.to(dtype), compute_seconds
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the same in all processes
            layers = nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)
            self.model = nn.Sequential(*layers).to(dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.steps, self.losses = 0, {}

    def gradients_of(self, microbatch) -> Tensor:
        """Return a micro-batch's gradients, all in one row, with its loss at the end."""
        number = self.steps * self.MICROBATCHES + microbatch
        chosen = (number * self.SAMPLES + torch.arange(self.SAMPLES)) % len(self.labels)
        with torch.random.fork_rng():
            torch.manual_seed(number)
            loss = F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        time.sleep(self.compute_seconds)
        return torch.cat([*(gradient.flatten() for gradient in gradients), loss.detach().view(1)])

    def compute(self, rank, n) -> Tensor:
        """Return the sum of gradients and losses over this rank's micro-batches, in one row."""
        mine = microbatches_of(rank, n, self.MICROBATCHES)
        nothing = torch.zeros(sum(p.numel() for p in self.model.parameters()) + 1).to(self.images)
        return sum(map(self.gradients_of, mine), nothing)

    def update(self, whole: Tensor):
        """Take the step, given the sum over all micro-batches."""
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


# ---- Meetings -------------------------------------------------------------------------------


def who_is_there(store, meeting, me, former, n, patience) -> list[str]:
    """Exercise 4.13. Agree on who takes part, and return the same sorted list to all.

    Each process announces itself and checks now and then who has come. A list is proposed when n
    ranks have come, as no more are expected: two processes of one rank, of which one has died,
    count once. A process that has trained with others does not wait for
    newcomers: it proposes a list as soon as all of `former` have come, or when `patience` seconds
    have passed. The first proposal counts for all processes; one that comes later gets it, too,
    without its own name on it. A newcomer waits for the list of the others, even for longer than
    `patience`.

    A process may die between any two of its calls, so announce yourself in one.

    store     a torch.distributed store. append(key, text) adds to a text; compare_set(key, "",
              text) sets a text only if there is none; both are atomic
    meeting   its name: put it into all keys, as there will be other meetings
    me        the name of this process, without a comma; its rank comes first, up to a space
    former    the names of the processes it has trained with, itself among them; [] for a newcomer
    """
    ...  # your code here


class Lost(Exception):
    """The loss of another rank: a collective has failed or taken too long."""


@contextlib.contextmanager
def talking():
    """Raise Lost for errors of communication in this block, and let all other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in ("gloo", "timeout", "timed out")):
            raise
        raise Lost(str(error)) from None


class Name(NamedTuple):
    """A process's name. A process that replaces another has the same rank and another name.

    born  when it began, which tells it from a later process with its pid: see `birth_of`
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
    """Return when a process began, by Linux's clock; "?" if it is gone, or on other systems."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "?"
    return told.rpartition(")")[2].split()[19]  # the name before it may contain spaces


class Crew:
    """The ranks that train together: a process group that forms anew when a rank dies or joins.

    names     the names of its members, in the order of their ranks in the group
    meeting   the number of the last meeting; a newcomer learns it from the store
    patience  seconds of a meeting: more than the longest step. A member that comes later is ended
    timeout   seconds of the group's collectives
    """

    def __init__(self, store, n, patience=PATIENCE, timeout=TIMEOUT):
        self.store, self.n, self.patience, self.timeout = store, n, patience, timeout
        pid = os.getpid()
        self.me = str(Name(int(os.environ["RANK"]), pid, birth_of(pid), platform.node()))
        self.names, self.meeting = [], 0

    def meet(self) -> bool:
        """Form a group of the processes present; return False to a newcomer if training is over."""
        while self.names or not self.is_over():
            if self.names:
                leave()  # a first group stays until all have come, as some may still connect
            former = self.names  # they go to the very next meeting, so that lists form a chain
            self.meeting = (self.meeting if former else self.last_meeting()) + 1
            asked = self.store, f"meeting {self.meeting}", self.me, former, self.n, self.patience
            self.store.set(self.call_for(self.meeting), "")
            if not self.names and self.is_over():  # again: the others look in the opposite order
                return False
            self.names = who_is_there(*asked)
            if self.me not in self.names:
                if former:  # too late: its state may differ from that of the others
                    os.kill(os.getpid(), signal.SIGKILL)
                self.names = []
                continue
            fence(set(former) - set(self.names) - self.list_finished())
            self.store.set("meeting", str(self.meeting))
            with contextlib.suppress(Lost):  # a rank may have died since: then meet again
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
        """Return whether training is over, as newcomers ask.

        Ranks that have begun to end may die before they have; then training is not over.
        """
        until = time.monotonic() + self.timeout + self.patience
        while self.store.check(["over"]) and not self.list_finished() and time.monotonic() < until:
            time.sleep(0.01)
        return bool(self.list_finished())

    def list_finished(self) -> set[str]:
        """Return the names of the ranks that have taken all steps and know that all have."""
        if not self.store.check(["ended"]):
            return set()
        return set(self.store.get("ended").decode().split(",")) - {""}

    def all_is_done(self) -> bool:
        """Return whether no newcomer waits to be let in; ranks call it after all their steps."""
        self.store.set("over", "")  # newcomers give up from now on; earlier ones count below
        waits = torch.tensor([self.somebody_waits()]).long()
        with talking():
            dist.all_reduce(waits)  # a rank that gets through knows that all have all steps
        if waits.item() == 0:
            self.store.append("ended", f"{self.me},")
        return waits.item() == 0

    def somebody_waits(self) -> bool:
        """Return whether a newcomer has come to the next meeting, which has not been held yet."""
        return self.store.check([self.call_for(self.meeting + 1)])

    @staticmethod
    def call_for(meeting) -> str:
        """Return the key that exists as soon as a process has come to a meeting."""
        return f"somebody has come to meeting {meeting}"


def leave():
    """Close all connections, so that ranks that wait for this one learn that it is gone.

    Gloo closes them when nothing refers to the group any more; the traceback of an error may.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
        gc.collect()


def forget_failed_groups():
    """Make torch number its groups from 0 again, as in a newcomer.

    The number is part of the keys under which ranks look for each other. A group that could not be
    formed keeps its number, while destroying one that was formed sets it to 0.
    """
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    leave()


def fence(names):
    """Kill the absent processes on this machine, because one that hangs may wake up later."""
    for name in map(Name.read, names):
        if name.machine == platform.node() and birth_of(name.pid) == name.born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(name.pid, signal.SIGKILL)


# ---- Catching up and training on ------------------------------------------------------------


def catch_up(training, group=None) -> None:
    """Exercise 4.14. Give every rank the state of a rank that has taken the most steps.

    All ranks that are behind get the state of the same rank, one of those with the most steps. A
    rank that already has the most steps keeps its own. If all are equally far, no rank sends a
    state.

    training  has `steps`, state_dict() and load_state_dict(state)
    Cost      an all-gather of a number and, if it is needed, a broadcast of one state
    """
    ...  # your code here


def take_step(training, crew) -> bool:
    """Take one step on all ranks of the group; return whether a newcomer waits to be let in.

    Ranks may see a newcomer at different moments, so this is summed together with the gradients,
    and all ranks learn the same.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    sums = training.compute(rank, n)
    sums = torch.cat([sums, sums.new_tensor([crew.somebody_waits()])])
    with talking():
        dist.all_reduce(sums)
    training.update(sums[:-1])
    return sums[-1].item() > 0


def train(training, crew, steps, step=take_step, begin=catch_up) -> list[tuple[int, int]] | None:
    """Train up to so many steps with whichever ranks are present.

    step     takes one, or raises Lost; returns whether a meeting comes next
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
    """A rank's report at the end.

    meetings  [(steps taken, ranks that go on from there), …]
    weights   all of them, in one row
    taken     [(step, when), …]: seconds of a clock that all ranks share
    """

    meetings: list
    weights: Tensor
    taken: list


def train_with_fault(place, data, fault, steps, late=0.0) -> RankReport | None:
    """Train while a fault strikes one rank; return None for a newcomer that comes too late.

    fault  (rank, steps taken before it, signal to this process)
    late   seconds that a newcomer waits before it goes to the meeting, like a machine that boots
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
    """Return a folder that all ranks know, made by rank 0."""
    made = [tempfile.mkdtemp(prefix="crew-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(made)
    return Path(made[0])


def away_once(step, at, crew, begin_anew):
    """Return `step` changed: the last rank leaves before step `at` and returns as a newcomer."""
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
    """Return all weights in one row after so many steps of one process."""
    training, threads = Training(data), torch.get_num_threads()
    torch.set_num_threads(1)  # as on a rank; products are too small to share
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
