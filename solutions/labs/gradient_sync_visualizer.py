# Built from chapters/ch03_data_parallel/labs/gradient_sync_visualizer.py by `make build`.
"""The effect of synchronisation on each gradient, and the cost of different ways to do it.

torchrun --nproc-per-node 4 labs/gradient_sync_visualizer.py
"""

from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from gradient_accumulation import digits
from simple_ddp import average_gradients, now, share_of_rank, start_equal
from torch import Tensor, nn

from pedagogy_lib import measure

BAR = 30  # characters


# ---- Buckets --------------------------------------------------------------------------------


def make_buckets(parameters, bucket_bytes) -> list[list[nn.Parameter]]:
    """Exercise 3.7. Group parameters into buckets, in the order of the backward.

    The gradients of a bucket travel together. A backward begins at the end of the model, so the
    last parameter comes first. A bucket is closed as soon as its bytes reach `bucket_bytes`, so it
    may be larger than that, and the last one smaller. A tensor is never split. No bucket is empty.

    parameters  model.parameters(), a generator; frozen ones have no gradient and are in no bucket
    Returns     a list of buckets, each a list of the parameters themselves
    Example     parameters of 40, 8, 48 and 16 bytes, bucket_bytes 64: the buckets have
                [16, 48] and [8, 40] bytes
    Equals      the buckets of DistributedDataParallel with bucket_cap_mb, from its second iteration
                on, if parameters are of one dtype and their gradients ready in this order
    Source      Li et al. 2020, "PyTorch Distributed", section 3.2
    """
    ### BEGIN SOLUTION
    buckets, full = [], True
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        if full:
            buckets.append([])
        buckets[-1].append(parameter)
        full = sum(p.nbytes for p in buckets[-1]) >= bucket_bytes
    return buckets
    ### END SOLUTION


def average_buckets(buckets, group=None) -> None:
    """Exercise 3.8. Make every `.grad` the mean over the ranks, bucket by bucket.

    A `.grad` that is None counts as zeros and gets the mean.

    buckets  lists of parameters, as make_buckets returns them
    Equals   average_gradients for the parameters of all buckets
    Cost     one all-reduce per bucket, of one flat tensor
    """
    ### BEGIN SOLUTION
    for bucket in buckets:
        flat = flatten(bucket)
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
        unflatten(flat, bucket)
    ### END SOLUTION


def flatten(bucket) -> Tensor:
    """Return the gradients of a bucket in a new flat tensor, in order; None counts as zeros."""
    return torch.cat([p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)
                      for p in bucket])  # fmt: skip


def unflatten(flat: Tensor, bucket) -> None:
    """Copy the parts of a flat tensor into the `.grad` of each parameter of a bucket."""
    for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
        if not p.requires_grad:  # frozen since the bucket was made
            continue
        if p.grad is None:
            p.grad = torch.empty_like(p)
        p.grad.copy_(part.view_as(p))


# ---- Measurements ---------------------------------------------------------------------------


def norms_on_ranks(model, group=None) -> Tensor:
    """Return the norm of each parameter's gradient on each rank.

    Shapes  (parameters, ranks), in the order of model.parameters()
    """
    mine = torch.stack([p.grad.norm() for p in model.parameters()])
    norms = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(norms, mine, group=group)
    return torch.stack(norms, dim=1)


def ways(model, bucket_bytes):
    """Return ways to average the gradients of a model: {name: function}."""
    parameters = list(model.parameters())
    buckets = make_buckets(parameters, bucket_bytes) or []
    return {
        "each by itself": lambda: average_gradients(model),
        f"buckets of {bucket_bytes / 1e3:g} kB": lambda: average_buckets(buckets),
        "all in one": lambda: average_buckets([parameters]),
    }


def seconds_of(ways, rounds=15) -> dict[str, list[float]]:
    """Return the seconds of each way in each round, after three rounds to warm up.

    In a round, the ways take turns, so that other work of this computer affects all of them.
    """
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            dist.barrier()
            began = now()
            way()
            times[name].append(now() - began)
    return {name: spent[3:] for name, spent in times.items()}


