# %% [markdown]
# # 03c · DDP at work
#
# **What does `DistributedDataParallel` do for you, and what does it leave to you?** In
# [03b](03b_inside_ddp.ipynb) you wrote buckets, hooks and `no_sync` yourself. Here you work with
# the real class. First you compare it with yours. Then you look at what it sends and what it keeps
# in memory. Then come BatchNorm, ranks with fewer batches, padded sentences, and replicas that
# drift apart: there DDP alone does not give you the training of one process.

# %% [markdown]
# ![Lines over training steps: the distance between two replicas grows without synchronisation,
# stays if the start was unequal, shrinks with weight decay](../assets/covers/03c_ddp_at_work.png)
#
# *Measured in section 8: how far two replicas drift apart that should be equal. No error is
# raised.*
#
# **After this part you can** read DDP's options, count what it sends, train with BatchNorm, with
# uneven inputs and with padded sentences, and find replicas that drift apart.
#
# **It takes** about 35 minutes, and 15 more for 1 exercise. **It needs** [03b · Inside
# DDP](03b_inside_ddp.ipynb).

# %% jupyter={"source_hidden": true}
import copy
import textwrap
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms import Join
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    HangError, RankError, Table, check, close, hint, lab, launch, measure, plot_against,
    plot_stacks, predict, progress, put_to_the_test, relative_gap,
)

# %% tags=["parameters"]
world_size = 4
drift_steps = 500

# %%
data_parallel, language_model = lab("data_parallel"), lab("language_model")
options, counted = lab("ddp_options"), lab("counted_over_ranks")
text, digits = language_model.standard_library(), lab("gradient_accumulation").digits()

# %% [markdown]
# ## 1 · The same numbers, the same bytes
#
# DDP does the same as your class of 03b, in C++. Does it leave the same gradients, and does it send
# the same number of bytes? Both classes get the same model and the same batch. (The ranks run on
# the CPU wherever bytes are compared: there the kernel counts them.)

# %%
def side_by_side(data_parallel, model, loss_fn, batch):
    yours = data_parallel.DDP(copy.deepcopy(model))
    real, (inputs, targets) = DistributedDataParallel(model), batch
    for label, ddp in {"yours": yours, "DDP": real}.items():
        for _ in range(3):
            ddp.zero_grad()
            loss = loss_fn(ddp(inputs), targets)
            with measure(label):
                loss.backward()
                if ddp is yours:
                    ddp.finish()
    return [[p.grad for p in ddp.parameters()] for ddp in (yours, real)]

# %%
model = language_model.Transformer(16, layers=1, context=16, tied=True).double()
batch = language_model.draw_batch(text, 8, 0, 16)
both = launch(side_by_side, data_parallel, model, language_model.mean_loss, batch,
              world_size=world_size, device="cpu")
print("the same gradients, but for rounding:", all(close(*pair) for pair in both.values))
ratio = both["yours"].sent_bytes[0] / both["DDP"].sent_bytes[0]
print("the same bytes within 0.5 %:", abs(ratio - 1) < 0.005)

# %% [markdown]
# To whom do the bytes go? DDP does not choose that: it calls `all_reduce`, and the backend chooses.
# A ring can be recognised by its partners. In a ring, a rank sends everything to one neighbour.

# %%
sent_to = both["DDP"].traffic()
to_one = [max(row) / sum(row) for row in sent_to]
neighbours = {(row.index(max(row)) - rank) % world_size for rank, row in enumerate(sent_to)}
print("over 95 % of what a rank sends goes to one rank:", min(to_one) > 0.95)
print("and that is the same neighbour for all ranks:", len(neighbours) == 1)

# %% [markdown]
# So Gloo uses a ring here. The number of bytes would not tell: halving-doubling of part
# [02c](02c_what_a_message_costs.ipynb) sends equally many, to $\log_2 n$ partners.
#
# **On GPUs** NCCL has rings, trees and others. It chooses by the size of the call, the number of
# machines and their links, says one of its developers ([issue
# 754](https://github.com/NVIDIA/nccl/issues/754)). So "DDP uses a ring" is true here, and not in
# general.

# %% [markdown]
# ## 2 · Its buckets
#
# Which gradients travel together? DDP does not print it. But it lets you replace its all-reduce by
# a function of your own, a **communication hook**. DDP calls the hook with each bucket that is
# full. The hook begins an all-reduce and returns a *future*, which will have the result. This hook
# does what DDP does, and notes the bucket's size.

