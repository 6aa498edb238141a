"""The five exchanges of PyTorch's DataParallel, emulated with a process for each GPU.

torchrun --nproc-per-node 2 labs/emulated_data_parallel.py

Without GPUs, DataParallel only calls its module. Here, rank 0 takes the part of GPU 0. As in
DataParallel, all weights travel together, and so do all gradients.
"""

import math
from collections import Counter

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

EXCHANGES = (
    "1 scatter the inputs",
    "2 replicate the weights",
    "3 gather the outputs",
    "4 scatter the outputs' gradients",
    "5 reduce the weights' gradients",
)


def exchange(number):
    """Return a block that counts the bytes of one of the five exchanges."""
    from pedagogy_lib import measure

    return measure(EXCHANGES[number - 1], memory=False)


def data_parallel_step(model, optimizer, batch, samples):
    """Take a step; only rank 0 has the batch and an optimizer, and every rank gets an equal share.

    batch    (images, labels) on rank 0; anything on other ranks
    samples  number of samples in the whole batch
    """
    n, is_first = dist.get_world_size(), dist.get_rank() == 0
    mine = torch.empty(samples // n, 64, dtype=torch.float64)
    with exchange(1):
        dist.scatter(mine, list(batch[0].chunk(n)) if is_first else None)
    weights = parameters_to_vector(model.parameters()).detach()
    with exchange(2):
        dist.broadcast(weights, 0)
    vector_to_parameters(weights, model.parameters())
    outputs = model(mine)
    parts = [torch.empty_like(outputs) for _ in range(n)] if is_first else None
    with exchange(3):
        dist.gather(outputs.detach(), parts)
    slope = torch.empty_like(outputs)
    with exchange(4):
        dist.scatter(slope, gradients_of_outputs(parts, batch[1]) if is_first else None)
    model.zero_grad()
    outputs.backward(slope)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    with exchange(5):
        dist.reduce(gradients, 0)
    if is_first:
        put_gradients(model, gradients)
        optimizer.step()


def gradients_of_outputs(parts, labels):
    """Compute on rank 0 the gradient of the mean loss over the whole batch, cut up again."""
    outputs = torch.cat(parts).requires_grad_()
    F.cross_entropy(outputs, labels).backward()
    return list(outputs.grad.chunk(len(parts)))


def put_gradients(model, flat):
    parameters = list(model.parameters())
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad = part.view_as(p)


def make_model(width=1000):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)).double()


def some_batches(data, count=5, samples=120):
    """Return batches that can be cut into 2, 3, 4, 5 or 6 equal shares."""
    parts = (x[: count * samples].chunk(count) for x in data[:2])
    return [tuple(part.clone() for part in batch) for batch in zip(*parts)]


def train(batches):
    """Take a step for each batch, on each rank of a launch; return the final weights."""
    from pedagogy_lib import measure

    model, rank, samples = make_model(), dist.get_rank(), len(batches[0][1])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) if rank == 0 else None
    if rank > 0:
        batches[:] = [(None, None)] * len(batches)  # only rank 0 has the data
    for batch in batches:
        with measure("step"):
            data_parallel_step(model, optimizer, batch, samples)
    return parameters_to_vector(model.parameters()).detach()


