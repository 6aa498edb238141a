"""One look for the whole course: colours by kind, and figures that carry their own alt text."""

import functools
import io
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec

import matplotlib.style
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from ..basics.errors import BriefError, WrongInput, need
from ..basics.screen import someone_watches
from ..basics.units import brief
from .picture_html import html_of

STYLE = Path(__file__).with_name("course.mplstyle")
FONT = "DejaVu Sans of Matplotlib"  # as course.mplstyle names it
DOTS_PER_INCH = 200  # drawn at twice the size it is shown at, for sharp screens
SHOWN_DOTS_PER_INCH = 100

# Distinct for every kind of colour vision (Okabe and Ito 2008; Tol 2021).
BLUE, ORANGE, GREEN, ROSE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILION, INDIGO, OLIVE, PURPLE = "#56B4E9", "#D55E00", "#332288", "#999933", "#AA4499"
RED, PALE_BLUE = "#B00020", "#9DB8D2"  # for errors and deaths; for heights

# From dark to light.
INK = "#222222"  # text, and outlines of what is predicted or new
MUTED = "#555555"  # text that says less
EDGE = "#9A9A9A"  # outlines
OTHER = "#BDBDBD"  # bytes of no known kind
GREY = "#CFCFCF"  # what is the same on every rank
FAINT = "#D5D5D5"  # lines in the background, and outlines of what does not exist
GROUND = "#EFEFEF"  # areas in the background
WHITE = "#FFFFFF"

COLORS = {
    "parameters": BLUE,
    "gradients": ORANGE,
    "input_gradients": PURPLE,
    "optimizer_state": GREEN,
    "activations": SKY,
    "communication": VERMILION,
    "other": OTHER,
    "forward": INDIGO,
    "backward": ROSE,
    "idle": GROUND,
}
ALSO = {"optimizer": "optimizer_state", "update": "optimizer_state"}
RANK_COLORS = (BLUE, ORANGE, GREEN, ROSE, SKY, VERMILION, INDIGO, OLIVE)
LINE_COLORS = (BLUE, VERMILION, GREEN, ROSE, ORANGE, INDIGO)
# For labels that name no kind.
CYCLE = ("#88A0B8", "#B8A488", "#8FB39A", "#A894B8", "#C4989C", "#9C9C9C")

# Calls of torch.distributed: all of them are communication.
AMONG_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
WITH_ONE_RANK = ("broadcast", "reduce", "gather", "scatter", "send", "recv")
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # for boxes of texts on lines
CENTERED = {"ha": "center", "va": "center"}  # for texts


def colors_of(labels) -> dict[str, str]:
    """Return a colour for each label: the fixed one of its kind, or else the next of a cycle."""
    free = iter(CYCLE * len(labels))
    return {label: COLORS.get(kind_of(label)) or next(free) for label in labels}


def kind_of(label: str) -> str:
    """Return the kind of a label: "all_reduce" and "all-reduce of bucket 2" are communication."""
    name = label.split(" ")[0].replace("-", "_")
    return "communication" if name in AMONG_ALL + WITH_ONE_RANK else ALSO.get(label, label)


def tint(color, share) -> str:
    """Return a paler colour: this share of it, and the rest white."""
    return to_hex([1 - share * (1 - tone) for tone in to_rgb(color)])


def label_ink(color: str) -> str:
    """Return black or white, whichever reads better on `color`."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return WHITE if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else INK


def add_own_font():
    """Give the fonts that come with Matplotlib a name that no font of the system has.

    By the name "DejaVu Sans", Matplotlib may find the system's files, which draw other pixels.
    """
    for file in Path(matplotlib.get_data_path(), "fonts", "ttf").glob("DejaVuSans*.ttf"):
        font = font_manager.ttfFontProperty(font_manager.get_font(file))
        if font.name == "DejaVu Sans":
            font_manager.fontManager.ttflist.append(replace(font, name=FONT))


add_own_font()


class Picture:
    """A figure with a description of what it shows, for readers who cannot see it."""

    def __init__(self, figure: Figure, alt: str):
        self.figure, self.alt, self.drawn = figure, alt, b""

    def __repr__(self):
        return self.alt

    def png(self) -> bytes:
        """Return the PNG file, the same bytes until the figure changes.

        If a figure is drawn again, Matplotlib's layout may shift a text by a pixel.

        Raises  WrongInput for numbers that Matplotlib has no room for
        """
        if not self.drawn or self.figure.stale:
            self.drawn = self.draw()
            self.figure.stale = False
        return self.drawn

    def draw(self) -> bytes:
        buffer, dots = io.BytesIO(), self.figure.dpi
        self.figure.set_dpi(DOTS_PER_INCH)
        try:
            with matplotlib.style.context(STYLE):
                # The canvas prints it, because the figure's savefig() would draw everything twice.
                self.figure.canvas.print_png(buffer, metadata={"Software": ""})
        except Exception as error:
            raise WrongInput(cannot_draw("Matplotlib", error)) from error
        finally:
            self.figure.set_dpi(dots)
        return buffer.getvalue()

    def size(self) -> tuple[int, int]:
        """Return the width and height in pixels, as shown."""
        width, height = self.figure.get_size_inches() * SHOWN_DOTS_PER_INCH
        return round(width), round(height)

    def save(self, path):
        """Write a PNG file."""
        Path(path).write_bytes(self.png())

    def html(self) -> str:
        return html_of(self.png(), self.alt, self.size()[0])

    def _repr_mimebundle_(self, **settings):
        """Return HTML for a person, and a PNG file for nbclient, nbval and papermill.

        JupyterLab gives the description to readers who cannot see the picture only in HTML, while
        other programs that show a record may leave out data URLs.
        """
        if someone_watches():
            return {"text/plain": self.alt, "text/html": self.html()}, {}
        data = {"text/plain": self.alt, "image/png": b64encode(self.png()).decode()}
        return data, {"image/png": {"alt": self.alt, "width": self.size()[0]}}


def need_picture(found) -> Picture:
    """Return what a drawing function has returned; raise WrongInput unless it is a picture."""
    need(
        isinstance(found, Picture),
        f"what draws returns a picture, as plot_bars() does, not {brief(found)}",
    )
    return found


Arguments = ParamSpec("Arguments")


def use_course_style(draw: Callable[Arguments, Picture]) -> Callable[Arguments, Picture]:
    """Wrap a function that draws, so that everything it draws has the course's style.

    If it fails, WrongInput says so in one sentence, with the error of Python or Matplotlib.
    """

    @functools.wraps(draw)
    def draw_in_style(*args, **kwargs):
        try:
            with matplotlib.style.context(STYLE):
                return draw(*args, **kwargs)
        except BriefError:
            raise
        except Exception as error:
            raise WrongInput(cannot_draw(f"{draw.__name__}()", error)) from error

    return draw_in_style


def cannot_draw(what, error) -> str:
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"{what} cannot draw this ({said})"


def new_figure(width=7.5, height=3.0, **grid):
    """Return a figure outside pyplot's global state, and its axes."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**grid)


def new_canvas(width, height):
    """Return a figure, and axes that fill it and count inches from its top left corner."""
    figure, axes = new_figure(width, height)
    figure.set_layout_engine("none")
    axes.set_position([0, 0, 1, 1])
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def bare(axes, x_range, y_range):
    """Show only the drawing of these ranges, without axes and grid."""
    axes.set_xlim(*x_range)
    axes.set_ylim(*y_range)
    axes.axis("off")
