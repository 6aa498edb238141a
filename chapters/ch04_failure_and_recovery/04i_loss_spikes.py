# %% [markdown]
# # {{title}}
#
# **The job runs, no rank has failed, and the model gets worse. Which rank notices, and what do all
# of them do then?** One batch with wrong pixels, one NaN, one processor that miscalculates: none of
# them raises an error. In this part, all ranks judge each step by one number that is the same
# everywhere. You compare four answers to a spike, see which faults make no spike at all, and
# compute how often to look for them.

# %% [markdown]
# ![Test loss over steps for three limits on the gradient's norm: with the lowest, false alarms
# spoil the run that rolls back; with the highest, bad batches pass the run that
# skips](../assets/covers/04i_loss_spikes.png)
#
# *Measured in section 3, for one seed of four: the same ten bad batches, judged by three limits.*
#
# **After this part you can** keep a NaN on one rank from spoiling or separating all replicas,
# detect a spike before its step is taken, choose between skipping and rolling back, and tell which
# faults only a replay on another rank finds.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from itertools import pairwise, product
from statistics import mean, median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_curves, predict, progress,
)

# %% tags=["parameters"]
world_size = 3
guilty = 2
seeds = 4
save_every = 9

# %%
spikes, silent = lab("loss_spikes"), lab("silent_corruption")
digits = lab("gradient_accumulation").digits()
BATCH = spikes.BATCH

# %% [markdown]
# ## 1 · One NaN, on one rank
#
# The lab [loss_spikes](../labs/loss_spikes.py) trains a small classifier, data parallel by hand.
# Its samples come from the stream of part [04h](04h_told_to_stop.ipynb), so that a position says
# which samples lie behind. In step 12, one pixel of one sample is NaN, and this sample belongs to
# rank 2. On how many of the three ranks is the model NaN after this step?

# %%
nan_guess = predict(f"Rank {guilty} reads one NaN: models that are NaN", unit="models")

# %%
def read_nan(spikes, data, place):
    spoilt = spikes.Spoilt("NaN", place, place + 1)
    return spikes.train("go on", 30, spoilt, data=data).weights.isnan().float().mean().item()

shares = launch(read_nan, spikes, digits, 12 * BATCH + guilty, world_size=world_size,
                device="cpu").values
print("share of the weights that are NaN, on each rank:", *shares)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and how many models are NaN.
nan_guess.compare(world_size, sum(share > 0 for share in shares))

# %% [markdown]
# The all-reduce adds this rank's NaN to the gradients of all others, and a sum with a NaN is NaN.
# Since the momentum is NaN from then on, too, no later step repairs anything. A checkpoint that is
# saved now is worthless, and nothing in it says which rank began.
#
# A training loop therefore looks for NaN before each update and leaves out a step that has one. (If
# each rank also logs the norm of its own gradient before the sum, the log names the rank.) The next
# exercise is such a guard, with a bug that is often made.

# %% [markdown]
# ### Exercise {{update_if_finite}} · Debug a NaN guard that separates the ranks
#
# All ranks of the group call `update_if_finite(flat, update, group=None)` in each step.
#
# * `flat` is a tensor in one dimension with this rank's gradients.
# * If the *sum* over the ranks is finite in all places, call `update` with it, once, and return
#   `True`. Otherwise leave out the step and return `False`. All ranks do the same.
# * Make one all-reduce, and no other call.
#
# For example, let `flat` be [1, 2] on rank 0 and [NaN, 4] on rank 1. Neither rank calls `update`,
# and both return `False`. In the second cell, rank 2 has a NaN in the second of three steps. Find
# the bug.

# %%
def update_if_finite(flat, update, group=None):
    ### BEGIN SOLUTION
    dist.all_reduce(flat, group=group)
    is_finite = flat.isfinite().all().item()
    ### IT WAS
    # is_finite = flat.isfinite().all().item()
    # dist.all_reduce(flat, group=group)
    ### END SOLUTION
    if is_finite:
        update(flat)
    return is_finite

