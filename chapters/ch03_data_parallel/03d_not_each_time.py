# %% [markdown]
# # {{title}}
#
# **When does DDP communicate, and how long does a step wait for it?** With accumulation a step has
# several backwards, and one exchange is enough. Here you write DDP's `no_sync`, and repair two
# loops in which the ranks exchange the wrong thing, or too much. Then `no_sync` becomes an
# instrument: it measures how long a step waits for communication.

# %% [markdown]
# ![Timeline of two steps of three micro-batches on two ranks: in the first one buckets travel in
# each backward, in the second one only in the last](../assets/covers/03d_not_each_time.png)
#
# *Measured in section 1, with emulated layers: a step of three micro-batches with an exchange in
# each backward, and one with `no_sync`.*
#
# **After this part you can** accumulate under DDP with one exchange for each step, and measure the
# exposed communication.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    check, hint, lab, launch, measure, plot_timeline, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4

# %% tags=["nbval-ignore-output"]
data_parallel, simple_ddp, overlap = lab("data_parallel"), lab("simple_ddp"), lab("overlap")
watch, replicas, language_model = lab("watch_loops"), lab("equal_replicas"), lab("language_model")
text, digits = language_model.standard_library(), lab("gradient_accumulation").digits()[:2]

# %% [markdown]
# ## 1 · Not each time
#
# With accumulation a step has several micro-batches, and their gradients add up in `.grad`. The
# mean over the ranks is needed once, before the optimizer's step. So all backwards but the last can
# be silent, and the last one sends the sums. DDP has a context manager for that,
# `with ddp.no_sync():`.

# %% [markdown]
# ### Exercise {{no_sync}} · Suspend gradient communication in a block
#
# Write `no_sync(ddp)` in [labs/data_parallel.py](../labs/data_parallel.py), for the class `DDP` of
# exercise {{ddp}}. It is a context manager. Above it stands `@contextlib.contextmanager`: what you
# write before `yield` runs when the `with` block begins, and what you write after it runs at its
# end.
#
# Inside `with no_sync(ddp):`, `ddp.synchronizing` is False, so backwards add up gradients and send
# nothing. At the end of the block, `synchronizing` is what it was before. That also holds if an
# error is raised inside (the error goes on), and if one `no_sync` is inside another. Nothing else
# changes: it sends nothing, clears nothing, and does not call `finish()`.
#
# If `synchronizing` was True, it is False in the block, and True again afterwards.

# %%
check("{{no_sync}}")

# %% [markdown]
# A step has four micro-batches on each rank, and `no_sync` stands around all but the last backward.
# How many bytes does a rank send in the step? Count in sizes of the model.

# %%
silent_sends = predict(f"4 micro-batches on {world_size} ranks, with no_sync: a rank sends",
                       unit="models")

# %%
def accumulate(data_parallel, replicas, data, silent, micro_batches=4):
    ddp = data_parallel.DDP(replicas.classifier(hidden=400))
    parts = list(zip(*(x[:128].chunk(micro_batches) for x in data)))
    with measure("step"):
        for number, (images, labels) in enumerate(parts, 1):
            is_silent = silent and number < micro_batches
            maybe_silent = data_parallel.no_sync(ddp) if is_silent else nullcontext()
            with maybe_silent:
                (F.cross_entropy(ddp(images), labels) / micro_batches).backward()
            if not is_silent:
                ddp.finish()

# %%
model_bytes = sum(p.nbytes for p in replicas.classifier(hidden=400).parameters())
in_models = {}
for label, silent in {"each time": False, "no_sync": True}.items():
    run = launch(accumulate, data_parallel, replicas, digits, silent, world_size=world_size,
                 device="cpu")  # Linux counts the bytes
    in_models[label] = run["step"].sent_bytes[0] / model_bytes
    print(f"{label:10} {in_models[label]:.1f} times the model")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
once = 2 * (world_size - 1) / world_size
silent_sends.compare(once, in_models["no_sync"], kind="communication")

# %% [markdown]
# One exchange sends $2\,(n-1)/n$ models from each of $n$ ranks. Without `no_sync`, four exchanges
# send four times as much.
#
# What does that save in time? Here are two steps of three micro-batches, with the sleeping layers
# and the throttled links of part 03c. Each all-reduce carries a bucket of two layers.

# %% tags=["cover", "nbval-ignore-output"]
steps = launch(overlap.compare_no_sync, world_size=2, device="cpu")
plot_timeline(steps, ["forward", "backward", "all_reduce"], below=["all_reduce"],
              title="An exchange in each backward, and then one for the whole step (emulated)")

# %% [markdown]
# In the first step each micro-batch ends with a pause: both ranks wait for their buckets. The
# second step has one such pause, at its end.

# %% [markdown]
# ### Exercise {{accumulate_step}} · Debug accumulation without DDP
#
# `accumulate_step(model, loss_fn, micro_batches, optimizer)` is a training step without DDP. All
# ranks hold equal weights. `micro_batches` is a list of (inputs, targets), perhaps of a single one.
# All ranks have equally many, and all have the same number of samples.
#
# The function takes *one* optimizer step, along the mean of the gradients over all micro-batches of
# all ranks. So all ranks end with the weights of one process. What was in `.grad` before does not
# count. Each gradient is sent once.
#
# Example: the micro-batches of rank 0 have the gradients 1 and 3, those of rank 1 have 5 and 7. The
# step follows 4.
#
# The code has a bug. Run the cell: both ranks should end with the same weight.

