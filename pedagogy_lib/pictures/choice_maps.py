"""Maps of choices, with a coloured square for each case."""

from collections.abc import Mapping

from matplotlib.patches import Rectangle

from ..basics.errors import need
from ..basics.units import brief
from .legends import sample
from .style import (
    BLUE,
    CENTERED,
    EDGE,
    GREEN,
    GREY,
    INDIGO,
    ORANGE,
    ROSE,
    SKY,
    VERMILION,
    WHITE,
    Picture,
    label_ink,
    new_figure,
    tint,
    use_course_style,
)

KIND_COLORS = (BLUE, ORANGE, GREEN, VERMILION, INDIGO, SKY, ROSE)
SHORT, LARGE, SMALL = 5, 8.0, 6.2  # letters; font size of short texts, and if one is longer
PALE = 0.35  # the share of its colour that an unsure square has
CELL, AROUND = 0.34, 1.25  # inches: height of a row, and of all that is around the rows


@use_course_style
def plot_map(panels, kinds, xlabel="", note="", title="") -> Picture:
    """Draw panels of squares, each with a row for each name and a column for each case.

    panels  {title of a panel: {row: {column: (kind, text, whether it is sure)}}}, all with the same
            rows and columns; unsure squares are pale
    kinds   the kinds in the order of their colours; squares of any other kind are grey
    note    the meaning of pale, for the legend; "" if nothing is pale
    Raises  LaunchError if `panels` is not of this form
    """
    need(isinstance(panels, Mapping) and panels, "plot_map() takes {panel: {row: {column: …}}}")
    need(len(kinds) <= len(KIND_COLORS), f"plot_map() has {len(KIND_COLORS)} colours for kinds")
    names = [list(rows) for rows in panels.values()]
    need(
        names[0] and all(rows == names[0] for rows in names),
        f"plot_map() takes panels with the same rows, not {brief(names)}",
    )
    figure, grid = new_figure(
        9.0, AROUND + CELL * len(names[0]), ncols=len(panels), sharey=True, squeeze=False
    )
    colors = dict(zip(kinds, KIND_COLORS, strict=False))
    for axes, (panel, rows) in zip(grid[0], panels.items(), strict=True):
        draw_squares(axes, rows, colors)
        axes.set_title(panel, fontsize=9, fontweight="normal", pad=5)
        axes.set_xlabel(xlabel, fontsize=9)
    handles = samples_of(panels, colors, note)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8,
                  handlelength=1.0, columnspacing=1.2)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return Picture(figure, f"{title}. {describe_rows(panels)}".strip(". "))


def samples_of(panels, colors, note) -> list:
    """Return the legend's samples: kinds that occur, in their strongest colour, and "pale"."""
    cells = [cell for rows in panels.values() for row in rows.values() for cell in row.values()]
    handles = []
    for kind in [*colors, *dict.fromkeys(kind for kind, *_ in cells if kind not in colors)]:
        sure = [is_sure for other, _, is_sure in cells if other == kind]
        if sure:
            handles.append(sample(facecolor=color_of(kind, colors, any(sure)), label=kind))
    if note and not all(is_sure for *_, is_sure in cells):
        handles.append(sample(facecolor="none", edgecolor=EDGE, label=f"pale: {note}"))
    return handles


def color_of(kind, colors, is_sure) -> str:
    """Return the colour of a kind, paler if unsure, or grey for a kind without a colour."""
    color = colors.get(kind, GREY)
    return color if is_sure or kind not in colors else tint(color, PALE)


def draw_squares(axes, rows, colors):
    """Draw one panel: a coloured square with its text for each row and column.

    rows    {row: {column: (kind, text, whether that is certain)}}
    colors  {kind: colour}
    """
    columns = list(next(iter(rows.values())))
    longest = max(len(text) for row in rows.values() for _, text, _ in row.values())
    for y, row in enumerate(rows.values()):
        for x, (kind, text, is_sure) in enumerate(row.values()):
            color = color_of(kind, colors, is_sure)
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor=WHITE))
            size = SMALL if longest > SHORT else LARGE
            axes.text(x, y, text, fontsize=size, color=label_ink(color), **CENTERED)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.tick_params(length=0)
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)


def describe_rows(panels) -> str:
    """Describe each row in words, its kinds in the order of the columns."""
    return "; ".join(
        f"{panel}, {name}: " + ", ".join(f"{column} {kind}" for column, (kind, *_) in row.items())
        for panel, rows in panels.items()
        for name, row in rows.items()
    )
