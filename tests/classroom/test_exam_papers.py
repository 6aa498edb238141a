"""An exam: by its seed always the same, in versions, and with its answers apart."""

import re

import pytest
from bs4 import BeautifulSoup

from classroom.teaching import __main__ as program
from classroom.teaching.exam import exams, write
from classroom.teaching.questions import CHAPTERS, questions_of
from coursekit.building.build import ROOT
from pedagogy_lib.basics.errors import WrongInput


def test_a_seed_makes_the_same_exam_and_another_one_another():
    first, again, other = (exams(["02", "06"], 8, seed)[0] for seed in (7, 7, 8))
    assert first == again
    assert [w.text for w in first.written] != [w.text for w in other.written]
    assert first.minutes == sum(w.question.minutes for w in first.written)


def test_questions_come_from_all_chapters_and_from_different_parts():
    (exam,) = exams(["02", "06", "08"], 9, 1)
    parts = [written.question.part for written in exam.written]
    assert sorted({part[:2] for part in parts}) == ["02", "06", "08"]
    assert not [
        chapter for chapter in ("02", "06") if sum(part.startswith(chapter) for part in parts) != 3
    ]
    assert len(set(parts)) >= 8


def test_versions_have_the_same_questions_with_other_numbers_in_other_orders():
    made = exams(["02", "06"], 8, 7, versions=3)
    numbers = [[w.question.number for w in exam.written] for exam in made]
    assert len({tuple(sorted(order)) for order in numbers}) == 1
    assert len({tuple(order) for order in numbers}) == 3
    texts = [{w.question.number: w.text for w in exam.written} for exam in made]
    assert sum(texts[0][number] != texts[1][number] for number in texts[0]) >= 4


def test_the_sheet_has_the_questions_and_no_answer(tmp_path):
    made = exams(["08"], 9, 3, versions=2)
    files = {path.name: path.read_text() for path in write(made, tmp_path, "Exam <1>")}
    assert sorted(files) == ["answers-A.html", "answers-A.md", "answers-B.html", "answers-B.md",
                             "exam-A.html", "exam-B.html"]  # fmt: skip
    sheet, answers = (BeautifulSoup(files[name], "html.parser").get_text()
                      for name in ("exam-A.html", "answers-A.html"))  # fmt: skip
    for written in made[0].written:
        plain = written.text.replace("`", "")
        assert plain in sheet
        assert plain in answers
        assert written.answer in answers
        assert written.answer not in sheet
        assert written.answer in files["answers-A.md"]
        assert written.why not in sheet
    assert "Exam <1>" in sheet
    assert not re.findall(r"(?:src|href)=", files["exam-A.html"])


def test_code_in_a_question_is_shown_as_code(tmp_path):
    (exam,) = exams(["00"], 8, 1)
    (sheet, *_) = write([exam], tmp_path, "Exam")
    assert "dist.all_reduce(x)" in BeautifulSoup(sheet.read_text(), "html.parser").pre.get_text()


@pytest.mark.parametrize(
    ("chapters", "questions", "versions", "told"),
    [(["12"], 1, 1, "no question on '12'"), (["02"], 99, 1, "has 12 questions: ask for 1 to 12"),
     (["02"], 0, 1, "ask for 1 to"), (["02"], 1, 40, "1 to 26 versions")],
)  # fmt: skip
def test_what_cannot_be_made_is_told(chapters, questions, versions, told):
    with pytest.raises(WrongInput, match=told):
        exams(chapters, questions, 1, versions)


def test_the_command_writes_the_files_and_tells_mistakes_in_one_line(tmp_path, capsys):
    command = ["exam", "--chapters", "02 06", "--questions", "4", "--out", str(tmp_path)]
    assert program.main(command) == 0
    assert f"wrote {tmp_path / 'answers-A.md'}" in capsys.readouterr().out
    assert program.main([*command, "--questions", "400"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_no_question_repeats_a_statement_that_was_found_wrong():
    record = re.compile(r'"statement": "([^"]+)",\s*"verdict": "([^"]+)"')
    texts = [path.read_text() for path in (ROOT / "solutions").glob("*.ipynb")]
    found = [pair for text in texts for pair in record.findall(text)]
    wrong = {statement for statement, verdict in found if verdict.startswith(("wrong", "contra"))}
    assert len(wrong) > 10
    told = " ".join(q.text + q.answer + q.why for q in questions_of(CHAPTERS))
    assert [statement for statement in wrong if statement in told] == []
