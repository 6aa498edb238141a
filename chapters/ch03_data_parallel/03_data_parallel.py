# %% [markdown]
# # {{title}}
#
# **How can four ranks train one model, and end with the weights that one process would have?** Each
# rank has the whole model, and a quarter of each batch. Three conditions are enough for a model
# that treats each sample by itself:
#
# 1. All ranks **start equal**.
# 2. All take the same step along the **mean of their gradients**.
# 3. Each reads **samples of its own**, and all read equally many.
#
# In this part you write the first two by hand. PyTorch's `DistributedDataParallel` (DDP) keeps the
# same two. The third is the subject of the next part.

# %% [markdown]
# ![Bars of the gradients of four ranks: each rank computes another one, and after DDP's backward
# all ranks hold their mean](../assets/covers/03_data_parallel.png)
#
# *Measured in section 1: each rank computes a gradient of its own. DDP leaves the mean on all
# ranks.*
#
# **After this part you can** train one model on several ranks by hand, and show that it equals one
# process.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
    rounding,
)

# %% tags=["parameters"]
world_size = 4

# %%
simple_ddp, replicas = lab("simple_ddp"), lab("equal_replicas")
language_model, digits = lab("language_model"), lab("gradient_accumulation").digits()[:2]
text = language_model.standard_library()
device = "auto" if torch.cuda.device_count() >= world_size else "cpu"  # NCCL with enough GPUs

# %% [markdown]
# ## 1 · The mean of gradients
#
# A rank that sees a quarter of the batch computes the gradient of that quarter. If each rank
# followed its own gradient, you would train four different models.
#
# Begin with one weight $w = 0.1$ and four ranks that have one sample each. Their gradients are 0.8,
# −0.2, −0.7 and 0.4. (The numbers are from the slides of a video course. There all ranks end with
# a gradient of 0.3 and a weight of 0.2.) What does DDP make of them?

# %%
def one_weight(gradients):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.1)
    ddp = DistributedDataParallel(model)
    x = torch.tensor([[gradients[dist.get_rank()]]])
    ddp(x).sum().backward()  # d (w x) / dw = x
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return model.weight.grad.item(), model.weight.item()

own = [0.8, -0.2, -0.7, 0.4]
toys = launch(one_weight, own, world_size=4, device=device).values
for rank, (gradient, weight) in enumerate(toys):
    print(f"rank {rank}: gradient {gradient:.3f}, weight after the step {weight:.4f}")

# %% tags=["cover", "nbval-ignore-output"]
plot_bars([f"rank {rank}" for rank in range(4)],
          {"its own gradient": own, "after DDP's backward": [gradient for gradient, _ in toys]},
          "gradient", title="DDP leaves the mean of all gradients on every rank")

# %% [markdown]
# DDP leaves the **mean** on every rank: $0.3 / 4 = 0.075$. One process with all four samples gets
# the same, if its loss is the mean over the samples.
#
# A step with learning rate 0.1 goes *against* the gradient: $0.1 - 0.1 \cdot 0.075 = 0.0925$. So
# the slides' 0.3 is the sum, and their 0.2 is a step in the wrong direction.

# %% [markdown]
# The loss of a batch is the mean over its samples, so its gradient is the mean of their
# gradients. Cut a batch $B$ of $|B|$ samples into parts $B_0, \ldots, B_{n-1}$, one for each of the
# $n$ ranks. Such a part is called a **shard** of the batch. Let $L(B)$ be the mean loss over the
# samples of $B$. Then:
#
# $$\nabla L(B) = \sum_{r=0}^{n-1} \frac{|B_r|}{|B|}\,\nabla L(B_r)$$
#
# If all shards are equally large, this is the plain mean, $\frac{1}{n}\sum_r \nabla L(B_r)$. By
# default DDP computes the plain mean. It divides by $n$, whatever the shards are.

