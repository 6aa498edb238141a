import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--grad-accum-steps", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Embedding(512, args.width), nn.Linear(args.width, args.width),
                              nn.GELU(), nn.Linear(args.width, 512)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.perf_counter()
    for step in range(args.steps):
        for micro_step in range(args.grad_accum_steps):
            model.require_backward_grad_sync = micro_step == args.grad_accum_steps - 1
            tokens = torch.randint(0, 512, (8,))
            loss = nn.functional.cross_entropy(model(tokens), tokens.roll(-1))
            (loss / args.grad_accum_steps).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if rank == 0:
        print(f"{(time.perf_counter() - began) / args.steps * 1000:.1f} ms per step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
