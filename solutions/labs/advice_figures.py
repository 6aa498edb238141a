# Built from chapters/ch10_choosing_a_strategy/labs/advice_figures.py by `make build`.
"""Numbers for the tables and pictures of part 10f: how sure a comparison is, and which plan wins.

python labs/advice_figures.py
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
from advice import (
    AGREES,
    ALONE,
    DISAGREES,
    ERRORS,
    NAMES,
    UNFIT,
    UNTOLD,
    VARIED,
    Contest,
    fastest,
    flips,
    lower_bound,
    other_engines,
    tree_advice,
    upper_bound,
    verdict,
)
from cost_model import Engine, Job, Plan, memory
from cost_seconds import dp_seconds, layer_seconds, seconds
from model_shapes import gpu_named
from planner import PlanSearch, describe_plan, none_possible, too_large
from published_runs import predict_seconds, timed_runs

STEPS = (1, 1.1, 1.25, 1.5, 2, 4)  # of predicted ratios
KINDS = {  # of plans with cp 1
    "DDP, ZeRO 1 or 2": ALONE | {"zero": lambda stage: stage < 3},
    "ZeRO 3": ALONE | {"zero": 3},
    "tp": {"tp": lower_bound(2), "pp": 1},
    "pp": {"tp": 1, "pp": lower_bound(2)},
    "tp and pp": {"tp": lower_bound(2), "pp": lower_bound(2)},
}

# ---- How sure is a comparison? --------------------------------------------------------------


def group_timed_runs() -> dict:
    """Group published runs with times, by software and scope: one machine, or more.

    nanotron's are nearly all on more; they are grouped by whether they have a pipeline
    """
    megatron, nanotron = timed_runs("Megatron-DeepSpeed"), timed_runs("nanotron")
    is_inside = megatron.plan.ranks <= megatron.job.gpu.machine
    on_more = nanotron.where(nanotron.plan.ranks > nanotron.job.gpu.machine)
    return {
        "Megatron-DeepSpeed, one machine": megatron.where(is_inside),
        "Megatron-DeepSpeed, more": megatron.where(~is_inside),
        "nanotron, more, no pipeline": on_more.where(on_more.plan.pp == 1),
        "nanotron, more, pipelines": on_more.where(on_more.plan.pp > 1),
    }


def pairs(runs, engine=None) -> tuple[np.ndarray, np.ndarray]:
    """Return ratios of seconds for every two runs of one model, batch, and number of GPUs.

    Returns  predicted ratios, and published ones
    """
    found = predict_seconds(runs, engine or Engine())
    rows = zip(runs.group, runs.plan.ranks, runs.job.batch, runs.job.shape.context, strict=True)
    job = np.array(["|".join(map(str, row)) for row in rows])
    ratios = []
    for one in np.unique(job):
        these = np.flatnonzero(job == one)
        a, b = (these[numbers] for numbers in np.triu_indices(len(these), 1))
        ratios.append((found[a] / found[b], runs.seconds[a] / runs.seconds[b]))
    return tuple(map(np.concatenate, zip(*ratios, strict=True)))


def share_ranked_right(predicted_ratios, published, low, high=np.inf) -> tuple[float, int]:
    """Return the share of pairs ranked right, of those that differ so much, and their number.

    The share is nan if no pair differs so much.
    """
    far = np.abs(np.log(predicted_ratios))
    some = (far >= np.log(low)) & (far < np.log(high))
    is_right = (predicted_ratios > 1) == (published > 1)
    return float(np.mean(is_right[some])) if some.any() else np.nan, int(some.sum())


def right_from(predicted_ratios, published, level=0.95) -> float | None:
    """Return the smallest of STEPS from which each group of pairs has this share right, or None.

    A group without pairs says nothing: the smallest one has some.
    """
    found = None
    for low, high in reversed([*pairwise(STEPS)]):
        share, count = share_ranked_right(predicted_ratios, published, low, high)
        if count and share < level:
            break
        found = low if count else found
    return found


def scope_rows(pairs, errors) -> list[list]:
    """Return a row per group of pairs: their number; of those that differ by each error, how many,
    and the share ranked right; and the factor from which 95 % are right."""
    rows = []
    for name, of in pairs.items():
        told = (share_ranked_right(*of, 1 + error) for error in errors)
        enough = right_from(*of)
        rows.append([
            name, f"{len(of[0]):,}",
            *(f"{share:.0%} of {count:,}" if count else "none" for share, count in told),
            f"{enough:g}" if enough else "--",
        ])  # fmt: skip
    return rows


# ---- The decision tree ----------------------------------------------------------------------

NO_ANSWER, NO_PLAN = "the tree has no answer", "the tree's plan is impossible"
TREE_KINDS = (UNTOLD, NO_PLAN, AGREES, DISAGREES, NO_ANSWER)


def tree_map(gpus, counts, errors) -> dict:
    """Return {GPU: {model: {number of GPUs: (kind, text, whether to colour it strongly)}}}."""
    return {
        gpu: {name: {f"{n:,}": tree_cell(name, n, gpu, errors) for n in counts} for name in NAMES}
        for gpu in gpus
    }


def tree_cell(name, count, gpu, errors):
    one = tree_advice(name, count, gpu)
    if one is None:
        is_any = Contest(name, count, gpu).fits.any()
        return (NO_ANSWER, "?", False) if is_any else (UNFIT, "", True)
    follows, against = one.two()
    if follows == np.inf:
        return (NO_PLAN, "∞", True) if against < np.inf else (UNFIT, "", True)
    told = verdict(follows, against, one.contest.error(errors))
    return told, f"{follows / min(follows, against):.2f}", told != UNTOLD


# ---- The fastest kind of plan ---------------------------------------------------------------


def winner(contest: Contest, errors) -> tuple[str, str, bool]:
    """Return the fastest kind of plan, its tp, pp and dp, and whether all others are far slower."""
    of = contest.seconds()
    times = {kind: of[contest.match_sizes(**sizes)] for kind, sizes in KINDS.items()}
    times = {kind: float(some.min()) if len(some) else np.inf for kind, some in times.items()}
    first, second = sorted(times, key=times.get)[:2]
    if times[first] == np.inf:
        return "nothing fits", "", True
    plan = contest.choice().plan
    told = "·".join(map(str, (plan.tp, plan.pp, plan.dp)))
    return first, told, verdict(times[first], times[second], contest.error(errors)) != UNTOLD


def phases(machines, counts, errors, names=tuple(NAMES)) -> dict:
    """Return {panel: {model: {number of GPUs: winner}}}; machines: {panel: a Gpu}."""
    return {
        panel: {name: {f"{n:,}": winner(Contest(name, n, gpu), errors) for n in counts}
                for name in names}
        for panel, gpu in machines.items()
    }  # fmt: skip


def change_gpu(gpu, **changed):
    """Return a kind of GPU with some numbers changed."""
    return replace(gpu_named(gpu), **changed)


# ---- tp across machines ---------------------------------------------------------------------


def time_tp_by_network(name, count, gpu, batch, speeds) -> dict:
    """Return the seconds of the fastest step with tp inside machines, and with tp over two."""
    machine = gpu_named(gpu).machine
    sizes = {"tp inside a machine": upper_bound(machine), "tp over two machines": 2 * machine}
    contests = [Contest(name, count, change_gpu(gpu, across=x), batch) for x in speeds]
    return {line: [fastest(one.seconds()[one.match_sizes(tp=tp)]) for one in contests]
            for line, tp in sizes.items()}  # fmt: skip


def slower_layer(name, gpu, speeds) -> list[float]:
    """Return a layer's GPU-seconds with tp over two machines, as multiples of those inside one."""
    found = []
    for speed in speeds:
        job = Contest(name, 64, change_gpu(gpu, across=speed), 64).job
        times = (layer_seconds(job, Plan(tp=k * job.gpu.machine)) for k in (1, 2))
        inside, across = (float(sum(of.values())) for of in times)
        found.append(2 * across / inside)
    return found


