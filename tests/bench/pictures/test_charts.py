"""Bars and curves: what is drawn is what was given."""

import pytest

from pedagogy_lib import LaunchError, plot_against, plot_bars, plot_curves


def heights(axes):
    return [round(bar.get_height(), 6) for bar in axes.patches]


def test_bars_of_one_kind_have_no_legend():
    picture = plot_bars(["a", "b"], {"gradients": [3, 5]}, "gradients", title="Staleness")
    axes = picture.figure.axes[0]
    assert heights(axes) == [3, 5]
    assert axes.get_legend() is None
    assert picture.alt == "Staleness. gradients. gradients: a 3, b 5"


def test_bars_side_by_side_and_their_predictions():
    bars = {"ours": [1, 2], "theirs": [3, 4]}
    picture = plot_bars([10, 20], bars, "ms", predicted={"ours": [1.5, 2.5], "theirs": [3, 5]})
    axes = picture.figure.axes[0]
    filled = [bar for bar in axes.patches if bar.get_fill()]
    outlines = [bar for bar in axes.patches if not bar.get_fill()]
    assert [bar.get_height() for bar in filled] == [1, 2, 3, 4]
    assert [bar.get_height() for bar in outlines] == [1.5, 2.5, 3, 5]
    for bar, outline in zip(filled, outlines, strict=True):
        assert outline.get_center()[0] == pytest.approx(bar.get_center()[0])
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["ours", "theirs", "theory"]
    assert "ours: 10 1, 20 2; theirs: 10 3, 20 4" in picture.alt


def test_a_prediction_without_bars_is_refused():
    with pytest.raises(LaunchError, match=r"no bars for what is predicted of \['mine'\]"):
        plot_bars(["a"], {"ours": [1]}, "ms", predicted={"mine": [1]})


def test_long_names_are_broken_into_lines():
    names = ["a name of many words " * 2, "another one of many words", "c", "d", "e"]
    picture = plot_bars(names, {"x": [1] * 5}, "y")
    labels = [label.get_text() for label in picture.figure.axes[0].get_xticklabels()]
    assert "\n" in labels[0]
    assert max(len(line) for label in labels for line in label.split("\n")) <= 16


def test_curves_with_an_x_of_their_own():
    panels = {
        "slow": {"BSP": ([0, 1], [2.0, 1.5]), "ASP": ([0, 0.5, 1], [2.0, 1.0, 0.5])},
        "fast": {"ASP": ([0, 1], [2.0, 9.0])},
    }
    picture = plot_curves(panels, "time (s)", "loss", highest=3, title="A race")
    slow, fast = picture.figure.axes
    assert [line.get_ydata().tolist() for line in slow.lines] == [[2.0, 1.5], [2.0, 1.0, 0.5]]
    assert fast.lines[0].get_color() == slow.lines[1].get_color()
    assert slow.lines[0].get_linewidth() > slow.lines[1].get_linewidth()
    assert fast.get_ylim() == slow.get_ylim() == (0, 3)
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["slow", "fast"]
    assert picture.alt.startswith("A race. loss over time (s). slow: BSP ends at 1.5, ASP ends at")


def test_steps_are_whole_and_no_curve_touches_the_top():
    curves = {"a": (range(1, 11), [3.0] * 10), "b": ([1, 10], [2.9, 2.95])}
    (axes,) = plot_curves({"": curves}, "step", "loss").figure.axes
    assert not [tick for tick in axes.get_xticks() if tick != int(tick)]
    assert axes.get_ylim() == (0, pytest.approx(3 * 1.05))
    (axes,) = plot_curves({"": {"a": ([0, 0.5], [1, 2])}}, "time (s)", "loss").figure.axes
    assert any(tick != int(tick) for tick in axes.get_xticks())


