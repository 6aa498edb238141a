# Built from chapters/ch10_choosing_a_strategy/labs/cost_seconds.py by `make build`.
"""Seconds of one training step under a plan, by cause.

python labs/cost_seconds.py
"""

import numpy as np
from cost_model import (
    BF16,
    FP8,
    FULL,
    MXFP8,
    NVFP4,
    SELECTIVE,
    Job,
    Plan,
    parameters_under,
    rank_experts,
    rank_parameters,
)
from model_shapes import gpu_named, model_named


def ring_all_reduce(nbytes, n, bytes_per_second):
    """Return the seconds of a ring all-reduce over n ranks, by its bytes alone."""
    return 2 * (n - 1) / n * nbytes / bytes_per_second


def card_speed(gpu, block):
    """Return a card's bytes per second in a group that lies within so many ranks."""
    return np.where((gpu.rail > 0) & (block > gpu.rail), gpu.spine, gpu.across)


def link(job: Job, ranks, apart, n, is_sum=True):
    """Return bytes per second from one rank of a group to the next, whose number is `apart` higher.

    A sum uses the cards of all of the group's GPUs in a machine, a message only one. A card that
    the machine's GPUs share is divided among the groups. Between two GPUs of a machine, a sum also
    passes the links inside, so that it is never faster than these. If a machine's GPUs are no
    multiple of the ranks that n groups span, some groups lie on two machines, and the slowest
    counts.

    ranks  of the whole plan, which fill machine after machine
    """
    engine, gpu = job.engine, job.gpu
    machine, block = (np.asarray(x).astype(int) for x in (gpu.machine, apart * n))
    crosses = (machine % block != 0) & (ranks > machine)
    # The fewest ranks of a group that lie on one machine; where the edges of machines cut blocks,
    # they leave multiples of this common divisor.
    members = np.clip(np.gcd(machine, block) // apart, 1, n)
    cards = np.where(np.logical_or(is_sum, gpu.is_shared), members, 1)
    inside, across = gpu.inside * engine.inside, card_speed(gpu, block) * engine.across * cards
    slowest = np.where(np.logical_and(is_sum, members > 1), np.minimum(inside, across), across)
    return np.where(crosses, slowest, inside)


def ranks_per_core(job: Job, plan: Plan):
    """Return how many ranks' programs share a core; ranks in a pipeline's bubble are idle."""
    m = job.microbatches(plan)
    return np.maximum(1, plan.ranks * m / (m + plan.pp - 1) / job.engine.cores)


def product_flops(job: Job, plan: Plan):
    """Return the FLOP/s that large products of a plan's precision reach; 0 if the GPU has none."""
    gpu, engine = job.gpu, job.engine
    is_8bit, is_4bit = np.isin(plan.precision, [FP8, MXFP8]), np.equal(plan.precision, NVFP4)
    narrow = [gpu.flops_8bit * engine.products_8bit, gpu.flops_4bit * engine.products_4bit]
    return np.select([is_8bit, is_4bit], narrow, gpu.flops) * gpu.reach * engine.products


def layer_seconds(job: Job, plan: Plan):
    """Return the seconds by cause of a layer of one micro-batch on a rank, forward and backward."""
    shape, gpu, engine, tokens = job.shape, job.gpu, job.engine, job.tokens(plan)
    routed = shape.expert_layers / shape.layers * shape.chosen * shape.expert_matrices
    slower = engine.imbalance / engine.grouped  # the fullest expert, in small products
    matrices = shape.sum_matrices(0) / shape.layers + routed * slower
    products = 2 * tokens * matrices / plan.tp / product_flops(job, plan)
    narrow = np.where(shape.experts, shape.expert_mlp / plan.etp, shape.mlp / plan.tp)
    products = products * np.where(narrow % 64, engine.ragged, 1)
    pairs = tokens * shape.context * np.where(engine.is_fused, 0.5, 1)
    scores = 4 * pairs * shape.query_width / plan.tp
    scores = scores / (gpu.flops * gpu.reach * engine.attention)
    whole = np.where(plan.sequence, plan.tp, 1)
    moved = (engine.traffic / plan.tp + engine.traffic_whole / whole) * tokens * shape.width
    if not engine.is_fused:
        moved = moved + 20 * shape.heads * tokens * shape.context / plan.tp
    scores, moving = (x * ranks_per_core(job, plan) for x in (scores, moved / gpu.bandwidth))
    forward = products + scores + moving
    backward = 2 * products + 2.5 * scores + 2 * moving
    is_full = np.equal(plan.recompute, FULL)
    again = np.select([is_full, np.equal(plan.recompute, SELECTIVE)], [forward, scores], 0)
    passes = 2 + plan.recomputed * is_full  # through the layer
    return {
        "compute": forward + backward,
        "recompute": plan.recomputed * again,
        "tp": 2 * passes * sum_along_tp(job, plan),
        "cp": cp_seconds(job, plan),
        "ep": 2 * passes * ep_seconds(job, plan),
    }


def ep_seconds(job: Job, plan: Plan):
    """Return the seconds to bring a layer's tokens to their experts, or back: a mean over layers.

    Each of the ranks along tp sends its part of the tokens. On the way to the experts, numbers have
    the precision of the products; on the way back, 16 bits.
    """
    shape, engine, gpu = job.shape, job.engine, job.gpu
    whole = engine.number_bytes
    nbytes = np.where(np.equal(plan.precision, BF16), whole, (1 + whole) / 2)
    rows = job.tokens(plan) / plan.tp * shape.chosen * engine.imbalance
    sent = nbytes * rows * shape.width
    near = np.clip(gpu.machine // plan.etp, 1, plan.ep)  # ranks of a group in a machine
    card = card_speed(gpu, plan.ep * plan.etp) * engine.across
    far = (plan.ep - near) / plan.ep * sent / card
    inside = (near - 1) / plan.ep * sent / (gpu.inside * engine.inside)
    return engine.exposed_ep * shape.expert_layers / shape.layers * (far + inside)


def sum_along_tp(job: Job, plan: Plan):
    """Return the seconds to sum one layer's output over the ranks that have parts of it."""
    nbytes = job.engine.number_bytes * job.tokens(plan) * job.shape.width
    return ring_all_reduce(nbytes, plan.tp, link(job, plan.ranks, 1, plan.tp))


def cp_seconds(job: Job, plan: Plan):
    """Return a layer's seconds along cp: keys and values go round, in the backward once more.

    In the backward, their gradients go with them, and take one step more, to the rank to which they
    belong.
    """
    keys = 2 * job.engine.number_bytes * job.tokens(plan) * job.shape.kv_width / plan.tp
    again = np.where(np.equal(plan.recompute, FULL), plan.recomputed * (plan.cp - 1), 0)
    passed = (3 * plan.cp - 2 + again) * keys
    passed = passed / link(job, plan.ranks, plan.tp, plan.cp, is_sum=False)
    rounds = (2 * plan.cp - 1 + again) * job.engine.around * ranks_per_core(job, plan)
    return np.where(plan.cp > 1, passed + rounds, 0)


def dp_seconds(job: Job, plan: Plan):
    """Return a step's seconds along dp, to reduce gradients and gather parameters.

    Both happen once, or for each micro-batch, depending on the stage of ZeRO. Ordinary weights and
    experts have different numbers of copies; with replicas, each shard is summed over these, too.
    """
    engine, m = job.engine, job.microbatches(plan)
    reduces, gathers = np.where(plan.zero >= 2, m, 1), np.where(plan.zero >= 3, 2 * m, 1)
    is_narrow = (plan.zero >= 3) & np.not_equal(plan.precision, BF16)
    gathered = np.where(is_narrow, 1, engine.number_bytes)
    gathered = np.where(plan.zero >= 1, gathered, engine.reduced_bytes)
    total = 0
    for parameters, apart, copies in (
        (rank_parameters(job, plan), plan.tp, job.copies(plan)),
        (rank_experts(job, plan), plan.ep * plan.etp, job.expert_copies(plan)),
    ):
        n = np.maximum(copies / plan.replicas, 1)
        half = (n - 1) / n * parameters / link(job, plan.ranks, apart, n)  # seconds per byte of one
        messages = np.where(parameters > 0, (job.layers(plan) + 1) * (n - 1), 0)
        calls = messages * engine.unit * ranks_per_core(job, plan)
        total = total + reduces * (engine.reduced_bytes * half + calls)
        total = total + gathers * (gathered * half + calls)
        others, shard = copies / n, engine.reduced_bytes * parameters / n
        total = total + ring_all_reduce(shard, others, link(job, plan.ranks, apart * n, others))
    is_late = (plan.pp > 1) | np.equal(plan.zero, 1)
    return np.where(is_late, engine.exposed_late, engine.exposed) * total


def launch_seconds(job: Job, plan: Plan):
    """Return the least seconds of a layer, whose kernels are started one after another."""
    engine, machines = job.engine, np.ceil(plan.tp / job.gpu.machine)
    alone = engine.launch + engine.hop * (plan.tp - 1) + engine.crossing * (machines - 1)
    piped = engine.launch_pp + engine.hop_pp * (plan.tp - 1)
    piped = piped + engine.crossing_pp * plan.tp * (machines - 1)
    return np.where(plan.pp > 1, piped, alone) * ranks_per_core(job, plan)


def seconds(job: Job, plan: Plan) -> dict:
    """Return the seconds of a step by cause; "total" is their sum."""
    shape, gpu, engine = job.shape, job.gpu, job.engine
    m, tokens, layers = job.microbatches(plan), job.tokens(plan), job.layers(plan)
    of_layer, floor = layer_seconds(job, plan), launch_seconds(job, plan)
    busy = sum(of_layer.values())
    again = 1 + np.where(np.equal(plan.recompute, FULL), plan.recomputed, 0) / 3
    # Together, a little more than the slower of both; without a queue, one after the other.
    waiting = (busy**6 + floor**6) ** (1 / 6) - busy if engine.is_queued else again * floor
    end = 6 * tokens * shape.embedding_parameters / plan.tp
    end = end / (gpu.flops * gpu.reach * engine.products)
    # The last stage has it on top, if it has as many layers as others.
    end = end / plan.pp if engine.is_balanced else np.where(job.is_even(plan), end, 0)
    of_ends = np.where(plan.pp == 1, 2, 1) * sum_along_tp(job, plan)
    sent = 2 * engine.number_bytes * tokens * shape.width / plan.tp
    sent = sent / link(job, plan.ranks, plan.tp * plan.dp * plan.cp, plan.pp, is_sum=False)
    between = engine.exposed_pp * sent + engine.message * ranks_per_core(job, plan)
    between = np.where(plan.pp > 1, plan.chunks * between, 0)  # each chunk begins with a message
    follow = np.where(plan.pp > 2, 4, 2) * m + 2 * (plan.pp - 1)  # messages, one after another
    stalled = np.where((plan.pp > 1) & (plan.ranks >= engine.crowd), follow * engine.stall, 0)
    stage = layers * (busy + waiting) + end + of_ends + between
    updated = engine.updating * parameters_under(job, plan, stage=1) / gpu.bandwidth
    causes = {
        "compute": m * (layers * of_layer["compute"] + end),
        "recompute": m * layers * of_layer["recompute"],
        "launch": m * layers * waiting,
        "tp": m * (layers * of_layer["tp"] + of_ends),
        "cp": m * layers * of_layer["cp"],
        "ep": m * layers * of_layer["ep"],
        "pp": m * between + stalled,
        "bubble": (plan.pp - 1) / plan.chunks * stage,
        "dp": dp_seconds(job, plan),
        "optimizer": (updated + engine.fixed) * ranks_per_core(job, plan),
    }
    behind = engine.straggle * np.sqrt(2 * np.log(plan.ranks))
    causes["waiting"] = behind * (causes["compute"] + causes["recompute"])
    return causes | {"total": sum(causes.values())}


def main():
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=256)
    plan = Plan(dp=4, tp=8, pp=4, zero=1)
    print(", ".join(f"{cause} {float(x):.2f} s" for cause, x in seconds(job, plan).items()))


if __name__ == "__main__":
    main()