# ---- Table of strategies --------------------------------------------------------------------

STRATEGIES = {  # a source's words on memory and communication; the plan on 64 GPUs
    "DDP": ("low", "low", Plan(64)),
    "ZeRO 1": ("medium", "low to medium", Plan(64, zero=1)),
    "ZeRO 2": ("medium", "low to medium", Plan(64, zero=2)),
    "ZeRO 3": ("high", "high", Plan(64, zero=3)),
    "tp 8 × dp 8": ("high", "very high", Plan(8, tp=8)),
    "pp 8 × dp 8": ("high", "medium", Plan(8, pp=8)),
    "3D: tp 4 × pp 4 × dp 4": ("highest", "optimized", Plan(4, tp=4, pp=4)),
}
SENT = ("tp", "pp", "dp")


def strategy_rows(job: Job) -> list[list]:
    """Return a row per strategy: a source's words, GB of states and of activations, and seconds."""
    rows = []
    for name, (of_memory, of_sending, plan) in STRATEGIES.items():
        room, times = memory(job, plan), seconds(job, plan)
        states = sum(room[kind] for kind in ("parameters", "gradients", "optimizer_state"))
        sent = sum(float(times[axis]) for axis in SENT)
        of_bubble, kept = float(times["bubble"]), float(room["activations"])
        rows.append([name, of_memory, f"{float(states) / 1e9:.0f} GB", f"{kept / 1e9:.0f} GB",
                     of_sending, f"{sent:.2f} s", f"{of_bubble:.2f} s",
                     f"{float(times['total']):.2f} s"])  # fmt: skip
    return rows


