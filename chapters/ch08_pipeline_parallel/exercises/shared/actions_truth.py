"""The text of a row of actions, for messages about it."""

from pedagogy_lib.schedules.timelines import text_of


def format_row(row) -> str:
    return " ".join(text_of(*action) for action in row) or "nothing"
