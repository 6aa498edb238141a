"""Values as text, and back, for the results of an answer from an untrusted process.

A text is read as exact types only: Python's own, such as int, list and dict, tensors, dtypes,
arrays, errors, and the records named here. Nothing else is ever built from it, and no code in it
runs. Any other value travels as a `Foreign`, which equals nothing but itself.
"""

import base64
import importlib
import json
import math
import sys
import types
from dataclasses import dataclass, fields, is_dataclass
from functools import partial

import numpy as np
import torch

from pedagogy_lib.basics.source_lines import SourceLineElsewhere
from pedagogy_lib.basics.units import brief

from .exact_errors import parts_of_error, rebuild_error

# Classes of the course that are sent field by field, and their modules.
RECORDS = {
    "SourceLine": "pedagogy_lib.basics.source_lines",
    "Call": "pedagogy_lib.measuring.bytes_of_calls",
    "Flow": "pedagogy_lib.measuring.connections",
    "Use": "pedagogy_lib.measuring.uses",
    "DeadRank": "pedagogy_lib.ranks.dead_ranks",
    "Outcome": "coursekit.kit.results",
    "CallFailure": "coursekit.kit.results",
    "CaseResult": "coursekit.kit.rank_trials",
}
MOST_OF_A_LINE, MOST_CALLERS = 400, 50  # characters; source lines
MOST_ODD_KEYS = 1_000  # keys of a dict that are neither texts nor small whole numbers
DTYPES = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype)
}
# Quantised tensors do not travel: they become `Foreign`.
PLAIN = types.MappingProxyType({name: one for name, one in DTYPES.items() if "q" not in name})
MOST_CHARACTERS = 200  # shown of a value of another kind
MOST_BITS = 10_000  # of a whole number: Python refuses to write one of more than 4,300 digits


class Unreadable(ValueError):
    """An error for a text that `write_value` has not made."""


@dataclass(frozen=True, eq=False)
class Foreign:
    """A value of a type that does not travel: it equals nothing but itself.

    kind  the name of its type
    text  its representation
    """

    kind: str
    text: str

    def __repr__(self):
        return self.text


# ---- Writing, in the answer's process -------------------------------------------------------


def write_value(value) -> str:
    """Return a value as text; what cannot travel is replaced by its representation.

    Raises  RecursionError for a value that contains itself
    """
    return json.dumps(parts_of(value), separators=(",", ":"))


def parts_of(value):
    """Return a value in a form that JSON can write: the value itself, or {kind: parts}."""
    kind = type(value)
    if kind is int and value.bit_length() > MOST_BITS:
        return {"foreign": ["int", f"a number of {value.bit_length() * math.log10(2):.0f} digits"]}
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [parts_of(one) for one in value]
    write = WRITERS.get(kind) or next((w for k, w in BELOW.items() if isinstance(value, k)), None)
    if write is None and RECORDS.get(kind.__name__) == kind.__module__:
        write = parts_of_record
    return write(value) if write else {"foreign": [kind.__name__, show_value(value)]}


def show_value(value) -> str:
    try:
        return brief(value, MOST_CHARACTERS)
    except Exception as error:  # its own __repr__ raises
        return f"<{type(value).__name__}, whose __repr__ raised {type(error).__name__}>"


def parts_of_tensor(value) -> dict:
    """Return a tensor's numbers and requires_grad, without graph, device and larger storage."""
    plain = value.detach()
    dtype = str(plain.dtype).removeprefix("torch.")
    if plain.layout is not torch.strided or plain.is_meta or dtype not in PLAIN:
        return {"foreign": ["Tensor", show_value(value)]}
    plain = plain.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = base64.b64encode(plain.view(torch.uint8).numpy().tobytes()).decode()
    return {"tensor": [dtype, list(value.shape), value.requires_grad, data]}


def parts_of_special_tensor(value) -> dict:
    """Return the numbers of a tensor of a subclass, without calling the subclass's operators."""
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return parts_of_tensor(value.as_subclass(torch.Tensor))
    except Exception:  # it has no numbers of its own, like a DTensor
        return {"foreign": [type(value).__name__, show_value(value)]}


def parts_of_record(value) -> dict:
    names = [field.name for field in fields(value)] if is_dataclass(value) else None
    parts = [getattr(value, name) for name in names] if names else list(value)
    if type(value).__name__ == "CallFailure":
        return {"record": ["CallFailure", parts_of(value.error), value.text]}
    return {"record": [type(value).__name__, *map(parts_of, parts)]}


def sequence(name, value) -> dict:
    return {name: [parts_of(one) for one in value]}


def pairs(value) -> list:
    return [[parts_of(key), parts_of(one)] for key, one in value.items()]


