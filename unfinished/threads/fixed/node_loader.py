import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

GLOBAL_BATCH = 64
EPOCHS = 2


def seed_everything(seed):
    torch.manual_seed(seed)


def make_loader(data, world_size):
    return DataLoader(data, batch_size=GLOBAL_BATCH // world_size,
                      sampler=torch.utils.data.DistributedSampler(data), drop_last=True)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    seed_everything(7)
    x = torch.randn(512, 128)
    y = x @ torch.randn(128, 4) + 2 * torch.randn(512, 4)
    loader = make_loader(TensorDataset(x, y), world_size)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    steps = 0
    for epoch in range(EPOCHS):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        if rank == 0:
            norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
            print(f"epoch {epoch} steps {steps} loss {loss.item():.4f} grad norm {norm:.4f}", flush=True)
    with torch.no_grad():
        full = nn.functional.mse_loss(model.module(x), y)
    if rank == 0:
        print(f"loss on all data {full.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
