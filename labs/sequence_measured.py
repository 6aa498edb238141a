# Built from chapters/ch07_tensor_parallel/labs/sequence_measured.py by `make build`.
"""Measurements of sequence parallelism: what a block keeps for its backward, and what it sends.

torchrun --nproc-per-node 2 labs/sequence_measured.py
"""

import torch
import torch.distributed as dist
from language_model import CONTEXT, Transformer, draw_batch, mean_loss, standard_library
from sequence_parallel import WAYS, completes, split_model
from tensor_parallel import gradient_norm, split_cross_entropy, whole

SAMPLES = 4
KEPT = [way for way in WAYS if way != "overlapped"]  # ways that differ in the activations they keep


def one_block(way, context, sizes) -> None:
    """Run forward and backward of one block on each rank, in one of the WAYS.

    Blocks  "step": both; "kept": the moment between forward and backward
    """
    from pedagogy_lib import measure

    model = split_model(way, layers=1, **sizes)
    n = dist.get_world_size() if way.startswith("sequence") else 1
    x = torch.randn(SAMPLES, context // n, sizes["width"], requires_grad=True)
    with measure("step"):
        y = model.blocks[0](x)
        with measure("kept"):
            pass
        y.sum().backward()


def compute_activation_bytes(context, width, heads, n) -> dict[str, float]:
    """Return the float32 bytes that a rank keeps of a block, for one process and for each way.

    In addition to activations, they include two numbers per token and norm, and one per token and
    head.
    """
    numbers = {
        "one process": 16 * width + 4 + heads,
        "tensor parallel": 4 * width + 4 + (12 * width + heads) / n,
        "sequence parallel": 2 * width + (14 * width + 4 + heads) / n,
        "sequence parallel, gathered again": (16 * width + 4 + heads) / n,
    }
    return {way: 4 * SAMPLES * context * each for way, each in numbers.items()}


def compare_one_process(way, text, sizes, make=Transformer) -> dict[str, bool]:
    """Return whether a model's gradients in one of the WAYS, and their norm, are one process's."""
    from pedagogy_lib import close

    torch.set_default_dtype(torch.float64)
    split = split_model(way, make, **sizes)
    torch.manual_seed(0)
    alone = make(**sizes)
    inputs, targets = draw_batch(text, 8, 0, sizes.get("context", CONTEXT))
    mean_loss(alone(inputs), targets).backward()
    split_cross_entropy(split(inputs), targets).backward()
    if complete := completes(way):
        complete(split)
    pairs = list(zip(split.parameters(), alone.parameters(), strict=True))
    norm = torch.nn.utils.get_total_norm([q.grad for _, q in pairs])
    return {
        "gradients": all(close(whole(p, of=p.grad), q.grad) for p, q in pairs),
        "norm": close(gradient_norm(split), norm),
    }


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for way in WAYS:
        run = launch(compare_one_process, way, text, {"width": 32, "heads": 4}, world_size=2)
        if run.rank == 0:
            print(f"{way}: {run.values[0]}")


if __name__ == "__main__":
    main()
