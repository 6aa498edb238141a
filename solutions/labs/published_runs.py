# Built from chapters/ch10_choosing_a_strategy/labs/published_runs.py by `make build`.
"""Published measurements of real training runs, compared with the cost model.

python labs/published_runs.py
"""

import csv
import re
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from calibrated_engines import find_published
from cost_model import FULL, NONE, Engine, Job, Plan, memory
from cost_seconds import seconds
from model_shapes import GPUS, Gpu, Shape
from scipy.optimize import least_squares
from scipy.special import expit, logit

RUNS = find_published("runs.csv")
KINDS = {"H100-80GB": "H100", "A100": "A100", "A100-80GB": "A100", "a100_80gb": "A100",
         "a100_40gb": "A100-40GB"}  # fmt: skip
ACROSS = {"BLOOM": 6.25e9}  # Jean Zay: four links of 100 Gb/s for eight GPUs
SOURCES = {"VT-single": "Megatron-DeepSpeed", "BLOOM": "Megatron-DeepSpeed", "PB": "nanotron",
           "MPT": "FSDP"}  # fmt: skip

# Corrections of rows that cannot be right, from arithmetic and from other rows.
CORRECTED = {
    "BLOOM-0051": {"dp": "4"},  # 8 × 8 × 10 ranks would be twice the GPUs that it lists
    **{f"BLOOM-005{k}": {"gbs": "512"} for k in (2, 3, 4)},  # according to its FLOP/s and heading
    # The two columns are swapped, as 0041, the same plan, and its neighbours 0040 and 0042 show.
    "BLOOM-0055": {"iter_s": "134.02", "tflops_gpu": "120.29"},
}

# ---- The rows -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """Published runs as arrays: what was trained and how, and what was measured.

    seconds, memory   of a step; bytes on a GPU: nan where they are not published
    is_oom            whether a run failed, in most cases for lack of memory
    group             what is left out together: source, model and kind of GPU
    """

    job: Job
    plan: Plan
    seconds: np.ndarray
    memory: np.ndarray
    is_oom: np.ndarray
    group: np.ndarray
    id: np.ndarray

    def __len__(self):
        return len(self.seconds)

    def where(self, mask) -> "Runs":
        """Return the runs for which the mask is True."""
        return Runs(*(select_where(getattr(self, f.name), mask) for f in fields(self)))


def select_where(value, mask):
    """Select the entries for which the mask is True, through all dataclasses."""
    if isinstance(value, np.ndarray):
        return value[mask]
    if isinstance(value, (Job, Plan, Shape, Gpu)):
        return type(value)(*(select_where(getattr(value, f.name), mask) for f in fields(value)))
    return value


def number(row, column, otherwise=np.nan) -> float:
    """Read a number from a column of a row; `otherwise` if it is empty."""
    text = row[column].strip("~")
    return float(text) if text else otherwise


def is_usable(row) -> bool:
    """Return whether a row says enough to be predicted, and does not contradict itself."""
    if row["src"] not in SOURCES or not all(row[c] for c in ("layers", "hidden", "gbs")):
        return False
    stated = re.search(r"grad_acc=(\d+)", row["note"])
    return not stated or int(stated[1]) == number(row, "gbs") / (
        number(row, "dp") * number(row, "mbs")
    )


def runs_of(sources=tuple(SOURCES), path=RUNS) -> Runs:
    """Read the rows of these sources that say enough to be predicted."""
    rows = [row | CORRECTED.get(row["id"], {}) for row in csv.DictReader(path.open())]
    rows = [row for row in rows if row["src"] in sources and is_usable(row)]
    column = lambda name, otherwise=np.nan: np.array([number(r, name, otherwise) for r in rows])  # noqa: E731
    width, context = column("hidden"), column("seq")
    heads, batch, gpus = column("heads"), column("gbs"), column("gpus")
    heads = np.where(np.isnan(heads), np.round(width / 128), heads)
    is_llama = np.array([row["src"] == "PB" for row in rows])
    tp, pp = column("tp", 1), column("pp", 1)
    is_tied = ~(is_llama & (pp > 1))  # by its README, embeddings count twice where pp > 1
    mlp = np.where(is_llama, column("ffn"), 4 * width)
    shape = Shape(column("layers"), width, heads, mlp, column("vocab"), context, heads, is_llama,
                  is_tied)  # fmt: skip
    of_kind = [gpu_of(row) for row in rows]
    gpu = Gpu(*(np.array([getattr(g, f.name) for g in of_kind]) for f in fields(Gpu)))
    dp = column("dp")
    plan = Plan(
        dp=np.where(np.isnan(dp), gpus / (tp * pp), dp), tp=tp, pp=pp, cp=np.ones_like(tp),
        zero=column("zero", 0), micro_batch=column("mbs"),
        recompute=np.array([FULL if r["recompute"].startswith("full") else NONE for r in rows]),
        chunks=np.ones_like(tp), sequence=is_llama,
    )  # fmt: skip
    of_step = column("iter_s")
    by_rate = batch * context / (column("tok_s_gpu") * gpus)
    return Runs(
        Job(shape, gpu, batch),
        plan,
        np.where(np.isnan(of_step), by_rate, of_step),
        1e9 * column("mem_GB"),
        np.array([row["status"] != "ok" for row in rows]),
        np.array([f"{r['src']}, {name_of(r)}, {KINDS[r['gpu']]}" for r in rows]),
        np.array([row["id"] for row in rows]),
    )


def gpu_of(row) -> Gpu:
    """Return the GPU of a row, with the network of its machines."""
    gpu = GPUS[KINDS[row["gpu"]]]
    return replace(gpu, across=ACROSS[row["src"]]) if row["src"] in ACROSS else gpu


def name_of(row) -> str:
    """Return a model's name; its size if it has no name."""
    is_named = row["src"] in ("PB", "MPT")
    return row["model"] if is_named else f"{row['layers']} layers of {row['hidden']}"


