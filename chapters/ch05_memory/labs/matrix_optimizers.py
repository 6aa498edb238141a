"""Optimizers that use a whole matrix, Adafactor and Muon, compared with Adam.

python labs/matrix_optimizers.py
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, standard_library
from small_states import LAST, LAYERS, SAMPLES, WIDTH, step_of
from torch import Tensor, nn

SEED_OF_TUNING = 100

# ---- Muon -----------------------------------------------------------------------------------


def orthogonalize(matrix: Tensor, rounds=5) -> Tensor:
    """Return a matrix with all singular values brought near to 1, by Newton-Schulz iteration.

    In each round every singular value s becomes a s + b s**3 + c s**5. Muon's coefficients bring
    small ones up quickly, and the values end between about 0.7 and 1.2.

    Source  Jordan 2024, https://kellerjordan.github.io/posts/muon
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)  # now no singular value is above 1; zeros stay zeros
    for _ in range(rounds):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


def change(make_optimizer, matrix: Tensor) -> Tensor:
    """Return the amount that the first step subtracts from a weight of zeros with this gradient."""
    weight = nn.Parameter(torch.zeros_like(matrix))
    weight.grad = matrix.clone()
    make_optimizer([weight]).step()
    return -weight.detach()


def split_rows(attention, rows: Tensor) -> list[Tensor]:
    """Return the rows of query_key_value that belong to queries, to keys and to values."""
    heads = rows.unflatten(0, (-1, attention.queries + 2, attention.size))
    return [part.flatten(0, 2) for part in heads.split([attention.queries, 1, 1], dim=1)]


