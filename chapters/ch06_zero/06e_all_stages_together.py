# %% [markdown]
# # {{title}}
#
# **What does each stage of ZeRO save, and what can it be combined with?** A real training uses
# bfloat16, and recomputes activations. It clips gradients and accumulates over micro-batches. Some
# of its weights are frozen or tied. Here you measure all three stages, to the byte. Then you write
# the one function that is missing: clipping by a norm of which each rank has only a part. At the
# end, a table says what may be combined.

# %% [markdown]
# ![Bytes for each parameter on one of four ranks, with DDP and in the three stages, in mixed
# precision: 16, 7, 5.5 and 4](../assets/covers/06e_all_stages_together.png)
#
# *Measured in section 2, on four ranks, with bfloat16 weights and float32 masters. Outlines: the
# formula.*
#
# **After this part you can** say what a rank keeps in each stage, and when stage 2 lowers the peak.
# You can clip sharded gradients, and combine ZeRO with mixed precision and recomputation.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import textwrap

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, measure, plot_stacks, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
layers = 4
stage_shown = "stage 3"

# %%
composing, composed_alone = lab("composing"), lab("composed_alone")
zero, language_model = lab("zero"), lab("language_model")
text = language_model.standard_library(20_000)
STAGES = ("DDP", "stage 1", "stage 2", "stage 3")

# %% [markdown]
# ## 1 · Three stages, measured
#
# Without numbers, nobody can choose a stage. The lab's `watch` trains a small transformer with Adam
# and measures its last step. All numbers are float32 here: 4 bytes for a parameter, 4 for its
# gradient, 8 for its optimizer state.
#
# Stage 1 splits the optimizer state over the ranks. Stage 2 splits the gradients too, and stage 3
# the parameters too. What does a rank hold between the backward and the optimizer's step?

# %%
def measure_stages(*settings, ranks=world_size):
    return {stage: launch(composing.watch, stage, text, *settings, world_size=ranks)
            for stage in STAGES}

def divide_by_parameters(kinds, numbers):
    return {kind: size / numbers for kind, size in kinds.items()}

# %%
KINDS = ("parameters", "gradients", "optimizer_state")
in_float32 = measure_stages(False, False, layers)
model = sum(in_float32["stage 3"].values[0])  # numbers in the model, padded
kept = {stage: {kind: run["after the backward"].peak_bytes[0][kind] for kind in KINDS}
        for stage, run in in_float32.items()}
by_formula = {stage: composing.states_by_formula(stage, model, world_size, (4, 4, 8))
              for stage in STAGES}
plot_stacks(kept, by_formula, title=f"What each of {world_size} ranks holds before the step")

# %% [markdown]
# The formula is drawn as an outline, and it fits. Each stage is one idea more than the stage before
# it: the same kind of tensor, but only this rank's part of it.
#
# What does it cost? Count how often the model's bytes go out from one rank in a step. And how much
# is there at the peak?

# %%
once, wanted = (world_size - 1) / world_size, {"DDP": 2, "stage 1": 2, "stage 2": 2, "stage 3": 3}
sent = {stage: run["step"].sent_bytes[0] / 4 / model for stage, run in in_float32.items()}
Table(["", "sent, in models", "by formula", "parameters at most", "gradients at most"],
      [[stage, f"{sent[stage]:.2f}", f"{wanted[stage]}(n-1)/n = {wanted[stage] * once:.2f}",
        *(f"{run['step'].peak_bytes[0][kind] / 4 / model:.2f} models" for kind in KINDS[:2])]
       for stage, run in in_float32.items()])

# %% [markdown]
# Here $n$ is the number of ranks. Stages 1 and 2 send as much as DDP, and stage 3 half as much
# again. (DDP's bytes are those of Gloo's all-reduce. The stages send with your rings.)
#
# In stage 3 the parameters are more than a shard for a moment. A unit that computes is whole. So a
# rank needs room for its shards, plus the units that are gathered at the same time: one block, and
# the unit with the embeddings and the last layer. (Part [06d](06d_parameters_in_parts.ipynb) has
# compared it to the byte.)

