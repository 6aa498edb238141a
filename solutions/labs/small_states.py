# Built from chapters/ch05_memory/labs/small_states.py by `make build`.
"""Adam with smaller states: bfloat16 with two ways to round, and 8 bits in blocks.

python labs/small_states.py
"""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import Tensor
from torch.optim import Optimizer

BLOCK = 256  # numbers that share a scale
WIDTH, LAYERS, SAMPLES = 32, 1, 8
LAST = 20  # the last steps of a training run, whose losses are averaged

# ---- Ways to keep a state -------------------------------------------------------------------


def round_stochastically(x: Tensor) -> Tensor:
    """Exercise 5.5. Round x to bfloat16, up or down by chance, with mean x.

    A bfloat16 is the upper half of a float32: the same sign, exponent and first digits. So x lies
    between two neighbours in bfloat16, or is one itself. The probability of the upper neighbour is
    the share of the way from the lower neighbour to the upper one that x has gone. Each number of x
    has its own chance.

    x        float32, any shape, magnitudes below 1e38; it does not change
    Returns  bfloat16, the same shape
    """
    ### BEGIN SOLUTION
    bits = x.contiguous().view(torch.int32)
    chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)
    return ((bits + chance) & -(2**16)).view(torch.float32).bfloat16()
    ### END SOLUTION


class DtypeCodec:
    """A codec that keeps a state in another dtype, rounded to the nearest."""

    def __init__(self, dtype):
        self.dtype = dtype

    def pack(self, x: Tensor) -> tuple[Tensor]:
        return (x.to(self.dtype, copy=True),)

    def unpack(self, kept: Tensor, shape) -> Tensor:
        return kept.float()


class Stochastic(DtypeCodec):
    """A codec that keeps a state in bfloat16, rounded by chance."""

    def pack(self, x):
        return (round_stochastically(x),)


