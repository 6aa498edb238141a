"""One submission, judged as `make grade` judges it, for a platform that asks for it."""

import functools
from pathlib import Path

from classroom.grading import course, result_files
from classroom.grading.collect import newest_of, pile_of
from classroom.grading.command import parse_given_numbers
from classroom.grading.layouts import Owner
from classroom.grading.workers import Task, grade_submission
from classroom.pages import verdict_html
from classroom.pages.one_student import credit
from classroom.sandbox import open_sandbox
from classroom.sandbox.backends import choose_backend


def ignore_answer(number, is_new):
    """Ignore an answer that was judged."""


def judge_submission(
    submission, student, numbers, out, way=None, given="", tell=ignore_answer
) -> dict:
    """Return the results of a class of one, in the form of results.json.

    submission  a folder of whatever the student has handed in
    numbers     of exercises
    out         the folder where verdicts are kept, so that nothing is judged twice
    way         of running students' code; by default the best that works here
    given       numbers of exercises or chapters whose solutions replace missing answers
    tell        called with each answer: its number, and whether it was judged now
    Raises      Refusal if there is no sandbox for students' code here
    """
    asked = course.list_exercises(exercises=numbers)
    numbers = [one.number for one in asked]
    place = functools.partial(open_sandbox, way=choose_backend(way).NAME, exercises=numbers)
    owner = Owner(student or submission.resolve().name, [submission])
    found = newest_of(owner.student, [(0.0, owner, pile_of(owner))])
    task = Task(tuple(asked), Path(out), place, parse_given_numbers(given))
    entry = grade_submission(found, task, tell)
    return result_files.results_of("", course.version(), asked, [entry], accepted={})


def format_results(results) -> dict:
    """Return {"problems": […], "answers": {number: what a platform shows of it}}.

    score     0 to 1
    is_open   whether a person has to decide
    html      the verdict; every text of the student is escaped
    text      the same as plain text
    reasons   for the teacher alone
    """
    student = results["students"][0]
    return {
        "problems": student["problems"],
        "answers": {
            one["number"]: describe_answer(one, student["answers"][one["number"]])
            for one in results["exercises"]
        },
    }


def describe_answer(exercise, answer) -> dict:
    is_open = answer["state"] in verdict_html.FOR_A_PERSON
    partly = credit(exercise, answer)
    return {
        "state": answer["state"],
        "score": answer["score"],
        "is_open": is_open,
        "html": verdict_html.render_html(exercise, answer) + (f"<p>{partly}</p>" if partly else ""),
        "text": "\n".join(filter(None, [verdict_html.format_verdict(exercise, answer), partly])),
        "reasons": [*answer["reasons"], answer["what"]] if is_open else answer["reasons"],
    }
