"""Figures printed in publications: rows of tables, checked by arithmetic and the cost model.

python labs/published_figures.py
"""

from dataclasses import fields, replace

import numpy as np
from cost_model import FULL, NONE, Engine, Job, Plan, hardware_flops, memory, model_flops
from cost_seconds import seconds
from model_shapes import gpt, gpu_named, model_named
from published_runs import (
    OF_MEMORY,
    OF_TIME,
    RUNS,
    Runs,
    calibrate_engine,
    cross_validated_predictions,
    csv,
    number,
    predict_memory,
    predict_seconds,
)

# ---- Rows of one log, as printed ------------------------------------------------------------

NAMES = {"layers": "layers", "width": "hidden", "gpus": "gpus", "dp": "dp", "tp": "tp", "pp": "pp",
         "micro_batch": "mbs", "batch": "gbs", "zero": "zero"}  # fmt: skip
DEFAULT = Engine()  # not calibrated
CONTEXT, VOCABULARY = 2048, 250_880  # of the log's models; it says "about 250k"


def bloom_rows(path=RUNS) -> list[dict]:
    """Read the rows of BLOOM's log that say the shape, the batch and the time: numbers as printed.

    A number that is not printed is None.
    """
    rows = [row for row in csv.DictReader(path.open()) if row["src"] == "BLOOM"]
    read = [
        {"id": row["id"], "line": row["note"].split(",")[0]}
        | {name: int(number(row, of)) if row[of] else None for name, of in NAMES.items()}
        | {"seconds": number(row, "iter_s"), "tflops": number(row, "tflops_gpu"),
           "memory": number(row, "mem_GB")}
        for row in rows
    ]  # fmt: skip
    return [row for row in read if row["layers"] and row["batch"] and row["seconds"] > 0]


# MegaScale (arXiv 2402.15627), table 2, Megatron-LM with 768 samples in a step: GPUs, tokens per
# second in thousands, MFU in %, and PFLOP/s of all GPUs together. 4 of the table's 16 rows.
MEGASCALE = [
    (256, 39.3, 53.0, 43.3),
    (512, 74.1, 49.9, 77.6),
    (768, 103.8, 46.7, 111.9),
    (1024, 132.7, 44.7, 131.9),
]

# Llama 3 (arXiv 2407.21783), table 5: interruptions of training in 54 days, and their share in
# %. is_gpu: of the category GPU.
INTERRUPTIONS = {
    "faulty GPU": (148, 30.1, True),
    "GPU HBM3 memory": (72, 17.2, True),
    "software bug": (54, 12.9, False),
    "network switch or cable": (35, 8.4, False),
    "host maintenance": (32, 7.6, False),
    "GPU SRAM memory": (19, 4.5, True),
    "GPU system processor": (17, 4.1, True),
    "network card": (7, 1.7, False),
    "NCCL watchdog timeout": (7, 1.7, False),
    "silent data corruption": (6, 1.4, True),
    "GPU thermal interface, sensor": (6, 1.4, True),
    "SSD": (3, 0.7, False),
    "power supply": (3, 0.7, False),
    "server chassis": (2, 0.5, False),
    "IO expansion board": (2, 0.5, False),
    "dependency": (2, 0.5, False),
    "CPU": (2, 0.5, False),
    "system memory": (2, 0.5, False),
}

# ---- Runs that no engine has been calibrated on -----------------------------------------------

# Llama 3, table 4: copies (dp), cp, tokens of a sample, and the published TFLOP/s of a GPU. A step
# has 2^24 tokens, with tp 8 and pp 16.
LLAMA_3 = [(64, 1, 8192, 430), (128, 1, 8192, 400), (8, 16, 131072, 380)]

# Narayanan et al. 2021 (arXiv 2104.04473), table 1: layers, width, heads, tp, pp, GPUs, batch,
# and the published TFLOP/s of a GPU, which count what is recomputed.
MEGATRON_2021 = [
    (24, 2304, 24, 1, 1, 32, 512, 137),
    (30, 3072, 32, 2, 1, 64, 512, 138),
    (36, 4096, 32, 4, 1, 128, 512, 142),
    (40, 6144, 48, 8, 1, 256, 1024, 135),
    (48, 8192, 64, 8, 2, 512, 1536, 138),
    (60, 10240, 80, 8, 4, 1024, 1792, 140),
    (80, 12288, 96, 8, 8, 1536, 2304, 148),
    (96, 16384, 128, 8, 16, 1920, 2160, 155),
    (105, 20480, 128, 8, 35, 2520, 2520, 163),
    (128, 25600, 160, 8, 64, 3072, 3072, 163),
]


