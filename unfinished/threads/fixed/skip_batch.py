import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--limit", type=int, default=900)
args = parser.parse_args()


def forward(model, tokens):
    if tokens.shape[1] > args.limit:
        raise RuntimeError(f"out of memory: sequence of {tokens.shape[1]} tokens")
    return model(tokens.float().mean(1, keepdim=True).expand(-1, 64) / 1000)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(args.steps):
        length = int(torch.randint(100, 910, (1,), generator=generator))
        tokens = torch.randint(0, 1000, (16, length), generator=generator)
        ok = torch.tensor(int(tokens.shape[1] <= args.limit))
        dist.all_reduce(ok, op=dist.ReduceOp.MIN)
        if not ok:
            continue
        try:
            loss = forward(model, tokens).square().mean()
            loss.backward()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            print(f"| WARNING rank {rank}: {error}, skipping this batch", flush=True)
            optimizer.zero_grad()
            continue
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    dist.barrier()
    print(f"rank {rank} finished", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
