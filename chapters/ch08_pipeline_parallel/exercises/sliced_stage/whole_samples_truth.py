"""What is right, and what mistakes give: see whole_samples.py."""

import torch

from .whole_samples import inputs_of, layers_of, loss_of


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
        y = layer(y) if kinds is None else run_detached_block(layer, y, case.sizes, kinds)
    total = loss_of(y) if case.is_last else (y * slope).sum()
    total.backward()
    return {"x": x.grad} | {name: p.grad for name, p in piece.named_parameters()}


def run_detached_block(block, x, sizes, kinds):
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
