import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, MICRO = 20, 8


def read_sample(generator):
    time.sleep(0.002 + 0.03 * float(torch.rand(1, generator=generator)) ** 3)
    return torch.randn(8, 128, generator=generator)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.perf_counter()
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(MICRO):
            x = read_sample(generator)
            model.require_backward_grad_sync = micro == MICRO - 1
            loss = (model(x) - x).square().mean() / MICRO
            loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item() * MICRO:.4f}", flush=True)
    if rank == 0:
        print(f"{(time.perf_counter() - began) / STEPS * 1000:.1f} ms per step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
