"""Pictures of what fills the memory of each rank of a run, by kind."""

import numpy as np

from ..basics.errors import need
from ..basics.units import format_bytes
from ..measuring.memory_log import KINDS
from .kinds import name_of, need_kinds
from .rank_rows import (
    BAR,
    bytes_along,
    draw_predicted,
    finish,
    need_run,
    rank_rows,
    write_bytes,
)
from .style import COLORS, Picture, new_figure, use_course_style


@use_course_style
def plot_memory(run, label, ranks=None, title="") -> Picture:
    """Plot live tensor memory by kind over time, in the first use of an outermost block.

    ranks   the ranks to draw, one row each; by default the first four
    Raises  LaunchError if `run` is not a whole run, or the block has no memory over time on these
            ranks: it is inside another block, or was measured with memory=False
    """
    need_run(run, 'plot_memory(run, "label")')
    ranks = list(range(min(run.world_size, 4)) if ranks is None else ranks)
    block = run[label]
    need(
        all(block.memory[rank] for rank in ranks),
        f"{label!r} has no memory over time: it is inside another block, or memory=False",
    )
    height = 0.9 + 1.1 * len(ranks) if len(ranks) > 1 else 2.8
    shared = {"sharex": True, "sharey": True, "squeeze": False}
    figure, grid = new_figure(7.5, height, nrows=len(ranks), **shared)
    present = [kind for kind in KINDS if any(block.peak_bytes[rank][kind] for rank in ranks)]
    for axes, rank in zip(grid[:, 0], ranks, strict=True):
        draw_history(axes, *block.memory[rank][0], present)
        axes.set_ylabel(f"rank {rank}\n(MB)" if len(ranks) > 1 else "live tensors (MB)")
    grid[-1, 0].set_xlabel("time (ms)")
    top = grid[0, 0]
    handles, names = top.get_legend_handles_labels()
    top.legend(handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5))
    top.set_title(title)
    alt = f"Memory over time in {label}; highest by kind on rank {ranks[0]}: "
    return Picture(figure, alt + breakdown(block.peak_bytes[ranks[0]]))


def draw_history(axes, times, history, kinds):
    """Draw bytes by kind as areas, one on top of the other.

    times    (moments,) in seconds
    history  (moments, len(KINDS)) bytes from each moment on
    """
    columns = [history[:, KINDS.index(kind)] / 1e6 for kind in kinds]
    colors, names = [COLORS[kind] for kind in kinds], list(map(name_of, kinds))
    milliseconds = (times - times[0]) * 1e3
    axes.stackplot(milliseconds, columns, step="post", colors=colors, labels=names)
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")


@use_course_style
def plot_peak(run, label, predicted=None, title="", outline="theory") -> Picture:
    """Plot the bytes of each kind at the peak memory of each rank.

    predicted  {kind: bytes} for every rank, each drawn as an outline around its share
    outline    the legend's name for these outlines, if they are no theory, such as "a full copy"
    Raises     LaunchError if `run` is not a whole run, `predicted` is no dict or has unknown kinds,
               or the block was measured with memory=False
    """
    need_run(run, 'plot_peak(run, "label")')
    predicted = predicted or {}
    need(isinstance(predicted, dict), f"`predicted` takes {{kind: bytes}}, not {predicted!r}")
    need_kinds(predicted)
    block = run[label]
    need(all(block.at_peak), f"{label!r} was measured with memory=False")
    figure, axes = rank_rows(run.world_size, extra=1.1)
    ends = draw_shares(axes, block.at_peak)
    write_bytes(axes, ends)
    draw_outlines(axes, predicted, run.world_size, outline)
    expected = sum(predicted.get(kind, 0) for kind in KINDS)
    bytes_along(axes, max(*ends, expected), "live tensors at the peak ({})")
    finish(axes, title)
    told = "; ".join(f"rank {rank}: {breakdown(peak)}" for rank, peak in enumerate(block.at_peak))
    more = f"; {outline} {breakdown(predicted)}" if predicted else ""
    return Picture(figure, f"Memory at its fullest in {label}: {told}{more}")


def draw_shares(axes, peaks):
    """Draw each rank's bytes by kind, side by side; return where they end."""
    left, rows = np.zeros(len(peaks)), range(len(peaks))
    for kind in KINDS:
        sizes = np.array([peak[kind] for peak in peaks])
        if sizes.any():
            axes.barh(rows, sizes, BAR, left, color=COLORS[kind], label=name_of(kind))
        left += sizes
    return left


def draw_outlines(axes, predicted, world_size, label):
    """Draw predicted shares as outlines, in the order of the filled ones."""
    left = 0.0
    for kind in (kind for kind in KINDS if predicted.get(kind)):
        draw_predicted(axes, predicted[kind], world_size, left, label)
        left, label = left + predicted[kind], None


def breakdown(sizes) -> str:
    return ", ".join(
        f"{name_of(kind)} {format_bytes(size)}" for kind, size in sizes.items() if size
    )
