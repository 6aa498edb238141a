import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BATCH, STEPS = 64, 30


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 32))
        self.passage = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 32))

    def forward(self, q, p):
        normalize = nn.functional.normalize
        return normalize(self.query(q), dim=1), normalize(self.passage(p), dim=1)


def gather(tensor):
    if dist.get_world_size() == 1:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    from torch.distributed.nn.functional import all_gather
    return torch.cat(all_gather(tensor))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    mixing = torch.randn(100, 100) / 10
    model = DDP(TwoTower(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        q = torch.randn(BATCH, 100)
        p = q @ mixing + 0.1 * torch.randn(BATCH, 100)
        per_rank = BATCH // world_size
        mine = slice(rank * per_rank, (rank + 1) * per_rank)
        a, b = model(q[mine], p[mine])
        scores = a @ gather(b).T / 0.1
        target = torch.arange(mine.start, mine.stop)
        loss = nn.functional.cross_entropy(scores, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        if rank == 0 and step % 5 == 4:
            norm = sum(w.grad.norm() ** 2 for w in model.module.passage.parameters() if w.grad is not None)
            print(f"step {step} loss {shown.item() / world_size:.5f} passage gradient {float(norm) ** 0.5:.5f}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
