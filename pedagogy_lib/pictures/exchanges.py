"""Films of messages side by side: what each rank holds, and who sends what to whom in a step."""

from matplotlib.patches import FancyArrowPatch, Rectangle

from ..basics.errors import need
from ..basics.units import brief
from .chunk_holders import draw_grid, legend, told
from .style import INK, RANK_COLORS, Picture, in_course_style, new_figure

NEAR, FAR = 0.35, 1.7  # how far arrows reach to the right: to a neighbour, and across all ranks


@in_course_style
def plot_exchanges(films, step=0) -> Picture:
    """Algorithms side by side after `step`: ranks in rows, chunks in columns, messages as arrows.

    Framed in each row are the chunks that the rank has sent in this step. An algorithm that is
    done before others keeps its last frame.

    films   {name: a `Film` of every rank}, of a tensor with one element for each rank, as in
            `plot_holdings`
    step    0 is before the first message
    Raises  LaunchError if these are no such films
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
    """One algorithm's moment; returns it in words."""
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
    return f"{name}, message {now} of {last}: {told(values)}"


def frame_what_is_sent(axes, rank, first, length):
    if first is not None:
        box = {"facecolor": "none", "edgecolor": INK, "lw": 1.6, "ls": (0, (3, 2)), "zorder": 3}
        axes.add_patch(Rectangle((first, rank + 0.01), length, 0.98, **box))


def arrows(peers) -> list[tuple[int, int, bool]]:
    """From whom to whom, and whether as much goes back: such a pair has one arrow."""
    found = []
    for rank, peer in enumerate(peers):
        mutual = peers[peer] == rank
        if not mutual or rank < peer:
            found.append((rank, peer, mutual))
    return found


def draw_arrow(axes, n, start, end, both):
    """An arc at the right edge of the rows; the further away the other rank, the further out."""
    distance = abs(end - start)
    reach = NEAR + (FAR - NEAR) * (distance - 1) / max(1, n - 2)
    shape = f"arc3,rad={(-1 if end > start else 1) * reach / distance:.3f}"
    axes.add_patch(FancyArrowPatch(
        (n + 0.15, start + 0.5), (n + 0.15, end + 0.5), connectionstyle=shape, color=INK,
        arrowstyle="<|-|>" if both else "-|>", mutation_scale=9, lw=1.1, shrinkA=0, shrinkB=0,
    ))  # fmt: skip