class EightBits:
    """Exercise 5.6. A tensor in 8 bits per number, in blocks.

    The numbers of x, one after another, are cut into blocks of `block`; the last block may be
    shorter. Each block has a scale: its largest magnitude, divided by 127. A number's code is the
    number divided by the scale of its block, rounded to the nearest whole number, from -127 to 127.

    pack    takes x: float32, any shape, not empty; it does not change. Returns codes, int8,
            (numbers of x,), and scales, float32, (blocks,). A block of zeros has scale and codes 0
    unpack  takes codes, scales and the shape of x. Returns codes times scales: float32, that shape
    Cost    a byte per number, and 4 per block
    """

    def __init__(self, block=BLOCK):
        self.block = block

    def pack(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        blocks = x.flatten().split(self.block)
        scales = torch.stack([block.abs().max() for block in blocks]) / 127
        each = scales.repeat_interleave(self.block)[: x.numel()]
        codes = (x.flatten() / each.where(each > 0, 1)).round().clamp(-127, 127)
        return codes.to(torch.int8), scales
        ### END SOLUTION

    def unpack(self, codes: Tensor, scales: Tensor, shape) -> Tensor:
        ### BEGIN SOLUTION
        return (codes * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)
        ### END SOLUTION


class EightBitRoots(EightBits):
    """A tensor without negative numbers: its roots in 8 bits, none of which comes back as 0.

    Adam divides by the root of the mean square, so a small one that becomes 0 makes the step huge.
    Code 0 therefore stands for half a scale.
    """

    def pack(self, x):
        return super().pack(x.sqrt())

    def unpack(self, codes, scales, shape):
        half_a_scale = super().unpack(torch.ones_like(codes), scales, shape) / 2
        return super().unpack(codes, scales, shape).maximum(half_a_scale).square()


# ---- The optimizer --------------------------------------------------------------------------


class SmallAdam(Optimizer):
    """Adam with a choice of how to keep its two means; it computes in float32.

    mean, square  keep the running means of the gradient and of its square
    rounded       rounds a new weight before it is written, if the weights are bfloat16
    shared        whether chance depends only on a tensor's place and its number of steps. Then
                  replicas with the same gradients stay equal, whatever else their ranks draw
    Equals        torch.optim.Adam(parameters, lr), if nothing is rounded, and no gradient is so
                  large that its square is infinite in float32; without checkpoints
    Raises        ValueError for a group with an option that it does not know
    """

    def __init__(
        self, parameters, mean, square, lr=1e-3, betas=(0.9, 0.999), rounded=None, shared=True
    ):
        super().__init__(parameters, {"lr": lr, "betas": betas})
        self.mean, self.square, self.rounded = mean, square, rounded
        self.shared = shared

    def add_param_group(self, group):
        if others := set(group) - {"params", "lr", "betas"}:
            raise ValueError(f"a group of SmallAdam has an lr and betas, but no {min(others)}")
        super().add_param_group(group)

    @torch.no_grad()
    def step(self):
        listed = [(p, group) for group in self.param_groups for p in group["params"]]
        for place, (p, group) in enumerate(listed):
            if p.grad is not None:
                seed = 1_000_000 * self.state[p].get("step", 0) + place
                with draw_from(seed) if self.shared else nullcontext():
                    self.step_of(p, group["lr"], *group["betas"])

    def load_state_dict(self, state_dict):
        raise NotImplementedError(
            "SmallAdam loads no checkpoint: torch's load_state_dict would convert its codes to the "
            "dtype of the weights"
        )

    def squares(self) -> Tensor:
        """Return all mean squares, one after another."""
        return torch.cat([self.square.unpack(*state["square"], p.shape).flatten()
                          for p, state in self.state.items()])  # fmt: skip

    def step_of(self, p, lr, beta_1, beta_2, eps=1e-8):
        state, gradient = self.state[p], p.grad.float()
        if not state:
            zeros = torch.zeros_like(gradient)
            state |= {"step": 0, "mean": self.mean.pack(zeros), "square": self.square.pack(zeros)}
        state["step"] += 1
        mean = self.mean.unpack(*state["mean"], p.shape).lerp(gradient, 1 - beta_1)
        square = self.square.unpack(*state["square"], p.shape).lerp(gradient**2, 1 - beta_2)
        write(state["mean"], self.mean.pack(mean))
        write(state["square"], self.square.pack(square))
        mean, square = (x / (1 - b ** state["step"]) for x, b in ((mean, beta_1), (square, beta_2)))
        new = p.float() - lr * mean / (square.sqrt() + eps)
        p.copy_(self.rounded(new) if self.rounded else new)


@contextmanager
def draw_from(seed):
    """Draw from this seed in the block; afterwards the generators are where they were before it."""
    own = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(own):
        torch.manual_seed(seed)
        yield


def write(kept, new):
    """Write new values into the existing tensors, so that a state takes no memory twice."""
    for old, values in zip(kept, new):
        old.copy_(values)


class Way(NamedTuple):
    """A way to keep states. weights: their dtype; mean, square and rounded: see SmallAdam."""

    weights: torch.dtype
    mean: object
    square: object
    rounded: Callable | None = None

    def optimizer(self, parameters, lr):
        # A class here is an exercise, so it is called only when it is used.
        mean, square = (x() if isinstance(x, type) else x for x in (self.mean, self.square))
        return SmallAdam(parameters, mean, square, lr, rounded=self.rounded)


FLOAT, HALF = torch.float32, torch.bfloat16
NEAREST, BY_CHANCE = DtypeCodec(HALF), Stochastic(HALF)
WAYS = {
    "float32": Way(FLOAT, DtypeCodec(FLOAT), DtypeCodec(FLOAT)),
    "bfloat16 states": Way(FLOAT, NEAREST, NEAREST),
    "bfloat16 states, stochastic": Way(FLOAT, BY_CHANCE, BY_CHANCE),
    "all bfloat16": Way(HALF, NEAREST, NEAREST),
    "all bfloat16, stochastic": Way(HALF, BY_CHANCE, BY_CHANCE, round_stochastically),
    "8 bits": Way(FLOAT, EightBits, EightBits),
    "8 bits, roots": Way(FLOAT, EightBits, EightBitRoots),
}

# ---- Training -------------------------------------------------------------------------------


def train(way, text, steps, rate, seed) -> tuple[list[float], float]:
    """Train on this rank; return the loss of each step and the share of mean squares at rest.

    Those at rest are the same as LAST steps before. The second step is measured under the way's
    name.
    """
    from pedagogy_lib import measure

    torch.manual_seed(seed)
    model = Transformer(WIDTH, LAYERS).to(WAYS[way].weights)
    optimizer, losses = WAYS[way].optimizer(model.parameters(), rate), []
    for step in range(steps):
        batch = draw_batch(text, SAMPLES, 1000 * seed + step)
        with measure(way) if step == 1 else nullcontext():
            losses.append(step_of(model, optimizer, *batch))
        if step == steps - 1 - LAST:
            before = optimizer.squares()
    return losses, (before == optimizer.squares()).float().mean().item()


def step_of(model, optimizer, inputs, targets) -> float:
    """Take one step of training; return the loss."""
    optimizer.zero_grad()
    loss = mean_loss(model(inputs).float(), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def trainings(ways, text, steps, rate) -> dict[str, tuple[float, float]]:
    """Return {way: (loss at the end, share at rest)} of this rank, whose number is the seed."""
    found = {way: train(way, text, steps, rate, dist.get_rank()) for way in ways}
    return {way: (sum(losses[-LAST:]) / LAST, share) for way, (losses, share) in found.items()}


# ---- Replicas -------------------------------------------------------------------------------

STREAMS = {"each rank draws its own numbers": False, "all ranks draw the same": True,
           "the owner of a tensor rounds it": False}  # fmt: skip


def train_replicas(who, text, steps, rate) -> tuple[float, float]:
    """Train bfloat16 replicas on the mean gradient; who: one of STREAMS.

    Returns  the share of weights that differ from rank 0's, and the length of the difference as a
             share of that of all weights
    """
    torch.manual_seed(0)
    model, n = Transformer(WIDTH, LAYERS).bfloat16(), dist.get_world_size()
    optimizer = SmallAdam(
        model.parameters(), BY_CHANCE, BY_CHANCE, rate, rounded=round_stochastically,
        shared=STREAMS[who],
    )  # fmt: skip
    torch.manual_seed(1 + dist.get_rank())  # as dropout wants it
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, SAMPLES * n, step))
        optimizer.zero_grad()
        mean_loss(model(inputs).float(), targets).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= n
        optimizer.step()
        if who == "the owner of a tensor rounds it":
            for number, p in enumerate(model.parameters()):
                dist.broadcast(p.detach(), number % n)
    mine = torch.cat([p.detach().float().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    gap = (mine - first).norm() / first.norm()
    return (mine != first).float().mean().item(), gap.item()


# ---- Results --------------------------------------------------------------------------------


def byte_rows(run, ways) -> list[list[str]]:
    """Return, for each way, its bytes per parameter for three kinds, and their sum."""
    numbers = sum(p.numel() for p in Transformer(WIDTH, LAYERS).parameters())
    peaks = [run[way].peak_bytes[0] for way in ways]
    kinds = ("parameters", "gradients", "optimizer_state")
    each = [[peak[kind] / numbers for kind in kinds] for peak in peaks]
    return [[way, *(f"{x:.2f}" for x in (*row, sum(row)))] for way, row in zip(ways, each)]


CLEAR = 0.01  # of a loss: by about so much the losses of different seeds differ


def loss_rows(run, ways) -> list[list[str]]:
    """Return, for each way, its losses relative to float32's, by seed, in words, and share at rest.

    Higher and lower are losses that are so with each seed, by more than CLEAR.
    """
    rows = []
    for way in ways:
        found = [of_seed[way] for of_seed in run.values]
        plain = [of_seed["float32"][0] for of_seed in run.values]
        gaps = [loss - least for (loss, _), least in zip(found, plain)]
        is_plain = way == "float32"
        told = [f"({least:.4f})" for least in plain] if is_plain else [f"{x:+.4f}" for x in gaps]
        at_rest = sum(share for _, share in found) / len(found)
        word = "–" if is_plain else describe_gaps(gaps)
        rows.append([way, "  ".join(told), word, f"{at_rest:.0%}"])
    return rows


def describe_gaps(gaps) -> str:
    """Return "higher" or "lower" if all gaps between two losses are, by more than CLEAR."""
    if min(gaps) > CLEAR:
        return "higher"
    return "lower" if max(gaps) < -CLEAR else "no difference seen here"


# ---- The program ----------------------------------------------------------------------------


def main(steps=60):
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    ways = [way for way in WAYS if way != "8 bits"]
    run = launch(trainings, ways, standard_library(50_000), steps, 3e-3, world_size=1)
    for way, (loss, _) in run.values[0].items():
        state = run[way].peak_bytes[0]["optimizer_state"]
        print(f"{way}: {state:,} bytes of state, loss {loss:.3f}")


if __name__ == "__main__":
    main()
