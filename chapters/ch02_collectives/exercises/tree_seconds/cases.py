"""The parts that the check and the truth share."""

MEGABYTES, SPEED = 5.0, 1.6  # MB and MB/s; the speed does not divide the size
