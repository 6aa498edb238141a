# Built from chapters/ch10_choosing_a_strategy/labs/planner.py by `make build`.
"""Plans for a model on GPUs: all that are possible, the fastest first.

python labs/planner.py
"""

from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from calibrated_engines import ANY, Calibrated, known_engines
from cost_model import BF16, FULL, NONE, PRECISIONS, SELECTIVE, Job, Plan, memory, model_flops
from cost_seconds import product_flops, seconds
from model_shapes import Gpu, Shape, gpu_named
from own_clusters import read_cluster
from own_models import shape_from

FITS = 0.93  # of a GPU's memory: the driver and gaps between blocks take the rest
MOST_GPUS = 2**15
TOKENS = 4e6  # per step, about
LONGEST = 8192  # context that is planned for unless another one is asked for
CHUNKS = 1, 2, 4, 5, 8, 10
SHARES = 1.0, 0.5, 0.25  # of the layers that are recomputed
APART = "dp", "tp", "pp", "cp", "ep", "etp", "zero", "replicas"  # of which the best is shown

# ---- All plans ------------------------------------------------------------------------------


def divisors(n) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def all_meshes(job: Job, gpus: int) -> list[tuple]:
    """Return (dp, tp, pp, cp, ep, etp) of every mesh: experts are cut like the rest, or not."""
    experts = job.shape.experts
    return [
        (gpus // (tp * pp * cp), tp, pp, cp, ep, etp)
        for tp in divisors(gpus)
        for pp in divisors(gpus // tp)
        for cp in divisors(gpus // (tp * pp))
        for ep in (divisors(experts) if experts else [1])
        for etp in ({1, tp} if experts else {1})
    ]


def options_of(job: Job, gpus: int, dp: int, is_piped: bool, has_copies: bool) -> list[np.ndarray]:
    """Return ZeRO's stages and replicas, micro-batches, recomputation, its share, and chunks.

    Micro-batches are powers of 2. ZeRO 2 and 3 are left out in a pipeline: they would gather or
    reduce for each micro-batch. With ZeRO 3, each machine may be a replica.
    """
    each, machine = job.batch // dp, job.gpu.machine
    sizes = [2**k for k in range(each.bit_length()) if job.batch % (dp * 2**k) == 0]
    sharded = [(zero, 1) for zero in range(1 + has_copies * (1 if is_piped else 3))]
    if (3, 1) in sharded and gpus > machine and gpus % machine == 0:
        sharded.append((3, gpus // machine))
    again = [(NONE, 1.0), *((FULL, share) for share in SHARES)]
    again += [(SELECTIVE, 1.0)] * (not job.engine.is_fused)
    rows = [(zero, replicas, size, recompute, share, chunks)
            for zero, replicas in sharded for size in sizes for recompute, share in again
            for chunks in (CHUNKS if is_piped else [1])]  # fmt: skip
    return [np.array(column) for column in zip(*rows)]


def all_plans(job: Job, gpus: int, precision=BF16) -> tuple[Plan, Counter]:
    """Make every layout of so many ranks, with every stage of ZeRO and recomputation.

    Returns  the plans that are possible, as one plan of arrays; how many each reason forbids
    """
    groups, found, rejected = {}, [], Counter()
    for mesh in all_meshes(job, gpus):
        dp, _, pp, cp, *_ = mesh
        groups.setdefault((dp, pp > 1, dp * cp > 1), []).append(mesh)
    for kind, meshes in groups.items():
        options = options_of(job, gpus, *kind)
        if not options:
            rejected["dp does not divide the batch"] += len(meshes)
            continue
        count = len(options[0])
        dp, tp, pp, cp, ep, etp = np.repeat(np.array(meshes), count, 0).T
        zero, replicas, size, recompute, share, chunks = (np.tile(x, len(meshes)) for x in options)
        rest = np.broadcast_arrays(job.engine.sequence, ep, etp, replicas, share, precision)
        plan = Plan(dp, tp, pp, cp, zero, size, recompute, chunks, *rest)
        reasons = why_impossible(job, plan)
        rejected.update(reasons[reasons != ""].tolist())
        found.append(select_plans(plan, reasons == ""))
    names = [f.name for f in fields(Plan)]
    columns = ([getattr(plan, name) for plan in found] for name in names)
    return Plan(*(np.concatenate(column or [[]]) for column in columns)), rejected


def why_impossible(job: Job, plan: Plan) -> np.ndarray:
    """Return for each plan the first reason that forbids it, or an empty text."""
    shape = job.shape
    narrow = np.where(shape.experts, shape.expert_mlp, shape.mlp)
    cut = np.where(shape.experts, plan.etp, plan.tp)
    reasons = {
        "the GPU has no products in this precision": product_flops(job, plan) == 0,
        "tp does not divide the heads": shape.heads % plan.tp != 0,
        "tp does not divide the heads of keys": (shape.kv_heads or shape.heads) % plan.tp != 0,
        "tp does not divide the MLP's width": (shape.mlp % plan.tp != 0) | (narrow % cut != 0),
        "tp does not divide the tokens of a sequence, or of its part along cp":
            plan.sequence & (shape.context % (plan.cp * plan.tp) != 0),
        "there are more stages, or chunks of them, than layers":
            plan.pp * plan.chunks > shape.layers + 2,
        "dp times the micro-batch does not divide the batch":
            job.batch % (plan.dp * plan.micro_batch) != 0,
        "cp does not divide the context into zigzags": shape.context % (2 * plan.cp) != 0,
        "attention that stores no scores has nothing selective to recompute":
            job.engine.is_fused & np.equal(plan.recompute, SELECTIVE),
        "chunks without a pipeline": (plan.chunks > 1) & (plan.pp == 1),
        "interleaving needs a multiple of pp micro-batches":
            (plan.chunks > 1) & (job.microbatches(plan) % plan.pp != 0),
        "ZeRO without copies": (plan.zero > 0) & (job.copies(plan) == 1),
        "left out: ZeRO 2 and 3 in a pipeline, which gather or reduce for each micro-batch":
            (plan.zero > 1) & (plan.pp > 1),
        "replicas of shards do not divide the copies":
            (plan.replicas > 1)
            & ((plan.zero == 0) | (job.copies(plan) % plan.replicas != 0)
               | (job.copies(plan) <= plan.replicas)),
        "ep does not divide the experts":
            (np.maximum(shape.experts, 1) % plan.ep != 0),
        "ep times etp does not divide the ranks of a stage":
            (plan.ranks // plan.pp % (plan.ep * plan.etp) != 0),
    }  # fmt: skip
    return np.select(list(reasons.values()), list(reasons), "")


def select_plans(plan: Plan, which) -> Plan:
    return Plan(*(getattr(plan, f.name)[which] for f in fields(Plan)))


# ---- The best plans -------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """One plan, with its job and its predicted costs."""

    plan: Plan
    seconds: dict
    memory: dict
    job: Job
    trust: Calibrated | None = None

    @property
    def tokens_per_second(self) -> float:
        return self.job.batch * self.job.shape.context / self.seconds["total"]

    @property
    def mfu(self) -> float:
        """Share of the GPUs' peak that goes into the model's own FLOPs."""
        job = self.job
        needed = model_flops(job.shape, job.batch * job.shape.context)
        return needed / self.seconds["total"] / self.plan.ranks / job.gpu.flops

    @property
    def binds(self) -> str:
        """The cause that takes most time, apart from computing."""
        others = {k: v for k, v in self.seconds.items() if k not in ("compute", "total")}
        return max(others, key=others.get)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which seconds 80 % of published runs took that were predicted like this one."""
        return self.trust and self.trust.interval(self.plan, self.seconds)

    def hours(self, tokens) -> float:
        """Return the GPU-hours for so many tokens."""
        return tokens / self.tokens_per_second * self.plan.ranks / 3600

    def dollars(self, tokens) -> float:
        return self.hours(tokens) * self.job.gpu.price

    def megawatt_hours(self, tokens, overhead=1.1) -> float:
        """Return the energy of GPUs at full load, with an overhead for cooling and buildings."""
        return self.hours(tokens) * self.job.gpu.watts * overhead / 1e6


class PlanSearch:
    """All plans for a job on so many GPUs."""

    def __init__(self, job: Job, gpus: int, precision=BF16, trust: Calibrated | None = None):
        self.job, self.gpus, self.precision, self.trust = job, gpus, precision, trust
        self.possible, self.rejected = all_plans(job, gpus, precision)
        self.memory = memory(job, self.possible)
        self.room = FITS * job.gpu.memory
        self.fits = self.memory["total"] <= self.room
        self.seconds = seconds(job, self.possible)

    @cached_property
    def ranking(self) -> np.ndarray:
        """Indices of the plans that fit, the fastest first; of equally fast ones, the smallest."""
        order = np.lexsort((self.memory["total"], self.seconds["total"]))
        return order[self.fits[order]]

    def choice(self, number) -> Choice:
        (plan,) = select_plans(self.possible, [number]).each()
        of = ({kind: float(np.broadcast_to(x, self.fits.shape)[number]) for kind, x in each.items()}
              for each in (self.seconds, self.memory))  # fmt: skip
        return Choice(plan, *of, self.job, self.trust)

    def best(self, count=10) -> list[Choice]:
        """Return the fastest plans, one for each mesh and way to shard."""
        found, seen = [], set()
        for number in self.ranking:
            plan = self.possible
            key = tuple(getattr(plan, name)[number] for name in APART)
            if key not in seen:
                seen.add(key)
                found.append(self.choice(number))
            if len(found) == count:
                break
        return found

    def count_rejections(self) -> Counter:
        """Count the plans that each reason forbids."""
        reasons = self.rejected.copy()
        reasons["too large for the memory"] = int((~self.fits).sum())
        return reasons

    def smallest(self) -> Choice:
        """Return the plan that needs the least memory."""
        return self.choice(int(np.argmin(np.broadcast_to(self.memory["total"], self.fits.shape))))


def plan(
    model, gpus, batch=None, context=None, software=ANY, precision=BF16, cluster=None, engine=None
) -> PlanSearch:
    """Find all plans to train a model, such as plan("llama-70b", "64xH100", batch=1024).

    model      a name of labs/model_shapes.py, a file as labs/own_models.py takes it, or a Shape
    gpus       how many of which kind; with a cluster, how many
    batch      samples per step; by default about four million tokens, which the GPUs can share
    context    tokens of a sample; a table of positions that is shorter grows with it. By default
               the model's, of which LONGEST at most: a config.json states what it can read
    software   whose calibrated engine predicts: a name of labs/calibrated_engines.py
    precision  of the matrix products: one of PRECISIONS
    cluster    a file as labs/own_clusters.py takes it
    engine     another one than that of the software; it has no published errors
    Raises     ValueError, in one sentence, for invalid arguments, and where nothing fits
    """
    for name, number in {"batch": batch, "context": context}.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} is a number of 1 or more, not {number}")
    if precision not in PRECISIONS:
        raise ValueError(f"no precision is called {precision!r}: {', '.join(PRECISIONS)}")
    shape = model if isinstance(model, Shape) else shape_from(model)
    context = context or min(shape.context, LONGEST)
    positions = max(shape.positions, context) if shape.positions else 0
    shape = replace(shape, context=context, positions=positions)
    count, gpu = gpus_in(gpus, cluster)
    batch = batch or nearest_batch(TOKENS / shape.context, count)
    trust = None if engine else find_software(software)
    job = Job(shape, gpu, batch, engine or trust.engine)
    planned = PlanSearch(job, count, precision, trust)
    if not len(planned.possible.dp):
        raise ValueError(none_possible(planned))
    if not planned.fits.any():
        raise ValueError(too_large(planned))
    return planned


def find_software(name) -> Calibrated:
    """Return a software's calibrated engine by its name, in any case, or raise ValueError."""
    known = {of.lower(): one for of, one in known_engines().items()}
    if name.lower() not in known:
        raise ValueError(f"no software is called {name!r}; known are {', '.join(known_engines())}")
    return known[name.lower()]


def gpus_in(text, cluster=None) -> tuple[int, Gpu]:
    """Return (64, the GPU) for "64xH100", or for 64 and a file that describes a cluster."""
    number, x, kind = str(text).partition("x")
    if not (x or cluster) or not number.isdigit() or int(number) < 1:
        raise ValueError(f"GPUs are given as in 64xH100, a number of 1 or more, not {text!r}")
    if cluster and x:
        raise ValueError(f"the cluster says which GPU it has: give {number} instead of {text}")
    return int(number), read_cluster(cluster) if cluster else gpu_named(kind)


def nearest_batch(samples, gpus) -> int:
    """Return a number near `samples` that GPUs can share: their odd factor times a power of 2."""
    odd = gpus // (gpus & -gpus)
    return odd * 2 ** max(0, round(np.log2(samples / odd)))


def none_possible(planned: PlanSearch) -> str:
    """Describe why no plan is possible: the batch, if another one has plans, or the main reason."""
    job = planned.job
    told = f"no plan is possible on {planned.gpus} GPUs"
    other = nearest_batch(job.batch, planned.gpus)
    if len(PlanSearch(replace(job, batch=other), planned.gpus, planned.precision).possible.dp):
        return f"{told} with {job.batch} samples in a step; with {other} samples there are plans"
    return f"{told}; most often, {planned.count_rejections().most_common(1)[0][0]}"


def too_large(planned: PlanSearch) -> str:
    """Describe the memory that the smallest plan needs, and how many GPUs would do."""
    least, job = planned.smallest(), planned.job
    told = (
        f"no plan fits: the smallest one needs {least.memory['total'] / 1e9:,.0f} GB on each of "
        f"{planned.gpus} GPUs of {job.gpu.memory / 1e9:.0f} GB"
    )
    count = 2 * planned.gpus
    while count <= MOST_GPUS:
        if PlanSearch(job, count, planned.precision).fits.any():
            return f"{told}. {count:,} such GPUs would do"
        count *= 2
    return f"{told}, and no number of them up to {MOST_GPUS:,} would do: take GPUs with more memory"


# ---- In words -------------------------------------------------------------------------------


def describe_plan(plan: Plan, micro_batch=False) -> str:
    """Describe a plan, as in "dp 4 tp 2, ZeRO 3, recomputed"; its micro-batch, if asked for."""
    axes = ("dp", "tp", "pp", "cp", "ep", "etp")
    sizes = [f"{axis} {n}" for axis in axes if (n := getattr(plan, axis)) > 1]
    more = [f"{plan.chunks} chunks"] * (plan.chunks > 1) + [f"ZeRO {plan.zero}"] * (plan.zero > 0)
    more += [f"{plan.replicas} replicas"] * (plan.replicas > 1)
    more += [f"micro-batch {plan.micro_batch}"] * micro_batch
    more += [plan.precision] * (plan.precision != BF16)
    part = f"{100 * plan.recomputed:.0f} % of the layers " * (plan.recomputed < 1)
    again = {FULL: [f"{part}recomputed"], SELECTIVE: ["scores recomputed"]}.get(plan.recompute, [])
    return ", ".join([" ".join(sizes) or "one rank", *more, *again])


HEADS = ["a step", "80 % of runs", "tokens/s/GPU", "MFU", "memory", "plan"]


def row_of(choice: Choice) -> list[str]:
    """Return what one plan is and costs, as a row under HEADS."""
    total, between = choice.seconds["total"], choice.interval
    return [
        f"{total:.3g} s", "–".join(f"{x:.3g}" for x in between) + " s" if between else "unknown",
        f"{choice.tokens_per_second / choice.plan.ranks:,.0f}", f"{choice.mfu:.0%}",
        f"{choice.memory['total'] / 1e9:.0f} GB", describe_plan(choice.plan, micro_batch=True),
    ]  # fmt: skip


def describe_training_cost(choice: Choice, tokens) -> str:
    """Describe the cost of training on so many tokens."""
    days = tokens / choice.tokens_per_second / 86400
    return (
        f"{tokens:.3g} tokens with the first plan: {days:,.1f} days, {choice.hours(tokens):,.0f} "
        f"GPU-hours, {choice.dollars(tokens):,.0f} dollars at an assumed {choice.job.gpu.price} "
        "an hour, "
        f"{choice.megawatt_hours(tokens):,.0f} MWh"
    )


def main():
    planned = plan("llama-70b", "64xH100", batch=512)
    for row in (HEADS, *map(row_of, planned.best(8))):
        print(" | ".join(row))
    print(describe_training_cost(planned.best(1)[0], 15e12))
    for reason, count in planned.count_rejections().most_common():
        print(f"{count:,} plans: {reason}")


if __name__ == "__main__":
    main()
