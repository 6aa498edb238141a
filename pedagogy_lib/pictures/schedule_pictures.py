"""Pictures of pipelines: what each rank does when, ideal and measured, one under the other."""

from functools import cache
from statistics import median

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from ..basics.errors import need
from ..basics.units import format_count
from ..schedules.simulations import simulate
from ..schedules.timelines import LABELS, Timeline
from .style import COLORS, INK, Picture, label_ink, new_figure, tint, use_course_style

KINDS = {"F": "forward", "B": "backward", "I": "input_gradients", "W": "gradients"}
PALER = 0.62  # the share of the previous chunk's colour that a chunk has
MOST_BARS = 3000  # in one timeline; one with more is drawn as columns of colour
COLUMNS = 1400
POINTS = 380  # about the width of a timeline
DIGIT_POINTS, LEAST_DIGIT_POINTS = 5.0, 3.6
WIDTH, HEAD_INCHES, ROW_INCHES = 7.5, 0.46, 0.3
MOST_NAMED = 16  # ranks that are named, each with what it keeps


@use_course_style
def plot_schedule(timelines, title="", most_inches=None) -> Picture:
    """Draw what each rank does when: its forwards and backwards, with the micro-batches' numbers.

    The bubble in both conventions is written above each timeline, and the most micro-batches that a
    rank keeps next to its row.

    timelines    {name: Timeline} of `simulate` and `timeline_of`, all on one scale; or one of them;
                 or rows, which are simulated
    most_inches  the limit of the height of a timeline's rows, which are lower if there are many
    Raises       WrongInput if the timelines have different units
    """
    named = name_timelines(timelines)
    units = {one.unit for one in named.values()}
    need(
        len(units) == 1, "one picture has one scale: give simulate() seconds, as measured ones are"
    )
    longest = max(one.seconds for one in named.values())
    factor, unit = scale(units.pop(), longest)
    figure, grid = figure_for(named.values(), most_inches or MOST_NAMED * ROW_INCHES)
    for axes, (name, one) in zip(grid, named.items()):
        draw_timeline(axes, one, factor)
        axes.set_title(name, fontsize=9.5, pad=4)
        axes.set_title(describe_bubble(one), loc="right", fontsize=8, fontweight="normal", pad=4)
    conditions = dict.fromkeys(text for one in named.values() for text in one.conditions)
    grid[-1].set_xlabel("; ".join([f"time ({unit})", *conditions]))
    grid[-1].set_xlim(0, factor * longest)
    looks = {"fontsize": 8.5, "handlelength": 1.2, "columnspacing": 1.2}
    figure.legend(handles=legend_of(named.values()), loc="outside upper right", ncols=5, **looks)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return Picture(figure, alt_of(named, title))


def figure_for(timelines, most_inches):
    """Return a figure, and axes for each timeline, as high as its ranks need."""
    heights = [HEAD_INCHES + min(ROW_INCHES * one.ranks, most_inches) for one in timelines]
    shared = {"squeeze": False, "sharex": True, "height_ratios": heights}
    figure, grid = new_figure(WIDTH, sum(heights) + 0.75, nrows=len(heights), **shared)
    return figure, grid[:, 0]


def name_timelines(timelines) -> dict[str, Timeline]:
    if isinstance(timelines, dict):
        need(timelines, "give plot_schedule() at least one timeline: simulate(rows)")
        return {name: ensure_timeline(one) for name, one in timelines.items()}
    return {"": ensure_timeline(timelines)}


def ensure_timeline(one) -> Timeline:
    return one if isinstance(one, Timeline) else simulate(one)


def scale(unit, longest) -> tuple[float, str]:
    """Return the factor for all times, and the unit that they then have."""
    if unit != "s":
        return 1.0, "a micro-batch's forward takes 1"
    return (1.0, "s") if longest >= 2 else (1e3, "ms")


def describe_bubble(one) -> str:
    share, over = f"{one.idle_share:.1%}", f"{one.overhead:.1%}"
    return f"{one.note} · idle: {share} of the whole, {over} over the ideal"


def draw_timeline(axes, one, factor):
    axes.axvspan(0, factor * one.seconds, facecolor=COLORS["idle"], zorder=0)
    axes.set_ylim(one.ranks - 0.5, -0.5)
    axes.grid(False)
    if sum(map(len, one.rows)) > MOST_BARS:
        draw_columns(axes, one, factor)
    else:
        for rank, (row, spans) in enumerate(zip(one.rows, one.spans)):
            draw_row(axes, rank, row, spans, factor)
            number_row(axes, rank, row, spans, factor, one.seconds)
    name_ranks(axes, one)


