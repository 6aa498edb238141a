"""Gradients of micro-batches of any size."""

from functools import partial

from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from ..shared.accumulation import mean_loss, measure_memory
from ..shared.accumulation_truth import (
    ACCUMULATED,
    STALE,
    compute_known,
    describe_trial,
    list_found,
)
from .cases import SAMPLES, case_of, make_model, samples_of
from .truth import why

EXERCISE = WarmExercise(
    "accumulate",
    lab="gradient_accumulation",
    cases=[
        *(case_of(name, sizes) for name, sizes in SAMPLES.items()),
        case_of("of 5 2, with gradients of an earlier step still there", [5, 2], STALE),
        Alone("memory, 8 micro-batches", measure_memory,
              (make_model, (mean_loss,), samples_of([8] * 8))),
    ],
    work=run_alone,
    known=partial(compute_known, why),
    found=list_found,
    facts=ACCUMULATED,
    right=describe_trial,
    hints=(
        "Exercise {{shares}} is inside: how much does each micro-batch's mean count?",
        "Count all samples first, before the loop. Inside it: forward, loss times its share, "
        "backward.",
        "Call backward() in each round, so that its graph can go. Keep loss.detach() alone, and "
        "make a number of the sum at the end: on a GPU, each loss.item() waits. Begin with "
        "model.zero_grad().",
    ),
)  # fmt: skip
