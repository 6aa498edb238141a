"""Pictures of runs. A rank is always a row; predicted is an outline, measured is filled."""

from typing import NamedTuple

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from ..basics.errors import LaunchError
from ..basics.units import brief, counted, format_bytes, format_seconds
from ..measuring.memory_log import KINDS
from ..ranks.run import Block, Run
from .style import COLORS, INK, Picture, colors_of, in_course_style, label_ink, new_figure

ROW_INCHES = 0.42
BAR = 0.62
TALL_ROW_INCHES = 0.66  # with room for a second lane
MEGA = 1e6
MOST_TICKS = 9  # of a logarithmic axis: one at each value, if there are no more
LINE_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288")


class Lane(NamedTuple):
    """A part of each rank's row, with the blocks whose bars lie in it."""

    blocks: list
    middle: float = 0.0  # below the middle of the row; a row is 1 high
    height: float = BAR
    fontsize: float = 9.0


@in_course_style
def plot_timeline(run, labels=None, title="", below=()) -> Picture:
    """What each rank did when: a bar for every measured span, nested blocks inside their parents.

    labels  which blocks to draw; all of them unless told otherwise
    below   those of them that get a thinner lane of their own, under the others of the same rank:
            what went on at the same time, such as communication in another thread
    """
    need_run(run, "plot_timeline(run)")
    labels = list(labels or run.labels)
    need(labels, "this run has no measured blocks: put `with measure(...)` into the function")
    need(set(below) <= set(labels), f"`below` takes a list of some of these labels: {labels}")
    blocks = [run[label] for label in labels]
    colors = colors_of(labels)
    start = min(span[0] for block in blocks for spans in block.spans for span in spans)
    end = max(span[1] for block in blocks for spans in block.spans for span in spans)
    row_inches = TALL_ROW_INCHES if below else ROW_INCHES
    figure, axes = rank_rows(run.world_size, extra=0.9, row_inches=row_inches)
    named = set()
    for lane in lanes_of(blocks, below):
        for block in lane.blocks:
            for rank, spans in enumerate(block.spans):
                for span in spans:
                    if draw_span(axes, rank, span, start, end, block.label, colors, lane):
                        named.add(block.label)
    unnamed = [Patch(color=colors[name], label=name) for name in labels if name not in named]
    if unnamed:
        legend_above(axes, unnamed)
    axes.set_xlim(0, (end - start) * 1e3)
    axes.set_xlabel("time (ms)" + said_of_links(blocks))
    axes.set_title(title, pad=28 if unnamed else 10)
    ranks = counted(run.world_size, "rank")
    alt = f"Timeline of {ranks} over {format_seconds(end - start)}: " + "; ".join(
        f"{block.label} took {extent(block.seconds, format_seconds)}"
        + (", in a lane below" if block.label in below else "")
        for block in blocks
    )
    return Picture(figure, alt)


def lanes_of(blocks, below) -> list[Lane]:
    """One lane that fills the row; or a higher one and, under it, a thinner one."""
    if not below:
        return [Lane(blocks)]
    return [
        Lane([block for block in blocks if block.label not in below], -0.14, 0.5),
        Lane([block for block in blocks if block.label in below], 0.27, 0.26, 8.0),
    ]


def said_of_links(blocks) -> str:
    """Time on slowed-down links is no property of this machine: every picture of it says so."""
    return "".join(f"; {text}" for text in sorted({b.links for b in blocks if b.links}))


def draw_span(axes, rank, span, start, end, label, colors, lane) -> bool:
    """Draw one bar; returns whether its name fitted into it."""
    others = [other for block in lane.blocks for other in block.spans[rank]]
    height = lane.height * 0.75 ** sum(contains(other, span) for other in others)
    left, width = (span[0] - start) * 1e3, (span[1] - span[0]) * 1e3
    middle, color = rank + lane.middle, colors[label]
    axes.barh(middle, width, height, left, color=color, edgecolor="white", linewidth=0.6)
    fits = width / ((end - start) * 1e3) > 0.012 * len(label) + 0.01
    is_parent = any(contains(span, other) for other in others)
    if fits and not is_parent:
        axes.text(left + width / 2, middle, label, ha="center", va="center",
                  fontsize=lane.fontsize, color=label_ink(color), clip_on=True)  # fmt: skip
    return fits and not is_parent


def contains(outer, inner) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1] and outer != inner


