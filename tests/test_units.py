"""Numbers as people read them."""

import pytest

from pedagogy_lib.basics.units import counted, format_bytes, format_seconds


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
    assert counted(number, noun) == words


def test_bytes_and_seconds_have_the_unit_that_fits():
    assert [format_bytes(n) for n in (999, 6_000_000)] == ["999 B", "6.00 MB"]
    assert [format_seconds(s) for s in (0.0123, 2, 0.000004)] == ["12.3 ms", "2.00 s", "4 µs"]
