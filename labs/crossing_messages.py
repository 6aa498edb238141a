# Built from chapters/ch08_pipeline_parallel/labs/crossing_messages.py by `make build`.
"""The picture of a schedule with its messages: arrows from an action to one that needs it."""

from pedagogy_lib.pictures.schedule_pictures import (
    color_of,
    draw_row,
    ensure_timeline,
    legend_of,
    number_row,
    scale,
)
from pedagogy_lib.pictures.style import COLORS, INK, Picture, new_figure, use_course_style

ROW_INCHES, HIGH = 0.62, 0.26  # a row, and half the height of its bars
BESIDE = 0.004  # how far an arrow is from its time, as a share of the width


@use_course_style
def plot_messages(timeline, title="", until=None) -> Picture:
    """Draw each rank's actions over time, and its messages: activations go down, gradients up.

    timeline  from `simulate` or `timeline_of`; or rows, which are simulated
    until     the end of the time axis, in the unit of the picture; by default the schedule's end
    """
    one = ensure_timeline(timeline)
    factor, unit = scale(one.unit, one.seconds)
    end = until or factor * one.seconds
    figure, axes = new_figure(7.5, ROW_INCHES * one.ranks + 0.9)
    axes.axvspan(0, end, facecolor=COLORS["idle"], zorder=0)
    axes.set(ylim=(one.ranks - 0.5, -0.5), xlim=(0, end), xlabel=f"time ({unit})")
    axes.grid(False)
    axes.set_yticks(range(one.ranks), [f"rank {rank}" for rank in range(one.ranks)])
    for rank, (row, spans) in enumerate(zip(one.rows, one.spans)):
        draw_row(axes, rank, row, spans, factor, HIGH)
        number_row(axes, rank, row, spans, factor, end / factor)
    sent = messages_of(one, end / factor)
    for kind, start, stop in sent:
        draw_message(axes, kind, start, stop, factor, BESIDE * end)
    looks = {"fontsize": 8.5, "handlelength": 1.2, "columnspacing": 1.2}
    figure.legend(handles=legend_of([one]), loc="outside upper right", ncols=3, **looks)
    axes.set_title(title)
    return Picture(figure, f"{title}. {len(sent)} messages between {one.ranks} ranks")


def messages_of(one, until) -> list[tuple]:
    """Return (kind, (when it was computed, rank), (when it is used, rank)) of each message.

    Chunk c of rank r is assumed to be stage c * ranks + r of the model.
    """
    actions = [
        (chunk * one.ranks + rank, kind, i, span)
        for rank, (row, spans) in enumerate(zip(one.rows, one.spans))
        for (kind, i, chunk), span in zip(row, spans)
    ]
    done = {
        (kind == "F", i, stage): end for stage, kind, i, (_, end) in actions if kind != "W"
    }  # no other action needs the result of a W
    found = []
    for stage, kind, i, (start, _) in actions:
        source = stage - 1 if kind == "F" else stage + 1
        sent = done.get((kind == "F", i, source))
        if kind != "W" and sent is not None and start <= until:
            found.append((kind, (sent, source % one.ranks), (start, stage % one.ranks)))
    return found


def draw_message(axes, kind, start, stop, factor, beside):
    """Draw a message; downward arrows are a little to the left, so that both ways are visible."""
    (begun, sender), (used, receiver) = start, stop
    beside = -beside if receiver > sender else beside
    way = HIGH if receiver > sender else -HIGH
    arrow = {"arrowstyle": "-|>", "color": color_of(kind, 0), "lw": 1.3, "mutation_scale": 8,
             "shrinkA": 0, "shrinkB": 0}  # fmt: skip
    ends = (
        (factor * used + beside, receiver - way),
        (factor * begun + beside, sender + way),
    )
    axes.annotate("", *ends, arrowprops=arrow, zorder=4)
    axes.plot(*ends[1], ".", color=INK, markersize=3, zorder=5)
