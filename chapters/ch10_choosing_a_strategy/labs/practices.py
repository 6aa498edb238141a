"""Practices that change no mesh, by the cost model: offload, precision, recomputation, saving.

python labs/practices.py
"""

from dataclasses import replace

import numpy as np
from advice import ALONE, NAMES, Contest, fastest, shape_of
from cost_model import FULL, NONE, Job, Plan, memory, states
from cost_seconds import dp_seconds, layer_seconds, seconds
from how_often import cost
from model_shapes import MODELS, gpu_named
from planner import PlanSearch, describe_plan

# ---- Offload --------------------------------------------------------------------------------


def offload(parameters, ranks, link, host, backward) -> dict:
    """Exercise {{offload}}. Return a step's waits if CPUs keep the optimizer's states and update.

    parameters  of the model, shared out evenly over the `ranks` ranks of one machine
    link        bytes per second and direction between each GPU and the CPUs' memory
    host        bytes per second of the CPUs' memory, for all ranks together
    backward    seconds of a backward; meanwhile gradients may already leave
    Returns     a dict of seconds for which the GPUs wait: "gradients", 2 bytes per parameter of a
                rank's share, as far as the backward does not hide them; "update", 28 bytes per
                parameter of all ranks; "parameters", 2 bytes per parameter of a rank's share
    """
    ### BEGIN SOLUTION
    moved = 2 * parameters / ranks / link
    return {
        "gradients": max(0, moved - backward),
        "update": 28 * parameters / host,
        "parameters": moved,
    }
    ### END SOLUTION


def plan_offload(contest: Contest, link, host, zero=2) -> tuple:
    """Find the fastest plan of dp alone, with this ZeRO stage and optimizer states on the CPUs.

    Returns  a Choice, its seconds with the waits for the CPUs under "optimizer", and these waits;
             or (None, {}) if nothing of it fits
    """
    engine = replace(contest.job.engine, optimizer_bytes=0.0, updating=0.0)
    job = replace(contest.job, engine=engine)
    planned = PlanSearch(job, contest.count)
    plans = planned.possible
    these = planned.fits & (plans.tp == 1) & (plans.pp == 1) & (plans.cp == 1)
    of = np.where(these & (plans.zero == zero), planned.seconds["total"], np.inf)
    if np.isinf(of.min(initial=np.inf)):
        return None, {}
    choice = planned.choice(int(np.argmin(of)))
    waits = offload(float(job.shape.parameters), contest.count, link, host,
                    last_backward(job, choice.plan))  # fmt: skip
    times = choice.seconds | {"optimizer": choice.seconds["optimizer"] + sum(waits.values())}
    return replace(choice, seconds=times | {"total": sum_of(times)}), waits


def four_ways(contest: Contest, link, host) -> dict:
    """Return {in words: a Choice, or None if nothing of it fits}, with offload and without."""
    return {
        "ZeRO 2, offloaded": plan_offload(contest, link, host)[0],
        "ZeRO 2": contest.choice(contest.match_sizes(**ALONE, zero=2)),
        "ZeRO 3": contest.choice(contest.match_sizes(**ALONE, zero=3)),
        "the fastest": contest.choice(),
    }


def last_backward(job: Job, plan: Plan) -> float:
    """Return the seconds of one micro-batch's backward: two of three parts of computing."""
    return float(2 / 3 * job.layers(plan) * layer_seconds(job, plan)["compute"])


def sum_of(times) -> float:
    return sum(time for cause, time in times.items() if cause != "total")


# ---- Precision ------------------------------------------------------------------------------


def use_float32(job: Job, slower) -> Job:
    """Return the job with 4 bytes per number, and no float32 copy of the parameters.

    slower  how many times as long products take as in bfloat16
    """
    engine = job.engine
    twice = ("number_bytes", "kept", "kept_mlp", "kept_whole", "traffic", "traffic_whole")
    more = {name: 2 * getattr(engine, name) for name in twice}
    engine = replace(engine, parameter_bytes=4.0, gradient_bytes=4.0, optimizer_bytes=8.0,
                     logits=8.0, **more)  # fmt: skip
    return replace(job, engine=engine, gpu=replace(job.gpu, flops=job.gpu.flops / slower))


