# %% [markdown]
# # {{title}}
#
# **What does a training step look like if the model is copied, divided into stages, and its
# matrices are cut, all at once?** You have written each kind of parallelism by itself. Here they
# meet in one step. You find out where they get into each other's way, and compare with PyTorch's
# engines.

# %% [markdown]
# ![Timeline of eight ranks during one training step: forwards and backwards of several
# micro-batches, then the average over copies, and the clipping; the rows of the second stage begin
# later](../assets/covers/09b_one_step_three_axes.png)
#
# *Measured in section 4: one step on 2 × 2 × 2 ranks. In float64, such steps give the weights of
# one process, to within 1e-12.*
#
# **After this part you can** put data, tensor and pipeline parallel together by hand, say which
# ranks need the same samples, seeds and gradients, and do the same with PyTorch's engines.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, plot_timeline, predict, progress, put_to_the_test,
    relative_gap,
)

# %% tags=["parameters"]
sizes = {"dp": 2, "pp": 2, "tp": 2}

# %% [markdown]
# ## 1 · What each rank has
#
# The model is taken apart in this order:
#
# 1. **tp** first. `parallelize` of chapter 07 cuts every matrix. What comes out is a transformer
#    whose layers talk to the tp group, and that looks like any other one from outside.
# 2. **pp** next. `my_stages` of chapter 08 takes this rank's layers. A stage does not know that its
#    layers are cut.
# 3. **dp** last. Whatever is left on a rank is copied. The copies average their gradients.
#
# Which share of the model does one rank have then?

# %%
share = predict("Share of the model's parameters that one rank has, on 2 × 2 × 2 ranks", unit="%")

# %%
meshes, three_dimensions = lab("meshes"), lab("three_dimensions")
text = lab("language_model").standard_library(100_000)
world_size = sizes["dp"] * sizes["pp"] * sizes["tp"]

run = launch(three_dimensions.one_step, sizes, text, world_size=world_size, device="cpu")
whole_bytes = sum(p.nbytes for p in three_dimensions.whole_model().parameters())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
mean_bytes = sum(run.values) / world_size
share.compare(100 / (sizes["pp"] * sizes["tp"]), 100 * mean_bytes / whole_bytes, kind="parameters")

# %%
print("parameters on each rank (kB):", [round(nbytes / 1e3, 1) for nbytes in run.values])
print(f"the whole model: {whole_bytes / 1e3:.1f} kB")

# %% [markdown]
# A quarter, not an eighth: copies do not make anything smaller. It is a little more than a quarter,
# for two reasons. Layer norms, some biases and the places' embedding are not cut along tp. And the
# letters' embedding, which is tied to the output, is in the first stage and in the last one.

# %% [markdown]
# ## 2 · Who needs the same samples?
#
# ### Exercise {{share_of_copy}} · Debug batch splitting on a mesh
#
# In plain data parallel each rank computes with samples of its own: it takes the part of the batch
# with its own number. Somebody does the same on a mesh. Nothing breaks, and the loss goes down. But
# look at it beside that of one process, which sees the same batches:

# %% tags=["nbval-ignore-output"]
def share_by_rank(batch, mesh):
    return batch.chunk(dist.get_world_size())[dist.get_rank()]

def losses_with(three_dimensions, share_of_copy, sizes, text, steps=3):
    cut, alone = three_dimensions.whole_model(), three_dimensions.whole_model()
    mesh = three_dimensions.Mesh(sizes, three_dimensions.JOINT)
    engine = three_dimensions.ThreeDimensions(cut, mesh, 1, three_dimensions.adam,
                                              share_of_copy=share_of_copy)
    one_process = three_dimensions.OneProcess(alone)
    batches = [three_dimensions.draw_batch(text, 16, number, 32) for number in range(steps)]
    return [[f"{one.step(*batch):.4f}" for batch in batches] for one in (engine, one_process)]

on_mesh, alone = launch(losses_with, three_dimensions, share_by_rank, {"dp": 2, "pp": 1, "tp": 2},
                        text, world_size=4, device="cpu").values[0]
Table(["loss of step", "1", "2", "3"], [["dp 2 × tp 2", *on_mesh], ["one process", *alone]])

