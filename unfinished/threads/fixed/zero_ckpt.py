import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def save_checkpoint(model, optimizer, step, path):
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                "step": step}, path)
    print(f"saved step {step}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
    for step in range(1, args.steps + 1):
        x = torch.randn(32, 128)
        loss = (model(x) - x.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.save_every == 0:
            optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            if step % args.save_every == 0:
                save_checkpoint(model, optimizer, step, "/tmp/zero_ckpt.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
