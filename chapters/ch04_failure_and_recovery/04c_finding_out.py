# %% [markdown]
# # {{title}}
#
# **Something is wrong. With which rank, and what?** A checkpoint helps only those who know that
# they need it. A rank that crashes is easy to find. A rank that hangs, lags or computes wrong
# numbers is harder to find, because every other rank looks equally guilty. Here you make each of
# these happen, and write what finds it.

# %% [markdown]
# ![Timeline of four ranks: rank 2 computes three times as long as the others, and they wait for it
# in the all-reduce](../assets/covers/04c_finding_out.png)
#
# *Measured in section 3. The steps of all ranks are equally long; only one of them is slow.*
#
# **After this part you can** tell a crash from a hang, find the rank that a hang is due to, name a
# slow rank of three or more within ten steps, and find wrong numbers in the step in which they
# arise.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import io
import re
import shutil
import tempfile
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from pedagogy_lib import (
    Machines, RankError, Table, check, hint, lab, launch, measure, plot_curves, plot_timeline,
    predict, progress, put_to_the_test, run_torchrun,
)

# %% tags=["parameters"]
world_size = 4
guilty = 2
patience = 1.0
timeout = 2.0

# %% [markdown]
# ## 1 · A crash is loud, a hang is silent
#
# The lab [finding_out](../labs/finding_out.py) trains a small model, data parallel by hand. In step
# 21, something happens on rank 2, before its all-reduce. It is **killed**, or it is **stopped** as
# by a debugger, or it **waits** for data that never come. The other ranks are in their all-reduce
# then. When does each of them learn that something is wrong?
#
# If a process ends, the operating system closes its connections, and whoever waits for data from
# there gets an error. If it stands still, nothing is closed. Then only the **timeout** of the
# process group ends the waiting: 2 seconds here.

# %%
hang_guess = predict(f"Rank {guilty} is stopped, the timeout is {timeout:g} s: others know after",
                     unit="s")

# %%
finding = lab("finding_out")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="finding-"))

def train(finding, place, data, fault, timeout, patience=None):
    return finding.train_until_lost(place, data, fault, timeout, patience)

def lose(what, timeout, patience=None):
    place = Path(tempfile.mkdtemp(dir=folder))
    return launch(train, finding, place, digits, finding.Fault(what, guilty, 20), timeout,
                  patience, world_size=world_size, device="cpu", replacements=0).values

found = {what: lose(what, timeout) for what in ("killed", "stopped", "waits")}

# %% tags=["nbval-ignore-output"]
def seconds(value):
    return "–" if value is None else f"{value['after']:.3f} s"

Table([f"rank {guilty}", *(f"rank {rank} knows after" for rank in range(world_size))],
      [[what, *map(seconds, values)] for what, values in found.items()])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and when the first of the others knew.
hang_guess.compare(timeout, min(value["after"] for value in found["stopped"] if value))

# %% [markdown]
# A crash is known long before the timeout: the neighbours of the dead rank in the all-reduce get an
# error. The lab's `train_until_lost` then leaves the group, which closes more connections, and so
# all others learn of it. If nobody left, they would wait for the timeout.
#
# A hang is known after the timeout, and no sooner.
#
# And if a whole machine loses its power? Then no operating system is left that could close
# connections. With `Machines` of chapter 02g that can be tried: machine 1, with ranks 2 and 3, is
# switched off in step 20.

# %% tags=["nbval-ignore-output"]
machines = Machines.here(2)

def train_until_timeout(finding, place, data, timeout):
    group, _ = finding.meet(place, timeout)
    training = finding.Training(data, group=group)
    try:
        while True:
            began = time.monotonic()
            with measure("step", memory=False):
                training.step()
    except RuntimeError:
        return time.monotonic() - began

switched_off = []
if machines:
    run = launch(train_until_timeout, finding, folder, digits, timeout, world_size=4,
                 replacements=0, device="cpu", machines=machines.kill(1, at_block="step", nth=20))
    switched_off = [seconds for seconds in run.values if seconds is not None]
    print(f"{len(run.lost)} of {run.world_size} ranks are gone; the others knew after",
          " and ".join(f"{seconds:.2f} s" for seconds in switched_off))

