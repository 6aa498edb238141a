"""What other Pythons ask: to judge a submission. A question is a line of JSON, and so is the reply.

python -m classroom.lms judge               nbgrader's questions come on standard input
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

IDLE_SECONDS = 300.0  # then nbgrader has gone on to something else


def serve():
    """Until nobody asks any more."""
    replies = apart()
    while select.select([0], [], [], IDLE_SECONDS)[0] and (line := sys.stdin.buffer.readline()):
        print(json.dumps(reply_to(json.loads(line))), file=replies, flush=True)


def apart():
    """Standard output for replies alone: whatever else is printed here is none."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def once(text):
    """Reply to one question; before that, say the number of each exercise as it is judged."""
    replies = apart()

    def say(value):
        print(json.dumps(value), file=replies, flush=True)

    say(reply_to(json.loads(text), say))


def reply_to(question, say=lambda number: None) -> dict:
    """What is said of a submission, or why nothing can be said."""
    try:
        if "wishes" in question:
            return {"way": can_judge(**question["wishes"])}
        return format_results(judge_before_deadline(question, say))
    except LaunchError as error:  # a sentence for a person
        return {"error": str(error)}
    except Exception as error:
        return {"error": traceback.format_exception_only(error)[-1].strip()}


def can_judge(way, given) -> str:
    """The way in which students' code will run. Raises WrongInput if it cannot."""
    parse_given_numbers(given)
    return choose_backend(way).NAME


def is_asked(number) -> bool:
    """A teacher may have called a cell of their own `exercise-99-9`."""
    chapter = number.split(".")[0]
    return number in exercises_of(chapter)


def judge_before_deadline(question, say=lambda number: None) -> dict:
    """The results; only of some exercises, if there was no time for more."""
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
        return judge_submission(*submission, done, *about)  # they are known


class DeadlineExceeded(BaseException):
    """No `except Exception` keeps this."""


if __name__ == "__main__":
    once(sys.argv[1])
