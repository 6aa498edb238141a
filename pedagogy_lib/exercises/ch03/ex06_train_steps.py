"""A training loop with DistributedDataParallel, in which something is missing."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import close
from ..ch01.accumulation import merged
from ..kit import At, Equals, RankExercise, World, complains
from ..kit.one_process import (
    HANGS,
    RATE,
    WRONG_LOSSES,
    batch_of,
    ends_of_wrong_loops,
    flat,
    model_of,
    not_exchanged,
    note_gradients,
    train_alone,
    uneven_loss,
)
from .left_alone import LeftAlone, leaves_alone

FINDS_A_BUG = True


def train(answer, group, case):
    """On a rank: the weights in the end, and the gradients that each step has found."""
    optimizer_type, steps = case.args
    rank = dist.get_rank()
    ddp = DistributedDataParallel(model_of(rank))
    optimizer = optimizer_type(ddp.parameters(), lr=RATE)
    followed = note_gradients(optimizer, ddp)
    batches = batches_of(rank, steps)
    alone = LeftAlone(ddp, batches)
    answer(ddp, uneven_loss, optimizer, batches)
    return {
        "weights": flat(ddp.parameters()), "followed": followed, "touched": alone.changed()
    }  # fmt: skip


def batches_of(rank, steps):
    return [batch_of(rank, step) for step in range(steps)]


def union_of(trial):
    """What all ranks together take in each step."""
    batches = (batches_of(rank, trial.case.args[1]) for rank in range(trial.n))
    return [merged(of_step) for of_step in zip(*batches)]


def alone(trial, **how):
    """Weights after each step, and gradients, of one process that takes what all ranks take."""
    return train_alone(union_of(trial), trial.case.args[0], **{"loss_fn": uneven_loss} | how)


def mistakes(trial, place):
    outputs_only = (
        "this makes a number of the outputs, their {}, and it is not the loss: that depends on the "
        "targets"
    )
    return {
        **ends_of_wrong_loops(union_of(trial), trial.n, trial.case.args[0], uneven_loss),
        **{why: alone(trial, loss_fn=loss_fn)[0][-1] for why, loss_fn in WRONG_LOSSES.items()},
        outputs_only.format("sum"):
            alone(trial, loss_fn=lambda outputs, _: outputs.sum() / trial.n)[0][-1],
        outputs_only.format("mean"): alone(trial, loss_fn=lambda outputs, _: outputs.mean())[0][-1],
    }  # fmt: skip


@complains
def steps_have_gradients(trial):
    """Where the weights are wrong: whether each step comes when its gradient is there."""
    found, (_, steps) = trial[0].followed, trial.case.args
    if all(close(of.weights, alone(trial)[0][-1]) for of in trial):
        return
    if found and not any(gradient.any() for gradient in found):
        yield told_norms(trial, 0), (
            "the steps find no gradient: it is cleared after backward() has put it there, and "
            "before the step that needs it"
        )  # fmt: skip
    if not found:
        yield f"expected {steps} steps of the optimizer that was given, got none", (
            "that optimizer has to take the steps: its learning rate and its state are part of "
            "the training. Changing weights by hand, or with another optimizer, is not the same"
        )  # fmt: skip
    if len(found) != steps:
        what = f"expected {steps} optimizer steps, got {len(found)}"
        yield what, "each batch has its backward and then its step: both belong into the loop"
    if not found[0].any():
        yield told_norms(trial, 0), (
            "the step comes before the backward of its batch: it follows the gradient of the batch "
            "before, and the first step none"
        )  # fmt: skip


def told_norms(trial, place) -> str:
    found, right = (norms(followed) for followed in (trial[place].followed, alone(trial)[1]))
    return f"gradients that steps follow have norms {found}; in one process {right}"


def norms(gradients) -> str:
    return ", ".join(f"{gradient.norm():.2f}" for gradient in gradients)


EXERCISE = RankExercise(
    "3.6",
    "train_steps",
    cases=[
        At(World(2), (torch.optim.SGD, 5), ", 5 batches, SGD"),
        At(World(3), (torch.optim.AdamW, 4), ", 4 batches, AdamW"),
    ],
    work=train,
    facts=[
        steps_have_gradients,
        Equals(
            "weights",
            lambda trial, place: alone(trial)[0][-1],
            mistakes,
            otherwise=not_exchanged,
            tells=told_norms,
        ),
        leaves_alone,
    ],
    told="the weights of one process",
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
    lost=HANGS,
    warm=True,
    hints=(
        "Three things that a loop on one process has are missing. What is `batch`, and what "
        "does a model give for it?",
        "backward() needs one number: loss_fn(outputs, targets).",
        "backward() adds to what is in `.grad`, and zero_grad() sets it back: in each round, "
        "anywhere but between backward() and step().",
    ),
)
