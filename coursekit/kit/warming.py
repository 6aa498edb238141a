"""Imports that would make a first case slow."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib.ranks.launcher import launch


def warm_up(answer=None):
    """Beside an answer: a first optimizer or DDP imports for seconds, and a case would hang."""
    launch(make_ddp, world_size=1, device="cpu")


def make_ddp():
    DistributedDataParallel(nn.Linear(1, 1))
