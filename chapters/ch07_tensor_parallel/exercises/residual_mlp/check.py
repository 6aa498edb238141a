"""Half a transformer block without a sum in its backward. The truth is one process."""

from coursekit.kit import RankCase, World
from coursekit.kit.forward_backward import make_reference_exercise, right

from .cases import prepare
from .truth import gradients_of, y_of

FINDS_A_BUG = True

EXERCISE = make_reference_exercise(
    "residual_mlp",
    cases=[RankCase(World(n)) for n in (1, 2, 3)],
    prepare=prepare,
    y=right("y", y_of, otherwise="the forward was right as it was"),
    gradients=gradients_of,
    needs=("copy", "all_reduce"),
    hints=(
        "Follow the gradient backwards from y. Where does it come to what is cut, and where "
        "does it come back to what all ranks have?",
        "On its way back through `up` each rank's gradient comes through its own features. The "
        "sum of all ranks' is missing: for x, and for the norm's parameters. The residual's "
        "gradient is whole already.",
        "Copy is what stands at the entry of the parallel region: forward nothing, backward "
        "the sum. Everything that is on all ranks has to be before it: the norm, too.",
    ),
)  # fmt: skip
