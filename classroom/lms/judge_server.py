"""A server that judges submissions for other Pythons. Question and reply are a line of JSON each.

python -m classroom.lms judge               nbgrader's questions arrive on standard input
python -m classroom.lms.judge_server '{"…": …}'  Gradescope's one question
"""

import json
import math
import os
import select
import sys
import time
import traceback
from pathlib import Path

from classroom.grading.command import parse_given_numbers
from classroom.sandbox.backends import choose_backend
from coursekit.check_runner import exercises_of
from pedagogy_lib.basics.errors import LaunchError

from .platform_results import format_results, judge_submission

IDLE_SECONDS = 300.0  # then nbgrader has moved on to something else


def serve():
    """Answer questions until no more arrive."""
    replies = apart()
    while select.select([0], [], [], IDLE_SECONDS)[0] and (line := sys.stdin.buffer.readline()):
        print(json.dumps(reply_to(json.loads(line))), file=replies, flush=True)


def apart():
    """Return standard output for replies alone, and send all other output to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def once(text):
    """Reply to one question; before that, print the number of each exercise once it is judged."""
    replies = apart()

    def say(value):
        print(json.dumps(value), file=replies, flush=True)

    say(reply_to(json.loads(text), say))


def reply_to(question, say=lambda number: None) -> dict:
    """Return the results of a submission, or {"error": …} with the reason why there are none."""
    try:
        if "wishes" in question:
            return {"way": can_judge(**question["wishes"])}
        return format_results(judge_before_deadline(question, say))
    except LaunchError as error:  # a sentence for a person
        return {"error": str(error)}
    except Exception as error:
        return {"error": traceback.format_exception_only(error)[-1].strip()}


def can_judge(way, given) -> str:
    """Return the way in which students' code will run; raise WrongInput if it cannot run."""
    parse_given_numbers(given)
    return choose_backend(way).NAME


def is_asked(number) -> bool:
    """Return whether the course has this exercise; a teacher may call a cell `exercise-99-9`."""
    chapter = number.split(".")[0]
    return number in exercises_of(chapter)


def judge_before_deadline(question, say=lambda number: None) -> dict:
    """Return the results, or those of some exercises if there was no time for more."""
    end, done = time.monotonic() + question.get("seconds", math.inf), []

    def tell(number, is_new):
        done.append(number)
        say(number)
        if time.monotonic() > end:
            raise DeadlineExceeded

    numbers = [one["number"] for one in question["exercises"] if is_asked(one["number"])]
    about = question["out"], question["way"], question["given"]
    submission = Path(question["submission"]), question.get("student", "")
    try:
        return judge_submission(*submission, numbers, *about, tell)
    except DeadlineExceeded:
        return judge_submission(*submission, done, *about)  # their verdicts are known


class DeadlineExceeded(BaseException):
    """The end of the time to judge, which no `except Exception` catches."""


if __name__ == "__main__":
    once(sys.argv[1])
