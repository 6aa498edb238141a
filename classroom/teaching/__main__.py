"""The command line: `python -m classroom.teaching exam | slides | plans`."""

import argparse
import sys
from pathlib import Path

from pedagogy_lib.basics.errors import LaunchError


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m classroom.teaching")
    commands = parser.add_subparsers(dest="command", required=True)
    exam = commands.add_parser("exam", help="write an exam, and its answers apart")
    exam.add_argument("--questions", type=int, default=8, help="how many")
    exam.add_argument("--seed", type=int, default=1, help="the same seed makes the same exam")
    exam.add_argument("--versions", type=int, default=1, help="with other numbers, in other orders")
    exam.add_argument("--title", default="Distributed training")
    slides = commands.add_parser("slides", help="write a deck for each part")
    for command, folder in ((exam, "exam"), (slides, "slides")):
        command.add_argument(
            "--chapters", default="", help='such as "02 06" or "02c"; without it, all'
        )
        command.add_argument("--out", type=Path, default=Path(folder), help="a folder")
    commands.add_parser("plans", help="write plans.md and misconceptions.md anew")
    arguments = parser.parse_args(argv)
    try:
        for path in COMMANDS[arguments.command](arguments):
            print(f"wrote {path}")
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run_exam(arguments):
    from .exam import exams, write
    from .questions import CHAPTERS

    chapters = arguments.chapters.split() or CHAPTERS
    made = exams(chapters, arguments.questions, arguments.seed, arguments.versions)
    return write(made, arguments.out, arguments.title)


def run_slides(arguments):
    from .slides import write_decks

    return write_decks(arguments.chapters.split(), arguments.out)


def run_plans(arguments):
    from . import misconceptions, plans

    return [plans.write(), misconceptions.write()]


COMMANDS = {"exam": run_exam, "slides": run_slides, "plans": run_plans}

if __name__ == "__main__":
    sys.exit(main())
