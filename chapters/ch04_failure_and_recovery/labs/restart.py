"""Restart: training that resumes from its newest checkpoint, with any number of ranks.

torchrun --nproc-per-node 2 --max-restarts 3 labs/restart.py checkpoints
"""

import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from checkpoints import find_newest, newest_whole, save, shift_by
from gradient_accumulation import digits
from torch import Tensor, nn

MICROBATCHES, SIZE = 12, 8  # per step, on any number of ranks; samples of each
RATE, MOMENTUM, DROPOUT = 2.0, 0.9, 0.2


# ---- The same batch, from any number of ranks -----------------------------------------------


def microbatches_of(rank: int, n: int, m: int) -> list[int]:
    """Exercise {{microbatches_of}}. Return the micro-batches, of m, that one of n ranks computes.

    Each micro-batch is computed by exactly one rank. No rank has two more than another; if there
    are more ranks than micro-batches, some have none. Which ones a rank has is up to you, but the
    arguments alone decide, because each rank calls this for itself, in every step.
    """
    ### BEGIN SOLUTION
    return list(range(rank, m, n))
    ### END SOLUTION


def mean_gradients(gradients_of, parameters, m: int, group=None) -> list[Tensor]:
    """Exercise {{mean_gradients}}. Return the gradients of the mean loss over all m micro-batches.

    Every rank returns them. Each rank computes only its own micro-batches and adds them up, and a
    rank that has none takes part all the same.

    gradients_of  takes the number of a micro-batch and computes, in this process, the gradients of
                  its mean loss: a list of tensors. All micro-batches are equally large
    parameters    a list of tensors, which stay as they are; the gradients, and the list returned,
                  have their shapes, dtypes and devices, in this order. They are summed in these
                  dtypes, and divided at the end: in 16 bits, a sum may overflow, or stop to grow
    Cost          an all-reduce of each gradient, once
    """
    ### BEGIN SOLUTION
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient
    for total in sums:
        dist.all_reduce(total, group=group)
    return [total / m for total in sums]
    ### END SOLUTION


class Training:
    """A classifier of digits, with dropout and momentum, in float64.

    The next step depends on the weights, the momenta, and the number of steps, but on nothing that
    belongs to a rank.

    data  images and labels to train with, and to test
    m     micro-batches per step, over all ranks
    """

    def __init__(self, data, group=None, m=MICROBATCHES):
        device = torch.get_default_device()
        images, self.labels, tests, self.test_labels = (part.to(device) for part in data)
        self.images, self.tests = images.double(), tests.double()
        self.group, self.m, self.steps = group, m, 0
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the same on all ranks
            self.model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 10)).double().to(device)
        self.parameters = list(self.model.parameters())
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]

    def loss_of(self, k) -> Tensor:
        """Return the loss of micro-batch k in this step; random draws depend on (step, k) alone."""
        number = self.steps * self.m + k
        chance = torch.Generator("cpu").manual_seed(number)
        chosen = (number * SIZE + torch.arange(SIZE)) % len(self.labels)
        pixels = torch.randint(-1, 2, (), generator=chance, device="cpu").item()
        hidden = self.model[0](shift_by(pixels, self.images[chosen])).relu()
        kept = torch.rand(hidden.shape, generator=chance, device="cpu") > DROPOUT
        hidden = hidden * kept.to(hidden) / (1 - DROPOUT)
        return F.cross_entropy(self.model[1](hidden), self.labels[chosen])

    def gradients_of(self, k) -> list[Tensor]:
        return list(torch.autograd.grad(self.loss_of(k), self.parameters))

    @torch.no_grad()
    def update(self, gradients):
        for parameter, momentum, gradient in zip(self.parameters, self.momenta, gradients):
            momentum.mul_(MOMENTUM).add_(gradient)
            parameter.sub_(RATE * (1 - MOMENTUM) * momentum)
        self.steps += 1

    def step(self):
        self.update(mean_gradients(self.gradients_of, self.parameters, self.m, self.group))

    @torch.no_grad()
    def test_loss(self) -> float:
        hidden = self.model[0](self.tests).relu()
        return F.cross_entropy(self.model[1](hidden), self.test_labels).item()

    def state_dict(self) -> dict:
        return {"model": self.model.state_dict(), "momenta": self.momenta, "steps": self.steps}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        for momentum, saved in zip(self.momenta, state["momenta"]):
            momentum.copy_(saved)
        self.steps = state["steps"]

    def weights(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters])


# ---- The program of each rank, in each of its lives -----------------------------------------


class LeaveNotice:
    """The notice that this process has to leave soon: SIGTERM, which ends it no more.

    Schedulers send it before they take a machine away, and torchrun passes it on to its ranks.
    """

    def __init__(self):
        self.has_come = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, *_):
        self.has_come = True

    def is_for_any(self, group) -> bool:
        """Return whether any rank has the notice, which does not reach all in the same step."""
        has_come = torch.tensor([int(self.has_come)])
        dist.all_reduce(has_come, dist.ReduceOp.MAX, group)
        return has_come.item() > 0


