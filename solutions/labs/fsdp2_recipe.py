# Built from chapters/ch06_zero/labs/fsdp2_recipe.py by `make build`.
"""What the lines of labs/train_fsdp2.py are for: each is left out or changed, and measured.

python labs/fsdp2_recipe.py
"""

import contextlib
import io
import re
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from language_model import draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn
from torch.distributed.checkpoint.state_dict import set_model_state_dict
from train_fsdp2 import (
    FROM_RANK_0,
    Training,
    alone,
    fill,
    make_model,
    options_of,
    shard,
)

# ---- From shapes to shards ----------------------------------------------------------------------


def mesh_of_all():
    """Return a mesh of one dimension with all ranks."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(torch.get_default_device().type, (dist.get_world_size(),))


def bytes_here(model) -> int:
    """Return the bytes of this rank's parameters; on the meta device there are none."""
    own = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    return sum(0 if p.is_meta else p.nbytes for p in own)


def start(way, width=128, layers=4) -> list[float]:
    """Make a sharded model; return, in models, what a rank has when it is made, cut, and filled.

    way  "whole, then cut": each rank makes the whole model; "shapes first": on the meta device
    """
    options, mesh = options_of(["--width", str(width), "--layers", str(layers)]), mesh_of_all()
    with torch.device("meta") if way == "shapes first" else contextlib.nullcontext():
        model = make_model(options)
    whole, found = sum(p.nbytes for p in model.parameters()), [bytes_here(model)]
    shard(model, mesh, options)
    found.append(bytes_here(model))
    if way == "shapes first":
        model.to_empty(device=torch.get_default_device())
    return [count / whole for count in [*found, bytes_here(model)]]