def what_ways_cost(model, sizes) -> tuple[dict[str, list[float]], float]:
    """Measure each way to average the model's gradients under its name, and time all ways.

    sizes    bytes of a bucket, one way each, between "each by itself" and "all in one"
    Returns  {name: seconds of each round}; and the median seconds of an all-reduce of 4 kB, for
             which all ranks wait
    """
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    found, small = {}, torch.ones(1_000)
    for size in sizes:
        found |= ways(model, size)
    found["all in one"] = found.pop("all in one")  # moves to the end
    for name, way in found.items():
        with measure(name):
            way()
    times = seconds_of(found | {"small": partial(dist.all_reduce, small)}, rounds=23)
    return {name: times[name] for name in found}, median(times["small"])


def costs_beside_model(run) -> dict[str, dict[str, float]]:
    """Return calls, bytes, and measured and modelled seconds of ways in a run of `what_ways_cost`.

    What was measured is the median of its "rounds".

    The model is calls × latency + bytes / bandwidth. The latency is that of the small all-reduce.
    The second term is the same for all ways: the seconds of "all in one" minus one latency.
    """
    rounds, latency = run.values[0]
    seconds = {label: median(of_label) for label, of_label in rounds.items()}
    travel = max(seconds["all in one"] - latency, 0)
    return {
        label: {
            "calls": len(run[label].calls[0]),
            "bytes": run[label].sent_bytes[0],
            "measured": seconds[label],
            "rounds": rounds[label],
            "model": len(run[label].calls[0]) * latency + travel,
        }
        for label in seconds
    }


# ---- The program ----------------------------------------------------------------------------


def local_gradients(model, data):
    """Leave the gradients of this rank's share of the images in `.grad`."""
    images, labels = share_of_rank(data)
    model.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()


def show_gradients(model, data) -> str:
    """Show gradients' norms on each rank before and after averaging, in bars scaled for each."""
    local_gradients(model, data)
    before = norms_on_ranks(model)
    average_gradients(model)
    after = norms_on_ranks(model)
    lines = []
    for (name, _), *rows in zip(model.named_parameters(), before, after, strict=True):
        longest = max(row.max() for row in rows)
        for when, row in zip(("before", "after"), rows, strict=True):
            for rank, norm in enumerate(row):
                bar = "█" * round((norm / longest * BAR).item())
                lines.append(f"{name:10} {when:7} rank {rank} {norm:8.5f} {bar}")
    if torch.equal(before, after):
        lines.append(
            "Nothing has changed: average_gradients in simple_ddp.py is exercise 3.3."
        )
    return "\n".join(lines)


def show_buckets(model, bucket_bytes) -> str:
    names, lines = {p: name for name, p in model.named_parameters()}, []
    for number, bucket in enumerate(make_buckets(model.parameters(), bucket_bytes) or []):
        size, inside = sum(p.nbytes for p in bucket), ", ".join(names[p] for p in bucket)
        lines.append(f"bucket {number}: {size / 1e3:6.1f} kB  {inside}")
    return "\n".join(lines) or "make_buckets is still to be written (exercise 3.7)"


def compare_ways(bucket_bytes=100_000) -> str:
    """Time each way to average the gradients of a deep model."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(40)))
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    times = seconds_of(ways(model, bucket_bytes))
    return "\n".join(f"{name:20} {1e3 * median(rounds):7.2f} ms" for name, rounds in times.items())


def program(data):
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).double()
    start_equal(model)
    return show_gradients(model, data), show_buckets(model, 5_000), compare_ways()


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    images, labels, *_ = digits()
    run = launch(program, (images[:64], labels[:64]))
    if run.rank == 0:
        print(*run.values[0], sep="\n\n")


if __name__ == "__main__":
    main()
