"""The cases, and the code that runs next to the answer."""

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib.basics.closeness import close

from ..shared.accumulation import are_same, clone_pieces, measure_memory

RATE = 0.1


def regression(number, size=5):
    source = torch.Generator().manual_seed(number)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return [(draw(size, 4), draw(size, 1)) for _ in range(number)]


def small_model():
    model = nn.Linear(4, 1).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(1.0, parameter.numel() + 1).view_as(parameter) / 4)
    return model


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def walk(groups, scale=1.0, keep=lambda number: False, share=lambda place: 1.0):
    """Return the final weights if each step goes along the summed gradients of a group.

    keep   takes the number of a step, returns whether it adds the previous step's gradients
    share  takes the place of a micro-batch in its group, returns the factor of its loss
    """
    model, kept = small_model(), None
    for number, group in enumerate(groups):
        losses = [
            share(place) * F.mse_loss(model(inputs), targets)
            for place, (inputs, targets) in enumerate(group)
        ]
        slopes = torch.autograd.grad(sum(losses), list(model.parameters()))
        kept = [a + b for a, b in zip(kept, slopes)] if kept and keep(number) else slopes
        with torch.no_grad():
            for parameter, slope in zip(model.parameters(), kept):
                parameter -= RATE * scale * slope
    return flat(model)


def train(answer, number, every):
    model, steps, forwards, backwards = small_model(), [], [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer.register_step_post_hook(lambda *_: steps.append(optimizer.param_groups[0]["lr"]))
    model.register_forward_pre_hook(lambda *_: forwards.append(1))
    model.weight.register_hook(lambda _: backwards.append(1))
    pieces = regression(number)
    given = clone_pieces(pieces)
    answer(model, nn.MSELoss(), given, optimizer, every)
    stands_still = bool(steps and backwards) and close(flat(model), walk([]))
    return {"stands_still": len(steps) if stands_still else 0, "weights": flat(model),
            "steps": (len(steps), number // every), "other_rate": any(r != RATE for r in steps),
            "passes": (len(forwards), len(backwards), number),
            "left": any(p.grad is not None and bool(p.grad.any()) for p in model.parameters()),
            "changed": not are_same(given, pieces)}  # fmt: skip


def measure(answer, make, arguments, pieces):
    """Measure the loop with all micro-batches in one step, called like exercise accumulate."""

    def accumulate(model, loss_fn, micro_batches):
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        answer(model, loss_fn, micro_batches, optimizer, len(micro_batches))

    return measure_memory(accumulate, make, arguments, pieces)