# ---- Calibration ----------------------------------------------------------------------------

STARTS = {
    "Megatron-DeepSpeed": Engine(
        is_fused=False, launch=3e-3, launch_pp=3e-3, hop=1e-4, hop_pp=1e-4, inside=0.3,
        reduced_bytes=2.0,
        gradient_bytes=2.0, base=5e9,
    ),
    "nanotron": Engine(
        is_balanced=True, launch=4.5e-3, hop=1e-6, crossing=3.5e-3, launch_pp=5.5e-3,
        hop_pp=2.3e-3, crossing_pp=5e-4, unit=1e-5,
        stall=0.2, crowd=512, kept=20.0, kept_mlp=11.0, kept_whole=1.0,
        gradient_bytes=5.0, logits=8.0,
    ),
    "FSDP": Engine(launch=1e-3, updating=300.0),
}  # fmt: skip
OF_TIME = (
    "products", "attention", "ragged", "traffic", "launch", "launch_pp", "hop", "hop_pp",
    "crossing", "crossing_pp", "inside", "across", "exposed", "exposed_late", "exposed_pp",
    "message", "stall", "around",
    "unit", "straggle", "fixed", "updating", "traffic_whole",
)  # fmt: skip
SHARES = {  # of a whole: numbers between 0 and this. 1.25 × reach is the A100's peak
    **dict.fromkeys(("inside", "across", "exposed", "exposed_late", "exposed_pp"), 1.0),
    "products": 1.25, "attention": 1.25,
}  # fmt: skip
OF_MEMORY = (
    "kept", "kept_mlp", "kept_whole", "scores", "logits", "base", "gradient_bytes", "working",
    "averaging", "units",
)  # fmt: skip
FAR, ROUNDS, FULL_AT, MOST = 1.5, 6, 0.93, 2 / 3
OF_SECONDS, OF_BYTES = 0.3, 1.0  # how strongly a number is held near its start


def predict_seconds(runs: Runs, engine: Engine, stalls=None) -> np.ndarray:
    """Predict the seconds of a step for each run.

    stalls  whether its messages stall, if that is known
    """
    if stalls is not None:
        engine = replace(engine, crowd=np.where(stalls, 0, np.inf))
    return seconds(replace(runs.job, engine=engine), runs.plan)["total"]


