# Built from chapters/ch06_zero/labs/muon_pieces.py by `make build`.
"""Which numbers Muon treats as one matrix: fused queries, keys and values, heads, ranks' pieces.

torchrun --nproc-per-node 3 labs/muon_pieces.py
"""

from statistics import mean, stdev

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, standard_library
from matrix_optimizers import split_rows, trained_block
from muon_on_shards import Muon, orthogonalize, scale_of, sort_parameters
from small_states import LAST, LAYERS, SAMPLES, WIDTH, step_of
from torch import Tensor

RATE_OF_ADAM = 1e-2
RATES = tuple(round(0.02 * 2 ** (k / 2), 4) for k in range(-3, 2))
SEEDS = 6
CLEAR = 4  # standard errors from which on a mean gap counts: by chance, 1% are with six seeds
WHOLE = ", scaled as the whole"
HOW = ("fused", "Q, K, V", "heads", "blockwise on 4", "blockwise on 4" + WHOLE)


def pieces_of(attention, how) -> list[Tensor]:
    """Return the rows of query_key_value that Muon treats as one matrix each.

    how  "fused": all; "Q, K, V": queries, keys, values; "heads": those of each head;
         "blockwise on n": those of queries, keys or values that lie on one of n ranks; WHOLE may
         follow, and changes the scale alone
    """
    rows = torch.arange(len(attention.query_key_value.weight), device="cpu")
    if how == "fused":
        return [rows]
    parts = split_rows(attention, rows)
    if how == "heads":
        return [head for part in parts for head in part.split(attention.size)]
    return [piece for part in parts for piece in part.chunk(ranks_in(how))]


def ranks_in(how) -> int:
    return int(how.removesuffix(WHOLE).split()[-1]) if how.startswith("blockwise") else 1


def step_by_pieces(aim: Tensor, pieces, dim=0, by_whole=False) -> Tensor:
    """Orthogonalize some rows (dim 0) or columns (dim 1) of a matrix at a time.

    Each piece is scaled by its own shape, or by_whole: all of them by the shape of the matrix.
    """
    found = torch.empty_like(aim)
    for chosen in pieces:
        part = (slice(None), chosen) if dim else chosen
        shape = aim.shape if by_whole else aim[part].shape
        found[part] = scale_of(*shape) * orthogonalize(aim[part])
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
        n, self.cuts, self.by_whole = ranks_in(how), {}, how.endswith(WHOLE)
        for block in model.blocks:
            attention, (first, _, last) = block.attention, block.mlp
            self.cuts[attention.query_key_value.weight] = pieces_of(attention, how), 0
            for weight, dim in ((attention.output.weight, 1), (first.weight, 0), (last.weight, 1)):
                self.cuts[weight] = torch.arange(weight.shape[dim], device="cpu").chunk(n), dim

    def find_directions(self, aims):
        return [step_by_pieces(aim, *self.cuts[p], self.by_whole)
                for p, aim in zip(self.matrices, aims)]  # fmt: skip


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


def train_ways(text, steps, rates) -> list[dict[str, float]]:
    """Return {how: loss at the end} for each of this rank's share of the seeds."""
    seeds = range(SEEDS)[dist.get_rank() :: dist.get_world_size()]
    return [{how: train(how, text, steps, rate, seed) for how, rate in rates.items()}
            for seed in seeds]  # fmt: skip


def rows(of_ranks, rates) -> list[list[str]]:
    """Return a table's rows: best rate, mean loss less that of "Q, K, V", its range, in words."""
    of_seeds, found = [of_seed for of_rank in of_ranks for of_seed in of_rank], []
    plain = [of_seed["Q, K, V"] for of_seed in of_seeds]
    for how, rate in rates.items():
        gaps = [of_seed[how] - least for of_seed, least in zip(of_seeds, plain)]
        told = [f"{mean(gaps):+.3f} ± {standard_error(gaps):.3f}",
                f"{min(gaps):+.3f} to {max(gaps):+.3f}", describe_gaps(gaps)]  # fmt: skip
        if how == "Q, K, V":
            told = [f"({mean(plain):.3f})", f"({min(plain):.3f} to {max(plain):.3f})", "–"]
        found.append([how, f"{rate:g}", *told])
    return found


def standard_error(gaps) -> float:
    return stdev(gaps) / len(gaps) ** 0.5


def describe_gaps(gaps) -> str:
    """Return "higher" or "lower" if the mean gap of two losses is, by CLEAR standard errors."""
    if abs(mean(gaps)) <= CLEAR * standard_error(gaps):
        return "no difference seen here"
    return "higher" if mean(gaps) > 0 else "lower"


def main(steps=30):
    text = standard_library(50_000)
    for how in HOW:
        print(f"{how}: loss {train(how, text, steps, 0.02, 0):.3f}")


if __name__ == "__main__":
    main()
