# Built from chapters/ch07_tensor_parallel/labs/pair_pictures.py by `make build`.
"""The picture of a frame of a `PairFilm`: each rank's parts of X, A, H, B and Y.

It has a file of its own, so that ranks need not import matplotlib.
"""

from typing import NamedTuple

from matplotlib.patches import FancyArrowPatch, Rectangle
from pair_frames import GRADIENTS, KINDS, MATRICES, VALUES, names_of_calls
from pair_words import (
    describe_frames,
    format_cell,
    is_wrong,
    look_up_matrix,
    name_in,
    placement_text,
    remark_on,
)
from placement_style import box, ink_on, legend, name_rank, rank_color
from placements import PARTIAL

from pedagogy_lib.pictures.frame_pictures import frames_of, last_number, title_of
from pedagogy_lib.pictures.legends import sample
from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    FAINT,
    INK,
    MUTED,
    RED,
    Picture,
    new_canvas,
    tint,
    use_course_style,
)

WIDTH = 9.6  # this and the sizes that follow are in inches
LEFT, RIGHT, SPACE = 1.45, 9.45, 0.3  # ends of the matrices; space for a sign between two
TOP, HEADS, LEGEND = 0.72, 0.62, 0.62
CELL_WIDTH, CELL_HEIGHT, HIGHEST = 0.38, 0.2, 0.95  # upper limits: of a cell, of a matrix
LINE_GAP, RANK_GAP = 0.12, 0.3  # between values and gradients, between ranks
HIGH = 6.4  # all ranks together at most, unless a matrix would be under 0.3
FOR_NUMBERS = 0.24, 0.118  # the smallest cell that shows a number
NARROWEST = 1.0  # the least room of a matrix, for the words above it
SIGNS = dict(zip(MATRICES, ("", "·", "→", "·", "=")))
NEW = {"facecolor": "none", "edgecolor": INK, "lw": 1.8}
SENT = {"facecolor": tint(COLORS["communication"], 0.3), "lw": 0}


class Layout(NamedTuple):
    """The sizes of all matrices, and the left edges of their columns."""

    shapes: dict[str, tuple[int, int]]
    lefts: dict[str, float]
    cell: tuple[float, float]  # width and height
    line: float  # height of a line of values or gradients
    n: int

    def size(self, matrix) -> tuple[float, float]:
        rows, columns = self.shapes[matrix]
        return columns * self.cell[0], rows * self.cell[1]

    def corner(self, matrix, kind, rank) -> tuple[float, float]:
        """Return the top left corner of a whole matrix on a rank."""
        top = TOP + HEADS + rank * (2 * self.line + LINE_GAP + RANK_GAP)
        top += KINDS.index(kind) * (self.line + LINE_GAP)
        return self.lefts[matrix], top + (self.line - self.size(matrix)[1]) / 2

    def middle(self, kind, rank) -> float:
        corner = self.corner("X", kind, rank)
        return corner[1] + self.size("X")[1] / 2

    @property
    def bottom(self) -> float:
        return self.middle(GRADIENTS, self.n - 1) + self.line / 2


@use_course_style
def plot_pair(films, number) -> Picture:
    """Draw a frame of a step: a row per rank, a column per matrix, gradients below the values.

    New matrices are outlined. A band across the ranks shows that something was sent. Each rank
    goes at its own pace, so frames belong together by their number.

    films   the `PairFilm` of every rank
    number  which frame, from 1 on; a rank with fewer frames shows its last one
    Raises  LaunchError if there is no such frame
    """
    last = last_number(films, number, "plot_pair()")
    frames = frames_of(films, number)
    layout = layout_of(films)
    figure, axes = new_canvas(WIDTH, layout.bottom + 0.25 + LEGEND)
    title, remark = title_of(films, number, last), remark_on(films, number)
    axes.text(0.12, 0.2, title, weight="bold", fontsize=11, va="center")
    axes.text(0.12, 0.46, remark, fontsize=9.5, va="center")
    draw_travel(axes, frames, layout)
    draw_heads(axes, frames[0], layout)
    for rank, frame in enumerate(frames):
        draw_rank(axes, rank, frame, layout)
    more = {"new in this frame": sample(**NEW), "sent": sample(facecolor=SENT["facecolor"])}
    legend(figure, len(films), more)
    return Picture(figure, f"{title}. {remark} {describe_frames(frames)}")


def layout_of(films) -> Layout:
    """Return the largest layout that fits, the same for all frames."""
    last = films[0].frames[-1].values
    shapes = {name: last[name].shape if name in last else (1, 1) for name in MATRICES}
    highest = min(HIGHEST, max(0.3, (HIGH / len(films) - LINE_GAP - RANK_GAP) / 2))
    line = min(CELL_HEIGHT * max(rows for rows, _ in shapes.values()), highest)
    height, width = line / max(rows for rows, _ in shapes.values()), CELL_WIDTH
    while True:
        lefts, x = {}, LEFT
        for name, (_, columns) in shapes.items():
            slot = max(NARROWEST, columns * width)
            lefts[name] = x + (slot - columns * width) / 2
            x += slot + SPACE
        if x - SPACE <= RIGHT:
            return Layout(shapes, lefts, (width, min(height, width)), line, len(films))
        width *= 0.97


