"""Answers that tamper with what compares them are rejected: nothing is compared where they live."""

from dataclasses import replace

import pytest
from elsewhere import connect_to_course, put_course
from exercise_names import EX
from test_submitted import FIRST, check_remotely, put

from coursekit.chapters import exercise_folders
from coursekit.kit import RankCase, World, rank_trials
from coursekit.protocol import Wrong

# Whatever compares, in torch or in the course, says yes.
TAMPERS = """
import importlib, sys
from pathlib import Path

import torch

for folder in ("kit", "content.chNN.exercises"):
    package = importlib.import_module(f"coursekit.{folder}")
    (place,) = map(Path, package.__path__)
    for file in place.rglob("*.py"):
        names = file.relative_to(place).with_suffix("").parts
        importlib.import_module(".".join([package.__name__, *names]).removesuffix(".__init__"))
yes = lambda *args, **kwargs: True
for owner in (torch, torch.Tensor, *sys.modules.values()):
    if owner in (torch, torch.Tensor) or owner.__name__.startswith(("pedagogy_lib.", "coursekit.")):
        for name in ("equal", "allclose", "close", "close_in_float32", "same", "alike", "is_right"):
            if callable(getattr(owner, name, None)):
                setattr(owner, name, yes)
"""
QUICK = (EX.power,)
NUMBERS = (
    EX.accumulate,
    EX.all_reduce_ring,
    EX.start_equal,
    EX.average_gradients,
    EX.make_buckets,
    EX.average_in_backward,
    EX.watcher,
    EX.catch_up,
    *QUICK,
    EX.loss_scaler,
    EX.eight_bits,
    EX.backward_in_chunks,
    EX.reduce_gradients,
    EX.clip_shards,
    EX.column_linear,
    EX.few_heads,
    EX.sum_partial_gradients,
    EX.sliced_stage,
    EX.three_dimensions,
    EX.route,
)
# No rank does anything, and all of them have found nothing.
SILENT = """
from types import SimpleNamespace

from coursekit.kit import rank_trials

nothing = [[({}, [], 0, 0)] * 9] * 9
rank_trials.try_on_ranks = lambda *args, **settings: SimpleNamespace(values=nothing)
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
    folder = exercise_folders()[number].parent.parent.name
    liar = replace(wrong, text=f"{wrong.program}\n\n{TAMPERS.replace('chNN', folder)}")
    with put(liar, course), connect_to_course(course) as connection:
        verdict = check_remotely(liar, connection)
    assert verdict.passed is False
    assert wrong.words in " ".join(f"{verdict.wrong.what} {verdict.wrong.why}".split())


@pytest.mark.deep
def test_an_answer_whose_ranks_tell_nothing_is_not_right(course):
    right = FIRST[EX.row_layer, "right"]
    liar = replace(right, text=f"{right.program}\n\n{SILENT}")
    with connect_to_course(course) as connection:
        verdict = check_remotely(liar, connection)
    assert verdict.passed is False
    assert verdict.wrong.what.endswith("nothing has been told of: y")


def test_cases_of_which_nothing_comes_are_not_passed_over(monkeypatch):
    cases = [RankCase(World(1)), RankCase(World(2))]
    monkeypatch.setattr(
        rank_trials, "call_next_to_answer", lambda *args: ([[({}, [], 0, 0)]], None)
    )
    with pytest.raises(Wrong, match=r"2 ranks.*1 of 2 have told"):
        list(rank_trials.try_cases(None, None, cases))
    monkeypatch.setattr(rank_trials, "call_next_to_answer", lambda *args: ([[], []], None))
    with pytest.raises(Wrong, match=r"1 rank.*0 of 1 have told"):
        list(rank_trials.try_cases(None, None, cases))
