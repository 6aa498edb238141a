# %% [markdown]
# # {{title}}
#
# **When is the mean of the ranks' gradients not the gradient of the batch?** DDP averages
# correctly. Still, the result is not that of one process if a layer mixes samples, if a rank has
# fewer batches, or if its sentences are shorter. Here you count over all ranks, and get the
# training of one process back.

# %% [markdown]
# ![Bars of the share of the loss that each of ten tokens has: under DDP they differ from rank to
# rank, in one process all are equal](../assets/covers/03f_counted_over_all_ranks.png)
#
# *Measured in section 3: three ranks with 5, 2 and 3 tokens, and how much each token counts.*
#
# **After this part you can** train with BatchNorm, with uneven inputs and with padded sentences on
# several ranks.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms import Join
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    HangError, RankError, Table, check, close, hint, lab, launch, measure, plot_bars, predict,
    progress, relative_gap,
)

# %% tags=["parameters"]
more_ranks = 4  # of section 1

# %% tags=["nbval-ignore-output"]
counted = lab("counted_over_ranks")

# %% [markdown]
# ## 1 · BatchNorm across ranks
#
# BatchNorm subtracts the mean of the *batch* and divides by its standard deviation. Under DDP a
# rank sees only its own samples. So it takes their mean, and another rank takes another mean.
#
# Let one process have twelve samples, or two ranks six each. How far are the gradients on two ranks
# from those of one process? Take the largest difference, in percent of the largest gradient.
# Nothing here tells you the number: guess its size.

# %%
one_process = launch(counted.one_backward, nn.BatchNorm1d, world_size=1, device="cpu").values[0]

# %%
guess = predict("BatchNorm on 2 ranks: gradients off by, in percent of the largest", unit="%")

# %%
def measure_gaps(norm, n):
    run = launch(counted.one_backward, norm, world_size=n, device="cpu")
    return counted.largest_gaps(run, one_process)

gaps = {n: measure_gaps(nn.BatchNorm1d, n) for n in (2, more_ranks)}
for n, (gradients, running) in gaps.items():
    print(f"{n} ranks: gradients off by {gradients:.0%} of the largest, running statistics by",
          f"{running:.0%}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; theory: one process that takes six samples after the other six, and the mean.
guess.compare(100 * counted.gap_of_shares(nn.BatchNorm1d, 2), 100 * gaps[2][0])

# %% [markdown]
# (All are percent of the largest value that one process has, so more than 100 % is possible.) The
# fewer samples a rank has, the larger the error: with three samples on each rank, a mean is mostly
# chance. And the running mean, which is used after the training, is that of rank 0's samples alone.
# In the next forward, DDP overwrites the others with it (part [03e](03e_ddp_at_work.ipynb), section
# 3).
#
# PyTorch's answer is `SyncBatchNorm`. One call, `convert_sync_batchnorm`, replaces all BatchNorm
# layers of a model. On the CPU it does not run:

# %%
def make_sync_batch_norm():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16))
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model))

try:
    launch(make_sync_batch_norm, world_size=2, device="cpu")
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
class MySyncBatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        wide = x.double()  # in float32, the mean of squares minus the squared mean loses digits
        sums = torch.cat([wide.sum(0), wide.square().sum(0), wide.new_tensor([len(x)])])
        total, squares, count = counted.sum_over_ranks(sums).split([x.shape[1], x.shape[1], 1])
        mean = total / count
        variance = squares / count - mean.square()
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
            unbiased = variance * count / (count - 1)
            self.running_var.lerp_(unbiased.to(self.running_var), self.momentum)
        normal = (wide - mean) / (variance + self.eps).sqrt()
        return normal.to(x.dtype) * self.weight + self.bias

# %%
synced = {n: max(measure_gaps(MySyncBatchNorm, n)) for n in (2, 3, 4)}
for n, gap in synced.items():
    print(f"{n} ranks: gradients and running statistics of one process to 1e-12:", gap < 1e-12)

# %% [markdown]
# **On GPUs** `SyncBatchNorm` does the same. It wants one GPU for each process, and
# `convert_sync_batchnorm` has to come *before* the model is wrapped ([its
# documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html)). Each
# such layer communicates in the forward and in the backward, and the next layer waits for it. It
# needs no float64, because it combines the means and variances of the ranks instead of their sums.
# LayerNorm and GroupNorm have none of these questions: they look at one sample alone.

# %% [markdown]
# ## 2 · A rank has fewer batches
#
# A training can hang at the end of an epoch, because two ranks have different numbers of batches.
# Let rank 0 have six batches, and rank 1 four. After the fourth, rank 1 is done. Rank 0 takes its
# fifth batch and waits in the backward for gradients that never come.

# %%
def train(counted, together=nullcontext, **how):
    model = counted.start_model()
    ddp, optimizer = DistributedDataParallel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    with measure("loop"), together([ddp], **how):
        counted.train_uneven(ddp, optimizer)
    return counted.weights_of(model)

try:
    launch(train, counted, world_size=2, timeout=6)
except HangError as error:
    for rank, place in error.waits.items():
        print(f"rank {rank}", f"waits in {place.call}" if place else "is done")

