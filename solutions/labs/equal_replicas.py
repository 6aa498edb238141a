# Built from chapters/ch03_data_parallel/labs/equal_replicas.py by `make build`.
"""Data parallel training without one of its three conditions, and how far replicas move apart.

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
from torch.utils.data import DistributedSampler

from pedagogy_lib import measure, relative_gap

CONDITIONS = ("equal start", "mean of the gradients", "own samples")
RATE, SAMPLES, STEPS = 0.5, 16, 40  # samples of one step, over all ranks


def classifier(seed=0, hidden=32):
    """Return a small model for the digits, in float64, whose weights depend only on the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        return nn.Sequential(*layers).double()


def batches_of(data, steps=STEPS) -> list:
    """Draw the batch of each step, the same on every rank: some images and their labels."""
    picked = [
        torch.randint(len(data[1]), (SAMPLES,), generator=make_generator(number), device="cpu")
        for number in range(steps)
    ]
    return [(data[0][some], data[1][some]) for some in picked]


def make_generator(seed):
    return torch.Generator().manual_seed(seed)


def step(model, batch, synchronize=None):
    """Take a step of gradient descent; `synchronize(model)` runs between backward and update."""
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
    """Return the distances of this rank's replica from one process and from rank 0 per step.

    The lists begin with the distance before the first step. A distance of 1 is as far as the one
    process moves from its start to its end. The third value is the replica's final loss on all of
    the data.

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
            share = [x[: len(share[0])] for x in batch]  # the same samples on every rank
        step(mine, share, average)
        step(alone, batch)
        paths.append((weights_of(mine), weights_of(alone)))
    own, of_one = map(torch.stack, zip(*paths))
    of_rank_0, moved = own.clone(), (of_one[-1] - start).norm()
    dist.broadcast(of_rank_0, 0)
    loss = F.cross_entropy(mine(data[0]), data[1]).item()
    return *(((own - other).norm(dim=1) / moved).tolist() for other in (of_one, of_rank_0)), loss


def gradient_of(model, images, labels) -> Tensor:
    """Return the gradient of the mean loss, as one flat tensor."""
    loss = F.cross_entropy(model(images), labels)
    return torch.cat([x.flatten() for x in torch.autograd.grad(loss, [*model.parameters()])])


# ---- One condition left out -----------------------------------------------------------------


def leave_one_out(data) -> tuple[dict, dict[str, float]]:
    """Train with all conditions, and with each of them left out.

    Returns  {title of a panel: {run: (steps, this rank's distances)}} for plot_curves, with a panel
             from one process and one from rank 0; and {run: this rank's final loss}
    """
    panels, losses = {"from one process": {}, "from rank 0": {}}, {}
    for left_out in ("", *CONDITIONS):
        told = f"no {left_out}" if left_out else "all three"
        *both, losses[told] = distances(left_out, data)
        for curves, far in zip(panels.values(), both):
            curves[told] = range(STEPS + 1), far
    return panels, losses


# ---- Each rank's samples --------------------------------------------------------------------

READERS = ("unshuffled", "shuffled on each rank", "with a sampler")


def first_batches(how, length, epochs, size=32):
    """Yield for each epoch the numbers of the samples in this rank's first batch.

    Without shuffling, all epochs would have the same first batch, so each takes the next batch.
    """
    sampler = DistributedSampler(range(length))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        own_seed = make_generator(dist.get_world_size() * epoch + dist.get_rank())
        order = {
            "unshuffled": range(size * epoch, length),
            "shuffled on each rank": torch.randperm(length, generator=own_seed, device="cpu"),
            "with a sampler": list(sampler),
        }[how]
        yield torch.as_tensor(order[:size])


def first_gradients(data, epochs=20) -> dict[str, dict[str, float]]:
    """Compare the gradients of two ranks for each of READERS, as means over some epochs.

    The figures are the cosine of the two gradients; the length of their difference, as a share of
    rank 0's; and the cosines of rank 0's and of their mean with the gradient of all data.
    """
    model, found = classifier(), {}
    of_all = gradient_of(model, *data)
    for how in READERS:
        of_epochs = []
        for numbers in first_batches(how, len(data[1]), epochs):
            mine = gradient_of(model, *(x[numbers] for x in data))
            both = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(both, mine)
            a, b = both
            pairs = (a, b), (a, of_all), ((a + b) / 2, of_all)
            cosines = [F.cosine_similarity(x, y, dim=0).item() for x, y in pairs]
            of_epochs.append([*cosines, ((a - b).norm() / a.norm()).item()])
        names = "each other", "one with all", "mean with all", "apart"
        found[how] = {name: sum(of) / epochs for name, of in zip(names, zip(*of_epochs))}
    return found


# ---- The mean and the sum -------------------------------------------------------------------


def gap_of_shards(data, sizes, factors=None) -> float:
    """Return the gap of the averaged gradient to that of one process, for shards of these sizes.

    factors  the factor of each rank's loss; 1 by default
    """
    model, rank = classifier(), dist.get_rank()
    images, labels = (x[: sum(sizes)].split(sizes)[rank] for x in data)
    factor = factors[rank] if factors else 1
    (factor * F.cross_entropy(model(images), labels)).backward()
    average_gradients(model)
    averaged = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return relative_gap(averaged, gradient_of(classifier(), *(x[: sum(sizes)] for x in data)))


def gaps_of_sum(sum_gradients, data) -> dict[str, list[float]]:
    """Compare the final weights of training with the sum of the gradients and with their mean.

    Returns  for each optimizer two gaps: with 1/n of the learning rate, and with all of it
    """

    def train_classifier(optimizer_type, lr, synchronize, **options):
        model = classifier()
        optimizer = optimizer_type(model.parameters(), lr=lr, **options)
        for batch in batches_of(data, steps=10):
            images, labels = share_of_rank(batch)
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            synchronize(model)
            optimizer.step()
        return weights_of(model)

    optimizers = {
        "SGD with momentum": (torch.optim.SGD, 0.2, {"momentum": 0.9}),
        "SGD with weight decay": (torch.optim.SGD, 0.2, {"weight_decay": 0.1}),
        "Adam": (torch.optim.Adam, 0.01, {}),
    }
    gaps = {}
    for name, (kind, lr, options) in optimizers.items():
        mean = train_classifier(kind, lr, average_gradients, **options)
        gaps[name] = [
            relative_gap(train_classifier(kind, rate, sum_gradients, **options), mean)
            for rate in (lr / dist.get_world_size(), lr)
        ]
    return gaps


# ---- Observing PyTorch's DDP ----------------------------------------------------------------


def wrap() -> tuple[int, list[bool]]:
    """Measure the constructor of DistributedDataParallel, on ranks that start unequal.

    Returns  the model's bytes, and whether this rank's weights are rank 0's, before and after it
    """
    model, of_rank_0 = classifier(seed=dist.get_rank()), weights_of(classifier())
    before = torch.equal(weights_of(model), of_rank_0)
    with measure("constructor"):
        DistributedDataParallel(model)
    after = torch.equal(weights_of(model), of_rank_0)
    return sum(parameter.nbytes for parameter in model.parameters()), [before, after]


def parts_of_a_step(data) -> tuple[int, bool]:
    """Measure the forward, the backward and the optimizer step of DDP.

    Returns  the model's bytes, and whether the backward has changed weights
    """
    model, n = classifier(hidden=400), dist.get_world_size()
    ddp, before = DistributedDataParallel(model), weights_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[dist.get_rank() :: n] for x in data)
    with measure("forward"):
        loss = F.cross_entropy(ddp(images), labels)
    with measure("backward"):
        loss.backward()
    has_moved = not torch.equal(weights_of(model), before)
    with measure("step"):
        optimizer.step()
    return sum(parameter.nbytes for parameter in model.parameters()), has_moved


def train_without_zero_grad(data, steps=3) -> tuple[list[float], bool]:
    """Train with DDP and Adam in a loop that does not clear the gradients.

    Returns  the norm of the first layer's gradient at each step, as a multiple of the first norm;
             and whether Adam's whole state is equal on all ranks, bit by bit
    """
    model, norms = classifier(), []
    ddp, layer = DistributedDataParallel(model), model[0].weight
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    images, labels = share_of_rank([x[:64] for x in data])
    for _ in range(steps):
        F.cross_entropy(ddp(images), labels).backward()
        optimizer.step()
        norms.append(layer.grad.norm().item())
    kept = [x.double().flatten() for state in optimizer.state.values() for x in state.values()]
    mine = torch.cat(kept)
    of_all = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, mine)
    return [x / norms[0] for x in norms], all(torch.equal(x, mine) for x in of_all)


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
