# Built from chapters/ch11_capstone/labs/capstone.py by `make build`.
"""A language model on two machines with slow cards: recipes compared, within a budget.

torchrun --nproc-per-node 8 labs/capstone.py
"""

import contextlib
import gc
import time
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import torch
import torch.distributed as dist
from any_plan import AnyPlan
from collectives import all_reduce_ring
from cost_model import Plan
from language_model import CHARACTERS, Transformer, draw_batch, mean_loss, standard_library
from live_plans import Setting, describe_plan
from memory import MixedPrecision
from sharding_engines import DEEPSPEED, ENGINES, HAS_DEEPSPEED
from simple_ddp import share_of_rank
from torch import Tensor

# ---- The model, the machines and the recipes ------------------------------------------------

SETTING = Setting(ranks=8, width=128, layers=4, context=64, samples=16, flops=2e9, card=2e6)
adam = partial(torch.optim.AdamW, lr=3e-3, eps=1e-4)  # eps: rounding noise makes no full steps


@dataclass(frozen=True)
class Recipe(Plan):
    """A plan for labs/any_plan.py, and the precision in which it computes.

    half  weights, activations, gradients and messages are bfloat16; the optimizer steps on copies
          in float32
    """

    sequence: bool = False
    half: bool = False


PLAIN = Recipe(dp=8, micro_batch=2)


def describe_recipe(recipe: Recipe) -> str:
    """Describe a recipe, as in "dp 4 pp 2, ZeRO 1, micro-batch 1, bfloat16"."""
    return describe_plan(recipe) + ", bfloat16" * recipe.half


def whole_model(setting: Setting) -> Transformer:
    """Make the same model in every process."""
    torch.manual_seed(0)
    return Transformer(setting.width, setting.layers, setting.heads, setting.context)


class Engine(AnyPlan):
    """Training under a recipe: step(inputs, targets) returns the loss, on every rank."""

    def __init__(self, model, recipe: Recipe, make_optimizer=adam):
        if recipe.half:
            model.bfloat16()
            make_optimizer = partial(MixedPrecision, make_optimizer=make_optimizer)
        super().__init__(model, recipe, make_optimizer)
        loss_of = self.pipeline.loss_of
        self.pipeline.loss_of = lambda logits, targets: loss_of(promote_to_float32(logits), targets)


