"""Numbers and other values as people read them. Bytes are decimal: 1 MB is 1,000,000 bytes."""

BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
LARGE_UNITS = (("T", 1e12), ("G", 1e9), ("M", 1e6))


def format_bytes(count: float) -> str:
    """`6_000_000` as `6.00 MB`."""
    unit, size = byte_unit(count)
    if unit == "B":
        return f"{round_digits(count):g} B"  # bytes for each parameter, say, are no whole number
    return f"{count / size:.2f} {unit}"


def short_bytes(count: float) -> str:
    """`16_250_000` as `16.2 MB`, `120_000_000` as `120 MB`: three digits."""
    unit, size = byte_unit(round_digits(count))  # rounded first: 999.9 kB are 1.00 MB
    number = round_digits(count / size)
    if unit == "B":
        return f"{number:g} B"
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {unit}"


def byte_unit(count: float) -> tuple[str, float]:
    """The largest unit that fits into a number of bytes, and its size."""
    return next(((unit, size) for unit, size in BYTE_UNITS if count >= size), BYTE_UNITS[-1])


def format_seconds(seconds: float) -> str:
    """`0.0123` as `12.3 ms`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def format_range(values, form) -> str:
    """`1.2 ms` or, where the values differ, `1.2 ms to 3.4 ms`; `form` formats one of them."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def full_number(number: float) -> str:
    """`1024` as `1,024`, `0.5` as `0.5`: all digits that there are, up to ten."""
    return f"{number:,.10g}"


def four_digits(number: float) -> str:
    """`60480` as `60,480`, `1.3333` as `1.333`: no power of ten for what can be written out."""
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e10 else f"{number:.4g}"


def short_number(number: float) -> str:
    """`1024` as `1,024`, `42.67` as `42.7`, `8_390_000` as `8.39 M`."""
    if number >= 1e6:
        unit, size = next((unit, size) for unit, size in LARGE_UNITS if number >= size)
        return f"{number / size:.3g} {unit}"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


def two_digits(number: float) -> str:
    """`0.0012`, `−3.0`, `120`: two significant digits; very small or large ones as `1.2e−4`."""
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    if number == 0 or not exponent:  # infinite, or not a number
        text = mantissa if number else "0"
    elif -3 <= (power := int(exponent)) <= 3:
        text = f"{round_digits(number, 2):.{max(0, 1 - power)}f}"
    else:
        text = f"{mantissa}e{power}"
    return format_minus(text)


def round_digits(number: float, digits: int = 3) -> float:
    """To so many significant digits."""
    return float(f"{number:.{digits}g}")


def format_minus(text: str) -> str:
    """A number's text with a real minus sign: `-3` as `−3`."""
    return text.replace("-", "−")


def brief(value, width=40) -> str:
    """The start of a value's repr, on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # of the learner's own class, or of a number with many digits
        text = f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    return text if len(text) <= width else text[: width - 1] + "…"


def format_count(number: int | str, noun: str) -> str:
    """`1 rank`, `3 ranks`, `2 to 8 batches`."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}" + ("" if number == 1 else ending)
