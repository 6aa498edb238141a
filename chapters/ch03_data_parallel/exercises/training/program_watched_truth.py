"""What is right, and what mistakes give: see program_watched.py."""

BFLOAT16 = "bfloat16"
