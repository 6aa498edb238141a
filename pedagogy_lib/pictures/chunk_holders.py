"""Pictures of who holds what: ranks' chunks, and whose numbers have gone into each of them.

The data come from real runs. Rank r fills its chunks with 2**r, so that a sum tells by its bits
whose numbers are in it: 0 is nothing, 5 is ranks 0 and 2.
"""

import math

from matplotlib.patches import FancyArrowPatch, Rectangle

from ..basics.errors import LaunchError
from .style import INK, Picture, in_course_style, label_ink, new_figure

# Distinct for every kind of colour vision (Okabe and Ito 2008; Tol 2021).
RANK_COLORS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#332288", "#999933",
)  # fmt: skip
EDGE = "#9A9A9A"
GAP = 0.12


@in_course_style
def plot_holdings(pictures: dict, columns=4) -> Picture:
    """Small grids of ranks (rows) and chunks (columns), one for each moment or operation.

    pictures  {title: values}; values[rank][chunk] is a sum of 2**r over the ranks r whose numbers
              are in that chunk, 0 for nothing. A cell has a stripe for each of them. A fraction
              tells a chunk's own number, plus one: 4.3 is rank 2's chunk 2, wherever it is.
    """
    grids = list(pictures.items())
    check_values([values for _, values in grids])
    n, chunks = len(grids[0][1]), max(len(row) for _, values in grids for row in values)
    columns = min(columns, len(grids))
    rows = math.ceil(len(grids) / columns)
    size = (9.6 / 4 * columns, 0.45 + (0.42 + 0.25 * n) * rows)
    figure, axes = new_figure(*size, nrows=rows, ncols=columns, squeeze=False)
    for axis in axes.flat[len(grids) :]:
        axis.axis("off")
    for index, (axis, (title, values)) in enumerate(zip(axes.flat, grids)):
        for rank, row in enumerate(values):
            for chunk, value in enumerate(row):
                draw_cell(axis, chunk, rank, value, n)
                write_number(axis, chunk, rank, value, n)
            if index % columns == 0:
                axis.text(-0.25, rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=8.5)
        axis.set_xlim(-0.1, chunks + 0.1)
        for chunk in range(chunks):
            axis.text(chunk + 0.5, -0.12, str(chunk), ha="center", fontsize=7, color=EDGE)
        axis.set_ylim(n + 0.1, -0.4)
        axis.axis("off")
        axis.set_title(title, fontsize=9.5)
    legend(figure, n)
    return Picture(figure, "; ".join(f"{title}: {told(values)}" for title, values in grids))


def check_values(grids):
    ranks = {len(values) for values in grids}
    if len(ranks) != 1 or max(ranks) > len(RANK_COLORS):
        raise LaunchError(
            f"plot_holdings() draws grids of the same number of ranks, up to {len(RANK_COLORS)}"
        )


def draw_cell(axes, left, top, value, n, width=1.0, height=1.0):
    """A box with one stripe for each rank whose numbers are in it."""
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
    """The number that a chunk has brought along, if it has one."""
    if number := own_number(value):
        ink = label_ink(RANK_COLORS[sources(value, n)[0]])
        axes.text(chunk + 0.5, rank + 0.53, number, ha="center", va="center", fontsize=8, color=ink)


def sources(value, n) -> list[int]:
    return [rank for rank in range(n) if int(value) >> rank & 1]


def own_number(value) -> str:
    """The chunk's own number, if it shows one."""
    return "" if value == int(value) else str(round(value % 1 * 10) - 1)


def told(values) -> str:
    """`rank 0: 0 1 – 0+1`: whose numbers are in each chunk."""
    lines = []
    for rank, row in enumerate(values):
        cells = [text_of(value, len(values)) for value in row]
        lines.append(f"rank {rank}: {' '.join(cells)}")
    return ", ".join(lines)


def text_of(value, n) -> str:
    number = own_number(value)
    return ("+".join(map(str, sources(value, n))) or "–") + (f".{number}" if number else "")


