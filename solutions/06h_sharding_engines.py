# %% [markdown]
# # 06h · Sharding engines
#
# **Stage 3, FSDP, DeepSpeed: when is which the right one, and what does it really send?** In the
# first part, [06 · ZeRO and FSDP](06_zero.ipynb), you wrote the three stages. Here you
# push them: micro-batches, larger and smaller units, fetching ahead, recomputation, state on disk,
# and checkpoints that fit another number of ranks. Then the engines that people use, beside yours,
# and a surprise: on this backend each of them sends more than that stage of yours which does the
# same.
#
# Exercises stand in cells. The labs are [zero](../labs/zero.py),
# [zero_on_disk](../labs/zero_on_disk.py) and [sharding_engines](../labs/sharding_engines.py).

# %% [markdown]
# ![What a rank sends in a step with DDP, the three stages by hand, and the engines that people use:
# FSDP2 sends more than the same calls by textbook](../assets/covers/06h_sharding_engines.png)
#
# *Measured in section 7, over Gloo: what a rank sends in a step with the stages by hand, and with
# the engines that people use. Outlines: the same calls by textbook.*
#
# **After this part you can** say what units, prefetching, accumulation and offloading change in a
# sharded model, and compare what FSDP2 and DeepSpeed do.
#
# **It takes** about 30 minutes, and 15 more for 2 exercises. **It needs** [06 ·
# ZeRO and FSDP](06_zero.ipynb).

# %% jupyter={"source_hidden": true}
import json
import tempfile
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, measure, plot_against, plot_bars, plot_stacks,
    plot_timeline, predict, progress, put_to_the_test, rounding, throttle,
)

# %% tags=["parameters"]
world_size = 4
steps = 5
state_megabytes = 32

# %%
zero, zero_on_disk, engines = lab("zero"), lab("zero_on_disk"), lab("sharding_engines")
language_model, simple_ddp, memory = lab("language_model"), lab("simple_ddp"), lab("memory")
text = language_model.standard_library(200_000)
adam = partial(torch.optim.Adam, lr=1e-3)

# %% [markdown]
# ## 1 · Micro-batches: who pays when?
#
# A rank that accumulates gradients over micro-batches has several backwards for each step. Stage 1
# waits for the step, as DDP does under `no_sync`. Stage 2 must not keep whole gradients: it reduces
# in every backward. Stage 3 has no parameters at hand either. (FSDP2 may wait like DDP, by
# `set_requires_gradient_sync(False)`, at the price of whole gradients.) How many times the model
# does a rank send then?

# %%
stage_3_guess = predict(f"Sent by a rank of {world_size} in stage 3, with 4 micro-batches",
                        unit="models")

# %% [markdown]
# ### Exercise 6.15
#
# Write `models_sent`: how many times the model's bytes a rank sends in a step, with rings, and
# gradients as wide as the parameters, padding aside. Stage 0 is DDP under `no_sync` as far as
# possible; stages 1 to 3 are those of [labs/zero.py](../labs/zero.py).

# %%
def models_sent(stage, n, micro_batches=1):
    ### BEGIN SOLUTION
    once = (n - 1) / n
    return once * {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}[stage]
    ### END SOLUTION

check("6.15", models_sent)

# %%
def accumulate(name, engines, simple_ddp, language_model, text, counts):
    engine = engines.ENGINES[name](engines.make_model())
    samples = simple_ddp.share_of_rank(
        language_model.draw_batch(text, max(counts) * dist.get_world_size(), 0))
    warm_up = [("warm-up", 1)] * 2  # DDP makes its buckets in the first backwards
    for label, micro_batches in [*warm_up, *((f"in {count}", count) for count in counts)]:
        parts = list(zip(*(x.chunk(micro_batches) for x in samples)))
        with measure(label, memory=False):
            for number, (inputs, targets) in enumerate(parts, 1):
                quiet = name == "DDP" and number < len(parts)
                with engine.module.no_sync() if quiet else nullcontext():
                    loss = language_model.mean_loss(engine.module(inputs), targets)
                    engine.backward(loss / len(parts))
            engine.step()
    return sum(p.nbytes for p in engines.make_model().parameters())

# %%
counts, names = (1, 2, 4), ("DDP", "ours, stage 1", "ours, stage 2", "ours, stage 3")
sent_with = {}
for name in names:
    run = launch(accumulate, name, engines, simple_ddp, language_model, text, counts,
                 world_size=world_size, device="cpu")
    sent_with[name] = [run[f"in {count}"].sent_bytes[0] / run.values[0] for count in counts]
Table(["micro-batches", *counts],
      [[name, *(f"{models:.2f}" for models in sent_with[name])] for name in names],
      note="models sent by a rank in one step")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
