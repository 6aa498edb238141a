import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, PROMPTS, ANSWERS = 20, 8, 8


def rollouts(step):
    g = torch.Generator().manual_seed(step)
    lengths = []
    for prompt in range(PROMPTS):
        typical = 20 if prompt < PROMPTS - 1 else 400
        lengths += [max(4, int(typical * (0.8 + 0.4 * torch.rand(1, generator=g)))) for _ in range(ANSWERS)]
    return lengths


def generate(length):
    time.sleep(4e-5 * length)
    return torch.randn(length, 128)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    began = time.perf_counter()
    for step in range(STEPS):
        lengths = rollouts(step)
        share = len(lengths) // world_size
        mine = lengths[rank * share:(rank + 1) * share]
        optimizer.zero_grad()
        loss = 0.0
        for i, length in enumerate(mine):
            model.require_backward_grad_sync = i == len(mine) - 1
            x = generate(length)
            part = (model(x) - x).square().sum() * world_size / sum(lengths) / 128
            part.backward()
            loss += part.item()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} tokens {sum(lengths)}", flush=True)
    if rank == 0:
        print(f"{(time.perf_counter() - began) / STEPS * 1000:.1f} ms per step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
