# %% [markdown]
# # {{title}}
#
# **A rank has died. How does the training go on, and is it still the same training?** You can save
# a training (04), and find out that something is wrong (04c). Now all ranks have to start again.
# There may be fewer of them, and their numbers may have changed. Here `torchrun` restarts real
# processes, on machines that are really switched off. You write what makes the result the same in
# any case.

# %% [markdown]
# ![Loss and number of ranks over steps, in three lives: with two ranks, with one, and with two
# again; the loss lies on the curve of an undisturbed process](../assets/covers/04d_restart.png)
#
# *Measured in section 4: machine 1 is switched off after step 20, and comes back later.*
#
# **After this part you can** let `torchrun` restart a training, say what a restart costs, keep the
# batch the same on any number of ranks, and write the job for SLURM or Kubernetes.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import io
import shutil
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Machines, Table, check, close, hint, lab, launch, plot_bars, plot_curves, predict,
    progress, put_to_the_test, relative_gap, run_torchrun,
)

# %% tags=["parameters"]
die_at = 29
every = 8
world_size = 4

# %% [markdown]
# ## 1 · Restart everybody
#
# One rank is lost. Why are all ranks started again, and not this one alone? The others stand in the
# middle of a step, with connections to a process that is no more. A new process has none of their
# state. It is simplest to end all, and to let all read the same checkpoint.
#
# torchrun does this. Its agent starts the ranks of a machine and watches them (04c). If one ends
# with an error, the agent ends the others, and starts all of them in new processes, at most
# `--max-restarts` times. The program below is what it starts. `before_step` makes the faults: after
# `DIES` steps, the process or the whole machine 1 is gone.

# %%
PROGRAM = '''
import os, signal, time
began = time.time()
import torch
from pedagogy_lib import lab, machines_around

restart = lab("restart")
os.environ.setdefault("MACHINE", os.environ["LOCAL_RANK"])  # without machines, a rank plays one

def before_step(training):
    life = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if (os.environ["MACHINE"], life, training.steps) == ("1", "0", DIES):
        restart.note(FOLDER, "fault", steps=training.steps)
        if ON_MACHINES:
            machines_around().kill(1)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    if ON_MACHINES and (os.environ["WORLD_SIZE"], training.steps) == ("1", COMES_BACK):
        machines_around().revive(1)
        time.sleep(60)  # until the agent ends this process, to begin anew with machine 1

restart.train(FOLDER, STEPS, EVERY, torch.load(DIGITS), before_step, began)
'''

# %% jupyter={"source_hidden": true}
restart = lab("restart")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="restart-"))
torch.save(digits, folder / "digits")

def run_program(name, dies, steps, comes_back=None, **settings):
    """Run PROGRAM under torchrun, without its many words; returns the folder with the log."""
    place = folder / name
    place.mkdir()
    names = "DIES, COMES_BACK, STEPS, EVERY, FOLDER, DIGITS, ON_MACHINES"
    values = (dies, comes_back, steps, every, str(place), str(folder / "digits"),
              "machines" in settings)
    (place / "program.py").write_text(f"{names} = {values!r}\n{PROGRAM}")
    with redirect_stdout(io.StringIO()):
        run_torchrun(place / "program.py", **{"timeout": 110} | settings)
    return place

# %% [markdown]
# The lab's [`train`](../labs/restart.py) is what every rank runs in each of its **lives**: meet the
# others, read the newest whole checkpoint, take steps, save after every 8 of them with `save` of
# part 04. Rank 1 is killed when 29 of 40 steps are taken. How many steps are taken twice?

# %%
twice_guess = predict(f"Killed after {die_at} steps, a checkpoint every {every}: taken twice",
                      unit="steps")

# %%
killed = run_program("killed", die_at, 40, nproc_per_node=2, max_restarts=1)
taken = [step for step, _, _ in restart.steps_taken(killed)]
print(f"{len(taken)} steps in {len(restart.lives(killed))} lives; the second begins with step",
      taken[die_at])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the log says.
twice_guess.compare(die_at % every, len(taken) - len(set(taken)))

# %% [markdown]
# And the result? `go_on` takes the same 40 steps on two ranks that nobody disturbs.