# %%
def take_three_steps(update_if_finite, guilty):
    weights = torch.zeros(2)
    for step in range(3):
        flat = torch.tensor([1.0, 2.0])
        if (step, dist.get_rank()) == (1, guilty):
            flat[0] = torch.nan
        update_if_finite(flat, weights.add_)
    return weights.tolist()

ends = launch(take_three_steps, update_if_finite, guilty, world_size=world_size).values
for rank, weights in enumerate(ends):
    print(f"rank {rank} ends with {weights}")

# %%
check("{{update_if_finite}}", update_if_finite)

# %% [markdown]
# ## 2 · A spike, seen before the step
#
# A bad batch need not contain NaN. The lab's `Spoilt` makes a part of the stream wrong, from step
# 85 on, in one of three ways:
#
# | | what is wrong | for |
# |---|---|---|
# | **pixels** | they have not been divided by 16 | 1 step |
# | **labels** | each is that of the next digit, as if a column had slipped | 10 steps |
# | **a few labels** | the same, for about a quarter of the samples | 10 steps |
#
# What does training do, if it simply goes on? The norm is that of the summed gradient, relative to
# the median of the last 50 norms.

# %%
LENGTHS = {"pixels": 1, "labels": 10, "a few labels": 10}
FIRST, STEPS = 85, 130

def spoil(spikes, what):
    if what == "nothing":
        return None
    return spikes.Spoilt(what, FIRST * BATCH, (FIRST + LENGTHS[what]) * BATCH)

def train_all(spikes, data, answers, kinds, seeds):
    return {(what, answer): [spikes.train(answer, STEPS, spoil(spikes, what), data=data, seed=seed)
                             for seed in range(seeds)] for what in kinds for answer in answers}

go_on = launch(train_all, spikes, digits, ["go on"], ["nothing", *LENGTHS], seeds,
               world_size=2, device="cpu").values[0]

# %% tags=["nbval-ignore-output"]
def spread(values, form="{:.1f}"):
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"

def highest(record, what):
    last = FIRST + LENGTHS.get(what, 1)
    return max(loss for step, loss in record.losses.items() if step >= last)

Table(["what is wrong", "norm in the first such step, × median", "highest test loss afterwards"],
      [[what, spread([record.ratios[FIRST] for record in records]),
        spread([highest(record, what) for record in records], "{:.2f}")]
       for (what, _), records in go_on.items()], title=f"Over {seeds} seeds")

# %% [markdown]
# Wrong pixels and wrong labels both raise the loss, in most seeds to several times its value. The
# norm tells first: it is known after the backward, before the weights have changed. With a few
# wrong labels, it hardly stands out from that of healthy steps, although the loss rises.

# %% [markdown]
# ### Exercise {{sum_and_judge}} · Detect a spike on all ranks alike
#
# Write `sum_and_judge(flat, norms, times=4.0, group=None)` in
# [labs/loss_spikes.py](../labs/loss_spikes.py). All ranks of the group call it in each step.
#
# * `flat` holds this rank's gradients. Overwrite it with the sum over all ranks, with one
#   all-reduce and no other call.
# * `norms` is a list of floats: the norms of earlier sane steps, the same on all ranks. A step is
#   sane if the norm of its sum is finite and, once there are `AT_LEAST` (10) norms, at most `times`
#   their median.
# * Compute the norm in float32 at least: 16 bits round it, and in float16 it would be infinite over
#   65,504.
# * Append the norm of a sane step to `norms`. Return whether the step is sane.

# %% [markdown]
# For example, let `norms` be ten times 2.0. With [3, 0] on rank 0 and [3, 8] on rank 1, the norm of
# the sum is 10 and more than 4 × 2: both return `False`. With [3, 0] and [0, 4] it is 5: both
# return `True` and have 5.0 at the end of `norms`.

# %%
check("{{sum_and_judge}}")