def float32_plan(contest: Contest, slower) -> Plan:
    """Return the fastest plan, of those with cp 1, that fits with 4 bytes per number."""
    planned = PlanSearch(use_float32(contest.job, slower), contest.count)
    these = planned.fits & (planned.possible.cp == 1)
    return planned.choice(int(np.argmin(np.where(these, planned.seconds["total"], np.inf)))).plan


def compare_precisions(jobs, slower) -> tuple[list[list], dict]:
    """Compare bytes and seconds of {name: (job, plan)} in float32 and in mixed precision.

    slower   as for `use_float32`
    Returns  rows with GB of states and of the rest, and a step's seconds; {name: (bytes, seconds)
             of mixed precision, as shares of those in float32}
    """
    rows, ratios = [], {}
    for name, (job, plan) in jobs.items():
        costs = {"float32": cost_of(use_float32(job, slower), plan), "mixed": cost_of(job, plan)}
        for precision, (held, others, step) in costs.items():
            rows.append([name, precision, f"{held / 1e9:.1f} GB", f"{others / 1e9:.1f} GB",
                         f"{step:.2f} s"])  # fmt: skip
        (held, others, step), (less, fewer, shorter) = costs.values()
        ratios[name] = (less + fewer) / (held + others), shorter / step
    return rows, ratios


def cost_of(job: Job, plan: Plan) -> tuple[float, float, float]:
    """Return the bytes of states and of all else, and the seconds of a step."""
    held = float(sum(states(job, plan).values()))
    return held, float(memory(job, plan)["total"]) - held, float(seconds(job, plan)["total"])


# ---- Recomputation --------------------------------------------------------------------------


def compare_recomputation(gpus, counts, with_cp=False) -> list[tuple]:
    """Return (job in words, layers, seconds without recomputing, seconds with all recomputed).

    with_cp  whether plans may split the context, too

    Seconds are infinite where it does not fit. A job that does not fit either with a share of the
    layers recomputed is left out.
    """
    found = []
    for gpu in gpus:
        for name in NAMES:
            for count in counts:
                contest = Contest(name, count, gpu, with_cp=with_cp)
                of = contest.seconds()
                without, again = (
                    fastest(of[contest.match_sizes(recompute=how, recomputed=1.0)])
                    for how in (NONE, FULL)
                )
                if fastest(of) < np.inf:
                    layers = contest.job.shape.layers
                    found.append((f"{name}, {count:,} {gpu}", layers, without, again))
    return found


# ---- The batch ------------------------------------------------------------------------------


def compare_accumulation(job: Job, plan: Plan, counts) -> list[tuple[float, float]]:
    """Return seconds along dp per step of so many micro-batches: averaged after each, and once."""
    found = []
    for m in counts:
        one = replace(job, batch=plan.dp * plan.micro_batch * m)
        once = float(dp_seconds(one, plan))
        found.append((m * once, once))
    return found


def time_micro_batches(job: Job, plan: Plan, sizes) -> dict:
    """Return {micro-batch in words: seconds by cause}."""
    plans = {f"micro-batch {size}": replace(plan, micro_batch=size) for size in sizes}
    return {name: {k: float(v) for k, v in seconds(job, one).items()}
            for name, one in plans.items()}  # fmt: skip


# ---- More GPUs ------------------------------------------------------------------------------


def predict_scaling(name, gpu, counts, batch_each) -> dict:
    """Return {line: tokens per second per GPU, as shares of those with the fewest GPUs}.

    batch_each  samples per GPU, where the batch grows; with the fewest GPUs both are equal
    """
    first = min(counts)
    lines = {"the same batch": [first * batch_each] * len(counts),
             "a batch that grows": [count * batch_each for count in counts]}  # fmt: skip
    return {
        line: shares(
            [rate(Contest(name, n, gpu, int(b), with_cp=True)) for n, b in zip(counts, batches)]
        )
        for line, batches in lines.items()
    }


def rate(contest: Contest) -> float:
    """Return the samples per second of each GPU with the fastest plan."""
    return contest.job.batch / fastest(contest.seconds()) / contest.count


