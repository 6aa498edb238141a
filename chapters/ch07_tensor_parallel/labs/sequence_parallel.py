"""Sequence parallelism and overlap: tensor parallelism's sums, cut in two, and hidden.

torchrun --nproc-per-node 2 labs/sequence_parallel.py
"""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from collectives import reduce_scatter_ring
from language_model import Transformer, standard_library
from tensor_parallel import (
    ColumnLinear,
    parallelize,
    refuse_second_derivative,
    split_cross_entropy,
    train,
)
from torch import Tensor, nn

# ---- Each rank has a piece of the context ---------------------------------------------------


def joined(piece: Tensor, group=None) -> Tensor:
    """Gather all ranks' pieces of the context, one after another, in a new tensor.

    Shapes  (samples, context / n, …) -> (samples, context, …)
    Cost    an all-gather: each rank sends (n-1) * piece.nbytes
    """
    piece = piece.contiguous()
    pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size(group))]
    dist.all_gather(pieces, piece, group=group)
    return torch.cat(pieces, dim=1)


def summed_piece(x: Tensor, group=None) -> Tensor:
    """Return this rank's piece of the context, summed over all ranks, in a new tensor.

    Shapes  (samples, context, …) -> (samples, context / n, …)
    Cost    a reduce-scatter: each rank sends (n-1)/n * x.nbytes
    Raises  ValueError if n does not divide the context
    """
    n = dist.get_world_size(group)
    if x.shape[1] % n:
        raise ValueError(f"{n} ranks cannot have equal pieces of a context of {x.shape[1]}")
    pieces = [p.clone(memory_format=torch.contiguous_format) for p in x.chunk(n, dim=1)]
    reduce_scatter_ring([p.view(-1) for p in pieces], group)
    return pieces[dist.get_rank(group)]


