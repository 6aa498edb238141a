"""Scores of a class: partial credit, what is built on what, and what is written."""

import csv
import io
import json

import pytest
from answer_files import exercises_of_kind
from class_of_students import files_with, hand_in
from exercise_names import EX
from trusted_sandbox import LocalSandbox, SandboxOpener

from classroom.grading import course, facts, result_files, workers
from classroom.grading.baseline_credit import solution
from classroom.grading.collect import Submission
from classroom.grading.command import main
from classroom.grading.verdict_cache import VerdictCache
from coursekit.check_runner import find_exercise
from coursekit.kit import Formula

NUMBERS = (EX.tree_seconds, EX.sent_bytes)
SEND_TOO_MUCH = "def sent_bytes(name, n, X):\n    return (n - 1) * X / n\n"
HELPED = "def tree_seconds(n, mb, speed):\n    return (n - 1).bit_length() * mb / speed\n"


@pytest.fixture
def task(tmp_path):
    def make(*numbers, sandbox=LocalSandbox):
        asked = course.list_exercises(exercises=numbers)
        return workers.Task(tuple(asked), tmp_path / "out", sandbox)

    return make


def grade(task, files, student="ada"):
    return workers.grade_submission(Submission(student, "ada.zip", files), task)["answers"]


# ---- Partial credit ----


@pytest.mark.parametrize(
    "number", [EX.tree_seconds, EX.sent_bytes, EX.visible, EX.roofline_seconds]
)
def test_what_always_gives_the_same_gets_nothing(number):
    exercise = find_exercise(number)
    for call in facts.calls_of(exercise):
        wanted = exercise.truth(*call)
        right, of = facts.facts_of(exercise, lambda *args, value=wanted: value)
        assert facts.score_of(right, of, facts.count_free_facts(exercise))[0] == 0.0


def test_a_formula_that_is_right_in_some_cases_gets_their_share():
    exercise = find_exercise(EX.sent_bytes)  # 3 of 4 collectives, for 3 numbers of ranks
    right, of = facts.facts_of(exercise, lambda name, n, X: (n - 1) * X / n)
    assert (right, of) == (9, 13)  # the 13th: no rounding
    # One number for all would be right for three collectives on as many ranks.
    assert facts.count_free_facts(exercise) == 3
    assert facts.score_of(right, of, 3) == (0.6, [6, 10])


def test_a_right_formula_has_all_its_facts():
    assert facts.facts_of(find_exercise(EX.sent_bytes), solution(find_exercise(EX.sent_bytes))) == (
        13,
        13,
    )


# Where the truth takes other arguments than the answer gets; the others in `make test-all`.
@pytest.mark.parametrize("number", [EX.make_buckets, EX.flatten_padded, EX.gpipe, EX.part_of_loss])
def test_a_right_answer_holds_in_all_cases_and_most_of_them_count(number):
    need_all_facts(find_exercise(number))


@pytest.mark.deep
@pytest.mark.parametrize("exercise", exercises_of_kind(Formula), ids=lambda one: one.number)
def test_every_formula_gives_partial_credit(exercise):
    need_all_facts(exercise)


def need_all_facts(exercise):
    right, of = facts.facts_of(exercise, solution(exercise))
    assert right == of > facts.count_free_facts(exercise)


def test_scores_are_rounded_down_and_stay_below_one():
    assert facts.score_of(12, 12, 2) == (0.9, [10, 10])
    assert facts.score_of(4, 5, 0)[0] == 0.8
    assert facts.score_of(1, 10, 3) == (0.0, [0, 7])


def test_on_ranks_it_goes_on_behind_the_first_wrong_case():
    exercise = find_exercise(EX.swap)
    right_there = solution(exercise)

    def only_in_float64(x):
        return right_there(x) if x.is_floating_point() else x

    cases = [*exercise.cases, *exercise.large]
    wrong = [case for case in cases if not case.dtype.is_floating_point]
    assert 0 < len(wrong) < len(cases)
    assert facts.facts_of(exercise, only_in_float64) == (len(cases) - len(wrong), len(cases))
    assert facts.facts_of(exercise, right_there) == (len(cases), len(cases))


