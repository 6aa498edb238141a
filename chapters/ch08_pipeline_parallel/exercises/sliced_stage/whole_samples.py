"""The cases of one stage, with the layers and inputs for a pass over whole samples."""

from dataclasses import dataclass

import torch

from coursekit.kit.reference_training import whole_transformer

SAMPLES, WIDTH, HEADS, LETTERS = 2, 4, 2, 9


@dataclass(frozen=True)
class Case:
    """A case: the names of the stage's layers, and the tokens of each slice."""

    layers: str
    sizes: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.sizes)

    @property
    def is_last(self) -> bool:
        return "logits" in self.layers

    def __str__(self):
        s = "s" * (len(self.sizes) > 1)
        return f"{self.layers}: {len(self.sizes)} slice{s} of {format_sizes(self.sizes)} tokens"


def format_sizes(sizes) -> str:
    return ", ".join(map(str, sizes))


CASES = (
    Case("block", (4,)),
    Case("embedding", (2, 2)),
    Case("block", (3, 3)),
    Case("block, block", (1, 4, 2)),
    Case("embedding, block", (2, 1, 3, 1)),
    Case("block, logits", (2, 3, 1)),
)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Embedding(torch.nn.Module):
    """An embedding like the lab's: letters, plus their places."""

    def __init__(self, letters, places):
        super().__init__()
        self.letters, self.places = letters, places

    def forward(self, letters):
        return self.letters(letters) + self.places(torch.arange(letters.shape[1]))


def layers_in(transformer) -> list[torch.nn.Module]:
    return [Embedding(transformer.letters, transformer.places), *transformer.blocks]


def layers_of(case, make=whole_transformer, layers_in=layers_in) -> torch.nn.Sequential:
    """Return the layers of a case's stage.

    make       makes a transformer
    layers_in  takes a transformer, and returns its layers, beginning with the embedding
    """

    def layer(number):
        return layers_in(make(width=WIDTH, layers=1, heads=HEADS, context=case.tokens))[number]

    made = {
        "embedding": lambda: layer(0),
        "block": lambda: layer(1),
        "logits": lambda: torch.nn.Linear(WIDTH, LETTERS),
    }
    piece = torch.nn.Sequential(*(made[name]() for name in case.layers.split(", "))).double()
    for seed, parameter in enumerate(piece.parameters()):
        parameter.data = draw(seed, *parameter.shape)
    return piece


def inputs_of(case):
    """Return the stage's input and the gradient of its output; the tokens are along dim 1."""
    chance = torch.Generator().manual_seed(9)
    x = draw(90, SAMPLES, case.tokens, WIDTH)
    if "embedding" in case.layers:
        x = torch.randint(LETTERS, (SAMPLES, case.tokens), generator=chance)
    return x, draw(91, SAMPLES, case.tokens, WIDTH)


def loss_of(logits):
    """Return a loss that is a sum over tokens, so that those of slices add up."""
    return logits.square().sum()
