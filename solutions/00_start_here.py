# %% [markdown]
# # 00 · Start here
#
# Distributed training of neural networks, learnt by running it: real processes, the real
# `torch.distributed`, and **almost every number is measured while you watch**. A laptop with two
# cores and no GPU is enough: processes then talk over *Gloo*, which moves bytes between CPUs. Where
# each has a GPU, many of the same cells use *NCCL*, which does it between NVIDIA GPUs.
#
# **How to work.** *Predict* a number, run the cell, look at the picture. Then read why, break it on
# purpose, and solve the exercise. Run cells in order, with Shift+Enter; one that hangs can always
# be stopped with the ■ button.

# %% [markdown]
# ![Timeline of three steps on four ranks: ranks 0 to 2 wait in every all-reduce until rank 3 has
# computed](../assets/covers/00_start_here.png)
#
# *Measured in section 7: everybody waits for the slowest rank.*
#
# **After this part you can** start real ranks from a cell, say which samples each of them gets,
# read its bytes and its memory, and find the line on which a hang waits.
#
# **It takes** about 25 minutes, and 15 more for 2 exercises. **It needs** Python, and a
# training loop in PyTorch.
#
# Begin with the next cell: four processes start on your machine, tell their numbers, and end. Cells
# that only import are folded, and show nothing; a click on the three dots opens them.

# %% tags=["nbval-ignore-output"]
import os

from pedagogy_lib import launch

launch(os.getpid, world_size=4)

# %% jupyter={"source_hidden": true}
import difflib
import inspect
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from pedagogy_lib import (
    HangError, RankError, Table, check, close, draw_clusters, draw_scaling, draw_three_splits,
    explore, hint, measure, plot_against, plot_bytes, plot_peak, plot_timeline, predict,
    progress, put_to_the_test, run_torchrun,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0

# %% [markdown]
# ## 1 · Who is there?
#
# `launch(function, world_size=4)` starts four fresh processes, runs the function in each of them,
# and brings the results back. The function is an ordinary one, written in a cell. The two numbers
# above are used here and in section 5: change them, and run these sections again.

# %% tags=["nbval-ignore-output"]
def who_am_i():
    print("hello from my own process")
    return f"rank {dist.get_rank()} of {dist.get_world_size()}: process {os.getpid()}"

run = launch(who_am_i, world_size=world_size)
run

# %% [markdown]
# Each has a process number of its own: these are processes of the operating system, not threads,
# and they share no variables. Each one is a **rank**, and has a number. All ranks together are the
# **world**; how many they are is its **world size**. They were connected before the function began,
# and gone when it ended: the next cell starts with new ones. What `launch` returns is a `Run`;
# `run.values[0]` is what rank 0 returned.
#
# All ranks run *the same program*; only its number makes one behave differently. What they print
# appears at once, each line with its rank. Run the cell a few times: the order changes. Nothing
# orders ranks but the messages that they exchange.

# %% [markdown]
# ## 2 · Nodes, ranks, local ranks
#
# A **node** is a machine. With one process for each GPU, four GPUs can stand in three kinds of
# cluster. `RANK` counts through the whole cluster; `LOCAL_RANK` starts again on every node, and
# tells a process which of its machine's GPUs to take.

# %%
draw_clusters()

# %% [markdown]
# Outside of a notebook, `torchrun` starts the ranks: one agent on every machine, which starts that
# machine's processes and tells each one its numbers. Here two agents run on this computer, as if on
# two machines (chapter 02d tells how). The program is
# [labs/start_here.py](../labs/start_here.py): a few lines that `torchrun` would run on a cluster
# unchanged. (`GROUP_RANK` is torchrun's number for the agent, and so for the node. `SUM` is a first
# all-reduce: the sum of all ranks' numbers, on every rank. It takes up to ten seconds: each process
# of a real program has to import torch.)

# %% tags=["nbval-ignore-output"]
cluster = run_torchrun("../labs/start_here.py", nnodes=2, nproc_per_node=3)

# %% [markdown]
# ### Exercise 0.1
#
# Every node runs `per_node` processes. Which `RANK` does a process have, if its node is number
# `node` and its `LOCAL_RANK` is `local_rank`?
# Write `return` and the formula in place of the three dots. Then `check` tries your function on
# several clusters, and tells a wrong one what it has misunderstood. If you are stuck, open
# the hints below a verdict, one after the other; or write `hint("0.1")` into a cell.

# %%
def global_rank(node, local_rank, per_node):
    ### BEGIN SOLUTION
    return node * per_node + local_rank
    ### END SOLUTION

# %%
check("0.1", global_rank)

# %% [markdown]
# ## 3 · Why distribute at all?
#
# Three reasons are usually given: the **model does not fit**; only a **small batch fits**;
# training **takes too long**. And two ways to get more: *vertical* scaling, a larger GPU, needs
# no change of the program; *horizontal* scaling, more of them, does. Below, area is GPU memory:
# both ways end with 32 GB. But are they worth the same?
#
# After the picture comes a question about `DistributedDataParallel` (DDP), PyTorch's data parallel
# training: each rank computes a part of the batch. Type your number, and run on. The cell that
# knows what theory expects is folded: it only shows its picture, until you click on its three dots.

# %%
draw_scaling()

# %%
memory_guess = predict("A 16 MB model under DDP on 4 ranks: parameters on each rank", unit="MB")

# %%
def hold_a_copy():
    with measure("hold"):
        DistributedDataParallel(nn.Linear(1000, 4000, bias=False))

copies = launch(hold_a_copy, world_size=4)["hold"]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
full_copy = {"parameters": 16e6}
on_each = copies.peak_bytes[0]["parameters"] / 1e6
memory_guess.compare(theory=16, measured=on_each, kind="parameters")

# %%
def hold_a_quarter():  # no copies: each rank makes a fourth of the layer
    with measure("hold"):
        nn.Linear(1000, 1000, bias=False)

plot_peak(launch(hold_a_quarter, world_size=4), "hold", predicted=full_copy,
          title="A quarter of the model on each rank", outline="a full copy")

# %% [markdown]
# Eight GPUs of 4 GB are **not** one GPU of 32 GB. Copies help with time and with batch size, and
# not at all with a model that does not fit. (Gradients, optimizer state and DDP's own buffers
# come on top: chapter 05.) That takes *sharding*: each rank keeps a part, as in the picture just
# above, and parts travel when they are needed. When, how many bytes, and how to hide it: this is
# what chapters 06 to 09 are about.
#
# How much does the *program* change? Here is a training loop for one process, and the same for
# many. (`launch` seeds all ranks alike, so each draws the same 32 samples, and takes its share.)

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

def train_together():
    x, y = torch.randn(32, 8).double(), torch.randn(32, 1).double()
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    x, y = x[mine], y[mine]
    model = nn.Linear(8, 1).double()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.module.state_dict().values())

