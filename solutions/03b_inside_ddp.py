# %% [markdown]
# # 03b · Inside DDP
#
# **How does `DistributedDataParallel` hide its communication?** In
# [03 · Data parallel](03_data_parallel.ipynb) you averaged each gradient by itself, after the
# backward. The result was right. Here you make it cheaper, in three steps: gradients travel in
# **buckets**; a bucket travels **while the backward is still running**; and with accumulation,
# gradients travel **once** in a step. PyTorch's DDP does the same. The next part,
# [03c](03c_ddp_at_work.ipynb), puts yours beside it.

# %% [markdown]
# ![Four ranks in the middle of a backward: the gradients of bucket 0 are ready, and its all-reduce
# begins while bucket 1 still waits](../assets/covers/03b_inside_ddp.png)
#
# *A frame of the film in section 2, recorded from four real ranks: a full bucket leaves while the
# backward goes on.*
#
# **After this part you can** write the buckets, the hooks and the `no_sync` of DDP, and say when
# communication hides behind the backward.
#
# **It takes** about 30 minutes, and 50 more for 7 exercises. **It needs** [03 · Data
# parallel](03_data_parallel.ipynb).

# %% jupyter={"source_hidden": true}
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, measure, plot_against, plot_step, plot_timeline,
    predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
train_steps = 15

# %%
data_parallel, visualizer = lab("data_parallel"), lab("gradient_sync_visualizer")
overlap, watch, replicas = lab("overlap"), lab("watch_loops"), lab("equal_replicas")
language_model, digits = lab("language_model"), lab("gradient_accumulation").digits()[:2]
text = language_model.standard_library()

# %% [markdown]
# ## 1 · Buckets
#
# The lab's small transformer has 29 gradients, and many of them are tiny. One all-reduce for each
# means 29 calls in every step. A call costs time even if it carries only a few bytes. So copy
# several gradients into one flat tensor, a **bucket**, and all-reduce that.

# %% [markdown]
# ### Exercise 3.8
#
# In [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py), write
# `make_buckets(parameters, bucket_bytes)`. `parameters` is `model.parameters()`, a generator. It
# returns a list of buckets, and each bucket is a list of the parameters themselves. The *last*
# parameter comes first. (Section 2 shows why.) A parameter goes into the last bucket. When the
# bytes in that bucket reach `bucket_bytes`, it is closed, and the next parameter begins a new one.
# A tensor is never split. Frozen parameters are in no bucket, and no bucket is empty.
#
# Parameters of 40, 8, 48 and 16 bytes and `bucket_bytes` 64 give buckets of [16, 48] and [8, 40]
# bytes.

# %% [markdown]
# ### Exercise 3.9
#
# In the same lab, [gradient_sync_visualizer](../labs/gradient_sync_visualizer.py), write
# `average_buckets(buckets, group=None)`. After a backward, it makes every `.grad` the mean over the
# ranks, with one all-reduce for each bucket. A `.grad` that is None counts as zeros, and gets the
# mean. The lab's `flatten(bucket)` makes one flat tensor of a bucket's gradients, and
# `unflatten(flat, bucket)` copies its parts back into the `.grad`.
#
# One bucket with the gradients [2] and [4, 6] on rank 0, [0] and None on rank 1: afterwards both
# have [1] and [2, 3].

# %%
display(check("3.8"), check("3.9"))

# %% [markdown]
# What do buckets save? Average the same gradients in six ways, on two ranks: each by itself, in
# buckets of four sizes, and all in one. (`device="cpu"` here and below where the kernel counts the
# bytes, or where computing is emulated. Everything else runs on NCCL as it is.)

# %%
model = language_model.Transformer()
gradients = len(list(model.parameters()))
bucketed = launch(visualizer.what_ways_cost, model, [3_000, 30_000, 100_000, 300_000],
                  world_size=2, device="cpu")
sent = [bucketed[label].sent_bytes[0] for label in bucketed.labels]
print(f"{gradients} gradients; all ways send the same bytes, within 5 % (headers):",
      max(sent) / min(sent) < 1.05)

# %% [markdown]
# So the bytes are equal, and only the number of calls differs. Chapter 02 has a model for this:
# time = calls × latency + bytes / bandwidth. For the latency we take the time of a small all-reduce
# by itself, when all ranks are ready and nothing else is going on. For the last term we take what
# *all in one* needs on top of one latency.