# %% [markdown]
# ## 2 · In mixed precision: 2 + 2 + 12
#
# The ZeRO paper does not count in float32. It counts as real trainings do: a parameter in 16 bits
# is 2 bytes, its gradient 2 bytes. The optimizer keeps 12: a float32 **master** of 4 bytes, and
# Adam's two numbers of 4 bytes each. Part 05b has built such a trainer, `MixedPrecision`. It works
# inside of ZeRO, because both agree on one small thing. `MixedPrecision` takes a list of parameters
# and a function that makes an optimizer. ZeRO hands it the shards. So the masters are shards, too:

# %%
def zero_in_bfloat16(model, zero, memory, adam):
    model.bfloat16()
    def make_mixed_precision(shards):
        return memory.MixedPrecision(shards, adam)
    return zero.Zero2(model, make_mixed_precision, list(model.blocks))

# %% [markdown]
# How many bytes does a rank of `world_size` keep for each parameter in stage 2?

# %%
each = predict(f"For each parameter on a rank of {world_size}, stage 2, mixed precision",
               unit="bytes")

# %%
in_mixed = measure_stages(True, False, layers)
numbers = {stage: run.values[0] for stage, run in in_mixed.items()}
states = {stage: composing.states_of(run["after the backward"], numbers[stage],
                                     1 if stage == "DDP" else world_size)
          for stage, run in in_mixed.items()}
formula = {stage: composing.states_by_formula(stage, model, world_size, (2, 2, 12))
           for stage in STAGES}

# %% tags=["cover"]
plot_stacks({stage: divide_by_parameters(kinds, model) for stage, kinds in states.items()},
            {stage: divide_by_parameters(kinds, model) for stage, kinds in formula.items()},
            ylabel="for each parameter", title=f"Mixed precision on {world_size} ranks")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
each.compare(2 + (2 + 12) / world_size, sum(states["stage 2"].values()) / model)

# %% [markdown]
# To the byte? Here are all ranks, beside the formula. The only difference is Adam's counter of
# steps. It has 4 bytes for each tensor that Adam updates, and each unit of a rank is one tensor.

# %%
rows = []
for stage in STAGES[1:]:
    off = [sum(composing.states_of(in_mixed[stage]["after the backward"], numbers[stage],
                                   world_size, rank).values()) - sum(formula[stage].values())
           for rank in range(world_size)]
    rows.append([stage, f"{sum(formula[stage].values()):,.0f}", *(f"+ {x:g}" for x in off)])
Table(["", "by formula", *(f"rank {rank}" for rank in range(world_size))], rows, note="bytes")

# %% [markdown]
# These bytes were measured on a model that fits anywhere. Do they hold for a large one, too?
# Counted for each parameter, they do. Choose a stage, a size and a number of ranks. Beside the
# measured bar stands a large model by formula, both in bytes for each of their parameters. The
# title has the sum.

# %%
def plot_next_to_large_model(stage, billions, n):
    large = composing.states_by_formula(stage, 1, n, (2, 2, 12))
    bars = {f"measured, {world_size} ranks": divide_by_parameters(states[stage], model),
            f"{billions} billion, {n} ranks": large}
    total = f"{billions * sum(large.values()):,.0f} GB on each of {n} ranks"
    return plot_stacks(bars, ylabel="for each parameter", title=f"{stage}: {total}")

explore(
    plot_next_to_large_model,
    stage=["stage 1", "DDP", "stage 2", "stage 3"],
    billions=[7.5, 1.5, 13, 70, 175],
    n=[64, 1, 2, 4, 8, 16, 256],
    labels={"stage": "ZeRO stage", "billions": "parameters (billions)", "n": "ranks"},
    no_effect=lambda stage, **others: {"n"} if stage == "DDP" else set(),
)

