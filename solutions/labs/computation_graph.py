# Built from chapters/ch01_gradient_accumulation/labs/computation_graph.py by `make build`.
"""The computation graph of one training step."""

from types import SimpleNamespace

from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path

from pedagogy_lib.basics.units import format_minus
from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    EDGE,
    FAINT,
    GROUND,
    INK,
    MUTED,
    WHITE,
    Picture,
    bare,
    label_ink,
    new_figure,
    use_course_style,
)

PARAMETERS = ("w1", "w2", "b")
HIGH, NAME_WIDTH, SLOPE_WIDTH = 5.8, 19, 24
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
    "zero_grad": MUTED,
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
# Start, end, and the derivative of the end with respect to the start: a value's name or a text.
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


@use_course_style
def draw_graph(stage, values, gradients, before=None, title="") -> Picture:
    """Draw the graph of y = x1·w1 + x2·w2 + b and its squared error, with its numbers at a stage.

    stage      "forward", "backward", "step" or "zero_grad"
    values     {node: number}; a node without a number is not computed yet, or no longer exists.
               The nodes are x1, x2, target, w1, w2, b, z1, z2, y and loss
    gradients  {node: number or None}
    before     the gradients before this stage, to show the amounts that a backward has added
    """
    figure, axes = new_figure(9.6, 4.6)
    for edge in EDGES:
        draw_edge(axes, *edge, stage, values)
    for at in NODES.values():
        gradient, value = gradients.get(at.name), values.get(at.name)
        if at.name in PARAMETERS:
            draw_parameter(axes, at, stage, value, gradient, (before or {}).get(at.name))
        elif at.formula:
            draw_node(axes, at, stage, value, gradient)
        else:
            draw_data(axes, at, value)
    axes.add_patch(Rectangle((58, -1), 1.2, 4, color=STAGE_COLORS[stage], lw=0))
    axes.text(61, 1, f"{stage}: {STAGES[stage]}", color=INK, va="center", fontsize=10)
    bare(axes, (-1, 144), (-4, 55))
    axes.set_title(title or stage)
    return Picture(figure, describe_graph(stage, values, gradients, title))


def draw_edge(axes, start, end, derivative, stage, values):
    """Draw an arrow along an edge, or in a backward against it, with the gradient's factor.

    The arrow is faint where nothing flows: back to data, and while the optimizer works.
    """
    way = way_of(NODES[start], NODES[end], stage)
    is_backward = stage == "backward" and derivative is not None
    looks = {"color": FAINT, "lw": 1.0}
    if is_backward or stage == "forward":
        looks = {"color": STAGE_COLORS[stage], "lw": 1.6}
    path = Path(way[::-1] if is_backward else way)
    looks |= {"arrowstyle": "-|>", "mutation_scale": 11, "joinstyle": "miter", "zorder": 1}
    axes.add_patch(FancyArrowPatch(path=path, **looks))
    if is_backward:
        factor = f"{values[derivative]:.3g}" if derivative in values else derivative
        write_factor(axes, way, format_minus(f"× {factor}"), above=end == "loss")


