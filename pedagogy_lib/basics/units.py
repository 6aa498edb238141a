"""Numbers and other values as text for people. Bytes are decimal: 1 MB is 1,000,000 bytes."""

BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
LARGE_UNITS = (("T", 1e12), ("G", 1e9), ("M", 1e6))


def format_bytes(count: float) -> str:
    """Format `6_000_000` as `6.00 MB`."""
    unit, size = byte_unit(count)
    if unit == "B":
        return f"{round_digits(count):g} B"  # bytes per parameter, say, may be no whole number
    return f"{count / size:.2f} {unit}"


def short_bytes(count: float) -> str:
    """Format bytes with three digits: `16_250_000` as `16.2 MB`, `120_000_000` as `120 MB`."""
    unit, size = byte_unit(round_digits(count))  # rounded first: 999.9 kB are 1.00 MB
    number = round_digits(count / size)
    if unit == "B":
        return f"{number:g} B"
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {unit}"


def byte_unit(count: float) -> tuple[str, float]:
    """Return the largest unit that fits into a number of bytes, and the unit's size."""
    return next(((unit, size) for unit, size in BYTE_UNITS if count >= size), BYTE_UNITS[-1])


def format_seconds(seconds: float) -> str:
    """Format `0.0123` as `12.3 ms`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def format_range(values, form) -> str:
    """Return `1.2 ms` or, if the values differ, `1.2 ms to 3.4 ms`; `form` formats one of them."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def full_number(number: float) -> str:
    """Format a number with all its digits, up to ten: `1024` as `1,024`, `0.5` as `0.5`."""
    return f"{number:,.10g}"


def four_digits(number: float) -> str:
    """Format `1.3333` as `1.333`, and `60480` as `60,480`: written out from 1e4 to below 1e10."""
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e10 else f"{number:.4g}"


def short_number(number: float) -> str:
    """Format `1024` as `1,024`, `42.67` as `42.7`, `8_390_000` as `8.39 M`."""
    if number >= 1e6:
        unit, size = next((unit, size) for unit, size in LARGE_UNITS if number >= size)
        return f"{number / size:.3g} {unit}"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


def two_digits(number: float) -> str:
    """Format two significant digits: `0.0012`, `−3.0`, `120`; very small or large as `1.2e−4`."""
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    if number == 0 or not exponent:  # infinite, or not a number
        text = mantissa if number else "0"
    elif -3 <= (power := int(exponent)) <= 3:
        text = f"{round_digits(number, 2):.{max(0, 1 - power)}f}"
    else:
        text = f"{mantissa}e{power}"
    return format_minus(text)


def round_digits(number: float, digits: int = 3) -> float:
    """Round to `digits` significant digits."""
    return float(f"{number:.{digits}g}")


def format_minus(text: str) -> str:
    """Return a number's text with a real minus sign: `-3` becomes `−3`."""
    return text.replace("-", "−")


def brief(value, width=40) -> str:
    """Return the start of a value's repr, on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # in the learner's own class, or for a number with many digits
        text = f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    return text if len(text) <= width else text[: width - 1] + "…"


def format_count(number: int | str, noun: str) -> str:
    """Format a count with its noun: `1 rank`, `3 ranks`, `2 to 8 batches`."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}" + ("" if number == 1 else ending)
