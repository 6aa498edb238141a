# Built from chapters/ch06_zero/labs/storages.py by `make build`.
"""The picture of tensors and the memory behind them: which numbers each tensor shows."""

from typing import NamedTuple

from matplotlib.patches import Rectangle

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.torch_private import identity_of_storage
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.pictures.style import (
    BLUE,
    CENTERED,
    EDGE,
    INK,
    MUTED,
    WHITE,
    Picture,
    new_canvas,
    tint,
    use_course_style,
)

CELL, ROW, NAMES, GAP = 0.36, 0.29, 1.55, 0.45  # inches
MOST_CELLS = 12


class Look(NamedTuple):
    """A tensor's view: its storage, its numbers there, and `values`, all numbers of the storage."""

    storage: int
    start: int
    length: int
    values: list


def looks_of(tensors: dict) -> dict[str, Look]:
    """Return {name: the present view of a tensor}, for tensors that are flat or contiguous."""
    return {
        name: Look(
            identity_of_storage(x.untyped_storage()), x.storage_offset(), x.numel(), values_in(x)
        )
        for name, x in tensors.items()
    }


def values_in(x) -> list:
    """Return all numbers in the storage of a tensor."""
    size = x.untyped_storage().nbytes() // x.element_size()
    return x.detach().new_empty(0).set_(x.untyped_storage(), 0, (size,)).tolist()


@use_course_style
def plot_storages(moments, title="") -> Picture:
    """Plot one storage as a row of numbers, at several moments, and what each tensor shows of it.

    moments  {title: {name: Look}}, as looks_of gives them, all with the same names; the storage is
             that of the first one
    Raises   LaunchError if there is no moment, or a storage has too many numbers to be drawn
    """
    need(moments, "plot_storages() takes at least one moment")
    first = next(iter(moments.values()))
    need(first, "plot_storages() takes at least one tensor")
    ends = (look.start + look.length for looks in moments.values() for look in looks.values())
    cells = max(*ends, *(len(memory_of(looks)) for looks in moments.values()))
    need(cells <= MOST_CELLS, f"plot_storages() draws storages of at most {MOST_CELLS} numbers")
    panel = CELL * cells + GAP
    figure, axes = new_canvas(NAMES + panel * len(moments), 1.25 + ROW * (len(first) + 1))
    axes.text(0.1, 0.2, title, weight="bold", fontsize=11, va="center")
    for row, name in enumerate(["the storage", *first]):
        axes.text(NAMES - 0.15, top_of(row) + ROW / 2, name, ha="right", va="center", fontsize=9.5)
    for number, (when, looks) in enumerate(moments.items()):
        left = NAMES + panel * number
        axes.text(left, 0.55, when, va="center", fontsize=9.5, weight="bold")
        draw_moment(axes, left, looks)
    return Picture(
        figure, "; ".join(f"{when}: {describe_looks(of)}" for when, of in moments.items())
    )


def top_of(row) -> float:
    return 0.75 + ROW * row + (0.08 if row else 0)


def memory_of(looks) -> list:
    """Return the numbers in the storage of the first tensor."""
    return next(iter(looks.values())).values


def draw_moment(axes, left, looks):
    storage, values = next(iter(looks.values())).storage, memory_of(looks)
    for k, value in enumerate(values):
        place = (left + CELL * k, top_of(0))
        axes.add_patch(Rectangle(place, CELL, ROW, fc=WHITE, ec=EDGE, lw=1))
        axes.text(
            left + CELL * (k + 0.5), top_of(0) + ROW / 2, f"{value:g}", fontsize=9, **CENTERED
        )
    if not values:
        axes.text(left, top_of(0) + ROW / 2, "0 bytes", va="center", color=MUTED, fontsize=9)
    for row, look in enumerate(looks.values(), 1):
        draw_look(axes, left, top_of(row), look, look.storage == storage, bool(values))


def draw_look(axes, left, top, look, is_here, is_there):
    if not (look.length and is_here):
        told = "another storage" if look.length else "no elements"
        axes.text(left, top + ROW / 2, told, va="center", color=MUTED, fontsize=8.5)
        return
    looks = {"fc": tint(BLUE, 0.35) if is_there else WHITE, "ec": BLUE if is_there else INK}
    place = (left + CELL * look.start + 0.03, top + 0.05)
    dashes = "-" if is_there else (0, (3, 2))
    size = CELL * look.length - 0.06, ROW - 0.1
    axes.add_patch(Rectangle(place, *size, lw=1.2, ls=dashes, **looks))


def describe_looks(looks) -> str:
    numbers = format_count(len(memory_of(looks)), "number")
    shown = ", ".join(f"{name} shows {look.length}" for name, look in looks.items())
    return f"the storage has {numbers}; {shown}"
