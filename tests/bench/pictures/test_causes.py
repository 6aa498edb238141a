"""Bars of a step's seconds by cause."""

import pytest

from pedagogy_lib import LaunchError, plot_causes

BARS = {"dp 8": {"compute": 2.0, "dp": 1.0, "total": 3.0}, "tp 8": {"compute": 1.5, "tp": 1.0}}


def test_each_bar_is_divided_by_cause():
    picture = plot_causes(BARS, title="Two plans")
    (axes,) = picture.figure.axes
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == [2.0, 1.0, 1.5, 1.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dp 8", "tp 8"]
    assert repr(picture) == "Two plans. Seconds of a step by cause: dp 8 3 s; tp 8 2.5 s"


def test_a_cause_has_its_colour_whatever_else_is_there():
    def color(bars):
        return plot_causes(bars).figure.axes[0].patches[-1].get_facecolor()

    assert color({"a": {"tp": 1.0}}) == color({"a": {"compute": 2.0, "tp": 1.0}})


def test_measured_seconds_get_a_mark():
    (axes,) = plot_causes(BARS, measured={"tp 8": 2.0}).figure.axes
    assert [2.0, 2.0] in [list(line.get_xdata()) for line in axes.lines]


def test_causes_too_small_to_be_seen_are_not_in_the_legend():
    picture = plot_causes({"a": {"compute": 1.0, "pp": 1e-4}})
    assert [text.get_text() for text in picture.figure.legends[0].get_texts()] == ["compute"]


@pytest.mark.parametrize(
    ("bars", "more", "sentence"),
    [
        ({}, {}, "takes 1 to 16 bars"),
        ({"a": {"computing": 1.0}}, {}, "no such causes as"),
        ([1.0], {}, "takes {plan: seconds}"),
        (BARS, {"measured": {"b": 1.0}}, "no bars for what is measured"),
        (BARS, {"unit": "h"}, 'takes "s" or "ms"'),
    ],
)
def test_bad_input(bars, more, sentence):
    with pytest.raises(LaunchError, match=sentence):
        plot_causes(bars, **more)
