"""Pictures with sliders, and the same pictures without where nobody could move one."""

import base64
from html import escape

from .output import someone_watches
from .style import Picture


def explore(draw, **choices):
    """Show `draw(**arguments)` with a slider for each argument, or a list for one of words.

    choices  for each argument of `draw` its possible values; the first is shown at the start
    Returns  the picture itself where nobody watches (tests, reports), so that it stays visible
    """
    start = draw(**{name: values[0] for name, values in choices.items()})
    return panel(draw, choices, start) if someone_watches() else start


def panel(draw, choices, start: Picture):
    """The controls above the picture that they change."""
    import ipywidgets

    controls = {name: control(name, values) for name, values in choices.items()}
    image = ipywidgets.HTML(tag_of(start))

    def redraw(_):
        image.value = tag_of(draw(**{name: one.value for name, one in controls.items()}))

    for one in controls.values():
        one.observe(redraw, "value")
    in_rows = {"flex_flow": "row wrap", "grid_gap": "0 12px"}
    rows = ipywidgets.Box(list(controls.values()), layout=in_rows)
    return ipywidgets.VBox([rows, image])


def control(name, values):
    """A slider for numbers, in their order; a list for words, as they are given."""
    import ipywidgets

    settings = {"value": values[0], "description": name.replace("_", " ")}
    settings["style"] = {"description_width": "initial"}
    if isinstance(values[0], str):
        return ipywidgets.Dropdown(options=list(values), **settings)
    return ipywidgets.SelectionSlider(options=sorted(values), **settings)


def tag_of(picture: Picture) -> str:
    """The picture as an HTML image that says what it shows."""
    data = "data:image/png;base64," + base64.b64encode(picture.png()).decode()
    width, _ = picture.size()
    style = 'style="max-width:100%"'
    return f'<img alt="{escape(picture.alt)}" width="{width}" {style} src="{data}">'