# %%
alone = launch(train_alone, world_size=1, device="cpu").values[0]
together = launch(train_together, world_size=4, device="cpu").values
equal = all(close(weights, alone, steps=5) for weights in together)
print("equal to one process, but for rounding:", equal, "\nlines that changed:")

programs = [inspect.getsource(f).splitlines()[1:] for f in (train_alone, train_together)]
changed = [line for line in difflib.ndiff(*programs) if line.startswith("+ ")]
print(*changed, sep="\n")

# %% [markdown]
# Four lines. A program of your own needs a few more: it has to connect its ranks, which `launch`
# does here, and one rank alone has to write its files. And the weights are those of one process:
# that is the test which every technique of this course has to pass, **values and gradients, in
# float64**. Tensor and pipeline parallel will change the model itself.

# %% [markdown]
# Why *but for rounding*? Four ranks add the same numbers in another order, and each order is
# rounded in its own way. In float64, `close` allows a difference of two trillionths of a tensor's
# largest number, for each step of the training.
#
# *Break it.* With `seed=[0, 1, 2, 3]` in the launch of `train_together` each rank draws a batch of
# its own, and the weights are no longer those of one process. (Yet all begin alike: DDP sends
# everybody rank 0's weights.) Then, without `seed`, try `world_size=3`: parts of 11, 11 and 10
# samples count as if they were equal (chapter 01).

# %% [markdown]
# ## 4 · What can be split
#
# The batch, every layer, or the stack of layers. Each row below is a rank, and what it holds is
# filled. Move the slider: which of the three gives each rank a smaller part of the *model*? Which
# a smaller part of the *batch*?

