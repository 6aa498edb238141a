"""A stage for slices of samples, with the gradients that later slices leave for earlier ones."""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from .cases import SIZES, work
from .truth import (
    AS_MANY,
    EACH_ITS_OWN,
    NOT_IN,
    PAIRS,
    mistakes,
    right,
    right_in_pipeline,
    why_others,
    why_twice,
)
from .whole_samples import CASES

EXERCISE = RankExercise(
    "SlicedStage",
    lab="sequence_slices",
    needs=("pipeline",),
    cases=[
        *(RankCase(World(1), (case,), f", {case}") for case in CASES),
        RankCase(World(2), (), ", slices of {}, {}, {} tokens".format(*SIZES)),
    ],
    work=work,
    found=lambda case: ("gradients",) if case.args else ("of_pipeline",),
    facts=[
        Equals("gradients", right, mistakes, "the gradient", why_others),
        never("left", "after the last backward self.kept still has something",
              "a slice that is through is kept no longer: self.kept.pop(i), as in Stage.backward"),
        never("more_passes", "the numbers are right, but norm_1 gets a gradient {} times more than "
              "there are slices",
              "some of the graph is gone through twice for each slice: torch.autograd.backward "
              "takes all outputs together, in lists, and needs no retain_graph"),
        Equals("of_pipeline", right_in_pipeline, called="the gradient", otherwise=NOT_IN),
    ],
    right=lambda trial: "all gradients of one pass over whole samples, in one process",
    explain=why_twice,
    errors={
        "implicitly created only for scalar": "after the last slice nobody has looked, so there is "
        "no gradient for its keys and values: leave an output out if its gradient is None. That of "
        "y is `gradient`, None only for a loss",
        "Mismatch in shape": EACH_ITS_OWN,
        "number of tensors in": AS_MANY,
        "got 2 tensors and": AS_MANY,
        "does not require grad": "some stage has tokens as its input, and no block: it has no "
        "past, and x no gradient. Only outputs that have a graph can go back",
        "'tuple' object has no attribute": PAIRS,
        "has no attribute 'grad'": PAIRS,
        "is not defined": "self.kept.pop(i) gives x and y",
    },
    on_hang=NOT_IN,
    hints=(
        "Stage.backward goes back from y alone. What else has this slice made that somebody "
        "has used? Those who did have gone back before.",
        "Each block's past has made[i], keys and values with their graph, and seen[i], the "
        "same as leaves, in whose `.grad` the gradients of all later slices have added up.",
        "Collect outputs and gradients in two lists: y with `gradient`, and each of made[i] "
        "with the `.grad` of its counterpart in seen[i], unless that is None.",
        "x, y = self.kept.pop(i); for each past zip(past.made[i], past.seen[i]); then one "
        "torch.autograd.backward(outputs, gradients); return x.grad.",
    ),
)  # fmt: skip
