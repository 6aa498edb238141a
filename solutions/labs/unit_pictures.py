# Built from chapters/ch06_zero/labs/unit_pictures.py by `make build`.
"""The picture of a frame of a `UnitFilm`: which rank holds which chunks of which units.

It is separate from the film's own file, so that ranks need not import matplotlib.
"""

from itertools import groupby
from typing import NamedTuple

from matplotlib.patches import Rectangle

from pedagogy_lib.basics.units import short_bytes
from pedagogy_lib.pictures.frame_pictures import (
    describe_ranks,
    frame_of,
    frames_of,
    headings,
    last_number,
    legend,
    title_of,
)
from pedagogy_lib.pictures.legends import sample
from pedagogy_lib.pictures.style import (
    CENTERED,
    COLORS,
    EDGE,
    INK,
    MUTED,
    Picture,
    label_ink,
    new_figure,
    tint,
    use_course_style,
)

WIDTH = 9.0  # this and all that follow are inches
LEFT, RIGHT = 1.4, 6.95  # edges of the units
SPACE = 0.16  # between units
ROW, LINE, HIGH = 0.75, 0.3, 0.21  # a rank; from its parameters to its gradients; height of a box
ABOVE = (ROW - LINE - HIGH) / 2  # the space above a rank's parameters
BAR_LEFT, BAR_WIDTH = 7.2, 1.15
GAP = 0.025  # between boxes, if they are not too small for that
BOX_FOR_NUMBER = 0.11  # the narrowest box that shows its number
LETTER = 0.088  # about the width of a bold letter

CHUNK_COLORS = {
    "travelling": COLORS["communication"],
    "held": COLORS["parameters"],
    "updated": COLORS["optimizer_state"],
}
OWN_COLOR, MEAN_COLOR = tint(COLORS["gradients"], 0.5), COLORS["gradients"]
BOX_COLORS = {
    "parameters held": CHUNK_COLORS["held"],
    "travelling": CHUNK_COLORS["travelling"],
    "updated": CHUNK_COLORS["updated"],
    "gradients of its own samples": OWN_COLOR,
    "mean gradients": MEAN_COLOR,
    "not here": "white",
}


class Fill(NamedTuple):
    """A colour in a part of a box, from 0 to 1."""

    start: float
    end: float
    color: str


@use_course_style
def plot_units(films, number) -> Picture:
    """Plot a frame of a step: ranks are rows, units are columns of n boxes for their n chunks.

    The upper boxes are the parameters that the rank holds of the unit, the lower ones gradients.
    What has changed since the previous frame is outlined. Each rank goes at its own pace; frames
    belong together by their number.

    films   a `UnitFilm` of every rank
    number  the number of the frame, from 1 on; a rank that has fewer shows its last one
    """
    last = last_number(films, number, "plot_units()")
    width = (RIGHT - LEFT + SPACE) / len(films[0].names) - SPACE
    lefts = [LEFT + k * (width + SPACE) for k in range(len(films[0].names))]
    names = headings(films[0].names, characters=int((width + SPACE) / LETTER))
    top = 0.46 + 0.17 * names[0].count("\n")
    figure, axes = new_figure(WIDTH, 0.95 + top + ROW * len(films))
    most = max(most_bytes(film) for film in films)
    draw_columns(axes, films, number, names, lefts, width, top)
    for rank, film in enumerate(films):
        draw_rank(axes, rank, film, number, lefts, width)
        draw_bytes(axes, rank, film, frame_of(film, number), BAR_WIDTH / most)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(ROW * len(films), -top)
    axes.axis("off")
    title = title_of(films, number, last)
    axes.set_title(title)
    samples = {name: sample(**looks_of(color) | {"lw": 0.4}) for name, color in BOX_COLORS.items()}
    legend(figure, samples, "boxes: the chunks of a unit; chunk k belongs to rank k")
    return Picture(figure, f"{title}. {describe_units(films, number)}")


def most_bytes(film) -> int:
    """Return the bytes of the longest bar in all frames, including that of a whole model."""
    frames = [max(frame.parameter_bytes, frame.gradient_bytes) for frame in film.frames]
    return max(*frames, sum(film.unit_bytes))


def draw_columns(axes, films, number, names, lefts, width, top):
    """Draw the names and sizes of the units, and highlight the one that the frame is about."""
    about = frame_of(films[0], number).about
    is_one = len(about) < len(names)
    small = {"ha": "center", "va": "bottom", "fontsize": 8, "color": MUTED}
    for k, (name, left) in enumerate(zip(names, lefts)):
        stands_out, middle = is_one and k in about, left + width / 2
        if stands_out:
            size = width + SPACE, top + ROW * len(films)
            corner = left - SPACE / 2, -top
            axes.add_patch(Rectangle(corner, *size, facecolor=COLORS["idle"], lw=0))
        looks = {"fontsize": 9.5, "weight": "bold" if stands_out else "normal"}
        axes.text(middle, -0.2, name, ha="center", va="bottom", linespacing=1.1, **looks)
        axes.text(middle, -0.05, short_bytes(films[0].unit_bytes[k]), **small)
    axes.text(BAR_LEFT, -0.2, "bytes now", va="bottom", fontsize=9.5)
    axes.text(BAR_LEFT, -0.05, "line: a whole model", va="bottom", fontsize=8, color=MUTED)