def predict_memory(runs: Runs, engine: Engine) -> np.ndarray:
    """Predict the bytes on the fullest rank for each run."""
    return memory(replace(runs.job, engine=engine), runs.plan)["total"]


def unbounded(numbers, most):
    """Return numbers as searched for: logarithms, of a share below `most` those of the odds."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(most < np.inf, logit(numbers / most), np.log(numbers))


def bounded(x, most):
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(most < np.inf, most * expit(x), np.exp(x))


def nearest(start: Engine, free, gaps, prior, close=1e-8) -> Engine:
    """Find the engine with the smallest gaps between predictions and measurements.

    Numbers stay near those of `start` where the runs do not say otherwise; a 0 remains 0.

    gaps   takes an engine and returns the gap of each run, of logarithms
    close  the search ends when a step gains less than that share
    """
    free = [name for name in sorted(free) if getattr(start, name) > 0]
    most = np.array([SHARES.get(name, np.inf) for name in free])
    first = unbounded(np.array([getattr(start, name) for name in free]), most)

    def make_engine(x) -> Engine:
        numbers = bounded(x, most.reshape(-1, *[1] * (np.ndim(x) - 1)))
        return replace(start, **dict(zip(free, numbers)))

    def residuals(x):
        return np.concatenate([gaps(make_engine(x)), prior * (x - first)])

    def slopes(x):
        # One call predicts with all engines: the first at x, each other with one number moved.
        step = 1e-7
        moved = x + step * np.eye(len(x) + 1, len(x), -1)
        of_each = gaps(make_engine(moved.T[:, :, None]))
        return np.concatenate([(of_each[1:] - of_each[0]).T / step, prior * np.eye(len(x))])

    found = least_squares(
        residuals, first, slopes, loss="soft_l1", f_scale=0.08, max_nfev=200, ftol=close
    )
    return make_engine(found.x)


def time_gaps(engine: Engine, runs: Runs, stalls):
    return np.log(predict_seconds(runs, engine, stalls) / runs.seconds)


def memory_gaps(engine: Engine, runs: Runs):
    """Return the gaps of bytes. Of a run whose bytes are unknown, it counts whether it fitted."""
    predicted = np.log(predict_memory(runs, engine))
    room = np.log(FULL_AT * runs.job.gpu.memory)
    wrongly = np.where(
        runs.is_oom, np.minimum(predicted - room, 0), np.maximum(predicted - room, 0)
    )
    return np.where(np.isnan(runs.memory), wrongly, predicted - np.log(runs.memory))


def calibrate_engine(
    runs: Runs, start: Engine, held=(OF_SECONDS, OF_BYTES), exact=(), close=1e-8
) -> Engine:
    """Find the engine that predicts these runs best, in seconds and in bytes.

    Runs that are slower than FAR times the prediction have another cause, and do not count in the
    next round.

    held   how strongly numbers are held near their start: those of seconds, those of bytes
    exact  names of numbers that keep their start
    close  how exactly to search: see nearest
    """
    gaps = partial(memory_gaps, runs=runs)
    start = nearest(start, set(OF_MEMORY) - set(exact), gaps, held[1], close)
    timed = runs.where(~runs.is_oom & ~np.isnan(runs.seconds))
    engine, free = start, set(OF_TIME) - set(exact)
    counts, stalls = np.ones(len(timed), bool), timed.plan.ranks >= start.crowd
    for _ in range(ROUNDS):
        gaps = partial(time_gaps, runs=timed.where(counts), stalls=stalls[counts])
        engine = nearest(start, free, gaps, held[0], close)
        stalls, before = find_stalled(timed, engine), counts
        counts = timed.seconds < FAR * predict_seconds(timed, engine, stalls)
        if (counts == before).all():
            break
    return replace(engine, crowd=smallest_crowd(timed, stalls))


def find_stalled(runs: Runs, engine: Engine) -> np.ndarray:
    """Return which runs took rather as long as if their messages had stalled."""
    both = [predict_seconds(runs, engine, np.full(len(runs), is_so)) for is_so in (False, True)]
    without, stalled = abs(np.log(both / runs.seconds))
    return stalled < without


def smallest_crowd(runs: Runs, stalls) -> float:
    """Return the number of GPUs from which on most pipelines stall: at least MOST of them."""
    piped = runs.plan.pp > 1
    sizes, found = runs.plan.ranks[piped], np.inf
    for size in np.unique(sizes)[::-1]:
        if np.mean(stalls[piped][sizes >= size]) < MOST:
            break
        found = size
    return found


def cross_validated_predictions(
    runs: Runs, start: Engine, close=1e-8
) -> tuple[np.ndarray, np.ndarray]:
    """Predict each run with an engine that was calibrated without the run's group.

    The form of the model, and the numbers of `start`, may still have been chosen with these runs.

    Returns  seconds, and bytes
    """
    found, bytes_found = np.empty(len(runs)), np.empty(len(runs))
    for group in np.unique(runs.group):
        out = runs.group == group
        engine, some = calibrate_engine(runs.where(~out), start, close=close), runs.where(out)
        found[out], bytes_found[out] = predict_seconds(some, engine), predict_memory(some, engine)
    return found, bytes_found


def runs_with(engine) -> Runs:
    """Return the published runs of one engine."""
    return runs_of(tuple(source for source, of in SOURCES.items() if of == engine))


def timed_runs(engine) -> Runs:
    """Return the published runs of one engine that came to their end, and have a time."""
    runs = runs_with(engine)
    return runs.where(~runs.is_oom & ~np.isnan(runs.seconds))


def describe_errors(engine: Engine) -> str:
    """Describe how far off one engine's seconds are for all published runs; none calibrated it."""
    runs = {name: timed_runs(name) for name in STARTS}
    ratios = {name: predict_seconds(of, engine) / of.seconds for name, of in runs.items()}
    every = np.concatenate([*ratios.values()])
    sizes = np.concatenate([of.plan.ranks for of in runs.values()])
    each = ", ".join(f"{np.median(abs(x - 1)):.0%} with {name}" for name, x in ratios.items())
    return (
        f"of {len(every):,} published runs on {sizes.min():.0f} to {sizes.max():.0f} GPUs, half "
        f"are off by more than {np.median(abs(every - 1)):.0%} ({each}), and "
        f"{np.mean(every < 1):.0%} took longer than predicted"
    )


