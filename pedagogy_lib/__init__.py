"""The bench of the course: launch real ranks, measure them, draw what was measured."""

import importlib
import os
import sys

# Where each public name lives. They are imported on first use, because every rank imports this
# package anew and should not wait for what only the notebook needs.
_HOME = {
    "launch": "launcher",
    "measure": "instruments",
    "mark": "instruments",
    "plot_against": "plots",
    "plot_bytes": "plots",
    "plot_memory": "plots",
    "plot_peak": "plots",
    "plot_timeline": "plots",
    "plot_bars": "charts",
    "plot_curves": "charts",
    "plot_stacks": "stacks",
    "plot_masks": "masks",
    "plot_step": "step_pictures",
    "film_step": "stepping",
    "plot_units": "unit_pictures",
    "film_units": "unit_films",
    "draw_product": "products",
    "plot_pair": "pair_pictures",
    "film_pair": "pair_films",
    "predict": "prediction",
    "lab": "labs",
    "throttle": "links",
    "SlowProducts": "emulation",
    "SlowLayer": "emulation",
    "paced": "emulation",
    "simulate": "timelines",
    "timeline_of": "timelines",
    "Timeline": "timelines",
    "ScheduleError": "timelines",
    "check_schedule": "schedule_rules",
    "plot_schedule": "schedule_pictures",
    "save_trace": "traces",
    "plot_ring": "holdings",
    "plot_holdings": "holdings",
    "film": "links",
    "close": "closeness",
    "relative_gap": "closeness",
    "rounding": "closeness",
    "check": "checking",
    "hint": "checking",
    "draw_clusters": "diagrams",
    "draw_scaling": "diagrams",
    "draw_graph": "graphs",
    "draw_paths": "graphs",
    "draw_three_splits": "diagrams",
    "explore": "widgets",
    "put_to_the_test": "table",
    "run_torchrun": "agents",
    "Table": "table",
    "Run": "run",
    "Block": "run",
    "LaunchError": "errors",
    "RankError": "errors",
    "HangError": "errors",
    "Stopped": "errors",
}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__]


if "ipykernel" in sys.modules and not os.environ.get("PEDAGOGY_RANK"):
    from .server import warm_up

    warm_up()  # while the notebook imports torch, so that the first launch is quick
