"""The cases, and the code that runs next to the answer."""

import contextlib

from coursekit.kit.results import outcome_of

TASKS = [  # batch, limit, fixed, each; the first task distinguishes misconceptions
    (60, 205, 80, 10), (60, 200, 80, 10), (60, 680, 80, 10), (60, 679, 80, 10),
    (60, 170, 80, 10), (60, 90, 80, 10),
    (7, 95, 30, 10), (1, 10, 8, 2), (256, 80_000_000_000, 16_000_000_000, 1_100_000_000),
    (60, 89, 80, 10), (60, 80, 80, 10), (60, 70, 80, 10), (1, 9, 8, 2),
]  # fmt: skip


def split(answer, *task):
    """Return the outcome of a call as "outcome", and a number as "count", too."""
    outcome = outcome_of(answer, *task)
    value, is_text = outcome.value, isinstance(outcome.value, str)
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        value = value if is_text else float(value)
    is_number = isinstance(value, float)
    is_short = value is None or is_number
    outcome = outcome._replace(value=value if is_short else f"{value!r:.60}")
    return {"outcome": outcome} | ({"count": value} if is_number else {})
