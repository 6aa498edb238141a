# %% [markdown]
# # 00b · What to split, and what to believe
#
# **Are eight GPUs with 4 GB as good as one GPU with 32 GB?** That depends on what is split among
# them. Here you see three things that can be split, and what that does to the memory. Then you test
# the instruments of this course, and learn which of their numbers hold on a cluster, too.

# %% [markdown]
# ![Timeline of three steps on four ranks: ranks 0 to 2 wait in every all-reduce until rank 3 has
# computed](../assets/covers/00b_what_to_split.png)
#
# *Measured in section 7: everybody waits for the slowest rank.*
#
# **After this part you can** say what each rank holds if the batch, the layers or the list of
# layers is split, deal samples to ranks, measure bytes, memory and time of a block, and say how far
# to trust each of them.
#
# **It takes** about 25 minutes, and 10 more for 1 exercise. **It needs** Python, a training loop in
# PyTorch, and part [00](00_start_here.ipynb).

# %% jupyter={"source_hidden": true}
import difflib
import inspect
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from pedagogy_lib import (
    Table, check, close, draw_scaling, draw_three_splits, explore, launch, measure, plot_against,
    plot_peak, plot_timeline, predict, progress, put_to_the_test, relative_gap,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0

# %% [markdown]
# ## 1 · Why distribute at all?
#
# Three reasons are usually given. The **model does not fit** into the memory of one GPU. Only a
# **small batch fits**. Training **takes too long**.
#
# There are two ways to get more. *Vertical* scaling takes a larger GPU, and the program stays as it
# is. *Horizontal* scaling takes more GPUs, and the program changes. In the picture, area is memory
# of GPUs. Both ways end with 32 GB.

# %%
draw_scaling()

# %% [markdown]
# Are both worth the same? That depends on what each GPU keeps. The usual way to train on many GPUs
# is PyTorch's `DistributedDataParallel` (**DDP**). Each rank has the model, and computes a part of
# the batch.

# %%
memory_guess = predict("A 16 MB model under DDP on 4 ranks: parameters on each rank", unit="MB")

# %%
def hold_a_copy():
    with measure("hold"):
        DistributedDataParallel(nn.Linear(1000, 4000, bias=False))  # 4 million float32 numbers

copies = launch(hold_a_copy, world_size=4)["hold"]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
on_each = copies.peak_bytes[0]["parameters"] / 1e6
memory_guess.compare(theory=16, measured=on_each, kind="parameters")

# %%
def hold_a_quarter():  # without DDP: each rank makes a fourth of the layer
    with measure("hold"):
        nn.Linear(1000, 1000, bias=False)

plot_peak(launch(hold_a_quarter, world_size=4), "hold", predicted={"parameters": 16e6},
          title="A quarter of the model on each rank", outline="a complete copy")

# %% [markdown]
# DDP keeps a complete copy on each rank, a **replica**. So eight GPUs of 4 GB are **not** one GPU
# of 32 GB. Replicas help against the second and the third reason. They do not help against the
# first.
#
# **Sharding** helps against the first: each rank keeps a part, a *shard*, as in the last picture. A
# shard travels to other ranks when they need it. When it travels, how many bytes that costs, and
# how to hide the time is the subject of chapters 06 to 09. (Here you saw parameters only. Training
# also keeps gradients and more: chapter 05.)

# %% [markdown]
# ## 2 · How much of the program changes?
#
# Here is a training loop for one process, and then the same loop for many. `launch` gives all ranks
# the same random seed. So each rank draws the same 32 samples, and then takes its share of them.
# Rank 1 of 4 takes `x[1::4]`: the rows 1, 5, 9, … of `x`.

# %%
def train_alone():
    x, y = torch.randn(32, 8).double(), torch.randn(32, 1).double()
    model = nn.Linear(8, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.state_dict().values())

# %%
def train_together():
    x, y = torch.randn(32, 8).double(), torch.randn(32, 1).double()
    rank, n = dist.get_rank(), dist.get_world_size()
    x, y = x[rank::n], y[rank::n]
    model = nn.Linear(8, 1).double()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.module.state_dict().values())

