"""The precision under autocast, for program_watch.py."""

BFLOAT16 = "bfloat16"
