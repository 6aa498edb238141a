"""A recipe that keeps a budget, run on eight ranks of two machines, next to plain copies."""

from coursekit.labs import find_lab
from coursekit.protocol import Exercise

from .cases import TRIES
from .truth import (
    describe_card_traffic,
    megabytes,
    need,
    race_recipes,
    recipe_of,
    settings_of,
    too_full,
    too_slow,
)


def examine(answer):
    judged, capstone = find_lab("capstone_scores"), find_lab("capstone")
    recipe = recipe_of(settings_of(answer), judged, capstone)
    yield f"a possible recipe: {capstone.describe_recipe(recipe)}"
    best = None
    for _ in range(TRIES):
        plain, mine = race_recipes(recipe, judged, capstone)
        budget = judged.BUDGET
        need(
            mine.card_bytes <= budget.card_bytes,
            f"{megabytes(mine.card_bytes)} leave a machine "
            f"in a step, and the budget has {megabytes(budget.card_bytes)}",
            describe_card_traffic(recipe),
        )
        need(mine.memory_bytes <= budget.memory_bytes, f"{megabytes(mine.memory_bytes)} on the "
             f"fullest rank, and the budget has {megabytes(budget.memory_bytes)}",
             too_full(recipe, mine.at_peak))  # fmt: skip
        best = max(best or 0.0, plain.seconds / mine.seconds)
        if best >= budget.speedup:
            break
    yield f"over the busier card: {megabytes(mine.card_bytes)} a step"
    yield f"on the fullest rank: {megabytes(mine.memory_bytes)}"
    need(best >= budget.speedup, f"{best:.2f} times as fast as plain copies, and the budget asks "
         f"for {budget.speedup:g} times", too_slow(recipe))  # fmt: skip
    yield f"more than {budget.speedup:g} times as fast as plain copies in the same launch"


EXERCISE = Exercise(
    "my_recipe",
    examine,
    hints=(
        "First the card. Which axis lies across the machines, and what does it send in a step? The "
        "bytes of a mean of gradients do not depend on the batch; those of a pipeline do.",
        "A pipeline of two stages sends each sample's activations once forward, and their "
        "gradients once back. Its other axes lie inside of the machines.",
        "Then the memory: half, and ZeRO 1 along dp. ZeRO 2 and 3 do not go with a pipeline here.",
        "Then the bubble: as many micro-batches as the batch allows, that is micro_batch 1.",
    ),
)  # fmt: skip