def zero_3_sends(microbatches) -> list[float]:
    """Return ZeRO 3's communication as multiples of DDP's, for so many micro-batches of a rank.

    Gradients are sent with as many bytes as parameters.
    """
    found = []
    for m in microbatches:
        job = Contest("Llama 3 8B", 64, "H100", 64 * m).job
        job = replace(job, engine=replace(job.engine, reduced_bytes=job.engine.number_bytes))
        three, none = (float(dp_seconds(job, Plan(64, zero=zero))) for zero in (3, 0))
        found.append(three / none)
    return found


# ---- Seconds of the best plans, by cause ----------------------------------------------------


def best_bars(name, count, gpu, batch, rows=6) -> dict:
    """Return {plan in words: seconds by cause}: the tree's plan, if possible, and the fastest ones.

    Raises  ValueError if nothing fits
    """
    planned = Contest(name, count, gpu, batch).planned
    if not len(planned.possible.dp):
        raise ValueError(none_possible(planned))
    if not planned.fits.any():
        raise ValueError(too_large(planned))
    one = tree_advice(name, count, gpu, batch)
    first = one.contest.choice(one.follows) if one else None
    bars = {f"the tree: {describe_plan(first.plan)}": first.seconds} if first else {}
    return bars | {describe_plan(choice.plan): choice.seconds for choice in planned.best(rows)}


def why_not(planned: PlanSearch, most=3) -> str:
    """Describe how many plans fit, and the most frequent reasons against the others."""
    reasons = Counter(planned.count_rejections()).most_common(most)
    told = "\n".join(f"{count:,}: {reason}" for reason, count in reasons)
    fit, of_all = int(planned.fits.sum()), len(planned.impossible)
    return f"{fit:,} of {of_all:,} combinations fit; why not the others:\n{told}"


# ---- Verdicts -------------------------------------------------------------------------------


def verdict_rows(advised, errors, factor, engines) -> list[list]:
    """Return a row per advice: ratio of seconds, verdict, decisive numbers, and agreement.

    engines  how many other engines are asked, with all numbers wrong by up to `factor`; agreement
             is the share of them that has the same verdict
    """
    others, rows = other_engines(engines, factor), []
    for one in advised:
        judge, (follows, against) = one.judge(errors), one.two()
        told = judge(Engine())
        same = sum(judge(engine) == told for engine in others)
        hangs = ", ".join(flips(judge, Engine(), VARIED, factor)) or "none"
        rows.append([one.text, ratio_of(follows, against), told, hangs, f"{same / engines:.0%}"])
    return rows


def ratio_of(follows, against) -> str:
    if np.inf in (follows, against):
        return "does not fit" if follows == np.inf else "alone fits"
    return f"{follows / against:.2f}"


def main():
    of = group_timed_runs()["Megatron-DeepSpeed, one machine"]
    share, count = share_ranked_right(*pairs(of), 1 + ERRORS[0])
    print(f"{count:,} pairs that differ by 25 % or more: told right {share:.0%}")
    print(winner(Contest("Llama 3 70B", 64, "H100"), ERRORS))


if __name__ == "__main__":
    main()
