"""Pictures of a column and a row layer: the boxes and numbers are what each rank has."""

import cloudpickle
import pairs
import pytest
import torch
from helpers import launch_on_cpu as launch
from helpers import load_solved_lab
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch
from pairs import FILMS, sum_twice, take
from torch import nn

from pedagogy_lib import LaunchError
from pedagogy_lib.pictures.style import GREY, INK, RED

PICTURES = load_solved_lab("pair_pictures")
plot_pair, layout_of = PICTURES.plot_pair, PICTURES.layout_of
format_cell, rank_color = (
    load_solved_lab("pair_words").format_cell,
    load_solved_lab("placement_style").rank_color,
)

cloudpickle.register_pickle_by_value(pairs)  # so that ranks need not find it


@pytest.fixture(scope="module")
def films():
    return launch(take, load_solved_lab("tensor_parallel"), world_size=2).values


def outlines(picture):
    """What is new."""
    patches = [p for p in picture.figure.axes[0].patches if p.get_linewidth() == 1.8]
    assert not [p for p in patches if to_hex(p.get_edgecolor()) != INK]
    return patches


def find_boxes_by_color(picture, color):
    """Boxes, without what is hatched, arrows, and the small squares beside the ranks' names."""
    patches = [p for p in picture.figure.axes[0].patches if not isinstance(p, FancyArrowPatch)]
    large = [p for p in patches if p.get_width() > 0.13 and not p.get_hatch()]
    return [p for p in large if to_hex(p.get_facecolor()) == color.lower()]


def arrows(picture):
    return [p for p in picture.figure.axes[0].patches if isinstance(p, FancyArrowPatch)]


def find_hatched_patches(picture):
    return [p for p in picture.figure.axes[0].patches if p.get_hatch()]


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


# ---- What is drawn --------------------------------------------------------------------------


def test_the_first_frame(films):
    picture = plot_pair(films, 1)
    assert texts(picture)[0] == "1 of 14: before the step"
    assert len(find_boxes_by_color(picture, GREY)) == 2  # X
    for rank in range(2):
        a, b = find_boxes_by_color(picture, rank_color(rank))
        assert a.get_height() == pytest.approx(2 * b.get_height())
        assert b.get_width() == pytest.approx(2 * a.get_width())
    assert len(outlines(picture)) == 3 * 2 and not arrows(picture)


def test_summands_are_hatched_and_then_summed(films):
    before, after = plot_pair(films, 5), plot_pair(films, 6)
    colors = [to_hex(p.get_edgecolor()) for p in find_hatched_patches(before)]
    assert colors == [rank_color(rank).lower() for rank in range(2)] and not find_hatched_patches(
        after
    )
    assert len(outlines(before)) == len(outlines(after)) == 2
    assert not arrows(before) and len(arrows(after)) == 1
    assert "all-reduce" in texts(after) and "all-reduce" not in texts(before)
    assert "Each rank has a summand of Y; only the sum is right." in before.alt
    summands = [film.frames[4].values["Y"].values for film in films]
    both = {pair for rows in zip(*summands) for pair in zip(*rows)}
    assert (2, -2) in both  # the first ones of which none is 0
    assert "Each rank sends 32 B: 2 − 2 = 0 and so on (summands: frame 5)." in after.alt
    assert "and so on (summands: frame 13)." in plot_pair(films, 14).alt


@pytest.mark.parametrize("number, matrix, kind", [(6, "Y", "values"), (14, "X", "gradients")])
def test_the_arrow_is_in_the_middle_of_its_band(films, number, matrix, kind):
    """It begins and ends at what has been summed, and is behind what lies between."""
    picture = plot_pair(films, number)
    (arrow,) = arrows(picture)
    layout = layout_of(films)
    (left, top), (width, height) = layout.corner(matrix, kind, 0), layout.size(matrix)
    (x, y), end = arrow._posA_posB
    assert x == end[0] == pytest.approx(left + width / 2)
    assert (y, end[1]) == (top + height, layout.corner(matrix, kind, 1)[1])
    patches = picture.figure.axes[0].patches
    assert not [p for p in outlines(picture) if p not in patches[patches.index(arrow) :]]