# %%
explore(draw_three_splits, ranks=[4, 2, 8])

# %% [markdown]
# Data parallel ranks must agree on gradients, once a step. Tensor parallel ranks each have a part
# of every result, so they must talk inside every layer. Pipeline ranks hand activations to the
# next one, and wait for each other. The three combine, and they are not all: sharded data
# parallel (ZeRO, FSDP) splits what data parallel merely copies, and sequence and expert parallel
# split in yet other ways.
#
# A word of warning: *model parallel* means tensor parallel to some authors, layer by layer to
# others, and both to a third group. Here it is only the umbrella.

# %% [markdown]
# ### Exercise 0.2
#
# A batch of `n` samples is shared by `world_size` ranks. Which samples does `rank` take? Return a
# list of indices. They are dealt out like cards, sample 0 to rank 0, sample 1 to rank 1 and so on,
# round and round, until none is left: as PyTorch's `DistributedSampler` does where `n` divides
# evenly.

# %%
def my_samples(n, rank, world_size):
    ### BEGIN SOLUTION
    return list(range(rank, n, world_size))
    ### END SOLUTION

# %%
check("0.2", my_samples)

# %%
def sampler_indices(n):
    return list(DistributedSampler(range(n), shuffle=False))

dealt = {n: launch(sampler_indices, n, world_size=4).values for n in (32, 33, 64)}
Table(["rank", "32 samples", "33 samples"], [[r, dealt[32][r], dealt[33][r]] for r in range(4)],
      title="PyTorch's sampler: all ranks take equally many steps",
      note=f"so of 33 samples it deals out {sum(map(len, dealt[33]))}: the first ones twice")

# %% [markdown]
# ## 5 · The first all-reduce
#
# How did the ranks of `train_together` come to the same weights? By an **all-reduce** of their
# gradients: each rank brings a tensor, and each leaves with the sum of all. (DDP has each rank
# divide by the number of ranks first, so that the sum is an average.) It is the most used operation
# of distributed training. Every rank has to send something. How much? Type your number, then run
# on.

# %%
bytes_guess = predict(
    f"All-reduce of {megabytes:g} MB on {world_size} ranks: sent by each rank", unit="MB"
)

# %% tags=["nbval-ignore-output"]
def all_reduce():
    x = torch.full((int(megabytes * 1e6 / 4),), dist.get_rank() + 1.0)
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

# %%
plot_bytes(run, "all_reduce", predicted=theory * 1e6, title="What each rank sends")

# %% [markdown]
# Each rank sends and receives
#
# $$\frac{2\,(n-1)}{n}\,X$$
#
# for a tensor of $X$ bytes on $n$ ranks, as the ring does it that Gloo uses: $1.5\,X$ for four, and
# less than $2\,X$ however many ranks there are. No rank is a centre through which everything must
# pass. How that is possible is chapter 02, where you write it yourself.
#
# *Break it.* `dist.all_reduce` overwrites its tensor: what does `y = dist.all_reduce(x)` give?
# And at the top, try `megabytes = 0.001`: what is all the rest? (Section 6 knows.)

# %% [markdown]
# ## 6 · Three instruments, and how far to trust them
#
# `with measure("name")` reads three instruments before and after a block:
#
# * **Wire**: the operating system counts the bytes of each connection.
# * **Memory**: every tensor's storage is followed from its birth to its end, and sorted by what it
#   is for.
# * **Time**: one clock for all ranks of a machine.
#
# An instrument is trusted once it has told something known. Each rank takes a tensor of exactly
# 64 MiB, and sleeps for 0.1 s, which may last longer, but never shorter. Then one sends the other
# exactly ten million bytes:

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
slept, sent = known["take and sleep"], known["send"]
print("bytes seen beyond 64 MiB:", slept.peak_bytes[0]["total"] - 64 * 2**20)
print("slept at least 0.1 s:", slept.seconds[0] >= 0.1)
print(f"{sent.wire}: rank 0 sent 10 MB and {sent.sent_bytes[0] - 10_000_000} bytes")

