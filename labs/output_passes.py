# Built from chapters/ch08_pipeline_parallel/labs/output_passes.py by `make build`.
"""The picture of a pipeline whose ranks also compute parts of the output layer, S and T."""

from matplotlib.patches import Patch
from vocabulary_schedules import most_kept

from pedagogy_lib.pictures.schedule_pictures import color_of, draw_row, number_row
from pedagogy_lib.pictures.style import COLORS, Picture, new_figure, tint, use_course_style

PAINT = {"S": COLORS["activations"], "T": tint(COLORS["activations"], 0.5)}
ROW_INCHES, HEAD_INCHES, HIGH = 0.3, 0.5, 0.44
LABELS = {"S": "S, output layer", "T": "T, its weights"}


@use_course_style
def plot_output_passes(ways, title) -> Picture:
    """Draw each way, {name: (rows, spans in seconds)}, with S and T in a colour of their own."""
    longest = max(map(seconds_of, ways.values()))
    height = sum(ROW_INCHES * len(rows) + HEAD_INCHES for rows, _ in ways.values())
    figure, grid = new_figure(7.5, height + 0.9, nrows=len(ways), squeeze=False, sharex=True)
    for axes, (name, way) in zip(grid[:, 0], ways.items()):
        draw_way(axes, *way, longest)
        axes.set_title(f"{name}: {describe(way)}", fontsize=9.5, pad=4)
    grid[-1, 0].set(xlim=(0, 1e3 * longest), xlabel="time (ms); computing emulated")
    figure.legend(handles=patches(), loc="outside upper right", ncols=5, fontsize=8.5)
    return Picture(figure, f"{title}. " + "; ".join(f"{name}: {describe(way)}"
                                                    for name, way in ways.items()))  # fmt: skip


def seconds_of(way) -> float:
    return max(end for of_rank in way[1] for _, end in of_rank)


def describe(way) -> str:
    return f"{1e3 * seconds_of(way):,.0f} ms, keeps {most_kept(way[0])}"


def draw_way(axes, rows, spans, longest):
    axes.axvspan(0, 1e3 * seconds_of((rows, spans)), facecolor=COLORS["idle"], zorder=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(False)
    axes.set_yticks(range(len(rows)), [f"rank {rank}" for rank in range(len(rows))])
    for rank, (row, of_rank) in enumerate(zip(rows, spans)):
        pairs = list(zip(row, of_rank))
        plain = [pair for pair in pairs if pair[0].kind in "FB"]
        draw_row(axes, rank, *zip(*plain), 1e3)
        number_row(axes, rank, *zip(*plain), 1e3, longest)
        for kind, color in PAINT.items():
            bars = [(1e3 * a, 1e3 * (b - a)) for one, (a, b) in pairs if one.kind == kind]
            looks = {"facecolor": color, "edgecolor": "white", "linewidth": 0.5}
            axes.broken_barh(bars, (rank - HIGH, 2 * HIGH), **looks)


def patches() -> list[Patch]:
    named = {"forward": color_of("F", 0), "backward": color_of("B", 0)}
    named |= {LABELS[kind]: color for kind, color in PAINT.items()} | {"idle": COLORS["idle"]}
    return [Patch(color=color, label=name) for name, color in named.items()]
