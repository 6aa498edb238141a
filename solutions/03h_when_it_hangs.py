# %% [markdown]
# # 03h · When it hangs
#
# **A job on a cluster stands still, and all you have is a terminal.** In this course a launch ends
# after its timeout, and names the line on which each rank waits. A cluster does not do that for
# you. But PyTorch has tools for it. Here you make three mistakes on purpose, see what a cluster
# would show you, and find the guilty rank with each tool. At the end you write the last tool
# yourself: a function that reads the recorded calls of all ranks.

# %% [markdown]
# ![Three tables of coloured squares, four ranks in rows and calls in columns: in each, one square
# of rank 2 differs from those above and below it](../assets/covers/03h_when_it_hangs.png)
#
# *Recorded in section 5: the last calls of four ranks, for three mistakes of rank 2.*
#
# **After this part you can** turn on PyTorch's checks, ask all ranks where they stand, read the
# flight recorder, and tell the rank that made a mistake from those that only wait for it.
#
# **It takes** about 20 minutes, and 20 more for 1 exercise. **It needs** [03 · Data
# parallel](03_data_parallel.ipynb).

# %% jupyter={"source_hidden": true}
import os
import time

import torch
import torch.distributed as dist

from pedagogy_lib import (
    LaunchError, Table, check, hint, lab, launch, plot_map, predict, progress, put_to_the_test,
    run_torchrun,
)

# %% tags=["parameters"]
world_size = 4
guilty = 2

# %% [markdown]
# ## 1 · Three mistakes
#
# A **collective** works only if every rank of the group makes the same calls, in the same order,
# with tensors of the same size. A rank that does not is **out of step**. Three mistakes are common:
#
# * **It left.** Its part of the data has one batch fewer, so its loop has ended.
# * **Another operation.** An `if` sends one rank alone into a call, such as the barrier after
#   "rank 0 saves".
# * **Another shape.** One rank sums a tensor of another size.

# %% [markdown]
# [labs/when_it_hangs.py](../labs/when_it_hangs.py) has a small training loop. In each step every
# rank makes two calls: an all-reduce of 68 gradients, and one of two counts. In the fourth step,
# one rank makes one of the three mistakes. Its process group waits 1 s for the others. (Without
# `timeout=`, it is ten minutes with NCCL, and thirty with Gloo, says
# [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html).) A rank whose time is over
# raises an error. All this part runs on Gloo: the lab asks for `device="cpu"`.
#
# How many of these errors name the guilty rank?

# %%
naming = predict("Three mistakes, four ranks: errors that name the guilty rank", unit="errors")

# %% tags=["nbval-ignore-output"]
hangs = lab("when_it_hangs")

def see(mistake, is_checked=False):
    """What each rank saw: a dict with `seconds`, `error` and `calls`."""
    return launch(hangs.out_of_step, mistake, guilty, is_checked, world_size=world_size,
                  device="cpu").values

unchecked = {mistake: see(mistake) for mistake in hangs.MISTAKES}
Table(["mistake", "rank", "after", "error"],
      [[mistake, rank, f"{one['seconds']:.1f} s", hangs.in_short(one["error"])]
       for mistake, ranks in unchecked.items() for rank, one in enumerate(ranks)],
      title=f"Rank {guilty} makes the mistake: what each rank is told")

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" none, as a connection knows nothing of calls; and counted.
errors = [one["error"] for ranks in unchecked.values() for one in ranks]
naming.compare(0, sum(f"rank {guilty}" in error.lower() for error in errors), kind="communication",
               wire="counted")

# %% [markdown]
# An error tells of one connection: for a second, nothing came through it. It does not tell who
# should have sent something. The guilty rank often waits like all others, or has no error at all.
# Sometimes an error speaks of a "remote worker crashing". Nobody has crashed: a neighbour had given
# up a moment earlier.
#
# With larger tensors of different sizes, Gloo stops a rank that receives more than it has room for.
# Which one is it?

