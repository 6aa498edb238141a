# Built from chapters/ch03_data_parallel/labs/step_pictures.py by `make build`.
"""Pictures of the frames of a `StepFilm`: the state of each gradient on each rank.

They are not in the film's own file, so that ranks need not import matplotlib.
"""

from itertools import groupby, pairwise

from matplotlib.patches import Rectangle
from step_films import STATES, Frame

from pedagogy_lib.basics.units import two_digits
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
    INK,
    MUTED,
    Picture,
    label_ink,
    new_figure,
    use_course_style,
)

# Each state has the colour of the work that brings a parameter into it.
KINDS = ("idle", "forward", "backward", "communication", "gradients", "optimizer_state")
STATE_COLORS = {state: COLORS[kind] for state, kind in zip(STATES, KINDS, strict=True)}
WIDTH, ROW_INCHES = 9.0, 0.46
SPACE = 0.16  # gap between buckets, in widths of a cell
PAD = 0.04


@use_course_style
def plot_step(films, number) -> Picture:
    """Plot a frame of a step, with ranks as rows and parameters as columns, in model order.

    A cell's colour is the parameter's state, and its number is the first element of its gradient.
    Cells that have changed since the previous frame are outlined. Each rank goes at its own pace,
    and frames with the same number are shown together.

    films   a `StepFilm` of every rank
    number  which frame, from 1 on; a rank with fewer frames shows its last one
    """
    last = last_number(films, number, "plot_step()")
    places = places_of(films[0].buckets)
    names = headings(films[0].names, characters=int((WIDTH - 0.8) / (places[-1] + 1) / 0.075))
    top = 0.5 + 0.3 * names[0].count("\n")  # height of the names, in heights of a row
    figure, axes = new_figure(WIDTH, 1.05 + ROW_INCHES * (len(films) + top + 0.5))
    for rank, film in enumerate(films):
        axes.text(-0.12, rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=10)
        draw_row(axes, rank, places, frame_of(film, number), film.frames[: number - 1])
    for name, x in zip(names, places, strict=True):
        axes.text(x + 0.5, -0.08, name, ha="center", va="bottom", fontsize=8.5, linespacing=1.1)
    draw_brackets(axes, places, films[0].buckets, top)
    axes.set_xlim(-0.02, max(places[-1] + 1, 4) + 0.02)
    axes.set_ylim(len(films) + 0.05, -top - 0.45)
    axes.axis("off")
    title = title_of(films, number, last)
    axes.set_title(title)
    legend(figure, samples(), "numbers: the first element of each gradient on that rank")
    return Picture(figure, f"{title}. {describe_frames(films, number)}")


def places_of(buckets) -> list[float]:
    """Return where each column begins, with a gap where a bucket ends."""
    places = [0.0]
    for before, bucket in pairwise(buckets):
        places.append(places[-1] + 1 + SPACE * (before != bucket))
    return places


def draw_row(axes, rank, places, frame, former):
    """Draw the cells of one rank, outlined where they differ from the previous frame."""
    before = former[-1] if former else Frame("", ["waiting"] * len(places), frame.gradients, [])
    for c, x in enumerate(places):
        state, gradient = frame.states[c], frame.gradients[c]
        has_changed = (state, gradient) != (before.states[c], before.gradients[c])
        box = (x + PAD, rank + 0.07), 1 - 2 * PAD, 0.86
        # The colour may be dark, so a white line separates it from the outline.
        line = {"edgecolor": "white", "lw": 4.5 if has_changed else 0}
        axes.add_patch(Rectangle(*box, facecolor=STATE_COLORS[state], **line))
        if has_changed:
            axes.add_patch(Rectangle(*box, facecolor="none", edgecolor=INK, lw=1.6))
        text = "–" if gradient is None else two_digits(gradient)
        looks = {"color": ink_on(state), "fontsize": min(10, 96 / len(places))}
        axes.text(x + 0.5, rank + 0.52, text, **CENTERED, **looks)


def ink_on(state) -> str:
    return MUTED if state == "waiting" else label_ink(STATE_COLORS[state])


def draw_brackets(axes, places, buckets, top):
    """Draw brackets above the columns that travel together."""
    for bucket, group in groupby(range(len(places)), key=buckets.__getitem__):
        columns = [places[c] for c in group]
        if bucket is not None:
            left, right = columns[0] + PAD, columns[-1] + 1 - PAD
            line = [-top + 0.1, -top, -top, -top + 0.1]
            axes.plot([left, left, right, right], line, color=INK, lw=1)
            looks = {"ha": "center", "va": "bottom", "fontsize": 9}
            axes.text((left + right) / 2, -top - 0.07, f"bucket {bucket}", **looks)


def samples() -> dict[str, Rectangle]:
    patches = {state: sample(facecolor=color) for state, color in STATE_COLORS.items()}
    patches["waiting"].set(edgecolor=MUTED, lw=0.4)  # hardly visible otherwise at this size
    return patches


def describe_frames(films, number) -> str:
    """Describe the cells of all ranks in words."""
    frames = frames_of(films, number)
    texts = [describe_row(film.names, frame) for film, frame in zip(films, frames)]
    return describe_ranks(frames, [f": {text}" for text in texts])


def describe_row(names, frame) -> str:
    """Describe a rank's cells in words: `waiting a None; gradient ready b 0.50, c −1.0`."""
    cells = zip(frame.states, names, frame.gradients)
    return "; ".join(
        f"{state} {', '.join(f'{name} {number_or_none(g)}' for _, name, g in group)}"
        for state, group in groupby(cells, key=lambda cell: cell[0])
    )


def number_or_none(gradient) -> str:
    return "None" if gradient is None else two_digits(gradient)
