# %% [markdown]
# # {{title}}
#
# **A job on a cluster stands still, and all you have is a terminal.** In this course a launch ends
# after its timeout, and names the line on which each rank waits. A cluster does not do that for
# you. But PyTorch has tools for it. Here three ranks make three mistakes, and the guilty ones are
# drawn at random. You see what a cluster would show you, and look for the guilty rank with each
# tool. At the end you write the last tool yourself: a function that reads the recorded calls of all
# ranks.

# %% [markdown]
# ![Three tables of coloured squares, four ranks in rows and calls in columns: in each, one rank has
# a square in a strong colour where the other ranks have a pale
# one](../assets/covers/03m_when_it_hangs.png)
#
# *Recorded in section 5: the last calls of four ranks, for three mistakes. Your ranks will be drawn
# anew.*
#
# **After this part you can** turn on PyTorch's checks, ask all ranks where they stand, and read the
# flight recorder. You can tell the rank that made a mistake from those that only wait for it.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import os
import tempfile
import time

import torch
import torch.distributed as dist

from pedagogy_lib import (
    LaunchError, Table, begin, check, hint, lab, launch, plot_map, predict, progress,
    put_to_the_test, run_torchrun,
)

# %% tags=["parameters"]
world_size = 4
seed = None  # of the draw; None draws other ranks each time

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
#
# All this part runs on Gloo: the cells ask for `device="cpu"`.

# %% [markdown]
# [labs/when_it_hangs.py](../labs/when_it_hangs.py) has a small training loop. In each step every
# rank makes two calls: an all-reduce of 68 numbers (the gradients), and one of 2 numbers (how many
# answers are right, and how many samples there are). In the fourth step, one rank makes one of the
# three mistakes. The guilty rank is drawn at random, so do not print `guilty` yet. The others wait
# 1.5 s for it, and then Gloo raises an error. (Without `timeout=`, the wait is thirty minutes with
# Gloo and ten with NCCL, according to
# [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html). With NCCL it ends without an
# exception: section 6.)
#
# There is one run for each mistake. On how many ranks does the error *not* name the guilty one?

# %%
untold = predict(f"Of {3 * world_size} ranks: their error does not name the guilty rank",
                 unit="ranks")

# %% tags=["nbval-ignore-output"]
hangs = lab("when_it_hangs")
guilty = hangs.draw_ranks(world_size, seed)

def see(mistake, rank, is_checked=False):
    """What each rank saw: a dict with `seconds`, `error` and `calls`."""
    return launch(hangs.observe_mistake, mistake, rank, is_checked, world_size=world_size,
                  device="cpu").values

unchecked = {mistake: see(mistake, rank) for mistake, rank in guilty.items()}
Table(["mistake", "rank", "after", "error"], hangs.rows_of(unchecked))

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" all, as a connection knows nothing of calls; and counted.
silent = sum(f"rank {guilty[mistake]}" not in one["error"].lower()
             for mistake, ranks in unchecked.items() for one in ranks)
untold.compare(3 * world_size, silent, kind="communication", wire="counted")

# %% [markdown]
# An error tells of one connection: for 1.5 s, nothing came through it. It does not tell who should
# have sent something. The guilty rank often waits like all others. The rank that left has no error
# at all: that is a clue, and the only one here. Sometimes an error speaks of a "remote worker
# crashing". Nobody has crashed: a neighbour had given up a moment earlier.
#
# Some mistakes leave many ranks without an error. Every rank adds [1, 10], but rank 2 brings
# [1, 10, 100]. The first two sums should be [4, 40] on four ranks. Here are three tries:

# %% tags=["nbval-ignore-output"]
sums = launch(hangs.add_unequal, world_size=world_size, device="cpu").values
right = str([world_size, 10 * world_size])
wrong = sum(one != right and "error" not in one for of_rank in sums for one in of_rank)
print(f"{wrong} times a rank has a wrong sum and no error")
Table(["rank", "try 1", "try 2", "try 3"], [[rank, *told] for rank, told in enumerate(sums)])