# %% [markdown]
# Now take unequal shards: 40 samples on rank 0, and 8 on each of the other three. Each rank takes
# the mean loss over its own samples, and DDP averages the gradients. A sample of rank 1 then counts
# more than a sample of rank 0. How many times as much?

# %%
counts_more = predict("How much more does a sample of rank 1 count than one of rank 0?",
                      unit="times")

# %% [markdown]
# How to measure this? Let the loss of sample $i$ be a parameter $p_i$. Then the mean loss is a
# weighted sum of all $p_i$, and the gradient of $p_i$ is the weight of sample $i$.
# (`average_gradients` is a function of the lab. It leaves the plain mean on all ranks, as DDP does.
# You write it in section 2.)

# %%
def what_samples_count(simple_ddp, sizes):
    losses = nn.ParameterList([torch.zeros(sum(sizes))])  # one number for each sample
    mine = losses[0].split(sizes)[dist.get_rank()]
    mine.mean().backward()
    simple_ddp.average_gradients(losses)
    return losses[0].grad

sizes = [40, 8, 8, 8]
count = launch(what_samples_count, simple_ddp, sizes, world_size=4, device=device).values[0]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
counts_more.compare(40 / 8, (count[-1] / count[0]).item(), kind="gradients")

# %% tags=["nbval-ignore-output"]
each = [part[0].item() for part in count.split(sizes)]
plot_bars([f"rank {rank}: {size} samples" for rank, size in enumerate(sizes)],
          {"with DDP's plain mean": each, "in one process": [1 / 64] * 4},
          "share of one sample",
          title="With unequal shards, samples of small shards count more")

# %% [markdown]
# A rank's mean counts 1/4. In it, a sample of rank 0 counts 1/40, and a sample of rank 1 counts
# 1/8: five times as much. In one process each of the 64 samples counts 1/64. To get there with DDP,
# each rank multiplies its loss by a factor.

# %% [markdown]
# ### Exercise {{loss_factor}} · Loss factor for unequal shares
#
# Write `loss_factor`. It gets three whole numbers. `samples` says how many samples this rank has
# in this step, one or more. `all_samples` says how many all ranks have together. `n` is the number
# of ranks. The rank's loss is the mean over its own samples. Return the factor for this loss, so
# that DDP's average of the gradients is the gradient of the mean over all samples.
#
# For two ranks with 3 samples and 1 sample, rank 0's factor is 1.5 and rank 1's is 0.5.

# %%
def loss_factor(samples, all_samples, n):
    ### BEGIN SOLUTION
    return n * samples / all_samples
    ### END SOLUTION

check("{{loss_factor}}", loss_factor)

# %% [markdown]
# ## 2 · By hand
#
# Two functions are enough, without `DistributedDataParallel`. One makes all replicas equal at the
# start. The other averages the gradients after each backward. Then all ranks take the same step
# from the same place, and stay equal without ever sending a weight again.

# %% [markdown]
# ### Exercise {{start_equal}} · Make all replicas equal
#
# In [labs/simple_ddp.py](../labs/simple_ddp.py), write `start_equal(model, group=None)`. Afterwards
# every rank of the group holds the values of the group's first rank, in all parameters and
# **buffers**: tensors that no optimizer changes, such as BatchNorm's running means. A parameter may
# be **frozen** (`requires_grad` is False). It is made equal, too. Each tensor is broadcast once.
# The model's mode and the random seed stay as they are.

# %% [markdown]
# Write into the tensors that are there, under `torch.no_grad()`: autograd must not take the copy
# for a part of the model. `dist.broadcast(x, group=group, group_src=0)` sends `x` from the first
# rank of the group to the others. (`src=0` would be rank 0 of the world, which need not be in it.)
#
# Weights [1, 2] on rank 0 and [5, 7] on rank 1 become [1, 2] on both.

