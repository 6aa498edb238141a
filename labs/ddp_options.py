# Built from chapters/ch03_data_parallel/labs/ddp_options.py by `make build`.
"""What DistributedDataParallel sends and keeps with each of its options, and how replicas drift.

torchrun --nproc-per-node 2 labs/ddp_options.py
"""

from contextlib import nullcontext
from inspect import signature
from statistics import median, quantiles

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from simple_ddp import average_gradients, now, share_of_rank
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH = 8, 512

# Since PyTorch 2.13 the option has a name of its own; before, it is one with the start's.
_is_new = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
BUFFERS_NOT_SYNCED = {"forward_sync_buffers" if _is_new else "broadcast_buffers": False}


# ---- Models ---------------------------------------------------------------------------------


def eight_layers(*between) -> nn.Sequential:
    """Eight linear layers of 512 x 512, 8 MiB; after each of them a layer of each of these types.

    between  types of layers that take a width, such as nn.BatchNorm1d
    """
    types = (lambda width: nn.Linear(width, width), *between)
    return nn.Sequential(*(make(WIDTH) for _ in range(LAYERS) for make in types))


class TwoLayers(nn.Module):
    """Two linear layers, of which a forward may leave out the second one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, both=True):
        return self.second(self.first(x)) if both else self.first(x)


def some_inputs(samples=8) -> Tensor:
    """Other ones on each rank. (samples, WIDTH)"""
    chance = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(samples, WIDTH, generator=chance, device="cpu")
    return x.to(torch.get_default_device())


# ---- Buckets --------------------------------------------------------------------------------


def buckets_of(hook, options, iterations=3) -> list[list[float]]:
    """The buckets of each iteration, in MiB, in the order in which they leave.

    hook     a communication hook that adds a bucket's MiB to the list that is its state
    options  of DistributedDataParallel
    """
    ddp, sizes, found = DistributedDataParallel(eight_layers(), **options), [], []
    ddp.register_comm_hook(sizes, hook)
    for _ in range(iterations):
        ddp(some_inputs()).sum().backward()
        found.append(sizes.copy())
        sizes.clear()
    return found


def default_cap() -> int:
    """The bytes at which DDP closes a bucket, if nobody says otherwise."""
    return DistributedDataParallel(TwoLayers()).bucket_bytes_cap


def step_times(many_options, rounds=24) -> list[list[float]]:
    """Seconds of forward and backward for each choice of options, over rounds, in turn.

    In turn: whatever else this computer does then slows down all of them alike.
    """
    models = [DistributedDataParallel(eight_layers(), **options) for options in many_options]
    x, times = some_inputs(), [[] for _ in models]
    for _ in range(rounds):
        for ddp, of_model in zip(models, times):
            dist.barrier()
            began = now()
            ddp(x).sum().backward()
            of_model.append(now() - began)
    return [of_model[4:] for of_model in times]  # after a warm-up


def median_and_range(seconds) -> str:
    """In milliseconds: the median, and the range of eight rounds in ten."""
    tenths = quantiles([1e3 * s for s in seconds], n=10)
    return f"{1e3 * median(seconds):.1f} ms ({tenths[0]:.1f} to {tenths[-1]:.1f})"


# ---- What is sent ---------------------------------------------------------------------------


def send_with(many_models) -> None:
    """Forwards and backwards of several models; measured: "name: forward", "name: backward".

    many_models  {name: (types of layers between the linear ones, options)}
    """
    from pedagogy_lib import measure

    for name, (between, options) in many_models.items():
        ddp, x = DistributedDataParallel(eight_layers(*between), **options), some_inputs()
        for _ in range(3):  # the second one agrees on buckets
            ddp(x).square().mean().backward()
        with measure(f"{name}: forward"):
            loss = ddp(x).square().mean()
        with measure(f"{name}: backward"):
            loss.backward()


def what_was_sent(name, run) -> list:
    """A row: the name, kB of rank 0 in its forward and backward, all-reduces of its backward."""
    forward, backward = run[f"{name}: forward"], run[f"{name}: backward"]
    kilobytes = [f"{block.sent_bytes[0] / 1e3:,.1f} kB" for block in (forward, backward)]
    return [name, *kilobytes, len(backward.calls[0])]


def looks_like_a_ring(sent_to) -> bool:
    """Whether each rank sends over 95 % of its bytes to one rank, at the same distance for all.

    sent_to  for each rank, the bytes that it has sent to each of the ranks
    """
    mostly = [max(row) / sum(row) for row in sent_to]
    distances = {(row.index(max(row)) - rank) % len(row) for rank, row in enumerate(sent_to)}
    return min(mostly) > 0.95 and len(distances) == 1


# ---- Replicas that drift --------------------------------------------------------------------

MISTAKES = ("none", "no_sync everywhere", "ddp.module called", "start not made equal",
            "start not made equal, weight decay", "learning rate by own loss")  # fmt: skip
MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # steps after which replicas are compared


def drift(mistake, data, steps, decay=0.02) -> list[float]:
    """Train a classifier of digits with one of the MISTAKES; how far apart are two replicas?

    decay    the weight decay, where there is one
    Returns  the distance between the weights of ranks 0 and 1 after each of the MARKS up to `steps`
    """
    ddp, model, optimizer = start_with(mistake, decay)
    mine, distances = share_of_rank(data[:2]), []
    for step in range(1, steps + 1):
        chance = torch.Generator().manual_seed(step)
        chosen = torch.randint(len(mine[1]), (32,), generator=chance, device="cpu")
        images, labels = (x[chosen.to(x.device)] for x in mine)
        with ddp.no_sync() if mistake == "no_sync everywhere" else nullcontext():
            optimizer.zero_grad()
            called = model if mistake == "ddp.module called" else ddp
            loss = F.cross_entropy(called(images), labels)
            loss.backward()
        if ddp is model:
            average_gradients(model)
        if mistake == "learning rate by own loss":
            optimizer.param_groups[0]["lr"] = 0.25 * loss.item()
        optimizer.step()
        if step in MARKS:
            distances.append(distance(model.weight))
    return distances


def start_with(mistake, decay):
    """What is called, the model, and its optimizer. Without DDP the start is not made equal."""
    unequal = mistake.startswith("start")
    torch.manual_seed(dist.get_rank() if unequal else 0)
    model = nn.Linear(64, 10).double()
    decay = decay if mistake.endswith("decay") else 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=decay)
    return model if unequal else DistributedDataParallel(model), model, optimizer


def distance(weight) -> float:
    """How far rank 1's weight is from rank 0's: the square root of the summed squares."""
    everyone = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, weight.detach())
    return (everyone[0] - everyone[1]).norm().item()


# ---- The program ----------------------------------------------------------------------------


def program(steps=50) -> list[str]:
    data, lines = digits(), []
    for mistake in MISTAKES:
        apart = drift(mistake, data, steps)
        lines.append(f"{mistake:36} apart after 1 and {steps} steps: "
                     f"{apart[0]:.3f}, {apart[-1]:.3f}")  # fmt: skip
    return lines


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=2)
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()
