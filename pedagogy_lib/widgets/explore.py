"""Pictures with controls; without them where nobody could move one."""

from dataclasses import dataclass

from ..basics.errors import need
from ..basics.screen import someone_watches
from ..basics.units import full_number

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


def control(name, values, label="") -> Control:
    """A slider for numbers, in their order; a list for words, as they are given."""
    label = label or name.replace("_", " ")
    in_order = tuple(values if isinstance(values[0], str) else sorted(values))
    return Control(name, label, in_order, in_order.index(values[0]))


def explore(draw, run=None, labels=None, no_effect=None, action="Run it for real", **choices):
    """Show `draw(**arguments)` with a slider for each argument; for words, a list to choose from.

    run        adds a button: `run(**arguments)` takes longer, and returns the picture shown then
    labels     {argument: what it is called, with its unit}; its name if there is none
    no_effect  a function of the arguments: the names of those that change nothing then
    action     what the button says
    choices    for each argument of `draw` its possible values; the first is shown at the start.
               Where some do not go together, `draw` raises a ValueError that says why
    Raises     LaunchError if the values of an argument are no list, or an empty one, or a label is
               of no argument
    Returns    the picture itself where nobody watches (tests, reports), so that it stays visible.
               One slider alone plays as a film, too
    """
    for name, values in choices.items():
        several = hasattr(values, "__getitem__") and not isinstance(values, (str, dict))
        example = "[2, 4]" if several else f"[{values!r}]"
        need(several and len(values), f"explore() takes lists of values: write {name}={example}")
    labels = labels or {}
    unknown = ", ".join(sorted(set(labels) - set(choices)))
    need(not unknown, f"explore() has a label for {unknown}, but no list of values")
    start = draw(**{name: values[0] for name, values in choices.items()})
    if not someone_watches():
        return start
    from .explorer import Explorer  # where nobody watches, there may be no ipywidgets

    controls = [control(name, values, labels.get(name, "")) for name, values in choices.items()]
    return Explorer(draw, controls, start, run, action, no_effect)