def write_factor(axes, way, text, above):
    """Write a factor at the middle of an edge's path, on the line or above it."""
    a, b = way[len(way) // 2 - 1 :][:2]
    along, higher = (0.5, 3.2) if above else (0.45, 0)
    x, y = (p + along * (q - p) for p, q in zip(a, b))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    axes.text(x, y + higher, text, **CENTERED, fontsize=8.5, color=INK, bbox=box)


def way_of(start, end, stage):
    """Return an edge's corners, in the direction of the forward, between two boxes of values.

    In a backward, a parameter's edge begins at the box of its gradient instead.
    """
    middle, top = end.left + end.width / 2, start.middle + HIGH / 2
    back = stage == "backward"
    if start.name == "target":
        return [(middle, start.middle - HIGH / 2), (middle, end.middle + HIGH + 0.4)]
    if start.name == "z1":
        return [(start.right, start.middle), (middle, end.middle + HIGH + 0.4)]
    if start.name == "b":  # around the other boxes
        x = start.right + SLOPE_WIDTH / 2 if back else start.left + 0.7 * start.width
        low, height, near = top + 2.6, end.middle - 3.4, end.left - 4.4
        return [(x, top + 0.2), (x, low), (near, low), (near, height), (end.left - 0.3, height)]
    if start.name in ("w1", "w2"):
        if back:
            return [(start.right + SLOPE_WIDTH + 0.3, start.middle), (end.left, end.middle - 2.5)]
        return [(start.left + 0.7 * start.width, top), (end.left - 0.3, end.middle)]
    upper = 2.5 if start.name in ("x1", "x2") else 0
    return [(start.right + 0.3, start.middle), (end.left - 0.3, end.middle + upper)]


def draw_parameter(axes, at, stage, value, gradient, before):
    """Draw a parameter's value and gradient in boxes, and below them a backward's addition."""
    bottom = at.middle - HIGH / 2
    looks = {"edge": STAGE_COLORS["step"], "wide": 2.6} if stage == "step" else {}
    text = f"{at.name} = {four_decimals(value)}"
    draw_box(axes, at.left, bottom, at.width, COLORS["parameters"], text, **looks)
    draw_gradient(axes, at.right, bottom, SLOPE_WIDTH, stage, gradient)
    if stage == "backward" and before is not None:
        write_sum(axes, at.right + SLOPE_WIDTH, bottom - 0.8, before, gradient)


def write_sum(axes, right, top, before, gradient):
    """Write the gradient before a backward, and the amount that the backward has added."""
    added = gradient - before
    sign = "−" if added < 0 else "+"
    text = f"= {four_decimals(before)} {sign} {four_decimals(abs(added))}"
    axes.text(right, top, text, ha="right", va="top", fontsize=8, color=INK)


def draw_node(axes, at, stage, value, gradient):
    """Draw a node's formula, value and gradient, with a dashed outline while it has no value."""
    alive = value is not None
    edge = STAGE_COLORS["forward"] if alive and stage == "forward" else INK if alive else EDGE
    looks = {"edge": edge, "wide": 1.6 if stage == "forward" else 0.8, "dashed": not alive}
    draw_box(axes, at.left, at.middle - HIGH, at.width, WHITE, "", 2 * HIGH, **looks)
    x, ink = at.left + at.width / 2, MUTED if alive else EDGE
    axes.text(x, at.middle + 2.4, at.formula, **CENTERED, fontsize=8, color=ink, zorder=3)
    text = four_decimals(value) if alive else ""
    axes.text(x, at.middle - 2.6, text, **CENTERED, fontsize=10, color=INK, zorder=3)
    draw_gradient(axes, at.left, at.middle - 2 * HIGH, at.width, stage, gradient, alive)


def draw_data(axes, at, value):
    name = "price" if at.name == "target" else at.name
    text = name if value is None else f"{name} = {value:g}"
    draw_box(axes, at.left, at.middle - HIGH / 2, at.width, GROUND, text, edge=EDGE)


def draw_gradient(axes, left, bottom, width, stage, gradient, alive=True):
    """Draw a filled box with the gradient, or a dashed one if there is no gradient."""
    if gradient is None:
        text = "gradient None" if alive else ""
        looks = {"edge": EDGE, "dashed": True, "ink": MUTED}
        draw_box(axes, left, bottom, width, WHITE, text, **looks)
        return
    looks = {"edge": STAGE_COLORS["backward"], "wide": 2.6} if stage == "backward" else {}
    text = f"gradient {four_decimals(gradient)}"
    draw_box(axes, left, bottom, width, COLORS["gradients"], text, **looks)


def draw_box(
    axes,
    left,
    bottom,
    width,
    color,
    text,
    height=HIGH,
    *,
    edge=INK,
    wide=0.8,
    dashed=False,
    ink=None,
):
    """Draw a filled box with a text in its middle; `wide` is its line width in points."""
    looks = {"facecolor": color, "edgecolor": edge, "lw": wide, "ls": "--" if dashed else "-"}
    looks["zorder"] = 2.5 if wide > 1 else 2
    axes.add_patch(Rectangle((left, bottom), width, height, **looks))
    x, y = left + width / 2, bottom + height / 2
    axes.text(x, y, text, **CENTERED, fontsize=8.5, color=ink or label_ink(color), zorder=3)


def four_decimals(value) -> str:
    return "None" if value is None else format_minus(f"{value:.4f}")


def describe_graph(stage, values, gradients, title) -> str:
    shown = ", ".join(f"{name} {four_decimals(value)}" for name, value in values.items())
    slopes = ", ".join(f"{name} {four_decimals(gradients.get(name))}" for name in PARAMETERS)
    return f"{title or stage}. Values: {shown}. Gradients: {slopes}."
