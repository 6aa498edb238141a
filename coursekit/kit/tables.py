"""Tables of functions: their values for the arguments that a check tries, without the functions.

In a handout, the right values and those of mistakes are such tables: numbers, and no formula.
They come from the course's own files alone, so they may name any record and any function of ours.
`exact_values.py` reads values from an untrusted process.
"""

import base64
import builtins
import contextlib
import copy
import importlib
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType

import torch

from .results import MOST_VALUES, plain


def tabulate(calls: Callable[[], Iterable[tuple]], beside=False):
    """Mark a function that is nearly an answer: in a handout it is a table of these calls.

    calls   returns the arguments of each call that a check makes
    beside  whether it is called next to an answer (to another exercise), and not to judge it: then
            a grader gives this table to the process in which the answer lives
    """

    def mark(function):
        function.calls, function.beside = calls, beside
        return function

    return mark


class KnownValues:
    """A function of which only some values are known; the others raise a LookupError."""

    def __init__(self, name, entries):
        self.__name__ = name
        self.entries = entries  # {packed arguments: ["value" or "raises", …]}

    def __call__(self, *args):
        try:
            kind, *what = self.entries[key_of(args)]
        except KeyError:
            raise LookupError(f"{self.__name__} is not known for these arguments") from None
        if kind == "raises":
            raise error_of(*what)
        return unpack(copy.deepcopy(what[0]))


class Tables:
    """The right values, and the values of mistakes.

    truth     a table
    mistakes  [(misconception, a table), …]
    """

    def __init__(self, written: dict):
        self.written, self.outcomes = written, written["outcomes"]
        if "truth" in written:
            self.truth = self.function("truth", written["truth"])
        self.mistakes = [
            (sentence, self.function("a mistake", values))
            for sentence, values in written.get("mistakes", [])
        ]

    def function(self, name, values) -> KnownValues:
        keys = map(json.dumps, self.written["calls"])
        return KnownValues(name, {key: self.outcomes[at] for key, at in zip(keys, values)})

    def find_table(self, name) -> KnownValues:
        """Return the table of a function that was marked by `tabulate`."""
        entries = self.written.get("named", {}).get(name, ())
        return KnownValues(name, {json.dumps(args): self.outcomes[at] for args, at in entries})


def tables_of(module_file: str) -> Tables:
    """Read the tables in the .json file next to a module."""
    return Tables(json.loads(Path(module_file).with_suffix(".json").read_text(encoding="utf-8")))


def key_of(args) -> str:
    return json.dumps(pack_value(tuple(args)))


def error_of(kind: str, text: str) -> Exception:
    """Return an exception of a built-in kind, or a RuntimeError that names another kind."""
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(text)
        except TypeError:  # such as UnicodeDecodeError, which takes more than a text
            pass
    return RuntimeError(f"{kind}: {text}")


def entry_of(function, args) -> list:
    """Return the entry of a call in a table: its value, or the exception that it raises."""
    try:
        return ["value", pack_value(function(*copy.deepcopy(args)))]
    except (Exception, SystemExit) as error:
        return ["raises", type(error).__name__, str(error)]


def build_tables(exercise, named=()) -> dict:
    """Return all tables of an exercise, in a form that JSON takes.

    named  functions marked by `tabulate`
    """
    outcomes = Outcomes()
    written = {"outcomes": outcomes.different}
    if exercise is not None:
        calls = exercise.calls_tried()
        functions = [exercise.truth, *(function for _, function in exercise.mistakes)]
        truth, *mistakes = ([outcomes.find_place(one, call) for call in calls] for one in functions)
        sentences = [sentence for sentence, _ in exercise.mistakes]
        written |= {"calls": [pack_value(tuple(c)) for c in calls],
                    "truth": truth, "mistakes": list(zip(sentences, mistakes))}  # fmt: skip
    if named:
        written["named"] = {
            function.__name__: [[pack_value(tuple(c)), outcomes.find_place(function, c)]
                                for c in function.calls()]
            for function in named
        }  # fmt: skip
    return written