@pytest.mark.parametrize(
    ("plot", "arguments", "sentence"),
    [
        (plot_bars, ([], {"a": []}, "MB"), "plot_bars() takes 1 to 40 names"),
        (plot_bars, (range(41), {"a": range(41)}, "MB"), "plot_bars() takes 1 to 40 names"),
        (plot_bars, (["x"], {}, "MB"), "plot_bars() takes 1 to 6 series, not 0"),
        (plot_bars, (["x"], {name: [1] for name in "abcdefg"}, "MB"), "1 to 6 series, not 7"),
        (plot_bars, (["x"], {"a": [1, 2]}, "MB"), "plot_bars() takes 1 numbers for a, not [1, 2]"),
        (plot_bars, (["x"], [1], "MB"), "plot_bars() takes {name: numbers}, not [1]"),
        (plot_bars, (["x"], {"a": [None]}, "MB"), "plot_bars() cannot draw this (TypeError: "),
        (plot_bars, (None, {"a": [1]}, "MB"), "plot_bars() cannot draw this (TypeError: "),
        (plot_curves, ({}, "x", "y"), "plot_curves() takes at least one panel"),
        (plot_curves, ({"": {}}, "x", "y"), "plot_curves() takes at least one curve in each panel"),
        (plot_curves, ({"": {"a": ([1], [2, 3])}}, "x", "y"), "takes 1 numbers for a, not [2, 3]"),
        (plot_curves, ({"": {"a": ([], [])}}, "x", "y"), "takes some numbers for a, not []"),
        (plot_curves, ({"": dict.fromkeys("abcdefg", ([1], [1]))}, "x", "y"), "has 6 colours"),
        (plot_curves, ({"": {"a": 3}}, "x", "y"), "plot_curves() cannot draw this (TypeError: "),
        (plot_against, ([1, 2], {"a": [1]}, "x", "y"), "takes 2 numbers for a, not [1]"),
        (plot_against, ([1], {}, "x", "y"), "plot_against() takes 1 to 6 series, not 0"),
        (plot_against, ([1], {"a": None}, "x", "y"), "takes 1 numbers for a, not None"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(plot, arguments, sentence):
    with pytest.raises(LaunchError) as told:
        plot(*arguments)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_numbers_without_room_get_one_sentence():
    picture = plot_bars(["x"], {"a": [1.7e308]}, "MB")
    with pytest.raises(LaunchError, match="Matplotlib cannot draw this"):
        picture.png()


def test_a_dollar_is_a_dollar():
    names = [r"$\frac$", "$1", "$x_1$"]
    picture = plot_bars(names, {"$a$": [1, 2, 3], "b": [1, 2, 3]}, "$", title=r"$\nope$")
    assert picture.png()
    labels = picture.figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == names
    assert not any(label.get_parse_math() for label in labels)


@pytest.mark.parametrize("highest", [40.0, 90.0, 5e3])
def test_a_logarithmic_axis_has_ticks_enough_to_read_it(highest):
    picture = plot_against([1, 2], {"a": [17.0, highest]}, "x", "y", logarithmic="y")
    axes = picture.figure.axes[0]
    low, high = axes.get_ylim()
    assert 3 <= sum(low <= tick <= high for tick in axes.yaxis.get_majorticklocs()) <= 9


def test_lines_that_lie_on_each_other_are_all_seen():
    lines = {"a": [1, 2], "b": [3, 4], "c": [1, 2]}
    picture = plot_against([1, 2], lines, "x", "y", predicted=lines)
    a, b, c = picture.figure.axes[0].lines[3:]
    assert a.get_linewidth() > c.get_linewidth() == b.get_linewidth()
    names = [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]
    assert names == ["a", "b", "c", "theory"]


def test_small_numbers_lie_on_each_other_only_if_they_are_equal():
    lines = {"float64": [1e-16, 2e-16], "float32": [1e-9, 2e-9]}
    picture = plot_against([1, 2], lines, "x", "y", logarithmic="y")
    one, other = picture.figure.axes[0].lines
    assert one.get_linewidth() == other.get_linewidth()
