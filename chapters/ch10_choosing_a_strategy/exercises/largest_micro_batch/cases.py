"""What the cases and the truth share."""

NOTHING_FITS = "where nothing fits, the answer is 0."
