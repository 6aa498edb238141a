# %% [markdown]
# # {{title}}
#
# **Who saves what, when no rank has all of it?** In [04](04_failure_and_recovery.ipynb) each rank
# had the whole model. Chapters 06 to 08 cut it: then each rank keeps a **shard**, a part that
# nobody else has. A checkpoint that one rank writes is incomplete, and one that four ranks have
# written has to be read by three, if a machine does not come back.

# %% [markdown]
# ![Bars: the share of the weights, and of what the optimizer keeps, that rank 0 of four has, for
# six ways of training in parallel](../assets/covers/04b_sharded_checkpoints.png)
#
# *Measured in section 1: what a checkpoint has that rank 0 of four ranks writes alone.*
#
# **After this part you can** say which ranks have to save, read shards on another number of ranks,
# and use `torch.distributed.checkpoint` for any layout.
#
# {{takes}} One sentence each says here what ZeRO, tensor and pipeline parallel are. Chapters 06 to
# 08 say it in full.

# %% jupyter={"source_hidden": true}
import shutil
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, hint, lab, launch, measure, plot_bars, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
fewer = 3
state_megabytes = 40

# %% [markdown]
# ## 1 · May rank 0 save alone?
#
# The lab [sharded_checkpoints](../labs/sharded_checkpoints.py) trains one small transformer in six
# ways:
#
# * **DDP**: each rank has all weights, and all that the optimizer keeps: AdamW's two moments for
#   each weight.
# * **ZeRO-1** and **ZeRO-2**: each rank keeps only the moments of its shard, a fourth.
# * **ZeRO-3**: a rank keeps a fourth of the weights, too.
# * **Tensor parallel**: most matrices are cut, and each rank has a part of each.
# * **Pipeline**: each rank has some of the layers.
#
# Rank 0 saves what it has, and nobody else saves. With ZeRO-3, which share of the model's weights
# is in its file?

# %%
share_guess = predict(f"ZeRO-3 on {world_size} ranks: share of the weights in rank 0's file",
                      unit="%")

# %%
sharded, checkpoints = lab("sharded_checkpoints"), lab("checkpoints")
text = lab("language_model").standard_library(20_000)
folder = Path(tempfile.mkdtemp(prefix="checkpoints-"))
ways = [way for way in sharded.WAYS if way != "DDP as it comes"]

def count(sharded, way, text):
    training = sharded.ParallelTraining(way, text)
    training.step()
    return sharded.numbers_on_rank(training.way)

counted = {way: launch(count, sharded, way, text, world_size=world_size, device="cpu").values[0]
           for way in ways}
shares = {way: [100 * mine / whole for mine, whole in zip(numbers, counted["DDP"])]
          for way, numbers in counted.items()}
Table(["way", "weights on rank 0", "numbers of its optimizer"],
      [[way, *(f"{share:.0f} %" for share in both)] for way, both in shares.items()])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what rank 0 has.
share_guess.compare(100 / world_size, shares["ZeRO-3"][0], kind="parameters")

# %% tags=["cover", "nbval-ignore-output"]
plot_bars(ways, {"weights": [both[0] for both in shares.values()],
                 "optimizer": [both[1] for both in shares.values()]},
          "on rank 0 (%)", title=f"What rank 0 of {world_size} ranks could save alone")

# %% [markdown]
# With DDP rank 0 has everything but the others' random generators and their places in the data.
# With ZeRO-1 and -2 it has all weights: good enough for using the model, and not for training on.
# In the other ways its file alone is worth nothing. And it is written without an error: nobody is
# told before it is read.
#
# So each rank writes its own part, as `save` of part 04 does. It counts when all parts are there.

# %% [markdown]
# ## 2 · Bit for bit, in every way
#
# The lab trains for 3 steps, saves, and trains for 3 more. Then it makes everything anew, loads,
# and trains for the same 3 steps again. By how much do the weights of the two differ?

# %%
def resume(sharded, way, text, place):
    return sharded.measure_resume_gap(way, text, place / way)

gaps = {way: max(launch(resume, sharded, way, text, folder / "ways", world_size=world_size,
                        device="cpu").values)
        for way in sharded.WAYS}