# %% [markdown]
# On a cluster you would only see that nothing happens: part [03m](03m_when_it_hangs.ipynb) is about
# that. There are two ways out. `DistributedSampler` gives all ranks equally many samples (part
# [03b](03b_samples_of_its_own.ipynb)). If that is impossible, PyTorch has `Join`. It is a context
# manager around the training loop. A rank that is done stays in it, and answers the all-reduces of
# the others with zeros. PyTorch calls it a prototype ([its
# tutorial](https://docs.pytorch.org/tutorials/advanced/generic_join.html)).
#
# In step 5 only rank 0 has a batch. By which number does DDP divide its gradient: 2 or 1? You can
# choose: always by 2, or by the number of ranks that still have a batch. The lab's `train_alone`
# does the same in one process.

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
# With `True`, the default, every sample has the same weight in its gradient, 1/8. Where only rank 0
# has a batch, the gradient is a sum over half as many samples. With `False`, each gradient is the
# mean of its samples. The last samples of rank 0 then have twice the weight of the others. Both can
# be right. Know which one you have.
#
# The price: about three all-reduces in each iteration in place of one, as ranks first ask who is
# still there. At the end, one rank broadcasts its model. `Join` knows only of DDP's own calls. An
# all-reduce of your own in the loop, or `SyncBatchNorm`, makes it hang again.

# %% [markdown]
# ## 3 · Tokens
#
# A rank's batch has sentences, and sentences have different lengths. `F.cross_entropy` gives the
# mean over the rank's own tokens. DDP gives the mean over the ranks. Is that the mean over all
# tokens?
#
# Rank 0 has 2 tokens, rank 1 has 8. One token of rank 0 counts as much as how many tokens of rank
# 1?

# %%
as_much = predict("One token of rank 0 counts as much as this many of rank 1", unit="tokens")

# %%
def weights_of_tokens(counted, numbers):
    ddp = DistributedDataParallel(counted.WeightOfToken(sum(numbers)))
    mine = torch.arange(sum(numbers)).split(numbers)[dist.get_rank()]
    ddp(mine).mean().backward()
    return ddp.module.number.grad  # of each token: how much it counts in the loss

weights = launch(weights_of_tokens, counted, [2, 8], world_size=2).values[0]
print("each token of rank 0:", weights[0].item(), "· each token of rank 1:", weights[2].item())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
as_much.compare(8 / 2, weights[0].item() / weights[2].item(), kind="communication")

# %% [markdown]
# The same on three ranks, which have 5, 2 and 3 tokens:

# %% tags=["cover", "nbval-ignore-output"]
on_three = launch(weights_of_tokens, counted, [5, 2, 3], world_size=3).values[0].tolist()
plot_bars(range(10), {"under DDP": on_three, "in one process": [1 / 10] * 10},
          "share of the loss", "token (0 to 4 on rank 0, 5 and 6 on rank 1, the others on rank 2)",
          title="What each token counts")

# %% [markdown]
# All ten should count 0.1. A mean of means is not the mean: you met this in exercise {{accumulate_tokens}}, with
# micro-batches. With several ranks it comes back. And one thing is new: in the last backward, DDP
# sums the gradients over the ranks and divides by their number $n{.}$ When `backward()` returns,
# `.grad` is the mean already.

# %% [markdown]
# ### Exercise {{backward_tokens}} · Average over all ranks' tokens
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
#   It still needs its forward and its backward, or the other ranks wait. At least one rank has a
#   token that counts. `count_tokens(targets)` counts.
# * The loss is the cross-entropy. `.grad` is clear before the call. Afterwards it is, on every
#   rank, the gradient of the mean loss over **all tokens that count, of all micro-batches of all
#   ranks**.
# * It may send one all-reduce of the gradients, and one of a single number. Each micro-batch has a
#   forward and a backward of its own, before the next one begins. Weights, `micro_batches` and
#   `ddp` stay as they were.

# %% [markdown]
# For example, let the model have one weight. The tokens of rank 0 have the gradients 1 and 3, the
# only token of rank 1 has 8. Both ranks get $(1 + 3 + 8)/3 = 4$. (The mean of the two means, 2 and
# 8, would be 5.)

# %%
check("{{backward_tokens}}")

# %% [markdown]
# Before and after, on two ranks, beside one process with all sentences:

# %%
wanted = counted.gradients_alone()
means, right = (launch(counted.gradients_with, way, world_size=2, device="cpu").values[0]
                for way in (counted.mean_of_means, counted.backward_tokens))
print(f"a mean of means: off by {relative_gap(means, wanted):.0%} of the largest gradient")
print("tokens counted over all ranks: as one process, but for rounding:", close(right, wanted))

# %% [markdown]
# ## Put to the test
#
# The book chapter says that the mean over the ranks is *exactly* the gradient of the batch. Part
# [03](03_data_parallel.ipynb) puts this to the test. Here are the cases in which it fails although
# all ranks do the same.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
Table(["", "gradients off by", "counted over all ranks"],
      [["BatchNorm, 2 ranks", f"{gaps[2][0]:.0%}", f"{synced[2]:.0e}"],
       ["2 ranks with different numbers of tokens", f"{relative_gap(means, wanted):.0%}",
        f"{relative_gap(right, wanted):.0e}"]])

# %% [markdown]
# **Source.** *Data Parallelism Deep Dive* (book chapter).
#
# **To read on.** PyTorch,
# [SyncBatchNorm](https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html) and
# [Join](https://docs.pytorch.org/tutorials/advanced/generic_join.html).

# %% [markdown]
# ## What you have learnt
#
# * A mean over ranks is right only if all ranks have equally much. BatchNorm, uneven inputs and
#   tokens need sums and counts over **all** ranks.
# * A sum over ranks that a forward uses needs a backward of its own.
# * `Join` lets a rank that is done answer the others. It knows only of DDP's own calls.
#
# **Your exercise** is in [labs/counted_over_ranks.py](../labs/counted_over_ranks.py).
#
# **Next**: {{next}}.

# %%
progress("03f")