# %% [markdown]
# ### Exercise {{average_gradients}} · Average gradients over the ranks
#
# In [labs/simple_ddp.py](../labs/simple_ddp.py), write `average_gradients(model, group=None)`. All
# ranks call it after their backward. It makes every `.grad` the mean over the ranks, with one
# all-reduce for each parameter, in the dtype of the gradient.
#
# A parameter that took no part in this rank's loss has None in its `.grad`. It counts as zeros, and
# gets the mean, since other ranks may have a gradient for it. A frozen parameter keeps its None.
#
# [2, 4] on rank 0 and [6, 0] on rank 1 become [4, 2] on both. None and [6, 0] become [3, 0].

# %%
display(check("{{start_equal}}"), check("{{average_gradients}}"))

# %% [markdown]
# Two of the three conditions are met. For the third, the loop below takes every $n$-th sample of a
# batch (`share_of_rank`). Part 03b is about it.
#
# The model is a small transformer. It reads the source text of Python's standard library, character
# by character, and predicts the next character
# ([labs/language_model.py](../labs/language_model.py)). Each batch has 12 samples, which 1, 2, 3
# and 4 ranks can share equally. After five steps, are the weights those of one process?

# %%
def train_by_hand(simple_ddp, language_model, batches):
    torch.manual_seed(dist.get_rank())  # each rank draws other weights: start_equal has to help
    model = language_model.Transformer(16, layers=1, context=16).double()
    simple_ddp.start_equal(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for batch in batches:
        inputs, targets = simple_ddp.share_of_rank(batch)
        optimizer.zero_grad()
        language_model.mean_loss(model(inputs), targets).backward()
        simple_ddp.average_gradients(model)
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().cpu()

# %%
batches = [language_model.draw_batch(text, 12, step, 16) for step in range(5)]

def train_on_ranks(ranks):
    return launch(train_by_hand, simple_ddp, language_model, batches, world_size=ranks,
                  device=device).values

alone = train_on_ranks(1)[0]
for n in range(2, world_size + 1):
    equal = all(close(weights, alone, steps=5) for weights in train_on_ranks(n))
    print(f"{n} ranks equal one process, but for rounding:", equal)

# %% [markdown]
# > **Each sample by itself.** This transformer has no layer that looks at several samples, and
# > draws no random numbers. BatchNorm takes its mean over the samples of one rank, so four ranks do
# > not equal one process (part [03f](03f_counted_over_all_ranks.ipynb)).

# %% [markdown]
# **Random numbers.** Dropout draws a mask for each sample. Most programs call `torch.manual_seed`
# with one number on all ranks, so that all make the same model. If nothing follows, the ranks go on
# drawing alike: samples on different ranks share one mask, and the mean over the ranks averages
# fewer of them. So programs use one seed until the model is made, and then `seed + rank`:

# %%
def draw_mask(apart):
    torch.manual_seed(0)  # the same on all ranks, which make the same model
    nn.Linear(8, 8)
    if apart:
        torch.manual_seed(0 + dist.get_rank())  # from here on, each rank draws its own numbers
    mask = nn.functional.dropout(torch.ones(8)) > 0
    return "".join(str(int(kept)) for kept in mask)

for apart in (False, True):
    masks = launch(draw_mask, apart, world_size=world_size, device=device).values
    print("seed + rank:" if apart else "one seed:   ", *masks)

# %% [markdown]
# The same holds for data augmentation, and for the workers of a `DataLoader`, which take their
# seeds from the generator of their rank
# ([documentation](https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading)).
#
# What has to be equal on all ranks is drawn with **one** seed, from a separate generator. One
# example is the sampler's order, which the ranks share out (03b). Another is the stochastic
# rounding of weights (05c): if each rank rounded in its own way, the replicas would drift apart.
# Ranks that hold parts of one layer need both kinds of numbers (07d).

# %% [markdown]
# The lab is a program, too. It trains a larger transformer for 20 steps by hand and with DDP, from
# the same weights: `torchrun --nproc-per-node 2 labs/simple_ddp.py`, or here:

# %% tags=["nbval-ignore-output"]
compared = launch(simple_ddp.compare, text, world_size=2)
told, gap = compared.values[0]
print(told)

# %% [markdown]
# Your two functions give the weights of PyTorch's DDP. On two ranks even the last digit can agree,
# since two numbers can be added in one order only. With more ranks the last digits may differ.

# %% [markdown]
# ## 3 · The mean, or the sum?
#
# Some texts average gradients, and others sum them up. The sum is $n$ times the mean. So what if
# you take the sum, and divide the learning rate by $n$? Then a step of plain SGD is the same. Is it
# the same for every optimizer?

# %%
def sum_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)

