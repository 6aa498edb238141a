"""The pages of a class: what they tell, to whom, and in which files."""

import copy
import json
import re

import pytest
from exercise_names import EX
from results_of_class import build_missing_entry, entries

from classroom.pages import findings, write
from classroom.pages.__main__ import read

EXERCISES = [
    one for one in entries("2") if one["number"] in (EX.swap, EX.chunk_to_send, EX.all_reduce_ring)
]
CHAIN = "rank 0's x has changed: it is only sent, and stays as it is, in `swap`."


def answer(state, score=0.0, **more):
    return {
        "state": state, "score": score, "where": "02_collectives.ipynb, cell 9",
        "source": "def swap(x):\n    return x + 41", "right": ["2 ranks"], "case": "4 ranks",
        "what": "rank 0, x[0] is 1, expected 5", "why": "", "printed": "", "facts": [0, 0],
        "reasons": [], "seconds": 0.1, **more,
    }  # fmt: skip


def student(name, *answers, problems=(), place=""):
    given = {one["number"]: two for one, two in zip(EXERCISES, answers)}
    rest = {one["number"]: build_missing_entry(one) for one in EXERCISES[len(answers) :]}
    return {"student": name, "from": place, "problems": list(problems), "answers": given | rest}


@pytest.fixture
def results():
    wrong = answer("wrong", 0.5, why=CHAIN, facts=[3, 6], printed="here I am\n")
    return {
        "title": "Chapter 02",
        "version": EX.train_accumulated,
        "exercises": EXERCISES,
        "students": [
            student("Ada Abels", answer("right", 1.0), answer("right", 1.0), answer("right", 1.0)),
            student("Ben Bauer", wrong, answer("unfinished", what="its hole is still there")),
            student("Ida Ito", wrong, problems=["02d.ipynb: line 3 is no JSON"]),
            student("Kim Ko", answer("wrong", why="alone was told this"), answer("broken")),
            student("Lin Li"),
            student("Max Mo", answer("look", reasons=["line 2: `open('/proc/1')`"]),
                    answer("wrong"), answer("wrong")),
        ],
    }  # fmt: skip


@pytest.fixture
def pages(results, tmp_path):
    write(results, tmp_path)
    paths = tmp_path.rglob("*.html")
    return {path.relative_to(tmp_path).as_posix(): path.read_text() for path in paths}


def words(html: str) -> str:
    """What a reader sees, without the markup."""
    text = re.sub(r"<(style|script|title)\b.*?</\1>", "", html, flags=re.DOTALL)
    text = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return text.replace("&#39;", "'").replace("&#x27;", "'").replace("&quot;", '"')


