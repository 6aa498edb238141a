"""Views of a picture with controls: for each choice a picture, or a message why there is none."""

import json
from collections.abc import Callable

from ..basics.errors import LaunchError, need
from ..basics.units import brief
from ..pictures.picture_html import source_of
from ..pictures.style import Picture, need_picture


class Views:
    """The views of a picture with controls, drawn choice by choice.

    chosen  the choice at the start: {name: index of the value}
    start   its view, see `view_of`
    last    the picture that was drawn last
    """

    def __init__(self, draw, controls, start: Picture, no_effect=None, address=source_of):
        """Begin with the first picture; `explore` describes the other arguments.

        start    the picture of the first values, already drawn
        address  function that returns, for a PNG file's bytes, where a browser finds them
        """
        self.draw, self.no_effect, self.address = draw, no_effect, address
        self.values = {control.name: control.values for control in controls}
        self.chosen = {control.name: control.first for control in controls}
        self.keep(start)
        self.start = view_of(self.chosen, self.look, "", self.find_inert_controls(self.chosen))

    def keep(self, picture: Picture):
        """Keep a picture as the one that is shown until another is drawn."""
        self.look, self.last = look_of(picture, self.address), picture

    def draw_view(self, chosen, draw: Callable[..., Picture] | None = None) -> dict:
        """Return the view of a choice, with a message and the last picture if it cannot be drawn.

        draw  function that draws this view instead of the usual one
        """
        without_effect, message = [], ""
        try:
            without_effect = self.find_inert_controls(chosen)
            self.keep(need_picture((draw or self.draw)(**self.arguments(chosen))))
        except (ValueError, LaunchError) as error:
            message = getattr(error, "message", str(error))
        except Exception as error:  # the controls must keep working
            message = f"{type(error).__name__}: {error}"
        return view_of(chosen, self.look, message, without_effect)

    def arguments(self, chosen) -> dict:
        return {name: self.values[name][number] for name, number in chosen.items()}

    def find_inert_controls(self, chosen) -> list[str]:
        """Return the names of the controls that change nothing for a choice."""
        if self.no_effect is None:
            return []
        names = self.no_effect(**self.arguments(chosen))
        need(
            isinstance(names, (list, tuple, set, frozenset)),
            f"no_effect returns a list of names, not {brief(names)}",
        )
        return sorted(map(str, names))


def key_of(chosen) -> str:
    return json.dumps(chosen, sort_keys=True)


def look_of(picture: Picture, address) -> dict:
    """Return a picture's address for a browser, its description and its size in pixels."""
    width, height = picture.size()
    return {"src": address(picture.png()), "alt": picture.alt, "width": width, "height": height}


def view_of(chosen, look, message, without_effect) -> dict:
    """Return the view of a choice: a dict of what the browser shows.

    chosen          {name: index of the value}
    src, alt        address and description of the picture
    width, height   size of the picture, in pixels
    message         text that is shown; "" if there is none
    without_effect  names of controls that change nothing for this choice
    run             number of the measurement, if the picture is measured, not drawn
    """
    return {"chosen": chosen, **look, "message": message, "without_effect": without_effect}