def legend(figure, n):
    """Whose numbers each colour stands for."""
    handles = [
        *(Rectangle((0, 0), 1, 1, facecolor=RANK_COLORS[rank]) for rank in range(n)),
        Rectangle((0, 0), 1, 1, facecolor="white", edgecolor=INK, lw=1.5),
    ]
    names = [*(f"from rank {rank}" for rank in range(n)), "the sum of all"]
    figure.legend(handles, names, loc="outside lower center", ncols=n + 1, fontsize=8.5,
                  handlelength=1.0, handleheight=1.0, columnspacing=1.2)  # fmt: skip


@in_course_style
def plot_ring(films, step=0) -> Picture:
    """The ranks in a circle, what each holds after `step`, and what came round in that step.

    films  a `Film` of every rank, of a tensor with one element for each rank, as in
           `plot_holdings`
    """
    if len({len(film.frames) for film in films}) > 1:
        raise LaunchError("plot_ring() needs films in which every rank has sent equally often")
    values = [film.frames[step] for film in films]
    n, last = len(films), len(films[0].moves)
    figure, axes = new_figure(7.5, 4.6)
    width = min(1.45, 5.0 / n)
    boxes = [draw_rank(axes, rank, values[rank], n, width) for rank in range(n)]
    for rank, film in enumerate(films if step else []):
        draw_move(axes, boxes[rank], boxes[(rank + 1) % n], film.moves[step - 1])
    axes.set_xlim(-2.6, 2.6)
    axes.set_ylim(1.5, -1.5)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title_of(step, last, n))
    legend(figure, n)
    return Picture(figure, f"{title_of(step, last, n)}: {told(values)}")


def draw_rank(axes, rank, row, n, width) -> Rectangle:
    """One rank's name, the numbers of its chunks, and the chunks; returns the box around them."""
    x, y = place_on_circle(rank, n)
    cell = width / len(row)
    for chunk, value in enumerate(row):
        left = x - width / 2 + chunk * cell
        draw_cell(axes, left, y - 0.05, value, n, cell, 0.3)
        axes.text(left + cell / 2, y - 0.1, str(chunk), ha="center", fontsize=7.5, color=EDGE)
    axes.text(x, y - 0.28, f"rank {rank}", ha="center", fontsize=9.5, fontweight="bold")
    box = Rectangle((x - width / 2, y - 0.45), width, 0.7, facecolor="none", lw=0)
    return axes.add_patch(box)


def place_on_circle(rank, n) -> tuple[float, float]:
    start = -math.pi * 3 / 4 if n == 4 else -math.pi / 2
    angle = 2 * math.pi * rank / n + start
    return 1.8 * math.cos(angle), 1.15 * math.sin(angle)


def draw_move(axes, start, end, chunk):
    """An arrow from rank to rank, with the number of the chunk that went along it."""
    ends = [(box.get_x() + box.get_width() / 2, box.get_y() + 0.35) for box in (start, end)]
    (x0, y0), (x1, y1) = ends
    length = math.hypot(x1 - x0, y1 - y0)
    outward = (y1 - y0) / length, (x0 - x1) / length
    both_ways = math.isclose(x0 + x1, 0, abs_tol=1e-9) and math.isclose(x0, 0, abs_tol=1e-9)
    bend = "arc3,rad=-0.3" if both_ways else "arc3"
    style = {"arrowstyle": "-|>", "mutation_scale": 14, "color": INK, "lw": 1.3}
    gaps = {"patchA": start, "patchB": end, "shrinkA": 4, "shrinkB": 4}
    axes.add_patch(FancyArrowPatch(*ends, connectionstyle=bend, **style, **gaps))
    away = 0.6 if both_ways else 0.2 + 0.14 * abs(outward[0])
    x, y = (x0 + x1) / 2 + away * outward[0], (y0 + y1) / 2 + away * outward[1]
    axes.text(x, y, f"chunk {chunk}", ha="center", va="center", fontsize=8.5)


def title_of(step, last, n) -> str:
    if not step:
        return "At the start: every rank has its own numbers"
    if step < n:
        return f"Step {step} of {last}: reduce-scatter, what comes in is added"
    return f"Step {step} of {last}: all-gather, what comes in replaces"
