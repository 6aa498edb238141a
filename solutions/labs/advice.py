# Built from chapters/ch10_choosing_a_strategy/labs/advice.py by `make build`.
"""Advice on parallelism, judged by a cost model: is it faster than the other possible plans?

python labs/advice.py
"""

from dataclasses import dataclass, replace

import numpy as np
from cost_model import FULL, Engine, Job
from cost_seconds import seconds
from model_shapes import Gpu, Shape, gpu_named, model_named
from planner import Choice, PlanSearch

NAMES = {  # of models, and changed sizes: the tree has equal stages, of which 126 layers make few
    "GPT-2 XL": ("gpt2-xl", {}), "Llama 3 8B": ("llama-3-8b", {}),
    "Llama 2 13B": ("llama-2-13b", {}), "Llama 3 70B": ("llama-3-70b", {}),
    "GPT-3 175B": ("gpt3-175b", {}), "Llama 3 405B": ("llama-3-405b", {"layers": 128}),
}  # fmt: skip
TOKENS = 4e6  # per step
ERRORS = 0.25, 0.5  # a smaller difference decides nothing: inside one machine, and on more
AGREES, DISAGREES, UNTOLD, UNFIT = "agrees", "disagrees", "cannot be told", "nothing fits"
VARIED = ("products", "traffic", "inside", "across", "exposed", "launch", "message")
ALONE = {"tp": 1, "pp": 1}  # dp takes all GPUs

# ---- The decision tree ----------------------------------------------------------------------