def test_what_an_interrupted_grading_has_not_come_to_is_told_at_the_top(results, tmp_path):
    waits, wrong = answer("waiting"), answer("wrong", 0.5)
    results["students"][4]["answers"] |= {
        EX.swap: waits,
        EX.chunk_to_send: waits,
        EX.all_reduce_ring: wrong,
    }
    write(results, tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "Grading was interrupted: 2 answers not judged yet, and in no sum" in words(page)
    rows = section(page, "who").split("<tbody>")[1].split("</tr>")
    assert words(rows[4]).endswith("Li 0.5 ○ not judged yet ○ not judged yet ◑ 50 wrong, 50 %")
    assert findings.hardness(results)[0].mean == pytest.approx((1 + 0.5 + 0.5) / 5)
    own = words((tmp_path / "students" / "Lin-Li.html").read_text())
    assert "0.5 of 3 points; 2 more are not decided yet" in own
    assert f"Exercise {EX.swap} · swap : not judged yet" in own


def section(html: str, name: str) -> str:
    return html.split(f'<section id="{name}"')[1].split("</section>")[0]


def test_the_teacher_sees_the_whole_class(pages):
    page = pages["index.html"]
    assert "6 students · 3 exercises · 3 points · course 1.2" in words(page)
    rows = section(page, "who").split("<tbody>")[1].split("</tbody>")[0].split("</tr>")[:-1]
    assert [words(row).split(" ", 2)[:2] for row in rows] == [
        ["Ada", "Abels"], ["Ben", "Bauer"], ["Ida", "Ito"], ["Kim", "Ko"], ["Lin", "Li"],
        ["Max", "Mo"]]  # fmt: skip
    assert words(rows[0]).endswith("Abels 3.0 ✓ right ✓ right ✓ right")
    assert words(rows[1]).endswith("Bauer 0.5 ◑ 50 wrong, 50 % … unfinished – missing")
    assert words(rows[3]).endswith("Ko 0.0 ✗ wrong ! the check broke – missing")
    assert f'href="students/Ben-Bauer.html#ex-{EX.chunk_to_send}"' in rows[1]
    assert f'id="ex-{EX.chunk_to_send}"' in pages["students/Ben-Bauer.html"]


def test_misconceptions_are_counted_and_single_ones_folded(pages):
    often, folded = section(pages["index.html"], "misconceptions").split("<details>", 1)
    assert "2 students : " + CHAIN.replace("`", "").replace("swap.", "swap .") in words(often)
    assert "<code>swap</code>" in often
    assert "Ben Bauer , Ida Ito" in words(often)
    assert "alone was told this" not in often
    assert "Kim Ko : alone was told this" in words(folded)
    assert "Wrong answers in which no misconception was recognised (2)" in words(folded)


def test_hard_exercises_and_where_students_stopped(pages, results):
    rows = [one._replace(exercise=one.exercise["number"]) for one in findings.hardness(results)]
    assert [(one.exercise, one.right, one.begun, one.missing) for one in rows] == [
        (EX.swap, 1, 5, 1), (EX.chunk_to_send, 1, 4, 2), (EX.all_reduce_ring, 1, 2, 4)]  # fmt: skip
    assert [one.sentence for one in rows] == [
        "Too hard: fewer than half of those who began it got it right.",
        "Too hard: fewer than half of those who began it got it right.",
        "Fewer than half began it."]  # fmt: skip
    assert rows[0].mean == pytest.approx((1 + 0.5 + 0.5 + 0 + 0) / 5)
    told = words(section(pages["index.html"], "stopped"))
    assert "Began nothing 1 Lin Li" in told
    assert f"{EX.chunk_to_send} · Which chunk does a rank send? 1 Ida Ito" in told
    assert f"{EX.all_reduce_ring} · All-reduce around a ring 2 Ben Bauer , Kim Ko" in told
    assert "Ada" not in told and "Max" not in told


@pytest.mark.parametrize(
    "counts, said",
    [((5, 5, 0, 0), ""), ((4, 5, 0, 1), "Too hard"), ((9, 0, 0, 10), "Fewer"),
     ((0, 0, 5, 5), ""), ((0, 0, 0, 0), ""), ((1, 0, 0, 1), "")],
)  # fmt: skip
def test_the_rule_for_hard_exercises(counts, said):
    assert findings.sentence_of(*counts).startswith(said)
    assert bool(findings.sentence_of(*counts)) == bool(said)


def test_what_needs_a_person(pages):
    told = words(section(pages["index.html"], "you"))
    assert f"Max Mo · {EX.swap} swap" in told
    assert "line 2: `open('/proc/1')`" in told
    assert f"To accept it: --accept 'Max Mo:{EX.swap}'" in told
    assert f"Kim Ko · {EX.chunk_to_send} chunk_to_send rank 0, x[0] is 1, expected 5" in told
    assert "Ida Ito 02d.ipynb: line 3 is no JSON" in told


def test_a_student_is_told_what_the_check_tells(pages):
    told = words(pages["students/Ben-Bauer.html"])
    assert "Ben Bauer 0.5 of 3 points" in told
    assert "✓ 2 ranks ✗ 4 ranks : rank 0, x[0] is 1, expected 5" in told
    assert "it is only sent, and stays as it is, in swap ." in told
    assert "What it printed when it was tried here I am" in told
    assert "Hint 1 of 3" in told
    assert "3 of 6 cases hold: 0.5 of 1 point." in told
    assert "Read again: part 02 · Collectives, in 02_collectives.ipynb" in told
    assert "Your answer, from 02_collectives.ipynb, cell 9 def swap" in told
    assert (
        f"Exercise {EX.chunk_to_send} · chunk_to_send: its hole is still there still to write"
        in told
    )
    assert "there is no function all_reduce_ring in what was handed in" in told


def test_who_waits_for_a_person_is_not_accused(pages):
    told = words(pages["students/Max-Mo.html"])
    assert "0 of 3 points; 1 more are not decided yet" in told
    assert "your teacher reads this answer before it counts" in told
    assert "/proc/1" not in told
    assert "is not held against you" in words(pages["students/Kim-Ko.html"])


def test_the_part_is_a_link_where_the_course_has_an_address(results, tmp_path):
    write(results, tmp_path, "https://hub.example.org/notebooks/")
    page = (tmp_path / "students" / "Ben-Bauer.html").read_text()
    assert 'href="https://hub.example.org/notebooks/02c_the_ring.ipynb"' in page


def test_the_same_results_give_the_same_bytes(results, tmp_path):
    first = [path.read_bytes() for path in write(copy.deepcopy(results), tmp_path / "a")]
    paths = write(json.loads(json.dumps(results)), tmp_path / "b")
    assert [path.read_bytes() for path in paths] == first
    names = [path.relative_to(tmp_path / "b").as_posix() for path in paths]
    assert names[:3] == ["index.html", "similar.html", "students/Ada-Abels.html"]
    assert names[-1] == "feedback.zip" and len(names) == 6 + 3


def test_a_folder_without_results_gets_one_sentence(tmp_path):
    for text in (None, "{", "[1]", '{"students": []}'):
        path = tmp_path / "results.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(SystemExit, match=r"results\.json.*: grade") as told:
            read(path)
        assert "\n" not in str(told.value)
