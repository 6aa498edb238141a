"""Results of calls of an answer: values of the right kind, or exceptions."""

import contextlib
import math
from itertools import islice
from numbers import Number, Real
from typing import NamedTuple

import torch

from pedagogy_lib.basics.closeness import close, close_in_float32
from pedagogy_lib.basics.source_lines import SourceLine
from pedagogy_lib.basics.units import brief
from pedagogy_lib.ranks.call_stack import find_source_line, is_library, steps_of_traceback

from ..answers.exact_errors import where_raised
from ..answers.remote_answer import call_next_to_answer
from ..protocol import Rejection, Wrong

MOST_DIGITS = 100  # of a whole number that is shown
MOST_VALUES = 1_000_000  # of a sequence
NO_RETURN = "a function without `return` gives None: it gives back what stands behind `return`"
VIEW = (
    "view needs numbers that lie one after another in memory, and those of a gradient, or "
    "of letters cut out of a text, need not: flatten or reshape copies where it has to"
)
EXIT = "exit() would end the notebook's kernel: a function ends with return or raise"
NOT_ITS_OWN = "it belongs to the caller: look at what the function is given, and leave it as it is"


class CallFailure:
    """The exception that a call raised, with the learner's line."""

    def __init__(self, error):
        self.error = error
        source_line = where_raised(error)
        at = "" if source_line is None else f"\n  at {source_line}"
        message = EXIT if isinstance(error, SystemExit) else error
        self.text = f"{type(error).__name__}: {message}{at}"

    @classmethod
    def rebuild(cls, error, text) -> "CallFailure":
        """Rebuild a failure whose text was made in another process."""
        raised = cls(error)
        raised.text = text
        return raised


def plain(value):
    """Convert numbers of any type to int or float, and sequences to lists; leave the rest."""
    if isinstance(value, torch.Tensor) or type(value).__module__ == "numpy":
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Real) and not isinstance(value, int):
        return float(value)  # for a Fraction, too
    if isinstance(value, (list, tuple, range, map, filter)) or hasattr(value, "__next__"):
        found = [plain(one) for one in islice(value, MOST_VALUES + 1)]
        if len(found) > MOST_VALUES:
            raise ValueError(f"it gives more than {MOST_VALUES:,} values: one that never ends?")
        return found
    return value


def is_number(value) -> bool:
    return isinstance(value, Number) and not isinstance(value, (bool, complex))


def equal(got, wanted) -> bool:
    """Return whether values are equal up to rounding, in whatever dtype; counts must be exact.

    True is not 1: where one of them is asked, the other one would select, or count, something else.
    """
    if isinstance(got, bool) != isinstance(wanted, bool):
        return False
    if isinstance(got, int) and isinstance(wanted, int):
        return got == wanted
    if is_number(got) and is_number(wanted):
        same = close if isinstance(wanted, int) else close_in_float32
        return same(float_or_inf(got), float_or_inf(wanted))
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(equal, got, wanted))
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(equal(got[key], wanted[key]) for key in got)
    return type(got) is type(wanted) and got == wanted


def float_or_inf(number) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf if number > 0 else -math.inf


def same_kind(got, wanted) -> bool:
    """Return whether `got` has the form of `wanted`: a number, the same keys, or the same type."""
    if is_number(wanted):
        return is_number(got)
    if isinstance(wanted, dict):
        return isinstance(got, dict) and got.keys() == wanted.keys()
    return isinstance(got, type(wanted))


def text_of(value) -> str:
    """Return a value as messages show it, with six digits of a float."""
    if isinstance(value, CallFailure):
        return f"it raised {value.text}"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        digits = abs(value).bit_length() * math.log10(2)
        return f"{value:,}" if digits < MOST_DIGITS else f"a number of {digits:.0f} digits"
    if isinstance(value, list) and all(map(is_number, value)):
        return f"[{', '.join(map(text_of, value))}]"
    return brief(value, 200)


def kind_of(value) -> str:
    """Describe the kind of an expected value, for a message about one of another kind."""
    if is_number(value):
        return "a number"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(map(repr, value))}"
    if isinstance(value, list) and all(map(is_number, value)):
        return "a list of numbers"
    return f"a {type(value).__name__}"


def need_kind(case, got, wanted, why="", asked=""):
    """Raise `Wrong` unless `got` has the form of `wanted`, which is called `asked`."""
    if isinstance(got, CallFailure):
        raise Wrong(case, text_of(got), why)
    if got is None and wanted is not None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not same_kind(got, wanted):
        raise Wrong(case, f"expected {asked or kind_of(wanted)}, got {text_of(got)}", why)


class Outcome(NamedTuple):
    """The outcome of a call: a value, or an exception and the learner's line that it came from."""

    value: object = None
    error: str = ""  # its type
    message: str = ""
    source_line: SourceLine | None = None
    kinds: tuple[str, ...] = ()  # its type and the base classes

    def __str__(self):
        if not self.error:
            return f"it gave {self.value!r:.60}"
        is_known = self.source_line is not None and not is_library(self.source_line.filename)
        at = f"\n  at {self.source_line}" if is_known else ""  # a library's own lines say nothing
        message = EXIT if self.error == "SystemExit" else self.message
        return f"it raised {self.error}: {message}{at}"


def outcome_of(answer, *args, **kwargs) -> Outcome:
    """Call an answer, where it lives or in a rank; whatever it raises is an outcome, too."""
    return call_next_to_answer(outcome_here, answer, args, kwargs)


def outcome_here(answer, args, kwargs) -> Outcome:
    try:
        return Outcome(answer(*args, **kwargs))
    except Rejection:  # a check says that it cannot go on
        raise
    except (Exception, SystemExit) as error:  # exit() would end the kernel
        source_line = find_source_line(steps_of_traceback(error.__traceback__))
        kinds = tuple(kind.__name__ for kind in type(error).__mro__)
        return Outcome(None, kinds[0], str(error), source_line, kinds)


def outcome_and_arguments(answer, *args) -> tuple[Outcome, list]:
    """Return a call's outcome and its arguments afterwards; an iterator's values become a list."""
    return call_next_to_answer(outcome_and_arguments_here, answer, args)


def outcome_and_arguments_here(answer, args) -> tuple[Outcome, list]:
    return outcome_here(lambda *given: expand_iterator(answer(*given)), args, {}), list(args)


def expand_iterator(value):
    """Return the values of an iterator as a list, and anything else unchanged."""
    return list(islice(value, MOST_VALUES)) if hasattr(value, "__next__") else value


def number_in(case, outcome) -> float:
    """Return the number that a call gave; raise `Wrong` if it gave none."""
    if not outcome.error and not isinstance(outcome.value, str):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return float(outcome.value)
    nothing = not outcome.error and outcome.value is None
    what = str(outcome) + ("" if outcome.error else ", not a number")
    raise Wrong(case, what, RETURNS_NONE if nothing else "")


RETURNS_NONE = "a function without `return` gives None."


def detach_result(value):
    """Return a tensor without its graph, so that it can travel, and anything else unchanged."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
