# Built from chapters/ch11_capstone/labs/capstone_scores.py by `make build`.
"""Costs of the recipes of labs/capstone.py: predicted, measured, and compared with a budget.

python labs/capstone_scores.py
"""

from dataclasses import fields, replace
from numbers import Integral
from typing import NamedTuple

from capstone import PLAIN, SETTING, Recipe, describe_recipe, race
from cost_model import Plan, model_flops
from language_model import draw_batch, standard_library
from live_plans import START, Setting, predict_plan, runnable
from planner import why_impossible

# ---- Measured costs -------------------------------------------------------------------------


class Budget(NamedTuple):
    """The limits that a recipe has to keep.

    speedup       tokens per second: at least so many times as PLAIN has in the same launch
    memory_bytes  on the fullest rank, at most
    card_bytes    that leave a machine through its card in a step, at most
    """

    speedup: float = 1.75
    memory_bytes: float = 4.5e6
    card_bytes: float = 0.6e6


BUDGET = Budget()


class Result(NamedTuple):
    """The measured cost of a recipe or an engine.

    seconds       of the fastest of some steps, each on its slowest rank
    memory_bytes  the highest peak memory of a rank; at_peak: the same by kind
    card_bytes    that left a machine in a step, through the card of the busier one
    """

    seconds: float
    memory_bytes: int
    card_bytes: int
    at_peak: dict
    losses: list

    def tokens_per_second(self, setting) -> float:
        return setting.samples * setting.context / self.seconds

    def mfu(self, setting) -> float:
        """Return the share of the emulated devices' FLOPs that the model's own products need."""
        needed = model_flops(setting.shape, setting.samples * setting.context)
        return needed / self.seconds / setting.ranks / setting.flops


def results_of(run, setting: Setting) -> dict[str, Result]:
    """Return {name: Result} of a launch of `race`."""
    return {name: result_of(run, name, setting) for name in run.values[0]}


def result_of(run, name, setting) -> Result:
    times = [of_rank[name][0] for of_rank in run.values]
    block = run[name]
    fullest = max(block.at_peak, key=lambda kinds: sum(kinds.values()))
    totals = [peak["total"] for peak in block.peak_bytes]
    return Result(
        min(map(max, zip(*times))),
        max(totals),
        max_outgoing_bytes(block.traffic(), setting.machines),
        {kind: count for kind, count in fullest.items() if kind != "total"},
        run.values[0][name][1],
    )


def max_outgoing_bytes(traffic, machines=2) -> int:
    """Return the bytes that left the busier machine. traffic[a][b]: sent by rank a to rank b."""
    each = len(traffic) // machines
    places = [range(first, first + each) for first in range(0, len(traffic), each)]
    others = range(len(traffic))
    return max(
        sum(traffic[k][j] for k in mine for j in others if j not in mine) for mine in places
    )  # fmt: skip


def excess(result: Result, plain: Result, budget=BUDGET) -> dict[str, tuple[float, float]]:
    """Return {limit that is not kept: (measured value, limit)}; empty if all are kept."""
    found = {
        "speed": (plain.seconds / result.seconds, budget.speedup),
        "memory": (result.memory_bytes, budget.memory_bytes),
        "card": (result.card_bytes, budget.card_bytes),
    }
    broken = {name for name, (got, limit) in found.items() if got > limit} - {"speed"}
    broken |= {"speed"} if found["speed"][0] < budget.speedup else set()
    return {name: found[name] for name in found if name in broken}


# ---- Predicted costs ------------------------------------------------------------------------

HALF = replace(  # as START, with two bytes per number; logits become float32 for the loss
    START, parameter_bytes=2.0, gradient_bytes=2.0, optimizer_bytes=12.0, number_bytes=2.0,
    averaging=4.0, kept=10.0, kept_mlp=4.0, kept_whole=8.0, working=4.0, block_scores=8.0,
)  # fmt: skip


def predict_recipe(setting: Setting, recipe: Recipe) -> tuple[float, float]:
    """Predict the seconds of a step, and the bytes on the fullest rank."""
    return predict_plan(setting, recipe, HALF if recipe.half else START)


VALUES = (
    'sizes are whole numbers from 1 on, zero is 0 to 3, recompute is "none" or "full", and half is '
    "True or False"
)

FIXED = "chunks", "sequence", "ep", "etp", "replicas", "recomputed", "precision"


def why_not(setting: Setting, recipe: Recipe) -> str:
    """Return the reason for which a recipe cannot be run; "" if it can."""
    if not has_values(recipe):
        return VALUES
    if recipe.ranks != setting.ranks:
        return f"it makes {recipe.ranks} ranks, and there are {setting.ranks}"
    job = setting.job(START)
    uneven = "stages do not divide the layers" * int(not job.is_even(recipe))
    return str(why_impossible(job, recipe)) or uneven


def has_values(recipe: Recipe) -> bool:
    """Return whether each setting has a valid value, and other fields of a plan a fixed one."""
    sizes = recipe.dp, recipe.tp, recipe.pp, recipe.cp, recipe.micro_batch
    are_whole = all(isinstance(n, Integral) and n is not True for n in (*sizes, recipe.zero))
    return (
        are_whole
        and min(sizes) > 0
        and recipe.zero in range(4)
        and recipe.recompute in ("none", "full")
        and recipe.half in (True, False)
        and all(getattr(recipe, name) == getattr(Recipe(), name) for name in FIXED)
    )


def all_recipes(setting: Setting) -> list[Recipe]:
    """List every plan that can be run, in both precisions, the fastest by prediction first."""
    names = [field.name for field in fields(Plan)]
    found = [Recipe(**{name: getattr(plan, name) for name in names}, half=half)
             for plan in runnable(setting) for half in (False, True)]  # fmt: skip
    return sorted(found, key=lambda recipe: predict_recipe(setting, recipe)[0])


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import Machines, launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    entrants = {"plain": PLAIN, "the one predicted to be fastest": all_recipes(SETTING)[0]}
    text = standard_library(100_000)
    batches = [draw_batch(text, SETTING.samples, step, SETTING.context) for step in range(3)]
    machines = Machines.here(SETTING.machines, bytes_per_second=SETTING.card)
    run = launch(race, entrants, SETTING, batches, machines is not None,
                 world_size=SETTING.ranks, machines=machines, device="cpu")  # fmt: skip
    for name, found in results_of(run, SETTING).items():
        seconds, nbytes = predict_recipe(SETTING, entrants[name])
        print(f"{name}: {describe_recipe(entrants[name])}")
        print(f"  predicted {seconds:.2f} s and {nbytes / 1e6:.2f} MB")
        print(f"  measured {found.seconds:.2f} s and {found.memory_bytes / 1e6:.2f} MB, "
              f"{found.card_bytes / 1e6:.2f} MB over a card")  # fmt: skip


if __name__ == "__main__":
    main()
