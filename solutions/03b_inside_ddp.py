# %% [markdown]
# # 03b · Inside DDP
#
# **How does `DistributedDataParallel` hide its communication, and where does it go wrong?** In the
# first part, [03 · Data parallel](03_data_parallel.ipynb), you trained with an all-reduce for each
# gradient, after the backward. That is right, and slow. Here it becomes quick in three steps:
# gradients travel in *buckets*; they travel *while* the backward is still running; and with
# accumulation they do *not* travel each time. Then comes the real one: the same numbers, the same
# bytes, and the mistakes that it does not tell you about.
#
# Exercises stand in cells and in two labs:
# [gradient_sync_visualizer](../labs/gradient_sync_visualizer.py) and
# [data_parallel](../labs/data_parallel.py).

# %% [markdown]
# ![Four ranks in the middle of a backward: the gradients of bucket 0 are ready, and its all-reduce
# begins while bucket 1 still waits](../assets/covers/03b_inside_ddp.png)
#
# *A frame of the film in section 2, recorded from four real ranks: a full bucket leaves while the
# backward goes on.*
#
# **After this part you can** write the buckets, the hooks and `no_sync` of DDP, and recognise the
# mistakes of which it says nothing.
#
# **It takes** about 30 minutes, and 50 more for 7 exercises. **It needs** [03 · Data
# parallel](03_data_parallel.ipynb).

# %% jupyter={"source_hidden": true}
import copy
import os
import textwrap
import time
from contextlib import nullcontext
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    RankError, Table, check, close, explore, film_step, hint, lab, launch, measure,
    plot_against, plot_bars, plot_step, plot_timeline, predict, progress, put_to_the_test,
    throttle,
)

# %% tags=["parameters"]
world_size = 4
train_steps = 15

# %%
data_parallel, simple_ddp = lab("data_parallel"), lab("simple_ddp")
visualizer, collectives = lab("gradient_sync_visualizer"), lab("collectives")
language_model = lab("language_model")
text, digits = language_model.standard_library(), lab("gradient_accumulation").digits()

def make_classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 10)).double()

def tiny():
    return language_model.Transformer(16, layers=1, context=16, tied=True).double()

# %% [markdown]
# ## 1 · Buckets
#
# The small transformer has some thirty gradients, many of them tiny. Each is an all-reduce of its
# own: thirty times the latency. The answer of Horovod (a library of 2017), and of DDP: copy several
# into one flat tensor, a **bucket**, and all-reduce that.
#
# ### Exercise 3.8
#
# In [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py), write `make_buckets`.
# It begins with the *last* parameters, since their gradients are ready first; section 2 shows what
# that is good for.
#
# ### Exercise 3.9
#
# Write `average_buckets` in
# [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py).

# %%
display(check("3.8"), check("3.9"))

# %%
def average_in_ways(visualizer, model, sizes):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    ways, times = {}, {}
    for size in sizes:
        ways |= visualizer.ways(model, size)
    ways["all in one"] = ways.pop("all in one")  # to the end
    for name, way in ways.items():
        with measure(name):
            way()
        times[name] = visualizer.seconds_of(way)
    return times

sizes = [3_000, 30_000, 100_000, 300_000]
bucketed = launch(average_in_ways, visualizer, language_model.Transformer(), sizes, world_size=2,
                  device="cpu")
sent = {label: bucketed[label].sent_bytes[0] for label in bucketed.labels}
alike = max(sent.values()) / min(sent.values()) < 1.05
print("all ways send the same bytes, within 5 % (headers):", alike)

# %% tags=["nbval-ignore-output"]
times = bucketed.values[0]
Table(["", "all-reduces", "time"],
      [[label, len(bucketed[label].calls[0]), f"{1e3 * times[label]:.1f} ms"]
       for label in bucketed.labels])

# %% [markdown]
# The same bytes, in an all-reduce for each gradient or in one for all: what is saved is latency.
#
# ## 2 · While the backward is running
#
# The last layer's gradient is ready long before the first layer's. So a bucket need not wait for
# the end: as soon as its last gradient is there, its all-reduce can begin, while the backward goes
# on. PyTorch calls a function when a gradient is complete, if asked by
# `parameter.register_post_accumulate_grad_hook(function)`: a **hook**.
#
# ### Exercise 3.10
#
# Fill the three holes of the class `DDP` in [labs/data_parallel.py](../labs/data_parallel.py).

# %%
check("3.10")

