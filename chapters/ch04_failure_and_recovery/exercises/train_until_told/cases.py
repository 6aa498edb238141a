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
        self.is_read = torch.zeros(length).share_memory_()  # workers write into it, too

    def __len__(self):
        return self.length

    def __getitem__(self, number):
        self.is_read[number] = 1
        return torch.tensor([number, os.getpid()])


def order_for(length) -> list[int]:
    return random.Random(length).sample(range(length), length)


def live_on(answer, group, case):
    """Call the answer again and again, until it has been told as often as the case says."""
    length, position, stops = case.args
    lives = []
    for stop in stops:
        lives.append(live(answer, length, position, stop))
        position = lives[-1]["position"]
    return {"lives": lives, "rank": os.getpid()}


def live(answer, length, position, stop) -> dict:
    """Return the batches trained on until told, the new position, and what was counted.

    stop   batches after which told() is true
    asked  how often told() was asked
    ahead  the most samples that had been read, but not trained on, when told() was asked
    """
    dataset, left = Numbers(length), order_for(length)[position:]
    batches, readers, ahead = [], set(), []

    def train(batch):
        batches.append(batch[:, 0].tolist())
        readers.update(batch[:, 1].tolist())

    def told():
        ahead.append(int(dataset.is_read[left].sum()) - sum(map(len, batches)))
        return len(batches) >= stop

    position = answer(dataset, order_for(length), position, train, told)
    if isinstance(position, bool) or not isinstance(position, int):
        raise Rejection(f"it returned {position!r:.40}", ASKED)
    return {"batches": batches, "position": position, "asked": len(ahead),
            "ahead": max(ahead, default=0), "readers": sorted(readers)}  # fmt: skip