# %% tags=["nbval-ignore-output"]
def too_much():
    dist.all_reduce(torch.ones(44 if dist.get_rank() == guilty else 40))

try:
    launch(too_much, world_size=world_size, device="cpu", timeout=2)
except LaunchError as error:
    print(str(error).partition("\n  at ")[0])

# %% [markdown]
# The rank that was killed need not be the one that made the mistake. Gloo's own question in this
# message is the right one: "Is there a distributed collective mismatch in your code?"
#
# So do not trust the first error in a log. Ask: **at which call did the ranks stop agreeing?** The
# next four sections are four ways to ask.

# %% [markdown]
# ## 2 · Let PyTorch compare the calls
#
# Start a program with `TORCH_DISTRIBUTED_DEBUG=DETAIL` in its environment. Then every call of every
# group is compared among its ranks *before* it runs: operation, shape, dtype, and the number of the
# call. A program needs nothing else. (Here the environment would come too late, as a launch has
# connected its ranks already. So the lab calls `dist.set_debug_level`, and then makes a new group.)

# %% tags=["nbval-ignore-output"]
checked = {mistake: see(mistake, is_checked=True) for mistake in hangs.MISTAKES}
Table(["mistake", "after", "what rank 0 is told"],
      [[mistake, f"{ranks[0]['seconds']:.1f} s", hangs.in_short(ranks[0]["error"])]
       for mistake, ranks in checked.items()], title="The same mistakes, with checks")

# %%
for mistake, ranks in checked.items():
    told = ranks[0]["error"].replace("Ranks", "Rank")
    print(f"{mistake}: rank 0's error names the guilty rank: {f'Rank {guilty}' in told}")

# %% [markdown]
# Now the error comes at once, and names the guilty rank. (Do not trust the name of its operation. A
# barrier has no tensor, and PyTorch 2.13 tells the other ranks that it is something else.) If a
# rank has left, the others still wait until the timeout: a call that does not come cannot be
# compared. But then the error of rank 0 names the rank that is missing.
#
# Checks are calls, too. How much longer does a small all-reduce take with them?

# %%
slower = predict("A small all-reduce with checks, beside one without", unit="times")

# %% tags=["nbval-ignore-output"]
prices = launch(hangs.price_of_checks, world_size=world_size, device="cpu").values[0]
(plain, _), (careful, parts) = prices["without"], prices["with"]
print(f"{1e3 * plain:.2f} ms without checks, {1e3 * careful:.2f} ms with them")
print("calls with them:", ", ".join(parts))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as "theory" three calls in place of one; and measured.
slower.compare(3, careful / plain, kind="communication")

# %% [markdown]
# For one call there are two more: all ranks gather what each of them is about to do. Before that,
# they meet in a barrier, which the recorder does not list. With large tensors the difference is
# smaller, as the checks do not grow. Use them to find a mistake, and train without them.

# %% [markdown]
# ## 3 · Ask who is there
#
# `dist.barrier()` waits for everybody, and cannot tell for whom. `dist.monitored_barrier(timeout=…,
# wait_all_ranks=True)` names **all** ranks that have not come. It needs a Gloo group, also beside
# NCCL, says [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html). Put one at the end of
# an epoch, or in front of a line that you suspect. The lab's `meet` calls one on all ranks but 1
# and 3, and returns what each is told:

# %% tags=["nbval-ignore-output"]
for rank, told in enumerate(launch(hangs.meet, (1, 3), world_size=4, device="cpu").values):
    print(f"rank {rank}: {told}")

# %% [markdown]
# Rank 0 asks everybody. So it is rank 0's error that names them; the others only learn that rank 0
# was not content.

# %% [markdown]
# ## 4 · Ask a rank where it stands
#
# A process that hangs can still be asked for its Python stack. Two ways:
#
# * **From outside**, without any preparation: `py-spy dump --pid 1234`, on the machine of the rank.
#   ([py-spy](https://github.com/benfred/py-spy) needs the right to look into another process: root,
#   or a container that allows `ptrace`.)
# * **From inside**, with two lines at the start of the program: `import faulthandler` and
#   `faulthandler.dump_traceback_later(600, repeat=True)`. Then every ten minutes each rank prints
#   where it stands. This is part of Python.

