"""Chapter 03: data parallelism, DDP, servers, scaling."""

from fractions import Fraction

import torch
from torch.utils.data import DistributedSampler

from ..collective_simulation import bytes_of, empty, simulate_ring
from ..question import Question


def toy_step(weight, rate):
    gradients = torch.tensor([0.8, -0.2, -0.7, 0.5], dtype=torch.float64)
    results = {}
    for name, gradient in {"mean": gradients.mean(), "sum": gradients.sum()}.items():
        parameter = torch.nn.Parameter(torch.tensor([weight], dtype=torch.float64))
        parameter.grad = gradient.reshape(1)
        torch.optim.SGD([parameter], lr=rate).step()
        results[name] = parameter.item()
    return results


def simulate_sampler(samples, ranks):
    hands = [list(DistributedSampler(range(samples), ranks, rank, shuffle=False))
             for rank in range(ranks)]  # fmt: skip
    taken = [index for hand in hands for index in hand]
    return {"each": len(hands[0]), "twice": len(taken) - len(set(taken))}


def fill_buckets(cap):
    """Fill buckets with DDP's own assignment in C++, with one limit for all buckets."""
    sizes = SIZES[::-1]
    tensors = [torch.empty(megabytes * 2**18) for megabytes in sizes]  # 2**18 floats: 1 MiB
    found, _ = torch.distributed._compute_bucket_assignment_by_size(tensors, [cap * 2**20])
    buckets = [sum(sizes[index] for index in bucket) for bucket in found]
    return {"count": len(buckets), "first": buckets[0], "last": buckets[-1]}


SIZES = [12, 6, 9, 3, 10, 4]  # MiB of each parameter, in the order of the forward


def buckets_on_paper(cap):
    buckets, is_open = [], False
    for size in reversed(SIZES):
        buckets = [*buckets[:-1], buckets[-1] + size] if is_open else [*buckets, size]
        is_open = buckets[-1] < cap
    return {"count": len(buckets), "first": buckets[0], "last": buckets[-1]}


def simulate_overlap(layers, backward, reduce):
    """Simulate a backward layer by layer, with a queue of all-reduces next to it."""
    clock = line = 0.0
    for _ in range(layers):
        clock += backward
        line = max(line, clock) + reduce
    return {"apart": layers * backward + layers * reduce, "over": line}


def no_sync_bytes(parts, ranks, megabytes):
    each = simulate_ring(ranks, megabytes)["sent"]
    return {"every": sum(each for _ in range(parts)), "last": each}


def factor_by_expansion(first, rest):
    """Return the factor that makes rank 0's mean loss, one of four, count as its tokens do."""
    counts = [first, rest, rest, rest]
    share_of_token = Fraction(1, sum(counts))
    plain = Fraction(1, 4) * Fraction(1, first)  # the share of rank 0's token in a mean of means
    return {"factor": float(share_of_token / plain), "off": float(plain / share_of_token)}


def server_and_ring(workers, megabytes, speed):
    pushes = sum(megabytes / speed for _ in range(workers))
    pulls = sum(megabytes / speed for _ in range(workers))
    return {"server": pushes + pulls,
            "ring": simulate_ring(workers, megabytes, bandwidth=speed)["seconds"]}  # fmt: skip


def simulate_scaling(ranks, alone, megabytes, speed):
    exchange = 1e3 * simulate_ring(ranks, megabytes, bandwidth=1e3 * speed)["seconds"]
    step = sum(alone / ranks for _ in range(1)) + exchange
    return {"step": step, "times": alone / step, "share": 100 * alone / step / ranks}


def power_sent(rows, columns, rank):
    whole = bytes_of([empty(rows, columns)])
    factors = bytes_of([empty(rows, rank), empty(columns, rank)])
    return {"numbers": factors / 4, "times": whole / factors}


