"""Numbers as people read them."""

import pytest

from pedagogy_lib.basics.units import (
    format_bytes,
    format_count,
    format_range,
    format_seconds,
    full_number,
    short_bytes,
    short_number,
    two_digits,
)


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "rank", "1 rank"),
        (0, "rank", "0 ranks"),
        (3, "process", "3 processes"),
        (1, "micro-batch", "1 micro-batch"),
        ("2 to 8", "micro-batch", "2 to 8 micro-batches"),
    ],
)
def test_things_are_counted(number, noun, words):
    assert format_count(number, noun) == words


def test_bytes_and_seconds_have_the_unit_that_fits():
    counts = {0: "0 B", 999: "999 B", 2.5: "2.5 B", 6_000_000: "6.00 MB", 1.5e12: "1.50 TB"}
    assert {count: format_bytes(count) for count in counts} == counts
    assert [format_seconds(s) for s in (0.0123, 2, 0.000004)] == ["12.3 ms", "2.00 s", "4 µs"]


def test_a_range_is_one_number_where_all_look_the_same():
    assert format_range([2.0, 0.5, 1.0], format_seconds) == "500.0 ms to 2.00 s"
    assert format_range([2.0, 2.001], format_seconds) == "2.00 s"


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.9, "1.00 kB"),
        (1234, "1.23 kB"),
        (12_345, "12.3 kB"),
        (99_960, "100 kB"),
        (999_950, "1.00 MB"),
        (112e9, "112 GB"),
        (1.5e12, "1.50 TB"),
        (2500e12, "2500 TB"),
    ],
)
def test_short_bytes_have_three_digits(count, text):
    assert short_bytes(count) == text


def test_numbers_are_short_or_full():
    texts = {42: "42", 1024: "1,024", 42.666: "42.7", 8_388_608: "8.39 M", 3e9: "3 G"}
    assert {number: short_number(number) for number in texts} == texts
    assert short_number(137_438_953_472) == "137 G"
    assert [full_number(x) for x in (1024, 0.25, 8_388_608)] == ["1,024", "0.25", "8,388,608"]


@pytest.mark.parametrize(
    "number, text",
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.0123, "0.012"),
        (0.1, "0.10"),
        (-3, "−3.0"),
        (99.6, "100"),
        (-1234, "−1200"),
        (12345, "1.2e4"),
        (0.000999, "0.0010"),
        (0.00012, "1.2e−4"),
        (-1e-12, "−1.0e−12"),
        (float("nan"), "nan"),
        (float("-inf"), "−inf"),
    ],
)
def test_two_significant_digits(number, text):
    assert two_digits(number) == text
