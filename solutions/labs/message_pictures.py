# Built from chapters/ch02_collectives/labs/message_pictures.py by `make build`.
"""Pictures of the films of messages: each rank's chunks, and the messages of a step."""

import math

from matplotlib.patches import FancyArrowPatch, Rectangle

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import brief
from pedagogy_lib.pictures.chunk_holders import describe_chunks, draw_cell, draw_grid, legend
from pedagogy_lib.pictures.style import (
    CENTERED,
    INK,
    RANK_COLORS,
    Picture,
    new_figure,
    use_course_style,
)

NEAR, FAR = 0.35, 1.7  # how far arrows reach to the right: to a neighbour, and across all ranks


# ---- One algorithm, in a ring ----------------------------------------------------------------


@use_course_style
def plot_ring(films, step=0) -> Picture:
    """Plot the ranks in a circle, with their chunks after `step` and the chunks sent in it.

    films   a `Film` of every rank, of a tensor with one element per rank, as in `plot_holdings`
    step    0 is before the first message
    Raises  LaunchError if this is no list, or if some ranks have sent more often than others
    """
    need(isinstance(films, (list, tuple)), f"plot_ring() takes a list of films, not {brief(films)}")
    need(
        len({len(film.frames) for film in films}) == 1,
        "plot_ring() needs films in which every rank has sent equally often",
    )
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
    return Picture(figure, f"{title_of(step, last, n)}: {describe_chunks(values)}")


def draw_rank(axes, rank, row, n, width) -> Rectangle:
    """Draw a rank's name, the numbers of its chunks and the chunks; return the box around them."""
    x, y = place_on_circle(rank, n)
    cell = width / len(row)
    for chunk, value in enumerate(row):
        left = x - width / 2 + chunk * cell
        draw_cell(axes, left, y - 0.05, value, n, cell, 0.3)
        axes.text(left + cell / 2, y - 0.1, str(chunk), ha="center", fontsize=8.5, color=INK)
    axes.text(x, y - 0.28, f"rank {rank}", ha="center", fontsize=9.5, fontweight="bold")
    box = Rectangle((x - width / 2, y - 0.45), width, 0.7, facecolor="none", lw=0)
    return axes.add_patch(box)


def place_on_circle(rank, n) -> tuple[float, float]:
    start = -math.pi * 3 / 4 if n == 4 else -math.pi / 2
    angle = 2 * math.pi * rank / n + start
    return 1.8 * math.cos(angle), 1.15 * math.sin(angle)


def draw_move(axes, start, end, chunk):
    """Draw an arrow from rank to rank, with the number of the chunk that was sent."""
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
    axes.text(x, y, f"chunk {chunk}", **CENTERED, fontsize=8.5)


def title_of(step, last, n) -> str:
    if not step:
        return "At the start: every rank has its own numbers"
    if step < n:
        return f"Step {step} of {last}: reduce-scatter, what comes in is added"
    return f"Step {step} of {last}: all-gather, what comes in replaces"


# ---- Algorithms side by side -----------------------------------------------------------------


@use_course_style
def plot_exchanges(films, step=0) -> Picture:
    """Plot algorithms side by side after `step`: rows are ranks, columns chunks, arrows messages.

    A frame surrounds the chunks that a rank has sent in this step. An algorithm that is done before
    others keeps its last frame.

    films   {name: a `Film` of every rank}, of a tensor with one element per rank, as in
            `plot_holdings`
    step    0 is before the first message
    Raises  LaunchError if these are no such films, or of too many ranks
    """
    need(isinstance(films, dict) and films, f"plot_exchanges() takes {{name: films}}, not "
         f"{brief(films)}")  # fmt: skip
    for of_ranks in films.values():
        need(
            len({len(film.frames) for film in of_ranks}) == 1,
            "plot_exchanges() needs films in which every rank has sent equally often",
        )
    n = max(len(of_ranks) for of_ranks in films.values())
    need(n <= len(RANK_COLORS), f"plot_exchanges() draws up to {len(RANK_COLORS)} ranks")
    figure, grid = new_figure(9.6, 1.2 + 0.36 * n, ncols=len(films), squeeze=False)
    words = []
    for axes, (name, of_ranks) in zip(grid[0], films.items()):
        words.append(draw_film(axes, name, of_ranks, step))
    legend(figure, n)
    return Picture(figure, "; ".join(words))


def draw_film(axes, name, films, step) -> str:
    """Draw an algorithm's state after a step; return its description."""
    n, last = len(films), len(films[0].moves)
    now = min(step, last)
    values = [film.frames[now] for film in films]
    draw_grid(axes, values, n, with_names=True)
    moving = films if 0 < step <= last else []
    for rank, film in enumerate(moving):
        frame_what_is_sent(axes, rank, film.moves[now - 1], film.lengths[now - 1])
    for start, end, both in arrows([film.peers[now - 1] for film in moving]):
        draw_arrow(axes, n, start, end, both)
    axes.set_xlim(-1.9, n + FAR + 0.2)
    axes.axis("off")
    done = ", done" if step >= last else ""
    axes.set_title(f"{name}: {f'message {now} of {last}' if now else 'at the start'}{done}",
                   fontsize=10)  # fmt: skip
    return f"{name}, message {now} of {last}: {describe_chunks(values)}"


def frame_what_is_sent(axes, rank, first, length):
    if first is not None:
        box = {"facecolor": "none", "edgecolor": INK, "lw": 1.6, "ls": (0, (3, 2)), "zorder": 3}
        axes.add_patch(Rectangle((first, rank + 0.01), length, 0.98, **box))


def arrows(peers) -> list[tuple[int, int, bool]]:
    """Return (sender, receiver, whether both send) of each arrow; such a pair shares one arrow."""
    found = []
    for rank, peer in enumerate(peers):
        mutual = peers[peer] == rank
        if not mutual or rank < peer:
            found.append((rank, peer, mutual))
    return found


def draw_arrow(axes, n, start, end, both):
    """Draw an arc at the right edge of the rows, further out for a rank that is further away."""
    distance = abs(end - start)
    reach = NEAR + (FAR - NEAR) * (distance - 1) / max(1, n - 2)
    shape = f"arc3,rad={(-1 if end > start else 1) * reach / distance:.3f}"
    axes.add_patch(FancyArrowPatch(
        (n + 0.15, start + 0.5), (n + 0.15, end + 0.5), connectionstyle=shape, color=INK,
        arrowstyle="<|-|>" if both else "-|>", mutation_scale=9, lw=1.1, shrinkA=0, shrinkB=0,
    ))  # fmt: skip
