"""Charts for numbers that belong to no rank: bars, and curves side by side."""

import re
import textwrap

import numpy as np
from matplotlib.ticker import MaxNLocator

from .run_plots import LINE_COLORS, legend_above, need
from .style import INK, Picture, in_course_style, new_figure

BARS_WIDTH = 0.8  # of the room that a name has, for all its bars
LETTERS = 80  # of one line across the picture
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@in_course_style
def plot_bars(names, bars, ylabel, xlabel="", predicted=None, title="") -> Picture:
    """Groups of bars: one group for each name, and in it one bar for each of `bars`.

    bars, predicted  {what: values}, each as long as `names`; predicted ones are outlines
    Raises           LaunchError if something is predicted that has no bars
    """
    unknown = [what for what in predicted or {} if what not in bars]
    need(not unknown, f"plot_bars() has no bars for what is predicted of {unknown}")
    figure, axes = new_figure(7.5, 3.2)
    width, places = BARS_WIDTH / len(bars), np.arange(len(names))
    for number, (what, values) in enumerate(bars.items()):
        at = places + (number - (len(bars) - 1) / 2) * width
        axes.bar(at, values, width * 0.9, color=LINE_COLORS[number], label=what)
        if predicted and what in predicted:
            outlines = axes.bar(at, predicted[what], width, fill=False, edgecolor=INK, lw=1.3)
    room = LETTERS // len(names)
    lines = [textwrap.wrap(in_words(str(name), room), room) for name in names]
    axes.set_xticks(places, ["\n".join(of_name) for of_name in lines])
    axes.set(ylabel=ylabel, xlabel=xlabel)
    axes.grid(False, axis="x")
    handles, _ = axes.get_legend_handles_labels()
    if predicted:
        outlines.set_label("predicted")  # one entry for all of them, the last
        handles.append(outlines)
    if len(handles) > 1:
        legend_above(axes, handles)
    axes.set_title(title, pad=28 if len(handles) > 1 else 10)
    told = "; ".join(
        f"{what}: " + ", ".join(f"{name} {v:.3g}" for name, v in zip(names, values, strict=True))
        for what, values in bars.items()
    )
    return Picture(figure, f"{title}. {ylabel}. {told}".strip(". "))


def in_words(name, letters) -> str:
    """A name in which words that are too long, such as LongNames, have become Long Names."""
    words = [HUMP.sub(" ", word) if len(word) > letters else word for word in name.split()]
    return " ".join(words)


@in_course_style
def plot_curves(panels, xlabel, ylabel, highest=None, title="") -> Picture:
    """Curves, each with an x of its own, in panels side by side that share their scales.

    panels   {title of a panel: {name: (x, y)}}; a name has the same colour in every panel
    highest  what is above it is cut off
    """
    figure, grid = new_figure(7.5, 3.2, ncols=len(panels), sharey=True, sharex=True, squeeze=False)
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    colors = dict(zip(names, LINE_COLORS, strict=False))
    for axes, (panel, curves) in zip(grid[0], panels.items(), strict=True):
        for number, (name, (x, y)) in enumerate(curves.items()):
            width = 1.6 * (len(curves) - number)  # so that one on top of another hides nothing
            axes.plot(x, y, color=colors[name], label=name, linewidth=width)
            axes.update_datalim([(x[0], 0)])  # so that the margin above is one of all the height
        axes.set_title(panel, fontsize=10, fontweight="normal")
        axes.set_xlabel(xlabel)
        axes.grid(axis="both")
    if are_whole(x for curves in panels.values() for x, _ in curves.values()):
        grid[0, 0].xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    grid[0, 0].set_ylabel(ylabel)
    grid[0, 0].set_ylim(0, highest)
    grid[0, 0].legend()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    ends = "; ".join(
        f"{panel}: " + ", ".join(f"{name} ends at {y[-1]:.3g}" for name, (_, y) in curves.items())
        for panel, curves in panels.items()
    )
    return Picture(figure, f"{title}. {ylabel} over {xlabel}. {ends}".strip(". "))


def are_whole(xs) -> bool:
    """Whether these are steps, say: then there is nothing at 2.5."""
    return all(float(number).is_integer() for x in xs for number in x)