# %% [markdown]
# More ranks help the first two stages less and less. Stage 1 cannot get below the 4 bytes of whole
# parameters and gradients, and stage 2 not below 2 bytes. Only stage 3 goes on.
#
# **On GPUs**, many engines sum gradients in float32, because a sum of many micro-batches loses
# digits in bfloat16. Then a gradient has 4 bytes, and the sum is 18 or 20 bytes (part 05b). In
# PyTorch's FSDP2 it is another sum. The shards are the float32 masters, and there is no bfloat16
# copy of them. Only a gathered unit is in bfloat16
# ([`MixedPrecisionPolicy`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)).

# %% [markdown]
# Under `torch.autocast`, the lab's stages gather float32, and casts to bfloat16 are kept until the
# backward (05b): a whole model on each rank, even in stage 3. So convert the model instead.

# %% [markdown]
# ## 3 · When does stage 2 pay?
#
# What has to fit is the **peak** of a step. Part 06c has found two such
# moments. Mixed precision adds a third one:
#
# 1. The end of the forward. All activations are there, and no gradients yet.
# 2. The end of the backward. The activations are gone, and all gradients are there.
# 3. The optimizer's step. The gradients of the shards are in float32 there.
#
# Stage 2 makes the second moment smaller, and nothing else. Train a deeper model, with two samples
# on each rank, in stages 1 and 2: as it is, and with recomputed blocks. By how much does stage 2
# lower the peak with recomputed blocks, if the activations do not count?

# %%
again_saves = predict("Stage 2 lowers the peak of stage 1 by, blocks recomputed", unit="%")

# %%
SETTINGS = {"kept": False, "recomputed": True}
peaks = {f"{name}, {stage}": launch(composing.watch, stage, text, True, recompute, 12, 2,
                                    world_size=4)["step"]
         for name, recompute in SETTINGS.items() for stage in ("stage 1", "stage 2")}
plot_stacks({name: block.at_peak[0] for name, block in peaks.items()},
            title="One step in mixed precision on one of 4 ranks, at its peak")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory (without activations), and what was measured.
total = {name: block.peak_bytes[0]["total"] for name, block in peaks.items()}
saved = {name: 100 * (1 - total[f"{name}, stage 2"] / total[f"{name}, stage 1"])
         for name in SETTINGS}
again_saves.compare(100 / 7, saved["recomputed"])

# %% [markdown]
# With all activations kept, both stages have the same peak, to the byte. It comes at the end of the
# forward: there are no gradients yet. With recomputed blocks, the activations are a thin band.
# Now the peak of stage 1 comes at the end of the backward: 2 + 2 + 12/4 = 7 bytes for each
# parameter. In stage 2, the peak is the optimizer's step: 2 + 12/4, and 4/4 for float32
# gradients of the shard. These are 6 bytes, a seventh less.

# %% [markdown]
# ## 4 · The norm of the whole
#
# Nearly every large training clips its gradients: if the norm of the whole gradient is above a
# limit, all of it is scaled down. The **norm** is the square root of the sum of the squares of all
# numbers. It protects a training from a single bad batch. But in stages 2 and 3, no rank has the
# whole gradient. What does PyTorch's usual line do then?

# %%
def usual_line(composing, text):
    model = composing.make_model(())
    engine = composing.STAGES["stage 2"](model, composing.SGD, list(model.blocks))
    batch = language_model.draw_batch(text, 4, dist.get_rank(), composing.CONTEXT)
    composing.loss_of(model, batch).backward()
    of_model = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2).item()
    shards = [unit.shard for unit in engine.units.values()]
    return of_model, torch.nn.utils.clip_grad_norm_(shards, 0.2).item()

for rank, (of_model, of_shards) in enumerate(launch(usual_line, composing, text,
                                                    world_size=2).values):
    print(f"rank {rank}: norm of model.parameters() {of_model:.3f}, of its shards {of_shards:.3f}")

# %% [markdown]
# Two mistakes, and no error message. The parameters have no gradients any more, so the first norm
# is 0, and nothing is clipped. Each rank's shards have another norm. If each rank scaled by its
# own, the parts of the gradient would be scaled by different factors. The whole would point in
# another direction.

