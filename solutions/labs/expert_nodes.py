# Built from chapters/ch09_three_dimensions/labs/expert_nodes.py by `make build`.
"""Experts on several nodes: routing that is limited to a few of them, and one row per node.

python labs/expert_nodes.py
"""

from functools import partial

import torch
import torch.distributed as dist
from expert_parallel import Exchange, share_out
from experts import (
    ExpertLayer,
    expert_layers,
    make_expert_transformer,
    route,
    standard_library,
    train,
)
from meshes import Mesh
from torch import Tensor

# ---- Routing to a few nodes -----------------------------------------------------------------


def route_within_nodes(
    scores: Tensor, k: int, nodes: int, most: int, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Exercise 9.33. Route as `route` does, to experts of at most `most` nodes.

    Node 0 has the first n / nodes experts, node 1 the next ones, and so on. A node counts as much
    as the sum of its ceil(k / most) best scores, with the bias. The token's experts are the best
    ones of its `most` best nodes.

    Shapes  scores: (tokens, n) -> weights, experts: (tokens, k), the best expert first
    Source  DeepSeek-AI 2024, "DeepSeek-V3", section 2.1.2, with sigmoids in the scores' place
    """
    ### BEGIN SOLUTION
    ranked = scores if bias is None else scores + bias
    of_nodes = ranked.unflatten(-1, (nodes, -1))  # (tokens, nodes, experts of a node)
    best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
    allowed = torch.zeros(of_nodes.shape[:2], dtype=torch.bool).scatter(-1, best, True)
    ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
    experts = ranked.topk(k, dim=-1).indices
    return scores.softmax(-1).gather(-1, experts), experts
    ### END SOLUTION


# ---- One row for each node ------------------------------------------------------------------


def visit(rows: Tensor, gates: Tensor, group, compute) -> Tensor:
    """Send each row once to every rank of the group that has an expert for it, and add up.

    compute  takes rows and their gates for a rank's experts, on that rank; returns weighted sums
    Shapes   rows: (tokens, width); gates: (tokens, n), the experts' weights, 0 for all that were
             not chosen -> (tokens, width). Each rank of the group has the next n / ranks experts
    """
    ranks, width = dist.get_world_size(group), rows.shape[-1]
    gates = gates.unflatten(-1, (ranks, -1))
    rank, row = (gates != 0).any(-1).T.nonzero(as_tuple=True)  # rank after rank
    send = rank.bincount(minlength=ranks)
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send, group=group)
    send, receive = send.tolist(), receive.tolist()
    there = torch.cat([rows[row], gates[row, rank]], dim=1)
    x = Exchange.apply(there, send, receive, group)
    y = compute(x[:, :width], x[:, width:])
    back = Exchange.apply(y, receive, send, group)
    return add_up(back, row, rows)


def weigh_experts(mlps, rows, gates) -> Tensor:
    """Return the weighted sum of a rank's experts for each row; gates: (rows, experts)."""
    expert, row = (gates != 0).T.nonzero(as_tuple=True)
    y = mlps(rows[row], expert.bincount(minlength=gates.shape[1]))
    return add_up(y * gates[row, expert].unsqueeze(-1), row, rows)


def add_up(parts, row, rows) -> Tensor:
    """Add each part to row number `row` of a tensor of zeros like `rows`."""
    # index_add would keep the parts for its backward
    return torch.zeros_like(rows).index_put((row,), parts, accumulate=True)


class TwoHopLayer(ExpertLayer):
    """An ExpertLayer on a mesh of "node" and "local": a row crosses once to each node it needs.

    It goes to the rank with the same place on the node, and from there to the ranks of the node.
    """

    def forward(self, x):
        tokens = x.flatten(0, -2)
        weights, *_ = self.choose(tokens)
        gates = torch.zeros_like(self.scores).scatter(-1, self.experts, weights * self.fits)
        own = partial(weigh_experts, self.mlps.experts)
        inside = partial(visit, group=self.mesh["local"], compute=own)
        y = visit(tokens, gates.to(tokens), self.mesh["node"], inside)
        return self.add_shared(tokens, y).view_as(x)


# ---- Bytes between nodes --------------------------------------------------------------------

AXES = (("node", "local"),)
SIZES = {"node": 4, "local": 2}
ROUTES = ("any nodes", "2 nodes at most")


def make_layer(kind, limit, mesh, n=16, k=4, width=64, **options) -> ExpertLayer:
    """Make the same layer on all ranks, with a share of the experts: a row per choice or per node.

    limit    the number of nodes that a token's experts may be on; None: any number
    options  of ExpertLayer, such as shared
    """
    torch.manual_seed(0)
    layer = (TwoHopLayer if kind == "a row per node" else ExpertLayer)(width, n, k, **options)
    if limit is not None:
        layer.route = limited(mesh.sizes["node"], limit)
    share_out(layer, mesh["node", "local"])
    layer.mesh = mesh
    return layer


def limited(nodes, most):
    """Return a function like `route`, limited to `most` of the nodes."""
    return lambda scores, k, bias=None: route_within_nodes(scores, k, nodes, most, bias)


def send_tokens(kind, limit, tokens=240, **of_layer) -> int:
    """Measure "layer", a forward, on a mesh of SIZES; return how many rows cross from this rank.

    These are the choices of experts on other nodes, or the other nodes that its tokens need.
    """
    from pedagogy_lib import measure

    mesh = Mesh(SIZES, AXES)
    layer = make_layer(kind, limit, mesh, **of_layer)
    chance = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(tokens, layer.router.in_features, generator=chance)
    with torch.no_grad():
        layer(x)  # opens connections
        dist.barrier()
        with measure("layer"):
            layer(x)
    node_of = layer.experts // (layer.n // mesh.sizes["node"])
    needed = torch.nn.functional.one_hot(node_of, mesh.sizes["node"]).sum(1)  # (tokens, nodes)
    needed[:, mesh.at["node"]] = 0
    return (needed.clamp(max=1) if kind == "a row per node" else needed).sum().item()


def bytes_between_nodes(run, per_node=SIZES["local"]) -> int:
    """Return the bytes that ranks sent to ranks of other nodes."""
    traffic = run["layer"].traffic()
    return sum(sent for a, row in enumerate(traffic) for b, sent in enumerate(row)
               if a // per_node != b // per_node)  # fmt: skip


def compare_with_one_process(kind, limit, tokens=7, **options) -> float:
    """Return the largest difference from one process in float64: outputs and all gradients.

    It is a share of the largest number of the same tensor. Ranks have different numbers of tokens.
    """
    torch.set_default_dtype(torch.float64)
    mesh, rank, ranks = Mesh(SIZES, AXES), dist.get_rank(), dist.get_world_size()
    layer = make_layer(kind, limit, mesh, **options)
    torch.manual_seed(0)
    alone = ExpertLayer(64, 16, 4, **options)
    alone.route = route if limit is None else layer.route
    chance, counts = torch.Generator().manual_seed(1), [tokens + r % 3 for r in range(ranks)]
    x = torch.randn(sum(counts), 64, generator=chance).requires_grad_()
    slope = torch.randn(sum(counts), 64, generator=chance)
    wanted = alone(x)
    (wanted * slope).sum().backward()
    mine = x.detach().split(counts)[rank].requires_grad_()
    y = layer(mine)
    (y * slope.split(counts)[rank]).sum().backward()
    pairs = [
        (y, wanted.split(counts)[rank], wanted),
        (mine.grad, x.grad.split(counts)[rank], x.grad),
    ]
    for p, whole in zip(layer.parameters(), alone.parameters(), strict=True):
        if hasattr(p, "is_of_expert"):
            pairs.append((p.grad, whole.grad.chunk(ranks)[rank], whole.grad))
        else:
            dist.all_reduce(p.grad)
            pairs.append((p.grad, whole.grad, whole.grad))
    return max(((a - b).abs().max() / c.abs().max()).item() for a, b, c in pairs)


# ---- What the limit costs the model ---------------------------------------------------------


def train_with_limit(text, limit, seed, steps=80, n=32, k=4, nodes=4) -> tuple[float, float]:
    """Return the loss in the last 20 steps, and the busiest expert's load over the mean load.

    limit  the number of nodes that a token's experts may be on; None: any number
    """
    model = make_expert_transformer(n, k, width=32, layers=1, hidden=32, seed=seed)
    for layer in expert_layers(model):
        layer.route = route if limit is None else limited(nodes, limit)
    losses, loads = train(model, text, steps, weight=0.02, samples=8)
    shares = loads[-20:].double().sum(0) / loads[-20:].sum((0, 2)).unsqueeze(-1)
    return sum(losses[-20:]) / 20, n * shares.max().item()


def train_own_seed(text, limit, steps=80) -> tuple[float, float]:
    """Train as train_with_limit does; each rank has its own seed, the same for all limits."""
    return train_with_limit(text, limit, dist.get_rank(), steps)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(100_000)
    for limit in (None, 2, 1):
        loss, busiest = train_with_limit(text, limit, seed=0)
        name = "any" if limit is None else f"at most {limit}"
        print(f"{name} of 4 nodes: loss {loss:.2f}, busiest expert {busiest:.1f} times the mean",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
