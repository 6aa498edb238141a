# Built from chapters/ch06_zero/labs/muon_pieces.py by `make build`.
"""Which numbers Muon treats as one matrix: fused queries, keys and values, heads, ranks' pieces.

torchrun --nproc-per-node 3 labs/muon_pieces.py
"""

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, standard_library
from matrix_optimizers import split_rows, trained_block
from muon_on_shards import Muon, orthogonalize, scale_of, sort_parameters
from small_states import LAST, LAYERS, SAMPLES, WIDTH, describe_gaps, step_of
from torch import Tensor

RATE_OF_ADAM = 1e-2
RATES = (0.005, 0.01, 0.02, 0.04)
HOW = ("fused", "Q, K, V", "heads", "blockwise on 2", "blockwise on 4")


def pieces_of(attention, how) -> list[Tensor]:
    """Return the rows of query_key_value that Muon treats as one matrix each.

    how  "fused": all; "Q, K, V": queries, keys, values; "heads": those of each head;
         "blockwise on n": those of queries, keys or values that lie on one of n ranks
    """
    rows = torch.arange(len(attention.query_key_value.weight), device="cpu")
    if how == "fused":
        return [rows]
    parts = split_rows(attention, rows)
    if how == "heads":
        return [head for part in parts for head in part.split(attention.size)]
    return [piece for part in parts for piece in part.chunk(ranks_in(how))]


def ranks_in(how) -> int:
    return int(how.split()[-1]) if how.startswith("blockwise") else 1


def step_by_pieces(aim: Tensor, pieces, dim=0) -> Tensor:
    """Orthogonalize some rows (dim 0) or columns (dim 1) of a matrix at a time."""
    if dim:
        return step_by_pieces(aim.T, pieces).T
    found = torch.empty_like(aim)
    for rows in pieces:
        found[rows] = scale_of(len(rows), aim.shape[1]) * orthogonalize(aim[rows])
    return found


def directions_apart(text) -> dict[str, float]:
    """Return how far each way's direction for a fused layer is from that with Q, K, V apart."""
    attention = trained_block(text).attention
    gradient = attention.query_key_value.weight.grad
    wanted = step_by_pieces(gradient, pieces_of(attention, "Q, K, V"))
    return {how: ((step_by_pieces(gradient, pieces_of(attention, how)) - wanted).norm()
                  / wanted.norm()).item() for how in HOW}  # fmt: skip


def heads_on_ranks(text) -> dict[str, float]:
    """Take Muon's step on this rank's heads alone, as with tensor parallelism.

    Returns  {what is one matrix for one process: this rank's distance from it, as a share}
    """
    attention = trained_block(text).attention
    gradient = attention.query_key_value.weight.grad
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(len(gradient), device="cpu").chunk(n)[rank]  # head after head
    found = {}
    for how, own in {"Q, K, V": split_rows(attention, mine),
                     "heads": mine.split(attention.size)}.items():  # fmt: skip
        wanted = step_by_pieces(gradient, pieces_of(attention, how))[mine]
        got = step_by_pieces(gradient, own)[mine]
        found[how] = ((got - wanted).norm() / wanted.norm()).item()
    return found


class PiecewiseMuon(Muon):
    """Muon that treats pieces of a transformer's matrices as matrices; see `pieces_of`.

    Blockwise, the two matrices of an MLP and the last one of an attention are cut as with tensor
    parallelism: a column-parallel layer by rows, a row-parallel one by columns.
    """

    def __init__(self, model, rate, how):
        super().__init__(sort_parameters(model)[0], rate)
        n, self.cuts = ranks_in(how), {}
        for block in model.blocks:
            attention, (first, _, last) = block.attention, block.mlp
            self.cuts[attention.query_key_value.weight] = pieces_of(attention, how), 0
            for weight, dim in ((attention.output.weight, 1), (first.weight, 0), (last.weight, 1)):
                self.cuts[weight] = torch.arange(weight.shape[dim], device="cpu").chunk(n), dim

    def find_directions(self, aims):
        return [step_by_pieces(aim, *self.cuts[p]) for p, aim in zip(self.matrices, aims)]


def train(how, text, steps, rate, seed) -> float:
    """Train on this rank; return the loss at the end."""
    torch.manual_seed(seed)
    model, losses = Transformer(WIDTH, LAYERS), []
    both = Pair(
        PiecewiseMuon(model, rate, how),
        torch.optim.Adam(sort_parameters(model)[1], lr=RATE_OF_ADAM),
    )
    for step in range(steps):
        losses.append(step_of(model, both, *draw_batch(text, SAMPLES, 1000 * seed + step)))
    return sum(losses[-LAST:]) / LAST


class Pair:
    """Two optimizers that step together."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def tune_rates(text, steps, seed=100) -> dict[str, dict[float, float]]:
    """Return {how: {rate: loss at the end}} for this rank's share of RATES."""
    mine = RATES[dist.get_rank() :: dist.get_world_size()]
    return {how: {rate: train(how, text, steps, rate, seed) for rate in mine} for how in HOW}


def best_rates(of_ranks) -> dict[str, float]:
    """Return {how: the rate with the lowest loss}, from the results of `tune_rates`."""
    found = {}
    for how in HOW:
        losses = {rate: loss for of_rank in of_ranks for rate, loss in of_rank[how].items()}
        found[how] = min(losses, key=losses.get)
    return found


def train_ways(text, steps, rates) -> dict[str, float]:
    """Return {how: loss at the end} of this rank, whose number is the seed."""
    return {how: train(how, text, steps, rate, dist.get_rank()) for how, rate in rates.items()}


def rows(of_ranks, rates) -> list[list[str]]:
    """Return a table's rows: the best rate, losses relative to "Q, K, V" by seed, and in words."""
    plain = [of_seed["Q, K, V"] for of_seed in of_ranks]
    found = []
    for how, rate in rates.items():
        gaps = [of_seed[how] - least for of_seed, least in zip(of_ranks, plain)]
        is_plain = how == "Q, K, V"
        told = [f"({least:.3f})" for least in plain] if is_plain else [f"{x:+.3f}" for x in gaps]
        word = "–" if is_plain else describe_gaps(gaps)
        found.append([how, f"{rate:g}", "  ".join(told), word])
    return found


def main(steps=30):
    text = standard_library(50_000)
    for how in HOW:
        print(f"{how}: loss {train(how, text, steps, 0.02, 0):.3f}")


if __name__ == "__main__":
    main()