# %% [markdown]
# For the ranks that are left, a machine without power looks like a hang. What do the errors say?

# %% tags=["nbval-ignore-output"]
for what in ("killed", "stopped"):
    errors = {rank: value["error"] for rank, value in enumerate(found[what]) if value}
    for rank, error in errors.items():
        print(f"{what} | rank {rank}: {error.split('] ', 1)[-1].split('. ')[0]}")
print("default timeout of Gloo's groups:", default_pg_timeout)

# %% [markdown]
# Nobody names rank 2. Each rank tells of its own neighbour only: that it has closed its connection,
# perhaps because it gave up itself, or that nothing came from it. The guilty one is the rank that
# says **nothing**.
#
# The last line is the timeout if nobody sets it. With NCCL it is 10 minutes, says PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/distributed.html). So a hang on 1,000 GPUs
# costs 167 GPU hours before anybody knows. But a timeout of seconds is no way out: it has to be
# longer than the longest pause that is normal, such as a checkpoint, or a slow first step.

# %% [markdown]
# ## 2 · Signs of life
#
# What tells of a hang sooner, and names the rank? Each rank says now and then that it is alive: a
# **heartbeat**. Here a thread of each rank counts, and writes the count to a **store** that all
# ranks can read: a place for small values by name. `torch.distributed` has such stores. The ranks
# of a group find each other through one.
#
# Why a count, and not the time? Machines have clocks of their own, which differ. Whoever watches
# needs one clock only, its own: did the count change while *my* clock went on for so long?

# %% [markdown]
# ### Exercise {{watcher}} · Detect silent ranks
#
# Write `silent` of `Watcher` in [labs/finding_out.py](../labs/finding_out.py).
# `watcher.silent(counts, now)` is called again and again. `counts` is a dict, `{rank: its count}`.
# `now` is the time in seconds on the watcher's own clock. `silent` returns a sorted list of the
# ranks that have had the same count for more than `patience` seconds. `__init__` is given, with a
# dict for what you have to remember. Change it if you need something else.
#
# * Any other count is a sign of life, also a smaller one: that of a process that was started again.
# * When a rank is there for the first time, its time begins, at `now`.
# * Do not change `counts`, and do not keep it: the caller may write new counts into the same dict.

# %% [markdown]
# For example, with a patience of 0.5 s:
#
# | call | returns |
# |---|---|
# | `silent({0: 7, 1: 3}, 10.0)` | `[]` |
# | `silent({0: 8, 1: 3}, 10.4)` | `[]` |
# | `silent({0: 9, 1: 3}, 10.8)` | `[1]`: the same count for 0.8 s |
# | `silent({0: 9, 1: 4}, 11.2)` | `[]`: rank 1 is back, rank 0 the same for 0.4 s |

# %%
check("{{watcher}}")

# %% [markdown]
# A heart that beats is not enough. In a rank that waits for data, the thread with the heartbeat
# goes on counting: the process is alive, and the training stands still. So each rank tells two
# counts:
#
# * **alive**: counted by the thread;
# * **progress**: counted by the training, before each collective.
#
# In a hang the progress of *all* ranks stands still, as all wait for one. Which one? The others
# have entered a collective that this rank has not: the guilty rank has entered the **fewest**.

# %% [markdown]
# The lab's `Guard` does this on each rank, with two of your watchers. When it finds a rank, it
# tells all others, and kills that rank. It has to: a process that is stopped may wake up an hour
# later, and go on writing files. Making sure that it cannot is called **fencing**.

# %%
guarded = {what: lose(what, timeout=30, patience=patience) for what in ("stopped", "waits")}
for what, values in guarded.items():
    told = {f"rank {value['ranks'][0]}: {value['found']}" for value in values if value}
    print(f"rank {guilty} {what}; all others found:", *told)

# %% tags=["nbval-ignore-output"]
Table([f"rank {guilty}", *(f"rank {rank} knows after" for rank in range(world_size))],
      [[what, *map(seconds, values)] for what, values in guarded.items()])

