"""Data parallel training: who reads what, and gradients averaged while the backward is running.

torchrun --nproc-per-node 2 labs/data_parallel.py
"""

import contextlib
import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from gradient_sync_visualizer import average_buckets, flatten, make_buckets, unflatten
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import average_gradients, now, share_of_rank, start_equal
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

# ---- Who reads what -------------------------------------------------------------------------


def samples_of_rank(length, epoch, rank, n, seed=0) -> list[int]:
    """Exercise {{samples_of_rank}}. The samples that a rank reads in an epoch, in their order.

    All ranks shuffle 0 … length-1 alike, with a generator of their own, seeded with seed + epoch,
    so that each epoch has an order of its own. A rank then reads every n-th of them, from place
    `rank` on. All ranks read equally many: where length is no multiple of n, the order is continued
    with its own beginning (several times, if it is very short).

    Example 5 samples in the shuffled order 3 0 4 1 2, on 2 ranks: it is continued as 3 0 4 1 2 3;
            rank 0 reads 3 4 2, rank 1 reads 0 1 3
    Equals  list(DistributedSampler(range(length), n, rank, seed=seed)), after set_epoch(epoch)
    """
    ### BEGIN SOLUTION
    shuffle = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(length, generator=shuffle).tolist()
    each = -(-length // n)
    enough = order * -(-each * n // length)
    return enough[: each * n][rank::n]
    ### END SOLUTION


# ---- While the backward is running ----------------------------------------------------------


def begin_all_reduce(x: Tensor, group=None):
    """Begin to sum up `x` over the ranks; returns a function that waits for the end."""
    return dist.all_reduce(x, group=group, async_op=True).wait


def make_async(all_reduce):
    """The same with any all-reduce, such as chapter 02's ring: it runs in a thread of its own.

    all_reduce  (x, group) -> None, when the sum is there
    """
    thread = ThreadPoolExecutor(1)  # one: all ranks have to sum up buckets in the same order

    def begin(x, group=None):
        return thread.submit(all_reduce, x, group).result

    return begin


class DDP(nn.Module):
    """Exercise {{ddp}}. A model whose gradients are averaged while its backward is still running.

    When the last gradient of a bucket is ready, its all-reduce begins, and the backward goes on.
    Buckets begin in their order on every rank, also where a later one is ready sooner: ranks match
    collectives by the order of the calls. `finish()`, after the backward, begins the buckets that
    are left (a parameter may have had no part in the loss), waits for all, puts the averages into
    `.grad`, and starts over. While `synchronizing` is False hooks send nothing, gradients only add
    up, and nobody calls `finish()`.

    all_reduce  (x, group) begins to sum up x, and returns a function that waits for the end
    Equals      DistributedDataParallel(..., find_unused_parameters=True), which calls its finish()
                by itself, and leaves None where no rank has a gradient; here zeros will do
    Source      Li et al. 2020, "PyTorch Distributed", section 3.2
    """

    def __init__(self, model, bucket_bytes=25 * 2**20, all_reduce=begin_all_reduce, group=None):
        super().__init__()
        self.model, self.all_reduce, self.group = model, all_reduce, group
        start_equal(model, group)
        self.buckets = make_buckets(model.parameters(), bucket_bytes)
        self.synchronizing = True
        self.start_over()
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket:
                ready = partial(self.is_ready, number=number)
                parameter.register_post_accumulate_grad_hook(ready)

    def forward(self, *inputs):
        return self.model(*inputs)

    def start_over(self):
        """Before a backward: nothing is ready, nothing has begun."""
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun = []  # for each bucket that travels: (its flat tensor, what waits for its sum)

    def is_ready(self, parameter, number):
        """Called by autograd when the gradient of a parameter of bucket `number` is complete."""
        ### BEGIN SOLUTION
        if self.synchronizing:
            self.missing[number].discard(parameter)
            while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
                self.begin_next()
        ### END SOLUTION

    def begin_next(self):
        """Begin the all-reduce of the next bucket."""
        ### BEGIN SOLUTION
        flat = flatten(self.buckets[len(self.begun)])
        self.begun.append((flat, self.all_reduce(flat, self.group)))
        ### END SOLUTION

    def finish(self):
        """After the backward, before the optimizer's step."""
        ### BEGIN SOLUTION
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, wait) in zip(self.buckets, self.begun, strict=True):
            wait()
            flat /= dist.get_world_size(self.group)
            unflatten(flat, bucket)
        self.start_over()
        ### END SOLUTION


@contextlib.contextmanager
def no_sync(ddp: DDP):
    """Exercise {{no_sync}}. `with no_sync(ddp):` backwards that add up gradients, and send nothing.

    `ddp.synchronizing` is False under it. At its end it is what it was before, also if an error was
    raised under it, and also if one no_sync was in another. Nothing else is changed.
    """
    ### BEGIN SOLUTION
    before, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    finally:
        ddp.synchronizing = before
    ### END SOLUTION


# ---- The program ----------------------------------------------------------------------------

BUCKET_BYTES = 200_000


def engines(model):
    """Ways to train data parallel: a name, the module to call, and what to do after a backward."""
    alone, in_buckets, hooked = model, copy.deepcopy(model), DDP(copy.deepcopy(model), BUCKET_BYTES)
    buckets = make_buckets(in_buckets.parameters(), BUCKET_BYTES)
    theirs = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=BUCKET_BYTES / 2**20)
    yield "each gradient by itself", alone, lambda: average_gradients(alone)
    yield "in buckets, afterwards", in_buckets, lambda: average_buckets(buckets)
    yield "in buckets, meanwhile", hooked, hooked.finish
    yield "DistributedDataParallel", theirs, lambda: None


def train(model, finish, text, steps, samples=32):
    """Returns the loss at first and at last, and the median time of a step in seconds."""
    optimizer, losses, times = torch.optim.AdamW(model.parameters(), lr=5e-3), [], []
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, samples, step))
        began = now()
        loss = mean_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        finish()
        optimizer.step()
        times.append(now() - began)
        losses.append(loss.item())
    return losses[0], losses[-1], median(times)


def apart(model) -> float:
    """By how much any weight differs from rank 0's, on any rank."""
    mine = parameters_to_vector(model.parameters()).detach()
    of_rank_0 = mine.clone()
    dist.broadcast(of_rank_0, 0)
    gap = (mine - of_rank_0).abs().max()
    dist.all_reduce(gap, dist.ReduceOp.MAX)
    return gap.item()


def program(text, steps=40) -> list[str]:
    if make_buckets([], 1) is None:
        return ["make_buckets is still to be written (exercise {{make_buckets}})"]
    torch.manual_seed(0)
    lines = []
    for name, model, finish in engines(Transformer()):
        first, last, seconds = train(model, finish, text, steps)
        lines.append(
            f"{name:24} loss {first:.2f} to {last:.2f}, {1e3 * seconds:5.1f} ms a step; "
            f"replicas differ by {apart(model):.0e}"
        )
    return lines


def main():
    from pedagogy_lib import launch

    run = launch(program, standard_library(), world_size=2)
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()
