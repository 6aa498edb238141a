"""Timelines of what each rank of a run did when."""

from typing import NamedTuple

from matplotlib.patches import Patch

from ..basics.errors import need
from ..basics.units import format_count, format_range, format_seconds
from .card_rows import describe_cards, draw_cards, draw_events, full_speed
from .legends import legend_above
from .rank_rows import BAR, ROW_INCHES, need_run, rank_rows
from .style import BEHIND, CENTERED, RED, Picture, colors_of, label_ink, use_course_style

TALL_ROW_INCHES = 0.66  # with room for a second lane


class Lane(NamedTuple):
    """A part of each rank's row, with the blocks whose bars lie in it."""

    blocks: list
    middle: float = 0.0  # distance below the middle of the row; a row is 1 high
    height: float = BAR
    fontsize: float = 9.0


@use_course_style
def plot_timeline(run, labels=None, title="", below=(), cards=False, until=None) -> Picture:
    """Draw what each rank did when: a bar for every measured span, nested blocks in their parents.

    labels  the blocks to draw; by default all of them
    below   those of them that get a separate, thinner lane under the others of the same rank: work
            that went on at the same time, such as communication in another thread
    cards   whether the network cards of the run's machines get rows, too, with the bytes that a
            card sends above its line and those that it receives below it, as a share of its speed.
            What happened to the machines is drawn in any case
    until   the end of the axis in seconds, to compare with other pictures; by default the blocks'
    Raises  LaunchError if nothing was measured, `below` has another label, or there are no cards
    """
    need_run(run, "plot_timeline(run)")
    labels = list(labels or run.labels)
    need(labels, "this run has no measured blocks: put `with measure(...)` into the function")
    need(set(below) <= set(labels), f"`below` takes a list of some of these labels: {labels}")
    blocks, colors = [run[label] for label in labels], colors_of(labels)
    row_inches = TALL_ROW_INCHES if below else ROW_INCHES
    need(not cards or run.cards, "this run has no network cards: launch it on machines=Machines(2)")
    machines = run.machines.count if cards else 0
    figure, axes = rank_rows(run.world_size, extra=0.9, row_inches=row_inches, more=machines)
    whole = whole_span(blocks)
    seconds = whole[1] - whole[0]
    all_named = draw_lanes(axes, lanes_of(blocks, below), colors, whole)
    if not all_named:
        legend_above(axes, patches_of(colors))
    axes.set_xlim(0, (until or seconds) * 1e3)
    axes.set_xlabel("time (ms)" + describe_links(blocks))
    axes.set_title(title, pad=10 if all_named else 28)
    ranks = format_count(run.world_size, "rank")
    alt = f"Timeline of {ranks} over {format_seconds(seconds)}: {describe_blocks(blocks, below)}"
    if cards:
        full = full_speed(run)
        draw_cards(axes, run.cards, full, whole, first_row=run.world_size)
        alt += f"; {describe_cards(run, full)}"
    if run.cards:
        draw_events(axes, run.cards.events, whole, row=run.world_size)
        alt += describe_events(run.cards.events, whole)
    alt += draw_deaths(axes, run.lost, whole)
    return Picture(figure, alt)


def patches_of(colors) -> list[Patch]:
    """Return a patch for each colour, with the labels of all the blocks that have it."""
    names = {}
    for label, color in colors.items():
        names.setdefault(color, []).append(label)
    return [Patch(color=color, label=", ".join(labels)) for color, labels in names.items()]


def describe_events(events, whole) -> str:
    """Describe what happened to the machines, with times from the start of the picture."""
    shown = [(at - whole[0], words) for at, words in events if whole[0] <= at <= whole[1]]
    return "".join(f"; at {at:.2f} s: {words}" for at, words in shown)


def draw_deaths(axes, lost, whole) -> str:
    """Draw a cross where a rank has died, whose own bars are lost; return a description."""
    shown = [one for one in lost if whole[0] <= one.seconds <= whole[1]]
    for one in shown:
        place = (one.seconds - whole[0]) * 1e3
        axes.plot(place, one.rank, "X", color=RED, markersize=8, markeredgecolor="white")
        word = one.what.removeprefix("was ").split()[0]
        looks = {"textcoords": "offset points", "va": "center", "color": RED, "bbox": BEHIND}
        axes.annotate(word, (place, one.rank), (8, 0), fontsize=8.5, **looks)
    return "".join(
        f"; rank {one.rank} {one.what} at {one.seconds - whole[0]:.2f} s" for one in shown
    )


def whole_span(blocks) -> tuple[float, float]:
    """Return the first start and the last end of all spans."""
    spans = [span for block in blocks for spans in block.spans for span in spans]
    return min(start for start, _ in spans), max(end for _, end in spans)


def lanes_of(blocks, below) -> list[Lane]:
    """Return one lane that fills the row, or a higher one and, under it, a thinner one."""
    if not below:
        return [Lane(blocks)]
    return [
        Lane([block for block in blocks if block.label not in below], -0.14, 0.5),
        Lane([block for block in blocks if block.label in below], 0.27, 0.26, 8.0),
    ]


def draw_lanes(axes, lanes, colors, whole) -> bool:
    """Draw all bars; return whether each had room for its label."""
    all_named = True
    for lane in lanes:
        for block in lane.blocks:
            for rank, spans in enumerate(block.spans):
                for span in spans:
                    color = colors[block.label]
                    named = draw_span(axes, rank, span, lane, block.label, color, whole)
                    all_named = all_named and named
    return all_named


def draw_span(axes, rank, span, lane, label, color, whole) -> bool:
    """Draw one bar; return whether its label fitted into it."""
    others = [other for block in lane.blocks for other in block.spans[rank]]
    height = lane.height * 0.75 ** sum(is_strictly_inside(span, other) for other in others)
    left, width = (span[0] - whole[0]) * 1e3, (span[1] - span[0]) * 1e3
    middle = rank + lane.middle
    axes.barh(middle, width, height, left, color=color, edgecolor="white", linewidth=0.6)
    fits = width / ((whole[1] - whole[0]) * 1e3) > 0.012 * len(label) + 0.01
    is_parent = any(is_strictly_inside(other, span) for other in others)
    if fits and not is_parent:
        looks = {"fontsize": lane.fontsize, "color": label_ink(color), "clip_on": True}
        axes.text(left + width / 2, middle, label, **CENTERED, **looks)
    return fits and not is_parent


def is_strictly_inside(inner, outer) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1] and outer != inner


def describe_links(blocks) -> str:
    """Return a note on slowed-down links: times on them are no property of this machine."""
    return "".join(f"; {text}" for text in sorted({b.links for b in blocks if b.links}))


def describe_blocks(blocks, below) -> str:
    return "; ".join(
        f"{block.label} took {format_range(block.seconds, format_seconds)}"
        + (", in a lane below" if block.label in below else "")
        for block in blocks
    )