# %% [markdown]
# The timeout of the group was 30 seconds this time. The guards needed little more than their
# patience of 1 second, and they name the rank. But a patience that is too short kills a healthy
# rank: it has to be longer than any normal pause, too, or ranks have to announce their pauses.
#
# **On GPUs.** A collective of NCCL returns to Python before it has run, so a rank may be several
# collectives ahead. PyTorch numbers them: its flight recorder (part [03m](03m_when_it_hangs.ipynb))
# keeps the last ones of each rank, and a
# [tool](https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html) compares which
# rank has not come to which. A thread, the **watchdog**, ends the process after the timeout. None
# of this was measured here.

# %% [markdown]
# > **On GPUs, ask the hardware first**, before you search in Python. GPUs caused most interruptions
# > of Llama 3's training run (10c). `nvidia-smi -q` shows the [ECC
# > errors](https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html) of the memory and its
# > remapped rows. The driver writes a line with *Xid* and a number to the kernel's log (`dmesg`);
# > NVIDIA's [catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) says
# > what each number means and what to do. [`dcgmi diag -r
# > 3`](https://docs.nvidia.com/datacenter/dcgm/latest/reference/command-line-reference/dcgmi/dcgmi-diag.html)
# > tests a machine for about 15 minutes while nothing else runs there. None of this was tried here.

# %% [markdown]
# ## 3 · One that is slow
#
# A rank with a hot GPU or a busy processor still computes rightly, but for longer. All others wait
# for it, in every step. Below, computing is emulated by 20 ms of sleep, so that ranks do not take
# the cores from each other. Rank 2 takes three times as long.

# %%
slow_guess = predict("Ranks compute for 20 ms, one for 60 ms: a step of rank 0 takes", unit="ms")

# %% tags=["nbval-ignore-output"]
def train_slowly(finding, data, fault):
    training = finding.Training(data, fault, compute_seconds=finding.COMPUTE_SECONDS)
    for _ in range(12):
        with measure("step", memory=False):
            with measure("compute", memory=False):
                training.compute()
            with measure("all-reduce", memory=False):
                training.reduce()
            training.update()
    return training.own_seconds

run = launch(train_slowly, finding, digits, finding.Fault("slow", guilty, 0),
             world_size=world_size, device="cpu")

def usual(label, rank):
    return 1e3 * median(end - start for start, end in run[label].spans[rank][2:])

Table(["", *(f"rank {rank}" for rank in range(world_size))],
      [[label, *(f"{usual(label, rank):.1f} ms" for rank in range(world_size))]
       for label in ("step", "compute", "all-reduce")],
      title=f"Median of ten steps; rank {guilty} is slow")

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(run, ["compute", "all-reduce"], title=f"Rank {guilty} is slow")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and how long a step took on rank 0.
slow_guess.compare(1e3 * finding.SLOWER * finding.COMPUTE_SECONDS, usual("step", 0))

# %% [markdown]
# The steps of all ranks are equally long, so their length tells nothing. What differs is how long
# each rank computes *before* it waits. The slow rank has the **shortest** all-reduce: when it
# comes, all others are there already. (A step takes more than 60 ms, as the all-reduce itself takes
# time.)

# %% [markdown]
# ### Exercise {{stragglers}} · Find the stragglers
#
# Write `stragglers(seconds, times=1.5)` in [labs/finding_out.py](../labs/finding_out.py).
# `seconds[k][rank]` says how long a rank has computed in step `k`. Every rank is slow once in a
# while. So take for each rank the **median** over all steps. A straggler is a rank whose median is
# more than `times` the median of all ranks' medians. Return a list of them, sorted.
#
# For example, with `seconds = [[2, 2, 9], [2, 8, 7], [3, 2, 8]]` the medians are 2, 2 and 8, and
# the median of these is 2. Only rank 2 has more than 1.5 × 2 = 3, so the result is `[2]`.

# %%
check("{{stragglers}}")

# %% [markdown]
# ## 4 · A wrong number
#
# Now something that nobody hears of: **silent data corruption**. In rank 2, one bit of one weight
# changes after step 13, as a faulty core or memory may do. No error comes, and no rank is slow. The
# weight belongs to a pixel in the middle of the images. Bit 21, one of the highest of a float32's
# fraction, changes first; then others.

