"""Pictures with sliders; without them where nobody could move one."""

import base64
from html import escape

from ..basics.errors import LaunchError, need
from ..basics.screen import someone_watches
from .style import Picture


def explore(draw, run=None, **choices):
    """Show `draw(**arguments)` with a slider for each argument; for words, a list to choose from.

    run      adds a button: `run(**arguments)` takes longer, and returns the picture shown then
    choices  for each argument of `draw` its possible values; the first is shown at the start.
             Where some do not go together, `draw` raises a ValueError that says why
    Raises   LaunchError if the values of an argument are no list, or an empty one
    Returns  the picture itself where nobody watches (tests, reports), so that it stays visible
    """
    for name, values in choices.items():
        several = hasattr(values, "__getitem__") and not isinstance(values, (str, dict))
        example = "[2, 4]" if several else f"[{values!r}]"
        need(several and len(values), f"explore() takes lists of values: write {name}={example}")
    start = draw(**{name: values[0] for name, values in choices.items()})
    return panel(draw, choices, start, run) if someone_watches() else start


def panel(draw, choices, start: Picture, run=None):
    """The controls above the picture that they change."""
    import ipywidgets

    controls = {name: control(name, values) for name, values in choices.items()}
    image = ipywidgets.HTML(tag_of(start))

    def show(picture_of):
        try:
            image.value = tag_of(picture_of(**{name: one.value for name, one in controls.items()}))
        except (ValueError, LaunchError) as error:
            image.value = f"<pre>{escape(str(error))}</pre>"

    for one in controls.values():
        one.observe(lambda _: show(draw), "value")
    buttons = [button_for(lambda: show(run))] if run else []
    in_rows = {"flex_flow": "row wrap", "grid_gap": "0 12px"}
    rows = ipywidgets.Box([*controls.values(), *buttons], layout=in_rows)
    return ipywidgets.VBox([rows, image])


def button_for(work):
    """A button that says when it is at work, and takes no second click until it is done."""
    import ipywidgets

    button = ipywidgets.Button(description="Run it for real")

    def clicked(_):
        button.disabled, button.description = True, "Running …"
        try:
            work()
        finally:
            button.disabled, button.description = False, "Run it for real"

    button.on_click(clicked)
    return button


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
