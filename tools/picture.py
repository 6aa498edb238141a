"""Draw the picture of README.md: two real training steps on four ranks, and their measurements.

.venv/bin/python tools/picture.py
"""

import io
from pathlib import Path

import torch
import torch.distributed as dist
from matplotlib.patches import Patch
from PIL import Image
from torch import nn

from pedagogy_lib import launch, measure, plot_memory, plot_timeline
from pedagogy_lib.basics.units import format_bytes
from pedagogy_lib.pictures.legends import legend_above
from pedagogy_lib.pictures.rank_rows import (
    BAR,
    bytes_along,
    draw_predicted,
    finish,
    rank_rows,
    write_bytes,
)
from pedagogy_lib.pictures.style import COLORS, INK, Picture, colors_of, use_course_style

ROOT = Path(__file__).resolve().parents[1]
WHITE, GAP = "#FFFFFF", 20
WIDTH, HEIGHT = 10.6, 5.2  # inches, of the whole: a README shows it 400 pixels high
LAUNCHES = 5  # other programs disturb some of them
# "optimizer step" is not a kind of memory, so it does not get the colour of the optimizer state.
PARTS = ["forward", "backward", "all_reduce", "optimizer step"]


def train():
    """Run two data-parallel steps by hand, each begun by all ranks together; count parameters."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    optimizer = torch.optim.Adam(model.parameters())
    for number in (1, 2):
        dist.barrier()
        with measure(f"step {number}"):
            step(model, optimizer)
    return sum(p.numel() for p in model.parameters())


def step(model, optimizer):
    with measure("forward"):
        loss = model(torch.randn(256, 512)).square().mean()
    with measure("backward"):
        loss.backward()
    with measure("all_reduce"):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    with measure("optimizer step"):
        optimizer.step()
        optimizer.zero_grad()


@use_course_style
def timeline(run):
    """Draw the timeline with all parts in a legend, not in bars, and a line where a step begins."""
    picture = plot_timeline(run, PARTS)
    (axes,) = picture.figure.axes
    for text in list(axes.texts):
        text.remove()
    legend_above(axes, [Patch(color=color, label=name) for name, color in colors_of(PARTS).items()])
    axes.set_title("When each of four ranks computed and communicated", pad=28)
    axes.set_ylim(3.5, -1)
    start = min(span[0] for label in PARTS for spans in run[label].spans for span in spans)
    begins = [min(spans[0][0] for spans in run[f"step {number}"].spans) for number in (1, 2)]
    for number, begin in enumerate(begins, 1):
        at = max((begin - start) * 1e3, 0)
        axes.axvline(at, color=INK, linewidth=1, linestyle=(0, (5, 3)))
        axes.annotate(f"step {number}", (at, -0.72), (5, 0), va="center", fontsize=9, color=INK,
                      textcoords="offset points")  # fmt: skip
    return picture


@use_course_style
def bytes_sent(block, expected):
    """Draw the bytes that each rank sent in a block, and an outline of the expected bytes."""
    counts, ranks = block.sent_bytes, len(block.sent_bytes)
    figure, axes = rank_rows(ranks, extra=1.0)
    axes.barh(range(ranks), counts, BAR, color=COLORS["communication"], label=block.wire)
    write_bytes(axes, counts)
    draw_predicted(axes, [expected] * ranks, ranks, label="theory")
    bytes_along(axes, max(*counts, expected), f"sent by each rank ({{}}), {block.label}")
    finish(axes, "Bytes that each rank sent in both steps")
    told = ", ".join(map(format_bytes, counts))
    return Picture(figure, f"Bytes sent: {told}; theory {format_bytes(expected)}")


@use_course_style
def memory(run):
    picture = plot_memory(run, "step 2", ranks=[0])
    (axes,) = picture.figure.axes
    axes.set_title("Rank 0's memory during the second step")
    axes.set_xlabel("time since the step began (ms)")
    return picture


def draw_at_size(picture, width, height) -> Image.Image:
    """Redraw the picture in another size, in inches."""
    picture.figure.set_size_inches(width, height)
    return Image.open(io.BytesIO(picture.png())).convert("RGB")


def arrange_images(above, *below) -> Image.Image:
    """Put one image above others, which are next to each other."""
    top = above.height + GAP
    size = max(above.width, sum(i.width for i in below)), top + max(i.height for i in below)
    whole = Image.new("RGB", size, WHITE)
    whole.paste(above, (0, 0))
    left = 0
    for image in below:
        whole.paste(image, (left, top))
        left += image.width
    return whole


def main():
    run = min((launch(train, device="cpu") for _ in range(LAUNCHES)), key=lambda run: run.seconds)
    expected = 2 * 2 * 3 / 4 * run.values[0] * 4  # two steps, each a ring over the gradients
    sent = bytes_sent(run["all_reduce"], expected)
    half = WIDTH / 2, HEIGHT / 2
    whole = arrange_images(draw_at_size(timeline(run), WIDTH, HEIGHT / 2),
                     draw_at_size(sent, *half), draw_at_size(memory(run), *half))  # fmt: skip
    whole.save(ROOT / "assets" / "first_look.png", optimize=True)


if __name__ == "__main__":
    main()
