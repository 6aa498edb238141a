# %% [markdown]
# # {{title}}
#
# **A 70B model in bf16 has 140 GB of parameters. No rank needs them all at the same time. How does
# it compute with those that it does not have?** In stage 3 a rank keeps its shard of the parameters
# only. A unit's parameters are gathered just before it computes, and their memory is freed right
# after it. PyTorch calls this FSDP, *fully sharded data parallel*. The hard part is the memory that
# comes and goes while autograd still looks at it. So that comes first, step by step.

# %% [markdown]
# ![Four ranks in the forward of ZeRO's stage 3: each has gathered the block that computes, and has
# only its own chunk of the other blocks](../assets/covers/06d_parameters_in_parts.png)
#
# *A frame of the film in section 3, recorded from four real ranks: the block that computes is whole
# on every rank. Of each other block a rank has its own chunk.*
#
# **After this part you can** free and refill memory under views, write stage 3, and say what a rank
# holds at most.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
from torch import nn

from pedagogy_lib import (
    check, explore, hint, lab, launch, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
layers = 4

# %%
zero, runs = lab("zero"), lab("zero_runs")
text = lab("language_model").standard_library(20_000)

# %% [markdown]
# ## 1 · What stage 3 sends
#
# For each unit, a step of stage 3 does this:
#
# * Forward: **gather** the parameters (an all-gather), compute, **dispose** of them.
# * Backward: gather them again, compute, reduce the gradients (a reduce-scatter), dispose.
# * Step: every rank updates its own shards. Nothing is sent: the next forward gathers.
#
# Stage 2 sends a reduce-scatter and an all-gather. How much does a rank send in stage 3?

# %%
models = predict(f"Stage 3: a rank of {world_size} sends in a step", unit="models")

# %% [markdown]
# ## 2 · Storage and view
#
# To dispose of a unit means to free its memory. In PyTorch that is less simple than it sounds. A
# tensor does not own its memory. The memory belongs to a **storage**, and the tensor says which
# part of the storage it shows, and in which shape. A **view** is another tensor that shows the same
# storage. Here are six numbers, and three tensors that look at them:

# %%
flat = torch.arange(1.0, 7)
chunk = flat[:3]
weight = nn.Parameter(torch.empty(2, 2))
weight.data = flat[2:6].view(2, 2)   # from now on, this parameter shows part of flat

flat[2] = 30
print("weight:", weight.tolist())
print("bytes of chunk:", chunk.nbytes, " bytes of the storage behind it:",
      chunk.untyped_storage().nbytes())

# %% [markdown]
# The parameter shows the new number, since there is only one memory. And `chunk` keeps all 24 bytes
# alive. That was one of the bugs in exercise {{reduce_and_free}}.
#
# In a unit of [labs/zero.py](../labs/zero.py) it is the same: `unit.flat` holds all numbers,
# `unit.chunks` are views into it, and each parameter is one as well. (The assignment to `.data`
# gives an existing parameter another memory. Autograd is not told.)

# %% [markdown]
# Now the forward: `x @ weight.T`. Autograd keeps `weight.T` for the backward, and this is one more
# view. So `del` cannot free the memory, however many names you delete. But the storage itself can
# be given 0 bytes:
#
# `flat.untyped_storage().resize_(0)`
#
# All tensors stay, with their shapes. They look at a storage that has no memory now. (Reading from
# such a tensor may end the process without a word. So nobody may use it until it is refilled.)

# %%
x, kept = torch.tensor([[1.0, 10.0]], requires_grad=True), []
with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
    y = (x @ weight.T).sum()          # `kept` has what autograd keeps: weight.T, and x
in_the_graph = next(t for t in kept if t.shape == (2, 2)).detach()

storages = lab("storages")

def look():
    return storages.looks_of({"flat": flat, "chunk": chunk, "weight": weight,
                              "kept by autograd": in_the_graph})

# %%
looks, numbers = {"gathered": look()}, flat.clone()  # in stage 3, numbers come from other ranks
flat.untyped_storage().resize_(0)
weight.data = numbers[:0]             # without elements: a use by mistake is an error
looks["disposed of"] = look()

# %% [markdown]
# `resize_` with the old size gives the storage memory again, with anything in it. Fill in the
# numbers, and every view is good again. What autograd has kept needs nothing else: it has looked at
# this storage all the time. Only `weight` has to get its view back.

# %%
flat.untyped_storage().resize_(flat.nbytes)
flat.copy_(numbers)
print("gradient of x:", torch.autograd.grad(y, x)[0].tolist())
print("expected:     ", numbers[2:6].view(2, 2).sum(0, keepdim=True).tolist())
weight.data = flat[2:6].view(2, 2)
looks["gathered again"] = look()

# %%
storages.plot_storages(looks, title="One storage, and the tensors that look at it")

# %% [markdown]
# The picture shows three moments. In the middle one the memory is free, and the views still know
# their places (dashed).
#
# Why did autograd not complain? It counts the changes of each tensor, and refuses a backward when
# one that it has kept was changed. A tensor that got its memory by `.data` has a counter of its
# own, so the refilling of `flat` is not counted. Nobody checks, then, that the numbers are the same
# as in the forward. In stage 3 they are: the optimizer steps only after the backward. (Part
# [08h](08h_never_wait.ipynb) has a case where they are not.)

# %% [markdown]
# ### Exercise {{away_and_back}} · Free and restore a tensor's memory
#
# A warm-up without ranks. Write `away_and_back(flat, numbers, meanwhile)`.
#
# * `flat` is a tensor. Other tensors are views into it, and autograd may have kept one of them.
# * `numbers` is another tensor of the same shape and dtype. It does not change.
# * `meanwhile` is a function without arguments.

# %% [markdown]
# The function frees the memory of `flat`, calls `meanwhile()` once, and gets the memory back. Then
# it writes `numbers` into it. It returns what `meanwhile()` returned. While `meanwhile()` runs, the
# storage of `flat` has 0 bytes, and no copy of its numbers is kept. Afterwards `flat` and all views
# show the new numbers, in the storage that was there before.
#
# For example, `flat` is [1, 2, 3], its view `tail` is [2, 3], and `numbers` is [5, 6, 7].
# Afterwards `tail` is [6, 7].

# %%
def away_and_back(flat, numbers, meanwhile):
    """Free flat's memory, call meanwhile(), get the memory back, with `numbers` in it."""
    ### BEGIN SOLUTION
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(numbers)
    return result
    ### END SOLUTION

# %%
check("{{away_and_back}}", away_and_back)

# %% [markdown]
# ### Exercise {{gather}} · Gather a unit's parameters
#
# The same with a unit. In [labs/zero.py](../labs/zero.py), write `gather(unit)`. It makes a unit
# whole: `unit.flat` gets its memory again, and the shards of all ranks are in it, rank k's in
# `unit.chunks[k]`. Then the parameters become views into `unit.flat` again: `show_parameters(unit)`
# does that.
#
# In stage 3, `unit.shard` has memory of its own. It does not change here. An optimizer may have
# changed it since the last time, so `flat` is always filled anew, even if it still has memory.

# %% [markdown]
# A rank sends $\frac{n-1}{n}$ of the bytes of `unit.flat`, with `all_gather_ring(chunks, group)` of
# chapter 02: it takes a list in which chunk k is right on rank k, and fills in the others, in
# place. Autograd must not record anything; the decorator in the lab sees to it.
#
# For example, a unit of three numbers on two ranks, with the shards [5, 6] and [7, 0]. Afterwards
# `flat` is [5, 6, 7, 0] on both, and the parameters show 5, 6 and 7.

# %% [markdown]
# ### Exercise {{dispose}} · Free a unit's parameters
#
# In [labs/zero.py](../labs/zero.py), write `dispose(unit)`. It frees the memory of `unit.flat`: the
# storage that is there has 0 bytes afterwards. `unit.flat` keeps its shape. The shard and its
# gradient stay. Nothing is sent, and nothing is copied.
#
# `unit.parameters` stay the same parameters, with their dtype, but they have no elements any more.
# So if somebody uses one by mistake, PyTorch raises an error, and does not read memory that is not
# there.
#
# For example, a unit of 11 numbers in float64 on two ranks has a `flat` of 96 bytes. Afterwards
# these 96 bytes are free, and each parameter has 0 elements.

# %%
display(check("{{gather}}"), check("{{dispose}}"))

# %% [markdown]
# ## 3 · When to gather, when to dispose
#
# `Zero3` calls four methods at four moments. PyTorch's hooks tell it when.
#
# | moment | method | what has to happen |
# |---|---|---|
# | a module's forward begins | `before_forward` | its unit is needed |
# | its forward ends | `after_forward` | its unit can go |
# | its backward begins | `before_backward` | its unit is needed again |
# | all gradients of the unit are complete | `reduce` | reduce them; the unit can go |
#
# Two methods are there already. `self.need(unit)` gathers a unit, unless it is there.
# `self.drop(unit)` disposes of it, if it is there.

# %% [markdown]
# One thing makes it hard: recomputation. Inside of a backward, the forward of a block runs once
# more. With `checkpoint(block, x, use_reentrant=False)` the moments come in this order:
#
# 1. `before_backward` gathers the unit.
# 2. The recomputed forward: `before_forward`, then `after_forward`.
# 3. The block's own backward, then `reduce`.
#
# The `after_forward` of line 2 must *not* let the unit go: its backward is still to come. So there
# is the set `self.held`. `before_backward` notes in it that the unit's backward has begun, and
# `reduce` takes the unit out. (PyTorch may end a recomputed forward early, before `after_forward`.
# Do not count on it.)

# %% [markdown]
# ### Exercise {{zero3}} · Write ZeRO stage 3
#
# In [labs/zero.py](../labs/zero.py), write the four methods of `Zero3`, a subclass of `Zero2`.
#
# * `before_forward(unit)`: afterwards the unit is there.
# * `after_forward(unit, …)`: drops the unit, unless it is in `self.held`. (The first lines, which
#   register the hook for the backward, are written.) It drops the unit in an evaluation under
#   `no_grad` as well.
# * `before_backward(unit)`: puts the unit into `self.held`; afterwards it is there.
# * `reduce(unit)`: reduces the gradients as in stage 2, takes the unit out of `self.held`, if it is
#   in there, and drops it. (A unit without a part in the loss was never in there.)

# %% [markdown]
# After a forward, a backward or a step, no unit is whole. A forward sends $\frac{n-1}{n}$ models,
# a backward twice that, and a step nothing. The weights equal those of one process.
#
# For example, a model of the blocks A and B, both units, in one step: need A, drop A, need B, drop
# B; then in the backward need B, reduce B, drop B, need A, reduce A, drop A.

# %%
check("{{zero3}}")

# %% [markdown]
# Play a training step of stage 3. It is recorded from `Zero3`: from yours, or from the course's own
# as long as yours has a hole. Each row is a rank, and each column a unit. (`rest` is what is in no
# block.) Which parts of the parameters are there, and which of the gradients? At which frame does a
# rank hold the most?

# %% tags=["cover"]
pictures = lab("unit_pictures")
films = launch(runs.film_step, "stage 3", text, world_size=world_size).values

def draw_units(frame):
    return pictures.plot_units(films, frame)

explore(draw_units, frame=[5, *range(1, 5), *range(6, len(films[0].frames) + 1)])

# %% [markdown]
# A rank holds most in the backward, when a block's gradients are complete and its parameters are
# still there. (A gathered unit has its own chunk twice: in `flat`, and as the shard.)
#
# Now the larger model, measured. (`device="cpu"`, because the operating system counts the bytes.)

# %%
run = launch(runs.training, "stage 3", text, layers, world_size=world_size, device="cpu")
print(f"stage 3 sends {runs.count_models_sent(run):.2f} models in a step")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
models.compare(3 * (world_size - 1) / world_size, runs.count_models_sent(run), kind="communication")

# %% [markdown]
# Half as much again as in stage 2: the all-gather after the step has moved into the forward, and
# the backward has a second one. Five steps in float64, beside one process with the whole batch:

# %%
equal = launch(runs.equals_one_process, "stage 3", text, world_size=world_size).values
print(f"{world_size} ranks equal one process, but for rounding: {all(equal)}")

# %% [markdown]
# > **On GPUs** FSDP2 does the same as `gather` and `dispose`: in PyTorch 2.13 its
# > [`free_storage`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_param.py)
# > resizes the storage of the gathered parameters to 0 bytes, and `alloc_storage` gives it memory
# > again. Gathers and computing run in different streams there. So memory may be freed only when
# > the kernels that read it are done: the GPU's order counts, not Python's. And the memory goes
# > back to PyTorch's allocator, not to the GPU. Part [06f](06f_who_pays_when.ipynb) shows how
# > gathers hide behind computing.

# %% [markdown]
# ## 4 · How much is there at the peak?
#
# A rank has its shards all the time, and the gathered units on top. The rest, with embeddings and
# last layer, belongs to the model as a whole. It is there from the first to the last moment of the
# forward, and again of the backward. So two units are whole at the same time:

# %%
rest, *blocks = run.values[0]["units"]
most = run["step"].peak_bytes[0]["parameters"]
print(f"parameters at most: {most:,} bytes")
print(f"all shards, the rest, and one block: "
      f"{sum([rest, *blocks]) // world_size + rest + max(blocks):,} bytes")

# %% [markdown]
# More ranks make the shards smaller, but not the gathered units. So what if a single layer is too
# large for a GPU? It can be cut into **tiles** that compute one after another, and each tile is a
# unit. Here are two linear layers, 64 → 1,024 → 64, cut into 1 and into 8 tiles. The outputs of the
# tiles add up. (DeepSpeed has this for a linear layer, as
# [`TiledLinear`](https://deepspeed.readthedocs.io/en/stable/zero3.html#memory-centric-tiling).)

# %%
tiled = {}
for ranks, tiles in ((2, 1), (4, 1), (4, 8)):
    one = tiled[ranks, tiles] = launch(runs.measure_tiled_step, tiles, world_size=ranks)
    at_most = one["step"].peak_bytes[0]["parameters"] / one.values[0]["model"]
    print(f"{ranks} ranks, tiles: {tiles}; parameters at most {at_most:.2f} models; "
          f"loss {one.values[0]['loss']:.4f}")

# %% [markdown]
# With one tile, every rank gathers the whole layer, however many ranks there are: 1 model, plus
# $1/n$ for its shards. With 8 tiles it gathers an eighth at a time. The loss is the same. Tiles
# compute one after another on the same rank. **Tensor parallelism** (chapter 07) cuts a layer in
# the same way, and gives the parts to different ranks.

# %% [markdown]
# ### Exercise {{sharded_linear}} · Debug a sharded linear layer
#
# This is stage 3 for linear layers without a bias, as an autograd Function.
# `ShardedLinear.apply(x, shard, buffer)` is called on all ranks.
#
# * `x` has the shape (samples, inputs), and is this rank's own. `shard` is this rank's part of the
#   weight: the weight has the shape (outputs, inputs), is made flat and cut into $n$ parts, and
#   rank $k$ has part $k$. $n$ divides its length.
# * `buffer` has the shape (outputs, inputs). All layers have the same shape, and share one buffer
#   for the gathered weight.
# * The result is `x` times the transposed weight. For its backward a layer keeps `x` and `shard`,
#   and nothing else of that size.

# %% [markdown]
# The gradient for `x` is that of this rank's own loss. The gradient for `shard` is this rank's part
# of the weight's gradient, averaged over the ranks.
#
# For example, two ranks, one input and two outputs: the weight is [[2], [3]], rank 0's shard is [2]
# and rank 1's is [3]. With `x` = [[1]] the result is [[2, 3]] on both. Let the loss be the sum of
# the outputs. Then the gradient for `x` is [[5]]. With `x` = [[1]] on rank 0 and [[3]] on rank 1,
# both shards have the gradient [2].

# %% [markdown]
# The forward is right. The second cell takes three layers of 1 × 1 in a row, with the weights 2, 3
# and 5, on one rank. By the chain rule, the gradient of `x` is 30, and those of the weights are 15,
# 10 and 6. Find the bug.

# %%
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather(list(buffer.view(-1).chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard)
        ctx.buffer = buffer
        return x @ buffer.T

    @staticmethod
    def backward(ctx, gradient):
        x, shard = ctx.saved_tensors
        n = dist.get_world_size()
        ### BEGIN SOLUTION
        dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
        ### IT WAS
        ### END SOLUTION
        mean = torch.empty_like(shard)
        dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
        return gradient @ ctx.buffer, mean, None

# %%
def three_layers(layer):
    x, buffer = torch.ones(1, 1).requires_grad_(), torch.zeros(1, 1)
    shards = [torch.tensor([weight]).requires_grad_() for weight in (2.0, 3.0, 5.0)]
    out = x
    for shard in shards:
        out = layer.apply(out, shard, buffer)
    out.sum().backward()
    return out.item(), x.grad.item(), [shard.grad.item() for shard in shards]

print("output {}, gradient of x {}, of the weights {}".format(
    *launch(three_layers, ShardedLinear, world_size=1).values[0]))

# %%
check("{{sharded_linear}}", ShardedLinear)

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Figures for the statements below.
def peak_parameters(ranks, tiles):
    one = tiled[ranks, tiles]
    return one["step"].peak_bytes[0]["parameters"] / one.values[0]["model"]

on_8 = launch(runs.training, "stage 3", text, layers, world_size=8, device="cpu")
states_8, states_4 = (sum(runs.states_in(one["after the backward"].peak_bytes[0]).values())
                      for one in (on_8, run))
model, loss = run.values[0]["model"], tiled[4, 8].values[0]["loss"]
same = abs(loss / tiled[4, 1].values[0]["loss"] - 1) < 1e-4
tiles_help = peak_parameters(4, 8) - 1 / 4 < 0.5 and same  # beside the shards

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
put_to_the_test(f"""
- [C150] A layer that is too large for one GPU defeats even ZeRO-3, and takes tensor parallelism |
  book chapter, “What’s Next?” | {"depends" if tiles_help else "right"} | two linear layers that are
  one unit: a rank has {peak_parameters(2, 1):.2f} models of parameters at most on 2 ranks, and
  {peak_parameters(4, 1):.2f} on 4: 1 is the gathered unit, on any number of ranks. In 8 tiles,
  one after another, it has {peak_parameters(4, 8):.2f} on 4 ranks, and the same loss of
  {loss:.4f} (section 4, runs) | measured: nothing in the bytes; small tiles are expected to use a
  GPU less well
- [C136] With ZeRO-3, the peak of the parameters is one layer | blog, “DeepSpeed Zero” |
  {"imprecise" if most > 1.1 * max(blocks) else "right"} | {most:,} bytes at most: all shards, the
  rest, and one block (section 4, run). Only {max(blocks):,} of them are the block (measured in this
  section) | measured: more is expected, since engines gather the next unit ahead of time on GPUs
  (PyTorch's notes on FSDP)
- [C121] ZeRO-3 enables models 8 times as large | web page, “Communication Tradeoff” | depends | on
  the number of ranks: on 8 ranks, model states are {4 * model / states_8:.2f} times smaller, and
  {4 * model / states_4:.2f} times on {world_size}. The gathered units do not shrink: here
  {rest / model:.2f} and {max(blocks) / model:.2f} models come on top (measured in this section) |
  measured: nothing for the states; activations, buffers and the CUDA context leave less room on a
  GPU
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *The Evolution of Data Parallelism*
# (blog); *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020, section 5.3.
# Zhao et al., [PyTorch FSDP](https://arxiv.org/abs/2304.11277), 2023: units, flat parameters, and
# what it took. Rajbhandari et al., [ZeRO-Infinity](https://arxiv.org/abs/2104.07857), 2021: tiles.

# %% [markdown]
# ## What you have learnt
#
# * A **storage** has the memory, and tensors only look at it. Resized to 0 bytes and refilled, it
#   makes all views good again, also those that autograd has kept.
# * Stage 3 gathers a unit before it computes, and disposes of it right after: in the forward, and
#   again in the backward. It sends $3\frac{n-1}{n}$ models.
# * Within a backward a forward may run again. A unit stays until its gradients are reduced.
# * A rank holds its shards, and the units that are gathered. Those do not shrink with more ranks; a
#   layer can be cut into tiles.
#
# **Your exercises**: {{away_and_back}} and {{sharded_linear}} stand in cells above. The others are in
# [labs/zero.py](../labs/zero.py).
#
# **Next**: {{next}}.

# %%
progress("06d")