# %% [markdown]
# **A rank that has a wrong sum and no error trains on with it.** In a ring, each rank cuts its
# tensor into parts (02c), by its own length. Where lengths differ, the parts do not belong
# together: numbers of one place are added to numbers of another. (When we tried it with rank 1
# in place of rank 2, every wrong sum came with an error. Do not count on that.)
#
# Larger tensors of different sizes are not added up like this. Gloo stops a rank that receives more
# than it has room for. Here rank 2 brings 44 numbers, the others 40. Is it rank 2 that is stopped?

# %% tags=["nbval-ignore-output"]
def too_much():
    dist.all_reduce(torch.ones(44 if dist.get_rank() == 2 else 40))

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
# Start a program with `TORCH_DISTRIBUTED_DEBUG=DETAIL` in its environment. Then every collective of
# every group is compared among its ranks *before* it runs: operation, shape, dtype, and the number
# of the call. (`send` and `recv` are not compared.) A program needs nothing else. (Here the
# environment would come too late, as a launch has connected its ranks already. So the lab calls
# `dist.set_debug_level`, and then makes a new group.)
#
# The guilty ranks are drawn anew. Read the errors: which ranks are they?

# %% tags=["nbval-ignore-output"]
guilty_now = hangs.draw_ranks(world_size, seed)
checked = {mistake: see(mistake, rank, is_checked=True) for mistake, rank in guilty_now.items()}
Table(["mistake", "rank", "after", "error"], hangs.rows_of(checked), title="With checks")

# %% [markdown]
# Now most errors come at once. Each of them names **two** ranks that disagree: the one that speaks,
# and one other. One error cannot tell which of the two is wrong: the guilty rank's own error
# accuses an innocent one. So read the errors of several ranks. **The guilty rank is in all of
# them.** (Do not trust the operation of the other rank in such an error. PyTorch 2.13 calls the
# barrier a REDUCE, and the sum a GATHER.)

# %% tags=["nbval-ignore-output"]
for mistake, ranks in checked.items():
    named = hangs.find_blamed_ranks([one["error"] for one in ranks])
    print(f"{mistake}: the errors lead to {named}; right: {named == [guilty_now[mistake]]}")

# %% [markdown]
# If a rank has left, the others still wait until the timeout: a call that does not come cannot be
# compared. Then the error of rank 0 names the rank that is missing, and the others send you to rank
# 0. (And if rank 0 itself has left? Then nobody can name it, but all others wait for rank 0, and
# say so. The draw leaves rank 0 out.)
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
# Your prediction; as "theory" four calls in place of one; and measured.
slower.compare(4, careful / plain, kind="communication")

# %% [markdown]
# One call became four. First all ranks meet in a barrier, which the list above does not show. Then
# they gather what each of them is about to do, with two calls. The fourth is the sum itself. If all
# four took equally long, the ratio would be 4. With large tensors the ratio is smaller, as the
# checks do not grow. Use them to find a mistake, and train without them.

# %% [markdown]
# ## 3 · Ask who is there
#
# `dist.barrier()` waits for everybody, and cannot tell for whom. `dist.monitored_barrier(timeout=…,
# wait_all_ranks=True)` names **all** ranks that have not come. It works only in a Gloo group,
# says [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html). With NCCL, make one more
# group for it: `dist.new_group(backend="gloo")`. Put a monitored barrier at the end of an epoch, or
# in front of a line that you suspect. The lab's `meet` calls one on all ranks but 1 and 3, and
# returns what each is told. Rank 0 asks everybody, so rank 0's error names the missing
# ranks. The others are told only that rank 0 found an error.

# %% tags=["nbval-ignore-output"]
for rank, told in enumerate(launch(hangs.meet, (1, 3), world_size=4, device="cpu").values):
    print(f"rank {rank}: {told}")

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
#
# Here a rank has left again, after it was drawn. All ranks print where they stand. The rank that
# does not wait is the one that left:

# %% tags=["nbval-ignore-output"]
left = hangs.draw_ranks(world_size, seed)[hangs.LEFT]
stacks = launch(hangs.stack_while_waiting, left, world_size=world_size, device="cpu").values
for rank, stack in enumerate(stacks):
    print(f"rank {rank}:", stack or "not waiting")

# %% tags=["nbval-ignore-output"]
# From outside: rank 0 waits in an all-reduce; rank 1 has time, and asks for rank 0's stack.
tools = lab("cluster_tools")

