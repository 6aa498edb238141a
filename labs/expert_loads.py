# Built from chapters/ch09_three_dimensions/labs/expert_loads.py by `make build`.
"""Heat maps of the load of each expert of a layer, step by step, for several training runs."""

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import brief
from pedagogy_lib.pictures.style import BLUE, INK, WHITE, Picture, new_figure, use_course_style

SHADES = LinearSegmentedColormap.from_list("shares", [WHITE, BLUE, INK])
MOST_NAMED = 16  # at most so many labels on the experts' axis
LAST = 20  # steps whose mean the alternative text gives


@use_course_style
def plot_loads(panels, title="") -> Picture:
    """Plot the share of all choices that each expert got: a row per expert, a column per step.

    panels  {title of a panel: loads}, of shape (steps, experts)
    Raises  LaunchError if the loads are not such numbers
    """
    need(isinstance(panels, Mapping) and panels, "plot_loads() takes {name: loads}")
    shares = {name: shares_of(name, loads) for name, loads in panels.items()}
    top = max(share.max() for share in shares.values())
    figure, grid = new_figure(7.5, 2.6, ncols=len(panels), sharey=True, sharex=True, squeeze=False)
    for axes, (name, share) in zip(grid[0], shares.items(), strict=True):
        image = axes.imshow(share.T, cmap=SHADES, vmin=0, vmax=top, aspect="auto",
                            interpolation="nearest", origin="lower")  # fmt: skip
        axes.set_title(name, fontsize=10, fontweight="normal")
        axes.set_xlabel("step")
        axes.grid(False)
    grid[0, 0].set_ylabel("expert")
    grid[0, 0].yaxis.set_major_locator(MaxNLocator(MOST_NAMED, integer=True))
    percent = FuncFormatter(lambda share, _: f"{share:.0%}")
    figure.colorbar(image, ax=grid[0].tolist(), label="share of all choices", format=percent)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    ends = "; ".join(f"{name}: {format_mean_loads(share)}" for name, share in shares.items())
    return Picture(figure, f"{title}. Shares of the experts in the last steps. {ends}".strip(". "))


def shares_of(name, loads) -> np.ndarray:
    loads = np.asarray(loads, dtype=float)
    fits = loads.ndim == 2 and loads.size and (loads >= 0).all() and (loads.sum(1) > 0).all()
    need(fits, f"plot_loads() takes counts for each step and expert, not {brief(loads)}: {name}")
    return loads / loads.sum(1, keepdims=True)


def format_mean_loads(share) -> str:
    return ", ".join(f"{mean:.0%}" for mean in share[-LAST:].mean(0))
