"""Drawings of one training step: its computation graph, and its path over the loss."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path

from ..basics.units import counted
from .diagrams import bare
from .run_plots import LINE_COLORS
from .style import COLORS, INK, Picture, in_course_style, label_ink, new_figure

PARAMETERS = ("w1", "w2", "b")
PALE, GREY, DATA, WHITE = "#B5B5B5", "#555555", "#E9E9E9", "#FFFFFF"
HIGH, NAME_WIDTH, SLOPE_WIDTH = 5.8, 19, 24
BLUES = LinearSegmentedColormap.from_list("blues", ["#FFFFFF", "#9DB8D2"])
STAGES = {
    "forward": "values flow from left to right",
    "backward": "gradients flow back, and are added to what is there",
    "step": "each parameter moves against its gradient",
    "zero_grad": "gradients are dropped",
}
STAGE_COLORS = {
    "forward": COLORS["forward"],
    "backward": COLORS["backward"],
    "step": COLORS["optimizer_state"],
    "zero_grad": GREY,
}


def node(name, left, middle, width, formula=""):
    return SimpleNamespace(
        name=name, left=left, middle=middle, width=width, right=left + width, formula=formula
    )


NODES = {
    at.name: at
    for at in (
        node("x1", 30, 51, 13),
        node("w1", 0, 41, NAME_WIDTH),
        node("x2", 30, 27, 13),
        node("w2", 0, 17, NAME_WIDTH),
        node("b", 0, 2, NAME_WIDTH),
        node("z1", 58, 46, 22, "z1 = x1 · w1"),
        node("z2", 58, 22, 22, "z2 = x2 · w2"),
        node("y", 88, 22, 22, "y = z1 + z2 + b"),
        node("target", 124, 51, 16),
        node("loss", 121, 22, 22, "loss = (y − price)²"),
    )
}
# From, to, and the derivative of the second by the first: a value's name, or what to write.
EDGES = (
    ("x1", "z1", None),
    ("w1", "z1", "x1"),
    ("x2", "z2", None),
    ("w2", "z2", "x2"),
    ("z1", "y", "1"),
    ("z2", "y", "1"),
    ("b", "y", "1"),
    ("y", "loss", "2\n(y − price)"),
    ("target", "loss", None),
)


@in_course_style
def draw_graph(stage, values, gradients, before=None, title="") -> Picture:
    """The graph of y = x1·w1 + x2·w2 + b and its squared error, with what it holds at a stage.

    stage      "forward", "backward", "step" or "zero_grad"
    values     {node: number}; a node without one is not computed yet, or gone. The nodes are
               x1, x2, target, w1, w2, b, z1, z2, y and loss
    gradients  {node: number or None}
    before     the gradients before this stage: where a backward has added to them, it is shown
    """
    figure, axes = new_figure(9.6, 4.6)
    for edge in EDGES:
        draw_edge(axes, *edge, stage, values)
    for at in NODES.values():
        gradient, value = gradients.get(at.name), values.get(at.name)
        if at.name in PARAMETERS:
            draw_parameter(axes, at, stage, value)
            draw_gradient(axes, at.right, at.middle - HIGH / 2, SLOPE_WIDTH, stage, gradient)
            if stage == "backward" and (before or {}).get(at.name) is not None:
                draw_sum(axes, at, before[at.name], gradient)
        elif at.formula:
            draw_node(axes, at, stage, value)
            bottom = at.middle - 2 * HIGH
            draw_gradient(axes, at.left, bottom, at.width, stage, gradient, value is not None)
        else:
            name = "price" if at.name == "target" else at.name
            text = name if value is None else f"{name} = {value:g}"
            draw_box(axes, at.left, at.middle - HIGH / 2, at.width, DATA, text, edge=PALE)
    axes.add_patch(Rectangle((58, -1), 1.2, 4, color=STAGE_COLORS[stage], lw=0))
    axes.text(61, 1, f"{stage}: {STAGES[stage]}", color=INK, va="center", fontsize=10)
    bare(axes, (-1, 144), (-4, 55))
    axes.set_title(title or stage)
    return Picture(figure, told(stage, values, gradients, title))


def draw_edge(axes, start, end, derivative, stage, values):
    """An arrow along the edge; in a backward against it, with what the gradient is multiplied by.

    Nothing flows while the optimizer works, nor back to data.
    """
    way = way_of(NODES[start], NODES[end], stage)
    back = stage == "backward" and derivative is not None
    color, wide = (STAGE_COLORS[stage], 1.6) if back or stage == "forward" else ("#D5D5D5", 1.0)
    path = Path(way[::-1] if back else way)
    axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=11, color=color,
                                   lw=wide, joinstyle="miter", zorder=1))  # fmt: skip
    if back:
        a, b = way[len(way) // 2 - 1 :][:2]
        along, above = (0.5, 3.2) if end == "loss" else (0.45, 0)
        x, y = (p + along * (q - p) for p, q in zip(a, b))
        factor = f"{values[derivative]:.3g}" if derivative in values else derivative
        factor = f"× {factor}".replace("-", "−")
        axes.text(x, y + above, factor, ha="center", va="center", fontsize=8.5, color=INK,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip


def way_of(start, end, stage):
    """The corners of an edge, between boxes of values; a parameter's in a backward from its
    gradient.
    """
    middle, top = end.left + end.width / 2, start.middle + HIGH / 2
    back = stage == "backward"
    if start.name == "target":
        return [(middle, start.middle - HIGH / 2), (middle, end.middle + HIGH + 0.4)]
    if start.name == "z1":
        return [(start.right, start.middle), (middle, end.middle + HIGH + 0.4)]
    if start.name == "b":  # round the other boxes
        x = start.right + SLOPE_WIDTH / 2 if back else start.left + 0.7 * start.width
        low, height, near = top + 2.6, end.middle - 3.4, end.left - 4.4
        return [(x, top + 0.2), (x, low), (near, low), (near, height), (end.left - 0.3, height)]
    if start.name in ("w1", "w2"):
        if back:
            return [(start.right + SLOPE_WIDTH + 0.3, start.middle), (end.left, end.middle - 2.5)]
        return [(start.left + 0.7 * start.width, top), (end.left - 0.3, end.middle)]
    upper = 2.5 if start.name in ("x1", "x2") else 0
    return [(start.right + 0.3, start.middle), (end.left - 0.3, end.middle + upper)]


def draw_parameter(axes, at, stage, value):
    edge, wide = (STAGE_COLORS["step"], 2.6) if stage == "step" else (INK, 0.8)
    draw_box(axes, at.left, at.middle - HIGH / 2, at.width, COLORS["parameters"],
             f"{at.name} = {number(value)}", edge=edge, wide=wide)  # fmt: skip


def draw_node(axes, at, stage, value):
    """What a node computes, and its value; dashed as long as there is none."""
    alive = value is not None
    edge = STAGE_COLORS["forward"] if alive and stage == "forward" else INK if alive else PALE
    draw_box(axes, at.left, at.middle - HIGH, at.width, WHITE, "", 2 * HIGH, edge=edge,
             wide=1.6 if stage == "forward" else 0.8, dashed=not alive)  # fmt: skip
    middle = at.left + at.width / 2
    axes.text(middle, at.middle + 2.4, at.formula, ha="center", va="center", fontsize=8,
              color=GREY if alive else PALE, zorder=3)  # fmt: skip
    axes.text(middle, at.middle - 2.6, number(value) if alive else "", ha="center", va="center",
              fontsize=10, color=INK, zorder=3)  # fmt: skip


def draw_gradient(axes, left, bottom, width, stage, gradient, alive=True):
    """A filled box with the gradient, or a dashed one where there is none."""
    if gradient is None:
        draw_box(axes, left, bottom, width, WHITE, "gradient None" if alive else "", edge=PALE,
                 dashed=True, ink=GREY)  # fmt: skip
        return
    edge, wide = (STAGE_COLORS["backward"], 2.6) if stage == "backward" else (INK, 0.8)
    draw_box(axes, left, bottom, width, COLORS["gradients"], f"gradient {number(gradient)}",
             edge=edge, wide=wide)  # fmt: skip


def draw_sum(axes, at, before, gradient):
    """Under a gradient, what it was and what has been added."""
    added = gradient - before
    text = f"= {number(before)} {'−' if added < 0 else '+'} {number(abs(added))}"
    axes.text(at.right + SLOPE_WIDTH, at.middle - HIGH / 2 - 0.8, text, ha="right", va="top",
              fontsize=8, color=INK)  # fmt: skip


def draw_box(axes, left, bottom, width, color, text, height=HIGH, *, edge=INK, wide=0.8,
             dashed=False, ink=None):  # fmt: skip
    axes.add_patch(Rectangle((left, bottom), width, height, facecolor=color, edgecolor=edge,
                             lw=wide, ls="--" if dashed else "-",
                             zorder=2.5 if wide > 1 else 2))  # fmt: skip
    axes.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=8.5,
              color=ink or label_ink(color), zorder=3)  # fmt: skip


def number(value) -> str:
    return "None" if value is None else f"{value:.4f}".replace("-", "−")


def told(stage, values, gradients, title) -> str:
    shown = ", ".join(f"{name} {number(value)}" for name, value in values.items())
    slopes = ", ".join(f"{name} {number(gradients.get(name))}" for name in PARAMETERS)
    return f"{title or stage}. Values: {shown}. Gradients: {slopes}."


@in_course_style
def draw_paths(loss, paths, xlabel, ylabel, losslabel="loss", title="") -> Picture:
    """Ways over a loss, seen from above: the darker the higher, and an arrow for each step.

    loss   takes two arrays of the same shape, and gives the loss at each place
    paths  {name: places (x, y), in order}
    """
    paths = {name: np.asarray(places, dtype=float) for name, places in paths.items()}
    figure, axes = new_figure(7.5, 3.9)
    heights, lowest = draw_contours(axes, loss, np.concatenate(list(paths.values())))
    figure.colorbar(heights, ax=axes, label=losslabel, pad=0.02).outline.set_visible(False)
    small = max(map(len, paths.values())) > 10
    for color, (name, places) in zip(LINE_COLORS, paths.items()):
        axes.plot(*places.T, "o", color=color, markersize=2.5 if small else 4, zorder=4)
        axes.plot([], [], "-o", color=color, label=name, markersize=4)
        for start, end in pairwise(places):
            style = {"arrowstyle": "-|>", "mutation_scale": 5 if small else 9,
                     "lw": 1.0 if small else 1.5, "shrinkA": 0}  # fmt: skip
            axes.annotate("", end, start, zorder=3,
                          arrowprops=style | {"color": color, "shrinkB": 1})  # fmt: skip
    if lowest is not None:
        axes.plot(*lowest, "*", color=INK, markersize=9, ls="none", zorder=3.5, label="minimum")
    start = next(iter(paths.values()))[0]
    axes.plot(*start, "o", color=INK, markersize=6, zorder=5)
    axes.annotate("start", start, (-8, 0), textcoords="offset points", ha="right", va="center")
    axes.grid(False)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(loc="lower right")
    axes.set_title(title)
    described = "; ".join(map(ends, paths.items()))
    return Picture(figure, f"{title}. {ylabel} over {xlabel}; {described}")


def ends(path) -> str:
    name, places = path
    x, y = places[-1]
    return f"{name}: {counted(len(places) - 1, 'step')}, to {x:.4f}, {y:.4f}"


def draw_contours(axes, loss, places, points=150):
    """Bands of equal loss around some places; and its minimum, None if it lies outside."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.17 * (high - low)
    sides = [np.linspace(a, b, points) for a, b in zip(low - margin, high + margin)]
    x, y = np.meshgrid(*sides)
    axes.contour(x, y, loss(x, y), levels=12, colors="white", linewidths=0.8)
    heights = axes.contourf(x, y, loss(x, y), levels=12, cmap=BLUES, zorder=0)
    row, column = np.unravel_index(np.argmin(loss(x, y)), x.shape)
    inside = 0 < row < points - 1 and 0 < column < points - 1
    return heights, (x[row, column], y[row, column]) if inside else None
