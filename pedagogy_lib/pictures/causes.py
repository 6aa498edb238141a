"""Bars of the seconds of a step: one bar for each plan, divided by cause."""

from collections.abc import Mapping

from ..basics.errors import need
from ..basics.units import brief
from . import style
from .legends import legend_below, sample
from .style import EDGE, GREY, GROUND, INK, Picture, new_figure, use_course_style

CAUSES = {
    "compute": style.BLUE, "recompute": style.SKY, "launch": GREY, "tp": style.VERMILION,
    "cp": style.ORANGE, "ep": style.OLIVE, "pp": style.ROSE, "bubble": GROUND,
    "dp": style.INDIGO, "optimizer": style.GREEN, "waiting": style.MUTED,
}  # fmt: skip
MOST_BARS = 16
LEAST = 0.003  # the share of a bar that is still seen


@use_course_style
def plot_causes(bars, measured=None, unit="s", title="") -> Picture:
    """Draw the seconds of a step as bars, one under the other, each divided by cause.

    bars      {plan: {cause: seconds}}; an unknown cause is refused with the list of all, and a
              "total" is ignored
    measured  {plan: seconds} for some of the plans, drawn as a mark at each bar
    unit      the unit of the axis, "s" or "ms"
    Raises    LaunchError for an unknown cause, or if there is no bar
    """
    measured, scale = measured or {}, {"s": 1, "ms": 1e3}.get(unit)
    need(isinstance(bars, Mapping), f"plot_causes() takes {{plan: seconds}}, not {brief(bars)}")
    need(0 < len(bars) <= MOST_BARS, f"plot_causes() takes 1 to {MOST_BARS} bars, not {len(bars)}")
    need(scale, f'plot_causes() takes "s" or "ms" as its unit, not {unit!r}')
    unknown = {cause for bar in bars.values() for cause in bar} - {*CAUSES, "total"}
    need(not unknown, f"there are no such causes as {sorted(unknown)}: use {', '.join(CAUSES)}")
    strange = [plan for plan in measured if plan not in bars]
    need(not strange, f"plot_causes() has no bars for what is measured of {strange}")
    figure, axes = new_figure(7.5, 1.4 + 0.34 * len(bars))
    for row, bar in enumerate(bars.values()):
        draw_bar(axes, row, bar, scale)
    for row, plan in enumerate(bars):
        if plan in measured:
            axes.plot([scale * measured[plan]] * 2, [row - 0.45, row + 0.45], color=INK, lw=2)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set(xlabel=f"seconds of a step ({unit})" if unit == "s" else "a step (ms)")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    seen = [cause for cause in CAUSES if any(is_seen(cause, bar) for bar in bars.values())]
    patches = {cause: sample(facecolor=CAUSES[cause], edgecolor=EDGE) for cause in seen}
    if measured:
        patches["measured"] = axes.plot([], [], color=INK, lw=2)[0]
    if patches:
        legend_below(figure, patches)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")  # labels are long
    told = "; ".join(f"{plan} {sum_of(bar):.3g} s" for plan, bar in bars.items())
    return Picture(figure, f"{title}. Seconds of a step by cause: {told}".strip(". "))


def sum_of(bar) -> float:
    return sum(float(seconds) for cause, seconds in bar.items() if cause != "total")


def is_seen(cause, bar) -> bool:
    """Return whether a cause's part of a bar is wide enough to be found in the picture."""
    return float(bar.get(cause, 0)) > LEAST * sum_of(bar)


def draw_bar(axes, row, bar, scale):
    left = 0.0
    for cause, color in CAUSES.items():
        width = scale * float(bar.get(cause, 0))
        if width > 0:
            axes.barh(row, width, left=left, height=0.7, color=color, edgecolor=EDGE, lw=0.5)
            left += width