# %% [markdown]
# ### Exercise {{clip_shards}} · Clip sharded gradients by global norm
#
# Write `clip_shards(shards, max_norm, group=None)` in [labs/composing.py](../labs/composing.py).
# `shards` is the list of this rank's parameters. Each one has its part of the mean gradient in
# `.grad`. A frozen one has None there, and stays as it is. Other ranks may have shards of other
# sizes, more of them, or none at all.
#
# Return the norm of the whole gradient before clipping, the same float on every rank. If it is
# above `max_norm`, multiply every gradient by `max_norm / norm`, in place. If not, change nothing.
# The parameters themselves never change.

# %% [markdown]
# Compute with squares in float32 or float64: the gradients may be in float16, where the square of
# 256 is infinite. It may cost one all-reduce of one number. Give `group` to it.
#
# For example, two ranks, and `max_norm` is 1:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | gradients | `[3]`, and None | `[0, 4]` |
# | squares | 9 | 16 |
# | returned | 5 | 5 |
# | gradients afterwards | `[0.6]`, and None | `[0, 0.8]` |
#
# (`torch.nn.utils.clip_grad_norm_` divides by the norm plus 0.000001. That passes, too.)

# %%
check("{{clip_shards}}")

# %% [markdown]
# Where does the clipping belong? After the gradients are reduced, and before the optimizer steps.
# The lab's `GradientClipOptimizer` is an optimizer with another one inside, as `MixedPrecision` is.
# So the two can be put into each other, and ZeRO does not notice:

# %%
def make_optimizer(shards, memory, composing, adam):
    def make_clipping(masters):
        return composing.GradientClipOptimizer(masters, adam, max_norm=1.0)
    return memory.MixedPrecision(shards, make_clipping)  # masters get float32 gradients: clip those

# %% [markdown]
# If one number of the gradient is infinite or nan on any rank, the norm is so on *every* rank.
# `GradientClipOptimizer` leaves out such a step. All ranks leave out the same one, without another
# message.

# %% [markdown]
# A `LossScaler` (part 05b) needs the same care. It looks at its own rank's gradients. If one rank
# alone refused a step, the others would take it, and from then on the ranks would have different
# factors. So the lab's `LossScaleOptimizer` asks all ranks first: one all-reduce of one number.

# %% [markdown]
# **On GPUs** the real engines do the same. FSDP2's gradients are DTensors, which know that they are
# parts. There the usual line works: `clip_grad_norm_(model.parameters(), …)` returns a DTensor, and
# its `full_tensor()` is the norm of the whole ([PyTorch's
# tutorial](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html)). In Megatron Core
# the sum goes over *the entire world for the distributed optimizer*
# ([`get_grad_norm_fp32`](https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.optimizer.clip_grads.html)).
# A float that leaves the GPU, as in your function, makes the CPU wait once in a step.

# %% [markdown]
# ## 5 · What composes
#
# A real training uses several of these features at once, and features like to break each other. So
# each pair is trained on two ranks, and beside it one process that sees the whole batch. Equal
# means: the weights have changed as in that process, but for rounding in float64.
#
# In mixed precision, rounding is part of the result. There the one process computes each rank's
# gradient in bfloat16, adds them up in the order of the ring, and rounds wherever the ranks round.
# Its masters have to be the same, up to one rounding of bfloat16.

# %%
found = launch(composed_alone.gaps, [stage_shown], composing.pairs(), text, world_size=2).values
gaps = {pair: max(of_rank[pair] for of_rank in found) for pair in found[0]}
together = composed_alone.is_equal(composing.FEATURES, gaps[stage_shown, composing.FEATURES])
heads, rows = composed_alone.table_of(gaps)
print(f"{stage_shown}, all {len(composing.FEATURES)} together: as one process: {together}")
Table(heads, rows, note="the stages in which a pair equals one process; in the diagonal one alone")