# %% [markdown]
# The two ranks of a tp group now compute with *different* samples. So each all-reduce along tp adds
# up parts that do not belong to the same sentence, and its sum means nothing.
#
# Mend the function. It gets a batch, (samples, …), the same on all ranks, and the mesh.
# `mesh.sizes["dp"]` is the number of copies, and `mesh.at["dp"]` the number of this rank's copy.
# Copy $k$ gets the $k$-th of equal parts of the batch, in order; the number of copies divides the
# number of samples. With 8 samples on a mesh of dp 2 × tp 2, ranks 0 and 1 get the samples 0 to 3,
# ranks 2 and 3 the samples 4 to 7.

# %%
def share_of_copy(batch, mesh):
    ### BEGIN SOLUTION
    return batch.chunk(mesh.sizes["dp"])[mesh.at["dp"]]
    ### IT WAS
    # return batch.chunk(dist.get_world_size())[dist.get_rank()]
    ### END SOLUTION

check("{{share_of_copy}}", share_of_copy)

# %% [markdown]
# A `DistributedSampler` has the same trap: on a mesh it needs `num_replicas=` and `rank=` of the dp
# axis. By default it takes both from the whole world.

# %% [markdown]
# ## 3 · Gradients
#
# After the backward, this is what the gradient of each kind of parameter lacks (without the
# sequence parallelism of 07e):
#
# | parameter | who has it | what its gradient lacks | over which group |
# |---|---|---|---|
# | any | all copies | the mean over all samples | dp |
# | cut along tp | this rank alone | nothing | |
# | outer norm, bias behind a sum | all ranks along tp | nothing: it is the same on all | |
# | norm inside attention (07c) | all ranks along tp | what the other ranks' heads give | tp |
# | tied embedding | first and last stage | the other stage's part | the two ends of pp |
#
# The third kind lacks nothing, because `Copy` of chapter 07 has already summed what came back from
# the parts. The fourth one lies behind `Copy`. The model of this part has none.

# %% [markdown]
# ### Exercise {{average_over_copies}} · Average gradients over the copies
#
# Write `average_over_copies(parameters, mesh)` in
# [labs/three_dimensions.py](../labs/three_dimensions.py).
#
# * It gets a list of this rank's parameters, and the mesh. Gradients have any shapes, and one
#   dtype. Some may be None, or all of them, in all copies alike: they stay None.
# * It makes each `.grad` the mean over the copies of this parameter. It returns nothing.
# * It makes one all-reduce at most, however many parameters there are.
#
# On a mesh of dp 2 × tp 2, rank 1 has the gradient [1, 2] and rank 3 has [3, 6]. They have the same
# part of the model, so both get [2, 4].

# %%
check("{{average_over_copies}}")

# %% [markdown]
# ### The length of the gradient
#
# Clipping shortens the gradient if it is longer than some limit. The gradient's length, its
# **norm**, is $\sqrt{g_1^2 + g_2^2 + \dots}$ over **all** numbers of the whole model, each of them
# once. No rank has all of them, and some numbers are on several ranks.

# %% [markdown]
# ### Exercise {{global_norm}} · The global norm
#
# Write `global_norm(parameters, mesh, counted_elsewhere=())` in
# [labs/three_dimensions.py](../labs/three_dimensions.py).
#
# * `parameters` are those of this rank, after the average. A parameter that is cut along tp has an
#   attribute `cut_dim`; all others are the same on all ranks along tp. A gradient may be None: it
#   counts as zeros.
# * `counted_elsewhere` are parameters of this rank that another stage has as well. The other stage
#   counts them; leave them out here. A rank may have nothing to count at all.
# * No gradient changes.
# * It returns a tensor with one number, the same on every rank. One all-reduce of one number is
#   enough: `mesh["pp", "tp"]` is the group of all ranks that share one copy of the model.

# %% [markdown]
# For example, take two ranks along tp. Each has its part of a cut parameter, with the gradients [3]
# and [4]. Both have the same bias, with the gradient [12]. The length is
# $\sqrt{9 + 16 + 144} = 13$.

# %%
check("{{global_norm}}")

