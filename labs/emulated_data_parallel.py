"""The five exchanges of PyTorch's DataParallel, with a process in place of each GPU.

torchrun --nproc-per-node 2 labs/emulated_data_parallel.py

Without GPUs, DataParallel only calls its module. Here rank 0 plays GPU 0. As in DataParallel, all
weights travel together, and so do all gradients.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

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
    """A block that counts the bytes of one of the five."""
    from pedagogy_lib import measure

    return measure(EXCHANGES[number - 1], memory=False)


def data_parallel_step(model, optimizer, batch, samples):
    """One step. Only rank 0 has the batch and an optimizer; every rank gets an equal share.

    batch    (images, labels) on rank 0; anything elsewhere
    samples  of the whole batch
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
    """On rank 0: one loss, the mean over the whole batch; its gradient, cut up again."""
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
    """Batches that can be cut into 2, 3, 4, 5 or 6 equal shares."""
    parts = (x[: count * samples].chunk(count) for x in data[:2])
    return [tuple(part.clone() for part in batch) for batch in zip(*parts)]


def train(batches):
    """On each rank of a launch: a step for each batch; the weights at the end."""
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
    """The same in one process; the weights at the end."""
    model = make_model().to(device)
    wrapper, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(wrapper(images.to(device)), labels.to(device)).backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().cpu()


def train_with_the_real_one(batches):
    """The same with PyTorch's DataParallel, on all GPUs of this computer."""
    return train_alone(batches, "cuda", DataParallel)


# ---- Beside DDP -----------------------------------------------------------------------------


def both(batch, width, rounds=12):
    """On each rank of a launch: steps of DDP and of the emulation, in turn, measured."""
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


def seconds_of(run, label, first=3):
    """The median step of rank 0, without the first ones."""
    return median(end - begin for begin, end in run[label].spans[0][first:])


def copies_sent(run, model_bytes, rounds=12) -> dict[str, list[float]]:
    """What each rank sent in a step of each way, in copies of the model."""
    ways = ("DataParallel", "DDP")
    return {way: [b / rounds / model_bytes for b in run[way].sent_bytes] for way in ways}


def eight_rows(cores, slower, sent, emulation, model_bytes) -> list[list[str]]:
    """A web note's eight rows on both ways, beside what was seen.

    cores   that two Python jobs use at the same time, in threads and in processes
    slower  {width of the model: the emulated step in times of DDP's}
    sent    see copies_sent; emulation is the run of five batches
    """
    replicated = emulation[EXCHANGES[1]].sent_bytes[0] / 5 / model_bytes
    times = ", ".join(f"{ratio:.1f}" for ratio in slower.values())
    copies = {way: " and ".join(f"{x:.1f}" for x in both[:2]) for way, both in sent.items()}
    threads, processes = cores
    return [
        ["processes", "one, a thread for each GPU", "one for each GPU",
         f"two Python jobs use {threads:.1f} cores in threads, {processes:.1f} in processes"],
        ["replicas", "anew in each forward", "once, at the start",
         f"rank 0 sends {replicated:.1f} copies of the model in each step"],
        ["inputs", "GPU 0 cuts the batch", "each rank reads its own", "part 03"],
        ["gradients", "added up on GPU 0", "averaged by an all-reduce",
         f"sent in a step by ranks 0 and 1, in copies: {copies['DataParallel']}; "
         f"DDP {copies['DDP']}"],
        ["performance", "“better for smaller models”", "“more efficient”",
         f"the five exchanges take {times} times DDP's step, from the small to the large model"],
        ["scale", "one computer", "many computers", "part 03d: two machines"],
        ["synchronisation", "inside the wrapper", "process group, then the wrapper", "part 03"],
        ["code", "DataParallel(model)", "process group, wrapper, sampler", "part 03d"],
    ]  # fmt: skip


# ---- Threads --------------------------------------------------------------------------------


def python_work():
    return sum(i * i for i in range(1_500_000))


def torch_work():
    x = torch.ones(500, 500)
    for _ in range(16):
        x @ x


def do(job):
    return job()


def in_two_threads(job):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(do, [job, job]))


def clock(how, job, rounds=8) -> list[tuple[float, float, float]]:
    """On each rank of a launch: when how(job) began and ended, and the CPU seconds it took."""
    torch.set_num_threads(1)  # one job computes on one core
    spans = []
    for _ in range(rounds):
        dist.barrier()
        began, cpu = time.perf_counter(), time.process_time()
        how(job)
        spans.append((began, time.perf_counter(), time.process_time() - cpu))
    return spans


def most_cores(run) -> float:
    """How many cores its ranks used at the same time, in the best round.

    CPU seconds of all ranks, in times of the seconds from the first begin to the last end. Other
    programs can only make it smaller.
    """
    return max(
        sum(cpu for *_, cpu in spans) / (max(end for _, end, _ in spans) - min(spans)[0])
        for spans in zip(*run.values, strict=True)
    )


def how_threads_ran(threads, processes) -> str:
    """In words, from the cores that two jobs used in threads and in processes."""
    if processes < 1.5:
        return "not to be told: no two cores were free"
    return "in turn" if threads < 1.2 else "side by side"


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
