"""A training loop that steps after several micro-batches."""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from ..accumulate.cases import make_model, samples_of
from ..shared.accumulation import mean_loss
from ..shared.accumulation_truth import ACCUMULATED, CHANGED, describe_trial, one_each
from .cases import measure, train
from .truth import mistakes, right

EXERCISE = WarmExercise(
    "train_accumulated",
    cases=[
        *(Alone(f"{number} micro-batches, a step after every {every}", train, (number, every))
          for number, every in ((6, 3), (6, 2), (4, 4), (4, 1))),
        Alone("memory, 8 micro-batches", measure, (make_model, (mean_loss,), samples_of([8] * 8))),
    ],
    work=run_alone,
    found=lambda case: ("weights",) if case.work is train else ("activations",),
    facts=[
        never("stands_still", "nothing has moved in {} optimizer steps",
              "you clear before the step: the step finds no gradient. step() first, then "
              "zero_grad()"),
        Equals("weights", right, mistakes, "weights"),
        Holds("steps", lambda steps: steps[0] == steps[1],
              lambda steps: f"{steps[0]} optimizer steps, expected {steps[1]}",
              "the weights are right, but optimizer.step() was not what moved them once for each "
              "batch"),
        never("other_rate", "the steps have another learning rate than the optimizer was given",
              "a smaller rate makes up for gradients that are too large with SGD alone: Adam would "
              "not notice. Leave the optimizer as it is, and let `.grad` have the mean"),
        one_each("passes"),
        CHANGED,
        never("left", "the gradients of the last step are still in `.grad`",
              "asked is that `.grad` is clean when the function ends: clear after the last step, "
              "too, not only before the first backward"),
        ACCUMULATED[-1],
    ],
    errors={"must match the size of tensor": "is it loss_fn that you call? Which loss that is, the "
            "caller chooses, and here it is another one than before"},
    right=lambda trial: describe_trial(trial) if trial.collect_values("activations") else
    "the steps and the weights of whole batches",
    hints=(
        "backward() adds to .grad by itself: nothing need be collected. What you write is "
        "when to step, and when to clear.",
        "Count the micro-batches from 1; a batch is complete if number % every == 0.",
        "The mean over a batch of equal parts is the sum of their means, each divided by "
        "`every`: divide the loss before backward().",
    ),
)  # fmt: skip
