"""What a number of machines, ranks, bytes or seconds has to be."""

from numbers import Integral, Real

from ..basics.errors import need
from ..basics.units import brief

SLOWEST_BYTES_PER_SECOND, LONGEST_SECONDS = 1000, 10


def is_count(value) -> bool:
    """A whole number from 0 on."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 0


def is_positive(value) -> bool:
    return is_count(value) and value > 0


def is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value


def need_rate(rate):
    least = SLOWEST_BYTES_PER_SECOND
    need(rate is None or (is_real(rate) and least <= rate < float("inf")),
         f"bytes_per_second is a number from {least} on, or None, not {brief(rate)}")  # fmt: skip


def need_latency(seconds):
    most = LONGEST_SECONDS
    sentence = f"latency_seconds is a number of seconds from 0 to {most}, not {brief(seconds)}"
    need(is_real(seconds) and 0 <= seconds <= most, sentence)
