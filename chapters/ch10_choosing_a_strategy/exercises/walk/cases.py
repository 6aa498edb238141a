"""A number that the cases and the truth share."""

BILLION = 10**9
