"""Start here: who is in this world, and one all-reduce.

torchrun --nproc-per-node 4 labs/start_here.py
"""

import os

import torch
import torch.distributed as dist

NAMES = ("GROUP_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE")  # GROUP_RANK counts the machines


def identity() -> dict[str, int]:
    """Who torchrun says this process is."""
    return {name: int(os.environ[name]) for name in NAMES}


def sum_of_ranks() -> int:
    """One all-reduce over everybody: every rank gets 0 + 1 + … + (n - 1)."""
    x = torch.tensor(dist.get_rank())
    dist.all_reduce(x)
    return x.item()


def main():
    dist.init_process_group("gloo")
    line = " ".join(f"{name} {value}" for name, value in identity().items())
    print(f"{line} SUM {sum_of_ranks()}\n", end="")  # in one piece: others print here as well
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
