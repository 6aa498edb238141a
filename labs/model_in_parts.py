# Built from chapters/ch07_tensor_parallel/labs/model_in_parts.py by `make build`.
"""A whole model with tensor parallelism: random numbers, training, and what composes with it.

torchrun --nproc-per-node 2 labs/model_in_parts.py
"""

from contextlib import nullcontext
from copy import deepcopy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from replicated_heads import FewHeads
from tensor_parallel import (
    AllReduce,
    OwnRandomness,
    enter,
    gradient_norm,
    parallelize,
    parallelize_mlp,
    split_cross_entropy,
    sum_of_squares,
    summed,
    whole,
)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# ---- Random numbers -------------------------------------------------------------------------


def masks(own: bool):
    """Return which of this rank's share of 64 hidden features dropout keeps, for 16 samples."""
    torch.manual_seed(0)  # one seed for all ranks
    hidden = torch.ones(16, 64 // dist.get_world_size())
    with OwnRandomness(seed=0) if own else nullcontext():
        return F.dropout(hidden, 0.5) > 0


def compare_dropout(dropped_mlp) -> dict[str, str]:
    """Return the share of positions, of hidden and of y, at which ranks 0 and 1 drop alike."""
    torch.manual_seed(0)
    hidden = torch.ones(32, 16, requires_grad=True)
    y = dropped_mlp(hidden, torch.rand(16, 16) + 0.5, 0.5, OwnRandomness(seed=0))
    y.sum().backward()
    found = {}
    for name, kept in {"hidden": hidden.grad != 0, "y": y != 0}.items():
        both = [torch.empty_like(kept, dtype=torch.uint8) for _ in range(dist.get_world_size())]
        dist.all_gather(both, kept.to(torch.uint8))
        found[name] = f"{(both[0] == both[1]).double().mean().item():.0%}"
    return found


def recompute_with_streams(function, x, randomness):
    """Checkpoint function(x); its recomputation draws the same numbers from both random streams.

    torch.utils.checkpoint restores the common stream, but it does not know `randomness`.

    Raises  RuntimeError if it or the backward runs inside `with randomness`, which keeps its stream
            elsewhere meanwhile
    """
    need_outside(randomness, "recompute_with_streams")
    begin, is_first = randomness.state, [True]

    def run(x):
        if is_first.pop() if is_first else False:
            return function(x)
        need_outside(randomness, "the backward")
        now, randomness.state = randomness.state, begin
        try:
            return function(x)
        finally:
            randomness.state = now

    return checkpoint(run, x, use_reentrant=False)


def need_outside(randomness, what):
    if randomness.outside:
        raise RuntimeError(f"{what} has to be called outside of `with randomness`")


def dropout_recomputed() -> dict[str, float]:
    """Return the largest relative gradient error of each way of recomputing an MLP.

    The MLP has dropout in its parallel region.
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    x, up, down = torch.randn(8, 16), torch.randn(32, 16), torch.randn(16, 32)

    def gradient(way):
        randomness, leaf = OwnRandomness(seed=0), x.clone().requires_grad_()

        def mlp(x):
            with randomness:
                hidden = F.dropout(F.linear(enter(x), up).relu(), 0.5)
            return AllReduce.apply(F.linear(hidden, down))

        way(mlp, leaf, randomness).square().sum().backward()
        return leaf.grad

    ways = {
        "torch's checkpoint": lambda f, x, randomness: checkpoint(f, x, use_reentrant=False),
        "both streams restored": recompute_with_streams,
    }
    wanted = gradient(lambda f, x, randomness: f(x))
    return {name: relative_gap(gradient(way), wanted) for name, way in ways.items()}


# ---- Training -------------------------------------------------------------------------------

NO_F, OTHER_TOKENS = "f left out", "other tokens on each rank"


def sizes_of(width) -> dict[str, tuple[int, int]]:
    """Return, per parameter, how many numbers it has and how many of them this rank has."""
    model = Transformer(width, layers=1, heads=8)
    all_of = {name: p.numel() for name, p in model.named_parameters()}
    parallelize(model)
    return {name: (all_of[name], p.numel()) for name, p in model.named_parameters()}


def train_in_parts(text, width, steps, mistake=""):
    """Train for `steps`, the last of which is "step"; return the losses and the whole weights."""
    from pedagogy_lib import measure

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = Transformer(width, heads=8)
    parallelize(model, enter=(lambda x, group: x) if mistake == NO_F else enter)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for step in range(steps):
        other = 1000 * dist.get_rank() if mistake == OTHER_TOKENS else 0
        inputs, targets = draw_batch(text, 8, step + other)
        with measure("step") if step == steps - 1 else nullcontext():
            optimizer.zero_grad()
            loss = split_cross_entropy(model(inputs), targets)
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: whole(p) for name, p in model.named_parameters()}


# ---- What composes --------------------------------------------------------------------------


class CheckpointWrapper(nn.Module):
    """A block whose activations are dropped in the forward and recomputed in the backward."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


COMPOSED = ("plain", "tied weights", "frozen weights", "accumulation", "recomputation", "clipping")


def check_combination(what, text) -> bool:
    """Return whether a split model, combined with one of COMPOSED, has one process's gradients.

    Blocks  "step": the forward and backward of the split model
    """
    from pedagogy_lib import close, measure

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    models = [Transformer(32, heads=4, tied=what == "tied weights") for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    if what == "frozen weights":
        for model in models:
            model.letters.requires_grad_(False)
            model.blocks[0].mlp[0].requires_grad_(False)
    alone, split = models[0], parallelize(models[1])
    if what == "recomputation":
        split.blocks = nn.Sequential(*map(CheckpointWrapper, split.blocks))
    inputs, targets = draw_batch(text, 8, 0)
    parts = 4 if what == "accumulation" else 1
    with measure("step"):
        for some, wanted in zip(inputs.chunk(parts), targets.chunk(parts), strict=True):
            (split_cross_entropy(split(some), wanted) / parts).backward()
    mean_loss(alone(inputs), targets).backward()
    if what == "clipping":
        factor = 0.01 / (gradient_norm(split) + 1e-6)  # clip_grad_norm_ adds 1e-6, too
        for parameter in split.parameters():
            parameter.grad *= factor
        nn.utils.clip_grad_norm_(alone.parameters(), 0.01)
    pairs = zip(split.parameters(), alone.parameters(), strict=True)
    return all(
        p.grad is q.grad is None or close(whole(p, of=p.grad), q.grad) for p, q in pairs
    )  # fmt: skip


def norm_with_copies(model, group=None) -> Tensor:
    """Return the gradient norm where several ranks may have the same part, as its `copies` says.

    Each square is divided by the number of ranks that have it, so that it counts once.
    """
    n = dist.get_world_size(group)
    squares = [
        sum_of_squares(p.grad) / getattr(p, "copies", 1 if hasattr(p, "cut_dim") else n)
        for p in model.parameters()
        if p.grad is not None
    ]
    return summed(torch.stack(squares).sum(), group).sqrt()


def norms_with_shared_heads(text) -> dict[str, float]:
    """Return the norm of all gradients where ranks share a key-value head.

    Two ranks share each head if the number of ranks is even; otherwise all ranks share one.

    Returns  the norms found by one process, and by two ways on a model whose blocks alone are cut
    """
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    n = dist.get_world_size()
    alone = Transformer(8 * n, heads=2 * n, kv_heads=1 if n % 2 else n // 2)
    split = deepcopy(alone)
    for block in split.blocks:
        block.attention = FewHeads(block.attention)
        parallelize_mlp(block.mlp)
    inputs, targets = draw_batch(text, 8, 0)
    for model in (alone, split):
        mean_loss(model(inputs), targets).backward()
    for block in split.blocks:
        block.attention.sum_shared_gradients()
    return {
        "one process": nn.utils.get_total_norm([p.grad for p in alone.parameters()]).item(),
        "gradient_norm (7.15)": gradient_norm(split).item(),
        "each part divided by its copies": norm_with_copies(split).item(),
    }


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for what in COMPOSED:
        run = launch(check_combination, what, text, world_size=2)
        if run.rank == 0:
            print(f"{what}: gradients of one process: {all(run.values)}")


if __name__ == "__main__":
    main()
