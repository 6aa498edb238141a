"""ZeRO stage 1: each rank keeps the optimizer state of its own shards."""

from functools import partial

from coursekit.kit import RankExercise, World

from ..shared.stages import work
from ..shared.stages_truth import CASES, ERRORS, FACTS, LOST, names_found, sends, steps_of
from .truth import STATE_TRAVELS, describe_result

EXERCISE = RankExercise(
    "Zero1",
    lab="zero",
    needs=("reduce_gradients", "all_gather_ring", "start_equal"),
    cases=[*CASES[:2], steps_of(World(2), "SGD", 0, 0), *CASES[2:]],
    work=work,
    facts=[
        *FACTS,
        partial(
            sends,
            most={"backward": 0, "step": 2, "update": 1},
            why={
                "backward": "stage 1 sends nothing in a backward: gradients add up in `.grad`, and "
                "step() reduces them once, however many backwards there were",
                ("step", 3): "the numbers are right, but something travels twice: one "
                "reduce-scatter, and one all-gather, for each unit",
                ("step", 4): STATE_TRAVELS,
                "step": "one reduce-scatter and one all-gather for each unit are enough",
                ("update", 3): STATE_TRAVELS,
                "update": "update() reduces as well. In stage 2 gradients are reduced already when "
                "it comes: reducing is for step(), and update() steps and gathers",
            },
        ),
    ],
    right=describe_result,
    errors=ERRORS,
    on_hang=LOST,
    warm=True,
    found=names_found,
    hints=(
        "A step: reduce all units, have the optimizer step on the shards, give everybody all "
        "chunks. The first is for step(), the others are for update().",
        "A unit's shard is a view into unit.flat: when the optimizer has changed it, this "
        "rank's chunk is new, and so are the parameters that lie in it. The other chunks are "
        "on the other ranks.",
        "update(): self.optimizer.step(); then for each unit unit.shard.grad = None, and "
        "all_gather_ring(unit.chunks, unit.group).",
    ),
)  # fmt: skip