def shares(rates) -> list[float]:
    return [one / rates[0] for one in rates]


def carry_over_plan(name, gpu, first, counts) -> list[tuple[int, float]]:
    """Return (GPUs, seconds of the plan that was best for `first` GPUs over the best one's).

    All but dp is carried over; infinite where that is impossible or does not fit.
    """
    plan = Contest(name, first, gpu, with_cp=True).choice().plan
    kept = "tp", "pp", "cp", "zero", "micro_batch", "recompute", "recomputed", "chunks"
    sizes = {key: getattr(plan, key) for key in kept}
    found = []
    for count in counts:
        contest = Contest(name, count, gpu, with_cp=True)
        of = contest.seconds()
        found.append((count, fastest(of[contest.match_sizes(**sizes)]) / fastest(of)))
    return found


def slower_network(name, count, gpu, across) -> float:
    """Return how many times as long the fastest step takes with `across` bytes per second."""
    slow = Contest(name, count, replace(gpu_named(gpu), across=across))
    return fastest(slow.seconds()) / fastest(Contest(name, count, gpu).seconds())


# ---- Checkpoints ----------------------------------------------------------------------------

PERIODS = np.geomspace(10, 1e6, 2000)  # seconds


def best_period(saving, failure_seconds) -> tuple[float, float]:
    """Return the checkpoint interval in seconds that loses the least time, and the lost share."""
    some = PERIODS[np.greater(PERIODS, saving)]
    costs = [cost(period, saving, failure_seconds) for period in some]
    number = int(np.argmin(costs))
    return float(some[number]), float(costs[number])


def checkpoint_rows(names, each_fails, storage) -> list[list]:
    """Return rows for {model: GPUs}: how often one fails, how long saving takes, how often to save.

    each_fails  seconds from one failure of a GPU to its next, on average
    storage     bytes per second for all GPUs together
    """
    rows = []
    for name, count in names.items():
        failing, each = each_fails / count, checkpoint_seconds(name, storage)
        period, least = best_period(each, failing)
        others = (cost(every, each, failing) for every in (3600, 86400))
        rows.append(
            [
                name,
                f"{count:,}",
                describe_seconds(failing),
                describe_seconds(each),
                describe_seconds(period),
                f"{least:.1%}",
                *(f"{share:.1%}" for share in others),
            ]
        )
    return rows


def checkpoint_seconds(name, storage) -> float:
    """Return the seconds to save 16-bit parameters, and three float32 numbers for each of them."""
    return 14 * float(shape_of(name).parameters) / storage


def percent_lost(names, periods, each_fails, storage) -> dict:
    """Return {model and GPUs: percent of the time lost, for each of these periods}."""
    return {
        f"{name}, {count:,} GPUs": [
            100 * min(1, cost(period, checkpoint_seconds(name, storage), each_fails / count))
            for period in periods]
        for name, count in names.items()
    }  # fmt: skip


def describe_seconds(seconds) -> str:
    """Format seconds, such as 25 s, 12 min, 3 h or 4 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s"


# ---- Shapes ---------------------------------------------------------------------------------


def largest_layer() -> tuple[str, float]:
    """Find the largest layer of the models without experts: (model, its parameters)."""
    of = {name: float(x.layer_parameters) for name, x in MODELS.items() if not x.experts}
    name = max(of, key=of.get)
    return name, of[name]


def end_in_layers(name) -> float:
    """Return how many layers take as long as the output layer, judged by their matrices."""
    shape = shape_of(name)
    return float(shape.embedding_parameters / shape.layer_parameters)


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    contest = Contest("llama-2-7b", 8, "V100", 64)
    choice, waits = plan_offload(contest, link=8e9, host=153.6e9)
    print(f"7B on 8 V100, offloaded: {choice.seconds['total']:.1f} s a step;",
          ", ".join(f"{what} {time:.2f} s" for what, time in waits.items()))  # fmt: skip
    print(
        f"without offload: {describe_plan(contest.choice().plan)}, "
        f"{fastest(contest.seconds()):.1f} s"
    )


if __name__ == "__main__":
    main()
