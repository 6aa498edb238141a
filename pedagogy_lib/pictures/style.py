"""One look for the whole course: colours by kind, and figures that carry their own alt text."""

import functools
import io
from pathlib import Path

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("course.mplstyle")
DOTS_PER_INCH = 200  # drawn at twice the size it is shown at, for sharp screens
SHOWN_DOTS_PER_INCH = 100

# Distinct for every kind of colour vision (Okabe and Ito 2008; Tol 2021).
COLORS = {
    "parameters": "#0072B2",
    "gradients": "#E69F00",
    "optimizer_state": "#009E73",
    "activations": "#56B4E9",
    "communication": "#D55E00",
    "other": "#BDBDBD",
    "forward": "#332288",
    "backward": "#CC79A7",
    "idle": "#EFEFEF",
}
ALSO = {"optimizer": "optimizer_state", "update": "optimizer_state"}

CYCLE = ("#88A0B8", "#B8A488", "#8FB39A", "#A894B8", "#C4989C", "#9C9C9C")
COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
    "gather", "scatter", "send", "recv", "barrier",
)  # fmt: skip
INK = "#222222"


def colors_of(labels) -> dict[str, str]:
    """A colour for each label: the fixed one of its kind, else the next of a cycle."""
    free = iter(CYCLE * len(labels))
    return {label: COLORS.get(kind_of(label)) or next(free) for label in labels}


def kind_of(label: str) -> str:
    """The kind that a label names: every collective is communication."""
    is_collective = any(label == name or label.startswith(f"{name} ") for name in COLLECTIVES)
    return "communication" if is_collective else ALSO.get(label, label)


def label_ink(color: str) -> str:
    """Black or white, whichever reads better on `color`."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else INK


class Picture:
    """A figure with a description of what it shows, for readers that cannot see it."""

    def __init__(self, figure: Figure, alt: str):
        self.figure, self.alt = figure, alt

    def __repr__(self):
        return self.alt

    def png(self) -> bytes:
        buffer = io.BytesIO()
        with matplotlib.style.context(STYLE):
            self.figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": ""})
        return buffer.getvalue()

    def size(self) -> tuple[int, int]:
        """Width and height in pixels, as shown."""
        width, height = self.figure.get_size_inches() * SHOWN_DOTS_PER_INCH
        return round(width), round(height)

    def save(self, path):
        """Write a PNG file."""
        Path(path).write_bytes(self.png())

    def _repr_mimebundle_(self, include=None, exclude=None):
        width, height = self.size()
        hints = {"alt": self.alt, "width": width, "height": height}
        data = {"image/png": self.png(), "text/plain": self.alt}
        return data, {"image/png": hints}


def in_course_style(draw):
    """Decorate a function that draws, so that all it does is in the course's style."""

    @functools.wraps(draw)
    def styled(*args, **kwargs):
        with matplotlib.style.context(STYLE):
            return draw(*args, **kwargs)

    return styled


def new_figure(width=7.5, height=3.0, **grid):
    """A figure outside of pyplot's global state, and its axes."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**grid)
