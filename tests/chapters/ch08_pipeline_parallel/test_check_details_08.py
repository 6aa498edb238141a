"""Details of chapter 08's checks: symptoms, faults of earlier exercises, limits, what is true."""

import re

import pytest
from answer_files import Answer, all_answers, define_answer, solution_of
from coursekit.content.ch08_pipeline_parallel.exercises.shared.slots import slots_of
from exercise_names import EX
from helpers import append_program, replace_text

from coursekit.answers import remote_answer
from coursekit.check_runner import find_exercise
from pedagogy_lib import check
from pedagogy_lib.basics.text_wrap import COLUMNS
from pedagogy_lib.schedules.simulations import simulate

ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for answer in all_answers()
    if answer.exercise.number.startswith("8.")
}
ARITHMETIC = (
    EX.gpipe,
    EX.bubble,
    EX.most_kept,
    EX.one_f_one_b,
    EX.repair_one_f_one_b,
    EX.best_size,
    EX.turn,
)  # without ranks


@pytest.fixture
def answer_checker(course):
    """Check an answer, in its cell or in its lab."""

    def check_answer(answer):
        number, lab = answer.exercise.number, answer.exercise.lab
        course(**({lab: append_program(answer.program)} if lab else {}))
        return check(number) if lab else check(number, define_answer(answer))

    return check_answer


def answer_with(number, body):
    """An answer to an exercise: its function, with another body."""
    exercise = find_exercise(number)
    head = solution_of(exercise).partition("\n")[0]
    return Answer(exercise, "wrong", body, f"{head}\n    {body}\n")


# ---- What is told beside the diagnosis ---------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("number", ARITHMETIC)
def test_verdicts_are_short(number, answer_checker):
    """Few lines tell that all is right; what tells that it is wrong, fits on a screen."""
    for answer in (answer for answer in ANSWERS.values() if answer.exercise.number == number):
        verdict = answer_checker(answer)
        if answer.kind == "right":
            assert 3 <= len(verdict.lines) <= 8
        else:
            lines = (line for line in str(verdict).splitlines() if "labs/" not in line)
            assert max(map(len, lines)) <= COLUMNS, "but for a path"


@pytest.mark.parametrize("number", ARITHMETIC)
def test_an_error_is_told_with_its_line(number, answer_checker):
    word = "yield" if number in (EX.gpipe, EX.one_f_one_b, EX.repair_one_f_one_b) else "return"
    verdict = answer_checker(answer_with(number, f"x = microbatch_number\n    {word} x"))
    assert "NameError: name 'microbatch_number' is not defined" in verdict.wrong.what, verdict
    assert "x = microbatch_number" in verdict.wrong.what, verdict


@pytest.mark.deep
def test_pytorch_does_not_warn_of_what_a_check_tells_better(answer_checker, capsys):
    for words in (
        (EX.stashing_stage, "went on beyond x"),
        (EX.in_place_stage, "Begin with weight.detach()"),
    ):
        assert words[1] in answer_checker(ANSWERS[words]).wrong.why
    printed = capsys.readouterr()
    assert "Warning" not in printed.out + printed.err


# ---- Limits of time ----------------------------------------------------------------------------


@pytest.mark.deep
def test_who_computes_too_much_is_told_of_no_timeout(answer_checker, monkeypatch):
    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 0.2)
    wrong = answer_checker(ANSWERS[EX.balance, "computed again and again"]).wrong
    assert wrong.case == "60 layers on 10 stages"
    assert wrong.what.startswith("it is too slow, and was stopped while still at work\n  at ")
    assert "timeout=" not in wrong.what and re.search(r"pipeline_parallel\.py:\d+", wrong.what)


# ---- Faults of earlier exercises ---------------------------------------------------------------


WRONG_STAGE = replace_text(
    "y.backward(gradient)\n        return x.grad", "y.backward(gradient)\n        return -x.grad"
)
WRONG_PIPELINE = replace_text("self.send(y, action)", "self.send(-y, action)")


@pytest.mark.parametrize(
    ("number", "fault", "first"),
    [
        (EX.stashing_stage, WRONG_STAGE, 'first: check("8.6")'),
        (EX.stashing_stage, WRONG_PIPELINE, 'first: check("8.7")'),
        (EX.sliced_stage, WRONG_PIPELINE, 'first: check("8.7")'),
    ],
    ids=["8.17 a stage", "8.17 a pipeline", "8.20 a pipeline"],
)
def test_a_fault_of_an_earlier_exercise_is_told_first(number, fault, first, course):
    course(pipeline_parallel=fault)
    assert first in check(number).wrong.why


def test_a_fault_of_a_lab_is_not_put_down_to_the_cell(course):
    course(
        pipedream=append_program(
            ANSWERS[EX.stashing_stage, "gradients of one version add up"].program
        )
    )
    verdict = check(EX.in_place_stage, define_answer(ANSWERS[EX.in_place_stage, "a copy first"]))
    assert verdict.wrong.why == f'first: check("{EX.stashing_stage}")', verdict


def test_interleaved_may_not_be_changed(course):
    """The check of `turn` runs the lab's whole schedule with it."""
    warm_up = "2 * (ranks - 1 - rank) + (chunks - 1) * ranks"
    course(schedules=replace_text(warm_up, "ranks - 1 - rank"))
    wrong = check(EX.turn).wrong
    assert "has `interleaved` itself been changed?" in wrong.why
    assert "rank 0 does B0.1 before F0.1: a backward needs" in wrong.what


# ---- What the checks compare with --------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "m"), [(1, 1), (3, 7), (5, 2), (8, 16)])
def test_the_truth_about_schedules(ranks, m):
    """Both take m + ranks - 1 turns, and keep what their papers say."""
    gpipe, one_f_one_b = (
        simulate(find_exercise(n).make_rows(ranks, m)) for n in (EX.gpipe, EX.one_f_one_b)
    )
    assert gpipe.seconds == one_f_one_b.seconds == 3 * slots_of(ranks, m)
    assert slots_of(ranks, m) == m + ranks - 1
    assert gpipe.most_kept == [m] * ranks
    assert one_f_one_b.most_kept == [min(m, ranks - rank) for rank in range(ranks)]
