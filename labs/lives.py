# Built from chapters/ch04_failure_and_recovery/labs/lives.py by `make build`.
"""A picture of a training run in several lives: its loss and its number of ranks."""

from itertools import pairwise

from matplotlib.ticker import MaxNLocator

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import brief, format_count
from pedagogy_lib.pictures.style import (
    INK,
    LINE_COLORS,
    PALE_BLUE,
    Picture,
    new_figure,
    use_course_style,
)


@use_course_style
def plot_lives(lives, undisturbed, ylabel="loss", title="") -> Picture:
    """Plot loss and number of ranks over steps in each life, and shade steps taken twice.

    lives        [(ranks, steps, losses), …], one after another
    undisturbed  (steps, losses) of an undisturbed training run: dashed
    Raises       LaunchError if there are no lives or too many, or not as many losses as steps
    """
    fits = 0 < len(lives) <= len(LINE_COLORS)
    need(fits, f"plot_lives() takes 1 to {len(LINE_COLORS)} lives, not {brief(lives)}")
    need(all(len(steps) == len(losses) > 0 for _, steps, losses in lives),
         "plot_lives() takes as many losses as steps, for each life")  # fmt: skip
    figure, (top, bottom) = new_figure(
        7.5, 4.0, nrows=2, sharex=True, gridspec_kw={"height_ratios": [3, 1]}
    )
    for number, (color, (n, steps, losses)) in enumerate(zip(LINE_COLORS, lives), start=1):
        label = f"life {number}: {format_count(n, 'rank')}"
        top.plot(steps, losses, color=color, linewidth=4, label=label, solid_capstyle="butt")
        bottom.plot([steps[0] - 0.5, steps[-1] + 0.5], [n, n], color=color, linewidth=6,
                    solid_capstyle="butt")  # fmt: skip
    top.plot(*undisturbed, color=INK, ls="--", linewidth=1.2, label="undisturbed")
    shade_repeated(lives, (top, bottom))
    finish(top, bottom, lives, ylabel, title)
    told = "; ".join(f"{format_count(n, 'rank')}, steps {steps[0]} to {steps[-1]}"
                     for n, steps, _ in lives)  # fmt: skip
    end = f"the loss ends at {lives[-1][2][-1]:.3g}, undisturbed at {undisturbed[1][-1]:.3g}"
    return Picture(figure, f"{title}. {ylabel} and ranks over steps. {told}; {end}".strip(". "))


def shade_repeated(lives, both):
    """Shade, behind everything else, the steps that a life takes although the previous one did."""
    label = "steps taken twice"
    for (_, before, _), (_, after, _) in pairwise(lives):
        if after[0] <= before[-1]:
            for axes in both:
                axes.axvspan(after[0] - 0.5, before[-1] + 0.5, color=PALE_BLUE, alpha=0.35, lw=0,
                             zorder=0, label=label)  # fmt: skip
            label = "_again"


def finish(top, bottom, lives, ylabel, title):
    for axes in (top, bottom):
        axes.grid(axis="both")
    top.set(ylabel=ylabel)
    top.set_ylim(bottom=0)
    top.legend()
    top.set_title(title)
    bottom.set(xlabel="step", ylabel="ranks", ylim=(0, max(n for n, *_ in lives) + 0.6))
    bottom.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