# %% tags=["nbval-ignore-output"]
times, alone = bucketed.values[0]
calls = {label: len(bucketed[label].calls[0]) for label in times}
model_says = {label: calls[label] * alone + max(times["all in one"] - alone, 0) for label in times}
Table(["", "all-reduces", "measured", "chapter 02's model"],
      [[label, calls[label], f"{1e3 * times[label]:.1f} ms", f"{1e3 * model_says[label]:.1f} ms"]
       for label in times], note=f"one small all-reduce by itself: {1e3 * alone:.2f} ms")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Whether the model explains what was measured, in words that the result chooses.
each, once = times["each by itself"], times["all in one"]
more = each / model_says["each by itself"]
fewer = f"{calls['each by itself']} calls take {each / once:.1f} times as long as one."
latency = ("The model explains it, within a factor of 1.5." if more < 1.5 else
           f"The model explains {1 / more:.0%} of it: in a crowd, each call costs more.")
tiny = ("Buckets of 3 kB save nothing here: copying into them costs, too."
        if times["buckets of 3 kB"] > 0.9 * each else "Even buckets of 3 kB save something.")
print(fewer, latency, tiny, sep="\n")

# %% [markdown]
# The model knows messages only. But each call also runs Python, copies and divides a gradient, and
# wakes a thread of Gloo, which needs one of this machine's cores. Part
# [02c](02c_what_a_message_costs.ipynb) takes that apart. The advice is the same whatever the
# reason: send the same bytes in fewer calls.

# %% [markdown]
# ## 2 · While the backward is running
#
# Now the communication is cheaper, but each rank still waits for all of it. It need not. A backward
# begins at the last layer, so the last layer's gradient is ready long before the first layer's. A
# bucket can leave as soon as its last gradient is there, and the backward goes on meanwhile.
#
# Who notices that a gradient is ready? A **hook**: a function that PyTorch calls. With
# `parameter.register_post_accumulate_grad_hook(function)`, autograd calls `function(parameter)`
# whenever it has put a complete gradient into `parameter.grad`.

# %% [markdown]
# ### Exercise 3.10
#
# Fill the three holes of the class `DDP` in [labs/data_parallel.py](../labs/data_parallel.py). Its
# constructor has made the buckets and registered the hooks.
#
# * `is_ready(parameter, number)` is called when the gradient of a parameter in bucket `number` is
#   complete. While `synchronizing` is True, it strikes the parameter off `self.missing[number]`,
#   and begins all buckets whose turn it is and from which nothing is missing. Otherwise it does
#   nothing.
# * `begin_next()` begins the all-reduce of the next bucket, with `self.all_reduce(flat,
#   self.group)`. It appends the flat tensor and the function that waits to `self.begun`.
# * `finish()` is called after the backward. It begins the buckets that are left (a parameter may
#   have had no part in the loss), waits for all, puts the means into `.grad`, and calls
#   `self.start_over()`.

# %% [markdown]
# Buckets begin in the order of their numbers, on every rank. If bucket 1 is complete before bucket
# 0, it waits for its turn, since ranks match collectives by the order of the calls. So with three
# buckets that become complete in the order 1, 0, 2, nothing begins at first; then 0 and 1 begin,
# one right after the other; then 2.

# %%
check("3.10")

# %% [markdown]
# Step through a training step, recorded from your class on real ranks. The numbers are the first
# element of each gradient. Forward goes layer by layer, and backward comes from the end. Buckets
# fill, and leave. When are the gradients of all ranks the same? (Each rank goes at its own pace.
# The film puts frames of the same number side by side.)

# %% tags=["cover"]
films = launch(overlap.filmed_step, digits, world_size=world_size, device="cpu").values

def draw_step(frame):
    return plot_step(films, frame)

explore(draw_step, frame=[8, *range(1, 8), *range(9, len(films[0].frames) + 1)])

# %% [markdown]
# They are the same when the averages are in place, right before the optimizer's step. A bucket's
# numbers are still different while it travels: the sum arrives in the flat tensor, and `finish`
# copies it back.

# %% [markdown]
# How much time does that save? Two busy ranks on two cores get in each other's way, so computing
# is **emulated** here: six layers sleep. Count time in forwards of one layer. Each layer's backward
# takes 2. Two layers share a bucket, and the links are throttled so that a bucket travels for 4.
#
# With all communication after the backward, the step takes
# $6\ (\text{forward}) + 12\ (\text{backward}) + 3 \cdot 4\ (\text{buckets}) = 30$. How long does it
# take if each bucket leaves as soon as it is full?

# %%
step_takes = predict("The step, if buckets leave as soon as they are full", unit="forwards")

