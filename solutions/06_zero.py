# %% [markdown]
# # 06 · ZeRO and FSDP
#
# **Eight GPUs with DDP hold the same model eight times. What if each held an eighth?** Then every
# GPU lacks most of what it needs to compute, and has to be given it in time. That is ZeRO, the
# *zero redundancy optimizer*, in three stages; PyTorch's FSDP is, by default, the third one. You
# write all three: each adds one idea to the one before it. Then you measure: what does a rank keep,
# and what does it send?
#
# The second part, [06h · Sharding engines](06h_sharding_engines.ipynb), has accumulation,
# offloading, checkpoints, and the real engines: FSDP2 and DeepSpeed.
#
# Exercises stand in cells and in a lab: [zero](../labs/zero.py).

# %% [markdown]
# ![Four ranks in the forward of ZeRO's stage 3: each has gathered the block that computes, and has
# only its own chunk of the other blocks](../assets/covers/06_zero.png)
#
# *A frame of the film in section 4, recorded from four real ranks: the block that computes is
# whole on every rank. Of each other block a rank has its own chunk.*
#
# **After this part you can** write all three stages of ZeRO, and predict what a rank keeps, what
# it holds at its peak, and what it sends.
#
# **It takes** about 25 minutes, and 90 more for 12 exercises. **It needs**
# [02](02_collectives.ipynb), [03](03_data_parallel.ipynb) and [05 · Where the memory
# goes](05_memory.ipynb).

# %% jupyter={"source_hidden": true}
import copy
from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Table, check, close, explore, film_units, hint, lab, launch, measure, plot_memory,
    plot_stacks, plot_units, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
layers = 4
steps = 3

# %%
zero, language_model, simple_ddp = lab("zero"), lab("language_model"), lab("simple_ddp")
text = language_model.standard_library(20_000)
adam = partial(torch.optim.Adam, lr=1e-3)

# %% [markdown]
# ## 1 · The same thing on every rank
#
# What does each rank hold when DDP trains the small transformer with Adam, after the backward and
# before the optimizer's step? (Activations are not there any more.)

# %%
def train_ddp(language_model, simple_ddp, text, layers, adam, steps):
    ddp = DistributedDataParallel(language_model.Transformer(layers=layers))
    optimizer = adam(ddp.parameters())
    for step in range(steps):
        inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 16, step))
        with measure("step") if step == steps - 1 else nullcontext():
            language_model.mean_loss(ddp(inputs), targets).backward()
            with measure("after the backward"):
                pass
            optimizer.step()
        optimizer.zero_grad()
    return sum(p.nbytes for p in ddp.parameters())

ddp_run = launch(train_ddp, language_model, simple_ddp, text, layers, adam, steps,
                 world_size=world_size, device="cpu")
model_bytes = ddp_run.values[0]
STATES = ("parameters", "gradients", "optimizer_state")

def states_in(peak):
    return {kind: peak[kind] for kind in STATES}

held = [states_in(peak) for peak in ddp_run["after the backward"].peak_bytes]
plot_stacks({f"rank {rank}": stack for rank, stack in enumerate(held)},
            title="Model states under DDP: the same on every rank")

# %% [markdown]
# All bars are equally high, and what they hold is equal, too (chapter 03). One copy would do for
# all. ZeRO cuts each of the three kinds into as many parts as there are ranks, and gives every rank
# one part: stage 1 only of the optimizer's state, stage 2 of the gradients as well, stage 3 of the
# parameters as well. A part is called a **shard**.
#
# In float32 (4 + 4 + 8 bytes for each parameter), on our ranks, and in stage 1: to what share of
# DDP's do a rank's model states fall? (You will see in section 2.)

# %%
share = predict(f"Model states of a rank in stage 1, on {world_size} ranks, in percent of DDP's",
                unit="%")

# %%
def stacks_of(numbers, n, each):
    """{stage: {kind: bytes}} of a rank; `each` has the bytes of parameter, gradient, state."""
    split = {"DDP": (), "stage 1": STATES[2:], "stage 2": STATES[1:], "stage 3": STATES}
    return {stage: {kind: size * numbers / (n if kind in kinds else 1)
                    for kind, size in zip(STATES, each)} for stage, kinds in split.items()}

