"""Plans that are predicted, and then run: small models on machines of this computer, slow links.

python labs/live_plans.py
"""

import os
import random
import time
from dataclasses import dataclass, fields
from functools import partial
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from any_plan import AnyPlan
from cost_model import Engine, Job, Plan, memory
from cost_seconds import seconds
from language_model import CHARACTERS, Transformer, draw_batch, standard_library
from model_shapes import Gpu, Shape
from planner import all_plans, chosen, why_impossible
from published_runs import Runs, calibrated
from three_dimensions import adam

# ---- What is trained, and on what -----------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A small model, and the machines on which it is trained.

    ranks    on all machines together
    samples  in a step
    flops    of a rank's matrix products, per second: emulated
    card     bytes per second of each machine's network card
    """

    ranks: int
    width: int
    layers: int
    context: int
    samples: int
    flops: float
    card: float
    machines: int = 2
    heads: int = 8

    @property
    def shape(self) -> Shape:
        return Shape(self.layers, self.width, self.heads, 4 * self.width, CHARACTERS, self.context,
                     positions=self.context, vectors=13)  # fmt: skip

    def job(self, engine) -> Job:
        """For the model of cost. A "GPU" is a rank: its share of a card, and of this computer."""
        each = self.ranks // self.machines
        gpu = Gpu(self.flops, 1e9, BANDWIDTH, INSIDE, self.card / each, reach=1.0, machine=each,
                  is_shared=True)  # fmt: skip
        return Job(self.shape, gpu, self.samples, engine)


BANDWIDTH, INSIDE = 1e10, 1e9  # bytes per second: where calibrating starts from
START = Engine(  # of labs/any_plan.py, in float32, over Gloo
    is_balanced=False, is_queued=False, cores=os.cpu_count() or 1, sequence=False,
    attention=0.5, ragged=1.0, traffic=100.0, traffic_whole=100.0, inside=0.2, across=1.0,
    launch=6e-4, launch_pp=6e-4, hop=1.5e-4, hop_pp=1.5e-4, around=1e-3, unit=1e-4,
    exposed=1.0, exposed_pp=0.1, message=3e-4, fixed=2e-3, updating=50.0,
    parameter_bytes=4.0, gradient_bytes=4.0, optimizer_bytes=8.0, number_bytes=4.0,
    averaging=8.0, units=1.0, sheds=True, keeps_sent=True,
    kept=20.0, kept_mlp=8.0, kept_whole=16.0, working=8.0, logits=12.0, base=1e5,
)  # fmt: skip


def runnable(setting: Setting, engine=START) -> list[Plan]:
    """All plans that labs/any_plan.py can run. Raises ValueError if there are none."""
    job = setting.job(engine)
    plans = all_plans(job, setting.ranks)
    of = (why_impossible(job, plans) == "") & (plans.chunks == 1)
    if not of.any():
        raise ValueError(f"no plan is possible for {setting}")
    return list(chosen(plans, of).each())


# ---- Predicted ------------------------------------------------------------------------------


def predicted(setting: Setting, plan: Plan, engine) -> tuple[float, float]:
    """Seconds of a step, and bytes on the fullest rank at the worst moment."""
    job = setting.job(engine)
    return float(seconds(job, plan)["total"]), float(memory(job, plan)["total"])


def fastest(setting: Setting, plans, engine) -> list[Plan]:
    return sorted(plans, key=lambda plan: predicted(setting, plan, engine)[0])


def best_worst_and_drawn(setting: Setting, engine, count=10, seed=0, patience=3.0) -> list[Plan]:
    """The best plan, the worst one, and some others; of each mesh and stage of ZeRO one at most.

    patience  seconds: plans whose step is predicted to take longer are left out
    """
    plans = [p for p in runnable(setting, engine) if predicted(setting, p, engine)[0] < patience]
    best, *others, worst = fastest(setting, plans, engine)
    random.Random(seed).shuffle(others)
    found = {mesh(plan): plan for plan in reversed([best, worst, *others])}
    found = [plan for plan in (best, worst, *others) if found[mesh(plan)] is plan]
    return found[: count + 2]


def mesh(plan: Plan) -> tuple:
    return plan.dp, plan.tp, plan.pp, plan.cp, plan.zero


# ---- Run ------------------------------------------------------------------------------------


def program(plan: Plan, setting: Setting, batches, enough=1.0) -> list[float]:
    """Train under a plan; returns the seconds of some steps. One more is measured: "step".

    The first step is not among them: the optimizer's state is made there.
    """
    from pedagogy_lib import SlowProducts, measure

    torch.manual_seed(0)
    sizes = setting.width, setting.layers, setting.heads, setting.context
    engine = AnyPlan(Transformer(*sizes), plan, adam)  # nobody else keeps what it gives away
    times, slowest = [], torch.zeros(1)
    with SlowProducts(setting.flops, measured=False):
        engine.step(*batches[0])
        while len(times) < 3 and slowest.sum() < enough:
            dist.barrier()
            began = time.perf_counter()
            engine.step(*batches[len(times) + 1])
            times.append(time.perf_counter() - began)
            slowest = torch.tensor([sum(times)])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)  # all ranks decide alike
    with measure("step"):
        engine.step(*batches[0])
    return times


def run_plan(setting: Setting, plan: Plan, text=None) -> tuple[float, float]:
    """Really run a plan, on processes; returns seconds of a step, and bytes on the fullest rank."""
    from pedagogy_lib import Machines, launch

    text = standard_library(100_000) if text is None else text
    batches = [draw_batch(text, setting.samples, step, setting.context) for step in range(4)]
    machines = Machines.here(setting.machines, bytes_per_second=setting.card)
    run = launch(program, plan, setting, batches, world_size=setting.ranks, machines=machines,
                 device="cpu")  # fmt: skip
    of_steps = [max(of_ranks) for of_ranks in zip(*run.values)]
    return median(of_steps), max(peak["total"] for peak in run["step"].peak_bytes)


# ---- Calibrating ----------------------------------------------------------------------------

cut, FULL = partial(Plan, sequence=False), {"recompute": "full"}
CALIBRATING = [  # small models, in which each number of an engine shows
    (Setting(8, 64, 4, 64, 16, 4e8, 10e6), plan)
    for plan in (
        cut(dp=8), cut(dp=4, tp=2, zero=2, **FULL), cut(dp=2, tp=4),
        cut(pp=4, dp=2, micro_batch=2), cut(pp=2, tp=2, dp=2, zero=1, micro_batch=2),
        cut(dp=2, cp=4, micro_batch=4), cut(dp=4, cp=2, **FULL), cut(cp=8, micro_batch=8),
        cut(dp=8, zero=3, micro_batch=1), cut(tp=8, micro_batch=8),
    )
] + [
    (Setting(4, 64, 4, 128, 8, 8e8, 20e6), plan)
    for plan in (cut(dp=4, zero=1), cut(tp=2, cp=2, micro_batch=8), cut(pp=4, micro_batch=1))
]  # fmt: skip


def together(of) -> object:
    """Equal dataclasses of numbers as one of arrays; what is no number is taken from the first."""
    first = of[0]
    if isinstance(first, (Setting, Job, Plan, Shape, Gpu)):
        names = [f.name for f in fields(first)]
        return type(first)(*(together([getattr(x, name) for x in of]) for name in names))
    return first if isinstance(first, Engine) else np.array(of)


def as_runs(rows) -> Runs:
    """Of (setting, plan, seconds, bytes), as labs/published_runs.py has them."""
    settings, plans, of_steps, nbytes = zip(*rows)
    none = np.zeros(len(rows), bool)
    jobs = together([setting.job(START) for setting in settings])
    return Runs(jobs, together(plans), np.array(of_steps), np.array(nbytes), none,
                np.array([str(s) for s in settings]), np.arange(len(rows)))  # fmt: skip


def calibrate(rows=None) -> Engine:
    """The engine of this computer, from runs; without any, from CALIBRATING, in a minute."""
    if rows is None:
        rows = [(setting, plan, *run_plan(setting, plan)) for setting, plan in CALIBRATING]
    return calibrated(
        as_runs(rows), START, held=(0.03, 0.1), exact=("gradient_bytes", "across", "exposed")
    )


def main():
    engine = calibrate()
    setting = Setting(8, 96, 4, 64, 16, 1e9, 20e6)
    for plan in best_worst_and_drawn(setting, engine, count=2):
        (told, told_bytes), (took, nbytes) = (
            predicted(setting, plan, engine),
            run_plan(setting, plan),
        )
        print(f"{plan}: predicted {told:.2f} s and {told_bytes / 1e6:.1f} MB, "
              f"measured {took:.2f} s and {nbytes / 1e6:.1f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
