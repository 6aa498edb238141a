# Built from chapters/ch00_start_here/labs/splitting_diagrams.py by `make build`.
"""Explanatory drawings of how work is split over ranks; nothing in them is measured."""

from matplotlib.patches import Patch, Rectangle

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    CYCLE,
    EDGE,
    FAINT,
    GROUND,
    MUTED,
    Picture,
    bare,
    label_ink,
    new_figure,
    use_course_style,
)

SAMPLES, LAYERS = 32, 32
MODEL, BATCH, GPU = COLORS["parameters"], CYCLE[1], CYCLE[0]
HELD = {
    "samples that the rank takes": BATCH,
    "parameters that it holds": MODEL,
    "what other ranks take or hold": "white",
}


@use_course_style
def draw_three_splits(ranks=4) -> Picture:
    """Draw each rank's share when the batch, each layer, or the stack of layers is split.

    ranks   1 to 32; if it does not divide 32, the first ranks hold one sample or layer more
    Raises  LaunchError if ranks is not a whole number from 1 to 32
    """
    is_whole = isinstance(ranks, int) and 1 <= ranks <= LAYERS
    need(is_whole, f"ranks is a whole number from 1 to {LAYERS}, not {ranks!r}")
    splits = three_splits(ranks)
    figure, grid = new_figure(9.6, 1.3 + 0.55 * ranks, ncols=3, sharey=True)
    for axes, (name, note, share) in zip(grid, splits, strict=True):
        for rank in range(ranks):
            draw_share(axes, rank, *share(rank))
        bare(axes, (-1.7, 12.6), (ranks - 0.5, -1.4))
        write_heads(axes, name, note)
    for rank in range(ranks):
        grid[0].text(-0.35, rank, f"rank {rank}", ha="right", va="center", fontsize=9)
    patches = [Patch(facecolor=color, edgecolor=EDGE, label=name) for name, color in HELD.items()]
    figure.legend(handles=patches, loc="outside lower left", ncols=3)
    described = "; ".join(f"{name}: {note}" for name, note, _ in splits)
    return Picture(figure, f"What each of {format_count(ranks, 'rank')} holds. {described}.")


def three_splits(ranks) -> list[tuple]:
    """Return (name, note, function from a rank to the shares for `draw_share`) of each split."""
    parts = pieces(SAMPLES, ranks)
    few = " or ".join(str(size) for size in sorted({size for _, size in parts}))
    of_each = f"1/{ranks} of every layer" if ranks > 1 else "every layer"
    batch, model, layer = (0, SAMPLES), (0, LAYERS), (0, 1)  # undivided

    def data_parallel(rank):
        return parts[rank], model, layer

    def tensor_parallel(rank):
        return batch, model, (rank / ranks, 1 / ranks)

    def pipeline_parallel(rank):
        return batch, parts[rank], layer

    return [
        ("Data parallel", f"{few} of {SAMPLES} samples, whole model", data_parallel),
        ("Tensor parallel", f"all samples, {of_each}", tensor_parallel),
        ("Pipeline parallel", f"all samples, {few} of {LAYERS} layers", pipeline_parallel),
    ]


def write_heads(axes, name, note):
    axes.text(0, -1.22, name, weight="bold", fontsize=11)
    axes.text(0, -0.8, note, fontsize=9, color=MUTED)
    axes.text(0.5, -0.46, "batch", fontsize=7.5, color=MUTED, ha="center")
    axes.text(7.2, -0.46, f"model: {LAYERS} layers", fontsize=7.5, color=MUTED, ha="center")


def pieces(number, ranks) -> list[tuple[int, int]]:
    """Return the (first index, size) of each rank's piece, with sizes as even as possible."""
    size, more = divmod(number, ranks)
    return [(rank * size + min(rank, more), size + (rank < more)) for rank in range(ranks)]


def draw_share(axes, rank, samples, layers, width):
    """Draw a rank's row, the batch left and the model right, with the rank's shares filled in.

    samples, layers  (first, how many) that the rank holds
    width            (start, length) of its part of each layer, as fractions of the layer
    """
    top, height, column = rank - 0.36, 0.72, 10.4 / LAYERS
    outline_box(axes, 0, top, 1, height)
    start, length = (number / SAMPLES for number in samples)
    fill_box(axes, 0, top + start * height, 1, length * height, BATCH)
    outline_box(axes, 2, top, 10.4, height)
    left, part_top = 2 + layers[0] * column, top + width[0] * height
    fill_box(axes, left, part_top, layers[1] * column, width[1] * height, MODEL)
    between = [2 + layer * column for layer in range(1, LAYERS)]
    axes.vlines(between, top, top + height, color=FAINT, lw=0.5)