# %% tags=["nbval-ignore-output"]
stacks = launch(hangs.stack_while_waiting, guilty, world_size=world_size, device="cpu").values
for rank, stack in enumerate(stacks):
    print(f"rank {rank}:", stack or "not waiting")

# %% [markdown]
# And from outside. Rank 0 waits in an all-reduce; rank 1 has time, and asks for rank 0's stack:

# %% tags=["nbval-ignore-output"]
def look_from_outside():
    pids = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    if dist.get_rank() == 1:
        time.sleep(0.3)
        told = hangs.py_spy(pids[0])
        dist.all_reduce(torch.ones(1))
        return told
    dist.all_reduce(torch.ones(1))

print(launch(look_from_outside, world_size=2, device="cpu").values[1])

# %% [markdown]
# A stack tells where one rank stands *now*. It does not tell that this rank is one call behind.
# That takes a record of the past.

# %% [markdown]
# ## 5 · The flight recorder
#
# PyTorch records the last calls of every process, in a ring of memory that costs next to nothing.
# This is the **flight recorder**. Each entry has the group, the number of the call in this group,
# the operation, and the shapes. On a cluster with NCCL each rank writes its record into a file when
# a call takes too long (see *On GPUs* below). Here the lab's `recorded_calls` reads it from memory.
# These are the last calls of rank 0 after the guilty rank's barrier:

# %%
for call in unchecked["another operation"][0]["calls"][-3:]:
    print(call)

# %% [markdown]
# Now all ranks beside each other. A strong colour marks a call that most other ranks do not have.
# Which rank was it, and at which call?

# %% tags=["cover", "nbval-ignore-output"]
panels = {mistake: hangs.squares([one["calls"] for one in ranks], range(4, 10))
          for mistake, ranks in unchecked.items()}
plot_map(panels, ["all_reduce", "barrier"], "number of the call", note="most ranks agree",
         title="The last calls of four ranks; a number is the length of the tensor")

# %% [markdown]
# In the first two pictures all others wait for the guilty rank at the same call. In the third, the
# other ranks may have gone on: Gloo has given some of them a sum of numbers that do not belong
# together. So the guilty rank is not always the one with the fewest calls, and the error comes
# later than the mistake. **What counts is the first call at which the ranks differ.**

# %% [markdown]
# ### Exercise 3.21 · Find the guilty rank
#
# Write `find_guilty(dumps)` in [labs/when_it_hangs.py](../labs/when_it_hangs.py). `dumps` has a
# list for each rank: its recorded calls, oldest first, as dicts like `{"number": 7, "name":
# "all_reduce", "shape": [68]}`. `number` counts the calls of the group from 1. There are three
# ranks or more, and exactly one of them fell out of step. Return a tuple: its rank; the number of
# the first call at which it differs; and `LEFT` if it has no such call, `OPERATION` if its call has
# another name, `SHAPE` if it has the same name and another shape. These three names stand in the
# lab.

# %% [markdown]
# The recorder is a ring: it keeps the last calls only, and a rank that has gone further has lost
# more of the old ones. So compare only from the first number on that *every* rank still has. If a
# rank's list is empty, it left before its first call; then begin with number 1.
#
# For example, with `all_reduce` as the name of every call, written as `number: shape`:
#
# | | calls | |
# |---|---|---|
# | rank 0 | 5: [68], 6: [2], 7: [68], 8: [2] | |
# | rank 1 | 4: [2], 5: [68], 6: [3] | |
# | rank 2 | 5: [68], 6: [2], 7: [68] | |
#
# All have number 5, and agree there. Number 6 is [2], [3] and [2]: the result is `(1, 6, SHAPE)`.

# %%
check("3.21")

