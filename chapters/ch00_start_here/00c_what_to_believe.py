# %% [markdown]
# # {{title}}
#
# **Which numbers of this course can you trust, and which of them hold on a cluster, too?** Every
# part compares results, and measures bytes, memory and time, on your machine. Here you see when two
# results are equal, and you test the three instruments on things that you know. Then you meet a
# slow rank that looks like a slow network.

# %% [markdown]
# ![Timeline of three steps on four ranks, with bars for computing and for the all-reduce. Rank 3
# computes longer than the others](../assets/covers/00c_what_to_believe.png)
#
# *Measured in section 4: three steps on four ranks.*
#
# **After this part you can** tell rounding from a mistake, and measure bytes, memory and time of a
# block. You recognise a slow rank, and can say what carries over from a laptop to a cluster.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import time

import torch
import torch.distributed as dist

from pedagogy_lib import (
    close, launch, measure, plot_timeline, predict, progress, relative_gap,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0

# %% [markdown]
# ## 1 · Equal, but for rounding
#
# The course often says that two results are equal *but for rounding*. Why not simply equal? A
# float64 keeps about 16 digits. A computer rounds after every addition. Many ranks add the same
# numbers as one process, but in another order. So the last digits may differ. Three numbers are
# enough to see it:

# %%
print((0.1 + 0.2) + 0.3)
print(0.1 + (0.2 + 0.3))

# %% [markdown]
# So "are they equal?" is the wrong question. The right one: is the difference as small as rounding
# makes it? The next cell has 32 samples, and the gradient of a mean loss over them. First 4 ranks
# share the samples, 8 for each. Then 3 ranks share them: 11, 11 and 10 samples. Each time, the mean
# of the ranks' gradients is compared with the gradient over all 32.

# %%
torch.manual_seed(0)
x, y = torch.randn(32, 8).double(), torch.randn(32).double()

def gradient(rows):  # of the mean of (x w − y)² over these rows, at w = 0
    return 2 * x[rows].T @ -y[rows] / len(y[rows])

def mean_over(ranks):
    return sum(gradient(slice(rank, None, ranks)) for rank in range(ranks)) / ranks

whole = gradient(slice(None))
gaps = {ranks: relative_gap(mean_over(ranks), whole) for ranks in (4, 3)}

# %% tags=["nbval-ignore-output"]
print(f"4 ranks: off by {gaps[4]:.1e} of the largest gradient, which is rounding")
print(f"3 ranks: off by {gaps[3]:.1e}, which is a mistake")

# %% [markdown]
# Here rounding and a mistake are many powers of ten apart. `close` draws the line between them.
# After one step, it allows a difference of $2\cdot10^{-12}$ times the largest number; after $k$
# steps, $k$ times as much. That leaves room for about ten thousand roundings of $2\cdot10^{-16}$. A
# few later cells say *to 1e-12*, and allow that much instead.

# %% [markdown]
# That the room grows in proportion to the steps is an assumption. Training can amplify a rounding
# from step to step, and at a learning rate that is too large even exponentially. So the course
# compares after a few steps of small models.

# %% [markdown]
# In float32, one rounding is already $10^{-7}$, and a small mistake could hide in it. That is why
# these tests use float64. (The results for a batch and for slices of it may differ in their last
# bits, say PyTorch's [notes on numerical
# accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).)

# %%
print("4 ranks equal one process, but for rounding:", close(mean_over(4), whole))
print("3 ranks:", close(mean_over(3), whole))

# %% [markdown]
# ## 2 · Three instruments
#
# `with measure("name")` reads three instruments before and after a block of code:
#
# * **Wire**: the operating system counts the bytes of each connection.
# * **Memory**: every tensor is followed from its birth to its end, and sorted by what it is for.
# * **Time**: one clock for all ranks of a machine.
#
# How many bytes does a rank send in an all-reduce? Guess first.

# %%
bytes_guess = predict(
    f"All-reduce of {megabytes:g} MB on {world_size} ranks: sent by each rank", unit="MB"
)

# %% tags=["nbval-ignore-output"]
def all_reduce():
    x = torch.ones(int(megabytes * 1e6 / 4))  # 4 bytes each
    with measure("all_reduce"):
        dist.all_reduce(x)
    return x[0].item()

run = launch(all_reduce, world_size=world_size)
run

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
theory = 2 * (world_size - 1) / world_size * megabytes
sent = run["all_reduce"]
bytes_guess.compare(theory, sent.sent_bytes[0] / 1e6, kind="communication", wire=sent.wire)

# %% [markdown]
# Here every rank sends
#
# $$\frac{2\,(n-1)}{n}\,X$$
#
# bytes for a tensor of $X$ bytes on $n$ ranks, and receives as much. With four ranks that is
# $1.5\,X$. It stays below $2\,X$, however many ranks there are. No rank sends its whole tensor to
# all others: each one adds up a quarter, and passes it on. You write such an all-reduce in chapter
# 02. (This is Gloo's. Other algorithms send more or less: part 02d.)
#
# *Break it.* Set `megabytes = 0.001` at the top, and run this section again. Over Gloo, more than
# twice the 0.0015 MB of the formula are measured. Which bytes are the others? (Headers of the
# messages: section 3.)

# %% [markdown]
# ## 3 · How far to trust them
#
# You can trust an instrument once it has told you something that you knew. Here each rank takes a
# tensor of exactly 64 MiB, and sleeps for 0.1 s. A sleep may last longer, but never shorter. Then
# rank 0 sends exactly ten million bytes to rank 1. (The launch stays on the CPU, where the
# operating system counts bytes.)

# %%
def use_known_amounts():
    with measure("take and sleep"):
        torch.empty(64 * 2**20, dtype=torch.uint8)
        time.sleep(0.1)
    x = torch.zeros(10_000_000, dtype=torch.uint8)
    with measure("send"):
        if dist.get_rank() == 0:
            dist.send(x, dst=1)
        else:
            dist.recv(x, src=0)

known = launch(use_known_amounts, world_size=2, device="cpu")

# %%
slept, sent = known["take and sleep"], known["send"]
print("bytes seen beyond 64 MiB:", slept.peak_bytes[0]["total"] - 64 * 2**20)
print("slept at least 0.1 s:", slept.seconds[0] >= 0.1)
print(f"{sent.wire}: rank 0 sent 10 MB and {sent.sent_bytes[0] - 10_000_000} bytes")

# %% [markdown]
# * **Wire**: your data, and Gloo's headers of 48 bytes: two from a message's sender, one from its
#   receiver. They matter for small tensors only. Under NCCL, and on macOS, the operating system
#   does not count. There the bytes are *computed* from the calls, by the textbook's formula. Such
#   bytes are no test of that formula.
# * **Memory**: exact for tensors. It does not see Python, nor what a library allocates by itself.
# * **Time**: noisy, because other programs use the same cores. Compare times of one run, as ratios,
#   and believe only ratios that are far from 1.
#
# Watching costs time, too. The next cell runs a thousand of the smallest operations, with memory
# followed and without.

# %% tags=["nbval-ignore-output"]
def a_thousand_additions(memory):
    x = torch.ones(4)
    with measure("additions", memory=memory):
        for _ in range(1000):
            x + x

for memory in (False, True):
    seconds = launch(a_thousand_additions, memory, world_size=1)["additions"].seconds[0]
    print(f"memory={memory}: {seconds * 1e3:.1f} µs for each addition")

# %% [markdown]
# For an operation of milliseconds this hardly matters. For very many short ones, write
# `measure("name", memory=False)`.

# %% [markdown]
# ## 4 · The slowest rank
#
# Distributed training has two enemies. *Communication*: bytes take time to travel.
# *Synchronisation*: whoever is early waits for whoever is late. Below, each rank computes, and then
# takes part in an all-reduce of four bytes. Ranks 0 to 2 compute for 40 ms, rank 3 for 120 ms.
# (Computing is a sleep here, so that the picture is the same on any number of cores.)

# %% tags=["cover", "nbval-ignore-output"]
def three_steps(slow_ranks):
    x = torch.ones(1)
    for slow in slow_ranks:  # one for each step
        with measure("compute (a sleep)"):
            time.sleep(0.12 if dist.get_rank() == slow else 0.04)
        with measure("all_reduce"):
            dist.all_reduce(x)

steps = launch(three_steps, [3, 3, 3], world_size=4)
plot_timeline(steps, title="Three steps: rank 3 computes longer")

# %% [markdown]
# On ranks 0 to 2 the all-reduce takes longer than the computing. They are not sending: they wait
# for rank 3, which is a **straggler**. On rank 3 the same all-reduce is short. So a long collective
# does not by itself mean a slow network.
#
# Now rank 1 is slow in the first step, rank 2 in the second, and rank 3 in the third. Each of them
# computes for 120 + 40 + 40 = 200 ms in all, and rank 0 for 120 ms. How long do the three steps
# take?

# %%
steps_guess = predict("Another rank is slow in each step: the three steps take about", unit="ms")

# %% tags=["nbval-ignore-output"]
steps = launch(three_steps, [1, 2, 3], world_size=4)
plot_timeline(steps, title="Three steps: another rank is slow in each")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: from the first beginning to the last end.
began = min(start for rank in steps["compute (a sleep)"].spans for start, _ in rank)
ended = max(end for rank in steps["all_reduce"].spans for _, end in rank)
steps_guess.compare(3 * 120, 1e3 * (ended - began))

# %% [markdown]
# The three steps take about as long as with one rank that is always slow. No rank has more than 200
# ms to compute, but somebody is slow in every step. **Each step is as slow as its slowest rank.**
# (A collective that does nothing but wait for everybody is called a **barrier**: `dist.barrier()`.)
#
# Slow links come back in chapters 02 and 09, slow ranks in 03, ranks of a pipeline that wait in 08.

# %% [markdown]
# ## 5 · What a laptop can show
#
# More ranks on one CPU are for studying, not for speed: they share its cores. So the course never
# promises a speed-up on your machine.

# %% [markdown]
# What carries over from your laptop to a cluster?
#
# * **Results**: the same algorithm in the same precision gives the same numbers, up to rounding.
# * **Your own algorithms**: the messages that *you* write, who waits for whom, the steps of a
#   schedule.
# * **Not** what a library does inside. In part 02d Gloo's reduce-scatter sends twice what it needs.
#   NCCL has [several
#   algorithms](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) for an
#   all-reduce, rings and trees among them.
# * **Not** seconds. Where time is the lesson, links are slowed down or a sleep stands for
#   computing, and the text says so.

# %% [markdown]
# **On GPUs**, a product of float32 is computed in TF32, with fewer digits, if a program allows it
# (05b). Memory differs as well: PyTorch [keeps freed
# memory](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html) for
# later tensors, and NCCL has buffers of its own. Bytes of tensors are the same.

# %% [markdown]
# ## What you have learnt
#
# * Another **order of additions** gives other last digits. So "equal to one process" means: but for
#   rounding, in float64.
# * `measure` tells **bytes, memory and time**. The memory of tensors is exact. Bytes on the wire
#   are exact where the operating system counts them. Time is noisy.
# * **Each step is as slow as its slowest rank**, and that looks like a slow collective.
# * **Results** and your own algorithms carry over to a cluster. Seconds, and what a library does
#   inside, do not.
#
# **This part has no exercise.** Those of the chapter are in parts [00](00_start_here.ipynb) and
# [00b](00b_what_to_split.ipynb).
#
# **Next**: {{next}}.

# %%
progress("00c")
