import torch
import torch.distributed as dist
from torch import nn

BATCH, STEPS, LR = 64, 40, 0.05


class Net(nn.Module):
    def __init__(self, width=256, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def sync_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for step in range(STEPS):
        x = torch.randn(BATCH, 256)
        y = torch.roll(x, 1, dims=1)
        mine = slice(rank * BATCH // world_size, (rank + 1) * BATCH // world_size)
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        sync_gradients(model)
        optimizer.step()
        value = loss.detach().clone()
        dist.all_reduce(value, op=dist.ReduceOp.SUM)
        if rank == 0 and step % 10 == 9:
            print(f"step {step} loss {value.item() / world_size:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
