"""A tensor in 8 bits per number, with one scale per block.

In the cases that compare values, every scale is a power of 2 and no number lies halfway between two
codes, so the only rounding is the one that the exercise asks for. The truth goes block by block in
Python.
"""

import torch

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NO_RETURN
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import CASES, COUNT, describe_result, real_numbers, there_and_back
from .codes_and_scales import NOT_A_NUMBER, ZEROS
from .truth import compute_known_values, compute_right_and_wrong, enough, make_lookup, most_off

EXERCISE = WarmExercise(
    "EightBits",
    lab="small_states",
    cases=[
        *(Alone(name, there_and_back, case) for name, case in CASES.items()),
        Alone("1,000 random numbers, some of them large", real_numbers),
    ],
    work=run_alone,
    known=compute_known_values,
    found=lambda case: (
        ("scales", "codes", "back") if case.work is there_and_back else ("came_back", "bytes")
    ),
    facts=[
        Holds("fault", lambda fault: fault is None, lambda fault: fault[0],
              lambda trial, place: trial[place].fault[1]),
        never("changed", "x has changed", "the numbers of x stay: make new tensors"),
        Equals("scales", lambda trial, place: compute_right_and_wrong(*trial.case.args)["right"][1],
               make_lookup("wrong scales"), same=close_in_float32),
        Holds("zero_scales", lambda scales: not any(scales),
              lambda scales: f"a block of zeros has scale {scales[0]:.3g}", ZEROS),
        Equals("codes", lambda trial, place: compute_right_and_wrong(*trial.case.args)["right"][0],
               make_lookup("wrong codes")),
        never("cast_from_nan", "a number that is nan is made an int8", NOT_A_NUMBER),
        Holds("back", lambda back: isinstance(back, torch.Tensor), "unpack returned {}",
              lambda trial, place: NO_RETURN if trial[place].back == "None" else
              "unpack returns a tensor"),
        Holds("back", lambda back: back.dtype == torch.float32,
              lambda back: f"unpack gives {str(back.dtype).removeprefix('torch.')}",
              "what comes back is float32, as x was"),
        Equals("back", make_lookup("back"), make_lookup("wrong back"), "what unpack gives",
               same=close_in_float32),
        Holds("came_back", enough,
              lambda came: f"a number is off by {most_off(came):.3g} times half a scale",
              "a number's block decides its scale, and its code is the nearest whole number"),
        Holds("bytes", lambda count: count <= COUNT + 4 * 16, "codes and scales take {:,} bytes",
              "a byte for each number, and 4 for each block, are enough"),
    ],
    right=describe_result,
    errors={
        "shape '[-1": "the last block may be shorter: the number of numbers need not be a multiple "
        "of the block",
        "is invalid for input of size": "the last block may be shorter: the number of numbers need "
        "not be a multiple of the block. And what unpack returns has as many numbers as x",
        "must match the size": "each number needs the scale of its own block: there are as many "
        "scales as blocks, and the last block may be shorter",
        "expected a non-empty list": "x has at least one number, and so at least one block",
        "iteration over a 0-d": "x may be a single number without a shape: x.flatten() has one "
        "dimension",
    },
    hints=(
        "x.flatten().split(self.block) gives the blocks. The last one may be shorter.",
        "The scale of a block is its largest magnitude, divided by 127. "
        "scales.repeat_interleave(self.block), cut off at the number of numbers, has the scale of "
        "each number.",
        "codes: divide, round, then .to(torch.int8). Where a scale is 0, divide by 1. unpack "
        "multiplies by the same repeated scales, and ends with .view(shape).",
    ),
)  # fmt: skip