def name_ranks(axes, one):
    """Write each rank on the left, and what it keeps on the right; of many ranks, only some."""
    every = 1 if one.ranks <= MOST_NAMED else one.ranks // 8
    shown = [*range(0, one.ranks - every // 2, every), one.ranks - 1][: one.ranks]
    axes.set_yticks(shown, [f"rank {rank}" for rank in shown])
    right = axes.secondary_yaxis("right")
    right.set_yticks(shown, [f"keeps {format_most_kept(one, rank)}" for rank in shown])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)


@cache
def color_of(kind, chunk) -> str:
    return tint(COLORS[KINDS[kind]], PALER**chunk)


@cache
def paint_of(kind, chunk) -> tuple[float, float, float]:
    return to_rgb(color_of(kind, chunk))


def draw_row(axes, rank, row, spans, factor, high=0.44):
    bars = {}
    for (kind, _, chunk), (start, end) in zip(row, spans):
        bars.setdefault((kind, chunk), []).append((factor * start, factor * (end - start)))
    for (kind, chunk), of_kind in bars.items():
        looks = {"facecolor": color_of(kind, chunk), "edgecolor": "white", "linewidth": 0.5}
        axes.broken_barh(of_kind, (rank - high, 2 * high), **looks)


def number_row(axes, rank, row, spans, factor, whole):
    """Write the micro-batch's number into each bar, if the bars of its kind are wide enough."""
    widths = {}
    for (kind, _, chunk), (start, end) in zip(row, spans):
        widths.setdefault((kind, chunk), []).append((end - start) / whole * POINTS)
    digits = len(str(max((microbatch for _, microbatch, _ in row), default=0)))
    for (kind, microbatch, chunk), (start, end) in zip(row, spans):
        points = median(widths[kind, chunk]) / (digits + 0.2)
        if points >= LEAST_DIGIT_POINTS:
            looks = {"fontsize": 7.5 if points >= DIGIT_POINTS else 6, "clip_on": True}
            looks |= {"ha": "center", "va": "center_baseline"}
            ink = label_ink(color_of(kind, chunk))
            axes.text(factor * (start + end) / 2, rank, str(microbatch), color=ink, **looks)


def draw_columns(axes, one, factor):
    """Draw very many actions as columns of pixels, each in the mean colour of what happens then."""
    edges = np.linspace(0, one.seconds, COLUMNS + 1)
    picture = np.empty((one.ranks, COLUMNS, 3))
    idle = np.array(to_rgb(COLORS["idle"]))
    for rank, (row, spans) in enumerate(zip(one.rows, one.spans)):
        times = np.array(spans).ravel()  # start, end, start, end, …
        painted = np.zeros((len(times), 3))
        painted[1::2] = [paint_of(kind, chunk) for kind, _, chunk in row]
        painted[1::2] = (painted[1::2] - idle) * (times[1::2] - times[::2])[:, None]
        paint = painted.cumsum(0)  # the sum of all colour relative to idle, up to each time
        for part in range(3):
            so_far = np.interp(edges, times, paint[:, part], left=0)
            picture[rank, :, part] = idle[part] + np.diff(so_far) / np.diff(edges)
    place = (0, factor * one.seconds, one.ranks - 0.5, -0.5)
    looks = {"aspect": "auto", "interpolation": "nearest", "zorder": 1}
    axes.imshow(picture.clip(0, 1), extent=place, **looks)


def legend_of(timelines) -> list[Patch]:
    """Return a patch for each colour that occurs, with the meaning of the colour."""
    there = {(kind, chunk) for one in timelines for row in one.rows for kind, _, chunk in row}
    in_order = sorted(there, key=lambda one: (list(LABELS).index(one[0]), one[1]))
    patches = [
        Patch(color=color_of(kind, chunk), label=LABELS[kind] + f", chunk {chunk}" * (chunk > 0))
        for kind, chunk in in_order
    ]
    return [*patches, Patch(facecolor=COLORS["idle"], edgecolor=INK, linewidth=0.4, label="idle")]


def alt_of(named, title) -> str:
    parts = [
        f"{name}: {format_count(one.ranks, 'rank')}, {one.length}, {describe_bubble(one)}, "
        f"at most {describe_in_flight(one)} micro-batches kept"
        + "".join(f", {x}" for x in one.conditions)
        for name, one in named.items()
    ]
    return f"{title}. ".removeprefix(". ") + "; ".join(part.removeprefix(": ") for part in parts)


def format_most_kept(one, rank) -> str:
    """Format the most micro-batches that a rank keeps; `11/2`: each of 11 by one of two chunks."""
    return f"{one.most_kept[rank]}" + (f"/{one.chunks}" if one.chunks > 1 else "")


def describe_in_flight(one) -> str:
    kept = [format_most_kept(one, rank) for rank in range(one.ranks)]
    return ", ".join(kept if len(kept) <= MOST_NAMED else [*kept[:3], "…", kept[-1]])
