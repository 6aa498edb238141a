"""A compiled step under DistributedDataParallel with two mistakes that raise no error."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World, never
from coursekit.kit.reference_training import HANGS

from .cases import try_step
from .truth import mean_gradients, own_losses, wrong_gradients, wrong_losses

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "compiled_step",
    cases=[RankCase(World(2)), RankCase(World(3))],
    work=try_step,
    facts=[
        Holds("is_function", bool, "what compiled_step() returns is no function",
              "it returns step, and does not call it"),
        Equals("gradients", mean_gradients, wrong_gradients, "`.grad` after two steps"),
        Equals("losses", own_losses, wrong_losses, "what step() returns"),
        Holds("graphs", lambda count: count > 0, "the gradients are right, but nothing is compiled",
              "call what compile_it() returns: the module that it was given stays as it is"),
        Holds("graphs", lambda count: count <= 2,
              "the gradients are right, but {} graphs are compiled in two steps",
              "compile once, before the first step: it takes much longer than a step"),
        never("graph", "what step() returns has a graph",
              "it keeps the activations of the step alive: detach it"),
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
