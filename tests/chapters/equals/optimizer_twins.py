"""Optimizers and a loss scaler, next to PyTorch's, on the same gradients."""

from functools import partial

import torch
from helpers import load_solved_lab
from torch import nn
from twins import EQUAL, Excluded, Twin

STATES, MEMORY = map(load_solved_lab, ("small_states", "memory"))
STEPS = 6
DTYPES = {
    name: getattr(torch, name)
    for name in ("float32", "float64", "bfloat16", "float16", "complex64")
}
SHAPES = {"no dimension": (), "without elements": (0,), "a matrix": (3, 4)}
LAYOUTS = {
    "strided": lambda x: x.repeat(2, 1).t()[:, ::2].t(),
    "transposed": lambda x: x.t().contiguous().t(),
    "channels_last": lambda x: x[:, :, None, None].expand(-1, -1, 2, 2).contiguous(
        memory_format=torch.channels_last
    ),
}  # fmt: skip
OF_GRADIENTS = {
    "infinite": torch.inf, "not a number": torch.nan, "of an infinite square": 1e20,
    "tiny": 1e-30, "zero": 0.0,
}  # fmt: skip
USES = ("frozen", "unused", "no gradient at first", "no gradient at last", "no gradient at all",
        "gradients set to zero", "several groups", "groups with rates of their own",
        "a group that comes later", "saved and loaded", "sparse", "another option")  # fmt: skip
PARAMETERS = dict.fromkeys((*DTYPES, *SHAPES, *LAYOUTS, *OF_GRADIENTS, *USES), EQUAL)


def make_parameters(condition):
    """Return two parameters, the second of which is odd."""
    chance = torch.Generator().manual_seed(1)
    shape = SHAPES.get(condition, (4, 5))
    odd = torch.randn(shape, generator=chance).to(DTYPES.get(condition, torch.float32))
    odd = nn.Parameter(LAYOUTS.get(condition, lambda x: x)(odd))
    plain = nn.Parameter(torch.randn(3, generator=chance).to(odd.dtype))
    return [plain, odd.requires_grad_(condition != "frozen")]


def gradient_of(p, condition, step, number):
    """Return a gradient, or None."""
    steps = {"no gradient at first": (0, 1), "no gradient at last": (4, 5), "frozen": range(STEPS),
             "unused": range(STEPS), "no gradient at all": range(STEPS)}  # fmt: skip
    if step in steps.get(condition, ()) and (number == 1 or condition == "no gradient at all"):
        return torch.zeros_like(p) if condition == "gradients set to zero" else None
    chance = torch.Generator().manual_seed(10 * step + number)
    dtype = torch.complex128 if p.is_complex() else torch.float64
    gradient = torch.randn(p.shape, generator=chance, dtype=dtype).to(p.dtype)
    gradient = torch.empty_like(p).copy_(gradient)
    if condition in OF_GRADIENTS and step == 2 and number == 1:
        gradient.view(-1)[::2] = OF_GRADIENTS[condition]
    return gradient.to_sparse() if condition == "sparse" and number == 1 else gradient


def groups_of(parameters, condition):
    plain, odd = parameters
    if condition == "several groups":
        return [{"params": [odd]}, {"params": [plain]}]
    if condition == "groups with rates of their own":
        return [{"params": [odd], "lr": 0.3}, {"params": [plain], "betas": (0.5, 0.9)}]
    if condition == "another option":
        return [{"params": [odd], "weight_decay": 0.5}, {"params": [plain]}]
    return [plain] if condition == "a group that comes later" else parameters


# ---- Adam -------------------------------------------------------------------------------------


def small_adam(parameters):
    codec = STATES.DtypeCodec(torch.float32)
    return STATES.SmallAdam(parameters, codec, codec, lr=0.1)


