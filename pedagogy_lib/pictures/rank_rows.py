"""Bars of a run's bytes, in a row for each rank: measured ones filled, predicted ones outlined."""

from ..basics.errors import LaunchError
from ..basics.units import brief, byte_unit, format_bytes
from ..ranks.run import Block, Run
from .legends import legend_above
from .style import INK, new_figure

ROW_INCHES = 0.42
BAR = 0.62  # height, as a share of a row's
MOST_NAMED = 16  # ranks; of more, only some are named


def rank_rows(world_size, extra, row_inches=ROW_INCHES, more=0):
    """Return a figure, and axes with one row for each rank, rank 0 on top.

    extra  inches for everything but the rows
    more   the number of rows for network cards, below those of ranks
    """
    rows = world_size + more
    figure, axes = new_figure(7.5, extra + row_inches * max(rows, 2))
    axes.set_ylim(rows - 0.5, -0.5)
    every = 1 if world_size <= MOST_NAMED else world_size // 8
    shown = range(0, world_size, every)
    names = [f"rank {rank}" for rank in shown] + [
        f"card of\nmachine {card}" for card in range(more)
    ]
    axes.set_yticks([*shown, *range(world_size, rows)], names)
    return figure, axes


def write_bytes(axes, counts):
    """Write the bytes of each rank to the right of its bar."""
    for rank, count in enumerate(counts):
        place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        text = format_bytes(count)
        axes.annotate(text, (count, rank), **place, color=INK, fontsize=9)


def draw_predicted(axes, sizes, world_size, start=0.0, label=None):
    """Draw an outline in each row, around the measured bar."""
    looks = {"fill": False, "edgecolor": INK, "linewidth": 1.3}
    axes.barh(range(world_size), sizes, BAR + 0.2, start, **looks, label=label)


def bytes_along(axes, most, what):
    """Make the axis below the bars as long as `most` bytes and their number need, in their unit."""
    unit, size = byte_unit(most)
    axes.set_xlim(0, most * 1.18 or 1)
    axes.xaxis.set_major_formatter(lambda count, _: f"{count / size:g}")
    axes.set_xlabel(what.format(unit))


def finish(axes, title):
    """Write a title, and a legend between it and the bars."""
    legend_above(axes, axes.get_legend_handles_labels()[0])
    axes.set_title(title, pad=28)


def need_run(run, call):
    """Raise LaunchError unless `run` is a whole run, where a picture finds its block by label."""
    if not isinstance(run, Run):
        what = "one of its blocks" if isinstance(run, Block) else brief(run)
        raise LaunchError(f"write {call}, with the run that launch() returned, not {what}")
