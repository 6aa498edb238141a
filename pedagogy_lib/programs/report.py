"""The report on a run: one HTML file that needs no network, and a summary in the terminal."""

from collections import defaultdict
from pathlib import Path
from statistics import mean

from ..basics.screen import say
from ..basics.units import format_bytes, format_seconds
from .findings import Finding, find_all
from .perfetto import to_perfetto
from .rank_trace import ProgramTrace
from .report_pictures import draw_losses, draw_memory, draw_steps, draw_timeline
from .step_times import find_lateness
from .summary import describe_cost, describe_replicas, describe_steps, describe_traffic, summarize

TEMPLATE = Path(__file__).with_name("report.html")
MOST_LINES = 40  # of collectives


def tell_run(trace: ProgramTrace, program, outcome, path) -> list[Finding]:
    """Write the report and the Perfetto file, print the summary, and return the findings.

    program  the words of its command
    outcome  the message of the error that ended it; "" if it has ended by itself
    """
    findings = find_all(trace)
    path = Path(path)
    path.write_text(make_report(trace, findings, program, outcome), "utf-8")
    timeline = path.with_suffix(".perfetto.json")
    timeline.write_text(to_perfetto(trace))
    for line in ["", *filter(None, summarize(trace, findings)),
                 f"The report is in {path}, the timeline for ui.perfetto.dev in {timeline.name}."]:  # fmt: skip
        say(line)
    return findings


def make_report(trace, findings, program, outcome) -> str:
    """Return the report as HTML."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text("utf-8"))
    has_steps = bool(trace.steps)
    return template.render(
        program=" ".join(program), outcome=outcome, findings=findings, trace=trace,
        overview=[describe_steps(trace), *describe_traffic(trace), *describe_replicas(trace)],
        cost=describe_cost(trace),
        steps=draw_steps(trace) if has_steps else "",
        timeline=draw_timeline(trace) if has_steps else "",
        losses=draw_losses(trace), memory=draw_memory(trace),
        collectives=list_collectives(trace), lateness=lateness_table(trace),
    )  # fmt: skip


def list_collectives(trace) -> list[dict]:
    """Return a row for each line and kind of collective: the ones with the most bytes first."""
    rows = defaultdict(list)
    for one in trace:
        for call in one.calls:
            tensor = f"{call.dtype}{list(call.shape)}" if call.dtype else ""
            rows[one.lines[call.line], call.name, one.labels[call.group], tensor].append(
                (one, call)
            )
    ordered = sorted(rows.items(), key=lambda row: -sum(call.nbytes for _, call in row[1]))
    return [describe_row(trace, *key, calls) for key, calls in ordered[:MOST_LINES]]


def describe_row(trace, line, name, group, tensor, calls) -> dict:
    ranks = {one.rank for one, _ in calls}
    measured = [(call.formula, one.sent[call.group, call.number])
                for one, call in calls if (call.group, call.number) in one.sent]  # fmt: skip
    in_steps = [call for _, call in calls if 0 < call.step < trace.steps]
    return {
        "line": line,
        "name": name,
        "group": "all ranks" if group == "default_pg" else group,
        "tensor": tensor,
        "count": len(calls) / len(ranks),
        "per_step": len(in_steps) / len(ranks) / max(1, trace.steps - 1),
        "formula": format_bytes(mean(call.formula for _, call in calls)),
        "measured": describe_measured(measured),
    }


def describe_measured(measured) -> str:
    """Describe bytes by the kernel's counters beside those of the formula, of the same calls."""
    if not measured:
        return "not counted"
    formula, sent = (mean(values) for values in zip(*measured))
    share = f" ({sent / formula:.2f}×)" if formula else ""
    return f"{format_bytes(sent)}{share}"


def lateness_table(trace) -> dict:
    """Return {rank: [the time that it has waited for each other rank, in a step]}."""
    late = find_lateness(trace)
    if not late or len(trace) > 16:
        return {}
    return {
        rank: [format_seconds(late[rank, other]) if (rank, other) in late else "–"
               for other in trace.ranks]
        for rank in trace.ranks
    }  # fmt: skip
