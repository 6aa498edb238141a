"""The picture of a frame of a `PairFilm`: what each rank has of X, A, H, B and Y.

Apart from the film, as ranks have no need of a library for pictures.
"""

from typing import NamedTuple

from matplotlib.patches import FancyArrowPatch, Rectangle

from ..basics.errors import LaunchError
from ..measuring.placements import PARTIAL, REPLICATE, SHARD
from ..pictures.memory_bars import three_digits
from ..pictures.placement_style import (
    MUTED,
    box,
    in_inches,
    ink_on,
    legend,
    mixed,
    name_rank,
    rank_color,
)
from ..pictures.style import COLORS, INK, Picture, in_course_style, new_figure
from .pair_films import GRADIENTS, KINDS, MATRICES, VALUES, names_of_calls
from .step_pictures import two_digits

WIDTH = 9.6  # this and all that follow are inches
LEFT, RIGHT, SPACE = 1.45, 9.45, 0.3  # of the matrices; between them, for a sign
TOP, HEADS, LEGEND = 0.72, 0.62, 0.62
CELL_WIDTH, CELL_HEIGHT, HIGHEST = 0.38, 0.2, 0.95  # at most: of a cell, of a matrix
LINE_GAP, RANK_GAP = 0.12, 0.3  # from values to gradients, from rank to rank
HIGH = 6.4  # all ranks together, at most, as far as their numbers fit
FOR_NUMBERS = 0.24, 0.118  # the smallest cell with a number
NARROWEST = 1.0  # the room of a matrix, for the words above it
RED, PALE = "#B00020", "#D9D9D9"
SIGNS = ("", "·", "→", "·", "=")
OTHERS = " One process has other numbers."
NEW = {"facecolor": "none", "edgecolor": INK, "lw": 1.8}


class Layout(NamedTuple):
    """Sizes of all matrices, and where their columns begin."""

    shapes: dict[str, tuple[int, int]]
    lefts: dict[str, float]
    cell: tuple[float, float]  # width and height
    line: float  # of the values, and of the gradients
    n: int

    def size(self, matrix) -> tuple[float, float]:
        rows, columns = self.shapes[matrix]
        return columns * self.cell[0], rows * self.cell[1]

    def corner(self, matrix, kind, rank) -> tuple[float, float]:
        """The top left one of a whole matrix on a rank."""
        top = TOP + HEADS + rank * (2 * self.line + LINE_GAP + RANK_GAP)
        top += KINDS.index(kind) * (self.line + LINE_GAP)
        return self.lefts[matrix], top + (self.line - self.size(matrix)[1]) / 2

    def middle(self, kind, rank) -> float:
        corner = self.corner("X", kind, rank)
        return corner[1] + self.size("X")[1] / 2

    @property
    def bottom(self) -> float:
        return self.middle(GRADIENTS, self.n - 1) + self.line / 2


@in_course_style
def plot_pair(films, number) -> Picture:
    """A frame of a step: ranks are rows, matrices are columns, gradients are below the values.

    What is new in this frame is outlined. A band across the ranks: something has been sent. Each
    rank goes at its own pace; frames belong together by their number.

    films   a `PairFilm` of every rank
    number  which frame, from 1 on; where a rank has fewer, its last one
    Raises  LaunchError if there is no such frame
    """
    last = max(len(film.frames) for film in films)
    if not 1 <= number <= last:
        raise LaunchError(f"plot_pair() has frames 1 to {last} of this step, not {number}")
    frames = [frame_of(film, number) for film in films]
    layout = layout_of(films)
    height = layout.bottom + 0.25 + LEGEND
    figure, axes = new_figure(WIDTH, height)
    in_inches(figure, axes, WIDTH, height)
    title = f"{number} of {last}: {title_of(frames)}"
    axes.text(0.12, 0.2, title, weight="bold", fontsize=11, va="center")
    remark = remark_on(films, number)
    axes.text(0.12, 0.46, remark, fontsize=9.5, va="center")
    draw_travel(axes, frames, layout)
    draw_heads(axes, frames[0], layout)
    for rank, frame in enumerate(frames):
        draw_rank(axes, rank, frame, layout)
    more = [
        (Rectangle((0, 0), 1, 1, **NEW), "new in this frame"),
        (Rectangle((0, 0), 1, 1, facecolor=mixed(COLORS["communication"], 0.3)), "sent"),
    ]
    legend(figure, n=len(films), more=more)
    return Picture(figure, f"{title}. {remark} {told(frames)}")


def frame_of(film, number):
    return film.frames[min(number, len(film.frames)) - 1]


def title_of(frames) -> str:
    """What has just happened; if not the same everywhere, on rank 0."""
    events = [frame.event for frame in frames]
    return events[0] if len(set(events)) == 1 else f"on rank 0, {events[0]}"


