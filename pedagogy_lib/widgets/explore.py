"""Pictures with controls, which are left out where nobody could move them."""

from ..basics.errors import need
from ..basics.screen import someone_watches, views_wanted
from ..basics.units import brief
from ..pictures.style import need_picture
from .controls import control, values_of
from .view_files import record_views


def explore(
    draw, run=None, labels=None, no_effect=None, action="Run it for real", highest=None, **choices
):
    """Show `draw(**arguments)` with a slider per numeric argument and a list for words.

    run        adds a button: `run(**arguments)` takes longer and returns the picture shown then
    labels     {argument: its label, with the unit}; by default the argument's name
    no_effect  a function of the arguments that returns the names of those without effect
    action     text of the button
    highest    {argument: value} of the highest picture, if heights differ: its room is kept from
               the start, so that nothing below ever moves
    choices    for each argument of `draw` its possible values; the first is shown at the start.
               If some do not go together, `draw` raises a ValueError that says why
    Raises     LaunchError if `draw`, `run` or `no_effect` is not callable; if the values of an
               argument are no list, an empty one, or neither numbers nor words; if `action` is no
               text; if `labels` or `highest` is no dict, or names an argument without values; or
               if `draw` returns no picture
    Returns    the picture itself where nobody watches (tests, reports), so that it stays visible;
               all other pictures are then recorded if a build wants them (see view_files.py).
               A single slider also plays as a film
    """
    for what, function in {"run": run, "no_effect": no_effect}.items():
        need(
            function is None or callable(function),
            f"explore() takes a function as {what}, not {brief(function)}",
        )
    need(callable(draw), f"explore() takes a function that draws, not {brief(draw)}")
    need(isinstance(action, str), f"explore() takes the words of the button, not {brief(action)}")
    choices = {name: values_of(name, values) for name, values in choices.items()}
    labels, highest = labels or {}, highest or {}
    for what, given in {"label": labels, "value": highest}.items():
        need(isinstance(given, dict), f"explore() takes {{argument: {what}}}, not {brief(given)}")
        unknown = ", ".join(sorted(set(map(str, given)) - set(choices)))
        need(not unknown, f"explore() has a {what} for {unknown}, but no list of values")
    first = {name: values[0] for name, values in choices.items()}
    start = need_picture(draw(**first))
    controls = [control(name, values, labels.get(name, "")) for name, values in choices.items()]
    if not someone_watches():
        place = views_wanted()
        return record_views(draw, controls, start, no_effect, place) if place else start
    from .explorer import Explorer  # where nobody watches, there may be no ipywidgets

    room = need_picture(draw(**first | highest)).size()[1] if highest else 0
    return Explorer(draw, controls, start, run, action, no_effect, room)
