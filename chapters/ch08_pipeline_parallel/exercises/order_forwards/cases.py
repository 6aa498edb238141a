"""What is looked at next to the answer: the types in its value."""


def describe_other_type(answer, arguments) -> str:
    """Return what keeps an answer's value from being a list of pairs of int, or ""."""
    value = answer(*arguments)
    if not isinstance(value, list):
        return f"a {type(value).__name__}"
    for pair in value:
        if not isinstance(pair, (tuple, list)):
            return f"a list with a {type(pair).__name__}"
        other = [number for number in pair if type(number) is not int]
        if other:
            return f"a pair with a {type(other[0]).__name__}: {pair!r:.60}"
    return ""
