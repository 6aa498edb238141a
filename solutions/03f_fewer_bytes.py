# %% [markdown]
# # 03f · Fewer bytes
#
# **How do you train when the link is too slow for the gradients?** In DDP each rank sends about
# twice the model in every step. Inside a cluster that is fine. Between two offices, or over a
# cheap network card, the ranks do nothing but wait. There are three ways out: send each number in
# fewer bits, send fewer numbers, or send less often. All three change the training a little. You
# measure how many bytes each one saves, and what it costs.

# %% [markdown]
# ![Training loss over megabytes sent through the network card, logarithmic, for six ways to train.
# DDP needs most bytes for the same loss, PowerSGD of rank 1 and 2
# fewest](../assets/covers/03f_fewer_bytes.png)
#
# *Measured in section 4: the same model, the same samples, six ways to exchange what was learnt.
# Dots are medians of three seeds.*
#
# **After this part you can** compress the gradients of DDP with a hook, write PowerSGD with error
# feedback, and compare such methods in bytes, seconds and loss.
#
# **It takes** about 30 minutes, and 30 more for 1 exercise. **It needs** [03c · DDP at
# work](03c_ddp_at_work.ipynb) and [02d · Across machines](02d_across_machines.ipynb).

# %% jupyter={"source_hidden": true}
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Machines, Table, check, hint, lab, launch, measure, plot_spreads, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
steps = 120
card_megabytes_per_second = 5.0

# %% [markdown]
# ## 1 · Fewer bits
#
# The simplest way: gradients travel in 16 bits in place of 32. Weights and optimizer stay in
# float32. In DDP this is a **communication hook** (03c): a function that gets a bucket, and returns
# what the ranks have made of it. PyTorch has some of them. You register one line after DDP is made.
#
# The model is a classifier of digits with two hidden layers of 256. It has 85,002 weights. There
# are two ranks.

# %%
def without_hook(ddp):
    pass

def in_float16(ddp):
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)

def in_bfloat16(ddp):
    ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)

# %%
fewer_bytes, digits = lab("fewer_bytes"), lab("gradient_accumulation").digits()
hooks = {"DDP": without_hook, "float16": in_float16, "bfloat16": in_bfloat16}
runs = {name: launch(fewer_bytes.one_backward, register, digits, world_size=2, device="cpu")
        for name, register in hooks.items()}

# %% tags=["nbval-ignore-output"]
for name, run in runs.items():
    refused = run.values[0]
    print(f"{name:8}", refused or f"{run['backward'].sent_bytes[0]:,} bytes sent in a backward")

# %% [markdown]
# `device="cpu"` stands in this part because the kernel counts the bytes.
#
# Half of the bytes for float16. But PyTorch's hook for bfloat16 wants NCCL, and refuses to work on
# the CPU. Gloo itself can sum bfloat16, so a hook of your own does it. It has three lines:

# %%
def average_in_bfloat16(state, bucket):
    small = bucket.buffer().bfloat16() / dist.get_world_size()
    future = dist.all_reduce(small, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].float())

def with_own_hook(ddp):
    ddp.register_comm_hook(None, average_in_bfloat16)

run = launch(fewer_bytes.one_backward, with_own_hook, digits, world_size=2, device="cpu")
plain_bytes = runs["DDP"]["backward"].sent_bytes[0]
share = run["backward"].sent_bytes[0] / plain_bytes
print(f"own hook for bfloat16: {share:.2f} times the bytes of DDP")

# %% [markdown]
# The hook divides *before* the sum. In float16 the largest number is 65,504, so a sum of many
# gradients may overflow. bfloat16 has the range of float32, and only two to three digits.
#
# 16 bits are a factor of two, and 8 bits would be four. To save more, send fewer numbers.

# %% [markdown]
# ## 2 · Fewer numbers
#
# A gradient of a linear layer is a matrix, and a special one. For one sample it is a column times a
# row: the gradient of the output, times the input. Such a product has **rank** 1, and two vectors
# say everything about it. For a batch, the matrix is a sum of such products. How much of it is in
# the largest one, in the two largest, in the four largest?

# %% tags=["nbval-ignore-output"]
model = fewer_bytes.make_model()
images, labels = digits[0][:32].float(), digits[1][:32]
torch.nn.functional.cross_entropy(model(images), labels).backward()
energy = torch.linalg.svdvals(model[2].weight.grad).square()
for rank in (1, 2, 4, 32):
    print(f"rank {rank:2}: {energy[:rank].sum() / energy.sum():.1%} of the squared length")

# %% [markdown]
# A matrix of 256 × 256 with 65,536 numbers, and a few pairs of vectors with 512 numbers each hold
# most of it. With 32 samples the rank is at most 32, so the last line has to be 100 %.
#
# **PowerSGD** (Vogels et al. 2019) sends such vectors. To find the largest products exactly would
# be slow. One step of a *power iteration* comes near: multiply the matrix by a guess, and make the
# result orthonormal. The guess is what the step before has found, since gradients change slowly.

