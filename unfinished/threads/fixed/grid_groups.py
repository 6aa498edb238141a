import torch
import torch.distributed as dist
from torch import nn

STEPS = 30


def pretrained():
    g = torch.Generator().manual_seed(77)
    return {"0.weight": torch.randn(256, 64, generator=g) / 8, "0.bias": torch.zeros(256),
            "2.weight": torch.randn(8, 256, generator=g) / 16, "2.bias": torch.zeros(8)}


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    columns = world_size // 2
    members = [[c, c + columns] for c in range(columns)]
    groups = [dist.new_group(ranks) for ranks in members]
    column = rank % columns
    group, first = groups[column], members[column][0]

    torch.manual_seed(100 + rank)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    if rank == first:
        model.load_state_dict(pretrained())
    for p in model.parameters():
        dist.broadcast(p.data, src=first, group=group)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    truth = torch.randn(64, 8, generator=torch.Generator().manual_seed(9)) / 8
    generator = torch.Generator().manual_seed(rank // columns)
    for step in range(STEPS):
        x = torch.randn(32, 64, generator=generator)
        loss = nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=group)
            p.grad /= 2
        optimizer.step()
        if step % 10 == 0 and rank == first:
            print(f"column {column} step {step} loss {loss.item():.5f}", flush=True)
    total = sum(p.detach().abs().sum() for p in model.parameters()).item()
    print(f"rank {rank} column {column} sum of weights {total:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
