# Built from chapters/ch08_pipeline_parallel/labs/block_pictures.py by `make build`.
"""The picture of a block: what a rank computes, and what it sends meanwhile."""

from matplotlib.patches import Patch
from overlapped_blocks import length_of

from pedagogy_lib.pictures.schedule_pictures import color_of
from pedagogy_lib.pictures.style import (
    COLORS,
    Picture,
    label_ink,
    new_figure,
    tint,
    use_course_style,
)

ROWS = {False: "computes", True: "sends"}
SHORT = {"attention": "att", "MLP": "MLP", "dispatch": "disp", "combine": "comb"}
MESSAGE = {"F": COLORS["communication"], "I": tint(COLORS["communication"], 0.55)}
LABELS = {"F": "forward", "I": "backward, inputs", "W": "backward, weights"}
ROW_INCHES, HEAD_INCHES, HIGH = 0.34, 0.42, 0.44


@use_course_style
def plot_blocks(ways, title="") -> Picture:
    """Draw runs of `run_pieces`, {name: run}: a row of computing and one of messages for each."""
    longest = max(map(length_of, ways.values()))
    height = len(ways) * (2 * ROW_INCHES + HEAD_INCHES)
    figure, grid = new_figure(7.5, height + 0.9, nrows=len(ways), squeeze=False, sharex=True)
    for axes, (name, run) in zip(grid[:, 0], ways.items()):
        draw_run(axes, run)
        axes.set_title(f"{name}: {length_of(run):g}", fontsize=9.5, pad=4)
    grid[-1, 0].set(xlim=(0, longest), xlabel="time (a piece of computing takes 1)")
    figure.legend(handles=patches(), loc="outside upper right", ncols=3, fontsize=8.5)
    said = "; ".join(f"{name} takes {length_of(run):g}" for name, run in ways.items())
    return Picture(figure, f"{title or 'Computing and messages of a block'}. {said}")


def draw_run(axes, run):
    axes.axvspan(0, length_of(run), facecolor=COLORS["idle"], zorder=0)
    axes.set_ylim(1.5, -0.5)
    axes.set_yticks([0, 1], list(ROWS.values()))
    axes.grid(False)
    for _, piece, begin, end in run:
        color = MESSAGE[piece.kind] if piece.sends else color_of(piece.kind, 0)
        looks = {"facecolor": color, "edgecolor": "white", "linewidth": 0.5}
        axes.broken_barh([(begin, end - begin)], (piece.sends - HIGH, 2 * HIGH), **looks)
        place = (begin + end) / 2, int(piece.sends)
        axes.text(*place, SHORT[piece.name], fontsize=6, color=label_ink(color), ha="center",
                  va="center_baseline", clip_on=True)  # fmt: skip


def patches() -> list[Patch]:
    named = [Patch(color=color_of(kind, 0), label=label) for kind, label in LABELS.items()]
    return [
        *named,
        Patch(color=MESSAGE["F"], label="all-to-all, forward"),
        Patch(color=MESSAGE["I"], label="all-to-all, backward"),
    ]