# %% [markdown]
# All ranks judge the same numbers, the same to the last bit, and need no vote. (This was tested
# over Gloo. On unlike hardware, let one rank decide, and broadcast.) It holds for gradients that
# each rank has whole. With FSDP2, ZeRO-2 or 3, tensor or pipeline parallelism, a rank sees a shard,
# which may be finite while another is not: the norm needs a reduction, as in part
# [06i](06i_an_fsdp2_program.ipynb).
#
# The **median** is used because a spike that has passed hardly moves it. A small limit stops
# healthy steps, and a large one lets bad steps pass. The runs above have recorded their norms:

# %% tags=["nbval-ignore-output"]
def count_above(factor):
    of_healthy = [ratio for record in go_on["nothing", "go on"]
                  for step, ratio in record.ratios.items() if step >= spikes.AT_LEAST]
    first = [sum(record.ratios[FIRST] > factor for record in go_on[what, "go on"])
             for what in LENGTHS]
    return [f"{factor:g}", f"{sum(ratio > factor for ratio in of_healthy)} of {len(of_healthy)}",
            *(f"{found} of {seeds}" for found in first)]

Table(["times", "healthy steps above it", *(f"first step: {what}" for what in LENGTHS)],
      [count_above(factor) for factor in (1.5, 2, 2.5, 3, 4, 6, 12)])

# %% [markdown]
# Here, three times the median stops no healthy step, with some margin, and finds the first step of
# wrong pixels and of wrong labels in all seeds. That of a few wrong labels passes, and a limit that
# stops most of them stops healthy steps, too.

# %% [markdown]
# ## 3 · Four answers to a spike
#
# What should the ranks do with a step that is not sane?
#
# * **Go on**: take it.
# * **Clip**: in *each* step, scale a gradient whose norm is above the median down to the median, as
#   `clip_grad_norm_` does with a fixed norm.
# * **Skip**: leave it out. The data loader's position moves on, the weights stay.
# * **Roll back**: load a checkpoint, and go on *behind* the bad data. Weights, momentum and norms
#   go back, while the position goes forward, here by 15 more steps.
#
# The next cell tries them on the wrong labels, with three limits, and on the wrong pixels.

# %%
cases = [("labels", "clip", 3), *product(["labels"], ["skip", "roll back"], [2, 3, 4]),
         *product(["pixels"], spikes.ANSWERS[1:], [3])]

def try_each(spikes, data, cases, seeds):
    return {case: [spikes.train(answer, STEPS, spoil(spikes, what), data=data, seed=seed,
                                times=times) for seed in range(seeds)]
            for case in cases for what, answer, times in [case]}

tried = launch(try_each, spikes, digits, cases, seeds, world_size=2, device="cpu").values[0]
tried |= {(what, answer, "–"): go_on[what, answer] for what, answer in go_on}

# %% tags=["cover", "nbval-ignore-output"]
def curve(record):
    steps = sorted(step for step in record.losses if step >= 25)
    return steps, [record.losses[step] for step in steps]

def curves_at(times):
    chosen = {"go on": "–", "clip": 3, "skip": times, "roll back": times}
    return {answer: curve(tried["labels", answer, limit][0]) for answer, limit in chosen.items()}

plot_curves({f"limit: {times} × the median": curves_at(times) for times in (2, 3, 4)},
            "step of the stream", "test loss", highest=3)

# %% tags=["nbval-ignore-output"]
def describe(what, answer, times):
    records = tried[what, answer, times]
    unused = [sum(last - first for first, last in merge(record.unused)) / BATCH
              for record in records]
    false = sum(step < FIRST for record in records for step in record.alarms)
    return [what, answer, str(times), str(false) if times != "–" else "–",
            spread([highest(record, what) for record in records], "{:.2f}"),
            spread([record.losses[max(record.losses)] for record in records], "{:.2f}"),
            f"{mean(unused):.0f}"]

def merge(pieces):
    """Return the pieces of the stream without those that a later roll-back contains."""
    return dict(sorted(pieces, key=lambda piece: piece[1])).items()

Table(["wrong", "answer", "limit", "false alarms", "highest loss", "at the end", "data not used"],
      [describe(*case) for what in ("labels", "pixels") for case in
       [(what, "go on", "–"), *(case for case in cases if case[0] == what)]],
      title=f"Over {seeds} seeds; false alarms in all of them; data in steps, mean")