# %%
def train_on(finding, data, fault, steps):
    training, differing = finding.Training(data, fault), {}
    for _ in range(steps):
        training.step()
        differing[training.steps] = finding.differing_replicas(training.model)
    return training.losses, {step: ranks for step, ranks in differing.items() if ranks}

def train_with_fault(what, **where):
    return launch(train_on, finding, digits, finding.Fault(what, guilty, 12, **where), 60,
                  world_size=world_size, device="cpu").values

quiet, wrong = train_with_fault("nothing"), train_with_fault("wrong weights")

# %% tags=["nbval-ignore-output"]
def curve(values):
    losses = torch.tensor([losses for losses, _ in values]).mean(0)
    return range(1, len(losses) + 1), losses.tolist()

display(plot_curves(
    {"bit 21 changes in step 13": {"undisturbed": curve(quiet), "one bit": curve(wrong)}},
    "step", "mean loss of all ranks", title="The loss after one bit has changed"))

flips = {"lowest bit of the fraction": {"bit": 0}, "bit 21": {}, "highest bit of the exponent":
         {"bit": 30}, "the same, for a black pixel": {"bit": 30, "pixel": 0}}
before = torch.tensor(curve(quiet)[1])

def row(name, values):
    change = (torch.tensor(curve(values)[1]) - before).abs()
    lost = change.isnan().nonzero()
    told = f"NaN from step {lost[0].item() + 1} on" if len(lost) else f"{change.max():.1g}"
    return [name, told, *(str(values[0][1].get(step, [])) for step in (13, 60))]

print(f"undisturbed, the loss moves by {before.diff().abs().median():.1g} in the median step")
Table(["changed", "the mean loss changes by at most", "ranks that differ after 13", "after 60"],
      [row(name, train_with_fault("wrong weights", **where)) for name, where in flips.items()])

# %% [markdown]
# A changed bit of the fraction is lost in the ups and downs of the loss. The highest bit of the
# exponent turns this weight into about $10^{37}$, and that is loud. But two steps later the loss is
# NaN on all ranks, and nothing says where it began. A pixel that is black in all images hides any
# bit of its weight.
#
# In all four cases the **replicas**, the copies of the model on all ranks, are no longer equal.
# Compare them soon: all ranks add the same update to different weights, but rounding may swallow a
# lowest bit, and NaN comes to all. With a checksum, every rank has to tell 8 bytes only.

# %% [markdown]
# ### Exercise {{differing_replicas}} · Find replicas that differ
#
# Write `differing_replicas(model, group=None)` in
# [labs/finding_out.py](../labs/finding_out.py). All ranks call it, each with its own replica. On
# all ranks it returns the same sorted list: the ranks whose replica is not the one that **most**
# ranks have, more than half of the group. If no replica is on that many, nobody knows which is
# right: then it returns all ranks. Ranks are numbered within the group.
#
# `checksum(tensors)`, in the lab, gives an `int` that fits into an int64. The `int` changes if any
# bit changes. All parameters and buffers count, also those that are not trained or not saved. The
# model stays as it is. No rank may send more than 4,000 bytes.

# %% [markdown]
# For example, with checksums 5, 5, 8 and 5 on four ranks the answer is `[2]`. With 5 and 8 on two
# ranks it is `[0, 1]`.

# %%
check("{{differing_replicas}}")

# %%
first = min(wrong[0][1])
print(f"found after step {first}, on all ranks: {wrong[0][1][first]}; undisturbed: {quiet[0][1]}")

# %% [markdown]
# It is found in the step in which it happens. What then? The rank is stopped, and gets a replica
# from another one, or a spare rank takes its place.

# %% [markdown]
# ## 5 · Wrong before the all-reduce
#
# What if not the weights, but the *gradients* of a rank are wrong? Then it is too late after the
# all-reduce: the sum is the same on all ranks, and wrong on all of them. Below, rank 2 gives its
# gradients in the wrong order, from step 13 on.

# %%
garbage = train_with_fault("wrong gradients")
print("replicas that differ, in 60 steps:", garbage[0][1])

