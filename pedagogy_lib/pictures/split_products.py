"""The picture of a matrix product that is split over ranks: who has what, and what is sent."""

from typing import NamedTuple

from matplotlib.patches import FancyArrowPatch, Rectangle

from ..basics.units import counted
from .placement_style import (
    EDGE,
    MUTED,
    PARTIAL,
    REPLICATE,
    SHARD,
    box,
    in_inches,
    ink_on,
    legend,
    mixed,
    name_rank,
    part_sizes,
)
from .split_product_sizes import (
    TITLES,
    Matrix,
    check,
    count_of,
    idle_ranks,
    in_short,
    matrices_of,
    messages_of,
    told,
    work_of,
)
from .style import COLORS, INK, Picture, in_course_style, new_figure

WIDTH = 9.6  # this and all that follow are inches
EDGE_LEFT, LEFT, RIGHT = 0.12, 0.98, 8.0  # of the names, and of the equation
KEPT, MULTIPLIED = 8.7, 9.48  # right ends of two columns of numbers
TOP, HEADS, BELOW, LINE, LEGEND = 0.42, 0.62, 0.26, 0.23, 0.55
ROW_GAP, MORE = 0.14, 0.22  # between rows; a row that stands for some ranks
SPACES = {"": 0, "sum": 0.52, "|": 0.34}  # in front of a matrix; for a sign:
SIGN = 0.2
HIGHEST, HIGH = 0.9, 3.4  # of one matrix, of all rows together
NARROWEST, SMALLEST_CELL, FOR_NUMBER, THIN = 0.6, 0.07, 0.13, 0.06
FLATTEST = 0.16  # a matrix, however few its rows or columns are
STORED_LEFT, STORED_HIGH = 7.05, 0.55
MOST_ROWS = 6  # of ranks; with more, some in the middle are left out
SHEETS, SHEET = 4, 0.03  # of a stack of summands


class Layout(NamedTuple):
    """Where things are: inches for each number of a matrix, left edges, and rows' heights."""

    scale: float
    lefts: list[float]
    gaps: list[float]  # in front of each matrix
    row: float
    ranks: list[int | None]

    @property
    def middle(self) -> float:
        """Of the row of all ranks together."""
        return TOP + HEADS + self.row / 2

    @property
    def first(self) -> float:
        """The top of rank 0."""
        return TOP + HEADS + self.row + BELOW

    def middles(self) -> list[float]:
        """Of each row; None in `ranks` stands for several of them."""
        heights = [MORE if rank is None else self.row for rank in self.ranks]
        tops = [self.first + sum(heights[:k]) + ROW_GAP * k for k in range(len(heights))]
        return [top + height / 2 for top, height in zip(tops, heights)]

    @property
    def bottom(self) -> float:
        return self.middles()[-1] + self.row / 2


@in_course_style
def draw_product(way, n=4, rows=4, inner=8, columns=8) -> Picture:
    """Y = X A on n ranks: what each has of every matrix, what it computes, and what it sends.

    way     "columns": A is cut by columns, and Y with it. "rows": A is cut by rows, X by columns;
            each rank has a summand of Y. "pair": Y = f(X A) B, first the one and then the other
    Shapes  X: (rows, inner); A: (inner, columns); Y: (rows, columns). In a pair, B:
            (columns, inner), and Y is like X. Parts are as torch.tensor_split makes them
    Cost    bytes are those of float32, summed and gathered in a ring
    Raises  ValueError if there is no such way, or a size is no whole number from 1 on
    """
    check(way, n=n, rows=rows, inner=inner, columns=columns)
    equation = matrices_of(way, rows, inner, columns)
    messages = messages_of(way, n, rows, inner, columns)
    work = work_of(way, n, rows, inner, columns)
    layout = fit(equation, shown_ranks(n), max(rows, inner, columns))
    idle = idle_ranks(way, n, inner, columns)
    below = layout.bottom + 0.35 + (LINE + 0.05 if idle else 0)
    height = below + 0.2 + LINE * (len(messages) + 0.4) + LEGEND
    figure, axes = new_figure(WIDTH, height)
    in_inches(figure, axes, WIDTH, height)
    title = f"{TITLES[way]}, on {counted(n, 'rank')}"
    axes.text(EDGE_LEFT, 0.2, title, weight="bold", fontsize=11, va="center")
    draw_heads(axes, equation, layout)
    draw_rows(axes, equation, layout, n)
    write_work(axes, way, layout, work, inner * columns, rows)
    draw_sums(axes, equation, layout)
    axes.text(EDGE_LEFT, layout.bottom + 0.28, idle, fontsize=9.5, va="center")
    write_messages(axes, messages, below)
    draw_storage(axes, equation, below, n)
    legend(figure, n=n)
    return Picture(figure, f"{title}. {told(equation, messages, work, idle)}")


