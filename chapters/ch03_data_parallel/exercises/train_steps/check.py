"""A training loop with DistributedDataParallel, in which something is missing."""

import torch

from coursekit.kit import Equals, RankCase, RankExercise, World
from coursekit.kit.reference_training import HANGS, not_exchanged

from ..shared.state_snapshot_truth import leaves_alone
from .cases import alone, train
from .truth import describe_norms, mistakes, steps_have_gradients

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "train_steps",
    cases=[
        RankCase(World(2), (torch.optim.SGD, 5), ", 5 batches, SGD"),
        RankCase(World(3), (torch.optim.AdamW, 4), ", 4 batches, AdamW"),
    ],
    work=train,
    facts=[
        steps_have_gradients,
        Equals(
            "weights",
            lambda trial, place: alone(trial)[0][-1],
            mistakes,
            otherwise=not_exchanged,
            tells=describe_norms,
        ),
        leaves_alone,
    ],
    right="the weights of one process",
    errors={
        "must be Tensor, not": "`batch` is a pair: inputs, and the targets that they should give. "
        "A model takes the inputs",
        "takes 2 positional arguments": "the model takes the inputs alone: targets are for the "
        "loss",
        "implicitly created only for scalar": "what a model gives are outputs, one for each "
        "sample. What is to become smaller is one number: who computes it, from outputs and "
        "targets?",
        "modified by an inplace operation": "a step between the forward and the backward of a "
        "batch changes the weights that this backward needs as they were",
        "does not require grad": "the loss has no graph: it has to be computed from ddp's outputs",
    },
    on_hang=HANGS,
    warm=True,
    hints=(
        "Three things that a loop on one process has are missing. What is `batch`, and what "
        "does a model give for it?",
        "backward() needs one number: loss_fn(outputs, targets).",
        "backward() adds to what is in `.grad`, and zero_grad() sets it back: in each round, "
        "anywhere but between backward() and step().",
    ),
)
