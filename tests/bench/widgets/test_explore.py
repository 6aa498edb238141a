"""Pictures with controls: what a person chooses is drawn, and what cannot be drawn is told."""

import json
import re
import subprocess

import needs
import numpy as np
import pytest
import torch
from helpers import ROOT

from pedagogy_lib import LaunchError, explore, plot_bars
from pedagogy_lib.widgets import explore as exploring
from pedagogy_lib.widgets.controls import control

WIDGETS = ROOT / "pedagogy_lib" / "widgets"


@pytest.fixture
def viewer(monkeypatch):
    monkeypatch.setattr(exploring, "someone_watches", lambda: True)


class BarDrawer:
    """Draws bars, and counts how often."""

    def __init__(self):
        self.calls = []

    def __call__(self, ranks, way="ring"):
        self.calls.append((ranks, way))
        if ranks > 4:
            raise ValueError("at most 4 ranks")
        return plot_bars(["a"], {way: [ranks]}, "MB", title=f"{ranks} ranks, {way}")


def read_view(explorer) -> str:
    """The description of the picture that is shown, and the message."""
    return explorer.view["alt"].split(".")[0], explorer.view["message"]


def test_without_a_person_it_is_the_picture_itself():
    assert explore(BarDrawer(), ranks=[4, 2]).alt.startswith("4 ranks, ring")


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"ranks": 5}, "explore() takes lists of values: write ranks=[5]"),
        ({"ranks": "4"}, "explore() takes lists of values: write ranks=['4']"),
        ({"ranks": []}, "explore() takes lists of values: write ranks=[2, 4]"),
        ({"ranks": range(0)}, "explore() takes lists of values: write ranks=[2, 4]"),
        ({"ranks": None}, "explore() takes lists of values: write ranks=[2, 4]"),
        ({"ranks": {2: 4}}, "explore() takes lists of values: write ranks=[2, 4]"),
        ({"ranks": {2, 4}}, "explore() takes lists of values: write ranks=list(...)"),
        ({"ranks": (n for n in (2, 4))}, "explore() takes lists of values: write ranks=list(...)"),
        ({"ranks": np.array(3)}, "explore() takes lists of values: write ranks=[3]"),
        ({"ranks": np.ones((1, 2))}, "explore() takes numbers, or words: ranks is [[1.0, 1.0]]"),
        ({"ranks": [2, "ring"]}, "explore() takes numbers, or words: ranks is [2, 'ring']"),
        ({"ranks": [2, None]}, "explore() takes numbers, or words: ranks is [2, None]"),
        ({"ranks": [(1, 2)]}, "explore() takes numbers, or words: ranks is [(1, 2)]"),
        ({"ranks": [float("nan")]}, "explore() takes numbers, or words: ranks is [nan]"),
        ({"labels": ["ranks"]}, "explore() takes {argument: label}, not ['ranks']"),
        ({"labels": {3: "ranks"}}, "explore() has a label for 3, but no list of values"),
        ({"highest": 4}, "explore() takes {argument: value}, not 4"),
        ({"highest": {"rank": 4}}, "explore() has a value for rank, but no list of values"),
        ({"no_effect": ["ranks"]}, "explore() takes a function as no_effect, not ['ranks']"),
        ({"run": [1, 2]}, "explore() takes a function as run, not [1, 2]"),
        ({"action": None}, "explore() takes the words of the button, not None"),
    ],
)
def test_choices_that_nobody_can_make_are_refused(choices, sentence):
    with pytest.raises(LaunchError) as told:
        explore(BarDrawer(), **{"ranks": [2, 4]} | choices)
    assert str(told.value) == sentence


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [("ring", "explore() takes a function that draws, not 'ring'"),
     (lambda ranks: None, "what draws returns a picture, as plot_bars() does, not None")],
)  # fmt: skip
def test_what_draws_nothing_is_refused(draw, sentence):
    with pytest.raises(LaunchError) as told:
        explore(draw, ranks=[2, 4])
    assert str(told.value) == sentence


def test_arrays_are_lists_of_values(viewer):
    for values in (np.array([4, 2]), torch.tensor([4, 2]), (4, 2), range(4, 1, -2)):
        assert explore(BarDrawer(), ranks=values).controls[0]["texts"] == ["2", "4"]


def late(found):
    """What draws a picture for 1, and for 2 something else."""
    return lambda n: plot_bars(["a"], {"b": [n]}, "MB") if n == 1 else found()


@pytest.mark.parametrize(
    ("draw", "no_effect", "message"),
    [
        (late(lambda: None), None, "what draws returns a picture, as plot_bars() does, not None"),
        (late(lambda: plot_bars(["a"], {"b": [1.7e308]}, "MB")), None, "Matplotlib cannot draw"),
        (late(lambda: plot_bars(["a"], {"b": [1]}, "MB")), lambda n: [] if n == 1 else 1 / 0,
         "ZeroDivisionError: division by zero"),
        (late(lambda: plot_bars(["a"], {"b": [1]}, "MB")), lambda n: [] if n == 1 else None,
         "no_effect returns a list of names, not None"),
    ],
)  # fmt: skip
def test_what_goes_wrong_later_is_told_beside_the_last_picture(viewer, draw, no_effect, message):
    explorer = explore(draw, no_effect=no_effect, n=[1, 2])
    first = explorer.view
    explorer.choose(n=2)
    assert explorer.view["message"].startswith(message)
    assert explorer.view["src"] == first["src"]


def test_a_label_of_no_control_is_refused():
    with pytest.raises(LaunchError, match="a label for rank, but no list of values"):
        explore(BarDrawer(), labels={"rank": "ranks"}, ranks=[2])


