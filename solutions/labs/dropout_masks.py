# Built from chapters/ch07_tensor_parallel/labs/dropout_masks.py by `make build`.
"""The picture of all ranks' dropout masks, side by side."""

import torch
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator
from placement_style import rank_color

from pedagogy_lib.basics.errors import need
from pedagogy_lib.pictures.style import Picture, new_figure, use_course_style

MOST_NAMES = 8  # the most ranks whose names fit side by side


@use_course_style
def plot_masks(panels, title="") -> Picture:
    """Draw the features that dropout keeps, rank after rank; those that it drops are white.

    panels  {name: one mask per rank}, each (samples, features of the rank), bool
    """
    need(len(panels), "plot_masks() takes at least one panel of masks")
    figure, grid = new_figure(7.5, 1.1 + 1.5 * len(panels), nrows=len(panels), squeeze=False)
    told = []
    for number, (what, masks) in enumerate(panels.items()):
        axes = grid[number, 0]
        kept = torch.cat(list(masks), dim=1)
        different = f"{len(kept.T.unique(dim=0))} different columns of {kept.shape[1]}"
        told.append(f"{what}: {different}")
        draw_masks(axes, masks)
        is_named = number == 0 and name_ranks(axes, masks)
        axes.set_title(told[-1], fontsize=10, pad=20 if is_named else None)
        axes.set_ylabel("sample")
    grid[-1, 0].set_xlabel("hidden feature, rank after rank; white: dropped")
    figure.suptitle(title, x=0.02, ha="left", weight="bold")
    return Picture(figure, f"{title}. " + "; ".join(told))


def draw_masks(axes, masks):
    """Draw a block of columns per rank, in the rank's colour; feature k spans k to k + 1."""
    first = 0
    for rank, mask in enumerate(masks):
        samples, features = mask.shape
        color = to_rgb(rank_color(rank))
        colors = [[(*color, float(kept)) for kept in row] for row in mask.tolist()]
        place = (first, first + features, samples, 0)
        axes.imshow(colors, interpolation="nearest", aspect="auto", extent=place)
        first += features
    axes.set_xlim(0, first)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axes.set_yticks([])
    axes.grid(False)


def name_ranks(axes, masks) -> bool:
    """Name the rank above each block unless there are too many; return whether ranks are named."""
    if len(masks) > MOST_NAMES:
        return False
    first = 0
    for rank, mask in enumerate(masks):
        middle, above = first + mask.shape[1] / 2, axes.get_xaxis_transform()
        looks = {"ha": "center", "va": "bottom", "fontsize": 9}
        axes.text(middle, 1.03, f"rank {rank}", **looks, transform=above)
        first += mask.shape[1]
    return True
