"""How pictures show what ranks have of a tensor, in the words of DTensor.

*Replicate*: all of it, the same on each rank; one grey. *Shard*: each rank has a part, in the
rank's colour; the rest is an empty outline. *Partial*: each rank has a summand as large as the
whole, hatched in the rank's colour, and only the sum is right.
"""

from matplotlib.colors import to_hex, to_rgb
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Rectangle

from ..measuring.placements import PARTIAL, REPLICATE, SHARD
from .chunk_holders import RANK_COLORS
from .style import INK, label_ink

GREY, EDGE, MUTED = "#CFCFCF", "#A6A6A6", "#5E5E5E"
MEANINGS = {
    REPLICATE: "Replicate: all of it, the same on each rank",
    SHARD: "Shard: each rank has a part, in its colour",
    PARTIAL: "Partial: each rank has a summand; only the sum is right",
    None: "not on this rank",
}


def rank_color(rank) -> str:
    """Each rank's own colour; from the ninth rank on they come again, paler."""
    color = RANK_COLORS[rank % len(RANK_COLORS)]
    return color if rank // len(RANK_COLORS) % 2 == 0 else mixed(color, 0.5)


def mixed(color, part) -> str:
    """So much of a colour, in white."""
    return to_hex([1 - part * (1 - tone) for tone in to_rgb(color)])


def part_sizes(length, n) -> list[int]:
    """How long n parts of a length are, as torch.tensor_split cuts it."""
    return [length // n + (rank < length % n) for rank in range(n)]


def box(corner, width, height, placement, rank=0) -> Rectangle:
    """A part of a tensor on one rank; an empty outline, if `placement` is None."""
    looks = {"facecolor": "white", "edgecolor": EDGE, "lw": 0.6}
    if placement == REPLICATE:
        looks |= {"facecolor": GREY}
    elif placement == SHARD:
        looks |= {"facecolor": rank_color(rank)}
    elif placement == PARTIAL:
        color = rank_color(rank)
        looks = {"facecolor": mixed(color, 0.16), "edgecolor": color, "lw": 0.9, "hatch": "////"}
    return Rectangle(corner, width, height, **looks)


def ink_on(placement, rank=0) -> str:
    return label_ink(rank_color(rank)) if placement == SHARD else INK


def legend(figure, y=0.0, n=2, more=()):
    """What grey, colours and hatches mean, at the bottom of a figure.

    more  (patch, text) of what else there is
    """
    handles = [
        tuple(box((0, 0), 1, 1, placement, rank) for rank in range(shown(placement, n)))
        for placement in MEANINGS
    ] + [(patch,) for patch, _ in more]
    names = [*MEANINGS.values(), *(text for _, text in more)]
    figure.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, y),
                  ncols=2 if len(names) < 5 else 3, fontsize=8.5, handlelength=2.6,
                  handleheight=1.1, columnspacing=2.0,
                  handler_map={tuple: HandlerTuple(ndivide=None, pad=0.15)})  # fmt: skip


def shown(placement, n) -> int:
    """In how many ranks' colours the legend shows it."""
    return min(n, 2) if placement in (SHARD, PARTIAL) else 1


def name_rank(axes, left, middle, rank):
    """`rank 2`, with its colour in front."""
    axes.add_patch(Rectangle((left, middle - 0.06), 0.12, 0.12, facecolor=rank_color(rank), lw=0))
    axes.text(left + 0.18, middle, f"rank {rank}", va="center", fontsize=9.5)


def in_inches(figure, axes, width, height):
    """Let the axes be the whole figure, and count inches from its top left corner."""
    figure.set_layout_engine("none")
    axes.set_position([0, 0, 1, 1])
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
