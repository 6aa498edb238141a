"""Gradients, loss and memory of answers that accumulate, for the three exercises that ask for it.

The truth is computed on the whole batch at once; each misconception is a different loss.
"""

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit.single_rank import most_bytes
from pedagogy_lib.measuring.recorder import mark

PADDING, HIDDEN = -100, 16

CALLERS = 3.0  # times the cross-entropy: in exercise accumulate, the caller chooses the loss


def merge_pieces(pieces):
    """Merge several (inputs, targets) into one."""
    return tuple(torch.cat(parts) for parts in zip(*pieces))


def mean_loss(outputs, targets):
    return CALLERS * F.cross_entropy(outputs, targets)


def model_of(first, outputs, is_tied=False):
    """Return a model that begins with `first`; `is_tied` adds two layers that share a weight."""
    torch.manual_seed(3)
    for parameter in first.parameters():
        nn.init.normal_(parameter, std=0.7)
    between = [nn.Linear(HIDDEN, HIDDEN) for _ in range(2 * is_tied)]
    for layer in between:
        layer.weight = between[0].weight
    return nn.Sequential(first, nn.Tanh(), *between, nn.Linear(HIDDEN, outputs)).double()


def accumulate(answer, make, arguments, pieces, stale=None):
    model = make()
    for parameter in model.parameters() if stale else ():
        parameter.grad = torch.full_like(parameter, stale)
    samples = []
    backwards = []
    given = clone_pieces(pieces)
    before = clone_pieces([model.parameters()])
    counting = next(model.parameters()).register_hook(lambda _: backwards.append(1))
    with counting, model.register_forward_pre_hook(lambda _, inp: samples.append(len(inp[0]))):
        loss = answer(model, *arguments, given)
    has_graph = isinstance(loss, torch.Tensor) and loss.requires_grad
    gradients = {name: p.grad for name, p in model.named_parameters()}
    no_gradient = all(g is None or (stale and (g == stale).all()) for g in gradients.values())
    return {
        "changed": not are_same(given, pieces),
        "moved": not are_same([model.parameters()], before),
        "no_gradient": len(backwards) + 1 if no_gradient else 0,
        "gradients": gradients,
        "is_nan": any(g is not None and g.isnan().any() for g in gradients.values()),
        "is_text": isinstance(loss, str),
        "loss": float_or_none(loss),
        "has_graph": has_graph,
        "is_eval": not model.training,
        "passes": (len(samples), len(backwards), len(pieces)),
        "samples": (sum(samples), sum(len(inputs) for inputs, _ in pieces)),
    }


def clone_pieces(pieces) -> list[tuple]:
    return [tuple(tensor.detach().clone() for tensor in piece) for piece in pieces]


def are_same(pieces, others) -> bool:
    pairs = [[*zip(*both, strict=False)] for both in zip(pieces, others, strict=False)]
    return len(pieces) == len(others) and all(a.equal(b) for both in pairs for a, b in both)


def float_or_none(loss):
    try:
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
    except (TypeError, ValueError, RuntimeError):
        return None


def measure_memory(answer, make, arguments, pieces):
    """Measure the peak of activations: of an answer, of one micro-batch and of the whole batch."""
    model, whole, order = make(), merge_pieces(pieces), []
    for tensor in (tensor for piece in [whole, *pieces] for tensor in piece):
        mark(tensor, "other")  # data are not activations

    def go_through(inputs, targets):
        mean_loss(model(inputs).flatten(0, -2), targets.flatten()).backward()

    works = {
        "answer": lambda: answer(model, *arguments, list(pieces)),
        "one": lambda: go_through(*pieces[0]),
        "whole": lambda: go_through(*whole),
    }
    model.register_forward_pre_hook(lambda *_: order.append("forward"))
    next(model.parameters()).register_hook(lambda _: order.append("backward"))
    activations = {name: most_bytes(work)["activations"] for name, work in works.items()}
    by_answer = order[:-4]  # the last four entries are those of "one" and "whole"
    return {
        "activations": activations,
        "goes_back_each_time": by_answer == ["forward", "backward"] * len(pieces),
    }