def train_alone(batches, device="cpu", wrap=lambda model: model):
    """Train with the same batches in one process; return the final weights."""
    model = make_model().to(device)
    wrapper, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(wrapper(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().cpu()


def train_with_the_real_one(batches):
    """Train with PyTorch's DataParallel on all GPUs of this computer; return the final weights."""
    return train_alone(batches, "cuda", DataParallel)


class DataParallelStub(DataParallel):
    """DataParallel with PyTorch's own forward on two nonexistent GPUs; it only counts exchanges."""

    def __init__(self, module):
        nn.Module.__init__(self)  # DataParallel's own __init__ would look for GPUs
        self.module, self.device_ids, self.output_device = module, [0, 1], 0
        self.src_device_obj, self.called = torch.device("cpu"), Counter()

    def scatter(self, inputs, kwargs, device_ids):
        self.called["scatter"] += 1
        return [(part,) for part in inputs[0].chunk(len(device_ids))], [{} for _ in device_ids]

    def replicate(self, module, device_ids):
        self.called["replicate"] += 1
        return [module for _ in device_ids]

    def parallel_apply(self, replicas, inputs, kwargs):
        self.called["parallel_apply"] += 1
        return [replica(*its) for replica, its in zip(replicas, inputs, strict=True)]

    def gather(self, outputs, output_device):
        self.called["gather"] += 1
        return torch.cat(outputs)


def calls_of_forwards(forwards) -> Counter:
    """Count how often DataParallel's forward calls its parts, in this number of forwards."""
    parallel = DataParallelStub(nn.Linear(2, 1))
    for _ in range(forwards):
        parallel(torch.ones(4, 2))
    return parallel.called


# ---- Bytes sent -----------------------------------------------------------------------------


def bytes_of_model(weights) -> int:
    return weights.numel() * weights.element_size()


def copies_of_exchanges(emulation) -> dict[str, list[float]]:
    """Return {exchange: [bytes that each rank sends in a step, in copies of the model]}."""
    model_bytes, steps = bytes_of_model(emulation.values[0]), len(emulation["step"].spans[0])
    return {what: [sent / steps / model_bytes for sent in emulation[what].sent_bytes]
            for what in EXCHANGES}  # fmt: skip


def rows_of_exchanges(emulation) -> list[list[str]]:
    """Return a table's rows: an exchange, the copies rank 0 sends, and the most by another rank."""
    return [[what, f"{first:.2f}", f"{max(others):.2f}"]
            for what, (first, *others) in copies_of_exchanges(emulation).items()]  # fmt: skip


def theory_of_rank_0(n, samples=120, pixels=64) -> float:
    """Compute the copies of the model that rank 0 of n sends in a step over Gloo.

    It sends the weights along a tree of ceil(log2 n) rounds, (n - 1) / n for its part in the
    reduce, and the inputs of the other ranks.
    """
    inputs = samples * pixels / parameters_to_vector(make_model().parameters()).numel()
    return math.ceil(math.log2(n)) + (n - 1) / n * (1 + inputs)


# ---- Compared with DDP ----------------------------------------------------------------------


def both(batch, width, rounds=15):
    """Measure steps of DDP and of the emulation in turn, on each rank of a launch."""
    from pedagogy_lib import measure

    model, n, rank = make_model(width), dist.get_world_size(), dist.get_rank()
    optimizer, ddp = torch.optim.SGD(model.parameters(), lr=0.1), DistributedDataParallel(model)
    images, labels = (x.chunk(n)[rank] for x in batch)
    for _ in range(rounds):
        dist.barrier()
        with measure("DDP", memory=False):
            optimizer.zero_grad()
            F.cross_entropy(ddp(images), labels).backward()
            optimizer.step()
        dist.barrier()
        with measure("DataParallel", memory=False):
            data_parallel_step(model, optimizer, batch, len(batch[1]))


def compare_with_ddp(run, first=3):
    """Compare each emulated step with the DDP step before it; the first rounds are left out."""
    from pedagogy_lib import compare_rounds

    return compare_rounds(*(run[way].rounds[first:] for way in ("DataParallel", "DDP")))


def copies_sent(run, weights) -> dict[str, list[float]]:
    """Return the bytes that each rank sent in a step of each way, in copies of the model."""
    steps, model_bytes = len(run["DDP"].spans[0]), bytes_of_model(weights)
    return {way: [sent / steps / model_bytes for sent in run[way].sent_bytes]
            for way in ("DataParallel", "DDP")}  # fmt: skip


def rows_beside_ddp(python, slower, sent, emulation) -> list[list[str]]:
    """Return four rows of a web note on both ways, each next to the observation made here.

    python  result of cores_used for python_work
    slower  {width of the model: result of compare_with_ddp}
    sent    result of copies_sent; emulation is the run of five batches
    """
    anew = copies_of_exchanges(emulation)[EXCHANGES[1]][0]
    copies = {way: " and ".join(f"{x:.1f}" for x in both[:2]) for way, both in sent.items()}
    return [
        ["processes", "one, a thread for each GPU", "one for each GPU",
         f"two threads of Python code ran: {python['ran']}"],
        ["replicas", "anew in each forward", "once, at the start",
         f"rank 0 sends {anew:.1f} copies of the model in each step"],
        ["gradients", "added up on GPU 0", "averaged by an all-reduce",
         f"sent in a step by ranks 0 and 1, in copies: {copies['DataParallel']}; "
         f"DDP {copies['DDP']}"],
        ["performance", "“better for smaller models”", "“more efficient”",
         f"small model: the exchanges take {slower[min(slower)]} as DDP's step"],
    ]  # fmt: skip


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    batches = some_batches(digits())
    alone = train_alone(batches)
    run = launch(train, batches, world_size=2)
    if run.rank == 0:
        gap = (run.values[0] - alone).abs().max()
        print(f"as one process to 1e-12: {bool(gap < 1e-12)}")
        print(f"sent in a step by ranks 0 and 1: {run['step'].sent_bytes} bytes")


if __name__ == "__main__":
    main()