# %% [markdown]
# Choose another stage in `stage_shown`. The course's tests train all three stages with all pairs,
# and the engine of part 06f, too.
#
# Why does it work? Each feature touches the training at one place only. Recomputation changes how
# a module computes. Tied and frozen weights decide what is in a unit. Accumulation decides when
# `step()` comes. Mixed precision, clipping and loss scaling stand inside of the optimizer. ZeRO
# needs nothing but the gradients of its units, and something that steps on shards.

# %% [markdown]
# Some combinations cannot work. It is bad if they go wrong silently, so the labs refuse them. Here
# is what they say:

# %%
for what, sentence in launch(composed_alone.refusals, world_size=2).values[0].items():
    print(f"{what}:", *textwrap.wrap(sentence, 84), sep="\n    ")

# %% [markdown]
# The third one is worth a thought. A frozen embedding gives an output without a gradient. Then
# autograd sees no reason to run the backward of the first recomputed block, and the weights inside
# get no gradient. What this block returns needs no gradient either, so the same happens in the next
# block. Nothing fails, and no block learns. PyTorch's `checkpoint` has the same trap with
# `use_reentrant=True`, and only warns. (With `use_reentrant=False` it does not have it.)
#
# Frozen weights are in no unit of these labs: they stay whole, on every rank. Part
# [06h](06h_sharding_engines.ipynb) tells what that means for LoRA.

# %% [markdown]
# *Break it.* Leave out the all-reduce in your `clip_shards`, and run the table of this section
# again. Which of its cells lose their stage? (Then put it back.)
#
# <details><summary>What happens then</summary>
#
# All seven cells with clipping say *no*: its row, and its cell in the row of loss scaling. Each
# rank scales by the norm of its own shards, so its part of the gradient gets a factor of its own.
# The other cells stay. All seven features together no longer equal one process, as clipping is
# among them.
#
# </details>

# %% [markdown]
# ## Put to the test
#
# Φ is the number of parameters, and N the number of ranks.

# %% jupyter={"source_hidden": true}
# Figures for the statements below.
n = world_size
here = {stage: sum(kinds.values()) / model for stage, kinds in states.items()}
found_here = ", ".join(f"{size:.3g}" for size in here.values())
as_formula = all(abs(here[stage] / (sum(formula[stage].values()) / model) - 1) < 0.001
                 for stage in STAGES)
split = {"stage 1": "optimizer_state", "stage 2": "gradients", "stage 3": "parameters"}
pairs = {stage: (kept[stage][kind], kept["DDP"][kind]) for stage, kind in split.items()}
own = {stage: f"{mine / 1e3:.2f} kB" for stage, (mine, _) in pairs.items()}
saves = all(abs(1 - mine / whole - once) < 0.01 for mine, whole in pairs.values())
falls = list(here.values()) == sorted(here.values(), reverse=True)

def count_state_bytes(stage, n):
    """Bytes that each of n ranks keeps for a parameter of a small model, in mixed precision."""
    run = launch(composing.watch, stage, text, True, False, 1, world_size=n, device="cpu")
    numbers = run.values[0]
    return sum(composing.states_of(run["after the backward"], numbers, n).values()) / sum(numbers)