def layout_of(films) -> Layout:
    """As large as there is room; the same for all frames."""
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


# ---- Words ----------------------------------------------------------------------------------


def remark_on(films, number) -> str:
    """What has been sent in this frame, and what that has done; or what the ranks have now."""
    frames = [frame_of(film, number) for film in films]
    in_all = max(sum(bytes_of(frame) for frame in film.frames[:number]) for film in films)
    so_far = f"Sent so far: {three_digits(in_all)} by each rank."
    if any(frame.sent for frame in frames):
        sent = three_digits(max(bytes_of(frame) for frame in frames))
        wrong = OTHERS if is_wrong(held_in(frames[0], *frames[0].new[-1])) else ""
        return f"Each rank sends {sent}{addition_in(films, number)}.{wrong} {so_far}"
    news = [news_of(frames[0], kind, matrix) for kind, matrix in frames[0].new]
    return f"{' '.join(news)} {so_far}"


def bytes_of(frame) -> int:
    return sum(count for _, count in frame.sent)


def name_in(frame, kind, matrix) -> str:
    """Of what a column shows: H is X A before the activation."""
    return "XA" if matrix == "H" and kind in frame.inner else matrix


def news_of(frame, kind, matrix) -> str:
    """What a placement means, in a sentence."""
    name, held = name_in(frame, kind, matrix), held_in(frame, kind, matrix)
    name = f"the gradient of {name}" if kind == GRADIENTS else name
    says = {
        REPLICATE: f"Each rank has the same {name.removeprefix('the ')}.",
        SHARD: f"Each rank has a part of {name}.",
        PARTIAL: f"Each rank has a summand of {name}; only the sum is right.",
        None: f"Ranks differ in {name}, and it is not their sum either.",
    }
    return says[held.placement] + (OTHERS if held.placement and is_wrong(held) else "")


def is_wrong(held) -> bool:
    return held.placement is None or not held.is_right


def addition_in(films, number) -> str:
    """`: 1 + 2 = 3 and so on (summands: frame 5)`, if that is what has happened."""
    kind, matrix = frame_of(films[0], number).new[-1]
    earlier = max(number - 1, 1)
    before = [held_in(frame_of(film, earlier), kind, matrix) for film in films]
    after = held_in(frame_of(films[0], number), kind, matrix)
    if not all(before) or after.placement != REPLICATE or len(films) == 1:
        return ""
    columns = zip(*(flat(held) for held in before), flat(after))
    places = [(summands, result) for *summands, result in columns]
    if not all(is_sum(*place) for place in places):
        return ""
    summands, result = max(places, key=lambda place: sum(map(bool, place[0])))
    more = [f"{'−' if value < 0 else '+'} {in_cell(abs(value))}" for value in summands[1:4]]
    added = " ".join([in_cell(summands[0]), *more, *["+ …"] * (len(summands) > 4)])
    return f": {added} = {in_cell(result)} and so on (summands: frame {earlier})"


def is_sum(summands, result) -> bool:
    return abs(sum(summands) - result) <= 1e-4 * max(map(abs, summands))


def flat(held) -> list[float]:
    return [number for row in held.values for number in row]


def in_cell(number) -> str:
    """`3`, `−0.25`, `12.5`: few digits, none after the point if there are none."""
    if abs(number) >= 1000:
        return two_digits(number)
    digits = 0 if number == int(number) else 2 if abs(number) < 10 else 1
    return f"{number:.{digits}f}".replace("-", "−")


def held_in(frame, kind, matrix):
    return getattr(frame, kind).get(matrix)


def placement_text(held) -> str:
    if held.placement is None:
        return "differs by rank"
    by = "" if held.placement != SHARD else f" by {cut_into(held)}"
    return f"{held.placement}{by}" if held.is_right else f"{held.placement}{by}, wrong"


def cut_into(held) -> str:
    return "columns" if len(held.values) == held.shape[0] else "rows"


def told(frames) -> str:
    """Which rank has what; and what has happened, where that is not the same everywhere."""
    is_common = len({frame.event for frame in frames}) == 1
    ranks = []
    for rank, frame in enumerate(frames):
        event = "" if is_common else f" ({frame.event})"
        parts = [
            f"{'gradient of ' if kind == GRADIENTS else ''}{name_in(frame, kind, matrix)}"
            f" {placement_text(held)}"
            f"{' (new)' if (kind, matrix) in frame.new else ''} {numbers_of(held)}"
            for kind in KINDS
            for matrix, held in getattr(frame, kind).items()
        ]
        ranks.append(f"Rank {rank}{event} has {'; '.join(parts)}.")
    return " ".join(ranks)


def numbers_of(held) -> str:
    """`[0.50 1.0 / 2.0 3.0]`, of small ones."""
    if sum(map(len, held.values)) > 32:
        return f"({len(held.values)} × {len(held.values[0])} numbers)"
    return f"[{' / '.join(' '.join(map(in_cell, row)) for row in held.values)}]"


