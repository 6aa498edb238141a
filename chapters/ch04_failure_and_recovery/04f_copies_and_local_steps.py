# %% [markdown]
# # {{title}}
#
# **What if the lost rank had something that nobody else has?** With sharded states, as in ZeRO and
# FSDP, each rank keeps a part that exists once. Reading it from the last checkpoint costs all steps
# since then. But another machine has free memory: it can keep a copy. Here a whole machine loses
# its power, and the training goes on from the step in which that happened. The second half is about
# workers that meet so rarely that they may come and go: **DiLoCo**.

# %% [markdown]
# ![Timeline of four ranks: two of them die, all wait, and all go on; below, what the network cards
# of two machines carried](../assets/covers/04f_copies_and_local_steps.png)
#
# *Measured in section 3: the states of ranks 2 and 3 came from the memory of the other machine.*
#
# **After this part you can** keep states of other ranks in memory, find out from which step all can
# go on, and train with workers that exchange weights once in many steps.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import os
import shutil
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector

from pedagogy_lib import (
    Machines, check, hint, lab, launch, measure, plot_curves, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
steps = 60
die_at = 30
rounds = 15

# %% [markdown]
# ## 1 · A state that exists once
#
# The lab [memory_copies](../labs/memory_copies.py) trains the classifier of part
# [04e](04e_keep_training.ipynb) with a sharded state. Each of the four ranks updates a quarter of
# the weights, its **shard**, and keeps AdamW's two moments for this shard. After the update, all
# ranks gather the weights from each other. (Chapter [06](06_zero.ipynb) calls this ZeRO,
# stage 1, and says what it is good for.)
#
# If a rank dies, the weights are still on all others. But its moments are gone. Does that matter?

# %%
memory, diloco = lab("memory_copies"), lab("diloco")
keeping = lab("keep_training")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="copies-"))
alone = keeping.one_process(digits, steps)

def lose_moments(memory, data, steps, forget_at):
    rank, n = dist.get_rank(), dist.get_world_size()
    training = memory.ShardedTraining(rank, n, data)
    while training.steps < steps:
        if (rank, training.steps) == (2, forget_at):
            training.optimizer.state.clear()
        sums = training.compute(rank, n)
        dist.all_reduce(sums)
        training.update(sums)
        training.gather_weights()
    return parameters_to_vector(training.model.parameters()).detach()

# %%
with_all, without = (
    launch(lose_moments, memory, digits, steps, when, world_size=4, device="cpu").values[0]
    for when in (None, die_at)
)
for name, weights in (("with all", with_all), ("without the moments of one shard", without)):
    gap = (weights - alone).abs().max().item()
    print(f"{name}, as one process, but for rounding: {gap < 1e-12}")

# %% [markdown]
# Without its moments, AdamW starts anew for a quarter of the weights: its next steps there have
# another length and direction. No error comes. But from this step on, it is another training.

# %% [markdown]
# ## 2 · A copy on another machine
#
# After each step, every rank sends its shard and the moments to a **keeper**, and keeps what comes
# from another. With two machines of two ranks each, rank `r` sends to rank `(r + 2) % 4`:
# always to the *other* machine. If a machine loses its power, each of its states is on
# the other one.
#
# That costs memory: with copies of two steps, of its own state and of another rank's, four times
# the rank's own state. It also costs messages. How many bytes does a rank send for the copies in
# one step, in sizes of the model?

# %%
copy_guess = predict("Sent for the copies in one step (gradients: 1.5, weights: 0.75)",
                     unit="models")

# %%
def one_step(memory, data):
    rank, n = dist.get_rank(), dist.get_world_size()
    training, copies = memory.ShardedTraining(rank, n, data), memory.Copies(rank, n, 2)
    memory.take_step(training, copies)
    with measure("gradients"):
        dist.all_reduce(training.compute(rank, n))
    with measure("weights"):
        training.gather_weights()
    with measure("copies"):
        copies.exchange(training.steps, training.state())
    return training.length * 8  # bytes: a float64 has eight

