import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def partition(utterances, rank, world_size):
    per_part = len(utterances) // world_size
    begin = rank * per_part
    return utterances[begin:min(begin + per_part, len(utterances))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--utterances", type=int, default=403)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(20)
    frames = torch.randn(args.utterances, 80)
    labels = torch.randint(0, 40, (args.utterances,))
    mine = partition(list(range(args.utterances)), rank, world_size)

    model = DDP(nn.Sequential(nn.Linear(80, 512), nn.ReLU(), nn.Linear(512, 40)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        for i, start in enumerate(range(0, len(mine), args.batch_size)):
            index = mine[start:start + args.batch_size]
            loss = criterion(model(frames[index]), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), "/tmp/asr_shards.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