@in_course_style
def plot_bytes(run, label, predicted=None, direction="sent", title="") -> Picture:
    """Bytes that each rank sent (or received) in a block.

    predicted  bytes, one number for all ranks or one for each: drawn as an outline
    direction  "sent" or "received"
    """
    need_run(run, 'plot_bytes(run, "label")')
    need(direction in ("sent", "received"), 'direction is "sent" or "received"')
    block = run[label]
    counts = block.sent_bytes if direction == "sent" else block.received_bytes
    figure, axes = rank_rows(run.world_size, extra=1.0)
    color = COLORS["communication"]
    axes.barh(range(run.world_size), np.array(counts) / MEGA, BAR, color=color, label=block.wire)
    for rank, count in enumerate(counts):
        axes.annotate(format_bytes(count), (count / MEGA, rank), (6, 0), va="center",
                      textcoords="offset points", color=INK, fontsize=9)  # fmt: skip
    if predicted is not None:
        expected = np.broadcast_to(predicted, run.world_size) / MEGA
        axes.barh(range(run.world_size), expected, BAR + 0.2, fill=False, edgecolor=INK,
                  linewidth=1.3, label="predicted")  # fmt: skip
    highest = max(max(counts), *np.broadcast_to(predicted or 0, run.world_size))
    axes.set_xlim(0, highest * 1.18 / MEGA or 1)
    axes.set_xlabel(f"{direction} by each rank (MB), {label}")
    finish(axes, title)
    alt = f"Bytes {direction} in {label}: " + ", ".join(
        f"rank {rank} {format_bytes(count)}" for rank, count in enumerate(counts)
    )
    return Picture(figure, alt + told(predicted))


def told(predicted) -> str:
    if predicted is None:
        return ""
    return "; predicted " + extent(np.atleast_1d(predicted), format_bytes)


@in_course_style
def plot_memory(run, label, ranks=None, title="") -> Picture:
    """Live tensor memory by kind over time, in the first use of an outermost block.

    ranks  which ranks to draw, one row each; the first four unless told otherwise
    """
    need_run(run, 'plot_memory(run, "label")')
    ranks = list(range(min(run.world_size, 4)) if ranks is None else ranks)
    block = run[label]
    need(
        all(block.memory[rank] for rank in ranks),
        f"{label!r} has no memory over time: it is inside another block, or memory=False",
    )
    figure, grid = new_figure(
        7.5, 0.9 + 1.1 * len(ranks) if len(ranks) > 1 else 2.8,
        nrows=len(ranks), sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    present = [kind for kind in KINDS if any(block.peak_bytes[rank][kind] for rank in ranks)]
    for axes, rank in zip(grid[:, 0], ranks, strict=True):
        times, history = block.memory[rank][0]
        columns = [history[:, KINDS.index(kind)] / MEGA for kind in present]
        axes.stackplot((times - times[0]) * 1e3, columns, step="post",
                       colors=[COLORS[kind] for kind in present],
                       labels=[kind.replace("_", " ") for kind in present])  # fmt: skip
        axes.set_ylabel(f"rank {rank}\n(MB)" if len(ranks) > 1 else "live tensors (MB)")
        axes.margins(x=0)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
    grid[-1, 0].set_xlabel("time (ms)")
    top = grid[0, 0]
    handles, names = top.get_legend_handles_labels()
    top.legend(handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5))
    top.set_title(title)
    alt = f"Memory over time in {label}; highest by kind on rank {ranks[0]}: "
    return Picture(figure, alt + breakdown(block.peak_bytes[ranks[0]]))


