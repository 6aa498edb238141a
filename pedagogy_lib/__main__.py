"""The command line: `python -m pedagogy_lib lab | doctor | …`; --help lists all commands."""

import argparse
import os
import sys

from .basics.errors import LaunchError, need
from .programs.command import add_arguments


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pedagogy_lib")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lab", help="open the course in JupyterLab; its options may follow")
    commands.add_parser("hub", help="the same as a user's server in JupyterHub")
    commands.add_parser("copies", help="make or renew your copies of the notebooks in work/")
    commands.add_parser("doctor", help="check that this machine can run the course")
    build = commands.add_parser("build", help="write notebooks/, labs/, solutions/ from chapters/")
    which = build.add_mutually_exclusive_group()
    which.add_argument("--force", action="store_true", help="execute unchanged chapters as well")
    which.add_argument("--without-executing", action="store_true", help="only learners' files")
    report = commands.add_parser("report", help="write an HTML report on this machine")
    report.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="parameters to change")
    commands.add_parser("ledger", help="write all statements of the documents and their verdicts")
    update = commands.add_parser("update", help="bring this folder to a newer handout")
    update.add_argument("path", nargs="?", help="of the new handout: its folder or zip")
    hand_in = commands.add_parser("hand-in", help="pack what you have written, to hand it in")
    hand_in.add_argument("--name", help="yours; that of your account, if there is none")
    machines = commands.add_parser("machines", help="machines on this computer, and shells on them")
    machines.add_argument("count", nargs="?", type=int, help="how many")
    machines.add_argument("--mbit", type=float, help="megabits per second of each network card")
    machines.add_argument(
        "--latency-ms", type=float, default=0.0, help="from card to card, one way"
    )
    machines.add_argument("--run", metavar="COMMAND", help="run this on each, instead of a shell")
    machines.add_argument("--on", type=int, help="a shell on this machine of another terminal's")
    plan = commands.add_parser("plan", help="which parallelism for which model on which GPUs")
    plan.add_argument(
        "--model",
        required=True,
        help="a name such as llama-70b, a config.json, or model.py:make_model",
    )
    plan.add_argument("--gpus", required=True, metavar="64xH100", help="how many of which kind")
    plan.add_argument("--cluster", metavar="FILE", help="a TOML file that describes yours")
    plan.add_argument(
        "--software",
        default="any",
        help="whose published runs calibrate the times: Megatron-DeepSpeed, nanotron, FSDP, or any",
    )
    plan.add_argument(
        "--precision", default="bf16", help="of matrix products: bf16, fp8, mxfp8, nvfp4"
    )
    plan.add_argument("--format", choices=["table", "json"], default="table", help="of the plans")
    plan.add_argument("--batch", type=int, help="samples in a step")
    plan.add_argument("--context", type=int, help="tokens in a sample")
    plan.add_argument("--tokens", type=float, help="to train on, in all: what it costs is told")
    plan.add_argument(
        "--write",
        metavar="ENGINE",
        help="configure the fastest plan that this "
        "engine can express: Megatron-LM, DeepSpeed, torchtitan, accelerate, nanotron",
    )
    plan.add_argument("--answering", action="store_true", help="what answering users costs, too")
    plan.add_argument("--top", type=int, default=8, help="how many plans to show")
    add_arguments(commands.add_parser("run", help="run your own program, and report on it"))
    arguments, others = parser.parse_known_args(argv)
    arguments.others = others
    if others and arguments.command not in ("lab", "hub"):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        status = COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # such as that of `head`, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        return 1
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in (__package__, "coursekit"):
            raise
        use = "call .venv/bin/python instead, which `make setup` makes"
        print(f"{sys.executable} has no {error.name}: {use}", file=sys.stderr)
        return 2


def run_lab(arguments) -> int:
    from coursekit.jupyter_lab import open_lab

    return open_lab(arguments.others)


def run_hub(arguments) -> int:
    from coursekit.jupyter_lab import open_hub

    return open_hub(arguments.others)


def run_copies(arguments) -> int:
    from coursekit.jupyter_lab import make_copies

    return make_copies()


def run_doctor(arguments) -> int:
    from coursekit.doctor import examine

    return examine()


def run_build(arguments) -> int:
    from coursekit.building.build import build

    build(force=arguments.force, execute_changed=not arguments.without_executing)
    return 0


def run_update(arguments) -> int:
    from coursekit.copies.handout_update import update

    need(arguments.path, "which handout? Name its folder or zip: update path/to/the-new-one.zip")
    print(*update(arguments.path), sep="\n")
    return 0


def run_hand_in(arguments) -> int:
    from coursekit.copies.submission_zip import hand_in

    print(*hand_in(arguments.name), sep="\n")
    return 0


def run_plan(arguments) -> int:
    from coursekit.plan_command import show_plans

    return show_plans(arguments)


def run_report(arguments) -> int:
    from coursekit.report import write_report

    print(f"wrote {write_report(arguments.settings)}")
    return 0


def run_ledger(arguments) -> int:
    from coursekit.ledger.ledger_pages import free_name, write_ledger

    print(*(f"wrote {page}" for page in write_ledger()), sep="\n")
    print(f"the next free number of a statement is {free_name()}")
    return 0


def run_machines(arguments) -> int:
    from .machines.terminal import main

    return main(arguments)


def run_program(arguments) -> int:
    from .programs import command

    return command.run_program(arguments)


COMMANDS = {
    "lab": run_lab,
    "hub": run_hub,
    "copies": run_copies,
    "doctor": run_doctor,
    "build": run_build,
    "report": run_report,
    "ledger": run_ledger,
    "update": run_update,
    "hand-in": run_hand_in,
    "machines": run_machines,
    "plan": run_plan,
    "run": run_program,
}

if __name__ == "__main__":
    sys.exit(main())
