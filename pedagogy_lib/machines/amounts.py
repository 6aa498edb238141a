"""Checks of numbers of machines, ranks, bytes and seconds."""

from numbers import Integral, Real
from typing import NamedTuple

from ..basics.errors import need
from ..basics.units import brief

SLOWEST_BYTES_PER_SECOND, FASTEST_BYTES_PER_SECOND = 1000, 10**11
LONGEST_SECONDS = 10


class Link(NamedTuple):
    """The limits of a machine's network card; `Machines` explains the fields."""

    bytes_per_second: float | None = None
    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0


def is_count(value) -> bool:
    """Return whether `value` is a whole number from 0 on."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 0


def is_positive(value) -> bool:
    return is_count(value) and value > 0


def is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value


def need_rate(rate):
    least, most = SLOWEST_BYTES_PER_SECOND, FASTEST_BYTES_PER_SECOND
    need(rate is None or (is_real(rate) and least <= rate <= most),
         f"bytes_per_second is a number from {least} to {most:,}, or None, "
         f"not {brief(rate)}")  # fmt: skip


def need_seconds(name, seconds, most=LONGEST_SECONDS):
    sentence = f"{name} is a number of seconds from 0 to {most:g}, not {brief(seconds)}"
    need(is_real(seconds) and 0 <= seconds <= most, sentence)


def need_link(bytes_per_second, latency_seconds, jitter_seconds, loss):
    """Raise LaunchError unless the arguments make a valid `Link`."""
    need_rate(bytes_per_second)
    need_seconds("latency_seconds", latency_seconds)
    need_seconds("jitter_seconds (at most the latency)", jitter_seconds, latency_seconds)
    need(is_real(loss) and 0 <= loss < 1,
         f"loss is a share below 1, as 0.01 is one packet in 100, not {brief(loss)}")  # fmt: skip
