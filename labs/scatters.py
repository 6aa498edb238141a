# Built from chapters/ch10_choosing_a_strategy/labs/scatters.py by `make build`.
"""Scatter plots: predictions against published numbers, and what they leave unexplained."""

from collections.abc import Mapping

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import brief
from pedagogy_lib.pictures.legends import legend_below
from pedagogy_lib.pictures.style import (
    EDGE,
    GROUND,
    INK,
    LINE_COLORS,
    MUTED,
    Picture,
    new_figure,
    use_course_style,
)

MARKERS = ("o", "s", "^", "D", "v", "P")
SIZE, OPACITY = 9, 0.55  # of a point; those of small clouds are larger
FEW, LARGE = 60, 36
MOST_COLUMNS = 10  # different values of x that get a column each
GOLDEN = 0.618034  # shifts by it spread evenly, and are reproducible
SPREAD = 0.6  # of a column's width


@use_course_style
def plot_agreement(panels, within=1.25, title="", known="published") -> Picture:
    """Plot predicted over published or measured numbers, on log axes, with a diagonal of equality.

    panels  {what is compared, with its unit: {name: (published, predicted)}}; at most three
    within  the grey band: this factor to either side
    known   what the numbers on the x axis are called
    Raises  LaunchError unless these are such numbers, all above 0
    """
    need_panels("plot_agreement", panels)
    names = names_in(panels)
    figure, grid = new_figure(7.5, 4.25, ncols=len(panels), squeeze=False)
    for axes, (what, clouds) in zip(grid[0], panels.items(), strict=True):
        numbers = np.concatenate([np.concatenate(pair) for pair in clouds.values()])
        need((numbers > 0).all(), f"plot_agreement() takes numbers above 0: {what}")
        ends = np.array([numbers.min() / 1.3, numbers.max() * 1.3])
        axes.fill_between(ends, ends / within, ends * within, color=GROUND, zorder=0, lw=0)
        axes.plot(ends, ends, color=INK, lw=1, zorder=1)
        for name, (published, predicted) in clouds.items():
            size = {"s": LARGE} if len(published) < FEW else {}
            axes.scatter(published, predicted, **looks(names, name) | size)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
        axes.set(xlabel=f"{known}: {what}", ylabel=f"predicted: {what}")
        axes.grid(True, axis="both")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1,) if ends[1] > 30 * ends[0] else (1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
    finish(figure, grid, names, title)
    told = "; ".join(
        f"{what}, {name}: {share_within(*pair, within):.0%} of {len(pair[0])} within a factor of "
        f"{within:g}"
        for what, clouds in panels.items()
        for name, pair in clouds.items()
    )
    return Picture(figure, f"{title}. Predicted over {known}. {told}".strip(". "))


def share_within(published, predicted, factor) -> float:
    off = np.abs(np.log(np.asarray(predicted) / np.asarray(published)))
    return float(np.mean(off <= np.log(factor)))


@use_course_style
def plot_points(panels, ylabel, levels=(), ratios=False, title="") -> Picture:
    """Plot clouds of points in adjacent panels that share their y axis.

    panels  {label of the x axis: {name: (x, y)}}; few different x get a column each
    levels  values of y at which a line crosses all panels
    ratios  whether y are ratios, so that the axis is logarithmic
    Raises  LaunchError unless these are such numbers
    """
    need_panels("plot_points", panels)
    names = names_in(panels)
    figure, grid = new_figure(7.5, 3.4, ncols=len(panels), sharey=True, squeeze=False)
    for axes, (xlabel, clouds) in zip(grid[0], panels.items(), strict=True):
        place = columns_of(axes, np.concatenate([x for x, _ in clouds.values()]))
        for name, (x, y) in clouds.items():
            axes.scatter(place(np.asarray(x)), y, **looks(names, name))
        for y in levels:
            axes.axhline(y, color=MUTED, lw=0.8, ls="--", zorder=1)
        axes.set_xlabel(xlabel)
        axes.grid(False, axis="x")
        axes.grid(True, axis="y")
    if ratios:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
    grid[0, 0].set_ylabel(ylabel)
    finish(figure, grid, names, title)
    told = "; ".join(
        f"{name}: median {np.median(np.concatenate(values)):.3g}"
        for name in names
        if (values := [c[name][1] for c in list(panels.values())[:1] if name in c])
    )
    return Picture(figure, f"{title}. {ylabel} over {', '.join(panels)}. {told}".strip(". "))


def columns_of(axes, x):
    """Make a function that places points: in named columns, or at x if there are many values."""
    values = np.unique(x)
    if len(values) > MOST_COLUMNS:
        return lambda x: x
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlim(-0.6, len(values) - 0.4)

    def place(x):
        shift = (np.arange(len(x)) * GOLDEN) % 1 - 0.5
        return np.searchsorted(values, x) + SPREAD * shift

    return place


def looks(names, name) -> dict:
    number = names.index(name)
    return {"s": SIZE, "alpha": OPACITY, "color": LINE_COLORS[number], "lw": 0,
            "marker": MARKERS[number], "label": name, "zorder": 2}  # fmt: skip


def names_in(panels) -> list[str]:
    names = list(dict.fromkeys(name for clouds in panels.values() for name in clouds))
    need(len(names) <= len(MARKERS), f"at most {len(MARKERS)} names have colours")
    return names


def need_panels(function, panels):
    """Raise LaunchError unless these are panels of clouds, with as many x as y."""
    need(isinstance(panels, Mapping) and 0 < len(panels) <= 3,
         f"{function}() takes 1 to 3 panels, as {{label: {{name: (x, y)}}}}")  # fmt: skip
    for clouds in panels.values():
        need(isinstance(clouds, Mapping) and clouds, f"{function}() takes {{name: (x, y)}}")
        for name, pair in clouds.items():
            need(
                len(pair) == 2 and np.ndim(pair[0]) == 1 and np.shape(pair[0]) == np.shape(pair[1]),
                f"{function}() takes as many x as y for {name}, not {brief(pair)}",
            )


def finish(figure, grid, names, title):
    """Add a legend below everything, and the title above it."""
    if len(names) > 1:
        samples = [Line2D([], [], ls="", marker=MARKERS[number], color=LINE_COLORS[number], ms=5)
                   for number in range(len(names))]  # fmt: skip
        legend_below(figure, dict(zip(names, samples)))
    for spine in (s for axes in grid[0] for s in axes.spines.values()):
        spine.set_edgecolor(EDGE)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
