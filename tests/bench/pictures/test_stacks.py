"""Stacked bars: what is drawn is what was given, and it can be read."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from pedagogy_lib import LaunchError, plot_stacks
from pedagogy_lib.measuring.memory_log import KINDS
from pedagogy_lib.pictures.memory_bars import spread
from pedagogy_lib.pictures.style import COLORS

GB = 1e9
GPUS = {"A100 80 GB": 80 * GB, "RTX 4090": 24 * GB, "H100 80 GB": 80 * GB}


def states(elements, n=1, stage=0):
    """Mixed precision with Adam, as in the ZeRO paper: 2 + 2 + 12 bytes for each parameter."""
    counts = 2 * elements, 2 * elements, 12 * elements
    shared = zip(KINDS, counts, (stage > 2, stage > 1, stage > 0))
    return {kind: count / (n if is_split else 1) for kind, count, is_split in shared}


def stages(elements=7.5e9, n=64):
    return {f"stage {stage}": states(elements, n, stage) for stage in range(4)}


def parts(picture, filled=True):
    """(place, bottom, height) of every part, in the units of the axes."""
    bars = [bar for bar in picture.figure.axes[0].patches if bar.get_fill() == filled]
    places = [(bar.get_center()[0], bar.get_y(), bar.get_height()) for bar in bars]
    return [tuple(round(number, 9) for number in place) for place in places]


def list_texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


# ---- What is drawn --------------------------------------------------------------------------


def test_kinds_stand_on_each_other_in_one_order():
    picture = plot_stacks({"a": {"gradients": 3e6, "parameters": 2e6}, "b": {"other": 1e6}})
    assert parts(picture) == [(0, 0, 2), (0, 2, 3), (1, 0, 1)]
    colors = [to_hex(bar.get_facecolor()) for bar in picture.figure.axes[0].patches]
    expected = [COLORS[kind].lower() for kind in ("parameters", "gradients", "other")]
    assert colors == expected
    assert picture.figure.axes[0].get_ylabel() == "memory (MB)"
    assert [label.get_text() for label in picture.figure.axes[0].get_xticklabels()] == ["a", "b"]


def test_predictions_are_outlines_and_their_totals_in_brackets():
    measured, predicted = stages(), {"stage 1": states(8e9, 64, 1)}
    picture = plot_stacks(measured, predicted)
    outlines = parts(picture, filled=False)
    assert outlines == [(1, 0, 16), (1, 16, 16), (1, 32, 1.5)]
    assert len(parts(picture)) == 12
    assert [text for text in list_texts(picture) if "(" in text] == ["(33.5 GB)"]
    names = [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]
    assert names == ["parameters", "gradients", "optimizer state", "(theory)"]


def test_a_total_that_is_given_is_no_part():
    picture = plot_stacks({"a": {"parameters": 5, "total": 99}})
    assert parts(picture) == [(0, 0, 5)]
    assert list_texts(picture) == ["5 B"]


def test_every_bar_has_its_total_even_if_it_is_too_small_to_see():
    sizes = {"small": 1e6, "medium": 3e7, "large": 1e9, "none": 0}
    picture = plot_stacks({name: states(size) for name, size in sizes.items()})
    for total in ("16.0 MB", "480 MB", "16.0 GB", "0 B"):
        assert total in list_texts(picture)


def test_nothing_at_all_is_drawn_too():
    assert plot_stacks({"a": {}, "b": {"parameters": 0}}).png()


def test_parts_have_their_numbers_where_there_is_room():
    texts = list_texts(plot_stacks({"a": {"parameters": 6e6, "gradients": 4e6, "other": 1e5}}))
    assert texts == ["6.00 MB", "4.00 MB", "10.1 MB"]


def test_one_kind_can_be_highlighted():
    picture = plot_stacks({"a": states(1e6)}, highlight="gradients")
    pale, highlighted, also_pale = [
        to_hex(bar.get_facecolor()) for bar in picture.figure.axes[0].patches
    ]
    assert highlighted == COLORS["gradients"].lower()
    for color, kind in ((pale, "parameters"), (also_pale, "optimizer_state")):
        assert color != COLORS[kind].lower()
        assert min(int(color[i : i + 2], 16) for i in (1, 3, 5)) > 180
    assert list_texts(picture) == ["2.00 MB", "16.0 MB"]


# ---- Limits ---------------------------------------------------------------------------------


def test_limits_are_lines_with_names():
    picture = plot_stacks(stages(), limits=GPUS)
    (axes,) = picture.figure.axes
    assert sorted(line.get_ydata()[0] for line in axes.lines) == [24, 80, 80]
    assert set(GPUS) <= set(list_texts(picture))
    assert axes.get_ylim()[1] > 120


def test_a_limit_above_the_bars_makes_room_for_itself():
    (axes,) = plot_stacks({"a": states(2e9)}, limits=GPUS).figure.axes
    assert axes.get_ylim()[1] == pytest.approx(80 * 1.06)


def test_limits_far_above_all_bars_are_only_named():
    picture = plot_stacks({"a": states(1e9)}, limits=GPUS)
    (axes,) = picture.figure.axes
    assert [line.get_ydata()[0] for line in axes.lines] == [24]
    assert {"↑ A100 80 GB", "↑ H100 80 GB", "RTX 4090"} <= set(list_texts(picture))
    assert axes.get_ylim()[1] < 30
    assert "A100 80 GB 80.00 GB" in picture.alt


@pytest.mark.parametrize(
    "places, apart",
    [
        ([], []),
        ([0.2, 0.5], [0.2, 0.5]),
        ([0.2, 0.2, 0.25], [0.2, 0.3, 0.4]),
        ([0.95, 1, 1], [0.8, 0.9, 1]),
        ([0.0, 0.01, 0.9], [0.0, 0.1, 0.9]),
    ],
)
def test_names_of_limits_are_moved_apart(places, apart):
    assert spread(places, gap=0.1) == pytest.approx(apart)


# ---- Units, words, what is refused ----------------------------------------------------------


@pytest.mark.parametrize("elements, unit", [(1e2, "kB"), (1e5, "MB"), (7e9, "GB"), (1e12, "TB")])
def test_the_unit_follows_from_the_values(elements, unit):
    picture = plot_stacks({"a": states(elements)}, ylabel="memory of each GPU")
    assert picture.figure.axes[0].get_ylabel() == f"memory of each GPU ({unit})"


def test_readers_are_told_all_numbers():
    bars = {"by hand": {"parameters": 2e6, "optimizer_state": 8_500}, "DDP": {"other": 12}}
    predicted = {"by hand": {"parameters": 1.5e12}}
    picture = plot_stacks(bars, predicted, {"a GPU": 80 * GB}, ylabel="peak", title="Engines")
    assert picture.alt == (
        "Engines. Peak. by hand: 2.01 MB (parameters 2.00 MB, optimizer state 8.50 kB); "
        "theory 1.50 TB (parameters 1.50 TB). DDP: 12 B (other 12 B). Limits: a GPU 80.00 GB"
    )


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"stacks": {}}, "at least one bar"),
        ({"stacks": {"a": {"weights": 1}}}, r"no such kinds as \['weights'\]: use parameters, "),
        ({"stacks": {"a": {}}, "highlight": "gradient"}, r"no such kinds as \['gradient'\]"),
        ({"stacks": {"a": {}}, "predicted": {"b": {}}}, r"`predicted` has \['b'\]"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, sentence):
    with pytest.raises(LaunchError, match=sentence):
        plot_stacks(**arguments)


# ---- Room -----------------------------------------------------------------------------------

LONG = ("DistributedDataParal", "FSDP2, not resharded", "ZeroRedundancyOptim.", "by hand, stage 3")


@pytest.mark.parametrize("bars", [1, 3, 10])
@pytest.mark.parametrize("limits", [None, GPUS])
def test_nothing_overlaps(bars, limits):
    names = [f"{LONG[k % 4][:18]} {k}" for k in range(bars)]
    stacks = {name: dict.fromkeys(KINDS, 10 ** (3 + 7 * k / bars)) for k, name in enumerate(names)}
    picture = plot_stacks(stacks, {names[0]: states(1e9)}, limits, title="All kinds of engines")
    picture.figure.draw_without_rendering()
    (axes,) = picture.figure.axes
    texts = [*axes.get_xticklabels(), axes._left_title, axes.yaxis.label]
    texts += [t for t in axes.texts if t.get_zorder() == 5 or t.get_text().lstrip("↑ ") in GPUS]
    boxes = [Text.get_window_extent(text) for text in texts]  # without the lines that lead there
    boxes.append(axes.get_legend().get_window_extent())
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert box.x0 >= 0 and box.x1 <= picture.figure.bbox.width
        assert box.y0 >= 0 and box.y1 <= picture.figure.bbox.height


def test_less_than_a_byte_is_not_nothing():
    picture = plot_stacks({"for each parameter": {"parameters": 2, "optimizer_state": 12 / 64}})
    assert "2.19 B (parameters 2 B, optimizer state 0.188 B)" in picture.alt
