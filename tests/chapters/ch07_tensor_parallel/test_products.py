"""Pictures of a matrix product that is split: what is drawn and said is what each rank has."""

import pytest
import torch
from helpers import load_solved_lab
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from pedagogy_lib import explore
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.pictures.style import GREY

PLACEMENTS, STYLE = load_solved_lab("placements"), load_solved_lab("placement_style")
PRODUCTS, PARTS = load_solved_lab("split_products"), load_solved_lab("split_product_sizes")
PARTIAL, REPLICATE, SHARD = PLACEMENTS.PARTIAL, PLACEMENTS.REPLICATE, PLACEMENTS.SHARD
RIGHT, rank_color = load_solved_lab("split_product_layout").RIGHT, STYLE.rank_color
WAYS, draw_product, part_sizes = PARTS.WAYS, PRODUCTS.draw_product, PARTS.part_sizes
count_of, messages_of, work_of = PARTS.count_of, PARTS.messages_of, PARTS.work_of
idle_ranks, matrices_of = PARTS.idle_ranks, PARTS.matrices_of
SIZES = {"n": 3, "rows": 5, "inner": 7, "columns": 10}


def bytes_of(message) -> float:
    return 4 * message.numbers


def rectangles(picture):
    return [patch for patch in picture.figure.axes[0].patches if isinstance(patch, Rectangle)]


def find_row(picture, rank):
    """The rectangles beside the name of a rank, or of all "together"."""
    name = "together" if rank is None else f"rank {rank}"
    (text,) = [t for t in picture.figure.axes[0].texts if t.get_text() == name]
    middle = text.get_position()[1]
    near = [p for p in rectangles(picture) if abs(p.get_y() + p.get_height() / 2 - middle) < 0.55]
    return [p for p in near if p.get_x() > 0.9]


def find_filled(patches, color):
    """Without hatches."""
    return [p for p in patches if to_hex(p.get_facecolor()) == color.lower() and not p.get_hatch()]


# ---- Arithmetic -----------------------------------------------------------------------------


@pytest.mark.parametrize("length, n", [(8, 4), (10, 4), (7, 3), (2, 3), (1, 1)])
def test_parts_are_as_torch_cuts_them(length, n):
    assert part_sizes(length, n) == [len(p) for p in torch.arange(length).tensor_split(n)]


def test_what_each_rank_keeps_and_multiplies():
    """7 inner into 3, 2, 2; 10 columns into 4, 3, 3."""
    assert work_of("columns", **SIZES) == [(28, 140), (21, 105), (21, 105)]
    assert work_of("rows", **SIZES) == [(30, 150), (20, 100), (20, 100)]
    assert work_of("pair", **SIZES) == [(56, 280), (42, 210), (42, 210)]


@pytest.mark.parametrize("way, matrices", [("columns", 1), ("rows", 1), ("pair", 2)])
def test_no_rank_does_another_ones_work(way, matrices):
    kept, multiplied = map(sum, zip(*work_of(way, 3, 5, 7, 10)))
    assert (kept, multiplied) == (70 * matrices, 350 * matrices)


def test_what_is_sent():
    expected = {
        "columns": [0, 4 * 3 / 4 * 4 * 6, 4 * 2 * 3 / 4 * 4 * 8, 0],  # gather Y, sum dX
        "rows": [4 * 2 * 3 / 4 * 4 * 6, 0, 4 * 3 / 4 * 4 * 8, 0],  # sum Y, gather dX
        "pair": [4 * 2 * 3 / 4 * 4 * 8, 0, 4 * 2 * 3 / 4 * 4 * 8, 0],  # sum Y, sum dX
    }
    for way, counts in expected.items():
        assert [bytes_of(message) for message in messages_of(way, 4, 4, 8, 6)] == counts
        assert not [message for message in messages_of(way, 1, 4, 8, 6) if bytes_of(message) != 0]
    assert count_of(messages_of("pair", 4, 4, 8, 6)[0]) == "2 · 3/4 · 32 = 48 numbers, 192 B"


@pytest.mark.parametrize("way", WAYS)
def test_placements_follow_from_the_product(way):
    """With Partial and Replicate for what a product of blocks has to give."""
    forward = matrices_of(way, 5, 7, 10)
    after = {(SHARD, 1): (SHARD, 1), (SHARD, 0): (PARTIAL, None)}
    for place, matrix in enumerate(forward):
        if matrix.name in "AB":
            product = forward[place + 1]
            assert (product.placement, product.dim) == after[matrix.placement, matrix.dim]
            first = forward[place - 1]
            assert first.placement == (REPLICATE if matrix.dim == 1 else SHARD)
            assert first.columns == matrix.rows
            assert (product.rows, product.columns) == (first.rows, matrix.columns)
        if matrix.sign == "sum":
            assert (forward[place - 1].placement, matrix.placement) == (PARTIAL, REPLICATE)


