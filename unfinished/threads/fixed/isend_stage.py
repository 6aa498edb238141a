import torch
import torch.distributed as dist
from torch import nn

STEPS = 30


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256))
    generator = torch.Generator().manual_seed(0)
    pending = []
    for step in range(STEPS):
        if rank == 0:
            x = torch.randn(64, 256, generator=generator)
        else:
            x = torch.empty(64, 256)
            dist.recv(x, src=rank - 1)
        with torch.no_grad():
            for _ in range(1 + 4 * rank):
                y = stage(x)
        if rank < world_size - 1:
            pending.append((dist.isend(y.contiguous(), dst=rank + 1), y))
        elif step % 10 == 9:
            print(f"step {step} output {y.norm().item():.4f}", flush=True)
    for work, _ in pending:
        work.wait()
    dist.barrier()
    print(f"rank {rank} finished", flush=True)


if __name__ == "__main__":
    main()
