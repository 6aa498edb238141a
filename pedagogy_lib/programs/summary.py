"""The summary of a run in a terminal: where the time went, what was sent, what was found."""

from ..basics.rank_texts import ranks_text
from ..basics.units import format_bytes, format_count, format_seconds
from .findings import Finding
from .rank_trace import ProgramTrace
from .step_times import find_lateness, hidden_share, typical_step

PHASES = {"computing": "computing", "waiting": "waiting for communication", "data": "loading data",
          "optimizer": "the optimizer", "save": "saving"}  # fmt: skip


def summarize(trace: ProgramTrace, findings: list[Finding]) -> list[str]:
    """Return the lines of a summary."""
    lines = [describe_steps(trace), *describe_traffic(trace), *describe_replicas(trace)]
    if findings:
        lines.append(f"{format_count(len(findings), 'finding')}:")
        for number, finding in enumerate(findings, start=1):
            first, *more = str(finding).split("\n")
            lines += [f"{number}. [{finding.kind}] {first}", *(f"   {line}" for line in more)]
    elif trace.steps:
        lines.append("Nothing was found to be wrong or needlessly slow.")
    return [*lines, describe_cost(trace)]


def describe_steps(trace) -> str:
    ranks = format_count(len(trace), "rank")
    if not trace.steps:
        return f"{ranks}; no optimizer's step has ended on all of them."
    steps = [typical_step(one, trace.steps) for one in trace]
    whole = sum(step["all"] for step in steps) / len(steps)
    shares = {kind: sum(step[kind] for step in steps) / len(steps) / whole for kind in PHASES}
    told = ", ".join(f"{share:.0%} {PHASES[kind]}" for kind, share in
                     sorted(shares.items(), key=lambda pair: -pair[1]) if share >= 0.005)  # fmt: skip
    count = format_count(trace.steps, "step")
    return f"{ranks}, {count} of {format_seconds(whole)} (median): {told}."


def sent_per_step(one, steps) -> tuple[float, float | None]:
    """Return the bytes that a rank sends in a step: by the formulas, and as measured or None."""
    formula = sum(call.formula for call in one.calls if 0 < call.step < steps) / max(1, steps - 1)
    totals = {step: sum(sent for sent, _ in sums.values()) for step, sums in one.wire}
    if steps < 2 or steps - 1 not in totals or 0 not in totals:
        return formula, None
    return formula, (totals[steps - 1] - totals[0]) / (steps - 1)


def describe_traffic(trace) -> list[str]:
    if trace.steps < 2:
        return []
    one = max(trace, key=lambda one: sent_per_step(one, trace.steps)[0])
    formula, measured = sent_per_step(one, trace.steps)
    if not formula and not measured:
        return ["No rank sends anything in a step."]
    kernel = "" if measured is None else f", and {format_bytes(measured)} by the kernel's counters"
    lines = [f"Rank {one.rank} sends {format_bytes(formula)} in a step by the formulas{kernel}."]
    hidden = hidden_share(one, trace.steps)
    if hidden is not None:
        lines.append(f"{hidden:.0%} of its communication is hidden behind computing.")
    late = find_lateness(trace)
    if late:
        (rank, other), seconds = max(late.items(), key=lambda pair: pair[1])
        lines.append(
            f"The longest wait for a rank is that of rank {rank} for rank {other}, "
            f"{format_seconds(seconds)} in a step."
        )
    return lines


def describe_replicas(trace) -> list[str]:
    from .wrong_findings import comparable_parameters, steps_apart

    lines = []
    for ranks, names in comparable_parameters(trace):
        apart = steps_apart(trace, ranks, names, "parameters")
        if apart["noted"]:
            told = (f"differ from step {apart['steps'][0]} on, first in {apart['names'][0]}"
                    if apart["names"] else f"are equal in all {apart['noted']} compared steps")  # fmt: skip
            lines.append(f"The parameters of {ranks_text(ranks)} {told}.")
    return lines


def describe_cost(trace) -> str:
    """Say how much of the ranks' time watching has taken."""
    if not trace.steps:
        return ""
    cost = max(one.cost / len(one.steps) for one in trace)
    step = max(typical_step(one, trace.steps)["all"] for one in trace)
    return f"Watching has taken {format_seconds(cost)} of each step, {cost / step:.1%}."