@pytest.mark.parametrize("way, cut", [("columns", 1), ("rows", 0)])
def test_the_gradient_of_a_needs_no_message(way, cut):
    """Its part is the product of parts of X and dY that lie where A's part lies."""
    x, dy = torch.randn(5, 7).double(), torch.randn(5, 10).double()
    parts_of_x = x.tensor_split(3, 1) if way == "rows" else [x] * 3
    parts_of_dy = [dy] * 3 if way == "rows" else dy.tensor_split(3, 1)
    parts = [part.T @ other for part, other in zip(parts_of_x, parts_of_dy)]
    assert close(torch.cat(parts, cut), x.T @ dy)
    assert messages_of(way, **SIZES)[-1].when == "backward, dA"
    assert messages_of("pair", **SIZES)[-1].when == "backward, dA and dB"


def test_who_owns_nothing():
    refused = "(The lab refuses that.)"
    assert idle_ranks("columns", 8, 2, 8) == idle_ranks("rows", 2, 2, 1) == ""
    few = f"Ranks 4 to 7 own nothing: A has only 4 columns. {refused}"
    assert idle_ranks("columns", 8, 9, 4) == idle_ranks("pair", 8, 9, 4) == few
    assert idle_ranks("rows", 2, 1, 4) == f"Rank 1 owns nothing: A has only 1 row. {refused}"


# ---- What is drawn --------------------------------------------------------------------------


def test_a_rank_has_its_columns():
    """Of A and of Y, in the right place."""
    picture = draw_product("columns", **SIZES)
    starts = [0, 0.4, 0.7, 1]
    for rank in range(3):
        row = find_row(picture, rank)
        mine = find_filled(row, rank_color(rank))
        wholes = [p for p in find_filled(row, "#FFFFFF") if p.get_fill()]
        assert len(mine) == len(wholes) == 2
        for part, whole in zip(mine, wholes):
            assert part.get_height() == pytest.approx(whole.get_height())
            start = (part.get_x() - whole.get_x()) / whole.get_width()
            assert start == pytest.approx(starts[rank])
            share = part.get_width() / whole.get_width()
            assert share == pytest.approx(starts[rank + 1] - starts[rank])


def test_a_rank_has_its_rows_and_a_summand():
    picture = draw_product("rows", **SIZES)
    shares = [3 / 7, 2 / 7, 2 / 7]
    for rank in range(3):
        row = find_row(picture, rank)
        x, a, dx = find_filled(row, rank_color(rank))
        whole_x, whole_a, whole_dx = (p for p in find_filled(row, "#FFFFFF") if p.get_fill())
        assert x.get_width() / whole_x.get_width() == pytest.approx(shares[rank])
        assert a.get_height() / whole_a.get_height() == pytest.approx(shares[rank])
        assert dx.get_width() / whole_dx.get_width() == pytest.approx(shares[rank])
        (y,) = [p for p in row if p.get_hatch()]
        assert to_hex(y.get_edgecolor()) == rank_color(rank).lower()
        (total,) = find_filled(row, GREY)
        assert (y.get_width(), y.get_height()) == (total.get_width(), total.get_height())


def test_all_together_are_the_whole():
    picture = draw_product("pair", n=4, rows=4, inner=8, columns=6)
    row = find_row(picture, None)
    for rank in range(4):
        assert len(find_filled(row, rank_color(rank))) == 3  # of A, H and B
    (x, y, dx) = find_filled(row, GREY)
    assert y.get_width() == dx.get_width() == x.get_width()
    parts = [p for rank in range(4) for p in find_filled(row, rank_color(rank))]
    area = sum(p.get_width() * p.get_height() for p in parts)
    cell = x.get_width() / 8 * x.get_height() / 4
    assert area == pytest.approx(cell * (8 * 6 + 4 * 6 + 6 * 8))
    assert sum(bool(p.get_hatch()) for p in row) == 2 * 4  # summands of Y and of dX


def test_linear_keeps_its_weight_transposed():
    texts = [t.get_text() for t in draw_product("pair").figure.axes[0].texts]
    assert "Aᵀ, cut\nalong\ndim 0" in texts and "Bᵀ, cut\nalong\ndim 1" in texts
    texts = [t.get_text() for t in draw_product("rows").figure.axes[0].texts]
    assert "Aᵀ, cut\nalong\ndim 1" in texts


def test_of_many_ranks_some_are_left_out():
    picture = draw_product("pair", n=16, rows=64, inner=64, columns=64)
    texts = [t.get_text() for t in picture.figure.axes[0].texts]
    shown = [text for text in texts if text.startswith("rank ")]
    assert shown == ["rank 0", "rank 1", "rank 2", "rank 3", "rank 15"]
    assert "… 11 more ranks" in texts
    assert len({rank_color(rank) for rank in range(16)}) == 16