n = world_size
stage_3_guess.compare(4 * 3 * (n - 1) / n, sent_with["ours, stage 3"][2],
                      kind="communication")

# %% [markdown]
# ### Exercise 6.16
#
# Published teaching code: accumulation with stage 2. Each rank has the same number of
# micro-batches, and all are equally large. The function returns this rank's part (flat, padded) of
# the gradient's mean over the micro-batches of all ranks, and leaves no `.grad`. (Only this is
# checked.) With Adam, the loss looks as it should: Adam does not mind a factor. Find the bug.

# %%
def accumulate_part(model, loss_fn, micro_batches):
    n, parameters, total = dist.get_world_size(), list(model.parameters()), 0
    for inputs, targets in micro_batches:
        ### BEGIN SOLUTION
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        ### IT WAS
        # loss = loss_fn(model(inputs), targets) / (len(micro_batches) * n)
        ### END SOLUTION
        gradients = torch.autograd.grad(loss, parameters)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        chunks = list(F.pad(flat, (0, -len(flat) % n)).chunk(n))
        mine = torch.empty_like(chunks[0])
        dist.reduce_scatter(mine, chunks)
        total += mine / n
    return total

check("6.16", accumulate_part)

# %% [markdown]
# ## 2 · How large is a unit?
#
# One unit for the whole model: few, long messages; but the whole model is gathered. A unit for each
# layer: little memory, and many short messages, of which each has its latency. The same model with
# the same stage 3, cut differently, on links of 100 MB/s with a latency of 2 ms:

# %%
def cut(granularity, engines, simple_ddp, language_model, text, adam, zero, steps):
    model = engines.make_model(width=64, layers=8)
    halves = [half for block in model.blocks for half in (block.attention, block.mlp)]
    modules = {"whole model": [], "block": list(model.blocks), "half a block": halves}
    if granularity == "4 blocks each":
        model.blocks = nn.Sequential(model.blocks[:4], model.blocks[4:])
        modules[granularity] = list(model.blocks)
    engine, times = zero.Zero3(model, adam, modules[granularity]), []
    inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 16, 0))
    with throttle(100e6, 0.002):
        for step in range(steps):
            dist.barrier()
            began = time.perf_counter()
            with measure("step") if step == 0 else nullcontext():
                language_model.mean_loss(model(inputs), targets).backward()
                engine.step()
            times.append(time.perf_counter() - began)
    return len(engine.units), median(times[1:]), sum(u.flat.nbytes for u in engine.units.values())

cuts = ("whole model", "4 blocks each", "block", "half a block")
cut_runs = {name: launch(cut, name, engines, simple_ddp, language_model, text, adam, zero, 3,
                         world_size=world_size, device="cpu") for name in cuts}
for name, run in cut_runs.items():
    units, _, model_bytes = run.values[0]
    most = run["step"].peak_bytes[0]["parameters"] / model_bytes
    print(f"{name}: {units} unit{'s' * (units > 1)}, parameters at most {most:.2f} models")

# %% tags=["nbval-ignore-output"]
by_units = {name: (run.values[0][0], max(seconds for _, seconds, _ in run.values))
            for name, run in cut_runs.items()}
plot_bars([f"{name} ({units})" for name, (units, _) in by_units.items()],
          {"time of a step": [1e3 * seconds for _, seconds in by_units.values()]},
          "time of a step (ms)", "what a unit is (how many there are)",
          title=f"Stage 3 on {world_size} ranks, in larger and smaller units")

# %% [markdown]
# Smaller units need less memory and are *slower*: 17 units send 17 times as many messages as one,
# for the same bytes, and each has its latency. A blog says the opposite, that FSDP wins by finer
# units than DeepSpeed's. FSDP's paper found what we find: it joins parameters to units because
# short messages waste a network. Finer units make a step faster in one case only: if their messages
# travel while something else is computed.

# %% [markdown]
# ## 3 · Fetched ahead
#
# In stage 3, while a unit computes, the next one could already be on its way: **prefetching**. The
# class `Zero3` can do it (`prefetch=True`): a thread gathers what came next in the step before.
# Computing is emulated by sleep, and links are throttled, so that a gather takes as long as a
# unit's forward; a backward takes twice that. With the forward of a unit as 1: each unit takes 1 +
# 1 in the forward, and 1 + 2 + 1 in the backward (gather, compute, reduce). Nothing can hide the
# first gather of the forward, nor that of the backward. By how many percent is a step of 6 units
# shorter if all others are hidden?