def shown_ranks(n) -> list[int | None]:
    """All of them; or the first and the last ones, and None for those between."""
    if n <= MOST_ROWS:
        return list(range(n))
    return [*range(MOST_ROWS - 2), None, n - 1]


def fit(equation, ranks, longest) -> Layout:
    """As large as possible, so that all have room; what width is left goes to the gaps."""
    scale = min(HIGHEST, HIGH / (len(ranks) + 1)) / longest
    gaps = [SPACES.get(matrix.sign, SIGN) for matrix in equation]
    while (free := RIGHT - LEFT - sum(gaps) - sum(slot_of(m, scale) for m in equation)) < 0:
        scale *= 0.97
    gaps = [gap + (free / (len(gaps) - 1) if place else 0) for place, gap in enumerate(gaps)]
    lefts, x = [], LEFT
    for matrix, gap in zip(equation, gaps):
        slot, width = slot_of(matrix, scale), inches(matrix.columns, scale)
        lefts.append(x + gap + (slot - width) / 2)
        x += gap + slot
    return Layout(scale, lefts, gaps, max(scale * longest, 0.25), ranks)


def inches(count, scale) -> float:
    return max(count * scale, FLATTEST)


def slot_of(matrix, scale) -> float:
    return max(NARROWEST, inches(matrix.columns, scale))


def slot_left(matrix, left, scale) -> float:
    return left + (inches(matrix.columns, scale) - slot_of(matrix, scale)) / 2


def draw_heads(axes, equation, layout):
    """Names and sizes; and where the backward begins."""
    axes.text(LEFT, TOP + 0.06, "forward", fontsize=8.5, color=MUTED)
    for matrix, left, gap in zip(equation, layout.lefts, layout.gaps):
        middle = left + inches(matrix.columns, layout.scale) / 2
        axes.text(middle, TOP + 0.28, matrix.name, ha="center", weight="bold", fontsize=9)
        axes.text(middle, TOP + 0.34, size_of(matrix), ha="center", va="top", fontsize=7.5,
                  color=MUTED, linespacing=1.0)  # fmt: skip
        if matrix.sign == "|":
            line = slot_left(matrix, left, layout.scale) - gap / 2
            text = "backward: dX, gradient of X"
            axes.text(line + 0.1, TOP + 0.06, text, fontsize=8.5, color=MUTED)
            axes.plot([line, line], [TOP, layout.bottom], color=EDGE, lw=0.8, ls=(0, (4, 3)))


def size_of(matrix) -> str:
    """`4 × 8`; a long one in two lines."""
    text = f"{matrix.rows:,} × {matrix.columns:,}"
    return text if len(text) < 10 else text.replace(" × ", "\n× ")


def draw_rows(axes, equation, layout, n):
    """All ranks together, and then each of them."""
    axes.text(EDGE_LEFT, layout.middle, "together", va="center", fontsize=9.5)
    draw_row(axes, equation, layout, layout.middle, n, None)
    for rank, middle in zip(layout.ranks, layout.middles()):
        if rank is None:
            more = n - len(layout.ranks) + 1
            axes.text(0.3, middle, f"… {more} more ranks", va="center", fontsize=9, color=MUTED)
        else:
            name_rank(axes, EDGE_LEFT, middle, rank)
            draw_row(axes, equation, layout, middle, n, rank)
    line = layout.first - BELOW / 2
    axes.plot([EDGE_LEFT, WIDTH - EDGE_LEFT], [line, line], color="#DDDDDD", lw=0.8)


def draw_row(axes, equation, layout, middle, n, rank):
    """The equation as one rank has it; with None for a rank, with all ranks' parts."""
    for matrix, left, gap in zip(equation, layout.lefts, layout.gaps):
        draw_matrix(axes, matrix, left, middle, layout.scale, n, rank)
        if matrix.sign not in SPACES:
            x = slot_left(matrix, left, layout.scale) - gap / 2
            axes.text(x, middle, matrix.sign, ha="center", va="center", fontsize=12)


def draw_matrix(axes, matrix, left, middle, scale, n, rank):
    width, height = inches(matrix.columns, scale), inches(matrix.rows, scale)
    corner = left, middle - height / 2
    if matrix.placement == PARTIAL:
        draw_summands(
            axes, corner, width, height, range(min(n, SHEETS)) if rank is None else [rank]
        )
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
    (left, top), size = whole.get_xy(), (whole.get_height(), whole.get_width())
    length = (matrix.rows, matrix.columns)[matrix.dim]
    sizes = part_sizes(length, n)
    for owner, part in enumerate(sizes):
        if not part or rank not in (None, owner):
            continue
        start, extent = sum(sizes[:owner]) / length * size[matrix.dim], list(size)
        extent[matrix.dim] *= part / length
        x, y = (left, top + start) if matrix.dim == 0 else (left + start, top)
        mine = box((x, y), extent[1], extent[0], SHARD, owner)
        mine.set_linewidth(0.6 if min(extent) > THIN else 0)
        axes.add_patch(mine)
        if rank is None and min(extent) >= FOR_NUMBER:
            axes.text(x + extent[1] / 2, y + extent[0] / 2, str(owner), ha="center",
                      va="center_baseline", fontsize=7.5, color=ink_on(SHARD, owner),
                      zorder=3)  # fmt: skip


