"""The cases, and the code that runs next to the answer."""

import copy
from functools import partial

import torch
from torch import nn

from pedagogy_lib.basics.closeness import close

KINDS = ("parameters", "gradients", "optimizer_state")


class Several(nn.Module):
    """A model with a buffer and tied parameters; some may be frozen, unused or of another dtype."""

    def __init__(self, dtype=torch.float32, frozen=False, unused=False, last=None):
        super().__init__()
        self.letters = nn.Embedding(7, 5, dtype=dtype)
        self.scores = nn.Linear(5, 7, bias=False, dtype=dtype)
        self.scores.weight = self.letters.weight
        self.last = nn.Linear(7, 3, dtype=last or dtype).requires_grad_(not frozen)
        self.unused = nn.Parameter(torch.ones(11, dtype=dtype)) if unused else None
        self.register_buffer("counts", torch.zeros(13))

    def forward(self, letters):
        return self.last(self.scores(self.letters(letters)).to(self.last.weight.dtype))


MODELS = {
    "a linear layer": lambda: nn.Linear(5, 3),
    "tied weights and a buffer": Several,
    "a frozen layer, a parameter without gradient": lambda: Several(frozen=True, unused=True),
    "float64 and a frozen layer": lambda: Several(torch.float64, frozen=True),
    "bfloat16, the last layer in float32": lambda: Several(torch.bfloat16, last=torch.float32),
}

OPTIMIZERS = {
    "Adam": torch.optim.Adam,
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "AdamW with amsgrad": partial(torch.optim.AdamW, amsgrad=True),
    "Adagrad": torch.optim.Adagrad,
}

STATES = [
    ("a linear layer", "Adam", "nothing done yet"),
    ("a linear layer", "Adam", "after a backward, and the weight frozen since"),
    ("a linear layer", "Adam", "after a step"),
    ("a linear layer", "Adam", "after a step and zero_grad()"),
    ("tied weights and a buffer", "SGD", "after a step"),
    ("tied weights and a buffer", "SGD with momentum", "after a step"),
    ("tied weights and a buffer", "Adam", "after a step"),
    ("a frozen layer, a parameter without gradient", "Adam", "after a step"),
    ("float64 and a frozen layer", "AdamW with amsgrad", "after a step"),
    ("bfloat16, the last layer in float32", "Adam", "after a step"),
    ("a linear layer", "Adagrad", "nothing done yet"),
]


def make_model_and_optimizer(model, optimizer, done) -> tuple:
    """Return a model and its optimizer in the state that `done` names."""
    model = MODELS[model]()
    dims = (2,) if optimizer == "SGD" else (2, 1)  # SGD gets no biases
    groups = [{"params": [p for p in model.parameters() if p.dim() == dim]} for dim in dims]
    optimizer = OPTIMIZERS[optimizer](groups)
    if done != "nothing done yet":
        inputs = torch.ones(2, 5) if isinstance(model, nn.Linear) else torch.tensor([1, 2])
        model(inputs).float().square().sum().backward()
    if "step" in done:
        optimizer.step()
    if "zero_grad" in done:
        optimizer.zero_grad()
    if "frozen" in done:
        next(model.parameters()).requires_grad_(False)
    return model, optimizer


def look(answer, *state):
    model, optimizer = make_model_and_optimizer(*state)
    before = copy.deepcopy(tensors_of(model, optimizer))
    got = answer(model, optimizer)
    after = tensors_of(model, optimizer)
    return {
        "bytes": numbers_or_text(got),
        "changed": [kind for kind in KINDS if not close(after[kind], before[kind])],
    }


def numbers_or_text(value):
    """Return a dict of floats if the value is a dict of numbers; otherwise None or a text."""
    try:
        return {str(kind): float(count) for kind, count in value.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None if value is None else f"{value!r:.60}"


def tensors_of(model, optimizer) -> dict[str, list]:
    return {
        "parameters": list(model.parameters()),
        "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        "optimizer_state": [x for of in optimizer.state.values() for x in of.values()],
    }