# %% [markdown]
# How far to trust them?
#
# * **Wire bytes**: your data, and Gloo's headers of 48 bytes: two for a message, dozens for an
#   all-reduce. They matter for small tensors only. Of received bytes a few headers may not have
#   been read yet. Where nobody counts for us (NCCL, macOS) bytes are *counted* from the calls by
#   the textbook's formula: no test of that formula.
# * **Memory** is exact for tensors. It does not see Python itself, nor what a library allocates
#   behind PyTorch's back.
# * **Time** is noisy: other programs use the same cores. Compare times of one run, as ratios, and
#   believe only large ones.
#
# And watching is not free. A thousand of the smallest operations, with memory followed and without:

# %% tags=["nbval-ignore-output"]
def a_thousand_additions():
    x = torch.ones(4)
    for memory in (False, True):
        with measure(f"memory={memory}", memory=memory):
            for _ in range(1000):
                x + x

watched = launch(a_thousand_additions, world_size=1)
for label in watched.labels:
    print(f"{label}: {watched[label].seconds[0] * 1e3:.1f} µs for each addition")

# %% [markdown]
# An operation that lasts milliseconds hardly notices. For blocks of very many short ones, write
# `measure("name", memory=False)`.
#
# ## 7 · Two enemies
#
# *Communication*: bytes take time to travel. *Synchronisation*: whoever is early waits for whoever
# is late. Below, every rank computes and then takes part in an all-reduce of next to nothing, three
# times. Rank 3 computes three times as long. (Its computing is a sleep, so that the picture is the
# same on any number of cores.)

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
# Four bytes, and yet the all-reduce fills most of the time on three of four ranks: that is
# waiting, not sending. The whole world moves at the pace of its slowest rank. Chapters 03 (a
# straggler), 08 (pipeline bubbles) and 09 (slow links) fight these two enemies; no technique beats
# both for free. *Break it*: make another rank slow, or a different one in each step.

# %% [markdown]
# ## 8 · The first hang
#
# The mistake that everybody makes first: one rank does not take part. Rank 3 below leaves the
# all-reduce out. The others wait for it, and would wait for ever. A launch therefore has a
# `timeout` (60 s unless you say otherwise), and then tells you where each rank was.

# %%
def one_rank_forgets():
    x = torch.ones(4)
    if dist.get_rank() != 3:
        dist.all_reduce(x)

try:
    launch(one_rank_forgets, timeout=1)
except HangError as error:
    print(error)

# %% [markdown]
# Read it from the top: who had returned, which line each of the others waits on, inside which
# call with which arguments. The last line says what follows. No process is left over, and the next
# cell works. The ■ button does the same for you before the timeout. (Keep the tab open while a cell
# runs. What it prints while no tab shows it is lost, and its progress line stays as it was: then
# run the cell again.)
#
# An ordinary error on one rank ends the launch at once, with the rank and your own line:

# %%
def wrong_shape():
    x = torch.arange(6.0)
    return x.view(dist.get_rank() + 1, -1)

try:
    launch(wrong_shape)
except RankError as error:
    print(error)

# %% [markdown]
# ## 9 · What a laptop can show, and what not
#
# A fixed amount of matrix products is shared out fairly among more and more ranks. On a machine
# with a core for each rank, twice the ranks would take half the time. Each rank computes with *one*
# thread, so that ranks do not fight for cores; alone, PyTorch would use all of them in one process.
# More ranks on one CPU are for studying, not for speed. (A *barrier* only waits: nobody leaves it
# before everybody has come.)