# %% [markdown]
# * With limit 3, each bad batch is recognised. **Skipping** does as well as **rolling back**, and
#   leaves out less data.
# * With limit 4, some bad batches pass, and each that passes makes the next one look more normal.
#   Rolling back needs **one** alarm: it undoes what has passed before, and leaves out what follows.
# * With limit 2, healthy steps raise alarms. A false alarm costs the skipping run one batch, and
#   the run that rolls back all steps since the checkpoint, early in training when each one counts
#   most.

# %% [markdown]
# **Clipping** needs no alarm. It takes all bad batches, with a smaller norm and the wrong
# direction. With a NaN it is no answer, since a NaN that is scaled down is still NaN.
#
# **Which checkpoint?** With limit 4, the alarm may come a few steps after the first bad batch, and
# a checkpoint that was saved in between has bad data in it. The lab keeps two, and loads the newest
# that is at least `before` steps older than the alarm. Below, the wrong labels begin in step 59,
# and a checkpoint is saved after this step.

# %% tags=["nbval-ignore-output"]
def begin_at_59(spikes, data, before, seeds):
    bad, found = (59 * BATCH, 69 * BATCH), []
    for seed in range(seeds):
        spoilt = spikes.Spoilt("labels", *bad)
        record = spikes.train("roll back", 90, spoilt, (), data, seed, before=before, times=4)
        clean = spikes.train("go on", 90, spoilt, [bad, *record.unused], data, seed)
        gap = (record.weights - clean.weights).abs().max().item()
        found.append((record.alarms[0], record.unused[0][0] // BATCH, gap))
    return list(zip(*found))

def describe_before(before):
    alarms, back, gaps = launch(begin_at_59, spikes, digits, before, seeds, world_size=2,
                                device="cpu").values[0]
    return [str(before), spread(alarms, "{}"), spread(back, "{}"), spread(gaps, "{:.2g}")]

Table(["before", "alarm in step", "back to step", "weights differ from a run without bad data by"],
      [describe_before(before) for before in (0, 5)], title=f"Over {seeds} seeds")

# %% [markdown]
# The largest PaLM, whose loss spiked about 20 times although its gradients were clipped, was
# trained in this way. It was restarted from a checkpoint about *100 steps before* the spike, and
# 200 to 500 batches were left out ([section 5.1](https://arxiv.org/abs/2204.02311)). `before` must
# be the longest time for which bad data may pass unnoticed.
#
# What is left of the bad data? Two more runs tell. The first one jumps over the places that were
# left out, as if they had never existed, and the second one over all ten bad batches as well, for
# two seeds.

# %%
def find_gaps(spikes, data, tried, cases):
    bad = FIRST * BATCH, (FIRST + LENGTHS["labels"]) * BATCH

    def gap(record, seed, *more):
        unused = [*record.unused, *more]
        clean = spikes.train("go on", STEPS, spoil(spikes, "labels"), unused, data, seed)
        return (clean.weights - record.weights).abs().max().item()

    return {case: [max(gap(record, seed, *more) for seed, record in enumerate(tried[case][:2]))
                   for more in ((), (bad,))] for case in cases}

chosen = ("labels", "skip", 3), ("labels", "skip", 4), ("labels", "roll back", 4)
gaps = launch(find_gaps, spikes, digits, tried, chosen, world_size=2, device="cpu").values[0]
print("The weights differ at most by … from those of a run that never saw …")
for (what, answer, limit), (left_out, bad) in gaps.items():
    print(f"{what}, {answer}, limit {limit}: what was left out: {left_out:.2g}; "
          f"any bad data: {bad:.2g}")

# %% [markdown]
# Not a bit is left of what was **left out**, because the state that is loaded is all that the next
# steps depend on: weights, momentum, and also `norms`. Batches that **passed** stay in the weights.
#
# **An ordinary restart** loads the position, too. It reads the same bad batch again, from the same
# weights, and comes back to the same spike.
#
# **Alarms without end.** Norms may also rise for good, for example with a new source of data. Since
# only sane steps are appended to `norms`, the median never learns of it, and every later step is
# left out. (Ten norms of zero do the same.) Below, the pixels are wrong from step 85 to the end:

# %%
def change_for_good(spikes, data):
    spoilt = spikes.Spoilt("pixels", FIRST * BATCH, STEPS * BATCH)
    try:
        return spikes.train("skip", STEPS, spoilt, data=data)
    except RuntimeError as error:
        return error

print(*launch(change_for_good, spikes, digits, world_size=2, device="cpu").values, sep="\n")

# %% [markdown]
# The lab stops after 20 such steps in a row, on all ranks, so that somebody looks. OLMo-core (see
# below) appends every norm: its limit follows a rise by itself, and also a long piece of bad data.
#
# **With Adam** a spike stays longer than its step. The gradient's square enters the second moment
# $v$, which forgets with $1/(1-\beta_2)$, 1,000 steps by default, and $v$ divides all later steps.
# Below, one gradient in a row of ones is 100:

# %%
def move_with_adam(gradients):
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer, places = torch.optim.Adam([weight], 1.0), [0.0]
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        places.append(weight.item())
    return [before - after for before, after in pairwise(places)]

moves = move_with_adam([1.0] * 3000 + [100.0] + [1.0] * 3000)
half = next(step for step, move in enumerate(moves) if step > 3100 and move > 0.5)
print(f"a step is 1 before the spike, {moves[3000]:.1f} in it, {moves[3100]:.2f} a hundred later;\n"
      f"it is over a half again {half - 3000} later")

# %% [markdown]
# Skipping and rolling back avoid this. But look for the cause, too: in large models it is often not
# the data alone. PaLM's batches made no spike from another checkpoint. Attention logits and output
# logits that grow are [known causes](https://arxiv.org/abs/2309.14322), against which QK
# normalization, the z-loss and warm-up help (part [05h](05h_optimizers_for_matrices.ipynb) names
# QK-Clip).
#
# **With DDP**, gradients are averaged when `backward()` returns. The norm that `clip_grad_norm_` or
# `get_total_norm` returns is then the same on all ranks, without further communication. Below, DDP
# skips what the lab skips:

# %%
def skip_with_ddp(spikes, data, spoilt, steps):
    training, norms = spikes.Training(data, spoilt=spoilt), []
    model = DistributedDataParallel(training.model)
    rate = spikes.RATE * (1 - spikes.MOMENTUM)
    optimizer = torch.optim.SGD(model.parameters(), rate, spikes.MOMENTUM)
    while training.position < steps * BATCH:
        images, labels = training.samples_of(training.rank)
        loss = F.cross_entropy(model(images), labels, reduction="sum") / BATCH
        optimizer.zero_grad()
        (loss * training.n).backward()  # DDP takes the mean over the ranks
        norm = nn.utils.get_total_norm([p.grad for p in training.parameters]).item()
        limit = 3 * median(norms) if len(norms) >= spikes.AT_LEAST else 1e300
        if norm <= limit:  # false for NaN
            norms = [*norms, norm][-spikes.WINDOW:]
            optimizer.step()
        training.move_on()
    return training.weights()

with_ddp = launch(skip_with_ddp, spikes, digits, spoil(spikes, "labels"), STEPS, world_size=2,
                  device="cpu").values
gap = (with_ddp[0] - tried["labels", "skip", 3][0].weights).abs().max().item()
print(f"DDP and the lab, {STEPS} steps: the same up to rounding:", gap < 1e-12)

# %% [markdown]
# ## 4 · Wrong, and no spike
#
# Part [04c](04c_finding_out.ipynb) has found wrong weights by checksums of the replicas, and wrong
# gradients because two ranks compute each batch. The lab
# [silent_corruption](../labs/silent_corruption.py) adds checksums of messages: each carries 8 bytes
# more, which its receiver computes again. It also has six faults, each from step 24 on:
#
# | fault | what happens |
# |---|---|
# | loud | once, rank 2 has a wrong bit in the exponent of one gradient |
# | weight | once, rank 2 has a wrong bit in the fraction of one weight |
# | gradient | from now on, rank 2 gives its gradients in the wrong order |
# | message | once, rank 2 receives a number with a wrong bit |
# | a few labels | for ten steps, about a quarter of the labels are wrong, on all ranks |
# | software | from now on, all ranks leave out the gradient of one layer's bias |
#
# All four checks are made in each step. How many of the six faults does none of them find?

# %%
missed_guess = predict("Six faults, four checks: found by none", unit="faults")

# %%
def watch_all(silent, data, guilty):
    return {what: silent.watch(silent.Fault(what, guilty, 24), data=data)
            for what in silent.FAULTS}

watched = launch(watch_all, silent, digits, guilty, world_size=world_size, device="cpu").values[0]

def tell(found):
    step, named = found
    return f"step {step}: {', '.join(str(name).replace(',', ' to') for name in named)}"

Table(["fault", *silent.CHECKS],
      [[what, *(tell(found[check]) if check in found else "–" for check in silent.CHECKS)]
       for what, found in watched.items()], title=f"Rank {guilty} is at fault, from step 24 on")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what no check has found.
missed_guess.compare(2, sum(not found for found in watched.values()))

# %% [markdown]
# * The **norm** finds what is large, and costs no byte. On a GPU, its `.item()` makes the CPU wait
#   for the GPU in each step.
# * **Checksums of replicas** find a weight that differs, for 8 bytes from each rank. A gradient
#   that is wrong, or damaged before the sum, is the same on all ranks after the all-reduce.
# * **Replay** finds a rank that computes otherwise than its neighbour, for twice the computation.
# * **Checksums of messages** find what changes on the way, for 8 bytes per message and an
#   all-reduce of $n^2$ numbers, which tells all ranks. (The fault above damages the all-to-all; the
#   lab's test damages the all-gather, too.)

# %% [markdown]
# Each compares ranks with each other, or with their past. What all ranks compute alike, and is not
# large enough for the norm, is found by **none** of them: here wrong software and a few wrong
# labels, because the rank that replays a batch reads the same wrong samples. Against these helps
# only a comparison with something else, such as one process in float64 or clean data.

# %% [markdown]
# ## 5 · How often to replay, and how far to go back
#
# Replaying each batch on a neighbour doubles the computation. With one replay in $k$ steps it adds
# $1/k$. The price is delay: a rank that computes wrongly *in each step from some step on* is found
# up to $k-1$ steps later, and the checkpoints that were saved meanwhile have wrong weights in them.

# %% [markdown]
# ### Exercise {{clean_checkpoint}} · Choose a checkpoint that the fault cannot have reached
#
# Write `clean_checkpoint(saved, every, found)` in
# [labs/silent_corruption.py](../labs/silent_corruption.py). A check is made after 0, `every`,
# 2 · `every`, … steps. The check after `found` steps is the first one that has failed. The fault
# shows in every step from its first one on, so that a check that passes clears all steps before it.
# `saved` is a list of the steps after which checkpoints were saved, in any order. Return the newest
# one that is certainly clean, which means that it was not saved later than the last check that
# passed. At least one is.

# %% [markdown]
# For example, with checkpoints after 0, 20, 40 and 60 steps and a check every 25, the one after 75
# fails. The last good check was after 50 steps, so the answer is 40.

# %%
check("{{clean_checkpoint}}")

# %% [markdown]
# The lab's `train_and_replay` calls it when a replay has named a rank. Its check after $m$ steps
# replays the $m$-th of them. The named rank is replaced, all ranks load this checkpoint, and they
# take the steps since then again. The next cell tries this for two periods $k$, each with faults
# that come in different steps.

# %%
PERIODS, COMES = (4, 16), range(23, 63, 5)

def replay_all(silent, data, guilty, save_every):
    runs = {}  # for each period: an undisturbed run, and one for each step in which a fault comes
    for every in PERIODS:
        faults = [None, *(silent.Fault("gradient", guilty, after) for after in COMES)]
        runs[every] = [(fault, silent.train_and_replay(fault, every, save_every, data=data))
                       for fault in faults]
    return runs

runs = launch(replay_all, silent, digits, guilty, save_every, world_size=world_size,
              device="cpu").values[0]

def describe_period(every):
    (_, quiet), *faulty = runs[every]
    delays = [run.at - 1 - fault.after for fault, run in faulty]
    lost = [run.at - run.back for _, run in faulty]
    return [str(every), f"{quiet.gradients / 70 - 1:.2f}", f"{1 / every:.2f}",
            f"{mean(delays):.1f}", f"{(every - 1) / 2:.1f}", f"{mean(lost):.1f}",
            f"{every + (save_every - 1) / 2:.1f}"]

Table(["replay every", "gradients more", "1 / k", "steps until found", "(k – 1) / 2",
       "steps taken again", "k + (c – 1) / 2"], [describe_period(every) for every in PERIODS],
      title=f"Checkpoints every c = {save_every} steps; mean over {len(COMES)} faults")

# %% [markdown]
# The fault is $(k-1)/2$ steps old on average, but nobody knows when it came. The ranks have to go
# back behind the last good check, by $k$ steps, and from there to a checkpoint, by $(c-1)/2$ steps
# on average. (The formulas are means over all steps in which a fault may come.)
# Checkpoints therefore have to be kept for $k + c$ steps: whoever keeps the newest alone may keep a
# wrong one. The next cell tries it.

# %%
def give_up_too_little(silent, data, guilty, save_every):
    quiet = silent.train_and_replay(None, 16, save_every, data=data).weights
    fault = silent.Fault("gradient", guilty, 37)
    return {name: (silent.train_and_replay(fault, 16, save_every, choose=choose, data=data).weights
                   - quiet).abs().max().item()
            for name, choose in (("a clean checkpoint", silent.clean_checkpoint),
                                 ("the newest checkpoint", lambda saved, *_: max(saved)))}

for name, gap in launch(give_up_too_little, silent, digits, guilty, save_every,
                        world_size=world_size, device="cpu").values[0].items():
    print(f"{name}: weights differ from those of an undisturbed run by {gap:.2g}")

# %% [markdown]
# From a clean checkpoint, the run ends as if nothing had happened, to the last bit.
#
# That was a fault that shows in each step. Many come and go, with the temperature or the data. If a
# fault shows in a share $p$ of the steps, each check passes it with probability $1-p$. It is found
# after about $k/p$ steps, and the last check that passed clears nothing. Here $p$ is 0.3, $k$ is 4,
# and the ranks go back behind the last check that passed, then behind the last four.

# %%
def come_and_go(silent, data, guilty, save_every):
    def go_back(checks):
        return lambda saved, every, found: silent.clean_checkpoint(
            saved, every, max(every, found - (checks - 1) * every))

    return {checks: [silent.train_and_replay(silent.Fault("gradient", guilty, after, 0.3), 4,
                                             save_every, choose=go_back(checks), data=data)
                     for after in COMES] for checks in (1, 4)}

fleeting = launch(come_and_go, silent, digits, guilty, save_every, world_size=world_size,
                  device="cpu").values[0] | {None: [run for _, run in runs[4][1:]]}

def describe_fleeting(shows, checks, outcomes):
    named = [run for run in outcomes if run.found is not None]
    wrong = sum(not run.weights.equal(runs[4][0][1].weights) for run in named)
    delays = [run.at - 1 - after for after, run in zip(COMES, outcomes) if run.at]
    lost = [run.at - run.back for run in named]
    return [f"{shows:g}", str(checks), f"{len(named)} of {len(outcomes)}", f"{mean(delays):.1f}",
            f"{wrong} of {len(named)}", f"{mean(lost):.1f}"]

Table(["shows in", "back behind checks", "named", "after steps", "weights wrong at the end",
       "steps taken again"],
      [describe_fleeting(1, 1, fleeting[None]),
       *(describe_fleeting(0.3, checks, fleeting[checks]) for checks in (1, 4))],
      title=f"Replay every 4 steps; {len(COMES)} faults")

# %% [markdown]
# A fault may have passed $j$ checks with probability $(1-p)^j$, and $p$ is not known. So keep older
# checkpoints, go back behind several checks, and test the machine that was named. (Eight faults
# show that the last good check may not be enough. They are too few to estimate how often.)
#
# Which $k$ is best? If a fault that shows in each step comes once in $M$ steps, replays and lost
# steps together cost
#
# $$\frac1k + \frac{k + c/2}{M}$$
#
# steps of computation for each step. It is smallest at $k = \sqrt{M}$, as for checkpoints in part
# [04](04_failure_and_recovery.ipynb).

# %%
def best_row(steps_per_fault):
    best = round(steps_per_fault**0.5)
    overheads = [silent.predict_overhead(every, 100, steps_per_fault)
                 for every in (best // 10, best, best * 10)]
    return [f"{steps_per_fault:,}", f"{best:,}", *(f"{share:.2%}" for share in overheads)]

Table(["one fault in … steps", "best k", "k / 10 costs", "best k costs", "10 k costs"],
      [best_row(steps) for steps in (10_000, 100_000, 1_000_000)],
      title="Checkpoints every 100 steps")

# %% [markdown]
# **On GPUs** none of this was measured here. What is documented:
#
# * Of 419 unexpected interruptions in 54 days of training [Llama 3
#   405B](https://arxiv.org/abs/2407.21783) on 16,384 GPUs, 6 were put down to silent data
#   corruption (table 5).
# * The [Gemini report](https://arxiv.org/abs/2312.11805) (section 3) expects such an event every
#   week or two. It relies on deterministic replay, and on tests of idle machines.
# * On 15 machines that had failed a cloud's tests, [errors in gradients were mostly
#   small](https://arxiv.org/abs/2502.12340), and yet led to other weights and, on some, to spikes.
# * Google found [a few faulty cores](https://doi.org/10.1145/3458336.3465297) in several thousand
#   machines.

# %% [markdown]
# The engines have these checks under other names.
#
# * Megatron's [rerun state
#   machine](https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.rerun_state_machine.html)
#   computes a step with an unexpected result again: on the same GPU, then on another. Its ranks
#   agree by an all-reduce on doing so, and its source calls it experimental. Its option
#   `--check-weight-hash-across-dp-replicas-interval` compares replicas.
# * OLMo-core's
#   [SkipStepOptimizer](https://github.com/allenai/OLMo-core/blob/main/src/olmo_core/optim/skip_step_optimizer.py)
#   skips a step whose loss or norm is 6 standard deviations from the mean of the last 128, and
#   judges without waiting for the GPU.
#
# A replay compares bits, which needs deterministic kernels (part [04c](04c_finding_out.ipynb)).
#
# **To read on.** Chowdhery et al. 2022, [PaLM](https://arxiv.org/abs/2204.02311), section 5.1.
# Zhang et al. 2022, [OPT](https://arxiv.org/abs/2205.01068), whose runs went back to earlier
# checkpoints with a smaller rate. Dixit et al. 2021, [Silent data corruptions at
# scale](https://arxiv.org/abs/2102.11245).

# %% [markdown]
# ## What you have learnt
#
# * One rank's NaN reaches all ranks through the all-reduce. If they judge the **sum**, they decide
#   alike without a vote.
# * The **norm of the sum**, compared with a running median, shows a spike before its step is taken.
# * Tune the **limit** on healthy steps. **Skipping** needs each bad batch to be recognised;
#   **rolling back** needs one alarm, and pays dearly for a false one.
# * Replicas, replays and messages have their own checks. What all ranks compute alike
#   passes, if small.
# * Replay in each $k$-th step, and go back behind the last **good** check, or behind several, if
#   the fault comes and goes.
#
# **Your exercises**: {{update_if_finite}} is in a cell above, {{sum_and_judge}} in
# [labs/loss_spikes.py](../labs/loss_spikes.py), and {{clean_checkpoint}} in
# [labs/silent_corruption.py](../labs/silent_corruption.py).
#
# **Next**: {{next}}.

# %%
progress("04i")
