import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, WIDTH = 30, 32, 256


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class ParallelMLP(nn.Module):
    def __init__(self, rank, world_size):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        up = torch.randn(WIDTH, 64, generator=g) / 8
        down = torch.randn(WIDTH, 64, generator=g) / 16
        part = slice(rank * WIDTH // world_size, (rank + 1) * WIDTH // world_size)
        self.up = nn.Parameter(up[part].clone())
        self.down = nn.Parameter(down[part].clone())

    def forward(self, x):
        hidden = torch.relu(Copy.apply(x) @ self.up.T)
        out = (self.down.T @ hidden.T).T
        return Reduce.apply(out)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = ParallelMLP(rank, world_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    g = torch.Generator().manual_seed(1)
    truth = torch.randn(64, 64, generator=g) / 8
    for step in range(STEPS):
        x = torch.randn(BATCH, 64, generator=g)
        loss = (model(x) - x @ truth).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