def draw_heads(axes, frame, layout):
    """Write the matrices' names, and the placements of values and gradients."""
    for line, kind in enumerate(KINDS):
        y = TOP + 0.29 + 0.16 * line
        axes.text(LEFT - 0.1, y, kind, ha="right", fontsize=8, color=MUTED)
        for matrix in MATRICES:
            held = look_up_matrix(frame, kind, matrix)
            text = placement_text(held) if held else "–"
            if held and (kind, matrix) == (GRADIENTS, "H"):
                text = f"of {name_in(frame, kind, matrix)}: {text}"
            color = RED if held and is_wrong(held) else INK
            axes.text(middle_of(matrix, layout), y, text, ha="center", fontsize=8, color=color)
    for matrix in MATRICES:
        x = middle_of(matrix, layout)
        name = name_in(frame, VALUES, matrix).replace("H", "H = f(XA)")
        axes.text(x, TOP + 0.12, name, ha="center", weight="bold", fontsize=10)


def middle_of(matrix, layout) -> float:
    return layout.lefts[matrix] + layout.size(matrix)[0] / 2


def draw_rank(axes, rank, frame, layout):
    """Draw a rank's two lines of matrices: values, and gradients below them."""
    name_rank(axes, 0.12, (layout.middle(VALUES, rank) + layout.middle(GRADIENTS, rank)) / 2, rank)
    for kind in KINDS:
        y = layout.middle(kind, rank)
        axes.text(LEFT - 0.1, y, kind, ha="right", va="center", fontsize=8, color=MUTED)
        for matrix in MATRICES:
            held, corner = look_up_matrix(frame, kind, matrix), layout.corner(matrix, kind, rank)
            if held is None:
                looks = {"facecolor": "white", "edgecolor": FAINT, "lw": 0.7, "ls": (0, (2, 2))}
                axes.add_patch(Rectangle(corner, *layout.size(matrix), **looks))
            else:
                draw_held(axes, rank, held, corner, layout, (kind, matrix) in frame.new)
            write_sign(axes, frame, kind, matrix, corner[0] - SPACE / 2, y, layout)


def write_sign(axes, frame, kind, matrix, x, y, layout):
    """Write a value's sign in the equation before it, and `of XA` or `of H` before H's gradient."""
    if kind == VALUES and SIGNS[matrix]:
        x -= max(0, NARROWEST - layout.size(matrix)[0]) / 2
        axes.text(x, y, SIGNS[matrix], **CENTERED, fontsize=12)
    if (kind, matrix) == (GRADIENTS, "H") and look_up_matrix(frame, kind, matrix):
        text = f"of\n{name_in(frame, kind, matrix)}"
        axes.text(x, y, text, **CENTERED, fontsize=8, linespacing=1.0)


def draw_held(axes, rank, held, corner, layout, is_new):
    """Draw the outline of a whole matrix, and this rank's part in it."""
    (width, height), (row, column) = layout.cell, held.start
    size = held.shape[1] * width, held.shape[0] * height
    axes.add_patch(box(corner, *size, None))
    left, top = corner[0] + column * width, corner[1] + row * height
    extent = len(held.values[0]) * width, len(held.values) * height
    axes.add_patch(box((left, top), *extent, held.placement or PARTIAL, rank))
    if width >= FOR_NUMBERS[0] and height >= FOR_NUMBERS[1]:
        write_numbers(axes, rank, held, left, top, layout.cell)
    if is_new:
        size = extent[0] + 0.04, extent[1] + 0.04
        axes.add_patch(Rectangle((left - 0.02, top - 0.02), *size, **NEW))


def write_numbers(axes, rank, held, left, top, cell):
    """Write the numbers of a part; on a hatched ground, each has a light box behind it."""
    is_hatched = held.placement in (None, PARTIAL)
    behind = {"facecolor": tint(rank_color(rank), 0.16), "lw": 0, "pad": 0.6}
    looks = CENTERED | {"va": "center_baseline", "fontsize": 7.2}
    looks |= {"color": ink_on(held.placement, rank), "bbox": behind if is_hatched else None}
    for i, row in enumerate(held.values):
        for j, number in enumerate(row):
            x, y = left + (j + 0.5) * cell[0], top + (i + 0.5) * cell[1]
            axes.text(x, y, format_cell(number), **looks)


def draw_travel(axes, frames, layout):
    """Draw a band across the ranks behind the sent matrix, with arrows between neighbours."""
    sent = [name for frame in frames for name, _ in frame.sent]
    if not sent:
        return
    kind, matrix = frames[0].new[-1]
    width, height = layout.size(matrix)
    left, top = layout.corner(matrix, kind, 0)
    bottom = layout.corner(matrix, kind, layout.n - 1)[1] + height
    size = width + 0.12, bottom - top + 0.16
    axes.add_patch(Rectangle((left - 0.06, top - 0.08), *size, **SENT))
    for rank in range(layout.n - 1):
        start = layout.corner(matrix, kind, rank)[1] + height
        end = layout.corner(matrix, kind, rank + 1)[1]
        gap = layout.middle(GRADIENTS, rank) + (layout.line + RANK_GAP) / 2
        draw_arrow(axes, left + width / 2, start, end, gap, names_of_calls(sent))


def draw_arrow(axes, x, start, end, gap, text):
    """Draw an arrow between ranks in a band's middle, behind its text and the parts between."""
    looks = {"arrowstyle": "<|-|>", "color": COLORS["communication"], "lw": 1.4}
    looks |= {"mutation_scale": 10, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch((x, start), (x, end), **looks))
    axes.text(x, gap, text, **CENTERED, fontsize=8.5, bbox=SENT | {"pad": 1.0})
