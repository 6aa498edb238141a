"""nbgrader's own commands on a chapter: the scores are the checks', whatever a notebook says."""

import copy
import re

import needs
import pytest
from answer_files import solution_of
from exercise_names import EX
from nbgrader_classes import SENT, SWAP, Course, answer, edit_cells, marks

from classroom.handout.answer_search import search
from classroom.handout.false_positives import find_unreviewed_leaks
from coursekit.check_runner import find_exercise

pytestmark = pytest.mark.deep  # two minutes

TOO_FEW = "def sent_bytes(name, n, X):\n    return (n - 1) * X / n\n"
LOOKED_AT = "def sent_bytes(name, n, X):\n    return eval('(n - 1) * X / n')\n"
FORGER = f"""\
import pedagogy_lib

class Right:
    passed = True

pedagogy_lib.check = check = lambda *about: Right()
print("1.0")

def sent_bytes(name, n, X):
    print('{{"answers": {{"{EX.sent_bytes}": {{"score": 1.0}}}}}}')
    return Right()
"""
SCRIPT = "<script>teacher.grade(100)</script>"


def forge(cells):
    """Everything in a notebook that nbgrader itself reads a score from."""
    for cell in [one for one in cells if marks(one).get("grade")]:
        cell["source"] = "1.0"
        cell["metadata"]["nbgrader"] |= {"points": 100, "schema_version": 99, "solution": True}
        data = {"text/plain": "1.0"}
        cell["outputs"] = [{"output_type": "execute_result", "data": data, "metadata": {},
                            "execution_count": 1}]  # fmt: skip
        cells.append(copy.deepcopy(cell) | {"id": "again"})
    cells.append({"cell_type": "markdown", "id": "text", "metadata": {}, "source": SCRIPT})


def right(number) -> str:
    return solution_of(find_exercise(number))


@pytest.fixture(scope="module")
def nbgrader_course(tmp_path_factory):
    """A course after generate_assignment, autograde, generate_feedback and export."""
    if needs.is_missing("nbgrader"):
        needs.skip("nbgrader")
    course = Course(tmp_path_factory.mktemp("nbgrader"))
    course.nbgrader("generate_assignment", "02_collectives")
    course.nbgrader(
        "db", "assignment", "add", "02_collectives", "--duedate=2026-01-01 00:00:00 UTC"
    )
    course.set("c.LateSubmissionPlugin.penalty_method = 'zero'")
    ada = course.hand_in("ada")
    answer(ada / SENT, right(EX.sent_bytes))
    answer(ada / SWAP, right(EX.swap))
    (ada / SWAP).rename(ada / "my swap.ipynb")  # nbgrader knows none of this name
    answer(course.hand_in("bob") / SENT, TOO_FEW)
    course.hand_in("eve")
    answer(course.hand_in("lou") / SENT, LOOKED_AT)
    zoe = course.hand_in("zoe")
    (zoe / "timestamp.txt").write_text("2026-01-02 00:00:00 UTC")  # a day late
    answer(zoe / SENT, right(EX.sent_bytes))
    for name in (SENT, SWAP):
        (zoe / name).rename(zoe / f"zoe's {name}")
    mal = course.hand_in("mal")
    answer(mal / SENT, FORGER)
    edit_cells(mal / SENT, forge)
    (mal / SWAP).write_text("{ no notebook")
    (mal / "labs" / "collectives.py").write_text("MINE = 1\n")
    course.said = course.nbgrader("autograde", "02_collectives")
    course.nbgrader("generate_feedback", "02_collectives")
    course.nbgrader("export")
    return course