def draw_after_sharding() -> tuple[list, list]:
    """Draw a sharded weight anew; return the first numbers of the first and last rank's part."""
    options = options_of([])
    with torch.device("meta"):
        model = make_model(options)
    shard(model, mesh_of_all(), options)
    model.to_empty(device=torch.get_default_device())
    torch.manual_seed(0)
    weight = model.blocks[0].mlp[0].weight
    warnings.simplefilter("ignore")  # about DTensor's random numbers on a CPU
    nn.init.normal_(weight)
    whole = weight.full_tensor().detach()
    return whole[0, :3].tolist(), whole[-(len(whole) // dist.get_world_size()), :3].tolist()


def different_starts(seeds_differ) -> float:
    """Make the whole model on each rank, and cut it by FSDP2 afterwards.

    Returns  by how much the sharded model differs from rank 0's, as a share of its largest weight
    """
    from pedagogy_lib import relative_gap

    options = options_of([])
    torch.manual_seed(dist.get_rank() if seeds_differ else 0)
    model = make_model(options)
    shard(model, mesh_of_all(), options)
    torch.manual_seed(0)
    pairs = zip(model.parameters(), make_model(options).parameters())
    return max(relative_gap(p.full_tensor().detach(), q.detach()) for p, q in pairs)


class RotaryLayer(nn.Module):
    """A layer with a table of angles, as RoPE has one; no state dict has it."""

    def __init__(self, width=8, context=16):
        super().__init__()
        self.linear = nn.Linear(width, width)
        angles = torch.outer(torch.arange(context), 100.0 ** -torch.linspace(0, 1, width))
        self.register_buffer("table", angles.cos(), persistent=False)

    def forward(self, x):
        return self.linear(x) * self.table[: x.shape[-2]]


def table_after_start(with_buffers) -> bool:
    """Return whether the table is right on this rank after a start from shapes.

    with_buffers  as labs/train_fsdp2.py; else weights alone get values
    """
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = RotaryLayer()
    fully_shard(model, mesh=mesh_of_all()).to_empty(device=torch.get_default_device())
    if with_buffers:
        fill(model, RotaryLayer)
    else:
        whole = RotaryLayer() if dist.get_rank() == 0 else None
        weights = whole.state_dict() if whole else {}
        set_model_state_dict(model, weights, options=FROM_RANK_0)
    return torch.equal(model.table, RotaryLayer().table)


# ---- A step: gathers and bytes ------------------------------------------------------------------


def one_step(net, text) -> None:
    inputs, targets = share_of_rank(draw_batch(text, 2 * dist.get_world_size(), 0))
    mean_loss(net(inputs), targets).backward()


def measure_step(net, text):
    """Take two steps; the second is measured as "step", as the first makes buffers."""
    from pedagogy_lib import measure

    one_step(net, text)
    with measure("step"):
        one_step(net, text)


def measure_root_resharding(resharded, text):
    """Measure a step in which the root is freed after the forward, or not; None: by default."""
    from torch.distributed.fsdp import fully_shard

    model = make_model(options_of([]))
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model, reshard_after_forward=resharded)
    measure_step(model, text)


def calls_of(run, name) -> int:
    """Return how many of rank 0's calls in the step have this text in their name."""
    return sum(name in call.name for call in run["step"].calls[0])


def measure_precision(way, text) -> int:
    """Measure a step of "FSDP2" with --precision bfloat16, or of DDP in a dtype ("DDP, float32").

    Returns  the number of parameters
    """
    from torch.nn.parallel import DistributedDataParallel

    options = options_of(["--width", "64", "--precision", "bfloat16"])
    model = make_model(options)
    count = sum(p.numel() for p in model.parameters())
    if way == "FSDP2":
        shard(model, mesh_of_all(), options)
    else:
        model = DistributedDataParallel(model.to(getattr(torch, way.split()[1])))
    measure_step(model, text)
    return count


def bytes_for_each(run) -> float:
    """Return the bytes that a rank sends per parameter, by textbook, from the step's calls."""
    return sum(call.sent_bytes for call in run["step"].calls[0]) / run.values[0]


# ---- The norm of a gradient ----------------------------------------------------------------------


def norms(text) -> tuple[float, float, float]:
    """Return a gradient's norm: of this rank's shards, by clip_grad_norm_, and of one process."""
    options = options_of(["--precision", "float64"])
    training = Training(text, options, torch.get_default_device())
    one_step(training.model, text)
    parameters = list(training.model.parameters())
    own = torch.stack([p.grad.to_local().norm() for p in parameters]).norm().item()
    found = nn.utils.clip_grad_norm_(parameters, 1e9).full_tensor().item()
    torch.manual_seed(0)
    model = make_model(options)
    inputs, targets = draw_batch(text, 2 * dist.get_world_size(), 0)
    mean_loss(model(inputs), targets).backward()
    return own, found, torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()


# ---- The whole program, started by torchrun ------------------------------------------------------

PROGRAM = """
import os
from pedagogy_lib import lab

os.write(1, "rank {{RANK}}: local rank {{LOCAL_RANK}}\\n".format(**os.environ).encode())
lab("train_fsdp2").main({words})
"""
LINE = re.compile(r"rank \d+: local rank \d+|step \d+: loss [\d.]+")


def run_on_machines(folder, words, machines=2, ranks_on_each=2):
    """Start train_fsdp2.py with torchrun on several machines; return run_torchrun's result."""
    from pedagogy_lib import run_torchrun

    program = Path(folder, "program.py")
    program.write_text(PROGRAM.format(words=list(words)))
    with contextlib.redirect_stdout(io.StringIO()):  # the output is shown afterwards, by machine
        return run_torchrun(program, nnodes=machines, nproc_per_node=ranks_on_each, timeout=120)


def lines_of(said) -> list[str]:
    """Return the lines that a machine has printed: its ranks, then its losses, in order."""
    found = LINE.findall(said)
    return sorted(line for line in found if line.startswith("rank")) + [
        line for line in found if line.startswith("step")
    ]


def run_training(text, words) -> tuple[list, dict]:
    """Train to the end on this rank; return the losses, and on rank 0 all weights."""
    with contextlib.redirect_stdout(io.StringIO()):
        training = Training(text, options_of(words), torch.get_default_device())
        losses = training.run()
    return losses, {name: weight.cpu() for name, weight in training.weights().items()}


def largest_gap(weights, others) -> float:
    """Return the largest gap between two dicts of weights, as a share of each tensor's largest."""
    from pedagogy_lib import relative_gap

    return max(relative_gap(weights[name], others[name].cpu()) for name in others)


def train_one_process(text, words) -> dict:
    """Return all weights after one process has trained to the end, in the CPU's memory."""
    return {name: weight.cpu() for name, weight in alone(text, options_of(words)).items()}


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    words = ["--precision", "float64", "--recompute"]
    weights = launch(run_training, text, words, world_size=2).values[0][1]
    wanted = launch(train_one_process, text, words, world_size=1).values[0]
    print(f"2 ranks equal one process: {largest_gap(weights, wanted) < 1e-10}")
    for way in ("FSDP2", "DDP, float32", "DDP, bfloat16"):
        run = launch(measure_precision, way, text, world_size=2)
        print(f"{way}: {bytes_for_each(run):.2f} bytes for each parameter")


if __name__ == "__main__":
    main()
