import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--log-file", default="/tmp/file_logger.csv")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 16)))
    optimizer = torch.optim.Adam(model.parameters())
    with open(args.log_file, "a") as log:
        for step in range(args.steps):
            x, y = torch.randn(32, 128), torch.randint(0, 16, (32,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.write(f"{rank},{step},{loss.item():.6f}\n")
            log.flush()
    dist.barrier()
    if rank == 0:
        with open(args.log_file) as log:
            lines = log.read().splitlines()
        print(f"{len(lines)} lines in {args.log_file}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