# %% [markdown]
# In mixed precision, a parameter has 2 bytes, its gradient 2, and the optimizer's state 12: a
# float32 copy, and Adam's two numbers (chapter 05). For $P$ parameters on $N$ ranks these are $4P +
# 12P/N$ bytes in stage 1, $2P + 14P/N$ in stage 2, and $16P/N$ in stage 3. More ranks help the
# first two less and less: they cannot get below a quarter and an eighth.
#
# Move the controls. Which stage do 70 billion parameters need on 8 ranks, and which on 64, with 80
# GB each? With 141 GB? And if there is no float32 copy (2 + 2 + 8: a parameter, its gradient, and
# its optimizer state)?

# %%
counted = {"2 + 2 + 12 (ZeRO paper)": (2, 2, 12), "2 + 2 + 8 (no copy)": (2, 2, 8),
           "4 + 4 + 8 (float32)": (4, 4, 8), "2 + 4 + 12 (Megatron-LM)": (2, 4, 12)}

def draw(billions, n, each, highlight):
    kind = highlight if highlight in STATES else None
    return plot_stacks(stacks_of(billions * 1e9, n, counted[each]), highlight=kind,
                       limits={"A100, H100 80 GB": 80e9, "H200 141 GB": 141e9},
                       title=f"Model states of a rank: {billions} billion parameters, {n} ranks")

in_words = {"billions": "parameters (billions)", "n": "ranks",
            "each": "bytes for each parameter", "highlight": "kind to show"}
explore(draw, billions=[70, 0.124, 1.5, 7.5, 13, 175, 1000], n=[8, 1, 2, 4, 16, 64, 256, 1024],
        each=list(counted), highlight=["all", *STATES], labels=in_words)

# %% [markdown]
# <details><summary>What you can see there</summary>
#
# On 8 ranks, stage 3 keeps 140 GB: too much for 80 GB, and it all but fills 141 GB. On 64 ranks
# stage 3 keeps 17.5 GB. Stages 1 and 2 keep more than 140 GB on however many ranks, for they have
# all parameters. Without the copy, stage 3 on 8 ranks keeps 105 GB.
#
# </details>
#
# ### Exercise 6.1
#
# Write `bytes_of_rank`: what each of n ranks keeps of a model with so many parameters, in bytes.
# Stage 0 is DDP. What is split is padded: every rank has equally many numbers of it.

# %%
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    """{"parameters": bytes, "gradients": bytes, "optimizer_state": bytes}

    each  bytes for one parameter: of itself, of its gradient, of its optimizer state
    """
    ### BEGIN SOLUTION
    shard = -(-parameters // n)
    kinds = ("parameters", "gradients", "optimizer_state")
    is_split = (stage >= 3, stage >= 2, stage >= 1)
    return {kind: size * (shard if split else parameters)
            for kind, size, split in zip(kinds, each, is_split)}
    ### END SOLUTION

check("6.1", bytes_of_rank)

# %% [markdown]
# ## 2 · Stage 1: everybody updates a part
#
# Adam treats each number by itself. So the optimizer's step can be split anywhere: rank k updates
# the k-th part of all numbers, and needs Adam's state for that part alone. Tensor shapes do not
# matter. Therefore parameters are made **flat**: one after another in one long tensor, with some
# zeros at the end, so that n divides its length. Several parameters that travel together in this
# way, say those of a block, are a **unit**.
#
# ### Exercise 6.2
#
# Write `flatten_padded` in [labs/zero.py](../labs/zero.py).

# %%
check("6.2")

# %% [markdown]
# What does rank k need for its part? The mean gradient *of its part*, over all ranks. A
# reduce-scatter gives it the sum of exactly that, for half of an all-reduce, and it divides by n.
# After the step everybody needs all parts: an all-gather, the other half. So stage 1 sends as much
# as DDP: 2(n-1)/n of the model.
#
# ### Exercise 6.3
#
# Write `reduce_gradients` in [labs/zero.py](../labs/zero.py). The reduce-scatter is your own ring
# from chapter 02.
#
# ### Exercise 6.4
#
# Write the two methods of `Zero1` in [labs/zero.py](../labs/zero.py).

# %%
display(check("6.3"), check("6.4"))

# %%
def train_zero(stage, zero, language_model, simple_ddp, text, layers, adam, steps):
    model = language_model.Transformer(layers=layers)
    engine = zero.STAGES[stage](model, adam, list(model.blocks))  # each block is a unit
    for step in range(steps):
        inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 16, step))
        with measure("step") if step == steps - 1 else nullcontext():
            language_model.mean_loss(model(inputs), targets).backward()
            with measure("after the backward"):
                pass
            engine.step()
    return [unit.flat.nbytes for unit in engine.units.values()]