gaps = launch(replicas.gaps_of_sum, sum_gradients, digits, world_size=world_size,
              device=device).values[0]

# %%
# After ten steps: the weights of training with the mean, to a thousandth of the largest one?
words = {True: "as with the mean", False: "other weights"}
Table(["training with the sum", "learning rate / n", "the same learning rate"],
      [[name, *(words[gap < 1e-3] for gap in both)] for name, both in gaps.items()])

# %% [markdown]
# * **SGD with momentum** takes the same steps, with the learning rate divided by $n$.
# * **Weight decay** breaks this. PyTorch adds `weight_decay` times the weight to the gradient, and
#   that term is not $n$ times as large. With the smaller learning rate, weights decay too slowly.
# * **Adam** divides the gradient by its own size, so a factor $n$ cancels (part 01). It takes the
#   same steps with the *same* learning rate. A smaller one only makes it slower.
#
# So average, as DDP does. Then one learning rate fits any number of ranks that share a batch.

# %% [markdown]
# ## Put to the test
#
# What our sources say about start and mean, and what was found here.

# %% jupyter={"source_hidden": true}
# The measurements that the table still needs.
def gap_of(sizes, factors=None):
    return launch(replicas.gap_of_shards, digits, sizes, factors, world_size=4,
                  device="cpu").values[0]

plain, unequal = gap_of([16, 16, 16, 16]), gap_of([40, 8, 8, 8])
weighted = gap_of([40, 8, 8, 8], [4 * size / 64 for size in (40, 8, 8, 8)])

# %% jupyter={"source_hidden": true}
# What DDP's constructor sends, whether optimizer states stay equal, and the bytes of 20 steps.
made = launch(replicas.wrap, world_size=4, device="cpu")
model_bytes, equals = made.values[0][0], [equal for _, equal in made.values]
at_start = ", ".join(f"{sent / model_bytes:.1f}" for sent in made["constructor"].sent_bytes)
equal_then = [sum(rank[k] for rank in equals) for k in (0, 1)]  # before and after it
_, same_moments = launch(
    replicas.train_without_zero_grad, digits, world_size=4, device="cpu"
).values[0]
ratio = compared["by hand"].sent_bytes[0] / compared["DDP"].sent_bytes[0]
as_ddp = "right, with a division" if gap <= rounding(steps=20) else "wrong here"

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The surprises. The table below has the other statements at a click.
surprises = f"""
- [C055] A weight of .1 with a gradient of .3 becomes .2 | PyTorch slides, “Distributed Data
  Parallel: step 4” | {"wrong" if toys[0][1] < 0.1 else "right here"} | a step goes against the
  gradient: with DDP's {toys[0][0]:.3f} and a learning rate of 0.1, the weight fell to
  {toys[0][1]:.4f} (section 1, run). From .1 to .2 it would take a learning rate of
  {(0.1 - 0.2) / 0.3:.2f} | measured: nothing; plain SGD subtracts, on every device
- [C054] Local gradients .8, -.2, -.7, .4 give .3 on every node | PyTorch slides, “Distributed Data
  Parallel: step 3” | {"imprecise" if abs(toys[0][0] - sum(own) / 4) < 1e-6 else "not seen here"} |
  {sum(own):.1f} is the sum. DDP leaves the mean, {toys[0][0]:.3f} (section 1, run) |
  measured: nothing; DDP divides over NCCL, too (its documentation: gradients are averaged)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
surprises += f"""- [C056] Gradients are averaged; or they are summed | CS 229S, “Data
  parallelism” (right); book chapter, “The Core Insight: Gradient Averaging” (right); web page,
  “Data Parallelism: Split the Batch” (right); handwritten notes, “Data Parallelism” (right);
  PyTorch slides, “Distributed Data Parallel: step 3” |
  they contradict each other | DDP averages: {toys[0][0]:.3f}, not
  {sum(own):.1f} (section 1, run). With the sum and a learning rate / n, SGD with momentum ends
  {words[gaps["SGD with momentum"][0] < 1e-3]}, Adam with {words[gaps["Adam"][0] < 1e-3]}
  (section 3, table) | measured: nothing; DDP averages on every backend, unless a communication hook
  does otherwise
