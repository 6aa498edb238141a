"""The bench of the course: functions that launch real ranks, measure them and draw the results."""

import importlib
import os
import sys

# The module of each public name. Names are imported on first use, because every rank imports this
# package anew and should not wait for modules that only the notebook needs. __init__.pyi lists the
# same names for type checkers and completion.
_HOME = {
    "launch": ".ranks.launcher",
    "begin": ".ranks.background",
    "measure": ".measuring.recorder",
    "mark": ".measuring.recorder",
    "compare_rounds": ".measuring.rounds",
    "plot_against": ".pictures.charts",
    "plot_memory": ".pictures.run_memory",
    "plot_peak": ".pictures.run_memory",
    "plot_timeline": ".pictures.run_timelines",
    "plot_traffic": ".pictures.traffic",
    "plot_bars": ".pictures.charts",
    "plot_curves": ".pictures.charts",
    "plot_causes": ".pictures.causes",
    "plot_stacks": ".pictures.memory_bars",
    "plot_spreads": ".pictures.spreads",
    "plot_happenings": ".pictures.happenings",
    "predict": "coursekit.predictions",
    "lab": "coursekit.labs",
    "throttle": ".measuring.slow_links",
    "SlowProducts": ".measuring.slow_computing",
    "SlowLayer": ".measuring.slow_computing",
    "paced": ".measuring.slow_computing",
    "simulate": ".schedules.simulations",
    "timeline_of": ".schedules.timelines",
    "check_schedule": ".schedules.rules",
    "plot_schedule": ".pictures.schedule_pictures",
    "plot_holdings": ".pictures.chunk_holders",
    "film": ".measuring.message_film",
    "close": ".basics.closeness",
    "relative_gap": ".basics.closeness",
    "rounding": ".basics.closeness",
    "check": "coursekit.check_runner",
    "hint": "coursekit.check_runner",
    "progress": "coursekit.progress.progress",
    "Scoreboard": "coursekit.scores",
    "draw_groups": ".pictures.group_pictures",
    "plot_map": ".pictures.choice_maps",
    "explore": ".widgets.explore",
    "put_to_the_test": "coursekit.ledger.claims",
    "Machines": ".machines.spec",
    "Disk": ".machines.disks",
    "run_torchrun": ".ranks.torchrun_agents",
    "machines_around": ".machines.current",
    "Table": ".basics.tables",
    "Run": ".ranks.run",
    "Block": ".ranks.run",
    "LaunchError": ".basics.errors",
    "RankError": ".basics.errors",
    "HangError": ".basics.errors",
    "Stopped": ".basics.errors",
}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__]


if "ipykernel" in sys.modules and not os.environ.get("PEDAGOGY_RANK"):
    from .ranks.fork_server_client import warm_up

    warm_up()  # while the notebook imports torch, so that the first launch is quick