# %%
class Slept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, layer):
        ctx.layer = layer
        layer.sleep("forward", layer.seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        ctx.layer.sleep("backward", 2 * ctx.layer.seconds)
        return slope, torch.ones(ctx.layer.numbers), None

class SleptLayer(nn.Module):
    def __init__(self, numbers, seconds):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(numbers))
        self.numbers, self.seconds, self.is_watched = numbers, seconds, False

    def sleep(self, label, seconds):
        with measure(label, memory=False) if self.is_watched else nullcontext():
            time.sleep(seconds)

    def forward(self, x):
        return Slept.apply(x, self.weight, self)

# %%
NUMBERS, SECONDS, LAYERS = 100_000, 0.03, 6

def fetched(zero, SleptLayer, prefetch):
    model = nn.Sequential(*(SleptLayer(NUMBERS, SECONDS) for _ in range(LAYERS)))
    engine = zero.Zero3(model, partial(torch.optim.SGD, lr=0.1), list(model), prefetch=prefetch)
    x = torch.ones(1, requires_grad=True)
    with throttle(4 * NUMBERS / 2 / SECONDS):  # each of 2 ranks sends half of a unit
        model(x).backward()
        engine.step()  # now it knows what comes after what
        for layer in model:
            layer.is_watched = True
        dist.barrier()
        with measure("step", memory=False):
            model(x).backward()
            engine.step()

# %%
shorter = predict("A step is shorter with prefetching by", unit="%")

# %% tags=["nbval-ignore-output"]
ahead = {name: launch(fetched, zero, SleptLayer, name == "fetched ahead", world_size=2,
                      device="cpu") for name in ("on demand", "fetched ahead")}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
took = {name: max(run["step"].seconds) for name, run in ahead.items()}
shorter.compare(100 * (1 - (2 + LAYERS + 3 * LAYERS) / (2 * LAYERS + 4 * LAYERS)),
                100 * (1 - took["fetched ahead"] / took["on demand"]), kind="communication")

# %% tags=["nbval-ignore-output"]
plot_timeline(ahead["on demand"], ["step", "forward", "backward"],
              title="Stage 3, gathered on demand (computing emulated)")

# %% tags=["nbval-ignore-output"]
plot_timeline(ahead["fetched ahead"], ["step", "forward", "backward"],
              title="Stage 3, fetched ahead (computing emulated)")

# %% [markdown]
# Grey is waiting (mind the different scales of time). Hidden are all gathers but two: the first
# one, and that of the last layer, which is disposed of after its forward and needed again at once.
# (FSDP can spare this one: `reshard_after_forward=False` for the last unit.) The backward's
# gradients still have to be waited for. The price is memory, not measured here: one unit more is
# there at a time.
#
# ## 4 · With recomputation
#
# Stage 3 divides the model states by n. Activations stay. So in practice it goes together with
# recomputation (chapter 05). In the backward a block's forward runs again: does this take yet
# another all-gather? Not if the unit is gathered before its backward, and stays until it is over.

# %%
def with_recomputation(recompute, memory, engines, zero, simple_ddp, language_model, text, adam):
    model = engines.make_model(layers=8)
    if recompute:
        memory.recompute_modules(model.blocks)
    engine = zero.Zero3(model, adam, list(model.blocks))
    inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 32, 0))
    for label in ("first", "step"):
        with measure(label):
            language_model.mean_loss(model(inputs), targets).backward()
            engine.step()
    return sum(unit.flat.nbytes for unit in engine.units.values())

both = {name: launch(with_recomputation, name != "stage 3", memory, engines, zero, simple_ddp,
                     language_model, text, adam, world_size=world_size, device="cpu")
        for name in ("stage 3", "stage 3, blocks recomputed")}
for name, run in both.items():
    print(f"{name}: {run['step'].sent_bytes[0] / run.values[0]:.2f} models sent")
plot_stacks({name: run["step"].at_peak[0] for name, run in both.items()},
            title=f"One step on one of {world_size} ranks, at its fullest moment")

# %% [markdown]
# ## 5 · State on disk
#
# Where even a shard is too large, the optimizer's state can go elsewhere: to the memory of the host
# (*ZeRO-Offload*), or to its disk (*ZeRO-Infinity*). It is needed once in a step, and never in a
# forward or backward. Here the **device** is this machine's memory, and the **host** its disk: the
# class `Offloaded` in [labs/zero_on_disk.py](../labs/zero_on_disk.py) has Adam's state, and a copy
# of the parameters, in memory-mapped files. It takes the place of the optimizer; stage 3 does not
# notice.

