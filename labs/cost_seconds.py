"""What one training step takes under a plan: seconds by cause.

python labs/cost_seconds.py
"""

import numpy as np
from cost_model import FULL, SELECTIVE, Job, Plan, rank_parameters
from model_shapes import gpu_named, model_named


def ring_all_reduce(nbytes, n, bytes_per_second):
    return 2 * (n - 1) / n * nbytes / bytes_per_second


def link(job: Job, ranks_inside, n, cards=1):
    """Bytes per second between the ranks of a group, if `ranks_inside` lie between neighbours.

    cards  through how many GPUs' cards a machine's part of the group sends
    """
    crosses = ranks_inside * n > job.gpu.machine
    engine, gpu = job.engine, job.gpu
    return np.where(crosses, gpu.across * engine.across * cards, gpu.inside * engine.inside)


def layer_seconds(job: Job, plan: Plan):
    """One layer of one micro-batch, forward and backward, on one rank."""
    shape, gpu, engine, tokens = job.shape, job.gpu, job.engine, job.tokens(plan)
    best = gpu.flops * gpu.reach
    products = 2 * tokens * shape.layer_parameters / plan.tp / (best * engine.products)
    products = products * np.where(shape.mlp / plan.tp % 64, engine.ragged, 1)
    pairs = tokens * shape.context * np.where(engine.is_fused, 0.5, 1)
    scores = 4 * pairs * shape.width / plan.tp / (best * engine.attention)
    moved = engine.traffic * tokens * shape.width / plan.tp
    if not engine.is_fused:
        moved = moved + 20 * shape.heads * tokens * shape.context / plan.tp
    forward = products + scores + moved / gpu.bandwidth
    backward = 2 * products + 2.5 * scores + 2 * moved / gpu.bandwidth
    again = np.select(
        [np.equal(plan.recompute, FULL), np.equal(plan.recompute, SELECTIVE)], [forward, scores], 0
    )
    all_reduces = np.where(np.equal(plan.recompute, FULL), 6, 4)
    along_tp = all_reduces * ring_all_reduce(
        2 * tokens * shape.width, plan.tp, link(job, 1, plan.tp, cards=np.minimum(plan.tp, 8))
    )
    # Keys and values of all ranks come by, forward and backward; then also their gradients.
    keys = 2 * 2 * tokens * shape.of_keys / plan.tp
    along_cp = 4 * (plan.cp - 1) * keys / link(job, plan.tp, plan.cp)
    return {"compute": forward + backward, "recompute": again, "tp": along_tp, "cp": along_cp}


def launch_seconds(job: Job, plan: Plan):
    """What a layer takes at least: its kernels are started one after another."""
    engine, machines = job.engine, np.ceil(plan.tp / job.gpu.machine)
    alone = engine.launch + engine.hop * (plan.tp - 1) + engine.crossing * (machines - 1)
    piped = engine.launch_pp + engine.hop_pp * (plan.tp - 1)
    piped = piped + engine.crossing_pp * plan.tp * (machines - 1)
    return np.where(plan.pp > 1, piped, alone)


def seconds(job: Job, plan: Plan) -> dict:
    """Seconds of a step by cause; "total" is their sum."""
    shape, gpu, engine = job.shape, job.gpu, job.engine
    m, tokens, layers = job.microbatches(plan), job.tokens(plan), job.layers(plan)
    of_layer, floor = layer_seconds(job, plan), launch_seconds(job, plan)
    busy = sum(of_layer.values())
    waiting = (busy**6 + floor**6) ** (1 / 6) - busy  # the slower of both, and a little more
    end = 6 * tokens * shape.embedding_parameters / plan.tp
    end = end / (gpu.flops * gpu.reach * engine.products)
    end = end / plan.pp if engine.is_balanced else end * np.where(plan.pp == 1, 1, 0.5)
    hidden = 2 * 2 * tokens * shape.width / plan.tp / link(job, plan.tp * plan.dp * plan.cp, 2)
    between = np.where(plan.pp > 1, hidden + engine.message, 0)
    stage = layers * (busy + waiting) + end + between
    mine, ranks = rank_parameters(job, plan), plan.dp * plan.cp
    along_dp = ring_all_reduce(2 * mine, ranks, link(job, plan.tp, ranks)) * engine.exposed
    zero_3 = np.where(plan.zero >= 3, 1.5 * m, 1)
    updated = mine / np.where(plan.zero >= 1, ranks, 1)
    causes = {
        "compute": m * (layers * of_layer["compute"] + end),
        "recompute": m * layers * of_layer["recompute"],
        "launch": m * layers * waiting,
        "tp": m * layers * of_layer["tp"],
        "cp": m * layers * of_layer["cp"],
        "pp": m * between,
        "bubble": (plan.pp - 1) / plan.chunks * stage,
        "dp": along_dp * zero_3,
        "optimizer": engine.updating * updated / gpu.bandwidth + engine.fixed,
    }
    return causes | {"total": sum(causes.values())}


def main():
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=256)
    plan = Plan(dp=4, tp=8, pp=4, zero=1)
    print(", ".join(f"{cause} {float(x):.2f} s" for cause, x in seconds(job, plan).items()))


if __name__ == "__main__":
    main()