# %%
def go_on(restart, data, until, state=None, m=restart.MICROBATCHES):
    """Losses of the steps up to `until`, the weights, and the state after them."""
    training, losses = restart.Training(data, m=m), []
    if state:
        training.load_state_dict(state)
    while training.steps < until:
        training.step()
        losses.append(training.test_loss())
    return losses, training.weights(), training.state_dict()

_, weights, _ = launch(go_on, restart, digits, 40, world_size=2, device="cpu").values[0]
print("weights differ by", (restart.load_weights(killed) - weights).abs().max().item())

# %% [markdown]
# Not a single bit differs. Three things make it so: the checkpoint has all that the next step
# depends on; a step that is taken twice draws the same random numbers, as they depend on the number
# of the step; and two ranks add the same numbers in the same order as before.
#
# What did it cost? The log has the times of each part, from the death of rank 1 until step 29 was
# taken once more.

# %% tags=["nbval-ignore-output"]
costs = {"a rank is killed": restart.costs(killed)}
Table(["part of the restart", "took"],
      [[part, f"{1e3 * seconds:,.0f} ms"] for part, seconds in costs["a rank is killed"].items()])

# %% [markdown]
# The agent finds the dead process soon, as it looks every 0.1 s. Usually the imports take longest
# here: each new process imports PyTorch. The checkpoint is tiny, and so are the steps.
#
# **On GPUs** the shares differ: checkpoints are larger, more ranks have to be connected, and steps
# take longer. Llama 3's 16,384 GPUs were interrupted 466 times in 54 days: 419 times without
# warning (part 04), and 47 times as planned. Still, more than 90 % of the time was training time,
# says [the paper](https://arxiv.org/abs/2407.21783) (section 3.3.4). None of this was measured
# here.

