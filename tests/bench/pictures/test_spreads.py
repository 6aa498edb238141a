"""Medians with bars from the lowest value to the highest."""

import pytest

from pedagogy_lib import LaunchError, plot_spreads

VALUES = {1: [1.0, 1.1, 0.9], 2: [0.6, 0.5, 0.7]}


def test_a_dot_is_a_median_and_a_bar_goes_from_the_lowest_to_the_highest():
    (axes,) = plot_spreads({"": {"one": VALUES}}, "ranks", "s").figure.axes
    (bars,) = axes.containers
    dots, _, (spans,) = bars.lines
    assert list(dots.get_ydata()) == [1.0, 0.6]
    assert [segment[:, 1].tolist() for segment in spans.get_segments()] == [
        pytest.approx([0.9, 1.1]), pytest.approx([0.5, 0.7])
    ]  # fmt: skip


def test_what_is_predicted_has_the_colour_of_what_is_measured():
    predicted = {"": {"one": {1: 1.0, 2: 0.5}, "ideal": {1: 1, 2: 1}}}
    (axes,) = plot_spreads({"": {"one": VALUES}}, "ranks", "s", predicted).figure.axes
    theory, ideal, dots = axes.lines[:3]
    assert theory.get_color() == dots.get_color() != ideal.get_color()


def test_logarithmic_axes_are_marked_at_the_measured_values():
    picture = plot_spreads({"": {"one": VALUES}}, "ranks", "s", logarithmic="xy")
    (axes,) = picture.figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]


def test_the_alt_text_lists_the_medians():
    assert "one: 1 1, 2 0.6" in plot_spreads({"": {"one": VALUES}}, "ranks", "s").alt


@pytest.mark.parametrize(
    ("panels", "predicted"),
    [
        ({}, {}),
        ({"": {"one": {}}}, {}),
        ({"": {"one": {1: []}}}, {}),
        ({"": {"one": VALUES}}, {"x": {}}),
    ],
)
def test_what_is_no_such_picture_is_refused(panels, predicted):
    with pytest.raises(LaunchError, match=r"plot_spreads\(\)"):
        plot_spreads(panels, "x", "y", predicted)