# %%
def note_size(sizes, bucket):
    sizes.append(round(bucket.buffer().nbytes / 2**20, 2))  # in MiB
    average = bucket.buffer() / dist.get_world_size()
    future = dist.all_reduce(average, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])

# %% [markdown]
# The model has eight layers of 512 × 512, which are 8 MiB of gradients. Each choice of options gets
# a model of its own. The times are medians. In brackets stands the range of eight rounds in ten.

# %%
choices = {"default": {}, "bucket_cap_mb=25": {"bucket_cap_mb": 25},
           "bucket_cap_mb=4": {"bucket_cap_mb": 4}, "bucket_cap_mb=0.1": {"bucket_cap_mb": 0.1},
           "find_unused_parameters=True": {"find_unused_parameters": True}}
buckets = {name: launch(options.buckets_of, note_size, chosen, world_size=2).values[0]
           for name, chosen in choices.items()}
times = launch(options.step_times, list(choices.values()), world_size=2).values[0]

# %% tags=["nbval-ignore-output"]
def shown(sizes):
    return " ".join(map(str, sizes)) if len(sizes) < 6 else f"{len(sizes)} of {sizes[0]}"

Table(["options", "first iteration (MiB)", "from the second on", "forward and backward"],
      [[name, shown(first), shown(last), options.median_and_range(seconds)]
       for (name, (first, _, last)), seconds in zip(buckets.items(), times)])

# %% [markdown]
# Three things can be read from the table.
#
# * **Buckets are not equally large.** A bucket is closed when it reaches the cap. A tensor is never
#   split.
# * **In the first iteration all gradients are in one bucket.** DDP does not know yet in which order
#   they become ready. Then it builds its buckets anew. Where `bucket_cap_mb` is not set, the first
#   bucket has only 1 MiB, so that communication can begin early.
# * **With `find_unused_parameters=True` this is different.** DDP makes two buckets at once and
#   keeps them. The small one holds the first layers, so it leaves last.
#
# Which cap is best depends on model and links. Where two ranges overlap, these times do not tell.

# %% [markdown]
# ## 3 · What else travels
#
# DDP expects a gradient of every parameter in every backward. What if a layer is not used? Then its
# bucket never becomes full. DDP notices it when the next forward begins.

# %%
def skip_a_layer(options, find):
    ddp = DistributedDataParallel(options.TwoLayers(), find_unused_parameters=find)
    for _ in range(2):
        ddp(options.some_inputs(), both=False).sum().backward()
    return ddp.module.second.weight.grad is None

try:
    launch(skip_a_layer, options, False, world_size=2)
except RankError as error:
    print(textwrap.fill(str(error.exception).split(" to `torch")[0], 84))
found = launch(skip_a_layer, options, True, world_size=2)
print("with find_unused_parameters=True, .grad of the unused layer is None:", found.values[0])

# %% [markdown]
# With `find_unused_parameters=True`, DDP walks through the graph before each backward. Then all
# ranks tell each other which parameters they have used. That is one more all-reduce. If the same
# parameters are unused in every step, `static_graph=True` promises it to DDP, and the walk is
# needed once.
#
# Gradients are not all that travels. **Buffers** are tensors of a model that are not trained, such
# as BatchNorm's running mean. In each forward DDP sends the buffers of rank 0 to all others. How
# many bytes does each of these cost?

# %% tags=["nbval-ignore-output"]
models = {
    "plain": ([], {}),
    "find_unused_parameters": ([], {"find_unused_parameters": True}),
    "static_graph": ([], {"static_graph": True}),
    "with BatchNorm": ([nn.BatchNorm1d], {}),
    "BatchNorm, buffers not synced": ([nn.BatchNorm1d], {"forward_sync_buffers": False}),
}
sent = launch(options.send_with, models, world_size=2, device="cpu")
Table(["", "rank 0 sends in a forward", "in a backward", "all-reduces"],
      [options.what_was_sent(name, sent) for name in models])

# %% [markdown]
# `find_unused_parameters` costs one small all-reduce more. BatchNorm costs a broadcast in each
# forward, and its own weights are in the backward. Until PyTorch 2.12 the option was called
# `broadcast_buffers`; since 2.13 it is deprecated, and `forward_sync_buffers` takes its place. (Not
# quite: with `broadcast_buffers=False`, buffers were not made equal at the start either.)

# %% [markdown]
# A hook may send something else than the gradients. PyTorch has hooks that send fewer bytes; part
# [03f](03f_fewer_bytes.ipynb) measures them. But who divides by the number of ranks? Here is a hook
# that sums up, and does nothing more.