class SplitLayer(nn.Module):
    """Queries, keys and values of an attention, each with a separate matrix; the same results."""

    def __init__(self, attention):
        super().__init__()
        fused = attention.query_key_value
        self.weights, self.biases = (
            nn.ParameterList(part.detach().clone() for part in split_rows(attention, x))
            for x in (fused.weight, fused.bias)
        )
        self.shape = (len(self.biases[1]) // attention.size, -1, attention.size)

    def forward(self, x):  # (samples, context, width)
        parts = [F.linear(x, *both) for both in zip(self.weights, self.biases)]
        parts = [part.unflatten(-1, self.shape) for part in parts]
        return torch.cat(parts, dim=-2).flatten(-3)  # as the fused layer: head after head


def split_attention(model):
    """Give each attention of a transformer separate matrices for queries, keys and values."""
    for block in model.blocks:
        block.attention.query_key_value = SplitLayer(block.attention)
    return model


class MuonAndAdam:
    """Muon for the matrices of the blocks; Adam for embeddings, logits, norms and biases.

    Raises  ValueError if queries, keys and values have a matrix in common: Muon would make one
            orthogonal matrix of all three
    """

    def __init__(self, model, rate, rate_of_adam=1e-2):
        if any(isinstance(block.attention.query_key_value, nn.Linear) for block in model.blocks):
            raise ValueError("query_key_value is three matrices in one: split_attention(model)")
        inside = {id(p) for p in model.blocks.parameters() if p.dim() == 2}
        matrices = [p for p in model.parameters() if id(p) in inside]
        others = [p for p in model.parameters() if id(p) not in inside]
        self.both = [
            torch.optim.Muon(matrices, lr=rate, weight_decay=0.0),
            torch.optim.Adam(others, lr=rate_of_adam),
        ]

    def zero_grad(self):
        for optimizer in self.both:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.both:
            optimizer.step()


# ---- Training runs --------------------------------------------------------------------------

MAKERS = {
    "Adam": lambda model, rate: torch.optim.Adam(model.parameters(), lr=rate),
    "Adafactor": lambda model, rate: torch.optim.Adafactor(model.parameters(), lr=rate),
}
RATES = {"Adam": (5e-3, 1e-2, 2e-2), "Adafactor": (2e-2, 5e-2, 1e-1)}
if hasattr(torch.optim, "Muon"):  # older versions of torch have none
    MAKERS["Muon, with Adam"] = MuonAndAdam
    RATES["Muon, with Adam"] = (1e-2, 2e-2, 4e-2)


def train(name, text, steps, rate, seed) -> float:
    """Train on this rank; return the loss at the end. The second step is measured as `name`."""
    from pedagogy_lib import measure

    torch.manual_seed(seed)
    model = split_attention(Transformer(WIDTH, LAYERS))
    optimizer, losses = MAKERS[name](model, rate), []
    for step in range(steps):
        batch = draw_batch(text, SAMPLES, 1000 * seed + step)
        with measure(name) if step == 1 else nullcontext():
            losses.append(step_of(model, optimizer, *batch))
    return sum(losses[-LAST:]) / LAST


def tune_rates(text, steps) -> dict[str, tuple[float, float]]:
    """Return {name: (a rate, its loss)} of this rank; each rank tries another rate."""
    rank = dist.get_rank()
    rates = {name: RATES[name][rank] for name in MAKERS}
    return {name: (rate, train(name, text, steps, rate, SEED_OF_TUNING))
            for name, rate in rates.items()}  # fmt: skip


def best_rates(of_ranks) -> dict[str, float]:
    """Return {name: the rate with the smallest loss}, from the results of `tune_rates`."""
    return {name: min(of_rank[name][::-1] for of_rank in of_ranks)[1] for name in of_ranks[0]}


def trainings(text, steps, rates) -> dict[str, float]:
    """Return {name: loss at the end} of this rank, whose number is the seed."""
    return {name: train(name, text, steps, rate, dist.get_rank()) for name, rate in rates.items()}


def rows(run, rates, numbers) -> list[list[str]]:
    """Return, for each optimizer, its bytes of state per parameter, its rate and its losses."""
    return [[name, f"{run[name].peak_bytes[0]['optimizer_state'] / numbers:.2f} bytes",
             f"{rate:g}", "  ".join(f"{of_seed[name]:.3f}" for of_seed in run.values)]
            for name, rate in rates.items()]  # fmt: skip


def parameters_of_the_model() -> int:
    """Return the number of parameters of the small transformer."""
    return sum(p.numel() for p in Transformer(WIDTH, LAYERS).parameters())


def mean_square(text, steps=100, rate=1e-2) -> Tensor:
    """Return Adam's mean square of the first MLP's first matrix after some steps of training."""
    torch.manual_seed(0)
    model = Transformer(WIDTH, LAYERS)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        step_of(model, optimizer, *draw_batch(text, SAMPLES, step))
    return optimizer.state[model.blocks[0].mlp[0].weight]["exp_avg_sq"].cpu()


def gradient_of(text) -> Tensor:
    """Return the gradient of the first MLP's first matrix after some steps of training."""
    return trained_block(text).mlp[0].weight.grad.cpu()


def attention_gradient_of(text) -> Tensor:
    """Return the gradient of the first fused layer: first the queries' rows, then keys, values."""
    attention = trained_block(text).attention
    return torch.cat(split_rows(attention, attention.query_key_value.weight.grad)).cpu()


def trained_block(text, steps=20):
    """Return a model's first block after some steps of training, with the last step's gradients."""
    torch.manual_seed(0)
    model = Transformer(WIDTH, LAYERS)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        step_of(model, optimizer, *draw_batch(text, SAMPLES, step))
    return model.blocks[0]


# ---- The program ----------------------------------------------------------------------------


def main(steps=60):
    from pedagogy_lib import launch

    text = standard_library(50_000)
    run = launch(trainings, text, steps, {name: RATES[name][1] for name in MAKERS}, world_size=1)
    for name, loss in run.values[0].items():
        state = run[name].peak_bytes[0]["optimizer_state"]
        print(f"{name}: {state:,} bytes of state, loss {loss:.3f}")


if __name__ == "__main__":
    main()
