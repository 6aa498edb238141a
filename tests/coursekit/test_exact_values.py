"""What crosses from an answer's process: exact types, or nothing that a check takes for a value."""

import json
import math

import numpy as np
import pytest
import torch

from coursekit.answers.exact_errors import where_raised
from coursekit.answers.exact_values import (
    DTYPES,
    Foreign,
    Unreadable,
    read,
    rebuild_value,
    write_value,
)
from coursekit.kit.results import CallFailure, Outcome, equal, plain
from coursekit.protocol import Rejection, Wrong
from pedagogy_lib.basics.errors import HangError, RankError, WrongInput
from pedagogy_lib.basics.source_lines import SourceLine
from pedagogy_lib.measuring.bytes_of_calls import Call
from pedagogy_lib.measuring.uses import Use


def round_trip(value):
    return read(write_value(value))


PLAIN = (
    None, True, 0, -(10**40), 1.5, -0.0, math.inf, "", "é\u2028\x00\ud800", [], [1, [2.0]], (),
    (1, ("a",)), {"a": {1: None}}, {(1, 2): 3}, frozenset({1, 2}), b"\x00\xff", 1 + 2j,
    range(1, 9, 2), slice(None, 3), torch.float16, torch.Size([2, 3]),
    Call("send", 8, 8, 0, 1), Use("step", 0.5, 1.0, 3, 4, [Call("recv", 1, 0, 1)]),
    Outcome([1], "", "", None, ("A", "B")),
)  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{value!r:.40}")
def test_what_is_plain_comes_back_as_it_was(value):
    found = round_trip(value)
    assert type(found) is type(tuple(value) if isinstance(value, torch.Size) else value)
    assert found == value
    assert math.copysign(1, found) == math.copysign(1, value) if value == 0.0 else True


def test_nan_comes_back():
    assert math.isnan(round_trip(math.nan))


NUMBERS = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
)  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (3, 0, 2)])
def test_tensors_come_back_bit_for_bit(dtype, shape):
    count = math.prod(shape) * DTYPES[dtype].itemsize
    bits = torch.randint(0, 2 if dtype == "bool" else 256, (count,), dtype=torch.uint8)
    value = bits.view(DTYPES[dtype]).reshape(shape)
    found = round_trip(value)
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.reshape(-1).view(torch.uint8).tolist() == bits.tolist()


def test_a_tensor_comes_without_its_graph_and_its_larger_storage():
    x = torch.arange(6.0).requires_grad_()
    found = round_trip((x * 2)[1:3].view(2, 1).T)
    assert found.requires_grad
    assert found.is_leaf
    assert found.tolist() == [[2.0, 4.0]]
    assert found.untyped_storage().nbytes() == 8


def test_numpy_comes_back():
    assert round_trip(np.float32(1.5)) == 1.5
    assert round_trip(np.arange(6).reshape(2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]


class Liar(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class AlwaysTrueTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True


class Silent:
    def __repr__(self):
        raise ValueError


@pytest.mark.parametrize(
    "value", [Liar(1), object(), print, Liar, type("str", (str,), {})("a"), Silent(), iter([])]
)
def test_what_is_of_another_kind_equals_nothing(value):
    found = round_trip(value)
    assert type(found) is Foreign
    assert found.kind == type(value).__name__
    assert not equal(plain(found), 1.0)
    assert found != value


def test_a_tensor_that_lies_comes_as_its_numbers():
    found = round_trip(torch.ones(2).as_subclass(AlwaysTrueTensor))
    assert type(found) is torch.Tensor
    assert not torch.equal(found, torch.zeros(2))


def test_a_value_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        write_value(endless)


BAD = [
    "", "{", "[" * 100_000, "1" * 10_000, "\xff", '{"a": 1}', '{"list": 1, "tuple": 2}',
    '{"tensor": ["float32", [5], false, "AAAA"]}', '{"tensor": ["no", [], false, ""]}',
    '{"tensor": ["float32", [-1], false, "AAA="]}', '{"float": "1.0"}', '{"dict": [[[], 1]]}',
    '{"record": ["Path", "/etc"]}', '{"record": ["SourceLine"]}', '{"error": {"kinds": []}}',
    '{"range": ["a", 1, 2]}', '{"names": [[1, 2]]}', '{"foreign": [[], ""]}', '{"bytes": 1}',
]  # fmt: skip


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_what_is_not_written_by_us_is_refused(text):
    with pytest.raises(Unreadable):
        read(text)


# ---- Errors ---------------------------------------------------------------------------------


def catch_error(function):
    try:
        function()
    except BaseException as error:
        return error


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (lambda: {}["x"], KeyError, "'x'"),
        (lambda: 1 / 0, ZeroDivisionError, "division by zero"),
        (lambda: b"\xff".decode(), UnicodeDecodeError, "can't decode byte 0xff"),
        (lambda: torch.ones(2) @ torch.ones(3), RuntimeError, "size"),
        (lambda: exit(3), SystemExit, "3"),
    ],
)
def test_an_error_comes_back_under_its_name(function, kind, said):
    found = round_trip(catch_error(function))
    assert isinstance(found, kind)
    assert type(found).__name__ == kind.__name__
    assert said in str(found)


