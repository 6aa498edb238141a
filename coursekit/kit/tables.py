"""Values of functions for the arguments that a check tries, where the functions are not there.

In a handout, what is right and what mistakes give is such a table: numbers, and no formula. See
`packed_values.py` for how they are written.
"""

import builtins
import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from .packed_values import packed, unpacked


def tabled(calls: Callable[[], Iterable[tuple]], beside=False):
    """Mark a function that is nearly an answer: in a handout it is a table of these calls.

    calls   gives the arguments of each call that a check makes
    beside  whether it is called beside an answer (to another exercise), and not to judge it: then
            a grader gives this table to the process in which the answer lives
    """

    def mark(function):
        function.calls, function.beside = calls, beside
        return function

    return mark


class Table:
    """A function of which only some values are known. Others are a LookupError."""

    def __init__(self, name, entries):
        self.__name__ = name
        self.entries = entries  # {arguments, packed: ["value" or "raises", …]}

    def __call__(self, *args):
        try:
            kind, *what = self.entries[key_of(args)]
        except KeyError:
            raise LookupError(f"{self.__name__} is not known for these arguments") from None
        if kind == "raises":
            raise error_of(*what)
        return unpacked(copy.deepcopy(what[0]))


class Tables:
    """What is right, and what mistakes give.

    truth     a table
    mistakes  [(what it has misunderstood, a table), …]
    """

    def __init__(self, written: dict):
        self.written, self.outcomes = written, written["outcomes"]
        if "truth" in written:
            self.truth = self.function("truth", written["truth"])
        self.mistakes = [
            (sentence, self.function("a mistake", values))
            for sentence, values in written.get("mistakes", [])
        ]

    def function(self, name, values) -> Table:
        keys = map(json.dumps, self.written["calls"])
        return Table(name, {key: self.outcomes[at] for key, at in zip(keys, values)})

    def named(self, name) -> Table:
        """The table of a function that was marked by `tabled`."""
        entries = self.written.get("named", {}).get(name, ())
        return Table(name, {json.dumps(args): self.outcomes[at] for args, at in entries})


def tables_of(module_file: str) -> Tables:
    """The tables that lie beside a module."""
    return Tables(json.loads(Path(module_file).with_suffix(".json").read_text(encoding="utf-8")))


def key_of(args) -> str:
    return json.dumps(packed(tuple(args)))


def error_of(kind: str, text: str) -> Exception:
    """An exception of a built-in kind, or one of another kind with its name in front."""
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(text)
        except TypeError:  # such as UnicodeDecodeError, which takes more than a text
            pass
    return RuntimeError(f"{kind}: {text}")


def entry_of(function, args) -> list:
    """What a table keeps of a call."""
    try:
        return ["value", packed(function(*copy.deepcopy(args)))]
    except (Exception, SystemExit) as error:
        return ["raises", type(error).__name__, str(error)]


def written_tables(exercise, named=()) -> dict:
    """All that is tabled of an exercise, as JSON takes it.

    named  functions marked by `tabled`
    """
    outcomes = Outcomes()
    written = {"outcomes": outcomes.different}
    if exercise is not None:
        calls = exercise.calls_tried()
        functions = [exercise.truth, *(function for _, function in exercise.mistakes)]
        truth, *mistakes = ([outcomes.of(one, call) for call in calls] for one in functions)
        sentences = [sentence for sentence, _ in exercise.mistakes]
        written |= {"calls": [packed(tuple(c)) for c in calls],
                    "truth": truth, "mistakes": list(zip(sentences, mistakes))}  # fmt: skip
    if named:
        written["named"] = {
            function.__name__: [[packed(tuple(c)), outcomes.of(function, c)]
                                for c in function.calls()]
            for function in named
        }  # fmt: skip
    return written


class Outcomes:
    """What calls give, each different outcome once: mistakes are right in most cases."""

    def __init__(self):
        self.different: list[list] = []
        self.places: dict[str, int] = {}

    def of(self, function, args) -> int:
        """The place of what this call gives."""
        outcome = entry_of(function, args)
        key = json.dumps(outcome)
        if key not in self.places:
            self.places[key] = len(self.different)
            self.different.append(outcome)
        return self.places[key]
