# %% [markdown]
# # {{title}}
#
# **One rank of many dies. Do all others have to stop?** A restart ends every process, also those
# that are well, and throws away what they have in memory. But in data parallel training every rank
# has the whole state. So the others can go on: they agree who is left, take the broken step again,
# and let a newcomer in when it comes. Here you write the two pieces that this needs.

# %% [markdown]
# ![Timeline of four ranks: rank 2 dies in the middle, the others meet for a moment and go on, and
# after another meeting rank 2 is back](../assets/covers/04e_keep_training.png)
#
# *Measured in section 4. No process but rank 2 was started again, and no state was read from a
# disk.*
#
# **After this part you can** make ranks agree on who is there, go on without a lost one in the same
# step, and take a newcomer in, so that the weights are those of a run that nobody disturbed.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import contextlib
import os
import shutil
import signal
import tempfile
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector

from pedagogy_lib import (
    RankError, Table, check, hint, lab, launch, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
guilty = 2
steps = 40
die_at = 20

# %% [markdown]
# ## 1 · A step that fails
#
# The lab [keep_training](../labs/keep_training.py) trains a small classifier. Each step's batch has
# 12 micro-batches, which are dealt among the ranks that are there, as in part
# [04d](04d_restart.ipynb). What dropout draws depends on the step and the micro-batch, and not on
# the rank. So it does not matter who computes what.
#
# Rank 2 dies before the all-reduce of step 21. `replacements=0` tells the launch to let the others
# go on, and to start nobody in its place. What do they know at this moment?

# %%
keeping = lab("keep_training")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="keeping-"))

def train_until_failure(keeping, data, guilty, die_at):
    training = keeping.Training(data)
    rank, n = dist.get_rank(), dist.get_world_size()
    try:
        while True:
            sums = training.compute(rank, n)
            if (rank, training.steps) == (guilty, die_at):
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(sums)
            training.update(sums)
    except RuntimeError as error:
        dist.destroy_process_group()  # closes connections: so all others learn of it
        return training.steps, str(error).split("] ", 1)[-1].split(". ")[0]

# %% tags=["nbval-ignore-output"]
run = launch(train_until_failure, keeping, digits, guilty, die_at, world_size=world_size,
             device="cpu", replacements=0)
Table(["rank", "steps taken", "its all-reduce said"],
      [[str(rank), *map(str, value or ("–", "this rank is dead"))]
       for rank, value in enumerate(run.values)])

# %% [markdown]
# All survivors have equal weights, as rank 2 died *before* the all-reduce. (Section 4 shows what
# happens if it dies *during* one.) What is broken is the *process group*: Gloo's cannot shrink to
# three ranks. And nobody has been told who is missing. Each one knows only that its own all-reduce
# has failed.
#
# So three things have to be done: **agree** who is there, **form** a new group of these, and
# **repeat the computation** of the step that nobody has finished.

# %%
again_guess = predict(f"Rank {guilty} dies before an all-reduce: others take so many steps twice",
                      unit="steps")

# %% [markdown]
# This is the idea of the whole part, and nearly the lab's `train`:
#
# ```python
# has_to_meet = True
# while training.steps < steps:
#     try:
#         if has_to_meet:
#             crew.meet()          # agree who is there, and form a group (section 2)
#             catch_up(training)   # the same state on all ranks (section 4)
#         has_to_meet = take_step(training, crew)
#     except Lost:                 # somebody died in this step (section 3)
#         has_to_meet = True
# ```
#
# A **crew** is those who train together. `train_with_fault` of the lab runs this on each rank, and
# makes the fault.

# %%
def train(keeping, *args):
    return keeping.train_with_fault(*args)

def keep_training(die_at, how=signal.SIGKILL, steps=steps, late=0.0, **settings):
    place = tempfile.mkdtemp(dir=folder)
    return launch(train, keeping, place, digits, (guilty, die_at, how), steps, late,
                  world_size=world_size, device="cpu", **settings)

