# Built from chapters/ch01_gradient_accumulation/labs/loss_paths.py by `make build`.
"""Pictures of the paths that training takes over its loss."""

from itertools import pairwise

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from pedagogy_lib.basics.units import format_count
from pedagogy_lib.pictures.style import (
    EDGE,
    INK,
    LINE_COLORS,
    PALE_BLUE,
    WHITE,
    Picture,
    new_figure,
    use_course_style,
)

BLUES = LinearSegmentedColormap.from_list("blues", [WHITE, PALE_BLUE])
MOST_LARGE = 10  # the most places of a path that is drawn large
WIDE = 2.15  # width of the area drawn with equal scales, in heights: more than is shown


@use_course_style
def draw_paths(loss, paths, xlabel, ylabel, losslabel="loss", title="", equal=False) -> Picture:
    """Draw paths over a loss, seen from above: darker is higher, and each step is an arrow.

    loss   takes two arrays of the same shape and returns the loss at each place
    paths  {name: places (x, y), in order}; all paths begin at the same place
    equal  whether both axes have the same scale, so that right angles look like right angles
    """
    paths = {name: np.asarray(places, dtype=float) for name, places in paths.items()}
    figure, axes = new_figure(7.5, 3.9)
    heights, lowest = draw_contours(axes, loss, np.concatenate(list(paths.values())), equal)
    figure.colorbar(heights, ax=axes, label=losslabel, pad=0.02).outline.set_visible(False)
    is_small = max(map(len, paths.values())) > MOST_LARGE
    for color, (name, places) in zip(LINE_COLORS, paths.items()):
        draw_path(axes, places, color, is_small)
        axes.plot([], [], "-o", color=color, label=name, markersize=4)
    if lowest is not None:
        axes.plot(*lowest, "*", color=INK, markersize=9, ls="none", zorder=3.5, label="minimum")
    start = next(iter(paths.values()))[0]
    axes.plot(*start, "o", color=INK, markersize=6, zorder=5)
    axes.annotate("start", start, (-8, 0), textcoords="offset points", ha="right", va="center")
    axes.grid(False)
    if equal:
        left, right = axes.get_xlim()  # the axes keep their box and show as much as fits
        axes.set_xlim(0.85 * left + 0.15 * right, 0.15 * left + 0.85 * right, auto=True)
        bottom, top = axes.get_ylim()
        axes.set_ylim(0.96 * bottom + 0.04 * top, 0.04 * bottom + 0.96 * top, auto=True)
        axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(loc="lower right", frameon=True, framealpha=0.8, edgecolor="none")
    axes.set_title(title)
    described = "; ".join(map(ends, paths.items()))
    return Picture(figure, f"{title}. {ylabel} over {xlabel}; {described}")


def draw_path(axes, places, color, is_small):
    """Draw a path as dots, with an arrow from each to the next."""
    axes.plot(*places.T, "o", color=color, markersize=2.5 if is_small else 4, zorder=4)
    arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 1}
    arrow |= {"mutation_scale": 5, "lw": 1.0} if is_small else {"mutation_scale": 9, "lw": 1.5}
    for start, end in pairwise(places):
        axes.annotate("", end, start, zorder=3, arrowprops=arrow)


def ends(path) -> str:
    name, places = path
    x, y = places[-1]
    return f"{name}: {format_count(len(places) - 1, 'step')}, to {x:.4f}, {y:.4f}"


def draw_contours(axes, loss, places, equal, points=150):
    """Draw bands of equal loss around places; return them and the minimum, or None at the edge."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = (0.3 if equal else 0.17) * (high - low)
    if equal:
        margin[0] = max(margin[0], (WIDE * (high - low + 2 * margin)[1] - (high - low)[0]) / 2)
    sides = [np.linspace(a, b, points) for a, b in zip(low - margin, high + margin)]
    x, y = np.meshgrid(*sides)
    height = loss(x, y)
    near = np.linspace(0, 1, 15)[1:] ** 2  # more lines where the loss is flat
    levels = height.min() + near * (height.max() - height.min())
    axes.contour(x, y, height, levels=levels, colors=EDGE, linewidths=0.6)
    heights = axes.contourf(x, y, height, levels=12, cmap=BLUES, zorder=0)
    row, column = np.unravel_index(np.argmin(height), x.shape)
    inside = 0 < row < points - 1 and 0 < column < points - 1
    return heights, (x[row, column], y[row, column]) if inside else None
