"""Minutes as text."""


def minutes(read: int, practise: int) -> str:
    """Return "15 min to read, 45 min for exercises"; from 120 minutes on, it counts in hours."""

    def format_minutes(number):
        return f"{number / 60:.1f}".removesuffix(".0") + " h" if number >= 120 else f"{number} min"

    return f"{format_minutes(read)} to read" + (
        f", {format_minutes(practise)} for exercises" if practise else ""
    )
