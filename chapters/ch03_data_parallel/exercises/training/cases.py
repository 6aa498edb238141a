"""What is tried, and what runs next to the answer."""

FREE, CLIP = 1e9, 0.02  # no gradient is as long as the first, all are longer than the second
