"""The cases, and the code that runs next to the answer."""

import gc
import warnings
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit.reference_training import RATE, flat, gradients_in, note_gradients
from coursekit.kit.single_rank import most_bytes
from pedagogy_lib.measuring.recorder import mark

SAMPLES, FEATURES, WIDTH = 128, 8, 64

TRAININGS = {  # steps, validation batches, optimizer
    "3 steps, 2 validation batches": (3, 2, torch.optim.SGD),
    "7 steps, 2 validation batches": (7, 2, torch.optim.SGD),
    "3 steps, 6 validation batches, Adam": (3, 6, torch.optim.Adam),
}

LASTS = {
    "torch.is_grad_enabled()": "autograd is still switched off. `with torch.no_grad():` switches "
    "it on again",
    "model.training": "model.eval() lasts: after validation, model.train() belongs to it. Without, "
    "the next step has no dropout, for example",
    "a parameter's requires_grad": "what validation freezes has to be trained again, and what was "
    "frozen before has to stay so",
}


def start(optimizer_type):
    """Return a model in float64, whose first bias is frozen, and its optimizer."""
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
        nn.Linear(WIDTH, 1),
    ).double()  # fmt: skip
    model[0].bias.requires_grad_(False)
    return model, optimizer_type(model.parameters(), lr=RATE)


def make_batches(count, salt, last=SAMPLES):
    """Return batches of inputs and targets; the last batch has `last` samples."""
    source = torch.Generator().manual_seed(salt)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    sizes = [SAMPLES] * (count - 1) + [last]
    return [(draw(size, FEATURES), draw(size, 1) + 1) for size in sizes]


def train(model, loss_fn, batches, validation, optimizer, after_step=lambda loss: None, keep=False):
    """Train without validation.

    keep  whether gradients stay from step to step
    """
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        if not keep:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step(loss.item())


def try_training(answer, steps, validations, optimizer_type):
    batches, validation = make_batches(steps, 1), make_batches(validations, 2, SAMPLES // 4)
    model, optimizer = start(optimizer_type)
    flags, gradients = flags_of(model), note_gradients(optimizer, model)
    warnings.filterwarnings("ignore", "Converting a tensor")  # the verdict explains it better
    with torch.enable_grad():  # restores the mode that an answer may change
        means = answer(model, F.mse_loss, batches, validation, optimizer)
        after = flags_of(model)
    is_list = isinstance(means, (list, tuple)) and all(isinstance(mean, float) for mean in means)
    return {
        "changed": [what for what in flags if after[what] != flags[what]],
        "steps": (len(gradients), steps),
        "gradients": [*gradients, flat(model.parameters())],
        "left": gradients_in(model),
        "means": list(means) if is_list else None if means is None else f"{means!r:.60}",
    }


def flags_of(model) -> dict:
    are_training = [module.training for module in model.modules()]
    are_trained = [p.requires_grad for p in model.parameters()]
    return dict(zip(LASTS, [torch.is_grad_enabled(), are_training, are_trained]))


def measure_trainings(answer):
    return {"needs": [need_of(answer, *sizes) for sizes in TRAININGS.values()]}


def need_of(answer, steps, validations, optimizer_type) -> SimpleNamespace:
    """Return the peak bytes, beyond those at the start, of training alone and of the answer.

    graphs  the difference, as a number of graphs
    """
    batches, validation = make_batches(steps, 1), make_batches(validations, 2)
    for x in (x for batch in [*batches, *validation] for x in batch):
        mark(x, "other")  # so that data does not count as activations
    alone, graph = bytes_of(train, batches, None, optimizer_type)
    mine, in_graphs = bytes_of(answer, batches, validation, optimizer_type)
    return SimpleNamespace(
        alone=alone, mine=mine, graph=graph, graphs=(mine - alone) / graph, in_graphs=in_graphs
    )


def bytes_of(function, batches, validation, optimizer_type) -> tuple[int, int]:
    model, optimizer = start(optimizer_type)
    gc.collect()
    before = most_bytes()["total"]
    most = most_bytes(lambda: function(model, F.mse_loss, batches, validation, optimizer))
    return most["total"] - before, most["activations"]
