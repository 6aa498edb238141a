"""Gradients of sentences in which every token counts the same."""

from functools import partial

from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from ..shared.accumulation import measure_memory
from ..shared.accumulation_truth import (
    ACCUMULATED,
    STALE,
    compute_known,
    describe_trial,
    list_found,
)
from .cases import SENTENCES, case_of, make_model, sentences_of
from .truth import UNFLATTENED, why

EXERCISE = WarmExercise(
    "accumulate_tokens",
    lab="gradient_accumulation",
    cases=[
        *(case_of(name, lengths) for name, lengths in SENTENCES.items()),
        case_of("two of them, with gradients of an earlier step still there", [[5, 1], [2]], STALE),
        Alone("memory, 8 micro-batches", measure_memory,
              (make_model, (), sentences_of([[9, 9]] * 8))),
    ],
    work=run_alone,
    known=partial(compute_known, why),
    found=list_found,
    facts=ACCUMULATED,
    right=describe_trial,
    errors=dict.fromkeys(
        ("Expected target size", "multi-target not supported", "to match target batch_size"),
        UNFLATTENED,
    ),
    hints=(
        "Which number does the mean divide by? Not sentences, not positions: targets that "
        "are not PADDING, in all micro-batches together.",
        "F.cross_entropy(…, reduction=\"sum\") ignores targets of −100 and does not divide.",
        "It wants logits (n, vocabulary) and targets (n): flatten both, model(tokens)"
        ".flatten(0, 1) and targets.flatten().",
    ),
)  # fmt: skip
