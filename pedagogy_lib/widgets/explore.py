"""Pictures with controls; without them where nobody could move one."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

from ..basics.errors import need
from ..basics.screen import someone_watches
from ..basics.units import brief, full_number
from ..pictures.style import need_picture

FEWEST_PICTURES = 4  # of a film


@dataclass(frozen=True)
class Control:
    """One argument of a picture, and how the learner chooses its value.

    name    of the argument
    label   what it is called, with its unit
    values  in the order of the slider, or of the list
    first   number of the value that is shown at the start
    """

    name: str
    label: str
    values: tuple
    first: int

    @property
    def is_slider(self) -> bool:
        return not isinstance(self.values[0], str)

    def counts(self) -> bool:
        """Whether the values are numbers one after the other, as those of a film's pictures."""
        if not self.is_slider or len(self.values) < FEWEST_PICTURES:
            return False
        return all(after - before == 1 for before, after in zip(self.values, self.values[1:]))

    def for_browser(self) -> dict:
        texts = [full_number(v) if self.is_slider else v for v in self.values]
        return {"name": self.name, "label": self.label, "texts": texts, "is_slider": self.is_slider}


def values_of(name, values) -> list:
    """The values of a control, as a list."""
    if hasattr(values, "tolist"):  # an array or a tensor
        values = values.tolist()
    if isinstance(values, Iterable) and not isinstance(values, (str, dict, list, tuple, range)):
        need(False, f"explore() takes lists of values: write {name}=list(...)")
    example = f"[{brief(values)}]" if isinstance(values, (str, Real)) else "[2, 4]"
    need(
        isinstance(values, (list, tuple, range)) and len(values),
        f"explore() takes lists of values: write {name}={example}",
    )
    alike = any(all(isinstance(v, kind) for v in values) for kind in (str, Real))
    need(
        alike and all(v == v for v in values),
        f"explore() takes numbers, or words: {name} is {brief(list(values))}",
    )
    return list(values)


def control(name, values, label="") -> Control:
    """A slider for numbers, in their order; a list for words, as they are given."""
    label = str(label) or name.replace("_", " ")
    in_order = tuple(values if isinstance(values[0], str) else sorted(values))
    return Control(name, label, in_order, in_order.index(values[0]))


def explore(
    draw, run=None, labels=None, no_effect=None, action="Run it for real", highest=None, **choices
):
    """Show `draw(**arguments)` with a slider for each argument; for words, a list to choose from.

    run        adds a button: `run(**arguments)` takes longer, and returns the picture shown then
    labels     {argument: what it is called, with its unit}; its name if there is none
    no_effect  a function of the arguments: the names of those that change nothing then
    action     what the button says
    highest    {argument: value} of the highest picture, where heights differ: there is room for it
               from the start, so that nothing below ever moves
    choices    for each argument of `draw` its possible values; the first is shown at the start.
               Where some do not go together, `draw` raises a ValueError that says why
    Raises     LaunchError if the values of an argument are no list, or an empty one, or neither
               numbers nor words, if a label or a value of the highest is of no argument, or `draw`
               returns no picture
    Returns    the picture itself where nobody watches (tests, reports), so that it stays visible.
               One slider alone plays as a film, too
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
    if not someone_watches():
        return start
    from .explorer import Explorer  # where nobody watches, there may be no ipywidgets

    controls = [control(name, values, labels.get(name, "")) for name, values in choices.items()]
    room = need_picture(draw(**first | highest)).size()[1] if highest else 0
    return Explorer(draw, controls, start, run, action, no_effect, room)
