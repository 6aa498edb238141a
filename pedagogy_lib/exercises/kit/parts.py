"""Exercises that are built on others."""

from itertools import islice

from ...course.checking import LabFunction, Wrong

FIRST_CASES = 2  # of an exercise, to see quickly whether it is right


def after(examine, *parts):
    """Examine an answer; if it is wrong, see first whether what it is built on is wrong already.

    parts  (number, name, examine) of exercises whose functions the answer calls
    """

    def examine_all(answer):
        try:
            yield from examine(answer)
        except Wrong:
            for part in parts:
                need_part(answer, *part)
            raise

    return examine_all


def need_part(answer, number, name, examine):
    try:
        list(islice(examine(LabFunction(answer.lab, name)), FIRST_CASES))
    except Wrong as wrong:
        what = f"{name}, which this is built on: {wrong.what}"
        raise Wrong(wrong.case, what, f'first: check("{number}")') from None
