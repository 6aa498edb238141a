# Built from chapters/ch03_data_parallel/labs/fewer_bytes.py by `make build`. Write your answers here.
"""Gradients in fewer bytes: in half precision, of low rank, or not in every step.

torchrun --nproc-per-node 2 labs/fewer_bytes.py
"""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from diloco import OUTER_MOMENTUM, OUTER_RATE, outer_step
from gradient_accumulation import digits
from simple_ddp import now
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

RATE, MOMENTUM, SAMPLES = 0.05, 0.9, 32  # the default rate; samples of a step, on each rank
ALONE = 10  # steps between two exchanges of local SGD and of DiLoCo


# ---- PowerSGD -------------------------------------------------------------------------------


def power_round(gradient: Tensor, error: Tensor, q: Tensor, group=None) -> Tensor:
    """Exercise 3.20. Return a low-rank mean of all ranks' matrices, from small messages.

    M = gradient + error. P = the mean over ranks of M q. Make the columns of P orthonormal. Q = the
    mean over ranks of M^T P. The result is P Q^T, the same on all ranks. `error` becomes M minus
    the result, the part that this rank has not got through. `q` becomes Q, for the next round.

    gradient  (m, k), this rank's matrix; it is not changed
    error     (m, k), the remainder of this rank's earlier rounds; changed in place
    q         (k, r), the same on all ranks, r at most m and k; changed in place
    Cost      all-reduces of m r and of k r numbers
    Source    Vogels et al. 2019, "PowerSGD", algorithms 1 and 2
    """
    ...  # your code here


def orthonormal(matrix: Tensor) -> Tensor:
    """Return columns of length 1, at right angles, with the same span as those of `matrix`."""
    return torch.linalg.qr(matrix).Q


# ---- Ways to train --------------------------------------------------------------------------


def flat_gradients(parameters) -> Tensor:
    return torch.cat([p.grad.flatten() for p in parameters])


def put_back(flat, parameters):
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(part.view_as(p))


def average(parameters, dtype=None):
    """Average all gradients with one all-reduce, in their own dtype or in another."""
    flat = flat_gradients(parameters)
    small = flat.to(dtype or flat.dtype) / dist.get_world_size()  # before the sum, so no overflow
    dist.all_reduce(small)
    put_back(small.to(flat.dtype), parameters)


class PowerSGD:
    """An exchange that averages matrices by `power_round`, and the small vectors directly."""

    def __init__(self, parameters, r):
        chance = torch.Generator().manual_seed(0)  # the same on all ranks
        self.matrices = [p for p in parameters if p.dim() == 2]
        self.vectors = [p for p in parameters if p.dim() != 2]
        self.errors = [torch.zeros_like(p) for p in self.matrices]
        self.qs = [torch.randn(p.shape[1], r, generator=chance).to(p) for p in self.matrices]

    def __call__(self):
        for p, error, q in zip(self.matrices, self.errors, self.qs):
            p.grad.copy_(power_round(p.grad, error, q))
        average(self.vectors)


class Forgetful(PowerSGD):
    """PowerSGD without error feedback, so that the part that does not get through is lost."""

    def __call__(self):
        for error in self.errors:
            error.zero_()
        super().__call__()


class Rarely:
    """An exchange that only averages weights, after every ALONE steps, by an outer optimizer."""

    def __init__(self, parameters, **outer):
        self.mine = [p.data for p in parameters]
        self.whole = [weights.clone() for weights in self.mine]
        self.outer, self.steps = torch.optim.SGD(self.whole, **outer), 0

    def run_outer_step(self):
        self.steps += 1
        if self.steps % ALONE == 0:
            outer_step(self.whole, self.mine, self.outer)


WAYS = {
    "all-reduce": lambda ps: partial(average, ps),  # DDP's bytes; nothing overlaps
    "bfloat16": lambda ps: partial(average, ps, torch.bfloat16),
    "PowerSGD, r = 2": lambda ps: PowerSGD(ps, 2),
    "PowerSGD, r = 1": lambda ps: PowerSGD(ps, 1),
    "local SGD": lambda ps: Rarely(ps, lr=1.0),
    "DiLoCo": lambda ps: Rarely(ps, lr=OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True),
}
ALSO = {"r = 1, errors forgotten": lambda ps: Forgetful(ps, 1)}


def make_model(seed=0):
    torch.manual_seed(seed)
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    return nn.Sequential(*layers)


class Training:
    """A training run of one model with one way to exchange, on this rank's own samples."""

    def __init__(self, way, data, seed=0, rate=RATE):
        self.images, self.labels = data[0].float(), data[1]
        self.model, self.seed = make_model(seed), seed
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(parameters, lr=rate, momentum=MOMENTUM)
        self.exchange, self.steps = (WAYS | ALSO)[way](parameters), 0

    def step(self):
        place = dist.get_rank() + 100 * self.seed + 10_000 * self.steps
        chance = torch.Generator().manual_seed(place)
        chosen = torch.randint(len(self.labels), (SAMPLES,), generator=chance)
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen]).backward()
        if isinstance(self.exchange, Rarely):
            self.optimizer.step()
            self.exchange.run_outer_step()
        else:
            self.exchange()
            self.optimizer.step()
        self.steps += 1

    @torch.no_grad()
    def loss(self) -> float:
        """Return the loss of this rank's model on all training images."""
        return F.cross_entropy(self.model(self.images), self.labels).item()


def one_backward(register, data) -> str:
    """Measure the fourth backward of DDP as "backward"; return why a hook was refused, or "".

    register  (ddp) registers a hook; PowerSGD begins in the third iteration, here
    """
    from pedagogy_lib import measure

    ddp = DistributedDataParallel(make_model())
    try:
        register(ddp)
    except TypeError as error:
        return str(error).partition(" or ")[0]
    images, labels = data[0][:SAMPLES].float(), data[1][:SAMPLES]
    for number in range(4):
        loss = F.cross_entropy(ddp(images), labels)
        with measure("backward" if number == 3 else "before", memory=False):
            loss.backward()
    return ""


def one_exchange(way, data):
    """Measure one training step as "exchange"."""
    from pedagogy_lib import measure

    training = Training(way, data)
    with measure("exchange", memory=False):
        training.step()


def seconds_of_step(data, blocks=5) -> dict[str, list[float]]:
    """Return {way: seconds of a step, as the mean of ALONE steps, in each of some such blocks}.

    The ways take turns, and the first block of each does not count.
    """
    trainings = {way: Training(way, data) for way in WAYS}
    found = {way: [] for way in WAYS}
    for way in [*WAYS] * (1 + blocks):
        dist.barrier()
        began = now()
        for _ in range(ALONE):
            trainings[way].step()
        dist.barrier()
        found[way].append((now() - began) / ALONE)
    return {way: times[1:] for way, times in found.items()}


# ---- The program ----------------------------------------------------------------------------


def program(data, steps=60) -> list[str]:
    """Train in each way for `steps` steps; return the lines that this rank reports."""
    from pedagogy_lib import measure

    lines = []
    for way in WAYS:
        training = Training(way, data)
        with measure(way, memory=False):
            for _ in range(steps):
                training.step()
        lines.append(f"{way:17} loss {training.loss():.3f}")
    return lines


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), device="cpu")
    if run.rank == 0:
        for way, line in zip(WAYS, run.values[0], strict=True):
            print(f"{line}, {run[way].sent_bytes[0] / 60:9,.0f} bytes a step")


if __name__ == "__main__":
    main()
