"""The bytes of the model states that a rank keeps."""

from coursekit.kit import Formula

from .cases import KINDS
from .truth import MISTAKES, truth

MODELS = [(100, 64), (1003, 8, (4, 4, 8)), (3, 4, (2, 4, 16)), (100, 4, (8, 4, 20)), (7, 1)]


def case_of(P, n, each=()) -> str:
    return f"{P} parameters, n = {n}" + (f", each = {each}" if each else "")


def differs(call, wanted, got) -> str:
    kind = next(kind for kind in KINDS if wanted[kind] != got[kind])
    return f"stage {call[2]}, {kind}: expected {wanted[kind]:,}, got {got[kind]:,.10g}"


EXERCISE = Formula(
    "bytes_of_rank",
    cases={
        case_of(P, n, *each): [(P, n, stage, *each) for stage in range(4)]
        for P, n, *each in MODELS
    },
    truth=truth,
    right=lambda calls, values: "stages 0 to 3 keep {} bytes".format(
        ", ".join(f"{sum(value.values()):,}" for value in values)
    ),
    differs=differs,
    shape="these three keys, and no others; each value is a number",
    mistakes=MISTAKES,
    hints=(
        "How many numbers has a part? What is split is padded until n divides it, so all "
        "parts are as large as the largest.",
        "That is parameters / n, rounded up: -(-parameters // n). For each kind it is either "
        "this, or all parameters.",
        "From stage 1 on the optimizer's state is split, from stage 2 on the gradients, in "
        "stage 3 the parameters. Multiply each count by the bytes in `each`.",
    ),
)  # fmt: skip
