"""Answers that tamper with what compares them are rejected: nothing is compared where they live."""

from dataclasses import replace

import pytest
from elsewhere import connected, put_course
from test_submitted import FIRST, examined_there, put

from pedagogy_lib.course.checking import Wrong
from pedagogy_lib.exercises.kit import At, World, on_ranks

# Whatever compares, in torch or in the course, says yes.
TAMPERS = """
import importlib, pkgutil, sys
import torch

for folder in ("kit", "chNN"):
    package = importlib.import_module(f"pedagogy_lib.exercises.{folder}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
yes = lambda *args, **kwargs: True
for owner in (torch, torch.Tensor, *sys.modules.values()):
    if owner in (torch, torch.Tensor) or owner.__name__.startswith("pedagogy_lib."):
        for name in ("equal", "allclose", "close", "close_in_float32", "same", "alike", "is_right"):
            if callable(getattr(owner, name, None)):
                setattr(owner, name, yes)
"""
QUICK = ("5.9",)
NUMBERS = (
    "1.4", "2.8", "3.2", "3.3", "3.7", "3.10", "4.7", "4.14", *QUICK, "5.4", "5.6", "5.8",
    "6.3", "6.14", "7.4", "7.11", "7.18", "8.18", "9.7", "9.15",
)  # fmt: skip
# No rank does anything, and all of them have found nothing.
SILENT = """
from types import SimpleNamespace

from pedagogy_lib.exercises.kit import on_ranks

nothing = [[({}, [], 0, 0)] * 9] * 9
on_ranks.try_on_ranks = lambda *args, **settings: SimpleNamespace(values=nothing)
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return put_course(tmp_path_factory.mktemp("course"))


def cases():
    deep = pytest.mark.deep
    return [pytest.param(number, marks=[deep] * (number not in QUICK)) for number in NUMBERS]


@pytest.mark.parametrize("number", cases())
def test_an_answer_that_patches_comparisons_is_as_wrong_as_without(number, course):
    wrong = FIRST[number, "wrong"]
    folder = f"ch{int(number.partition('.')[0]):02}"
    liar = replace(wrong, text=f"{wrong.program}\n\n{TAMPERS.replace('chNN', folder)}")
    with put(liar, course), connected(course) as connection:
        verdict = examined_there(liar, connection)
    assert verdict.passed is False
    assert wrong.words in " ".join(f"{verdict.wrong.what} {verdict.wrong.why}".split())


@pytest.mark.deep
def test_an_answer_whose_ranks_tell_nothing_is_not_right(course):
    right = FIRST["7.7", "right"]
    liar = replace(right, text=f"{right.program}\n\n{SILENT}")
    with connected(course) as connection:
        verdict = examined_there(liar, connection)
    assert verdict.passed is False
    assert verdict.wrong.what.endswith("nothing has been told of: y")


def test_cases_of_which_nothing_comes_are_not_passed_over(monkeypatch):
    cases = [At(World(1)), At(World(2))]
    monkeypatch.setattr(on_ranks, "there", lambda *args: ([[({}, [], 0, 0)]], None))
    with pytest.raises(Wrong, match=r"2 ranks.*1 of 2 have told"):
        list(on_ranks.try_cases(None, None, cases))
    monkeypatch.setattr(on_ranks, "there", lambda *args: ([[], []], None))
    with pytest.raises(Wrong, match=r"1 rank.*0 of 1 have told"):
        list(on_ranks.try_cases(None, None, cases))
