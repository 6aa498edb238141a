"""The right results, and the results of known mistakes."""

from coursekit.answers.remote_answer import try_on_ranks
from coursekit.kit import Wrong
from coursekit.kit.formula import is_raised, value_of
from coursekit.kit.results import text_of
from coursekit.labs import find_lab
from pedagogy_lib.basics.units import brief
from pedagogy_lib.machines.network import try_machines
from pedagogy_lib.machines.spec import Machines

from .cases import A_DICT, CASE, KNOWN, PRODUCT, STEPS, race

SECONDS = 100.0  # for both training runs; on a quiet machine they take fifteen

OVER_THE_CARD = {
    "copies": "copies of the model stand on both machines. So a mean of all gradients crosses the "
    "cards in each step, however few tokens the step has. ZeRO shards memory, but sends as many "
    "bytes, or more. Which axis sends only what one layer hands on to the next?",
    "sums": "a layer is cut across the machines. So activations cross the cards several times for "
    "each layer, forward and backward. Which axis sends them once for a whole stage?",
    "whole activations": "each rank along tp has the whole output of its stage, and sends it over "
    "the card to its neighbour in the next stage: tp times the same bytes. Along dp, each rank "
    "sends what belongs to its own samples",
    "wide numbers": "the right axis crosses the cards. But each number that crosses has four bytes",
    "": "look which axis crosses the cards. In the order pp, dp, cp, tp, it is the first one that "
    "is longer than 1",
}

TOO_FULL = {
    "wide numbers": "each weight has 4 bytes, its gradient 4, and activations as many. With half, "
    "weights, gradients and activations have two",
    "whole states": "every copy keeps all states of the optimizer, and its weights in float32: 12 "
    "bytes for each weight of the stage. They are the same on all copies",
    "activations": "what fills the memory are activations. Fewer samples at a time need less room. "
    "So does recomputation: a second forward in the backward",
    "": "which kind fills it: weights, states, activations? Each has its remedy",
}

TOO_SLOW = {
    "few parts": "the stages wait for each other: with so few micro-batches, the bubble is a "
    "large share of the step",
    "again": "each forward is computed a second time in the backward, though the memory would do "
    "without",
    "many sums": "in each layer, ranks along tp or cp wait for each other many times: for sums, or "
    "for keys that go round. On these machines, fewer ranks along that axis are quicker",
    "": "what do ranks wait for: the bubble, sums in each layer, or a card?",
}


def need(is_kept, what, why):
    if not is_kept:
        raise Wrong("the budget", what, why)


def megabytes(count) -> str:
    return f"{count / 1e6:.2f} MB"


def settings_of(answer) -> dict:
    """Return the answer's dict of settings; raise `Wrong` if it gives anything else."""
    settings = value_of(answer, ())
    if is_raised(settings):
        raise Wrong(CASE, f"it raised {settings.text}")
    if not isinstance(settings, dict):
        raise Wrong(CASE, f"it returned {brief(settings, 60)}", A_DICT)
    for name, value in settings.items():
        if name not in KNOWN:
            raise Wrong(CASE, f"there is no setting {brief(name)}", f"settings: {', '.join(KNOWN)}")
        is_possible, possible = KNOWN[name]
        if not is_possible(value):
            raise Wrong(CASE, f"{name} is {brief(value)}", possible)
    return settings


def recipe_of(settings, judged, capstone):
    """Return the recipe of these settings; raise `Wrong` if eight ranks cannot run it."""
    setting, recipe = capstone.SETTING, capstone.Recipe(**settings)
    if recipe.ranks != setting.ranks:
        what = f"it makes {text_of(recipe.ranks)} ranks, and there are {setting.ranks}"
        raise Wrong(CASE, what, PRODUCT)
    if why := judged.why_not(setting, recipe):
        raise Wrong(CASE, "this recipe cannot be run", f"{why}. The batch has {setting.samples} "
                    f"samples, the model {setting.layers} layers")  # fmt: skip
    return recipe


def race_recipes(recipe, judged, capstone):
    """Return the results of plain copies and of the recipe, from one launch."""
    setting, text = capstone.SETTING, capstone.standard_library(100_000)
    batches = [capstone.draw_batch(text, setting.samples, step, setting.context)
               for step in range(STEPS)]  # fmt: skip
    machines = None
    if not try_machines():
        machines = Machines(setting.machines, bytes_per_second=setting.card)
    entrants = {"plain": capstone.PLAIN, "yours": recipe}
    run = try_on_ranks(
        "eight ranks", race, capstone, entrants, setting, batches, machines is not None,
        world_size=setting.ranks, machines=machines, timeout=SECONDS,
    )  # fmt: skip
    found = judged.results_of(run, setting)
    return found["plain"], found["yours"]


def describe_card_traffic(recipe) -> str:
    """Return the diagnosis of too many bytes over the card.

    Ranks along pp are farthest apart, then those along dp, cp and tp.
    """
    if recipe.pp > 1:
        names = {"whole activations": recipe.tp > 1, "wide numbers": not recipe.half}
    else:
        names = {"copies": recipe.dp > 1, "sums": True}
    return OVER_THE_CARD[first_true(names)]


def too_full(recipe, at_peak) -> str:
    states = sum(at_peak.get(kind, 0) for kind in ("parameters", "gradients", "optimizer_state"))
    names = {
        "wide numbers": not recipe.half,
        "whole states": recipe.zero == 0 and recipe.dp * recipe.cp > 1,
        "activations": at_peak.get("activations", 0) > states / 3,
    }
    return TOO_FULL[first_true(names)]


def too_slow(recipe) -> str:
    names = {
        "few parts": recipe.pp > 1 and microbatches(recipe) < 2 * (recipe.pp - 1),
        "many sums": recipe.tp > 2 or recipe.cp > 1,
        "again": recipe.recompute != "none",
    }
    return TOO_SLOW[first_true(names)]


def microbatches(recipe) -> float:
    return find_lab("capstone").SETTING.samples / (recipe.dp * recipe.micro_batch)


def first_true(names) -> str:
    return next((name for name, is_so in names.items() if is_so), "")
