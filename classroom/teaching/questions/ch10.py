"""Chapter 10: costs, limits and choices."""

from functools import cache
from itertools import combinations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..collective_simulation import bytes_of, empty
from ..question import Question


@cache
def flops_of_a_parameter():
    """Count FLOPs per parameter and token in a model's forward and backward."""
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    tokens = torch.randn(5, 64, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        model(tokens).sum().backward()
    return counter.get_total_flops() / sum(p.numel() for p in model.parameters()) / 5


def compute_training_cost(billions, trillions, gpus, share, price):
    flops = flops_of_a_parameter() * billions * 1e9 * trillions * 1e12
    hours = flops / (1e15 * share / 100) / 3600
    return {"zetta": flops / 1e21, "days": hours / gpus / 24, "dollars": hours * price / 1e6}


def training_run_on_paper(billions, trillions, gpus, share, price):
    flops = 6 * billions * trillions * 1e21
    seconds = flops / (gpus * 1e15 * share / 100)
    return {"zetta": flops / 1e21, "days": seconds / 86400,
            "dollars": seconds / 3600 * gpus * price / 1e6}  # fmt: skip


def product_counted(rows, size):
    x, weight = (empty(*shape, dtype=torch.bfloat16) for shape in ((rows, size), (size, size)))
    with FlopCounterMode(display=False) as counter:
        y = x @ weight
    flops, moved = counter.get_total_flops(), bytes_of([x, weight, y])
    times = flops / 1e15, moved / 4e12
    return {"intensity": flops / moved, "micros": 1e6 * max(times),
            "reached": 100 * times[0] / max(times)}  # fmt: skip


def product_on_paper(rows, size):
    intensity = 2 * rows * size * size / (2 * (2 * rows * size + size * size))
    reached = min(1.0, intensity / 250)
    return {"intensity": intensity, "micros": 2 * rows * size * size / (reached * 1e15) * 1e6,
            "reached": 100 * reached}  # fmt: skip


def model_flops_utilization(billions, tokens, gpus):
    wanted = flops_of_a_parameter() * billions * 1e9 * tokens
    return {"each": wanted / gpus / 1e12, "mfu": 100 * wanted / sum(1e15 for _ in range(gpus))}


COSTS = (4, 1, 1, 2, 3, 1, 2)


def cut_by_trying(stages):
    cuts = combinations(range(1, len(COSTS)), stages - 1)
    sums = [[sum(COSTS[a:b]) for a, b in zip((0, *cut), (*cut, len(COSTS)))] for cut in cuts]
    return {"ways": len(sums), "best": min(map(max, sums))}


def cut_on_paper(stages):
    """Fill stages greedily up to a limit, and raise the limit until the stages suffice."""

    def count_stages(limit):
        count, load = 1, 0
        for cost in COSTS:
            count, load = (count, load + cost) if load + cost <= limit else (count + 1, cost)
        return count

    ways = 1
    for k in range(stages - 1):
        ways = ways * (len(COSTS) - 1 - k) // (k + 1)
    return {
        "ways": ways,
        "best": next(x for x in range(max(COSTS), 99) if count_stages(x) <= stages),
    }


def ways_tried(gpus, machine):
    ways = [(dp, tp, gpus // dp // tp) for dp in range(1, gpus + 1) for tp in range(1, gpus + 1)
            if gpus % (dp * tp) == 0]  # fmt: skip
    return {"ways": len(ways), "inside": sum(tp <= machine for _, tp, _ in ways)}


def ways_on_paper(gpus, machine):
    twos, most = gpus.bit_length() - 1, machine.bit_length() - 1
    return {"ways": (twos + 1) * (twos + 2) // 2,
            "inside": sum(twos - k + 1 for k in range(most + 1))}  # fmt: skip


def cache_held(layers, heads, context, gpus):
    one_token = bytes_of([empty(2, layers, heads, 128, dtype=torch.bfloat16)])
    free, users = gpus * 80e9 - 140e9, 0
    while (users + 1) * context * one_token <= free:
        users += 1
    return {"kilobytes": one_token / 1e3, "users": users}


def stages_that_fit(billions, activations):
    held = {}
    for stage, cut in {1: (12,), 2: (12, 2), 3: (12, 2, 2)}.items():
        whole = 16 - sum(cut)
        held[f"stage{stage}"] = billions * (whole + sum(each / 8 for each in cut))
    fits = [stage for stage in (1, 2, 3) if held[f"stage{stage}"] + activations <= 80]
    return held | {"least": fits[0]}


def stages_on_paper(billions, activations):
    one, two, three = billions * 5.5, billions * 3.75, billions * 2.0
    room = 80 - activations
    return {"stage1": one, "stage2": two, "stage3": three,
            "least": 1 if one <= room else 2 if two <= room else 3}  # fmt: skip


def simulate_offload_waits(billions, ranks, link, backward):
    """Move the bytes in a thousand equal portions, during and after a backward."""
    share = billions / ranks
    portion, clock, host = 2 * share / link / 1000, 0.0, 0.0
    for _ in range(1000):
        clock += portion
    gradients = max(0.0, clock - backward)
    for _ in range(ranks):  # one memory for all
        host += 28 * share / 200
    return {"gradients": gradients, "update": host, "parameters": 2 * share / link}


QUESTIONS = [
    Question(
        "10.1", "10", 2, 6,
        "A model of {billions} billion parameters is to be trained on {trillions} trillion tokens "
        "with {gpus} GPUs of 10^15 FLOP/s each. Of these, {share} % become model FLOPs (MFU). An "
        "hour of one GPU costs {price} dollars. Count 6 FLOPs for each parameter and token. How "
        "many FLOPs are that, how many days does it take, and how many million dollars does it "
        "cost?",
        "{zetta:,.4g} × 10^21 FLOPs; {days:.3g} days; {dollars:.3g} million dollars.",
        "A forward needs 2 FLOPs for each parameter and token, a backward 4. More GPUs make it "
        "shorter, not cheaper, if the MFU stays the same.",
        given={"billions": (8, 70), "trillions": (2, 5), "gpus": (512, 2048), "share": (40, 35),
               "price": (2, 3)},
        solve=training_run_on_paper, again=compute_training_cost,
        stated={"zetta": 96, "days": 5.42535, "dollars": 0.133333},
    ),
    Question(
        "10.2", "10", 3, 7,
        "A GPU does 10^15 FLOP/s in 16 bits, and its memory moves 4 × 10^12 bytes/s. {rows:,} rows "
        "of {size:,} numbers are multiplied by a matrix of {size:,} × {size:,}; each operand is "
        "read once and the result written once, in 16 bits. How many FLOPs are there for each "
        "byte? How many µs does it take at least, and which share of the GPU's FLOP/s is reached?",
        "{intensity:.4g} FLOPs per byte; {micros:.4g} µs; {reached:.3g} %.",
        "The roof bends at 10^15 / (4 × 10^12) = 250 FLOPs per byte. Below that the memory is the "
        "limit. 2 × rows × size² FLOPs, and 2 × (2 × rows × size + size²) bytes.",
        given={"rows": (16, 1, 4096), "size": (8192, 4096)},
        solve=product_on_paper, again=product_counted,
        stated={"intensity": 15.9377, "micros": 33.6855, "reached": 6.3751},
    ),
    Question(
        "10.3", "10c", 2, 4,
        "{gpus:,} GPUs of 10^15 FLOP/s train a model of {billions} billion parameters, at "
        "{tokens:,} tokens a second in all. Count 6 FLOPs for each parameter and token. How many "
        "TFLOP/s is that for each GPU, and how large is the MFU?",
        "{each:.4g} TFLOP/s; an MFU of {mfu:.3g} %.",
        "6 × parameters × tokens per second, divided by the GPUs. FLOPs of recomputation do not "
        "count: MFU asks what the model needs.",
        given={"billions": (70, 8), "tokens": (1_000_000, 400_000), "gpus": (1024, 2048)},
        solve=lambda billions, tokens, gpus: {
            "each": 6 * billions * tokens / gpus / 1e3,
            "mfu": 6 * billions * tokens / gpus / 1e4},
        again=model_flops_utilization,
        stated={"each": 410.156, "mfu": 41.0156},
    ),
    Question(
        "10.4", "10d", 3, 7,
        "Seven layers cost 4, 1, 1, 2, 3, 1 and 2. They are cut into {stages} stages, each of "
        "neighbouring layers and none empty. How many ways are there? What does the slowest stage "
        "cost in the best way?",
        "{ways:g} ways; {best:g} in the best one.",
        "There are 6 places for {stages} − 1 cuts. The slowest stage sets a pipeline's pace, so "
        "that the largest sum is made as small as possible.",
        given={"stages": (3, 4, 2)},
        solve=cut_on_paper, again=cut_by_trying,
        stated={"ways": 15, "best": 6},
    ),
    Question(
        "10.5", "10d", 2, 5,
        "In how many ways can {gpus} GPUs be written as dp × tp × pp, in whole numbers? In how "
        "many of them is tp at most {machine}, so that a tensor-parallel group fits into a machine "
        "of {machine} GPUs?",
        "{ways:g} ways, {inside:g} of them with tp at most {machine}.",
        "{gpus} is a power of two, so that its factors 2 are shared out over three axes: "
        "C(k + 2, 2) ways for k factors.",
        given={"gpus": (64, 256, 1024), "machine": (8, 4)},
        solve=ways_on_paper, again=ways_tried,
        stated={"ways": 28, "inside": 22},
    ),
    Question(
        "10.6", "10", 2, 6,
        "A model with {layers} layers and {heads} heads of keys and values, of 128 numbers each, "
        "answers users on {gpus} GPUs of 80 GB. Its weights have 140 GB. All numbers have 16 bits. "
        "How many kB of keys and values does each token keep? How many users with {context:,} "
        "tokens each fit at a time, if nothing else needs memory?",
        "{kilobytes:.4g} kB for each token; {users:,} users.",
        "2 (key and value) × {layers} × {heads} × 128 × 2 bytes. The rest of the memory, "
        "{gpus} × 80 GB − 140 GB, is divided by that and by {context:,}.",
        given={"layers": (80, 60), "heads": (8, 16), "context": (4096, 8192), "gpus": (8, 4)},
        solve=lambda layers, heads, context, gpus: {
            "kilobytes": 4 * layers * heads * 128 / 1e3,
            "users": (80 * gpus - 140) * 10**9 // (4 * layers * heads * 128 * context)},
        again=cache_held,
        stated={"kilobytes": 327.68, "users": 372},
    ),
    Question(
        "10.7", "10f", 2, 6,
        "One machine has 8 GPUs of 80 GB. A model of {billions} billion parameters trains in mixed "
        "precision with Adam (2 + 2 + 12 bytes for each parameter), and activations need "
        "{activations} GB on each GPU. How many GB of states does each GPU hold in ZeRO stages 1, "
        "2 and 3? Which is the lowest stage that fits, and why would you not take a higher one "
        "without need?",
        "{stage1:.4g}, {stage2:.4g} and {stage3:.4g} GB. Stage {least:g} is the lowest that fits.",
        "4 + 12/8, 2 + 14/8 and 16/8 bytes. Stage 3 sends half as much again as the others, and "
        "stage 2 sends more than stage 1 when a step accumulates micro-batches.",
        given={"billions": (13, 10, 30), "activations": (20, 12)},
        solve=stages_on_paper, again=stages_that_fit,
        stated={"stage1": 71.5, "stage2": 48.75, "stage3": 26, "least": 2},
    ),
    Question(
        "10.8", "10g", 3, 7,
        "The optimizer runs on the CPUs. {ranks} ranks of one machine have equal shares of "
        "{billions} billion parameters. Each sends 2 bytes for each gradient of its share over its "
        "own link of {link} GB/s, beginning together with a backward of {backward} s. Then the "
        "CPUs read and write 28 bytes for each of all parameters, at 200 GB/s together. Then 2 "
        "bytes for each parameter of a share come back. For how many seconds do the GPUs wait for "
        "gradients, for the update, and for parameters?",
        "{gradients:.4g} s, {update:.4g} s and {parameters:.4g} s.",
        "The backward hides the gradients' way as long as it lasts. Nothing hides the update, "
        "for which all ranks share one memory, and the way back.",
        given={"billions": (16, 8), "ranks": (8, 4), "link": (20, 10), "backward": (0.1, 0.5)},
        solve=lambda billions, ranks, link, backward: {
            "gradients": max(0.0, 2 * billions / ranks / link - backward),
            "update": 28 * billions / 200, "parameters": 2 * billions / ranks / link},
        again=simulate_offload_waits,
        stated={"gradients": 0.1, "update": 2.24, "parameters": 0.2},
    ),
    Question(
        "10.9", "10", 2, 5,
        "A model trains fastest on 8 GPUs of one machine with tensor parallelism of 8, says a "
        "colleague, because no other plan was tried. Name three other plans for a model that fits "
        "into the machine's memory only when cut, and say what each one sends in a step.",
        "For example: ZeRO stage 3 (two all-gathers of the parameters and a reduce-scatter of "
        "gradients, for each micro-batch); 8 pipeline stages (activations and their gradients at "
        "the boundaries, for each micro-batch); tp 2 or 4 with dp 4 or 2 or with pipeline stages "
        "(smaller sums of activations, and gradients once a step).",
        "Which one is fastest depends on tokens in a micro-batch, sizes and links. A model of "
        "cost compares them before anybody runs them.",
    ),
    Question(
        "10.10", "10b", 3, 5,
        "A cost model predicts for four plans 1.0, 1.2, 1.5 and 2.0 s. Measured are 1.6, 1.5, "
        "2.1 and 3.0 s, in the same order. How much slower than the best one is the plan that you "
        "would choose by the predictions? Why can predictions that are all wrong by 20 to 40 % "
        "still be useful?",
        "It takes 1.6 s where 1.5 s would do: about 7 % slower. For a choice, only the order of "
        "the plans counts, and the loss if it is wrong.",
        "All predictions are too low by similar factors, so that the order hardly changes: only "
        "two plans that are nearly equally fast change places. The predictions would not be good "
        "enough to promise a date.",
    ),
]  # fmt: skip
