import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def step(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    truth = torch.randn(32, 1)
    torch.manual_seed(rank + 1)
    model = DDP(nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    stopping = EarlyStopping(patience=2)
    x_val = torch.randn(20, 32)
    y_val = x_val @ truth + 3 * torch.randn(20, 1)

    for epoch in range(20):
        for _ in range(5):
            x = torch.randn(32, 32)
            loss = (model(x) - x @ truth).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            value = (model.module(x_val) - y_val).square().mean().item()
        shared = torch.tensor(value)
        dist.all_reduce(shared)
        value = shared.item() / dist.get_world_size()
        if rank == 0:
            print(f"epoch {epoch} validation {value:.4f}", flush=True)
        if stopping.step(value):
            break
    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), "/tmp/patience.pt")
        print("saved", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
