"""Gradients of parameters that every rank has whole, after a backward of pieces."""

from coursekit.kit import Equals, RankExercise, never
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.results import VIEW

from ..shared.pieces_truth import SAME_CALLS
from .cases import CASES, sum_on_rank
from .truth import bytes_of_sums, sums, wrong_sums

EXERCISE = RankExercise(
    "sum_partial_gradients",
    lab="sequence_parallel",
    cases=CASES,
    work=sum_on_rank,
    facts=[
        never("changed", "a parameter has changed", "only gradients are to be added up"),
        never("gone", lambda names: f"{names[0]} has no gradient any more",
              "the sum belongs in p.grad; dist.all_reduce puts it into the tensor that it gets, "
              "and returns None"),
        never("frozen", "a frozen parameter has a gradient now",
              "a frozen parameter has no gradient, and is to get none"),
        never("filled", lambda names: f"{names[0]} had None, and has a gradient now",
              "None stays None: an optimizer passes over it. With zeros it would go on moving the "
              "parameter, by momentum or weight decay"),
        Equals("after", sums, wrong_sums, "the gradient"),
        SendLimit(bytes_of_sums, "all-reduces of whole gradients send",
                "more is sent: gradients of cut parameters need not travel, and an all-reduce "
                "sends less than everybody's gradients to everybody"),
    ],
    right="gradients of whole parameters are sums, those of cut ones are each rank's own",
    errors={
        "view size is not compatible": VIEW,
        "has no attribute 'cut_dim'": "a parameter that is cut has the attribute `cut_dim`, and "
        'one that is whole has none: hasattr(p, "cut_dim") tells',
        "NoneType": "some parameters have None for a gradient, on all ranks alike: pass over them",
        "a leaf Variable": "it is the gradients that are added up, p.grad, not the parameters",
    },
    on_hang=SAME_CALLS,
    hints=(
        "Which parameters has this rank seen with a piece of the context alone? And of which "
        "has it a part, and has seen the whole context with that?",
        'What is cut has the attribute cut_dim, which may be 0: hasattr(p, "cut_dim"). All '
        "others are whole.",
        "Go through model.parameters(). Pass over what is cut, and over gradients that are "
        "None; dist.all_reduce adds up the others in place, with the group.",
    ),
)  # fmt: skip