print("difference 0.0:", ", ".join(way for way, gap in gaps.items() if gap == 0))
print("not bit for bit:", ", ".join(way for way, gap in gaps.items() if gap > 0))

# %% [markdown]
# All states are complete, and still one way goes on differently: DDP, if it is used as it comes. It
# sums gradients in buckets (03c). After its first backward it puts the parameters into other
# buckets, in the order in which their gradients were ready. A resumed training takes its first step
# with the buckets of a fresh DDP. The training that went on had changed its buckets long before.
# Each sum has the same terms, in another order. So it is rounded differently.

# %% tags=["nbval-ignore-output"]
print(f"DDP as it comes: weights differ by {gaps['DDP as it comes']:.0e} after 3 steps")

# %% [markdown]
# With two ranks there is no other order of two terms, and no difference. The lab's `settle` takes
# one backward with a fresh DDP before anything else, in both trainings. Then the difference is 0.0.
# Otherwise this is harmless: a rounding like any other. But you have to know it when you compare
# two runs to find a real fault.
#
# *Break it:* in `state_dict` of the lab's `ParallelTraining`, leave out `.clone()`, and look at the
# size of rank 0's file with ZeRO-1. It becomes about twice as large: a shard is a view there, and
# `torch.save` writes all of the storage that it is a view of.

# %% [markdown]
# ## 3 · Saved by four, read by three
#
# A machine has failed and does not come back: three ranks go on with what four have saved. ZeRO
# cuts one long tensor into shards of equal length. With three ranks each shard is longer, and
# begins and ends elsewhere. So a new rank needs pieces of several old shards.

# %% [markdown]
# ### Exercise {{pieces_to_read}} · Which pieces each new rank reads
#
# Write `pieces_to_read(length, old, new, rank)` in
# [labs/sharded_checkpoints.py](../labs/sharded_checkpoints.py). `length` numbers were saved by
# `old` ranks, in shards of $\lceil \text{length} / \text{old} \rceil$ numbers, one after another.
# The last shards may be shorter, or empty. Now `new` ranks share the same numbers, in shards of
# $\lceil \text{length} / \text{new} \rceil$. Return what the new rank `rank` reads: a list of
# `(old rank, begin, end)`, in the order of the numbers. `begin` and `end` count within the shard of
# that old rank, and `end` is the place after the last number. Leave empty pieces out.
#
# For example, 10 numbers from 4 ranks to 3: old shards have 3, 3, 3 and 1, new ones 4, 4 and 2.
# New rank 1 wants numbers 4 to 7, so it reads `[(1, 1, 3), (2, 0, 2)]`.

# %%
check("{{pieces_to_read}}")

# %%
def save_shards(sharded, checkpoints, text, place):
    training = sharded.ParallelTraining("ZeRO-3", text)
    for _ in range(3):
        training.step()
    checkpoints.save(place, 3, training.state_dict())
    return [p.detach().clone() for p in training.way.parameters], training.way.lengths

def load_shards(sharded, checkpoints, text, place):
    training = sharded.ParallelTraining("ZeRO-3", text)
    missing = sharded.load_from_others(training, checkpoints.find_newest(place))
    return [p.detach() for p in training.way.parameters], training.way.lengths, missing

def gather_shards(ranks, function):
    """All shards, put together: for each unit of the model, one long tensor; what is missing."""
    values = launch(function, sharded, checkpoints, text, folder / "zero", world_size=ranks,
                    device="cpu").values
    return [torch.cat([shards[k] for shards, *_ in values])[:length]
            for k, length in enumerate(values[0][1])], values[0][-1]

saved, _ = gather_shards(world_size, save_shards)
for ranks in (world_size, fewer, 1, world_size + 1):
    read, missing = gather_shards(ranks, load_shards)
    gap = max((a - b).abs().max().item() for a, b in zip(saved, read))
    told = f"; not restored: {missing}" if missing else ""
    print(f"saved by {world_size} ranks, read by {ranks}: weights differ by {gap}{told}")

