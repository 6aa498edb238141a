"""Ways of averaging gradients, and ZeRO's stages, next to DistributedDataParallel."""

from contextlib import nullcontext, suppress
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from collectives_twins import members
from helpers import load_solved_lab
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from twins import EQUAL, Excluded, Twin

SIMPLE, BUCKETS, OVERLAP, ZERO, AHEAD = map(
    load_solved_lab, ("simple_ddp", "gradient_sync_visualizer", "data_parallel", "zero", "prefetch")
)
STEPS, SAMPLES = 3, 6


class Net(nn.Module):
    """Two layers with a norm between them; `condition` makes it odd."""

    def __init__(self, condition):
        super().__init__()
        self.condition = condition
        self.inner, self.norm, self.output = nn.Linear(5, 5), nn.LayerNorm(5), nn.Linear(5, 3)
        if condition in ("unused", "unused on some ranks"):
            self.other = nn.Linear(5, 5)
        if condition == "without elements":
            self.nothing = nn.Parameter(torch.zeros(0))
        if condition == "no dimension":
            self.scale = nn.Parameter(torch.tensor(1.5))
        if condition == "batch norm":
            self.norm = nn.BatchNorm1d(5)
        if condition == "non-persistent buffer":
            self.register_buffer("shift", torch.randn(5), persistent=False)
        if condition == "sparse":
            self.letters = nn.Embedding(4, 5, sparse=True)
        if condition == "transposed":
            self.inner.weight = nn.Parameter(torch.randn(5, 5).t())
        if condition == "channels_last":
            self.image = nn.Conv2d(2, 5, 2).to(memory_format=torch.channels_last)

    def forward(self, x):
        if self.condition == "channels_last":
            x = self.image(x[:, :, None, None].expand(-1, -1, 2, 2)[:, :2]).flatten(1)
        if self.condition == "non-persistent buffer":
            x = x + self.shift
        if self.condition == "sparse":
            x = x + self.letters((x[:, 0] > 0).long())
        if self.condition == "recomputed":
            x = checkpoint(self.run, x, use_reentrant=False)
        else:
            x = self.run(x)
        if self.condition == "tied":
            x = self.inner(x)
        if self.condition == "unused on some ranks" and dist.get_rank() > 0:
            x = x + self.other(x)
        if self.condition == "no dimension":
            x = self.scale * x
        return self.output(x)

    def run(self, x):
        x = F.relu(self.norm(self.inner(x)))
        return F.dropout(x, 0.5, self.training) if self.condition == "dropout" else x


DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "autocast": torch.float32}


def make_model(condition):
    torch.manual_seed(dist.get_rank())  # an engine begins with rank 0's weights
    model = Net(condition).to(DTYPES.get(condition, torch.float64))
    if condition == "two dtypes":
        model.output.float()
        model.output.register_forward_pre_hook(lambda module, inputs: inputs[0].float())
    if condition == "frozen":
        model.inner.requires_grad_(False)
    if condition == "frozen in part":
        model.inner.bias.requires_grad_(False)
    return model


def batch_of(condition, step):
    """Return this rank's samples; under some conditions as many as its rank says, or none."""
    chance = torch.Generator().manual_seed(10 * step + dist.get_rank())
    samples = {"uneven": SAMPLES + dist.get_rank(),
               "a rank without samples": SAMPLES * (dist.get_rank() < 1)}  # fmt: skip
    x = torch.randn(samples.get(condition, SAMPLES), 5, generator=chance, dtype=torch.float64)
    return x.to(DTYPES.get(condition, torch.float64))


def loss_of(model, x, condition):
    with torch.autocast("cpu", torch.bfloat16) if condition == "autocast" else nullcontext():
        return model(x).double().square().sum() / SAMPLES


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


class ByTorch:
    """The engine that all are compared with; the others override what they do in another way."""

    def __init__(self, model, group):
        self.module, self.group = model, group
        self.model, self.optimizer = self.wrap(model), sgd(model.parameters())

    def wrap(self, model):
        return DistributedDataParallel(model, process_group=self.group, find_unused_parameters=True)

    def after_backward(self):
        pass

    def before_step(self):
        pass

    def step(self):
        self.before_step()
        self.optimizer.step()

    def zero_grad(self, **how):
        self.optimizer.zero_grad(**how)

    def state(self):
        return [x.detach().clone() for x in self.module.parameters()]


class Averaging(ByTorch):
    def wrap(self, model):
        SIMPLE.start_equal(model, self.group)
        return model

    def before_step(self):
        SIMPLE.average_gradients(self.module, self.group)


