"""Exercise 2.3: broadcast_tree."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.3", "broadcast_tree", by_messages.examine_broadcast,
    (
        "Take root = 0 first. In the first round, 0 sends to 1. In the second, 0 to 2 and 1 to "
        "3. Who sends to whom in the third?",
        "A loop over reach = 1, 2, 4, …: whoever is below `reach` has x and sends it to the "
        "one `reach` further, if there is one; from `reach` to 2 * reach - 1 they receive.",
        "For another root, number the ranks from there: place = (rank - root) % n. A peer's "
        "rank is (its place + root) % n.",
    ),
    lab="collectives",
)  # fmt: skip
