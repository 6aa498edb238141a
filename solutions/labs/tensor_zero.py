# Built from chapters/ch07_tensor_parallel/labs/tensor_zero.py by `make build`.
"""Tensor parallelism with ZeRO: copies of a model that is cut, and ZeRO over the copies.

torchrun --nproc-per-node 4 labs/tensor_zero.py
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, standard_library
from memory import recompute_modules
from sequence_parallel import parallelize_sequence
from tensor_parallel import IGNORED, need_finite, parallelize, split_cross_entropy
from zero import Zero1, Zero2, Zero3, reduce_gradients

# ---- The features of a run ------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The features of a training run.

    zero      ZeRO stage 1, 2 or 3 over the copies
    tp        the number of ranks over which each copy is cut
    sequence  whether each rank has a piece of the context between the regions (07e)
    norm      the limit to which the norm of all gradients is clipped; 0: it is not
    parts     micro-batches per step
    dropout   the share of the hidden features, and of the MLPs' outputs, that is dropped
    """

    zero: int = 1
    tp: int = 2
    sequence: bool = False
    norm: float = 0.0
    parts: int = 1
    tied: bool = False
    dropout: float = 0.0
    frozen: bool = False
    recomputed: bool = False


def make_model(plan, width=24, context=12) -> Transformer:
    """Return the whole model, the same in every process."""
    torch.manual_seed(0)
    model = Transformer(width, heads=12, kv_heads=6, context=context, tied=plan.tied)
    if plan.frozen:
        model.blocks[0].mlp[0].requires_grad_(False)
        model.blocks[1].attention.requires_grad_(False)
        model.blocks[1].norm_2.requires_grad_(False)
    return model


def groups_of(tp):
    """Return two groups: this copy's ranks, and the ranks with the same part in all copies.

    A copy's ranks are neighbours: with tp = 2, ranks 0 and 1 are a copy, 2 and 3 the next one.
    """
    n, me = dist.get_world_size(), dist.get_rank()
    if n % tp:
        raise ValueError(f"{n} ranks cannot make copies of {tp} ranks each")
    copies = [list(range(first, first + tp)) for first in range(0, n, tp)]
    of_part = [list(range(first, n, tp)) for first in range(tp)]
    made = [[(of, dist.new_group(of)) for of in each] for each in (copies, of_part)]
    return [next(group for of, group in each if me in of) for each in made]


class PartsOfMasks:
    """Dropout whose masks do not depend on the number of ranks.

    For each sample a mask is drawn for all features of all tokens, and a rank takes its part of it:
    of the hidden features in the parallel region, and with `sequence` of the context outside.

    samples  the numbers, within the whole batch, of the samples that are computed now
    """

    def __init__(self, share, rank=0, n=1, sequence=False):
        self.share, self.rank, self.n, self.sequence = share, rank, n, sequence
        self.step, self.samples = 0, range(0)

    def add_to(self, model):
        for number, block in enumerate(model.blocks):
            block.mlp[1].register_forward_hook(partial(self.drop, 2 * number, 1))
            outside = partial(self.drop, 2 * number + 1, 0 if self.sequence else None)
            block.mlp.register_forward_hook(outside)

    def drop(self, number, cut_dim, module, inputs, output):
        masks = [self.mask(number, sample, cut_dim, output[0]) for sample in self.samples]
        return output * torch.stack(masks) / (1 - self.share)

    def mask(self, number, sample, cut_dim, x):
        """Return this rank's part of the mask of one sample, of x's shape (tokens, features)."""
        chance = torch.Generator().manual_seed((self.step * 1000 + sample) * 100 + number)
        shape = [size * (self.n if dim == cut_dim else 1) for dim, size in enumerate(x.shape)]
        whole = torch.rand(shape, generator=chance, device="cpu") >= self.share
        return (whole if cut_dim is None else whole.chunk(self.n, cut_dim)[self.rank]).to(x)


# ---- The engine -----------------------------------------------------------------------------