class InBuckets(Averaging):
    def before_step(self):
        buckets = BUCKETS.make_buckets(self.module.parameters(), 100)
        BUCKETS.average_buckets(buckets, self.group)


class Overlapping(ByTorch):
    def wrap(self, model):
        return OVERLAP.DDP(model, 100, group=self.group)

    def after_backward(self):
        self.model.finish()


class Sharded(ByTorch):
    """A stage of ZeRO, whose optimizer leaves no gradients."""

    kind = ZERO.Zero1

    def __init__(self, model, group):
        self.module = model
        self.engine = self.kind(model, sgd, [model.inner, model.output], group)
        self.model = model

    def step(self):
        self.engine.step()

    def zero_grad(self, **how):
        self.engine.zero_grad()

    def state(self):
        with ZERO.whole(self.engine):
            return super().state()


def sharded(kind):
    return type(kind.__name__, (Sharded,), {"kind": kind})


def fail_in_backward(engine, condition):
    """Run a backward that raises in the middle of the model."""

    def fail(gradient):
        raise MemoryError("out of memory")

    hook = engine.module.norm.register_forward_hook(
        lambda module, inputs, output: output.register_hook(fail) and None
    )
    with suppress(MemoryError):
        loss_of(engine.model, batch_of(condition, 50), condition).backward()
    hook.remove()


def spoil(gradient):
    """Return a gradient with an infinite number on one rank, and with none at all on another."""
    gradient = gradient.clone()
    gradient[dist.get_rank() % 2] = (torch.inf, torch.nan)[dist.get_rank() % 2]
    return gradient


def train(kind, condition):
    """Return all weights after some steps; of buffers, DistributedDataParallel copies rank 0's."""
    group = dist.new_group(members(condition))
    if dist.get_rank() not in members(condition):
        return None
    engine = kind(make_model(condition), group)
    torch.manual_seed(100 + dist.get_rank())
    if condition == "a backward that raised" and kind is not ByTorch:
        fail_in_backward(engine, condition)
    for step in range(STEPS):
        engine.zero_grad(set_to_none=condition != "gradients set to zero")
        if condition == "not finite" and step == STEPS - 1:
            engine.module.output.bias.register_hook(spoil)
        for part in range(2 if condition == "two backwards" else 1):
            x = batch_of(condition, 2 * step + part)
            loss_of(engine.model, x, condition).backward()
            engine.after_backward()
        if condition == "an evaluation between":
            with torch.no_grad():
                engine.model(x)
        engine.step()
    state = engine.state()
    return [x.float() for x in state] if condition == "two dtypes" else state


def prepare(kind, condition):
    return partial(train, kind, condition), partial(train, ByTorch, condition)


NETS = dict.fromkeys(
    ("float64", "bfloat16", "float16", "autocast", "two dtypes", "frozen", "frozen in part", "tied",
     "unused", "without elements", "no dimension", "batch norm", "non-persistent buffer",
     "channels_last", "transposed", "dropout", "recomputed", "sparse"), EQUAL
)  # fmt: skip
RUNS = dict.fromkeys(
    ("unused on some ranks", "uneven", "a rank without samples", "two backwards",
     "an evaluation between", "gradients set to zero", "not finite", "a backward that raised",
     "a group of some ranks"), EQUAL
)  # fmt: skip
MODELS = NETS | RUNS
IN_BUCKETS = MODELS | {"sparse": "sparse"}
BY_HAND = IN_BUCKETS | {"a backward that raised": "finish"}
GATHERED = IN_BUCKETS | {
    "unused on some ranks": Excluded("All ranks have to use the same modules"),
}
TWINS = [
    Twin("simple_ddp.average_gradients", MODELS, partial(prepare, Averaging)),
    Twin("gradient_sync_visualizer.average_buckets", IN_BUCKETS, partial(prepare, InBuckets)),
    Twin("data_parallel.DDP", BY_HAND, partial(prepare, Overlapping)),
    Twin("zero.Zero1", IN_BUCKETS, partial(prepare, sharded(ZERO.Zero1))),
    Twin("zero.Zero2", IN_BUCKETS, partial(prepare, sharded(ZERO.Zero2))),
    Twin("zero.Zero3", GATHERED, partial(prepare, sharded(ZERO.Zero3))),
    Twin("prefetch.Prefetching", GATHERED, partial(prepare, sharded(AHEAD.Prefetching))),
]
