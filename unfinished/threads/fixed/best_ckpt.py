import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 8


def fit(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


@torch.no_grad()
def validate(model, data, epoch):
    model.eval()
    x, y = data[epoch % len(data)]
    total = nn.functional.mse_loss(model.module(x), y)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def save(model, epoch, path):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save({"epoch": epoch, "model": model.module.state_dict()}, path)
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    inputs = torch.randn(480, 64)
    target = torch.randn(64, 8)
    train = TensorDataset(inputs, inputs @ target + torch.randn(480, 8))
    sampler = DistributedSampler(train, seed=1)
    loader = DataLoader(train, batch_size=20, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    generator = torch.Generator().manual_seed(rank)
    validation = []
    for _ in range(4):
        x = torch.randn(16, 64, generator=generator)
        validation.append((x, x @ target + 2 * torch.randn(16, 8, generator=generator)))

    best = float("inf")
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        fit(model, loader, optimizer)
        loss = validate(model, validation, epoch)
        if rank == 0:
            print(f"epoch {epoch} validation {loss:.4f} best {best:.4f}", flush=True)
        if loss < best:
            best = loss
            save(model, epoch, os.path.join("/tmp", "best_ckpt.pt"))
    if rank == 0:
        print("finished", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