# %%
def train_offloaded(folder, zero, zero_on_disk, adam, megabytes):
    torch.manual_seed(0)
    side = int((megabytes * 1e6 / 8) ** 0.5)  # 8 bytes of state for each number
    model, rank = nn.Linear(side, side, bias=False), dist.get_rank()
    files = partial(zero_on_disk.Offloaded, make_optimizer=adam,
                    folder=Path(folder or ".") / f"rank {rank}")
    engine = zero.Zero3(model, files if folder else adam)
    x, times = torch.randn(8, side, requires_grad=True), []
    for step in range(4):
        with measure("step") if step == 3 else nullcontext():
            model(x + rank).square().mean().backward()
            began = time.perf_counter()
            engine.step()
            times.append(time.perf_counter() - began)
    with zero.whole(engine):
        return model.weight.detach().sum().item(), times[2]

# %%
with tempfile.TemporaryDirectory() as folder:
    kept_in = {where: launch(train_offloaded, folder if where == "on disk" else None, zero,
                             zero_on_disk, adam, state_megabytes, world_size=2, device="cpu")
               for where in ("in memory", "on disk")}
    on_disk = sum(path.stat().st_size for path in Path(folder).rglob("*.*"))
same = kept_in["in memory"].values[0][0] == kept_in["on disk"].values[0][0]
print(f"the same weights: {same}; files of both ranks: {on_disk / 1e6:.0f} MB")
plot_stacks({f"state {where}": run["step"].at_peak[0] for where, run in kept_in.items()},
            ylabel="memory of the device", title="A step of stage 3 at its fullest moment")

# %% tags=["nbval-ignore-output"]
for where, run in kept_in.items():
    print(f"state {where}: the optimizer's step took {1e3 * run.values[0][1]:.0f} ms")

# %% [markdown]
# The state has gone from the device's memory; all else is as before. (The system keeps pages of
# such files in its cache as long as there is room: what you see in the times is copying, not the
# disk.)

# %% [markdown]
# ## 6 · A checkpoint for any number of ranks
#
# No rank has the whole model: each has to save its own shards. And who trained on 4 GPUs yesterday
# may have 2 today. `torch.distributed.checkpoint` writes tensors of which every rank has a part, a
# `DTensor`, and reads them back in other parts. All it needs to know is which part is whose. See
# `sharded_state` in [labs/zero_on_disk.py](../labs/zero_on_disk.py): padding is left out, since it
# depends on n.

# %%
def start_engine(engines, zero, adam):
    model = engines.make_model(width=32, layers=2, dtype=torch.float64)
    return model, zero.Zero3(model, adam, list(model.blocks))

def take_steps(numbers, model, engine, simple_ddp, language_model, text):
    for step in numbers:
        inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 12, step))
        language_model.mean_loss(model(inputs), targets).backward()
        engine.step()

def begin(folder, start_engine, take_steps, labs, zero_on_disk):
    model, engine = start_engine(*labs[:3])
    take_steps(range(5), model, engine, *labs[3:])
    zero_on_disk.save(engine, folder)
    take_steps(range(5, 10), model, engine, *labs[3:])
    with labs[1].whole(engine):
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

def go_on(folder, start_engine, take_steps, labs, zero_on_disk):
    model, engine = start_engine(*labs[:3])
    zero_on_disk.load(engine, folder)
    take_steps(range(5, 10), model, engine, *labs[3:])
    with labs[1].whole(engine):
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

# %%
labs = (engines, zero, adam, simple_ddp, language_model, text)
with tempfile.TemporaryDirectory() as folder:
    rest = (folder, start_engine, take_steps, labs, zero_on_disk)
    weights = launch(begin, *rest, world_size=world_size, device="cpu").values[0]
    print(f"{world_size} ranks wrote {len(list(Path(folder).glob('*.distcp')))} files")
    for ranks in (2, 3):
        again = launch(go_on, *rest, world_size=ranks, device="cpu").values[0]
        print(f"resumed on {ranks} ranks, the same weights but for rounding:",
              close(again, weights, steps=10))

# %% [markdown]
# ## 7 · The real engines
#
# `ZeroRedundancyOptimizer` is PyTorch's stage 1. `fully_shard` is **FSDP2**, its stage 3;
# `reshard_after_forward=False` keeps parameters gathered from the forward to the end of the
# backward, which costs memory and saves an all-gather. On a mesh of 2 × 2 ranks it is *hybrid*
# (HSDP): parameters are split within each half, and gradients averaged between the halves: 3 · 1/2
# models within, and an all-reduce of half a model between. **DeepSpeed** has all stages. See
# [labs/sharding_engines.py](../labs/sharding_engines.py): each takes some lines. Here are the same
# model, the same steps in float64, the same ranks:

