"""The backward through the weights of the forward.

First a stage is driven by hand, and then three stages work as a pipeline without a flush.
"""

from coursekit.kit import RankExercise

from ..shared.unflushed import try_stage
from ..shared.unflushed_truth import (
    COPIES,
    STAGE_WAS_RIGHT,
    cases_with,
    facts_with,
    names_found,
    report_delays,
)
from .truth import BY_NAMES, KEEP_NEXT, mistakes, why_no_key

EXERCISE = RankExercise(
    "StashingStage",
    lab="pipedream",
    needs=("stage", "pipeline"),
    cases=cases_with(3),
    work=try_stage,
    found=names_found,
    facts=facts_with(mistakes, COPIES),
    right=report_delays,
    explain=why_no_key,
    errors={
        "only Tensors of floating point": "the first stage takes letters, of which there is no "
        "gradient: x.requires_grad_(x.is_floating_point())",
        "implicitly created only for scalar": "the last stage's output is the loss: then(…) makes "
        "it of what the piece gives",
        "a second time": "a graph is gone after its backward. Stage.backward goes through it; "
        "gradients_of only looks at what that has left in the stashed weights",
        "does not require grad": "what the weights are used for is to have a graph: without "
        "no_grad, and with the very tensors of `weights`",
        "is not defined": KEEP_NEXT,
        "referenced before assignment": KEEP_NEXT,
        "not associated with a value": KEEP_NEXT,
        "has no attribute": BY_NAMES,
        "'NoneType' object is not subscriptable": BY_NAMES,
        "list indices must be": BY_NAMES,
        "dict_keys": "a dictionary cannot be changed while it is gone through",
    },
    on_hang=STAGE_WAS_RIGHT,
    hints=(
        "A stage has its newest weights, and a micro-batch under way needs those that it began "
        "with. In forward: note them, then compute as Stage.forward does, with two changes.",
        "self.stash[i] = weights. x = x.detach(), which requires a gradient unless it is "
        "letters. In place of self.piece(x): functional_call(self.piece, weights, (x,)). And "
        "`then` comes after the piece.",
        "gradients_of: the backward has left its gradients in the `.grad` of the weights that "
        "micro-batch i has stashed. Take them out of the stash, collect, and clear.",
        "weights = self.stash.pop(i); collect {name: weight.grad …}; then weight.grad = None "
        "for each, which leaves the collected tensors as they are; zero_() would not.",
    ),
)  # fmt: skip
