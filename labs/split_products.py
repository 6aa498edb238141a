# Built from chapters/ch07_tensor_parallel/labs/split_products.py by `make build`.
"""The picture of a matrix product that is split over ranks: their parts, work and messages."""

from matplotlib.patches import FancyArrowPatch, Rectangle
from placement_style import box, ink_on, legend, name_rank
from placements import PARTIAL, REPLICATE, SHARD
from split_product_layout import BELOW, LEFT, NAMES_LEFT, SPACES, TOP, WIDTH, fit, inches
from split_product_sizes import (
    TITLES,
    Matrix,
    check,
    count_of,
    describe_picture,
    idle_ranks,
    matrices_of,
    messages_of,
    part_sizes,
    work_of,
)

from pedagogy_lib.basics.units import format_count, short_number
from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    EDGE,
    FAINT,
    INK,
    MUTED,
    Picture,
    new_canvas,
    tint,
    use_course_style,
)

KEPT, MULTIPLIED = 8.7, 9.48  # right ends of two columns of numbers; all sizes are in inches
LINE, LEGEND = 0.23, 0.55  # heights
STORED_LEFT, STORED_HIGH = 7.05, 0.55
SMALLEST_CELL, FOR_NUMBER, THIN = 0.07, 0.13, 0.06
SHEETS, SHEET = 4, 0.03  # the most sheets in a stack of summands, and their offset


@use_course_style
def draw_product(way, n=4, rows=4, inner=8, columns=8) -> Picture:
    """Draw Y = X A on n ranks: each rank's parts of all matrices, its work, and what it sends.

    way     "columns": A is cut by columns, and Y with it. "rows": A is cut by rows, X by columns;
            each rank has a summand of Y. "pair": Y = f(X A) B, the first cut and then the second
    Shapes  X: (rows, inner); A: (inner, columns); Y: (rows, columns). In a pair, B:
            (columns, inner), and Y is like X. Parts are cut as by torch.tensor_split
    Cost    bytes are counted in float32, with sums and gathers in a ring
    Raises  ValueError if there is no such way, or a size is not a whole number from 1 on
    """
    check(way, n=n, rows=rows, inner=inner, columns=columns)
    equation = matrices_of(way, rows, inner, columns)
    messages = messages_of(way, n, rows, inner, columns)
    work = work_of(way, n, rows, inner, columns)
    idle = idle_ranks(way, n, inner, columns)
    layout = fit(equation, n, max(rows, inner, columns))
    below = layout.bottom + 0.35 + (LINE + 0.05 if idle else 0)
    figure, axes = new_canvas(WIDTH, below + 0.2 + LINE * (len(messages) + 0.4) + LEGEND)
    title = f"{TITLES[way]}, on {format_count(n, 'rank')}"
    axes.text(NAMES_LEFT, 0.2, title, weight="bold", fontsize=11, va="center")
    draw_heads(axes, layout)
    draw_rows(axes, layout, n)
    write_work(axes, way, layout, work, inner * columns, rows)
    draw_sums(axes, layout)
    axes.text(NAMES_LEFT, layout.bottom + 0.28, idle, fontsize=9.5, va="center")
    write_messages(axes, messages, below)
    draw_storage(axes, equation, below, n)
    legend(figure, n)
    return Picture(figure, f"{title}. {describe_picture(equation, messages, work, idle)}")


def draw_heads(axes, layout):
    """Write the matrices' names and sizes, and mark where the backward begins."""
    axes.text(LEFT, TOP + 0.06, "forward", fontsize=8.5, color=MUTED)
    small = {"fontsize": 7.5, "color": MUTED, "linespacing": 1.0}
    for slot in layout.slots:
        x, matrix = slot.middle, slot.matrix
        axes.text(x, TOP + 0.28, matrix.name, ha="center", weight="bold", fontsize=9)
        axes.text(x, TOP + 0.34, size_of(matrix), ha="center", va="top", **small)
        if matrix.sign == "|":
            line = slot.sign_x
            text = "backward: dX, gradient of X"
            axes.text(line + 0.1, TOP + 0.06, text, fontsize=8.5, color=MUTED)
            axes.plot([line, line], [TOP, layout.bottom], color=EDGE, lw=0.8, ls=(0, (4, 3)))


def size_of(matrix) -> str:
    """Return a matrix's size, such as `4 × 8`; a long one takes two lines."""
    text = f"{matrix.rows:,} × {matrix.columns:,}"
    return text if len(text) < 10 else text.replace(" × ", "\n× ")


def draw_rows(axes, layout, n):
    """Draw a row for all ranks together, and then a row for each of them."""
    axes.text(NAMES_LEFT, layout.middle, "together", va="center", fontsize=9.5)
    draw_row(axes, layout, layout.middle, n, None)
    for rank, middle in zip(layout.ranks, layout.middles()):
        if rank is None:
            more = n - len(layout.ranks) + 1
            axes.text(0.3, middle, f"… {more} more ranks", va="center", fontsize=9, color=MUTED)
        else:
            name_rank(axes, NAMES_LEFT, middle, rank)
            draw_row(axes, layout, middle, n, rank)
    line = layout.first - BELOW / 2
    axes.plot([NAMES_LEFT, WIDTH - NAMES_LEFT], [line, line], color=FAINT, lw=0.8)


def draw_row(axes, layout, middle, n, rank):
    """Draw the equation as one rank has it; if `rank` is None, with all ranks' parts."""
    for slot in layout.slots:
        draw_matrix(axes, slot.matrix, slot.matrix_left, middle, layout.scale, n, rank)
        if slot.matrix.sign not in SPACES:
            axes.text(slot.sign_x, middle, slot.matrix.sign, **CENTERED, fontsize=12)