# %%
alone = keeping.one_process(digits, steps)

def gap(run):
    """The largest difference of any rank's weights from those of one process."""
    return max((told.weights - alone).abs().max().item() for told in run.values if told)

undisturbed, one_died = keep_training(None), keep_training(die_at, replacements=0)
for name, run in (("undisturbed", undisturbed), ("rank dies", one_died)):
    meetings = next(told.meetings for told in run.values if told)
    words = "; ".join(f"{n} ranks go on after step {step}" for step, n in meetings)
    print(f"{name}: {words}")
    print(f"{name}: as one process, but for rounding: {gap(run) < 1e-12}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and the most steps that a survivor has taken twice.
numbers = [[step for step, _ in told.taken] for told in one_died.values if told]
again_guess.compare(0, max(len(one) - len(set(one)) for one in numbers))

# %% [markdown]
# None. The weights change at the end of a step, and this end was never reached. Only gradients are
# computed again: the 12 micro-batches of step 21, by three ranks now. The weights at the end are
# those of one process, but for rounding: three ranks and four add in another order.

# %% [markdown]
# ## 2 · Who is there?
#
# Survivors come to a **meeting**, one after another, each when its all-reduce has failed. A dead
# rank does not come, and nobody knows beforehand who is dead. How do they agree on *one* list?
# If each made its own, a slow one might be on some lists and not on others, and the new group
# would wait for ever.

# %% [markdown]
# They use a **store** that all can reach, and that outlives each of them. Two of its operations are
# atomic (part 04): no other process sees them half done.
#
# * `store.append(key, text)` adds to the text of a key, and makes the key if there is none;
# * `store.compare_set(key, "", text)` sets the text of a key only if it has none, and returns what
#   the key holds then, as `bytes`. Of two that try, one wins, and both get the same.

# %% [markdown]
# The second is what makes them agree: everybody may *propose* a list, and the first proposal counts
# for all. On a cluster, such a store is torchrun's `TCPStore`, on a machine that must not fail, or
# a service of several machines such as etcd. Here it is a folder, in the lab
# [folder_store](../labs/folder_store.py): each value is a file, written aside and then renamed, as
# part [04](04_failure_and_recovery.ipynb) writes checkpoints. PyTorch's `FileStore` appends to one
# file. If a process is killed in the middle of that, half an entry holds up all others.

# %% [markdown]
# ### Exercise {{who_is_there}} · Agree on the group's members
#
# Write `who_is_there(store, meeting, me, former, n, patience)` in
# [labs/keep_training.py](../labs/keep_training.py). `n` is the number of ranks that the training
# was started with. `former` is a list of the names in the last group, including `me`. `patience` is
# counted in seconds from this call. The function returns the list that all have agreed on.

# %% [markdown]
# Each process calls it for itself:
#
# 1. It announces itself, in one call, as a process may die between two: `me` is its name, a text
#    without commas.
# 2. It looks again and again who has come, until there is a list that all have agreed on. It
#    **proposes** one, sorted, when `n` ranks have come, as no more are expected. One that has
#    trained with others also proposes as soon as all of `former` have come, or when `patience` has
#    passed.
# 3. It returns the agreed list: the same in all processes. Who comes when there is a list already
#    gets this list at once, without its own name on it.

# %% [markdown]
# A newcomer has trained with nobody: its `former` is `[]`. It must not propose a list after
# `patience` seconds: the others may be busy with a step, and come later. If a newcomer dies,
# another takes its place: a name begins with its rank, up to a space, and a rank counts once. (The
# check does not try that.)
#
# `meeting` is a text, such as `"meeting 3"`. All keys contain it, as other meetings use the same
# store. `store.get(key)` waits until there is such a key, and returns `bytes`. `store.check([key])`
# says whether it is there. Sleep 0.01 s between two looks.

# %% [markdown]
# For example, `a`, `b` and `c` have trained together, and `b` is dead. `a` comes first, and `c`
# after 0.2 s. With a patience of 1 s, `a` proposes `["a", "c"]` after 1 s, and both get that. If a
# newcomer `d` comes meanwhile, it is `["a", "c", "d"]`. If `n` is 3, this is agreed at once.

# %%
check("{{who_is_there}}")

# %% [markdown]
# `Crew.meet` in the lab calls it, and forms a group of those on the list: `init_process_group` with
# a part of the store that belongs to this meeting, and with the place on the list as the rank. So
# **ranks change**, as after a restart. Whoever was expected and did not come is killed, if it is on
# this machine: that is the fencing of part [04c](04c_finding_out.ipynb). And if somebody dies while
# the group forms? Then the next meeting follows.

# %% [markdown]
# The batch is dealt anew whenever the group changes: part [04d](04d_restart.ipynb) has shown what
# happens otherwise.

# %% [markdown]
# ## 3 · Whose error is it?
#
# A step can fail for two reasons. The lab's `talking()` tells them apart:

# %%
@contextlib.contextmanager
def talking():
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in ("gloo", "timeout", "timed out")):
            raise
        raise keeping.Lost(str(error)) from None

