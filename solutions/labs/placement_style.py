# Built from chapters/ch07_tensor_parallel/labs/placement_style.py by `make build`.
"""The look of placements, in the words of DTensor: how pictures show each rank's part of a tensor.

*Replicate*: each rank has the same whole tensor, in one grey. *Shard*: each rank has a part, in its
colour; the rest is an empty outline. *Partial*: each rank has a summand as large as the whole
tensor, hatched in its colour, and only the sum is right.
"""

from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Rectangle
from placements import PARTIAL, REPLICATE, SHARD

from pedagogy_lib.pictures.style import EDGE, GREY, INK, RANK_COLORS, label_ink, tint

MEANINGS = {
    REPLICATE: "Replicate: all of it, the same on each rank",
    SHARD: "Shard: each rank has a part, in its colour",
    PARTIAL: "Partial: each rank has a summand; only the sum is right",
    None: "not on this rank",
}


def rank_color(rank) -> str:
    """Return a rank's colour; from the ninth rank on, the colours repeat in a paler tint."""
    color = RANK_COLORS[rank % len(RANK_COLORS)]
    return color if rank // len(RANK_COLORS) % 2 == 0 else tint(color, 0.5)


def box(corner, width, height, placement, rank=0) -> Rectangle:
    """Return the box of one rank's part of a tensor; if `placement` is None, an empty outline."""
    looks = {"facecolor": "white", "edgecolor": EDGE, "lw": 0.6}
    if placement == REPLICATE:
        looks |= {"facecolor": GREY}
    elif placement == SHARD:
        looks |= {"facecolor": rank_color(rank)}
    elif placement == PARTIAL:
        color = rank_color(rank)
        looks = {"facecolor": tint(color, 0.16), "edgecolor": color, "lw": 0.9, "hatch": "////"}
    return Rectangle(corner, width, height, **looks)


def ink_on(placement, rank=0) -> str:
    """Return the colour of text on a part that `box` has drawn."""
    return label_ink(rank_color(rank)) if placement == SHARD else INK


def legend(figure, n, more=None):
    """Draw a legend of grey, colours and hatches on n ranks, at the bottom of a figure.

    more  {text of a further entry: patch}
    """
    patches = {MEANINGS[placement]: samples(placement, n) for placement in MEANINGS}
    patches |= {text: (patch,) for text, patch in (more or {}).items()}
    figure.legend(
        patches.values(),
        patches.keys(),
        ncols=2 if len(patches) < 5 else 3,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        fontsize=8.5,
        handlelength=2.6,
        handleheight=1.1,
        columnspacing=2.0,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.15)},
    )


def samples(placement, n) -> tuple[Rectangle, ...]:
    """Return a placement's boxes for the legend: two ranks' boxes if colours differ by rank."""
    shown = min(n, 2) if placement in (SHARD, PARTIAL) else 1
    return tuple(box((0, 0), 1, 1, placement, rank) for rank in range(shown))


def name_rank(axes, left, middle, rank):
    """Write a rank's name, such as `rank 2`, with its colour in front."""
    axes.add_patch(Rectangle((left, middle - 0.06), 0.12, 0.12, facecolor=rank_color(rank), lw=0))
    axes.text(left + 0.18, middle, f"rank {rank}", va="center", fontsize=9.5)
