"""Master weights as a bfloat16 weight and 16 more bits, exact, with Adam's means in bfloat16.

python labs/weight_remainders.py
"""

from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, standard_library
from small_states import (
    LAST,
    LAYERS,
    SAMPLES,
    WIDTH,
    DtypeCodec,
    SmallAdam,
    describe_gaps,
    step_of,
)  # fmt: skip
from torch import Tensor, nn

HALF = torch.bfloat16

# ---- 16 + 16 bits ---------------------------------------------------------------------------


def split_float32(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split float32 numbers into bfloat16 weights and int16 remainders.

    A weight is x rounded to the nearest bfloat16, and upwards in magnitude from halfway. The
    remainder is the distance from it, in the last digit of a float32.

    x  finite, of magnitudes below 3.38e38
    """
    bits = x.contiguous().view(torch.int32)
    upper = (bits + 2**15) >> 16
    remainder = bits - (upper << 16)  # from -2**15 to 2**15 - 1
    return upper.to(torch.int16).view(HALF), remainder.to(torch.int16)


def join_float32(weight: Tensor, remainder: Tensor) -> Tensor:
    """Return the float32 numbers that `split_float32` was given, to the last bit."""
    upper = weight.contiguous().view(torch.int16).int()
    return ((upper << 16) + remainder.int()).view(torch.float32)


# ---- Optimizers -----------------------------------------------------------------------------


class WithMasters:
    """An optimizer for float32 masters of bfloat16 weights; `kept` are the masters themselves.

    make_adam  takes a list of float32 parameters
    """

    def __init__(self, weights, make_adam):
        self.weights = list(weights)
        self.kept = [self.pack(w.detach().float()) for w in self.weights]
        self.masters = [nn.Parameter(torch.empty_like(kept, dtype=torch.float32))
                        for kept in self.kept]  # fmt: skip
        self.optimizers = [make_adam([master]) for master in self.masters]
        for master in self.masters:
            master.data = master.data[:0]

    def pack(self, master: Tensor) -> Tensor:
        """Return the tensor to keep."""
        return master

    def unpack(self, weight, kept) -> Tensor:
        """Return the float32 master."""
        return kept

    @torch.no_grad()
    def step(self):
        for k, (weight, kept) in enumerate(zip(self.weights, self.kept)):
            if weight.grad is None:
                continue
            master = self.masters[k]
            master.data, master.grad = self.unpack(weight, kept), weight.grad.float()
            self.optimizers[k].step()
            weight.copy_(split_float32(master.data)[0])
            kept.copy_(self.pack(master.data))
            master.grad, master.data = None, master.data[:0]

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None

    def bytes_kept(self) -> dict[str, int]:
        """Return the bytes of weights, of what is kept for the masters, and of Adam's means."""
        states = [state for o in self.optimizers for state in o.state.values()]
        means = [x for state in states for key in ("mean", "square") for x in state[key]]
        return {"weight": count_bytes(self.weights), "master": count_bytes(self.kept),
                "two means": count_bytes(means)}  # fmt: skip


class WithRemainders(WithMasters):
    """The same training, to the last bit; `kept` are 16 bits of each master.

    The other 16 bits are the weight's own. A step joins them, one tensor at a time.
    """

    def pack(self, master):
        return split_float32(master)[1]

    def unpack(self, weight, kept):
        return join_float32(weight.detach(), kept)


def count_bytes(tensors) -> int:
    return sum(x.nbytes for x in tensors)


FLOAT_MEANS, HALF_MEANS = (
    partial(SmallAdam, mean=DtypeCodec(dtype), square=DtypeCodec(dtype))
    for dtype in (torch.float32, HALF)
)
WAYS = {
    "masters in float32": (WithMasters, FLOAT_MEANS),
    "remainders": (WithRemainders, FLOAT_MEANS),
    "remainders, means in bfloat16": (WithRemainders, HALF_MEANS),
}
TUNED = "masters in float32", "remainders, means in bfloat16"
RATES = (5e-3, 1e-2, 2e-2)

# ---- Training -------------------------------------------------------------------------------


def train(way, text, steps, rate, seed) -> tuple[float, Tensor, dict]:
    """Train on this rank; return the loss at the end, the masters, and bytes per parameter."""
    torch.manual_seed(seed)
    model = Transformer(WIDTH, LAYERS).to(HALF)
    make, adam = WAYS[way]
    optimizer, losses = make(model.parameters(), partial(adam, lr=rate)), []
    for step in range(steps):
        losses.append(step_of(model, optimizer, *draw_batch(text, SAMPLES, 1000 * seed + step)))
    masters = [optimizer.unpack(w, kept) for w, kept in zip(optimizer.weights, optimizer.kept)]
    numbers = sum(w.numel() for w in optimizer.weights)
    sizes = {name: count / numbers for name, count in optimizer.bytes_kept().items()}
    return (sum(losses[-LAST:]) / LAST, torch.cat([m.flatten() for m in masters]).detach(), sizes)


def tune_rates(text, steps, seed=100) -> dict[str, dict[float, float]]:
    """Return {way: {rate: loss at the end}} for this rank's share of RATES, for another seed.

    Remainders are left out, as they train as the masters do, to the last bit.
    """
    mine = RATES[dist.get_rank() :: dist.get_world_size()]
    return {way: {rate: train(way, text, steps, rate, seed)[0] for rate in mine} for way in TUNED}


def best_rates(of_ranks) -> dict[str, float]:
    """Return {way: the rate with the lowest loss}, from the results of `tune_rates`."""
    found = {}
    for way in WAYS:
        tuned = way if way in TUNED else TUNED[0]
        losses = {rate: loss for of_rank in of_ranks for rate, loss in of_rank[tuned].items()}
        found[way] = min(losses, key=losses.get)
    return found


def compare(text, steps, rates) -> dict[str, tuple[float, bool, dict]]:
    """Train in each way with this rank's number as the seed.

    Returns  {way: (loss at the end, whether all masters are bit for bit those of the first way,
             {name: bytes per parameter})}
    """
    found = {way: train(way, text, steps, rates[way], dist.get_rank()) for way in WAYS}
    first = next(iter(found.values()))[1]
    return {way: (loss, torch.equal(masters, first), sizes)
            for way, (loss, masters, sizes) in found.items()}  # fmt: skip


def rows_of(of_ranks, rates) -> list[list[str]]:
    """Return a table's rows: bytes per parameter, rate, losses by seed, and what they say."""
    first, rows = next(iter(WAYS)), []
    for way in WAYS:
        _, _, sizes = of_ranks[0][way]
        gaps = [of_seed[way][0] - of_seed[first][0] for of_seed in of_ranks]
        same = all(of_seed[way][1] for of_seed in of_ranks)
        words = "–" if way == first else "the same bits" if same else describe_gaps(gaps)
        rows.append(
            [
                way,
                *(f"{size:.2f}" for size in sizes.values()),
                f"{sum(sizes.values()):.2f}",
                f"{rates[way]:g}",
                "  ".join(f"{of_seed[way][0]:.3f}" for of_seed in of_ranks),
                words,
            ]
        )
    return rows


def main(steps=40):
    text = standard_library(50_000)
    for way in WAYS:
        loss, _, sizes = train(way, text, steps, 5e-3, 0)
        print(f"{way}: loss {loss:.3f}, {sum(sizes.values()):.0f} bytes per parameter")


if __name__ == "__main__":
    main()
