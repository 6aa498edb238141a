"""Training loops observed from outside: samples read, gradients followed, and bytes sent.

torchrun --nproc-per-node 2 labs/watch_loops.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from pedagogy_lib import measure

RATE = 0.1


def linear(inputs=1, seed=0):
    """Return a linear layer without a bias, in float64, whose weights depend only on the seed."""
    layer = nn.Linear(inputs, 1, bias=False, device="cpu").double()
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(seed))
    return layer.to(torch.get_default_device())


def batch_of(number, inputs=1, samples=4):
    """Draw inputs and targets, which differ for each rank and each number."""
    source = torch.Generator().manual_seed(100 * dist.get_rank() + number)
    shape, device = (2, samples, inputs), torch.get_default_device()
    drawn = torch.randn(shape, generator=source, dtype=torch.float64, device="cpu").to(device)
    return drawn[0], drawn[1, :, :1] + 3


def or_error(watch):
    """Return the result of `watch()`; if it raises an error, the error's type and first line."""
    try:
        return watch()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


# ---- Samples read ---------------------------------------------------------------------------


class IndexDataset(Dataset):
    """A data set of numbered samples, whose `read` lists the numbers in the order of requests."""

    def __init__(self, length):
        self.length, self.read = length, []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.read.append(index)
        return torch.tensor([float(index)]).double(), torch.tensor([1.0]).double()


def describe_reads(train_epochs, length=8, epochs=2) -> str:
    """Report the samples that this rank reads in each epoch, in their order; or the error."""
    dataset = IndexDataset(length)

    def watch():
        train_epochs(linear(), dataset, F.mse_loss, epochs, 1)
        each = len(dataset.read) // epochs
        parts = [dataset.read[each * epoch :][:each] for epoch in range(epochs)]
        return "   ".join(f"epoch {k}: {' '.join(map(str, x))}" for k, x in enumerate(parts))

    return or_error(watch)


def print_reads(train_epochs):
    """Run a loop on two ranks, and print the samples that each of them reads, or the error."""
    from pedagogy_lib import launch

    lines = launch(describe_reads, train_epochs, world_size=2, device="cpu").values
    if lines[0] == lines[1]:
        print("both ranks:", lines[0])
    else:
        print(*(f"rank {rank}: {line}" for rank, line in enumerate(lines)), sep="\n")


# ---- Gradients that steps follow ------------------------------------------------------------


def gradients_followed(train_steps, steps=3) -> str:
    """Report the gradient that each step follows, if all batches are equal and steps are tiny."""
    ddp = DistributedDataParallel(linear())
    optimizer, found = torch.optim.SGD(ddp.parameters(), lr=1e-9), []
    optimizer.register_step_pre_hook(lambda *_: found.append(ddp.module.weight.grad.item()))

    def watch():
        train_steps(ddp, F.mse_loss, optimizer, [batch_of(0)] * steps)
        return "gradients of the steps: " + ", ".join(f"{x:.3f}" for x in found)

    return or_error(watch)


def report_backward(average_in_backward) -> str:
    """Report a weight and its gradient, before and after a backward of this rank's own batch.

    The weight differs between ranks, because averaging equal weights would not be visible.
    """
    model, (inputs, targets) = linear(seed=dist.get_rank()), batch_of(0)
    own = torch.autograd.grad(F.mse_loss(model(inputs), targets), model.weight)[0].item()
    before = model.weight.item()

    def watch():
        average_in_backward(model)
        F.mse_loss(model(inputs), targets).backward()
        weights = f"weight {before:.3f}, after the backward {model.weight.item():.3f}"
        return f"{weights}; own gradient {own:.3f}, .grad {model.weight.grad.item():.3f}"

    return or_error(watch)


def weight_after_step(accumulate_step) -> str:
    """Report the weight of this rank's replica before and after a step with three micro-batches."""
    model = linear()
    optimizer, before = torch.optim.SGD(model.parameters(), lr=RATE), model.weight.item()

    def watch():
        accumulate_step(model, F.mse_loss, [batch_of(k) for k in range(3)], optimizer)
        return f"weight {before:.4f}, after the step {model.weight.item():.4f}"

    return or_error(watch)


# ---- Bytes sent -----------------------------------------------------------------------------


def send_in_call(accumulate_ddp, micro_batches=4, inputs=10_000) -> int:
    """Measure the bytes sent by a call, as "call"; return the bytes of all gradients."""
    ddp = DistributedDataParallel(linear(inputs))
    pieces = [batch_of(k, inputs) for k in range(micro_batches)]
    for _ in range(2):  # the second backward agrees on buckets
        F.mse_loss(ddp(pieces[0][0]), pieces[0][1]).backward()
    ddp.zero_grad()
    with measure("call"):
        accumulate_ddp(ddp, F.mse_loss, pieces)
    return ddp.module.weight.nbytes


# ---- The program ----------------------------------------------------------------------------


def loop_without_ranks(model, dataset, loss_fn, epochs, samples):
    """Train in a loop written for one process, which runs on each rank unchanged."""
    loader = DataLoader(dataset, batch_size=samples)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def program() -> str:
    return describe_reads(loop_without_ranks)


def main():
    from pedagogy_lib import launch

    run = launch(program, world_size=2, device="cpu")
    if run.rank == 0:
        print("A loop of one process, run on each rank as it is:")
        for rank, line in enumerate(run.values):
            print(f"rank {rank} reads {line}")


if __name__ == "__main__":
    main()
