"""The controls of a picture: the values that a learner can choose, and their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

from ..basics.errors import need
from ..basics.units import brief, full_number

FEWEST_PICTURES = 4  # of a film


@dataclass(frozen=True)
class Control:
    """One argument of a picture, and the values among which the learner chooses.

    name    name of the argument
    label   text next to the control, with the unit
    values  values in the order of the slider or of the list
    first   index of the value that is shown at the start
    """

    name: str
    label: str
    values: tuple
    first: int

    @property
    def is_slider(self) -> bool:
        return not isinstance(self.values[0], str)

    def counts(self) -> bool:
        """Return whether the values are consecutive numbers, as those of a film's pictures are."""
        if not self.is_slider or len(self.values) < FEWEST_PICTURES:
            return False
        return all(after - before == 1 for before, after in zip(self.values, self.values[1:]))

    def serialise(self) -> dict:
        texts = [full_number(v) if self.is_slider else v for v in self.values]
        return {"name": self.name, "label": self.label, "texts": texts, "is_slider": self.is_slider}


def is_film(controls) -> bool:
    """Return whether the pictures form a film, chosen by one slider of consecutive numbers."""
    return len(controls) == 1 and controls[0].counts()


def values_of(name, values) -> list:
    """Return the values of a control as a list."""
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
    """Make a slider for numbers, in ascending order, or a list for words, in the given order."""
    label = str(label) or name.replace("_", " ")
    in_order = tuple(values if isinstance(values[0], str) else sorted(values))
    return Control(name, label, in_order, in_order.index(values[0]))