def promote_to_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Stock:
    """A stock engine. step() takes the whole batch, and returns the loss of this rank's share."""

    def __init__(self, model, make_engine):
        self.engine = make_engine(model)

    def step(self, inputs, targets) -> float:
        inputs, targets = share_of_rank((inputs, targets))
        loss = mean_loss(self.engine.module(inputs), targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()


STOCK = {"FSDP2": ENGINES["FSDP2"], "FSDP2, whole on each machine": ENGINES["FSDP2, 2 halves"]}
STOCK |= {"DeepSpeed, stage 3": DEEPSPEED["DeepSpeed, stage 3"]} if HAS_DEEPSPEED else {}


def make_trainer(model, entrant):
    """Make the trainer of an entrant: a Recipe, or the name of a stock engine."""
    if isinstance(entrant, str):
        return Stock(model, STOCK[entrant])
    return Engine(model, entrant)


def losses_alone(setting: Setting, batches) -> list[float]:
    """Return the losses of one process that takes a step per batch, in torch's default dtype."""
    model, losses = whole_model(setting), []
    optimizer = adam(model.parameters())
    for inputs, targets in batches:
        loss = mean_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- A race of entrants --------------------------------------------------------------------


def race(entrants, setting: Setting, batches, on_machines=True) -> dict:
    """Train a while with each entrant, one after another; measure a last step under its name.

    entrants  {name: Recipe, or the name of a stock engine}
    batches   one per step; after them, the last one again, for the step that is measured
    Returns   {name: (seconds of each step but the first, in which all is made; losses)}
    """
    found = {}
    for name, entrant in entrants.items():
        gc.collect()  # an engine has cycles: the previous one may still exist
        found[name] = try_one(name, make_trainer(whole_model(setting), entrant), setting, batches,
                              on_machines)  # fmt: skip
    return found


def try_one(name, trainer, setting, batches, on_machines) -> tuple[list, list]:
    from pedagogy_lib import SlowProducts, measure

    times, losses = [], []
    slow = contextlib.nullcontext() if on_machines else slow_messages(setting)
    with slow, SlowProducts(setting.flops, measured=False):
        for batch in batches:
            dist.barrier()
            began = time.perf_counter()
            losses.append(trainer.step(*batch))
            times.append(time.perf_counter() - began)
        with measure(name):
            trainer.step(*batches[-1])
    forget(trainer)
    return times[1:], losses


def forget(trainer):
    """Remove an engine's hooks: with them, nothing of it would ever be freed."""
    for hook in getattr(getattr(trainer, "zero", None), "hooks", ()):
        hook.remove()


@contextlib.contextmanager
def slow_messages(setting: Setting):
    """Slow down messages between the halves, on computers that cannot emulate machines.

    `throttle` does not slow a backend's collectives, so large sums go round your ring.
    """
    from pedagogy_lib import throttle

    all_reduce = dist.all_reduce

    def all_reduce_in_messages(x, op=dist.ReduceOp.SUM, group=None, **options):
        is_large = x.nbytes > 100_000 and x.is_contiguous() and op == dist.ReduceOp.SUM
        return all_reduce_ring(x, group) if is_large else all_reduce(x, op, group, **options)

    each = setting.ranks // setting.machines
    ring = patch.object(dist, "all_reduce", all_reduce_in_messages)
    with throttle(1e9, 0.0, each, (setting.card, 0.0)), ring:
        yield


# ---- The trained model ----------------------------------------------------------------------


def entropy_of_letters(text: Tensor) -> float:
    """Return the loss of a model that knows only how often each letter occurs."""
    shares = torch.bincount(text, minlength=CHARACTERS).double() / len(text)
    shares = shares[shares > 0]
    return -(shares * shares.log()).sum().item()


def wrap_lines(text: str, longest=80) -> str:
    """Return the text with long lines cut."""
    cut = ([line[k : k + longest] for k in range(0, len(line) or 1, longest)]
           for line in text.splitlines())  # fmt: skip
    return "\n".join(part.rstrip() for parts in cut for part in parts)


@torch.no_grad()
def write(model, beginning: str, letters=240, warmth=0.9, seed=0) -> str:
    """Continue a beginning with letters that the model draws, one after another.

    warmth  0.1: nearly always the likeliest letter; 1: as likely as the model thinks
    """
    chance = torch.Generator().manual_seed(seed)
    text, context = list(beginning.encode()), len(model.places.weight)
    for _ in range(letters):
        scores = model(torch.tensor([text[-context:]]))[0, -1].float()
        text.append(torch.multinomial((scores / warmth).softmax(-1), 1, generator=chance).item())
    return bytes(text).decode("ascii", "replace")


# ---- The program ----------------------------------------------------------------------------


def program(text) -> dict:
    """Compare copies of a model with one that is cut, on as many ranks as there are."""
    n = dist.get_world_size()
    setting = Setting(n, 64, 4, 64, 16, SETTING.flops, SETTING.card)
    recipes = [Recipe(dp=n), Recipe(tp=n, micro_batch=16, half=True)]
    batches = [draw_batch(text, setting.samples, step, setting.context) for step in range(3)]
    return race({describe_recipe(recipe): recipe for recipe in recipes}, setting, batches)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(100_000), world_size=8, device="cpu")
    if run.rank == 0:
        for name, (times, losses) in run.values[0].items():
            print(f"{name}: loss {losses[0]:.2f} to {losses[-1]:.2f}, {min(times):.2f} s a step")


if __name__ == "__main__":
    main()
