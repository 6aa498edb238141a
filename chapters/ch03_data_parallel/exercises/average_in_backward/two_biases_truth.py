"""What is right, and what mistakes give: see two_biases.py."""

from coursekit.kit.one_process import HIDDEN

BOTH_BIASES = slice(2 * HIDDEN)  # of all
