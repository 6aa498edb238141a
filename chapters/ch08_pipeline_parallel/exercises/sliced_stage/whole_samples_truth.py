"""One pass over whole samples: the right results, and the results of known mistakes.

A mistake is a pass in which no gradient goes from a slice to the keys, or the values, of earlier
slices.
"""

import torch

from .whole_samples import inputs_of, layers_of, loss_of


def whole(case, stopped=()) -> dict:
    """Return the gradients of one pass over whole samples: "x", and parameters by their names.

    stopped  {index of a block: "keys", "values" or both}: no gradient goes from a slice to these
             of earlier slices
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
    """Run a block whose keys or values get no gradient from later slices."""
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
