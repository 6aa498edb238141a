"""What is right, and what mistakes give: see whole_samples.py."""

from dataclasses import dataclass

import torch

from .whole_samples import inputs_of, layers_of, loss_of


@dataclass(frozen=True)
class Case:
    """layers: names of what the stage has; sizes: the tokens of each slice."""

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
        return f"{self.layers}: {len(self.sizes)} slice{s} of {told(self.sizes)} tokens"


def told(sizes) -> str:
    return ", ".join(map(str, sizes))


CASES = (
    Case("block", (4,)),
    Case("embedding", (2, 2)),
    Case("block", (3, 3)),
    Case("block, block", (1, 4, 2)),
    Case("embedding, block", (2, 1, 3, 1)),
    Case("block, logits", (2, 3, 1)),
)


def whole(case, stopped=()) -> dict:
    """The gradients of one pass over whole samples: of "x", and of parameters by their names.

    stopped  {number of a block: "keys", "values" or both}: no gradient goes from a slice to those
             of the slices before it
    """
    piece = layers_of(case)
    x, slope = inputs_of(case)
    x = x.requires_grad_(x.is_floating_point())
    y = x
    for number, layer in enumerate(piece):
        kinds = dict(stopped).get(number)
        y = layer(y) if kinds is None else stopped_block(layer, y, case.sizes, kinds)
    total = loss_of(y) if case.is_last else (y * slope).sum()
    total.backward()
    return {"x": x.grad} | {name: p.grad for name, p in piece.named_parameters()}


def stopped_block(block, x, sizes, kinds):
    """A block that hears nothing of what later slices make of its keys or values."""
    attention = block.attention
    q, k, v = attention.split(attention.query_key_value(block.norm_1(x)))
    slice_of = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    same = slice_of[:, None] == slice_of
    old_k, old_v = (x.detach() if k in kinds else x for k, x in [("keys", k), ("values", v)])
    logits = torch.where(same, q @ k.mT, q @ old_k.mT) / q.shape[-1] ** 0.5
    earlier = torch.ones_like(same).tril()
    shares = logits.masked_fill(~earlier, -torch.inf).softmax(-1)
    mixed = (shares * same) @ v + (shares * ~same) @ old_v
    x = x + attention.output(mixed.transpose(1, 2).flatten(2))
    return x + block.mlp(block.norm_2(x))
