# Built from chapters/ch08_pipeline_parallel/labs/traces.py by `make build`.
"""Files of runs and timelines for a trace viewer: Perfetto, or chrome://tracing."""

import json
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.schedules.rules import text_of
from pedagogy_lib.schedules.timelines import LABELS, Timeline

MICRO = 1e6


def save_trace(what, path) -> Path:
    """Write a run, or a timeline, in Chrome's trace event format; return the path.

    Open the file at https://ui.perfetto.dev: nothing leaves the browser. The viewer shows a rank as
    a process, and each measured span or action as a slice with its name.

    what    a `Run` with measured blocks, or a `Timeline`
    Source  "Trace Event Format", complete events ("X"), times in microseconds
    """
    slices = slices_of_timeline(what) if isinstance(what, Timeline) else slices_of_run(what)
    need(slices, "this run has no measured blocks: put `with measure(...)` into the function")
    ranks = sorted({one["pid"] for one in slices})
    names = [
        {"name": "process_name", "ph": "M", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        for rank in ranks
    ]
    path = Path(path)
    path.write_text(json.dumps({"traceEvents": names + slices, "displayTimeUnit": "ms"}))
    return path


def slice_of(name, kind, rank, span, **args) -> dict:
    start, end = span
    place = {"ph": "X", "pid": rank, "tid": 0, "ts": start * MICRO, "dur": (end - start) * MICRO}
    return {"name": name, "cat": kind, **place, "args": args}


def slices_of_run(run) -> list[dict]:
    return [
        slice_of(label, label, rank, span)
        for label in run.labels
        for rank, spans in enumerate(run[label].spans)
        for span in spans
    ]


def slices_of_timeline(timeline) -> list[dict]:
    return [
        slice_of(text_of(*action), LABELS[action[0]], rank, span, microbatch=action[1])
        for rank, (row, spans) in enumerate(zip(timeline.rows, timeline.spans))
        for action, span in zip(row, spans)
    ]
