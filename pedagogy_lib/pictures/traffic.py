"""Pictures of bytes from rank to rank: a square for each pair, in the colour of their group."""

from typing import NamedTuple

import numpy as np
from matplotlib.patches import Rectangle

from ..basics.errors import need
from ..basics.units import byte_unit, format_bytes, format_count
from .legends import legend_above
from .rank_rows import MOST_NAMED, need_run
from .style import (
    CENTERED,
    COLORS,
    CYCLE,
    EDGE,
    GREEN,
    GROUND,
    INDIGO,
    OLIVE,
    OTHER,
    ROSE,
    WHITE,
    Picture,
    bare,
    label_ink,
    new_figure,
    use_course_style,
)

# The colours of mesh axes, the same as elsewhere for the data that travel along them, if any.
AXIS_COLORS = {
    "dp": COLORS["gradients"], "pp": COLORS["activations"], "tp": INDIGO,
    "ep": GREEN, "cp": ROSE, "edp": OLIVE, "world": OTHER,
}  # fmt: skip
MOST_WRITTEN = 8  # ranks whose bytes are written into the squares
LEAST_SHOWN, LEAST_WRITTEN = 0.001, 0.03  # as shares of the largest number
LARGEST = 0.94  # side of a square, as a share of a cell's


class Traffic(NamedTuple):
    """Bytes from rank to rank through groups of one name: an array [from, to]."""

    group: str
    matrix: np.ndarray
    color: str


@use_course_style
def plot_traffic(run, label, groups=None, title="") -> Picture:
    """Draw a block's bytes from each rank to each other one, as squares with areas in proportion.

    Pairs of ranks on one machine are shaded, if the run had machines. If two groups connect the
    same ranks, their squares lie inside each other.

    groups   the names of process groups, if not all: their `group_desc`, or axes of a DeviceMesh
    Raises   LaunchError for a group that has sent nothing
    """
    need_run(run, 'plot_traffic(run, "label")')
    block, n = run[label], run.world_size
    names = list(groups) if groups is not None else block.groups
    colors = group_colors(names)
    shown = [Traffic(name, np.array(block.traffic(name)), colors[name]) for name in names]
    need(shown, f"in {label!r} no rank has sent anything to another one")
    most = max(traffic.matrix.max() for traffic in shown)
    side = 5.4 if n <= MOST_NAMED else 7.0
    figure, axes = new_figure(side + 0.4, side + (1.2 if title else 0.8))
    places = run.machines.places(n) if run.machines else []
    shade_machines(axes, places)
    patches = [draw_traffic(axes, traffic, most, n) for traffic in shown]
    name_rows(axes, n)
    legend_above(axes, [patch for patch in patches if patch])
    figure.suptitle(title, x=0.02, ha="left", weight="bold")
    return Picture(figure, describe_traffic(shown, label, places))


def group_colors(names) -> dict[str, str]:
    free = iter(CYCLE * len(names))
    return {name: AXIS_COLORS.get(name) or next(free) for name in names}


def shade_machines(axes, places):
    for machine in sorted(set(places)):
        first, size = places.index(machine), places.count(machine)
        box = (first - 0.5, first - 0.5), size, size
        axes.add_patch(Rectangle(*box, facecolor=GROUND, edgecolor=EDGE, lw=0.8, zorder=0))


def draw_traffic(axes, traffic, most, n):
    """Draw a square for each pair; return their legend handle, or None without squares."""
    patch = None
    for source, target in np.argwhere(traffic.matrix > LEAST_SHOWN * most):
        sent = traffic.matrix[source, target]
        side = LARGEST * np.sqrt(sent / most)
        corner = target - side / 2, source - side / 2
        patch = axes.add_patch(Rectangle(corner, side, side, facecolor=traffic.color, zorder=2))
        if n <= MOST_WRITTEN and sent > LEAST_WRITTEN * most:
            write_bytes(axes, (target, source), sent, side, traffic.color)
    if patch is not None:
        total = format_bytes(int(traffic.matrix.sum()))
        patch.set_label(f"{traffic.group}: {total}")
    return patch


def write_bytes(axes, place, sent, side, color):
    """Write the bytes into the square, or below it if it is too small."""
    fits = side > 0.75
    ink = label_ink(color) if fits else label_ink(WHITE)
    x, y = place
    axes.text(x, y if fits else y + side / 2 + 0.13, brief_bytes(sent),
              **CENTERED, color=ink, fontsize=7, zorder=3)  # fmt: skip


def brief_bytes(count) -> str:
    unit, size = byte_unit(count)
    return f"{count / size:#.3g}".rstrip(".") + f" {unit}"


def name_rows(axes, n):
    every = 1 if n <= MOST_NAMED else n // 8
    for rank in range(0, n, every):
        axes.text(-0.75, rank, f"{rank}", ha="right", va="center", fontsize=9)
        axes.text(rank, -0.75, f"{rank}", ha="center", va="bottom", fontsize=9)
    margin = 0.016 * n
    axes.text(-0.75 - 3 * margin, (n - 1) / 2, "from rank", rotation=90, ha="right", va="center")
    axes.text((n - 1) / 2, -0.75 - 2.6 * margin, "to rank", ha="center", va="bottom")
    axes.add_patch(Rectangle((-0.5, -0.5), n, n, fill=False, edgecolor=EDGE, lw=0.8))
    axes.set_aspect("equal")
    bare(axes, (-0.75 - 6 * margin, n - 0.4), (n - 0.4, -0.75 - 4.5 * margin))


def describe_traffic(shown, label, places) -> str:
    told = []
    for traffic in shown:
        total = traffic.matrix.sum()
        pairs = format_count(int((traffic.matrix > 0).sum()), "pair")
        text = f"{traffic.group} {format_bytes(int(total))}, from rank to rank in {pairs}"
        if places:
            across = traffic.matrix[np.not_equal.outer(places, places)].sum()
            text += f", of it {format_bytes(int(across))} from machine to machine"
        told.append(text)
    return f"Bytes from rank to rank in {label}: {'; '.join(told)}"
