"""Chapter 00: processes, ranks, what can be split, what counts as equal."""

import torch

from ..collective_simulation import bytes_per_parameter
from ..question import Question


def rank_by_counting(machines, gpus, machine, local):
    started = [(m, g) for m in range(machines) for g in range(gpus)]
    return {"rank": started.index((machine, local)), "world": len(started)}


def deal_samples(samples, ranks, rank):
    hands = [[] for _ in range(ranks)]
    for sample in range(samples):
        hands[sample % ranks].append(sample)
    return {"count": len(hands[rank]), "last": hands[rank][-1]}


def adam_memory(billions, ranks):
    each = sum(bytes_per_parameter(torch.optim.Adam).values())
    return {"each": billions * each, "all": ranks * billions * each,
            "part": billions * each / ranks}  # fmt: skip


def wait_at_the_barrier(fast, slow, ranks, steps):
    clocks, idle = [0.0] * ranks, 0.0
    for _ in range(steps):
        clocks = [clock + (slow if rank == 0 else fast) for rank, clock in enumerate(clocks)]
        idle += sum(max(clocks) - clock for clock in clocks)
        clocks = [max(clocks)] * ranks
    return {"seconds": clocks[0], "idle": 100 * idle / sum(clocks)}


QUESTIONS = [
    Question(
        "0.1", "00", 1, 3,
        "torchrun starts a program on {machines} machines with {gpus} GPUs each, one process for "
        "each GPU, with its default assignment of ranks. What is WORLD_SIZE? Which RANK has the "
        "process with LOCAL_RANK {local} on machine {machine}? (Machines count from 0.)",
        "WORLD_SIZE is {world}, and RANK is {rank}.",
        "Ranks are numbered machine by machine: RANK = machine × processes of a machine + "
        "LOCAL_RANK = {machine} × {gpus} + {local}.",
        given={"machines": (4, 3, 6), "gpus": (8, 4), "machine": (2, 1), "local": (3, 2)},
        solve=lambda machines, gpus, machine, local: {
            "rank": machine * gpus + local, "world": machines * gpus},
        again=rank_by_counting,
        stated={"rank": 19, "world": 32},
    ),
    Question(
        "0.2", "00", 1, 3,
        "Each of {ranks} ranks runs these two lines:\n\n"
        "    x = torch.tensor([float(dist.get_rank())])\n"
        "    dist.all_reduce(x)\n\n"
        "What does x hold afterwards, on rank 0 and on the last rank?",
        "{total:g} on both, and on all other ranks.",
        "An all-reduce sums by default, and every rank gets the sum 0 + 1 + … + ({ranks} − 1). "
        "Nobody divides by the number of ranks.",
        given={"ranks": (4, 8, 6)},
        solve=lambda ranks: {"total": ranks * (ranks - 1) / 2},
        again=lambda ranks: {"total": float(torch.arange(ranks).sum())},
        stated={"total": 6},
    ),
    Question(
        "0.3", "00", 2, 4,
        "A notebook has `counter = 0`, and a function `step` that says `global counter`, adds 1 to "
        "it, and returns it. The function runs on 4 ranks, each a process of its own. What does it "
        "return on each rank, and what is `counter` in the notebook afterwards?",
        "1 on each of the four ranks. In the notebook it is still 0.",
        "Processes share no memory. Each rank has a counter of its own, and adds 1 to that one. "
        "What a rank has computed comes back only as its return value, or in a message.",
    ),
    Question(
        "0.4", "00", 2, 4,
        "Four ranks run `if rank != 2: dist.all_reduce(x)`, and then end. What do ranks 0, 1 and "
        "3 do, and why does no line of the program raise an error at once?",
        "They wait inside the all-reduce, until rank 2 ends (and the backend notices that its "
        "connection is gone) or a timeout ends them.",
        "A collective is complete only when every rank of its group has called it. A rank that is "
        "late looks exactly like one that never calls: only a timeout or a lost connection tells "
        "the difference.",
    ),
    Question(
        "0.5", "00b", 1, 3,
        "{samples} samples, numbered from 0, are dealt out like cards to {ranks} ranks, from rank "
        "0 on, until none is left. How many does rank {rank} get, and which is its last one?",
        "{count} samples; the last one is number {last}.",
        "Rank {rank} gets the samples {rank}, {rank} + {ranks}, {rank} + 2 × {ranks}, …, as long "
        "as they are below {samples}.",
        given={"samples": (30, 45, 101), "ranks": (4, 7), "rank": (1, 3)},
        solve=lambda samples, ranks, rank: {
            "count": -((rank - samples) // ranks),
            "last": rank + (-((rank - samples) // ranks) - 1) * ranks},
        again=deal_samples,
        stated={"count": 8, "last": 29},
    ),
    Question(
        "0.6", "00b", 2, 5,
        "A model has {billions} billion parameters in float32 and is trained with Adam. Count "
        "parameters, gradients and the optimizer's states, no activations. How many GB does each "
        "of {ranks} ranks hold if each has a whole copy? How many do all ranks hold together? How "
        "many does each hold if everything is cut into {ranks} equal parts?",
        "{each:g} GB each, {all:g} GB together, and {part:g} GB each when cut.",
        "4 bytes for the parameter, 4 for its gradient, and 8 for Adam's two states: 16 bytes for "
        "each parameter. Copies do not add up to a larger memory: each rank needs all of it.",
        given={"billions": (2, 3, 7), "ranks": (8, 4)},
        solve=lambda billions, ranks: {
            "each": 16 * billions, "all": 16 * billions * ranks, "part": 16 * billions / ranks},
        again=adam_memory,
        stated={"each": 32, "all": 256, "part": 4},
    ),
    Question(
        "0.7", "00c", 2, 5,
        "On {ranks} ranks, every step ends with an all-reduce that takes no time itself. Rank 0 "
        "computes for {slow} s a step, all others for {fast} s. How long do {steps} steps take, "
        "and which share of all ranks' time is spent waiting?",
        "{seconds:g} s, and {idle:.1f} % of the ranks' time is waiting.",
        "Each step takes as long as the slowest rank. The {ranks} − 1 others wait for "
        "{slow} − {fast} s in each step.",
        given={"fast": (1.0, 0.8), "slow": (1.6, 2.0), "ranks": (4, 8), "steps": (10, 50)},
        solve=lambda fast, slow, ranks, steps: {
            "seconds": steps * slow, "idle": 100 * (ranks - 1) * (slow - fast) / (ranks * slow)},
        again=wait_at_the_barrier,
        stated={"seconds": 16, "idle": 28.125},
    ),
    Question(
        "0.8", "00c", 3, 6,
        "A training on four ranks and the same training on one process end with float32 weights "
        "that differ by 3e-7. Is the program on four ranks wrong? Describe an experiment that "
        "decides it.",
        "That cannot be told from this number. Repeat both in float64, over several steps, from "
        "the same weights and data: if the difference shrinks to about 1e-16 … 1e-12, it was "
        "rounding. If it stays near 1e-7, the two compute different things.",
        "The ranks add in another order, and floating-point addition is not associative. So two "
        "right programs need not agree bit by bit. Rounding shrinks with the precision; a mistake "
        "does not.",
    ),
]  # fmt: skip
