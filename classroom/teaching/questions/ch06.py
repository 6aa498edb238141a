"""Chapter 06: ZeRO's stages, their memory and their bytes."""

from itertools import product

import torch

from ..collective_simulation import bytes_of, bytes_per_parameter, empty, simulate_ring_pass
from ..question import Question

MIXED = {"parameters": 2, "gradients": 2, "states": 12}


def count_rank_bytes(kinds, stage, numbers, ranks):
    """Count rank 0's bytes: one tensor of each kind, whole or cut as the stage says."""
    cut = {1: {"states"}, 2: {"states", "gradients"}, 3: set(kinds)}.get(stage, set())
    tensors = [empty(int(size), numbers).chunk(ranks if kind in cut else 1, dim=1)[0]
               for kind, size in kinds.items()]  # fmt: skip
    return bytes_of(tensors) / 4


def stages_held(billions, ranks):
    numbers = 640_000
    return {f"stage{stage}": count_rank_bytes(MIXED, stage, numbers, ranks) / numbers * billions
            for stage in range(4)}  # fmt: skip


def full_precision_held(billions, ranks):
    kinds = bytes_per_parameter(torch.optim.Adam)
    return {f"stage{stage}": count_rank_bytes(kinds, stage, 640_000, ranks) / 640_000 * billions
            for stage in (1, 2, 3)}  # fmt: skip


def passes(stage, parts=1):
    """Count how often a step sends a model once around, by an all-gather or a reduce-scatter."""
    count, whole_parameters, whole_gradients = 0, stage < 3, stage < 2
    for _ in range(parts):
        for _ in ("forward", "backward"):
            count += not whole_parameters  # gathered again
        count += not whole_gradients  # reduced at once, because they cannot stay
    count += whole_gradients  # reduced now, with all that has accumulated
    return count + whole_parameters  # new parameters for all ranks


def zero_stage_bytes(ranks, megabytes):
    once = simulate_ring_pass(ranks, megabytes)
    return {"low": passes(2) * once, "high": passes(3) * once}


def gloo_bytes(ranks, megabytes):
    """Count bytes: all-gathers for forward and backward, and an all-reduce of two rounds."""
    calls = ["gather", "gather", "reduce", "reduce"]
    return {"sent": sum(simulate_ring_pass(ranks, megabytes) for _ in calls),
            "book": passes(3) * simulate_ring_pass(ranks, megabytes)}  # fmt: skip


def simulate_accumulation(parts, ranks, megabytes):
    return {f"stage{stage}": passes(stage, parts) * simulate_ring_pass(ranks, megabytes)
            for stage in (1, 2, 3)}  # fmt: skip


def best_of_all_ways(large):
    """Try every way to give whole tensors to four ranks."""
    sizes = [large, 30, 20, 10, 10, 10]
    ways = product(range(4), repeat=len(sizes))
    loads = [[sum(s for s, owner in zip(sizes, way) if owner == rank) for rank in range(4)]
             for way in ways]  # fmt: skip
    return {"best": min(map(max, loads)), "even": sum(sizes) / 4}


def units_alive(gigabytes, units, ranks):
    """Return the peak memory of a forward with one unit alive, and with the next one prefetched."""
    shard, unit, most = gigabytes / ranks, gigabytes / units, {1: 0.0, 2: 0.0}
    for ahead in most:
        for now in range(units):
            alive = [u for u in range(units) if now <= u < now + ahead]
            most[ahead] = max(most[ahead], shard + sum(unit for _ in alive))
    return {"one": most[1], "two": most[2]}


def norm_of_shards(last):
    shards = [torch.tensor([x], dtype=torch.float64) for x in (2.0, 3.0, 6.0, last)]
    norm = torch.linalg.vector_norm(torch.cat(shards)).item()
    return {"norm": norm, "factor": 1 / norm, "added": sum(x.norm().item() for x in shards)}


def adapter_memory(billions, millions, ranks):
    frozen = bytes_of([empty(1000, dtype=torch.bfloat16)]) / 1000 * billions
    trained = sum(MIXED.values()) * millions / 1e3
    saved = MIXED["states"] * millions / 1e3 * sum(1 / ranks for _ in range(ranks - 1))
    return {"all": frozen + trained, "saved": saved,
            "third": frozen * sum(1 / ranks for _ in range(ranks - 1))}  # fmt: skip