# %% [markdown]
# ## 4 · The step
#
# ### Exercise {{three_dimensions}} · Combine three axes in one step
#
# Now put it together. Write the method `step(self, inputs, targets)` of the class `ThreeDimensions`
# in [labs/three_dimensions.py](../labs/three_dimensions.py). The class already has:
#
# | | what it does |
# |---|---|
# | `self.pipeline.step(self.actions, inputs_in_parts, targets_in_parts)` | forwards and backwards |
# | `self.in_parts(batch)` | the list of micro-batches of this rank's share |
# | `self.sum_over_ends()` | completes the gradient of a weight that two stages have |
# | `self.average()` | the mean over copies: exercise {{average_over_copies}} |
# | `self.clip()` | shortens the gradient: exercise {{global_norm}} |
# | `self.optimizer` | of this rank's parameters |
# | `self.mean_of(loss)` | the mean loss over all copies, told to every rank |
#
# `inputs` and `targets` are the whole batch, the same on all ranks. The method takes one step, as
# one process would with that batch, and returns its loss, on every rank.
#
# `self.pipeline.step` takes two lists of micro-batches, all micro-batches in one call. It adds to
# the gradients that are there. On the last stage it returns the loss of this copy, on other stages
# 0. Along dp, one communication is enough.

# %%
check("{{three_dimensions}}")

# %% [markdown]
# Now the proof. Each mesh below trains for three steps in float64, with tied embeddings, clipping,
# dropout, and two micro-batches for each copy. Beside it, each rank also trains the whole model
# alone. Equal means: no weight and no gradient differs by more than $10^{-12}$ of the largest one.

# %%
combinations = {"dp × tp": (2, 1, 2), "dp × pp": (2, 2, 1), "pp × tp": (1, 2, 2),
                "dp × pp × tp": (2, 2, 2), "pp 4 × tp 2": (1, 4, 2)}
worst = {}
for name, lengths in combinations.items():
    on = dict(zip(("dp", "pp", "tp"), lengths))
    found = launch(three_dimensions.compare_with_one_process, on, text, device="cpu",
                   world_size=lengths[0] * lengths[1] * lengths[2]).values
    worst[name] = max(gap for _, _, gap in found)
    print(f"{name}: equal to one process to 1e-12: {worst[name] < 1e-12}")

# %% [markdown]
# Where does the time of such a step go? Each forward and backward below contains the calls of its
# tp group. Between them a rank waits for the stage before or after. At the end come the average and
# the clipping.

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(run, ["forward", "backward", "tied weights", "average over dp", "clip"],
              title="One step on 2 × 2 × 2 ranks")

# %% [markdown]
# Eight ranks share the cores of this machine, so each of them is slowed down by the others. Read
# the order, not the times: ranks of the second stage (2, 3, 6 and 7) begin later, and no rank
# averages before its last backward.

# %% [markdown]
# ## 5 · Dropout
#
# Dropout sets randomly chosen activations to 0. On a mesh: which ranks have to draw the same
# numbers? Between two blocks, all ranks of a tp group have the same activations. So they need the
# same mask. Copies have other samples, and should have other masks.

# %% [markdown]
# ### Exercise {{seed_of_mask}} · Debug dropout masks on a mesh
#
# `SampleDropout` of the lab draws the mask of each sample from a seed. Here somebody lets the seed
# depend on the rank, so that ranks drop different features. Norms and biases are equal on all ranks
# of a tp group at first. See how far they are from each other after some steps:

# %%
def seed_by_rank(step, sample, module):
    return 1000 * step + dist.get_rank()

def drift(three_dimensions, seed_of, text, steps=3):
    model, mesh = three_dimensions.whole_model(), three_dimensions.Mesh(
        {"dp": 2, "pp": 1, "tp": 2}, three_dimensions.JOINT)
    dropout = three_dimensions.SampleDropout(0.1, seed_of)
    engine = three_dimensions.ThreeDimensions(model, mesh, 1, three_dimensions.adam, 0.5, dropout)
    gaps = []
    for dropout.step in range(steps):
        engine.step(*three_dimensions.draw_batch(text, 8, dropout.step, 32))
        norm = model.norm.weight.detach()
        both = [torch.empty_like(norm) for _ in range(2)]
        dist.all_gather(both, norm, group=mesh["tp"])
        gaps.append(relative_gap(*both))
    return gaps

gaps = launch(drift, three_dimensions, seed_by_rank, text, world_size=4, device="cpu").values[0]
print("the last norm differs between ranks 0 and 1 after steps 1, 2, 3:", [g > 1e-5 for g in gaps])

# %% tags=["nbval-ignore-output"]
print("by this share of its largest number:", [f"{gap:.1%}" for gap in gaps])

# %% [markdown]
# With different masks, the ranks of a tp group compute with different activations. So their copies
# of a norm get different gradients, and drift apart.
#
# Mend it. `seed_of_mask` gets the number of the step, of the sample in the whole batch, and of the
# module whose output is masked: from 0 on, at most 1,000 steps, 1,000,000 samples, 1,000 modules.
# It returns a whole number from 0 to $2^{63} - 1$, the same on every rank. If any of the three
# differs, so does the mask, but for chance: torch's CPU generator takes only the lowest 32 bits of
# a seed. Among the check's 25,000 masks, two pairs may be alike.

