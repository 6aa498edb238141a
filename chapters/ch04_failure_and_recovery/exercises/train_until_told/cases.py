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
    """Call the answer again and again until all is trained, or as often as the case says."""
    length, batches = case.args
    dataset, order, position = Numbers(length), order_for(length), 0
    lives, positions, readers = [], [], set()
    for stop in batches:
        trained, given = [], list(order)
        lives.append(trained)

        def train(batch, trained=trained):
            trained.append(batch[:, 0].tolist())
            readers.update(batch[:, 1].tolist())

        position = answer(dataset, given, position, train, lambda: len(trained) >= stop)
        if isinstance(position, bool) or not isinstance(position, int):
            raise Rejection(f"it returned {position!r:.40}", ASKED)
        positions.append(position)
    return {"lives": lives, "positions": positions, "alone": readers == {os.getpid()}}