QUESTIONS = [
    Question(
        "6.1", "06", 2, 5,
        "{billions} billion parameters train in mixed precision with Adam (2 + 2 + 12 bytes for "
        "each parameter) on {ranks} ranks. How many GB of parameters, gradients and states does a "
        "rank hold without ZeRO, and in stages 1, 2 and 3?",
        "{stage0:.4g} GB without ZeRO; {stage1:.4g}, {stage2:.4g} and {stage3:.4g} GB in stages 1 "
        "to 3.",
        "16 bytes; 4 + 12/{ranks}; 2 + 14/{ranks}; 16/{ranks}. Stage 1 cuts the states, stage 2 "
        "the gradients, too, and stage 3 the parameters, too.",
        given={"billions": (10, 7, 20), "ranks": (16, 64)},
        solve=lambda billions, ranks: {
            "stage0": 16 * billions, "stage1": billions * (4 + 12 / ranks),
            "stage2": billions * (2 + 14 / ranks), "stage3": billions * 16 / ranks},
        again=stages_held,
        stated={"stage0": 160, "stage1": 47.5, "stage2": 28.75, "stage3": 10},
    ),
    Question(
        "6.2", "06", 2, 4,
        "{billions} billion parameters train in float32 with Adam, on {ranks} ranks. How many GB "
        "of parameters, gradients and states does a rank hold in ZeRO stages 1, 2 and 3?",
        "{stage1:.4g}, {stage2:.4g} and {stage3:.4g} GB.",
        "4 + 4 + 8 bytes. Stage 1: 8 + 8/{ranks}; stage 2: 4 + 12/{ranks}; stage 3: "
        "16/{ranks}.",
        given={"billions": (2, 3), "ranks": (8, 4)},
        solve=lambda billions, ranks: {
            "stage1": billions * (8 + 8 / ranks), "stage2": billions * (4 + 12 / ranks),
            "stage3": billions * 16 / ranks},
        again=full_precision_held,
        stated={"stage1": 18, "stage2": 11, "stage3": 4},
    ),
    Question(
        "6.3", "06e", 2, 5,
        "Parameters and gradients of a model have {megabytes} MB each, and there are {ranks} "
        "ranks. All collectives are rings, and a step has one micro-batch. How many MB does a "
        "rank send in a step in stage 2, and how many in stage 3, when parameters are dropped "
        "after the forward?",
        "{low:g} MB in stage 2, {high:g} MB in stage 3.",
        "Stage 2: a reduce-scatter of gradients and an all-gather of new parameters, each "
        "({ranks} − 1)/{ranks} of a model: as much as DDP's all-reduce. Stage 3: two all-gathers, "
        "for forward and backward, and a reduce-scatter. That is half as much again.",
        given={"ranks": (8, 4, 16), "megabytes": (400, 80)},
        solve=lambda ranks, megabytes: {
            "low": 2 * (ranks - 1) / ranks * megabytes,
            "high": 3 * (ranks - 1) / ranks * megabytes},
        again=zero_stage_bytes,
        stated={"low": 700, "high": 1050},
    ),
    Question(
        "6.4", "06h", 3, 6,
        "FSDP2 runs over Gloo, which was found to send as much for a reduce-scatter as for an "
        "all-reduce. Parameters are dropped after the forward; they and the gradients have "
        "{megabytes} MB each. How many MB does each of {ranks} ranks send in a step? How many if "
        "the reduce-scatter were a ring's?",
        "{sent:g} MB over Gloo; {book:g} MB with a ring's reduce-scatter.",
        "Two all-gathers of ({ranks} − 1)/{ranks} of a model each, and 2 × ({ranks} − 1)/{ranks} "
        "for the gradients. So it is twice DDP's bytes over Gloo, and 1.5 times with rings.",
        given={"ranks": (4, 8), "megabytes": (400, 80)},
        solve=lambda ranks, megabytes: {
            "sent": 4 * (ranks - 1) / ranks * megabytes,
            "book": 3 * (ranks - 1) / ranks * megabytes},
        again=gloo_bytes,
        stated={"sent": 1200, "book": 900},
    ),
    Question(
        "6.5", "06f", 3, 8,
        "A step accumulates {parts} micro-batches on {ranks} ranks; parameters and gradients have "
        "{megabytes} MB each. Stage 1 keeps whole gradients until the last micro-batch; stage 2 "
        "reduces each micro-batch's gradients to shards at once; stage 3 drops parameters after "
        "each forward and each backward. All collectives are rings. How many MB does a rank send "
        "in stages 1, 2 and 3?",
        "{stage1:g}, {stage2:g} and {stage3:g} MB.",
        "In units of ({ranks} − 1)/{ranks} of a model: stage 1 sends 2, however many micro-batches "
        "there are. Stage 2 sends {parts} reductions and one gathering of new parameters. Stage 3 "
        "sends 3 for each micro-batch.",
        given={"parts": (4, 8), "ranks": (8, 4), "megabytes": (400, 80)},
        solve=lambda parts, ranks, megabytes: {
            f"stage{stage}": count * (ranks - 1) / ranks * megabytes
            for stage, count in ((1, 2), (2, parts + 1), (3, 3 * parts))},
        again=simulate_accumulation,
        stated={"stage1": 700, "stage2": 1750, "stage3": 4200},
    ),
    Question(
        "6.6", "06b", 2, 5,
        "Whole tensors are given to four ranks, each of which keeps the optimizer's states of its "
        "own. The tensors have {large}, 30, 20, 10, 10 and 10 MB. How many MB has the busiest rank "
        "in the best possible way? How many would each have if tensors were cut?",
        "{best:g} MB; cut evenly it would be {even:g} MB.",
        "The largest tensor cannot be shared out. No way can give the busiest rank less than it.",
        given={"large": (60, 80, 100)},
        solve=lambda large: {"best": large, "even": (large + 80) / 4},
        again=best_of_all_ways,
        stated={"best": 60, "even": 35},
    ),
    Question(
        "6.7", "06d", 3, 6,
        "In stage 3, a model's parameters have {gigabytes} GB, in {units} equal units, on {ranks} "
        "ranks. A gathered unit is a new buffer. How many GB of parameters does a rank hold at "
        "most, if one unit is gathered at a time? And if the next one is gathered while one "
        "computes?",
        "{one:.4g} GB; with the next one {two:.4g} GB.",
        "The rank's own shard, {gigabytes}/{ranks} GB, is always there. A whole unit of "
        "{gigabytes}/{units} GB comes on top, or two of them.",
        given={"gigabytes": (16, 28), "units": (32, 40), "ranks": (8, 16)},
        solve=lambda gigabytes, units, ranks: {
            "one": gigabytes / ranks + gigabytes / units,
            "two": gigabytes / ranks + 2 * gigabytes / units},
        again=units_alive,
        stated={"one": 2.5, "two": 3},
    ),
    Question(
        "6.8", "06e", 2, 5,
        "Gradients are cut into shards on four ranks. The norms of the shards are 2, 3, 6 and "
        "{last}. Clipping limits the norm of the whole gradient to 1. What is that norm, and by "
        "which factor does every rank multiply its shard? Why may the "
        "four norms not be added up?",
        "The norm is {norm:.4g}, the factor {factor:.4g}. Squares of norms add up, norms do not: "
        "their sum would be {added:g}.",
        "Each rank sends the sum of its squares; the root of the sum over all ranks is the norm. "
        "Every rank has to use the same factor, or the gradient's direction changes.",
        given={"last": (24, 0, 18)},
        solve=lambda last: {"norm": (49 + last**2) ** 0.5, "factor": (49 + last**2) ** -0.5,
                            "added": 11 + last},
        again=norm_of_shards,
        stated={"norm": 25, "factor": 0.04, "added": 35},
    ),
    Question(
        "6.9", "06h", 3, 6,
        "{billions} billion frozen parameters in bfloat16 are adapted by LoRA with {millions} "
        "million trained ones (2 + 2 + 12 bytes each). How many GB are parameters, gradients and "
        "states of one rank without ZeRO? How many GB does stage 1 save on {ranks} ranks? How "
        "many would cutting the frozen parameters save?",
        "{all:.4g} GB. Stage 1 saves {saved:.3g} GB; cutting the frozen parameters saves "
        "{third:.4g} GB.",
        "Frozen parameters have no gradient and no state: 2 bytes each. Only the states of the "
        "trained ones are there for stage 1 to cut.",
        given={"billions": (7, 13), "millions": (20, 50), "ranks": (8, 4)},
        solve=lambda billions, millions, ranks: {
            "all": 2 * billions + 16 * millions / 1e3,
            "saved": 12 * millions / 1e3 * (ranks - 1) / ranks,
            "third": 2 * billions * (ranks - 1) / ranks},
        again=adapter_memory,
        stated={"all": 14.32, "saved": 0.21, "third": 12.25},
    ),
    Question(
        "6.10", "06", 2, 4,
        "In ZeRO stage 1, each rank keeps the optimizer's states of one part of the parameters. "
        "Which tensors travel in a step, and why do the states never have to?",
        "Gradients travel to the owner of their part (a reduce-scatter), and new parameters from "
        "the owner to everybody (an all-gather). States stay where they are.",
        "Only the owner of a part updates it, and only an update reads and writes the states. "
        "Forward and backward need parameters alone.",
    ),
]  # fmt: skip