def look_from_outside():
    pids = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    if dist.get_rank() == 1:
        time.sleep(0.3)
        told = tools.py_spy(pids[0])
        dist.all_reduce(torch.ones(1))
        return told
    dist.all_reduce(torch.ones(1))

print(launch(look_from_outside, world_size=2, device="cpu").values[1])

# %% [markdown]
# With many machines, nobody logs in to each one. PyTorch has a small HTTP server that runs in a
# thread of each rank and answers while the rank hangs. Its questions are `dump_traceback`,
# `fr_trace_json` (the record of the next section), `wait_counter_values` and `pyspy_dump`. A
# program turns it on with `torch.distributed.elastic.control_plane.worker_main()`, and
# `TORCH_WORKER_SERVER_SOCKET` names the file through which it is asked.
#
# Below, a rank has left, and the notebook asks all four ranks. Which one is it?

# %% tags=["nbval-ignore-output"]
left = hangs.draw_ranks(world_size, seed)[hangs.LEFT]
with tempfile.TemporaryDirectory() as folder:
    hanging = begin(tools.train_and_serve, hangs.LEFT, left, folder, world_size=world_size,
                    device="cpu")
    answers = tools.ask_all(folder, world_size)
    hanging.stop()
Table(["rank", "stands in", "its last call"], answers, title="Asked over HTTP while it hangs")

# %% [markdown]
# `dump_traceback` runs in Python, so it needs the interpreter's lock, the GIL. A rank that hangs
# *inside a call that keeps the lock* does not answer this question. It still answers
# `fr_trace_json`, which needs no lock, and py-spy looks from outside. A rank that answers one
# question and not the other is therefore a finding, too.

# %% [markdown]
# On a cluster, `torch.distributed.debug.start_debug_server()` does the rest. Every rank starts such
# a server, and rank 0 also serves a page on port 25999, from which a browser asks all ranks at
# once. We tried it with PyTorch 2.13, `torchrun` and Gloo. It showed the stacks of all ranks (also
# py-spy's), their wait counters and their records. Its table that compares the records failed, for
# a reason that section 5 names. The page needs the packages Jinja2, tabulate, and aiohttp or
# requests.

# %% [markdown]
# PyTorch's docstring calls the server experimental and warns that it is not secure. It is not one
# port that must be closed to others, but one for each rank and the page's: unless `worker_port` is
# given, a rank's server takes any free port, and it listens on all addresses (`::`). PyTorch's
# [tutorial](https://docs.pytorch.org/tutorials/intermediate/debug_hangs_with_flight_recorder.html)
# shows the same server with the recorder of another library, TorchComms.

# %% [markdown]
# ## 5 · The flight recorder
#
# A stack tells where a rank stands *now*. It does not tell that this rank is one call behind. That
# takes a record of the past. PyTorch records the last calls of every process in memory: the
# **flight recorder**. A new call takes the place of the oldest. Each entry has the group, the
# number of the call in this group, the operation, and the shapes. With NCCL each rank can write its
# record into a file (see *On GPUs* below). Here the lab's `read_flight_recorder` reads it.
#
# The picture shows the runs of section 1. A strong colour marks what most other ranks do not have.
# Which rank was it in each run, and at which call?

# %% tags=["cover", "nbval-ignore-output"]
panels = {mistake: hangs.squares([one["calls"] for one in ranks], range(4, 10))
          for mistake, ranks in unchecked.items()}
kinds = ["all_reduce", "barrier", hangs.NO_CALL]
plot_map(panels, kinds, "number of the call", note="most ranks agree",
         title="The last calls of four ranks; a number is the length of the tensor")

# %% [markdown]
# In the first two pictures all others wait for the guilty rank at the same call. In the third, the
# other ranks may have gone on: Gloo has given them a sum, right or wrong, as in section 1. So the
# guilty rank is not always the one with the fewest calls, and the error comes
# later than the mistake. **What counts is the first call at which the ranks differ.**

# %% [markdown]
# ### Exercise {{find_guilty}} · Find the guilty rank
#
# Write `find_guilty(dumps)` in [labs/when_it_hangs.py](../labs/when_it_hangs.py). `dumps` has a
# list for each rank: its recorded calls, oldest first, as dicts like `{"number": 7, "name":
# "all_reduce", "shape": [68]}`. `number` counts the calls of the group from 1. There are three
# ranks or more, and exactly one of them fell out of step. Return a tuple of three:
#
# * its rank;
# * the number of the first call at which it differs from most other ranks;
# * `LEFT` if it has no such call, `OPERATION` if its call has another name, `SHAPE` if it has the
#   same name and another shape. These are three names in the lab: write them without quotes.

