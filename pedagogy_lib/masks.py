"""Masks of dropout on all ranks, side by side."""

import torch
from matplotlib.colors import to_rgb

from .placements import rank_color
from .style import Picture, in_course_style, new_figure


@in_course_style
def plot_masks(panels, title="") -> Picture:
    """What dropout keeps on each rank, rank after rank; what it drops is white.

    panels  {what: one mask for each rank}, each (samples, features of the rank), bool
    """
    figure, grid = new_figure(7.5, 1.1 + 1.5 * len(panels), nrows=len(panels), squeeze=False)
    told = []
    for axes, (what, masks) in zip(grid[:, 0], panels.items()):
        kept = torch.cat(list(masks), dim=1)
        different = f"{len(kept.T.unique(dim=0))} different columns of {kept.shape[1]}"
        told.append(f"{what}: {different}")
        draw_masks(axes, masks)
        axes.set_title(told[-1], fontsize=10)
        axes.set_ylabel("sample")
    grid[-1, 0].set_xlabel("hidden feature, rank after rank; white: dropped")
    figure.suptitle(title, x=0.02, ha="left", weight="bold")
    return Picture(figure, f"{title}. " + "; ".join(told))


def draw_masks(axes, masks):
    """One block of columns for each rank, in the rank's colour."""
    first = 0
    for rank, mask in enumerate(masks):
        samples, features = mask.shape
        color = to_rgb(rank_color(rank))
        colors = [[(*color, float(kept)) for kept in row] for row in mask.tolist()]
        place = (first - 0.5, first + features - 0.5, samples - 0.5, -0.5)
        axes.imshow(colors, interpolation="nearest", aspect="auto", extent=place)
        first += features
    axes.set_xlim(-0.5, first - 0.5)
    axes.set_yticks([])
    axes.grid(False)