class Outcomes:
    """The outcomes of calls, each different one once, because mistakes are right in most cases."""

    def __init__(self):
        self.different: list[list] = []
        self.places: dict[str, int] = {}

    def find_place(self, function, args) -> int:
        """Return the index of a call's outcome, which is added if it is new."""
        outcome = entry_of(function, args)
        key = json.dumps(outcome)
        if key not in self.places:
            self.places[key] = len(self.different)
            self.different.append(outcome)
        return self.places[key]


PLAIN = (type(None), bool, str)


def pack_value(value):
    """Return a value in a form that JSON takes. Raises TypeError where there is none."""
    kind = type(value)
    if kind in PLAIN or kind is int or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"float": str(value)}
    if kind is list:
        return [pack_value(one) for one in value]
    if kind in (tuple, set, frozenset):
        parts = value if kind is tuple else sorted(value, key=repr)
        return {kind.__name__: [pack_value(one) for one in parts]}
    if kind is dict:
        return {"dict": [[pack_value(key), pack_value(one)] for key, one in value.items()]}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, torch.Tensor):
        return pack_tensor(value)
    return pack_object(value)


def pack_object(value):
    """Pack an object by name: a record, a module's function, or the plain value of others."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"record": [name_of(type(value)), [pack_value(one) for one in value]]}
    if is_dataclass(value) and not isinstance(value, type):
        parts = [pack_value(getattr(value, one.name)) for one in fields(value)]
        return {"record": [name_of(type(value)), parts]}
    if isinstance(value, (FunctionType, type)):
        return {"named": name_of(value)}
    if isinstance(value, Iterator):
        return pack_value([one for one, _ in zip(value, range(MOST_VALUES))])
    if isinstance(value, (list, dict, tuple)):
        return pack_value(plain(value))
    simpler = plain(value)
    if type(simpler) is type(value):
        raise TypeError(f"{value!r:.80} of {type(value)} cannot be written down")
    return pack_value(simpler)


def pack_tensor(x):
    """Pack a tensor's bytes in the order of its indices; a transposed one stays transposed."""
    is_turned = x.dim() == 2 and not x.is_contiguous() and x.t().is_contiguous()
    numbers = (x.t() if is_turned else x).detach().cpu().contiguous()
    data = base64.b64encode(bytes(numbers.flatten().view(torch.uint8).tolist())).decode()
    dtype = str(x.dtype).removeprefix("torch.")
    return {"tensor": [dtype, list(numbers.shape), data, is_turned, x.requires_grad]}


def unpack(value):
    if isinstance(value, list):
        return [unpack(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = value.items()
    return UNPACKED[kind](parts)


def unpack_tensor(parts):
    dtype, shape, data, is_turned, requires_grad = parts
    numbers = torch.frombuffer(bytearray(base64.b64decode(data)), dtype=getattr(torch, dtype)) \
        if data else torch.empty(0, dtype=getattr(torch, dtype))  # fmt: skip
    x = numbers.view(shape)
    return (x.t() if is_turned else x).requires_grad_(requires_grad)


def name_of(thing) -> str:
    name = f"{thing.__module__}:{thing.__qualname__}"
    with contextlib.suppress(AttributeError):
        if import_object(name) is thing:
            return name
    raise TypeError(f"{thing!r:.80} has no name under which it can be found")


def import_object(name):
    module, _, path = name.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


UNPACKED = {
    "float": float,
    "tuple": lambda parts: tuple(map(unpack, parts)),
    "set": lambda parts: set(map(unpack, parts)),
    "frozenset": lambda parts: frozenset(map(unpack, parts)),
    "dict": lambda parts: {unpack(key): unpack(one) for key, one in parts},
    "range": lambda parts: range(*parts),
    "tensor": unpack_tensor,
    "record": lambda parts: import_object(parts[0])(*map(unpack, parts[1])),
    "named": import_object,
}
