"""Answers that are numbers: got from the learner's function, compared, and recognised."""

from pedagogy_lib.basics.closeness import close_in_float32

from ..protocol import Wrong


def numbers_of(case, result, names, shape="") -> list[float]:
    """The result as one number for each name.

    shape  what to say of a result that has another
    """
    try:
        found = [float(value) for value in result]
    except (TypeError, ValueError, RuntimeError):
        found = None
    if found is None or len(found) != len(names):
        what = f"expected {len(names)} numbers, for {', '.join(names)}; got {result!r}"
        nothing = "what your function returns is its last line: `return …`"
        raise Wrong(case, what, nothing if result is None else shape)
    return found


def require(case, names, got, expected, guesses):
    """Raise `Wrong` at the first number that is off. Nobody asked in which dtype to compute it."""
    for name, mine, right in zip(names, got, expected):
        if not close_in_float32(mine, right):
            what = f"{name}: expected {right:.10g}, got {mine:.10g}"
            raise Wrong(case, what, recognise(got, guesses))


def recognise(got, guesses) -> str:
    """The first sentence in {sentence: what that misconception gives} that fits, or ""."""
    return next((why for why, wrong in guesses.items() if close_in_float32(got, wrong)), "")
