"""Data parallel training with one of its three conditions left out: how far do replicas go apart?

torchrun --nproc-per-node 4 labs/equal_replicas.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from simple_ddp import average_gradients, share_of_rank, start_equal
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

CONDITIONS = ("equal start", "mean of the gradients", "own samples")
RATE, SAMPLES, STEPS = 0.5, 16, 40  # samples of one step, over all ranks


def classifier(seed=0, hidden=32):
    """A small model for the digits, in float64; its weights depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        return nn.Sequential(*layers).double()


def batches_of(data, steps=STEPS) -> list:
    """The batch of each step, the same on every rank: some images, and their labels."""
    picked = [
        torch.randint(len(data[1]), (SAMPLES,), generator=seeded(number), device="cpu")
        for number in range(steps)
    ]
    return [(data[0][some], data[1][some]) for some in picked]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def step(model, batch, synchronize=None):
    """One step of gradient descent; `synchronize` is done between the backward and the step."""
    images, labels = batch
    model.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    if synchronize:
        synchronize(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad


def weights_of(model) -> Tensor:
    return parameters_to_vector(model.parameters()).detach().clone()


def distances(left_out, data) -> tuple[list[float], list[float], float]:
    """How far this rank's replica is from one process and from rank 0, after 0, 1, … steps.

    A distance of 1 is as far as the one process has moved from its start to its end. The third
    value is the replica's loss on all of the data in the end.

    left_out  one of CONDITIONS, or "" for none
    """
    data = [x.to(torch.get_default_device()) for x in data]
    mine, alone = classifier(seed=dist.get_rank()), classifier()
    if left_out != "equal start":
        start_equal(mine)
    average = None if left_out == "mean of the gradients" else average_gradients
    paths, start = [(weights_of(mine), weights_of(alone))], weights_of(alone)
    for batch in batches_of(data):
        share = share_of_rank(batch)
        if left_out == "own samples":
            share = [x[: len(share[0])] for x in batch]  # the same ones on every rank
        step(mine, share, average)
        step(alone, batch)
        paths.append((weights_of(mine), weights_of(alone)))
    own, of_one = map(torch.stack, zip(*paths))
    of_rank_0, moved = own.clone(), (of_one[-1] - start).norm()
    dist.broadcast(of_rank_0, 0)
    loss = F.cross_entropy(mine(data[0]), data[1]).item()
    return *(((own - other).norm(dim=1) / moved).tolist() for other in (of_one, of_rank_0)), loss


def gradient_of(model, images, labels) -> Tensor:
    """The gradient of the mean loss, as one flat tensor."""
    loss = F.cross_entropy(model(images), labels)
    return torch.cat([x.flatten() for x in torch.autograd.grad(loss, [*model.parameters()])])


def without_clearing(data, steps=3) -> tuple[list[float], bool]:
    """A DDP loop in which nobody clears the gradients, with Adam.

    Returns  the norm of the first layer's gradient at each step, as a multiple of the first one;
             and whether Adam's first moments are equal on all ranks, bit by bit
    """
    model, norms = classifier(), []
    ddp, layer = DistributedDataParallel(model), model[0].weight
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    images, labels = share_of_rank([x[:64] for x in data])
    for _ in range(steps):
        F.cross_entropy(ddp(images), labels).backward()
        optimizer.step()
        norms.append(layer.grad.norm().item())
    moments = optimizer.state[layer]["exp_avg"]
    of_all = [torch.empty_like(moments) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, moments)
    return [x / norms[0] for x in norms], all(torch.equal(x, moments) for x in of_all)


def gradient_of_shards(data, sizes, factors) -> Tensor:
    """What averaging leaves on each rank, if ranks have so many samples and weight their losses."""
    model, rank = classifier(), dist.get_rank()
    images, labels = (x[: sum(sizes)].split(sizes)[rank] for x in data)
    (factors[rank] * F.cross_entropy(model(images), labels)).backward()
    average_gradients(model)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


# ---- The program ----------------------------------------------------------------------------


def program(data) -> list[str]:
    lines = []
    for left_out in ("", *CONDITIONS):
        from_one, _, loss = distances(left_out, data)
        gap = torch.tensor(from_one[-1])
        dist.all_reduce(gap, dist.ReduceOp.MAX)
        told = f"no {left_out}" if left_out else "all three"
        lines.append(f"{told:24} distance from one process {gap:.1e}, loss of rank 0 {loss:.2f}")
    return lines


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits()[:2])
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()
