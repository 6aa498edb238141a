"""Findings on programs that take longer than they have to."""

from collections import defaultdict
from statistics import median

from ..basics.units import format_bytes, format_seconds
from .findings import NOTE, SLOW, Finding
from .step_times import find_lateness, typical_step

MANY_CALLS = 8  # of one line in a step
SMALL_BYTES = 100_000
NOTEWORTHY = 0.10  # of the time of a step
DATA_SHARE = 0.25
SLOWER = 1.5  # times as long as the other ranks
LATE_SECONDS = 0.003


def calls_by_line(one, steps):
    """Return {line: its calls after the first step} of a rank."""
    found = defaultdict(list)
    for call in one.calls:
        if 0 < call.step < steps:
            found[call.line].append(call)
    return found


def find_small_messages(trace):
    one = trace.first
    if trace.steps < 3:
        return
    step = typical_step(one, trace.steps)
    for line, calls in calls_by_line(one, trace.steps).items():
        per_step = len(calls) / (trace.steps - 1)
        size = sum(call.nbytes for call in calls) / len(calls)
        waited = sum(wait_after(one, call) for call in calls) / (trace.steps - 1)
        share = waited / step["all"]
        names = {call.name for call in calls} - {"send", "recv", "barrier"}
        if per_step >= MANY_CALLS and size < SMALL_BYTES and share >= NOTEWORTHY and names:
            yield Finding(
                "small messages", SLOW,
                f"This line calls {calls[0].name}() {per_step:.0f} times in a step, for "
                f"{format_bytes(size)} each time, and waits for them for {share:.0%} of the step.",
                "Join the tensors into one, as DDP does in buckets, or begin all calls with "
                "async_op=True and wait once.",
                one.lines[line], share,
            )  # fmt: skip


def wait_after(one, call) -> float:
    """Return how long a rank has waited for a call, if it waited at once."""
    end = one.done.get((call.group, call.number), call.begin)
    return sum(last - first for first, last in waits_between(one, call.begin, end))


def waits_between(one, begin, end):
    import bisect

    index = bisect.bisect_left(one.exposed, (begin, begin))
    while index < len(one.exposed) and one.exposed[index][0] < end:
        yield one.exposed[index]
        index += 1


def find_barriers(trace):
    one = trace.first
    if trace.steps < 3:
        return
    for line, calls in calls_by_line(one, trace.steps).items():
        steps = {call.step for call in calls if call.name == "barrier"}
        if len(steps) >= 0.8 * (trace.steps - 1):
            share = sum(wait_after(one, call) for call in calls) / (trace.steps - 1)
            share /= typical_step(one, trace.steps)["all"]
            yield Finding(
                "barrier in each step", SLOW,
                "Every step has a barrier(), which makes all ranks wait for the slowest one once "
                "more.",
                "Leave it out: a collective waits for its data by itself. To measure times, "
                "measure many steps together.",
                one.lines[line], share,
            )  # fmt: skip


def find_repeated_averaging(trace):
    """Find gradients that are averaged after each of several backwards of a step."""
    for one in trace:
        if trace.steps < 3 or not one.gradient_bytes:
            continue
        backwards = len([s for s in one.spans_of("backward") if 0 < s.step < trace.steps])
        moved = [call for call in one.calls
                 if 0 < call.step < trace.steps and call.name == "all_reduce"]  # fmt: skip
        times = sum(call.nbytes for call in moved) / (trace.steps - 1) / one.gradient_bytes
        per_step = backwards / (trace.steps - 1)
        if per_step >= 1.9 and times >= 0.9 * per_step:
            biggest = max(moved, key=lambda call: call.nbytes)
            share = typical_step(one, trace.steps)
            yield Finding(
                "averaged after each backward", SLOW,
                f"A step has {per_step:.0f} backwards, and all gradients are averaged after each "
                "of them, although the optimizer needs only their sum.",
                "Put all micro-batches but the last into model.no_sync(), forward and backward.",
                one.lines[biggest.line], share["waiting"] / share["all"] if share else 0.0,
            )  # fmt: skip
            return


def find_large_buffers(trace):
    for one in trace:
        for told, line in one.list_facts("ddp"):
            if told["buffers"] >= 0.1 * told["bytes"] > 0 and told["buffers"] > SMALL_BYTES:
                yield Finding(
                    "large buffers", SLOW,
                    f"DDP broadcasts {format_bytes(told['buffers'])} of buffers from rank 0 in "
                    f"each forward, besides {format_bytes(told['bytes'])} of gradients.",
                    "Pass broadcast_buffers=False if the buffers never change, or keep constants "
                    "out of the module's buffers.",
                    one.lines[line], 0.5,
                )  # fmt: skip
                return


