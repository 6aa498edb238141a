import itertools

import torch
import torch.distributed as dist
from torch import nn

STEPS = 30


def build_links(rank, world_size):
    pairs = list(itertools.combinations(range(world_size), 2))
    mine = [p for p in pairs if rank in p]
    others = [p for p in pairs if rank not in p]
    links = {}
    for pair in pairs:
        links[pair] = dist.new_group(list(pair))
    return {pair: links[pair] for pair in mine}


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    links = build_links(rank, world_size)

    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x = torch.randn(64, 128)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for pair in sorted(links):
            for p in model.parameters():
                dist.all_reduce(p.data, group=links[pair])
                p.data /= 2
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    print(f"rank {rank} finished", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