# %%
programs = [inspect.getsource(f).splitlines()[1:] for f in (train_alone, train_together)]
changed = [line for line in difflib.ndiff(*programs) if line.startswith("+ ")]
print(*changed, sep="\n")

# %% [markdown]
# Four lines. A program without `launch` also needs the lines of part 00 that connect its ranks, and
# one rank alone has to write its files. (Tensor and pipeline parallel change much more: they change
# the model.)
#
# Does it train the same model? In each step DDP takes the mean of the ranks' gradients with an
# all-reduce. (Both launches stay on the CPU: GPUs would draw other random numbers.)

# %%
alone = launch(train_alone, world_size=1, device="cpu").values[0]
together = launch(train_together, world_size=4, device="cpu").values
print("equal to one process, but for rounding:",
      all(close(weights, alone, steps=5) for weights in together))

# %% [markdown]
# That is the test which every technique of this course has to pass: **the same values and gradients
# as one process, in float64.**
#
# ## 3 · Why "but for rounding"?
#
# Four ranks add the same numbers as one process, but in another order. A computer rounds after
# every addition. So another order may give another last digit. Three numbers are enough to see it:

# %%
print((0.1 + 0.2) + 0.3)
print(0.1 + (0.2 + 0.3))

# %% [markdown]
# So equality is the wrong question. The right one: is the difference as small as rounding makes it?
# Below it stands beside a real mistake. With another seed on each rank, each rank draws *another*
# batch of 32 samples.

# %% tags=["nbval-ignore-output"]
mistaken = launch(train_together, world_size=4, device="cpu", seed=[0, 1, 2, 3]).values
print(f"rounding: {relative_gap(together[0][0], alone[0]):.2g} of the largest weight")
print(f"a mistake: {relative_gap(mistaken[0][0], alone[0]):.2g} of the largest weight")

# %% [markdown]
# A float64 has 16 digits, so one rounding is about $10^{-16}$. `close` draws the line at
# $2\cdot10^{-12}$ of the largest number, for each step of the training. Where the course says
# *equal to 1e-12*, it means this. It leaves room for some thousand roundings, and the mistake above
# is far larger. In float32 one rounding is already $10^{-7}$. A small mistake could hide in there:
# that is why these tests use float64.
#
# *Break it.* Launch `train_together` with `world_size=3`, without `seed`. Ranks get 11, 11 and 10
# samples, and count as if they had equally many. Part 01b mends this.

# %% [markdown]
# ## 4 · What can be split
#
# Three things: the batch, every layer, or the list of layers. Each row below is a rank, and what it
# holds is filled. Move the slider. Which of the three gives each rank a smaller part of the
# *model*? Which one a smaller part of the *batch*? (The picture shows *how many* samples a rank
# takes. *Which* ones is asked below.)

# %%
explore(draw_three_splits, ranks=[4, 2, 8])

# %% [markdown]
# * **Data parallel**: ranks have the same model and other samples. Once a step they must agree on
#   the gradients.
# * **Tensor parallel**: each rank has a part of every layer, so it computes a part of every result.
#   Ranks must talk inside of every layer.
# * **Pipeline parallel**: each rank has some of the layers. It hands what they compute, the
#   **activations**, to the next rank. Ranks wait for each other.
#
# The three can be combined, and there are more. *Sharded data parallel* (chapter 06) also splits
# what data parallel copies. Chapter 09 splits experts and long texts.
#
# *Model parallel* means tensor parallel to some authors, pipeline parallel to others, and both to a
# third group. Say which split you mean.

# %% [markdown]
# ### Exercise 0.3 · Deal the samples
#
# A batch of `n` samples, numbered 0 to n − 1, is shared by `world_size` ranks. They are dealt out
# like cards: sample 0 to rank 0, sample 1 to rank 1, and so on. After the last rank comes rank 0
# again, until no sample is left. Return the list of the samples that `rank` gets, in this order.
#
# With `n = 7` and `world_size = 3`, rank 0 gets `[0, 3, 6]`, rank 1 gets `[1, 4]`, and rank 2 gets
# `[2, 5]`. So if `n` cannot be divided evenly, the first ranks get one sample more. No sample is
# dealt twice.

