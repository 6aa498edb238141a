"""A trace of a run in the format of chrome://tracing, which Perfetto and others open.

Source  "Trace Event Format", Google, 2016
"""

import json

from .rank_trace import ProgramTrace


def to_perfetto(trace: ProgramTrace) -> str:
    """Return the trace as JSON: one process for each rank, with a thread for each kind of event."""
    events = []
    start = min((span.begin for one in trace for span in one.spans), default=0.0)
    for one in trace:
        events += [
            {"ph": "M", "pid": one.rank, "name": "process_name",
             "args": {"name": f"rank {one.rank}"}},
            *(span_event(one, start, "phases", span.kind, span.begin, span.end, span.line)
              for span in one.spans),
            *(span_event(one, start, "waiting", "wait", begin, end) for begin, end in one.exposed),
            *(span_event(one, start, "communication", call.name, call.begin,
                         one.done.get((call.group, call.number), call.begin), call.line,
                         bytes=call.nbytes, shape=list(call.shape), dtype=call.dtype,
                         group=one.labels[call.group]) for call in one.calls),
        ]  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def span_event(one, start, thread, name, begin, end, line=None, **more) -> dict:
    if line is not None:
        more["line"] = one.lines[line].where()
    return {"ph": "X", "pid": one.rank, "tid": thread, "name": name,
            "ts": round((begin - start) * 1e6, 1), "dur": round((end - begin) * 1e6, 1),
            "args": more}  # fmt: skip
