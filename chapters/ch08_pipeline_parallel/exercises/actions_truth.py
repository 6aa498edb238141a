"""What is right, and what mistakes give: see actions.py."""

from pedagogy_lib.schedules.timelines import text_of


def format_row(row) -> str:
    return " ".join(text_of(*action) for action in row) or "nothing"
