import torch
import torch.distributed as dist
from torch import nn

BATCH, STEPS, MAX_NORM = 32, 60, 0.5


class TrainStep:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        for p in self.model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.optimizer.step()
        return loss.detach()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    step_fn = TrainStep(model, optimizer)
    truth = torch.randn(64, 8) / 8
    for step in range(STEPS):
        x = torch.randn(BATCH, 64)
        scale = torch.ones(BATCH, 1)
        scale[:BATCH // 4] = 5.0
        y = x @ truth * scale
        mine = slice(rank * BATCH // world_size, (rank + 1) * BATCH // world_size)
        loss = step_fn(x[mine], y[mine])
        dist.all_reduce(loss)
        if rank == 0 and step % 15 == 14:
            print(f"step {step} loss {loss.item() / world_size:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
