"""Drawings that explain; nothing in them is measured."""

from matplotlib.patches import Rectangle

from .style import COLORS, INK, Picture, in_course_style, new_figure

SAMPLES, LAYERS = 32, 32
BATCH, MODEL = COLORS["gradients"], COLORS["parameters"]
EDGE, MACHINE, GREY = "#9A9A9A", "#F1F1F1", "#555555"


@in_course_style
def draw_three_splits(ranks=4) -> Picture:
    """What each rank holds when the batch, each layer, or the stack of layers is split.

    ranks  a divisor of 32
    """
    figure, grid = new_figure(9.6, 1.0 + 0.55 * ranks, ncols=3, sharey=True)
    samples, layers = SAMPLES // ranks, LAYERS // ranks
    part = 1 / ranks
    panels = (
        ("Data parallel", f"{samples} of {SAMPLES} samples, whole model",
         lambda rank: ((rank * part, part), (0, 1), (0, 1))),
        ("Tensor parallel", f"all samples, 1/{ranks} of every layer",
         lambda rank: ((0, 1), (0, 1), (rank * part, part))),
        ("Pipeline parallel", f"all samples, {layers} of {LAYERS} layers",
         lambda rank: ((0, 1), (rank * part, part), (0, 1))),
    )  # fmt: skip
    for axes, (name, note, share) in zip(grid, panels, strict=True):
        for rank in range(ranks):
            draw_share(axes, rank, ranks, *share(rank))
        bare(axes, (-1.7, 12.6), (ranks - 0.4, -1.4))
        axes.text(0, -1.22, name, weight="bold", fontsize=11)
        axes.text(0, -0.8, note, fontsize=9, color=GREY)
        axes.text(0.5, -0.46, "batch", fontsize=7.5, color=GREY, ha="center")
        axes.text(7.2, -0.46, "model", fontsize=7.5, color=GREY, ha="center")
    for rank in range(ranks):
        grid[0].text(-0.35, rank, f"rank {rank}", ha="right", va="center", fontsize=9)
    described = "; ".join(f"{name}: {note}" for name, note, _ in panels)
    return Picture(figure, f"What each of {ranks} ranks holds. {described}.")


def draw_share(axes, rank, ranks, batch, layers, width):
    """One row: batch on the left, model on the right; what this rank holds is filled.

    batch, layers, width  (start, length) of what it holds, as fractions of the whole
    """
    top, height = rank - 0.36, 0.72
    outlined(axes, 0, top, 1, height)
    filled(axes, 0, top + batch[0] * height, 1, batch[1] * height, BATCH)
    for group in range(ranks):
        left, slot = 2 + group * 10.4 / ranks, 10.0 / ranks
        outlined(axes, left, top, slot, height)
        if layers[0] <= group / ranks < layers[0] + layers[1]:
            filled(axes, left, top + width[0] * height, slot, width[1] * height, MODEL)


@in_course_style
def draw_clusters(layouts=((4, 1), (1, 4), (2, 2))) -> Picture:
    """Clusters of (machines, GPUs in each), with the rank and local rank of every GPU."""
    figure, grid = new_figure(9.6, 2.6, ncols=len(layouts))
    for axes, (machines, gpus) in zip(grid, layouts, strict=True):
        for machine in range(machines):
            draw_machine(axes, machine, gpus)
        bare(axes, (-0.1, 4.3), (4.4, -0.5))
        axes.set_title(f"{counted(machines, 'node')} × {counted(gpus, 'GPU')}")
    alt = "; ".join(
        f"{counted(machines, 'node')} with {counted(gpus, 'GPU')} each: ranks 0 to "
        f"{machines * gpus - 1}, local ranks 0 to {gpus - 1} on every node"
        for machines, gpus in layouts
    )
    return Picture(figure, alt)


def draw_machine(axes, machine, gpus):
    """One machine is a grey row; each of its GPUs a box that says who runs there."""
    axes.add_patch(Rectangle((0, machine), gpus * 1.05, 0.9, facecolor=MACHINE, edgecolor=EDGE))
    for local_rank in range(gpus):
        left = 0.08 + local_rank * 1.02
        filled(axes, left, machine + 0.08, 0.94, 0.74, MODEL)
        rank = machine * gpus + local_rank
        text = f"RANK {rank}\nlocal {local_rank}"
        axes.text(left + 0.47, machine + 0.45, text, ha="center", va="center", color="white",
                  fontsize=7.5)  # fmt: skip


@in_course_style
def draw_scaling() -> Picture:
    """Two ways to grow a machine with one GPU of 4 GB: a larger GPU, or more of the same."""
    figure, grid = new_figure(9.6, 2.4, ncols=3)
    panels = (
        ("Start", [(0, 0, 1, "4 GB")]),
        ("Vertical: one larger machine", [(0, 0, 8**0.5, "32 GB")]),
        ("Horizontal: 4 machines × 2 GPUs",
         [(2.5 * (i // 2 % 2) + 1.1 * (i % 2), 1.4 * (i // 4), 1, "4 GB") for i in range(8)]),
    )  # fmt: skip
    frames = [(2.5 * column - 0.1, 1.4 * row - 0.1) for column in (0, 1) for row in (0, 1)]
    for axes, (title, boxes) in zip(grid, panels, strict=True):
        for left, top in frames if len(boxes) > 1 else ():
            axes.add_patch(Rectangle((left, top), 2.3, 1.2, facecolor=MACHINE, edgecolor=EDGE))
        for left, top, side, text in boxes:
            filled(axes, left, top, side, side, MODEL)
            axes.text(left + side / 2, top + side / 2, text, ha="center", va="center",
                      color="white", fontsize=9)  # fmt: skip
        bare(axes, (-0.1, 5), (3, -0.2))
        axes.set_aspect("equal", anchor="NW")
        axes.set_title(title)
    return Picture(
        figure,
        "GPU memory as area. Start: one GPU of 4 GB. Vertical scaling: one machine with 32 GB. "
        "Horizontal scaling: four machines with two GPUs of 4 GB each, 32 GB in eight pieces.",
    )


def counted(number, noun) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def outlined(axes, left, top, width, height):
    axes.add_patch(Rectangle((left, top), width, height, facecolor="white", edgecolor=EDGE, lw=0.8))


def filled(axes, left, top, width, height, color):
    axes.add_patch(Rectangle((left, top), width, height, facecolor=color, edgecolor=INK, lw=0.3))


def bare(axes, x_range, y_range):
    """Only the drawing: no axes, no grid."""
    axes.set_xlim(*x_range)
    axes.set_ylim(*y_range)
    axes.axis("off")
