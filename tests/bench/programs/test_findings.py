"""Broken programs, whose first finding names the fault, and sound ones, of which nothing is said."""

import pytest
from helpers import environment
from selection import parametrize

from pedagogy_lib import run_torchrun

HEAD = """
import os, time
import torch, torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank, n = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
loss_of = nn.CrossEntropyLoss()

def batches(epochs=3, shuffle=True, **more):
    sampler = DistributedSampler(data, shuffle=shuffle)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield from DataLoader(data, batch_size=8, sampler=sampler, **more)

def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)

def average(model, op=dist.ReduceOp.SUM, by=n):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=op)
        parameter.grad /= by
"""

TAIL = """
dist.destroy_process_group()
"""

LOOP = """
for x, y in batches():
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    {}
    optimizer.step()
"""

BROKEN = {
    "strided": "table = torch.zeros(4, 2)\ndist.all_reduce(table[:, 0])",
    "set_epoch is missing": """
model = DDP(model); optimizer = sgd(model); sampler = DistributedSampler(data)
for epoch in range(3):
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad(); loss_of(model(x), y).backward(); optimizer.step()
""",
    "equal data": """
model = DDP(model); optimizer = sgd(model)
for epoch in range(3):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad(); loss_of(model(x), y).backward(); optimizer.step()
""",
    "gradients are not averaged": "optimizer = sgd(model)" + LOOP.format("pass"),
    "DDP is bypassed": "ddp = DDP(model); optimizer = sgd(ddp)" + LOOP.format("pass"),
    "gradients: sum": "optimizer = sgd(model)" + LOOP.format("average(model, by=1)"),
    "gradients: divided twice": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("[parameter.grad.div_(n) for parameter in model.parameters()]"),
    "different parameters at the start": "torch.manual_seed(rank); model = nn.Linear(8, 4)\n"
    "optimizer = sgd(model)" + LOOP.format("average(model)"),
    "replicas diverge": "model = DDP(model); optimizer = sgd(model)\n"
    "optimizer.param_groups[0]['lr'] *= 1 + rank" + LOOP.format("pass"),
    "clipped before the mean": "optimizer = sgd(model)"
    + LOOP.format("nn.utils.clip_grad_norm_(model.parameters(), 0.1); average(model)"),
    "no_sync around the backward": """
model = DDP(model); optimizer = sgd(model)
for i, (x, y) in enumerate(batches()):
    loss = loss_of(model(x), y)
    if i % 2 == 0:
        with model.no_sync():
            loss.backward()
    else:
        loss.backward(); optimizer.step(); optimizer.zero_grad()
""",
    "gather without gradient": """
model = DDP(nn.Linear(8, 4)); optimizer = sgd(model)
for x, y in batches():
    features = model(x)
    parts = [torch.empty_like(features) for _ in range(n)]
    dist.all_gather(parts, features)
    parts[rank] = features
    optimizer.zero_grad(); torch.cat(parts).logsumexp(1).mean().backward(); optimizer.step()
""",
    "the optimizer has other parameters": "optimizer = sgd(nn.Linear(8, 4)); model = DDP(model)"
    + LOOP.format("pass"),
    "all ranks write one checkpoint": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("pass") + "\ntorch.save(model.state_dict(), 'model.pt')",
    "uneven batches": """
model = DDP(model); optimizer = sgd(model)
for i in range(12):
    x, y = torch.randn(8 - 2 * rank, 8), torch.zeros(8 - 2 * rank, dtype=torch.long)
    x += rank
    optimizer.zero_grad(); loss_of(model(x), y).backward(); optimizer.step()
""",
    "equal random draws": "model = DDP(nn.Sequential(nn.Dropout(0.5), model)); optimizer = sgd(model)"
    + LOOP.format("pass"),
    "parameters without gradient": """
model.spare = nn.Linear(2, 2)
parts = list(model)[:3]
model.forward = lambda x: parts[2](parts[1](parts[0](x)))
model = DDP(model, find_unused_parameters=True); optimizer = sgd(model)
""" + LOOP.format("pass"),
    "small messages": "model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(30)], nn.Linear(8, 4))\n"
    "optimizer = sgd(model)" + LOOP.format("average(model)"),
    "barrier in each step": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("dist.barrier()"),
    "averaged after each backward": """
model = DDP(model); optimizer = sgd(model)
for i, (x, y) in enumerate(batches()):
    (loss_of(model(x), y) / 2).backward()
    if i % 2:
        optimizer.step(); optimizer.zero_grad()
""",
    "large buffers": "model.register_buffer('mask', torch.ones(200, 1000))\nmodel = DDP(model)\n"
    "optimizer = sgd(model)" + LOOP.format("pass"),
    "needless search for unused parameters": "model = DDP(model, find_unused_parameters=True)\n"
    "optimizer = sgd(model)" + LOOP.format("pass"),
    "float32 gradients of a bfloat16 model": """
model = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 4)).bfloat16()
optimizer = sgd(model)
for x, y in batches():
    optimizer.zero_grad(); loss_of(model(x.bfloat16()).float(), y).backward()
    flat = torch.cat([one.grad.float().flatten() for one in model.parameters()])
    dist.all_reduce(flat)
    for one, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        one.grad.copy_(part.view_as(one) / n)
    optimizer.step()
""",
    "waits for data": """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): time.sleep(0.003); return data[i]
model = DDP(model); optimizer = sgd(model)
for x, y in DataLoader(Slow(), batch_size=4, sampler=DistributedSampler(Slow())):
    optimizer.zero_grad(); loss_of(model(x), y).backward(); optimizer.step()
""",
    "one slow rank": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("time.sleep(0.03 * (rank == 1))"),
}  # fmt: skip

