# %% [markdown]
# # {{title}}
#
# **Where does the state of a sharded model go when there is no room for it, and when the training
# stops?** Both times the answer is a disk. If even a shard of the optimizer's state is too large,
# it can live in files, and the device keeps the rest. And if a training has to stop, every rank
# writes its shards. The difficulty begins afterwards: yesterday there were 4 ranks, and today there
# are 2 or 3. Which rank reads what from which file? You write the function that knows it.

# %% [markdown]
# ![What one rank of two holds at the peak of a step: with the optimizer's state in
# memory, and with the state in files](../assets/covers/06g_state_on_disk.png)
#
# *Measured in section 1: the same step of stage 3, with Adam's state in memory, and in files.*
#
# **After this part you can** move the optimizer's state out of the device's memory, say what that
# costs, and load a sharded checkpoint on another number of ranks.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import tempfile
from pathlib import Path
from statistics import median

import torch

from pedagogy_lib import (
    Table, check, close, compare_rounds, hint, lab, launch, plot_stacks, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
fewer = [2, 3]
state_megabytes = 32

# %%
zero_on_disk, resharding = lab("zero_on_disk"), lab("resharding")
text = lab("language_model").standard_library(20_000)

# %% [markdown]
# ## 1 · An optimizer that lives in files
#
# Adam keeps two numbers for each parameter. Add a float32 master, and the optimizer has 12 of the
# 16 bytes (part 06e). But it needs them only once in a step, in `step()`. No forward and no
# backward ever looks at them. So they can stay somewhere else in the meantime.
#
# *ZeRO-Offload* puts them into the memory of the **host**, the computer in which the GPUs are.
# *ZeRO-Infinity* can put them on its disk. Here the device is this machine's memory, and the host
# is its disk. A step has three parts: the gradients of the shards go to the host, the optimizer
# steps there, and the new parameters come back.

# %% [markdown]
# In the lab, the class `DiskOffloadOptimizer` does that. Its heart is one line: a tensor whose
# memory *is* a file.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = str(Path(folder, "numbers"))
    x = torch.from_file(path, shared=True, size=4, dtype=torch.float32, device="cpu")
    x.fill_(1.5)
    print(Path(path).read_bytes() == x.numpy().tobytes(), "·", Path(path).stat().st_size, "bytes")

# %% [markdown]
# What is written into the tensor is in the file. The system loads parts of the file into memory
# when they are used, and drops them when there is no room.

# %% [markdown]
# Now stage 3 on two ranks, with one large linear layer. With Adam in float32, a rank keeps a shard
# of the parameters, and twice as much state. While the layer computes, the whole of it is there.
# The state of both ranks together has `state_megabytes`. How much of the device's memory does
# `DiskOffloadOptimizer` save on each rank, at the peak?

# %%
less = predict(f"Saved on each of 2 ranks, if Adam's state has {state_megabytes} MB in all",
               unit="MB")

# %%
with tempfile.TemporaryDirectory() as folder:
    in_memory = launch(zero_on_disk.train_large, None, state_megabytes, world_size=2)
    on_disk = launch(zero_on_disk.train_large, folder, state_megabytes, world_size=2)
    in_files = sum(path.stat().st_size for path in Path(folder).rglob("*.*"))
equal = [a == b for a, b in zip(in_memory.values, on_disk.values)]
print(f"the same weights on both ranks: {all(equal)}; files: {in_files / 1e6:.0f} MB")

# %% tags=["cover"]
runs = {"state in memory": in_memory, "state on disk": on_disk}
plot_stacks({where: run["step"].at_peak[0] for where, run in runs.items()},
            ylabel="memory of the device", title="A step of stage 3 at its peak")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
peak = {where: run["step"].peak_bytes[0]["total"] for where, run in runs.items()}
less.compare(state_megabytes / 2, (peak["state in memory"] - peak["state on disk"]) / 1e6)

# %% [markdown]
# The state is gone from the device, and the weights agree: on each rank they have the same hash.
# The arithmetic is the same, only its place is another one. The files are larger than
# the state by half. They also hold a copy of the parameters, on which the optimizer steps.
#
# Does it cost time? Both optimizers take a step in turns; the first round does not count.

# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory() as folder:
    timed = launch(zero_on_disk.time_optimizers, folder, state_megabytes, world_size=2)
took = {where: timed[where].rounds[1:] for where in timed.labels}
for where, seconds in took.items():
    print(f"optimizer's step, {where}: {1e3 * median(seconds):.0f} ms")
ratio = compare_rounds(took["state on disk"], took["state in memory"])
print(f"on disk: {ratio.word}, {ratio} as in memory")

# %% [markdown]
# Do not take these times for those of a disk. As long as there is room, the system keeps such files
# in its memory. So what you see is mostly copying: gradients to the host, parameters back. A file
# that is larger than the memory is another matter. Then each step reads and writes all of it, at
# the speed of the disk. Adam does few operations for each byte, so the disk alone decides.

# %% [markdown]
# ### With mixed precision
#
# With parameters in bfloat16, the copy in the files can be in float32. Then it *is* the master. So
# `DiskOffloadOptimizer(…, dtype=torch.float32)` takes the place of `MixedPrecision`, and 12 bytes
# of the optimizer leave the device. On 2 ranks in stage 3, for each parameter:

# %%
with tempfile.TemporaryDirectory() as folder:
    mixed = launch(zero_on_disk.watch_mixed, folder, world_size=2)
    in_files = sum(path.stat().st_size for path in Path(folder).rglob("*.*"))
numbers = mixed.values[0]
kept = mixed["after the backward"].peak_bytes[0]
Table(["", "bytes for each parameter"],
      [[kind, f"{kept[kind] / numbers:.2f}"] for kind in ("parameters", "gradients")]
      + [["optimizer state on the device", f"{kept['optimizer_state'] / numbers:.2f}"],
         ["in files, both ranks together", f"{in_files / numbers:.2f}"]])

# %% [markdown]
# For each parameter, 2/2 + 2/2 bytes are left on the device, and 12 are in the files.
#
# Clipping by the norm of the whole (part 06e) goes *around* `DiskOffloadOptimizer`, not inside.
# `DiskOffloadOptimizer` makes one optimizer for each parameter, so that only one parameter's state
# is on its way at a time. `GradientClipOptimizer` needs all of them at once. Put inside, it would
# clip each parameter by itself; `DiskOffloadOptimizer` refuses that with one sentence.

# %% [markdown]
# **On GPUs** the host's memory is the first choice, and a PCIe link lies in between. Three things
# make it fast enough. The host's memory is **pinned**: the system may not move it, so that copies
# run beside the computing. Gradients leave while the backward still runs. And Adam on the CPU is a
# special kernel: DeepSpeed reports 5 to 7 times PyTorch's speed for its own
# ([tutorial](https://www.deepspeed.ai/tutorials/zero-offload/)).
#
# FSDP2 has `CPUOffloadPolicy`: parameters, gradients and optimizer states are on the CPU, and the
# step runs there; `pin_memory` is on by default
# ([PyTorch's documentation](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)).
# For a disk (NVMe), there is DeepSpeed. Nothing of this was measured here.

# %% [markdown]
# ## 2 · A checkpoint for any number of ranks
#
# A machine has failed, and tomorrow's training has fewer ranks. No rank has the whole model, so
# each one saves its own shards. That is quick: all write at the same time. But who reads them, if
# the number of ranks has changed?
#
# Every unit is one flat tensor. Take one of 10 numbers. Four ranks cut it into parts of 3, and the
# last one has a single number. (In memory it is padded with 2 zeros. They do not go into the file,
# as padding depends on the number of ranks.) Two ranks cut it into parts of 5:

# %%
old, new = -(-10 // 4), -(-10 // 2)
Table(["number in the tensor", *range(10)],
      [["file of the old rank", *(k // old for k in range(10))],
       ["position in this file", *(k % old for k in range(10))],
       ["belongs now to rank", *(k // new for k in range(10))]])

# %% [markdown]
# Read the table by its last row. The new rank 0 needs the whole of file 0, and the first two
# numbers of file 1. The new rank 1 needs the last number of file 1, the whole of file 2, and the
# one number of file 3.

# %% [markdown]
# ### Exercise {{parts_to_read}} · Plan the reads for resharding
#
# Write `parts_to_read(length, before, now, rank)` in
# [labs/resharding.py](../labs/resharding.py). A flat tensor has `length` numbers. It was cut for
# `before` ranks, into parts of ceil(`length` / `before`) numbers. The last parts may be shorter or
# empty. File k has the part of rank k. Now it is cut in the same way for `now` ranks.
#
# Return what rank `rank` of the `now` ranks has to read, in the order of the tensor: a list of
# triples `(file, start, end)`. It reads the numbers from `start` up to `end`, without `end`. They
# are counted from the beginning of that file. Empty reads are left out. A rank without numbers gets
# an empty list.

# %% [markdown]
# With the table's numbers, the two ranks get
#
# * `parts_to_read(10, 4, 2, 0)`: `[(0, 0, 3), (1, 0, 2)]`
# * `parts_to_read(10, 4, 2, 1)`: `[(1, 2, 3), (2, 0, 3), (3, 0, 1)]`
#
# It has to work for more ranks than before, and for fewer. (If 2 numbers are read by 5 ranks, three
# of them have nothing to read.)

# %%
check("{{parts_to_read}}")

# %% [markdown]
# Now for real. The lab trains a small transformer in stage 3 with Adam, in float64. After some
# steps every rank saves its shards *and* what Adam keeps for them; then the training goes on. Later
# other numbers of ranks load these files with your function, and take the same steps. Do they end
# with the same weights?

# %%
with tempfile.TemporaryDirectory() as folder:
    args = text, "stage 3"
    weights = launch(resharding.first_half, folder, resharding.save_parts, *args,
                     world_size=world_size).values[0]
    print(f"{world_size} ranks wrote {len(list(Path(folder).iterdir()))} files")
    for ranks in fewer:
        again = launch(resharding.second_half, folder, resharding.load_parts, *args,
                       world_size=ranks).values
        same = all(close(of_rank, weights, steps=8) for of_rank in again)
        print(f"resumed on {ranks} ranks, the same weights but for rounding: {same}")

# %% [markdown]
# A checkpoint must have all that the next step depends on. What happens without Adam's state? It
# starts at zero, and the first steps go wrong, though the loss looks harmless. In mixed precision
# there is one thing more: the masters. If they were made anew from the bfloat16 parameters, all
# that has been rounded away would be lost. The lab saves the masters too, and clipping may stand in
# between. Its `collect_optimizer_state` looks into each optimizer for what is inside. A loss scaler
# (part 05b) has a factor and a count that belong to no parameter; the lab does not save these two
# numbers, so a training run with a scaler has to write them next to the files.

# %%
with tempfile.TemporaryDirectory() as folder:
    launch(resharding.first_half, folder, resharding.save_parts, text, "stage 3", True,
           world_size=2)
    names = list(torch.load(next(Path(folder).iterdir()), map_location="cpu"))
print("of the first unit:", *(name for name in names if name.startswith("0.")))

# %% [markdown]
# ## 3 · The real engine
#
# `torch.distributed.checkpoint` (DCP) does the same for any sharded tensor. Its input are DTensors,
# which know which part of the whole a rank has. It writes at least one file for each rank, and a
# file with the places of all parts. When it loads, it works out your list of reads. See
# `make_sharded_state` in [labs/zero_on_disk.py](../labs/zero_on_disk.py): again, padding is left
# out.

# %%
with tempfile.TemporaryDirectory() as folder:
    theirs = launch(resharding.first_half, folder, zero_on_disk.save, *args,
                    world_size=world_size).values[0]
    files = sorted(path.suffix or path.name for path in Path(folder).iterdir())
    resumed = [launch(resharding.second_half, folder, zero_on_disk.load, *args,
                      world_size=ranks).values[0] for ranks in fewer]
print("files:", *files)
print("DCP, on other ranks the same weights:", all(close(x, theirs, steps=8) for x in resumed))

# %% [markdown]
# It is the same idea, with more comfort: names for tensors, two dimensions, saving in the
# background (part 04b). What it does not know is *your* padding, and what your optimizer keeps
# inside of others. That part stays yours.
#
# **On GPUs**, a checkpoint of stage 3 has 12 to 14 bytes for each parameter, as gradients are not
# in it: nearly a terabyte for 70 billion. So engines copy it to the host first, go on training, and
# write in the background (`async_save` in
# [DCP](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html)). All ranks should write
# to a file system that all can read: a new rank reads other ranks' files.

# %% [markdown]
# *Break it.* In section 2, give `fewer` the value `[5]`. The batch of 12 samples does not divide by
# 5. Which of the two does not fit: the checkpoint, or the training? (The checkpoint loads. But two
# ranks have 3 samples and three have 2, and all ranks count equally in the mean gradient.)

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
in_words = {where: f"{count / 1e6:.2f} MB" for where, count in peak.items()}
same = all(equal) and peak["state on disk"] < peak["state in memory"]
left = on_disk["step"].at_peak[0]["optimizer_state"]
put_to_the_test(f"""
- [C149] Optimizer states are not needed in the forward | blog, “DeepSpeed Zero” |
  {"right, nor in the backward" if same else "not seen here"} | they were in files, which step()
  alone reads. At the peak, in the backward, {left:g} B of them were on the device
  (section 1, picture); the weights are the same: {all(equal)} (section 1, run) | measured: nothing,
  since only step() reads them. An optimizer that steps inside of the backward would be an exception
- [C111] Offloading to CPU or NVMe extends the memory of a GPU | web page, “Advantages” |
  {"right, for states" if same else "not seen here"} | a rank has
  {in_words["state in memory"]} at the peak, and {in_words["state on disk"]} if Adam's
  state is in files (section 1, picture), with the same weights: {all(equal)} (section 1, run).
  Gathered units stay on the device | measured: here the device was the CPU's memory, and files took
  the place of NVMe. On GPUs the link to the host is expected to decide what it costs in time
""")

# %% [markdown]
# **Sources.** *The Evolution of Data Parallelism* (blog); *Distributed Parallelism in Deep
# Learning* (web page).
#
# **To read on.** Ren et al. 2021, [ZeRO-Offload](https://arxiv.org/abs/2101.06840). Rajbhandari et
# al. 2021, [ZeRO-Infinity](https://arxiv.org/abs/2104.07857). PyTorch's
# [distributed checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html).

# %% [markdown]
# ## What you have learnt
#
# * Optimizer state is used in `step()` alone, so it can live in the host's memory or on its disk.
#   The price is copying: gradients there, parameters back, in each step.
# * A sharded checkpoint has parts **without padding**. So any number of ranks can read it: a new
#   part is made of pieces of old files.
# * It needs all that the next step depends on: shards, optimizer state, and **masters**.
# * DCP does the same for tensors of any shape.
#
# **Your exercise** stands in [labs/resharding.py](../labs/resharding.py).
#
# **Next**: {{next}}.

# %%
progress("06g")