def published_scaling(source="PB-DP", path=RUNS) -> dict[int, float]:
    """Return {GPUs: tokens per second of each} of a published series along dp alone."""
    rows = csv.DictReader(path.open())
    return {int(row["gpus"]): float(row["tok_s_gpu"]) for row in rows if row["src"] == source}


def format_errors(off) -> str:
    off = off[~np.isnan(off)]
    if not len(off):
        return "nothing published"
    return f"median {np.median(off):.1%}, 90 of 100 within {np.percentile(off, 90):.0%}"


def main():
    offs, bytes_offs, told_right = [], [], []
    for engine, start in STARTS.items():
        runs = runs_with(engine)
        found, bytes_found = cross_validated_predictions(runs, start)
        offs.append(abs(found / runs.seconds - 1)[~runs.is_oom])
        bytes_offs.append(abs(bytes_found / runs.memory - 1)[~runs.is_oom])
        print(f"{engine}: seconds {format_errors(offs[-1])}; bytes {format_errors(bytes_offs[-1])}")
        fits = bytes_found < FULL_AT * runs.job.gpu.memory
        told_right.append(fits != runs.is_oom)
        print(f"  out of memory or not: right for {np.mean(told_right[-1]):.1%}")
        print(f"  {calibrate_engine(runs, start)}")
    print(
        f"all: seconds {format_errors(np.concatenate(offs))}; "
        f"bytes {format_errors(np.concatenate(bytes_offs))}"
    )
    print(f"  out of memory or not: right for {np.mean(np.concatenate(told_right)):.1%}")


if __name__ == "__main__":
    main()
