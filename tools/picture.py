"""Make the picture of README.md: one real training step on four ranks, and what was measured.

.venv/bin/python tools/picture.py
"""

import io
from pathlib import Path

import torch
import torch.distributed as dist
from PIL import Image
from torch import nn

from pedagogy_lib import launch, measure, plot_bytes, plot_memory, plot_timeline

ROOT = Path(__file__).resolve().parents[1]
WHITE, GAP = "#FFFFFF", 60


def train():
    """Two data-parallel steps by hand; the second is measured."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    optimizer = torch.optim.Adam(model.parameters())
    dist.barrier()
    step(model, optimizer)
    with measure("step"):
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
    with measure("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


def stacked(pictures) -> Image.Image:
    images = [Image.open(io.BytesIO(picture.png())).convert("RGB") for picture in pictures]
    size = max(i.width for i in images), sum(i.height + GAP for i in images) - GAP
    whole = Image.new("RGB", size, WHITE)
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height + GAP
    return whole


def main():
    launch(train)  # warms up
    run = launch(train)
    parts = ["forward", "backward", "all_reduce", "optimizer"]
    expected = 2 * 2 * 3 / 4 * run.values[0] * 4  # two steps, each a ring over the gradients
    pictures = [
        plot_timeline(run, parts, title="Two training steps on four ranks"),
        plot_bytes(run, "all_reduce", predicted=expected, title="What each rank sent in them"),
        plot_memory(run, "step", ranks=[0], title="Rank 0's memory in the second"),
    ]
    stacked(pictures).save(ROOT / "assets" / "first_look.png", optimize=True)


if __name__ == "__main__":
    main()
