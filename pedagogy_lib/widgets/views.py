"""What a picture with controls looks like for a choice: drawn, or a message why it cannot be."""

import json
from collections.abc import Callable

from ..basics.errors import LaunchError, need
from ..basics.units import brief
from ..pictures.picture_html import source_of
from ..pictures.style import Picture, need_picture


class Views:
    """Draws the picture of a choice, and says what the browser shows then.

    Attributes
        chosen  the choice at the start: {name: number of the value}
        start   its view, see `view_of`
        last    the picture that was drawn last
    """

    def __init__(self, draw, controls, start: Picture, no_effect=None, address=source_of):
        """See `explore`.

        start    the picture of the first values, already drawn
        address  where a browser finds the bytes of a PNG file that it is given
        """
        self.draw, self.no_effect, self.address = draw, no_effect, address
        self.values = {control.name: control.values for control in controls}
        self.chosen = {control.name: control.first for control in controls}
        self.keep(start)
        self.start = view_of(self.chosen, self.look, "", self.find_inert_controls(self.chosen))

    def keep(self, picture: Picture):
        """What is shown until another picture is drawn."""
        self.look, self.last = look_of(picture, self.address), picture

    def draw_view(self, chosen, draw: Callable[..., Picture] | None = None) -> dict:
        """A view; with a message and the last picture if there is none of these values.

        draw  instead of the one that draws else
        """
        without_effect, message = [], ""
        try:
            without_effect = self.find_inert_controls(chosen)
            self.keep(need_picture((draw or self.draw)(**self.arguments(chosen))))
        except (ValueError, LaunchError) as error:
            message = getattr(error, "message", str(error))
        except Exception as error:  # the controls have to go on working
            message = f"{type(error).__name__}: {error}"
        return view_of(chosen, self.look, message, without_effect)

    def arguments(self, chosen) -> dict:
        return {name: self.values[name][number] for name, number in chosen.items()}

    def find_inert_controls(self, chosen) -> list[str]:
        """The controls that change nothing now."""
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
    """Where a browser finds a picture, its description, and its size in pixels."""
    width, height = picture.size()
    return {"src": address(picture.png()), "alt": picture.alt, "width": width, "height": height}


def view_of(chosen, look, message, without_effect) -> dict:
    """What the browser shows for a choice.

    chosen          {name: number of the value}
    src, alt        of the picture
    width, height   of the picture, in pixels
    message         what is to be told; "" if nothing
    without_effect  names of controls that change nothing now
    run             of what is measured, not drawn: its number
    """
    return {"chosen": chosen, **look, "message": message, "without_effect": without_effect}
