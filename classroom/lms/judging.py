"""`python -m classroom.lms judge`: nbgrader asks about submissions, one in a line of JSON."""

import json
import os
import select
import sys
import traceback
from pathlib import Path

from pedagogy_lib.basics.errors import LaunchError

from .judged import judged, told_of

IDLE_SECONDS = 300.0  # then nbgrader has gone on to something else


def serve():
    """Until nobody asks any more."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed here is no reply
    while select.select([0], [], [], IDLE_SECONDS)[0] and (line := sys.stdin.buffer.readline()):
        replies.write(json.dumps(reply_to(json.loads(line))) + "\n")
        replies.flush()


def reply_to(question) -> dict:
    """What is said of a submission, or why nothing can be said."""
    try:
        results = judged(
            Path(question["submission"]), question["student"], question["exercises"],
            Path(question["out"]), "trust" if question["trust"] else None, question["given"],
        )  # fmt: skip
        return told_of(results)
    except LaunchError as error:  # a sentence for a person
        return {"error": str(error)}
    except Exception as error:
        return {"error": traceback.format_exception_only(error)[-1].strip()}