runs, sent = {"DDP": ddp_run}, {"DDP": ddp_run["step"].sent_bytes[0] / model_bytes}

def run_stage(stage):
    runs[stage] = launch(train_zero, stage, zero, language_model, simple_ddp, text, layers, adam,
                         steps, world_size=world_size, device="cpu")
    sent[stage] = runs[stage]["step"].sent_bytes[0] / model_bytes

run_stage("stage 1")
for name in ("DDP", "stage 1"):
    print(f"{name} sends {sent[name]:.2f} models in a step")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
stacks = {name: states_in(runs[name]["after the backward"].peak_bytes[0])
          for name in ("DDP", "stage 1")}
held = [sum(stack.values()) for stack in stacks.values()]
share.compare(100 * (8 + 8 / world_size) / 16, 100 * held[1] / held[0])

# %%
formula = stacks_of(model_bytes / 4, world_size, (4, 4, 8))
plot_stacks(stacks, {name: formula[name] for name in stacks},
            title=f"What each of {world_size} ranks holds; in float32 by formula 16P and 8P + 8P/N")

# %% [markdown]
# Less memory, the same bytes on the wire, the same result (check 6.4), and each rank has less to
# do: Adam is run for a part of the numbers. Not always in the same time: DDP's all-reduce runs
# during the backward, while that of your class begins after it (06h). It is not true that optimizer
# states are gathered, as some texts say: they never leave their rank. What is gathered are
# parameters.

# %% [markdown]
# ### Exercise 6.5
#
# Published teaching code, here for a flat vector: stage 1. `gradient_of(values, step)` is this
# rank's gradient. What is returned is to be, on every rank, what one process would have after the
# same steps with the mean of the gradients; `values` itself stays as it is, and more zeros than
# are needed do no harm. The loss goes down nicely, and yet there is a bug. Find it.