- [C052] The mean is exactly all_reduce(SUM) / world_size | book chapter, “The Core Insight:
  Gradient Averaging” | {"right on equal shards" if plain <= rounding() < unequal else "not here"} |
  which the chapter names. Off from one process's gradient: with equal shards {plain:.0e} of
  it, with shards of 40, 8, 8, 8 {unequal:.0%} (a run in this section). BatchNorm, and tokens that
  ranks share unevenly, break it, too (part 03f) | measured: nothing; unequal shares are a matter of
  counting. NCCL may only round in another order
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C051] The batch's gradient is the mean of the shards' gradients, weighted by their sizes | book
  chapter, “The Core Insight: Gradient Averaging” | {"right" if weighted <= rounding() else "wrong"}
  | shards of 40, 8, 8, 8, each loss times exercise {{loss_factor}}'s factor: off from one process's gradient by
  {weighted:.0e} of it (float64; a run in this section) | measured: nothing; gradients are linear in
  the samples, on every device
- [C064] DDP broadcasts parameters so that replicas start equal | book chapter, “PyTorch
  DistributedDataParallel (DDP)”; PyTorch slides, “Distributed Data Parallel in detail” |
  {"right" if equal_then == [1, 4] else "not seen here"} | each of 4 ranks drew weights of its own.
  DDP's constructor sent {at_start} models from ranks 0 to 3, and then {equal_then[1]} of 4 had rank
  0's (a run in this section) | measured: over Gloo; over NCCL, too, DDP broadcasts (its
  documentation). Who sends to whom may differ
- [C093] DDP's processes keep optimizer states independently | blog, “Distributed Data Parallelism”
  | {"right" if same_moments else "not equal here"} | the optimizer's step makes no call (part 03c,
  a run). States stay equal, since the gradients are: after 3 steps all that Adam keeps for all
  parameters is bitwise equal on 4 ranks: {same_moments} (a run in this section) | measured: on GPUs
  equal states are expected, as every rank takes the same step along equal gradients
- [C095] A broadcast, and an all-reduce of all gradients by hand, match DDP | book chapter,
  “Exercise 1: Manual DDP” | {as_ddp} | if the sum is divided by the number of ranks: after 20 steps
  on 2 ranks weights differ by {gap:.1e} of the largest one (section 2, run). By hand a rank sends
  {ratio:.2f} times the bytes of DDP (counted in this section) | measured: nothing about values but
  their rounding; on GPUs DDP is expected to be faster, as it overlaps
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); handwritten notes.
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020, section
# 2: why DDP averages gradients and not weights.

# %% [markdown]
# ## What you have learnt
#
# * Equal start and the mean of the gradients, on equal shards of the same batch: $n$ ranks train
#   the model of one process, if it treats each sample by itself.
# * By default DDP divides by the number of ranks. If shards are unequal, multiply each rank's loss
#   by $n$ times its share of the samples.
# * The sum in place of the mean needs another learning rate. Which one it needs depends on the
#   optimizer.
#
# **Your exercises**: {{loss_factor}} stands in a cell above, and [labs/simple_ddp.py](../labs/simple_ddp.py)
# has {{start_equal}} and {{average_gradients}}.
#
# **Next**: {{next}}.

# %%
progress("03")
