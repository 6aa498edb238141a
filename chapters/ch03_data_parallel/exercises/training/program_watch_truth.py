"""What is right, and what mistakes give: see program_watch.py."""

BFLOAT16 = "bfloat16"
