"""Gradients that are each averaged by a hook."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World, never
from coursekit.kit.reference_training import one_exchange

from ..shared.large_models_truth import Travels, right_if_large
from ..shared.state_snapshot_truth import leaves_alone
from .cases import run_backwards
from .truth import (
    check_early_sends,
    check_sent_once,
    describe_norms,
    gradients_known,
    list_found,
    mean,
    mistakes,
    why_moved,
    why_so_many_bytes,
    why_two_biases,
)

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "average_in_backward",
    cases=[RankCase(World(3), (False,)), RankCase(World(2), (True,), ", the first weight frozen")],
    work=run_backwards,
    known=gradients_known,
    found=list_found,
    facts=[
        never("thawed", "a parameter that was frozen is trainable now",
              "frozen parameters stay frozen: they have no gradient, and need no hook"),
        Holds("moved", lambda gap: not gap, "the backward has changed weights by up to {:.2g}",
              why_moved),
        leaves_alone,  # before the gradients, which depend on the weights
        check_sent_once,
        never("late", "`.grad` changes after backward() has returned",
              "it is right a little later: backward() has returned before the exchange was over. "
              "What async_op=True begins has to be waited for"),
        Equals("grad", mean, mistakes, otherwise=why_two_biases, tells=describe_norms),
        never("patched", lambda names: f"the numbers are right, and {names[0]} is another one now",
              "a hook on each parameter is enough. What all backwards go by stays as it is"),
        check_early_sends,
        right_if_large(),
        Travels(one_exchange),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    right="the mean gradient after two backwards, the second without zero_grad()",
    errors={
        "doesn't require gradient": "a parameter that is frozen (requires_grad is False) never "
        "gets a gradient, and takes no hook",
        "NoneType": "a hook runs when its own gradient is there, and this one finds None in a "
        "`.grad`. Either it looks into another parameter's: a name that a loop changes has its "
        "last value by then. Or it runs too soon: one of register_hook runs before `.grad` is "
        "filled, and gets the gradient as its argument",
    },
    on_hang="every rank has to make the same calls in the same order: also in hooks",
    hints=(
        "Look at what travels. What does autograd give to a post-accumulate hook as its "
        "argument: a gradient, or a parameter?",
        "When the hook runs, parameter.grad is filled. Frozen parameters take no hook.",
        "Sum up parameter.grad over the ranks, in place, then divide it.",
    ),
)  # fmt: skip