# %% tags=["nbval-ignore-output"]
def norms(finding, data, fault):
    training = finding.Training(data, fault)
    for _ in range(20):
        training.step()
    return torch.cat([g.flatten() for g in training.gradients_of(training.rank)]).norm().item()

of_ranks = launch(norms, finding, digits, finding.Fault("wrong gradients", guilty, 12),
                  world_size=world_size, device="cpu").values
display(Table(["rank", "norm of its gradients after 20 steps"],
              [[str(rank), f"{norm:.3f}"] for rank, norm in enumerate(of_ranks)]))
plot_curves({"from step 13 on, a rank gives wrong gradients":
             {"undisturbed": curve(quiet), "wrong gradients": curve(garbage)}},
            "step", "mean loss of all ranks", title="With wrong gradients, the model still learns")

# %% [markdown]
# All replicas are equal, and equally wrong. The norms show nothing either, as numbers in another
# order have the same norm. (Look at norms all the same: it costs little, and finds numbers that are
# far too large.) The model still learns, from three ranks of four.
#
# What finds this exactly is computing it again, on *another* rank: a faulty core may make the same
# mistake each time. If each rank also computes the batch of the next rank, every batch is computed
# twice. A rank that always computes wrongly disagrees with both of its neighbours.

# %% [markdown]
# ### Exercise {{wrong_by_recomputing}} · Detect a rank that computes wrongly
#
# Write `wrong_by_recomputing(gradients_of, group=None)` in
# [labs/finding_out.py](../labs/finding_out.py). `gradients_of(k)` computes, on this rank, the
# gradients of rank `k`'s batch, and returns a list of tensors. Wherever these are computed rightly,
# they are the same to the last bit. Call it once for this rank, and once for the next one. The next
# of the last rank is rank 0.
#
# There are three ranks or more, and at most one of them computes wrongly, each time. Return this
# rank, or `None` if there is none, on all ranks the same. Ranks are numbered within the group. No
# rank may send more than 4,000 bytes.

# %% [markdown]
# For example, on four ranks: batch 0 is computed by ranks 0 and 3, batch 1 by ranks 1 and 0, batch
# 2 by ranks 2 and 1, batch 3 by ranks 3 and 2. If there is disagreement about batches 2 and 3, it
# is rank 2 that computes wrongly. Disagreement about batch 2 alone comes from rank 1 or rank 2, if
# one was wrong only once. The course's solution then raises an error: take the step again.

# %%
check("{{wrong_by_recomputing}}")

# %% [markdown]
# ## 6 · All of it, in one run
#
# The lab's `train_and_check` looks after each step for wrong gradients, for differing replicas, and
# for stragglers, in the last ten steps.

# %% tags=["nbval-ignore-output"]
def train_and_check(finding, data, fault):
    return finding.train_and_check(data, fault)

def find_fault(what):
    return launch(train_and_check, finding, digits, finding.Fault(what, guilty, 12),
                  world_size=world_size, device="cpu").values[0]

at_once = {what: find_fault(what) for what in ("wrong gradients", "wrong weights", "nothing")}
for what, value in at_once.items():
    told = value and f"rank {value['ranks'][0]} {value['what']}, in step {12 + value['steps']}"
    print(f"{what}: {told or 'nothing found'}")
slow = find_fault("slow")
print(f"slow: rank {slow['ranks'][0]} {slow['what']}, found after {slow['steps']} steps")

# %% [markdown]
# What does it cost? For stragglers and replicas, two all-gathers of 8 bytes from each rank, and a
# checksum of all weights. Computing everything twice is expensive: it takes half of the cluster.
# Done in one step of 100, it takes 1 %, and finds a core that is always wrong within 100 steps.
#
# **On GPUs**, three things differ. Two devices of the same kind give the same bits only if the
# kernels are deterministic: `torch.use_deterministic_algorithms(True)` asks for that, says its
# [documentation](https://docs.pytorch.org/docs/stable/notes/randomness.html). A call returns before
# the GPU has computed: so take computing times with `torch.cuda.Event`. And our `checksum` copies
# all weights to the CPU: on a GPU, rather add their bits as integers. None of this was measured
# here.