# %% [markdown]
# Two busy ranks on two cores get in each other's way when one communicates while it computes; GPUs
# with their own network cards do not. To *see* the overlap, computing is emulated: each of six
# layers sleeps as long as a real one was measured to take, twice that in the backward. Its gradient
# is of real size, and your ring of chapter 02 carries it in a thread of its own. Links are
# throttled: a bucket of two layers travels as long as their backward takes.
#
# First all communication after the backward, then as soon as a bucket is full. So with one layer's
# forward as the unit: $6 + 12 + 12 = 30$, and then? By how much is the second step shorter?

# %%
def measured_layer(width=512, rows=1024):
    layer, x, times = nn.Linear(width, width), torch.ones(rows, width), []
    for _ in range(7):
        began = time.perf_counter()
        layer(x)
        times.append(time.perf_counter() - began)
    return sum(p.numel() for p in layer.parameters()), median(times)

class Slept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, seconds):
        ctx.weight, ctx.seconds = weight, seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        time.sleep(2 * ctx.seconds)
        return slope, torch.ones_like(ctx.weight), None

class SleptLayer(nn.Module):
    def __init__(self, numbers, seconds):
        super().__init__()
        self.weight, self.seconds = nn.Parameter(torch.ones(numbers)), seconds

    def forward(self, x):
        return Slept.apply(x, self.weight, self.seconds)

# %%
def one_step(data_parallel, collectives, numbers, seconds, overlapping):
    def ring(x, group=None):
        with measure("all_reduce", memory=False):
            collectives.all_reduce_ring(x, group)

    model = nn.Sequential(*(SleptLayer(numbers, seconds) for _ in range(6)))
    begin = data_parallel.in_background(ring) if overlapping else lambda x, group: lambda: ring(x)
    ddp = data_parallel.DDP(model, 8 * numbers, begin)
    with measure("meanwhile" if overlapping else "afterwards", memory=False):
        with measure("forward", memory=False):
            y = ddp(torch.ones(1))
        with measure("backward", memory=False):
            y.backward()
        ddp.finish()

def both_steps(one_step, data_parallel, collectives, numbers, seconds):
    with throttle(4 * numbers / (2 * seconds)):
        collectives.all_reduce_ring(torch.ones(4))  # the first messages open the connections
        for overlapping in (False, True):
            dist.barrier()
            one_step(data_parallel, collectives, numbers, seconds, overlapping)

# %%
shorter = predict("The step with communication meanwhile is shorter by", unit="%")

# %% tags=["nbval-ignore-output"]
layer = launch(measured_layer, world_size=1, device="cpu").values[0]
overlap = launch(both_steps, one_step, data_parallel, collectives, *layer, world_size=2,
                 device="cpu")
for label in ("afterwards", "meanwhile"):
    print(f"one step, communication {label}: {1e3 * max(overlap[label].seconds):.0f} ms")
plot_timeline(overlap, ["forward", "backward", "all_reduce"], below=["all_reduce"],
              title="A step with communication afterwards, and one with it meanwhile (emulated)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
afterwards, meanwhile = (max(overlap[label].seconds) for label in ("afterwards", "meanwhile"))
shorter.compare(100 * (1 - 22 / 30), 100 * (1 - meanwhile / afterwards), kind="communication")

# %% [markdown]
# Three buckets. Only the last one still has to travel when the backward is done: its gradients are
# those of the first layers, and they come last. That is why buckets are filled from the end. *Break
# it*: one large bucket, `10**9` in place of `8 * numbers`, overlaps with nothing.
#
# Does it show on this machine, without emulation? Two ranks on two cores have no core to spare for
# carrying messages. Below, the lab's four ways to train the transformer, for real. What buckets
# save is plain; how far apart the last three are changes from run to run (run it again).

# %% tags=["nbval-ignore-output"]
trained = launch(data_parallel.program, text, train_steps, world_size=2)
print(*trained.values[0], sep="\n")

# %% [markdown]
# Step through a training step, as it was recorded from your class: forward layer by layer, backward
# from the end, buckets that fill and leave, averages, and the step of the optimizer. The numbers
# are the first element of each gradient. From which frame on do all ranks hold the same? (Frames of
# the ranks are matched by their number: each rank goes at its own pace.)

# %% tags=["cover"]
def film_a_step(data_parallel, data):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(),
                          nn.Linear(16, 10)).double()
    ddp = data_parallel.DDP(model, bucket_bytes=2_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[32 * dist.get_rank():][:32] for x in data[:2])
    with film_step(model, ddp.buckets) as film:  # around one step
        F.cross_entropy(ddp(images - 0.5), labels).backward()
        ddp.finish()
        optimizer.step()
    return film

