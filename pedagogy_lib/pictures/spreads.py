"""Charts of measured values: medians as dots, with bars from the lowest to the highest value."""

from collections.abc import Mapping
from statistics import median

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from ..basics.errors import need
from ..basics.units import brief, full_number
from .style import INK, LINE_COLORS, Picture, new_figure, use_course_style

APART = 1.03  # factor between names over the same x, so that bars do not hide each other
MOST_TICKS = 9  # one at each x, if there are no more
MARKERS = ("o", "s", "^", "D", "v", "P")


@use_course_style
def plot_spreads(
    panels, xlabel, ylabel, predicted=None, logarithmic="", highest=None, title=""
) -> Picture:
    """Plot values measured several times, over x, in panels side by side that share their scales.

    panels       {title of a panel: {name: {x: [values]}}}; a name has one colour in all panels
    predicted    {title of a panel: {name: {x: value}}}: lines, dashed in the colour of a measured
                 name, or in another style in black
    logarithmic  the logarithmic axes, "x", "y" or "xy"
    highest      the upper end of the y axis
    Raises       LaunchError if the values are not of this form
    """
    predicted = predicted or {}
    need_panels(panels, predicted)
    names = list(dict.fromkeys(name for of_panel in panels.values() for name in of_panel))
    need(len(names) <= len(MARKERS), f"plot_spreads() has looks for {len(MARKERS)} names")
    figure, grid = new_figure(7.5, 3.6, ncols=len(panels), sharey=True, sharex=True, squeeze=False)
    xs = {x for of_panel in panels.values() for of_name in of_panel.values() for x in of_name}
    shown, styles = {}, theory_styles(names, predicted)
    for axes, (panel, of_panel) in zip(grid[0], panels.items(), strict=True):
        for name, of_name in predicted.get(panel, {}).items():
            color = LINE_COLORS[names.index(name)] if name in names else INK
            (line,) = axes.plot(*zip(*of_name.items()), ls=styles[name], lw=1.3, color=color)
            shown.setdefault(f"{name}, theory" if name in names else name, line)
        apart = APART if "x" in logarithmic and len(xs) <= MOST_TICKS else 1.0
        for name, of_name in of_panel.items():
            number = names.index(name)
            shown[name] = draw(axes, of_name, number, apart ** (number - (len(names) - 1) / 2))
        axes.set_xlabel(xlabel)
        axes.set_title(panel, fontsize=10, fontweight="normal")
        axes.grid(axis="both")
    set_scales(grid[0, 0], sorted(xs), logarithmic, highest)
    grid[0, 0].set_ylabel(ylabel)
    if len(shown) > 1:
        in_order = dict(sorted(shown.items(), key=lambda pair: order(pair[0], names)))
        figure.legend(in_order.values(), in_order.keys(), loc="outside lower center", fontsize=8.5,
                      ncols=min(len(in_order), 4), handlelength=2.4)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    told = "; ".join(
        f"{' '.join(filter(None, (panel, name)))}: " + ", ".join(
            f"{x:g} {median(values):.3g}" for x, values in of_name.items())
        for panel, of_panel in panels.items() for name, of_name in of_panel.items()
    )  # fmt: skip
    return Picture(figure, f"{title}. {ylabel} over {xlabel}, medians. {told}".strip(". "))


def theory_styles(names, predicted) -> dict[str, str]:
    """Return line styles: dashed for the theory of a measured name, another one for each other."""
    others = dict.fromkeys(name for of_panel in predicted.values() for name in of_panel)
    free = iter([":", "-.", (0, (1, 3))] * len(others))
    return {name: "--" if name in names else next(free) for name in others}


def need_panels(panels, predicted):
    """Raise WrongInput unless panels are {title: {name: {x: values}}}."""
    need(
        isinstance(panels, Mapping) and 0 < len(panels) <= 3,
        f"plot_spreads() takes 1 to 3 panels, as {{title: {{name: {{x: values}}}}}}, not "
        f"{brief(panels)}",
    )
    need(set(predicted) <= set(panels), "plot_spreads() has no panel for what is predicted")
    for of_panel in panels.values():
        for name, of_name in of_panel.items():
            need(
                isinstance(of_name, Mapping) and of_name
                and all(np.ndim(values) == 1 and len(values) for values in of_name.values()),
                f"plot_spreads() takes {{x: [values]}} for {name}, not {brief(of_name)}",
            )  # fmt: skip


def draw(axes, of_name, number, factor):
    """Draw one name's dots and bars, a little aside; return the handle of its legend entry."""
    x, values = [one * factor for one in of_name], list(of_name.values())
    middle = [median(some) for some in values]
    below = [mid - min(some) for mid, some in zip(middle, values)]
    above = [max(some) - mid for mid, some in zip(middle, values)]
    return axes.errorbar(
        x, middle, (below, above), color=LINE_COLORS[number], marker=MARKERS[number], ms=5,
        lw=1.4, elinewidth=1.4, capsize=3,
    )  # fmt: skip


def order(name, names) -> int:
    """Return a sort key: measured names first, in their order, then predicted ones."""
    return names.index(name) if name in names else len(names)


def set_scales(axes, xs, logarithmic, highest):
    """Set the scales and ticks of both axes; `logarithmic` names those with a log scale."""
    if "x" in logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: full_number(value)))
        if len(xs) <= MOST_TICKS:
            axes.set_xticks(xs, [full_number(x) for x in xs])
        axes.xaxis.set_minor_locator(NullLocator())
    if "y" in logarithmic:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 100 * low:  # otherwise there are enough decades
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: full_number(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, highest)
