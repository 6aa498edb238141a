"""One matrix of a split product: what a rank has of it, or all ranks' parts."""

from matplotlib.patches import Rectangle

from ..measuring.placements import PARTIAL, REPLICATE, SHARD
from .placement_style import box, ink_on
from .split_product_layout import inches
from .split_product_sizes import part_sizes
from .style import CENTERED, EDGE

SMALLEST_CELL, FOR_NUMBER, THIN = 0.07, 0.13, 0.06  # inches
SHEETS, SHEET = 4, 0.03  # of a stack of summands


def draw_matrix(axes, matrix, left, middle, scale, n, rank):
    """What a rank has of a matrix; with None for a rank, all ranks' parts."""
    width, height = inches(matrix.columns, scale), inches(matrix.rows, scale)
    corner = left, middle - height / 2
    if matrix.placement == PARTIAL:
        ranks = range(min(n, SHEETS)) if rank is None else [rank]
        draw_summands(axes, corner, width, height, ranks)
        return
    whole = box(corner, width, height, None if matrix.placement == SHARD else REPLICATE)
    axes.add_patch(whole)
    if matrix.placement == SHARD:
        draw_parts(axes, matrix, whole, n, rank)
    if scale >= SMALLEST_CELL:
        draw_cells(axes, matrix, whole)


def draw_summands(axes, corner, width, height, ranks):
    """Sheets of the size of the whole that lie on each other, the first rank's in front."""
    for rank in reversed(ranks):
        shift = SHEET * (rank if len(ranks) > 1 else 0)
        axes.add_patch(box((corner[0] + shift, corner[1] - shift), width, height, PARTIAL, rank))


def draw_parts(axes, matrix, whole, n, rank):
    """One rank's part; or all of them, with the numbers of their ranks."""
    sizes = part_sizes((matrix.rows, matrix.columns)[matrix.dim], n)
    for owner, size in enumerate(sizes):
        if size and rank in (None, owner):
            part = part_of(whole, matrix.dim, sum(sizes[:owner]), size, sum(sizes), owner)
            axes.add_patch(part)
            if rank is None and min(part.get_width(), part.get_height()) >= FOR_NUMBER:
                write_owner(axes, part, owner)


def part_of(whole, dim, start, size, length, owner) -> Rectangle:
    """A part of a matrix along `dim`, from `start` on; `length` is the matrix's there."""
    (left, top), width, height = whole.get_xy(), whole.get_width(), whole.get_height()
    if dim == 0:
        part = box(
            (left, top + start / length * height), width, height * size / length, SHARD, owner
        )
    else:
        part = box(
            (left + start / length * width, top), width * size / length, height, SHARD, owner
        )
    part.set_linewidth(0.6 if min(part.get_width(), part.get_height()) > THIN else 0)
    return part


def write_owner(axes, part, owner):
    x, y = part.get_x() + part.get_width() / 2, part.get_y() + part.get_height() / 2
    looks = CENTERED | {"va": "center_baseline", "fontsize": 7.5, "color": ink_on(SHARD, owner)}
    axes.text(x, y, str(owner), **looks, zorder=3)


def draw_cells(axes, matrix, whole):
    """White lines between the numbers, and the outline again, over their ends."""
    (left, top), width, height = whole.get_xy(), whole.get_width(), whole.get_height()
    style = {"color": "white", "lw": 0.5, "alpha": 0.75, "zorder": 1.5}
    xs = [left + width * k / matrix.columns for k in range(1, matrix.columns)]
    ys = [top + height * k / matrix.rows for k in range(1, matrix.rows)]
    axes.vlines(xs, top, top + height, **style)
    axes.hlines(ys, left, left + width, **style)
    outline = {"fill": False, "edgecolor": EDGE, "lw": 0.6, "zorder": 1.6}
    axes.add_patch(Rectangle((left, top), width, height, **outline))