# %%
def my_samples(n, rank, world_size):
    ### BEGIN SOLUTION
    return list(range(rank, n, world_size))
    ### END SOLUTION

# %%
check("0.3", my_samples)

# %%
def sampler_indices(n):
    return list(DistributedSampler(range(n), shuffle=False))

dealt = {n: launch(sampler_indices, n, world_size=4).values for n in (32, 33, 64)}
Table(["rank", "32 samples", "33 samples"], [[r, dealt[32][r], dealt[33][r]] for r in range(4)],
      title="PyTorch's DistributedSampler: all ranks take equally many steps",
      note=f"so of 33 samples it deals out {sum(map(len, dealt[33]))}: the first ones twice")

# %% [markdown]
# PyTorch's sampler deals as you did where `n` divides evenly. Elsewhere it deals some samples
# twice, so that no rank waits for a batch that never comes. Blocks of neighbours would train as
# well, if they are equally large: the mean over the whole batch is the same.
#
# ## 5 · Three instruments
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

run = launch(all_reduce, world_size=world_size)
run

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
theory = 2 * (world_size - 1) / world_size * megabytes
sent = run["all_reduce"]
bytes_guess.compare(theory, sent.sent_bytes[0] / 1e6, kind="communication", wire=sent.wire)

# %% [markdown]
# Every rank sends
#
# $$\frac{2\,(n-1)}{n}\,X$$
#
# bytes for a tensor of $X$ bytes on $n$ ranks, and receives as much. With four ranks that is
# $1.5\,X$. It stays below $2\,X$, however many ranks there are. How this is possible is the subject
# of chapter 02, where you write such an all-reduce yourself.
#
# Data parallel training uses the all-reduce most. Sharded training mostly uses two other
# operations, all-gather and reduce-scatter (chapter 06).
#
# *Break it.* Set `megabytes = 0.001` at the top. Which bytes are the rest? Section 6 knows.

# %% [markdown]
# ## 6 · How far to trust them
#
# You can trust an instrument once it has told you something that you knew. Here each rank takes a
# tensor of exactly 64 MiB, and sleeps for 0.1 s. A sleep may last longer, but never shorter. Then
# rank 0 sends exactly ten million bytes to rank 1. (The launch stays on the CPU, where the
# operating system counts bytes.)

# %%
def something_known():
    with measure("take and sleep"):
        torch.empty(64 * 2**20, dtype=torch.uint8)
        time.sleep(0.1)
    x = torch.zeros(10_000_000, dtype=torch.uint8)
    with measure("send"):
        if dist.get_rank() == 0:
            dist.send(x, dst=1)
        else:
            dist.recv(x, src=0)

known = launch(something_known, world_size=2, device="cpu")

# %%
slept, sent = known["take and sleep"], known["send"]
print("bytes seen beyond 64 MiB:", slept.peak_bytes[0]["total"] - 64 * 2**20)
print("slept at least 0.1 s:", slept.seconds[0] >= 0.1)
print(f"{sent.wire}: rank 0 sent 10 MB and {sent.sent_bytes[0] - 10_000_000} bytes")

# %% [markdown]
# * **Wire**: your data, and Gloo's headers of 48 bytes. A message has two of them, an all-reduce
#   has dozens. They matter for small tensors only. Where no kernel counts (under NCCL, and on
#   macOS) the bytes are *counted* from the calls, by the textbook's formula. Then they are no test
#   of that formula.
# * **Memory**: exact for tensors. It does not see Python, nor what a library allocates by itself.
# * **Time**: noisy, because other programs use the same cores. Compare times of one run, as ratios,
#   and believe only large ones.
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
# An operation that lasts milliseconds hardly notices. For very many short ones, write
# `measure("name", memory=False)`.
#
# ## 7 · The slowest rank
#
# Distributed training has two enemies. *Communication*: bytes take time to travel.
# *Synchronisation*: whoever is early waits for whoever is late. Below, each rank computes, and then
# takes part in an all-reduce of four bytes. Rank 3 computes three times as long as the others.
# (Computing is a sleep here, so that the picture is the same on any number of cores.)

