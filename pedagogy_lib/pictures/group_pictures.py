"""Pictures of the process groups of one rank, among all ranks and their machines."""

from matplotlib.patches import Rectangle

from ..basics.errors import need
from ..basics.rank_texts import ranks_text
from ..basics.units import brief, format_count
from .legends import legend_above, sample
from .style import (
    CENTERED,
    EDGE,
    GROUND,
    INK,
    MUTED,
    WHITE,
    Picture,
    bare,
    label_ink,
    new_figure,
    use_course_style,
)
from .traffic import group_colors

SIDE = 0.86  # of a rank's square, as a share of its cell
MOST_TOLD = 8  # ranks of a group, in the legend


@use_course_style
def draw_groups(groups, machines=1, rank=0, title="") -> Picture:
    """Draw one rank and the other ranks of each of its groups; each row is a machine.

    groups    {axis: lists of ranks}, as groups_along of labs/meshes.py returns them
    machines  the number of machines, each with equally many ranks
    Raises    LaunchError if a rank is missing along an axis, or if ranks are shared out unequally
    """
    n, mine = 1 + max(max(ranks) for lists in groups.values() for ranks in lists), {}
    need(n % machines == 0, f"{n} ranks cannot be shared out equally among {machines} machines")
    for axis, lists in groups.items():
        missing = set(range(n)) - {one for ranks in lists for one in ranks}
        need(not missing, f"along {axis}, {ranks_text(sorted(missing))} are in no group")
        mine[axis] = next((list(ranks) for ranks in lists if rank in ranks), None)
        need(mine[axis] is not None, f"rank is a whole number from 0 to {n - 1}, not {brief(rank)}")
    colors = group_colors(list(groups))
    fills = {one: colors[axis] for axis, ranks in mine.items() for one in ranks} | {rank: INK}
    columns = n // machines
    inches = min(0.75, 6.6 / columns)
    figure, axes = new_figure(1.0 + inches * columns, 0.9 + inches * machines + 0.3 * bool(title))
    for machine in range(machines):
        draw_machine(axes, machine, columns, fills, machines > 1)
    axes.set_aspect("equal", anchor="W")
    bare(axes, (-1.6 if machines > 1 else -0.6, columns - 0.4), (machines - 0.4, -0.6))
    legend_above(axes, [
        sample(facecolor=colors[axis], label=f"{axis}: {list_ranks(ranks)}")
        for axis, ranks in mine.items()
    ])  # fmt: skip
    figure.suptitle(title, x=0.02, ha="left", weight="bold")
    alt = "; ".join(
        f"along {axis} in a group with {list_ranks(ranks)}" for axis, ranks in mine.items()
    )
    return Picture(figure, f"Rank {rank} of {n} on {format_count(machines, 'machine')}: {alt}.")


def list_ranks(ranks) -> str:
    return ", ".join(map(str, ranks[:MOST_TOLD])) + ", …" * (len(ranks) > MOST_TOLD)


def draw_machine(axes, machine, columns, fills, is_named):
    """Draw a machine as a row of squares, those of `fills` in their colour."""
    box = (-0.5, machine - 0.5), columns, 1
    axes.add_patch(Rectangle(*box, facecolor=GROUND, edgecolor=WHITE, lw=3))
    if is_named:
        axes.text(-0.62, machine, f"machine {machine}", ha="right", va="center", fontsize=8,
                  color=MUTED)  # fmt: skip
    for place in range(columns):
        rank = machine * columns + place
        color = fills.get(rank, WHITE)
        corner = place - SIDE / 2, machine - SIDE / 2
        axes.add_patch(Rectangle(corner, SIDE, SIDE, facecolor=color, edgecolor=EDGE, lw=0.8))
        axes.text(place, machine, rank, **CENTERED, color=label_ink(color), fontsize=9)
