"""Pictures of units: the boxes that are drawn are what each rank holds."""

import pytest
from helpers import launch_on_cpu as launch
from helpers import load_solved_lab
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from pedagogy_lib import LaunchError
from pedagogy_lib.pictures.style import COLORS

FILMS, FRAMES, PICTURES = map(load_solved_lab, ("unit_films", "unit_frames", "unit_pictures"))
UnitState, UnitFilm, UnitFrame = FRAMES.UnitState, FRAMES.UnitFilm, FRAMES.UnitFrame
BAR_LEFT, LEFT, ROW = PICTURES.BAR_LEFT, PICTURES.LEFT, PICTURES.ROW
MEAN_COLOR, OWN_COLOR = PICTURES.MEAN_COLOR, PICTURES.OWN_COLOR
plot_units = PICTURES.plot_units
OUTLINE, BAND = "outline", "band"
MEANINGS = {
    COLORS["parameters"].lower(): "held",
    COLORS["communication"].lower(): "travelling",
    COLORS["optimizer_state"].lower(): "updated",
    OWN_COLOR.lower(): "own",
    MEAN_COLOR.lower(): "mean",
    COLORS["idle"].lower(): BAND,
}


def make_unit_state(chunks, gradients=(0, 0), shard=0) -> UnitState:
    states = {"a": "absent", "t": "travelling", "h": "held", "u": "updated"}
    return UnitState(tuple(states[letter] for letter in chunks), gradients, shard)


def film(rank, *frames) -> UnitFilm:
    """Two units on two ranks, of 8 and 12 numbers in chunks of 4 and 6; the last is padding."""
    start = UnitFrame("before the step", [], [make_unit_state("ha"[:: 1 - 2 * rank])] * 2, 40, 0)
    sizes = [[2, 6], [6, 5]]
    return UnitFilm(rank, 2, ["rest", "block"], sizes, [8, 12], [32, 48], [start, *frames])


def make_gather_frame(rank) -> UnitFrame:
    block = make_unit_state("ht" if rank == 0 else "th")
    absent = make_unit_state("ha" if rank == 0 else "ah")
    return UnitFrame("forward: block is being gathered", [1], [absent, block], 88, 0)


@pytest.fixture
def films():
    reduced = make_unit_state("hh", shard=16)
    middle = UnitFrame(
        "backward", [0], [make_unit_state("hh", (0, 24)), make_unit_state("hh", (24, 20))], 120, 68
    )
    return [
        film(
            rank,
            make_gather_frame(rank),
            middle,
            UnitFrame("reduced", [0], [reduced, reduced], 120, 40),
        )
        for rank in range(2)
    ]


def read_boxes(picture, line, unit, rank=0):
    """(meaning, left, right) of what is in the boxes; from 0 to 1 in the width of the unit."""
    (axes,) = picture.figure.axes
    edges = sorted({p.get_x() for p in axes.patches if to_hex(p.get_facecolor()) == "#ffffff"})
    boxes = [x for x in edges if LEFT <= x < BAR_LEFT]
    lefts, width = boxes[2 * unit : 2 * unit + 2], boxes[1] - boxes[0]
    found = []
    for patch in axes.patches:
        x, y = patch.get_xy()
        row, below = divmod(y + patch.get_height() / 2, ROW)
        meaning = MEANINGS.get(to_hex(patch.get_facecolor()), OUTLINE)
        is_here = row == rank and (below > ROW / 2) == line
        inside = lefts[0] - 0.1 < x < lefts[1] + width and meaning != BAND
        if is_here and inside and to_hex(patch.get_facecolor(), keep_alpha=True) != "#ffffffff":
            ends = ((edge - lefts[0]) / width / 2 for edge in (x, x + patch.get_width()))
            found.append((meaning, *(round(end, 1) + 0.0 for end in ends)))
    return found


# ---- The boxes ------------------------------------------------------------------------------


def test_own_chunks_at_rest(films):
    picture = plot_units(films, 1)
    for unit in range(2):
        assert read_boxes(picture, 0, unit, rank=0) == [("held", 0, 0.5)]
        assert read_boxes(picture, 0, unit, rank=1) == [("held", 0.5, 1)]
        assert read_boxes(picture, 1, unit) == []


def test_what_travels_has_just_changed(films):
    picture = plot_units(films, 2)
    assert read_boxes(picture, 0, 1) == [
        ("held", 0, 0.5),
        ("travelling", 0.5, 1),
        (OUTLINE, 0.5, 1),
    ]
    assert read_boxes(picture, 0, 1, rank=1) == [
        ("travelling", 0, 0.5), ("held", 0.5, 1), (OUTLINE, 0, 0.5),
    ]  # fmt: skip
    assert read_boxes(picture, 0, 0) == [("held", 0, 0.5)]


def test_gradients_lie_where_their_parameters_do(films):
    """The second of two parameters, numbers 2 to 8 of 8: half of chunk 0, all of chunk 1."""
    picture = plot_units(films, 3)
    fills = [("own", 0.2, 0.5), ("own", 0.5, 1), (OUTLINE, 0, 1)]
    assert read_boxes(picture, 1, 0) == fills
    exact = [p.get_width() for p in picture.figure.axes[0].patches
             if to_hex(p.get_facecolor()) == OWN_COLOR.lower()]  # fmt: skip
    assert exact[0] == pytest.approx(exact[1] / 2)
    block = read_boxes(picture, 1, 1)
    assert block[0] == ("own", 0, 0.5)
    assert block[1][:2] == ("own", 0.5) and block[1][2] < 1, "padding has no gradient"


