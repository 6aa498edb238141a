# Built from chapters/ch05_memory/labs/recomputation.py by `make build`. Write your answers here.
"""Activation checkpointing of whole blocks, of parts of them, or of all but chosen operations.

torchrun --nproc-per-node 1 labs/recomputation.py
"""

import time
import warnings
from functools import partial

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from memory import recompute_in_backward, recompute_modules
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

# ---- A custom autograd function -------------------------------------------------------------


class Power(torch.autograd.Function):
    """Exercise 5.9. x ** exponent, with its own backward.

    exponent  a number other than 0
    x         a tensor of positive numbers, any shape
    Equals    x ** exponent, and its gradient
    Cost      nothing is kept but x
    """

    @staticmethod
    def forward(ctx, exponent, x):
        ctx.exponent = exponent
        ctx.save_for_backward(x)
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output):
        """Return a gradient for each input; grad_output is the gradient of the forward's result."""
        (x,) = ctx.saved_tensors
        ...  # your code here


# ---- Policies: which operations' results are kept -------------------------------------------

PRODUCTS = {"aten.mm", "aten.addmm", "aten.bmm"}
ATTENTION = {
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention",
}
KEPT = {"attention": ATTENTION, "products": PRODUCTS, "both": PRODUCTS | ATTENTION}


def policy_that_keeps(operations):
    """Return a policy, which PyTorch asks about each operation in a recomputed block.

    operations  names of those whose results are kept, without the overload: "aten.mm"
    """

    def policy(context, operation, *arguments, **named):
        kept = str(operation).removesuffix(".default") in operations
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def recompute_but(kept, function):
    """Return function, recomputed by PyTorch except for the results of the operations kept."""
    contexts = partial(create_selective_checkpoint_contexts, policy_that_keeps(KEPT[kept]))
    return partial(checkpoint, function, use_reentrant=False, context_fn=contexts)


# ---- Models ---------------------------------------------------------------------------------

WHOLE = ("nothing recomputed", "attention", "MLP", "blocks")
BY_TORCH = ("blocks, reentrant", "blocks, not reentrant")
SELECTIVE = tuple(f"all but {kept}" for kept in ("attention", "products", "both"))
WAYS = (*WHOLE, *BY_TORCH, *SELECTIVE)


def model_with(way, width, layers) -> Transformer:
    """Return a transformer, the same for all WAYS, whose blocks are recomputed in one of them."""
    torch.manual_seed(0)
    model = Transformer(width, layers)
    parts = {
        "attention": [block.attention for block in model.blocks],
        "MLP": [block.mlp for block in model.blocks],
        "blocks": model.blocks,
    }
    recompute_modules(parts.get(way, []))
    for block in model.blocks:
        if way in BY_TORCH:
            reentrant = way == BY_TORCH[0]
            block.forward = partial(checkpoint, block.forward, use_reentrant=reentrant)
        elif way in SELECTIVE:
            block.forward = recompute_but(way.removeprefix("all but "), block.forward)
    return model


# ---- Costs ----------------------------------------------------------------------------------


def compare(ways, text, width, layers, samples, rounds=6) -> dict:
    """Return {way: (its gradients, seconds of its steps, FLOPs of a step)}; all take turns.

    A step is a forward and a backward. One more step is measured, in blocks whose names begin with
    that of the way: see bytes_saved.
    """
    models = {way: model_with(way, width, layers) for way in ways}
    batch = draw_batch(text, samples, 0)
    times, flops, gradients = {way: [] for way in ways}, {}, {}
    for _ in range(rounds):
        for way, model in models.items():
            times[way].append(seconds_of(lambda model=model: forward_and_backward(model, batch)))
    for way, model in models.items():
        with FlopCounterMode(display=False) as counter:
            forward_and_backward(model, batch)
        flops[way] = counter.get_total_flops()
        measure_step(way, model, batch)
        gradients[way] = torch.cat([p.grad.flatten() for p in model.parameters()])
        model.zero_grad()
    return {way: (gradients[way], times[way][1:], flops[way]) for way in ways}


