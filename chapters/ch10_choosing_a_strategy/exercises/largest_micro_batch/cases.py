"""A diagnosis that the check and the truth share."""

NOTHING_FITS = "where nothing fits, the answer is 0."