# ---- A submission ----


def test_right_wrong_and_missing_answers(task):
    files = files_with("02", {EX.tree_seconds: HELPED, EX.sent_bytes: SEND_TOO_MUCH})
    found = grade(task(EX.tree_seconds, EX.chunk_to_send, EX.sent_bytes), files)
    assert {n: one["state"] for n, one in found.items()} == {
        EX.tree_seconds: "right", EX.chunk_to_send: "missing", EX.sent_bytes: "wrong"}  # fmt: skip
    assert (found[EX.tree_seconds]["score"], found[EX.chunk_to_send]["score"]) == (1.0, 0.0)
    assert found[EX.sent_bytes]["case"] == "all_reduce, 4 ranks, X = 2.4 MB"
    assert "an all-reduce is a reduce-scatter and an all-gather" in found[EX.sent_bytes]["why"]
    assert found[EX.sent_bytes]["score"] == 0.6
    assert found[EX.sent_bytes]["source"] == SEND_TOO_MUCH.strip()


def test_what_is_built_on_a_missing_answer_says_so(task):
    ring = "def all_reduce_ring(x, group=None):\n    reduce_scatter_ring([x], group)\n"
    found = grade(
        task(EX.reduce_scatter_ring, EX.all_reduce_ring),
        files_with("02", {EX.all_reduce_ring: ring}),
    )
    assert (found[EX.reduce_scatter_ring]["state"], found[EX.all_reduce_ring]["state"]) == (
        "missing",
        "wrong",
    )
    said = f"{EX.all_reduce_ring} builds on {EX.reduce_scatter_ring}, which is missing"
    assert found[EX.all_reduce_ring]["what"] == said


def test_what_raises_in_the_check_itself_is_broken_and_not_kept(task, tmp_path):
    class FaultySandbox(LocalSandbox):
        def load_cell_function(self, source, name):
            raise RuntimeError("no pipes")

    found = grade(
        task(EX.tree_seconds, sandbox=FaultySandbox), files_with("02", {EX.tree_seconds: HELPED})
    )[EX.tree_seconds]
    assert (found["state"], found["score"]) == ("broken", 0.0)
    assert found["what"] == "the check came to no verdict: RuntimeError: no pipes"
    assert not list((tmp_path / "out").rglob("*.json"))


def test_nothing_is_judged_twice_but_what_has_changed(task, tmp_path):
    made = task(*NUMBERS, sandbox=SandboxOpener(tmp_path))
    judged = tmp_path / "judged.txt"
    first = grade(made, files_with("02", {EX.tree_seconds: HELPED, EX.sent_bytes: SEND_TOO_MUCH}))
    assert (
        grade(made, files_with("02", {EX.tree_seconds: HELPED, EX.sent_bytes: SEND_TOO_MUCH}))
        == first
    )
    assert len(judged.read_text().split("\n")) == 3
    grade(
        made,
        files_with(
            "02", {EX.tree_seconds: HELPED, EX.sent_bytes: SEND_TOO_MUCH.replace(" / n", "/ n")}
        ),
    )
    grade(
        made,
        files_with("02", {EX.tree_seconds: HELPED, EX.sent_bytes: SEND_TOO_MUCH}),
        student="bo",
    )
    assert len(judged.read_text().split("\n")) == 3 + 1 + 2


def test_a_spoilt_file_is_judged_again(tmp_path):
    known = VerdictCache(tmp_path)
    known.put({"a": 1}, "x", EX.tree_seconds)
    assert known.get("x", EX.tree_seconds) == {"a": 1}
    known.path("x", EX.tree_seconds).write_text('{"a"')
    assert known.get("x", EX.tree_seconds) is None


# ---- What is written ----


