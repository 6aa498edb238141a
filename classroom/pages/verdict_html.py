"""A check's verdict on a student's answer, as HTML and as text, in the course's own words."""

import re

from markupsafe import Markup

from coursekit import verdicts
from coursekit.answers.answer_limits import OutputCapture
from coursekit.check_runner import find_exercise, finds_a_bug
from coursekit.protocol import Wrong
from coursekit.verdicts import Verdict
from pedagogy_lib.basics.errors import WrongInput

from .escaping import plain

PASSED = {"right": True, "wrong": False}
# Words for states that have no verdict.
INSTEAD = {
    "missing": "not found",
    "unfinished": "something in it is still to write",
    "look": "your teacher reads this answer before it counts",
    "broken": "the check came to no verdict, which is not held against you; your teacher knows",
    "waiting": "not judged yet",
}
# The grading's words on these states are for the teacher.
FOR_A_PERSON = ("look", "broken")
UNDECIDED = (*FOR_A_PERSON, "waiting")
# A verdict links to files of the course, which are not next to such a page.
LINK = re.compile(r'<a href="[^"]*">(.*?)</a>')


def verdict_of(exercise: dict, answer: dict) -> Verdict:
    """Return the check's verdict, as it is in the notebook."""
    title = f"Exercise {exercise['number']} · {exercise['name']}"
    passed = PASSED.get(answer["state"])
    if passed is None:
        title = f"{title}: {describe_state(answer)}"
        return Verdict(plain(title), None, [], printed=capture_output(answer))
    hints, folds = hints_of(exercise["number"])
    wrong = None if passed else Wrong(*(plain(answer[key]) for key in ("case", "what", "why")))
    lines = [plain(line) for line in answer["right"]]
    return Verdict(plain(title), passed, lines, wrong, hints, folds, capture_output(answer))


def describe_state(answer) -> str:
    """Return, for an answer without a verdict, the grading's words or those for its state."""
    is_open = answer["state"] in UNDECIDED
    return INSTEAD[answer["state"]] if is_open else answer.get("what") or INSTEAD[answer["state"]]


def capture_output(answer) -> OutputCapture | None:
    text = plain(answer.get("printed", ""))
    if not text.strip():
        return None
    kept = OutputCapture()
    kept.write(text if text.endswith("\n") else f"{text}\n")
    return kept


def hints_of(number) -> tuple[tuple[str, ...], bool]:
    """Return an exercise's hints, and whether it is a bug to find, whose diagnosis is folded."""
    try:
        exercise = find_exercise(number)
    except WrongInput:  # results of an older course
        return (), False
    return exercise.hints, finds_a_bug(exercise)


def render_html(exercise, answer) -> str:
    """Return safe HTML, in which every text of the student is escaped."""
    return LINK.sub(r"\1", verdict_of(exercise, answer)._repr_html_())


def words(text) -> Markup:
    """Return a check's sentence with its code as code."""
    return Markup(LINK.sub(r"\1", verdicts.render_text(plain(text))))


def format_verdict(exercise, answer) -> str:
    return repr(verdict_of(exercise, answer))
