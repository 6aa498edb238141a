"""Autograd functions written by hand, next to what autograd does by itself."""

from contextlib import nullcontext, suppress
from functools import partial

import torch
import torch.nn.functional as F
from collectives_twins import SHAPES
from helpers import load_solved_lab
from torch import nn
from torch.utils.checkpoint import checkpoint
from twins import EQUAL, Excluded, Twin

MEMORY, RECOMPUTATION = map(load_solved_lab, ("memory", "recomputation"))
DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "bfloat16", "float16")}
IN_16_BITS = {"bfloat16", "float16", "large gradients in float16"}
LAYOUTS = {
    "strided": lambda x: x.repeat(1, 2)[:, ::2],
    "transposed": lambda x: x.t().contiguous().t(),
    "channels_last": lambda x: x[:, :, None, None].expand(-1, -1, 2, 2).contiguous(
        memory_format=torch.channels_last
    ),
    "expanded": lambda x: x[:, :1].expand(-1, 5),
}  # fmt: skip
USES = ("a leaf", "no gradient", "no_grad", "two backwards", "used twice", "in place afterwards",
        "inference mode", "not finite", "autocast", "a part of the result", "a second derivative",
        "torch.autograd.grad")  # fmt: skip
INPUTS = dict.fromkeys((*DTYPES, *SHAPES, *LAYOUTS, *USES), EQUAL)


def make_input(condition):
    chance = torch.Generator().manual_seed(1)
    shape = SHAPES.get(condition, (4, 5))
    dtype = DTYPES.get(condition, torch.float16 if condition in IN_16_BITS else torch.float64)
    x = (0.5 + torch.rand(shape, generator=chance, dtype=torch.float64)).to(dtype)
    x = x.float() if condition == "autocast" else x
    x = x / 10 if condition == "large gradients in float16" else x
    return LAYOUTS.get(condition, lambda x: x)(x)


def use(function, parameters, x, condition):
    """Return the function's result for x and all gradients, or those of other uses of it.

    function    x -> y
    parameters  of the function
    """
    torch.manual_seed(1)
    leaf = x.detach().requires_grad_(condition != "no gradient")
    x = leaf if condition == "a leaf" else leaf.view_as(leaf)
    with (
        torch.no_grad() if condition == "no_grad" else nullcontext(),
        torch.inference_mode() if condition == "inference mode" else nullcontext(),
        torch.autocast("cpu", torch.bfloat16, enabled=condition == "autocast"),
    ):
        y = function(x)
    found, chance = [y.detach().clone()], torch.rand(2)
    if condition == "in place afterwards":
        y = y.mul_(2)
    if condition == "used twice":
        y = y + function(y.detach() + x)
    if condition == "a part of the result":
        y = y[:1]
    back = (torch.arange(y.numel()) % 3 - 0.5).view(y.shape).to(y.dtype)
    if condition == "large gradients in float16":
        back = torch.full_like(y, 40_000)
    if condition == "not finite":
        back[0, 0], back[1, 1] = torch.inf, torch.nan
    if condition == "torch.autograd.grad":
        (leaf.grad,) = torch.autograd.grad(y, leaf, back)
    elif condition == "a second derivative":
        (gradient,) = torch.autograd.grad(y, leaf, back, create_graph=True)
        (gradient.square().sum() + y.sum()).backward()
    elif y.requires_grad:
        for again in range(2 if condition == "two backwards" else 1):
            y.backward(back, retain_graph=again == 0 and condition == "two backwards")
    found += [p.grad for p in (leaf, *parameters)]
    return [*found, y.requires_grad, chance, torch.rand(2)]


def prepare(make, condition):
    """Return ours and theirs, and theirs in float64 for numbers of 16 bits.

    make  (condition, ours or not) -> a function of x, and its parameters
    """
    x = make_input(condition)

    def run(is_ours, x):
        function, parameters = make(condition, is_ours, x)
        return use(function, parameters, x, condition)

    if condition in IN_16_BITS:
        only_numbers = lambda found: [z for z in found[:-3] if z is not None]  # noqa: E731
        ways = partial(run, True, x), partial(run, False, x), partial(run, False, x.double())
        return [lambda way=way: only_numbers(way()) for way in ways]
    return partial(run, True, x), partial(run, False, x)


# ---- A power ----------------------------------------------------------------------------------

EXPONENTS = {"a root": 0.5, "a fraction": -1.5, "an inverse": -1, "the first power": 1, "large": 30}


def make_power(condition, is_ours, x):
    exponent = EXPONENTS.get(condition, 3)
    if is_ours:
        return partial(RECOMPUTATION.Power.apply, exponent), []
    return lambda x: x**exponent, []


# ---- Recomputed in the backward ---------------------------------------------------------------

BLOCKS = dict.fromkeys(
    ("dropout", "frozen", "tied", "unused", "batch norm", "recomputed inside", "x itself",
     "a view of x", "a backward that raised"), EQUAL
)  # fmt: skip


class Block(nn.Module):
    def __init__(self, condition, x):
        super().__init__()
        torch.manual_seed(0)
        self.condition = condition
        self.first, self.second = (
            nn.Parameter(torch.rand(x.shape[-1:], dtype=torch.float64).to(x.dtype)) for _ in "12"
        )
        self.norm = nn.BatchNorm1d(5).double()
        if condition == "frozen":
            self.first.requires_grad_(False)

    def forward(self, x):
        if self.condition in ("x itself", "a view of x"):
            return x if self.condition == "x itself" else x[:, 1:3]
        y = torch.tanh(x * self.first)
        if self.condition == "autocast":
            y = F.linear(y, self.first.diag())
        if self.condition == "dropout":
            y = F.dropout(y, 0.5)
        if self.condition == "batch norm":
            y = self.norm(y)
        if self.condition == "recomputed inside":
            y = MEMORY.recompute_in_backward(torch.sin, y)
        if self.condition == "unused":
            return y
        return y * (self.first if self.condition == "tied" else self.second)


def make_recomputed(condition, is_ours, x):
    block = Block(condition, x)
    parameters = list(block.parameters())
    if not is_ours:
        by_torch = partial(checkpoint, block, use_reentrant=True)
        return by_torch if condition == "batch norm" else block, parameters
    function = partial(MEMORY.recompute_in_backward, block)
    if condition == "a backward that raised":
        fail_in_backward(function, block, x)
    return function, parameters


def fail_in_backward(function, block, x):
    """Run a backward in which the second run of the block raises."""

    def fail(module, inputs):
        raise MemoryError("out of memory")

    y = function(x.detach().requires_grad_())
    hook = block.register_forward_pre_hook(fail)
    with suppress(MemoryError):
        y.sum().backward()
    hook.remove()


TWINS = [
    Twin("recomputation.Power",
         INPUTS | dict.fromkeys((*EXPONENTS, "large gradients in float16"), EQUAL),
         partial(prepare, make_power), sizes=(1,)),
    Twin("memory.Recomputed",
         INPUTS | BLOCKS
         | {"no gradient": Excluded("if x has a gradient"),
            "autocast": Excluded("which handles autocast as well"),
            "torch.autograd.grad": Excluded("not in torch.autograd.grad"),
            "a second derivative": "no second derivative"},
         partial(prepare, make_recomputed), sizes=(1,)),
]  # fmt: skip
