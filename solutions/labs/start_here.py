# Built from chapters/ch00_start_here/labs/start_here.py by `make build`.
"""A complete torchrun program: each process prints its rank, and all add up the ranks.

torchrun --nproc-per-node 4 labs/start_here.py
"""

import os

import torch
import torch.distributed as dist

# GROUP_RANK is the number of the machine.
NAMES = ("GROUP_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE")


def join() -> torch.device:
    """Join the process group and return the device on which this rank computes."""
    local_rank = int(os.environ["LOCAL_RANK"])
    # All machines must decide alike, because a rank on NCCL never meets one on Gloo.
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)  # connects the ranks at once
        return device
    dist.init_process_group("gloo")
    return torch.device("cpu")


def main():
    device = join()
    x = torch.tensor(dist.get_rank(), device=device)
    dist.all_reduce(x)
    line = " ".join(f"{name} {os.environ[name]}" for name in NAMES)
    # In one piece, because the other ranks print to the same place.
    print(f"{line} SUM {x.item()}\n", end="")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