# %% [markdown]
# ## 7 · What torchrun finds
#
# torchrun has an **agent** on each machine, which starts the ranks and watches them. What does it
# find? Once rank 1 is killed, and once it waits for ever. The group's timeout is 2 s.

# %%
PROGRAM = '''
import datetime, os, signal, sys, time
import torch, torch.distributed as dist

def say(line):  # in one piece: all ranks write into the same pipe
    os.write(1, f"{line}\\n".encode())

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
rank = dist.get_rank()
try:
    for step in range(10):
        if (rank, step) == (1, 5):
            say(f"rank 1 at {time.time() % 1000:.1f} s: FAULT")
            STRIKE
        dist.all_reduce(torch.ones(1000))
except RuntimeError:
    say(f"rank {rank} at {time.time() % 1000:.1f} s: an error in all_reduce")
    sys.exit(1)
'''

def try_torchrun(what, strike):
    program, printed = folder / "program.py", io.StringIO()
    program.write_text(PROGRAM.replace("FAULT", what).replace("STRIKE", strike))
    with redirect_stdout(printed), suppress(RankError):
        run_torchrun(program, nproc_per_node=3)
    for line in printed.getvalue().splitlines():  # without torchrun's dates and paths
        said = re.sub(r"^.*\]:[WE]\d{4} .*\.py:\d+\] ", "torchrun: ", line)
        print(said.removeprefix("[machine 0] ").partition(" of binary")[0])

# %% tags=["nbval-ignore-output"]
try_torchrun("killed", "os.kill(os.getpid(), signal.SIGKILL)")
print()
try_torchrun("waits", "time.sleep(60)")

# %% [markdown]
# The agent looks every 0.1 s whether a process has **ended**. If one has, the agent ends all
# others, and can start them again: that is the subject of the next part. In the first run it finds
# the rank that was killed. In the second it finds nothing: rank 1 is alive. What it finds, two
# seconds later, is a rank that has ended because of the timeout, and it reports *this* rank as the
# one that failed. So the rank in torchrun's report is one of those that had ended when the agent
# looked, and not always the one that was wrong. If several ended in the same second, it names the
# lowest of them.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
shutil.rmtree(folder, ignore_errors=True)
gone = 4 - len(switched_off)
at_once = sorted(value["after"] for value in found["killed"] if value)
knew = " and ".join(f"{seconds:.2f} s" for seconds in switched_off)
told = (f"{gone} of 4 ranks were gone with their machine. The others cannot go on either: they "
        f"knew after {knew}, by the timeout of {timeout:g} s (section 1, run)"
        if switched_off else "there are no machines here")
put_to_the_test(f"""
- [C101] If one of two computers with two GPUs each crashes, two GPUs of four cannot be reached |
  PyTorch slides, “Failover: what happens if one node crashes?” |
  {("right" if gone == 2 else "not here") if switched_off else "not tested"} |
  {told}. Where only a process was killed, the others knew after {at_once[0]:.3f} to
  {at_once[-1]:.3f} s (section 1, table) | measured: with NCCL the others are expected to wait as
  well; its default timeout is 10 minutes, says PyTorch's documentation
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** Hochschild et al. 2021, [Cores that don't
# count](https://doi.org/10.1145/3458336.3465297), on processors that compute wrongly. The
# [Llama 3 paper](https://arxiv.org/abs/2407.21783), section 3.3.4, on stragglers and failures of
# 16,384 GPUs.

# %% [markdown]
# ## What you have learnt
#
# * A **crash** closes connections: neighbours know at once, all others when those leave the group.
#   A **hang** is known after the timeout, and no error names the rank.
# * **Heartbeats** are counts, watched with one clock. A heart that beats says that a process is
#   alive; **progress** is counted before each collective, and the guilty rank has the fewest.
# * A **straggler** is found by its own computing time, as the steps of all are equally long.
# * Wrong **weights** are found by checksums of replicas. Wrong **gradients** are equal everywhere
#   after the all-reduce: to the last bit, only computing them again, elsewhere, finds them.
#
# **Your exercises** stand in
# [labs/finding_out.py](../labs/finding_out.py).
#
# **Next**: {{next}}.

# %%
progress("04c")
