import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BATCH, STEPS = 64, 40


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 24))
        self.decoder = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 144))

    def encode(self, x):
        return self.encoder(x)

    def forward(self, x):
        code = self.encode(x)
        return code, self.decoder(code)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    basis = torch.randn(24, 144) / 5
    model = DDP(Autoencoder())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        x = torch.randn(BATCH, 24) @ basis
        mine = x[rank * BATCH // world_size:(rank + 1) * BATCH // world_size]
        code, restored = model(mine)
        loss = (restored - mine).square().mean() + 1e-3 * code.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    total = sum(p.detach().abs().sum() for p in model.parameters())
    print(f"rank {rank} sum of weights {total.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
