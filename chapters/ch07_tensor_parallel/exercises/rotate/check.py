"""Rotary positions: pairs of numbers, each rotated by an angle of its place."""

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from coursekit.kit.results import text_of
from pedagogy_lib.basics.closeness import close

from .cases import DTYPES, draw_heads, find_gradient, is_new, places_of, rotate_half
from .truth import MISTAKES, rotated, truth

FAR = (
    "far places are rotated by other angles. In float32, 100,000 times a speed is off by some "
    "thousandths: compute the angles in float64, places and speeds, and round cosines and sines"
)

ROUND_TABLES = "cosines and sines are rounded to the dtype of x: .to(x.dtype)"

ROUNDED_ANGLES = (
    "the places or speeds are rounded to the dtype of x, and bfloat16 has no 999: compute angles "
    "in float64, and round only their cosines and sines"
)


def differs(call, wanted, got) -> str:
    """Describe the first wrong number by its place and by its index in the head."""
    x, places, *_ = call
    shapes = [list(torch.tensor(of).shape) for of in (wanted, got)]
    if shapes[0] != shapes[1]:
        return f"expected the shape {shapes[0]}, as x has, got {shapes[1]}"
    flat = [torch.tensor(of).double().reshape(-1, *x.shape[-2:]) for of in (wanted, got)]
    off = (~torch.isclose(*flat, rtol=1e-6, atol=1e-6)).nonzero()
    if not len(off):
        return ""
    at, i = off[0, 1:].tolist()
    numbers = [of[off[0, 0], at, i].item() for of in flat]
    return (
        f"place {places[at]}, number {i} of {x.shape[-1]}: expected {numbers[0]:.6g}, got "
        f"{numbers[1]:.6g}"
    )


def rounds_once(answer):
    """Yield a line if bfloat16 stays bfloat16, with one rounding; raise `Wrong` if not."""
    x, places = draw_heads(22, 4, 3, 16), places_of(4, 5, 1000)
    dtype, y = call_next_to_answer(rotate_half, answer, x, places)
    if dtype != "torch.bfloat16":
        raise Wrong(
            "queries in bfloat16", f"expected a tensor of torch.bfloat16, got {dtype}",
            "the result is rounded to the dtype of x: .to(x.dtype)",
        )  # fmt: skip
    exact = rotated(x.bfloat16().double(), places)
    if y.shape != exact.shape or ((y - exact).abs() > exact.abs() / 2**8 + 1e-5).any():
        raise Wrong(
            "queries in bfloat16", "numbers are off by more than one rounding to bfloat16",
            "cosines, sines and products are rounded, too: rotate in float32, and round the "
            "result alone",
        )  # fmt: skip
    yield "bfloat16 stays bfloat16, rounded once"


def keeps_precision(answer, dtype):
    """Raise `Wrong` unless x of this dtype is rotated as exactly as the dtype allows."""
    case, places = f"queries in {str(dtype)[6:]}, far places", places_of(2001, 99_999)
    x = draw_heads(22, 3, 2, 8).to(dtype)
    y = call_next_to_answer(answer, x, places)
    got = getattr(y, "dtype", None)
    if got != dtype:
        raise Wrong(case, f"expected a tensor of {dtype}, got {got}", ROUND_TABLES)
    wanted = rotated(x.double(), places)
    off = (y.double() - wanted).abs().max().item()
    if not off <= max(8 * torch.finfo(dtype).eps, 1e-9) * wanted.abs().max():
        raise Wrong(
            case, f"a number is off by {off:.1g}",
            ROUND_TABLES if dtype == torch.float64 else ROUNDED_ANGLES,
        )  # fmt: skip


def goes_back(answer):
    """Yield a line if the result has x's dtype and history; raise `Wrong` if not."""
    x, slope, places = draw_heads(20, 2, 3, 4), draw_heads(21, 2, 3, 4), places_of(4, 5, 6)
    for dtype in DTYPES:
        keeps_precision(answer, dtype)
    if not call_next_to_answer(is_new, answer, x, 0 * places):
        raise Wrong("places 0, 0, 0", "the result has the memory of x", "return a new tensor")
    gradient = call_next_to_answer(find_gradient, answer, x, places, slope)
    if gradient is None or not close(gradient, rotated(slope, -places)):
        told = "x has no gradient" if gradient is None else "x has another gradient"
        raise Wrong(
            "its gradient", told,
            "queries and keys are results of layers that learn: rotate them by operations that "
            "autograd follows, without detach, tolist or numpy",
        )  # fmt: skip
    yield "the gradient is rotated back"


def also(answer):
    yield from goes_back(answer)
    yield from rounds_once(answer)


EXERCISE = Formula(
    "rotate",
    lab="llama",
    cases={
        "one pair, places 0, 1, 2": [(draw_heads(0, 1, 3, 2), places_of(0, 1, 2))],
        "2 heads of 6 numbers": [(draw_heads(1, 2, 4, 6), places_of(0, 1, 2, 3))],
        "a rank's piece, places 6 to 8": [(draw_heads(2, 2, 2, 3, 4), places_of(6, 7, 8))],
        "a zigzag's places": [(draw_heads(3, 2, 4, 8), places_of(2, 3, 12, 13))],
        "transposed heads": [
            (draw_heads(7, 2, 5, 3, 8).transpose(1, 2), places_of(0, 1, 2, 3, 4))
        ],
        "base 10,000, then 500,000": [
            (draw_heads(4, 3, 2, 6), places_of(2, 3)),
            (draw_heads(4, 3, 2, 6), places_of(2, 3), 500_000.0),
        ],
        "far places": [(draw_heads(5, 2, 2, 8), places_of(99_999, 100_000))],
        "one token, without heads": [(draw_heads(6, 1, 4), places_of(7))],
    },
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    explain=lambda found, case: FAR if case == "far places" else "",
    right=lambda calls, values: f"rotated, {text_of(list(calls[0][0].shape))}",
    also=also,
    asked="a tensor of x's shape",
    errors={
        "must match the size": "angles are (places, size / 2). They fit each half of x, whose "
        "last two dimensions are places and half a head",
        "values to unpack": "x may have any number of leading dimensions, or none: unpack none",
        "view size is not compatible": "x may be transposed, and view needs numbers that lie one "
        "after another in memory: reshape, chunk and cat take any tensor",
        "float() argument": "places is a tensor: places.to(torch.float64)",
    },
    hints=(
        "The angles are a table, a row per place and a column per pair: "
        "places.unsqueeze(-1) * speeds, both in float64.",
        "x.chunk(2, -1) gives the two halves a and b, and number i of a and number i of b are a "
        "pair.",
        "torch.cat([a * cos - b * sin, b * cos + a * sin], -1), with cos and sin of the angles. "
        "x and both tables are float32 at least; the result is rounded to x.dtype.",
    ),
)  # fmt: skip
