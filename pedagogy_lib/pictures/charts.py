"""Charts for numbers that belong to no rank: bars, curves side by side, and lines over one x."""

import re
import textwrap
from collections.abc import Mapping
from copy import copy

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ..basics.errors import need
from ..basics.units import brief, full_number
from .legends import legend_above
from .style import INK, LINE_COLORS, Picture, new_figure, use_course_style

BARS_WIDTH = 0.8  # of all bars of a name, as a share of its room
LETTERS = 80  # in one line across the picture
MOST_DOTS = 200  # on lines; with more, the legend is outside
MOST_NAMES = 40  # of groups, so that each has room
MOST_TICKS = 9  # on a logarithmic axis: one at each value, if there are no more
SMOOTH = 200  # points of a curve
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@use_course_style
def plot_bars(names, bars, ylabel, xlabel="", predicted=None, title="", highest=None) -> Picture:
    """Plot groups of bars: one group for each name, and in it one bar for each of `bars`.

    names            of the groups: 1 to `MOST_NAMES`
    bars, predicted  {what: values}, each as long as `names`; predicted ones are outlines
    highest          the upper end of the y axis, such as one for all pictures of a film
    Raises           LaunchError if there are no names or too many, if `bars` or `predicted` is of
                     another form or has too many entries for the colours, or if `predicted` has an
                     entry that `bars` lacks
    """
    predicted = predicted or {}
    need(0 < len(names) <= MOST_NAMES, f"plot_bars() takes 1 to {MOST_NAMES} names")
    need_lines("plot_bars", bars, len(names))
    need_lines("plot_bars", predicted, len(names), fewest=0)
    unknown = [what for what in predicted if what not in bars]
    need(not unknown, f"plot_bars() has no bars for what is predicted of {unknown}")
    figure, axes = new_figure(7.5, 3.2)
    handles = draw_bar_groups(axes, len(names), bars, predicted)
    room = LETTERS // len(names)
    axes.set_xticks(range(len(names)), [wrap_name(name, room) for name in names])
    axes.set(ylabel=ylabel, xlabel=xlabel)
    axes.grid(False, axis="x")
    if highest is not None:
        axes.set_ylim(0, highest)
    if len(handles) > 1:
        legend_above(axes, handles)
    axes.set_title(title, pad=28 if len(handles) > 1 else 10)
    told = "; ".join(
        f"{what}: " + ", ".join(f"{name} {v:.3g}" for name, v in zip(names, values, strict=True))
        for what, values in bars.items()
    )
    return Picture(figure, f"{title}. {ylabel}. {told}".strip(". "))


def need_lines(function, lines, length, fewest=1):
    """Raise LaunchError unless `lines` are few enough series of numbers of this length."""
    need(isinstance(lines, Mapping), f"{function}() takes {{name: numbers}}, not {brief(lines)}")
    most = len(LINE_COLORS)
    need(fewest <= len(lines) <= most, f"{function}() takes 1 to {most} series, not {len(lines)}")
    for name, values in lines.items():
        need(
            np.ndim(values) == 1 and 0 < len(values) == length,
            f"{function}() takes {length or 'some'} numbers for {name}, not {brief(values)}",
        )


def draw_bar_groups(axes, groups, bars, predicted) -> list:
    """Draw each group's bars side by side, around whole numbers; return the legend's handles."""
    width, handles, outlines = BARS_WIDTH / len(bars), [], None
    for number, (what, values) in enumerate(bars.items()):
        at = np.arange(groups) + (number - (len(bars) - 1) / 2) * width
        handles.append(axes.bar(at, values, width * 0.9, color=LINE_COLORS[number], label=what))
        if what in predicted:
            outlines = axes.bar(at, predicted[what], width, fill=False, edgecolor=INK, lw=1.3)
    if outlines is not None:
        outlines.set_label("theory")  # one entry for all of them: the last
        handles.append(outlines)
    return handles


def wrap_name(name, letters) -> str:
    """Wrap a name into lines of so many letters."""
    return "\n".join(textwrap.wrap(split_words(str(name), letters), letters))


def split_words(name, letters) -> str:
    """Split words of a name that are too long: LongNames becomes Long Names."""
    words = [HUMP.sub(" ", word) if len(word) > letters else word for word in name.split()]
    return " ".join(words)


@use_course_style
def plot_curves(panels, xlabel, ylabel, highest=None, title="") -> Picture:
    """Plot curves, each over its own x, in panels side by side that share their scales.

    panels   {title of a panel: {name: (x, y)}}; a name has the same colour in every panel
    highest  the upper end of the y axis, where curves are cut off
    Raises   LaunchError if the curves are not of this form
    """
    need(len(panels), "plot_curves() takes at least one panel")
    for curves in panels.values():
        need(len(curves), "plot_curves() takes at least one curve in each panel")
        for name, (x, y) in curves.items():
            need_lines("plot_curves", {name: y}, len(x))
    figure, grid = new_figure(7.5, 3.2, ncols=len(panels), sharey=True, sharex=True, squeeze=False)
    first = grid[0, 0]
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    need(len(names) <= len(LINE_COLORS), f"plot_curves() has {len(LINE_COLORS)} colours for names")
    colors = dict(zip(names, LINE_COLORS, strict=False))
    for axes, (panel, curves) in zip(grid[0], panels.items(), strict=True):
        draw_curves(axes, curves, colors)
        axes.set_title(panel, fontsize=10, fontweight="normal")
        axes.set_xlabel(xlabel)
    if are_whole(x for curves in panels.values() for x, _ in curves.values()):
        first.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    first.set_ylabel(ylabel)
    first.set_ylim(0, highest)
    first.legend()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    ends = "; ".join(
        f"{panel}: " + ", ".join(f"{name} ends at {y[-1]:.3g}" for name, (_, y) in curves.items())
        for panel, curves in panels.items()
    )
    return Picture(figure, f"{title}. {ylabel} over {xlabel}. {ends}".strip(". "))