def test_numbers_stand_in_order_and_words_as_they_are_given():
    assert control("pp", [4, 2, 4096], "stages").serialise() == {
        "name": "pp", "label": "stages", "texts": ["2", "4", "4,096"], "is_slider": True,
    }  # fmt: skip
    assert control("number_of_ways", ["ring", "a tree"]).serialise() == {
        "name": "number_of_ways", "label": "number of ways", "texts": ["ring", "a tree"],
        "is_slider": False,
    }  # fmt: skip
    assert control("pp", [4, 2, 4096]).first == 1


def test_what_is_chosen_is_drawn_once(viewer):
    draw = BarDrawer()
    explorer = explore(draw, ranks=[4, 2, 3], way=["ring", "tree"])
    assert read_view(explorer) == ("4 ranks, ring", "")
    explorer.choose(ranks=2)
    explorer.choose(way="tree")
    explorer.choose(ranks=4, way="ring")
    explorer.choose(ranks=2, way="tree")
    assert read_view(explorer) == ("2 ranks, tree", "")
    assert draw.calls == [(4, "ring"), (2, "ring"), (2, "tree")]


def test_values_that_do_not_go_together_keep_the_last_picture(viewer):
    explorer = explore(BarDrawer(), ranks=[4, 2, 8])
    explorer.choose(ranks=8)
    assert read_view(explorer) == ("4 ranks, ring", "at most 4 ranks")
    explorer.choose(ranks=2)
    assert read_view(explorer) == ("2 ranks, ring", "")


def test_a_picture_that_fails_is_told_and_the_controls_go_on(viewer):
    def draw(n):
        return plot_bars(["a"], {"b": [1 / n]}, "MB", title=f"{n}")

    explorer = explore(draw, n=[1, 0])
    explorer.choose(n=0)
    assert explorer.view["message"] == "ZeroDivisionError: division by zero"
    explorer.choose(n=1)
    assert explorer.view["message"] == ""


def test_the_button_measures_what_was_chosen(viewer):
    measured = BarDrawer()
    explorer = explore(BarDrawer(), run=lambda ranks: measured(ranks, "measured"), ranks=[4, 2, 8])
    assert explorer.action == "Run it for real"
    explorer.choose(ranks=2)
    for number in (1, 2):  # the browser has to hear of the second one, too
        explorer.handle_message(explorer, {"run": True}, [])
        assert read_view(explorer) == ("2 ranks, measured", "")
        assert explorer.view["run"] == number
    explorer.choose(ranks=4)
    explorer.choose(ranks=2)
    assert read_view(explorer) == ("2 ranks, ring", ""), "a measurement is no drawing"


def test_controls_without_effect_are_named(viewer):
    explorer = explore(
        BarDrawer(), no_effect=lambda ranks, way: {"ranks"} if way == "tree" else set(),
        ranks=[2, 4], way=["ring", "tree"],
    )  # fmt: skip
    assert explorer.view["without_effect"] == []
    explorer.choose(way="tree")
    assert explorer.view["without_effect"] == ["ranks"]


@pytest.mark.parametrize(
    ("choices", "is_film"),
    [({"ranks": [2, 1, 3, 4]}, True), ({"ranks": [1, 2, 4, 3.5]}, False),
     ({"ranks": [1, 2, 3]}, False), ({"ranks": [1, 2, 3, 4], "way": ["ring", "tree"]}, False)],
)  # fmt: skip
def test_one_slider_that_counts_is_a_film(viewer, choices, is_film):
    assert explore(BarDrawer(), **choices).is_film is is_film


def test_the_next_picture_of_a_film_is_drawn_before_it_is_wanted(viewer, monkeypatch):
    draw = BarDrawer()
    explorer = explore(draw, ranks=[1, 2, 3, 4])
    sent = []
    monkeypatch.setattr(explorer, "send", sent.append)
    explorer.handle_message(explorer, {"soon": {"ranks": 1}}, [])
    assert sent[0]["soon"]["alt"].startswith("2 ranks")
    assert read_view(explorer) == ("1 ranks, ring", ""), "that is still shown"
    explorer.choose(ranks=2)
    assert len(draw.calls) == 2


def test_room_is_kept_for_the_highest_picture(viewer):
    def draw(n):
        return plot_bars(["a"], {"b": [n]}, "MB") if n == 1 else high

    high = plot_bars(["a"], {"b": [1]}, "MB")
    high.figure.set_size_inches(7.5, 9)
    explorer = explore(draw, n=[1, 2])
    low_height = explorer.height
    explorer.choose(n=2)
    explorer.choose(n=1)
    assert explorer.height == high.size()[1] > low_height
    assert explore(draw, n=[1, 2], highest={"n": 2}).height == high.size()[1]


def test_pages_without_widgets_get_the_picture(viewer):
    explorer = explore(BarDrawer(), ranks=[4, 2])
    data, *_ = explorer._repr_mimebundle_()
    assert 'alt="4 ranks, ring' in data["text/html"]
    assert data["text/plain"].startswith("4 ranks, ring")
    assert "application/vnd.jupyter.widget-view+json" in data


@needs.mark("node")
@pytest.mark.parametrize("path", sorted(WIDGETS.glob("*.js")), ids=lambda path: path.name)
def test_what_the_browser_runs_can_be_parsed(path, tmp_path):
    module = tmp_path / "module.mjs"
    module.write_text(path.read_text())
    subprocess.run(["node", "--check", str(module)], check=True)


def test_what_the_browser_gets_is_plain_data(viewer):
    explorer = explore(BarDrawer(), ranks=[4, 2])
    state = {name: getattr(explorer, name) for name in ("controls", "chosen", "view", "height")}
    assert json.loads(json.dumps(state)) == state
    used = re.findall(r'model\.get\("(\w+)"\)', (WIDGETS / "explorer.js").read_text())
    assert set(used) <= set(explorer.trait_names())
