"""Versions of the weights that all use the same memory."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import RankExercise, Wrong

from ..shared.unflushed import NOT_REQUIRED
from ..shared.unflushed_truth import (
    STAGE_WAS_RIGHT,
    cases_with,
    facts_with,
    names_found,
    report_delays,
)
from .cases import show_wrong_class, try_in_its_lab
from .truth import KEPT, mistakes

FINDS_A_BUG = True


class StageClassExercise(RankExercise):
    def trials(self, answer):
        if shown := call_next_to_answer(show_wrong_class, answer):
            why = (
                "it is to remain a class InPlaceStage(pipedream.StashingStage); give check() the "
                "class itself"
            )
            raise Wrong("your class", f"check() was given {shown}", why)
        return super().trials(answer)


EXERCISE = StageClassExercise(
    "InPlaceStage",
    needs=("stashing_stage", "pipeline"),
    cases=cases_with(2, 3),
    work=try_in_its_lab,
    found=names_found,
    facts=facts_with(mistakes, KEPT),
    right=report_delays,
    errors={
        "modified by an inplace operation": "autograd now notices that weights have changed which "
        "somebody under way still needs, and refuses. `.data` had only hidden that from it. To be "
        "told of the damage does not undo it",
        "a leaf Variable that requires grad": "autograd watches over the weights: those that "
        "somebody under way still needs stay as they are, and the next version is made of new "
        "tensors",
        "does not require grad": NOT_REQUIRED,
        "non-leaf": "a copy of what has a history: begin with weight.detach()",
        "'pipedream' is not defined": 'run the cell with pipedream = lab("pipedream") first',
        "changed size during iteration": "a dictionary cannot change while it is gone through",
    },
    on_hang=STAGE_WAS_RIGHT,
    hints=(
        "With one micro-batch at a time it is right. What is different when a second one has "
        "gone forward before the first comes back?",
        "self.stash keeps the dictionary that a forward has gone through, and autograd keeps "
        "its tensors. Neither has a copy: `.data -=` changes what both of them hold.",
        "Make the next version of new tensors, weight.detach() - self.lr * gradients[name], "
        "and leave the old ones as they are.",
        "Each new tensor is a leaf that requires a gradient: .requires_grad_(). Put them into "
        "a new dictionary self.weights[self.version]; the old one leaves self.weights.",
    ),
)  # fmt: skip
