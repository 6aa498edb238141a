"""Legends and their entries."""

import math

from matplotlib.patches import Rectangle

from .style import INK


def sample(**looks) -> Rectangle:
    """Return a patch that shows in a legend what something looks like."""
    return Rectangle((0, 0), 1, 1, **looks)


def outline_sample(width=1.6) -> Rectangle:
    return sample(facecolor="white", edgecolor=INK, lw=width)


def legend_above(axes, handles, rows=1):
    """Draw a legend above the axes, on the left, in so many rows."""
    axes.legend(
        handles=handles,
        ncols=math.ceil(len(handles) / rows) or 1,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderpad=0.2,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.4,
    )


def legend_below(figure, patches, title=None):
    """Draw a legend in one row below everything.

    patches  {text: patch}
    """
    figure.legend(
        patches.values(),
        patches.keys(),
        ncols=len(patches),
        loc="outside lower center",
        fontsize=8.5,
        handlelength=1.0,
        handleheight=1.0,
        columnspacing=1.2,
        title=title,
        title_fontsize=8.5,
    )