# %%
def seed_of_mask(step, sample, module):
    ### BEGIN SOLUTION
    return (step * 1_000_000 + sample) * 1_000 + module
    ### IT WAS
    # return 1000 * step + dist.get_rank()
    ### END SOLUTION

check("{{seed_of_mask}}", seed_of_mask)

# %% [markdown]
# With such seeds, a mask belongs to its sample, whoever computes it. That is why
# section 4 could compare with one process at all. Megatron-LM keeps two random streams instead, as
# in [07d](07d_a_model_in_parts.ipynb): one that is equal along tp, another one that is not.
# Then each layout draws other masks, and its numbers cannot be compared with those of one process.

# %% [markdown]
# ## 6 · Sharding as an axis
#
# Copies waste memory: every copy of a part keeps the whole optimizer state of this part. ZeRO of
# chapter 06 shards it over the copies. On a mesh its group is `mesh["dp"]`. Clipping has to know of
# both axes, dp and tp: [labs/sharded_dimensions.py](../labs/sharded_dimensions.py) does it for
# ZeRO 3 × TP.
#
# There is a finer choice. If one machine has room for all shards of a model, no parameter has to be
# gathered over the slow network. **Hybrid sharding**, HSDP for short, has two axes: the model is
# sharded *inside* a group, and copied *across* groups. PyTorch's `fully_shard` does that with a
# mesh of two axes. Here you write what happens to the gradients, for stage 1.

# %% [markdown]
# ### Exercise {{reduce_hybrid}} · Hybrid sharding
#
# Write `reduce_hybrid(unit, replicas)` in
# [labs/sharded_dimensions.py](../labs/sharded_dimensions.py).
#
# * `unit` is a `Unit` of labs/zero.py: parameters in one flat tensor, in as many chunks as its
#   group has ranks. Rank $k$ of the group owns chunk $k$, its shard.
# * `replicas` is a process group: the ranks that own the same chunk in the other groups.
# * Afterwards `unit.shard.grad` is this rank's chunk of the gradient's mean over the ranks of all
#   groups. If there was a gradient already, they add up. No parameter of the unit has a gradient
#   any more. The function returns nothing.
#
# For example, two groups of one rank each have the gradients [1, 2] and [3, 6]. Both get [2, 4].

# %% [markdown]
# `reduce_gradients(unit)`, exercise {{reduce_gradients}}, does that for the unit's own group alone. You may use it.
# A rank may take part in one reduce-scatter inside its group and one all-reduce of its shard across
# groups, and may send no more than these two need.

# %%
check("{{reduce_hybrid}}")

# %%
sharded = lab("sharded_dimensions")
for name, on in {"ZeRO 3 × TP": {"dp": 2, "tp": 2},
                 "HSDP, stage 1": {"replicate": 2, "shard": 2}}.items():
    gap = max(launch(sharded.compare_with_one_process, on, text, world_size=4, device="cpu").values)
    print(f"{name}: equal to one process to 1e-12: {gap < 1e-12}")

# %% [markdown]
# ## 7 · The real engines
#
# PyTorch composes three engines on one `DeviceMesh`. `TorchThreeDimensions` in
# [labs/three_engines.py](../labs/three_engines.py) calls `parallelize_module` with `mesh["tp"]`,
# `fully_shard` with `mesh["dp"]`, which is ZeRO 3, and `PipelineStage` with the group of
# `mesh["pp"]`. [torchtitan](https://github.com/pytorch/torchtitan) trains Llama 3 with the same
# three, though it takes stages first.

# %%
three_engines = lab("three_engines")
losses = {}
for whose in ("by hand", "PyTorch's"):
    found = launch(
        three_engines.compare_with_one_process,
        whose,
        sizes,
        text,
        world_size=world_size,
        device="cpu",
    ).values
    losses[whose] = [f"{loss:.6f}" for loss in found[0][0]]
    gap = max(gap for _, _, gap in found)
    print(f"{whose}: equal to one process to 1e-12: {gap < 1e-12}")
print("the same losses, to six digits:", losses["by hand"] == losses["PyTorch's"])

# %% tags=["nbval-ignore-output"]
Table(["loss of step", "1", "2", "3"], [[whose, *told] for whose, told in losses.items()])