# %% tags=["nbval-ignore-output"]
steps = launch(overlap.two_steps, world_size=2, device="cpu")
plot_timeline(steps, ["forward", "backward", "all_reduce"], below=["all_reduce"],
              title="A step with communication afterwards, and one with it meanwhile (emulated)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
afterwards, meanwhile = (overlap.quickest(steps, label) for label in ("afterwards", "meanwhile"))
step_takes.compare(6 + 12 + 4, meanwhile / overlap.SECONDS, kind="communication")

# %% [markdown]
# The first two buckets hide behind the backward. Only the last bucket is exposed: it is full when
# the backward ends. So the step takes $6 + 12 + 4 = 22$. And that is why buckets begin with the
# last parameters: filled from the front, every bucket would wait for the end.
#
# The same as a function, for buckets of any sizes and links of any speed:

# %%
def step_seconds(buckets, travel):
    """In forwards of a layer. `buckets`: layers in each, first to travel first.
    `travel`: how long the gradient of one layer travels."""
    now = link_is_free = sum(buckets)  # the forward
    for layers in buckets:
        now += 2 * layers  # backward of these layers
        link_is_free = max(link_is_free, now) + travel * layers
    return link_is_free

print("two layers in a bucket:", step_seconds([2, 2, 2], travel=2))

# %% [markdown]
# How large should a bucket be? Small ones leave earlier, and the last one is exposed for a shorter
# time. Here are buckets of 1, 2, 3 and 6 layers, on the same links and on links that are twice as
# slow, measured beside this function.

# %% tags=["nbval-ignore-output"]
per_bucket, speeds = [1, 2, 3, 6], {"fast links": 2, "slow links": 4}
measured, theory = {}, {}
for links, travel in speeds.items():
    run = launch(overlap.steps_with_buckets, per_bucket, travel, world_size=2, device="cpu")
    measured[links] = [overlap.quickest(run, str(k)) / overlap.SECONDS for k in per_bucket]
    theory[links] = [step_seconds([k] * (6 // k), travel) for k in per_bucket]
plot_against(per_bucket, measured, "layers in a bucket", "step (forwards of a layer)", theory,
             title="Large buckets hide less (emulated; the quickest of three rounds)")

# %% [markdown]
# With one bucket of six layers nothing overlaps. With slow links the network is the bottleneck. It
# is busy without a pause from the first bucket to the end, so the sooner the first bucket leaves,
# the sooner the step is over.
#
# Measured is always a little more: a sleep lasts longer than was asked for, and each call has its
# cost (section 1), which the function does not know. Where the measured line turns up at the left,
# six calls cost more than they hide. So make only the *first* bucket small. On slow links:

# %%
print("buckets of 2, 2, 2 layers:   ", step_seconds([2, 2, 2], travel=4))
print("buckets of 1, 2, 2, 1 layers:", step_seconds([1, 2, 2, 1], travel=4))

# %% [markdown]
# DDP does that: by default its first bucket is full at 1 MiB, and the others at 25 MiB. A smaller
# first bucket lets the all-reduce start sooner, says a comment in its
# [source](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/distributed.py).
#
# > **On GPUs** overlap has a price, too. NCCL's all-reduce runs as a kernel on the same
# > multiprocessors that compute the backward. NCCL has a
# > [setting](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html)
# > (`NCCL_CTA_POLICY_EFFICIENCY`) that takes fewer of them, for programs that need a better overlap
# > of computing and communication, says its documentation. So expect less than in the pictures
# > above, where layers sleep and leave the whole machine to communication.

# %% [markdown]
# And without emulation, here? Below, the lab trains the transformer for real, in four ways. Two
# ranks on two cores have no core to spare for carrying messages, so do not expect overlap to show.

# %% tags=["nbval-ignore-output"]
trained = launch(data_parallel.program, text, train_steps, world_size=2)
print(*trained.values[0], sep="\n")

# %% [markdown]
# All four reach the same loss, and their replicas are equal. How far apart the last three times are
# changes from run to run. So this machine shows that overlap is right, and the emulation shows what
# it can save. How much it does save on a cluster, only a cluster can tell.

# %% [markdown]
# ### Exercise 3.11
#
# A version without buckets: a hook averages each gradient as soon as it is there.
# `average_in_backward(model)` is called once, before the first backward. From then on:
#
# * A backward adds the *mean over the ranks* of its gradients to `.grad`. With gradients of 2 and 4
#   on two ranks, `.grad` is 3 on both. After the same backward again, without clearing, it is 6.
# * Each gradient is sent once, and when `backward()` returns, all is done.
# * A backward changes no weights. Parameters may be frozen, the same ones on all ranks. They have
#   no gradient, and stay frozen.
#
# Run the cell: on two ranks, it shows one weight and its gradient. Find the bugs, then run the
# check.

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

told = launch(watch.after_backward, average_in_backward, world_size=2, device="cpu").values
print(*told, sep="\n")

# %%
check("3.11", average_in_backward)

# %% [markdown]
# Is this one right where a second backward adds to the first? After the first, `.grad` holds a mean
# $m$, equal on all ranks. The second adds each rank's own gradient $g_r$, and the hook averages the
# sum: $\frac{1}{n}\sum_r (m + g_r) = m + \frac{1}{n}\sum_r g_r$. The mean of equal numbers is that
# number, so nothing is counted twice.

# %% [markdown]
# ## 3 · Not each time
#
# With accumulation (chapter 01) a step has several micro-batches, and their gradients add up in
# `.grad`. The mean over the ranks is needed once, before the optimizer's step. So all backwards but
# the last can be silent, and the last one sends the sums. DDP has a context manager for that,
# `with ddp.no_sync():`.

# %% [markdown]
# ### Exercise 3.12
#
# Write `no_sync(ddp)` in [labs/data_parallel.py](../labs/data_parallel.py), for the class `DDP` of
# exercise 3.10. It is a context manager. Inside `with no_sync(ddp):`, `ddp.synchronizing` is False,
# so backwards add up gradients and send nothing. At its end, `synchronizing` is what it was before.
# That also holds if an error is raised inside (the error goes on), and if one `no_sync` is inside
# another. It sends nothing, clears nothing, and does not call `finish()`.

# %%
check("3.12")

# %% [markdown]
# Four micro-batches on each of four ranks. How many bytes does a rank send, in sizes of the model:
# with the exchange in every backward, and with `no_sync` around all but the last one?

# %%
def accumulate(data_parallel, replicas, data, silent, micro_batches=4):
    ddp = data_parallel.DDP(replicas.classifier(hidden=400))
    parts = list(zip(*(x[:128].chunk(micro_batches) for x in data)))
    with measure("step"):
        for number, (images, labels) in enumerate(parts, 1):
            is_silent = silent and number < micro_batches
            with data_parallel.no_sync(ddp) if is_silent else nullcontext():
                (F.cross_entropy(ddp(images), labels) / micro_batches).backward()
            if not is_silent:
                ddp.finish()

# %%
model_bytes = sum(p.nbytes for p in replicas.classifier(hidden=400).parameters())
in_models = {}
for label, silent in {"each time": False, "no_sync": True}.items():
    run = launch(accumulate, data_parallel, replicas, digits, silent, world_size=world_size,
                 device="cpu")
    in_models[label] = run["step"].sent_bytes[0] / model_bytes
    print(f"{label:10} {in_models[label]:.1f} times the model")

# %% [markdown]
# One exchange sends $2\,(n-1)/n$ models from each of $n$ ranks, and four of them send four times
# as much.

# %% [markdown]
# ### Exercise 3.13
#
# `accumulate_step(model, loss_fn, micro_batches, optimizer)` is one training step, written without
# DDP. All ranks hold equal weights. `micro_batches` is a list of (inputs, targets), and all ranks
# have equally many. Every micro-batch of every rank has the same number of samples. The function
# takes *one* optimizer step, along the mean of the gradients over all micro-batches of all ranks,
# so that all ranks end with the weights of one process. It sends no more than one all-reduce of the
# gradients.
#
# Two ranks whose micro-batches have the gradients 1, 3 and 5, 7 step along 4. The code has a bug.
# Run the cell: the weights of the two ranks should be equal.

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

told = launch(watch.weight_after_step, accumulate_step, world_size=2, device="cpu").values
print(*told, sep="\n")

# %%
check("3.13", accumulate_step)

# %% [markdown]
# ### Exercise 3.14
#
# The same with PyTorch's DDP. `accumulate_ddp(ddp, loss_fn, micro_batches)` gets a model in
# `DistributedDataParallel`, whose gradients are cleared. `micro_batches` is as in 3.13; there may
# be a single one. Afterwards `.grad` is the mean over all micro-batches of all ranks, on every
# rank. It takes no optimizer step. Each micro-batch has a forward and a backward of its own, so
# that only one micro-batch's activations are held at a time. All together send one all-reduce of
# the gradients.
#
# The gradients of this code are right. Run the cell: with four micro-batches on two ranks, the call
# should send 1.0 times the gradients. Find the bug, then run the check.

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
check("3.14", accumulate_ddp)

# %% [markdown]
# The bug is easy to make, since nothing is wrong but the bytes. PyTorch's DDP decides in its
# *forward* whether the next backward communicates. So the forward has to be inside `no_sync`, too.
# (Your own class decides in the backward, in `is_ready`.)

# %% [markdown]
# ## Put to the test
#
# What our sources say about the inside of DDP, and what was found here.

# %% jupyter={"source_hidden": true}
# Which parts of a step communicate, and which part moves the weights.
def parts_of_a_step(replicas, data):
    model, n = replicas.classifier(hidden=400), dist.get_world_size()
    ddp, before = DistributedDataParallel(model), replicas.weights_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[dist.get_rank()::n] for x in data)
    with measure("forward"):
        loss = F.cross_entropy(ddp(images), labels)
    with measure("backward"):
        loss.backward()
    moved = not torch.equal(replicas.weights_of(model), before)
    with measure("step"):
        optimizer.step()
    return moved

parts = launch(parts_of_a_step, replicas, digits, world_size=world_size, device="cpu")
exchanges = {label: len(parts[label].calls[0]) for label in ("forward", "backward", "step")}
by_each = ", ".join(f"{sent / model_bytes:.1f}" for sent in parts["backward"].sent_bytes)
print("exchanges:", exchanges, "weights moved by the backward:", parts.values[0])

# %% jupyter={"source_hidden": true}
# When DDP's own buckets leave, as shares of the backward.
left = launch(overlap.when_buckets_leave, text, world_size=2, device="cpu").values[0]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The surprises. The table below has the other statements at a click.
surprises = f"""
- [C053] Gradients are accumulated on one node every few batches, and sent back | PyTorch slides,
  “Distributed Data Parallel works in the following way” | wrong | {exchanges["backward"]}
  all-reduce in each backward, and no rank in the middle: the ranks send {by_each} models. Every
  few batches only under no_sync (section 3)
- [C058] backward() leads to one central exchange, and updates the weights | PyTorch slides, “When
  does PyTorch synchronize gradients?” | wrong | weights have moved after backward():
  {parts.values[0]}. That is optimizer.step()
- [C060] DDP's all-reduce starts while the backward still runs | PyTorch slides,
  “Computation-Communication overlap”; book chapter, “PyTorch DistributedDataParallel (DDP)” |
  right | its {len(left)} buckets left after {", ".join(f"{x:.0%}" for x in left)} of the backward.
  What that saves: emulated, {1e3 * meanwhile:.0f} ms in place of {1e3 * afterwards:.0f} (section
  2)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C057] PyTorch synchronises at every loss.backward() | PyTorch slides, “When does PyTorch
  synchronize gradients?” | right | but under no_sync. Calls in a step: forward
  {exchanges["forward"]}, backward {exchanges["backward"]}, optimizer {exchanges["step"]}
- [C059] no_sync() leaves out synchronisation, for accumulation | PyTorch slides, “When does PyTorch
  synchronize gradients?” | right | 4 micro-batches: {in_models["no_sync"]:.1f} models sent, without
  it {in_models["each time"]:.1f} (section 3); the forward has to be under it (exercise 3.14)
- [C063] Bucketing is faster than one call for each gradient | PyTorch slides,
  “Computation-Communication overlap: bucketing”; book chapter, “Exercise 2: Gradient Bucketing” |
  right | {1e3 * each:.1f} ms one by one, {1e3 * once:.1f} ms in one (section 1)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *Data Parallelism Deep
# Dive* (book chapter).
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020: how DDP
# was built, with measurements on GPUs. Sergeev and Del Balso,
# [Horovod](https://arxiv.org/abs/1802.05799), 2018: buckets under the name of tensor fusion.

# %% [markdown]
# ## What you have learnt
#
# * Buckets send the same bytes in fewer calls, and calls cost time.
# * A full bucket can travel while the backward goes on. Exposed is what is left when the backward
#   ends: at least the last bucket, which has the gradients of the first layers.
# * All ranks begin their buckets in one order, whatever becomes ready first.
# * With accumulation only the last backward has to communicate. DDP decides that in its forward, so
#   `no_sync` must cover the forward, too.
#
# **Your exercises**: those in cells above, and
# [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py) and
# [labs/data_parallel.py](../labs/data_parallel.py).
#
# **Next**: [03c · DDP at work](03c_ddp_at_work.ipynb).

# %%
progress("03b")
