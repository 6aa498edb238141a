"""Minutes as text."""


def minutes(read: int, practise: int) -> str:
    """ "15 min to read, 45 min for exercises"; in hours where they are many."""

    def told(number):
        return f"{number / 60:.1f}".removesuffix(".0") + " h" if number >= 120 else f"{number} min"

    return f"{told(read)} to read" + (f", {told(practise)} for exercises" if practise else "")
