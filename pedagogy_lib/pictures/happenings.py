"""Pictures of a training run and of what happens to it: its steps over time, on each rank."""

from ..basics.errors import need
from ..basics.units import format_count
from .style import BLUE, INK, LINE_COLORS, RED, Picture, new_figure, use_course_style

TICK = 0.32  # half the height of a tick; a row is 1 high
SOON = 1.0  # seconds in which the same name is written only once
LINE, LETTER = 11, 0.0125  # height of a name, in points; width of a letter, as a share of the time


@use_course_style
def plot_happenings(taken, happened, title="") -> Picture:
    """Plot the progress of a training run, and below it each rank's steps, as ticks in a row.

    A process that replaced another has the next colour. Where no row has ticks, all ranks wait.

    taken     {(rank, process): [(step, seconds), …]}
    happened  [(what, rank, seconds), …]: a cross in the row of this rank; the rank is None for what
              belongs to no rank, such as a cable
    Raises    LaunchError if no step was taken
    """
    need(any(taken.values()), "plot_happenings() takes the steps of at least one process")
    ranks = 1 + max(rank for rank, _ in taken)
    figure, (top, rows) = new_figure(
        7.5, 2.0 + 0.45 * ranks, nrows=2, sharex=True, gridspec_kw={"height_ratios": [1, 1.3]}
    )
    draw_progress(top, taken)
    for color, rank, times in lives_of(taken):
        rows.vlines(times, rank - TICK, rank + TICK, color=color, linewidth=1.4)
    for _, rank, at in happened:
        if rank is not None:
            rows.plot(at, rank, "X", color=RED, markersize=8, markeredgecolor="white", zorder=4)
    levels = draw_names(top, happened, max(at for steps in taken.values() for _, at in steps))
    rows.set(xlabel="time (s)", ylim=(ranks - 0.4, -0.6))
    rows.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    rows.grid(False, axis="y")
    top.set_title(title, pad=8 + LINE * levels)
    told = "; ".join(what + f" on rank {rank}" * (rank is not None) + f" at {at:.2f} s"
                     for what, rank, at in happened)  # fmt: skip
    return Picture(
        figure, f"{title}. Steps of {format_count(ranks, 'rank')} over time. {told}".strip()
    )


def draw_progress(axes, taken):
    """Draw the last step that any rank has taken, over time."""
    points = sorted((at, step) for steps in taken.values() for step, at in steps)
    times, steps = zip(*points, strict=True)
    axes.plot(times, steps, color=BLUE, linewidth=1.6, drawstyle="steps-post")
    before = min(steps) - 1
    axes.set(ylabel="step", ylim=(before, before + 1.1 * (max(steps) - before)))


def lives_of(taken):
    """Yield (colour, rank, times) of each process, in the order of their first steps."""
    first = sorted((steps[0][1], key) for key, steps in taken.items() if steps)
    count = {}
    for _, (rank, process) in first:
        number = count[rank] = count.get(rank, -1) + 1
        yield LINE_COLORS[number % len(LINE_COLORS)], rank, [at for _, at in taken[rank, process]]


def draw_names(axes, happened, seconds) -> int:
    """Write events above the picture, each once in `SOON` seconds; return the number of lines."""
    named, ends = {}, []
    for what, _, at in sorted(happened, key=lambda one: one[2]):
        if at - named.get(what, -SOON) < SOON:
            continue
        named[what] = at
        level = next((k for k, end in enumerate(ends) if end < at), len(ends))
        ends[level : level + 1] = [at + LETTER * seconds * (len(what) + 1)]
        axes.axvline(at, color=RED, linewidth=0.8, alpha=0.5)
        axes.annotate(what, (at, 1), (0, 4 + LINE * level), xycoords=("data", "axes fraction"),
                      textcoords="offset points", color=INK, fontsize=8)  # fmt: skip
    return len(ends)