films = launch(film_a_step, data_parallel, digits, world_size=world_size, device="cpu").values

def draw_step(frame):
    return plot_step(films, frame)

explore(draw_step, frame=[8, *range(1, 8), *range(9, len(films[0].frames) + 1)])

# %% [markdown]
# ### Exercise 3.11
#
# Published teaching code: hooks average each gradient as soon as it is there. After every backward
# `.grad` is to be the mean over all ranks, also where a second backward adds to the first. Each
# gradient travels once, and a backward changes no weights. Parameters may be frozen, the same on
# all ranks, and stay so. Find the bugs.

# %%
def average_in_backward(model):
    def average(parameter):
        ### BEGIN SOLUTION
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
        ### IT WAS
        # dist.all_reduce(parameter.data)
        # parameter.data /= dist.get_world_size()
        ### END SOLUTION

    for parameter in model.parameters():
        ### BEGIN SOLUTION
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
        ### IT WAS
        # parameter.register_post_accumulate_grad_hook(average)
        ### END SOLUTION

check("3.11", average_in_backward)

# %% [markdown]
# ## 3 · Not each time
#
# With accumulation (chapter 01), a step has several micro-batches, and gradients add up locally.
# Only the sum has to travel: every backward but the last should be silent. DDP has a context
# manager for that, `with ddp.no_sync():`. Put forward *and* backward under it: the real DDP decides
# in its forward whether the backward will communicate, your own class in the backward.
#
# ### Exercise 3.12
#
# Write `no_sync` in [labs/data_parallel.py](../labs/data_parallel.py), for your own class.

# %%
check("3.12")

# %%
def accumulate(data_parallel, make_classifier, data, micro_batches=4):
    ddp = data_parallel.DDP(make_classifier())
    theirs = DistributedDataParallel(make_classifier())
    parts = [(x, y) for x, y in zip(*(z[:128].chunk(micro_batches) for z in data[:2]))]
    for label, model, quiet in (("ours", ddp, lambda: data_parallel.no_sync(ddp)),
                                ("DDP", theirs, theirs.no_sync),
                                ("DDP, each time", theirs, nullcontext)):
        model.zero_grad()
        with measure(label):
            for number, (images, labels) in enumerate(parts, 1):
                with quiet() if number < micro_batches else nullcontext():
                    (F.cross_entropy(model(images), labels) / micro_batches).backward()
            if model is ddp:
                ddp.finish()

accumulated = launch(accumulate, data_parallel, make_classifier, digits, world_size=world_size,
                     device="cpu")
model_bytes = sum(p.nbytes for p in make_classifier().parameters())
for label in accumulated.labels:
    print(f"{label:15} {accumulated[label].sent_bytes[0] / model_bytes:.2f} times the model")

# %% [markdown]
# $2\,(n-1)/n$ models for one exchange; without `no_sync`, as much for each of the micro-batches.
#
# ### Exercise 3.13
#
# Published teaching code: a step of one replica, which has the same weights as the others, over
# its own micro-batches. Each rank has the same number of micro-batches, and all are equally large.
# The step is to be that of one process with the micro-batches of all ranks, and to send no more
# than one all-reduce of the gradients. Find the bug.

# %%
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        gradients = torch.autograd.grad(loss, parameters)
        ### BEGIN SOLUTION
        for accumulated, gradient in zip(total, gradients):
            accumulated += gradient
    for accumulated in total:
        dist.all_reduce(accumulated)
        accumulated /= dist.get_world_size()
        ### IT WAS
        # if inputs is micro_batches[-1][0]:  # the last one
        #     for gradient in gradients:
        #         dist.all_reduce(gradient)
        #         gradient /= dist.get_world_size()
        # for accumulated, gradient in zip(total, gradients):
        #     accumulated += gradient
        ### END SOLUTION
    for parameter, accumulated in zip(parameters, total):
        parameter.grad = accumulated
    optimizer.step()

check("3.13", accumulate_step)

# %% [markdown]
# ### Exercise 3.14
#
# Published teaching code, with DistributedDataParallel. Gradients are cleared before the call, and
# the step comes after it. Each rank has the same number of micro-batches, and all are equally
# large; each has a forward and a backward of its own. `.grad` is to be the mean over the
# micro-batches of all ranks, on every rank, and what is sent is one all-reduce of the gradients.
# Find the bug.

