"""Numbers in E4M3, with a power of two as the scale of each block.

A power of two divides exactly, so the only rounding is the cast to E4M3. The truth searches a table
of the numbers of E4M3, and tries one power of two after another.
"""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NO_RETURN
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import CASES, describe_result, there_and_back
from .truth import HIDDEN, NO_SCALE, compute_right_and_wrong

SHORTER = (
    "the last block of a row may be shorter: the length of a row need not be a multiple of the "
    "block. Zeros can fill it up, and are cut off again at the end"
)
NO_ARITHMETIC = (
    "PyTorch computes hardly anything with tensors of float8: convert them with .float() first"
)


ZEROS = "in a block of zeros, 0 / 0 is nan: its scale has to be larger than 0"
ANY_DIMENSIONS = "x may have any number of dimensions, from one on: the last one is a row"


def get_right(name):
    return lambda trial, place: compute_right_and_wrong(*trial.case.args)[name]


def right_powers(trial, place):
    """Return the right exponents; a block of zeros may have any that is a number."""
    right, got = compute_right_and_wrong(*trial.case.args), trial[place].powers
    is_free = right["is_free"] & (got != NO_SCALE)
    return got.where(is_free, right["powers"])


def why_powers(trial) -> str:
    right = compute_right_and_wrong(*trial.case.args)
    if (right["is_free"] & (trial[0].powers == NO_SCALE)).any():
        return ZEROS
    return HIDDEN if "inf" in str(trial.case) else ""


def why_elements(trial) -> str:
    """Return what made nan of a block of zeros, if that has happened."""
    return ZEROS if trial[0].elements.isnan().any() and "zeros" in str(trial.case) else ""


EXERCISE = WarmExercise(
    "MXFP8",
    lab="narrow_formats",
    cases=[Alone(name, there_and_back, case) for name, case in CASES.items()],
    work=run_alone,
    found=lambda case: ("powers", "elements", "back"),
    facts=[
        Holds("fault", lambda fault: fault is None, lambda fault: fault[0],
              lambda trial, place: trial[place].fault[1]),
        never("changed", "x has changed", "the numbers of x stay as they are: make new tensors"),
        Equals("powers", right_powers, get_right("wrong powers"),
               "the exponents of the scales (128 stands for nan)", otherwise=why_powers),
        Equals("elements", get_right("elements"), get_right("wrong elements"),
               otherwise=why_elements),
        Holds("kind", lambda kind: kind == "torch.float32",
              lambda kind: f"dequantize returns {kind.removeprefix('torch.')}",
              lambda trial, place: NO_RETURN if trial[place].kind == "None" else
              "what comes back is a tensor in float32, whatever x was"),
        Equals("back", get_right("back"), get_right("wrong back"), "what dequantize gives"),
        Equals("is_number", get_right("is_number"), called="where numbers come back",
               otherwise="a block with an inf or a nan comes back as nan, all of it, and no other "
               "block does"),
    ],
    right=describe_result,
    errors={
        "shape '[-1": SHORTER,
        "is invalid for input of size": SHORTER,
        "unflatten": SHORTER,
        "must match the size": "each number needs the scale of its own block. Blocks along a "
        "dimension of their own make that easy: unflatten the last dimension",
        "Promotion for Float8": NO_ARITHMETIC,
        "not implemented for 'Float8": NO_ARITHMETIC,
        "values to unpack": ANY_DIMENSIONS,
        "view size is not compatible": "x may be permuted, and .view takes no such tensor: "
        ".reshape copies the numbers where it has to",
        "BFloat16": "x may be bfloat16: x.float() has the same numbers in float32",
    },
    hints=(
        "F.pad(x, (0, k)) adds k zeros to each row, and unflatten(-1, (-1, block)) cuts rows into "
        "blocks. `split_rows` and `join_rows` in the lab do this.",
        "Divide each block's largest magnitude by 448, in float64 because log2 is rounded. The "
        "scale is the next power of two: .log2().ceil().exp2(). The log2 of 0 is -inf, so clamp "
        "the exponent at -127.",
        "An inf or a nan among the numbers makes the largest magnitude inf or nan, and a cast to "
        "float8_e8m0fnu makes nan of both. So nothing has to be done for them.",
        "dequantize: elements.float() in blocks, times scales.float().unsqueeze(-1).",
    ),
)  # fmt: skip
