"""The browser widget of a picture with controls, which is drawn again for each choice."""

from pathlib import Path

import anywidget
import traitlets

from ..pictures.picture_html import html_of
from .controls import is_film
from .views import Views, key_of

HERE = Path(__file__).parent
MOST_KEPT = 256  # views


class Explorer(anywidget.AnyWidget):
    """Controls, a line for messages, and the picture that the controls have chosen.

    Attributes, shared with the browser
        controls  for each: name, label, the texts of its values, and whether it is a slider
        chosen    {name: index of the value}
        view      the view of `chosen`: see `view_of` in views.py
        action    text of the button that measures instead of drawing; "" if there is none
        is_film   whether the picture is one of a film, which has buttons to play it
        height    height in pixels that is reserved for the picture
    """

    _esm = HERE / "explorer.js"
    _css = HERE / "course.css"
    controls = traitlets.List().tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
    action = traitlets.Unicode().tag(sync=True)
    is_film = traitlets.Bool().tag(sync=True)
    height = traitlets.Int().tag(sync=True)

    def __init__(self, draw, controls, start, run=None, action="", no_effect=None, room=0):
        """Show the first picture; `explore` describes the other arguments.

        start  the picture of the first values, already drawn
        room   height in pixels that the highest picture needs
        """
        self.views, self.run, self.runs = Views(draw, controls, start, no_effect), run, 0
        self.kept = {key_of(self.views.chosen): self.views.start}
        super().__init__(
            controls=[control.serialise() for control in controls],
            chosen=self.views.chosen,
            view=self.views.start,
            action=action if run else "",
            is_film=run is None and is_film(controls),
            height=max(start.size()[1], room),
        )
        self.observe(lambda change: self.show(change["new"]), "chosen")
        self.on_msg(self.handle_message)

    def choose(self, **values):
        """Move controls to these values, as a person would."""
        numbers = {name: self.views.values[name].index(v) for name, v in values.items()}
        self.chosen = self.chosen | numbers

    def show(self, chosen):
        self.view = self.find_view(chosen)
        self.height = max(self.height, self.view["height"])

    def find_view(self, chosen) -> dict:
        """Return the view of a choice, drawn at most once while it is cached."""
        key = key_of(chosen)
        if key not in self.kept:
            view = self.views.draw_view(chosen)
            if len(self.kept) >= MOST_KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = view
        return self.kept[key]

    def handle_message(self, _, content, buffers):
        """Answer a message from the browser: measure, or draw a view that may be wanted next."""
        if "run" in content:
            self.runs += 1
            self.view = self.views.draw_view(self.chosen, self.run) | {"run": self.runs}
            self.height = max(self.height, self.view["height"])
        elif "soon" in content:
            self.send({"soon": self.find_view(content["soon"])})

    def _repr_mimebundle_(self, **settings):
        """Return the widget with its current picture, for pages that show no widgets."""
        data, *hints = super()._repr_mimebundle_(**settings)
        last = self.views.last
        still = {"text/html": html_of(last.png(), last.alt, last.size()[0])}
        return (data | still | {"text/plain": last.alt}, *hints)
