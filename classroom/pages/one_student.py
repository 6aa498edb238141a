"""A student's page: the verdict on each exercise, and nothing about anybody else."""

from markupsafe import Markup

from . import verdict_html
from .findings import all_points, answer_of, points_of
from .rendering import number, render_template
from .source import lines_of

UNDECIDED = verdict_html.UNDECIDED
TO_DO = ("wrong", "missing", "unfinished")


def page(student: dict, results: dict, course: str = "") -> str:
    exercises = results["exercises"]
    answers = [(one, answer_of(student, one)) for one in exercises]
    return render_template(
        "student.html",
        results=results,
        student=student,
        sections=[section(exercise, answer, course) for exercise, answer in answers],
        answers=answers,
        points=points_of(student, exercises),
        all_points=all_points(exercises),
        open_points=sum(one["points"] for one, answer in answers if answer["state"] in UNDECIDED),
    )


def section(exercise, answer, course) -> dict:
    """Return what a page shows of one exercise."""
    is_undecided = answer["state"] in UNDECIDED
    file = f"{exercise['part']}.ipynb"
    return {
        "exercise": exercise,
        "answer": answer,
        "verdict": None if is_undecided else Markup(verdict_html.render_html(exercise, answer)),
        "instead": verdict_html.INSTEAD[answer["state"]] if is_undecided else "",
        "lines": [Markup(line) for line in lines_of(answer.get("source", ""))],
        "credit": credit(exercise, answer),
        "part": part_name(exercise["part"]),
        "address": f"{course.rstrip('/')}/{file}" if course else "",
        "file": file,
        "again": answer["state"] in TO_DO,
    }


def credit(exercise, answer) -> str:
    """Return a sentence on how much of a wrong answer counts, or "" if nothing does."""
    right, of = answer.get("facts") or (0, 0)
    if answer["state"] != "wrong" or not answer["score"]:
        return ""
    points = number(answer["score"] * exercise["points"])
    whole = f"{number(exercise['points'])} point{'s' if exercise['points'] != 1 else ''}"
    return f"{right} of {of} cases hold: {points} of {whole}." if of else ""


def part_name(part: str) -> str:
    """Return `02c · The ring` for `02c_the_ring`."""
    number, _, words = part.partition("_")
    return f"{number} · {words.replace('_', ' ').capitalize()}"


def text(student: dict, results: dict) -> list[str]:
    """Return the page as texts, where HTML cannot be shown: a head, then one per exercise."""
    exercises = results["exercises"]
    points = f"{points_of(student, exercises):.3g} of {all_points(exercises):g} points"
    head = f"{results['title']}\n{student['student']}: {points}"
    each = [format_answer_text(one, answer_of(student, one)) for one in exercises]
    return [verdict_html.plain("\n".join([head, *student["problems"]])), *each]


def format_answer_text(exercise, answer) -> str:
    lines = [verdict_html.format_verdict(exercise, answer), credit(exercise, answer)]
    if answer["state"] in TO_DO and exercise["part"]:
        lines.append(f"Read again: part {part_name(exercise['part'])}")
    return "\n".join(filter(None, lines))