# %% [markdown]
# One more thing has to be set. Ranks find each other's addresses in a **store**. In PyTorch 2.13
# the agent keeps one store for all lives, as long as rank 0 stays on the same machine. A rank that
# is started again may find the address of a dead rank there, and fail or hang. With NCCL this has
# happened ([issue 135712](https://github.com/pytorch/pytorch/issues/135712)); with Gloo,
# `make bench BENCH_ARGS=restart` tries it on your machine. With
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` in the environment, each life gets a store of its own. Our
# `run_torchrun` takes care of that.

# %% [markdown]
# ## 2 · Ranks change
#
# If a machine is lost, a new one may not be there at once. Then the others can go on without it:
# torchrun is **elastic** with `--nnodes 2:3`, which means two or three machines. Below there are
# three, with one rank each. Machine 1, the one in the middle, is switched off after 20 steps, and
# does not come back.
#
# Machines 0 and 2 had ranks 0 and 2, and nothing has happened to them. How many of the two have
# another rank afterwards?

# %%
rank_guess = predict("Two machines are left: so many of them get another rank", unit="machines")

# %% tags=["nbval-ignore-output"]
machines = Machines.here(3)

def torchrun_settings(fewest, most):
    """Settings of run_torchrun; without machines, one agent whose ranks all come back."""
    if machines:
        return {"nnodes": (fewest, most), "nproc_per_node": 1, "machines": Machines(most)}
    return {"nproc_per_node": most, "max_restarts": 3}

three = run_program("three", 20, 60, **torchrun_settings(2, 3))
lives = restart.lives(three)
for number, life in enumerate(lives, start=1):
    print(f"life {number}:", ", ".join(f"machine {m} has rank {life[m]}" for m in sorted(life)))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the log says.
changed = sum(lives[-1][machine] != lives[0][machine] for machine in "02")
picture = rank_guess.compare(1, changed)
picture if machines else None

# %% [markdown]
# Machine 2 has another rank, although nothing was wrong with it. (Without machines of their own,
# all ranks come back, and none changes.) When agents meet, torchrun 2.13 sorts them by their host
# names, or by what `--local-addr` says, and numbers them from 0, without gaps. (They are sorted as
# text: 10.0.0.10 comes before 10.0.0.9.) The documentation warns: "`RANK` is NOT stable"
# ([torchrun, notice 6](https://docs.pytorch.org/docs/stable/elastic/run.html)).

# %% [markdown]
# So nothing may belong to a rank's number for longer than a life:
#
# * **the log**: whoever has rank 0 now writes it, into a place that all machines share;
# * **a shard or a checkpoint file**: read it by what is in it (part
#   [04b](04b_sharded_checkpoints.ipynb)), not by who wrote it;
# * **data**: who reads which samples follows from the step, as the next section shows.

# %% tags=["nbval-ignore-output"]
costs["a machine is switched off" if machines else "again"] = restart.costs(three)
plot_bars(restart.PARTS, {what: list(parts.values()) for what, parts in costs.items()}, "time (s)",
          title="What a restart costs, until all lost steps are taken again")

# %% [markdown]
# A machine without power costs more time than a rank that is killed. Nobody closes its connections:
# the others wait for 2 s, the timeout of their group. Then the agents wait until the agent of
# machine 1 counts as dead, after three signs of life that did not come (one a second here; unless
# it is set, one in five seconds). And they wait 1 s more, in case that somebody else comes (30 s
# unless it is set).

# %% [markdown]
# ## 3 · The batch stays the same
#
# With two ranks in place of three, who computes the samples of the third? If nobody does, the batch
# becomes smaller, and with the same learning rate this is another training.
#
# So let the batch be $m$ **micro-batches**, whoever is there. A step deals them out among the $n$
# ranks that are there. Each rank accumulates the gradients of its own micro-batches (chapter 01),
# and one all-reduce adds them up.

# %% [markdown]
# ### Exercise {{microbatches_of}} · Which micro-batches are mine?
#
# Write `microbatches_of(rank, n, m)` in [labs/restart.py](../labs/restart.py). It gets the rank,
# the number of ranks `n`, and the number of micro-batches `m`, and returns a list of the numbers of
# those that this rank computes. They are numbered from 0 to `m - 1`.
#
# * Each micro-batch is computed by exactly one rank.
# * Two ranks differ by one micro-batch at most. If `n` is larger than `m`, some ranks have an empty
#   list.
# * Which ones a rank has is up to you. For example, of 5 micro-batches on 2 ranks, rank 0 may have
#   `[0, 2, 4]` and rank 1 `[1, 3]`; or `[0, 1, 2]` and `[3, 4]`.
# * Each rank calls it for itself, in every step. So the arguments alone decide, and not chance.

# %%
check("{{microbatches_of}}")

# %% [markdown]
# ### Exercise {{mean_gradients}} · The gradient of the whole batch
#
# Write `mean_gradients(gradients_of, parameters, m, group=None)` in
# [labs/restart.py](../labs/restart.py). All ranks of the group call it.
#
# * `gradients_of(k)` computes micro-batch `k` on this rank, and returns a list of tensors: the
#   gradients of the *mean* loss of that micro-batch. All micro-batches are equally large.
# * `parameters` is a list of tensors with the same shapes and dtypes as these gradients: dtypes may
#   differ. Do not change them, or their `.grad`.
# * It returns, on every rank, a list of such tensors: the gradients of the mean loss over all `m`
#   micro-batches. Each is computed once, by one rank alone: use `microbatches_of`.
# * It may send as much as one all-reduce of each gradient. A rank that has no micro-batch takes
#   part all the same.

# %% [markdown]
# For example, with one parameter that is a single number, let the gradients of 3 micro-batches be
# 3, 6 and 12. On two ranks, rank 0 has micro-batches 0 and 2, and rank 1 has micro-batch 1. Both
# return 7. (An average of both ranks' averages, 7.5 and 6, would be 6.75.)

# %%
check("{{mean_gradients}}")

# %% [markdown]
# The lab's training has dropout, and moves images by a pixel at random. If each rank drew from a
# generator of its own, the result would depend on who computes a micro-batch. So `loss_of(k)` makes
# a generator for each micro-batch, seeded by its number, $\text{step} \cdot m + k$. Is the training
# the same on any number of ranks?

# %%
alone, weights_alone, _ = launch(go_on, restart, digits, 60, world_size=1, device="cpu").values[0]
for n in (2, 3, 5):
    values = launch(go_on, restart, digits, 60, world_size=n, device="cpu").values
    print(f"60 steps on {n} ranks: equal to one process, but for rounding:",
          all(close(weights, weights_alone) for _, weights, _ in values))

# %% [markdown]
# *But for rounding*: on another number of ranks, the gradients of the same micro-batches (12 in
# this lab) are added in another order, and the last digits of a sum depend on that.
#
# Now the naive way: every rank keeps its three micro-batches, so a step of fewer ranks has fewer
# micro-batches. Four ranks are there for 30 steps, then one rank for 40, then four again.

# %%
def train_over_restarts(share=None):
    """Losses over the lives; `share`: micro-batches of each rank, if their sum may change."""
    losses, state = [], None
    for n, until in ((world_size, 30), (1, 70), (world_size, 100)):
        m = n * share if share else restart.MICROBATCHES
        more, _, state = launch(go_on, restart, digits, until, state, m, world_size=n,
                                device="cpu").values[0]
        losses += more
    return losses

undisturbed = launch(go_on, restart, digits, 100, world_size=1, device="cpu").values[0][0]
same, smaller = train_over_restarts(), train_over_restarts(share=restart.MICROBATCHES // world_size)
print("same batch: losses equal those of one process, but for rounding:", close(same, undisturbed))

# %% tags=["nbval-ignore-output"]
def curve(losses, first=1):
    return range(first, first + len(losses)), losses

plot_curves({"the batch stays the same": {"undisturbed": curve(undisturbed),
                                          "ranks change": curve(same)},
             "each rank keeps its share": {"undisturbed": curve(undisturbed),
                                           "ranks change": curve(smaller)}},
            "step", "test loss", title=f"Ranks: {world_size} until step 30, 1 until step 70, then "
            f"{world_size}")

# %% [markdown]
# On the left, the two curves are one. On the right, the training becomes another one when the ranks
# change: the gradient of a quarter of the batch is noisier, and the learning rate was chosen for
# the whole. It also sees fewer samples. What the same batch costs is time: alone, a rank computes
# four times as many micro-batches in a step.

# %% [markdown]
# ## 4 · Elastic, live
#
# All of it together, with `--nnodes 1:2`. There are two machines. Machine 1 is switched off after
# step 20. Machine 0 finds that out after 2 seconds, the timeout of its group, goes on alone from
# step 17, and saves. Later machine 1 is back: a new agent starts there and joins. To keep this cell
# short, machine 0 pauses at step 40 until machine 1 is back.

# %%
two = run_program("two", 20, 60, comes_back=40, **torchrun_settings(1, 2))
taken = restart.steps_taken(two)
gap = max(abs(loss - alone[step - 1]) / alone[step - 1] for step, _, loss in taken)
print("losses equal those of one process, but for rounding:", gap < 1e-12)

# %% tags=["cover", "nbval-ignore-output"]
lab("lives").plot_lives(restart.losses_of_lives(two), curve(alone), "test loss",
                        title="One of two machines dies, and comes back")

# %% tags=["nbval-ignore-output"]
print("ranks in each life:", [len(life) for life in restart.lives(two)])
print(f"largest relative difference of a loss: {gap:.1e}")

# %% [markdown]
# Each life lies on the curve of one process. Steps 17 to 20 were taken twice, by two ranks and then
# by one. Machine 0 went on as soon as it knew: no human had to restart it. A machine
# that comes back costs a restart, too: all ranks are ended, to begin anew with one more.
#
# In section 2 you have seen a machine that does not come back: machines 0 and 2 trained to the end
# without it. Was that the same training as well?

# %%
values = [(step, loss) for step, _, loss in restart.steps_taken(three)]
print("losses equal those of one process, but for rounding:",
      all(abs(loss - alone[step - 1]) < 1e-12 * alone[step - 1] for step, loss in values))

# %% [markdown]
# And with a fixed number of machines, `--nnodes 2`? Machine 1 is switched off after step 20 again,
# and does not come back.

# %% tags=["nbval-ignore-output"]
if machines:
    try:
        run_program("fixed", 20, 60, nnodes=2, nproc_per_node=1, machines=Machines(2),
                    max_restarts=3, timeout=8 + 3 * sum(costs["a rank is killed"].values()))
    except HangError as error:
        print(f"after {error.seconds:g} s the agents still wait")
    steps = [step for step, _, _ in restart.steps_taken(folder / "fixed")]
    print(f"last step: {max(steps, default=0)}; lives: {len(restart.lives(folder / 'fixed'))}")

# %% [markdown]
# The agent of machine 0 ends its rank and waits for a second machine: for ten minutes, unless
# `--rdzv-conf join_timeout=…` says otherwise. (Here it has been ended by its timeout.) A fixed
# number is right where the model does not fit on fewer machines, or where somebody replaces the
# lost one soon. Until then, those that are left stand idle.

# %% [markdown]
# ## 5 · SLURM and Kubernetes
#
# On a cluster, something else starts the agents, and starts *them* again: a **scheduler**. The
# course has two short files, [restart.sbatch](../labs/clusters/restart.sbatch) for SLURM, and
# [restart.yaml](../labs/clusters/restart.yaml) for Kubernetes. Both start the same program with the
# same torchrun. These lines differ:

# %% jupyter={"source_hidden": true}
Table(["what", "SLURM", "Kubernetes"], [
    ["one agent on each machine", "--ntasks-per-node=1, srun torchrun", "a Job, a pod for each"],
    ["how many", "--nodes=2", "completions: 2, parallelism: 2"],
    ["where agents meet", "the first name of $SLURM_JOB_NODELIST", "pod 0, by a headless Service"],
    ["a rank fails", "--max-restarts=3, of torchrun", "--max-restarts=3, of torchrun"],
    ["a machine fails", "--requeue: the job begins again",
     "once it is deleted, a new pod; meanwhile the other goes on: --nnodes=1:2"],
    ["the time is up", "--signal=B:USR1@180: save, leave, requeue", "this Job has no time limit"],
    ["checkpoints", "a folder that all machines see", "a volume, ReadWriteMany"],
])

# %% [markdown]
# A **pod** is one or more containers with an address of their own. A **headless Service** gives
# pods names that stay. **ReadWriteMany** means that all pods may write to a volume.
#
# There are two loops of restarts, one inside the other. The inner one is torchrun's: it is quick,
# and keeps the machines. The outer one is the scheduler's: it takes minutes, and can give other
# machines. Whatever happens inside of them, the program does the same: read the newest whole
# checkpoint, and go on.

# %% [markdown]
# Neither loop covers a **time limit**, where SLURM ends the job for good. `--requeue` is for a node
# that fails and for a job that makes room for another, according to [SLURM's
# manual](https://slurm.schedmd.com/sbatch.html#OPT_requeue). The script therefore asks for a signal
# three minutes before the limit. It sends SIGTERM to the agents, which pass it on to their ranks.
# The lab's `LeaveNotice` notes it there, all ranks save after the same step and leave, and the
# script puts the job back into the queue. Part [04h](04h_told_to_stop.ipynb) is about this notice:
# how the ranks agree, how long they have, and where the data goes on.

# %% [markdown]
# **On GPUs**, add `--gpus-per-node=8` for SLURM, `nvidia.com/gpu: 8` under `limits` for Kubernetes,
# and one rank for each GPU ([SLURM](https://slurm.schedmd.com/sbatch.html),
# [Kubernetes](https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/)). None of this was
# measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
shutil.rmtree(folder, ignore_errors=True)
lost = len(lives[0]) - len(lives[-1])
put_to_the_test(f"""
- Ranks are not stable over a restart; do not assume which machine is rank 0 | PyTorch slides |
  {"right" if machines else "not tested"} | machine 2 had rank {lives[0]["2"]}, and then rank
  {lives[-1]["2"]} (section 2)
- If one of two machines with two GPUs each crashes, two of four are gone | PyTorch slides |
  {"right, and more" if machines else "not tested"} | the other ranks are ended, too: torchrun
  starts all that are left in new processes (sections 1 and 4)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).

# %% [markdown]
# ## What you have learnt
#
# * **torchrun** ends all ranks and starts all of them again: `--max-restarts` for ranks that fail,
#   `--nnodes 1:2` for machines that come and go.
# * A **rank** is a number for one life. Logs, shards and data belong to none.
# * The **batch** is $m$ micro-batches, dealt out among those that are there. Add up, and divide
#   once by $m$. Random numbers come from the number of the micro-batch.
# * With the same number of ranks, sums in the same order and deterministic kernels, the result is
#   the same to the last bit. With another number of ranks, it is the same up to rounding.
#
# **To read on.** PyTorch's [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), and
# its [tutorial on fault
# tolerance](https://docs.pytorch.org/tutorials/beginner/ddp_series_fault_tolerance.html).
#
# **Your exercises** stand in [labs/restart.py](../labs/restart.py).
#
# **Next**: {{next}}.

# %%
progress("04d")