# %%
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        for accumulated, gradient in zip(total, torch.autograd.grad(loss, parameters)):
            ### BEGIN SOLUTION
            accumulated += gradient
            if number == len(micro_batches):  # the last one
                dist.all_reduce(accumulated)
                accumulated /= dist.get_world_size()
            ### IT WAS
            # if number == len(micro_batches):  # the last one
            #     dist.all_reduce(gradient)
            #     gradient /= dist.get_world_size()
            # accumulated += gradient
            ### END SOLUTION
    for parameter, accumulated in zip(parameters, total):
        parameter.grad = accumulated
    optimizer.step()

told = launch(watch.weight_after_step, accumulate_step, world_size=2, device="cpu").values
print(*told, sep="\n")

# %%
check("{{accumulate_step}}", accumulate_step)

# %% [markdown]
# ### Exercise {{accumulate_ddp}} · Debug accumulation with DDP
#
# The same with PyTorch's DDP. `accumulate_ddp(ddp, loss_fn, micro_batches)` gets a model in
# `DistributedDataParallel`, whose gradients are cleared. `micro_batches` is as in
# {{accumulate_step}}; there may be a single one. Afterwards `.grad` is the mean over all
# micro-batches of all ranks, on every rank. It takes no optimizer step. Each micro-batch
# has a forward and a backward of its own, so that only one micro-batch's activations are
# held at a time. In the whole call, each gradient is sent once. Afterwards `ddp`
# communicates as before.
#
# The gradients of this code are right, but it sends too much: with four micro-batches on two ranks
# it should send 1.0 times the gradients (one exchange: $2 \cdot 1/2$). Run the cell, find the bug,
# then run the check.

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

run = launch(watch.send_in_call, accumulate_ddp, world_size=2, device="cpu")
print(f"sent: {run['call'].sent_bytes[0] / run.values[0]:.1f} times the gradients")

# %%
check("{{accumulate_ddp}}", accumulate_ddp)

# %% [markdown]
# ## 2 · What a step waits for
#
# Two ranks process twice as many samples in a step. Communication may eat up that gain. How long
# does a step of DDP wait for it? DDP communicates *while* the backward runs (part 03c), so a clock
# around the all-reduce cannot tell. Take a difference: a backward with communication, minus one
# without.
#
# The difference is the **exposed communication**: the time in which the rank only waits. It waits
# for messages, or for a slower rank, since an all-reduce ends when the last rank has come. (Part
# 03h tells the two apart.) The work of DDP's hooks is in it, too. The difference says nothing about
# the bytes: with perfect overlap it is near zero, and just as many bytes travel.

# %% [markdown]
# ### Exercise {{time_step}} · Time a step's exposed communication
#
# Write `time_step(ddp, loss_fn, inputs, targets)` in
# [labs/simple_ddp.py](../labs/simple_ddp.py). It gets a model in `DistributedDataParallel`, a
# function `loss_fn(outputs, targets)`, and this rank's batch. It returns three numbers of seconds:
#
# 1. a forward, with the loss,
# 2. a backward *without* communication,
# 3. a backward *with* communication, minus the second number (it may come out negative).
#
# `with ddp.no_sync():` switches communication off, if forward *and* backward are under it. Two
# forwards and two backwards are enough. Read the clock with the lab's `now()`. Weights stay as they
# are, and afterwards `ddp` communicates as before.
#
# If a forward takes 2 s, a backward under `no_sync` 5 s and one with communication 8 s, return
# 2, 5, 3.

# %% tags=["nbval-ignore-output"]
display(check("{{time_step}}"))
print(launch(simple_ddp.overhead, text, world_size=2).values[0])

# %% [markdown]
# These are medians of 20 steps, and they change from run to run. Two ranks on two cores have no
# core to spare for communication, so these numbers say little about a cluster.
#
# > **On GPUs**, a call returns before its work is done: kernels are queued, and Python goes on
# > ([CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)).
# > A clock that does not wait for the GPU measures the time to queue. So `now()` calls
# > `torch.cuda.synchronize()` first.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the exchange, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
told = launch(simple_ddp.overhead, text, world_size=2).values[0]
by_ddp, calls = run["call"].sent_bytes[0] / run.values[0], len(run["call"].calls[0])
put_to_the_test(f"""
- [C091] Backward's time includes communication | book chapter, “Exercise 3: Measure Communication
  Overhead” | right for DDP | which it profiles: {told} (section 2, exercise {{time_step}}, run once
  more in this section). That is only what is exposed. Where gradients are averaged by hand after
  the backward, it includes none | measured: on GPUs a clock needs torch.cuda.synchronize() first,
  as backward() returns before the GPU is done
- [C059] no_sync() leaves out synchronisation, for accumulation | PyTorch slides, “When does PyTorch
  synchronize gradients?” | {"right" if by_ddp < 1.5 else "not here"} | PyTorch's DDP, 4
  micro-batches on 2 ranks: calls {calls}, sent {by_ddp:.1f} times the gradients (section 1,
  exercise {{accumulate_ddp}}, run). The DDP of section 1, on {world_size} ranks: {in_models["no_sync"]:.1f}
  models, without it {in_models["each time"]:.1f} (the same section, run). The forward has to be
  under it, too | measured: nothing; no_sync leaves DDP's hooks out, on every backend
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed training with PyTorch*,
# slides of a video course ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).

# %% [markdown]
# ## What you have learnt
#
# * With accumulation only the last backward has to communicate. It sends the sums.
# * PyTorch's DDP decides in its forward whether the backward communicates, so `no_sync` must cover
#   the forward, too.
# * A backward with communication minus one without is the *exposed* communication.
#
# **Your exercises**: {{accumulate_step}} and {{accumulate_ddp}} stand in cells above, and
# [labs/data_parallel.py](../labs/data_parallel.py) and [labs/simple_ddp.py](../labs/simple_ddp.py)
# have {{no_sync}} and {{time_step}}.
#
# **Next**: {{next}}.

# %%
progress("03d")