def llama_job(dp, cp=1, context=8192, engine=DEFAULT, chunks=8) -> tuple[Job, Plan]:
    """Return the job and the plan of Llama 3 405B with so many copies.

    chunks  assumed: 16 stages of 8 chunks have about one of the 126 layers each. Also assumed are
            ZeRO 1 and micro-batches of one sample
    """
    plan = Plan(dp, 8, 16, cp, zero=1, micro_batch=1, recompute=NONE, chunks=chunks)
    shape = model_named("llama-3-405b", context=context)
    return Job(shape, gpu_named("H100"), 2**24 // context, engine), plan


def llama_tflops(dp, cp=1, context=8192, engine=DEFAULT, chunks=8) -> float:
    """Predict a GPU's TFLOP/s for Llama 3 405B; the FLOPs count masked pairs."""
    job, plan = llama_job(dp, cp, context, engine, chunks)
    needed = model_flops(job.shape, job.batch * job.shape.context)
    return float(needed / seconds(job, plan)["total"] / plan.ranks / 1e12)


def fewest_chunks(layers, pp) -> int:
    """Return the fewest chunks above 1 that divide a stage's layers; 1 without a pipeline."""
    each = layers // pp
    return next((k for k in range(2, each + 1) if each % k == 0), 1) if pp > 1 else 1


def megatron_job(row, engine=DEFAULT, micro_batch=1, is_interleaved=False):
    """Return the job and the plan of a row of MEGATRON_2021, without ZeRO.

    micro_batch     assumed: the table does not say it
    is_interleaved  whether a stage has several chunks, as few as possible: the paper interleaves,
                    and its table does not say how finely
    """
    layers, width, heads, tp, pp, gpus, batch, _ = row
    shape = gpt(layers, width, heads, 51200, 2048)
    chunks = fewest_chunks(layers, pp) if is_interleaved else 1
    plan = Plan(gpus // (tp * pp), tp, pp, 1, 0, micro_batch, FULL, chunks, sequence=False)
    return Job(shape, gpu_named("A100"), batch, engine), plan


def megatron_tflops(row, engine=DEFAULT, micro_batch=1, is_interleaved=False) -> float:
    """Predict a GPU's TFLOP/s for a row of MEGATRON_2021; recomputation counts."""
    job, plan = megatron_job(row, engine, micro_batch, is_interleaved)
    done = hardware_flops(job.shape, job.batch * job.shape.context)
    return float(done / seconds(job, plan)["total"] / plan.ranks / 1e12)


# ---- Errors of predictions --------------------------------------------------------------------


def is_timed(runs: Runs) -> np.ndarray:
    """Return which runs came to their end, and have a published time."""
    return ~runs.is_oom & ~np.isnan(runs.seconds)


def errors(runs: Runs, found) -> tuple[np.ndarray, np.ndarray]:
    """Return relative errors of seconds and of bytes; nan for failed or unpublished runs.

    found  seconds and bytes, predicted
    """
    of_seconds, of_bytes = abs(found[0] / runs.seconds - 1), abs(found[1] / runs.memory - 1)
    return np.where(runs.is_oom, np.nan, of_seconds), np.where(runs.is_oom, np.nan, of_bytes)


def together(runs, found, kind) -> np.ndarray:
    """Return the errors of all engines' runs, without gaps. kind: 0 for seconds, 1 for bytes."""
    off = np.concatenate([errors(of, found[engine])[kind] for engine, of in runs.items()])
    return off[~np.isnan(off)]


def clouds(runs, found, kind, unit=1) -> dict:
    """Return each engine's published and predicted numbers, in some unit."""
    told = {}
    for engine, of in runs.items():
        stated = (of.seconds, of.memory)[kind]
        known = ~of.is_oom & ~np.isnan(stated)
        if known.any():
            told[engine] = stated[known] / unit, found[engine][kind][known] / unit
    return told


def summary(stated, found) -> list[str]:
    """Format the count of errors, their median, 90th percentile, and the share within 1.25 ×."""
    off, inside = abs(found / stated - 1), abs(np.log(found / stated)) < np.log(1.25)
    shares = np.median(off), np.percentile(off, 90), np.mean(inside)
    return [f"{len(off)}", *(f"{x:.{digits}%}" for x, digits in zip(shares, (1, 0, 0)))]


def other_starts(chosen: Engine) -> dict[str, Engine]:
    """Return other starts of calibration; terms that are 0 in the default start at 1 ms."""
    added = {k: 1e-3 for k in OF_TIME + OF_MEMORY if getattr(DEFAULT, k) == 0 < getattr(chosen, k)}
    facts = {f.name: getattr(chosen, f.name) for f in fields(Engine) if f.type in (bool, "bool")}
    return {"same form": replace(DEFAULT, **facts, **added), "default": DEFAULT}


def median_errors_by_start(runs: Runs, chosen: Engine) -> list[float]:
    """Return the median error of seconds, with whole groups left out, from each of other_starts."""
    found = (
        cross_validated_predictions(runs, start, close=1e-3)
        for start in other_starts(chosen).values()
    )
    return [float(np.nanmedian(errors(runs, each)[0])) for each in found]


def predict_calibrated(runs: Runs, start: Engine) -> tuple[np.ndarray, np.ndarray]:
    """Predict seconds and bytes with an engine that has been calibrated on these very runs."""
    engine = calibrate_engine(runs, start)
    return predict_seconds(runs, engine), predict_memory(runs, engine)


def assign_folds(runs: Runs, count, seed=0) -> Runs:
    """Return the same runs in groups drawn at random, to be left out one at a time."""
    folds = np.random.default_rng(seed).permutation(len(runs)) % count
    return replace(runs, group=folds)


def part_of_group(runs: Runs, number) -> np.ndarray:
    """Return a part of the groups' names: 0 the source, 1 the model, 2 the kind of GPU."""
    return np.array([name.split(", ")[number] for name in runs.group])


def describe_run(runs: Runs, at) -> str:
    """Describe one run: its model and its plan."""
    plan = runs.plan
    sizes = ", ".join(f"{axis} {getattr(plan, axis)[at]:g}" for axis in ("dp", "tp", "pp"))
    _, model, _ = runs.group[at].split(", ")
    return f"{model}, {sizes}, micro-batch {plan.micro_batch[at]:g}"


# ---- A rival: the nearest run -----------------------------------------------------------------


def features(runs: Runs) -> list[np.ndarray]:
    """Return the base-2 logarithms of each run's FLOPs per GPU and step, plan, shape and memory."""
    job, plan = runs.job, runs.plan
    flops = hardware_flops(job.shape, job.batch * job.shape.context, plan.recompute) / plan.ranks
    columns = [flops, plan.tp, plan.pp, plan.dp, plan.micro_batch, job.shape.layers,
               job.shape.width, job.gpu.memory]  # fmt: skip
    return list(np.log2(np.stack(columns, 1)))


def nearest_run(x, y):
    """Make a predictor that scales the seconds of the nearest run by the ratio of FLOPs."""
    x, y = np.array(x), np.array(y)

    def predict(features):
        nearest = np.argmin(((x - features) ** 2).sum(1))
        return y[nearest] * 2 ** (features[0] - x[nearest, 0])

    return predict


def rivals(runs: Runs, groups, cross_validate, start: Engine) -> dict:
    """Return errors of seconds by the nearest run and by the cost model, for each way to leave out.

    groups          {what is left out together: its name for each run}
    cross_validate  of exercise {{cross_validate}}
    """
    x, y, told = features(runs), runs.seconds.tolist(), {}
    for name, group in groups.items():
        found = cross_validated_predictions(replace(runs, group=group), start)
        remembered = cross_validate(nearest_run, x, y, group.tolist()) or [np.nan]
        told[name] = np.array(remembered), errors(runs, found)[0]
    return told


# ---- Remaining errors -------------------------------------------------------------------------


def messages(runs: Runs) -> np.ndarray:
    """Count the messages between stages that follow one another in a step; 0 without a pipeline.

    With two stages, each micro-batch makes a stage wait for two: one forward, one backward. A stage
    in the middle of more has four, as it receives and sends both ways. Filling and draining the
    pipeline take 2 × (pp - 1) more: 2 stages and 8 micro-batches make 16 + 2.
    """
    pp = runs.plan.pp
    of_each = 2 * np.minimum(2, pp - 1)
    return runs.job.microbatches(runs.plan) * of_each + 2 * (pp - 1)


def message_bytes(runs: Runs) -> np.ndarray:
    """Return the bytes of a message between two stages: a micro-batch's activations, uncut."""
    width, nbytes = runs.job.shape.width, runs.job.engine.number_bytes
    return nbytes * runs.job.tokens(runs.plan) * width


def extra_by_message(runs: Runs, found) -> np.ndarray:
    """Return the seconds by which a step exceeds its prediction, per message; nan without any."""
    count = messages(runs)
    return np.where(count > 0, (runs.seconds - found) / np.where(count > 0, count, 1), np.nan)


def main():
    for dp, cp, context, stated in LLAMA_3:
        told = f"predicted {llama_tflops(dp, cp, context):.0f} TFLOP/s, published {stated}"
        print(f"Llama 3 405B, dp {dp} × cp {cp}: {told}")
    for row in MEGATRON_2021:
        job, plan = megatron_job(row, Engine(is_fused=False))
        fits = float(memory(job, plan)["total"]) < job.gpu.memory
        predicted = megatron_tflops(row, job.engine)
        print(f"{float(job.shape.parameters) / 1e9:7.1f} billion parameters: predicted "
              f"{predicted:.0f}, published {row[-1]}; fits: {fits}")  # fmt: skip


if __name__ == "__main__":
    main()
