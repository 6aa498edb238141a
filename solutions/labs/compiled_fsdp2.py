# Built from chapters/ch06_zero/labs/compiled_fsdp2.py by `make build`.
"""torch.compile with FSDP2: orders of wrapping, what they compile, and the time of a first step.

torchrun --nproc-per-node 2 labs/compiled_fsdp2.py
"""

import logging
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from fsdp2_options import Classifier
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard

ORDERS = ("recompute, compile, shard", "compile, recompute, shard", "shard, compile",
          "recompute, shard, compile", "shard, recompute, compile")  # fmt: skip
WIDTH = 64

# ---- Orders --------------------------------------------------------------------------------------


def wrap_blocks(model, order, backend="inductor"):
    """Wrap each block in an order, from the inside out, and make the rest of the model the root.

    order  names of wrappers: "recompute", "compile" or "shard", with commas between them
    """
    for number, block in enumerate(model.blocks):
        for what in order.split(", "):
            if what == "recompute":
                block = checkpoint_wrapper(block)
            elif what == "shard":
                block = fully_shard(block)
            else:
                block.compile(backend=backend)  # in place: names stay
        model.blocks[number] = block
    return fully_shard(model)


def draw_tokens(step=0):
    """Return this rank's tokens and targets in a step."""
    chance = torch.Generator().manual_seed(100 * dist.get_rank() + step)
    tokens = torch.randint(WIDTH, (32,), generator=chance, device="cpu")
    targets = torch.randint(8, (32,), generator=chance, device="cpu")
    return tokens.to(torch.get_default_device()), targets.to(torch.get_default_device())


def silence_tracer():
    """Let torch.compile's tracer report errors alone."""
    import torch._dynamo  # torch._logging knows its logger from here on

    torch._logging.set_logs(dynamo=logging.ERROR)


def try_orders(orders=(None, *ORDERS)) -> dict[str, tuple[int, bool, torch.Tensor]]:
    """Take a step in float64 with each order of wrapping; None wraps nothing but the units.

    Graphs run unchanged here, without a C++ compiler.

    Returns  {order: (how many graphs are compiled, whether they recompute by themselves, all
             gradients)}
    """
    silence_tracer()
    return {order: try_order(order or "shard") for order in orders}


def try_order(order) -> tuple[int, bool, torch.Tensor]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    graphs = []

    def run_unchanged(graph, inputs):
        graphs.append(any("checkpoint" in str(node.target) for node in graph.graph.nodes))
        return graph.forward

    model = wrap_blocks(Classifier(WIDTH, layers=3).double(), order, run_unchanged)
    tokens, targets = draw_tokens()
    F.cross_entropy(model(tokens), targets).backward()
    gradients = torch.cat([p.grad.full_tensor().flatten() for p in model.parameters()])
    return len(graphs), any(graphs), gradients.cpu()


# ---- Generated code ------------------------------------------------------------------------------


def why_no_compiler() -> str:
    """Return a sentence if Inductor cannot generate code for the CPU here, or "".

    Inductor looks for one compiler alone: the one that CXX names, or else the system's usual one.
    """
    usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    compiler = os.environ.get("CXX", usual)
    if not shutil.which(compiler):
        return f"This computer has no C++ compiler ({compiler}), which torch.compile needs here."
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "This computer lacks Python's header files, which torch.compile needs here."
    return ""


def train(compiled, steps=4) -> tuple[list[float], torch.Tensor]:
    """Train with blocks compiled by Inductor, or not; nothing is taken from an earlier compilation.

    Returns  the seconds of each step, and all weights
    """
    silence_tracer()
    folder = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # compile in this process
    torch.manual_seed(0)
    model = wrap_blocks(Classifier(WIDTH, layers=3), ORDERS[0] if compiled else "recompute, shard")
    optimizer, seconds = torch.optim.SGD(model.parameters(), lr=0.1), []
    for number in range(steps):
        tokens, targets = draw_tokens(number)
        dist.barrier()
        began = time.perf_counter()
        F.cross_entropy(model(tokens), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
    shutil.rmtree(folder, ignore_errors=True)
    weights = [p.full_tensor().detach().flatten() for p in model.parameters()]
    return seconds, torch.cat(weights).cpu()


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(try_orders, world_size=2)
    if run.rank == 0:
        for order, (graphs, *_) in run.values[0].items():
            print(f"{order}: {graphs} graphs")


if __name__ == "__main__":
    main()
