"""The command line: `python -m pedagogy_lib doctor | build | report`."""

import argparse
import sys


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pedagogy_lib")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="check that this machine can run the course")
    build = commands.add_parser("build", help="make notebooks/ and labs/ from solutions/")
    which = build.add_mutually_exclusive_group()
    which.add_argument("--force", action="store_true", help="execute unchanged chapters as well")
    which.add_argument("--without-executing", action="store_true", help="only learners' files")
    report = commands.add_parser("report", help="write an HTML report on this machine")
    report.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="parameters to change")
    arguments = parser.parse_args(argv)
    return COMMANDS[arguments.command](arguments)


def run_doctor(arguments) -> int:
    from .course.doctor import examine

    return examine()


def run_build(arguments) -> int:
    from .course.build import build

    build(force=arguments.force, execute_changed=not arguments.without_executing)
    return 0


def run_report(arguments) -> int:
    from .basics.errors import LaunchError
    from .course.report import write_report

    try:
        print(f"wrote {write_report(arguments.settings)}")
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


COMMANDS = {"doctor": run_doctor, "build": run_build, "report": run_report}

if __name__ == "__main__":
    sys.exit(main())
