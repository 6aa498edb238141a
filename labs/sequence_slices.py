"""A pipeline inside of a sample: slices of its letters go from stage to stage, one after another.

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
    """All forwards in order; then all backwards, the last slice first: later letters looked back.

    Source  Li et al. 2021, "TeraPipe"
    """
    for i in range(slices):
        yield Action("F", i)
    for i in reversed(range(slices)):
        yield Action("B", i)


class Past:
    """The keys and values that the attention of one block has computed so far.

    made   for each slice its keys and values, with the graph that leads to them
    seen   the same numbers as leaves: what later slices look at, and collect gradients in
    """

    def __init__(self):
        self.made, self.seen = [], []

    def add(self, keys, values) -> tuple[Tensor, Tensor]:
        """Keep those of a new slice; returns all keys and all values up to it."""
        earlier = list(self.seen)
        self.made.append((keys, values))
        self.seen.append(tuple(x.detach().requires_grad_() for x in (keys, values)))
        return tuple(torch.cat(parts, dim=2) for parts in zip(*earlier, (keys, values)))


def attend(attention, x, past) -> Tensor:
    """Attention of the letters of a slice to themselves and to all letters before them.

    Shapes  x: (samples, letters of the slice, width) -> the same
    """
    q, k, v = attention.split(attention.query_key_value(x))
    keys, values = past.add(k, v)  # (samples, heads, letters so far, size)
    new, so_far = q.shape[2], keys.shape[2]
    may_see = torch.ones(new, so_far, dtype=torch.bool).tril(so_far - new)
    mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=may_see)
    return attention.output(mixed.transpose(1, 2).flatten(2))


class SlicedStage(Stage):
    """Exercise 8.18. A stage that takes slices of the same samples, in order, and back in reverse.

    pasts    {block: its Past}
    letters  how many letters were in the slices so far
    """

    def __init__(self, piece):
        super().__init__(piece)
        self.pasts, self.letters = {}, 0

    def forward(self, i, x, then=no_change):
        if i == 0:
            self.pasts, self.letters = {layer: Past() for layer in self.blocks()}, 0
        x = x.detach().requires_grad_(x.is_floating_point())
        y, before = x, self.letters
        for layer in self.piece:
            y = self.through(layer, y, before)
        self.letters += x.shape[1]
        y = then(y)
        self.keep(i, x, y)
        return y.detach()

    def through(self, layer, x, before):
        """What a layer makes of letters that have others before them."""
        if hasattr(layer, "places"):
            return layer.letters(x) + layer.places(torch.arange(before, before + x.shape[1]))
        if hasattr(layer, "attention"):
            x = x + attend(layer.attention, layer.norm_1(x), self.pasts[layer])
            return x + layer.mlp(layer.norm_2(x))
        return layer(x)

    def blocks(self):
        return [layer for layer in self.piece if hasattr(layer, "attention")]

    def backward(self, i, gradient=None):
        """As Stage.backward; later slices have looked at this one's keys and values.

        So a slice has more outputs than one: past.made[i] of each of self.pasts.values(), too. The
        later slices' backwards came before, and have left their gradients in past.seen[i]. After
        the last slice nobody has looked: their gradients are None. Slice i is kept no longer.

        Cost  one pass through the graph: all outputs in one torch.autograd.backward
        """
        ...  # your code here


# ---- The program ----------------------------------------------------------------------------


def program(slices, text, samples=1):
    """One batch of few long samples; returns its loss, and the sum of the gradients' squares."""
    torch.manual_seed(0)
    model = Transformer(layers=max(4, dist.get_world_size()))
    pipeline = my_pipeline(model, make=SlicedStage)
    inputs, targets = draw_batch(text, samples, 0)
    batch = inputs.tensor_split(slices, dim=1), targets.tensor_split(slices, dim=1)
    loss = pipeline.step(list(slice_by_slice(pipeline.rank, pipeline.ranks, slices)), *batch)
    parameters = pipeline.stages[0].piece.parameters()
    return loss, sum(p.grad.square().sum().item() for p in parameters)


def alone(text, ranks, samples=1):
    """The same in one process, without slices: the loss, and the squares for each rank's stage."""
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
