# Built from chapters/ch07_tensor_parallel/labs/head_norms.py by `make build`.
"""QK-norm on ranks: a norm inside the parallel region, whose gradient is a sum over the ranks.

torchrun --nproc-per-node 2 labs/head_norms.py
"""

from copy import deepcopy

import torch
import torch.distributed as dist
from language_model import draw_batch, mean_loss, standard_library
from llama import Llama
from tensor_parallel import parallelize, split_cross_entropy, whole

HEAD_NORMS = "norm_q.weight", "norm_k.weight"


def sum_norm_gradients(model, group=None) -> None:
    """Complete the gradients of the norms inside attention, in place.

    It is called once per step, after the last backward: each rank has used these weights for its
    own heads alone. A gradient that is None is None on all ranks, and stays None. With sequence
    parallelism, sum_partial_gradients has already done it.

    Cost  an all-reduce of each of these gradients, which have as many numbers as a head
    """
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name.endswith(HEAD_NORMS):
            dist.all_reduce(parameter.grad, group=group)


def kind_of(name, parameter) -> str:
    """Return the kind of a parameter of a model in parts."""
    if name.endswith(HEAD_NORMS):
        return "norms of heads"
    return "matrices" if hasattr(parameter, "cut_dim") else "norms between regions"


def gaps_of_kinds(split, alone) -> dict[str, float]:
    """Return for each kind of parameters the largest relative difference of a gradient."""
    from pedagogy_lib import relative_gap

    found = {}
    for (name, p), q in zip(split.named_parameters(), alone.parameters(), strict=True):
        kind = kind_of(name, p)
        gap = relative_gap(whole(p, of=p.grad), q.grad)
        found[kind] = max(gap, found.get(kind, 0.0))
    return found


def distance_of_copies(model, group=None) -> float:
    """Return the largest difference between two ranks' copies of a parameter that is not cut."""
    apart = 0.0
    for p in model.parameters():
        if not hasattr(p, "cut_dim"):
            copies = [torch.empty_like(p.data) for _ in range(dist.get_world_size(group))]
            dist.all_gather(copies, p.data, group)
            copies = torch.stack(copies)
            apart = max(apart, (copies.amax(0) - copies.amin(0)).max().item())
    return apart


def train_with_head_norms(text, sizes, steps, complete=None, samples=8) -> dict:
    """Train a Llama with QK-norm in parts, and the same one in this process, in float64.

    sizes     of the Llama, by name
    complete  called with the model in parts after each backward
    Returns   the losses of the model in parts and of the other one; "gaps", the difference of the
              first step's gradients from one process; and "apart", of the ranks' copies at the end
    """
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    alone = Llama(qk_norm=True, **sizes)
    split = parallelize(deepcopy(alone))
    models = (split, split_cross_entropy), (alone, mean_loss)
    adams = [torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3) for model, _ in models]
    losses, gaps = ([], []), {}
    for step in range(steps):
        inputs, targets = draw_batch(text, samples, step, alone.context)
        for (model, loss_of), adam, kept in zip(models, adams, losses):
            adam.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            if model is split and complete is not None:
                complete(split)
            kept.append(loss.item())
        gaps = gaps or gaps_of_kinds(split, alone)
        for adam in adams:
            adam.step()
    return {"split": losses[0], "alone": losses[1], "gaps": gaps,
            "apart": distance_of_copies(split)}  # fmt: skip


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for name, complete in {"without the sum": None, "with the sum": sum_norm_gradients}.items():
        run = launch(train_with_head_norms, standard_library(), {}, 20, complete, world_size=2)
        if run.rank == 0:
            found = run.values[0]
            print(f"{name}: loss {found['split'][0]:.2f} to {found['split'][-1]:.2f}, "
                  f"copies {found['apart']:.1g} apart")  # fmt: skip


if __name__ == "__main__":
    main()