@pytest.mark.parametrize(
    "number, head, gradient, remark",
    [
        (1, "H = f(XA)", None, "part of B."),
        (3, "XA", None, "Each rank has a part of XA."),
        (4, "H = f(XA)", None, "Each rank has a part of H."),
        (10, "H = f(XA)", "H", "Each rank has a part of the gradient of H."),
        (11, "H = f(XA)", "XA", "Each rank has a part of the gradient of XA."),
        (14, "H = f(XA)", "XA", "gradient of XA Shard by columns"),
    ],
)
def test_h_and_xa_are_told_apart(films, number, head, gradient, remark):
    picture = plot_pair(films, number)
    written = texts(picture)
    assert [text for text in written if text in ("XA", "H", "H = f(XA)")] == [head]
    assert remark in picture.alt
    assert [text for text in written if text.startswith("of\n")] == [f"of\n{gradient}"] * 2 * bool(
        gradient
    )
    assert (f"of {gradient}: Shard by columns" in written) == bool(gradient)


def test_every_number_is_written(films):
    helds = [
        held
        for film in films
        for kind in ("values", "gradients")
        for held in getattr(film.frames[-1], kind).values()
    ]
    numbers = [format_cell(number) for held in helds for row in held.values for number in row]
    written = texts(plot_pair(films, 14))
    assert [one for one in numbers if written.count(one) < numbers.count(one)] == []


def test_what_is_wrong_is_red():
    wrong = launch(take, load_solved_lab("tensor_parallel"), sum_twice, world_size=2).values
    picture = plot_pair(wrong, 6)
    written = picture.figure.axes[0].texts
    red = [t.get_text() for t in written if to_hex(t.get_color()) == RED.lower()]
    assert red == ["Replicate, wrong"]
    assert "One process has other numbers." in picture.alt


# ---- Words ----------------------------------------------------------------------------------


def test_readers_are_told_what_each_rank_has(films):
    alt = plot_pair(films, 14).alt
    assert alt.startswith("14 of 14: backward: all-reduce of the gradient of X. Each rank sends")
    assert "Sent so far: 64 B by each rank. Rank 0 has X Replicate [1 2 0 −1 / 0 1 3 2]; " in alt
    assert "gradient of X Replicate (new) [" in alt
    assert "B Shard by rows [0 3 1 1 / −1 1 2 0]" in alt


def test_ranks_with_other_events_and_fewer_frames(films):
    short = type(films[1])(1, 2, films[1].frames[:6])
    picture = plot_pair([films[0], short], 14)
    assert texts(picture)[0].startswith("14 of 14: on rank 0, backward: all-reduce of the gradient")
    assert "Rank 1 (forward: all-reduce of Y) has" in picture.alt


def test_frames_that_do_not_exist(films):
    for number in (0, 15):
        with pytest.raises(LaunchError, match=f"frames 1 to 14 of this step, not {number}"):
            plot_pair(films, number)


def test_few_digits():
    numbers = (3.0, -0.25, 12.345, -2.0, 0.004, 12345.6)
    assert [format_cell(x) for x in numbers] == ["3", "−0.25", "12.3", "−2", "0.00", "1.2e4"]


# ---- Room -----------------------------------------------------------------------------------


def large(lab):
    """More ranks and features than numbers have room."""
    column, row = lab.ColumnLinear(nn.Linear(32, 64)), lab.RowLinear(nn.Linear(64, 2))
    return FILMS.film_pair(column, row, torch.ones(16, 32))


def test_nothing_overlaps(films):
    many = launch(large, load_solved_lab("tensor_parallel"), world_size=4).values
    for some, number in ((films, 6), (films, 14), (many, 6), (many, len(many[0].frames))):
        picture = plot_pair(some, number)
        picture.figure.draw_without_rendering()
        (axes,) = picture.figure.axes
        boxes = [t.get_window_extent() for t in axes.texts if t.get_fontsize() > 7.5]
        boxes += [legend.get_window_extent() for legend in picture.figure.legends]
        for index, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:index])
            assert box.x0 >= 0 and box.x1 <= picture.figure.bbox.width
            assert box.y0 >= 0 and box.y1 <= picture.figure.bbox.height
        assert picture.png().startswith(b"\x89PNG")