class TensorZero:
    """A model that is first cut over `plan.tp` ranks and then sharded by ZeRO over the copies.

    make_optimizer  a function of a list of parameters
    groups          the result of groups_of, which is called by default
    """

    def __init__(self, plan, make_optimizer, groups=None):
        self.plan, self.model = plan, make_model(plan)
        self.copy, self.others = groups or groups_of(plan.tp)
        self.number, self.copies = dist.get_rank(self.others), dist.get_world_size(self.others)
        (parallelize_sequence if plan.sequence else parallelize)(self.model, self.copy)
        if plan.recomputed:
            recompute_modules(self.model.blocks)
        self.dropout = PartsOfMasks(plan.dropout, dist.get_rank(self.copy), plan.tp, plan.sequence)
        if plan.dropout:
            self.dropout.add_to(self.model)
        is_cut = {p: hasattr(p, "cut_dim") for p in self.model.parameters()}
        kind = (Zero1, Zero2, Zero3)[plan.zero - 1]
        self.zero = kind(self.model, make_optimizer, list(self.model.blocks), self.others)
        self.units = list(self.zero.units.values())
        self.whole = [numbers_of(unit, is_cut) == 0 for unit in self.units]
        if plan.sequence:
            refuse_unequal(self.units, self.whole, self.copy)

    def step(self, inputs, targets):
        """Train one step with a batch that is the same on all ranks."""
        self.zero.zero_grad()  # what a step that raised has left
        self.backward(inputs, targets)
        if self.plan.zero == 1:
            for unit in self.units:
                reduce_gradients(unit)
        if self.plan.sequence:
            self.complete()
        if self.plan.norm:
            self.clip()
        self.zero.update()

    def backward(self, inputs, targets):
        """Run all micro-batches of this copy's share of the batch, with their backwards.

        Micro-batches and copies count by their samples, so each target has to count.
        """
        each = len(inputs) // self.copies
        if len(inputs) % self.copies or each < self.plan.parts:
            raise ValueError(
                f"{len(inputs)} samples cannot be shared out equally over {self.copies} copies, "
                f"with one or more for each of {self.plan.parts} micro-batches"
            )
        if (targets == IGNORED).any():
            raise ValueError(
                f"some targets are {IGNORED}, and micro-batches would have to count by the others: "
                "take a batch without them"
            )
        first = self.number * each
        for mine in torch.arange(first, first + each).tensor_split(self.plan.parts):
            self.dropout.samples = mine.tolist()
            loss = split_cross_entropy(self.model(inputs[mine]), targets[mine], self.copy)
            (loss * len(mine) / each).backward()

    @torch.no_grad()
    def complete(self):
        """Sum the gradients of whole parameters, as each rank has seen its piece of the context.

        ZeRO has cut these gradients already. The order of the sums does not matter: here first
        over the copies, then over the parts of a copy.
        """
        for unit, is_whole in zip(self.units, self.whole):
            mine = unit.shard.grad[is_whole]
            dist.all_reduce(mine, group=self.copy)
            unit.shard.grad[is_whole] = mine

    @torch.no_grad()
    def clip(self):
        """Scale all gradients by one factor; whole parameters are on `tp` ranks, but count once.

        Raises  RuntimeError on all ranks, before anything changes, if the norm is not finite
        """
        squares = torch.zeros((), dtype=torch.float64)  # in float16 the square of 300 is infinite
        for unit, is_whole in zip(self.units, self.whole):
            squares += (
                unit.shard.grad.double() ** 2 / torch.where(is_whole, self.plan.tp, 1)
            ).sum()
        dist.all_reduce(squares)  # over all parts and all shards
        norm = need_finite(squares.sqrt())
        for unit in self.units:
            unit.shard.grad *= (self.plan.norm / (norm + 1e-6)).clamp(max=1.0)


def numbers_of(unit, value_of) -> torch.Tensor:
    """Return, for each number of this rank's shard, the value of its parameter; padding has 1."""
    whole = [
        torch.full(shape, float(value_of[p])) for p, shape in zip(unit.parameters, unit.shapes)
    ]
    whole.append(torch.ones(unit.flat.numel() - sum(unit.sizes)))
    return torch.cat([x.flatten() for x in whole]).chunk(unit.n)[unit.rank]


def refuse_unequal(units, whole, group):
    """Raise ValueError on all ranks if a copy's shards have whole parameters at other places."""
    layout = [(unit.shapes, is_whole.tolist()) for unit, is_whole in zip(units, whole)]
    all_of_them = [None] * dist.get_world_size(group)
    dist.all_gather_object(all_of_them, layout, group=group)
    if any(other != layout for other in all_of_them):
        raise ValueError(
            "with sequence parallel, ZeRO needs parts of equal size: else the shards of two ranks "
            f"begin at other weights. {len(all_of_them)} ranks must divide the vocabulary, the "
            "key-value heads and the hidden features"
        )


# ---- The program ----------------------------------------------------------------------------

SGD = partial(torch.optim.SGD, lr=0.3, momentum=0.9)


def program(text, steps=20):
    """Train under ZeRO stage 3; return the bytes of this rank's parameters and of all."""
    plan = Plan(zero=3, sequence=True, norm=1.0, parts=2, tied=True, dropout=0.1)
    engine = TensorZero(plan, SGD)
    for number in range(steps):
        engine.dropout.step = number
        engine.step(*draw_batch(text, 8, number, 12))
    return sum(unit.shard.nbytes for unit in engine.units), sum(
        p.nbytes for p in make_model(plan).parameters()
    )


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(20_000), world_size=4)
    if run.rank == 0:
        mine, whole = run.values[0]
        copies = f"copies: {run.world_size // 2}, parts: 2"
        print(f"{copies}, ZeRO stage 3: a rank has {mine / whole:.2f} of the weights")


if __name__ == "__main__":
    main()