run = launch(one_step, memory, digits, world_size=4, device="cpu")
model_bytes = run.values[0]
sent = {label: max(run[label].sent_bytes) / model_bytes
        for label in ("gradients", "weights", "copies")}
print(", ".join(f"{label} {models:.2f} models" for label, models in sent.items()))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the busiest rank has sent.
copy_guess.compare(3 / 4, sent["copies"])

# %% [markdown]
# A rank sends three numbers for each weight of its shard: the weight, and two moments. A shard is a
# quarter of the model. (Messages are small here, so that their headers add some percent.) In mixed
# precision it is more (chapter [05](05_memory.ipynb)). And copies need not be made after each step.

# %% [markdown]
# From which step can all go on, when some ranks are new and hold nothing? A rank that dies in the
# middle of the exchange leaves its keeper with the state of step 30, and others with that of step
# 31. All have to go on from the *same* step. So each rank keeps four states: its own and its
# partner's, for each of the last **two** steps. Two are enough: ranks are never two steps apart, as
# step 32 needs an all-reduce with all of them, which a rank enters after its exchange of step 31.

# %% [markdown]
# ### Exercise {{newest_common}} · The newest common step
#
# Write `newest_common(held)` in [labs/memory_copies.py](../labs/memory_copies.py). `held` is a list
# with one entry for each rank: a list of pairs `(owner, step)`, one for each state that this rank
# holds, its own included. Return the newest step of which the states of *all* ranks are held by
# somebody, or `None` if there is no such step. There are as many owners as ranks. A rank that is
# new holds nothing: `[]`.
#
# For example, rank 2 of three is new. Rank 0 keeps rank 2's states, and rank 1 keeps rank 0's:
#
# `held = [[(0, 30), (0, 31), (2, 29), (2, 30)], [(1, 30), (1, 31), (0, 30), (0, 31)], []]`
#
# The answer is 30: of step 31, nobody holds rank 2's state. (Rank 2 kept copies of rank 1's states,
# and these are lost. But rank 1 itself is there.)

# %%
check("{{newest_common}}")

# %% [markdown]
# ## 3 · A machine loses its power
#
# Two machines of part [02g](02g_across_machines.ipynb), with two ranks each. Machine 1 is switched
# off in the middle of a step, and 0.5 s later it starts again. In new processes there, ranks 2 and
# 3 begin with nothing. Where a system has no such machines, the processes of these two ranks are
# killed instead.

