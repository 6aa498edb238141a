import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    counts = torch.zeros(2)
    for x, y in loader:
        counts[0] += (model.module(x).argmax(1) == y).sum()
        counts[1] += len(y)
    dist.all_reduce(counts)
    return counts.tolist()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    centers = torch.randn(10, 32)
    y = torch.arange(1200) % 10
    x = centers[y] + 1.8 * torch.randn(1200, 32)
    train, test = TensorDataset(x[:1067], y[:1067]), TensorDataset(x[1067:], y[1067:])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=64 // world_size, sampler=sampler)
    test_loader = DataLoader(test, batch_size=16, sampler=range(rank, len(test), world_size))
    model = DDP(nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right, seen = evaluate(model, test_loader)
        if rank == 0:
            print(f"epoch {epoch} test accuracy {right / seen:.5f} ({right:.0f} of {seen:.0f})", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