# %% [markdown]
# The numbers are the same, though the two programs share none of the code that makes them parallel.
# What do they send?

# %%
ratio = predict("How many times as many bytes as ours do they send along dp?", unit="times")

# %%
runs = {whose: launch(three_engines.program, whose, text, sizes, world_size=world_size,
                      device="cpu") for whose in ("by hand", "PyTorch's", "PyTorch's, kept")}
sent = {whose: {axis: sum(map(sum, of["step"].traffic(axis))) if axis in of["step"].groups else 0
                for axis in sizes} for whose, of in runs.items()}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
microbatches, ours = 4, max(1, sent["by hand"]["dp"])  # nothing, on a mesh of dp 1
ratio.compare((microbatches + 1 + 2) / 2, sent["PyTorch's"]["dp"] / ours, kind="communication")

# %% tags=["nbval-ignore-output"]
plot_bars(list(sizes), {whose: [of[axis] / 1e6 for axis in sizes] for whose, of in sent.items()},
          "sent by all ranks (MB)", title="One step, axis by axis")

# %% [markdown]
# Along pp both programs send the same, and along tp nearly the same. Along dp ours makes one
# all-reduce: a rank sends $2\frac{dp-1}{dp}$ of its parameters' bytes.
#
# `fully_shard` frees the parameters of a layer after its forward, and gathers them again for its
# backward. Then they stay until the next forward has used them. So with $m$ micro-batches each
# layer is gathered $m + 1$ times, and each time $\frac{dp-1}{dp}$ of it travels. At the end the
# gradients are reduced once, by Gloo's reduce-scatter, which moves as much as an all-reduce
# (chapter 06). Together this is $\frac{(m + 1) + 2}{2} = 3.5$ times as much as ours, with 4
# micro-batches, over Gloo. With a ring for the reduce-scatter it would be 3 times.

# %% [markdown]
# `fully_shard` has an option for this: with `reshard_after_forward=False` parameters stay gathered
# from the first forward of a step to its last backward. The picture shows it as *PyTorch's, kept*.
# Each layer is gathered once a step: $\frac{1 + 2}{2} = 1.5$ times as much as ours. The price is
# the memory of the gathered parameters. torchtitan does so by default where there is a pipeline.

# %% tags=["nbval-ignore-output"]
Table(["", "a step"], [[whose, f"{1e3 * of.values[0][1]:.0f} ms"] for whose, of in runs.items()],
      title="Eight ranks on the cores of this machine, over Gloo")

# %% [markdown]
# **On GPUs** `fully_shard` overlaps gathering with computing, on a stream of its own, says its
# [documentation](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html). That does
# not show over Gloo on a CPU.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- [C199] Data, tensor and pipeline parallelism are three orthogonal strategies | web page,
  “Overview” | {"right" if max(worst.values()) < 1e-12 else "not here"}, with care |
  {sum(gap < 1e-12 for gap in worst.values())} of {len(worst)} combinations equal one process to
  1e-12 (section 4, runs); but samples, seeds, the norm and tied weights each need to know of the
  mesh (sections 2 to 5) | measured: nothing in the numbers, but for rounding. In time the axes are
  not independent: on GPUs, too, they are expected to share a batch and links
- Different strategies behave differently in their numbers | web page |
  {"right" if max(worst.values()) > 0 else "not seen here"} | sums in another order: the last digits
  differ, in float64 by less than 1e-12 of the largest number after 3 steps (section 4)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page). Narayanan et al. 2021,
# *Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM*
# ([arXiv](https://arxiv.org/abs/2104.04473)). Zhao et al. 2023, *PyTorch FSDP*
# ([arXiv](https://arxiv.org/abs/2304.11277)).

# %% [markdown]
# ## What you have learnt
#
# * Axes compose **from the inside out**: cut matrices, then take layers, then copy what is left.
# * Ranks of one copy need the **same samples** and the same masks; copies need other ones.
# * Each number of the gradient counts **once** in the norm, wherever it is.
# * By hand and with PyTorch's engines: the same numbers as **one process**.
# * `fully_shard` in a pipeline gathers parameters for **every micro-batch**, unless you tell it to
#   keep them.
#
# **Your exercises** stand in the cells above, in
# [labs/three_dimensions.py](../labs/three_dimensions.py), and in
# [labs/sharded_dimensions.py](../labs/sharded_dimensions.py).
#
# **Next**: {{next}}.

# %%
progress("09b")