# %%
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        ### BEGIN SOLUTION
        is_last = number == len(micro_batches)
        with nullcontext() if is_last else ddp.no_sync():
            loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
            loss.backward()
        ### IT WAS
        # loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        # if number == len(micro_batches):
        #     loss.backward()  # the gradients are averaged here
        # else:
        #     with ddp.no_sync():
        #         loss.backward()
        ### END SOLUTION

check("3.14", accumulate_ddp)

# %% [markdown]
# ## 4 · The real one
#
# `DistributedDataParallel(model)` does all of this in C++. The same gradients as your class, and
# the same bytes? And which buckets does it make? A **communication hook** is asked for each bucket
# what to do with it, so it can also look on. (In the first iteration DDP does not know yet in which
# order gradients become ready: all go in one bucket. Then it builds its buckets, and where
# `bucket_cap_mb` is not set, the first of them is small, 1 MiB.)

# %%
def beside_the_real_one(data_parallel, model, loss_fn, batch):
    ours = data_parallel.DDP(copy.deepcopy(model), 25 * 2**20)
    real, (inputs, targets) = DistributedDataParallel(model), batch
    for _ in range(3):
        for label, ddp, finish in (("ours", ours, ours.finish), ("DDP", real, lambda: None)):
            ddp.zero_grad()
            loss = loss_fn(ddp(inputs), targets)
            with measure(label):
                loss.backward()
                finish()
    pairs = zip(ours.model.parameters(), real.module.parameters())
    return all(close(a.grad, b.grad) for a, b in pairs)

batch = language_model.draw_batch(text, 8, 0, 16)
both = launch(beside_the_real_one, data_parallel, tiny(), language_model.mean_loss, batch,
              world_size=world_size, device="cpu")
print("the same gradients, but for rounding:", all(both.values))
ratio = both["ours"].sent_bytes[0] / both["DDP"].sent_bytes[0]
print("the same bytes within 0.5 %:", abs(ratio - 1) < 0.005)

# %%
def look_on(seen, bucket):
    seen.append(bucket.buffer().nbytes)
    average = bucket.buffer() / dist.get_world_size()
    return dist.all_reduce(average, async_op=True).get_future().then(lambda f: f.value()[0])

def buckets_of(make_model, cap_mb, iterations=12):
    ddp, x = DistributedDataParallel(make_model(), bucket_cap_mb=cap_mb), torch.ones(8, 512)
    seen, buckets, times = [], [], []
    ddp.register_comm_hook(seen, look_on)
    for _ in range(iterations):
        seen.clear()
        began = time.perf_counter()
        ddp(x).sum().backward()
        times.append(time.perf_counter() - began)
        buckets.append([round(nbytes / 2**20, 2) for nbytes in seen])
    return buckets[0], buckets[-1], median(times[4:])

def eight_layers(*between):
    return nn.Sequential(*(make() for _ in range(8) for make in
                           (lambda: nn.Linear(512, 512), *between)))

caps = {cap: launch(buckets_of, eight_layers, cap, world_size=2, device="cpu").values[0]
        for cap in (None, 25, 4, 0.1)}

# %% tags=["nbval-ignore-output"]
Table(["bucket_cap_mb", "buckets at first (MiB)", "from the second iteration on", "step"],
      [[cap or "not set", *(" ".join(map(str, sizes)) for sizes in buckets),
        f"{1e3 * seconds:.1f} ms"] for cap, (*buckets, seconds) in caps.items()])

# %% [markdown]
# Buckets are not of equal size: they are filled until they reach the cap, and a tensor is never
# split. 25 MiB is the default. Which is best depends on the model and on the links; between the
# processes of one computer the times in the last column change from run to run.
#
# DDP counts on every parameter to have a gradient in every backward. If a layer is not used, it
# waits for the rest of a bucket, and says so when the next iteration begins:

# %%
class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(512, 512), nn.Linear(512, 512)

    def forward(self, x, both=True):
        return self.second(self.first(x)) if both else self.first(x)

def skip_a_layer(**options):
    ddp = DistributedDataParallel(TwoLayers(), **options)
    for _ in range(2):
        ddp(torch.ones(8, 512), both=False).sum().backward()
    return ddp.module.second.weight.grad is None

try:
    launch(skip_a_layer, world_size=2, device="cpu")
except RankError as error:
    print(textwrap.fill(str(error.exception).split(" to `torch")[0], 84))
