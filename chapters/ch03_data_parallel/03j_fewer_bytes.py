# %% [markdown]
# # {{title}}
#
# **How do you train when the link is too slow for the gradients?** In DDP each of $n$ ranks sends
# $2\frac{n-1}{n}$ models in every step: one with two ranks, nearly two with many. A link that is
# fast enough hides that behind the backward (03c). An Ethernet link between machines may not (02g),
# and between two offices the ranks do little but wait. There are three ways out: send each number
# in fewer bits, send fewer numbers, or send less often. All three change the training a little. You
# measure how many bytes each one saves, and what it costs.

# %% [markdown]
# ![Training loss over megabytes sent, both axes logarithmic: a falling line for each of six ways to
# train, with bars from the lowest to the highest of three
# seeds](../assets/covers/03j_fewer_bytes.png)
#
# *Measured in section 4: the same model, the same samples, six ways to exchange what was learnt,
# each with a learning rate of its own. Dots are medians of three seeds.*
#
# **After this part you can** compress the gradients of DDP with a hook, write PowerSGD with error
# feedback, and compare such methods in bytes, seconds and loss.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Machines, Table, check, compare_rounds, hint, lab, launch, measure, plot_spreads, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
steps = 100
card_megabytes_per_second = 5.0

# %% [markdown]
# ## 1 · Fewer bits
#
# The simplest way: gradients travel in 16 bits in place of 32. Weights and optimizer stay in
# float32. In DDP this is a communication hook (03e): a function that gets a bucket, and returns
# what the ranks have made of it. PyTorch has some of them. You register one after DDP is made.
#
# The model is a classifier of digits with two hidden layers of 256. It has 85,002 weights. There
# are two ranks. (`device="cpu"` stands in this part because the operating system counts the bytes.)

# %%
def register_no_hook(ddp):
    pass

def register_fp16_hook(ddp):
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)

def register_bf16_hook(ddp):
    ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)

# %%
fewer_bytes, worth = lab("fewer_bytes"), lab("worth_of_bytes")
digits = lab("gradient_accumulation").digits()

# %% tags=["nbval-ignore-output"]
hooks = {"DDP": register_no_hook, "float16": register_fp16_hook, "bfloat16": register_bf16_hook}
runs = {name: launch(fewer_bytes.one_backward, register, digits, world_size=2, device="cpu")
        for name, register in hooks.items()}
for name, run in runs.items():
    refused = run.values[0]
    print(f"{name:8}", refused or f"{run['backward'].sent_bytes[0]:,} bytes sent in a backward")

# %% [markdown]
# Half of the bytes for float16. But PyTorch's hook for bfloat16 wants NCCL, and refuses to work on
# the CPU. Gloo itself can sum bfloat16, so a hook of your own does it. It has three lines:

# %%
def average_in_bfloat16(state, bucket):
    small = bucket.buffer().bfloat16() / dist.get_world_size()
    future = dist.all_reduce(small, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].float())  # the result: a list of one tensor

def register_own_hook(ddp):
    ddp.register_comm_hook(None, average_in_bfloat16)

run = launch(fewer_bytes.one_backward, register_own_hook, digits, world_size=2, device="cpu")
plain_bytes = runs["DDP"]["backward"].sent_bytes[0]
share = run["backward"].sent_bytes[0] / plain_bytes
print(f"own hook for bfloat16: {share:.2f} times the bytes of DDP")

# %% [markdown]
# The hook divides *before* the sum. In float16 the largest number is 65,504, so a sum of many
# gradients may overflow. (The price: what is below about 0.00000003 after the division becomes 0.)
# bfloat16 has the range of float32, and only two to three digits.
#
# 16 bits are a factor of two, and 8 bits would be four. To save more, send fewer numbers.

# %% [markdown]
# ## 2 · Fewer numbers
#
# A gradient of a linear layer is a matrix, and a special one. For one row of inputs (one sample
# here, one token in a transformer) it is a column times a row: the gradient of the output, times
# the input. Such a product has **matrix rank** 1, and two vectors say everything about it. (This
# rank of a matrix has nothing to do with ranks that are processes. We write $r$ for it.) For a
# batch, the matrix is a sum of such products.
#
# How much of the gradient do the largest 1, 2 or 4 products hold? We measure it by the sum of
# squares of all entries.

# %% tags=["nbval-ignore-output"]
model = fewer_bytes.make_model()
images, labels = digits[0][:32].float(), digits[1][:32]
torch.nn.functional.cross_entropy(model(images), labels).backward()
energy = torch.linalg.svdvals(model[2].weight.grad).square()
for r in (1, 2, 4, 32):
    print(f"matrix rank {r:2}: {energy[:r].sum() / energy.sum():.1%} of the sum of squares")

