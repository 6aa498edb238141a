"""What one process gets where ranks train together, and what programs with mistakes get.

It shuffles, accumulates and clips by itself, from the same first weights as the ranks.
"""

import torch

SAMPLES, FEATURES, BATCH, EPOCHS = 77, 400, 24, 3

TESTS, WRONG = 11, (1, 3, 4, 10)  # test images, and those of them that are not recognised


def data_of():
    """Images and labels to train with, and to test with."""
    source = torch.Generator().manual_seed(11)
    images = torch.randn(SAMPLES + TESTS, FEATURES, generator=source, dtype=torch.float64) / 10
    labels = torch.randint(10, (SAMPLES + TESTS,), generator=source)
    return images[:SAMPLES], labels[:SAMPLES], images[SAMPLES:], labels[SAMPLES:]
