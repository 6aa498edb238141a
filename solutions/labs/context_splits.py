# Built from chapters/ch09_three_dimensions/labs/context_splits.py by `make build`.
"""Which rank has which of a layer's activations: tensor, sequence and context parallelism."""

import numpy as np
from matplotlib.patches import Rectangle

from pedagogy_lib.basics.errors import need
from pedagogy_lib.pictures.legends import legend_above, sample
from pedagogy_lib.pictures.style import (
    CENTERED,
    GROUND,
    LINE_COLORS,
    MUTED,
    WHITE,
    Picture,
    bare,
    label_ink,
    new_figure,
    use_course_style,
)

PLACES = 8  # of the text in the picture, or a multiple of the ranks near that
WHERE = ("between the two", "in attention", "in the MLP")
ALONG = ("features", "heads", "features")
SMALL = {"fontsize": 6, "color": MUTED}
ALL = -1  # a number that every rank has


def split_places(n) -> np.ndarray:
    return np.repeat(np.arange(n), places_of(n) // n)[:, None] * np.ones(n, int)


def split_features(n) -> np.ndarray:
    return np.ones((places_of(n), 1), int) * np.arange(n)


def replicate_numbers(n) -> np.ndarray:
    return np.full((places_of(n), n), ALL)


def places_of(n) -> int:
    return n * max(1, PLACES // n)


SPLITS = {  # name: owners between attention and MLP, in attention, in the MLP
    "tensor parallel": (replicate_numbers, split_features, split_features),
    "… with sequence parallel": (split_places, split_features, split_features),
    "context parallel, in a ring": (split_places, split_places, split_places),
    "context parallel, by heads": (split_places, split_features, split_places),
}


@use_course_style
def draw_context_splits(ranks=4) -> Picture:
    """Draw which rank has which activations, places × features, for each kind of parallelism.

    Features are whole heads in attention, and hidden features in the MLP.
    """
    need(isinstance(ranks, int) and 2 <= ranks <= len(LINE_COLORS),
         f"draw_context_splits() takes 2 to {len(LINE_COLORS)} ranks")  # fmt: skip
    figure, axes = new_figure(7.5, 1.5 + 1.25 * len(SPLITS))
    width, places = 1.6 * ranks, places_of(ranks)
    for row, (name, owners) in enumerate(SPLITS.items()):
        top = row * (places + 2.2)
        axes.text(-0.6, top + places / 2, name.replace(", ", ",\n"), ha="right", va="center")
        for column, of in enumerate(owners):
            draw_grid(axes, of(ranks), column * (width + 2), top, 1.6)
            if not row:
                axes.text(column * (width + 2) + width / 2, -1.0, WHERE[column], **CENTERED)
                axes.text(column * (width + 2), -0.25, f"{ALONG[column]} →", va="center", **SMALL)
        axes.text(-0.25, top, "places →", rotation=-90, ha="center", va="top", **SMALL)
    bottom = len(SPLITS) * (places + 2.2) - 2.2
    bare(axes, (-9.5, 3 * (width + 2)), (bottom + 0.4, -2.2))
    legend_above(axes, [
        *(sample(facecolor=LINE_COLORS[rank], label=f"rank {rank}") for rank in range(ranks)),
        sample(facecolor=GROUND, label="every rank"),
    ])  # fmt: skip
    told = "; ".join(
        f"{name}: " + ", ".join(f"{where} {WORDS[of]}" for where, of in zip(WHERE, owners))
        for name, owners in SPLITS.items()
    )
    return Picture(figure, f"Which of {ranks} ranks has which activations. {told}.")


WORDS = {
    split_places: "each rank has some places",
    split_features: "each rank has some features of all places",
    replicate_numbers: "every rank has everything",
}


def draw_grid(axes, owners, left, top, width):
    for place, of_place in enumerate(owners):
        for feature, rank in enumerate(of_place):
            color = GROUND if rank == ALL else LINE_COLORS[rank]
            box = (left + feature * width, top + place), width, 1
            axes.add_patch(Rectangle(*box, facecolor=color, edgecolor=WHITE, lw=0.8))
            if rank != ALL:
                axes.text(left + (feature + 0.5) * width, top + place + 0.5, f"{rank}",
                          **CENTERED, fontsize=6, color=label_ink(color))  # fmt: skip
