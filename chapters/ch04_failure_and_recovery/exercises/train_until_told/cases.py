"""The code that runs next to the answer: a training run in several lives, with real workers."""

import os
import random

import torch
from torch.utils.data import Dataset

from coursekit.kit import Rejection

ASKED = "it returns a whole number: how many samples of `order` have been trained on"


class Numbers(Dataset):
    """A dataset whose items are (their own number, the process that has read them)."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, number):
        return torch.tensor([number, os.getpid()])


def order_for(length) -> list[int]:
    return random.Random(length).sample(range(length), length)


def live_on(answer, group, case):
    """Call the answer again and again, until it has been told as often as the case says."""
    length, stops = case.args
    dataset, position = Numbers(length), 0
    lives, positions, asked, readers = [], [], [], set()
    for stop in stops:
        trained, position, times = live(answer, dataset, position, stop, readers)
        lives.append(trained)
        positions.append(position)
        asked.append(times)
    alone = readers == {os.getpid()}
    return {"lives": lives, "positions": positions, "asked": asked, "alone": alone}


def live(answer, dataset, position, stop, readers) -> tuple[list[list[int]], int, int]:
    """Return the batches trained on until told, the new position, and how often told() was asked.

    stop  batches after which told() is true
    """
    trained, asked = [], []

    def train(batch):
        trained.append(batch[:, 0].tolist())
        readers.update(batch[:, 1].tolist())

    def told():
        asked.append(1)
        return len(trained) >= stop

    position = answer(dataset, order_for(len(dataset)), position, train, told)
    if isinstance(position, bool) or not isinstance(position, int):
        raise Rejection(f"it returned {position!r:.40}", ASKED)
    return trained, position, len(asked)
