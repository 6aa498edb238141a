"""A learner's answer in a process: its limits, its values and its errors."""
