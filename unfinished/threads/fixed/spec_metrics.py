import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def collect(logits, labels, loss, heads=60):
    metrics = {"loss": loss.detach()}
    hit = (logits.argmax(1) == labels).float()
    for head in range(heads):
        metrics[f"accept_{head}"] = hit[head % len(hit):].mean()
        metrics[f"entropy_{head}"] = logits[:, head % logits.shape[1]].detach().std()
    return metrics


def reduce_metrics(metrics):
    world_size = dist.get_world_size()
    flat = torch.stack(list(metrics.values()))
    dist.reduce(flat, dst=0)
    return dict(zip(metrics, (flat / world_size).tolist()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 64)))
    optimizer = torch.optim.AdamW(model.parameters())
    began = time.perf_counter()
    for step in range(args.steps):
        x, y = torch.randn(32, 128), torch.randint(0, 64, (32,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics = reduce_metrics(collect(logits, y, loss))
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {metrics['loss']:.4f}", flush=True)
    if rank == 0:
        print(f"{(time.perf_counter() - began) / args.steps * 1000:.1f} ms per step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