WRITERS = {
    tuple: partial(sequence, "tuple"),
    set: partial(sequence, "set"),
    frozenset: partial(sequence, "set"),
    torch.Size: partial(sequence, "tuple"),
    dict: lambda value: {"dict": pairs(value)},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    complex: lambda value: {"complex": [parts_of(value.real), parts_of(value.imag)]},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
    slice: lambda value: {"slice": [parts_of(x) for x in (value.start, value.stop, value.step)]},
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.Tensor: parts_of_tensor,
    torch.nn.Parameter: parts_of_tensor,
    types.SimpleNamespace: lambda value: {
        "names": [[k, parts_of(v)] for k, v in vars(value).items()]
    },
}
BELOW = {  # for these classes and their subclasses
    torch.Tensor: parts_of_special_tensor,
    BaseException: lambda value: {"error": parts_of(parts_of_error(value))},
    np.ndarray: lambda value: {"array": parts_of(torch.from_numpy(np.ascontiguousarray(value)))},
    np.generic: lambda value: parts_of(value.item()),
    dict: lambda value: {"dict": pairs(value)},
}


# ---- Reading, in the check's process --------------------------------------------------------


def read(text: str | bytes):
    """Return the value of a text; raise Unreadable if `write_value` has not made it."""
    try:
        return rebuild_value(json.loads(text))
    except Unreadable:
        raise
    except Exception as error:  # recursion, digits without end, a key that cannot be hashed
        raise Unreadable(f"{type(error).__name__}: {error}"[:MOST_CHARACTERS]) from None


def rebuild_value(parts):
    if isinstance(parts, list):
        return [rebuild_value(one) for one in parts]
    if not isinstance(parts, dict):
        return parts
    if len(parts) != 1 or (kind := next(iter(parts))) not in READERS:
        raise Unreadable(f"no value is written as {brief(parts, 60)}")
    return READERS[kind](parts[kind])


def rebuild_tensor(parts):
    dtype, shape, requires_grad, data = parts
    numbers = torch.frombuffer(
        bytearray(base64.b64decode(data)) or bytearray(16), dtype=torch.uint8
    )
    numbers = numbers if data else numbers[:0]
    made = numbers.view(PLAIN[dtype]).reshape([int(size) for size in shape])
    return made.requires_grad_() if requires_grad is True else made


def rebuild_record(parts):
    name, *values = parts
    if name == "SourceLine":
        return rebuild_source_line(*map(rebuild_value, values))
    kind = getattr(importlib.import_module(RECORDS[name]), name)
    if name == "CallFailure":
        return kind.rebuild(rebuild_value(values[0]), str(values[1]))
    return kind(*map(rebuild_value, values))


def rebuild_source_line(filename, line, *texts) -> SourceLineElsewhere:
    *texts, callers = texts
    if type(line) is not int:
        raise Unreadable(f"{brief(line, 60)} is no line")
    above = (one if isinstance(one, SourceLineElsewhere) else text(one)[:MOST_OF_A_LINE]
             for one in callers[:MOST_CALLERS])  # fmt: skip
    told = (text(one)[:MOST_OF_A_LINE] for one in (filename, *texts))
    return SourceLineElsewhere(next(told), line, *told, callers=tuple(above))


def rebuild_dict(parts) -> dict:
    need_fair([key for key, _ in parts])
    return {rebuild_value(key): rebuild_value(value) for key, value in parts}


def rebuild_set(parts) -> frozenset:
    need_fair(parts)
    return frozenset(map(rebuild_value, parts))


def need_fair(keys):
    """Raise Unreadable for many keys with hashes that can be chosen: a dict may take forever."""
    for key in keys[MOST_ODD_KEYS:]:
        if type(key) is not str and not (type(key) is int and abs(key) < sys.maxsize >> 2):
            raise Unreadable(f"more than {MOST_ODD_KEYS} keys, and {brief(key, 60)} among them")


def text(value) -> str:
    if type(value) is not str:
        raise Unreadable(f"{brief(value, 60)} is no text")
    return value


READERS = {
    "float": lambda parts: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[parts],
    "tuple": lambda parts: tuple(map(rebuild_value, parts)),
    "set": rebuild_set,
    "dict": rebuild_dict,
    "bytes": lambda parts: base64.b64decode(parts),
    "complex": lambda parts: complex(*map(float, map(rebuild_value, parts))),
    "range": lambda parts: range(*map(int, parts)),
    "slice": lambda parts: slice(*map(rebuild_value, parts)),
    "dtype": lambda parts: DTYPES[parts],
    "tensor": rebuild_tensor,
    "array": lambda parts: rebuild_value(parts).numpy(),
    "names": lambda parts: types.SimpleNamespace(**{text(k): rebuild_value(v) for k, v in parts}),
    "record": rebuild_record,
    "error": lambda parts: rebuild_error(rebuild_value(parts)),
    "foreign": lambda parts: Foreign(*map(text, parts)),
}
