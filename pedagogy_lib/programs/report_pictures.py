"""The pictures of a report as SVG, whose colours follow the page: light or dark."""

from html import escape
from statistics import median

from ..basics.units import format_bytes, format_seconds
from .step_times import join_intervals, typical_step

WIDTH, ROW, GAP, LEFT = 1000, 26, 8, 70
PHASES = {"computing": "computing", "waiting": "waiting for communication", "data": "data",
          "optimizer": "optimizer", "save": "saving"}  # fmt: skip
KINDS = {"forward": "forward", "backward": "backward", "optimizer": "optimizer", "data": "data",
         "save": "save", "clip": "clip"}  # fmt: skip
SHOWN_STEPS = 3


def svg(height, content, label) -> str:
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
            f"{''.join(content)}</svg>")  # fmt: skip


def box(x, y, width, height, name, title) -> str:
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.5, width):.1f}" height="{height:.1f}" '
            f'class="{name}"><title>{escape(title)}</title></rect>')  # fmt: skip


def text(x, y, words, anchor="start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def draw_steps(trace) -> str:
    """Draw where the time of a typical step goes, one bar for each rank."""
    typical = {one.rank: typical_step(one, trace.steps) for one in trace}
    longest = max(sum(step[kind] for kind in PHASES) for step in typical.values()) or 1.0
    scale = (WIDTH - LEFT - 90) / longest
    content = []
    for row, (rank, step) in enumerate(typical.items()):
        y, x = row * (ROW + GAP), LEFT
        content.append(text(LEFT - 8, y + 18, f"rank {rank}", "end"))
        for kind, words in PHASES.items():
            title = f"rank {rank}, {words}: {format_seconds(step[kind])}"
            content.append(box(x, y, step[kind] * scale, ROW, kind, title))
            x += step[kind] * scale
        content.append(text(x + 6, y + 18, format_seconds(step["all"])))
    told = "; ".join(f"rank {rank}: " + ", ".join(
        f"{words} {format_seconds(step[kind])}" for kind, words in PHASES.items())
        for rank, step in typical.items())  # fmt: skip
    return svg(len(typical) * (ROW + GAP), content, f"The median step of each rank. {told}")


def shown_window(trace) -> tuple[float, float, int]:
    """Return the begin and the end of some steps of ordinary length, and the first one's number."""
    one = trace.first
    count = min(SHOWN_STEPS, trace.steps)
    lengths = [one.times_of_step(step + count - 1)[1] - one.times_of_step(step)[0]
               for step in range(trace.steps - count + 1)]  # fmt: skip
    usual = median(lengths)
    step = min(range(len(lengths)), key=lambda index: (abs(lengths[index] - usual), index))
    return one.times_of_step(step)[0], one.times_of_step(step + count - 1)[1], step


def draw_timeline(trace) -> str:
    """Draw what each rank did in a few steps: phases, waiting below, and collectives as marks."""
    begin, end, first = shown_window(trace)
    scale = (WIDTH - LEFT - 10) / (end - begin)
    content = []
    for row, one in enumerate(trace):
        y = row * (2 * ROW + GAP)
        content.append(text(LEFT - 8, y + 18, f"rank {one.rank}", "end"))
        content += draw_spans(one, begin, end, scale, y)
        for first_time, last in join_intervals(one.exposed):
            if last > begin and first_time < end:
                x, stop = max(first_time, begin), min(last, end)
                title = f"rank {one.rank} waits for {format_seconds(last - first_time)}"
                content.append(box(LEFT + (x - begin) * scale, y + ROW + 2, (stop - x) * scale,
                                   ROW / 2, "waiting", title))  # fmt: skip
    height = len(trace) * (2 * ROW + GAP)
    label = (f"What each of {len(trace)} ranks did in steps {first} to "
             f"{first + min(SHOWN_STEPS, trace.steps) - 1}, over {format_seconds(end - begin)}")  # fmt: skip
    return svg(height + 20, [*content, *draw_axis(begin, end, scale, height)], label)


def draw_spans(one, begin, end, scale, y):
    for span in one.spans:
        if span.end > begin and span.begin < end and span.kind in KINDS:
            x, stop = max(span.begin, begin), min(span.end, end)
            where = one.lines[span.line].where()
            title = f"rank {one.rank}, {span.kind}, {where}: {format_seconds(span.seconds)}"
            yield box(LEFT + (x - begin) * scale, y, (stop - x) * scale, ROW, span.kind, title)
    for call in one.calls:
        if begin <= call.begin < end:
            done = min(end, one.done.get((call.group, call.number), call.begin))
            where = one.lines[call.line].where()
            title = (f"rank {one.rank}, {call.name} of {format_bytes(call.nbytes)}, {where}: "
                     f"{format_seconds(max(0.0, done - call.begin))}")  # fmt: skip
            yield box(LEFT + (call.begin - begin) * scale, y + ROW + 2 + ROW / 2,
                      (done - call.begin) * scale, ROW / 2 - 3, "communication", title)  # fmt: skip


def draw_axis(begin, end, scale, y):
    step = next(size for size in (k * 10**p for p in range(-6, 4) for k in (1, 2, 5))
                if (end - begin) / size <= 10)  # fmt: skip
    mark = 0.0
    while mark <= end - begin:
        x = LEFT + mark * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y}" class="grid"/>'
        yield text(x, y + 15, format_seconds(mark) if mark else "0", "middle")
        mark += step