def walk(parameters, layers, memory, gpus, machine=8) -> dict:
    """Exercise 10.21. Choose a plan by the sources' decision tree.

    parameters  of the whole model, in `layers` equal layers
    memory      bytes of a GPU that may be filled with states
    gpus        in machines of `machine` GPUs each: some full machines, or a part of one
    Returns     a dict: "dp", "tp", "pp" and "zero". The first answer that fits:
                1. 18 bytes per parameter: dp alone, zero 0
                2. 2 bytes per parameter, and a share of 16 on each GPU: dp alone, zero 2
                3. under 100 billion parameters; a share of 18 bytes, and 2 bytes per parameter of
                   one layer: dp alone, zero 3
                4. tp is all GPUs of a machine (all there are, if fewer). pp is the smallest number
                   of stages that divides the layers and gpus / tp, so that 18 bytes per
                   parameter of one of tp × pp parts fit. dp is what remains, zero 0
    Raises      ValueError if nothing fits
    """
    ### BEGIN SOLUTION
    alone = {"dp": gpus, "tp": 1, "pp": 1}
    if 18 * parameters <= memory:
        return alone | {"zero": 0}
    if (2 + 16 / gpus) * parameters <= memory:
        return alone | {"zero": 2}
    if parameters < 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:
        return alone | {"zero": 3}
    tp = min(machine, gpus)
    for pp in range(1, gpus // tp + 1):
        is_possible = layers % pp == 0 and gpus % (tp * pp) == 0
        if is_possible and 18 * parameters / (tp * pp) <= memory:
            return {"dp": gpus // (tp * pp), "tp": tp, "pp": pp, "zero": 0}
    raise ValueError("the states fit in no way of the tree: take more GPUs")
    ### END SOLUTION


# ---- A contest of plans ---------------------------------------------------------------------


def batch_of(shape: Shape, tokens=TOKENS) -> int:
    """Return a number of samples that have about so many tokens: a power of 2."""
    return max(1, 2 ** round(np.log2(tokens / shape.context)))


def shape_of(name) -> Shape:
    known, changed = NAMES.get(name, (name, {}))
    return model_named(known, **changed)


class Contest:
    """All plans of a job that fit, and their seconds; an engine may be changed afterwards.

    model, gpu  names, or a Shape and a Gpu
    batch       samples per step; by default about TOKENS tokens
    with_cp     whether the context may be split, too
    """

    def __init__(self, model, count, gpu, batch=None, with_cp=False):
        shape = model if isinstance(model, Shape) else shape_of(model)
        gpu = gpu if isinstance(gpu, Gpu) else gpu_named(gpu)
        self.job = Job(shape, gpu, batch or batch_of(shape))
        self.planned, self.count = PlanSearch(self.job, count), count
        self.plans = self.planned.possible
        self.fits = self.planned.fits & (with_cp | (self.plans.cp == 1))

    def seconds(self, engine=None) -> np.ndarray:
        """Return the seconds of each plan; infinite for those that do not fit."""
        job = replace(self.job, engine=engine or self.job.engine)
        total = np.broadcast_to(seconds(job, self.plans)["total"], self.fits.shape)
        return np.where(self.fits, total, np.inf)

    def error(self, errors=ERRORS) -> float:
        """Return that of two errors which holds here: inside one machine, or on more."""
        return errors[self.count > self.job.gpu.machine]

    def match_sizes(self, **sizes) -> np.ndarray:
        """Return which plans have these sizes, given as numbers or as functions that test sizes."""
        found = np.ones(self.fits.shape, bool)
        for name, size in sizes.items():
            column = getattr(self.plans, name)
            found &= size(column) if callable(size) else column == size
        return found

    def choice(self, these=True) -> Choice | None:
        """Return the fastest of these plans, or of all; None if none of them fits."""
        of = np.where(these, self.seconds(), np.inf)
        is_any = of.size and of.min() < np.inf
        return self.planned.choice(int(np.argmin(of))) if is_any else None


def fastest(of) -> float:
    """Return the smallest of these seconds; infinite if there are none."""
    return float(of.min()) if len(of) else float("inf")


def verdict(advised, others, error) -> str:
    """Judge advice by the seconds of two plans, infinite for one that does not fit.

    error  a share: a difference that is smaller decides nothing
    """
    if advised == others == np.inf:
        return UNFIT
    if advised * (1 + error) < others:
        return AGREES
    return DISAGREES if others * (1 + error) < advised else UNTOLD


@dataclass(frozen=True, eq=False)
class Advice:
    """Advice for a job: the plans that follow it, and those that do not."""

    text: str
    contest: Contest
    follows: np.ndarray
    against: np.ndarray

    def two(self, engine=None) -> tuple[float, float]:
        """Return the seconds of the fastest plan that follows the advice, and of one against it."""
        of = self.contest.seconds(engine)
        return fastest(of[self.follows]), fastest(of[self.against])

    def judge(self, errors=ERRORS):
        """Make a function that returns the verdict with an engine; errors: as in Contest.error."""
        return lambda engine: verdict(*self.two(engine), self.contest.error(errors))


def advice(text, contest, follows, among=None) -> Advice:
    """Make an Advice for the plans of sizes `among`: those of sizes `follows` follow it.

    follows, among  sizes as in match_sizes
    """
    some, all_of = contest.match_sizes(**follows), contest.match_sizes(**(among or {}))
    return Advice(text, contest, some & all_of, ~some & all_of)


def tree_advice(name, count, gpu, batch=None, share=0.5) -> Advice | None:
    """Return the tree's advice for a model on so many GPUs; None if it has no answer.

    share  of a GPU's memory that is for states
    """
    contest = Contest(name, count, gpu, batch)
    shape, of = contest.job.shape, contest.job.gpu
    try:
        sizes = walk(float(shape.parameters), shape.layers, share * of.memory, count, of.machine)
    except ValueError:
        return None
    return advice(f"{name} on {count} {gpu}", contest, sizes)


# ---- Robustness of a verdict ----------------------------------------------------------------


def flips(judge, engine, names, factor) -> list[str]:
    """Exercise 10.22. Return the names of the engine's numbers on which a verdict depends.

    judge    a function that takes an engine and returns its verdict, a word
    engine   a frozen dataclass of numbers
    names    of its numbers that may be wrong by `factor`, one at a time
    Returns  in the order of `names`, those for which the engine with this number divided by
             `factor`, or multiplied by it, has another verdict than `engine` itself
    """
    ### BEGIN SOLUTION
    as_it_is, found = judge(engine), []
    for name in names:
        number = getattr(engine, name)
        changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
        if any(judge(one) != as_it_is for one in changed):
            found.append(name)
    return found
    ### END SOLUTION


def other_engines(count, factor, names=VARIED, seed=0) -> list[Engine]:
    """Draw engines whose numbers are all wrong at once, each by up to `factor`."""
    draw = np.random.default_rng(seed)
    return [
        replace(Engine(), **{
            name: float(getattr(Engine(), name) * factor ** draw.uniform(-1, 1)) for name in names})
        for _ in range(count)
    ]  # fmt: skip


# ---- The sources' advice --------------------------------------------------------------------


def lower_bound(n):
    """Make a test of sizes for match_sizes: at least n."""
    return lambda sizes: sizes >= n


def upper_bound(n):
    """Make a test of sizes for match_sizes: at most n."""
    return lambda sizes: sizes <= n


def full_pipes(contest, times=4) -> dict:
    """Return the sizes of pipelines with at least so many micro-batches per stage."""
    plans = contest.plans
    most = contest.job.batch / (plans.dp * plans.pp * times)
    return {"pp": lower_bound(2), "micro_batch": lambda size: size <= most}


def all_advice() -> list[Advice]:
    """List the sources' advice, with a model or a batch that shows it where they name none."""
    small, large = Contest("GPT-2 XL", 64, "H100"), Contest("Llama 3 70B", 64, "H100", 1024)
    many = Contest("GPT-3 175B", 1024, "H100")
    huge = Contest("Llama 3 405B", 1024, "H100", 2048, with_cp=True)  # it was trained with cp
    tight, four = Contest("Llama 3 8B", 64, "A100-40GB"), Contest("llama-2-7b", 4, "A100-40GB", 64)
    old = Contest("llama-2-7b", 8, "V100", 64)
    three = dict.fromkeys(("dp", "tp", "pp"), lower_bound(2))
    mesh = {"tp": 8, "pp": 8, "dp": 16}
    return [
        advice("1.6B, 64 H100: DDP, as it fits", small, ALONE | {"zero": 0}),
        advice("8B, 64 A100 40 GB: ZeRO 1 or 2, as memory is short", tight,
               ALONE | {"zero": lambda stage: (stage == 1) | (stage == 2)}),
        advice("70B, 64 H100: ZeRO 3, as it does not fit", large, ALONE | {"zero": 3}),
        advice("70B, 64 H100: tp 8, pp 4, dp 2", large,
               {"tp": 8, "pp": 4, "dp": 2, "micro_batch": 1}),
        advice("70B, 64 H100: a pipeline across machines", large, {"pp": lower_bound(2)}),
        advice("175B, 1,024 H100: tp 8, pp 8, dp 16", many, mesh),
        advice("405B, 1,024 H100: tp 8, pp 8, dp 16", huge, mesh),
        advice("175B, 1,024 H100: tp inside machines only", many, {"tp": upper_bound(8)}),
        advice("175B, 1,024 H100: ZeRO 3 with tp", many, {"tp": lower_bound(2), "zero": 3}),
        advice("175B, 1,024 H100: all three dimensions", many, three),
        advice("175B, pipelines: 4 micro-batches a stage", many, full_pipes(many),
               {"pp": lower_bound(2)}),
        advice("405B, 1,024 H100: recompute everything", huge,
               {"recompute": FULL, "recomputed": 1.0}),
        advice("7B, 4 A100 40 GB: ZeRO 3, recomputation", four,
               ALONE | {"zero": 3, "recompute": FULL}),
        advice("7B, 8 V100: ZeRO 2 (here without offload)", old, ALONE | {"zero": 2}),
    ]  # fmt: skip


def main():
    for one in all_advice():
        follows, against = one.two()
        print(f"{one.text}: {follows:.3g} s, others {against:.3g} s:", one.judge()(Engine()))


if __name__ == "__main__":
    main()
