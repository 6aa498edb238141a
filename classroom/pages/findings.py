"""The findings in a class's results: misconceptions, exercises that are too hard, stopping points.

Everything here works on `results` as the grading writes them, without any HTML.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

MISSING = {"state": "missing", "score": 0.0}
NOT_BEGUN = ("missing",)
UNDECIDED = ("look", "broken", "waiting")  # counted neither against an exercise nor for it
HALF = 0.5


class Misconception(NamedTuple):
    """A check's sentence in one exercise, and the students to whom it was shown."""

    exercise: dict
    why: str
    students: list[dict]


class Hardness(NamedTuple):
    """The results of a class in one exercise, as numbers of students.

    sentence  the conclusion, by the rule of `sentence_of`; may be empty
    """

    exercise: dict
    right: int
    wrong: int
    unfinished: int
    undecided: int
    missing: int
    mean: float  # score of those who began, 0 to 1
    sentence: str

    @property
    def begun(self) -> int:
        return self.right + self.wrong + self.unfinished + self.undecided

    @property
    def students(self) -> int:
        return self.begun + self.missing


def answer_of(student: dict, exercise: dict) -> dict:
    return student["answers"].get(exercise["number"], MISSING)


def yield_answers(results) -> Iterator[tuple[dict, dict, dict]]:
    """Yield (exercise, student, answer), by exercise."""
    for exercise in results["exercises"]:
        for student in results["students"]:
            yield exercise, student, answer_of(student, exercise)


def points_of(student, exercises) -> float:
    return sum(answer_of(student, one)["score"] * one["points"] for one in exercises)


def all_points(exercises) -> float:
    return sum(one["points"] for one in exercises)


def misconceptions(results) -> list[Misconception]:
    """Return each sentence with its students, by exercise, the most frequent ones first."""
    found = defaultdict(list)
    for exercise, student, answer in yield_answers(results):
        if answer["state"] == "wrong" and answer["why"]:
            found[exercise["number"], answer["why"]].append(student)
    place = {one["number"]: (at, one) for at, one in enumerate(results["exercises"])}
    told = [Misconception(place[number][1], why, who) for (number, why), who in found.items()]
    key = lambda one: (place[one.exercise["number"]][0], -len(one.students), one.why)  # noqa: E731
    return sorted(told, key=key)


def find_unexplained_answers(results) -> list[tuple[dict, dict, dict]]:
    """Return the wrong answers in which the check has recognised no misconception."""
    wrong = (one for one in yield_answers(results) if one[2]["state"] == "wrong")
    return [one for one in wrong if not one[2]["why"]]


def hardness(results) -> list[Hardness]:
    return [hardness_of(exercise, results["students"]) for exercise in results["exercises"]]


def hardness_of(exercise, students) -> Hardness:
    answers = [answer_of(student, exercise) for student in students]
    count = lambda *states: sum(answer["state"] in states for answer in answers)  # noqa: E731
    right, wrong, unfinished = count("right"), count("wrong"), count("unfinished")
    undecided, missing = count(*UNDECIDED), count(*NOT_BEGUN)
    judged = [one for one in answers if one["state"] not in (*NOT_BEGUN, "waiting")]
    scores = [answer["score"] for answer in judged]
    mean = sum(scores) / max(1, len(scores))
    sentence = sentence_of(right, wrong + unfinished, undecided, missing)
    return Hardness(exercise, right, wrong, unfinished, undecided, missing, mean, sentence)


def sentence_of(right, not_right, undecided, missing) -> str:
    """Return a sentence unless half begin an exercise, and half of these get it right."""
    begun = right + not_right + undecided
    if begun < HALF * (begun + missing):
        return "Fewer than half began it."
    if right < HALF * (right + not_right):
        return "Too hard: fewer than half of those who began it got it right."
    return ""


def find_stopping_points(results) -> list[tuple[dict, list[dict]]]:
    """Return, for each exercise, the students who began none from it on, but the one before it.

    For the first exercise, these are the students who began nothing.
    """
    found = defaultdict(list)
    for student in results["students"]:
        begun = [answer_of(student, one)["state"] not in NOT_BEGUN for one in results["exercises"]]
        last = max((place for place, is_begun in enumerate(begun) if is_begun), default=-1)
        found[last + 1].append(student)
    return [(one, found[at]) for at, one in enumerate(results["exercises"]) if found[at]]


def filter_by_state(results, state) -> list[tuple[dict, dict, dict]]:
    """Return (exercise, student, answer) of each answer in this state."""
    return [one for one in yield_answers(results) if one[2]["state"] == state]


def problems(results) -> list[tuple[dict, str]]:
    """Return (student, what was wrong with the submission) for each problem."""
    return [(one, text) for one in results["students"] for text in one["problems"]]