QUESTIONS = [
    Question(
        "3.1", "03", 1, 4,
        "Four ranks have the local gradients 0.8, −0.2, −0.7 and 0.5 for a weight of {weight}. "
        "SGD has the learning rate {rate}. What is the weight after the step with DDP? What "
        "would it be if the gradients were summed and not averaged?",
        "{mean:.4g} with DDP; with the sum it would be {sum:.4g}.",
        "The mean is 0.1, the sum 0.4. DDP divides by the number of ranks, so that four ranks do "
        "what one process does with the mean loss of the whole batch.",
        given={"weight": (0.1, 0.5), "rate": (0.5, 0.2)},
        solve=lambda weight, rate: {"mean": weight - rate * 0.1, "sum": weight - rate * 0.4},
        again=toy_step,
        stated={"mean": 0.05, "sum": -0.1},
    ),
    Question(
        "3.2", "03b", 1, 3,
        "A DistributedSampler with its default drop_last=False shares {samples} samples out to "
        "{ranks} ranks. How many does each rank get, and how many samples are taken twice?",
        "{each:g} each; {twice:g} are taken twice.",
        "Every rank gets the same number, {samples} / {ranks} rounded up. What is missing is "
        "filled up with samples from the beginning.",
        given={"samples": (1001, 515, 2047), "ranks": (8, 6)},
        solve=lambda samples, ranks: {
            "each": -(-samples // ranks), "twice": -(-samples // ranks) * ranks - samples},
        again=simulate_sampler,
        stated={"each": 126, "twice": 7},
    ),
    Question(
        "3.3", "03c", 2, 5,
        "A model's parameters have, in the order of the forward, 12, 6, 9, 3, 10 and 4 MiB. "
        "Buckets are filled from the last parameter to the first. A bucket is closed as soon as "
        "it has at least {cap} MiB; tensors are not split. How many buckets are there, and how "
        "large are the one that is sent first and the one that is sent last?",
        "{count:g} buckets; the first has {first:g} MiB, the last {last:g} MiB.",
        "Going backwards: 4, 10, 3, 9, 6, 12. A bucket may become larger than {cap} MiB, by its "
        "last tensor; the last bucket may be smaller.",
        given={"cap": (13, 10, 16)},
        solve=buckets_on_paper, again=fill_buckets,
        stated={"count": 3, "first": 14, "last": 12},
    ),
    Question(
        "3.4", "03c", 2, 6,
        "A backward goes through {layers} equal layers, {backward} ms each. The all-reduce of a "
        "layer's gradients takes {reduce} ms, and all-reduces run one after another. How long is "
        "it from the beginning of the backward to the last gradient's mean if all communication "
        "begins after the backward? How long if each all-reduce begins as soon as its gradients "
        "are there, and slows down nothing?",
        "{apart:g} ms one after the other, {over:g} ms overlapped.",
        "Overlapped, the slower of the two sets the pace. If computing is slower, the last "
        "layer's all-reduce remains: {layers} × {backward} + {reduce}. If communication is, it "
        "begins after the first layer: {backward} + {layers} × {reduce}.",
        given={"layers": (10, 24), "backward": (6, 4), "reduce": (4, 9)},
        solve=lambda layers, backward, reduce: {
            "apart": layers * (backward + reduce),
            "over": layers * max(backward, reduce) + min(backward, reduce)},
        again=simulate_overlap,
        stated={"apart": 100, "over": 64},
    ),
    Question(
        "3.5", "03d", 1, 4,
        "DDP trains a model with {megabytes} MB of gradients on {ranks} ranks, over rings. A step "
        "accumulates {parts} micro-batches. How many MB does a rank send in a step without "
        "no_sync? How many, if all micro-batches but the last run under no_sync?",
        "{every:g} MB without it, {last:g} MB with it.",
        "Without it, each backward has an all-reduce of 2 × ({ranks} − 1) / {ranks} models. With "
        "it, there is one in the last backward, of the accumulated gradients.",
        given={"parts": (4, 8), "ranks": (4, 8), "megabytes": (200, 80)},
        solve=lambda parts, ranks, megabytes: {
            "every": parts * 2 * (ranks - 1) / ranks * megabytes,
            "last": 2 * (ranks - 1) / ranks * megabytes},
        again=no_sync_bytes,
        stated={"every": 1200, "last": 300},
    ),
    Question(
        "3.6", "03f", 3, 7,
        "In one step, rank 0 has {first} tokens and each of three other ranks has {rest}. Each "
        "computes the mean loss of its own tokens, and DDP averages the gradients. By which "
        "factor has rank 0 to multiply its loss, so that every token counts alike? Without any "
        "factor, how many times as much as it should does a token of rank 0 count?",
        "By {factor:.4g}. Without it, a token of rank 0 counts {off:.4g} times as much as it "
        "should.",
        "A token should count 1 / (all tokens). In a mean of four means it counts "
        "1 / (4 × tokens of its rank). The factor is 4 × tokens of the rank / all tokens.",
        given={"first": (300, 1000, 50), "rest": (100, 200)},
        solve=lambda first, rest: {
            "factor": 4 * first / (first + 3 * rest), "off": (first + 3 * rest) / (4 * first)},
        again=factor_by_expansion,
        stated={"factor": 2, "off": 0.5},
    ),
    Question(
        "3.7", "03h", 2, 5,
        "{workers} workers push {megabytes} MB of gradients to one server, which is another "
        "computer. When it has all of them, each worker pulls {megabytes} MB of weights. Every "
        "computer has a link of {speed} MB/s in each direction, and latency does not count. How "
        "long does the exchange take? How long does a ring all-reduce among the workers take?",
        "{server:g} s with the server, {ring:.4g} s in a ring.",
        "The server's link carries {workers} times {megabytes} MB in, and then as much out. In "
        "the ring each link carries less than 2 × {megabytes} MB, however many workers there are.",
        given={"workers": (8, 16), "megabytes": (100, 250), "speed": (100, 1000)},
        solve=lambda workers, megabytes, speed: {
            "server": 2 * workers * megabytes / speed,
            "ring": 2 * (workers - 1) / workers * megabytes / speed},
        again=server_and_ring,
        stated={"server": 16, "ring": 1.75},
    ),
    Question(
        "3.8", "03k", 3, 7,
        "On one GPU a step computes for {alone} ms. On {ranks} GPUs with the same batch, "
        "computing is shared out evenly, and then a ring sums {megabytes} MB of gradients over "
        "links of {speed} GB/s, without overlap and latency. How long is a step, how many times "
        "as fast as on one GPU, and how large is the efficiency?",
        "{step:.4g} ms: {times:.3g} times as fast, an efficiency of {share:.3g} %.",
        "{alone} / {ranks} ms of computing, and 2 × ({ranks} − 1) / {ranks} × {megabytes} MB / "
        "({speed} GB/s) of communication, which does not shrink with more GPUs. The efficiency is "
        "the speed-up divided by {ranks}.",
        given={"ranks": (8, 16), "alone": (800, 1600), "megabytes": (400, 1000),
               "speed": (10, 25)},
        solve=lambda ranks, alone, megabytes, speed: (
            lambda step: {"step": step, "times": alone / step, "share": 100 * alone / step / ranks}
        )(alone / ranks + 2 * (ranks - 1) / ranks * megabytes / speed),
        again=simulate_scaling,
        stated={"step": 170, "times": 4.70588, "share": 58.8235},
    ),
    Question(
        "3.9", "03j", 2, 4,
        "PowerSGD with rank {rank} takes the place of a gradient matrix of {rows} × {columns} "
        "numbers. How many numbers does a step sum over the ranks for it, and how many times "
        "fewer is that?",
        "{numbers:,.0f} numbers, {times:.4g} times fewer.",
        "Summed are two factors, {rows} × {rank} and {columns} × {rank}, in place of "
        "{rows} × {columns} numbers.",
        given={"rows": (4096, 2048), "columns": (1024, 4096), "rank": (4, 8)},
        solve=lambda rows, columns, rank: {
            "numbers": (rows + columns) * rank,
            "times": rows * columns / ((rows + columns) * rank)},
        again=power_sent,
        stated={"numbers": 20480, "times": 204.8},
    ),
    Question(
        "3.10", "03m", 2, 4,
        "A training on four ranks hangs. The records of the collectives say: ranks 0, 1 and 3 "
        "have started all-reduce number 58 and not completed it; rank 2 has completed number 57 "
        "and started nothing since. Which rank do you look at first, and for what?",
        "Rank 2: where its program is now (its stack), for example in data loading, in a branch "
        "that the others did not take, or in an endless loop.",
        "The others wait for it inside of a collective. Where they wait says nothing about the "
        "cause; the rank that has not come does.",
    ),
    Question(
        "3.11", "03b", 3, 6,
        "Somebody wraps a model in DDP, and gives each of 4 ranks a DataLoader with shuffle=False "
        "and no sampler. No error appears, and all ranks have equal weights all the time. What "
        "does this training compute, and how does its batch compare with what was intended?",
        "All four ranks compute the same gradient from the same samples. The mean of four equal "
        "gradients is that gradient, so the training is that of one process, with a quarter of "
        "the intended batch, and each epoch sees all samples on each rank.",
        "DDP averages whatever the ranks have. That each rank gets samples of its own is the "
        "sampler's work.",
    ),
]  # fmt: skip