def test_the_scores_are_those_of_the_checks(nbgrader_course):
    assert nbgrader_course.grades() == {
        ("ada", EX.swap): (1.0, False),
        ("ada", EX.sent_bytes): (1.0, False),
        ("ada", EX.all_to_all): (0.0, False),
        ("bob", EX.swap): (0.0, False),
        ("bob", EX.sent_bytes): (0.6, False),
        ("bob", EX.all_to_all): (0.0, False),
        ("eve", EX.swap): (0.0, False),
        ("eve", EX.sent_bytes): (0.0, False),
        ("eve", EX.all_to_all): (0.0, False),
        ("lou", EX.swap): (0.0, False),
        ("lou", EX.sent_bytes): (None, True),
        ("lou", EX.all_to_all): (0.0, False),
        ("mal", EX.swap): (0.0, False),
        ("mal", EX.sent_bytes): (0.0, False),
        ("mal", EX.all_to_all): (0.0, False),
        ("zoe", EX.swap): (0.0, False),
        ("zoe", EX.sent_bytes): (1.0, False),
        ("zoe", EX.all_to_all): (0.0, False),
    }


def test_nbgrader_exports_them(nbgrader_course):
    lines = (nbgrader_course.folder / "grades.csv").read_text().splitlines()[1:]
    found = {line.split(",")[3]: line.split(",")[-4:] for line in lines}
    nothing = ["0.0", "0.0", "0.0", "3.0"]  # points, penalty, score, of
    assert found == {
        "ada": ["2.0", "0.0", "2.0", "3.0"], "bob": ["0.6", "0.0", "0.6", "3.0"],
        "eve": nothing, "lou": nothing, "mal": nothing, "zoe": ["1.0", "1.0", "0.0", "3.0"],
    }  # fmt: skip


def test_feedback_has_the_checks_own_words_at_the_exercise(nbgrader_course):
    feedback = nbgrader_course.feedback("bob", SENT)
    told = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", feedback, flags=re.DOTALL)
    told = " ".join(told.split())
    at_it = told[told.index("Grade cell: exercise-2-9 Score: 0.6 / 1.0") :]
    words = "this is half of it: an all-reduce is a reduce-scatter and an all-gather."
    assert 0 < at_it.index(words) < at_it.index("6 of 10 cases hold: 0.6 of 1 point") < 1000
    assert "sent_bytes: it is as it was handed out" in nbgrader_course.feedback("eve", SENT)


def test_what_a_student_writes_is_shown_as_text(nbgrader_course):
    told = nbgrader_course.feedback("mal", SENT)
    assert SCRIPT not in told and "&lt;script&gt;teacher.grade(100)&lt;/script&gt;" in told
    assert "cannot be read as a notebook" in nbgrader_course.feedback("mal", SWAP)
    assert "Nothing was handed in under this name" in nbgrader_course.feedback("zoe", SENT)


def test_labs_stay_as_they_were_handed_in(nbgrader_course):
    labs = nbgrader_course.folder / "autograded" / "mal" / "02_collectives" / "labs"
    assert (labs / "collectives.py").read_text() == "MINE = 1\n"
    assert "def " in (labs / "across_machines.py").read_text()


def test_the_teacher_is_told_what_to_decide(nbgrader_course):
    assert re.search(r"lou, exercise 2\.9: yours to decide: .*eval", nbgrader_course.said)
    assert "mal: 02_collectives.ipynb is no notebook that can be read" in nbgrader_course.said


def test_nothing_is_released_that_answers(nbgrader_course):
    folder = nbgrader_course.folder / "release"
    files = {path.relative_to(folder / "02_collectives").as_posix(): path.read_bytes()
             for path in folder.rglob("*") if path.is_file()}  # fmt: skip
    named = {n if "/" in n else f"notebooks/{n}": data for n, data in files.items()}
    assert f"notebooks/{SENT}" in named and find_unreviewed_leaks(search(named)) == []


def test_wishes_by_which_nobody_can_be_judged_are_told_once(nbgrader_course):
    nbgrader_course.set("c.Judged.given = '77'")
    before = nbgrader_course.grades()
    with pytest.raises(AssertionError) as told:
        nbgrader_course.nbgrader("autograde", "02_collectives", "--force")
    assert str(told.value).count("there is no chapter or part 77") == 1
    assert "Traceback" not in str(told.value) and nbgrader_course.grades() == before
