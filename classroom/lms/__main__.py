"""The command line: `python -m classroom.lms nbgrader | gradescope`, or make nbgrader, and so on.

The steps of nbgrader call `judge`.
"""

import argparse
import sys
from pathlib import Path

from pedagogy_lib.basics.errors import LaunchError, WrongInput

STUDENTS_GIVEN = "exercises or chapters whose solutions stand in; students' code can read them"


def main(argv=None) -> int:
    arguments = parse_arguments(argv)
    try:
        for line in COMMANDS[arguments.command](arguments):
            print(line)
    except (WrongInput, LaunchError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m classroom.lms")
    commands = parser.add_subparsers(dest="command", required=True)
    nbgrader = commands.add_parser("nbgrader", help="write assignments for nbgrader")
    nbgrader.add_argument("--into", type=Path, default=Path("nbgrader"), help="nbgrader's folder")
    gradescope = commands.add_parser("gradescope", help="write Gradescope's autograder zip")
    gradescope.add_argument("--exercises", default="", help='such as "2.8 2.9"')
    gradescope.add_argument("--into", type=Path, default=Path("gradescope"), help="a folder")
    for command in (nbgrader, gradescope):
        command.add_argument("--chapters", default="", help='such as "02 06", or parts: "02b"')
    gradescope.add_argument("--given", default="", metavar="NUMBERS", help=STUDENTS_GIVEN)
    gradescope.add_argument("--minutes", type=float, default=10.0, help="Gradescope's time limit")
    commands.add_parser("judge", help="for nbgrader: a submission a line, as JSON")
    return parser.parse_args(argv)


def nbgrader(arguments):
    from .assignment import write_course

    return write_course(arguments.chapters.split(), arguments.into)


def gradescope(arguments):
    from .gradescope import write_autograder

    return write_autograder(
        arguments.chapters.split(), arguments.exercises.split(), arguments.into, arguments.given,
        arguments.minutes,
    )  # fmt: skip


def judge(arguments):
    from .judge_server import serve

    serve()
    return []


COMMANDS = {"nbgrader": nbgrader, "gradescope": gradescope, "judge": judge}

if __name__ == "__main__":
    sys.exit(main())