# %% tags=["nbval-ignore-output"]
length = sum(len(unit) for unit in saved)
pieces = {rank: sharded.pieces_to_read(length, world_size, fewer, rank) for rank in range(fewer)}
Table(["rank", f"reads, of shards that {world_size} ranks saved"],
      [[str(rank), ", ".join(f"{b - a:,} numbers of rank {k}" for k, a, b in of_rank)]
       for rank, of_rank in pieces.items()], title="If the whole model were one unit")

# %% [markdown]
# To load, no rank needs the whole model: once rank 0 has checked the files, which reads all of
# them, each rank reads its pieces, and nothing else. `torch.load(path, mmap=True)` helps: the file
# is only read where somebody looks at a tensor. What cannot be shared out anew are the random
# generators: with another number of ranks, dropout draws other numbers. So from here on the
# training is another one, as good as the old one.

# %% [markdown]
# ## 4 · Any layout: `torch.distributed.checkpoint`
#
# PyTorch's own engine does this for every layout. Each rank writes a file with its parts. The file
# `.metadata`, written last, says of each tensor which piece of it is in which file. A program that
# loads says for which tensors it has room, in a layout of its own. Then each rank reads what
# overlaps.
#
# Here FSDP2, PyTorch's ZeRO-3, saves on four ranks. It is read by FSDP2 on fewer ranks, by DDP, and
# by tensor parallel, where matrices are cut in another direction. All weights and all moments are
# compared.

# %%
def train_and_save(sharded, text, place):
    model, optimizer = sharded.train_laid_out("FSDP2", text, 3)
    sharded.save_laid_out(model, optimizer, place)
    return sharded.whole_state(model, optimizer)

def load(sharded, layout, place):
    model, optimizer = sharded.build_layout(layout)
    sharded.load_laid_out(model, optimizer, place)
    return sharded.whole_state(model, optimizer)

place = folder / "any"
saved = launch(train_and_save, sharded, text, place, world_size=world_size, device="cpu").values[0]
for layout, ranks in [("FSDP2", fewer), ("FSDP2", 1), ("DDP", 2), ("tensor parallel", 2)]:
    read = launch(load, sharded, layout, place, world_size=ranks, device="cpu").values[0]
    gap = max((saved[name] - read[name]).abs().max().item() for name in saved)
    print(f"{layout} on {ranks}: {len(read)} tensors, they differ by {gap}")

# %% tags=["nbval-ignore-output"]
Table(["file", "size"], [[path.name, f"{path.stat().st_size / 1e3:.0f} kB"]
                         for path in sorted(place.iterdir())])

# %% [markdown]
# It does not do everything. Random generators, the place in the data, the schedule: you hand them
# over as further entries of the state. It writes no checksums, does not remove old checkpoints, and
# does not look for the newest. A checkpoint without `.metadata` is not complete.

# %% [markdown]
# ## 5 · In the background
#
# `async_save` copies the state and writes it in a thread, as your `InBackground` does, or in a
# separate process. For its messages it needs a group that works on the CPU. Each rank saves 40 MB
# here, four times, and works in between.

# %%
def work_and_save(sharded, place, megabytes, saver):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    group, running = dist.new_group(backend="gloo"), None
    state = {f"part {dist.get_rank()}": torch.ones(megabytes * 250_000)}
    with sharded.silence_saver():
        for number in range(4):
            with measure("work", memory=False):
                time.sleep(0.3)
            with measure("save", memory=False):
                target = str(place / f"{number}")
                if running is not None:
                    running.result()
                if saver == "this thread":
                    dcp.save(state, checkpoint_id=target)
                else:
                    kind = AsyncCheckpointerType[saver.upper()]
                    running = dcp.async_save(state, checkpoint_id=target, process_group=group,
                                             async_checkpointer_type=kind)
        if running is not None:
            running.result()

# %%
runs = {saver: launch(work_and_save, sharded, folder / saver, state_megabytes, saver,
                      world_size=2, device="cpu")
        for saver in ("this thread", "thread", "process")}

# %% tags=["nbval-ignore-output"]
plot_timeline(runs["this thread"], title="save, and then go on")

# %% tags=["nbval-ignore-output"]
plot_timeline(runs["thread"], title="async_save, in a thread")

# %% tags=["nbval-ignore-output"]
stalls = {saver: [max(1e3 * (end - start) for start, end in of_ranks)
                  for of_ranks in zip(*run["save"].spans)] for saver, run in runs.items()}
