"""Clouds of points: predicted over published, and what is left over."""

import numpy as np
import pytest
from helpers import load_solved_lab

from pedagogy_lib import LaunchError

SCATTERS = load_solved_lab("scatters")
plot_agreement, plot_points = SCATTERS.plot_agreement, SCATTERS.plot_points

CLOUD = (np.array([1.0, 10, 100]), np.array([1.0, 12, 300]))


def test_agreement_has_a_panel_for_each_figure_and_says_how_many_agree():
    picture = plot_agreement({"s": {"one": CLOUD, "two": CLOUD}, "GB": {"one": CLOUD}})
    first, second = picture.figure.axes
    assert first.get_xlim() == first.get_ylim()
    assert first.get_xscale() == first.get_yscale() == "log"
    assert first.get_xlabel() == "published: s"
    assert "s, two: 67% of 3 within a factor of 1.25" in picture.alt
    (cloud,) = second.collections[1:]  # behind the band
    assert cloud.get_offsets().tolist() == np.stack(CLOUD, 1).tolist()


def test_few_different_x_get_a_column_each():
    x, y = np.array([2, 32, 2, 8]), np.array([1.0, 2, 3, 4])
    (axes,) = plot_points({"stages": {"": (x, y)}}, "y", levels=(1.5,)).figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "8", "32"]
    (cloud,) = axes.collections
    assert np.round(cloud.get_offsets()[:, 0]).tolist() == [0, 2, 0, 1]
    assert cloud.get_offsets()[:, 1].tolist() == y.tolist()


def test_many_x_stand_where_their_numbers_say():
    x = np.arange(50)
    (axes,) = plot_points({"place": {"": (x, x + 1.0)}}, "y", ratios=True).figure.axes
    (cloud,) = axes.collections
    assert cloud.get_offsets()[:, 0].tolist() == x.tolist()
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize(
    ("draw", "args", "said"),
    [
        (plot_agreement, ({},), "plot_agreement() takes 1 to 3 panels"),
        (plot_agreement, ({"s": {}},), "plot_agreement() takes {name: (x, y)}"),
        (plot_agreement, ({"s": {"a": ([1], [1, 2])}},), "takes as many x as y for a"),
        (plot_agreement, ({"s": {"a": ([1.0], [0.0])}},), "takes numbers above 0: s"),
        (plot_points, ({"x": {"a": 3}}, "y"), "plot_points() cannot draw this (TypeError: "),
        (plot_points, ({"x": dict.fromkeys("abcdefg", CLOUD)}, "y"), "at most 6 names"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(draw, args, said):
    with pytest.raises(LaunchError) as caught:
        draw(*args)
    assert said in str(caught.value)