# %% [markdown]
# The matrix has 65,536 numbers. A pair of vectors has 512. A few pairs hold most of the matrix.
# (With 32 samples its rank is at most 32, so the last line has to be 100 %.)
#
# The largest products themselves take long to find. **PowerSGD** comes near
# with two multiplications. Let $M$ be the matrix, and $q$ a guess of $r$ columns. Then $P = M q$
# has $r$ columns, in directions in which $M$ is large. Make them **orthonormal**: of length 1,
# and at right angles. The best that such columns can do for $M$ is its projection on them,
# $P\,P^\top M{.}$ With $Q = M^\top P$ that is $P\,Q^\top{.}$ So only $P$ and $Q$ travel.

# %% [markdown]
# The guess is the $Q$ of the step before, since gradients change slowly. (One round is a step of a
# *power iteration*.)
#
# What is left out is not thrown away. Each rank keeps it, and adds it to its next gradient. This is
# **error feedback**: what does not get through today is sent tomorrow.
#
# For a matrix of $m \times k$, $P$ and $Q$ have $r\,(m + k)$ numbers. Biases are small, and travel
# as they are. The model has matrices of 256 × 64, 256 × 256 and 10 × 256, and 522 biases. How much
# does PowerSGD send with $r = 1$?

# %%
low = predict("PowerSGD, r = 1: bytes in percent of DDP's", unit="%")

# %% [markdown]
# ### Exercise {{power_round}} · One round of PowerSGD
#
# Write `power_round(gradient, error, q, group=None)` in
# [labs/fewer_bytes.py](../labs/fewer_bytes.py). `gradient` is this rank's matrix, of shape
# $(m, k)$. `error` has the same shape: what earlier rounds on this rank did not send, zeros at
# first. `q` has the shape $(k, r)$, and is the same on all ranks.
#
# 1. $M$ = `gradient` + `error`.
# 2. $P = M q$, averaged over all ranks. Make its columns orthonormal: `orthonormal(p)` does it.
# 3. $Q = M^\top P$, averaged over all ranks.
# 4. The result is $P\,Q^\top$. Return it. It is the same on all ranks.
# 5. `error` becomes $M$ minus the result, and `q` becomes $Q$: change both tensors in place.

# %% [markdown]
# `gradient` does not change. All tensors have the dtype of `gradient`: float32 or float64. A rank
# may send as much as all-reduces of $P$ and $Q$ do, and no more. Give `group` to every call.

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
check("{{power_round}}")

# %% [markdown]
# PyTorch has PowerSGD as a hook, with a state that keeps the errors and the $Q$. It works over
# Gloo, too. By default it begins after 1,000 iterations, and compresses only matrices that become
# at least two times smaller. Here it begins at once.

# %%
def low_rank(ddp):
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