# %% tags=["cover", "nbval-ignore-output"]
def three_steps():
    x = torch.ones(1)
    for _ in range(3):
        with measure("compute (a sleep)"):
            time.sleep(0.12 if dist.get_rank() == 3 else 0.04)
        with measure("all_reduce"):
            dist.all_reduce(x)

steps = launch(three_steps, world_size=4)
plot_timeline(steps, title="Everybody waits for the slowest rank")

# %% [markdown]
# On ranks 0 to 2 the all-reduce takes longer than the computing. They are not sending: they wait
# for rank 3, which is a **straggler**. On rank 3 the same all-reduce is short. So a long collective
# does not yet mean a slow network. **The world is as fast as its slowest rank.**
#
# *Break it*: make another rank slow, or a different one in each step. Slow ranks come back in
# chapter 03, idle stages of pipelines in 08, slow links in 09.

# %% [markdown]
# ## 8 · What a laptop can show
#
# More ranks on one CPU are for studying, not for speed. The next cell shares 400 matrix products
# among more and more ranks, three times. Each rank computes with one thread of the CPU. A
# **barrier** makes them begin together: nobody leaves it before everybody has come.

# %%
def share_of_work(products):
    a = torch.randn(256, 256)
    a @ a
    dist.barrier()
    with measure("work", memory=False):
        for _ in range(products // dist.get_world_size()):
            a @ a

def seconds_on(ranks):
    run = launch(share_of_work, 400, world_size=ranks, device="cpu")
    spans = [span for rank in run["work"].spans for span in rank]
    return max(end for _, end in spans) - min(start for start, _ in spans)

# %% tags=["nbval-ignore-output"]
ranks, cores = [1, 2, 4, 8], os.cpu_count()
rounds = [[seconds_on(n) for n in ranks] for _ in range(3)]
fastest, slowest = [min(times) for times in zip(*rounds)], [max(times) for times in zip(*rounds)]
ideal = [fastest[0] / min(n, cores) for n in ranks]
plot_against(ranks, {"fastest of three": fastest, "slowest of three": slowest},
             xlabel="ranks, one thread each", ylabel="time (s)",
             predicted={f"perfect sharing of {cores} cores": ideal},
             title="The same work on more ranks")

# %% [markdown]
# More ranks than cores take turns. Up to the number of cores, the time may follow the dashed line,
# or stay above it. Other programs may use the cores, two "cores" may share one real core, and many
# processors slow down when all cores work. This cell cannot tell these causes apart. So the course
# never promises a speed-up on your machine.

# %% [markdown]
# What carries over from your laptop to a cluster?
#
# * **Results**: the same algorithm gives the same numbers, but for rounding.
# * **Your own algorithms**: the messages that *you* write, who waits for whom, the steps of a
#   schedule.
# * **Not** what a library does inside. In part 02b Gloo's reduce-scatter sends twice what it needs.
#   NCCL has [several
#   algorithms](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) for an
#   all-reduce, rings and trees among them.
# * **Not** seconds. Where time is the lesson, links are slowed down or a sleep stands for
#   computing, and the text says so.
#
# **On GPUs**, memory differs as well: PyTorch [keeps freed
# memory](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html) for
# later tensors, and NCCL has buffers of its own. Bytes of tensors are the same.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# The statements of the sources, and what was found.
state_gb, gpu_hours = 16 * 70, 1.72e6
per_year = (530 / 1.5) ** (1 / (2 + 8 / 12))
put_to_the_test(f"""
- [C001] Distribute if the model does not fit, if the batch is forced to be small, or if it takes
  too long | PyTorch slides, “What is distributed training?” | imprecise | copies do not cure the
  first: {on_each:g} MB on every rank (section 1). One device cures the second, too (chapter 01)
- [C002] Horizontal scaling needs a small change of the program | PyTorch slides, “Vertical scaling,
  horizontal scaling” | depends | {len(changed)} lines for DDP, and those that connect ranks
  (section 2); tensor and pipeline parallel change the model
- [C003] 4 servers with 2 GPUs of 4 GB and 8 GB of RAM stand beside one with 32 GB and 64 GB |
  PyTorch slides, “Vertical scaling, horizontal scaling” | imprecise |
  {4 * 2 * 4} GB of GPU memory in pieces of 4 GB, and {4 * 8} GB of RAM (section 1)
- [C011] Training GPT-4 or Llama 70B needs hundreds or thousands of GPUs | web page, “Overview” |
  depends | 16 bytes for each of 70 billion parameters fill {state_gb / 80:g} GPUs of 80 GB. Llama 2
  70B took 1.72 million GPU hours, say its authors: {gpu_hours / 24 / 365:.0f} years on one GPU,
  {gpu_hours / 24 / 2000:.0f} days on 2000 at best
""")

# %% jupyter={"source_hidden": true}
# More statements; those that are right and surprise nobody are folded.
dealt[256] = launch(sampler_indices, 256, world_size=8).values
shares = {n: sorted({len(indices) for indices in ranks}) for n, ranks in dealt.items()}
put_to_the_test(f"""
- [C013] Model parallel means pipeline; or layers, and parts of layers; or layers only | web note,
  “Types of distributed training”; CS 229S, “Model Parallelism”; blog, “Q2: How does FSDP compare to
  model parallelism?” | they contradict each other | say which split you mean (section 4)
- [C014] The main techniques are data, model and pipeline parallelism | CS 229S, “What are the main
  techniques for parallelizing LLMs?” | imprecise | also sharded data, sequence and expert parallel
- [C008] The FLOPS of GPUs double every 2.5 years | CS 229S, “Hardware improvements lag behind LLM
  scaling” | wrong, not tested | the study that it cites says FLOP/s for a dollar, every 2.46 years:
  {2 ** (10 / 2.46):.0f} times in ten years
- [C009] Language models grow ten times every year | CS 229S, “Hardware improvements lag behind LLM
  scaling” | depends, not tested | GPT-2 (1.5 billion, February 2019) to MT-NLG (530 billion,
  October 2021): {per_year:.1f} times a year
""", more=f"""
- [C012] 32 samples over 4 ranks are 8 each, 64 are 16; 256 over 8 are 32 | web page, “Three
  Dimensions of Parallelism”; CS 229S, “Data parallelism”; book chapter, “What is Data
  Parallelism?” |
  {"right" if [shares[n] for n in (32, 64, 256)] == [[8], [16], [32]] else "not here"} |
  {shares[32]}, {shares[64]}, {shares[256]} (section 4)
- [C010] Language models get better with computing, data and size, and new abilities emerge |
  CS 229S, “LLMs exhibit emergent properties at scale” | depends, not tested | power laws: Kaplan
  et al. 2020, revised by Hoffmann et al. 2022; emergence is disputed by Schaeffer et al. 2023
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** Scaling laws: [Kaplan et al.](https://arxiv.org/abs/2001.08361), [Hoffmann et
# al.](https://arxiv.org/abs/2203.15556), and, on emergence, [Schaeffer et
# al.](https://arxiv.org/abs/2304.15004). Hardware: [Hobbhahn and
# Besiroglu](https://epochai.org/blog/trends-in-gpu-price-performance). [Llama
# 2](https://arxiv.org/abs/2307.09288). Courses: [MIT
# 6.5940](https://hanlab.mit.edu/courses/2023-fall-65940), lectures 17 and 18; Stanford CS 224N,
# lecture 12; CS 149 for parallel computing in general.

# %% [markdown]
# ## What you have learnt
#
# * Data parallel splits the **batch**, tensor parallel every **layer**, pipeline parallel the
#   **list of layers**. Copies do not add up their memory.
# * Another **order of additions** gives other last digits. So "equal to one process" means: to
#   rounding, in float64.
# * `measure` tells **bytes, memory and time**. Bytes and memory of tensors are exact, time is
#   noisy.
# * **Everybody waits for the slowest rank**, and that looks like a slow collective.
#
# **Your exercise** stands in a cell above.
#
# **Next**: [01 · Gradient accumulation](01_gradient_accumulation.ipynb).

# %%
progress("00b")
