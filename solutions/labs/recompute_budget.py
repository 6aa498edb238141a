# Built from chapters/ch05_memory/labs/recompute_budget.py by `make build`.
"""Recomputation under a memory budget: parts chosen by hand, and operations chosen by a compiler.

torchrun --nproc-per-node 1 labs/recompute_budget.py
"""

from importlib import import_module

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

# ---- A model of unequal parts --------------------------------------------------------------------

# Of each part: tokens, width, and how many times as wide its inside is. Four tokens become one that
# is twice as wide, as in models for images.
PARTS = ((256, 16, 4), (256, 16, 2), (64, 32, 6), (64, 32, 2), (16, 64, 4), (16, 64, 8))


class Part(nn.Module):
    """A residual MLP. Its forward uses no global name, so no graph imports this lab."""

    def __init__(self, width, times):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, times * width)
        self.activation, self.down = nn.GELU(), nn.Linear(times * width, width)

    def forward(self, x):
        return x + self.down(self.activation(self.up(self.norm(x))))


class Merge(nn.Module):
    """A product that joins neighbouring tokens: fewer and wider ones come out."""

    def __init__(self, tokens, width, new_width):
        super().__init__()
        self.tokens, self.product = tokens, nn.Linear(width, new_width)

    def forward(self, x):
        return self.product(x.unflatten(1, (self.tokens, -1)).flatten(2))


class ShrinkingModel(nn.Module):
    """Parts of fewer and fewer tokens; those whose numbers are in `recomputed` are recomputed.

    Shapes  (samples, 256, 16) -> (samples, 16, 64)
    """

    def __init__(self, recomputed=()):
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.merges = nn.ModuleList(), nn.ModuleList()
        self.recomputed, before = set(recomputed), PARTS[0]
        for tokens, width, times in PARTS:
            is_same = (tokens, width) == before[:2]
            joined = before[1] * before[0] // tokens
            self.merges.append(nn.Identity() if is_same else Merge(tokens, joined, width))
            self.parts.append(Part(width, times))
            before = tokens, width, times

    def forward(self, x):
        for number, (merge, part) in enumerate(zip(self.merges, self.parts)):
            x = merge(x)
            is_kept = number not in self.recomputed
            x = part(x) if is_kept else checkpoint(part, x, use_reentrant=False)
        return x


def draw_samples(samples=4) -> Tensor:
    tokens, width, _ = PARTS[0]
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(samples, tokens, width, generator=chance, device="cpu")
    return x.to(torch.get_default_device())


# ---- What a step keeps, and computes -------------------------------------------------------------


def take_step(recomputed=()) -> tuple[int, int, Tensor]:
    """Take a forward and a backward, with some parts recomputed.

    Returns  the bytes that the forward leaves for the backward, FLOPs, and all gradients
    """
    model, x, saved = ShrinkingModel(recomputed), draw_samples(), {}
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            y = model(x)
        kept = sum(saved.values())
        y.square().mean().backward()
    return (
        kept,
        counter.get_total_flops(),
        torch.cat([p.grad.flatten() for p in model.parameters()]),
    )


def measure_parts() -> list[tuple[int, int]]:
    """Return (bytes that recomputing it frees, FLOPs that it adds) for each part, measured."""
    kept, flops, _ = take_step()
    steps = [take_step([number])[:2] for number in range(len(PARTS))]
    return [(kept - less, more - flops) for less, more in steps]


def recompute_greedily(parts, budget) -> list[int]:
    """Return parts to recompute: those that free most bytes per FLOP first, until the rest fits."""
    order = sorted(range(len(parts)), key=lambda k: parts[k][0] / parts[k][1], reverse=True)
    left, chosen = sum(size for size, _ in parts), []
    for number in order:
        if left > budget:
            chosen.append(number)
            left -= parts[number][0]
    return sorted(chosen)


def recompute_by_solver(parts, budget) -> list[int]:
    """Return the parts to recompute that add the fewest FLOPs, by the compiler's own solver.

    parts   (bytes that it keeps, FLOPs that recomputing it adds) of each part
    Source  torch._functorch, which solves a knapsack problem in steps of 1/10,000 of the budget
    """
    from torch._functorch._activation_checkpointing.knapsack import dp_knapsack

    total = sum(size for size, _ in parts)
    if budget >= total:
        return []
    sizes, flops = [size / total for size, _ in parts], [float(count) for _, count in parts]
    return sorted(dp_knapsack(sizes, flops, budget / total)[2])


# ---- Operations, chosen by the compiler ----------------------------------------------------------


def backend_that_measures(found, weights):
    """Return a backend of torch.compile that splits graphs as Inductor does, and generates no code.

    found    gets "kept", the bytes that go to the backward and are no weight, and "FLOPs" of it
    weights  addresses of the parameters
    """
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def run_backward(graph, inputs):
        def run(*arguments):
            tensors = [x for x in arguments if torch.is_tensor(x)]
            found["kept"] = sum(x.nbytes for x in tensors[:-1] if x.data_ptr() not in weights)
            with FlopCounterMode(display=False) as counter:
                results = graph(*arguments)
            found["FLOPs"] = counter.get_total_flops()
            return results

        return make_boxed_func(run)

    return aot_autograd(
        fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward),
        bw_compiler=run_backward,
        partition_fn=min_cut_rematerialization_partition,
    )


def compile_under_budgets(shares) -> dict[float, tuple[int, int, Tensor]]:
    """Return {share: what `compile_under_budget` returns}."""
    return {share: compile_under_budget(share) for share in shares}


def compile_under_budget(share) -> tuple[int, int, Tensor]:
    """Take a step of the compiled model under an activation memory budget between 0 and 1.

    Returns  the bytes that are kept for the backward, its FLOPs, and all gradients
    """
    settings = import_module("torch._functorch.config")  # by name: it cannot travel to a rank
    torch._dynamo.reset()
    model, found = ShrinkingModel(), {}
    weights = {p.data_ptr() for p in model.parameters()}
    with settings.patch(activation_memory_budget=share):
        forward = torch.compile(model, backend=backend_that_measures(found, weights))
        forward(draw_samples()).square().mean().backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    return found["kept"], found["FLOPs"], gradients


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    parts = measure_parts()
    total = sum(size for size, _ in parts)
    for share in (1, 0.75, 0.5, 0.25, 0):
        best, greedy = (choose(parts, share * total) for choose in
                        (recompute_by_solver, recompute_greedily))  # fmt: skip
        print(f"budget {share:.0%}: recompute {best}, greedily {greedy}")


if __name__ == "__main__":
    main()
