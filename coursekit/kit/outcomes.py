"""What came of a call: a value of the right kind, or an exception."""

import contextlib
from itertools import islice
from typing import NamedTuple

import torch

from pedagogy_lib.basics.places import Place
from pedagogy_lib.ranks.call_stack import is_library, place_of, steps_of_traceback

from ..protocol import Wrong
from ..trying import there
from .refused import Refused
from .values import EXIT, MOST_VALUES


class Outcome(NamedTuple):
    """What came of a call: a value, or an exception and the learner's line that it came from."""

    value: object = None
    error: str = ""  # its type
    message: str = ""
    place: Place | None = None
    kinds: tuple[str, ...] = ()  # its type and those above it

    def __str__(self):
        if not self.error:
            return f"it gave {self.value!r:.60}"
        is_known = self.place is not None and not is_library(self.place.filename)
        at = f"\n  at {self.place}" if is_known else ""  # a library's own lines say nothing
        message = EXIT if self.error == "SystemExit" else self.message
        return f"it raised {self.error}: {message}{at}"


def outcome_of(answer, *args, **kwargs) -> Outcome:
    """Call an answer, where it lives or in a rank; whatever it raises is an outcome, too."""
    return there(outcome_here, answer, args, kwargs)


def outcome_here(answer, args, kwargs) -> Outcome:
    try:
        return Outcome(answer(*args, **kwargs))
    except Refused:  # a check says that it cannot go on
        raise
    except (Exception, SystemExit) as error:  # exit() would end the kernel
        place = place_of(steps_of_traceback(error.__traceback__))
        kinds = tuple(kind.__name__ for kind in type(error).__mro__)
        return Outcome(None, kinds[0], str(error), place, kinds)


def outcome_and_arguments(answer, *args) -> tuple[Outcome, list]:
    """The same, and its arguments as they are afterwards; what an iterator gives, as a list."""
    return there(outcome_and_arguments_here, answer, args)


def outcome_and_arguments_here(answer, args) -> tuple[Outcome, list]:
    return outcome_here(lambda *given: listed(answer(*given)), args, {}), list(args)


def listed(value):
    """A list of what an iterator gives; all else as it is."""
    return list(islice(value, MOST_VALUES)) if hasattr(value, "__next__") else value


def number_in(case, outcome) -> float:
    """The number that a call gave; raises `Wrong` if it gave none."""
    if not outcome.error and not isinstance(outcome.value, str):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return float(outcome.value)
    nothing = not outcome.error and outcome.value is None
    what = str(outcome) + ("" if outcome.error else ", not a number")
    raise Wrong(case, what, NO_RETURN if nothing else "")


NO_RETURN = "a function without `return` gives None."


def plain(value):
    """A result without its graph and its optimizer, so that it can travel."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