def draw_rank(axes, rank, film, number, lefts, width):
    """Draw two lines of boxes per unit, and outline what differs from the previous frame."""
    top = ROW * rank
    axes.text(0.0, top + ROW / 2, f"rank {rank}", va="center", fontsize=10)
    for line, name in enumerate(("parameters", "gradients")):
        middle = top + ABOVE + LINE * line + HIGH / 2
        axes.text(LEFT - 0.1, middle, name, ha="right", va="center", fontsize=8, color=MUTED)
    frame = frame_of(film, number)
    before = film.frames[number - 2] if 1 < number <= len(film.frames) else frame
    for unit, left in enumerate(lefts):
        for line, boxes_of in enumerate((parameter_boxes, gradient_boxes)):
            boxes, former = boxes_of(film, frame, unit), boxes_of(film, before, unit)
            changed = [now != then for now, then in zip(boxes, former)]
            draw_boxes(axes, left, top + ABOVE + LINE * line, width / film.n, boxes, changed)


def parameter_boxes(film, frame, unit) -> list[list[Fill]]:
    states = frame.units[unit].chunks
    return [[] if s == "absent" else [Fill(0, 1, CHUNK_COLORS[s])] for s in states]


def gradient_boxes(film, frame, unit) -> list[list[Fill]]:
    """Return boxes with each gradient at its parameter's place, and the shard's gradient."""
    held, chunk = frame.units[unit], film.elements[unit] / film.n
    boxes, start = [[] for _ in range(film.n)], 0
    for size, has_gradient in zip(film.sizes[unit], map(bool, held.gradient_bytes)):
        for k in range(film.n if has_gradient else 0):
            part = max(start / chunk - k, 0), min((start + size) / chunk - k, 1)
            if part[0] < part[1]:
                boxes[k].append(Fill(*part, OWN_COLOR))
        start += size
    if held.shard_gradient_bytes:
        boxes[film.rank].append(Fill(0, 1, MEAN_COLOR))
    return boxes


def looks_of(color) -> dict:
    """Return a box's style; a rank's own gradients are hatched, as a pale tone is easily missed."""
    if color == OWN_COLOR:
        return {"facecolor": color, "edgecolor": MEAN_COLOR, "hatch": "/////", "lw": 0}
    return {"facecolor": color, "edgecolor": EDGE, "lw": 0}


def draw_boxes(axes, left, top, width, boxes, changed):
    """Draw boxes side by side with their numbers, and outline those that have changed."""
    gap = min(GAP, 0.15 * width)
    for k, fills in enumerate(boxes):
        left_edge, inner = left + k * width + gap / 2, width - gap
        ground = {"facecolor": "white", "edgecolor": EDGE, "lw": 0.7}
        axes.add_patch(Rectangle((left_edge, top), inner, HIGH, **ground))
        for fill in fills:
            corner, part = (left_edge + fill.start * inner, top), (fill.end - fill.start) * inner
            axes.add_patch(Rectangle(corner, part, HIGH, **looks_of(fill.color)))
        if width > BOX_FOR_NUMBER:
            looks = {"fontsize": 7.5, "color": label_ink(fills[-1].color) if fills else MUTED}
            axes.text(left_edge + inner / 2, top + 0.53 * HIGH, str(k), **CENTERED, **looks)
    outline_changed(axes, left, top, width, changed)


def outline_changed(axes, left, top, width, changed):
    """Draw one outline around each run of adjacent boxes that have changed."""
    for has_changed, run in groupby(range(len(changed)), key=changed.__getitem__):
        if has_changed:
            first, *others = run
            corner = left + first * width - GAP / 2, top - GAP
            size = (1 + len(others)) * width + GAP, HIGH + 2 * GAP
            axes.add_patch(Rectangle(corner, *size, facecolor="none", edgecolor=INK, lw=1.6))


def draw_bytes(axes, rank, film, frame, inches_per_byte):
    """Draw a small bar for the parameters and one for the gradients."""
    whole = sum(film.unit_bytes) * inches_per_byte
    bars = (frame.parameter_bytes, "parameters"), (frame.gradient_bytes, "gradients")
    for line, (count, kind) in enumerate(bars):
        middle = ROW * rank + ABOVE + LINE * line + HIGH / 2
        axes.barh(middle, whole, 0.7 * HIGH, BAR_LEFT, color=COLORS["idle"])
        axes.barh(middle, count * inches_per_byte, 0.7 * HIGH, BAR_LEFT, color=COLORS[kind])
        ends = [middle - 0.5 * HIGH, middle + 0.5 * HIGH]
        axes.plot([BAR_LEFT + whole] * 2, ends, color=INK, lw=1.2)
        right = BAR_LEFT + BAR_WIDTH + 0.06
        axes.text(right, middle, short_bytes(count), va="center", fontsize=8.5)


def describe_units(films, number) -> str:
    """Return a text that says what the boxes show."""
    frames = frames_of(films, number)
    texts = []
    for film, frame in zip(films, frames):
        units = [f"{name}: {describe_unit(held)}" for name, held in zip(film.names, frame.units)]
        texts.append(
            f" has {short_bytes(frame.parameter_bytes)} of parameters and "
            f"{short_bytes(frame.gradient_bytes)} of gradients. {'; '.join(units)}"
        )
    return describe_ranks(frames, texts)


def describe_unit(held) -> str:
    """Describe a unit, as in `parameters 0, 1 held, 2 absent, mean gradient of its chunk 10 B`."""
    states = {}
    for chunk, state in enumerate(held.chunks):
        states.setdefault(state, []).append(str(chunk))
    parts = [f"{', '.join(chunks)} {state}" for state, chunks in states.items()]
    if any(held.gradient_bytes):
        parts.append(f"gradients of its samples {short_bytes(sum(held.gradient_bytes))}")
    if held.shard_gradient_bytes:
        parts.append(f"mean gradient of its chunk {short_bytes(held.shard_gradient_bytes)}")
    return f"parameters {', '.join(parts)}"
