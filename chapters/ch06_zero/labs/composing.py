"""Features that compose with ZeRO: clipping, loss scaling, and optimizers around optimizers.

torchrun --nproc-per-node 2 labs/composing.py
"""

import gc
import math
from contextlib import nullcontext
from functools import partial
from itertools import combinations

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from memory import LossScaler, MixedPrecision, recompute_modules
from simple_ddp import share_of_rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from zero import STAGES

# ---- Clipping -------------------------------------------------------------------------------


@torch.no_grad()
def clip_shards(shards, max_norm, group=None) -> float:
    """Exercise {{clip_shards}}. Scale the gradients on all ranks to a norm of at most max_norm.

    The parts of the whole model's gradient are on different ranks. Its norm is the square root of
    the sum of the squares of all its numbers. If the norm is larger than max_norm, every gradient
    is multiplied by max_norm / norm, in place. If not, nothing changes.

    shards   this rank's parameters; each has its part of the mean gradient in `.grad`, or None if
             it is frozen. Other ranks may have other sizes, and another number of shards, or none
    Returns  the norm before clipping, the same float on every rank
    Example  rank 0 has [3.] and a frozen parameter, rank 1 has [0., 4.]; max_norm is 1. The norm is
             5 on both; afterwards rank 0 has [0.6], and rank 1 has [0., 0.8]
    Equals   torch.nn.utils.clip_grad_norm_ on the whole gradient in one process (it adds 0.000001
             to the norm in the division: here both are right); if the norm is nan, nothing changes
    Cost     one all-reduce of one number
    """
    ### BEGIN SOLUTION
    shards = list(shards)  # it is gone through twice
    norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64)
             for p in shards if p.grad is not None]  # fmt: skip
    total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
    dist.all_reduce(total, group=group)
    norm = total.sqrt().item()
    if norm > max_norm:
        for p in shards:
            if p.grad is not None:
                p.grad *= max_norm / norm
    return norm
    ### END SOLUTION


class GradientClipOptimizer:
    """An optimizer around another one: clips by the norm of the whole gradient, then steps.

    If the norm is not finite, all ranks skip the step, because each of them has the same norm.

    parameters      all of this rank's shards, since the norm is that of the whole gradient
    make_optimizer  takes a list of parameters
    """

    takes_all = True  # an optimizer for each parameter would clip each by itself

    def __init__(self, parameters, make_optimizer, max_norm, group=None):
        self.parameters, self.max_norm, self.group = list(parameters), max_norm, group
        self.optimizer, self.norm = make_optimizer(self.parameters), None

    def step(self):
        self.norm = clip_shards(self.parameters, self.max_norm, self.group)
        if math.isfinite(self.norm):
            self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


class LossScaleOptimizer:
    """An optimizer around another one: divides by a loss scaler's factor, then steps.

    The caller multiplies the loss by `scaler.scale`. Each rank sees only the gradients of its own
    shards, so the ranks ask each other: if a number on any of them is not finite, all refuse the
    step, and all halve the factor.

    parameters      all of this rank's shards, with gradients in float32 or float64
    make_optimizer  takes a list of parameters
    scaler          a LossScaler
    Cost            one all-reduce of one number
    """

    takes_all = True  # an optimizer for each parameter would have a factor for each

    def __init__(self, parameters, make_optimizer, scaler, group=None):
        self.parameters, self.scaler, self.group = list(parameters), scaler, group
        self.optimizer = make_optimizer(self.parameters)

    def step(self):
        witness = nn.Parameter(torch.zeros(1))  # its gradient stands for the other ranks'
        witness.grad = torch.zeros(1)
        for p in self.parameters:
            if p.grad is not None:
                witness.grad += torch.where(p.grad.isfinite().all(), 0.0, torch.inf)
        dist.all_reduce(witness.grad, group=self.group)
        self.scaler.step([*self.parameters, witness], self.optimizer.step)

    def zero_grad(self):
        self.optimizer.zero_grad()


# ---- Features to combine --------------------------------------------------------------------

FEATURES = (
    "mixed precision", "recomputation", "tied weights", "frozen weights", "accumulation",
    "clipping", "loss scaling",
)  # fmt: skip
STEPS, MICRO_BATCHES, CONTEXT = 3, 2, 8
SAMPLES = 4  # per rank and step
MAX_NORM = 0.2  # of gradients that are larger in these steps
SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)  # its step grows with the gradient


def pairs() -> list[tuple[str, ...]]:
    """Return each feature by itself, each pair, and all together."""
    return [*((feature,) for feature in FEATURES), *combinations(FEATURES, 2), FEATURES]


def make_model(features):
    """Return a small transformer with these features, the same on every rank."""
    torch.manual_seed(0)
    model = Transformer(6, heads=2, context=CONTEXT, tied="tied weights" in features)
    if "frozen weights" in features:
        model.blocks[0].mlp[0].requires_grad_(False)
        model.blocks[1].attention.requires_grad_(False)
    return model.bfloat16() if "mixed precision" in features else model.double()