def find_slower_than_flops(found) -> list[str]:
    """Return the ways that clearly take longer than their FLOPs say, beside the first way.

    found  result of `compare`
    """
    from pedagogy_lib import compare_rounds

    (_, plain, least), *_ = found.values()
    as_flops = {way: [t * least / flops for t in times] for way, (_, times, flops) in found.items()}
    return [way for way, times in as_flops.items()
            if compare_rounds(times, plain).word == "slower"]  # fmt: skip


def more_flops_if_frozen(text, width, layers, samples) -> dict[str, float]:
    """Return {way: FLOPs of a step, in times one without recomputation} with frozen matrices.

    Of the blocks, norms and biases alone are trained: as with adapters, the backward computes
    hardly any gradients of weights.
    """
    batch, flops = draw_batch(text, samples, 0), {}
    for way in (WAYS[0], *BY_TORCH):
        model = model_with(way, width, layers)
        for p in model.blocks.parameters():
            p.requires_grad_(p.dim() < 2)
        with FlopCounterMode(display=False) as counter:
            forward_and_backward(model, batch)
        flops[way] = counter.get_total_flops()
    return {way: flops[way] / flops[WAYS[0]] for way in BY_TORCH}


def measure_step(way, model, batch):
    """Measure a step as a block, and memory before and after its forward in separate blocks."""
    from pedagogy_lib import measure

    inputs, targets = batch
    model.zero_grad()
    with measure(f"{way}: before"):
        pass
    with measure(way):
        loss = mean_loss(model(inputs), targets)
        with measure(f"{way}: after"):
            pass
        loss.backward()


def bytes_saved(run, way) -> int:
    """Return the bytes that the forward of a measured step has left for the backward."""
    before, after = (run[f"{way}: {when}"].peak_bytes[0]["total"] for when in ("before", "after"))
    return after - before


def forward_and_backward(model, batch):
    model.zero_grad()
    inputs, targets = batch
    mean_loss(model(inputs), targets).backward()


def seconds_of(work) -> float:
    """Return the seconds until the device has done the work."""
    began = time.perf_counter()
    work()
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


# ---- The length of a segment ----------------------------------------------------------------


def go_through(segments, layers=64, width=128, samples=32) -> int:
    """Run forward and backward of equal layers, recomputed in segments, in a measured block.

    Return the bytes of a layer's input.
    """
    from pedagogy_lib import measure

    parts = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)]
    x = torch.randn(samples, width, requires_grad=True)
    with measure("forward and backward"):
        y, length = x, layers // segments
        for first in range(0, layers, length):
            y = recompute_in_backward(nn.Sequential(*parts[first : first + length]), y)
        y.sum().backward()
    return x.nbytes


# ---- Two ways to recompute ------------------------------------------------------------------


def count_hook_calls(recompute, weight, inputs) -> int:
    """Return how often the hook of a weight's gradient is called if two recomputed parts use it."""
    layer, calls = nn.Linear(*weight.shape, bias=False), []
    layer.weight.register_post_accumulate_grad_hook(lambda p: calls.append(p))
    x = inputs.clone().requires_grad_()
    y = recompute(layer, recompute(layer, x))
    y.sum().backward()
    return len(calls)


def gets_gradient(recompute, inputs) -> bool:
    """Return whether a weight gets a gradient if the input of its recomputed part has none."""
    layer = nn.Linear(inputs.shape[-1], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's reentrant way warns about it
        y = recompute(layer, inputs) + torch.zeros(1, requires_grad=True)
    y.sum().backward()
    return layer.weight.grad is not None


# ---- The program ----------------------------------------------------------------------------


def program(text):
    return compare(WAYS, text, width=64, layers=4, samples=8, rounds=3)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(50_000), world_size=1)
    plain, _, least = run.values[0][WAYS[0]]
    for way, (gradients, seconds, flops) in run.values[0].items():
        peak = run[way].peak_bytes[0]["activations"]
        same = torch.equal(gradients, plain)
        print(f"{way:22} activations {peak / 1e6:5.1f} MB, {flops / least:.2f} times the FLOPs, "
              f"{1e3 * min(seconds):3.0f} ms, the same gradients: {same}")  # fmt: skip


if __name__ == "__main__":
    main()
