"""Details of chapter 03's checks: what a verdict shows, and what a check leaves as it was."""

import time

import pytest
import torch
from answer_files import all_answers, defined
from helpers import put_lab

from pedagogy_lib import check
from pedagogy_lib.course import build, checking

ANSWERS = all_answers()


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check an exercise where all labs are solved, and some go on with another program."""

    def check_one(number, **programs):
        for path in build.lab_sources():
            solved = build.solved(path.read_text())
            mine = f"{solved}\n\n{programs.get(path.stem, '')}"
            put_lab(tmp_path, monkeypatch, path.stem, mine, solved)
        return check(number)

    return check_one


def answer_to(number, words):
    (answer,) = [a for a in ANSWERS if (a.exercise.number, a.words) == (number, words)]
    return answer


# ---- What a verdict shows ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words", "cases"), [("3.1", "one line", 6), ("3.3", "n times its share", 5)]
)
def test_as_many_cases_as_are_tried_in_a_cell(number, words, cases):
    assert len(check(number, defined(answer_to(number, words))).lines) == cases


@pytest.mark.parametrize(("number", "cases"), [("3.6", 3), ("3.7", 7)])
def test_as_many_cases_as_are_tried_in_a_lab(number, cases, check_lab):
    assert len(check_lab(number).lines) == cases


def test_the_staleness_of_pushes_in_a_given_order_is_shown(check_lab):
    lines = check_lab("3.2").lines
    assert "staleness 0 0 2 1 0 2" in lines[0]
    assert len(lines) == 4


def test_a_worker_that_waits_for_its_turn_is_in_no_endless_loop(check_lab, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.5)
    verdict = check_lab("3.2", data_parallel=answer_to("3.2", "that is BSP").program)
    assert "it hangs" in verdict.wrong.what
    assert "endless loop" not in repr(verdict)


def test_an_error_is_shown_with_its_line(check_lab):
    line = "return enough[length * n * 99]"
    verdict = check_lab("3.7", data_parallel=answer_to("3.7", line).program)
    assert "IndexError" in verdict.wrong.what
    assert line in verdict.wrong.what


# ---- What a check leaves as it was -------------------------------------------------------------


def test_the_clock_of_the_check_is_in_a_rank_alone(check_lab):
    before = time.perf_counter, time.time
    check_lab("3.6", simple_ddp=answer_to("3.6", "Run one of them").program)
    assert (time.perf_counter, time.time) == before


@pytest.mark.parametrize(
    "words", ["torch.manual_seed sets the generator", "a copy of the global generator"]
)
def test_an_answer_does_not_touch_the_notebooks_generator(words, check_lab):
    before = torch.get_rng_state()
    check_lab("3.7", data_parallel=answer_to("3.7", words).program)
    assert torch.equal(torch.get_rng_state(), before)
