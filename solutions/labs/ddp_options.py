# Built from chapters/ch03_data_parallel/labs/ddp_options.py by `make build`.
"""The options of DistributedDataParallel, with the bytes that it sends, and replicas that drift.

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

# Since PyTorch 2.13 the option has its own name; before, one option covers the start as well.
_is_new = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
BUFFERS_NOT_SYNCED = {"forward_sync_buffers" if _is_new else "broadcast_buffers": False}


# ---- Models ---------------------------------------------------------------------------------


def eight_layers(*between) -> nn.Sequential:
    """Make eight linear layers of 512 x 512 (8 MiB), each followed by a layer of each given type.

    between  types of layers that take a width, such as nn.BatchNorm1d
    """
    types = (lambda width: nn.Linear(width, width), *between)
    return nn.Sequential(*(make(WIDTH) for _ in range(LAYERS) for make in types))


class TwoLayers(nn.Module):
    """Two linear layers, of which a forward may leave out the second."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, both=True):
        return self.second(self.first(x)) if both else self.first(x)


def some_inputs(samples=8) -> Tensor:
    """Draw inputs of shape (samples, WIDTH), which differ between ranks."""
    chance = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(samples, WIDTH, generator=chance, device="cpu")
    return x.to(torch.get_default_device())


# ---- Buckets --------------------------------------------------------------------------------


def buckets_of(hook, options, iterations=3) -> list[list[float]]:
    """Return the buckets of each iteration in MiB, in the order in which they are sent.

    hook     a communication hook that appends a bucket's MiB to the list that is its state
    options  keyword arguments of DistributedDataParallel
    """
    ddp, sizes, found = DistributedDataParallel(eight_layers(), **options), [], []
    ddp.register_comm_hook(sizes, hook)
    for _ in range(iterations):
        ddp(some_inputs()).sum().backward()
        found.append(sizes.copy())
        sizes.clear()
    return found


def default_cap() -> int:
    """Return the bytes at which DDP closes a bucket by default."""
    return DistributedDataParallel(TwoLayers()).bucket_bytes_cap


def step_times(many_options, rounds=24) -> list[list[float]]:
    """Time a forward and a backward in seconds, in each round, for each choice of options.

    The choices take turns, so that other work of this computer slows down all of them alike.
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
    """Format the median in milliseconds, and the range of eight rounds in ten."""
    tenths = quantiles([1e3 * s for s in seconds], n=10)
    return f"{1e3 * median(seconds):.1f} ms ({tenths[0]:.1f} to {tenths[-1]:.1f})"


def describe_quickest(names, times) -> str:
    """Name the choices that no other one is clearly quicker than, by `step_times`."""
    from pedagogy_lib.measuring.rounds import UNDECIDED, find_quickest

    best = find_quickest(dict(zip(names, times)))
    return best[0] if len(best) == 1 else f"{UNDECIDED} between {', '.join(best)}"


# ---- Bytes and calls ------------------------------------------------------------------------


def send_with(many_models) -> None:
    """Measure a forward and a backward of several models, as "name: forward" and "name: backward".

    many_models  {name: (types of layers after each linear one, options)}
    """
    from pedagogy_lib import measure

    for name, (between, options) in many_models.items():
        ddp, x = DistributedDataParallel(eight_layers(*between), **options), some_inputs()
        for _ in range(3):  # the second iteration agrees on buckets
            ddp(x).square().mean().backward()
        with measure(f"{name}: forward"):
            loss = ddp(x).square().mean()
        with measure(f"{name}: backward"):
            loss.backward()


def what_was_sent(name, run) -> list:
    """Return a row: name, kB sent by rank 0 in forward and backward, all-reduces of the latter."""
    forward, backward = run[f"{name}: forward"], run[f"{name}: backward"]
    kilobytes = [f"{block.sent_bytes[0] / 1e3:,.1f} kB" for block in (forward, backward)]
    return [name, *kilobytes, len(backward.calls[0])]


def looks_like_a_ring(sent_to) -> bool:
    """Return whether each rank sends over 95 % of its bytes to one rank, at an equal distance.

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
    """Train a classifier of digits with one of the MISTAKES, and measure how far replicas drift.

    decay    the weight decay, for the mistake that has one
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
    """Return the module to call, the model and its optimizer; without DDP if starts are unequal."""
    unequal = mistake.startswith("start")
    torch.manual_seed(dist.get_rank() if unequal else 0)
    model = nn.Linear(64, 10).double()
    decay = decay if mistake.endswith("decay") else 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=decay)
    return model if unequal else DistributedDataParallel(model), model, optimizer


def distance(weight) -> float:
    """Return the distance of rank 1's weight from rank 0's: the root of the summed squares."""
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