def results(accepted=None, **entries):
    empty = workers.EMPTY | {"looks": [], "code": "c"}
    answers = {getattr(EX, name): empty | more for name, more in entries.items()}
    students = [{"student": "=ada", "from": "ada.zip", "problems": ["p"], "answers": answers}]
    asked = course.list_exercises(exercises=list(answers))
    return result_files.results_of("T", "v", asked, students, accepted or {})


def test_a_suspicious_answer_waits_for_a_person():
    right = {"state": "right", "score": 1.0, "looks": ["imports os: a.py, line 1: import os"]}
    waits = results(tree_seconds=right)["students"][0]["answers"][EX.tree_seconds]
    assert (waits["state"], waits["score"]) == ("look", 0.0)
    assert waits["reasons"] == [*right["looks"], "the check says: right"]
    counts = results({"=ada": {EX.tree_seconds: "c"}}, tree_seconds=right)["students"][0][
        "answers"
    ][EX.tree_seconds]
    assert (counts["state"], counts["score"]) == ("right", 1.0)
    other = results({"=ada": {EX.tree_seconds: "d"}}, tree_seconds=right)["students"][0]["answers"][
        EX.tree_seconds
    ]
    assert other["state"] == "look"


def test_no_spreadsheet_takes_a_name_for_a_formula():
    made = results(tree_seconds={"state": "right", "score": 1.0}, sent_bytes={"score": 0.7})
    rows = list(csv.reader(io.StringIO(result_files.grades_of(made))))
    assert rows == [["student", EX.tree_seconds, EX.sent_bytes, "total", "of", "to look at"],
                    ["'=ada", "1.0", "0.7", "1.7", "2.0", "0"]]  # fmt: skip
    for name in ("+a", "-a", "@a", " =a", "\t=a"):
        assert result_files.harmless(name) == f"'{name}"
    assert result_files.harmless("ada") == "ada"


def test_the_form_of_the_results():
    made = results(tree_seconds={})
    assert list(made) == ["title", "version", "when", "exercises", "students"]
    assert set(made["exercises"][0]) == {"number", "name", "lab", "part", "title", "points"}
    assert set(made["students"][0]) == {"student", "from", "problems", "answers"}
    assert set(made["students"][0]["answers"][EX.tree_seconds]) == set(workers.EMPTY)
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize(
    "words, said",
    [
        (["nowhere", "--chapters", "02"], "is no folder of submissions"),
        (["."], "say what to grade"),
        (["", "--chapters", "02"], "say where the submissions are"),
        ([".", "--chapters", "77"], "there is no chapter or part 77"),
        ([".", "--exercises", "2.99"], "there is no exercise '2.99'"),
    ],
)
def test_a_mistake_in_the_command_is_one_sentence(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("classroom.grading.command.opener", lambda trust, asked: LocalSandbox)
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_the_whole_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("classroom.grading.command.opener", lambda trust, asked: LocalSandbox)
    hand_in(tmp_path / "class", "ada", files_with("02", {EX.tree_seconds: HELPED}), "zips")
    hand_in(tmp_path / "class", "bo", {"x.py": b"import os\n" + HELPED.encode()
            .replace(b"    return", b"    os.getpid()\n    return")}, "zips")  # fmt: skip
    words = [
        str(tmp_path / "class"),
        "--exercises",
        EX.tree_seconds,
        "--out",
        str(tmp_path / "g"),
        "--jobs",
        "1",
    ]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"{EX.tree_seconds} tree_seconds                     1 right, 1 look" in said
    assert "uses os.getpid: x.py, line 3: os.getpid()" in said
    assert (
        main([*words, "--accept", f"bo:{EX.tree_seconds}", "--accept", f"cem:{EX.tree_seconds}"])
        == 0
    )
    assert "there is no such student" in capsys.readouterr().err
    made = json.loads((tmp_path / "g" / "results.json").read_text())
    assert [s["answers"][EX.tree_seconds]["score"] for s in made["students"]] == [1.0, 1.0]
    assert main(words) == 0  # it is remembered
    assert "bo,1.0,1.0,1.0,0" in (tmp_path / "g" / "grades.csv").read_text()
