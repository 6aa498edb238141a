"""The picture of tensors and the memory behind them: which numbers each one looks at."""

from typing import NamedTuple

from matplotlib.patches import Rectangle

from ..basics.errors import need
from ..basics.torch_private import identity_of_storage
from ..basics.units import counted
from .style import (
    BLUE,
    CENTERED,
    EDGE,
    INK,
    MUTED,
    ORANGE,
    WHITE,
    Picture,
    in_course_style,
    new_canvas,
    tint,
)

CELL, ROW, NAMES, GAP = 0.36, 0.27, 1.75, 0.5  # inches
MOST_CELLS = 12


class Look(NamedTuple):
    """What a tensor looks at: which storage, and its numbers there; `values` has what is there."""

    storage: int
    start: int
    length: int
    values: list


def looks_of(tensors: dict) -> dict[str, Look]:
    """{name: what a tensor looks at now}, of tensors that are flat or contiguous."""
    return {
        name: Look(
            identity_of_storage(x.untyped_storage()), x.storage_offset(), x.numel(), values_in(x)
        )
        for name, x in tensors.items()
    }


def values_in(x) -> list:
    """All numbers in the storage of a tensor."""
    size = x.untyped_storage().nbytes() // x.element_size()
    return x.detach().new_empty(0).set_(x.untyped_storage(), 0, (size,)).tolist()


@in_course_style
def plot_storages(moments, title="") -> Picture:
    """Storages as rows of numbers, side by side for each moment; below each, who looks at what.

    moments  {title: {name: Look}}, as looks_of gives them, all with the same names
    Raises   LaunchError if there is no moment, or a storage has too many numbers to be drawn
    """
    need(moments, "plot_storages() takes at least one moment")
    cells = max(look.start + look.length for looks in moments.values() for look in looks.values())
    cells = max(cells, *(len(look.values) for of in moments.values() for look in of.values()))
    need(cells <= MOST_CELLS, f"plot_storages() draws storages of at most {MOST_CELLS} numbers")
    panel = CELL * cells + GAP
    rows = max(len(looks) + 1.6 * len(storages_in(looks)) for looks in moments.values())
    figure, axes = new_canvas(NAMES + panel * len(moments), 0.75 + ROW * (rows + 0.5))
    axes.text(0.1, 0.16, title, weight="bold", fontsize=11, va="center")
    for number, (when, looks) in enumerate(moments.items()):
        left = NAMES + panel * number
        axes.text(left, 0.5, when, va="center", fontsize=9.5)
        draw_moment(axes, left, cells, looks, with_names=number == 0)
    return Picture(figure, "; ".join(f"{when}: {told(of)}" for when, of in moments.items()))


def storages_in(looks) -> dict[int, list[str]]:
    """{storage: the names of those that look at it}"""
    found = {}
    for name, look in looks.items():
        found.setdefault(look.storage, []).append(name)
    return found


def draw_moment(axes, left, cells, looks, with_names):
    top = 0.75
    for number, names in enumerate(storages_in(looks).values()):
        values, color = looks[names[0]].values, (BLUE, ORANGE)[number % 2]
        draw_storage(axes, left, top, values)
        if with_names:
            axes.text(NAMES - 0.12, top + ROW / 2, "storage", ha="right", va="center", color=MUTED)
        for line, name in enumerate(names, 1):
            below = top + 1.1 * ROW + ROW * (line - 1)
            draw_look(axes, left, below, looks[name], bool(values), color)
            if with_names:
                axes.text(NAMES - 0.12, below + ROW / 2, name, ha="right", va="center", fontsize=9)
        top += ROW * (len(names) + 1.6)


def draw_storage(axes, left, top, values):
    for k, value in enumerate(values):
        axes.add_patch(Rectangle((left + CELL * k, top), CELL, ROW, fc=WHITE, ec=EDGE, lw=1))
        axes.text(left + CELL * (k + 0.5), top + ROW / 2, f"{value:g}", fontsize=9, **CENTERED)
    if not values:
        axes.text(left, top + ROW / 2, "0 bytes", va="center", color=MUTED, fontsize=9)


def draw_look(axes, left, top, look, is_there, color):
    if not look.length:
        axes.text(left, top + ROW / 2, "no elements", va="center", color=MUTED, fontsize=8.5)
        return
    looks = {"fc": tint(color, 0.35) if is_there else WHITE, "ec": color if is_there else INK}
    place = (left + CELL * look.start + 0.03, top + 0.05)
    dashes = "-" if is_there else (0, (3, 2))
    axes.add_patch(
        Rectangle(place, CELL * look.length - 0.06, ROW - 0.1, lw=1.2, ls=dashes, **looks)
    )


def told(looks) -> str:
    parts = []
    for names in storages_in(looks).values():
        values = looks[names[0]].values
        parts.append(f"{' and '.join(names)} look at {counted(len(values), 'number')}")
    return ", ".join(parts)