mended = launch(lambda: skip_a_layer(find_unused_parameters=True), world_size=2, device="cpu")
print("with find_unused_parameters=True, .grad of the unused layer is None:", mended.values[0])

# %% [markdown]
# `find_unused_parameters=True` walks through the graph before each backward, and tells the others
# which parameters had no part. `static_graph=True` promises that it is always the same ones.
#
# And gradients are not all that travels. *Buffers*, such as BatchNorm's running statistics, go from
# rank 0 to all in each forward. A *communication hook* may send something else: gradients in
# bfloat16 are half the bytes. What does each of these cost, beside plain DDP?

# %%
def in_bfloat16(state, bucket):
    half = (bucket.buffer() / dist.get_world_size()).bfloat16()
    future = dist.all_reduce(half, async_op=True).get_future()
    return future.then(lambda f: bucket.buffer().copy_(f.value()[0]))

def variants(eight_layers, in_bfloat16):
    torch.manual_seed(0)
    model = eight_layers()
    yield "plain", DistributedDataParallel(model)
    yield "find_unused_parameters", DistributedDataParallel(model, find_unused_parameters=True)
    yield "static_graph", DistributedDataParallel(model, static_graph=True)
    yield "with BatchNorm", DistributedDataParallel(eight_layers(lambda: nn.BatchNorm1d(512)))
    hooked = DistributedDataParallel(model)
    hooked.register_comm_hook(None, in_bfloat16)
    yield "bfloat16 hook", hooked

# %%
def what_it_costs(variants, eight_layers, in_bfloat16):
    x, times, gradients = torch.randn(8, 512), {}, {}
    for name, ddp in variants(eight_layers, in_bfloat16):
        spent = []
        for number in range(16):
            ddp.zero_grad()
            began = time.perf_counter()
            with measure(f"{name}: forward") if number == 5 else nullcontext():
                y = ddp(x).square().mean()
            with measure(f"{name}: backward") if number == 5 else nullcontext():
                y.backward()
            spent.append(time.perf_counter() - began)
        times[name], gradients[name] = median(spent[6:]), ddp.module[0].weight.grad.clone()
    plain, half = gradients["plain"], gradients["bfloat16 hook"]
    return times, ((half - plain).norm() / plain.norm()).item()

# %%
options = launch(what_it_costs, variants, eight_layers, in_bfloat16, world_size=2, device="cpu")
kilobytes = {name: [options[f"{name}: {part}"].sent_bytes[0] / 1e3
                    for part in ("forward", "backward")] for name in options.values[0][0]}
print(f"bytes in bfloat16: {kilobytes['bfloat16 hook'][1] / kilobytes['plain'][1]:.2f} of plain")

# %% tags=["nbval-ignore-output"]
times, bfloat16_error = options.values[0]
Table(["", "rank 0 sends in the forward", "in the backward", "all-reduces", "time"],
      [[name, *(f"{kb:.1f} kB" for kb in kilobytes[name]),
        len(options[f"{name}: backward"].calls[0]), f"{times[name] / times['plain']:.2f} of plain"]
       for name in times], note=f"bfloat16 changes the gradient by {bfloat16_error:.2%}")

# %% [markdown]
# `find_unused_parameters` costs one small all-reduce more, BatchNorm a broadcast in each forward,
# and the hook halves the bytes. (Times are for these links: nothing goes over a network here.)
#
# Replicas stay equal only as long as all take the same steps from the same start. Here are four
# ways to lose that, and none of them raises an error: every backward under `no_sync`; a forward
# that calls `ddp.module` in place of `ddp`; averaged gradients, but no broadcast at the start; a
# learning rate that follows each rank's own loss. After ten steps, how far apart are two replicas,
# relative to how far one of them has moved?

# %%
def drift(mistake, simple_ddp, data):
    torch.manual_seed(dist.get_rank())
    model = nn.Linear(64, 10).double()
    by_hand = mistake == "start not made equal"
    ddp = model if by_hand else DistributedDataParallel(model)
    optimizer, start = torch.optim.SGD(model.parameters(), lr=0.5), model.weight.detach().clone()
    mine = simple_ddp.share_of_rank([x[:1280] for x in data[:2]])
    for images, labels in zip(*(x.split(64) for x in mine)):
        called = model if mistake == "ddp.module called" else ddp
        with ddp.no_sync() if mistake == "no_sync everywhere" else nullcontext():
            optimizer.zero_grad()
            loss = F.cross_entropy(called(images), labels)
            loss.backward()
        if by_hand:
            simple_ddp.average_gradients(model)
        if mistake == "learning rate by own loss":
            optimizer.param_groups[0]["lr"] = 0.25 * loss.item()
        optimizer.step()
    return model.weight.detach(), (model.weight - start).norm().item()