def draw_cells(axes, matrix, whole):
    """White lines between the numbers, and the outline again, over their ends."""
    (left, top), width, height = whole.get_xy(), whole.get_width(), whole.get_height()
    style = {"color": "white", "lw": 0.5, "alpha": 0.75, "zorder": 1.5}
    xs = [left + width * k / matrix.columns for k in range(1, matrix.columns)]
    ys = [top + height * k / matrix.rows for k in range(1, matrix.rows)]
    axes.vlines(xs, top, top + height, **style)
    axes.hlines(ys, left, left + width, **style)
    axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=EDGE, lw=0.6,
                             zorder=1.6))  # fmt: skip


def write_work(axes, way, layout, work, numbers, rows):
    """What each rank keeps and multiplies, in columns with heads."""
    total = numbers * (2 if way == "pair" else 1)
    keeps = "keeps of\nA and B" if way == "pair" else "keeps\nof A"
    heads = (KEPT, keeps, total), (MULTIPLIED, "multipli-\ncations,\nforward", total * rows)
    for column, (right, head, size) in enumerate(heads):
        axes.text(right, TOP + 0.46, head, ha="right", weight="bold", fontsize=8.5, linespacing=1.1)
        numbers = [None if rank is None else work[rank][column] for rank in layout.ranks]
        for number, middle in zip([size, *numbers], [layout.middle, *layout.middles()]):
            if number is not None:
                text = in_short(number)
                axes.text(right, middle, text, ha="right", va="center", fontsize=9.5)


def draw_sums(axes, equation, layout):
    """The all-reduces: a band across the ranks, before the matrix that it makes."""
    color = COLORS["communication"]
    for matrix, left, gap in zip(equation, layout.lefts, layout.gaps):
        if matrix.sign == "sum":
            x = slot_left(matrix, left, layout.scale) - gap / 2
            corner, high = (x - 0.11, layout.first), layout.bottom - layout.first
            axes.add_patch(Rectangle(corner, 0.22, high, facecolor=mixed(color, 0.25), lw=0))
            axes.text(x, layout.first + high / 2, "all-reduce", rotation=90, ha="center",
                      va="center", fontsize=8.5)  # fmt: skip
            starts, ends = x - gap / 2 + 0.12, x + gap / 2 - 0.03
            ends = (starts, layout.middle), (ends, layout.middle)
            axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12,
                                           color=color))  # fmt: skip
            axes.text(x + 0.03, layout.middle - 0.07, "sum", ha="center", fontsize=8.5)


def write_messages(axes, messages, top):
    """What each rank sends: a line for each direction."""
    axes.text(EDGE_LEFT, top, "each rank sends", weight="bold", fontsize=9.5, va="center")
    axes.text(4.05, top, "in a ring, float32", fontsize=8, color=MUTED, va="center")
    for number, message in enumerate(messages):
        y, aside = top + LINE * (number + 1), message.when.startswith(" ")
        if not aside:
            face = COLORS["communication"] if message.numbers else "white"
            axes.add_patch(Rectangle((EDGE_LEFT, y - 0.06), 0.12, 0.12, facecolor=face,
                                     edgecolor=EDGE, lw=0 if message.numbers else 0.7))  # fmt: skip
        for x, text in ((0.32, message.when), (2.2, message.what), (4.05, count_of(message))):
            axes.text(x, y, text, va="center", fontsize=9, color=MUTED if aside else INK)


def draw_storage(axes, equation, top, n):
    """The weights as nn.Linear keeps them, transposed."""
    weights = [matrix for matrix in equation if matrix.name in "AB"]
    axes.text(STORED_LEFT, top, "nn.Linear keeps (outputs, inputs)", fontsize=8.5, va="center",
              weight="bold")  # fmt: skip
    for place, matrix in enumerate(weights):
        stored = Matrix("", f"{matrix.name}ᵀ", matrix.columns, matrix.rows, SHARD, 1 - matrix.dim)
        scale = STORED_HIGH / max(stored.rows, stored.columns)
        left, middle = STORED_LEFT + 1.3 * place, top + 0.17 + STORED_HIGH / 2
        draw_matrix(axes, stored, left, middle, scale, n, None)
        text = f"{stored.name}, cut\nalong\ndim {stored.dim}"
        axes.text(
            left + inches(stored.columns, scale) + 0.08, middle, text, va="center", fontsize=8
        )