# %%
def try_engine(name, engines, text, steps):
    make = {**engines.ENGINES, **engines.DEEPSPEED}[name]
    dtype = torch.float32 if name in engines.DEEPSPEED else torch.float64
    return engines.try_engine(make, engines.make_model(dtype=dtype), text, steps)

def fits_world(name):
    return world_size % 2 == 0 or "halves" not in name

raced = {name: launch(try_engine, name, engines, text, steps, world_size=world_size, device="cpu")
         for name in engines.ENGINES if fits_world(name)}
numbers = sum(p.numel() for p in engines.make_model().parameters())
STATES = ("parameters", "gradients", "optimizer_state")

def numbers_of(name, run):
    """Models kept of each kind, sent, sent by textbook; relative gap to one process."""
    size = 4 if name in engines.DEEPSPEED else 8
    kept = [run["kept"].peak_bytes[0][kind] / numbers / size for kind in STATES]
    gap = max(value[0] for value in run.values)
    textbook = sum(call.sent_bytes for call in run["step"].calls[0])
    return [*kept, run["step"].sent_bytes[0] / numbers / size, textbook / numbers / size, gap]

heads = ["", "parameters", "gradients", "optimizer state", "sent", "by textbook",
         "off by"]

def told(found):
    *models, gap = found
    return [*(f"{count:.2f}" for count in models), f"{gap:.0e}"]

# %% tags=["cover"]
rows = {name: numbers_of(name, run) for name, run in raced.items()}
assert all(gap <= rounding(steps=steps) for *_, gap in rows.values())
display(Table(heads[:-1], [[name, *told(found)[:-1]] for name, found in rows.items()],
        note="in models; kept by rank 0 between backward and step, sent in a step. By textbook: "
             "the same calls, with rings. All equal one process, but for rounding."))
sent, by_textbook = ([found[place] for found in rows.values()] for place in (3, 4))
plot_bars(list(rows), {"sent": sent}, "models sent by a rank in a step",
          predicted={"sent": by_textbook}, title="Sent, and what the same calls send by textbook")

# %% tags=["nbval-ignore-output"]
times = {name: 1e3 * max(value[1] for value in run.values) for name, run in raced.items()}
display(Table([*heads, "time"], [[name, *told(found), f"{times[name]:.0f} ms"]
                                 for name, found in rows.items()]))
plot_bars(list(times), {"time of a step": list(times.values())}, "time of a step (ms)",
          title=f"A step of the small transformer on {world_size} ranks of this machine")

# %% [markdown]
# Memory is as the formulas say, in theirs as in yours. But look at what is **sent**. FSDP2 sends 3
# models where 2.25 would do, and stage 1 of PyTorch 2.25 instead of 1.5. Why? Here are the calls:

# %%
def calls_of(run):
    found = Counter(call.name for call in run["step"].calls[0])
    return ", ".join(f"{count} × {name}" for name, count in found.items())

Table(["", "calls of rank 0 in one step"],
      [[name, calls_of(run)] for name, run in raced.items() if "ours" not in name])

# %%
def one_reduce_scatter(collectives, megabytes=4):
    n = dist.get_world_size()
    chunks = list(torch.ones(megabytes * 250_000 // n * n).chunk(n))
    with measure("dist.reduce_scatter", memory=False):
        dist.reduce_scatter(torch.empty_like(chunks[0]), chunks)
    with measure("your ring", memory=False):
        collectives.reduce_scatter_ring(chunks)

scattered = launch(one_reduce_scatter, lab("collectives"), world_size=world_size, device="cpu")
for label in scattered.labels:
    print(f"{label}: {scattered[label].sent_bytes[0] / 4e6:.2f} of the tensor's bytes sent")

# %% [markdown]
# Gloo's reduce-scatter is an all-reduce of which most is thrown away: twice the bytes. Your ring is
# better. On GPUs, NCCL's is as the textbook says (the column *by textbook*).
# `ZeroRedundancyOptimizer` is another case: DDP has reduced the whole gradients to everybody, and
# then each owner broadcasts its parameters. That is an all-reduce and an all-gather, on every
# backend: 3(n-1)/n.
#
# Times tell little here: four ranks share this machine's cores. `make bench` has the engines take
# turns.

# %% [markdown]
# Books describe the first FSDP (now deprecated), whose strategies had names: FULL_SHARD, stage 3;
# SHARD_GRAD_OP, which keeps parameters gathered for the backward; NO_SHARD, as DDP; HYBRID_SHARD.
# (FULL_SHARD keeps one unit gathered, that of the model itself: so it sends a little less than 3.)

# %%
def full_strategies(engines, simple_ddp, language_model, text):
    """The first FSDP, which books describe: what its strategies send, in models."""
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    warnings.simplefilter("ignore")  # it is deprecated
    inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 16, 0))
    for name in ("NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD"):
        model = engines.make_model()
        wrapped = FullyShardedDataParallel(
            model, sharding_strategy=ShardingStrategy[name], device_id=torch.get_default_device(),
            auto_wrap_policy=ModuleWrapPolicy({type(model.blocks[0])}))
        for label in ("first", name):
            with measure(label, memory=False):
                language_model.mean_loss(wrapped(inputs), targets).backward()
    return sum(p.nbytes for p in engines.make_model().parameters())