# %%
mistakes = ("none", "no_sync everywhere", "ddp.module called", "start not made equal",
            "learning rate by own loss")
apart_after = {}
for mistake in mistakes:
    (one, moved), (other, _) = launch(drift, mistake, simple_ddp, digits, world_size=2,
                                      device="cpu").values
    apart_after[mistake] = (one - other).norm().item() / moved

print("without a mistake, replicas are bitwise equal:", apart_after["none"] == 0)
plot_bars(mistakes, {"distance": list(apart_after.values())}, "distance apart / distance moved",
          title="Two replicas that should be one")

# %% [markdown]
# Calling `ddp.module` goes past DDP's forward, in which it prepares to communicate: the same as
# `no_sync`. A different start never goes away, for averaged gradients move both replicas alike. The
# last one is small, and grows with every step. What helps: compare the replicas now and then, as
# `apart` in [labs/data_parallel.py](../labs/data_parallel.py) does.

# %% [markdown]
# ## 5 · What binds
#
# How fast *can* a step be? Three rates bound it: arithmetic, memory, network. A book chapter
# writes: throughput ≈ min(compute, memory, network). As times, for $P$ parameters in float32, $b$
# samples on each rank, and $n$ ranks:
#
# $$t_\text{compute} = \frac{6\,b\,P}{\text{FLOP/s}} \qquad t_\text{memory} \approx
#   \frac{6\cdot 4P}{\text{memory bytes/s}} \qquad t_\text{network} = \frac{2(n-1)}{n}\,
#   \frac{4P}{\text{link bytes/s}}$$
#
# (The first 6: each weight of a linear layer is multiplied and added once for each sample, in the
# forward, and twice as often in the backward. The second: weights are read in forward and backward,
# gradients written and read, weights read and written.) Measure this machine's three rates,
# predict, and check.

# %%
def median_seconds(now, job, rounds=6):
    times = []
    for _ in range(rounds):
        dist.barrier()
        began = now()
        job()
        times.append(now() - began)
    return median(times[2:])

def rates(seconds_of):
    square, n = torch.ones(1024, 1024), dist.get_world_size()
    long, out = torch.ones(16_000_000), torch.ones(16_000_000)
    part = long[:2_000_000]
    return (2 * 1024**3 / seconds_of(lambda: square @ square),
            2 * long.nbytes / seconds_of(lambda: out.copy_(long)),  # reads one, writes one
            2 * (n - 1) / n * part.nbytes / seconds_of(lambda: dist.all_reduce(part)))

def parts_of_step(seconds_of, rows, width=1024, layers=4):
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=1e-6), torch.randn(rows, width)
    flat = torch.ones(layers * width**2)

    def local():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return seconds_of(local), seconds_of(lambda: dist.all_reduce(flat))

# %% tags=["nbval-ignore-output"]
seconds_of = partial(median_seconds, simple_ddp.now)
flops, memory_rate, network_rate = launch(rates, seconds_of, world_size=2).values[0]
print(f"for each of two ranks: {flops / 1e9:.0f} GFLOP/s, memory {memory_rate / 1e9:.1f} GB/s, "
      f"network {network_rate / 1e9:.1f} GB/s")
samples, P = [1, 4, 16, 64, 256], 4 * 1024**2
found = [launch(parts_of_step, seconds_of, b, world_size=2).values[0] for b in samples]
local, network = ([1e3 * pair[k] for pair in found] for k in (0, 1))
predicted_local = [1e3 * max(6 * b * P / flops, 24 * P / memory_rate) for b in samples]
plot_against(samples, {"forward, backward, step": local, "all-reduce": network},
             "samples on each rank", "time (ms)",
             {"forward, backward, step": predicted_local,
              "all-reduce": [1e3 * 2 * (2 - 1) / 2 * 4 * P / network_rate] * len(samples)},
             logarithmic=True,
             title="What binds: four layers of 1024 × 1024 on two ranks")

# %% [markdown]
# On the left memory binds, and the line rises slowly: one sample or four, all weights have to come
# by. On the right arithmetic binds: four times the samples take three to four times as long.
# Where the line of the all-reduce lies above the other, the network binds: larger local batches,
# accumulation, or fewer bytes would help, and faster arithmetic would not help at all.
#
# "≈ min" of rates means max of *times*, and that is true only as far as all three overlap. In
# section 2 the times added up, until communication ran meanwhile.

