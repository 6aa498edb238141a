"""`repeat_for_each` tries every value, whatever ends a try, and lists where offenders failed."""

import pytest
from each import repeat_for_each


def try_value(value):
    if value == "raises":
        raise ValueError("no")
    if value == "fails":
        pytest.fail("not so")
    if value == "does not raise":
        with pytest.raises(ValueError):
            pass
    assert value != "is wrong"


def test_every_offender_is_listed_with_the_line_at_which_it_failed():
    values = ["raises", "fails", "does not raise", "is right", "is wrong"]
    with pytest.raises(pytest.fail.Exception) as caught:
        repeat_for_each("value", values)(try_value)()
    first = try_value.__code__.co_firstlineno
    assert str(caught.value).splitlines() == [
        "4 of 5:",
        f"raises: test_each.py:{first + 2}: ValueError no",
        f"fails: test_each.py:{first + 4}: Failed not so",
        f"does not raise: test_each.py:{first + 6}: Failed DID NOT RAISE ValueError",
        f"is wrong: test_each.py:{first + 8}: AssertionError assert 'is wrong' != 'is wrong'",
    ]
