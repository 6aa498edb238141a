"""A program of ZeRO stage 1 with a bug, in which each parameter has an owner.

The truth is one process that follows the mean of all ranks' gradients and leaves a parameter
alone in a step without a gradient for it.
"""

from coursekit.kit import Equals, RankExercise

from .cases import case_of, try_owners
from .truth import mistakes, need_one_owner, need_shared, right

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "train_by_owner",
    cases=[
        case_of(2, "SGD with momentum", 1),
        case_of(2, "SGD with momentum", 2),
        case_of(2, "SGD with momentum", 5),
        case_of(3, "Adam", 5),
        case_of(4, "Adam", 5, "a"),
    ],
    work=try_owners,
    found=lambda case: ("first" if case.args[1] == 1 else "weights", "held"),
    facts=[
        need_one_owner,
        Equals("first", right, mistakes, "the weight"),
        Equals("weights", right, mistakes, "the weight",
               otherwise="the steps before were right: what does this step take over from them, "
               "and what is lost or left over? Think of the optimizer's state, of gradients, and "
               "of the weights that other ranks have updated"),
        need_shared,
    ],
    right="the weights of one process",
    errors={
        "NoneType": "a parameter whose layer is not used in a step has no gradient then: its "
        "`.grad` is None",
        "a leaf Variable that requires grad": "what autograd knows of may not be changed in place: "
        "p.detach() has the same memory",
        "empty parameter list": "a rank that owns nothing needs no optimizer",
    },
    on_hang="every rank has to make the same calls in the same order: the owner and the others "
    "reduce and broadcast alike, and all ranks have to agree on who the owner is",
    warm=True,
    hints=(
        "As long as all layers are used in all steps, it is right. Write down for two steps, "
        "one of them without a layer in the middle, who owns which parameter.",
        "A parameter's number decides who owns it. What is it a number among?",
        "Number all parameters of the model, and leave out those without a gradient only "
        "after that.",
    ),
)  # fmt: skip
