"""Rows of network cards below those of ranks: the share of its speed that each uses over time."""

import numpy as np

from ..basics.units import format_bytes
from .style import BEHIND, COLORS, INK, MUTED

HALF = 0.42  # of a row's height, for each direction
MOST_BINS = 240  # over the whole time: more than a picture can show
FULL = {"color": MUTED, "linewidth": 0.5, "linestyle": (0, (1, 2)), "zorder": 0}
BESIDE = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center",
          "color": MUTED, "fontsize": 8}  # fmt: skip
EVENT = {"color": INK, "linewidth": 0.9, "linestyle": (0, (3, 2))}


def draw_cards(axes, cards, full, whole, first_row):
    """Draw a line for each card, with what it sends above the line and what it receives below it.

    cards      a run's `CardHistory`
    full       bytes per second that fill half a row
    whole      (start, end) of the picture, in seconds
    first_row  number of the first card's row
    """
    edges = np.linspace(*whole, MOST_BINS + 1)
    milliseconds = (edges - whole[0]) * 1e3
    for number in range(cards.sent.shape[1]):
        middle = first_row + number
        for counts, sign, alpha in ((cards.sent, -1, 1.0), (cards.received, 1, 0.55)):
            reached = np.interp(edges, cards.times, counts[:, number])
            shares = np.diff(reached) / np.diff(edges) / full
            heights = middle + sign * HALF * np.append(shares, shares[-1:]).clip(0, 1)
            looks = {"color": COLORS["communication"], "alpha": alpha, "linewidth": 0}
            axes.fill_between(milliseconds, middle, heights, step="post", **looks)
        axes.axhline(middle, color=MUTED, linewidth=0.6)
        for way, sign in (("sends", -1), ("receives", 1)):
            axes.axhline(middle + sign * HALF, **FULL)
            axes.annotate(way, (1, middle + sign * HALF / 2), (4, 0), **BESIDE)


def draw_events(axes, events, whole, row):
    """Draw events of the network as lines through all rows, with words at the top of `row`."""
    for at, words in events:
        if whole[0] <= at <= whole[1]:
            place = (at - whole[0]) * 1e3
            axes.axvline(place, **EVENT)
            axes.annotate(words, (place, row - 0.5), (4, 0), textcoords="offset points",
                          va="center", color=INK, fontsize=8.5, bbox=BEHIND)  # fmt: skip


def full_speed(run) -> float:
    """Return the limit of the cards, or the highest rate in a hundredth of the time, in bytes/s."""
    if run.machines.all_cards:
        return run.machines.all_cards
    history = run.cards
    steps = np.linspace(history.times[0], history.times[-1], 101)
    counts = [*history.sent.T, *history.received.T]
    most = max(np.diff(np.interp(steps, history.times, count)).max() for count in counts)
    return max(float(most / (steps[1] - steps[0])), 1.0)


def describe_cards(run, full) -> str:
    """Describe the rows for readers who do not see them."""
    totals = [f"card {number} sent {format_bytes(sent)}, received {format_bytes(received)}"
              for number, (sent, received) in enumerate(zip(run.cards.sent[-1],
                                                             run.cards.received[-1]))]  # fmt: skip
    return f"network cards (full: {format_bytes(full)}/s): {'; '.join(totals)}"
