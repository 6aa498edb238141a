"""Views of pictures with controls that a build records: what the live controls show, in files."""

import base64
import io
import itertools
import json
import re
import subprocess

import needs
import pytest
from helpers import load_solved_lab
from PIL import Image, ImageChops

from coursekit.building import build
from pedagogy_lib import explore, plot_bars
from pedagogy_lib.basics import screen
from pedagogy_lib.pictures.palette import reduce_colors
from pedagogy_lib.pictures.style import Picture
from pedagogy_lib.widgets import explore as exploring
from pedagogy_lib.widgets import view_files
from pedagogy_lib.widgets.controls import control

CHOICES = {"ranks": [4, 2, 8], "way": ["ring", "tree"]}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the views of a part are recorded."""
    place = tmp_path / "views" / "99_a_part"
    monkeypatch.setenv(screen.VIEWS, str(place))
    return place


def draw(ranks, way="ring"):
    if ranks > 4:
        raise ValueError("at most 4 ranks")
    return plot_bars(["a"], {way: [ranks]}, "MB", title=f"{ranks} ranks, {way}")


def no_effect(way, **others):
    return {"ranks"} if way == "tree" else set()


def read(place, number=1) -> dict:
    return json.loads(place.with_name(f"{place.name}-{number}.json").read_text())


def views_of(record) -> dict:
    """{choice as text: view}"""
    return {json.dumps(view["chosen"], sort_keys=True): view for view in record["views"].values()}


def pixels(picture):
    return Image.open(io.BytesIO(picture)).convert("RGBA")


def same_pixels(one, other) -> bool:
    difference = ImageChops.difference(one, other) if one.size == other.size else one
    return difference.getbbox(alpha_only=False) is None


def test_what_is_recorded_is_what_the_live_controls_show(place, monkeypatch):
    explore(draw, no_effect=no_effect, **CHOICES)
    record = read(place)
    monkeypatch.setattr(exploring, "someone_watches", lambda: True)
    live = explore(draw, no_effect=no_effect, **CHOICES)
    assert record["controls"] == live.controls and record["chosen"] == live.chosen
    assert record["is_film"] is live.is_film and record["action"] == live.action
    for chosen in itertools.product(range(3), range(2)):
        live.chosen = dict(zip(CHOICES, chosen))
        recorded = record["views"].pop(json.dumps(live.chosen, sort_keys=True))
        for name in ("chosen", "message", "without_effect", "width", "height"):
            assert recorded[name] == live.view[name], name
        if recorded["message"]:
            continue  # the picture is the one before
        assert recorded["alt"] == live.view["alt"]
        png = base64.b64decode(live.view["src"].partition(",")[2])
        there = place.with_name(recorded["src"]).read_bytes()
        assert same_pixels(pixels(there), reduce_colors(pixels(png)).convert("RGBA"))
        assert len(there) < len(png)
    assert record["views"] == {} and record["height"] == live.height


def test_other_pixels_are_told_from_these():
    one, other = (pixels(draw(n).png()) for n in (2, 4))
    assert same_pixels(one, one) and not same_pixels(one, other)


def test_what_cannot_be_drawn_keeps_its_message_and_adds_no_picture(place):
    explore(draw, ranks=[4, 2, 8])
    record = read(place)
    messages = [view["message"] for view in record["views"].values()]
    assert sorted(messages) == ["", "", "at most 4 ranks"]
    refused = views_of(record)['{"ranks": 2}']
    assert refused["message"] and place.with_name(refused["src"]).exists()
    assert len(list(place.parent.glob("*.webp"))) == 2


def test_controls_that_change_nothing_add_no_picture(place):
    explore(lambda ranks, way: draw(ranks if way == "ring" else 2, way), no_effect=no_effect,
            ranks=[2, 3, 4], way=["ring", "tree"])  # fmt: skip
    assert len(read(place)["views"]) == 6
    assert len(list(place.parent.glob("*.webp"))) == 4


def test_a_part_has_a_record_for_each_of_its_pictures_with_controls(place):
    names = [explore(draw, ranks=[n, 4]).name for n in (2, 3)]
    assert names == ["99_a_part-1", "99_a_part-2"]
    assert [read(place, n)["controls"][0]["texts"][0] for n in (1, 2)] == ["2", "3"]
    assert len(list(place.parent.glob("*.webp"))) == 3  # 4 ranks are the same picture


def test_the_output_is_the_first_picture_and_names_the_record(place):
    from IPython.core.formatters import DisplayFormatter

    shown = explore(draw, ranks=[4, 2])
    data, metadata = DisplayFormatter().format(shown)
    alone = DisplayFormatter().format(draw(4))
    assert (data, metadata) == (alone[0], alone[1] | {"explorer": "99_a_part-1"})


def test_nothing_is_measured(place):
    explore(draw, run=lambda ranks: pytest.fail("it measures"), ranks=[4, 2])
    assert read(place)["action"] == ""


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_written_outside_of_a_build(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(screen.VIEWS, raising=False)
    if value is not None:
        monkeypatch.setenv(screen.VIEWS, value)
    calls = []
    shown = explore(lambda ranks: calls.append(ranks) or draw(ranks), ranks=[4, 2])
    assert type(shown) is Picture and calls == [4] and list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_a_learner_watches(place, monkeypatch):
    monkeypatch.setattr(exploring, "someone_watches", lambda: True)
    explore(draw, ranks=[4, 2])
    assert not place.parent.exists()


def choices_of(**values):
    controls = [control(name, list(each)) for name, each in values.items()]
    controls, choices = view_files.choices_of(controls)
    keys = {json.dumps(choice, sort_keys=True) for choice in choices}
    assert len(keys) == len(choices) <= view_files.MOST_VIEWS
    return {c.name: c.values for c in controls}, choices


def test_up_to_the_limit_all_combinations_are_recorded():
    assert len(choices_of(a=range(8), b=range(6))[1]) == view_files.MOST_VIEWS
    assert len(choices_of(a=range(view_files.MOST_VIEWS))[1]) == view_files.MOST_VIEWS


def test_beyond_it_each_control_is_moved_alone():
    values, choices = choices_of(a=[3, 1, 2, *range(4, 8)], b=range(7))
    assert values == {"a": tuple(range(1, 8)), "b": tuple(range(7))}
    start = {"a": 2, "b": 0}
    assert choices[0] == start and len(choices) == 13
    assert not [
        choice for choice in choices if not sum(choice[name] != start[name] for name in start) <= 1
    ]


@pytest.mark.parametrize("first", [0, 21, 62, 63])
def test_beyond_that_the_values_are_evenly_spaced(first):
    others = (n for n in range(64) if n != first)
    values, choices = choices_of(rank=[first, *others], order=["dp", "tp", "pp"])
    assert len(choices) >= view_files.MOST_VIEWS - 1 and values["order"] == ("dp", "tp", "pp")
    assert {0, 63, first} <= set(values["rank"])
    steps = [after - before for before, after in itertools.pairwise(values["rank"])]
    assert set(steps) <= {1, 2}
    assert values["rank"][choices[0]["rank"]] == first


def test_many_long_controls_are_thinned_alike():
    values, choices = choices_of(**{name: range(1000) for name in "abcd"})
    assert {len(each) for each in values.values()} == {12} and len(choices) == 45
    assert not [each for each in values.values() if not {0, 999} <= set(each)]


@pytest.mark.deep
def test_a_long_film_stays_one(place):
    explore(lambda step: draw(2, f"{step}"), step=list(range(view_files.MOST_VIEWS + 2)))
    record = read(place)
    assert record["is_film"] and len(record["views"]) == view_files.MOST_VIEWS
    assert record["controls"][0]["texts"][-1] == str(view_files.MOST_VIEWS + 1)


@needs.mark("node")
def test_the_program_of_a_page_is_one_script(tmp_path):
    script = tmp_path / "page.cjs"  # neither imports nor exports can be in it
    script.write_text(view_files.page_script())
    subprocess.run(["node", "--check", str(script)], check=True)
    assert "explorer.render" in script.read_text()


def test_the_live_and_the_recorded_controls_have_the_same_state(place):
    explore(draw, ranks=[4, 2])
    used = re.findall(r'model\.get\("(\w+)"\)', (view_files.HERE / "explorer.js").read_text())
    assert {"controls", "view"} < set(used) <= {*read(place), "view"}


def test_a_record_has_the_bytes_that_are_shown_without_a_build(place, monkeypatch):
    draw_three_splits = load_solved_lab("splitting_diagrams").draw_three_splits
    recorded, _ = explore(draw_three_splits, ranks=[4, 2])._repr_mimebundle_()
    monkeypatch.delenv(screen.VIEWS)
    shown, _ = explore(draw_three_splits, ranks=[4, 2])._repr_mimebundle_()
    assert shown == recorded


def test_every_part_with_controls_can_be_recorded():
    """A name with a hyphen would be taken for that of a record."""
    assert not any("-" in path.stem for path in build.sources())