# %% [markdown]
# ## Put to the test
#
# What our sources say about DDP and its inside, and what was found.

# %% jupyter={"source_hidden": true}
def looked_at(make_classifier, data):
    model, n = make_classifier(), dist.get_world_size()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[dist.get_rank()::n] for x in data[:2])
    before = model[0].weight.detach().clone()
    with measure("forward"):
        loss = F.cross_entropy(ddp(images), labels)
    with measure("backward"):
        loss.backward()
    moved_by_backward = bool((model[0].weight != before).any())
    with measure("step"):
        optimizer.step()
    return moved_by_backward

looked = launch(looked_at, make_classifier, digits, world_size=world_size, device="cpu")
calls = {label: len(looked[label].calls[0]) for label in ("forward", "backward", "step")}
print("exchanges:", calls)

# %% jupyter={"source_hidden": true}
def when_buckets_leave(language_model, text):
    ddp, times = DistributedDataParallel(language_model.Transformer(), bucket_cap_mb=0.1), []

    def note_time(state, bucket):
        times.append(time.perf_counter())
        return look_on([], bucket)

    ddp.register_comm_hook(None, note_time)
    inputs, targets = language_model.draw_batch(text, 16, 0)
    for _ in range(4):
        times.clear()
        loss = language_model.mean_loss(ddp(inputs), targets)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
    began, *left, ended = times
    return [(moment - began) / (ended - began) for moment in left]

