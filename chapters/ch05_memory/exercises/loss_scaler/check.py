"""A loss scaler, which multiplies the loss by a factor and divides the gradients by it.

The cases give the gradients of a scaled loss, some with inf or nan. The truth is
torch.amp.GradScaler.
"""

from coursekit.kit import Equals, Holds, Wrong, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import TRIALS, take_steps
from .truth import (
    compute_known_values,
    describe_result,
    right,
    wrong_gradients,
    wrong_scales,
    wrong_steps,
)


class GeneratorCaseExercise(WarmExercise):
    """An exercise whose last case gets a generator where the others get a list."""

    def judge(self, trial):
        try:
            return super().judge(trial)
        except Wrong as wrong:
            if len(trial.case.args) == 3:
                raise
            raise Wrong(wrong.case, wrong.what, (
                "with a list it was right. model.parameters() is a generator, and can be gone "
                "through once: the second loop finds nothing left. Begin with a list of the "
                "gradients"
            )) from None  # fmt: skip


EXERCISE = GeneratorCaseExercise(
    "LossScaler",
    lab="memory",
    cases=[
        Alone(f"{name}, window={trial[1]}", take_steps, trial) for name, trial in TRIALS.items()
    ],
    work=run_alone,
    known=compute_known_values,
    facts=[
        Holds("scale_after", lambda scales: scales.all(), "the scale has become 0",
              "// makes 0 of a half: the factor may well become smaller than 1"),
        never("is_shared", "with a second LossScaler the same steps lead to other scales",
              "what one LossScaler has counted is in another as well: it belongs to self, and not "
              "to the class or to the file"),
        Holds("taken", lambda taken: taken.max() < 2,
              lambda taken: f"take_step() is called {taken.max()} times in a step",
              "take_step() is called more than once: a step each time"),
        Equals("taken", right("taken"), wrong_steps, "calls_of_take_step"),
        Equals("scale_after", right("scale_after"), wrong_scales),
        never("zeros", "when the step is taken, a parameter without a gradient has one",
              "a parameter without a gradient keeps None: an optimizer passes over it. With zeros "
              "it would go on moving"),
        Equals("gradients", right("gradients"), wrong_gradients, "gradients_when_stepping"),
        never("changed", "a parameter has changed",
              "the weights are divided, or changed in another way; it is p.grad that has the "
              "factor"),
        Holds("returned", lambda returned: None not in returned, "it returned None",
              "a function without `return` gives None; step() tells whether the step was taken"),
        Holds("returned", lambda returned: not any(isinstance(one, str) for one in returned),
              lambda returned: f"it returned {max(map(str, returned), key=len)}",
              "asked is whether the step was taken: True or False"),
        Equals("returned", right("returned"),
               otherwise="True if the step was taken, False if it was refused"),
    ],
    right=describe_result,
    errors={
        "'NoneType' object is not callable": "take_step is a function without arguments: "
        "take_step()",
        "'NoneType'": "a parameter that had no part in the loss has no gradient: p.grad is None",
        "'generator'": "model.parameters() is a generator: it has no length, and can be gone "
        "through once. Make a list of it first",
        "positional argument": "take_step is a function without arguments: take_step()",
    },
    hints=(
        "What must be known before take_step() is called? And in which state must the "
        "gradients be when it is?",
        "Make a list of the gradients that are not None. Divide each in place by self.scale, "
        "and look whether every element of all of them is finite.",
        "If not: halve self.scale, self.good = 0, return False, without a step.",
        "Else take the step and count it in self.good. When self.good has come to self.window, "
        "double self.scale and begin to count anew. Return True.",
    ),
)  # fmt: skip
