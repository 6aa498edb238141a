"""What the cases and the truth share."""

MEGABYTES, SPEED = 5.0, 1.6  # which does not divide it
