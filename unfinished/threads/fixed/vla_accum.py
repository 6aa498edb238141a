import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, MICRO_STEPS, WIDTH = 20, 8, 1024


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = nn.Linear(256, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU())
        self.action = nn.Linear(WIDTH, 7)

    def forward(self, image):
        return self.action(self.body(torch.relu(self.vision(image))))


def backward_loss(model, loss, is_last):
    context = contextlib.nullcontext() if is_last else model.no_sync()
    with context:
        (loss / MICRO_STEPS).backward()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(Policy())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.perf_counter()
    for step in range(STEPS):
        for micro in range(MICRO_STEPS):
            image = torch.randn(8, 256)
            last = micro == MICRO_STEPS - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = (model(image) - image[:, :7]).square().mean()
            backward_loss(model, loss, micro == MICRO_STEPS - 1)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if rank == 0:
        print(f"{(time.perf_counter() - began) / STEPS * 1000:.1f} ms per step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
