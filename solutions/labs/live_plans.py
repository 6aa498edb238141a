# Built from chapters/ch10_choosing_a_strategy/labs/live_plans.py by `make build`.
"""Plans that are predicted and then run: small models on emulated machines with slow links.

python labs/live_plans.py
"""

import os
import random
import time
from dataclasses import dataclass
from statistics import median

import planner
import torch
import torch.distributed as dist
from any_plan import AnyPlan
from cost_model import Engine, Job, Plan, memory
from cost_seconds import seconds
from language_model import CHARACTERS, Transformer, draw_batch, standard_library
from model_shapes import Gpu, Shape
from planner import all_plans, select_plans
from three_dimensions import adam

# ---- The models and the machines ------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A small model, and the machines on which it is trained.

    ranks    on all machines together
    samples  per step
    flops    per second of a rank's matrix products: emulated
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
                     positions=self.context, vectors=13 * self.width,
                     end_vectors=2 * self.width)  # fmt: skip

    def job(self, engine) -> Job:
        """Make a job for the cost model; a "GPU" is a rank with its share of card and computer."""
        each = self.ranks // self.machines
        gpu = Gpu(self.flops, 1e9, BANDWIDTH, INSIDE, self.card / each, reach=1.0, machine=each,
                  is_shared=True)  # fmt: skip
        return Job(self.shape, gpu, self.samples, engine)


BANDWIDTH, INSIDE = 1e10, 1e9  # bytes per second, from which calibration starts
START = Engine(  # of labs/any_plan.py, in float32, over Gloo
    is_balanced=False, is_queued=False, cores=os.cpu_count() or 1, sequence=False, straggle=0.0,
    attention=0.5, ragged=1.0, traffic=100.0, traffic_whole=100.0, inside=0.2, across=1.0,
    launch=6e-4, launch_pp=6e-4, hop=1.5e-4, hop_pp=1.5e-4, around=1e-3, unit=1e-4,
    exposed=1.0, exposed_pp=0.1, message=3e-4, fixed=2e-3, updating=50.0,
    parameter_bytes=4.0, gradient_bytes=4.0, optimizer_bytes=8.0, number_bytes=4.0,
    averaging=8.0, units=1.0, sheds=True, keeps_sent=True,
    kept=20.0, kept_mlp=8.0, kept_whole=16.0, working=8.0, block_scores=16.0, logits=12.0, base=1e5,
)  # fmt: skip


def runnable(setting: Setting, engine=START) -> list[Plan]:
    """List all plans that labs/any_plan.py can run. Raises ValueError if there are none."""
    job = setting.job(engine)
    plans, _ = all_plans(job, setting.ranks)
    of = (plans.chunks == 1) & (plans.recomputed == 1) & (plans.replicas == 1) & job.is_even(plans)
    if not of.any():
        raise ValueError(f"no plan is possible for {setting}")
    return list(select_plans(plans, of).each())


# ---- Predictions ----------------------------------------------------------------------------


def predict_plan(setting: Setting, plan: Plan, engine) -> tuple[float, float]:
    """Predict the seconds of a step, and the peak memory of the fullest rank in bytes."""
    job = setting.job(engine)
    return float(seconds(job, plan)["total"]), float(memory(job, plan)["total"])


def fastest(setting: Setting, plans, engine) -> list[Plan]:
    """Sort plans by their predicted seconds, the fastest first."""
    return sorted(plans, key=lambda plan: predict_plan(setting, plan, engine)[0])


def best_worst_and_drawn(setting: Setting, engine, count=10, seed=0, patience=3.0) -> list[Plan]:
    """Choose the best, the worst, and some random plans, at most one per mesh and stage of ZeRO.

    patience  seconds: plans whose step is predicted to take longer are left out
    """
    plans = [p for p in runnable(setting, engine) if predict_plan(setting, p, engine)[0] < patience]
    best, *others, worst = fastest(setting, plans, engine)
    random.Random(seed).shuffle(others)
    found = {mesh(plan): plan for plan in reversed([best, worst, *others])}
    found = [plan for plan in (best, worst, *others) if found[mesh(plan)] is plan]
    return found[: count + 2]


def mesh(plan: Plan) -> tuple:
    return plan.dp, plan.tp, plan.pp, plan.cp, plan.zero


def describe_plan(plan: Plan) -> str:
    """Describe a plan, as in "dp 4 tp 2, ZeRO 3, micro-batch 2, recomputed"."""
    return planner.describe_plan(plan, micro_batch=True)


# ---- Runs -----------------------------------------------------------------------------------


def program(plan: Plan, setting: Setting, batches, enough=0.5) -> list[float]:
    """Train under a plan; return the seconds of some steps. One more is measured as "step".

    The first step is not among them, because it makes the optimizer's state.
    """
    from pedagogy_lib import SlowProducts, measure

    torch.manual_seed(0)
    sizes = setting.width, setting.layers, setting.heads, setting.context
    engine = AnyPlan(Transformer(*sizes), plan, adam)  # no other reference keeps what it frees
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


def run_plan(setting: Setting, plan: Plan, text) -> tuple[float, float]:
    """Run a plan on processes; return the seconds of a step, and the bytes on the fullest rank."""
    from pedagogy_lib import Machines, launch

    batches = [draw_batch(text, setting.samples, step, setting.context) for step in range(4)]
    machines = Machines.here(setting.machines, bytes_per_second=setting.card)
    run = launch(program, plan, setting, batches, world_size=setting.ranks, machines=machines,
                 device="cpu")  # fmt: skip
    of_steps = [max(of_ranks) for of_ranks in zip(*run.values)]
    return median(of_steps), max(peak["total"] for peak in run["step"].peak_bytes)


def run_all(settings_and_plans) -> list[tuple]:
    """Run plans one after another; return (setting, plan, seconds, bytes) of each."""
    text = standard_library(100_000)
    return [(*of, *run_plan(*of, text)) for of in settings_and_plans]


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    setting = Setting(8, 64, 4, 64, 8, 8e8, 10e6)
    for plan in best_worst_and_drawn(setting, START, count=2):
        told, told_bytes = predict_plan(setting, plan, START)
        ((_, _, took, nbytes),) = run_all([(setting, plan)])
        print(f"{describe_plan(plan)}: predicted {told:.2f} s and {told_bytes / 1e6:.1f} MB, "
              f"measured {took:.2f} s and {nbytes / 1e6:.1f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
