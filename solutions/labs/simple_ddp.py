# Built from chapters/ch03_data_parallel/labs/simple_ddp.py by `make build`.
"""Data parallel training by hand, compared with PyTorch's own, and the cost of a step.

torchrun --nproc-per-node 2 labs/simple_ddp.py
"""

import time
from statistics import median

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
SAMPLES = 32  # in one step, over all ranks


# ---- By hand --------------------------------------------------------------------------------


def start_equal(model, group=None) -> None:
    """Exercise 3.2. Copy the group's first rank's parameters and buffers to all ranks.

    Tensors are changed in place, and autograd must not record the copy. Buffers are a model's
    tensors that no optimizer changes, such as BatchNorm's running means.

    Example weights [1, 2] on rank 0 and [5, 7] on rank 1: afterwards [1, 2] on both
    Equals  the effect of the constructor DistributedDataParallel(model)
    Raises  ValueError if a tensor is a view with gaps in memory
    Cost    one broadcast of each tensor of rank 0's model: n-1 copies of the model in all
    """
    need_dense(model)
    ### BEGIN SOLUTION
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), group_src=0, group=group)
    ### END SOLUTION


def need_dense(model):
    """Raise ValueError if a tensor is strided or expanded; Gloo would write beside its numbers."""
    for name, x in [*model.named_parameters(), *model.named_buffers()]:
        if torch.empty_like(x, device="meta").stride() != x.stride():
            raise ValueError(f"{name} is a view with gaps in memory: make it contiguous() first")


def average_gradients(model, group=None) -> None:
    """Exercise 3.3. Make every `.grad` the mean over the ranks, after a backward.

    A parameter that took no part in this rank's loss has None in its `.grad`. It counts as zeros
    and gets the mean, since other ranks of the group may have a gradient for it. A parameter that
    is frozen (`requires_grad` is False) has None on every rank and keeps it.

    Example [2, 4] and [6, 0] become [4, 2] on both ranks; None and [6, 0] become [3, 0]
    Equals  the `.grad` of DistributedDataParallel(..., find_unused_parameters=True), except that
            zeros may take the place of None where no rank has a gradient, by which AdamW's weight
            decay and momentum move it; and a sum may overflow in float16, as DDP divides first
    Cost    one all-reduce per parameter; each rank sends 2(n-1)/n of their bytes
    """
    ### BEGIN SOLUTION
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad /= dist.get_world_size(group)
    ### END SOLUTION


# ---- The cost -------------------------------------------------------------------------------


def now() -> float:
    """Return the seconds on a clock once all work begun so far is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    """Exercise 3.14. Time a step's forward, its backward, and its exposed communication.

    Return three numbers of seconds. The second is a backward without communication, which
    `ddp.no_sync()` switches off if the forward is under it, too. The third is a backward with
    communication minus the second number. That is the *exposed* communication: the time in which
    the rank waits, for messages or for a slower rank, and what DDP's hooks compute. Return it even
    if it is negative. Read the clock with `now()`.

    Example forward 2 s, backward under no_sync 5 s, backward with communication 8 s: 2, 5, 3
    ddp      a model in DistributedDataParallel
    loss_fn  (outputs, targets) -> loss; part of the forward
    Cost     two forwards and two backwards
    """
    ### BEGIN SOLUTION
    with ddp.no_sync():
        began = now()
        loss = loss_fn(ddp(inputs), targets)
        forward_done = now()
        loss.backward()
        backward_done = now()
    loss = loss_fn(ddp(inputs), targets)
    again = now()
    loss.backward()
    backward = backward_done - forward_done
    return forward_done - began, backward, now() - again - backward
    ### END SOLUTION


# ---- The program ----------------------------------------------------------------------------


def share_of_rank(batch, group=None) -> list:
    """Return this rank's share of a batch, every n-th sample, on this rank's device."""
    rank, n, device = dist.get_rank(group), dist.get_world_size(group), torch.get_default_device()
    return [x[rank::n].to(device) for x in batch]


def train(model, text, synchronize, steps=STEPS) -> list[float]:
    """Train on this rank's share of each batch; return the losses of this rank.

    synchronize  function to call between backward and step
    """
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=5e-3), []
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, SAMPLES, step))
        loss = mean_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        synchronize()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(text) -> tuple[str, float]:
    """Train by hand and with the wrapper from the same weights, and compare the final weights.

    Both are measured, with their start, as "by hand" and "DDP".

    Returns  a description, and the largest relative difference of any weight
    """
    from pedagogy_lib import measure, relative_gap, rounding

    torch.manual_seed(dist.get_rank())  # without start_equal, ranks would stay apart
    by_hand = Transformer().double()
    with measure("by hand", memory=False):
        start_equal(by_hand)
        losses = train(by_hand, text, lambda: average_gradients(by_hand))
    torch.manual_seed(0)
    with measure("DDP", memory=False):
        wrapped = DistributedDataParallel(Transformer().double())
        train(wrapped, text, lambda: None)
    pairs = zip(by_hand.parameters(), wrapped.module.parameters(), strict=True)
    gap = max(relative_gap(a, b) for a, b in pairs)
    told = (
        f"by hand, {STEPS} steps: loss of rank 0 from {losses[0]:.2f} to {losses[-1]:.2f}\n"
        f"largest difference to DistributedDataParallel's weights: {gap:.1e} of the largest one"
    )
    if gap >= rounding(steps=STEPS):
        told += "\nThat is not the same: see 3.2 and 3.3."
    return told, gap


def overhead(text, rounds=23) -> str:
    """Describe the parts of a step, as medians over rounds, with a margin for communication."""
    from pedagogy_lib import compare_rounds

    torch.manual_seed(0)
    ddp = DistributedDataParallel(Transformer())
    batch = share_of_rank(draw_batch(text, SAMPLES, 0))
    times = [time_step(ddp, mean_loss, *batch) for _ in range(rounds)][3:]  # after a warm-up
    if None in times:
        return "forward, backward, communication: exercise 3.14 is still to be written"
    forward, backward, communication = (1e3 * median(part) for part in zip(*times, strict=True))
    share = communication / (forward + backward)
    both = compare_rounds([b + c for _, b, c in times], [b for _, b, _ in times])  # round by round
    return f"forward {forward:.1f} ms, backward {backward:.1f} ms; communication " + (
        f"adds {communication:.1f} ms: {share:.0%} of the computing"
        if both.word == "slower"
        else "adds less than what two steps differ by"
    )


def program():
    text = standard_library()
    return compare(text)[0], overhead(text)


def main():
    from pedagogy_lib import launch

    run = launch(program, world_size=2)
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()
