"""Values as JSON takes them, and back, exactly: types, dtypes, and every bit of a number.

Of the course's own files alone: any record and any function of ours can be named in them. What
comes from a process that nobody trusts is read by `course/exact_values.py`.
"""

import base64
import contextlib
import importlib
import math
import operator
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import FunctionType

import torch

from .values import MOST_VALUES, plain

PLAIN = (type(None), bool, str)


def packed(value):
    """A value in a form that JSON takes. Raises TypeError where nobody knows how."""
    kind = type(value)
    if kind in PLAIN or kind is int or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"float": str(value)}
    if kind is list:
        return [packed(one) for one in value]
    if kind in (tuple, set, frozenset):
        parts = value if kind is tuple else sorted(value, key=repr)
        return {kind.__name__: [packed(one) for one in parts]}
    if kind is dict:
        return {"dict": [[packed(key), packed(one)] for key, one in value.items()]}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, torch.Tensor):
        return packed_tensor(value)
    return packed_object(value)


def packed_object(value):
    """Of a type with a name: a record, a function of a module, or what `plain` makes of it."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"record": [name_of(type(value)), [packed(one) for one in value]]}
    if is_dataclass(value) and not isinstance(value, type):
        parts = [packed(getattr(value, one.name)) for one in fields(value)]
        return {"record": [name_of(type(value)), parts]}
    if isinstance(value, (FunctionType, type)):
        return {"named": name_of(value)}
    if isinstance(value, Iterator):
        return packed([one for one, _ in zip(value, range(MOST_VALUES))])
    if isinstance(value, (list, dict, tuple)):
        return packed(plain(value))
    simpler = plain(value)
    if type(simpler) is type(value):
        raise TypeError(f"{value!r:.80} of {type(value)} cannot be written down")
    return packed(simpler)


def packed_tensor(x):
    """With its bytes in the order of its indices; a transposed one is made so again."""
    is_turned = x.dim() == 2 and not x.is_contiguous() and x.t().is_contiguous()
    numbers = (x.t() if is_turned else x).detach().cpu().contiguous()
    data = base64.b64encode(bytes(numbers.flatten().view(torch.uint8).tolist())).decode()
    dtype = str(x.dtype).removeprefix("torch.")
    return {"tensor": [dtype, list(numbers.shape), data, is_turned, x.requires_grad]}


def unpacked(value):
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = value.items()
    return UNPACKED[kind](parts)


def unpacked_tensor(parts):
    dtype, shape, data, is_turned, requires_grad = parts
    numbers = torch.frombuffer(bytearray(base64.b64decode(data)), dtype=getattr(torch, dtype)) \
        if data else torch.empty(0, dtype=getattr(torch, dtype))  # fmt: skip
    x = numbers.view(shape)
    return (x.t() if is_turned else x).requires_grad_(requires_grad)


def name_of(thing) -> str:
    name = f"{thing.__module__}:{thing.__qualname__}"
    with contextlib.suppress(AttributeError):
        if named(name) is thing:
            return name
    raise TypeError(f"{thing!r:.80} has no name under which it can be found")


def named(name):
    module, _, path = name.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


UNPACKED = {
    "float": float,
    "tuple": lambda parts: tuple(map(unpacked, parts)),
    "set": lambda parts: set(map(unpacked, parts)),
    "frozenset": lambda parts: frozenset(map(unpacked, parts)),
    "dict": lambda parts: {unpacked(key): unpacked(one) for key, one in parts},
    "range": lambda parts: range(*parts),
    "tensor": unpacked_tensor,
    "record": lambda parts: named(parts[0])(*map(unpacked, parts[1])),
    "named": named,
}