# %%
def train_in_parts(values, gradient_of, make_optimizer, steps):
    rank, n, length = dist.get_rank(), dist.get_world_size(), len(values)
    ### BEGIN SOLUTION
    each = -(-length // n)
    flat = F.pad(values, (0, each * n - length))
    ### IT WAS
    # each = length // n
    # flat = values.clone()
    ### END SOLUTION
    parts = [flat[k * each :][:each] for k in range(n)]
    mine = nn.Parameter(parts[rank].clone())
    optimizer = make_optimizer([mine])
    for step in range(steps):
        gradient = F.pad(gradient_of(flat[:length], step), (0, len(flat) - length))
        dist.all_reduce(gradient)
        mine.grad = gradient[rank * each :][:each] / n
        optimizer.step()
        dist.all_gather(parts, mine.detach())
    return flat[:length]

check("6.5", train_in_parts)

# %% [markdown]
# ### Exercise 6.6
#
# Published teaching code: stage 1 without flat tensors. Every parameter has an owner, the ranks in
# turn; the owner alone has the optimizer's state for it. After the steps all ranks are to have the
# weights of one process (with an optimizer that leaves parameters without a gradient alone, as
# those of PyTorch do). In each step all ranks use the same layers; from step to step these differ.
# Find the bug.

# %%
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    optimizers = {}  # of the parameters that this rank owns
    for inputs, targets in batches:
        model.zero_grad()
        loss_fn(model(inputs), targets).backward()
        ### BEGIN SOLUTION
        numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
        ### IT WAS
        # numbered = list(enumerate(p for p in model.parameters() if p.grad is not None))
        ### END SOLUTION
        for number, p in numbered:
            owner = number % n
            dist.reduce(p.grad, owner)
            if rank == owner:
                p.grad /= n
                if p not in optimizers:
                    optimizers[p] = make_optimizer([p])
                optimizers[p].step()
            dist.broadcast(p.detach(), owner)

check("6.6", train_by_owner)

# %% [markdown]
# ## 3 · Stage 2: gradients go as they come
#
# A rank needs the mean gradient of its own part only. Why keep all others until the step? In stage
# 2 a unit's gradients are reduced as soon as the backward has completed them, and freed. So at any
# time only those of a unit or two are whole.
#
# ### Exercise 6.7
#
# Write the two methods of `Zero2` in [labs/zero.py](../labs/zero.py). PyTorch calls `is_ready` for
# every gradient that is complete, and `end_backward` at the end.

# %%
check("6.7")

# %% tags=["nbval-ignore-output"]
run_stage("stage 2")
plot_memory(runs["stage 1"], "step", ranks=[0], title="Stage 1: a step on rank 0")

# %% tags=["nbval-ignore-output"]
plot_memory(runs["stage 2"], "step", ranks=[0], title="Stage 2: a step on rank 0")

# %%
for stage in ("stage 1", "stage 2"):
    most = runs[stage]["step"].peak_bytes[0]["gradients"]
    print(f"{stage}: gradients at most {most:,} bytes, {most / model_bytes:.2f} models; "
          f"{sent[stage]:.2f} models sent in a step")

# %% [markdown]
# The highest point is the same in both, as it is where the activations are most. What differs is
# the layer of the gradients: it grows to a whole model, or it stays below half of one (one whole
# block, the last layer, and shards). What is sent is the same: reduce-scatter and all-gather, once
# each. (With accumulated micro-batches, stage 2 reduces after each of them: see 06h.)

# %% [markdown]
# ### Exercise 6.8
#
# Published teaching code: stage 2. The function returns this rank's part of the mean gradient, flat
# and padded; the parameters are to have no gradients afterwards. The numbers are right. But the
# memory is as in stage 1: find the bugs (two), so that nothing is left but that part. What is sent
# does not matter here.

# %%
def reduce_and_free(parameters):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = torch.cat([p.grad.view(-1) for p in parameters])
    flat = F.pad(flat, (0, -len(flat) % n))
    chunks = list(flat.chunk(n))
    ### BEGIN SOLUTION
    mine = torch.empty_like(chunks[rank])
    dist.reduce_scatter(mine, chunks)
    for p in parameters:
        p.grad = None
    ### IT WAS
    # mine = chunks[rank]
    # dist.reduce_scatter(mine, chunks)
    # for p in parameters:
    #     p.grad.zero_()
    ### END SOLUTION
    return mine.div_(n)

check("6.8", reduce_and_free)

# %% [markdown]
# ## 4 · Stage 3: parameters come when they are needed
#
# Now the parameters, too. Of every unit a rank keeps only its shard. Before the unit computes, it
# is *gathered*: everybody sends its shard to everybody. Then it *computes*. Then the whole is
# *disposed of*. In the backward again: gather, compute, reduce the gradients, dispose.
#
# The all-gather that followed the step now comes in the forward, and there is a second one in the
# backward: 3(n-1)/n models in place of 2(n-1)/n, half as much again.

# %% [markdown]
# ### Exercise 6.10
#
# Write `gather` in [labs/zero.py](../labs/zero.py).
#
# ### Exercise 6.11
#
# Write `dispose` in [labs/zero.py](../labs/zero.py). Here is the difficulty: in the forward,
# autograd keeps weights for the backward. If their memory is to be freed in between, and there
# again in time, the *storage* behind them has to be emptied and refilled.

# %%
display(check("6.10"), check("6.11"))

# %% [markdown]
# ### Exercise 6.12
#
# Write the four methods of `Zero3` in [labs/zero.py](../labs/zero.py): what happens before and
# after a forward, before a backward, and when a unit's gradients are ready.

# %%
check("6.12")

# %% [markdown]
# Play a training step of stage 3. It was recorded from `Zero3`: yours, or the course's own as long
# as yours is not written. Each row is a rank, each column a unit (`rest` is what is in no block:
# embeddings and the last layer), each small box a part of it: which parts of the parameters are
# there, and which of the gradients? When does a rank hold the most? (A gathered unit has its own
# chunk twice, as a shard and in `flat`. With so few blocks, two whole units are much of the model;
# with 80 blocks they are not.)

# %% tags=["cover"]
def film_a_step(zero, language_model, simple_ddp, text, adam):
    torch.manual_seed(0)
    model = language_model.Transformer(16, layers=4, context=16)
    engine = zero.Zero3(model, adam, list(model.blocks))
    inputs, targets = simple_ddp.share_of_rank(language_model.draw_batch(text, 4, 0, context=16))
    with film_units(engine.units) as film:  # around one step
        language_model.mean_loss(model(inputs), targets).backward()
        engine.step()
    return film

films = launch(film_a_step, zero, language_model, simple_ddp, text, adam, world_size=world_size,
               device="cpu").values

def draw_units(frame):
    return plot_units(films, frame)

explore(draw_units, frame=[5, *range(1, 5), *range(6, len(films[0].frames) + 1)])

# %% [markdown]
# Parameters and gradients together are most in the backward, when a block's own gradients are
# complete and its parameters still there.
#
# ### Exercise 6.13
#
# Published teaching code: stage 3 for linear layers without a bias. All are of one shape, and share
# one buffer for the gathered weight, (outputs, inputs). `shard` is this rank's part of the weight,
# flat; n divides its length. For its backward, a layer keeps `x` and its shard alone. The forward
# is right. The gradients are to be those of one process: for `x` of this rank's own loss, for
# `shard` this rank's part of the mean. Find the bug.

# %%
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather(list(buffer.view(-1).chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard)
        ctx.buffer = buffer
        return x @ buffer.T

    @staticmethod
    def backward(ctx, slope):
        x, shard = ctx.saved_tensors
        n = dist.get_world_size()
        ### BEGIN SOLUTION
        dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
        ### IT WAS
        ### END SOLUTION
        mean = torch.empty_like(shard)
        dist.reduce_scatter(mean, list((slope.T @ x / n).view(-1).chunk(n)))
        return slope @ ctx.buffer, mean, None

check("6.13", ShardedLinear)

# %% [markdown]
# ## 5 · Three stages, measured
#
# What does a rank hold after the backward, by formula (outlined) and measured? What did the step
# send? And at the fullest moment, how much of the parameters was there in stage 3?

# %%
run_stage("stage 3")
stacks = {name: states_in(run["after the backward"].peak_bytes[0]) for name, run in runs.items()}
plot_stacks(stacks, formula,
            title=f"What each of {world_size} ranks holds between backward and step")

# %% [markdown]
# Measured on a model that fits anywhere: does that say something about one that does not? For each
# parameter, yes. Here is our model, measured, beside a large one by formula, both in bytes for each
# of their parameters:

# %%
def beside(stage, billions, n, each, highlight):
    numbers = model_bytes / 4
    ours = {kind: size / numbers for kind, size in stacks[stage].items()}
    large = stacks_of(1, n, counted[each])[stage]
    names = (f"ours, {world_size} ranks, float32, measured", f"{billions} billion, {n} ranks")
    total = billions * sum(large.values())
    return plot_stacks(dict(zip(names, (ours, large))), ylabel="for each parameter",
                       highlight=highlight if highlight in STATES else None,
                       title=f"{stage}: {total:,.0f} GB on each of {n} ranks")

explore(beside, stage=["stage 1", "DDP", "stage 2", "stage 3"], billions=[7.5, 1.5, 13, 70, 175],
        n=[64, 1, 2, 4, 8, 16, 256], each=list(counted), highlight=["all", *STATES],
        labels=in_words | {"stage": "ZeRO stage"},
        no_effect=lambda stage, **others: {"n"} if stage == "DDP" else set())

# %%
n, units = world_size, runs["stage 3"].values[0]
theory = {"DDP": 2, "stage 1": 2, "stage 2": 2, "stage 3": 3}
Table(["", "sent, in models", "by formula", "parameters at most", "gradients at most"],
      [[name, f"{sent[name]:.2f}", f"{theory[name]}(n-1)/n = {theory[name] * (n - 1) / n:.2f}",
        *(f"{run['step'].peak_bytes[0][kind] / model_bytes:.2f} models"
          for kind in ("parameters", "gradients"))] for name, run in runs.items()])

# %%
most = runs["stage 3"]["step"].peak_bytes[0]["parameters"]
rest, *blocks = units
print(f"parameters in stage 3, at most: {most:,} bytes")
print(f"all shards of a rank, the rest, and one block: {sum(units) // n + rest + max(blocks):,}")

# %% [markdown]
# Two units, because the rest, with embeddings and last layer, belongs to the model as a whole: it
# is there from the first to the last moment of the forward, and again of the backward. So a single
# layer that does not fit on a GPU cannot be trained with any stage. That takes tensor parallelism,
# which splits the layer itself.
#
# And is it right? Five steps in float64 on all ranks, beside one process with the whole batch:

# %%
def five_steps(stage, zero, language_model, simple_ddp, text, adam):
    torch.manual_seed(0)
    model = language_model.Transformer(16, layers=2, context=16, tied=True).double()
    alone = copy.deepcopy(model)
    optimizer = adam(alone.parameters())
    engine = zero.STAGES[stage](model, adam, list(model.blocks))
    for step in range(5):
        batch = language_model.draw_batch(text, 3 * dist.get_world_size(), step, context=16)
        inputs, targets = simple_ddp.share_of_rank(batch)
        language_model.mean_loss(model(inputs), targets).backward()
        engine.step()
        optimizer.zero_grad()
        language_model.mean_loss(alone(batch[0]), batch[1]).backward()
        optimizer.step()
    with zero.whole(engine):
        pairs = zip(model.parameters(), alone.parameters())
        return all(close(ours, theirs, steps=5) for ours, theirs in pairs)

for stage in ("stage 1", "stage 2", "stage 3"):
    equal = launch(five_steps, stage, zero, language_model, simple_ddp, text, adam,
                   world_size=world_size, device="cpu").values
    print(f"{stage}: {world_size} ranks equal one process, but for rounding: {all(equal)}")

# %% [markdown]
# ## Put to the test
#
# What our sources say about the stages, and what was found. Φ is the number of parameters. (What is
# sent and how fast it is, what FSDP does, and DeepSpeed: in 06h.)

# %% jupyter={"source_hidden": true}
def in_phi(stage, n):
    return sum(stacks_of(1, n, (2, 2, 12))[stage].values())

def least_ranks(stage, goal):
    return next(n for n in range(1, 2000) if in_phi(stage, n) <= goal)

names = ("DDP", "stage 1", "stage 2", "stage 3")
after = {name: sum(states_in(run["after the backward"].peak_bytes[0]).values())
         for name, run in runs.items()}
paper = [7.5 * in_phi(name, 64) for name in names]
stage_1 = states_in(runs["stage 1"]["after the backward"].peak_bytes[0])
updated = sum(units) // n

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- Bars: 16 Φ, 7 Φ, 5.5 Φ, 4 Φ | web page | right for 4 ranks alone |
  N = 4: {", ".join(f"{in_phi(name, 4):g} Φ" for name in names)}; N = 64:
  {", ".join(f"{in_phi(name, 64):.3g}" for name in names)}
- Its text: 4 Φ (4 times less), 2.5 Φ (8 times), about 1 Φ (16 times) | web page | contradicts
  itself | stage 1 has 4 Φ only for very many ranks; 2.5 Φ takes
  {least_ranks("stage 2", 2.5)} ranks, and is {16 / 2.5:.1f} times less; 1 Φ takes
  {least_ranks("stage 3", 1)}: three different N in one list
- 4P + 12P/N, 2P + 14P/N, 16P/N | CS 229S | right | the paper's 7.5 billion on 64:
  {", ".join(f"{x:.1f}" for x in paper)} GB. Here, in float32, measured:
  {", ".join(f"{after[name] / model_bytes:.2f}" for name in names)} models
- ZeRO-3 reduces memory 8 times | book chapter | right for 8 ranks | N times, of the model states;
  here {after["DDP"] / after["stage 3"]:.2f} times on {n}. Activations and gathered units come on
  top
- ZeRO-3 enables models 8 times as large | web page | depends | N times, less the gathered units; 8
  is the limit of stage 2 (16/2)
- ZeRO-1 gathers optimizer states | book chapter; blog | wrong | {sent["stage 1"]:.2f} models sent
  are the reduce-scatter of gradients and the all-gather of parameters: no byte is left for states
  of two models
- At the end of a step, updated parameters are gathered | CS 229S | right | in stages 1 and 2;
  {sent["stage 1"]:.2f} models = reduce-scatter and all-gather
""")

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- Each stage saves (N-1)/N of what it splits; stage 2 uses reduce-scatter | book chapter; CS 229S |
  right | saved of the state {1 - stage_1["optimizer_state"] / 2 / model_bytes:.2f}, of gradients
  {1 - stacks["stage 2"]["gradients"] / model_bytes:.2f}, of parameters
  {1 - stacks["stage 3"]["parameters"] / model_bytes:.2f}; for a moment there is more
- ZeRO-1 is cheap since optimizer states are rarely used | web page | wrong reason | they are used
  in each step, where they are. It is cheap since it sends the two halves of an all-reduce and no
  more: {sent["stage 1"]:.2f} models, DDP {sent["DDP"]:.2f}
- Memory: stage 1 needs more than 2, 2 more than 3 | web note | right | measured
  {", ".join(f"{after[name] / 1e6:.2f}" for name in names[1:])} MB
- With ZeRO-3 the peak of parameters is one layer | blog | imprecise | all shards and one or two
  units: {most / model_bytes:.2f} models, of which {sum(units) // n / model_bytes:.2f} are shards
- ZeRO splits storage, not computation | handwritten notes | imprecise | forward and backward, yes;
  but the optimizer's step is split: a rank updates {updated / model_bytes:.2f} of the model
- Nearly linear savings | handwritten notes | depends | stage 3 alone. From 8 to 64 ranks: stage 1
  {in_phi("stage 1", 8) / in_phi("stage 1", 64):.2f} times less, stage 3
  {in_phi("stage 3", 8) / in_phi("stage 3", 64):.2f}
- A layer that is too large for a GPU defeats even ZeRO-3 | book chapter | right | to compute, the
  unit has to be whole: about {max(units):,} bytes here, however many ranks
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Data Parallelism Deep Dive*
# (book chapter); *CS 229S, lecture 8* (Stanford); *The Evolution of Data Parallelism* (blog); a web
# note on types of distributed training; handwritten notes.
#
# **To read on.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020. Zhao et al.,
# [PyTorch FSDP](https://arxiv.org/abs/2304.11277), 2023: units, flat parameters, prefetching, and
# what it took.

# %% [markdown]
# ## What you have learnt
#
# * Under DDP every rank keeps the same model states. ZeRO's stage 3 keeps each of them once.
# * Stage 1 shards the optimizer state, stage 2 the gradients as well, stage 3 the parameters as
#   well.
# * In a step of one batch, stages 1 and 2 send as much as DDP with a reduce-scatter such as yours,
#   and more with Gloo's. Stage 3 sends half as much again.
# * All three give the weights of one process. A unit still has to be whole while it computes.
#
# **Your exercises**: those in cells above, and [labs/zero.py](../labs/zero.py).
#
# **Next**: [06h · Sharding engines](06h_sharding_engines.ipynb).

# %%
progress("06")
