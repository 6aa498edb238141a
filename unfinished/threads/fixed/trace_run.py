import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile

STEPS, TRACE = 30, "/tmp/trace_run.json"


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for step in range(STEPS):
            x, y = torch.randn(32, 128), torch.randint(0, 16, (32,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if rank == 0:
        prof.export_chrome_trace(TRACE)
    dist.barrier()
    if rank == 0:
        with open(TRACE) as file:
            events = json.load(file)["traceEvents"]
        print(f"{len(events)} events of {STEPS} steps in {TRACE}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