first_fsdp = launch(full_strategies, engines, simple_ddp, language_model, text,
                    world_size=world_size, device="cpu")
by_strategy = {name: first_fsdp[name].sent_bytes[0] / first_fsdp.values[0]
               for name in ("NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD")}
print("FSDP 1 sends, in models:", *(f"{name} {x:.2f}" for name, x in by_strategy.items()))

# %% [markdown]
# ### DeepSpeed
#
# DeepSpeed is optional: `python3 tools/setup.py deepspeed` installs it, and then the next cells
# race it, too. (In float32: its gradients never travel in float64.)

# %% tags=["nbval-ignore-output"]
deep = {name: launch(try_engine, name, engines, text, steps, world_size=world_size, device="cpu")
        for name in (engines.DEEPSPEED if engines.HAS_DEEPSPEED else ())}
if not deep:
    print(engines.NO_DEEPSPEED)
Table([*heads, "time"], [[name, *told(numbers_of(name, run)),
                          f"{1e3 * max(seconds for _, seconds in run.values):.0f} ms"]
                         for name, run in deep.items()]) if deep else None

# %% tags=["nbval-ignore-output"]
Table(["", "calls of rank 0 in one step"],
      [[name, calls_of(run)] for name, run in deep.items()]) if deep else None

# %% [markdown]
# Its stages 1 and 2 all-reduce the gradients and then gather the parameters: 3(n-1)/n on every
# backend, the naive way. (`"use_multi_rank_bucket_allreduce": false` makes them reduce to the owner
# alone.) Its stage 3 keeps what it gathered in the forward, if it is used again within a billion
# numbers, and never splits tensors of up to 100,000: of a small model, the parameters stay whole.
# With three keys at 0, as in `RELEASED` of the lab, it is the paper's stage 3.
#
# What is missing in its columns, it keeps under other names: shards of gradients (stages 2 and 3)
# and parameters (stage 3), and a float32 master besides, are *other* or *communication* to
# `measure`.

# %% [markdown]
# Its settings are a JSON file. Here are the keys that a web page lists, with numbers where it has
# "auto". Three traps: "auto" is something that Hugging Face's Trainer fills in, while DeepSpeed
# alone silently takes its default; a batch size has to be there; and gradients are clipped at 1.0,
# unless another number is given.

# %%
deepspeed_json = """{
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": true},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu", "pin_memory": true},
        "overlap_comm": true,
        "contiguous_gradients": true,
        "sub_group_size": 1000000000,
        "reduce_bucket_size": 500000,
        "stage3_prefetch_bucket_size": 500000,
        "stage3_param_persistence_threshold": 10000
    }
}"""

def run_section(section, engines, text):
    """The section "zero_optimization" for real; and what DeepSpeed takes for "auto"."""
    make = partial(engines.DeepSpeed, section)
    gap, _ = engines.try_engine(make, engines.make_model(), text, steps=3)
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    auto = DeepSpeedZeroConfig(stage="auto", reduce_bucket_size="auto")
    return gap, int(auto.stage), auto.reduce_bucket_size

# %% tags=["nbval-ignore-output"]
if engines.HAS_DEEPSPEED:
    section = json.loads(deepspeed_json)["zero_optimization"]
    gap, auto_stage, auto_bucket = launch(run_section, section, engines, text, world_size=2,
                                          device="cpu").values[0]
    print(f"zero_optimization runs, {gap:.0e} from one process\n"
          f"\"auto\" means stage {auto_stage}, and a bucket of {auto_bucket:,} numbers")

# %% [markdown]
# ### To copy for real work
#
# FSDP2, for a model whose blocks are in `model.blocks`, in a script that `torchrun` starts; then
# train as usual, each rank with its own share of the batch.

# %%
def make_fsdp(model, device_mesh=None):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    settings = {
        "mesh": device_mesh,  # None: all ranks; HSDP: a 2-D mesh, ("replicate", "shard")
        "reshard_after_forward": True,  # False: keep parameters for the backward, as stage 2 does
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        # "offload_policy": torch.distributed.fsdp.CPUOffloadPolicy(),
    }
    for block in model.blocks:
        fully_shard(block, **settings)
    return fully_shard(model, **settings)

