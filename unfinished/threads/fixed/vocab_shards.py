import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SHARDS = 8
STEPS = 30


def lines_of(shard):
    g = torch.Generator().manual_seed(shard)
    count = [40, 31, 52, 44, 38, 0, 47, 29][shard]
    return torch.randint(0, 500, (count, 12), generator=g)


def prepare(store):
    for shard in range(SHARDS):
        lines = lines_of(shard)
        torch.save(lines, f"/tmp/vocab_shard_{shard}.pt")
        store.set(f"shard/{shard}", str(len(lines)))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        prepare(store)
    mine = list(range(rank, SHARDS, world_size))
    store.wait([f"shard/{shard}" for shard in mine])
    text = torch.cat([torch.load(f"/tmp/vocab_shard_{shard}.pt") for shard in mine])
    if rank == 0:
        print("shards are ready", flush=True)

    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Embedding(500, 64), nn.Flatten(), nn.Linear(12 * 64, 500)))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        batch = text[torch.randint(0, len(text), (32,))]
        loss = nn.functional.cross_entropy(model(batch), batch[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
