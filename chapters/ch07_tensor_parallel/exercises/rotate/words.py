"""Sentences that the check and its mistakes share."""

FAR = (
    "far places are rotated by other angles. In float32, 100,000 times a speed is off by some "
    "thousandths: compute the angles in float64, places and speeds, and round cosines and sines"
)

ROUND_TABLES = "cosines and sines are rounded to the dtype of x: .to(x.dtype)"

ROUNDED_ANGLES = (
    "the places or speeds are rounded to the dtype of x, and bfloat16 has no 999: compute angles "
    "in float64, and round only their cosines and sines"
)
