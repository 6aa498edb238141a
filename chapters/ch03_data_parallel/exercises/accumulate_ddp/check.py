"""Micro-batches under DistributedDataParallel's no_sync()."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World
from coursekit.kit.reference_training import HANGS, one_exchange, uneven_loss

from ..shared.large_models_truth import Travels, compute_known_layers, right_if_large
from ..shared.state_snapshot_truth import leaves_alone
from .cases import CALLS, accumulate
from .truth import SAMPLES, mean, mistakes, why_so_many_bytes

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "accumulate_ddp",
    cases=[RankCase(World(3))],
    work=accumulate,
    known=lambda case, place: compute_known_layers(place, uneven_loss, CALLS[0]),
    facts=[
        leaves_alone,
        Equals("grad", mean, mistakes, "`.grad` after"),
        Holds("samples", lambda most: most <= SAMPLES,
              "the gradients are right, but {} samples pass through the model at once; "
              f"a micro-batch has {SAMPLES}",
              "one forward takes several micro-batches, and keeps the activations of all of them "
              "for its backward: to save this memory is what micro-batches are for"),
        Holds("backwards", lambda count: count == sum(CALLS),
              f"the gradients are right, but {{}} backwards go through {sum(CALLS)} micro-batches",
              "a loss keeps all activations of its micro-batch until its backward. Each has one of "
              "its own, before the next one comes: to save this memory is what micro-batches are "
              "for"),
        Holds("held", lambda most: most <= 1,
              "the gradients are right, but the activations of {} micro-batches are held at once",
              "a forward keeps its activations until its backward, and with retain_graph=True for "
              "longer. Each micro-batch has its backward before the next one's forward"),
        right_if_large(),
        Travels(one_exchange),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    right="after calls with 4, 1 and 2 micro-batches, the gradients of one process",
    on_hang=HANGS,
    warm=True,
    hints=(
        "The gradients are right. Measure the bytes: how often do they travel?",
        "DistributedDataParallel prepares for a backward's communication in the forward before "
        "it.",
        "For all micro-batches but the last, the forward has to be under no_sync(), too.",
    ),
)  # fmt: skip
