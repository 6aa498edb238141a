"""Data parallel training: each rank's samples, and gradients averaged during the backward.

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

# ---- Samples --------------------------------------------------------------------------------


def samples_of_rank(length, epoch, rank, n, seed=0) -> list[int]:
    """Exercise {{samples_of_rank}}. Return the samples that a rank reads in an epoch, in order.

    All ranks shuffle 0 … length-1 alike, with their own generator, seeded with seed + epoch, so
    that each epoch has its own order. A rank then reads every n-th of them, from place `rank` on.
    All ranks read equally many. Where length is no multiple of n, the order is therefore continued
    with its own beginning (several times, if it is very short).

    Example 5 samples in the shuffled order 3 0 4 1 2, on 2 ranks: it is continued as 3 0 4 1 2 3;
            rank 0 reads 3 4 2, rank 1 reads 0 1 3
    Equals  list(DistributedSampler(range(length), n, rank, seed=seed)), after set_epoch(epoch)
    """
    ### BEGIN SOLUTION
    shuffle = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(length, generator=shuffle).tolist()
    each = -(-length // n)
    enough = order * -(-each * n // max(length, 1))
    return enough[: each * n][rank::n]
    ### END SOLUTION


# ---- Overlap with the backward --------------------------------------------------------------


def begin_all_reduce(x: Tensor, group=None):
    """Begin to sum up `x` over the ranks; return a function that waits for the end."""
    return dist.all_reduce(x, group=group, async_op=True).wait


def make_async(all_reduce):
    """Make a function like `begin_all_reduce` from an all-reduce, which runs in its own thread.

    all_reduce  (x, group) -> None, once the sum is complete; such as chapter 02's ring
    """
    thread = ThreadPoolExecutor(1)  # only one, as all ranks have to sum buckets in the same order

    def begin(x, group=None):
        return thread.submit(all_reduce, x, group).result

    return begin


class DDP(nn.Module):
    """Exercise {{ddp}}. A model whose gradients are averaged while its backward is still running.

    When the last gradient of a bucket is ready, its all-reduce begins while the backward goes on.
    On every rank, buckets begin in their order, even where a later one is ready sooner, because
    ranks match collectives by the order of the calls. After the backward, `finish()` begins the
    buckets that are left (a parameter may have had no part in the loss), waits for all, puts the
    averages into `.grad`, and starts over. While `synchronizing` is False, hooks send nothing,
    gradients only add up, and `finish()` is not called. After any other backward it has to be
    called on all ranks, even if the backward raised on one of them: otherwise the next gradients
    would stay out of the averages.

    all_reduce  (x, group) begins to sum up x and returns a function that waits for the end
    Equals      DistributedDataParallel(..., find_unused_parameters=True), which calls its finish()
                by itself, leaves None where no rank has a gradient, and divides first; here zeros
                are allowed, by which weight decay and momentum move it, and in float16 a sum may
                overflow.
                It also copies rank 0's buffers to all ranks before a forward; here each rank keeps
                its own, such as BatchNorm's running statistics
    Raises      RuntimeError in a forward or backward before finish(). (Your is_ready need not.)
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
        if self.begun and torch.is_grad_enabled():  # buckets of an earlier backward still travel
            raise RuntimeError("call finish() after each backward, even after one that raised")
        return self.model(*inputs)

    def start_over(self):
        """Reset the state before a backward: no gradient is ready, and no bucket has begun."""
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun = []  # for each bucket that travels: (its flat tensor, what waits for its sum)

    def is_ready(self, parameter, number):
        """Handle the complete gradient of a parameter in bucket `number`; autograd calls this."""
        ### BEGIN SOLUTION
        if self.synchronizing:
            if parameter not in self.missing[number]:
                raise RuntimeError("a gradient is ready twice: call finish() after each backward")
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
        """Complete the averages after the backward, before the optimizer's step."""
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
    """Exercise {{no_sync}}. Let backwards add up gradients without sending: `with no_sync(ddp):`.

    `ddp.synchronizing` is False inside the block. At its end, it is what it was before, even if an
    error was raised inside or one no_sync was in another. Nothing else is changed.
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
    """Yield ways to train: a name, the module to call, and a function to call after a backward."""
    alone, in_buckets, hooked = model, copy.deepcopy(model), DDP(copy.deepcopy(model), BUCKET_BYTES)
    buckets = make_buckets(in_buckets.parameters(), BUCKET_BYTES)
    theirs = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=BUCKET_BYTES / 2**20)
    yield "each gradient by itself", alone, lambda: average_gradients(alone)
    yield "in buckets, afterwards", in_buckets, lambda: average_buckets(buckets)
    yield "in buckets, meanwhile", hooked, hooked.finish
    yield "DistributedDataParallel", theirs, lambda: None


def train(model, finish, text, steps, samples=32):
    """Train, and return the loss of the first and last step, and the median seconds of a step."""
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
    """Return the largest difference of any weight from rank 0's, on any rank; inf with a NaN."""
    mine = parameters_to_vector(model.parameters()).detach()
    of_rank_0 = mine.clone()
    dist.broadcast(of_rank_0, 0)
    gap = (mine - of_rank_0).abs().max().nan_to_num(torch.inf)  # MAX may drop a NaN
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
