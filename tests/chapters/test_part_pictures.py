"""Pictures of single parts: their drawn shapes are compared with what they say."""

import contextlib
import itertools

import numpy as np
import pytest
from helpers import load_solved_lab
from matplotlib.colors import to_rgb

from pedagogy_lib import LaunchError
from pedagogy_lib.pictures.style import GROUND

DIAGRAMS = load_solved_lab("splitting_diagrams")
draw_three_splits = DIAGRAMS.draw_three_splits
draw_clusters, draw_scaling = DIAGRAMS.draw_clusters, DIAGRAMS.draw_scaling
plot_masks = load_solved_lab("dropout_masks").plot_masks
plot_ring = load_solved_lab("message_pictures").plot_ring


@pytest.mark.parametrize(
    ("plot", "arguments", "sentence"),
    [
        (plot_masks, ({},), "plot_masks() takes at least one panel of masks"),
        (plot_masks, (None,), "plot_masks() cannot draw this (TypeError: "),
        (plot_ring, (0,), "plot_ring() takes a list of films, not 0"),
        (plot_ring, ([1],), "plot_ring() cannot draw this (AttributeError: "),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(plot, arguments, sentence):
    with pytest.raises(LaunchError) as told:
        plot(*arguments)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def shares_in(axes, color):
    """The area of each filled part, in that of the whole batch or model of a rank."""
    width = 10.4 if color == DIAGRAMS.MODEL else 1
    parts = [p for p in axes.patches if p.get_facecolor()[:3] == to_rgb(color)]
    return [p.get_width() * p.get_height() / (width * 0.72) for p in parts]


@pytest.mark.parametrize(("ranks", "sizes"), [(4, [8] * 4), (3, [11, 11, 10]), (1, [32])])
def test_a_shares_area_is_what_the_rank_holds(ranks, sizes):
    data, tensor, pipeline = draw_three_splits(ranks).figure.axes
    parts = [size / 32 for size in sizes]
    assert shares_in(data, DIAGRAMS.MODEL) == pytest.approx([1] * ranks)
    assert shares_in(data, DIAGRAMS.BATCH) == pytest.approx(parts)
    assert shares_in(tensor, DIAGRAMS.MODEL) == pytest.approx([1 / ranks] * ranks)
    assert shares_in(tensor, DIAGRAMS.BATCH) == pytest.approx([1] * ranks)
    assert shares_in(pipeline, DIAGRAMS.MODEL) == pytest.approx(parts)
    assert shares_in(pipeline, DIAGRAMS.BATCH) == pytest.approx([1] * ranks)


def test_uneven_shares_are_told():
    alt = draw_three_splits(3).alt
    assert "10 or 11 of 32 samples" in alt
    assert "10 or 11 of 32 layers" in alt
    assert draw_three_splits(1).alt.startswith("What each of 1 rank holds")


@pytest.mark.parametrize("ranks", [0, 33, 2.5, "4"])
def test_splits_over_no_ranks_are_refused(ranks):
    with pytest.raises(LaunchError, match="ranks is a whole number from 1 to 32, not"):
        draw_three_splits(ranks)


def texts_of(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def rectangles(picture):
    """(left, top, width, height) of frames, and of the boxes in them."""
    found = {to_rgb(GROUND): [], to_rgb(DIAGRAMS.GPU): []}
    for p in picture.figure.axes[0].patches:
        found[p.get_facecolor()[:3]].append((*p.get_xy(), p.get_width(), p.get_height()))
    return found.values()


def test_each_node_has_its_frame_and_name():
    picture = draw_clusters()
    frames, boxes = rectangles(picture)
    assert (len(frames), len(boxes)) == (4 + 1 + 2, 12)
    names = [text for text in texts_of(picture) if text.startswith("node ")]
    assert names == [f"node {n}" for n in (0, 1, 2, 3, 0, 0, 1)]
    assert texts_of(picture)[-1] == "RANK 3\nLOCAL_RANK 1"


@pytest.mark.parametrize("draw", [draw_clusters, draw_scaling])
def test_boxes_lie_in_frames_with_equal_margins_and_frames_in_the_picture(draw):
    picture = draw()
    frames, boxes = rectangles(picture)
    (low, high), (bottom, top) = (getattr(picture.figure.axes[0], f"get_{x}lim")() for x in "xy")
    for left, above, width, height in frames:
        inside = [b for b in boxes if left < b[0] < left + width and above < b[1] < above + height]
        edges = [left, *(edge for b in inside for edge in (b[0], b[0] + b[2])), left + width]
        gaps = np.diff(edges)[::2]
        assert gaps == pytest.approx([gaps[0]] * (len(inside) + 1))
        assert low < left < left + width < high
        assert min(top, bottom) < above < above + height < max(top, bottom)


def test_scaling_has_the_same_area_both_ways():
    frames, boxes = rectangles(draw_scaling())
    start, larger, *more = [width * height for _, _, width, height in boxes]
    assert (len(frames), len(more)) == (6, 8)
    assert larger == pytest.approx(8 * start)
    assert sum(more) == pytest.approx(larger)


@pytest.mark.parametrize("way", ["columns", "rows", "pair"])
@pytest.mark.deep
def test_the_highest_picture_of_chapter_07_is_the_one_that_it_names(way):
    sizes = itertools.product([1, 4, 8, 16], [1, 64], [4, 64], [4, 10, 64])
    heights, draw_product = [], load_solved_lab("split_products").draw_product
    for n, rows, inner, columns in sizes:
        with contextlib.suppress(ValueError):  # what cannot be cut
            heights.append(draw_product(way, n, rows, inner, columns).size()[1])
    assert max(heights) <= draw_product("columns", 8, columns=4).size()[1]
