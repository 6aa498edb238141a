# Built from chapters/ch08_pipeline_parallel/labs/slice_gradients.py by `make build`.
"""The picture of a sequence's slices: attention to keys, and the way back of gradients."""

from matplotlib.patches import FancyBboxPatch

from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    INK,
    MUTED,
    VERMILION,
    WHITE,
    Picture,
    new_figure,
    tint,
    use_course_style,
)

HALF_WIDTH, HALF_HEIGHT = 0.33, 0.17
ROWS = ("input", "keys, values", "output")
OWN, EARLIER = COLORS["forward"], VERMILION


@use_course_style
def draw_slices(n=3) -> Picture:
    """Draw the attention of n slices, forward on the left and backward on the right.

    Vermilion arrows join a slice and the keys of slices before it; indigo ones are within a slice.
    """
    figure, grid = new_figure(7.5, 3.3, ncols=2)
    titles = "forward: slice 0 comes first", f"backward: slice {n - 1} comes first"
    for axes, title, is_backward in zip(grid, titles, (False, True)):
        axes.set(xlim=(-0.55, n - 0.45), ylim=(-0.45, 2.6))
        axes.axis("off")
        axes.set_title(title, fontsize=9.5)
        for i in range(n):
            draw_slice(axes, i, n, is_backward)
    said = (f"{n} slices. Forward, each slice looks at its own keys and at the keys of all slices "
            "before it. Backward, each slice sends a gradient to all these keys")  # fmt: skip
    return Picture(figure, said)


def draw_slice(axes, i, n, is_backward):
    """Draw a column of boxes, and the arrows that end at its output or, backward, begin there."""
    for row, name in enumerate(ROWS):
        draw_box(axes, i, row, name)
    place = n - 1 - i if is_backward else i
    axes.text(i, 2.42, f"slice {i} · {ordinal(place)}", color=MUTED, fontsize=8, **CENTERED)
    draw_arrow(axes, (i, 0), (i, 1), OWN, is_backward)
    for j in range(i + 1):
        draw_arrow(axes, (j, 1), (i, 2), OWN if i == j else EARLIER, is_backward)


def ordinal(place) -> str:
    return ("first", "second", "third", "fourth")[place] if place < 4 else f"number {place + 1}"


def draw_box(axes, x, y, name):
    corner = x - HALF_WIDTH, y - HALF_HEIGHT
    looks = {"boxstyle": "round,pad=0.02", "edgecolor": INK, "linewidth": 0.8}
    fill = tint(COLORS["activations"], 0.35) if name == ROWS[1] else WHITE
    size = 2 * HALF_WIDTH, 2 * HALF_HEIGHT
    axes.add_patch(FancyBboxPatch(corner, *size, facecolor=fill, zorder=3, **looks))
    axes.text(x, y, name, fontsize=8, zorder=4, **CENTERED)


def draw_arrow(axes, below, above, color, is_down):
    low, high = (below[0], below[1] + HALF_HEIGHT), (above[0], above[1] - HALF_HEIGHT)
    low = low[0] + 0.12 * (above[0] - below[0]), low[1]
    high = high[0] - 0.12 * (above[0] - below[0]), high[1]
    start, end = (high, low) if is_down else (low, high)
    arrow = {"arrowstyle": "-|>", "color": color, "lw": 1.4, "mutation_scale": 9}
    arrow |= {"shrinkA": 2, "shrinkB": 2, "linestyle": "--" if is_down else "-"}
    axes.annotate("", end, start, zorder=2, arrowprops=arrow)