# %%
def share_of_work(products):
    a = torch.randn(256, 256)
    a @ a
    dist.barrier()
    with measure("work", memory=False):
        for _ in range(products // dist.get_world_size()):
            a @ a

def best_time(n, tries=3):
    blocks = [launch(share_of_work, 400, world_size=n, device="cpu")["work"] for _ in range(tries)]
    spans = [[span for rank in block.spans for span in rank] for block in blocks]
    return min(max(end for _, end in s) - min(start for start, _ in s) for s in spans)

# %% tags=["nbval-ignore-output"]
ranks, cores = [1, 2, 4, 8], os.cpu_count()
times = [best_time(n) for n in ranks]
ideal = [times[0] / min(n, cores) for n in ranks]
plot_against(ranks, {"this machine": times}, xlabel="ranks, one thread each", ylabel="time (s)",
             predicted={f"perfect sharing of {cores} cores": ideal},
             title="The same work on more ranks")

# %% [markdown]
# Up to the number of cores, more ranks can help; beyond it they only take turns. (Where your line
# does not follow the dashed one, other programs use the cores as well: run it again.) So this
# course never *promises* a speed-up on your machine; it measures. What does carry over from a
# laptop to a cluster is what can be counted of an algorithm: its messages and their bytes, the
# memory of its tensors, who waits for whom, the steps of a schedule. Where time itself is the
# lesson, links are slowed down or computing is replaced by a sleep, and the picture says so.

# %% [markdown]
# ## 10 · Your machine
#
# The same check that `make lab` runs. A line is ok, or a note that may matter to you, or it says
# what to do.
#
# With GPUs, cells stay as they are. `launch` takes NCCL where there is a GPU for every rank,
# tensors are then created on that GPU, and the `Run` says so. `launch(f, device="cuda")` lets ranks
# share the GPUs that there are; `device="cpu"` stays on the CPU, as most cells from chapter 05 on
# do: there the kernel counts the bytes.

# %% tags=["nbval-ignore-output"]
from pedagogy_lib.course.doctor import examine

problems = examine()

# %% [markdown]
# ## 11 · The map
#
# | part | question |
# |---|---|
# | [01 · Gradient accumulation][01] | How can a small memory take a large batch? |
# | [02 · Collectives][02] | How do ranks add up a tensor with nobody in the middle? |
# | [02c · What a message costs][02c] | How long does a collective take, and can you know it? |
# | [02d · Across machines][02d] | What changes when a link is slow, and shared? |
# | [03 · Data parallel][03] | From a parameter server to DDP: what was wrong each time? |
# | [03b · Inside DDP][03b] | How does DDP hide its communication, and where does it go wrong? |
# | [04 · Checkpoints][04] | What has to be saved, how, and how often? |
# | [04b · Checkpoints of shards][04b] | Who saves what, when no rank has all of it? |
# | [04c · Finding out][04c] | Something is wrong: with which rank, and what? |
# | [04d · Restart][04d] | How does it go on, with fewer ranks or others? |
# | [04e · Keep training][04e] | Must all stop when one rank dies? |
# | [04f · Copies, and rare meetings][04f] | What if it had something that nobody else has? |
# | [04g · Chaos][04g] | Does your training survive a bad day? |
# | [05 · Where the memory goes][05] | Where do 16 bytes for each parameter go? |
# | [06 · ZeRO and FSDP][06] | How to keep only a share of it? |
# | [06b · Sharding engines][06b] | What do FSDP2 and DeepSpeed do beside that? |
# | [07 · Tensor parallel][07] | How to split one matrix product? |
# | [07b · Tensor parallel at work][07b] | What does that cost, and what hides it? |
# | [08 · Pipeline parallel][08] | How to keep all stages busy? |
# | [08b · Pipelines at work][08b] | Unequal stages, slow links: what do real pipelines do? |
# | [09 · Three dimensions][09] | How do a thousand ranks know with whom to talk? |
# | [09b · One step, three axes][09b] | What does a step look like if all is combined? |
# | [09c · Which axis where][09c] | Which axis belongs on which link? |
# | [09d · Many experts, few at a time][09d] | How to have more parameters, and compute as little? |
# | [09e · Experts on ranks][09e] | How do tokens get to experts elsewhere, and back? |
# | [09f · Long contexts][09f] | What if one text is too long for a rank? |
# | [09g · Sixty-four ranks][09g] | What changes when it grows? |
# | [10 · Choosing a strategy][10] | What does a plan cost, before anybody runs it? |
# | [10b · Predict, then run][10b] | Can such a prediction be trusted? |
# | [10c · Against published runs][10c] | How far off is a model of cost? |
# | [10d · A small Alpa][10d] | Can a program choose, for each stage another way? |
# | [10e · From plan to configuration][10e] | What does an engine want to be told? |
# | [10f · Advice, judged][10f] | Which advice stands, and which cannot be told? |
# | 11 · Capstone | All of it, on a model that learns. |
#
# Chapters without a link are still being written. A solved and executed copy of each part, to look
# things up in, is in [solutions/](../solutions).
#
# [01]: 01_gradient_accumulation.ipynb
# [02]: 02_collectives.ipynb
# [02c]: 02c_what_a_message_costs.ipynb
# [02d]: 02d_across_machines.ipynb
# [03]: 03_data_parallel.ipynb
# [03b]: 03b_inside_ddp.ipynb
# [04]: 04_failure_and_recovery.ipynb
# [04b]: 04b_sharded_checkpoints.ipynb
# [04c]: 04c_finding_out.ipynb
# [04d]: 04d_restart.ipynb
# [04e]: 04e_keep_training.ipynb
# [04f]: 04f_copies_and_local_steps.ipynb
# [04g]: 04g_chaos.ipynb
# [05]: 05_memory.ipynb
# [06]: 06_zero_and_fsdp.ipynb
# [06b]: 06b_sharding_engines.ipynb
# [07]: 07_tensor_parallel.ipynb
# [07b]: 07b_tensor_parallel_at_work.ipynb
# [08]: 08_pipeline_parallel.ipynb
# [08b]: 08b_pipelines_at_work.ipynb
# [09]: 09_three_dimensions.ipynb
# [09b]: 09b_one_step_three_axes.ipynb
# [09c]: 09c_which_axis_where.ipynb
# [09d]: 09d_experts.ipynb
# [09e]: 09e_experts_on_ranks.ipynb
# [09f]: 09f_long_contexts.ipynb
# [09g]: 09g_sixty_four_ranks.ipynb
# [10]: 10_choosing_a_strategy.ipynb
# [10b]: 10b_predict_then_run.ipynb
# [10c]: 10c_published_runs.ipynb
# [10d]: 10d_small_alpa.ipynb
# [10e]: 10e_from_plan_to_configuration.ipynb
# [10f]: 10f_advice_judged.ipynb
#
# ## 12 · Words
#
# | word | meaning |
# |---|---|
# | node | a machine |
# | rank | one process of a distributed program, and its number |
# | local rank | its number among the processes of its node |
# | world, world size | all ranks of a program; how many they are |
# | process group | some or all ranks, which talk among themselves |
# | backend | the library that moves the bytes: Gloo (CPU), NCCL (NVIDIA GPUs) |
# | point-to-point | one rank sends, another receives |
# | collective | an operation in which every rank of a group takes part |
# | barrier | a collective that only waits for everybody |
# | shard | a rank's own part of something that is split |
# | replica | a rank's own copy of something that is not |
# | micro-batch | a part of a batch that is computed at one go |
# | stage | consecutive layers that one pipeline rank holds |

# %% [markdown]
# ## Put to the test
#
# An appendix, in every chapter. This course grew out of slides, a book chapter, web pages and notes
# on distributed training (named below). Whatever they say that can be tested is tested. *Right*,
# *wrong*; *imprecise*: right with a condition that is missing; *depends*: true under the conditions
# that are named; *not tested*: only compared with its source. The last column says what was found
# in the section named, or works it out. First, on words:

# %% jupyter={"source_hidden": true}
lines = [line for text in cluster.output for line in sorted(text.splitlines())]
identities = [line.split() for line in lines if "SUM" in line]  # torchrun may have added warnings
nodes, local_ranks, all_ranks = ([words[i] for words in identities] for i in (1, 3, 5))
put_to_the_test(f"""
- “Node” and “GPU” are the same: 2 computers with 2 GPUs are 4 nodes | PyTorch slides |
  wrong | to torchrun a node is a machine: {len(set(nodes))} nodes had {len(all_ranks)} ranks
  (section 2)
- With two GPUs on each of two nodes LOCAL_RANK is 0 1 0 1 and RANK 0 1 2 3 | PyTorch slides |
  right | with three: {" ".join(local_ranks)} and {" ".join(all_ranks)} (section 2)
- NCCL gives a unique rank to each GPU | PyTorch slides | imprecise |
  the launcher numbers processes: those of section 2 used Gloo, and no GPU
- “Model parallel” means the pipeline; or layers and tensors; or layers only |
  web note; CS 229S; blog | imprecise | they disagree: an umbrella word; say which split
- The techniques are three: data, model, pipeline | CS 229S | imprecise |
  also sharded data parallel, sequence and expert parallel (section 4)
""")

# %% jupyter={"source_hidden": true}
import torch.distributed.run

manual = " ".join(torch.distributed.run.__doc__.split())
notice = manual[manual.index("Between restarts") :].split(".")[0]
dealt[256] = launch(sampler_indices, 256, world_size=8).values
shares = {n: [len(indices) for indices in ranks] for n, ranks in dealt.items()}
put_to_the_test(f"""
- Ranks may change over a restart | PyTorch slides | right |
  torchrun's manual: “{notice}”; part 04d measures it
- Horizontal scaling needs a small change of the program | PyTorch slides | depends |
  {len(changed)} lines for DDP (section 3); tensor and pipeline parallel change the model
- 32 samples over 4 ranks are 8 each, 64 are 16; 256 over 8 are 32 |
  web page; CS 229S; book chapter | right |
  {shares[32]}, {shares[64]}, {shares[256]}; but 33 over 4 are {shares[33]} (exercise 0.2)
""")

# %% jupyter={"source_hidden": true}
state_gb, gpu_hours = 16 * 70, 1.72e6
put_to_the_test(f"""
- Distribute if the model does not fit, if the batch is forced small, or if time is short |
  PyTorch slides | imprecise | copies do not cure the first: {on_each:g} MB on every rank
  (section 3). The second has a cure on one device, too (chapter 01)
- 8 GPUs of 4 GB in 4 servers of 8 GB RAM stand beside one GPU of 32 GB and 64 GB RAM |
  PyTorch slides | imprecise | {4 * 2 * 4} GB of GPU memory in pieces of 4, and {4 * 8} GB RAM
- Training GPT-4 or Llama 70B needs hundreds or thousands of GPUs | web page | depends |
  at least {state_gb / 80:g} GPUs of 80 GB for 16 bytes of training state for each of 70 B
  parameters (chapter 05). Llama's authors report 1.72 million GPU hours for Llama 2 70B:
  {gpu_hours / 24 / 365:.0f} years on one, {gpu_hours / 24 / 2000:.0f} days on 2000 at best
""")

# %% jupyter={"source_hidden": true}
per_year = (530 / 1.5) ** (1 / (2 + 8 / 12))
put_to_the_test(f"""
- The FLOPS of GPUs double every 2.5 years | CS 229S | imprecise, not tested |
  the study it cites (Hobbhahn and Besiroglu 2022) says FLOP/s for a dollar, every 2.46 years:
  {2 ** (10 / 2.46):.0f} times in ten years
- Language models grow ten times every year | CS 229S | depends, not tested |
  GPT-2 (1.5 B, Feb 2019) to MT-NLG (530 B, Oct 2021): {per_year:.1f} times a year
- Quality grows with compute, data and size, and abilities emerge | CS 229S | depends, not tested |
  power laws: Kaplan et al. 2020, revised by Hoffmann et al. 2022; emergence is disputed by
  Schaeffer et al. 2023
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
# al., 2023](https://arxiv.org/abs/2304.15004). Hardware: [Hobbhahn and
# Besiroglu](https://epochai.org/blog/trends-in-gpu-price-performance). [Llama
# 2](https://arxiv.org/abs/2307.09288). Courses: [MIT
# 6.5940](https://hanlab.mit.edu/courses/2023-fall-65940), lectures 17 and 18; Stanford CS 224N,
# lecture 12; CS 149 for parallel computing in general.

# %% [markdown]
# ## What you have learnt
#
# * A **rank** is a process of its own. All ranks run the same program, and exchange messages.
# * Techniques differ in what they split: the batch, the layers' products, the list of layers, or
#   what others merely copy. That decides what has to be sent.
# * `measure` tells time, bytes and memory of a block on every rank, and you know how far to trust
#   each of them.
# * A collective that one rank leaves out makes the others wait for ever. `HangError` names each
#   rank's line.
#
# **Your exercises** stand in the cells above. [labs/start_here.py](../labs/start_here.py) is the
# program that `torchrun` ran; nothing in it is left to write.
#
# **Next**: [01 · Gradient accumulation](01_gradient_accumulation.ipynb).

# %%
progress("00")