Table(["saved by", *(f"save {number}" for number in range(1, 5))],
      [[saver, *(f"{ms:.0f} ms" for ms in times)] for saver, times in stalls.items()],
      title="Each save holds the ranks up for")

# %% [markdown]
# The process starts during the first save: it imports PyTorch and joins a group of all saving
# processes. That takes seconds, so the second save has to wait. From then on, look whether it holds
# the ranks up longer than the thread.
#
# Why a process, then? A thread shares Python's global lock (GIL) with the training. NVIDIA's
# asynchronous checkpointing also writes in processes, to [avoid that
# contention](https://nvidia.github.io/nvidia-resiliency-ext/checkpointing/async/index.html). It
# cannot be seen here: work is emulated, and ranks that sleep want no lock.

# %% [markdown]
# **On GPUs.** The copy leaves the GPU first, at the speed of its bus. PyTorch can stage it in
# *pinned* memory, which makes that copy faster: `DefaultStager` of
# [torch.distributed.checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html)
# has the option `use_pinned_memory`, and `async_save` alone does not ask for it in PyTorch 2.13.
# Files go to storage that all machines see, and its speed limits a saving: a terabyte at 10 GB/s
# takes 100 seconds.

# %% [markdown]
# ## 6 · Storage that everybody sees
#
# Does every machine need to see the files? Rank 0 alone could read all of them, and send each rank
# its part.

# %%
def read_by_rank_0(checkpoints, place):
    n, states, mine = dist.get_world_size(), None, [None]
    if dist.get_rank() == 0:
        newest = checkpoints.newest_whole(place)
        states = [torch.load(newest / f"rank-{rank}.pt") for rank in range(n)]
    dist.scatter_object_list(mine, states)
    own = checkpoints.load_newest(place)
    return max((a - b).abs().max().item() for a, b in zip(mine[0]["parameters"], own["parameters"]))

sent = max(launch(read_by_rank_0, checkpoints, folder / "zero", world_size=world_size,
                  device="cpu").values)
print("what rank 0 has sent differs from what was saved by", sent)

# %% [markdown]
# It works, under two conditions. Rank 0 has to have room for what it sends. And the files have to
# be where rank 0 is: after a restart it may be on another machine. So people save to storage that
# everybody sees, or keep copies on several machines.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
shutil.rmtree(folder, ignore_errors=True)
put_to_the_test(f"""
- [C100] Rank 0 alone writes the checkpoint, so that nobody overwrites others' files | PyTorch
  slides, “Failover: who should save the checkpoint?” |
  {"depends" if shares["ZeRO-3"][0] < 100 else "right"} | right for DDP, where rank 0 of
  {world_size} has {shares["DDP"][0]:.0f} % of the weights; with ZeRO-3 it has
  {shares["ZeRO-3"][0]:.0f} %, in a pipeline {shares["pipeline"][0]:.0f} % (section 1, table) |
  measured: GPUs change nothing, as the engine decides who has which shard
- [C099] Every node needs access to shared storage, as any of them may initialize the weights |
  PyTorch slides, “Failover: using checkpointing” | {"depends" if sent == 0 else "not refuted"} |
  rank 0 read alone, and sent each rank its part: it differs from what was saved by {sent} (section
  6, run). Shared storage is the safe choice, as rank 0 may be on another machine after a restart |
  measured: GPUs change nothing, as processes read files. Copies in the memory of other machines can
  do, too (part 04f)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** PyTorch's documentation of [Distributed
# Checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html).

# %% [markdown]
# ## What you have learnt
#
# * Rank 0 may save alone if each rank has everything: with **DDP**. Everywhere else each rank saves
#   its **shard**, and a checkpoint counts when all are there.
# * On another number of ranks, each reads the **pieces** that overlap with its new shard.
# * `torch.distributed.checkpoint` does that for any layout, bit for bit. What else belongs to the
#   state, you add.
# * DDP as it comes rounds differently after a restart, as it orders its buckets anew.
#
# **Your exercise** stands in
# [labs/sharded_checkpoints.py](../labs/sharded_checkpoints.py).
#
# **Next**: {{next}}.

# %%
progress("04b")
