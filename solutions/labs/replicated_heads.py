# Built from chapters/ch07_tensor_parallel/labs/replicated_heads.py by `make build`.
"""Attention on more ranks than key-value heads: several ranks have the same key-value head.

torchrun --nproc-per-node 2 labs/replicated_heads.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Attention
from tensor_parallel import RowLinear, enter
from torch import Tensor, nn

# ---- The rows of a head ---------------------------------------------------------------------


def rows_of_heads(attention) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of query_key_value that belong to each head of queries, keys and values.

    Shapes  (heads, size), (kv_heads, size), (kv_heads, size); int64
    """
    rows = torch.arange(len(attention.query_key_value.weight))
    rows = rows.unflatten(0, (-1, attention.queries + 2, attention.size))
    return rows[:, :-2].flatten(0, 1), rows[:, -2], rows[:, -1]


def layer_of_rows(linear, rows) -> nn.Linear:
    """Return a linear layer with copies of some rows of another layer's weight and bias."""
    has_bias = linear.bias is not None
    layer = nn.Linear(linear.in_features, len(rows), has_bias, dtype=linear.weight.dtype)
    for mine, all_of_them in zip(layer.parameters(), linear.parameters(), strict=True):
        with torch.no_grad():
            mine.copy_(all_of_them[rows])
        mine.requires_grad_(all_of_them.requires_grad)
    return layer


def mark_parts(layer, n, copies=1) -> None:
    """Mark a layer's parameters as parts, as `part_of` does; `copies` ranks have the same part."""
    for p in layer.parameters():
        p.cut_dim, p.cut_sizes, p.copies = 0, [len(p)] * n, copies


def group_of_same(head: int, group=None):
    """Return the group of the ranks of `group` that have the same `head`.

    All ranks of the world have to call it, each with the group over which it cuts its model.
    """
    ranks = tuple(dist.get_process_group_ranks(group or dist.group.WORLD))
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, (ranks, head))
    groups = {
        key: [rank for rank, other in enumerate(held) if other == key] for key in sorted(set(held))
    }
    made = {key: dist.new_group(members) for key, members in groups.items()}
    return made[ranks, head]


# ---- Attention ------------------------------------------------------------------------------


class FewHeads(nn.Module):
    """Exercise 7.11. Causal attention in parts, on no fewer ranks than key-value heads.

    attention           the whole attention, equal on all ranks. heads / kv_heads query heads in a
                        row use the same key-value head: the first ones use head 0
    self.query_heads    a list: the numbers of this rank's query heads, heads / n in a row; rank 0
                        has the first ones
    self.head           the number of the one key-value head that they use
    self.query          a linear layer for this rank's queries
    self.key_value      a linear layer for one key and one value, equal on all ranks that share it
    p.copies            how many ranks have the same part, for each parameter p of these two layers
    self.sharers        the group of these ranks. All ranks of the world have to make their layer
    Shapes              x: (samples, context, width), the same on every rank -> the same shape
    Equals              attention(x), and its gradients after sum_shared_gradients, once per step
    Raises              ValueError if n is not a multiple of kv_heads, or does not divide heads
    """

    def __init__(self, attention, group=None):
        super().__init__()
        queries, keys, values = rows_of_heads(attention)
        heads, kv_heads = len(queries), len(keys)
        rank, n = dist.get_rank(group), dist.get_world_size(group)
        if n % kv_heads or heads % n:
            raise ValueError(
                f"{n} ranks cannot share {heads} query heads and {kv_heads} key-value heads "
                "equally. With fewer ranks than key-value heads take parallelize_attention"
            )
        ### BEGIN SOLUTION
        each = heads // n
        self.query_heads = list(range(rank * each, (rank + 1) * each))
        self.head = rank * kv_heads // n
        ### END SOLUTION
        self.group, self.size = group, attention.size
        self.rotate = getattr(attention, "rotate", lambda x: x)  # by places: see labs/llama.py
        self.norm_q = getattr(attention, "norm_q", nn.Identity())  # QK-norm: see head_norms.py
        self.norm_k = getattr(attention, "norm_k", nn.Identity())
        whole = attention.query_key_value
        self.query = layer_of_rows(whole, queries[self.query_heads].flatten())
        self.key_value = layer_of_rows(whole, torch.cat([keys[self.head], values[self.head]]))
        mark_parts(self.query, n)
        mark_parts(self.key_value, n, copies=n // kv_heads)
        self.output = RowLinear(attention.output, group, self.size)
        self.sharers = group_of_same(self.head, group)

    def forward(self, x):
        x = enter(x, self.group)
        q = self.query(x).unflatten(-1, (-1, self.size)).transpose(1, 2)  # (samples, heads, …)
        k, v = self.key_value(x).unsqueeze(1).split(self.size, dim=-1)
        q, k = self.rotate(self.norm_q(q)), self.rotate(self.norm_k(k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def sum_shared_gradients(self) -> None:
        """Complete the gradients that several ranks share, in place.

        It is called once per step, after the last backward. A gradient that is None is None on all
        ranks, and stays None.

        Cost  an all-reduce of the gradients of self.key_value, among the ranks that share it
        """
        if all(parameter.grad is None for parameter in self.key_value.parameters()):
            return  # frozen, or not used
        ### BEGIN SOLUTION
        for parameter in self.key_value.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=self.sharers)
        ### END SOLUTION


# ---- The program ----------------------------------------------------------------------------


def try_heads(width, heads, kv_heads, make=Attention) -> dict:
    """Run forward and backward of a split attention on each rank, and compare with one process.

    Returns  which heads this rank has, and whether everything equals one process
    Blocks   "sum": the sum of the shared gradients
    """
    from pedagogy_lib import close, measure

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    whole = make(width, heads, kv_heads)
    split = FewHeads(whole)
    x, slope = torch.randn(2, 2, 8, width).unbind()
    leaves = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = split(leaves[0])
    (y * slope).sum().backward()
    with measure("sum"):
        split.sum_shared_gradients()
    wanted = whole(leaves[1])
    whole.zero_grad()
    (wanted * slope).sum().backward()
    _, keys, values = rows_of_heads(whole)
    of_head = whole.query_key_value.weight.grad[torch.cat([keys[split.head], values[split.head]])]
    pairs = (y, wanted), (leaves[0].grad, leaves[1].grad), (split.key_value.weight.grad, of_head)
    return {"queries": split.query_heads, "head": split.head,
            "right": all(close(*pair) for pair in pairs)}  # fmt: skip


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(try_heads, 32, 4, 1, world_size=2)
    if run.rank == 0:
        for rank, found in enumerate(run.values):
            print(f"rank {rank}: query heads {found['queries']}, key-value head {found['head']}, "
                  f"as one process: {found['right']}")  # fmt: skip


if __name__ == "__main__":
    main()