def draw_curves(axes, curves, colors):
    for number, (name, (x, y)) in enumerate(curves.items()):
        width = 1.6 * (len(curves) - number)  # so that one on top of another hides nothing
        axes.plot(x, y, color=colors[name], label=name, linewidth=width)
        axes.update_datalim([(x[0], 0)])  # so that the margin above is a share of all the height
    axes.grid(axis="both")


def are_whole(xs) -> bool:
    """Return whether all numbers are whole, such as steps, so that a tick at 2.5 makes no sense."""
    return all(float(number).is_integer() for x in xs for number in x)


@use_course_style
def plot_against(x, lines, xlabel, ylabel, predicted=None, logarithmic=False, title="") -> Picture:
    """Plot lines over a common x: measured with filled dots, predicted dashed, with open dots.

    lines, predicted  {name: values}, each as long as `x`; a name in both has one colour. A
                      prediction may also be a function of x, which is drawn as a dashed curve
    logarithmic       True for both axes, "y" for that one alone
    Raises            LaunchError if the lines are not of this form
    """
    predicted = predicted or {}
    curves = {name: curve for name, curve in predicted.items() if callable(curve)}
    need_lines("plot_against", lines, len(x))
    points = {name: values for name, values in predicted.items() if name not in curves}
    need_lines("plot_against", points, len(x), fewest=0)
    figure, axes = new_figure(7.5, 3.2)
    colors = dict(zip(lines, LINE_COLORS * len(lines), strict=False))
    spaced = np.geomspace if logarithmic is True else np.linspace
    draw_theory(axes, x, points, curves, colors, spaced)
    crowded = len(x) * len(lines) > MOST_DOTS
    for name, values in lines.items():
        joined = "none" if curves else "-"  # next to a curve, dots alone
        later, size = count_coincident_lines(name, lines), 3 if crowded else 6
        axes.plot(x, values, marker="o", ls=joined, color=colors[name], label=name,
                  linewidth=1.5 + 3 * later, markersize=size + 4 * later)  # fmt: skip
    set_scales(axes, x, logarithmic)
    axes.grid(axis="both")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    add_legend(axes, {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if crowded else {},
               one_theory=len(lines) > 1 and not curves and set(points) == set(lines))  # fmt: skip
    axes.set_title(title)
    spread = "; ".join(f"{name}: {min(v):.3g} to {max(v):.3g}" for name, v in lines.items())
    return Picture(figure, f"{title}. {ylabel} over {xlabel}. {spread}".strip(". "))


def draw_theory(axes, x, points, curves, colors, spaced):
    """Draw predictions dashed: with open dots for numbers, as a curve for a function of x."""
    dashed = {"linestyle": "--", "linewidth": 1.2, "markersize": 9, "markerfacecolor": "white"}
    for name, values in (points | curves).items():
        looks = dashed | {"color": colors.get(name, INK), "label": f"{name}, theory"}
        if name in curves:
            between = spaced(min(x), max(x), SMOOTH)
            axes.plot(between, [values(float(one)) for one in between], zorder=3, **looks)
        else:
            axes.plot(x, values, marker="o", **looks)


def set_scales(axes, x, logarithmic):
    if logarithmic:
        axes.set_yscale("log")
        name_ticks(axes.yaxis)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 8 * low else range(1, 10)))
    else:
        axes.set_ylim(bottom=0)
    if logarithmic is True:
        axes.set_xscale("log")
        name_ticks(axes.xaxis, x)


def add_legend(axes, place, one_theory):
    """Draw a legend; if each line has its theory, one entry stands for all theories."""
    handles, names = axes.get_legend_handles_labels()
    if one_theory:
        half = len(names) // 2
        theory = copy(handles[0])
        theory.set_color(INK)
        handles, names = [*handles[half:], theory], [*names[half:], "theory"]
    axes.legend(handles, names, **place)


def count_coincident_lines(name, lines) -> int:
    """Count the later lines that lie on this one, which has to be wider to be seen."""
    after = list(lines)[list(lines).index(name) + 1 :]
    return sum(np.allclose(lines[name], lines[other], rtol=0.02, atol=0) for other in after)


def name_ticks(axis, values=()):
    """Write numbers in full at a logarithmic axis, with a tick at each of a few `values`."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: full_number(value)))
    axis.set_minor_formatter(NullFormatter())
    if 0 < len(values) <= MOST_TICKS:
        axis.set_ticks(values, list(map(full_number, values)))
        axis.set_minor_locator(NullLocator())
