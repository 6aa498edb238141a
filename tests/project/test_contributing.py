"""CONTRIBUTING.md: its examples run, and the names on it exist."""

import re
import textwrap
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from helpers import ROOT

from coursekit.protocol import Wrong


def test_the_examples_for_contributors_work():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    formula, on_ranks, picture = re.findall(
        r"```python\n(\s*(?:from|import) .*?)```", page, re.DOTALL
    )
    exercise = exercise_of(formula, {})
    assert list(exercise.examine(exercise.truth))
    exercise = exercise_of(on_ranks, {"torch": torch, "dist": dist})
    assert len(list(exercise.examine(average))) == 6
    with pytest.raises(Wrong) as caught:
        list(exercise.examine(lambda x, group=None: dist.all_reduce(x, group=group)))
    assert caught.value.why == "this is the sum"
    space = {"__package__": "pedagogy_lib.pictures", "__name__": "example"}
    exec(textwrap.dedent(picture), space)
    assert space["plot_ranks"](SimpleNamespace(world_size=4)).alt == "One bar: 4 ranks"


def test_names_on_the_contributors_page_are_there():
    page = re.sub(r"```.*?```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`(?:[\w.]+\.)?(\w+_\w+|[A-Z][a-z]+[A-Z]\w+)(?:\(.*?\))?`", page))
    words = set()
    for room in ("pedagogy_lib", "coursekit", "tests"):
        for path in (ROOT / room).rglob("*.py"):
            words |= set(re.findall(r"\w+", path.read_text()))
    assert "LocalExercise" in named and named - words == set()


def average(x, group=None):
    dist.all_reduce(x, group=group)
    x /= dist.get_world_size(group)


def exercise_of(text, names):
    space = names | {
        "__package__": "coursekit.content.ch06_zero.exercises.example",
        "__name__": "example",
    }
    exec(text, space)
    return space["EXERCISE"]