def make_optimizer_of(features, scaler):
    """Return nested optimizers, mixed precision outermost, so that the others see float32.

    LossScaleOptimizer is around GradientClipOptimizer, so that clipping follows the division by the
    factor.
    """
    make_optimizer = SGD
    if "clipping" in features:
        make_optimizer = partial(
            GradientClipOptimizer, make_optimizer=make_optimizer, max_norm=MAX_NORM
        )
    if "loss scaling" in features:
        make_optimizer = partial(LossScaleOptimizer, make_optimizer=make_optimizer, scaler=scaler)
    if "mixed precision" in features:
        make_optimizer = partial(MixedPrecision, make_optimizer=make_optimizer)
    return make_optimizer


def micro_batches_of(features) -> int:
    """Return how many micro-batches a rank's batch is cut into."""
    return MICRO_BATCHES if "accumulation" in features else 1


def loss_of(model, part):
    """Return the loss of inputs and targets; logits in bfloat16 are converted to float32 first."""
    logits = model(part[0])
    return mean_loss(logits.to(torch.promote_types(logits.dtype, torch.float32)), part[1])


def train_on_ranks(stage, features, text):
    """Train with a stage of ZeRO and these features; return the engine and its model."""
    model = make_model(features)
    if "recomputation" in features:
        recompute_modules(model.blocks)
    scaler = LossScaler(2.0**10 if "loss scaling" in features else 1.0, window=2)
    engine = STAGES[stage](model, make_optimizer_of(features, scaler), list(model.blocks))
    count = micro_batches_of(features)
    for step in range(STEPS):
        batch = share_of_rank(draw_batch(text, SAMPLES * dist.get_world_size(), step, CONTEXT))
        for part in zip(*(x.chunk(count) for x in batch)):
            (scaler.scale * loss_of(model, part) / count).backward()
        engine.step()
    return engine, model


# ---- Memory ---------------------------------------------------------------------------------


def states_by_formula(stage, numbers, n, each):
    """Return {kind: bytes} of a rank's model states; each: bytes per parameter, gradient, state."""
    kinds = ("parameters", "gradients", "optimizer_state")
    is_split = {"DDP": (0, 0, 0), "stage 1": (0, 0, 1), "stage 2": (0, 1, 1), "stage 3": (1, 1, 1)}
    return {kind: size * numbers / (n if split else 1)
            for kind, size, split in zip(kinds, each, is_split[stage])}  # fmt: skip


def make_engine(stage, model, make_optimizer):
    """Return what to call in the forward, what steps, sizes of units, and hooks that keep it alive.

    "DDP" is PyTorch's.
    """
    if stage != "DDP":
        engine = STAGES[stage](model, make_optimizer, list(model.blocks))
        numbers = [unit.flat.numel() for unit in engine.units.values()]
        return model, engine.step, numbers, getattr(engine, "hooks", ())
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(list(ddp.parameters()))

    def step():
        optimizer.step()
        optimizer.zero_grad()

    return ddp, step, [sum(p.numel() for p in model.parameters())], ()


def watch(stage, text, mixed=False, recompute=False, layers=4, samples=4, steps=2) -> list[int]:
    """Train a small transformer with Adam; the last step is measured: "step", "after the backward".

    stage    "DDP" or one of STAGES
    mixed    in bfloat16, with masters in float32; else in float32
    samples  per rank and step
    Returns  how many numbers each unit has, padded
    """
    from pedagogy_lib import measure

    gc.collect()  # an engine has cycles: under torchrun, the previous one may still exist
    torch.manual_seed(0)
    model, make_optimizer = Transformer(layers=layers), partial(torch.optim.Adam, lr=1e-3)
    if mixed:
        model.bfloat16()
        make_optimizer = partial(MixedPrecision, make_optimizer=make_optimizer)
    if recompute:
        recompute_modules(model.blocks)
    module, take_step, numbers, hooks = make_engine(stage, model, make_optimizer)
    for step in range(steps):
        batch = share_of_rank(draw_batch(text, samples * dist.get_world_size(), step))
        with measure("step") if step == steps - 1 else nullcontext():
            mean_loss(module(batch[0]).float(), batch[1]).backward()
            with measure("after the backward"):
                pass
            take_step()
    for hook in hooks:
        hook.remove()  # with them, nothing of this engine would ever be freed
    return numbers


def states_of(block, numbers, n, rank=0) -> dict:
    """Return {kind: bytes} of a rank's model states in a measured block; masters count as state.

    `measure` counts a master as a parameter, since it is one for its optimizer. A master has 4
    bytes for each number of a shard. For "DDP", take n = 1.
    """
    found = block.peak_bytes[rank]
    masters = 4 * sum(numbers) // n
    return {
        "parameters": found["parameters"] - masters,
        "gradients": found["gradients"],
        "optimizer_state": found["optimizer_state"] + masters,
    }


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for stage in STAGES:
        run = launch(watch, stage, text, True, world_size=4)
        if run.rank == 0:
            numbers = run.values[0]
            kept = states_of(run["after the backward"], numbers, len(run.values))
            print(
                f"{stage}, bytes for each parameter: "
                + ", ".join(f"{kind} {size / sum(numbers):.2f}" for kind, size in kept.items())
            )


if __name__ == "__main__":
    main()