def train(
    folder, steps, every, data=None, before_step=lambda training: None, began=None, notice=None
):
    """Train up to so many steps from the newest whole checkpoint; torchrun starts it again.

    every        steps between two checkpoints
    before_step  called with the training before each step
    began        when the process began, if it is known: seconds of time.time()
    notice       a LeaveNotice: when it comes to a rank, all ranks save after this step and leave
    Raises       SystemExit if they leave before the last step, since an agent would take a return
                 for the end of the training
    """
    note(folder, "begins", began)
    note(folder, "imported")
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))  # for reading and saving
    group = dist.new_group(timeout=timedelta(seconds=2))  # for a machine that is silent
    note(folder, "met")
    training = Training(data or digits(), group)
    load(folder, training)
    note(folder, "read", steps=training.steps)
    leaves = False
    while training.steps < steps and not leaves:
        before_step(training)
        training.step()
        if dist.get_rank() == 0:  # whichever machine that is
            note(folder, "step", steps=training.steps, loss=training.test_loss())
        if notice is not None:
            leaves = notice.is_for_any(group)
        if training.steps % every == 0 or leaves:
            problem = save(folder, training.steps, training.state_dict())
            if problem and dist.get_rank() == 0:
                print(f"step {training.steps} is not saved: {problem}")
    dist.barrier(group)
    dist.destroy_process_group()
    if training.steps < steps:
        sys.exit("told to leave before the last step")
    return training


def load(folder, training):
    """Load the newest whole checkpoint, if there is one; all ranks have saved the same state."""
    found = find_newest(folder)
    if found is not None:
        training.load_state_dict(torch.load(found / "rank-0.pt"))


def load_weights(folder) -> Tensor:
    """Return all weights of the newest whole checkpoint, in one row."""
    model = torch.load(newest_whole(folder) / "rank-0.pt")["model"]
    return torch.cat([weights.flatten() for weights in model.values()])


# ---- A log that all machines write ----------------------------------------------------------


def note(folder, what, at=None, **more):
    """Add a line to the log that says what this rank does, and when."""
    said = {"what": what, "time": at or time.time(), "machine": machine_here(), **more}
    said |= {"rank": int(os.environ["RANK"]), "n": int(os.environ["WORLD_SIZE"])}
    with open(Path(folder, "log"), "a") as file:
        file.write(json.dumps(said) + "\n")  # in one piece, as other ranks write there, too


def machine_here() -> str:
    """Return the machine's name, which stays the same, unlike a rank."""
    return os.environ.get("MACHINE", platform.node())


def log_of(folder) -> list[dict]:
    log = Path(folder, "log")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def lives(folder) -> list[dict[str, int]]:
    """Return {machine: its rank} for each time that ranks have met, if each has one rank."""
    met = [said for said in log_of(folder) if said["what"] == "met"]
    found = []
    while met:
        n = met[0]["n"]
        found.append({said["machine"]: said["rank"] for said in met[:n]})
        met = met[n:]
    return found


def steps_taken(folder) -> list[tuple[int, int, float]]:
    """Return (step, number of ranks, loss) of each step in order, including repeated steps."""
    return [(said["steps"], said["n"], said["loss"]) for said in log_of(folder)
            if said["what"] == "step"]  # fmt: skip


def losses_of_lives(folder) -> list[tuple[int, list[int], list[float]]]:
    """Return (ranks, steps, losses) of each life: it begins with another n or an earlier step."""
    found, before = [], (0, 0)
    for step, n, loss in steps_taken(folder):
        if n != before[1] or step <= before[0]:
            found.append((n, [], []))
        found[-1][1].append(step)
        found[-1][2].append(loss)
        before = step, n
    return found


PARTS = "until new processes run", "imports", "meeting", "reading the checkpoint", "steps again"


def costs(folder) -> dict[str, float]:
    """Return the seconds of each part of a restart, on rank 0, after one "fault" has been noted.

    The parts span the time from the fault until all steps that were lost have been taken again.
    """
    said = log_of(folder)
    fault = next(one for one in said if one["what"] == "fault")
    later = [one for one in said if one["time"] > fault["time"] and one["rank"] == 0]
    at = {what: next(one["time"] for one in later if one["what"] == what)
          for what in ("begins", "imported", "met", "read")}  # fmt: skip
    taken = (one for one in later if one["what"] == "step" and one["time"] > at["read"])
    again = next((one["time"] for one in taken if one["steps"] == fault["steps"]), at["read"])
    times = [fault["time"], *at.values(), again]
    return {part: end - start for part, start, end in zip(PARTS, times, times[1:])}


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if len(sys.argv) < 2:  # enough for one machine: all its ranks have the same parent
        folder = Path(tempfile.gettempdir(), f"restart-{os.getppid()}")
    else:
        folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    training = train(folder, steps=60, every=10, notice=LeaveNotice())
    if os.environ["RANK"] == "0":
        first = [said["steps"] for said in log_of(folder) if said["what"] == "read"][-1]
        print(f"steps read: {first}; taken on {os.environ['WORLD_SIZE']} ranks: "
              f"{training.steps - first}; test loss {training.test_loss():.6f}")  # fmt: skip
        if len(sys.argv) < 2:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