on_8, on_16 = (count_state_bytes("stage 3", ranks) for ranks in (8, 16))
on_28 = count_state_bytes("stage 2", 28)
times_8 = here["DDP"] / on_8

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
surprises = f"""
- [C114] Bars: 16 Φ, 7 Φ, 5.5 Φ, 4 Φ | web page, “ZeRO Memory Optimization Stages” |
  {"right for 4 ranks alone" if n == 4 and as_formula and on_8 < 3 else "not seen here"} | each of
  {n} ranks keeps {found_here} bytes for each parameter (section 2, picture). On 8 the last one is
  {on_8:.2f} (measured in this section) | measured: nothing, since bytes follow from numbers and
  dtypes
- [C115] ZeRO-1 has 4 Φ (4 times less), ZeRO-2 2.5 Φ (8 times), ZeRO-3 about 1 Φ (16 times) |
  web page, “ZeRO Stages” | contradicts itself | three numbers of ranks in one list: stage 2 keeps
  {on_28:.2f} Φ on 28 ranks, {16 / on_28:.1f} times less, and stage 3 {on_16:.2f} Φ on 16 (measured
  in this section). 4 Φ is the limit for very many ranks (formula, section 2) | measured: nothing,
  since bytes are counted from numbers and dtypes. What a GPU needs beside its states comes on top
- [C116] 4P + 12P/N, 2P + 14P/N, 16P/N | CS 229S, “ZeRO” |
  {"right" if as_formula else "not seen here"} | each of {n} ranks keeps {found_here} bytes for
  each parameter (section 2, picture). In the stages, {max(off):g} bytes of Adam's counters are
  all that the formula lacks (section 2, table) | measured: nothing for the states; activations,
  gathered units and buffers come on top
- [C135] Memory: stage 1 needs more than 2, 2 more than 3 | web note, “Deepspeed ZeRO Data
  Parallel” | {"right" if falls else "not seen here"}, between backward and step | DDP and stages 1
  to 3 keep {found_here} bytes for each parameter (section 2, picture). If activations make the
  peak, it is the same in stages 1 and 2: {total["kept, stage 1"] / 1e6:.2f} and
  {total["kept, stage 2"] / 1e6:.2f} MB (section 3, picture) | measured: nothing for the states;
  where activations make the peak, stages 1 and 2 are expected to be equal on GPUs, too
"""

# %% jupyter={"source_hidden": true}
# The table.
put_to_the_test(surprises, more=f"""
- [C120] ZeRO-3 reduces memory 8 times | book chapter, “Memory Comparison” |
  {"right for 8 ranks" if abs(times_8 - 8) < 0.05 else "not seen here"} | of model states, N
  times: {here["DDP"]:.3g} bytes become {here["stage 3"]:.3g} on {n} ranks (section 2, picture), and
  {times_8:.2f} times less on 8 (measured in this section). Activations and gathered units come on
  top | measured: nothing for the states; a GPU's whole memory shrinks less
- [C124] Each stage saves (N-1)/N of what it splits; stage 2 has a reduce-scatter in place of the
  all-reduce | book chapter, “ZeRO: Zero Redundancy Optimizer” |
  {"right" if saves and sent["stage 2"] < 1.05 * sent["DDP"] else "not seen here"} | each of
  {n} ranks keeps {own["stage 1"]} of {pairs["stage 1"][1] / 1e6:.2f} MB of optimizer state in stage
  1, {own["stage 2"]} of {pairs["stage 2"][1] / 1e3:.2f} kB of gradients in stage 2, and as much of
  the parameters in stage 3 (section 1, picture). For a moment there is more: stage 2 has
  {in_float32["stage 2"]["step"].peak_bytes[0]["gradients"] / 4 / model:.2f} models of gradients at
  most. With a reduce-scatter and an all-gather it sends {sent["stage 2"]:.2f} models, DDP with an
  all-reduce {sent["DDP"]:.2f} (section 1, table) | measured: nothing in the shares; how much there
  is for a moment depends on an engine's buckets
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Data Parallelism Deep Dive*
# (book chapter); *CS 229S, lecture 8* (Stanford); a web note on types of distributed training.
#
# **To read on.** Rajbhandari et al. 2020, [ZeRO](https://arxiv.org/abs/1910.02054). Pascanu et al.
# 2013, [clipping by the norm](https://arxiv.org/abs/1211.5063).

# %% [markdown]
# ## What you have learnt
#
# * In mixed precision a rank keeps 4 + 12/n bytes for each parameter in stage 1, 2 + 14/n in stage
#   2, and 16/n in stage 3. You have measured it to the byte.
# * **Stage 2 lowers the peak** where the gradients make it: with recomputation, or small
#   micro-batches beside a large model.
# * **Clipping** needs the norm of the whole: sum the squares over all ranks, take the root once.
# * Any optimizer wrapper that takes a list of parameters works with every stage, as long as it
#   treats each number by itself or, like clipping, asks the other ranks.
#
# **Your exercise** stands in [labs/composing.py](../labs/composing.py).
#
# **Next**: {{next}}.

# %%
progress("06e")
