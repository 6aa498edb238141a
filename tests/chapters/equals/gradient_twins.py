"""Ways of averaging gradients, and ZeRO's stages, next to DistributedDataParallel."""

from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import load_solved_lab
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from twins import EQUAL, Twin

SIMPLE, BUCKETS, OVERLAP, ZERO, AHEAD, ACCUMULATION = map(
    load_solved_lab,
    ("simple_ddp", "gradient_sync_visualizer", "data_parallel", "zero", "prefetch",
     "gradient_accumulation"),
)  # fmt: skip
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

    def __init__(self, model):
        self.model, self.optimizer = self.wrap(model), sgd(model.parameters())
        self.module = model

    def wrap(self, model):
        return DistributedDataParallel(model, find_unused_parameters=True)

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
        return [x.detach().clone() for x in self.module.state_dict().values()]


class Averaging(ByTorch):
    def wrap(self, model):
        SIMPLE.start_equal(model)
        return model

    def before_step(self):
        SIMPLE.average_gradients(self.module)


class InBuckets(Averaging):
    def before_step(self):
        buckets = BUCKETS.make_buckets(self.module.parameters(), 100)
        BUCKETS.average_buckets(buckets)


class Overlapping(ByTorch):
    def wrap(self, model):
        return OVERLAP.DDP(model, 100)

    def after_backward(self):
        self.model.finish()


class Sharded(ByTorch):
    """A stage of ZeRO, whose optimizer leaves no gradients."""

    kind = ZERO.Zero1

    def __init__(self, model):
        self.module = model
        self.engine = self.kind(model, sgd, [model.inner, model.output])
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
    try:
        loss_of(engine.model, batch_of(condition, 50), condition).backward()
    except MemoryError:
        pass
    hook.remove()


def train(kind, condition):
    """Return all weights and buffers after some steps."""
    engine = kind(make_model(condition))
    torch.manual_seed(100 + dist.get_rank())
    if condition == "a backward that raised" and kind is not ByTorch:
        fail_in_backward(engine, condition)
    for step in range(STEPS):
        engine.zero_grad(set_to_none=condition != "gradients set to zero")
        for part in range(2 if condition == "two backwards" else 1):
            x = batch_of(condition, 2 * step + part)
            loss_of(engine.model, x, condition).backward()
            engine.after_backward()
        if condition == "an evaluation between":
            with torch.no_grad():
                engine.model(x)
        engine.step()
    return engine.state()


def prepare(kind, condition):
    return partial(train, kind, condition), partial(train, ByTorch, condition)


MODELS = dict.fromkeys(
    ("float64", "bfloat16", "float16", "autocast", "two dtypes", "frozen", "frozen in part", "tied",
     "unused", "unused on some ranks", "without elements", "no dimension", "batch norm",
     "non-persistent buffer", "channels_last", "dropout", "recomputed", "uneven",
     "a rank without samples", "two backwards", "an evaluation between", "gradients set to zero",
     "a backward that raised", "sparse"), EQUAL
)  # fmt: skip
TWINS = [
    Twin("simple_ddp.average_gradients", MODELS, partial(prepare, Averaging)),
    Twin("gradient_sync_visualizer.average_buckets", MODELS, partial(prepare, InBuckets)),
    Twin("data_parallel.DDP", MODELS, partial(prepare, Overlapping)),
    Twin("zero.Zero1", MODELS, partial(prepare, sharded(ZERO.Zero1))),
    Twin("zero.Zero2", MODELS, partial(prepare, sharded(ZERO.Zero2))),
    Twin("zero.Zero3", MODELS, partial(prepare, sharded(ZERO.Zero3))),
    Twin("prefetch.Prefetching", MODELS, partial(prepare, sharded(AHEAD.Prefetching))),
]
