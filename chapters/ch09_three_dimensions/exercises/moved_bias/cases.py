"""A function that makes the loads of the cases."""

import torch


def loads(*values):
    return torch.tensor(values)