def test_one_number_on_one_rank():
    picture = draw_product("pair", n=1, rows=1, inner=1, columns=1)
    assert "2 · 0/1 · 1 = 0 numbers, 0 B" in picture.alt
    assert len(find_row(picture, 0)) > 5


def test_ranks_without_a_part():
    picture = draw_product("columns", n=4, columns=2)
    assert "rank 3 keeps 0 numbers and does 0 multiplications in the forward" in picture.alt
    said = "Ranks 2 to 3 own nothing: A has only 2 columns. (The lab refuses that.)"
    assert picture.alt.endswith(said)
    assert said in [t.get_text() for t in picture.figure.axes[0].texts]
    assert not find_filled(find_row(picture, 3), rank_color(3))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(8, 1, 8, 8), (16, 64, 4, 4), (16, 1, 64, 64)])
def test_flat_matrices_can_be_seen(way, sizes):
    row = find_row(draw_product(way, *sizes), None)
    wholes = [p for p in row if p.get_hatch() or find_filled([p], GREY)]
    assert wholes and all(min(p.get_width(), p.get_height()) > 0.15 for p in wholes)


@pytest.mark.parametrize("way", WAYS)
def test_all_the_width_is_used(way):
    last = max(find_row(draw_product(way), 0), key=lambda patch: patch.get_x())
    assert last.get_x() + last.get_width() == pytest.approx(RIGHT)


@pytest.mark.parametrize("way", WAYS)
def test_no_part_is_painted_over(way):
    (axes,) = draw_product(way).figure.axes
    parts = [(part.get_bbox().bounds, part) for part in axes.patches if isinstance(part, Rectangle)]
    for place, part in parts:
        above = [other for where, other in parts
                 if where == place and other.get_zorder() > part.get_zorder()]  # fmt: skip
        assert not any(other.get_fill() for other in above)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "sizes", [(4, 4, 8, 8), (8, 1, 4, 4), (16, 64, 2, 64), (8, 2048, 4096, 16384)]
)
def test_nothing_overlaps(way, sizes):
    picture = draw_product(way, *sizes)
    picture.figure.draw_without_rendering()
    (axes,) = picture.figure.axes
    numbers_of_ranks = [t for t in axes.texts if t.get_fontsize() == 7.5 and t.get_zorder() == 3]
    texts = [t for t in axes.texts if t.get_text() and t not in numbers_of_ranks]
    boxes = [text.get_window_extent() for text in texts]
    boxes += [legend.get_window_extent() for legend in picture.figure.legends]
    for index, box in enumerate(boxes):
        overlapping = [other for other in boxes[:index] if box.overlaps(other)]
        assert not overlapping, texts[min(index, len(texts) - 1)].get_text()
        assert box.x0 >= 0 and box.x1 <= picture.figure.bbox.width
        assert box.y0 >= 0 and box.y1 <= picture.figure.bbox.height


# ---- Words ----------------------------------------------------------------------------------


def test_readers_are_told_what_is_to_be_seen():
    assert draw_product("rows", n=2, rows=2, inner=3, columns=4).alt == (
        "Y = X A, A cut by rows, on 2 ranks. X (2 × 3) Shard by columns; A (3 × 4) Shard by rows; "
        "Y (2 × 4) Partial; Y (2 × 4) Replicate; dX (2 × 3) Shard by columns. "
        "rank 0 keeps 8 numbers and does 16 multiplications in the forward; "
        "rank 1 keeps 4 numbers and does 8 multiplications in the forward. "
        "Each rank sends: forward all-reduce of Y 2 · 1/2 · 8 = 8 numbers, 32 B; "
        "backward, dX nothing: dX stays cut; "
        "if each rank needs all of dX: all-gather of dX 1/2 · 6 = 3 numbers, 12 B; "
        "backward, dA nothing: both factors are here."
    )


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"way": "diagonal"}, 'way is "columns", "rows" or "pair", not \'diagonal\''),
        ({"way": "rows", "n": 0}, "n is a whole number from 1 on, not 0"),
        ({"way": "rows", "rows": 2.5}, "rows is a whole number from 1 on, not 2.5"),
        ({"way": "pair", "inner": True}, "inner is a whole number from 1 on, not True"),
        ({"way": "pair", "columns": "8"}, "columns is a whole number from 1 on, not '8'"),
    ],
)
def test_bad_values(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        draw_product(**arguments)
    assert str(caught.value) == sentence


def test_as_a_widget():
    picture = explore(draw_product, way=["pair", "rows", "columns"], n=[4, 1, 2], rows=[4, 1])
    assert picture.alt.startswith("Y = f(X A) B, A cut by columns, B by rows, on 4 ranks.")
    assert picture.png().startswith(b"\x89PNG")
