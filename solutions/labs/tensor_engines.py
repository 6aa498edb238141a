# Built from chapters/ch07_tensor_parallel/labs/tensor_engines.py by `make build`.
"""PyTorch's engine: DTensor and parallelize_module cut the same transformer as tensor_parallel.

torchrun --nproc-per-node 2 labs/tensor_engines.py
"""

import contextlib

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from sequence_parallel import WAYS, completes, split_model
from tensor_parallel import split_cross_entropy, train, whole
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

# ---- The plans ------------------------------------------------------------------------------


def tensor_plan(model) -> dict:
    """Return how each module is cut, in the same way as by tensor_parallel.parallelize."""
    plan = {
        "letters": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(use_local_output=False),
    }
    for i in range(len(model.blocks)):
        plan |= {
            f"blocks.{i}.attention.query_key_value": ColwiseParallel(),
            f"blocks.{i}.attention.output": RowwiseParallel(),
            f"blocks.{i}.mlp.0": ColwiseParallel(),
            f"blocks.{i}.mlp.2": RowwiseParallel(),
        }
    return plan


def sequence_plan(model) -> dict:
    """Return a plan like tensor_plan's; between regions each rank has a piece of the context."""
    piece, all_of_it = Shard(1), Replicate()
    gathered = {"input_layouts": piece, "desired_input_layouts": all_of_it}
    plan = {
        "letters": RowwiseParallel(input_layouts=all_of_it, output_layouts=piece),
        "places": RowwiseParallel(input_layouts=all_of_it, output_layouts=Shard(0)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=piece, use_local_output=False),
    }
    for i in range(len(model.blocks)):
        plan |= {
            f"blocks.{i}.norm_1": SequenceParallel(),
            f"blocks.{i}.attention": PrepareModuleInput(**gathered),
            f"blocks.{i}.attention.query_key_value": ColwiseParallel(),
            f"blocks.{i}.attention.output": RowwiseParallel(output_layouts=piece),
            f"blocks.{i}.norm_2": SequenceParallel(),
            f"blocks.{i}.mlp": PrepareModuleInput(**gathered),
            f"blocks.{i}.mlp.0": ColwiseParallel(),
            f"blocks.{i}.mlp.2": RowwiseParallel(output_layouts=piece),
        }
    return plan


PLANS = {"DTensor": tensor_plan, "DTensor, sequence parallel": sequence_plan}


def mesh_of_all() -> DeviceMesh:
    """Return a mesh with one axis of all ranks."""
    return init_device_mesh(torch.get_default_device().type, (dist.get_world_size(),))


def engine_model(plan, mesh, **sizes) -> Transformer:
    """Return the transformer of split_model, cut by parallelize_module with one of the PLANS."""
    torch.manual_seed(0)
    model = Transformer(**sizes)
    return parallelize_module(model, mesh, PLANS[plan](model))


# ---- Cut by hand and by the engine ----------------------------------------------------------

ENGINES = [*WAYS, *PLANS]


def ready(name, mesh, **sizes):
    """Return a model cut by one of the ENGINES, its loss, and what to call after each backward."""
    if name in PLANS:
        return engine_model(name, mesh, **sizes), mean_loss, None
    return split_model(name, **sizes), split_cross_entropy, completes(name)


def split_loss(name):
    """Return loss_parallel() for the engine: only there its cross-entropy takes split scores."""
    return loss_parallel() if name in PLANS else contextlib.nullcontext()


def difference(parameter, alone) -> float:
    """Return how far a parameter's gradient is from one process's, relative to the largest.

    parameter  of a model that is cut, by hand or by the engine
    alone      the same parameter of the whole model
    """
    from pedagogy_lib import relative_gap

    if isinstance(parameter, DTensor):
        gradient = parameter.grad.full_tensor()
    else:
        gradient = whole(parameter, of=parameter.grad)
    return relative_gap(gradient, alone.grad)


def one_step(name, text, context, sizes) -> float:
    """Run forward and backward on each rank; return how far gradients are from one process's.

    Blocks  "first"; "step", with its memory; "timed" three times
    """
    from pedagogy_lib import measure

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    alone = Transformer(**sizes)
    model, loss_of, complete = ready(name, mesh_of_all(), **sizes)
    inputs, targets = draw_batch(text, 8, 0, context)
    mean_loss(alone(inputs), targets).backward()
    for label in ("first", "step", "timed", "timed", "timed"):
        model.zero_grad()
        with split_loss(name), measure(label, memory=label == "step"):
            loss_of(model(inputs), targets).backward()
            if complete:
                complete(model)
    return max(
        difference(a, b) for a, b in zip(model.parameters(), alone.parameters(), strict=True)
    )


def program(name, text, steps=10):
    """Train a small transformer with one of the ENGINES; one more step is measured as "step"."""
    from pedagogy_lib import measure

    model, loss_of, complete = ready(name, mesh_of_all(), heads=8)
    with split_loss(name):
        found = train(model, loss_of, text, steps, complete=complete)
        with measure("step"):
            train(model, loss_of, text, 1, complete=complete)
    return found


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for name in ENGINES:
        run = launch(program, name, text, world_size=2)
        if run.rank == 0:
            first, last, seconds = run.values[0]
            print(
                f"{name}: loss {first:.4f} to {last:.4f}, {1e3 * seconds:.0f} ms a step, "
                f"{run['step'].sent_bytes[0] / 1e3:.0f} kB sent"
            )


if __name__ == "__main__":
    main()
