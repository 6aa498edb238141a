"""A compiled step under DistributedDataParallel with two mistakes that raise no error."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World, never
from coursekit.kit.reference_training import HANGS

from .cases import STEPS, WIDE, try_step
from .truth import mean_gradients, most_bytes, own_losses, wrong_gradients, wrong_losses

FINDS_A_BUG = True

MORE_THAN_ONCE = (
    "gradients are exchanged more than once in a step. DDP's backward leaves the mean over the "
    "ranks in `.grad`: nothing has to be averaged after it"
)

EXERCISE = RankExercise(
    "compiled_step",
    cases=[
        RankCase(World(2)),
        RankCase(World(3)),
        RankCase(World(2), (WIDE,), f", {WIDE:,} hidden units"),
    ],
    work=try_step,
    facts=[
        Holds("is_function", bool, "what compiled_step() returns is no function",
              "it returns step, and does not call it"),
        never("changed", "the weights have changed", "step() leaves gradients in `.grad`, and no "
              "optimizer or average changes a weight"),
        never("made", "step() calls {0[0]}", "wrap and compile once, before the first step: both "
              "take much longer than a step"),
        Equals("gradients", mean_gradients, wrong_gradients, "`.grad` after two steps"),
        Equals("losses", own_losses, wrong_losses, "what step() returns"),
        never("plain", "the gradients are right, but the model's own forward runs {} times in "
              f"{STEPS} steps, and nothing is compiled in it", "call what compile_it() returns, "
              "and give it the whole model: the module that it was given stays as it is"),
        Holds("compiled", lambda count: count == STEPS,
              f"the compiled model runs {{}} times in {STEPS} steps", "one forward is enough: the "
              "loss that is returned and the gradients come from the same"),
        never("evaluates", "model.training is False now", "the mode is the caller's"),
        never("graph", "what step() returns has a graph",
              "it keeps the activations of the step alive: detach it"),
        Sends(most_bytes, f"one all-reduce of all gradients in each of {STEPS} steps is",
              lambda trial, times: MORE_THAN_ONCE),
    ],
    right="compiled, and after each step the gradients of one process",
    errors={
        "'function' object has no attribute": "compile_it() takes a module, and returns what is "
        "called in its place. Gradients are cleared in the module itself",
        "object is not callable": "compile_it(module) returns what is called in the module's place",
    },
    on_hang=HANGS,
    warm=True,
    hints=(
        "The two ranks have different gradients: through which object does the forward go, and "
        "does DDP see it?",
        "compile_it(model) compiles the model inside DDP's wrapper. DDP prepares its all-reduce in "
        "a forward of its own, and that one is not called.",
        "And who divides by the number of ranks? DDP averages already.",
    ),
)  # fmt: skip
