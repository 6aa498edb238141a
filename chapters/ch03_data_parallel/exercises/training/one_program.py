"""The data and the sizes of the training program, for the ranks and for one process."""

import torch

SAMPLES, FEATURES, BATCH, EPOCHS = 77, 400, 24, 3

TESTS, WRONG = 11, (1, 3, 4, 10)  # number of test images; those that are not recognised


def data_of():
    """Return images and labels to train with, and those to test with."""
    source = torch.Generator().manual_seed(11)
    images = torch.randn(SAMPLES + TESTS, FEATURES, generator=source, dtype=torch.float64) / 10
    labels = torch.randint(10, (SAMPLES + TESTS,), generator=source)
    return images[:SAMPLES], labels[:SAMPLES], images[SAMPLES:], labels[SAMPLES:]
