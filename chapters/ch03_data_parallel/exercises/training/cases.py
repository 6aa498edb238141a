"""Limits of gradient clipping for the cases."""

FREE, CLIP = 1e9, 0.02  # above, and below, the norms of all gradients