# ---- Drawing --------------------------------------------------------------------------------


def draw_heads(axes, frame, layout):
    """Names, and the placements of values and gradients."""
    for line, kind in enumerate(KINDS):
        y = TOP + 0.29 + 0.16 * line
        axes.text(LEFT - 0.1, y, kind, ha="right", fontsize=8, color=MUTED)
        for matrix in MATRICES:
            held = held_in(frame, kind, matrix)
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
    """Two lines of matrices: values, and below them gradients."""
    name_rank(axes, 0.12, (layout.middle(VALUES, rank) + layout.middle(GRADIENTS, rank)) / 2, rank)
    for kind in KINDS:
        y = layout.middle(kind, rank)
        axes.text(LEFT - 0.1, y, kind, ha="right", va="center", fontsize=8, color=MUTED)
        for matrix, sign in zip(MATRICES, SIGNS):
            held, corner = held_in(frame, kind, matrix), layout.corner(matrix, kind, rank)
            if held is None:
                size = layout.size(matrix)
                axes.add_patch(Rectangle(corner, *size, facecolor="white", edgecolor=PALE, lw=0.7,
                                         ls=(0, (2, 2))))  # fmt: skip
            else:
                draw_held(axes, rank, held, corner, layout, (kind, matrix) in frame.new)
            x = corner[0] - SPACE / 2
            if kind == VALUES and sign:
                x -= max(0, NARROWEST - layout.size(matrix)[0]) / 2
                axes.text(x, y, sign, ha="center", va="center", fontsize=12)
            if held and (kind, matrix) == (GRADIENTS, "H"):
                axes.text(x, y, f"of\n{name_in(frame, kind, matrix)}", ha="center", va="center",
                          fontsize=8, linespacing=1.0)  # fmt: skip


def draw_held(axes, rank, held, corner, layout, is_new):
    """A whole matrix as an outline, and in it what this rank has."""
    (width, height), (row, column) = layout.cell, held.start
    size = held.shape[1] * width, held.shape[0] * height
    axes.add_patch(box(corner, *size, None))
    left, top = corner[0] + column * width, corner[1] + row * height
    extent = len(held.values[0]) * width, len(held.values) * height
    axes.add_patch(box((left, top), *extent, held.placement or PARTIAL, rank))
    if width >= FOR_NUMBERS[0] and height >= FOR_NUMBERS[1]:
        write_numbers(axes, rank, held, left, top, layout.cell)
    if is_new:
        axes.add_patch(Rectangle((left - 0.02, top - 0.02), extent[0] + 0.04, extent[1] + 0.04,
                                 **NEW))  # fmt: skip


def write_numbers(axes, rank, held, left, top, cell):
    """On a hatched ground, each with a light box behind it."""
    is_hatched = held.placement in (None, PARTIAL)
    behind = {"facecolor": mixed(rank_color(rank), 0.16), "lw": 0, "pad": 0.6}
    for i, row in enumerate(held.values):
        for j, number in enumerate(row):
            axes.text(left + (j + 0.5) * cell[0], top + (i + 0.5) * cell[1], in_cell(number),
                      ha="center", va="center_baseline", fontsize=7.2,
                      color=ink_on(held.placement, rank),
                      bbox=behind if is_hatched else None)  # fmt: skip


def draw_travel(axes, frames, layout):
    """A band across the ranks behind what has been sent, with arrows between neighbours.

    The arrows are in its middle, and pass behind what is between; the name is written on them.
    """
    sent = [name for frame in frames for name, _ in frame.sent]
    if not sent:
        return
    kind, matrix = frames[0].new[-1]
    color = COLORS["communication"]
    width, height = layout.size(matrix)
    left, top = layout.corner(matrix, kind, 0)
    bottom = layout.corner(matrix, kind, layout.n - 1)[1] + height
    ground = {"facecolor": mixed(color, 0.3), "lw": 0}
    axes.add_patch(
        Rectangle((left - 0.06, top - 0.08), width + 0.12, bottom - top + 0.16, **ground)
    )
    names, x = names_of_calls(sent), left + width / 2
    for rank in range(layout.n - 1):
        start = x, layout.corner(matrix, kind, rank)[1] + height
        end = x, layout.corner(matrix, kind, rank + 1)[1]
        axes.add_patch(FancyArrowPatch(start, end, arrowstyle="<|-|>", color=color, lw=1.4,
                                       mutation_scale=10, shrinkA=0, shrinkB=0))  # fmt: skip
        gap = layout.middle(GRADIENTS, rank) + (layout.line + RANK_GAP) / 2
        axes.text(x, gap, names, ha="center", va="center", fontsize=8.5,
                  bbox=ground | {"pad": 1.0})  # fmt: skip
