"""Models and samples on which data parallel engines are tried."""

import torch
import torch.nn.functional as F
from torch import nn

STEPS, SAMPLES = 5, 13  # of the training; 13 are never shared out evenly


WORDS, WIDTH = 7, 4


class EveryKind(nn.Module):
    """A model with each kind of parameter: tied, frozen, 0-dimensional, without part in the loss.

    In evaluation mode: the statistics of a share are not those of the whole batch.
    """

    def __init__(self, words=WORDS, width=WIDTH):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(3))
        self.embedding = nn.Embedding(words, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.norm = nn.BatchNorm1d(width)
        self.alike = nn.ParameterList(torch.zeros(width) for _ in range(4))
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.output = nn.Linear(width, words)
        self.output.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(width), persistent=False)
        self.double().eval()

    def forward(self, tokens):  # (samples,)
        x = self.norm(torch.tanh(self.frozen(self.embedding(tokens))))
        for shift in self.alike:
            x = torch.tanh(x + shift) * self.mask
        return self.scale * self.output(x)


def tensors_of(model):
    return dict(model.named_parameters()) | dict(model.named_buffers())


def state_of(model):
    return {name: tensor.detach().clone() for name, tensor in tensors_of(model).items()}


def equal_models(count, make=EveryKind):
    """Models that are equal to each other, and on all ranks."""
    torch.manual_seed(3)
    model = make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    models = [make() for _ in range(count)]
    for other in models:
        other.load_state_dict(model.state_dict())
    return models


def share_of(place, n) -> slice:
    """A share of the samples; those of the first ranks have one more than the others."""
    sizes = [len(part) for part in torch.arange(SAMPLES).tensor_split(n)]
    return slice(sum(sizes[:place]), sum(sizes[: place + 1]))


def batch_of(step):
    chance = torch.Generator().manual_seed(step)
    return torch.randint(WORDS, (2, SAMPLES), generator=chance)


def loss_of(model, step, share, factor):
    """The sum of the losses of a share of a step's samples, times a factor."""
    tokens, targets = batch_of(step)[:, share]
    return F.cross_entropy(model(tokens), targets, reduction="sum") * factor