@use_course_style
def draw_clusters(layouts=((4, 1), (1, 4), (2, 2))) -> Picture:
    """Draw clusters of (nodes, GPUs per node), with the rank and local rank of every GPU."""
    figure, axes = new_figure(8.6, 0.2 + 0.95 * len(layouts))
    for row, (nodes, gpus) in enumerate(layouts):
        name = f"{format_count(nodes, 'node')} × {format_count(gpus, 'GPU')}"
        axes.text(-0.15, row + 0.43, name, ha="right", va="center", weight="bold", fontsize=11)
        for node in range(nodes):
            draw_node(axes, row, node, gpus)
    most = max(nodes * gpus for nodes, gpus in layouts)
    bare(axes, (-1.35, most - 0.04), (len(layouts) - 0.12, -0.02))
    alt = "; ".join(
        f"{format_count(nodes, 'node')} with {format_count(gpus, 'GPU')} each: ranks 0 to "
        f"{nodes * gpus - 1}, local ranks 0 to {gpus - 1} on every node"
        for nodes, gpus in layouts
    )
    return Picture(figure, alt)


def draw_node(axes, row, node, gpus):
    """Draw a node as a grey frame, with a box for each GPU that names its rank and local rank."""
    left, width, margin = node * gpus, gpus - 0.06, 0.06
    frame_box(axes, left, row, width, 0.86)
    axes.text(left + margin, row + 0.14, f"node {node}", va="center", fontsize=8, color=MUTED)
    box = (width - margin) / gpus - margin
    for local_rank in range(gpus):
        at = left + margin + local_rank * (box + margin)
        fill_box(axes, at, row + 0.27, box, 0.5, GPU)
        text = f"RANK {node * gpus + local_rank}\nLOCAL_RANK {local_rank}"
        axes.text(at + box / 2, row + 0.52, text, **CENTERED, fontsize=8, color=label_ink(GPU))


@use_course_style
def draw_scaling() -> Picture:
    """Draw two ways to grow a machine with one GPU of 4 GB: a larger GPU, or more such GPUs."""
    figure, axes = new_figure(8.6, 3.0)
    places = ((0, "Start"), (1.95, "Vertical: a larger GPU"), (5.75, "Horizontal: more GPUs"))
    for left, title in places:
        axes.text(left, -0.2, title, weight="bold", fontsize=11)
    draw_gpus(axes, places[0][0], 0, 1, 4)
    draw_gpus(axes, places[1][0], 0, 1, 32)
    for machine in range(4):
        draw_gpus(axes, places[2][0] + 2.75 * (machine % 2), 1.83 * (machine // 2), 2, 4)
    bare(axes, (-0.03, 10.9), (3.3, -0.5))
    axes.set_aspect("equal", anchor="NW")
    return Picture(
        figure,
        "GPU memory as area. Start: one machine with one GPU of 4 GB. Vertical scaling: one "
        "machine with one GPU of 32 GB. Horizontal scaling: four machines with two GPUs of 4 GB "
        "each, 32 GB in eight pieces.",
    )


def draw_gpus(axes, left, top, gpus, gigabytes):
    """Draw a machine with its GPUs, whose areas show their memory: 1 by 1 is 4 GB."""
    side, margin = (gigabytes / 4) ** 0.5, 0.12
    frame_box(axes, left, top, margin + gpus * (side + margin), side + 0.32 + margin)
    axes.text(left + margin, top + 0.17, "machine", va="center", fontsize=8, color=MUTED)
    for gpu in range(gpus):
        at = left + margin + gpu * (side + margin)
        fill_box(axes, at, top + 0.32, side, side, GPU)
        looks = CENTERED | {"fontsize": 9, "color": label_ink(GPU)}
        axes.text(at + side / 2, top + 0.32 + side / 2, f"{gigabytes} GB", **looks)


def frame_box(axes, left, top, width, height):
    axes.add_patch(Rectangle((left, top), width, height, facecolor=GROUND, edgecolor=EDGE))


def outline_box(axes, left, top, width, height):
    axes.add_patch(Rectangle((left, top), width, height, facecolor="white", edgecolor=EDGE, lw=0.8))


def fill_box(axes, left, top, width, height, color):
    axes.add_patch(Rectangle((left, top), width, height, facecolor=color, lw=0))