theirs = launch(fewer_bytes.one_backward, low_rank, digits, world_size=2, device="cpu")
mine = launch(fewer_bytes.one_exchange, "PowerSGD, r = 1", digits, world_size=2, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the operating system counted.
numbers = (256 + 64) + (256 + 256) + (10 + 256) + 522
sent = mine["exchange"].sent_bytes[0]
low.compare(100 * numbers / 85_002, 100 * sent / plain_bytes, kind="communication")

# %% tags=["nbval-ignore-output"]
print(f"PyTorch's hook sends {theirs['backward'].sent_bytes[0]:,} bytes, `power_round` {sent:,}")

# %% [markdown]
# Fifty times fewer numbers. But more bytes were counted than the formula gives, which is 4 bytes
# for each of 1,620 numbers: 6,480. The rest are headers of all-reduces, about 580 bytes each, and
# these messages are small. `power_round` needs seven all-reduces in a step: two for each matrix,
# one for all biases. PyTorch's hook sends the $P$ of all matrices together, and needs three. With a
# large model, headers do not matter.

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
# Fewer bytes alone help nobody. What counts is how good the model is after so many bytes, or after
# so many seconds. So all six ways train the same model on the same samples, with SGD and momentum,
# on two ranks. The first way averages all gradients with one plain all-reduce after the backward.
# It sends DDP's bytes, but nothing overlaps.
#
# Part 03h has shown: whoever picks one learning rate for all picks the winner. So each way gets a
# rate of its own. We begin with 0.1, and double and halve the best rate until it has a worse one on
# each side.

# %% tags=["nbval-ignore-output"]
tried = launch(worth.tune_rates, digits, steps, world_size=2, device="cpu").values[0]
Table(["way", "best rate", "loss at each rate"], worth.rate_rows(tried))

# %% [markdown]
# One seed was used for this choice. The loss is the mean of the last four, ten steps apart, since
# it goes up and down. Now each way is trained at its best rate with three other seeds. We count the
# bytes that a process sends.
#
# Read the picture from left to right: with so many megabytes, how far does each way get? Then from
# top to bottom: how many megabytes does a loss of 0.3 cost?

# %%
rates = {way: worth.best_rate(losses) for way, losses in tried.items()}
trained = launch(worth.curves, digits, steps, rates, world_size=2, device="cpu")
losses = trained.values[0]
bytes_of = {way: trained[way].sent_bytes[0] / (3 * steps) for way in losses}  # of a step

# %% tags=["cover", "nbval-ignore-output"]
plot_spreads({"": worth.key_by_megabytes(losses, bytes_of)}, "MB sent by a process",
             "training loss", logarithmic="xy",
             title="Loss against bytes: six ways to train on two ranks")

# %% tags=["nbval-ignore-output"]
for way, megabytes in worth.megabytes_to(losses, bytes_of, 0.3).items():
    print(f"{way:15} reaches a loss of 0.3 after {megabytes:5.1f} MB")

# %% [markdown]
# (A way that is missing in this list did not get so far.)
#
# Now the seconds. Two machines, each with a card of 5 MB/s. (That is 40 Mbit/s, about an office's
# link to the Internet.) The ways take turns there, ten steps at a time, and the quickest ten of
# fifty count. What is the loss of each way when the plain all-reduce has done a fifth of its steps?
# That is computed from the two measurements: how many steps fit into this time, and which loss
# belongs to so many steps.

# %%
machines = Machines.here(2, bytes_per_second=card_megabytes_per_second * 1e6)
run = launch(fewer_bytes.seconds_of_step, digits, world_size=2, machines=machines, device="cpu")
rounds = run.values[0]
seconds = {way: min(of_way) for way, of_way in rounds.items()}

# %% tags=["nbval-ignore-output"]
budget = steps // 5 * seconds["all-reduce"]
print(worth.what_was_found(losses, bytes_of, seconds, steps))
Table(["way", "bytes a step", "a step takes", f"loss after {steps} steps",
       f"steps in {budget:.1f} s", "loss then"],
      worth.rows(losses, bytes_of, seconds, budget))

# %% [markdown]
# Which ways stay among the best depends on what is counted: steps, bytes or seconds. (Named above
# the table are the way with the lowest median, and all whose three seeds overlap with its seeds.
# Where more steps fit into the time than were trained, the loss at the end of the training stands
# there.)
#
# *Break it.* Set `card_megabytes_per_second` to 500. Then a step takes about as long as its
# computation and the latency of its messages. A way that sends seven small messages may be slower
# than one that sends a large one.

# %% [markdown]
# And error feedback, does it matter? Here is PowerSGD with $r = 1{,}$ whose `error` is set to zero
# before each round. Its learning rate is tuned in the same way.

# %% tags=["nbval-ignore-output"]
cheap, careless = "PowerSGD, r = 1", "r = 1, errors forgotten"
also = launch(worth.tune_rates, digits, steps, (careless,), world_size=2, device="cpu").values[0]
at_best = {careless: worth.best_rate(also[careless])}
forgetful = launch(worth.curves, digits, steps, at_best, world_size=2, device="cpu").values[0]
print(f"{careless}: loss {worth.ends_of(forgetful, careless)}")
print(f"{cheap}: loss {worth.ends_of(losses, cheap)}")
print(worth.compare_ends(losses, cheap, forgetful, careless))

# %% [markdown]
# Both send the same bytes. Without error feedback, what was left out of a step is lost.
#
# What this toy cannot tell: digits are easy, and almost any direction downhill will do. With a
# large model, you have to find out by trying which matrix rank is enough, and how many steps a
# process may train alone.

# %% [markdown]
# **On GPUs** a fast network changes the answer. Inside a machine with NVLink, an all-reduce may be
# hidden behind the backward (03c). Then fewer bytes save nothing, and compressing costs time.
# Of the methods that PowerSGD's authors tried, it was the only one that was always faster than SGD
# with a good backend, says their [paper](https://arxiv.org/abs/1905.13727). It needs memory for one
# more copy of the gradients, says PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html). PyTorch's hook for
# bfloat16 needs NCCL 2.10: section 1 showed its error.
#
# According to the abstract of DiLoCo's [paper](https://arxiv.org/abs/2311.08105), a language model
# trained by 8 workers is as good as with synchronous training, with 500 times less communication.
# None of this was measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
slow, quick = seconds["all-reduce"], seconds[cheap]
verdict = compare_rounds(rounds[cheap], rounds["all-reduce"]).judge("right", "wrong here")
put_to_the_test(f"""
- Network bound: reduce communication | book chapter, “The Efficiency Equation” | {verdict}, and it
  changes the training | at {card_megabytes_per_second:g} MB/s a step with a plain all-reduce takes
  {1e3 * slow:.0f} ms, with {cheap} {1e3 * quick:.0f} ms; loss after {steps} steps
  {worth.ends_of(losses, "all-reduce")} and {worth.ends_of(losses, cheap)} (section 4)
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
#   steps. Tune each one first. On a fast network they may save nothing.
#
# **Your exercise** stands in [labs/fewer_bytes.py](../labs/fewer_bytes.py).
#
# **Next**: {{next}}.

# %%
progress("03j")