# %% [markdown]
# What is left out is not thrown away. Each rank keeps it, and adds it to its next gradient. This is
# **error feedback**: what does not get through today is sent tomorrow.
#
# The messages are $P$ and $Q$, with $r\,(m + k)$ numbers for a matrix of $m \times k$ and rank $r$.
# Biases are small, and travel as they are. The model has matrices of 256 × 64, 256 × 256 and
# 10 × 256, and 522 biases. How much does PowerSGD of rank 1 send?

# %%
low = predict("PowerSGD, rank 1: bytes in percent of DDP's", unit="%")

# %% [markdown]
# ### Exercise 3.19 · One round of PowerSGD
#
# Write `power_round(gradient, error, q, group=None)` in
# [labs/fewer_bytes.py](../labs/fewer_bytes.py). `gradient` is this rank's matrix, of shape
# $(m, k)$. `error` has the same shape: what the rounds before have left over on this rank, zeros at
# first. `q` has the shape $(k, r)$, and is the same on all ranks.
#
# 1. $M$ = `gradient` + `error`.
# 2. $P = M q$, averaged over all ranks. Make its columns orthonormal: `orthonormal(p)` does it.
# 3. $Q = M^\top P$, averaged over all ranks.
# 4. The result is $P\,Q^\top$. Return it. It is the same on all ranks.
# 5. `error` becomes $M$ minus the result, and `q` becomes $Q$: change both tensors in place.

# %% [markdown]
# `gradient` does not change. A rank may send as much as all-reduces of $P$ and $Q$ do, and no more.
# Give `group` to every call.

# %% [markdown]
# For example, two ranks, $r = 1$, zeros in `error`, and $q$ = `[[1], [0]]`:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | `gradient` | `[[2, 0], [0, 0]]` | `[[2, 0], [0, 2]]` |
# | $M q$ | `[[2], [0]]` | `[[2], [0]]` |
# | $P$, averaged, orthonormal | `[[1], [0]]` | `[[1], [0]]` |
# | $M^\top P$ | `[[2], [0]]` | `[[2], [0]]` |
# | result | `[[2, 0], [0, 0]]` | `[[2, 0], [0, 0]]` |
# | `error` afterwards | `[[0, 0], [0, 0]]` | `[[0, 0], [0, 2]]` |
#
# Rank 1 keeps the 2 that did not get through. It is in its next $M$.

# %%
check("3.19")

# %% [markdown]
# PyTorch has PowerSGD as a hook, with a state that keeps the errors and the $Q$. It works over
# Gloo, too. By default it begins after 1,000 iterations, and leaves alone what it cannot make
# smaller by half. Here it begins at once.

# %%
def low_rank(ddp):
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

