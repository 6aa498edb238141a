"""A model of layers and its training in one process, the reference for Zero3 and Prefetching."""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from coursekit.kit.reference_training import SAMPLES, WIDTH, WORDS, loss_of


class Layer(nn.Module):
    """A residual layer: two linear layers with a tanh between them, times a scale."""

    def __init__(self, width, inner):
        super().__init__()
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x + self.scale * self.second(torch.tanh(self.first(x)))


class Stack(nn.Module):
    """An embedding, layers in some order, and an output layer that shares the embedding's weights.

    One parameter has no part in the loss, and two are frozen. Without `output`, the model ends with
    a layer, and its width is the number of words.
    """

    def __init__(self, width=WIDTH, inner=(3, 5, 2), output=True):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.unused = nn.Parameter(torch.zeros(3))
        self.layers = nn.ModuleList(Layer(width, size) for size in inner)
        self.output = nn.Linear(width, WORDS) if output else nn.Identity()
        if output:
            self.output.weight = self.embedding.weight
        self.layers[1].first.requires_grad_(False)
        self.order, self.around = range(len(inner)), ()
        self.double()

    def forward(self, tokens):  # (samples,)
        x = self.embedding(tokens)
        for number in self.order:
            layer, again = self.layers[number], number in self.around
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        return self.output(x)


def make_optimizer(parameters):
    return torch.optim.Adam(parameters, lr=0.05)


ending_in_layer = partial(Stack, width=WORDS, output=False)


class OneProcess:
    """A model that is trained on the samples of all ranks."""

    def __init__(self, model):
        self.model = model
        self.optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])

    def learn(self, seed):
        loss_of(self.model, seed, slice(None), 1 / SAMPLES).backward()

    def step(self):
        for p in self.model.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}