@in_course_style
def plot_peak(run, label, predicted=None, title="", outline="predicted") -> Picture:
    """What fills the memory of each rank at the moment when it is fullest.

    predicted  {kind: bytes}, for every rank: drawn as an outline around its share
    outline    what that outline is, for the legend, if it is no prediction: "a full copy"
    """
    need_run(run, 'plot_peak(run, "label")')
    check_kinds(predicted or {})
    block = run[label]
    need(all(block.at_peak), f"{label!r} was measured with memory=False")
    figure, axes = rank_rows(run.world_size, extra=1.1)
    left = np.zeros(run.world_size)
    for kind in KINDS:
        sizes = np.array([peak[kind] for peak in block.at_peak]) / MEGA
        if sizes.any():
            axes.barh(range(run.world_size), sizes, BAR, left, color=COLORS[kind],
                      label=kind.replace("_", " "))  # fmt: skip
        left += sizes
    for rank, total in enumerate(left):
        axes.annotate(format_bytes(total * MEGA), (total, rank), (6, 0), va="center",
                      textcoords="offset points", color=INK, fontsize=9)  # fmt: skip
    if predicted:
        draw_outlines(axes, predicted, run.world_size, outline)
    expected = sum((predicted or {}).get(kind, 0) for kind in KINDS) / MEGA
    axes.set_xlim(0, max(*left, expected) * 1.18 or 1)
    axes.set_xlabel("live tensors at the fullest moment (MB)")
    finish(axes, title)
    alt = f"Memory at its fullest in {label}: " + "; ".join(
        f"rank {rank}: {breakdown(peak)}" for rank, peak in enumerate(block.at_peak)
    )
    return Picture(figure, alt + (f"; {outline} {breakdown(predicted)}" if predicted else ""))


def check_kinds(predicted):
    need(isinstance(predicted, dict), f"`predicted` takes {{kind: bytes}}, not {predicted!r}")
    unknown = sorted(map(str, set(predicted) - {*KINDS, "total"}))
    need(not unknown, f"there are no such kinds as {unknown}: use {', '.join(KINDS)}")


def draw_outlines(axes, predicted, world_size, label):
    """Predicted shares as outlines, in the order of the filled ones."""
    left = 0.0
    for kind in (kind for kind in KINDS if predicted.get(kind)):
        axes.barh(range(world_size), predicted[kind] / MEGA, BAR + 0.2, left, fill=False,
                  edgecolor=INK, linewidth=1.3, label=label)  # fmt: skip
        left, label = left + predicted[kind] / MEGA, None


def breakdown(sizes) -> str:
    return ", ".join(f"{k.replace('_', ' ')} {format_bytes(v)}" for k, v in sizes.items() if v)


def extent(values, form) -> str:
    """`1.2 ms` or, where ranks differ, `1.2 ms to 3.4 ms`."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def rank_rows(world_size, extra, row_inches=ROW_INCHES):
    """Axes with one row for each rank, rank 0 on top."""
    figure, axes = new_figure(7.5, extra + row_inches * max(world_size, 2))
    axes.set_ylim(world_size - 0.5, -0.5)
    every = 1 if world_size <= 16 else world_size // 8
    shown = range(0, world_size, every)
    axes.set_yticks(shown, [f"rank {rank}" for rank in shown])
    return figure, axes


def finish(axes, title):
    """A title, and a legend above the bars."""
    legend_above(axes, axes.get_legend_handles_labels()[0])
    axes.set_title(title, pad=28)


def legend_above(axes, handles):
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles),
                borderpad=0.2, borderaxespad=0.2, handlelength=1.4, columnspacing=1.4)  # fmt: skip


def need(condition, sentence):
    if not condition:
        raise LaunchError(sentence)


def need_run(run, call):
    """What the pictures take is the whole run, in which they find the block by its label."""
    if not isinstance(run, Run):
        what = "one of its blocks" if isinstance(run, Block) else brief(run)
        raise LaunchError(f"write {call}, with the run that launch() returned, not {what}")


@in_course_style
def plot_against(x, lines, xlabel, ylabel, predicted=None, logarithmic=False, title="") -> Picture:
    """Measured lines over a common x: filled dots; predicted ones: dashed, with open dots.

    lines, predicted  {name: values}, each as long as `x`; a name in both has one colour
    """
    figure, axes = new_figure(7.5, 3.2)
    colors = dict(zip(lines, LINE_COLORS * len(lines), strict=False))
    for name, values in (predicted or {}).items():
        axes.plot(x, values, "--", marker="o", markersize=9, markerfacecolor="white",
                  linewidth=1.2, color=colors.get(name, INK), label=f"{name}, predicted",
                  )  # fmt: skip
    for name, values in lines.items():
        axes.plot(x, values, marker="o", color=colors[name], label=name)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.10g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        if len(x) <= MOST_TICKS:
            axes.set_xticks(x, [f"{value:,.10g}" for value in x])
            axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="both")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    axes.set_title(title)
    spread = "; ".join(f"{name}: {min(v):.3g} to {max(v):.3g}" for name, v in lines.items())
    return Picture(figure, f"{title}. {ylabel} over {xlabel}. {spread}".strip(". "))