# %%
for mistake, ranks in unchecked.items():
    print(f"{mistake}:", hangs.find_guilty([one["calls"] for one in ranks]))

# %% [markdown]
# ## 6 · As a program
#
# The same three mistakes under `torchrun`, as on a cluster: two machines with two ranks each, and
# nothing of this course's bench around the ranks. Can you tell from the last calls which rank it
# was?

# %% tags=["nbval-ignore-output"]
cluster = run_torchrun("../labs/when_it_hangs.py", nnodes=2, nproc_per_node=2)

# %% [markdown]
# **On GPUs.** With NCCL a call returns before it has run. So a rank that hangs stands at a *later*
# line, often the first one that needs a result, such as `loss.item()`. Its stack misleads, and the
# recorder matters more. In PyTorch 2.13 it keeps 2,000 calls, and each rank writes them into a file
# when a call has taken too long. `TORCH_FR_DUMP_TEMP_FILE=/shared/trace_` says where: the rank's
# number is added. (`TORCH_FR_BUFFER_SIZE=0` turns the recorder off. Older versions have other names
# and have to be asked, with `TORCH_NCCL_TRACE_BUFFER_SIZE=2000` and
# `TORCH_NCCL_DUMP_ON_TIMEOUT=1`: see PyTorch's
# [list of variables](https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html).)

# %% [markdown]
# `torchfrtrace /shared -p trace_` comes with PyTorch. It does what you have just written, and more:
# it also knows messages between two ranks, and calls that began and did not end. (Gloo's records it
# could not read, when we tried it with PyTorch 2.13.) `NCCL_DEBUG=WARN` lets NCCL print its own
# errors; `INFO` adds the network cards, rings and trees that it has chosen
# ([NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html)). Nothing in this box
# was measured here.

# %% [markdown]
# ## What to do, in which order
#
# | the job stands still, and you | ask |
# |---|---|
# | can log in | `py-spy dump` on two or three ranks: do all stand in the same call? |
# | have the records of all ranks | the first call at which they differ |
# | can start it again | `TORCH_DISTRIBUTED_DEBUG=DETAIL`, and a `monitored_barrier` |
# | write the program | a short `timeout=`, `faulthandler`, a place for the records |
#
# And before all that: is one rank out of memory, or its machine gone? Part
# [04c](04c_finding_out.ipynb) tells how to find a rank that is dead, slow or wrong.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
found = {mistake: hangs.find_guilty([one["calls"] for one in ranks])
         for mistake, ranks in unchecked.items()}
right = sum(rank == guilty for rank, *_ in found.values())
put_to_the_test(f"""
- Debugging distributed training failures is challenging | web page, “Limitations” | depends |
  by the errors it is: they did not name the guilty rank (section 1). With the records of all ranks
  {right} of {len(found)} mistakes were found, each at the right call (exercise 3.21)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page). PyTorch, [torch.distributed,
# “Debugging”](https://docs.pytorch.org/docs/stable/distributed.html), and [flight
# recorder](https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html).
# [py-spy](https://github.com/benfred/py-spy). Python,
# [faulthandler](https://docs.python.org/3/library/faulthandler.html).
#
# **To read on.** Grattafiori et al. 2024, [The Llama 3 herd of
# models](https://arxiv.org/abs/2407.21783), section 3.3.4: the flight recorder at work on 16,000
# GPUs.

# %% [markdown]
# ## What you have learnt
#
# * A rank that is **out of step** makes others hang or fail. Their errors tell of connections, and
#   not of the mistake.
# * `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares every call before it runs, and makes small calls
#   several times as slow. `monitored_barrier` names all ranks that have not come.
# * A stack tells where a rank stands now. The **flight recorder** tells what it has called.
# * The guilty rank is the one that differs at the **first** call at which the ranks disagree.
#
# **Your exercise** is in [labs/when_it_hangs.py](../labs/when_it_hangs.py).
#
# **Next**: [04 · Failure and recovery](04_failure_and_recovery.ipynb).

# %%
progress("03h")