def test_a_mean_gradient_is_in_the_ranks_own_box(films):
    picture = plot_units(films, 4)
    assert read_boxes(picture, 1, 0) == [("mean", 0, 0.5), (OUTLINE, 0, 1)]
    assert read_boxes(picture, 1, 0, rank=1) == [("mean", 0.5, 1), (OUTLINE, 0, 1)]


def test_an_updated_chunk_has_a_colour_of_its_own_on_its_owner():
    step = UnitFrame("step", [0, 1], [make_unit_state("uh"), make_unit_state("ua")], 40, 0)
    picture = plot_units([film(0, step)], 2)
    assert read_boxes(picture, 0, 0) == [
        ("updated", 0, 0.5), ("held", 0.5, 1), (OUTLINE, 0, 1),
    ]  # fmt: skip
    assert read_boxes(picture, 0, 1) == [("updated", 0, 0.5), (OUTLINE, 0, 0.5)]


def bands(picture):
    color = COLORS["idle"].lower()
    patches = [p for p in picture.figure.axes[0].patches if to_hex(p.get_facecolor()) == color]
    return [patch for patch in patches if patch.get_x() < BAR_LEFT]


def test_the_unit_in_question_stands_out(films):
    assert not bands(plot_units(films, 1))
    picture = plot_units(films, 2)
    (band,) = bands(picture)
    name = next(t for t in picture.figure.axes[0].texts if t.get_text() == "block")
    assert band.get_x() < name.get_position()[0] < band.get_x() + band.get_width()
    assert name.get_weight() == "bold"


def test_bars_are_as_long_as_there_are_bytes(films):
    (axes,) = plot_units(films, 3).figure.axes
    colors = {COLORS[kind].lower(): kind for kind in ("parameters", "gradients")}
    bars = {
        colors[color]: patch.get_width()
        for patch in axes.patches
        if patch.get_x() == BAR_LEFT and (color := to_hex(patch.get_facecolor())) in colors
    }
    line = axes.lines[0].get_xdata()[0] - BAR_LEFT
    assert bars["parameters"] / line == pytest.approx(120 / 80)
    assert bars["gradients"] / line == pytest.approx(68 / 80)
    assert {"120 B", "68 B"} <= {text.get_text() for text in axes.texts}


# ---- Words ----------------------------------------------------------------------------------


def title_of(picture):
    return picture.figure.axes[0].get_title(loc="left")


def test_readers_are_told_what_each_rank_holds(films):
    assert title_of(plot_units(films, 2)) == "2 of 4: forward: block is being gathered"
    assert plot_units(films, 2).alt == (
        "2 of 4: forward: block is being gathered. Ranks go at their own pace, matched by number. "
        "rank 0 has 88 B of parameters and 0 B of gradients. rest: parameters 0 held, 1 absent; "
        "block: parameters 0 held, 1 travelling. "
        "rank 1 has 88 B of parameters and 0 B of gradients. rest: parameters 0 absent, 1 held; "
        "block: parameters 0 travelling, 1 held."
    )
    told = plot_units(films, 3).alt
    assert "rest: parameters 0, 1 held, gradients of its samples 24 B; " in told
    assert "parameters 0, 1 held, mean gradient of its chunk 16 B" in plot_units(films, 4).alt


def test_ranks_with_other_events_and_fewer_frames(films):
    short = film(1, make_gather_frame(1))
    picture = plot_units([films[0], short], 4)
    assert title_of(picture) == "4 of 4: on rank 0, reduced"
    assert "rank 1 (forward: block is being gathered) has 88 B" in picture.alt
    assert OUTLINE not in [what for what, *_ in read_boxes(picture, 0, 1, rank=1)]


def test_frames_that_do_not_exist(films):
    for number in (0, 5):
        with pytest.raises(LaunchError, match=f"frames 1 to 4 of this step, not {number}"):
            plot_units(films, number)


# ---- Room -----------------------------------------------------------------------------------


def large_film(rank, ranks, units) -> UnitFilm:
    names = [f"encoder.blocks.{k}" for k in range(units)]
    whole = UnitState(("held",) * ranks, (1,), 1)
    frame = UnitFrame("backward: gradients reduced", [0], [whole] * units, 10**9, 10**8)
    elements = [100 * ranks] * units
    size = [123_456_789] * units
    return UnitFilm(rank, ranks, names, [[100 * ranks]] * units, elements, size, [frame] * 2)


@pytest.mark.parametrize("ranks, units", [(1, 1), (4, 5), (8, 10)])
def test_nothing_overlaps(ranks, units):
    picture = plot_units([large_film(rank, ranks, units) for rank in range(ranks)], 2)
    picture.figure.draw_without_rendering()
    (axes,) = picture.figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    boxes += [axes._left_title.get_window_extent()]
    boxes += [legend.get_window_extent() for legend in picture.figure.legends]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert box.x0 >= 0 and box.x1 <= picture.figure.bbox.width
    assert not [patch for patch in axes.patches if not isinstance(patch, Rectangle)]


def test_every_frame_of_a_real_step_is_drawn():
    def step(lab):
        import torch

        model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(2)))
        zero = lab.Zero3(model, lambda p: torch.optim.SGD(p, lr=0.1), list(model))
        with FILMS.film_units(zero.units, model) as film:
            model(torch.ones(1, 3)).sum().backward()
            zero.step()
        return film

    films = launch(step, load_solved_lab("zero"), world_size=2).values
    last = len(films[0].frames)
    for number in range(1, last + 1):
        assert title_of(plot_units(films, number)).startswith(f"{number} of {last}: ")
    assert plot_units(films, last).png().startswith(b"\x89PNG")
    assert films[0].names == ["0", "1"]
