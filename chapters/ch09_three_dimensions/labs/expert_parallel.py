"""Expert parallelism: each rank has some of the experts, and the tokens travel to them."""

import contextlib

import torch
import torch.distributed as dist
from experts import Experts, expert_layers
from torch import Tensor, nn


def no_context(name):
    return contextlib.nullcontext()


# ---- There and back -------------------------------------------------------------------------


def exchanged(x: Tensor, send, receive, group=None) -> Tensor:
    """One all-to-all of rows, as in Exchange; autograd does not see it."""
    y = x.new_empty(sum(receive), *x.shape[1:])
    dist.all_to_all_single(y, x.contiguous(), receive, send, group)
    return y


class Exchange(torch.autograd.Function):
    """Exercise {{exchange_rows}}. Rows go to the ranks that need them; their gradients go back.

    Rank r of the group gets the next send[r] rows of x, and gives receive[r] rows. What comes is in
    the order of the ranks. `send` and `receive` are lists of numbers, which may be 0.

    Shapes  x: (sum(send), …) -> (sum(receive), …)
    Cost    forward an all-to-all, backward another one: a rank sends all rows but its own
    """

    @staticmethod
    def forward(ctx, x, send, receive, group=None):
        ### BEGIN SOLUTION
        ctx.send, ctx.receive, ctx.group = send, receive, group
        return exchanged(x, send, receive, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
        ### END SOLUTION


def by_expert(counts: Tensor) -> Tensor:
    """Exercise {{by_expert}}. The order in which the rows that came have to be taken, expert after expert.

    The rows came rank after rank, and those of a rank expert after expert. Rows of one expert stay
    in the order in which they came.

    Shapes  counts: (ranks, experts), how many rows came from each rank for each expert here
            -> (rows,), the number of the row that is first, and so on
    """
    ### BEGIN SOLUTION
    expert_of_row = (
        torch.arange(counts.shape[1]).repeat(len(counts)).repeat_interleave(counts.flatten())
    )
    return expert_of_row.argsort(stable=True)
    ### END SOLUTION


# ---- Experts elsewhere ----------------------------------------------------------------------


class RemoteExperts(nn.Module):
    """In the place of Experts: each rank of a group keeps some of them, and rows travel there.

    The group's first rank has the first experts, and so on.

    watch    returns what is a context, as `measure` does, from a name
    compute  takes this rank's experts, rows, and how many of them each expert gets
    Raises   ValueError if the ranks do not divide the experts
    """

    def __init__(self, experts: Experts, group, watch=no_context, compute=Experts.__call__):
        super().__init__()
        n, self.group, self.ranks = len(experts.up), group, dist.get_world_size(group)
        if n % self.ranks:
            raise ValueError(f"{n} experts for {self.ranks} ranks")
        self.experts, self.watch, self.compute = experts, watch, compute
        for name in ("up", "down"):
            mine = getattr(experts, name).detach().chunk(self.ranks)[dist.get_rank(group)]
            parameter = nn.Parameter(mine.clone())
            parameter.is_of_expert = True
            setattr(experts, name, parameter)

    def forward(self, rows, counts):
        came = torch.empty_like(counts)
        dist.all_to_all_single(came, counts, group=self.group)  # how many rows, for which expert
        counts, came = counts.view(self.ranks, -1), came.view(self.ranks, -1)
        send, receive = counts.sum(1).tolist(), came.sum(1).tolist()
        with self.watch("there"):
            mine = Exchange.apply(rows, send, receive, self.group)
        with self.watch("experts"):
            order = by_expert(came)
            y = self.compute(self.experts, mine[order], came.sum(0))
            y = torch.zeros_like(y).index_copy(0, order, y)  # in the order in which they came
        with self.watch("back"):
            return Exchange.apply(y, receive, send, self.group)


def share_out(model, group, watch=no_context):
    """Let each rank of the group keep some experts of each layer. Returns the model."""
    for layer in expert_layers(model):
        layer.mlps = RemoteExperts(layer.mlps, group, watch)
    return model
