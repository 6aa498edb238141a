import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 40


def batch(rank, step, generator):
    x = torch.randn(32, 128, generator=generator)
    if rank == 2 and step == 17:
        x[5, 7] = float("inf")
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    model = DDP(nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x = batch(rank, step, generator)
        loss = (model(x).squeeze(1) - x[:, 0]).square().mean()
        if torch.isnan(loss):
            raise RuntimeError(f"rank {rank}: loss is NaN at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
