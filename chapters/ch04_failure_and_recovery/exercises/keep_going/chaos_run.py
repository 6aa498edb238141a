"""One case of the exam, run next to an answer, and the records of it."""

import contextlib
import tempfile
import time
from operator import itemgetter

from coursekit.answers.remote_answer import try_on_ranks
from coursekit.kit import Wrong
from pedagogy_lib.basics.errors import HangError
from pedagogy_lib.machines.disks import Disk
from pedagogy_lib.machines.network import try_machines
from pedagogy_lib.machines.spec import Machines

from .chaos_plans import ALL, DISK_FULL, RANKS, plans_of, steps_of
from .chaos_reasons import HANGS, why_it_ended
from .chaos_watch import FEW, SAVED, parse_notes, sit

REPLACEMENTS = 40
CABLE = 0.9, 1.7  # seconds after the start, between which machine 1 of two has no network


def run_chaos(answer, name, seconds) -> dict:
    """Run a case; return the attributes of `Case`, the number of `planned` events and the times."""
    plan = plans_of(answer.lab)[name]
    disk = Disk.here(megabytes=1) if DISK_FULL in map(itemgetter(0), plan) else None
    machines = None
    if name == ALL and not try_machines():
        machines = Machines(2).unplug(1, after_seconds=CABLE[0]).plug(1, after_seconds=CABLE[1])
    with disk or contextlib.nullcontext(), tempfile.TemporaryDirectory(prefix="exam-") as place:
        plan = [event for event in plan if disk or event.what != DISK_FULL]
        found = {"planned": len(plan), "began": time.perf_counter(), "cables": [], "wrong": None}
        try:
            run = try_on_ranks(
                name, sit, answer, plan, place, disk.path if disk else place, steps_of(name), name,
                world_size=RANKS, timeout=seconds, replacements=REPLACEMENTS, machines=machines,
                explain=lambda error: why(name, error),
            )  # fmt: skip
            found |= read_run(run)
        except Wrong as wrong:
            found["wrong"] = wrong
        return found | read_notes(answer.lab, place)


def why(name, error) -> str:
    return HANGS[name] if isinstance(error, HangError) else why_it_ended(str(error))


def read_run(run) -> dict:
    return {
        "values": run.values,
        "seconds": run.seconds,
        "lost": len(run.lost),
        "began": time.perf_counter() - run.seconds,
        "cables": [tuple(event) for event in run.cards.events] if run.cards else [],
    }


def read_notes(chaos, place) -> dict:
    """Return what ranks have recorded in the exam's store."""
    return {
        "events": [(what, rank, at) for what, rank, _, at in chaos.events_of(place)],
        "taken": chaos.steps_of(place),
        "saved": parse_notes(chaos, place, SAVED),
        "few": parse_notes(chaos, place, FEW),
    }
