"""Numbers as people read them. Bytes are decimal: 1 MB is 1,000,000 bytes."""


def format_bytes(count: float) -> str:
    """`6_000_000` as `6.00 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def format_seconds(seconds: float) -> str:
    """`0.0123` as `12.3 ms`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def brief(value, width=40) -> str:
    """The start of a value's repr, on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # of the learner's own class, or of a number with many digits
        text = f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    return text if len(text) <= width else text[: width - 1] + "…"


def counted(number: int | str, noun: str) -> str:
    """`1 rank`, `3 ranks`, `2 to 8 batches`."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}" + ("" if number == 1 else ending)