# %%
def only_sum(state, bucket):
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])

def gradient_with(options, hook=None):
    ddp = DistributedDataParallel(options.eight_layers())
    if hook:
        ddp.register_comm_hook(None, hook)
    ddp(options.some_inputs()).sum().backward()
    return ddp.module[0].weight.grad

plain = launch(gradient_with, options, world_size=world_size).values[0]
summed = launch(gradient_with, options, only_sum, world_size=world_size).values[0]
print(f"with this hook, gradients are {summed.norm() / plain.norm():.2f} times as large")

# %% [markdown]
# The gradients are $n$ times too large. `all_reduce` sums. It is DDP that divides, and it does so
# only if there is no hook. **Your hook has to divide.** Nothing reports it if it does not: the
# training goes on with $n$ times the learning rate.

# %% [markdown]
# ## 4 · Memory
#
# Take plain SGD, without momentum. When the optimizer takes its step, a rank holds the weights and
# the gradients. What does DDP add to these two models?

# %%
held = predict("A rank with DDP and plain SGD holds, in the step, so many models", unit="models")

# %%
def hold(options, view):
    with measure("from the start"):  # so that all its tensors are known
        ddp = DistributedDataParallel(options.eight_layers(), gradient_as_bucket_view=view)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
        for step in range(3):
            optimizer.zero_grad()
            ddp(options.some_inputs()).sum().backward()
            with measure(f"step {step}"):
                optimizer.step()
    return sum(p.nbytes for p in ddp.parameters())

# %% tags=["nbval-ignore-output"]
of_view = {view: launch(hold, options, view, world_size=2, device="cpu") for view in (False, True)}
model_bytes = of_view[False].values[0]
names = {False: "default", True: "gradient_as_bucket_view=True"}
plot_stacks({names[view]: run["step 2"].peak_bytes[0] for view, run in of_view.items()},
            title="What a rank holds in the optimizer's step (communication: the buckets)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
peak = {view: run["step 2"].peak_bytes[0]["total"] / model_bytes
        for view, run in of_view.items()}
held.compare(3, peak[False], kind="communication")

# %% [markdown]
# Weights, gradients, and the buckets: three models. Buckets are tensors of their own. DDP copies
# each gradient into its bucket, and the average back.
#
# With `gradient_as_bucket_view=True`, each `.grad` is a piece of its bucket. Nothing is copied, and
# one model of memory is saved, from the second iteration on. The price is small, says its
# documentation: you cannot call `detach_()` on such gradients. With Adam a rank holds two models
# more in any case (chapter 05).

# %% [markdown]
# ## 5 · BatchNorm across ranks
#
# Now the cases in which the gradients are averaged correctly, and the result is still another one.
#
# BatchNorm subtracts the mean of the *batch* and divides by its standard deviation. Under DDP a
# rank sees only its own samples. So it takes their mean, and another rank takes another mean. How
# far are the gradients from those of one process that has all twelve samples?

# %%
alone = launch(counted.one_backward, nn.BatchNorm1d, world_size=1).values[0]

def off_by(norm, n):
    """The largest difference from one process, on any rank: of gradients, and of statistics."""
    on_ranks = launch(counted.one_backward, norm, world_size=n).values
    return [max(relative_gap(each[what][name], alone[what][name])
                for each in on_ranks for name in alone[what]) for what in (0, 1)]

for n in (2, 4):
    gradients, running = off_by(nn.BatchNorm1d, n)
    print(f"{n} ranks: gradients off by {gradients:.0%} of the largest, running statistics by",
          f"{running:.0%}")

# %% [markdown]
# The fewer samples a rank has, the more it matters: with three samples on each rank, a mean is
# mostly chance. And the running mean, which is used after the training, is that of rank 0's samples
# alone: in each forward DDP overwrites the others with it.
#
# PyTorch's answer is `SyncBatchNorm`. One call, `convert_sync_batchnorm`, replaces all BatchNorm
# layers of a model. On the CPU it does not run:

# %%
def with_sync_batch_norm():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16))
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model))

try:
    launch(with_sync_batch_norm, world_size=2, device="cpu")
except RankError as error:
    print(type(error.exception).__name__, error.exception)

