"""Exercise 8.3: most_kept."""

from ...course.checking import Exercise
from .bubbles import examine_most_kept

EXERCISE = Exercise(
    "8.3", "most_kept", examine_most_kept,
    (
        "Go through the row with a counter. Which kinds of action count up, which count down?",
        "F keeps one, B frees one; I frees nothing, W frees what I has left. What is the "
        "highest that the counter gets?",
        "For each action: kept += 1 if its kind is F, kept -= 1 if it is B or W; then "
        "most = max(most, kept), which begins at 0.",
    ),
)  # fmt: skip