# %% [markdown]
# If communication fails inside `talking()`, another rank is taken for the cause. It raises `Lost`,
# and a meeting follows. (Gloo's errors are plain RuntimeErrors: only their texts tell them from
# others. A program whose ranks sum tensors of different sizes can fail there, too. Look for that
# with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, part 03m, before you train.) Every other error is a mistake
# in the program, for example a product of tensors whose shapes do not fit. It would come again
# after each meeting. So it has to end the training, with its message:

# %%
def train_wrongly(keeping, place, data):
    training = keeping.Training(data)
    training.images = training.images[:, :63]  # a pixel is missing
    crew = keeping.Crew(keeping.FolderStore(f"{place}/store"), dist.get_world_size())
    keeping.train(training, crew, 40)

try:
    launch(train_wrongly, keeping, tempfile.mkdtemp(dir=folder), digits, world_size=2,
           device="cpu", replacements=0)
except RankError as error:
    print(type(error.exception).__name__, "·", str(error.exception).splitlines()[0])

# %% [markdown]
# ## 4 · Somebody comes
#
# A new process takes the place of the dead one: `replacements=1` starts it as soon as rank 2 has
# died. It has a fresh model, and no group. It goes to the *next* meeting and waits there. How do
# the others learn of it? In each step, every rank asks the store whether somebody waits. But ranks
# ask at different moments: one may see the newcomer, and leave for the meeting, while another has
# not seen it yet, and waits in the all-reduce.
#
# So `take_step` adds the answer to the gradients, as one more number, and the all-reduce sums it.
# Then all know the same, after the same step.

# %% [markdown]
# Do all but the newcomer have the same weights at the meeting? Not always. If a rank dies *during*
# an all-reduce, some may have all sums, and take the step. Others get an error. Then some are one
# step further. Nobody has to go back: those who are behind, and newcomers, get the state of the one
# that is **furthest**.

# %% [markdown]
# ### Exercise {{catch_up}} · Bring every rank up to date
#
# Write `catch_up(training, group=None)` in [labs/keep_training.py](../labs/keep_training.py). All
# ranks of the group call it. `training` has an int `steps`, a method `state_dict()`, and a method
# `load_state_dict(state)` which sets `steps`, too. Afterwards every rank has the state of a rank
# that has taken the most steps.
#
# * A rank that already has the most steps keeps its state: do not call `load_state_dict` there.
# * Where all have taken equally many, nobody sends a state.
# * Exchange the numbers of steps by an all-gather of integers. Then one rank sends:
#   `dist.broadcast_object_list(box, group=group, group_src=r)`, where `r` is its rank in the group.
#   `box` is `[state]` on that rank and `[None]` on all others. Afterwards all have the state in it.

# %% [markdown]
# For example, with 20, 21, 0 and 21 steps, ranks 0 and 2 get the state of rank 1 or 3.

# %%
check("{{catch_up}}")