# %%
def sharded_in_bfloat16(make_fsdp, engines, simple_ddp, language_model, text):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(torch.get_default_device().type, (dist.get_world_size(),))
    model = make_fsdp(engines.make_model(), mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # after sharding, not before
    inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 8, 0))
    loss = language_model.mean_loss(model(inputs).float(), targets)
    loss.backward()
    optimizer.step()
    weight = model.blocks[0].mlp[0].weight
    return tuple(weight.shape), tuple(weight.to_local().shape), str(weight.dtype)

whole_shape, local_shape, dtype = launch(sharded_in_bfloat16, make_fsdp, engines, simple_ddp,
                                         language_model, text, world_size=2,
                                         device="cpu").values[0]
print(f"of a weight {whole_shape}, a rank of 2 holds {local_shape} in {dtype}: the master")

# %% [markdown]
# ## 8 · 70 billion on 8 GPUs
#
# A book chapter has a table for this case: 350, 210 and 105 GB for the three stages. Computed
# again, with its own 12 bytes for each parameter, and with the 16 that mixed precision has with a
# master:

# %%
def table_for(billions, n, each):
    split = {"DDP": (), "stage 1": STATES[2:], "stage 2": STATES[1:], "stage 3": STATES}
    return {stage: sum(billions * size / (n if kind in kinds else 1)
                       for kind, size in zip(STATES, each)) for stage, kinds in split.items()}

ours_12, ours_16 = table_for(70, 8, (2, 2, 8)), table_for(70, 8, (2, 2, 12))
Table(["", "book chapter", "12 bytes", "16 bytes"],
      [[stage, book, f"{ours_12[stage]:g} GB", f"{ours_16[stage]:g} GB"]
       for stage, book in zip(ours_12, ("840 GB", "350 GB", "210 GB", "105 GB"))])

# %% [markdown]
# Its 210 GB are 140 + 560/8: it has divided the gradients away altogether. With the gradients'
# shard it is 227.5.
#
# ## Put to the test
#
# What our sources say about ZeRO's communication, FSDP and DeepSpeed, and what was found.

# %% jupyter={"source_hidden": true}
sent, once = {name: found[3] for name, found in rows.items()}, (n - 1) / n
four = counts.index(4)
put_to_the_test(f"""
- 70B on 8 GPUs, ZeRO-1: 350 GB | book chapter | depends on what is counted | with 12 bytes
  {ours_12["stage 1"]:g}, with 16 {ours_16["stage 1"]:g}
- ZeRO-2: 210 GB | book chapter | wrong | {ours_12["stage 2"]:g} even with 12 bytes: the gradients'
  shard is missing. With 16: {ours_16["stage 2"]:g}
- ZeRO-3: 105 GB | book chapter | depends on what is counted | with 12 bytes
  {ours_12["stage 3"]:g}, with 16 {ours_16["stage 3"]:g}
- ZeRO-2 cuts communication from 3 θ to 2 θ | blog | depends | 3 θ is all-reduce and all-gather, as
  ZeroRedundancyOptimizer: {sent["ZeroRedundancyOptimizer"]:.2f} models. Stage 1 by reduce-scatter:
  {sent["ours, stage 1"]:.2f}, stage 2: {sent["ours, stage 2"]:.2f}
- ZeRO-1: 2 D in the backward and D in the step | book chapter | depends | the same naive way; D + D
  is enough
- DDP 2 D, ZeRO-2 D + D | book chapter | right | times (N-1)/N = {once:g}: {sent["DDP"]:.2f} and
  {sent["ours, stage 2"]:.2f}
- ZeRO-3: 2 D in the forward, 2 D in the backward, D in the step | book chapter | wrong | D in the
  forward, 2 D in the backward, 0 in the step: {3 * once:g} models; sent {sent["ours, stage 3"]:.2f}
""")

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- ZeRO-3 communicates 3 times as much as DDP | book chapter | wrong, contradicts itself |
  {sent["ours, stage 3"] / sent["DDP"]:.2f} times. FSDP2 on Gloo:
  {sent["FSDP2"] / sent["DDP"]:.2f} times, since its reduce-scatter is an all-reduce
- ZeRO-3 is about 50 % more | web page; CS 229S | right | {sent["ours, stage 3"] / sent["DDP"]:.2f}
- Every stage costs more communication | web page | wrong without accumulation | stages 1, 2, 3:
  {", ".join(f"{sent[f'ours, stage {k}'] / sent['DDP']:.2f}" for k in (1, 2, 3))} times DDP
