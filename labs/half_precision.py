# Built from chapters/ch05_memory/labs/half_precision.py by `make build`.
"""Training in half precision: memory, how far a step moves weights, and how small gradients are.

python labs/half_precision.py
"""

import time
from functools import partial

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from memory import MixedPrecision
from torch import nn

HALF, SINGLE = torch.bfloat16, torch.float32
LAYOUTS = ("float32", "autocast", "bfloat16, master", "bfloat16 alone")

# ---- Bytes per parameter --------------------------------------------------------------------

# Each parameter has one number of each of these dtypes. The optimizer is Adam.
CONVENTIONS = {
    "all float32": {"parameters": [SINGLE], "gradients": [SINGLE], "optimizer_state": [SINGLE] * 2},
    "all bfloat16": {"parameters": [HALF], "gradients": [HALF], "optimizer_state": [HALF] * 2},
    "12 bytes": {"parameters": [HALF], "gradients": [HALF], "optimizer_state": [SINGLE] * 2},
    "16 bytes": {"parameters": [HALF], "gradients": [HALF], "optimizer_state": [SINGLE] * 3},
    "18 bytes": {"parameters": [HALF], "gradients": [SINGLE], "optimizer_state": [SINGLE] * 3},
    "20 bytes": {
        "parameters": [HALF], "gradients": [HALF, SINGLE], "optimizer_state": [SINGLE] * 3
    },
}  # fmt: skip


def count_tensor_bytes(convention, numbers) -> dict[str, int]:
    """Return {kind: bytes} of real tensors, which are created, counted and freed."""
    return {kind: sum(torch.empty(numbers, dtype=dtype).nbytes for dtype in dtypes)
            for kind, dtypes in CONVENTIONS[convention].items()}  # fmt: skip


def multiplier(make_optimizer, mixed_precision, size=256) -> float:
    """Return K, the bytes an optimizer keeps per bfloat16 parameter, with float32 masters.

    Small counters are left out.
    """
    weight = nn.Parameter(torch.ones(size, size, dtype=HALF))
    mixed = mixed_precision([weight], make_optimizer)
    weight.grad = torch.ones_like(weight)
    mixed.step()
    optimizer = mixed.optimizer
    kept = [x for of in optimizer.state.values() for x in of.values() if torch.is_tensor(x)]
    kept += [p for group in optimizer.param_groups for p in group["params"]]
    return sum(x.nbytes for x in kept if x.numel() > 1) / weight.numel()


def two_steps(layout, text, width, layers, samples):
    """Take two steps on this rank; measure the second forward and backward as `layout`."""
    from pedagogy_lib import mark, measure

    model, adam = Transformer(width, layers), partial(torch.optim.Adam, lr=1e-3)
    if "bfloat16" in layout:
        model.bfloat16()
    parameters, is_mixed = list(model.parameters()), "master" in layout
    optimizer = MixedPrecision(parameters, adam) if is_mixed else adam(parameters)
    for group in optimizer.optimizer.param_groups if is_mixed else ():
        for master in group["params"]:
            mark(master, "optimizer_state")  # otherwise they would count as parameters
    device = torch.get_default_device().type
    inputs, targets = draw_batch(text, samples, 0)
    for label in ("first", layout):
        with measure(label):
            with torch.autocast(device, HALF, enabled=layout == "autocast"):
                logits = model(inputs)
            loss = mean_loss(logits.float(), targets)
            del logits
            loss.backward()
        optimizer.step()
        model.zero_grad()


def share_lost(micro_batches, numbers=1_000) -> float:
    """Return the share that is lost if gradients of micro-batches are added up in bfloat16.

    All are between 0.5 and 1.5.
    """
    chance = torch.Generator().manual_seed(0)
    gradients = torch.rand(micro_batches, numbers, generator=chance, device="cpu").add(0.5).to(HALF)
    total = torch.zeros(numbers, dtype=HALF, device="cpu")
    for gradient in gradients:
        total += gradient
    return 1 - (total.float().sum() / gradients.float().sum()).item()


# ---- Small steps and small gradients --------------------------------------------------------


def measure_movement(make_step, dtype, rate=1e-4, steps=10) -> tuple[float, float]:
    """Return how far steps moved weights on average, and the share of weights that moved.

    make_step  takes a list of parameters and a rate; returns what takes a step
    """
    torch.manual_seed(0)
    weight = nn.Parameter((0.1 * torch.randn(100_000)).to(dtype))
    start, step = weight.detach().clone(), make_step([weight], rate)
    for _ in range(steps):
        weight.grad = torch.ones_like(weight)  # always the same direction
        step()
    change = (weight - start).detach().float()
    return change.abs().mean().item(), (change != 0).float().mean().item()


def activation_gradients(text, steps=15):
    """Return the gradients of all linear layers' outputs after some steps of training."""
    torch.manual_seed(0)
    model = Transformer(32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        inputs, targets = draw_batch(text, 16, step)
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    found = []
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear)):
        layer.register_full_backward_hook(lambda layer, gi, go: found.append(go[0].flatten()))
    mean_loss(model(inputs), targets).backward()
    return torch.cat(found).cpu()


# ---- Time -----------------------------------------------------------------------------------


def both_products(rounds=10) -> tuple[list[float], list[float]]:
    """Return the seconds of a product of two square matrices in float32, and in bfloat16, in turns.

    Each list has a time for each round; the first round does not count.
    """
    is_on_gpu = torch.get_default_device().type == "cuda"
    size = 4096 if is_on_gpu else 512
    times = {dtype: [] for dtype in (SINGLE, HALF)}
    for dtype in [*times] * (1 + rounds):
        x = torch.ones(size, size, dtype=dtype)
        began = time.perf_counter()
        x @ x
        if is_on_gpu:
            torch.cuda.synchronize()
        times[dtype].append(time.perf_counter() - began)
    return tuple(of_dtype[1:] for of_dtype in times.values())


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(50_000)
    for layout in LAYOUTS:
        run = launch(two_steps, layout, text, 64, 2, 8, world_size=1)
        peak = run[layout].peak_bytes[0]
        kinds = ", ".join(f"{kind} {count / 1e3:.0f} kB" for kind, count in peak.items() if count)
        print(f"{layout}: at most {kinds}")


if __name__ == "__main__":
    main()