# %% [markdown]
# Now rank 2 dies, and comes back. The new process waits for a while here, as a machine that boots:
# otherwise it would come in time for the meeting of the survivors.

# %%
back = keep_training(die_at, steps=120, late=keeping.PATIENCE + 0.5, replacements=1)
survivor = next(told for rank, told in enumerate(back.values) if rank != guilty)
print("ranks after each meeting:", [n for _, n in survivor.meetings])
apart = max((told.weights - survivor.weights).abs().max().item() for told in back.values)
print("largest difference between ranks at the end:", apart)

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(back, ["step"], title=f"Rank {guilty} dies, and comes back")

# %% [markdown]
# Each bar is a step. The gaps are the two meetings. The first one takes 1.5 s, the patience of
# those that wait for the dead rank. In the second, all that are expected come at once. (Time 0 is
# the first step. Bars of a process that died are lost with it: rank 2's row begins with the new
# one.)
#
# All ranks end with the same weights, to the last bit: the newcomer got its state from another.

# %% [markdown]
# ## 5 · One that stands still
#
# A rank that is stopped closes no connection. The others wait for the timeout of the group, 4 s.
# Then they meet, wait for the patience, 1.5 s, and kill the one that did not come. How long does
# the training stand still?

# %% tags=["nbval-ignore-output"]
def pause(run):
    """The longest time between two steps, on any survivor."""
    times = [[at for _, at in told.taken] for told in run.values if told]
    return max(after - before for of_rank in times for before, after in pairwise(of_rank))

stopped = keep_training(die_at, signal.SIGSTOP, replacements=0)
replaced = keep_training(die_at, replacements=1)
Table([f"rank {guilty}", "the others stand still for", "how it ended"],
      [["killed, nobody comes", f"{pause(one_died):.2f} s", one_died.lost[0].what],
       ["killed, a new process comes", f"{pause(replaced):.2f} s", replaced.lost[0].what],
       ["stopped, nobody comes", f"{pause(stopped):.2f} s", stopped.lost[0].what]],
      title=f"Group's timeout {keeping.TIMEOUT:g} s, patience {keeping.PATIENCE:g} s")

# %%
print("stopped: as one process, but for rounding:", gap(stopped) < 1e-12)

# %% [markdown]
# If the new process comes within the patience, it is part of the survivors' own meeting, and nobody
# waits for the end of the patience. New processes cost little here: the bench copies a process that
# has imported PyTorch already. With torchrun, each new process imports it again (part
# [04d](04d_restart.ipynb)). On a cluster, finding a machine comes on top.

# %% [markdown]
# **On GPUs.** A collective of NCCL that has lost a peer does not raise an error by itself in the
# process that waits. It has to be aborted, by `abort()` of the process group. Unless told
# otherwise, PyTorch's watchdog ends the whole process. NCCL documents this as [fault
# tolerance](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html).
# PyTorch 2.13 has `torch.distributed.shrink_group` for it. None of this was measured here.

# %% [markdown]
# ## 6 · The real engine: torchft
#
# [torchft](https://github.com/meta-pytorch/torchft) does all of this for PyTorch. Its
# **lighthouse** is our meeting: a process that hears heartbeats of all replicas, and tells a
# **quorum**, the list of those who take part. Its `Manager` asks for a quorum before each step,
# forms the group, and sends the state to newcomers. At the end of a step the ranks *of a replica*
# vote whether to take it. Replicas may decide differently: then the next quorum sends the state of
# the one that is furthest.
#
# It is optional: `python3 tools/setup.py torchft` installs it. The lab
# [torchft_engine](../labs/torchft_engine.py) trains with it. Rank 2 dies before its all-reduce, and
# a new process comes.

# %% tags=["nbval-ignore-output"]
engine = lab("torchft_engine")
if engine.HAS_TORCHFT:
    for line in engine.try_torchft(digits, guilty, die_at):
        print(line)
else:
    print(engine.NO_TORCHFT)