def test_no_interrupt_comes_from_elsewhere():
    assert type(round_trip(KeyboardInterrupt("now"))).__mro__[1] is Exception


def test_an_error_brings_its_line():
    found = round_trip(catch_error(lambda: 1 / 0))
    source_line = where_raised(found)
    assert source_line.filename.endswith("test_exact_values.py")
    assert "1 / 0" in source_line.text
    assert CallFailure(found).text.startswith("ZeroDivisionError: division by zero\n  at ")


def test_errors_of_the_course_come_back_as_they_were():
    source_line = SourceLine("labs/ring.py", 3, "f", text="dist.barrier()")
    hang = round_trip(HangError({0: source_line, 1: None}, 5.0))
    assert str(hang) == str(HangError({0: source_line, 1: None}, 5.0))
    rank = round_trip(RankError(1, "raised ValueError: no", ValueError("no"), source_line))
    assert (rank.rank, rank.place, str(rank.exception)) == (1, source_line, "no")
    assert str(rank) == str(RankError(1, "raised ValueError: no", ValueError("no"), source_line))
    assert (round_trip(Rejection("a", "b")).what, round_trip(Rejection("a", "b")).why) == ("a", "b")
    assert round_trip(Wrong("a", "b", "c")).why == "c"
    assert isinstance(round_trip(WrongInput("so")), WrongInput)


def test_what_json_holds_is_not_called():
    """Names in a text choose among records; nothing else is imported, and nothing runs."""
    with pytest.raises(Exception, match="Popen"):
        rebuild_value(json.loads('{"record": ["Popen", ["true"]]}'))


def test_a_source_line_that_is_reported_opens_no_file(tmp_path):
    path = tmp_path / "secret.py"
    path.write_text("the answer\n")
    source_line = SourceLine(
        str(path), 1, "f", callers=(SourceLine(str(path), 1, "g"), "… 2 calls …")
    )
    found = round_trip(source_line)
    assert found == source_line
    for told in (str(found), *found.list_details(), str(found.or_in_wait())):
        assert "the answer" not in told


@pytest.mark.parametrize("parts", [[1, 1, *"abcde", []], ["a", "1", *"abcde", []], ["a", 1, 2]])
def test_a_source_line_of_other_types_is_none(parts):
    with pytest.raises(Unreadable):
        read(json.dumps({"record": ["SourceLine", *parts]}))


def test_keys_with_equal_hashes_are_refused_where_they_are_many():
    keys = [[k * (2**61 - 1), 0] for k in range(1, 5000)]
    with pytest.raises(Unreadable):
        read(json.dumps({"dict": keys}))
    with pytest.raises(Unreadable):
        read(json.dumps({"set": [key for key, _ in keys]}))
    assert len(round_trip(dict.fromkeys(range(5000), 0))) == 5000