SOUND = {
    "DDP": "model = DDP(model); optimizer = sgd(model)" + LOOP.format("pass"),
    "by hand": "optimizer = sgd(model)" + LOOP.format("average(model)"),
    "sum of a loss over all samples": "optimizer = sgd(model)"
    + LOOP.format("average(model, by=1)").replace("y).backward()", "y).div(n).backward()"),
    "accumulated": """
model = DDP(model); optimizer = sgd(model)
for i, (x, y) in enumerate(batches()):
    if i % 2 == 0:
        with model.no_sync():
            (loss_of(model(x), y) / 2).backward()
    else:
        (loss_of(model(x), y) / 2).backward(); optimizer.step(); optimizer.zero_grad()
""",
    "clipped after the mean": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("nn.utils.clip_grad_norm_(model.parameters(), 0.1)"),
    "a checkpoint of rank 0, and a barrier": "model = DDP(model); optimizer = sgd(model)"
    + LOOP.format("pass") + "\nif rank == 0: torch.save(model.state_dict(), 'm.pt')\ndist.barrier()",
    "frozen and BatchNorm": """
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
model[0].requires_grad_(False)
model = DDP(model); optimizer = sgd(model)
""" + LOOP.format("pass"),
    "dropout with its own seed": "model = DDP(nn.Sequential(nn.Dropout(0.5), model))\n"
    "optimizer = sgd(model); torch.manual_seed(rank)" + LOOP.format("pass"),
    "FSDP2": """
from torch.distributed.fsdp import fully_shard
fully_shard(model); optimizer = sgd(model)
""" + LOOP.format("nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    "tensor parallel": """
first = nn.Linear(8, 16 // n); last = nn.Linear(16 // n, 4, bias=False)
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): x = x.clone(); dist.all_reduce(x); return x
    @staticmethod
    def backward(ctx, grad): return grad
model = nn.Sequential(first, nn.ReLU(), last); optimizer = sgd(model)
for x, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad(); loss_of(Sum.apply(model(x)), y).backward(); optimizer.step()
""",
    "gather of a metric": "model = DDP(model); optimizer = sgd(model)\n" + LOOP.format(
        "parts = [torch.zeros(1) for _ in range(n)]; dist.all_gather(parts, y.float().mean()[None])"
    ),
}  # fmt: skip


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """Run a program and return what is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])

    def find(body):
        (tmp_path / "program.py").write_text(HEAD + body + TAIL)
        return run_torchrun("program.py", report="report.html", timeout=60).findings

    return find


@parametrize("name", BROKEN, quick=2)
def test_the_first_finding_names_the_fault(findings, name):
    found = findings(BROKEN[name])
    assert [finding.name for finding in found][:1] == [name], "\n".join(map(str, found))
    assert found[0].line is None or found[0].line.filename.endswith("program.py")


@parametrize("name", SOUND, quick=1)
def test_nothing_is_said_of_sound_programs(findings, name):
    found = findings(SOUND[name])
    # Ranks that share two busy cores are slow now and then.
    assert not [str(one) for one in found if one.name not in ("one slow rank", "waits for data")]
