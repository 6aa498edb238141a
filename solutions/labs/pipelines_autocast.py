# Built from chapters/ch08_pipeline_parallel/labs/pipelines_autocast.py by `make build`.
"""Pipelines under autocast: the dtype of the message between two stages.

torchrun --nproc-per-node 2 labs/pipelines_autocast.py
"""

import torch
import torch.distributed as dist
from pipeline_parallel import Pipeline, Stage
from schedules import one_f_one_b
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, MICRO_BATCHES = 8, 2


def pieces() -> tuple[nn.Module, nn.Module]:
    """Return two stages. The first one ends with a product, so autocast decides its dtype."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.Embedding(16, WIDTH), nn.Linear(WIDTH, WIDTH))
    return first, nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, 5))


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.float(), targets)


def batch():
    """Return (tokens, targets) of eight samples, the same on every rank."""
    torch.manual_seed(1)
    return torch.randint(0, 16, (8,)), torch.randint(0, 5, (8,))


def run_ours(piece, tokens, targets, dtype):
    pipeline = Pipeline([Stage(piece)], loss_of, WIDTH, **({"dtype": dtype} if dtype else {}))
    row = list(one_f_one_b(dist.get_rank(), 2, MICRO_BATCHES))
    pipeline.step(row, tokens.tensor_split(MICRO_BATCHES), targets.tensor_split(MICRO_BATCHES))


def schedule_of_pytorch(piece):
    """Return a schedule, which learns shape and dtype of its messages in its first step."""
    stage = PipelineStage(piece, dist.get_rank(), 2, torch.get_default_device())
    return Schedule1F1B(stage, n_microbatches=MICRO_BATCHES, loss_fn=loss_of)


def run_schedule(schedule, tokens, targets):
    schedule.step(tokens) if dist.get_rank() == 0 else schedule.step(target=targets)


def step_of(whose, dtype=None, first=None, then=True) -> float:
    """Take a step; return the error of its gradients against one process with the same autocast.

    whose  "ours", whose messages have this dtype, or "PyTorch's"
    first  whether PyTorch's schedule takes a step before, under autocast or not; None: no step
    then   whether the step is taken under autocast
    """
    ours, alone, (tokens, targets) = pieces(), pieces(), batch()
    piece, device = ours[dist.get_rank()], torch.get_default_device().type
    schedule = schedule_of_pytorch(piece) if whose != "ours" else None
    if first is not None:
        with torch.autocast(device, torch.bfloat16, enabled=first):
            run_schedule(schedule, tokens, targets)
        piece.zero_grad()
    with torch.autocast(device, torch.bfloat16, enabled=then):
        if whose == "ours":
            run_ours(piece, tokens, targets, dtype)
        else:
            run_schedule(schedule, tokens, targets)
        for x, y in zip(tokens.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES)):
            (loss_of(alone[1](alone[0](x)), y) / MICRO_BATCHES).backward()
    pairs = zip(piece.parameters(), alone[dist.get_rank()].parameters())
    return max(((p.grad - q.grad).norm() / q.grad.norm()).item() for p, q in pairs)


WAYS = {  # name: the arguments of step_of
    "the course's": ("ours",),
    "the course's, dtype=torch.bfloat16": ("ours", torch.bfloat16),
    "PyTorch's": ("PyTorch's",),
    "PyTorch's, after a step in float32": ("PyTorch's", None, False),
    "PyTorch's in float32, after a step under autocast": ("PyTorch's", None, True, False),
}


def outcome_of(name) -> str:
    """Run one of the WAYS on two ranks; return in words what it gives."""
    from pedagogy_lib import LaunchError, launch

    try:
        error = max(launch(step_of, *WAYS[name], world_size=2).values)
    except LaunchError as raised:
        if getattr(raised, "exception", None) is None:
            return f"no gradients: {str(raised).splitlines()[0]}"
        return f"refused: {str(raised.exception).split(': let')[0]}"
    return "the gradients of one process" if error < 1e-3 else "wrong gradients, and no error"


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(step_of, *WAYS["the course's, dtype=torch.bfloat16"], world_size=2)
    if run.rank == 0:
        print(f"largest error of a gradient against one process: {max(run.values):.1e}")


if __name__ == "__main__":
    main()