# %% [markdown]
# The recorder keeps the last calls only: a rank that has gone further has lost more of the old
# ones. Compare from the first number on that *every* rank still has. If a rank's list is empty, it
# left before its first call; then begin with number 1.
#
# For example, with `all_reduce` as the name of every call, written as `number: shape`:
#
# | rank | its calls |
# |---|---|
# | 0 | 5: [68], 6: [2], 7: [68], 8: [2] |
# | 1 | 4: [2], 5: [68], 6: [3] |
# | 2 | 5: [68], 6: [2], 7: [68] |
#
# All have number 5, and agree. Number 6 is [2], [3] and [2]: the result is `(1, 6, SHAPE)`.

# %%
check("{{find_guilty}}")

# %% tags=["nbval-ignore-output"]
found = {mistake: hangs.find_guilty([one["calls"] for one in ranks])
         for mistake, ranks in unchecked.items()}
for mistake, told in found.items():
    print(f"found {told}; drawn: rank {guilty[mistake]}")

# %% [markdown]
# PyTorch comes with a program for the same task, `torchfrtrace`. Ranks with NCCL write the files
# that it reads. Gloo's records lack one thing that it needs, the members of each group, so the lab
# adds them, writes a file for each rank, and calls `torchfrtrace FOLDER -p trace_`. Here is what it
# says about the three runs, shortened. Does it name the rank that you have found?

# %% tags=["nbval-ignore-output"]
records = {mistake: [one["record"] for one in ranks] for mistake, ranks in unchecked.items()}
reports = launch(tools.analyze, records, world_size=1, device="cpu").values[0]
for mistake, report in reports.items():
    print(f"{mistake}; drawn: rank {guilty[mistake]}\n{report}\n")

# %% [markdown]
# A rank that is missing has left. For the other two mistakes, the program takes *one* rank as its
# measure and calls every rank a culprit that differs from it. If it happens to take the guilty one,
# it accuses all the others. So count before you believe it: a rank that differs from one rank may
# be right, and a rank that differs from most is not. That is why your function asks for the
# majority.

# %% [markdown]
# ## 6 · As a program
#
# The same three mistakes under `torchrun`, as on a cluster: two machines with two ranks each, and
# nothing of this course's bench around the ranks. Each rank prints its last two calls. Find
# the guilty rank of each mistake in them. The last line tells which it was.

# %% tags=["nbval-ignore-output"]
cluster = run_torchrun("../labs/when_it_hangs.py", nnodes=2, nproc_per_node=2)
print("it was", hangs.draw_ranks(4, hangs.RIDDLE))

# %% [markdown]
# **On GPUs.** With NCCL the timeout reaches no `except` in your program. A thread of PyTorch, the
# **watchdog**, finds the collective that has not finished, logs it, and ends the process; that is
# the default of `TORCH_NCCL_ASYNC_ERROR_HANDLING` in the list of variables below. On the ranks that
# wait, it logs a line like this one ([from a report](https://github.com/NVIDIA/Megatron-LM/issues/1207)):
#
# ```
# Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1,
# NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.
# ```
#
# `SeqNum` is the number of the call, and `NumelIn` is the length of its tensor. Compare them
# between ranks, as you compared the records: a rank that logs another call, or none, fell out of
# step.

# %% [markdown]
# With NCCL a call returns before it has run. So a rank that hangs stands at a *later*
# line, often the first one that needs a result, such as `loss.item()`. Its stack misleads, and the
# recorder matters more. In PyTorch 2.13 it keeps 2,000 calls, and each rank writes them into a file
# when a call has taken too long. `TORCH_FR_DUMP_TEMP_FILE=/shared/trace_` says where: the rank's
# number is added. (`TORCH_FR_BUFFER_SIZE=0` turns the recorder off. Older versions turn it on with
# `TORCH_NCCL_TRACE_BUFFER_SIZE=2000` and `TORCH_NCCL_DUMP_ON_TIMEOUT=1`. PyTorch's [list of
# variables](https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html) still has
# these older names.)