- Bandwidth needed: ZeRO 3 > 2 > 1 | web note | wrong without accumulation | 3 > 2 = 1 = DDP; with
  4 micro-batches {", ".join(f"{sent_with[f'ours, stage {k}'][four]:.2f}" for k in (3, 2, 1))}
""")

# %% jupyter={"source_hidden": true}
seen = {name: run["step"].peak_bytes[0]["parameters"] / run.values[0][2]
        for name, run in cut_runs.items()}
put_to_the_test(f"""
- FSDP has one unit whole at a time | blog | imprecise | the rest's unit stays, and prefetching adds
  one; our stage 3 with blocks: {seen["block"]:.2f} models of parameters at most
- FSDP is ZeRO-3 | web note; web page; book chapter | imprecise | kept gathered: sent
  {rows["FSDP2, kept gathered"][4]:.2f} by textbook, as stage 2; hybrid: parameters are split only
  within a part of the ranks
- SHARD_GRAD_OP is ZeRO-2 | book chapter | imprecise | its parameters are split outside of the step,
  too: kept by a rank {rows["FSDP2, kept gathered"][0]:.2f} of them
- FSDP ignores a tensor's shape; tensor parallel splits along a dimension of the product | blog |
  right for FSDP 1 | flat, as ours. FSDP2 splits each tensor's first dimension: {whole_shape} into
  {local_shape}, whatever the product needs
- NO_SHARD is like DDP | book chapter | right | it sends {by_strategy["NO_SHARD"]:.2f} models, DDP
  {sent["DDP"]:.2f}
- Optimizer states are not needed in the forward | blog | right | section 5: on disk, read and
  written in step() alone, with the same weights: {same}
- The model and gradients fit: ZeRO-2; not: ZeRO-3; above 100B: with tensor parallel | book
  chapter | depends | if whole gradients fit, stage 1 is enough, and with micro-batches it sends
  less:   {sent_with["ours, stage 1"][four]:.2f} in place of {sent_with["ours, stage 2"][four]:.2f}
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(f"""
- Speed: ZeRO 1 > 2 > 3 | web note | depends | 1 and 2 send the same, 3 has to hide its gathers
  (section 3); this run:
  {", ".join(f"{times[f'ours, stage {k}']:.0f} ms" for k in (1, 2, 3))}. A batch that only stage 3
  has room for may turn it round
- Units of ZeRO-3 are too coarse; FSDP's are finer, hence faster | blog | wrong, by themselves |
  units: {", ".join(f"{u}: {1e3 * t:.0f} ms" for u, t in by_units.values())}
- A JSON with "auto" values | web page | depends | Hugging Face fills them in. DeepSpeed alone
  {f'takes "auto" for stage {auto_stage}' if deep else "is not installed here"}
- ZeRO-3 fragments memory; contiguous_gradients and prefetch tuning cure it | web page | imprecise |
  not tested (a CPU does not show it): contiguous_gradients copies gradients into one buffer;
  gathered parameters are a matter of persistence threshold and allocator
- DeepSpeed has more options to offload, FSDP is better integrated | web page | right | by their
  documentation: to NVMe, DeepSpeed alone; FSDP2 is plain PyTorch, with its checkpoints
- Fetching ahead hides communication | FSDP's paper | right | section 3: a step took
  {1e3 * took["on demand"]:.0f} ms, then {1e3 * took["fetched ahead"]:.0f}
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *The Evolution of Data Parallelism*
# (blog); *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8* (Stanford); a
# web note on types of distributed training.
#
# **To read on.** Zhao et al., [PyTorch FSDP](https://arxiv.org/abs/2304.11277), 2023. Ren et al.,
# [ZeRO-Offload](https://arxiv.org/abs/2101.06840), 2021. Rajbhandari et al.,
# [ZeRO-Infinity](https://arxiv.org/abs/2104.07857), 2021. PyTorch's
# [tutorial on FSDP2](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html).

# %% [markdown]
# ## What you have learnt
#
# * With micro-batches stage 2 reduces in each backward, stage 1 once: then stage 1 sends less.
# * Small units hold less at a time and cost more messages. Fetching ahead hides messages behind
#   computing.
# * Optimizer state is used in `step()` alone, so it can stand on a disk.
# * FSDP2 and DeepSpeed give the numbers of your stages. Over Gloo they send more bytes, as its
#   reduce-scatter is an all-reduce.
#
# **Your exercises**: those in cells above, and [labs/zero.py](../labs/zero.py); the engines are in
# [labs/sharding_engines.py](../labs/sharding_engines.py).
#
# **Next**: [07 · Tensor parallel](07_tensor_parallel.ipynb).

# %%
progress("06h")