# %% [markdown]
# This run takes 60 steps. If you have torchft: ranks 0, 1 and 3 discarded step 21, in which rank 2
# died, and took it again. The new rank 2 came later, and has discarded nothing.
#
# | | by hand | torchft 0.2 |
# |---|---|---|
# | who is there | the first proposed list, in a store | quorum of the lighthouse |
# | how long it waits for others | `patience` | `join_timeout_ms`, or the end of heartbeats |
# | the broken step | taken again | discarded, and taken again |
# | state of a newcomer | broadcast from the furthest | HTTP, or a process group |
# | the batch of the missing | dealt among the others | up to you; it divides by who is there |
#
# With torchft's own DDP wrapper, version 0.2.0, survivors ended with an `AssertionError` over Gloo
# when we tried it; so the lab calls `manager.allreduce` itself.

# %% [markdown]
# ## 7 · The same pieces in nvidia-resiliency-ext
#
# [nvidia-resiliency-ext](https://nvidia.github.io/nvidia-resiliency-ext/) (NVRx) packs most pieces
# of this chapter for GPUs. Its own description calls the package experimental. *Maturity* is what
# [Megatron Bridge](https://docs.nvidia.com/nemo/megatron-bridge/0.4.0/training/resiliency.html) says
# of the feature. None of it was run here.
#
# | part | feature of NVRx | maturity |
# |---|---|---|
# | 04c, sections 2 and 7 | [hang detection by heartbeats](https://nvidia.github.io/nvidia-resiliency-ext/fault_tolerance/index.html) | production, under Slurm |
# | 04d | [restart in the job](https://nvidia.github.io/nvidia-resiliency-ext/fault_tolerance/index.html) | production, under Slurm |
# | 04d | [warm spares](https://github.com/NVIDIA/nvidia-resiliency-ext/releases/tag/v0.3.0) | not listed |
# | 04e | [restart in the process](https://nvidia.github.io/nvidia-resiliency-ext/inprocess/index.html), on the healthy ranks | experimental |
# | 04c, section 3 | [reports of stragglers](https://nvidia.github.io/nvidia-resiliency-ext/straggler_det/index.html) | production |
# | 04 and 04b | [saving in the background](https://nvidia.github.io/nvidia-resiliency-ext/checkpointing/async/index.html) | production |
# | 04f | [local checkpoints with replicas](https://nvidia.github.io/nvidia-resiliency-ext/checkpointing/local/index.html) | production |
# | 04c, box | [checks of GPU (NVML) and network card](https://github.com/NVIDIA/nvidia-resiliency-ext/releases/tag/v0.3.0) | not listed |
#
# Megatron Bridge itself saves when a job is told to stop (04h), and can run a suspicious step again
# (04i, experimental).

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
shutil.rmtree(folder, ignore_errors=True)
survivors = [told for told in one_died.values if told]
put_to_the_test(f"""
- Without a checkpoint, a restart loses everything | PyTorch slides |
  {"right; so do not restart" if gap(one_died) < 1e-12 else "not refuted"} |
  {len(survivors)} of {world_size} ranks went on from step {die_at}, and no state was read from a
  disk (section 1); if all ranks die at once, only a checkpoint helps
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)). torchft's
# [documentation](https://docs.pytorch.org/torchft).

# %% [markdown]
# ## What you have learnt
#
# * Those who are left **meet**, agree on **one list**, and form a
#   new group. An atomic operation of a store makes them agree.
# * The step is **taken again**, and the whole batch is dealt among those who are there. Then the
#   weights are those of the undisturbed run, but for rounding.
# * A newcomer waits. All others learn of it **after the same step**, by a number in the all-reduce.
#   The newcomer gets the state of the rank that is **furthest**.
# * Only an error that comes while **talking** to other ranks is due to them. Every other error ends
#   the training.
#
# **Your exercises** stand in [labs/keep_training.py](../labs/keep_training.py).
#
# **Next**: {{next}}.

# %%
progress("04e")
