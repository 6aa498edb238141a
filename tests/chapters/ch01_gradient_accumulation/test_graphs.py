"""Drawings of a training step show the numbers that they are given, and hold none of their own."""

import re

import numpy as np
import pytest
from helpers import ROOT, load_solved_lab
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, Rectangle

from pedagogy_lib.pictures.style import COLORS

computation_graph = load_solved_lab("computation_graph")
draw_graph, draw_paths = computation_graph.draw_graph, load_solved_lab("loss_paths").draw_paths
PARAMETERS = {"w1": 0.5, "w2": -0.25, "b": 1.0}
VALUES = {"x1": 3.0, "x2": 4.0, "target": 2.0, **PARAMETERS, "z1": 1.5, "z2": -1.0, "y": 1.5,
          "loss": 0.25}  # fmt: skip
SLOPES = {"w1": -3.0, "w2": -4.0, "b": -1.0, "z1": -1.0, "z2": -1.0, "y": -1.0, "loss": 1.0}
NONE = dict.fromkeys(SLOPES)


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def boxes(picture, color):
    patches = picture.figure.axes[0].patches
    drawn = [patch for patch in patches if isinstance(patch, Rectangle)]
    return [box for box in drawn if box.get_facecolor()[:3] == to_rgb(color)]


def arrows(picture, color):
    patches = picture.figure.axes[0].patches
    drawn = [patch for patch in patches if isinstance(patch, FancyArrowPatch)]
    return [arrow for arrow in drawn if arrow.get_edgecolor()[:3] == to_rgb(color)]


def test_a_forward_shows_every_value_and_no_gradient():
    picture = draw_graph("forward", VALUES, NONE, title="Stage 1")
    assert {"w1 = 0.5000", "x1 = 3", "price = 2", "−1.0000", "0.2500"} <= set(texts(picture))
    assert len(arrows(picture, COLORS["forward"])) == len(computation_graph.EDGES)
    assert not boxes(picture, COLORS["gradients"])
    assert "w1 None" in picture.alt


def test_a_backward_goes_against_the_edges_and_multiplies():
    picture = draw_graph("backward", VALUES, SLOPES)
    back = arrows(picture, COLORS["backward"])
    assert len(back) == len(computation_graph.EDGES) - 3, "nothing flows to data"
    assert {"× 3", "× 4", "× 1", "× 2\n(y − price)"} <= set(texts(picture))
    assert len(boxes(picture, COLORS["gradients"])) == len(SLOPES)
    assert "Gradients: w1 −3.0000, w2 −4.0000, b −1.0000" in picture.alt


def test_a_backward_shows_what_was_added():
    before = {"w1": -10.0, "w2": -2.0, "b": -1.5}
    shown = texts(draw_graph("backward", VALUES, SLOPES, before))
    assert {"= −10.0000 + 7.0000", "= −2.0000 − 2.0000", "= −1.5000 + 0.5000"} <= set(shown)


@pytest.mark.parametrize("stage", ["step", "zero_grad"])
def test_the_graph_is_gone_while_the_optimizer_works(stage):
    picture = draw_graph(stage, PARAMETERS, NONE)
    assert not arrows(picture, COLORS["forward"]) + arrows(picture, COLORS["backward"])
    assert "0.2500" not in texts(picture)
    assert "w2 = −0.2500" in texts(picture)


@pytest.mark.parametrize("stage", computation_graph.STAGES)
def test_no_text_leaves_its_box_or_meets_another(stage):
    wide = {name: value - 987.6 for name, value in SLOPES.items()}
    before = {"w1": -123.4, "w2": -123.4, "b": -123.4}
    picture = draw_graph(stage, VALUES, wide, before)
    picture.figure.draw_without_rendering()
    places = [t.get_window_extent() for t in picture.figure.axes[0].texts if t.get_text()]
    for i, place in enumerate(places):
        assert not any(place.overlaps(other) for other in places[i + 1 :])
    drawn = [box.get_window_extent() for box in boxes(picture, COLORS["gradients"])]
    for box in drawn:
        inside = [p for p in places if box.contains((p.x0 + p.x1) / 2, (p.y0 + p.y1) / 2)]
        assert len(inside) == 1
        assert box.x0 < inside[0].x0 and inside[0].x1 < box.x1


def test_paths_go_where_they_went():
    paths = {"one by one": [(0, 0), (1, 0.5), (1.5, 1)], "accumulated": [(0, 0), (2, 1)]}
    picture = draw_paths(lambda x, y: x**2 + y**2, paths, "w1", "w2", title="Two ways")
    axes = picture.figure.axes[0]
    drawn = {tuple(map(tuple, np.column_stack(line.get_data()))) for line in axes.lines}
    assert {tuple(map(tuple, np.asarray(path, float))) for path in paths.values()} <= drawn
    assert "one by one: 2 steps, to 1.5000, 1.0000; accumulated: 1 step," in picture.alt
    assert [axes.get_xlabel(), axes.get_ylabel()] == ["w1", "w2"]


def test_a_minimum_is_marked_if_it_is_inside():
    for places, labels in (
        ([(-1, -1), (1, 1)], ["way", "minimum"]),
        ([(1, 1), (3, 3)], ["way"]),
    ):
        picture = draw_paths(lambda x, y: x**2 + y**2, {"way": places}, "x", "y")
        assert picture.figure.axes[0].get_legend_handles_labels()[1] == labels


def test_equal_scales_show_right_angles():
    """A step along the gradient is at a right angle to the contour, in the picture as well."""
    places = [(-2, -1), (1, 0.5)]  # along the gradient of the loss below
    picture = draw_paths(lambda x, y: x**2 + y**2, {"way": places}, "x", "y", equal=True)
    axes = picture.figure.axes[0]
    picture.figure.draw_without_rendering()
    one = axes.transData.transform([(0, 0), (1, 0), (0, 1)])
    assert one[1][0] - one[0][0] == pytest.approx(one[2][1] - one[0][1])
    low, high = axes.get_xlim()
    assert low < -2 < 1 < high


def test_arrows_of_a_forward_begin_at_values_and_end_outside_of_gradients():
    for name in computation_graph.PARAMETERS:
        start = computation_graph.NODES[name]
        end = computation_graph.NODES["y" if name == "b" else name.replace("w", "z")]
        first, *_, last = computation_graph.way_of(start, end, "forward")
        assert start.left < first[0] < start.right
        assert end.left - 1 < last[0] <= end.left
        assert abs(last[1] - end.middle) < computation_graph.HIGH


def test_the_drawings_hold_no_numbers_of_the_example():
    source = (ROOT / "solutions" / "labs" / "computation_graph.py").read_text()
    assert not re.search(r"0\.773|0\.321|0\.067|115\.8|19\.3", source)


def test_a_graph_is_drawn_the_same_twice():
    assert draw_graph("step", VALUES, SLOPES).png() == draw_graph("step", VALUES, SLOPES).png()
