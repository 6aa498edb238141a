import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=48)
    parser.add_argument("--accum-grad", type=int, default=4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    truth = torch.randn(80, 20) / 9
    model = DDP(nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Linear(256, 20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for batch_idx in range(args.batches):
        x = torch.randn(32, 80)
        mine = x[rank * 32 // world_size:(rank + 1) * 32 // world_size]
        context = contextlib.nullcontext
        if (batch_idx + 1) % args.accum_grad != 0:
            context = model.no_sync
        with context():
            loss = nn.functional.mse_loss(model(mine), mine @ truth)
            (loss / args.accum_grad).backward()
        if (batch_idx + 1) % args.accum_grad == 0:
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                print(f"batch {batch_idx} loss {loss.item():.5f}", flush=True)
    total = sum(p.detach().abs().sum() for p in model.parameters()).item()
    print(f"rank {rank} sum of weights {total:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
