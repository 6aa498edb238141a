"""Graphs that validation keeps alive during a training run."""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NO_RETURN
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import LASTS, TRAININGS, measure_trainings, try_training
from .truth import (
    compute_known_values,
    describe_result,
    no_graph_is_kept,
    what_may_be_left,
    wrong_gradients,
    wrong_means,
)

FINDS_A_BUG = True

EXERCISE = WarmExercise(
    "train_and_validate",
    cases=[
        *(Alone(name, try_training, sizes) for name, sizes in TRAININGS.items()),
        Alone("memory", measure_trainings),
    ],
    work=run_alone,
    known=compute_known_values,
    found=lambda case: (
        ("gradients", "means", "left") if case.work is try_training else ("needs",)
    ),
    facts=[
        never("changed", lambda what: f"afterwards {what[0]} is not as it was",
              lambda trial, place: LASTS[trial[place].changed[0]]),
        Holds("steps", lambda steps: steps[0] == steps[1],
              lambda steps: f"expected {steps[1]} optimizer steps, got {steps[0]}",
              "each batch has one step; validation has none: it only looks"),
        Equals("gradients", lambda trial, place: trial[place].right.gradients, wrong_gradients,
               "gradients"),
        Holds("means", lambda means: isinstance(means, list), "it returned {}",
              lambda trial, place: NO_RETURN if trial[place].means is None else
              "return a list of floats: loss.item() is one, and keeps nothing else alive"),
        Equals("means", lambda trial, place: trial[place].right.validation[1:].mean(1).tolist(),
               wrong_means),
        Equals("left", what_may_be_left,
               called="what `.grad` has in the end",
               otherwise="validation has left gradients of its own. It needs no backward: a graph "
               "is freed as soon as nobody holds it"),
        lambda trial: no_graph_is_kept(trial) if trial.collect_values("needs") else "",
    ],
    right=describe_result,
    errors={
        "does not require grad": "the backward finds no graph: no_grad() covers the training, "
        "too, or the model has stayed frozen. Only validation goes without",
        "Inference tensors cannot": "inference_mode() covers more than validation",
        "second time": "a backward goes through a graph that another has gone through already. "
        "Validation needs no backward at all",
    },
    hints=(
        "How long does the graph of a validation loss live? As long as somebody holds the "
        "loss, or a sum that it went into. Who holds it, in this program?",
        "Two lists hold tensors with graphs: `losses` for one round, and `means` to the end.",
        "For the first, let autograd record nothing: with torch.no_grad(): around validation. "
        "For the second, append numbers: .item().",
    ),
)  # fmt: skip