def samples_per_second(data_parallel, language_model, text, each=16):
    model, n = language_model.Transformer(), dist.get_world_size()
    ddp = DistributedDataParallel(model)
    *_, seconds = data_parallel.train(ddp, lambda: None, text, 10, each * n)
    return each * n / seconds

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
ddp_sent = accumulated["DDP"].sent_bytes[0] / model_bytes
left = launch(when_buckets_leave, language_model, text, world_size=2, device="cpu").values[0]
put_to_the_test(f"""
- Gradients are accumulated on one node, and returned every few batches | PyTorch slides |
  wrong | {calls["backward"]} all-reduce in each backward, and no rank in the middle: sent
  {", ".join(f"{b / model_bytes:.1f}" for b in looked["backward"].sent_bytes)} models
- Every loss.backward() synchronises | PyTorch slides | right, but under no_sync | calls: forward
  {calls["forward"]}, backward {calls["backward"]}, step {calls["step"]}
- backward() updates the weights, too | PyTorch slides | wrong | after backward() weights have
  moved: {looked.values[0]}. That is optimizer.step()
- no_sync() leaves synchronisation out, for accumulation | PyTorch slides | right |
  4 micro-batches: {ddp_sent:.1f} models sent, without it
  {accumulated["DDP, each time"].sent_bytes[0] / model_bytes:.1f}; if the forward is under it, too
- DDP's all-reduce starts while the backward still runs | PyTorch slides; book chapter | right |
  its {len(left)} buckets left after {", ".join(f"{x:.0%}" for x in left)} of the backward
- Buckets are of equal size | PyTorch slides | wrong | MiB: {caps[None][1]} by default, and all in
  one at first, {caps[None][0]}
- 25 MB is the recommended size | PyTorch slides | imprecise | it is the default (of MiB). The best
  depends: here {", ".join(f"{1e3 * t:.0f} ms ({c or 'not set'})" for c, (_, _, t) in caps.items())}
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
each, once = (bucketed.values[0][way] for way in ("each by itself", "all in one"))
put_to_the_test(f"""
- Bucketing is faster than a call for each gradient | PyTorch slides; book chapter | right |
  {1e3 * each:.1f} ms one by one, {1e3 * once:.1f} ms in one (section 1)
- Gradients are DDP's only communication | web note | imprecise | buffers go in each forward:
  {kilobytes["with BatchNorm"][0]:.1f} kB for 8 BatchNorm layers; find_unused_parameters sends
  {1e3 * (kilobytes["find_unused_parameters"][1] - kilobytes["plain"][1]):.0f} bytes more
- A process may have several GPUs; NCCL synchronises | web note | imprecise | one GPU for each
  process, except where a model is split. Here: {looked.backend} on {looked.device}
- DDP uses a ring all-reduce | handwritten notes; blog | imprecise | the backend chooses (NCCL:
  rings, trees, ...). Gloo's bytes are a ring's: {ddp_sent:.1f} models on {world_size} ranks
- find_unused_parameters=True is for dynamic graphs | web page | right | section 4: without it, an
  error in the next iteration
- The all-reduce of DDP divides by the world size | web page | imprecise | DDP divides, not the
  all-reduce: a communication hook has to do it itself (`look_on` in section 4)
- Backward's time includes communication | book chapter | right for DDP | that is why exercise 3.4
  subtracts a backward under no_sync; on GPUs, synchronise before reading the clock
""")

# %% jupyter={"source_hidden": true}
def steps_to(goal, batch, data, rates=(0.5, 1.0), limit=200):
    """The fewest steps to a training loss, with the best of some learning rates."""
    fewest, (images, labels) = limit, (data[0].float(), data[1])
    for rate in rates:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for step in range(1, fewest):
            some = torch.randint(len(labels), (batch,))
            optimizer.zero_grad()
            F.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
            with torch.no_grad():
                reached = step % 5 == 0 and F.cross_entropy(model(images), labels) < goal
            if reached:
                fewest = step
                break
    return fewest

needed = {batch: steps_to(0.25, batch, digits) for batch in (16, 64, 256, 1024)}
device = "auto" if torch.cuda.device_count() >= 4 else "cpu"  # one kind for all three
throughput = {n: launch(samples_per_second, data_parallel, language_model, text, world_size=n,
                        device=device).values[0] for n in (1, 2, 4)}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
gpt3, seven = 175e9, 2 * 7 / 8 * 2 * 7e9  # weights; bytes that a rank of 8 sends for 7B in bf16
put_to_the_test(f"""
- Data parallel raises throughput, as the batch grows | CS 229S | depends | here, ranks: samples/s:
  {", ".join(f"{n}: {x:.0f}" for n, x in throughput.items())}. But steps to a loss of 0.25:
  {", ".join(f"{n} with batches of {b}" for b, n in needed.items())}: at last, more samples in a
  step hardly save steps
- Scaling is near-linear | web page | depends | {throughput[2] / throughput[1]:.2f} times with 2
  ranks, {throughput[4] / throughput[1]:.2f} with 4; this machine has {os.cpu_count()} cores, and
  more busy ranks than that cannot help
- Weights and activations have to fit; GPT-3 does not fit into 80 GB | CS 229S; web note | right |
  {gpt3 * 2 / 1e9:.0f} GB of weights in 2 bytes; with gradients and Adam's state
  {gpt3 * 16 / 1e12:.1f} TB (chapter 05)
- It communicates a lot: every weight, each time | CS 229S | right | 7B in bf16 on 8 ranks:
  {seven / 1e9:.1f} GB sent by each in a step: {seven / 125e6:.0f} s at 1 Gbit/s, {seven / 25e9:.2f}
  s at 25 GB/s
- Throughput is about min(compute, memory, network) | book chapter | imprecise | only with full
  overlap: {1e3 * max(overlap["afterwards"].seconds):.0f} ms one after another,
  {1e3 * max(overlap["meanwhile"].seconds):.0f} ms meanwhile
- Memory bound? Use ZeRO-3 | book chapter | wrong | that bound is of bandwidth: here
  {memory_rate / 1e9:.1f} GB/s. ZeRO-3 saves capacity, and sends more
- If everything fits, DDP is the fastest | book chapter | depends | fewest bytes, most overlap;
  chapter 06 races it
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020: how DDP
# was built, with measurements. Sergeev and Del Balso, [Horovod](https://arxiv.org/abs/1802.05799),
# 2018: tensor fusion. Goyal et al., [Accurate, Large Minibatch
# SGD](https://arxiv.org/abs/1706.02677), 2017, and McCandlish et al., [An Empirical Model of
# Large-Batch Training](https://arxiv.org/abs/1812.06162), 2018: how large a batch may be.

# %% [markdown]
# ## What you have learnt
#
# * Buckets save latency. A bucket that is full can travel while the backward is still running.
# * With accumulation only the last backward has to synchronise. `no_sync` must cover the forward,
#   too.
# * DDP sends as many bytes as your own version, and gives the same gradients.
# * Replicas drift apart without an error if DDP's forward is bypassed. If they start unequal, they
#   stay so.
#
# **Your exercises**: those in cells above, and
# [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py) and
# [labs/data_parallel.py](../labs/data_parallel.py).
#
# **Next**: [04 · Checkpoints](04_failure_and_recovery.ipynb).

# %%
progress("03b")
