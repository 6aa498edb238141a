"""The gradient of the mean loss over the tokens of all ranks, under DistributedDataParallel."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import (
    ENDS_WITH_PADDING,
    LARGE,
    MANY,
    RANK_OF_PADDING,
    SINGLE,
    THREE_EACH,
    count_and_go_back,
)
from .truth import (
    NAN,
    counts_once,
    mean,
    mean_of_large,
    mistakes,
    one_exchange_and_a_number,
    otherwise,
    why_so_many_bytes,
)

EXERCISE = RankExercise(
    "backward_tokens",
    lab="counted_over_ranks",
    cases=[
        RankCase(World(2), (THREE_EACH, LARGE), ", 3 micro-batches each"),
        RankCase(World(2), (SINGLE,), ", 1 micro-batch each"),
        RankCase(World(3), (RANK_OF_PADDING,), ", rank 1 has nothing but padding"),
        RankCase(World(2), (ENDS_WITH_PADDING,), ", rank 0 ends with padding"),
        RankCase(World(2), (MANY,), ", 3,009 tokens"),
    ],
    work=count_and_go_back,
    found=lambda case: ("grad", "large")[: len(case.args)],
    facts=[
        Equals("grad", mean, mistakes, "`.grad`", otherwise, same=close_in_float32),
        Holds("sentences", lambda more: more <= 0,
              "the gradients are right, but several micro-batches pass through the model at once",
              "one forward takes several micro-batches, and keeps the activations of all of them"),
        Holds("backwards", lambda more: more <= 0,
              "the gradients are right, but there are {} backwards more than micro-batches",
              "a backward for each sentence, or for each token, is slow: a sum over the whole "
              "micro-batch has all of them"),
        Holds("backwards", lambda more: more >= 0,
              "the gradients are right, but there are fewer backwards than micro-batches",
              "a loss keeps the activations of its micro-batch until its backward. Each has one of "
              "its own, before the next one comes"),
        never("together", "the gradients are right, but a forward begins while the activations of "
              "{} micro-batches before are still kept",
              "a backward frees the activations of its forward: let it come before the next one"),
        never("moved", "the weights are changed",
              "a step of the optimizer comes later: asked is what `.grad` is before it"),
        never("changed", "micro_batches are changed",
              "whoever called may still need them: leave the list and its tensors as they are"),
        never("silent", "the gradients are right, but `ddp` stays silent afterwards",
              "a backward that comes later would not average any more. no_sync() ends with its "
              "block; what you switch off by yourself, you have to switch on again"),
        counts_once,
        Equals("large", mean_of_large,
               called="the sum, a weighted sum and the norm of the gradients of a large model",
               same=close_in_float32),
        Sends(one_exchange_and_a_number, "one all-reduce of all gradients and a number are",
              why_so_many_bytes),
    ],
    right="the gradient of one process with the tokens of all ranks",
    errors={
        "ZeroDivisionError": NAN,
        "division by zero": NAN,
        "Expected target size": "flatten: logits (n, vocabulary), targets (n)",
        "multi-target not supported": "flatten: logits (n, vocabulary), targets (n)",
        "has no attribute 'no_sync'": "no_sync is a method of the wrapped model, `ddp`",
        "does not require grad": "the number of tokens has no gradient; the loss has",
    },
    on_hang="every rank has to do as many forwards, backwards and all-reduces as the others. A "
    "micro-batch of padding alone takes part, too: its gradient is 0",
    warm=True,
    hints=(
        "Write the right gradient as one fraction. Its numerator is a sum over all ranks; what is "
        "its denominator? Which of them does each rank know by itself?",
        'Count with one all-reduce before the first backward. F.cross_entropy(…, reduction="sum") '
        "does not divide, and ignores PADDING.",
        "DDP divides the sum over the ranks by n. So each rank's loss is its sum times n, divided "
        "by the number of tokens of all ranks. And under no_sync() go all micro-batches but the "
        "last, their forward as well.",
    ),
)  # fmt: skip
