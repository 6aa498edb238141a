"""A step over micro-batches that lets replicas drift apart."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World
from coursekit.kit.reference_training import HANGS, one_exchange

from ..shared.large_models_truth import Travels, right_if_large
from ..shared.state_snapshot_truth import leaves_alone
from .cases import STEPS, take_steps
from .truth import (
    compute_known_large,
    describe_replica_gap,
    list_found,
    means,
    mistakes,
    weights_follow_gradients,
    why_so_many_bytes,
)

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "accumulate_step",
    cases=[
        RankCase(World(2), (3,), ", 3 micro-batches each"),
        RankCase(World(3), (4,), ", 4 micro-batches each"),
        RankCase(World(2), (1,), ", 1 micro-batch each"),
    ],
    work=take_steps,
    known=compute_known_large,
    found=list_found,
    facts=[
        Holds("followed", lambda followed: len(followed) == STEPS,
              lambda followed: f"{len(followed)} optimizer steps in {STEPS} calls",
              "a call is one step: optimizer.step() once, after the last micro-batch"),
        weights_follow_gradients,
        Equals("followed", means, mistakes, tells=describe_replica_gap),
        leaves_alone,
        right_if_large(what="the gradient that the step follows,"),
        Travels(one_exchange),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    right=f"after {STEPS} steps the weights of one process, on every rank",
    on_hang=HANGS,
    warm=True,
    hints=(
        "After the step, do all ranks have the same weights? Write down what is in `total` on "
        "each rank after the last micro-batch.",
        "The gradients of the first micro-batches never travel. Averaging each of them would "
        "be right, and expensive. What could travel once?",
        "Accumulate all micro-batches on each rank; average `total` after the loop.",
    ),
)  # fmt: skip
