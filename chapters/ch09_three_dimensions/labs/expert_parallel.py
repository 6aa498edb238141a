"""Expert parallelism: each rank holds some of the experts, and the tokens travel to them."""

import contextlib

import torch
import torch.distributed as dist
from experts import Experts, expert_layers
from torch import Tensor, nn


def no_context(name):
    """Return a context manager that does nothing."""
    return contextlib.nullcontext()


# ---- Sending rows and returning them --------------------------------------------------------


def exchanged(x: Tensor, send, receive, group=None) -> Tensor:
    """Exchange rows in one all-to-all, as Exchange does, but without autograd."""
    y = x.new_empty(sum(receive), *x.shape[1:])
    dist.all_to_all_single(y, x.contiguous(), receive, send, group)
    return y


class Exchange(torch.autograd.Function):
    """Exercise {{exchange_rows}}. An all-to-all of rows whose backward sends the gradients back.

    Rank r of the group gets the next send[r] rows of x, and sends receive[r] rows to this rank. The
    received rows are in rank order. `send` and `receive` are lists of numbers, which may be 0.

    Shapes  x: (sum(send), …) -> (sum(receive), …)
    Cost    an all-to-all in the forward, and another one in the backward: a rank sends all rows but
            its own
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
    """Exercise {{by_expert}}. Return the order of the received rows that sorts them by expert.

    The rows arrived rank after rank, and those from one rank expert after expert. Rows of one
    expert stay in the order in which they arrived.

    Shapes  counts: (ranks, experts), the number of rows from each rank for each expert of this rank
            -> (rows,), the index of the row that is first, and so on
    """
    ### BEGIN SOLUTION
    expert_of_row = (
        torch.arange(counts.shape[1]).repeat(len(counts)).repeat_interleave(counts.flatten())
    )
    return expert_of_row.argsort(stable=True)
    ### END SOLUTION


# ---- Experts on other ranks -----------------------------------------------------------------


class RemoteExperts(nn.Module):
    """A replacement for Experts: each rank of a group keeps some of them, and rows travel to them.

    The group's first rank has the first experts, and so on.

    watch    takes a name and returns a context manager, as `measure` does
    compute  takes this rank's experts, rows, and how many of them each expert gets
    Raises   ValueError if the number of ranks does not divide the number of experts
    """

    def __init__(self, experts: Experts, group, watch=no_context, compute=Experts.__call__):
        super().__init__()
        n, self.group, self.ranks = len(experts.up), group, dist.get_world_size(group)
        if n % self.ranks:
            raise ValueError(f"{n} experts for {self.ranks} ranks")
        self.experts, self.watch, self.compute = experts, watch, compute
        for name in ("up", "down"):
            of_all = getattr(experts, name)
            mine = of_all.detach().chunk(self.ranks)[dist.get_rank(group)]
            parameter = nn.Parameter(mine.clone(), requires_grad=of_all.requires_grad)
            parameter.is_of_expert = True
            setattr(experts, name, parameter)

    def forward(self, rows, counts):
        send, receive, came = self.exchange_counts(counts)
        with self.watch("there"):
            mine = Exchange.apply(rows, send, receive, self.group)
        with self.watch("experts"):
            y = self.run_mine(mine, came)
        with self.watch("back"):
            return Exchange.apply(y, receive, send, self.group)

    def exchange_counts(self, counts) -> tuple[list, list, Tensor]:
        """Return the numbers of rows for and from each rank, and those that came for each expert.

        Shapes  counts: (experts of all ranks,); the last one: (ranks, experts of this rank)
        """
        came = torch.empty_like(counts)
        dist.all_to_all_single(came, counts, group=self.group)
        counts, came = counts.view(self.ranks, -1), came.view(self.ranks, -1)
        return counts.sum(1).tolist(), came.sum(1).tolist(), came

    def run_mine(self, rows, came) -> Tensor:
        """Run this rank's experts on the received rows; return theirs in the order of arrival."""
        order = by_expert(came)
        y = self.compute(self.experts, rows[order], came.sum(0))
        return torch.zeros_like(y).index_put((order,), y)  # index_copy would keep y


def share_out(model, group, watch=no_context):
    """Spread the experts of each layer over the ranks of the group, and return the model."""
    for layer in expert_layers(model):
        layer.mlps = RemoteExperts(layer.mlps, group, watch)
    return model
