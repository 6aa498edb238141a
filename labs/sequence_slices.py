# Built from chapters/ch08_pipeline_parallel/labs/sequence_slices.py by `make build`. Write your answers here.
"""A pipeline inside a sample: slices of its tokens go from stage to stage, one after another.

torchrun --nproc-per-node 2 labs/sequence_slices.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import Stage, layers_of, my_pipeline, no_change
from schedules import Action
from torch import Tensor


def slice_by_slice(rank, ranks, slices):
    """Yield all forwards in order, then all backwards in reverse, as later tokens look back.

    Source  Li et al. 2021, "TeraPipe"
    """
    for i in range(slices):
        yield Action("F", i)
    for i in reversed(range(slices)):
        yield Action("B", i)


class Past:
    """The keys and values that the attention of one block has computed so far.

    made   made[i] is the pair (keys, values) of slice i, with the graph that leads to them
    seen   seen[i] is a pair of leaves with the same numbers: later slices look at these, and their
           backwards leave gradients in seen[i][0].grad and seen[i][1].grad
    """

    def __init__(self):
        self.made, self.seen = [], []

    def add(self, keys, values) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of a new slice; return all keys and all values up to it."""
        earlier = list(self.seen)
        self.made.append((keys, values))
        self.seen.append(tuple(leaf_like(x) for x in (keys, values)))
        return tuple(torch.cat(parts, dim=2) for parts in zip(*earlier, (keys, values)))


def leaf_like(x) -> Tensor:
    """Return x as a leaf, which requires a gradient if x does; frozen layers need none."""
    return x.detach().requires_grad_(x.requires_grad)


def attend(attention, x, past) -> Tensor:
    """Compute the attention of a slice's tokens to themselves and to all tokens before them.

    Shapes  x: (samples, tokens of the slice, width) -> the same shape
    """
    q, k, v = attention.split(attention.query_key_value(x))
    keys, values = past.add(k, v)  # (samples, heads, tokens so far, size)
    new, so_far = q.shape[2], keys.shape[2]
    may_see = torch.ones(new, so_far, dtype=torch.bool).tril(so_far - new)
    mixed = F.scaled_dot_product_attention(
        q, keys, values, attn_mask=may_see, enable_gqa=attention.queries > 1
    )
    return attention.output(mixed.transpose(1, 2).flatten(2))


class SlicedStage(Stage):
    """Exercise 8.20. A stage that takes slices in order, and back in reverse order.

    pasts   {block: its Past}, of slices of the same samples
    tokens  how many tokens the slices so far had
    """

    def __init__(self, piece):
        super().__init__(piece)
        self.pasts, self.tokens = {}, 0

    def forward(self, i, x, then=no_change):
        if i == 0:
            self.pasts, self.tokens = {layer: Past() for layer in self.blocks()}, 0
        x = x.detach().requires_grad_(x.is_floating_point())
        y, before = x, self.tokens
        for layer in self.piece:
            y = self.apply_layer(layer, y, before)
        self.tokens += x.shape[1]
        y = then(y)
        self.keep(i, x, y)
        return y.detach()

    def apply_layer(self, layer, x, before):
        """Apply a layer to tokens that have `before` others before them."""
        if hasattr(layer, "places"):
            return layer.letters(x) + layer.places(torch.arange(before, before + x.shape[1]))
        if hasattr(layer, "attention"):
            x = x + attend(layer.attention, layer.norm_1(x), self.pasts[layer])
            return x + layer.mlp(layer.norm_2(x))
        return layer(x)

    def blocks(self):
        return [layer for layer in self.piece if hasattr(layer, "attention")]

    def backward(self, i, gradient=None):
        """Return the gradient of slice i's input; add the weights' gradients to `.grad`.

        This is as in Stage.backward, but a slice has more outputs than y: for each block the keys
        and values past.made[i], with past in self.pasts.values(). Later slices have looked at them,
        and their backwards have left gradients in past.seen[i]; no slice has looked at the last
        one, where these are None. Afterwards self.kept has no entry for slice i.

        Cost  one pass through the graph: all outputs in one torch.autograd.backward
        """
        ...  # your code here


# ---- The program ----------------------------------------------------------------------------


def program(slices, text, samples=1):
    """Run one batch of few long samples; return its loss and the sum of the gradients' squares."""
    torch.manual_seed(0)
    model = Transformer(layers=max(4, dist.get_world_size()))
    pipeline = my_pipeline(model, make=SlicedStage)
    inputs, targets = draw_batch(text, samples, 0)
    batch = inputs.tensor_split(slices, dim=1), targets.tensor_split(slices, dim=1)
    loss = pipeline.step(list(slice_by_slice(pipeline.rank, pipeline.ranks, slices)), *batch)
    parameters = pipeline.stages[0].piece.parameters()
    return loss, sum(p.grad.square().sum().item() for p in parameters)


def alone(text, ranks, samples=1):
    """Run the batch in one process without slices; return the loss and each stage's squares."""
    torch.manual_seed(0)
    model = Transformer(layers=max(4, ranks))
    inputs, targets = draw_batch(text, samples, 0)
    loss = mean_loss(model(inputs), targets)
    loss.backward()
    layers = torch.arange(len(layers_of(model))).tensor_split(ranks)
    squares = [
        sum(p.grad.square().sum().item() for p in layer.parameters()) for layer in layers_of(model)
    ]
    return loss.item(), [sum(squares[i] for i in part) for part in layers]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for slices in (1, 4, 8):
        run = launch(program, slices, text, world_size=2)
        if run.rank != 0:
            continue
        loss, squares = alone(text, run.world_size)
        print(f"{slices} slices: loss {run.values[-1][0]:.6f}, in one process {loss:.6f}")
        for rank, (_, found) in enumerate(run.values):
            print(f"  rank {rank}: squares of its gradients {found:.6f}, there {squares[rank]:.6f}")


if __name__ == "__main__":
    main()