def draw_losses(trace) -> str:
    """Draw the losses of all ranks."""
    lines = {one.rank: [(step, value) for step, value, *_ in one.losses if value is not None]
             for one in trace}  # fmt: skip
    return draw_lines({f"rank {rank}": line for rank, line in lines.items()}, "step", "loss")


def draw_memory(trace) -> str:
    """Draw the bytes of rank 0's tensors by kind, over its steps."""
    kinds = dict.fromkeys(kind for _, told in trace.first.memory for kind in told)
    lines = {kind: [(step, told.get(kind, 0) / 1e6)
                    for step, (_, told) in enumerate(trace.first.memory)] for kind in kinds}  # fmt: skip
    return draw_lines(lines, "step", "MB on rank 0")


def draw_lines(lines, across, up) -> str:
    """Draw a few lines {name: [(x, y), …]} with their names at their ends; "" without points."""
    points = [point for line in lines.values() for point in line]
    if len({x for x, _ in points}) < 2:
        return ""
    height = 200
    low, high = min(y for _, y in points), max(y for _, y in points)
    last = max(x for x, _ in points)
    span = (high - low) or 1.0
    content = [
        text(LEFT - 8, 14, f"{high:.4g}", "end"),
        text(LEFT - 8, height, f"{low:.4g}", "end"),
    ]
    for index, (name, line) in enumerate(lines.items()):
        places = " ".join(
            f"{LEFT + x / last * (WIDTH - LEFT - 150):.1f},{8 + (high - y) / span * (height - 16):.1f}"
            for x, y in line
        )
        content.append(f'<polyline points="{places}" class="line{index % 6}"><title>{escape(name)}'
                       "</title></polyline>")  # fmt: skip
        if index < 12:
            content.append(f'<line x1="{WIDTH - 135}" x2="{WIDTH - 115}" y1="{10 + 16 * index}" '
                           f'y2="{10 + 16 * index}" class="line{index % 6}"/>')  # fmt: skip
            content.append(text(WIDTH - 110, 14 + 16 * index, name))
    content.append(text(LEFT, height + 16, f"{across} 0 to {last}"))
    ends = ", ".join(f"{name} ends at {line[-1][1]:.4g}" for name, line in lines.items() if line)
    return svg(height + 22, content, f"{up} over {across}s: {ends}")