# %% [markdown]
# So write it. The mean and the variance follow from three sums: of $x$, of $x^2$, and the number of
# samples. All ranks add up their sums. Then all of them use the same mean and the same variance.
#
# One thing is easy to miss. The gradient has to go back through this sum, too: a sample on rank 0
# changes the mean that rank 1 uses. `dist.all_reduce` has no backward. The lab's `sum_over_ranks`
# has one: [`SumOverRanks`](../labs/counted_over_ranks.py), eight lines.

# %%
class SyncedNorm(nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        sums = torch.cat([x.sum(0), x.square().sum(0), x.new_tensor([len(x)])])
        total, squares, count = counted.sum_over_ranks(sums).split([x.shape[1], x.shape[1], 1])
        mean = total / count
        variance = squares / count - mean.square()
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias

# %%
for n in (2, 3, 4):
    print(f"{n} ranks: gradients and running statistics of one process to 1e-12:",
          max(off_by(SyncedNorm, n)) < 1e-12)

# %% [markdown]
# **On GPUs** `SyncBatchNorm` does the same. It wants one GPU for each process, and
# `convert_sync_batchnorm` has to come *before* the model is wrapped ([its
# documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html)). Each
# such layer communicates in the forward and in the backward, and the next layer waits for it. In
# float32, the mean of $x^2$ minus the squared mean loses digits. PyTorch's layer combines the means
# and variances of the ranks instead. LayerNorm and GroupNorm have none of these questions: they
# look at one sample alone.

# %% [markdown]
# ## 6 · A rank has fewer batches
#
# Rank 0 has six batches, rank 1 has four. After the fourth, rank 1 is done. Rank 0 takes its fifth
# batch and waits in the backward for gradients that never come.

# %%
def train(counted, together=nullcontext, **how):
    model = counted.start_model()
    ddp, optimizer = DistributedDataParallel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    with measure("loop"), together([ddp], **how):
        for inputs, targets in counted.uneven_batches(dist.get_rank()):
            optimizer.zero_grad()
            F.mse_loss(ddp(inputs), targets).backward()
            optimizer.step()
    return counted.weights_of(model)

try:
    launch(train, counted, world_size=2, timeout=3)
except HangError as error:
    for rank, place in error.waits.items():
        print(f"rank {rank}", f"waits in {place.call}" if place else "is done")

# %% [markdown]
# On a cluster you would only see that nothing happens: part [03h](03h_when_it_hangs.ipynb) is about
# that. There are two ways out. `DistributedSampler` gives all ranks equally many samples (part
# [03](03_data_parallel.ipynb)). If that is impossible, PyTorch has `Join`. It is a context manager
# around the training loop. A rank that is done stays in it, and answers the all-reduces of the
# others with zeros. PyTorch calls it a prototype ([its
# tutorial](https://docs.pytorch.org/tutorials/advanced/generic_join.html)).
#
# By which number does it divide in step 5, where one of two ranks has a batch? You can choose:
# always by 2, or by the number of ranks that still have one. The lab's `train_alone` does the same
# in one process.

# %%
def train_joined(train, Join, counted, initial):
    return train(counted, Join, divide_by_initial_world_size=initial)

joined = {initial: launch(train_joined, train, Join, counted, initial, world_size=2, device="cpu")
          for initial in (True, False)}
for initial in (True, False):
    by_one_process = counted.train_alone(always_by_2=initial)
    same = all(close(weights, by_one_process) for weights in joined[initial].values)
    print(f"divide_by_initial_world_size={initial}: as one process: {same}")
calls = [call.name for call in joined[True]["loop"].calls[0]]
print("all-reduces of rank 0 in its six iterations:", calls.count("all_reduce"))

# %% [markdown]
# With `True`, the default, every sample counts the same as all others, and the last steps are
# shorter. With `False`, the last steps are as long as the others, and the samples of the rank with
# more batches count more. Both can be right. Know which one you have.
#
# The price: about three all-reduces in each iteration in place of one, as ranks first ask who is
# still there. At the end, one rank broadcasts its model. `Join` knows only of DDP's own calls. An
# all-reduce of your own in the loop, or `SyncBatchNorm`, makes it hang again.

# %% [markdown]
# ## 7 · Tokens
#
# A rank's batch has sentences, and sentences have different lengths. `F.cross_entropy` gives the
# mean over the rank's own tokens. DDP gives the mean over the ranks. Is that the mean over all
# tokens?
#
# Rank 0 has 2 tokens, rank 1 has 8. How many times as much does a token of rank 0 count as a token
# of rank 1?

# %%
times_as_much = predict("A token of rank 0 counts as much as so many of rank 1", unit="tokens")

# %%
def weights_of_tokens(counted):
    ddp = DistributedDataParallel(counted.WeightOfToken(10))
    mine = torch.arange(2) if dist.get_rank() == 0 else torch.arange(2, 10)
    ddp(mine).mean().backward()
    return ddp.module.number.grad  # of each token: how much it counts in the loss

weights = launch(weights_of_tokens, counted, world_size=2).values[0]
print("each token of rank 0:", weights[0].item(), "· each token of rank 1:", weights[2].item())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
times_as_much.compare(8 / 2, weights[0].item() / weights[2].item(), kind="communication")

# %% [markdown]
# All ten should count 0.1. A mean of means is not the mean: you met this in exercise 1.5, with
# micro-batches. With several ranks it comes back. And one thing is new: after your backward, DDP
# divides by $n$.
#
# ### Exercise 3.15 · Count all tokens
#
# Write `backward_tokens(ddp, micro_batches)` in
# [labs/counted_over_ranks.py](../labs/counted_over_ranks.py). Every rank calls it.
#
# * `ddp` is a model in `DistributedDataParallel`. For tokens of shape (sentences, length) it
#   returns logits of shape (sentences, length, vocabulary).
# * `micro_batches` is a list of pairs (tokens, targets), both of shape (sentences, length). Each
#   rank has its own, and all ranks have equally many.

# %% [markdown]
# * Targets that are `PADDING` do not count. A micro-batch, or all of a rank, may be padding alone.
#   At least one rank has a token that counts. `count_tokens(targets)` counts.
# * The loss is the cross-entropy. `.grad` is clear before the call. Afterwards it is, on every
#   rank, the gradient of the mean loss over **all tokens that count, of all micro-batches of all
#   ranks**.
# * It may send one all-reduce of the gradients, and one of a single number. Each micro-batch has a
#   forward and a backward of its own.

# %% [markdown]
# For example, let the model have one weight. The tokens of rank 0 have the gradients 1 and 3, the
# only token of rank 1 has 8. Both ranks get $(1 + 3 + 8)/3 = 4$. (The mean of the two means, 2 and
# 8, would be 5.)

# %%
check("3.15")

# %% [markdown]
# Before and after, on two ranks, beside one process with all sentences:

# %%
wanted = counted.gradients_alone()
means = launch(counted.gradients_with, counted.mean_of_means, world_size=2).values[0]
right = launch(counted.gradients_with, counted.backward_tokens, world_size=2).values[0]
print(f"a mean of means: off by {relative_gap(means, wanted):.0%} of the largest gradient")
print("tokens counted over all ranks: as one process, but for rounding:", close(right, wanted))

# %% [markdown]
# ## 8 · Replicas that drift
#
# DDP never compares weights. It makes the start equal and the gradients equal. Replicas stay equal
# as long as all ranks take the same steps. Here are five ways to lose that, and **none of them
# raises an error**:
#
# * every backward stands under `no_sync`;
# * the forward calls `ddp.module` in place of `ddp`;
# * gradients are averaged by hand, and the start was not made equal;
# * the same, with a weight decay of 0.02;
# * each rank sets its learning rate by its own loss.

# %%
apart = {mistake: launch(options.drift, mistake, digits, drift_steps, world_size=2).values[0]
         for mistake in options.MISTAKES}
marks = [mark for mark in options.MARKS if mark <= drift_steps]
print("without a mistake, replicas are bitwise equal:", not any(apart["none"]))
same = apart["ddp.module called"] == apart["no_sync everywhere"]
print("ddp.module gives the same as no_sync, bit by bit:", same)
start, decayed = apart["start not made equal"], apart["start not made equal, weight decay"]
print(f"distance, from step 1 to {marks[-1]}: unequal start {start[-1] / start[0]:.3f} times, with",
      f"weight decay {decayed[-1] / decayed[0]:.3f} times")
grown = [apart[name][-1] / apart[name][0]
         for name in ("no_sync everywhere", "learning rate by own loss")]
print("no_sync and own learning rates: at least fivefold:", min(grown) > 5)

# %% tags=["cover", "nbval-ignore-output"]
lines = {name: apart[name] for name in options.MISTAKES[1:] if name != "ddp.module called"}
plot_against(marks, lines, "training steps", "distance of the two weights", logarithmic=True,
             title="Two replicas that should be one")

# %% [markdown]
# * `ddp.module` goes past DDP's forward, in which DDP prepares to communicate. So it does the same
#   as `no_sync`: two trainings, each on half of the data. The distance grows.
# * An unequal start stays unequal: the same gradient moves both replicas by the same step. Weight
#   decay shrinks the difference, by a factor of 1 − learning rate × decay in each step.
# * The learning rates differ only a little. This distance is small, and it grows: it is the one
#   that you would not notice.

# %% [markdown]
# What helps is to compare the replicas now and then. `apart` in
# [labs/data_parallel.py](../labs/data_parallel.py) does it with one broadcast. Part
# [04c](04c_finding_out.ipynb) does it with a few bytes, and finds the rank that is wrong.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
cap = min(zip(times[:4], choices), key=lambda pair: median(pair[0]))[1]
is_ring = both["DDP"].wire == "measured" and min(to_one) > 0.95 and len(neighbours) == 1
kilobytes = {name: sent[f"{name}: forward"].sent_bytes[0] / 1e3 for name in models}
more = (sent["find_unused_parameters: backward"].sent_bytes[0]
        - sent["plain: backward"].sent_bytes[0])
others = f"""
- [C082] Set find_unused_parameters=True for dynamic graphs | web page, “Key DDP Behaviors” |
  {"right" if found.values[0] else "wrong here"} | without it, the next forward raises an error
  (section 3)
- [C095] DDP is what one writes by hand: broadcast, all-reduce, divide | book chapter, “PyTorch
  DistributedDataParallel (DDP)” | {"right" if abs(ratio - 1) < 0.005 else "wrong here"} | the same
  gradients, and {ratio:.3f} times the bytes (section 1)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(f"""
- [C061] Buckets are of equal size | PyTorch slides, “Computation-Communication overlap:
  bucketing” | {"wrong" if len(set(buckets["default"][-1])) > 1 else "right here"} | MiB:
  {shown(buckets["default"][-1])} by default; at first {shown(buckets["default"][0])} (section 2)
- [C062] PyTorch recommends 25 MB as the size | PyTorch slides, “Computation-Communication overlap:
  bucketing” | imprecise | it is the default, in MiB. In this run the shortest median had: {cap}.
  Look at the ranges, too (section 2)
- [C065] Sending gradients is the only communication of DDP in a batch | web note, “Conclusion” |
  {"imprecise" if kilobytes["with BatchNorm"] > 1 else "right here"} | buffers go in each forward:
  {kilobytes["with BatchNorm"]:.1f} kB for 8 BatchNorm layers; find_unused_parameters sends
  {more:,} bytes more (section 3)
- [C078] DDP uses a ring all-reduce | handwritten notes, “DDP”; blog, “Distributed Data
  Parallelism” | {"imprecise" if is_ring else "not tested"} | the backend chooses. Gloo's messages
  here form a ring (section 1); NCCL has several algorithms
- [C081] All-reduce divides by the world size automatically | web page, “Key DDP Behaviors” |
  {"imprecise" if summed.norm() > 1.5 * plain.norm() else "right here"} | DDP divides, and the
  all-reduce does not. With a hook that only sums, gradients are
  {summed.norm() / plain.norm():.2f} times as large (section 3)
- [C052] The mean over the ranks is exactly the gradient of the batch | book chapter, “The Core
  Insight: Gradient Averaging” | depends | {relative_gap(means, wanted):.0%} off with uneven tokens
  (section 7), {off_by(nn.BatchNorm1d, 2)[0]:.0%} with BatchNorm on 2 ranks (section 5)
""", more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *Data Parallelism Deep
# Dive* (book chapter); *Distributed Parallelism in Deep Learning* (web page); *The Evolution of
# Data Parallelism* (blog); a web note on types of distributed training; handwritten notes.
#
# **To read on.** PyTorch's
# [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html),
# all options; Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020.

# %% [markdown]
# ## What you have learnt
#
# * DDP gives the gradients of your own class, and sends the same bytes. It is the backend that
#   chooses a ring.
# * It sends buffers in each forward, and keeps buckets beside the gradients. With
#   `gradient_as_bucket_view=True` they are the same memory. A hook has to divide by itself.
# * A mean over ranks is right only if all ranks have equally much. BatchNorm, uneven inputs and
#   tokens need sums and counts over **all** ranks.
# * DDP never compares weights. Replicas drift apart without an error.
#
# **Your exercise** is in [labs/counted_over_ranks.py](../labs/counted_over_ranks.py).
#
# **Next**: [03d · One whole program](03d_one_whole_program.ipynb).

# %%
progress("03c")