# %%
def train(memory, place, data, steps, die_at):
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    crew = memory.Crew(memory.FolderStore(f"{place}/store"), n, memory.PATIENCE)
    training = memory.ShardedTraining(rank, n, data, compute_seconds=0.003)
    copies = memory.Copies(rank, n, n // 2)
    is_new = not dist.is_initialized()

    def step(training, copies):
        if rank >= n // 2 and training.steps == die_at and not is_new:
            os.kill(os.getpid(), signal.SIGKILL)
        with measure("step", memory=False):
            memory.take_step(training, copies)

    went_on = memory.train(training, crew, copies, steps, step)
    return went_on, parameters_to_vector(training.model.parameters()).detach()

# %%
machines = Machines.here(2)
off = None
if machines:
    off = machines.kill(1, after_seconds=0.8).revive(1, after_seconds=1.3)
run = launch(train, memory, folder, digits, steps, None if off else die_at,
             world_size=4, device="cpu", machines=off, replacements=2)
largest = max((weights - alone).abs().max().item() for _, weights in run.values)
print("processes lost:", len(run.lost), "· as one process, but for rounding:", largest < 1e-12)

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(run, ["step"], cards=bool(off), title="Half of the ranks lose their state, and go on")

# %% tags=["nbval-ignore-output"]
went_on, _ = run.values[0]
taken = len(run["step"].spans[0]) - steps
print("went on from step", *went_on)
print(f"rank 0 began {taken} of {steps} steps a second time")

# %% [markdown]
# A machine without power says nothing. So with machines of their own, rank 0 learns of it after the
# group's timeout, 4 s. (If a machine is there again, its operating system refuses old connections:
# then it may be sooner.) Where two processes are killed, their operating system tells at once.
#
# No state was read from a disk, and at most one step was taken again. With a checkpoint after every
# 10 steps it would have been 5 on average.

# %% [markdown]
# The ranks of machine 0 waited for the machine to come back. The state is cut into four shards, so
# four ranks are needed. Two could go on only after cutting it anew, as in part
# [04b](04b_sharded_checkpoints.ipynb).
#
# **What it does not survive:** a power cut of both machines, or a rank and its keeper at once. So
# copies in memory come *beside* checkpoints on a disk, which then may be rare. Gemini (Wang et al.
# 2023) reports this for trainings on up to 16 machines of 8 GPUs. There, network cards send copies
# in the gaps of the training's own messages.

# %% [markdown]
# ## 4 · Workers that meet rarely
#
# All of this is much effort, as ranks depend on each other in every step. What if they did not? In
# **DiLoCo** (Douillard et al. 2023) each worker trains alone for many steps, here 20, with an
# optimizer of its own: the **inner** steps. Then all workers compare how far they have moved away
# from the common weights. The average of these moves is a gradient for an **outer** optimizer, SGD
# with Nesterov momentum. It changes the common weights, and all go on from these. How many bytes
# does such a round send, beside DDP in the same 20 steps?

# %%
rare_guess = predict("Bytes of a DiLoCo round, in percent of DDP's in the same steps", unit="%")

# %% [markdown]
# ### Exercise {{outer_step}} · The outer step of DiLoCo
#
# Write `outer_step(whole, mine, optimizer, group=None)` in [labs/diloco.py](../labs/diloco.py).
# `whole` is a list of tensors, the common weights, the same on all ranks. `mine` is a list of
# tensors of the same shapes: what this worker has made of them. `optimizer` is one of
# `torch.optim`, and its parameters are the tensors of `whole`.
#
# 1. The outer gradient of each tensor is `whole - mine`, averaged over all ranks of the group. Put
#    it into `.grad` of the tensor in `whole`.
# 2. Take a step of the optimizer.
# 3. Copy the result into `mine`, in place: a model uses these tensors.

# %% [markdown]
# It may send as much as one all-reduce of each tensor. Not every backend has an average: sum, then
# divide by the number of ranks in the group. Until all communication has succeeded, change neither
# `whole`, nor `mine`, nor the optimizer's momentum (`.grad` may change). If a call fails, because
# somebody died, its error goes on to the caller, who does the outer step once more: hide no error.

# %% [markdown]
# For example, two workers begin at a weight of 10, and get to 8 and to 9. The outer gradient is the
# mean of 2 and 1, so 1.5: it points away from where the workers went. Plain SGD with a learning
# rate of 1 then comes to 8.5, the mean of both. With a smaller rate it goes only a part of the way,
# and with momentum it goes on in the direction of earlier rounds.

# %%
check("{{outer_step}}")

# %%
def work(diloco, place, data, rounds, die_at):
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    crew = diloco.Crew(diloco.FolderStore(f"{place}/store"), n)
    worker, is_new = diloco.Worker(data, compute_seconds=0.002), not dist.is_initialized()

    def take_round(worker, crew):
        if (rank, worker.steps, is_new) == (2, die_at, False):
            os.kill(os.getpid(), signal.SIGKILL)
        with measure("outer", memory=False):
            return diloco.take_round(worker, crew)

    meetings = diloco.train(worker, crew, rounds, take_round)
    return (meetings, worker.losses, worker.weights()) if meetings else None

def try_diloco(die_at, n=4, **settings):
    place = tempfile.mkdtemp(dir=folder)
    run = launch(work, diloco, place, digits, rounds, die_at, world_size=n, device="cpu",
                 **settings)
    return run, next(value for value in run.values if value)

# %%
plans = {"four workers": (None, 4, {}), "one dies": (5, 4, {"replacements": 0}),
         "one dies, one comes": (5, 4, {"replacements": 1}), "one worker": (None, 1, {})}
tried = {name: try_diloco(die_at, n, **settings) for name, (die_at, n, settings) in plans.items()}
for name, (run, _) in tried.items():
    first, *others = [value[2] for value in run.values if value]
    print(f"{name}: equal weights at the end: {all(torch.equal(first, one) for one in others)}")

# %% tags=["nbval-ignore-output"]
curves = {name: tuple(zip(*losses.items())) for name, (_, (_, losses, _)) in tried.items()}
plot_curves({f"DiLoCo, {diloco.Worker.INNER} inner steps in a round": curves}, "round", "test loss")

# %% [markdown]
# A worker that dies takes the inner steps of one round with it, and the moments of its inner
# optimizer, which each worker keeps for itself. The others notice at the end of the round. They
# average over the workers that are there. A newcomer gets the common weights, and trains along from
# the next round.

# %% [markdown]
# Each curve has one seed, and no rate was tuned for its number of workers. So their differences at
# the end do not say whether four workers are better than one. According to the paper's abstract, a
# language model trained by eight workers is as good as one whose gradients are exchanged in each
# step, with 500 times less communication. Its models have 60 to 400 million parameters.

# %% tags=["nbval-ignore-output"]
run, (_, _, weights) = tried["four workers"]
of_round = max(run["outer"].sent_bytes) / rounds
of_ddp = diloco.Worker.INNER * 1.5 * weights.numel() * weights.element_size()
print(f"bytes of a round: {of_round:,.0f}; DDP in these steps, by formula: {of_ddp:,.0f}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured, beside DDP by formula.
rare_guess.compare(100 / diloco.Worker.INNER, 100 * of_round / of_ddp)

# %% [markdown]
# What was measured beyond that comes from headers, from the question whether somebody waits, and
# from sending each tensor by itself. With a large model it disappears. Without an outer optimizer,
# the average of the weights themselves is known as local SGD (03j), or federated averaging.
#
# **On GPUs** the same holds for bytes. Workers in different places, over the Internet, are what
# DiLoCo is made for. `torchft.local_sgd.DiLoCo` is an implementation for PyTorch. A round still
# sends the whole model at once: *Streaming* DiLoCo sends fragments in turn, while training goes on,
# in 4-bit numbers, so the peak rate is lower ([Douillard et al.
# 2025](https://arxiv.org/abs/2501.18512)).

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
shutil.rmtree(folder, ignore_errors=True)
put_to_the_test(f"""
- Every node needs access to shared storage, to go on after a crash | PyTorch slides |
  {"not for the state, while another machine lives" if largest < 1e-12 else "not refuted"} |
  half of the ranks began with nothing, and got their states from the memory of the others
  (section 3); if all die, it is right
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** Wang et al. 2023, [Gemini](https://doi.org/10.1145/3600006.3613145): checkpoints
# in the memory of other machines. Douillard et al. 2023,
# [DiLoCo](https://arxiv.org/abs/2311.08105).

# %% [markdown]
# ## What you have learnt
#
# * A state that exists once is **copied** to another machine, after each step. Two steps are kept,
#   as ranks may be one step apart when somebody dies.
# * All go on from the **newest step of which every state is there**.
# * Copies in memory survive one machine, and not all: **checkpoints** come beside them.
# * **DiLoCo** exchanges weights once in many steps. A worker that dies takes one round
#   of its own work with it.
#
# **Your exercises** stand in [labs/memory_copies.py](../labs/memory_copies.py) and
# [labs/diloco.py](../labs/diloco.py).
#
# **Next**: {{next}}.

# %%
progress("04f")
