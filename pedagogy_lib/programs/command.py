"""`python -m pedagogy_lib run program.py`: a program under torchrun, with a report at its end."""

import argparse
import re

from ..basics.errors import need

BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def add_arguments(parser):
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--ranks", type=int, default=4, help="on this machine (default: 4)")
    where.add_argument(
        "--machines", metavar="2x2", help="emulated machines, and the ranks on each of them"
    )
    parser.add_argument(
        "--slow", metavar="200mbit", help="speed of each machine's card; without --machines, each "
        "rank has a machine of its own",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS",
        help="without progress on any rank until the run counts as hung (default: 300)",
    )  # fmt: skip
    parser.add_argument("--report", default="report.html", metavar="FILE", help="to write")
    parser.add_argument(
        "--trace", metavar="FOLDER", help="in a program that torchrun itself starts: where all "
        "ranks write, for the report",
    )  # fmt: skip
    parser.add_argument("-m", dest="is_module", action="store_true", help="program is a module")
    parser.add_argument("program", help="a Python program that torchrun can start, as it is")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")


def run_program(arguments) -> int:
    from ..ranks.torchrun_agents import run_torchrun

    if arguments.trace:
        from .entry import trace_this_rank

        return trace_this_rank(arguments)
    run_torchrun(arguments.program, *arguments.arguments, **settings_of(arguments))
    return 0


def settings_of(arguments) -> dict:
    """Return the settings of `run_torchrun` for options of the command."""
    from ..machines.spec import Machines

    nodes, each = read_machines(arguments.machines) if arguments.machines else (1, arguments.ranks)
    speed = read_speed(arguments.slow) if arguments.slow else None
    if speed and not arguments.machines:
        nodes, each = arguments.ranks, 1
    machines = Machines(nodes, bytes_per_second=speed) if speed or arguments.machines else None
    return {
        "nnodes": nodes,
        "nproc_per_node": each,
        "machines": machines,
        "timeout": arguments.timeout,
        "report": arguments.report,
        "live_lines": None,
    }


def read_machines(text) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    need(found, f"--machines is like 2x2, two machines with two ranks each, not {text!r}")
    return int(found[1]), int(found[2])


def read_speed(text) -> float:
    """Return bytes per second of a speed such as "200mbit"."""
    found = re.fullmatch(r"([\d.]+)(kbit|mbit|gbit)", text.lower())
    need(found, f"--slow is like 200mbit or 10gbit, not {text!r}")
    return float(found[1]) * BITS[found[2]] / 8
