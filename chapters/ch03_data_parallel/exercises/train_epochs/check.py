"""A training loop that has yet to share the samples of an epoch among ranks."""

from coursekit.kit import Equals, RankCase, RankExercise, World
from coursekit.kit.reference_training import HANGS
from pedagogy_lib.basics.errors import HangError

from ..shared.state_snapshot_truth import leaves_alone
from .cases import EPOCHS, train
from .truth import (
    UNEVEN,
    batches_are_full,
    describe_weights,
    mistakes,
    one_process,
    orders_are_new,
    orders_of,
    why_apart,
    work_is_shared_out,
)

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "train_epochs",
    cases=[
        RankCase(
            World(n), (length, samples), f", {length} samples, {samples} at a time, {EPOCHS} epochs"
        )
        for n, length, samples in ((2, 24, 5), (3, 25, 4))
    ],
    work=train,
    facts=[
        work_is_shared_out,
        orders_are_new,
        batches_are_full,
        Equals("weights", one_process, mistakes, otherwise=why_apart, tells=describe_weights),
        leaves_alone,
    ],
    right=lambda trial: (
        f"each rank takes {len(orders_of(trial)[0][0])} in an epoch, and the weights "
        "are one process's"
    ),
    errors={
        "local variable 'labels'": "`labels` is used before anything has given it a value. The "
        "loop gives one thing, `batch`: what does a DataLoader make of samples that are pairs?",
        "must be Tensor, not list": "`batch` is a list of two tensors, inputs and labels; a model "
        "takes the inputs",
        "mutually exclusive": "who shuffles? A DataLoader that is given a sampler reads in the "
        "sampler's order, so it is the sampler's task",
        "no attribute 'set_epoch'": "the one who draws the order has to know the epoch: that is "
        "the sampler, not the one that you tell it to",
    },
    explain=lambda case, error: (
        UNEVEN if isinstance(error, HangError) and case.args[0] % case.world.size else ""
    ),
    on_hang=HANGS,
    warm=True,
    hints=(
        "Which name had no value, in which line? And what does a DataLoader make of samples "
        "that are pairs?",
        "Who tells a rank's DataLoader which samples are its own? A DistributedSampler knows "
        "the rank and the number of ranks. (The DataLoader then must not shuffle.)",
        "A DistributedSampler shuffles by its seed + the number of the epoch, and learns that "
        "number from sampler.set_epoch(epoch), before the loop over batches begins.",
    ),
)
