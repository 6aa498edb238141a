"""Pictures of the chunks that ranks hold, and of the ranks whose numbers are in each chunk.

The data come from real runs. Rank r fills its chunks with 2**r, so that the bits of a sum show
whose numbers are in it: 0 is nothing, 5 is ranks 0 and 2.
"""

import math

from matplotlib.patches import Rectangle

from ..basics.errors import need
from .legends import legend_below, outline_sample, sample
from .style import (
    CENTERED,
    EDGE,
    INK,
    RANK_COLORS,
    Picture,
    label_ink,
    new_figure,
    use_course_style,
)

GAP = 0.12
LEGEND = 6.4  # inches that the legend takes


@use_course_style
def plot_holdings(pictures: dict, columns=4) -> Picture:
    """Draw small grids of ranks (rows) and chunks (columns), one for each moment or operation.

    pictures  {title: values}; values[rank][chunk] is a sum of 2**r over the ranks r whose numbers
              are in that chunk, 0 for nothing. A cell has a stripe for each of them. The digit
              after the point, less one, is the chunk's own number: 4.3 is rank 2's chunk 2,
              wherever it is
    columns   grids beside each other
    Raises    LaunchError if the grids differ in their ranks, or have too many
    """
    check_values(list(pictures.values()))
    n = len(next(iter(pictures.values())))
    columns = min(columns, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    size = (max(9.6 / 4 * columns, LEGEND), 0.45 + (0.42 + 0.25 * n) * rows)
    figure, grid = new_figure(*size, nrows=rows, ncols=columns, squeeze=False)
    chunks = max(len(row) for values in pictures.values() for row in values)
    for index, (axes, (title, values)) in enumerate(zip(grid.flat, pictures.items())):
        draw_grid(axes, values, chunks, with_names=index % columns == 0)
        axes.set_title(title, fontsize=9.5)
    for axes in grid.flat:
        axes.axis("off")
    legend(figure, n)
    return Picture(
        figure, "; ".join(f"{name}: {describe_chunks(values)}" for name, values in pictures.items())
    )


def draw_grid(axes, values, chunks, with_names):
    """Draw a row of cells for each rank, and above them the numbers of several chunks."""
    n = len(values)
    for rank, row in enumerate(values):
        for chunk, value in enumerate(row):
            draw_cell(axes, chunk, rank, value, n)
            write_number(axes, chunk, rank, value, n)
        if with_names:
            axes.text(-0.25, rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=8.5)
    for chunk in range(chunks) if chunks > 1 else ():
        axes.text(chunk + 0.5, -0.12, str(chunk), ha="center", fontsize=8.5, color=INK)
    axes.set_xlim(-0.1, chunks + 0.1)
    axes.set_ylim(n + 0.1, -0.4)


def check_values(grids):
    ranks, most = {len(values) for values in grids}, len(RANK_COLORS)
    need(
        len(ranks) == 1 and max(ranks) <= most,
        f"plot_holdings() draws grids of the same number of ranks, up to {most}",
    )


def draw_cell(axes, left, top, value, n, width=1.0, height=1.0):
    """Draw a box with one stripe for each rank whose numbers are in it."""
    pad = GAP / 2
    box = (left + pad * width, top + pad * height, width * (1 - GAP), height * (1 - GAP))
    inside = sources(value, n)
    for index, rank in enumerate(inside):
        stripe = box[2] / len(inside)
        corner = (box[0] + index * stripe, box[1])
        axes.add_patch(Rectangle(corner, stripe, box[3], facecolor=RANK_COLORS[rank], lw=0))
    axes.add_patch(Rectangle(box[:2], *box[2:], facecolor="none", edgecolor=EDGE, lw=0.7))
    if len(inside) == n > 1:  # complete
        axes.add_patch(Rectangle(box[:2], *box[2:], facecolor="none", edgecolor=INK, lw=1.5))


def write_number(axes, chunk, rank, value, n):
    """Write the chunk's own number, if the value has one."""
    if number := own_number(value):
        ink = label_ink(RANK_COLORS[sources(value, n)[0]])
        axes.text(chunk + 0.5, rank + 0.53, number, **CENTERED, fontsize=9, color=ink)


def sources(value, n) -> list[int]:
    """Return the ranks whose numbers are in a value."""
    return [rank for rank in range(n) if int(value) >> rank & 1]


def own_number(value) -> str:
    """Return the chunk's own number, or "" if the value has none."""
    return "" if value == int(value) else str(round(value % 1 * 10) - 1)


def describe_chunks(values) -> str:
    """Describe whose numbers are in each chunk, such as `rank 0: 0 1 – 0+1`."""
    lines = []
    for rank, row in enumerate(values):
        cells = [text_of(value, len(values)) for value in row]
        lines.append(f"rank {rank}: {' '.join(cells)}")
    return ", ".join(lines)


def text_of(value, n) -> str:
    number = own_number(value)
    return ("+".join(map(str, sources(value, n))) or "–") + (f".{number}" if number else "")


def legend(figure, n):
    """Draw a legend that says whose numbers each colour stands for."""
    colors = {f"from rank {rank}": sample(facecolor=RANK_COLORS[rank]) for rank in range(n)}
    legend_below(figure, colors | {"the sum of all": outline_sample(1.5)})