class AllGather(torch.autograd.Function):
    """Exercise {{all_gather}}. The entry to the parallel region, from pieces of the context.

    Forward   all ranks' pieces, joined
    Backward  each rank has, for the whole context, the gradient that came through its part alone
    Cost      forward an all-gather; backward a reduce-scatter
    Source    Korthikanti et al. 2022, "Reducing Activation Recomputation", section 4.2.2: their g
    """

    @staticmethod
    def forward(ctx, piece, group=None):
        ### BEGIN SOLUTION
        ctx.group = group
        return joined(piece, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        refuse_second_derivative()
        ### BEGIN SOLUTION
        return summed_piece(gradient, ctx.group), None
        ### END SOLUTION


class ReduceScatter(torch.autograd.Function):
    """Exercise {{reduce_scatter}}. The exit from the parallel region, to pieces of the sum.

    Forward   this rank's piece of the context, in the sum of all ranks' x
    Backward  each rank has the gradient of its own piece alone
    Cost      forward a reduce-scatter; backward an all-gather
    Source    Korthikanti et al. 2022, section 4.2.2: their g with a bar
    """

    @staticmethod
    def forward(ctx, x, group=None):
        ### BEGIN SOLUTION
        ctx.group = group
        return summed_piece(x, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        refuse_second_derivative()
        ### BEGIN SOLUTION
        return joined(gradient, ctx.group), None
        ### END SOLUTION


def gather_context(piece, group=None) -> Tensor:
    """Enter the parallel region from a piece of the context: apply AllGather."""
    return AllGather.apply(piece, group)


def scatter_context(x, group=None) -> Tensor:
    """Leave the parallel region to a piece of the context: apply ReduceScatter."""
    return ReduceScatter.apply(x, group)


class PlacesOfPiece(nn.Module):
    """The positions' embedding for this rank's piece of the context."""

    def __init__(self, embedding, group=None):
        super().__init__()
        self.group, self.weight = group, embedding.weight

    def forward(self, places):
        piece = places.chunk(dist.get_world_size(self.group))[dist.get_rank(self.group)]
        return F.embedding(piece, self.weight)


def parallelize_sequence(model: Transformer, group=None, column=ColumnLinear) -> Transformer:
    """Cut a model in place, like `parallelize`; between regions, ranks have pieces of the context.

    Call sum_partial_gradients once per step, after the last backward.
    """
    parallelize(model, group, gather_context, scatter_context, column)
    if model.places is not None:  # a Llama rotates instead, inside the regions
        model.places = PlacesOfPiece(model.places, group)
    return model


def sum_partial_gradients(model, group=None) -> None:
    """Exercise {{sum_partial_gradients}}. Complete the gradients of parameters that are not cut.

    It is called once per step, after the last backward. Layer norms, biases behind a sum and the
    positions' embedding are whole on every rank and have seen this rank's piece of the context
    alone. Parameters that are cut have the attribute `cut_dim`, which may be 0. Some may be frozen,
    or have None for a gradient, on all ranks alike: it stays None.

    Cost  all-reduces of the gradients, one by one or all in one
    """
    ### BEGIN SOLUTION
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
    ### END SOLUTION


# ---- Save the piece, gather it again --------------------------------------------------------


class RegatherProduct(torch.autograd.Function):
    """The product x A + b for all pieces x of the context, of which only this rank's is saved.

    Cost    forward an all-gather; backward another one, and a reduce-scatter
    Source  Korthikanti et al. 2022, section 4.2.2
    """

    @staticmethod
    def forward(ctx, piece, weight, bias, group=None):
        ctx.group, ctx.has_bias = group, bias is not None
        y = F.linear(joined(piece, group), weight, bias)
        ctx.save_for_backward(piece.to(y.dtype), weight.to(y.dtype))  # rounded, under autocast
        return y

    @staticmethod
    def backward(ctx, gradient):
        refuse_second_derivative()
        piece, weight = ctx.saved_tensors
        of_piece = summed_piece(gradient @ weight, ctx.group)
        of_weight, of_bias = gradients_of_layer(gradient, joined(piece, ctx.group), ctx.has_bias)
        return of_piece, of_weight, of_bias, None


def gradients_of_layer(gradient, x, has_bias) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of weight and bias of F.linear(x, weight, bias), given the output's."""
    gradient, x = (of.reshape(-1, of.shape[-1]) for of in (gradient, x))
    return gradient.T @ x, gradient.sum(0) if has_bias else None


class RegatherColumnLinear(ColumnLinear):
    """A ColumnLinear for pieces of the context, which saves only this rank's piece."""

    def forward(self, piece):
        return RegatherProduct.apply(piece, self.weight, self.bias, self.group)


# ---- Overlap --------------------------------------------------------------------------------


def begin_sum(x: Tensor, group=None):
    """Begin to sum all ranks' x in place; return a function that waits for the end."""
    return dist.all_reduce(x, group=group, async_op=True).wait


class OverlappedProduct(torch.autograd.Function):
    """Exercise {{overlapped_product}}. x A + b after a Copy, whose sum overlaps with A's gradient.

    The gradient of x has to be summed over all ranks, and the layers before wait for it. No layer
    waits for the gradient of A, so it is computed meanwhile. A and b may be frozen; b may be None.

    begin   begin(tensor, group) begins to sum that tensor over the ranks in place, and returns a
            function that waits for the end
    Shapes  x: (…, inputs); weight: (this rank's outputs, inputs), as nn.Linear stores it
    Equals  F.linear(Copy.apply(x, group), weight, bias)
    Source  Megatron-LM, core/tensor_parallel/layers.py
    """

    @staticmethod
    def forward(ctx, x, weight, bias, group=None, begin=begin_sum):
        ctx.group, ctx.begin, ctx.has_bias = group, begin, bias is not None
        y = F.linear(x, weight, bias)
        ctx.save_for_backward(x.to(y.dtype), weight.to(y.dtype))  # rounded, under autocast
        return y

    @staticmethod
    def backward(ctx, gradient):
        """Return the gradients of x, weight and bias, and None for group and begin."""
        refuse_second_derivative()
        x, weight = ctx.saved_tensors
        ### BEGIN SOLUTION
        of_x = gradient @ weight
        wait = ctx.begin(of_x, ctx.group)
        of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
        wait()
        return of_x, of_weight, of_bias, None, None
        ### END SOLUTION


class OverlapColumnLinear(ColumnLinear):
    """A ColumnLinear whose sum travels while the gradient of its weight is computed."""

    def forward(self, x):
        return OverlappedProduct.apply(x, self.weight, self.bias, self.group)


# ---- The program ----------------------------------------------------------------------------

WAYS = {
    "tensor parallel": parallelize,
    "overlapped": partial(parallelize, column=OverlapColumnLinear),
    "sequence parallel": parallelize_sequence,
    "sequence parallel, gathered again": partial(parallelize_sequence, column=RegatherColumnLinear),
}


def split_model(way, make=Transformer, **sizes) -> Transformer:
    """Return a transformer, the same for any number of ranks until it is cut in one of the WAYS."""
    torch.manual_seed(0)
    return WAYS[way](make(**sizes))


def completes(way):
    """Return what to call with the model after a step's last backward, or None."""
    return sum_partial_gradients if way.startswith("sequence") else None


def program(way, text, steps=20):
    """Train a small transformer in one of the WAYS; one more step is measured as "step"."""
    from pedagogy_lib import measure

    model = split_model(way, heads=8)
    found = train(model, split_cross_entropy, text, steps, complete=completes(way))
    with measure("step"):
        train(model, split_cross_entropy, text, 1, complete=completes(way))
    return found


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for way in WAYS:
        run = launch(program, way, text, world_size=2)
        if run.rank == 0:
            first, last, seconds = run.values[0]
            step = run["step"]
            print(
                f"{way}: loss {first:.4f} to {last:.4f}, {1e3 * seconds:.0f} ms a step, "
                f"{step.sent_bytes[0] / 1e3:.0f} kB sent, activations at most "
                f"{step.peak_bytes[0]['activations'] / 1e3:.0f} kB"
            )


if __name__ == "__main__":
    main()
