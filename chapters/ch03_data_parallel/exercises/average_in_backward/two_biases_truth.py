"""The place of the two biases of two_biases.py among all gradients."""

from coursekit.kit.reference_training import HIDDEN

BOTH_BIASES = slice(2 * HIDDEN)