def train(make, condition, dtype=None):
    """Return the weights after each step, and what chance draws afterwards."""
    parameters = make_parameters(condition)
    if dtype:
        parameters = [nn.Parameter(p.detach().to(dtype)) for p in parameters]
    optimizer, found = make(groups_of(parameters, condition)), []
    torch.manual_seed(3)
    for step in range(STEPS):
        if condition == "a group that comes later" and step == 2:
            optimizer.add_param_group({"params": [parameters[1]]})
        if condition == "saved and loaded" and step == 3:
            state, optimizer = optimizer.state_dict(), make(groups_of(parameters, condition))
            optimizer.load_state_dict(state)
        for number, p in enumerate(make_parameters(condition)):
            gradient = gradient_of(p, condition, step, number)
            parameters[number].grad = (
                gradient if gradient is None or not dtype else gradient.to(dtype)
            )
        optimizer.step()
        found += [p.detach().clone() for p in parameters]
    return found if dtype or condition in ("bfloat16", "float16") else [*found, torch.rand(2)]


def prepare_adam(condition):
    if condition == "sparse":
        return partial(train, small_adam, condition), lambda: None
    adam = partial(torch.optim.Adam, lr=0.1)
    ways = partial(train, small_adam, condition), partial(train, adam, condition)
    if condition in ("bfloat16", "float16"):
        return *ways, partial(train, adam, condition, torch.float64)
    return ways


# ---- Loss scaling -----------------------------------------------------------------------------

SCALES = {  # the first factor, and the steps in a row after which it is doubled
    "no power of two": (1000.1, 2),
    "each step in a row": (8.0, 1),
    "never": (8.0, 100),
    "large": (2.0**120, 2),
    "small": (2.0**-120, 2),
}
OVERFLOWS = {
    "one in between": (2,),
    "within a row": (1, 4),
    "the first and the last": (0, 5),
    "two in a row": (2, 3),
    "all": range(STEPS),
}


class OurScaler:
    def __init__(self, *how):
        self.scaler = MEMORY.LossScaler(*how)

    def scale(self):
        return self.scaler.scale

    def step(self, parameters, optimizer):
        self.scaler.step(iter(parameters), optimizer.step)


class TheirScaler:
    def __init__(self, scale, window):
        self.scaler = torch.amp.GradScaler("cpu", scale, 2.0, 0.5, window)

    def scale(self):
        return self.scaler.scale(torch.ones(())).item()

    def step(self, parameters, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()


def train_scaled(make, condition):
    """Return the factor and the weights after each step."""
    parameters = make_parameters(condition)
    optimizer = torch.optim.SGD(groups_of(parameters, condition), lr=0.1, momentum=0.9)
    scaler, found = make(*SCALES.get(condition, (8.0, 2))), []
    for step in range(STEPS):
        if condition == "a group that comes later" and step == 2:
            optimizer.add_param_group({"params": [parameters[1]]})
        scale = scaler.scale()
        for number, p in enumerate(parameters):
            gradient = gradient_of(p, condition, step, number)
            p.grad = gradient if gradient is None else gradient * scale
            if step in OVERFLOWS.get(condition, ()):
                p.grad.view(-1)[-1] = (-1) ** number * torch.inf
        scaler.step([p for group in optimizer.param_groups for p in group["params"]], optimizer)
        found += [torch.tensor(scaler.scale()), *(p.detach().clone() for p in parameters)]
    return found


def prepare_scaler(condition):
    return partial(train_scaled, OurScaler, condition), partial(
        train_scaled, TheirScaler, condition
    )


TWINS = [
    Twin("small_states.SmallAdam",
         PARAMETERS | dict.fromkeys(("float64", "complex64"), Excluded("computes in float32"))
         | {"of an infinite square": Excluded("no gradient is so large"), "sparse": "Sparse",
            "another option": "weight_decay", "saved and loaded": "loads no checkpoint"},
         prepare_adam, sizes=(1,)),
    Twin("memory.LossScaler",
         PARAMETERS | dict.fromkeys((*SCALES, *OVERFLOWS), EQUAL)
         | dict.fromkeys(set(DTYPES) - {"float32"}, Excluded("with float32 gradients"))
         | {"no gradient at all": Excluded("of which there is at least one"),
            "beyond float32": Excluded("from 2**-126 to 2**127"), "sparse": "Sparse"},
         prepare_scaler, sizes=(1,)),
]  # fmt: skip
