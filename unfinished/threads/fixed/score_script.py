import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SCORER = """
import sys
n = int(sys.argv[1])
for i in range(n):
    print(f"example {i:06d} prediction {i % 7} reference {i % 5} match {i % 7 == i % 5}")
print("accuracy", sum(i % 7 == i % 5 for i in range(n)) / n)
"""


def score(examples):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(SCORER)
        file.flush()
        scorer = subprocess.Popen([sys.executable, file.name, str(examples)],
                                  stdout=subprocess.PIPE, text=True)
        out, _ = scorer.communicate()
        return out.splitlines()[-1]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 7)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch, examples in enumerate([200, 800, 4000]):
        for _ in range(12):
            x, y = torch.randn(32, 128), torch.randint(0, 7, (32,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} {score(examples)}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
