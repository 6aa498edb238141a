# Built from chapters/ch06_zero/labs/recompiling_ranks.py by `make build`.
"""Ranks that compile at different times: one recompiles, and the others wait in a collective.

torchrun --nproc-per-node 2 labs/recompiling_ranks.py
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from compiled_fsdp2 import WIDTH, silence_tracer
from fsdp2_options import Classifier
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard


def recompile_on_one_rank(guarded, seconds=1.5, patience=0.75) -> tuple[int, str]:
    """Take two steps with FSDP2 and compiled blocks; the last rank's second batch is longer.

    The compiler is emulated: it waits and returns the graph as it is.

    guarded   ranks agree, before each call of compiled code, whether all of them recompile
    seconds   that compiling takes in the second step
    patience  seconds after which a collective of FSDP2 gives up
    Returns   how many graphs this rank has compiled, and "done" or the error's message
    """
    silence_tracer()
    torch._dynamo.reset()
    graphs, steps = [], []

    def wait_and_return(graph, inputs):
        if len(steps) == 2:
            time.sleep(seconds)
        graphs.append(graph)
        return graph.forward

    device = torch.get_default_device().type
    group = dist.new_group(timeout=timedelta(seconds=patience))
    mesh = DeviceMesh.from_group(group, device)
    model = Classifier(WIDTH, layers=2)
    for block in model.blocks:
        block.compile(backend=wait_and_return)
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    longer = dist.get_rank() == dist.get_world_size() - 1
    before = torch.compiler.set_enable_guard_collectives(guarded)
    try:
        for length in (16, 24 if longer else 16):
            steps.append(length)
            tokens = torch.arange(length) % WIDTH
            F.cross_entropy(model(tokens), tokens % 8).backward()
    except RuntimeError as error:
        return len(graphs), str(error).strip().splitlines()[-1].split("] ")[-1]
    finally:
        torch.compiler.set_enable_guard_collectives(before)
    return len(graphs), "done"


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for guarded in (False, True):
        run = launch(recompile_on_one_rank, guarded, world_size=2)
        if run.rank == 0:
            (own, end), (other, _) = run.values
            print(f"guard collectives {guarded}: graphs {own} and {other}, rank 0: {end}")


if __name__ == "__main__":
    main()