def find_needless_search(trace):
    one = trace.first
    noted = [numbers for step, numbers in one.digests["gradients"].items()]
    for told, line in one.list_facts("ddp"):
        every = trace.steps >= 3 and noted and all(
            numbers[i] for numbers in noted for i, (*_, is_trained, _) in enumerate(one.names)
            if is_trained and i < len(numbers)
        )  # fmt: skip
        if told["find_unused"] and every:
            yield Finding(
                "needless search for unused parameters", NOTE,
                "find_unused_parameters=True makes DDP search the graph in each step, but every "
                "parameter gets a gradient in every step.",
                "Leave it out.",
                one.lines[line],
            )  # fmt: skip


def find_wide_gradients(trace):
    one = trace.first
    halves = [name for name, _, dtype, is_trained, _ in one.names
              if is_trained and dtype in ("torch.bfloat16", "torch.float16")]  # fmt: skip
    if len(halves) < 0.9 * max(1, len(one.names)) or trace.steps < 3:
        return
    wide = [call for call in one.calls if 0 < call.step < trace.steps
            and call.name in ("all_reduce", "reduce_scatter") and call.dtype == "float32"]  # fmt: skip
    moved = sum(call.nbytes for call in wide) / (trace.steps - 1)
    if moved >= 1.5 * one.gradient_bytes > 0:
        biggest = max(wide, key=lambda call: call.nbytes)
        yield Finding(
            "float32 gradients of a bfloat16 model", SLOW,
            f"The parameters have 2 bytes, but their gradients travel with 4: "
            f"{format_bytes(moved)} in a step.",
            "Average them as bfloat16, if their precision is enough.",
            one.lines[biggest.line], 0.1,
        )  # fmt: skip


def find_slow_data(trace):
    for one in trace:
        step = typical_step(one, trace.steps) if trace.steps >= 4 else {}
        share = step["data"] / step["all"] if step else 0.0
        if share >= DATA_SHARE:
            line = one.lines[one.spans_of("data")[-1].line]
            yield Finding(
                "waits for data", SLOW,
                f"Rank {one.rank} waits for its next batch for {share:.0%} of a step.",
                "Load in more workers (num_workers), or prepare the samples beforehand.",
                line, share,
            )  # fmt: skip
            return


def find_slow_rank(trace):
    if trace.steps < 4 or len(trace) < 2:
        return
    typical = {one.rank: typical_step(one, trace.steps) for one in trace}
    computing = {
        rank: step["computing"] + step["data"] + step["save"] + step["optimizer"]
        for rank, step in typical.items()
    }
    slowest = max(computing, key=computing.get)
    others = median(seconds for rank, seconds in computing.items() if rank != slowest)
    late = find_lateness(trace)
    waited = [late.get((rank, slowest), 0.0) for rank in typical if rank != slowest]
    gap = computing[slowest] - others
    if computing[slowest] > SLOWER * others and gap > LATE_SECONDS and min(waited) > 0.5 * gap:
        share = gap / typical[slowest]["all"]
        parts = {kind: typical[slowest][kind] - median(typical[rank][kind] for rank in typical)
                 for kind in ("computing", "data", "save", "optimizer")}  # fmt: skip
        why = max(parts, key=parts.get)
        one = trace.ranks[slowest]
        yield Finding(
            "one slow rank", SLOW,
            f"Rank {slowest} is the slowest: in a step it is busy for "
            f"{format_seconds(computing[slowest])}, the others for {format_seconds(others)}, and "
            f"they wait for it. Most of the difference is {WHY[why]}.",
            "Give it less to do, or find out what slows it down: its data, its processor, or what "
            "it alone does.",
            longest_line(one, why), share,
        )  # fmt: skip


WHY = {"computing": "computing", "data": "loading data", "save": "saving",
       "optimizer": "the optimizer"}  # fmt: skip


def longest_line(one, kind):
    spans = one.spans_of("backward" if kind == "computing" else kind)
    return one.lines[max(spans, key=lambda span: span.seconds).line] if spans else None


ALL = [
    find_small_messages,
    find_barriers,
    find_repeated_averaging,
    find_large_buffers,
    find_needless_search,
    find_wide_gradients,
    find_slow_data,
    find_slow_rank,
]