theirs = launch(fewer_bytes.one_backward, low_rank, digits, world_size=2, device="cpu")
mine = launch(fewer_bytes.one_exchange, "PowerSGD, rank 1", digits, world_size=2, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the kernel counted.
numbers = (256 + 64) + (256 + 256) + (10 + 256) + 522
rank_1 = mine["exchange"].sent_bytes[0]
low.compare(100 * numbers / 85_002, 100 * rank_1 / plain_bytes, kind="communication")

# %% tags=["nbval-ignore-output"]
print(f"PyTorch's hook sends {theirs['backward'].sent_bytes[0]:,} bytes, `power_round` {rank_1:,}")

# %% [markdown]
# Fifty times fewer numbers. More bytes were counted than the formula says, since these messages are
# so small that their headers weigh as much as the numbers. `power_round` sends seven of them in a
# step. PyTorch's hook sends the $P$ of all matrices together, and needs three. With a large model,
# headers do not matter.

# %% [markdown]
# ## 3 · Less often
#
# The third way is to send nothing in most steps. In **local SGD** each rank trains alone for some
# steps, here 10. Then all of them average their weights. That is one message of the model's size in
# 10 steps. **DiLoCo** does more with that average: it takes it as the gradient of a second, outer
# optimizer. Part [04f](04f_copies_and_local_steps.ipynb) teaches it, with an exercise. Here you
# only use its `outer_step`, with the paper's outer rate of 0.7 and momentum of 0.9. With an outer
# rate of 1 and no momentum, the same function *is* local SGD.

# %% [markdown]
# ## 4 · What is it worth?
#
# Bytes are no aim in themselves. What counts is how good the model is after so many bytes, or after
# so many seconds. So all six ways train the same model on the same samples, with SGD and momentum,
# on two ranks. Three seeds each. None of the learning rates was tuned for any of them.

# %%
trained = launch(fewer_bytes.curves, digits, steps, (0, 1, 2), world_size=2, device="cpu")
losses = trained.values[0]
bytes_of = {way: trained[way].sent_bytes[0] / (3 * steps) for way in losses}  # of a step

# %% tags=["cover", "nbval-ignore-output"]
plot_spreads({"": fewer_bytes.over_megabytes(losses, bytes_of)},
             "MB sent by a rank", "training loss", logarithmic="xy",
             title="Loss against bytes: six ways to train on two ranks")

# %% [markdown]
# Read it from left to right: with so many megabytes, how far does each way get? Then from top to
# bottom: how many megabytes does a loss of 0.3 cost?
#
# Now the seconds. Two machines, each with a card of 5 MB/s. (That is 40 Mbit/s, about an office's
# link to the Internet.) Each way takes 20 steps there. What would be the loss of each way when DDP
# has finished its steps? That is computed from the two measurements: how many steps fit into
# this time, and which loss belongs to so many steps.

# %%
machines = Machines.here(2, bytes_per_second=card_megabytes_per_second * 1e6)
run = launch(fewer_bytes.seconds_of_step, digits, world_size=2, machines=machines, device="cpu")
seconds = run.values[0]

# %% tags=["nbval-ignore-output"]
budget = steps * seconds["DDP"]
Table(["way", "bytes a step", "a step takes", f"loss after {steps} steps",
       f"{budget:.1f} s: steps", "loss"],
      fewer_bytes.rows(losses, bytes_of, seconds, budget))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the numbers of this run say.
print(fewer_bytes.what_was_found(losses, bytes_of, seconds, steps))

# %% [markdown]
# After the same number of *steps*, PowerSGD of rank 1 is behind: what its errors hold back comes
# later. After the same number of *bytes*, DDP is last all along. (Where more steps fit into the
# time than were trained, the table shows the loss at the end of the training.)
#
# *Break it.* Set `card_megabytes_per_second` to 500. Which ways are still faster than DDP?

# %% [markdown]
# And error feedback, does it matter? Here is PowerSGD of rank 1 with an `error` that is set to zero
# before each round.

# %% tags=["nbval-ignore-output"]
forgetful = launch(fewer_bytes.curves, digits, steps, (0, 1, 2), ("rank 1, errors forgotten",),
                   world_size=2, device="cpu").values[0]
for way, curves in {**forgetful, "PowerSGD, rank 1": losses["PowerSGD, rank 1"]}.items():
    ends = sorted(curve[steps] for curve in curves)
    print(f"{way}: loss {median(ends):.3f} ({ends[0]:.3f} to {ends[-1]:.3f})")

# %% [markdown]
# The same bytes, another training. What was left out of a step is lost, and much of it was needed.

# %% [markdown]
# **On GPUs** a fast network changes the answer. Inside a machine with NVLink, an all-reduce is
# often hidden behind the backward (03b). Then fewer bytes save nothing, and compressing costs time.
# Of the methods that PowerSGD's authors tried, it was the only one that was always faster than SGD
# with a good backend, says their [paper](https://arxiv.org/abs/1905.13727). It needs memory for one
# more copy of the gradients, says PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html). Its hook for bfloat16
# needs NCCL 2.10, as its error has told.
#
# DiLoCo's [paper](https://arxiv.org/abs/2311.08105) reports language models on 8 workers, as good
# as synchronous training, with 500 times less communication. None of this was measured here.

# %% [markdown]
# What this toy cannot tell: digits are easy, and almost any direction downhill will do. With a
# large model, you have to find out by trying which rank is enough, and how many steps alone.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
cheap = "PowerSGD, rank 1"
put_to_the_test(f"""
- Network bound: reduce communication | book chapter, “The Efficiency Equation” | right, and it
  changes the training | at {card_megabytes_per_second:g} MB/s a step of DDP takes
  {1e3 * seconds["DDP"]:.0f} ms, of {cheap} {1e3 * seconds[cheap]:.0f} ms; loss after {steps} steps
  {median(c[steps] for c in losses["DDP"]):.3f} and {median(c[steps] for c in losses[cheap]):.3f}
  (section 4)
- Communication overhead limits scaling efficiency | web page, “Advantages & Limitations” | right |
  and there are three ways to have less of it: fewer bits, fewer numbers, fewer exchanges (sections
  1 to 3)
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page).
#
# **To read on.** Vogels et al. 2019, [PowerSGD](https://arxiv.org/abs/1905.13727). Douillard et al.
# 2023, [DiLoCo](https://arxiv.org/abs/2311.08105). PyTorch's [communication
# hooks](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html).

# %% [markdown]
# ## What you have learnt
#
# * A **communication hook** changes what DDP sends. Half precision halves the bytes.
# * **PowerSGD** sends two thin matrices in place of one large one. **Error feedback** keeps what
#   did not get through.
# * **Local SGD** and **DiLoCo** exchange weights once in many steps.
# * Compare such methods at the same **bytes** and the same **seconds**, and not only after the same
#   steps. On a fast network they may save nothing.
#
# **Your exercise** stands in [labs/fewer_bytes.py](../labs/fewer_bytes.py).
#
# **Next**: [03g · How far it scales](03g_how_far_it_scales.ipynb).

# %%
progress("03f")
