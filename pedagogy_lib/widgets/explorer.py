"""The controls of a picture that is drawn anew for what they say, in the browser."""

import json
from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

from ..basics.errors import LaunchError, need
from ..basics.units import brief
from ..pictures.as_html import html_of, source_of
from ..pictures.style import Picture, need_picture

HERE = Path(__file__).parent
MOST_KEPT = 256  # views


class Explorer(anywidget.AnyWidget):
    """Controls, a line for messages, and the picture that they have chosen.

    Attributes, shared with the browser
        controls  of each: name, label, the texts of its values, and whether it is a slider
        chosen    {name: number of the value}
        view      what `chosen` looks like: see `view_of`
        action    what the button says that measures instead of drawing; "" if there is none
        is_film   whether the picture is one of a film: then there are buttons to play it
        height    in pixels: room that is kept for the picture
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
        """See `explore`.

        start  the picture of the first values, already drawn
        room   pixels of height that other values need
        """
        self.draw, self.run, self.no_effect = draw, run, no_effect
        self.values = {control.name: control.values for control in controls}
        chosen = {control.name: control.first for control in controls}
        self.last, self.runs = start, 0
        self.kept = {key_of(chosen): view_of(chosen, start, "", self.without_effect(chosen))}
        is_film = len(controls) == 1 and controls[0].counts() and run is None
        super().__init__(
            controls=[control.for_browser() for control in controls],
            chosen=chosen,
            view=self.kept[key_of(chosen)],
            action=action if run else "",
            is_film=is_film,
            height=max(start.size()[1], room),
        )
        self.observe(lambda change: self.show(change["new"]), "chosen")
        self.on_msg(self.answer)

    def choose(self, **values):
        """Move controls to these values, as a person would."""
        self.chosen = self.chosen | {name: self.values[name].index(v) for name, v in values.items()}

    def show(self, chosen):
        self.view = self.seen(chosen)
        self.height = max(self.height, self.view["height"])

    def seen(self, chosen) -> dict:
        """The view of a choice, drawn at most once while there is room for it."""
        key = key_of(chosen)
        if key not in self.kept:
            view = self.drawn(self.draw, chosen)
            if len(self.kept) >= MOST_KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = view
        return self.kept[key]

    def drawn(self, draw: Callable[..., Picture], chosen) -> dict:
        """A view; with a message and the last picture if there is none of these values."""
        without_effect = []
        try:
            without_effect = self.without_effect(chosen)
            picture = need_picture(draw(**self.arguments(chosen)))
            view = view_of(chosen, picture, "", without_effect)
        except (ValueError, LaunchError) as error:
            message = getattr(error, "message", str(error))
        except Exception as error:  # the controls have to go on working
            message = f"{type(error).__name__}: {error}"
        else:
            self.last = picture
            return view
        return view_of(chosen, self.last, message, without_effect)

    def arguments(self, chosen) -> dict:
        return {name: self.values[name][number] for name, number in chosen.items()}

    def without_effect(self, chosen) -> list[str]:
        """The controls that change nothing now."""
        if self.no_effect is None:
            return []
        names = self.no_effect(**self.arguments(chosen))
        need(
            isinstance(names, (list, tuple, set, frozenset)),
            f"no_effect returns a list of names, not {brief(names)}",
        )
        return sorted(map(str, names))

    def answer(self, _, content, buffers):
        """A message from the browser: to measure, or to draw what may be wanted next."""
        if "run" in content:
            self.runs += 1
            self.view = self.drawn(self.run, self.chosen) | {"run": self.runs}
            self.height = max(self.height, self.view["height"])
        elif "soon" in content:
            self.send({"soon": self.seen(content["soon"])})

    def _repr_mimebundle_(self, **settings):
        """With the picture as it is, for pages that show no widgets."""
        data, *hints = super()._repr_mimebundle_(**settings)
        still = {"text/html": html_of(self.last.png(), self.last.alt, self.last.size()[0])}
        return (data | still | {"text/plain": self.last.alt}, *hints)


def key_of(chosen) -> str:
    return json.dumps(chosen, sort_keys=True)


def view_of(chosen, picture: Picture, message, without_effect) -> dict:
    """What the browser shows for a choice.

    chosen          {name: number of the value}
    src, alt        of the picture
    width, height   of the picture, in pixels
    message         what is to be told; "" if nothing
    without_effect  names of controls that change nothing now
    run             of what is measured, not drawn: the how manieth it is
    """
    width, height = picture.size()
    return {
        "chosen": chosen,
        "src": source_of(picture.png()),
        "alt": picture.alt,
        "width": width,
        "height": height,
        "message": message,
        "without_effect": without_effect,
    }
