"""`repeat_for_each`: one test of a property that many files share, which lists those without it."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

MOST_LINES = 12  # of what is told of an offender


def repeat_for_each(names: str, values: Iterable | Callable, name: Callable[[object], str] = str):
    """Make a test of one value into a test of all of them; a failure lists the offenders.

    Thousands of cases that take no time hide what a run tests, and cost seconds to collect. A
    fixture that the test takes is the same for all values.

    names   of the arguments that get a value, as of `pytest.mark.parametrize`: "source", "a, b"
    values  to test, or a function that returns them when the test runs
    name    tells which value this is
    """
    arguments = [one.strip() for one in names.split(",")]

    def decorate(test):
        @functools.wraps(test)
        def test_all(**fixtures):
            offenders, count = [], 0
            for value in values() if callable(values) else values:
                count += 1
                given = value if len(arguments) > 1 else [value]
                try:
                    test(**fixtures, **dict(zip(arguments, given, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # pytest.raises fails so, too
                    told = str(error).splitlines()[:MOST_LINES]
                    what = f"{type(error).__name__} " + "\n  ".join(told)
                    offenders.append(f"{name(value)}: {line_of(error, test)}: {what}")
            assert count, "there is nothing to test"
            if offenders:
                pytest.fail(f"{len(offenders)} of {count}:\n" + "\n".join(offenders), pytrace=False)

        signature = inspect.signature(test)
        fixtures = [p for p in signature.parameters.values() if p.name not in arguments]
        test_all.__signature__ = signature.replace(parameters=fixtures)
        return test_all

    return decorate


def line_of(error, test) -> str:
    """Return the file and line of the failing assertion: the innermost one of the test's file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == test.__code__.co_filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"