# %% [markdown]
# `torchfrtrace /shared -p trace_` reads these files. It also knows messages between two ranks, and
# calls that began and did not end. A second thread watches the watchdog: if that hangs itself, for
# example in a call of CUDA, the log says ["Heartbeat monitor timed out! Process will be terminated
# after dumping debug info"](https://github.com/hiyouga/LlamaFactory/issues/6953), after
# `TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC`. `NCCL_DEBUG=WARN` lets NCCL print its own errors; `INFO` adds
# the network cards, rings and trees that it has chosen
# ([NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html)).

# %% [markdown]
# From version 2.24 on, NCCL also answers while a job hangs. A thread in each process keeps in touch
# with the others, and the program `ncclras` asks it, through port 28028 of `localhost` on any
# machine of the job
# ([NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html)). This
# is the end of a report in the form of [version
# 2.30](https://github.com/NVIDIA/nccl/blob/master/docs/examples/08_ras/01_fault_detection/README.md),
# with numbers of ours: four ranks, of which rank 2 lives and makes no more calls.
#
# ```
# Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors
#     #  in group   per comm  per node  per comm  in group
#     0         1          1         4         4         4  RUNNING  MISMATCH
#
# Errors
# ======
#
#
# Warnings
# ========
#
# #0-0 (5c1e90b7a43f28d6) MISMATCH
#   Communicator ranks have different AllReduce operation counts
#   3 ranks have launched up to operation 7
#   Rank 2 has launched up to operation 6 -- GPU 2 managed by process 4242 on node 10.0.0.1
# ```

# %% [markdown]
# `#0-0` is the communicator 0 of group 0, followed by its hash, which `NCCL_DEBUG=INFO` prints,
# too. Each operation is counted for itself [since version
# 2.26](https://github.com/NVIDIA/nccl/issues/1642); older ones print *collective* instead of
# *AllReduce*.
#
# Counts that differ are normal in a job that runs, NCCL's page says, so ask more than once: if they
# stay as they are, the job hangs. A process that has died is listed as `DEAD`, and its communicator
# as `INCOMPLETE`.

# %% [markdown]
# Such a report counts **launches on the host**, which shows a rank that has left. It does not count
# what has finished, and says nothing of shapes. If all ranks have launched a kernel and hang inside
# it, the counts are equal: in [one report](https://github.com/NVIDIA/nccl/issues/1730) RAS called a
# communicator `OK`, and the watchdog's timeout expired. Nothing in this box was measured here.

# %% [markdown]
# ## What to do, in which order
#
# | the job stands still, and you | ask |
# |---|---|
# | can log in | `py-spy dump` on two or three ranks: do all stand in the same call? |
# | can reach a port | the debug server's page, or `ncclras`: which rank is behind? |
# | have the records of all ranks | the first call at which they differ |
# | can start it again | `TORCH_DISTRIBUTED_DEBUG=DETAIL`, and a `monitored_barrier` |
# | write the program | a short `timeout=`, `faulthandler`, a place for the records |
#
# And before all that: is one rank out of memory, or its machine gone? Part
# [04c](04c_finding_out.ipynb) tells how to find a rank that is dead, slow or wrong.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
solved = sum(rank == guilty[mistake] for mistake, (rank, *_) in found.items())
put_to_the_test(f"""
- Debugging distributed training failures is challenging | web page, “Limitations” | depends |
  by the errors it is: {silent} of {3 * world_size} ranks were not told who was guilty (section 1).
  With the records of all ranks {solved} of {len(found)} mistakes were found (exercise {{find_guilty}})
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
# * A rank that is **out of step** makes others hang or fail. Their errors tell of connections.
# * Ranks with tensors of different sizes may get a wrong sum and no error.
# * `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares every collective before it runs, and makes small ones
#   slower. Each of its errors names two ranks: the guilty one is in all of them.
#   `monitored_barrier` names all ranks that have not come.
# * A stack tells where a rank stands now. The **flight recorder** tells what it has called. A rank
#   that hangs gives both over HTTP, and `torchfrtrace` compares the records.
# * The guilty rank is the one that differs at the **first** call at which the ranks disagree.
#
# **Your exercise** is in [labs/when_it_hangs.py](../labs/when_it_hangs.py).
#
# **Next**: {{next}}.

# %%
progress("03m")
