import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, BATCH = 40, 64


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world_size,))
    torch.manual_seed(8)
    truth = torch.randn(64, 16) / 8
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 16))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        x = torch.randn(BATCH, 64)
        mine = x[rank * BATCH // world_size:(rank + 1) * BATCH // world_size]
        loss = nn.functional.mse_loss(model(mine), mine @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        if rank == 0 and step % 10 == 9:
            print(f"step {step} loss {shown.item() / world_size:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
