"""The teacher's page: the scores, the misconceptions, and the answers that need a person."""

import shlex
from itertools import groupby

from . import findings, verdict_html
from .escaping import one_line
from .findings import all_points, answer_of, points_of
from .rendering import render_template


def page(results: dict) -> str:
    sentences = findings.misconceptions(results)
    return render_template(
        "class.html",
        results=results,
        words=verdict_html.words,
        exercises=results["exercises"],
        rows=[row(student, results["exercises"]) for student in results["students"]],
        all_points=all_points(results["exercises"]),
        hardness=findings.hardness(results),
        often=group_by_exercise([one for one in sentences if len(one.students) > 1]),
        once=group_by_exercise([one for one in sentences if len(one.students) == 1]),
        unexplained=findings.find_unexplained_answers(results),
        stopped=findings.find_stopping_points(results),
        problems=findings.problems(results),
        looks=[
            (*one, build_accept_option(*one)) for one in findings.filter_by_state(results, "look")
        ],
        broken=findings.filter_by_state(results, "broken"),
        waiting=findings.filter_by_state(results, "waiting"),
    )


def row(student, exercises) -> dict:
    answers = [(exercise, answer_of(student, exercise)) for exercise in exercises]
    return {"student": student, "answers": answers, "points": points_of(student, exercises)}


def group_by_exercise(sentences) -> list[tuple[dict, list]]:
    groups = groupby(sentences, key=lambda one: one.exercise["number"])
    lists = [list(group) for _, group in groups]
    return [(some[0].exercise, some) for some in lists]


def build_accept_option(exercise, student, _) -> str:
    """Return the option of the grading command with which an answer counts."""
    return f"--accept {shlex.quote(one_line(student['student']) + ':' + exercise['number'])}"