def write_work(axes, way, layout, work, numbers, rows):
    """Write how many numbers each rank keeps, and its multiplications, in columns with headings."""
    total = numbers * (2 if way == "pair" else 1)
    keeps = "keeps of\nA and B" if way == "pair" else "keeps\nof A"
    heads = (KEPT, keeps, total), (MULTIPLIED, "multipli-\ncations,\nforward", total * rows)
    for column, (right, head, size) in enumerate(heads):
        axes.text(right, TOP + 0.46, head, ha="right", weight="bold", fontsize=8.5, linespacing=1.1)
        numbers = [None if rank is None else work[rank][column] for rank in layout.ranks]
        for number, middle in zip([size, *numbers], [layout.middle, *layout.middles()]):
            if number is not None:
                text = short_number(number)
                axes.text(right, middle, text, ha="right", va="center", fontsize=9.5)


def draw_sums(axes, layout):
    """Draw each all-reduce as a band across the ranks, before the matrix that it makes."""
    color, height = COLORS["communication"], layout.bottom - layout.first
    for slot in layout.slots:
        if slot.matrix.sign == "sum":
            x, corner = slot.sign_x, (slot.sign_x - 0.11, layout.first)
            axes.add_patch(Rectangle(corner, 0.22, height, facecolor=tint(color, 0.25), lw=0))
            looks = CENTERED | {"rotation": 90, "fontsize": 8.5}
            axes.text(x, layout.first + height / 2, "all-reduce", **looks)
            start, end = x - slot.gap / 2 + 0.12, x + slot.gap / 2 - 0.03
            ends = (start, layout.middle), (end, layout.middle)
            arrow = {"arrowstyle": "-|>", "mutation_scale": 12, "color": color}
            axes.add_patch(FancyArrowPatch(*ends, **arrow))
            axes.text(x + 0.03, layout.middle - 0.07, "sum", ha="center", fontsize=8.5)


def write_messages(axes, messages, top):
    """Write what each rank sends, one line per message."""
    axes.text(NAMES_LEFT, top, "each rank sends", weight="bold", fontsize=9.5, va="center")
    axes.text(4.05, top, "in a ring, float32", fontsize=8, color=MUTED, va="center")
    for number, message in enumerate(messages):
        y, aside = top + LINE * (number + 1), message.when.startswith(" ")
        if not aside:
            looks = {"facecolor": "white", "edgecolor": EDGE, "lw": 0.7}
            if message.numbers:
                looks = {"facecolor": COLORS["communication"], "lw": 0}
            axes.add_patch(Rectangle((NAMES_LEFT, y - 0.06), 0.12, 0.12, **looks))
        for x, text in ((0.32, message.when), (2.2, message.what), (4.05, count_of(message))):
            axes.text(x, y, text, va="center", fontsize=9, color=MUTED if aside else INK)


def draw_storage(axes, equation, top, n):
    """Draw the weights as nn.Linear stores them: transposed."""
    weights = [matrix for matrix in equation if matrix.name in "AB"]
    heading = "nn.Linear keeps (outputs, inputs)"
    axes.text(STORED_LEFT, top, heading, fontsize=8.5, va="center", weight="bold")
    for place, matrix in enumerate(weights):
        stored = Matrix("", f"{matrix.name}ᵀ", matrix.columns, matrix.rows, SHARD, 1 - matrix.dim)
        scale = STORED_HIGH / max(stored.rows, stored.columns)
        left, middle = STORED_LEFT + 1.3 * place, top + 0.17 + STORED_HIGH / 2
        draw_matrix(axes, stored, left, middle, scale, n, None)
        text = f"{stored.name}, cut\nalong\ndim {stored.dim}"
        right = left + inches(stored.columns, scale)
        axes.text(right + 0.08, middle, text, va="center", fontsize=8)


# ---- One matrix ------------------------------------------------------------------------------


def draw_matrix(axes, matrix, left, middle, scale, n, rank):
    """Draw a rank's part of a matrix; if `rank` is None, all ranks' parts."""
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
    """Draw sheets as large as the whole matrix on top of each other, the first rank's in front."""
    for rank in reversed(ranks):
        shift = SHEET * (rank if len(ranks) > 1 else 0)
        axes.add_patch(box((corner[0] + shift, corner[1] - shift), width, height, PARTIAL, rank))


def draw_parts(axes, matrix, whole, n, rank):
    """Draw one rank's part; if `rank` is None, all parts with the numbers of their ranks."""
    sizes = part_sizes((matrix.rows, matrix.columns)[matrix.dim], n)
    for owner, size in enumerate(sizes):
        if size and rank in (None, owner):
            part = part_of(whole, matrix.dim, sum(sizes[:owner]), size, sum(sizes), owner)
            axes.add_patch(part)
            if rank is None and min(part.get_width(), part.get_height()) >= FOR_NUMBER:
                write_owner(axes, part, owner)


def part_of(whole, dim, start, size, length, owner) -> Rectangle:
    """Return a part of a matrix along `dim`, from `start` on; the matrix has `length` along it."""
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
    """Draw white lines between the numbers, and the outline again over their ends."""
    (left, top), width, height = whole.get_xy(), whole.get_width(), whole.get_height()
    style = {"color": "white", "lw": 0.5, "alpha": 0.75, "zorder": 1.5}
    xs = [left + width * k / matrix.columns for k in range(1, matrix.columns)]
    ys = [top + height * k / matrix.rows for k in range(1, matrix.rows)]
    axes.vlines(xs, top, top + height, **style)
    axes.hlines(ys, left, left + width, **style)
    outline = {"fill": False, "edgecolor": EDGE, "lw": 0.6, "zorder": 1.6}
    axes.add_patch(Rectangle((left, top), width, height, **outline))
