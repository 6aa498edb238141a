# %% [markdown]
# # {{title}}
#
# **You have a model, 64 GPUs and a month. Which parallelism do you take?** There are thousands of
# plans, and each trial costs 64 GPUs. So the trials happen on paper. This part builds a *cost
# model*: the FLOPs, the bytes and the seconds of a step, for any plan. Each term of it has the form
# that an earlier chapter has measured. Its constants for GPUs come from datasheets, or are assumed.

# %% [markdown]
# ![Bars of the seconds of one step, one under the other, for the best plan of each kind, divided by
# cause: compute, recompute, tp, cp, pp, bubble, dp](../assets/covers/10_choosing_a_strategy.png)
#
# *Computed in section 5: one step of Llama 3 70B on 64 H100, under the best plan of each kind.*
#
# **After this part you can** say what a step needs, where its seconds go, what limits it, and what
# the whole training and the answers afterwards cost.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from dataclasses import replace
from math import comb

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pedagogy_lib import (
    Table, check, explore, hint, lab, plot_against, plot_causes, plot_stacks, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
model_name = "llama-3-70b"
gpus = "64xH100"
batch = 512  # samples in a step

# %% [markdown]
# ## 1 · How many plans are there?
#
# A **plan** says how many ranks each axis has (dp, tp, pp, cp), which stage of ZeRO shards the
# states, how many samples a micro-batch has, what is recomputed, and into how many chunks each
# stage is cut. In how many ways can these be combined for 64 GPUs? (Micro-batches are powers of 2
# here. Recomputed are no layers, all, half or a quarter of them. There are six numbers of chunks.)

# %%
how_many = predict("Combinations for 64 GPUs", unit="plans")

# %%
planner, cost = lab("planner"), lab("cost_model")
shapes, timing = lab("model_shapes"), lab("cost_seconds")
shape = shapes.model_named(model_name)

def count_plans(count):
    job = cost.Job(shape, shapes.gpu_named("H100"), batch)
    possible, rejected = planner.all_plans(job, count)
    return len(possible.dp) + rejected.total(), len(possible.dp)

ways = {count: count_plans(count) for count in (8, 64, 512, 1024)}

# %% jupyter={"source_hidden": true}
# Your prediction, a product, and what the planner makes, which skips chunks without a pipeline.
# The six factors 2 of 64 go to four axes.
again = 1 + len(planner.SHARES)
choices = 4 * len(planner.CHUNKS) * again * (int(np.log2(batch)) + 1)  # ZeRO, …, micro-batches
display(how_many.compare(comb(6 + 3, 3) * choices, ways[64][0], kind="other", wire="counted"))
Table(["GPUs", "combinations", "that break no rule"],
      [[count, f"{of_all:,}", f"{possible:,}"] for count, (of_all, possible) in ways.items()],
      title=f"{model_name}, {batch} samples in a step")

# %% [markdown]
# A combination breaks a rule if, for example, tp does not divide the heads, or if there are more
# stages than layers. Stages need not be equal: Llama 3 405B has 126 layers on 16 of them. There the
# two ends of the model count as a layer each. The planner leaves out ZeRO 2 and 3 in a pipeline,
# because they gather or reduce for each micro-batch.
#
# The number of plans grows more slowly than the number of GPUs. What multiplies is another kind of
# choice: stages of different length, or another sharding in each layer. Part
# [10d](10d_small_alpa.ipynb) counts those. Nobody can run all plans of this table. A cost model
# computes them in seconds.

# %% [markdown]
# ## 2 · FLOPs
#
# Begin with what a step needs, whatever the plan. Take one token and one matrix of a layer. Each
# number of the matrix costs one multiplication and one addition: 2 FLOPs, floating-point
# operations. The backward has two such products: one for the gradient of the input, one for the
# gradient of the matrix. So each number costs **6 FLOPs for each token**.
#
# Attention has two products without a matrix of weights: queries with keys, and scores with values.
# In one layer, a token's query meets every key of its sample, and each pair costs `width`
# multiplications and as many additions, in each of the two products.

# %% [markdown]
# ### Exercise {{needed_flops}} · FLOPs of forward and backward
#
# Write `needed_flops(tokens, layers, matrices, width, context, output)`: the FLOPs of forward and
# backward.
#
# * `tokens`: of a step, in whole samples.
# * `layers`: the model's blocks. `matrices`: numbers in all matrices of one block.
# * `width`: of the hidden states. `context`: tokens of a sample. Count all pairs of a query and a
#   key of it, masked ones too.
# * `output`: numbers in the output matrix, which stands once behind the last block.
#
# The embedding costs nothing: it looks rows up. With 3 tokens, 1 layer, matrices of 10 numbers,
# width 2, context 3, output 5: the matrices need $6 · 3 · (10 + 5) = 270$. A token's q·k has
# $3 · 2$ multiplications and as many additions, scores times values again: 24. Three times that
# with the backward, for 3 tokens: 216. Together 486.

# %%
def needed_flops(tokens, layers, matrices, width, context, output):
    ### BEGIN SOLUTION
    of_matrices = 6 * tokens * (layers * matrices + output)
    of_scores = 3 * tokens * layers * 2 * (2 * context * width)
    return of_matrices + of_scores
    ### END SOLUTION

check("{{needed_flops}}", needed_flops)

# %% [markdown]
# Is that what a training step really computes? PyTorch can count the FLOPs of all products while
# they run. The model is the small transformer of chapter 05, once as it is, and once with all
# blocks recomputed. By what factor does recomputation raise the FLOPs?

# %%
more_flops = predict("FLOPs of a step with full recomputation, beside one without", unit="times")

# %%
language_model, memory = lab("language_model"), lab("memory")
small = shapes.Shape(layers=4, width=64, heads=4, mlp=256, vocabulary=128, context=64)

def count_flops(recompute):
    model = language_model.Transformer(small.width, small.layers, small.heads, small.context)
    if recompute:
        memory.recompute_modules(model.blocks)
    letters = torch.zeros(8, small.context, dtype=torch.long)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        language_model.mean_loss(model(letters), letters).backward()
    return counter.get_total_flops()

counts = {recompute: count_flops(recompute) for recompute in (False, True)}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was counted.
needed = float(cost.model_flops(small, 8 * small.context))
computed = float(cost.hardware_flops(small, 8 * small.context))
display(more_flops.compare(computed / needed, counts[True] / counts[False], kind="forward",
                           wire="counted"))
Table(["", "by formula", "counted while running"],
      [["model FLOPs", f"{needed:,.0f}", f"{counts[False]:,}"],
       ["hardware FLOPs, all recomputed", f"{computed:,.0f}", f"{counts[True]:,}"]])

# %% [markdown]
# The two are not the same, and mixing them up makes a slow plan look fast:
#
# * **Model FLOPs** are what the model needs. **MFU**, model FLOPs utilization, is their share of
#   the peak of all GPUs.
# * **Hardware FLOPs** are what the hardware computes. What is recomputed counts again. **HFU** is
#   their share of the peak.
#
# Recomputing everything raises the hardware FLOPs by a third or a little less, and the model FLOPs
# not at all. So two plans are compared by MFU.
#
# By convention, model FLOPs count all pairs of a query and a key, also the masked ones. Fused
# attention skips most masked pairs, so its MFU comes out higher than what the hardware does.

# %% [markdown]
# ## 3 · The roof
#
# A GPU's datasheet says how many FLOPs it can do in a second. A kernel reaches this number only if
# its data arrive fast enough. Take a product of an n × n matrix with k columns: it needs $2 n^2 k$
# FLOPs, and reads and writes at least $n^2 + 2 n k$ numbers. With few columns, the processor waits
# for the matrix.
#
# The **intensity** of a kernel is its FLOPs for each byte. Up to some intensity, memory limits it;
# above it, computing does. Drawn over the intensity, this limit is called the **roofline**.

# %% [markdown]
# ### Exercise {{roofline_seconds}} · Kernel time by the roofline model
#
# Write `roofline_seconds(flops, nbytes, peak, bandwidth)`. A kernel does `flops` operations, and
# reads and writes `nbytes` bytes; the processor does `peak` operations a second, and its memory
# moves `bandwidth` bytes a second. Computing and moving go on at the same time. It returns two
# values: how many seconds the kernel takes at least, and what limits it, `"computing"` or
# `"memory"`. If both take as long, return `"computing"`.
#
# With a peak of 100 and a bandwidth of 2: 600 FLOPs and 10 bytes take 6 s for computing and 5 s for
# the memory, so `(6.0, "computing")`; with 20 bytes `(10.0, "memory")`.

# %%
def roofline_seconds(flops, nbytes, peak, bandwidth):
    ### BEGIN SOLUTION
    computing, memory = flops / peak, nbytes / bandwidth
    return max(computing, memory), "computing" if computing >= memory else "memory"
    ### END SOLUTION

check("{{roofline_seconds}}", roofline_seconds)

# %% [markdown]
# Here is the roofline of the processor that runs this notebook. The dots are measured products of
# one matrix with 1, 2, 4, … columns. The dashed line is the lower of two limits: the fastest
# product that was measured, and the measured bandwidth times the intensity.

# %% tags=["nbval-ignore-output"]
roofline = lab("roofline")
points = roofline.measure_products()
fastest, bandwidth = max(flops for _, flops in points), roofline.measure_bandwidth()
plot_against([intensity for intensity, _ in points],
             {"products": [flops / 1e9 for _, flops in points]},
             "FLOPs for each byte", "billion FLOPs a second", logarithmic=True,
             predicted={"products": lambda x: roofline.roof(x, fastest, bandwidth) / 1e9},
             title="The roof of this processor")

# %% [markdown]
# The roof is a limit, and no promise. Products with few columns usually stay far below it:
# libraries are written for large products, and each call takes a little time of its own.
#
# **On GPUs.** An H100 does 989.5 · 10¹² FLOPs a second in bfloat16, and moves 3.35 · 10¹² bytes a
# second, by its [datasheet](https://www.nvidia.com/en-us/data-center/h100/). So a kernel needs
# about 295 FLOPs for each byte to keep it busy. In training, thousands of tokens meet each matrix.
# By this arithmetic, its products are limited by computing, and norms and element-wise kernels by
# memory. Answering one user has one token at a time, and is limited by memory (section 7).

# %% [markdown]
# ## 4 · Memory
#
# A plan that does not fit into memory cannot run. Chapters 05, 06, 07 and 08 have measured what
# lies on a rank: states, activations, gathered parameters, and what is needed for sending. The
# cost model puts the formulas of these chapters together. Here are four plans for one model:

# %% tags=["nbval-ignore-output"]
_, gpu = planner.gpus_in(gpus)
job = cost.Job(shape, gpu, batch)
some_plans = {
    "ZeRO 3 alone": cost.Plan(dp=64, zero=3),
    "ZeRO 3, recomputed": cost.Plan(dp=64, zero=3, recompute="full"),
    "tp 8, ZeRO 1": cost.Plan(dp=8, tp=8, zero=1),
    "tp 8, pp 4, ZeRO 1": cost.Plan(dp=2, tp=8, pp=4, zero=1),
}
kinds = {name: {kind: float(x) for kind, x in cost.memory(job, plan).items()}
         for name, plan in some_plans.items()}
plot_stacks(kinds, limits={gpus.partition("x")[2]: gpu.memory},
            title=f"{model_name}, by formula")

# %% [markdown]
# "Other" is what any program needs on a GPU, assumed to be 1 GB. A micro-batch is one sample of
# 8,192 tokens. In the pipeline, the first stage keeps the activations of 4 samples at a time. The
# planner lets a plan use 93 % of a GPU's memory. The rest is for the driver, and for what is lost
# between the blocks of memory.

# %% [markdown]
# ### Exercise {{largest_micro_batch}} · The largest micro-batch that fits
#
# Write `largest_micro_batch(room, states, activations, stages, samples)`. A GPU has `room` bytes;
# the model's states take `states` of them. One sample keeps `activations` bytes on a stage.
# A pipeline of `stages` stages works under 1F1B. It gets `samples` samples in a step, cut into
# micro-batches of equal size. The first stage keeps as many micro-batches at a time as there are
# stages, or all of them if there are fewer.
#
# It returns the largest size of a micro-batch that divides `samples` and fits, or 0 if none does.
# What just fits, fits. With room 100, states 40, activations 10, 2 stages, 8 samples: size 2 keeps
# 2 micro-batches of 2 samples, and 80 fits; size 4 would keep all 8 samples. So it is 2.

# %%
def largest_micro_batch(room, states, activations, stages, samples):
    ### BEGIN SOLUTION
    def kept(size):
        return size * min(stages, samples // size)

    sizes = [size for size in range(1, samples + 1) if samples % size == 0]
    return max((s for s in sizes if states + activations * kept(s) <= room), default=0)
    ### END SOLUTION

check("{{largest_micro_batch}}", largest_micro_batch)

# %% [markdown]
# ## 5 · Seconds
#
# Chapters 03, 07 and 08 have shown where the time of a step goes. One term for each cause:
#
# | cause | of what | measured in |
# |---|---|---|
# | compute, recompute | FLOPs of a layer / (peak × share that kernels reach) | sections 2, 3 |
# | launch | what a layer takes at least, however small | 07g |
# | tp | 4 sums of activations in a layer, 6 if recomputed; nothing of it is hidden | 07 |
# | cp | keys and values go round, and their gradients | 09f |
# | ep | rows go to their experts and back, an all-to-all; part of it is hidden | 09e |
# | pp, bubble | messages for each chunk, and (stages - 1) / chunks turns of waiting | 08, 08e |
# | dp | reducing gradients, gathering parameters; only what no computing hides | 03c, 06 |
# | optimizer | bytes of the states / memory bandwidth | 05 |
# | waiting | for the slowest rank: the more ranks, the slower the slowest | 03h |
#
# Each message travels inside a machine, or through its network cards (02g).
#
# ### Exercise {{step_seconds}} · Step time from a cost model
#
# Write `step_seconds(layer, layers, stages, microbatches, all_reduce, hidden)`, a cost model.
# One layer takes `layer` seconds for one micro-batch, forward and backward together.
# The `layers` layers are shared out equally over `stages` stages; `microbatches` go through. The
# pipeline fills with `stages - 1` forwards, and empties with as many backwards: together they take
# `stages - 1` turns, where a turn is one stage's time for one micro-batch. At the end, gradients
# are summed: that takes `all_reduce` seconds, of which the share `hidden` (0 to 1) goes on while
# something is computed, and costs nothing.

# %% [markdown]
# An example: 4 layers of 1 s in 2 stages, 3 micro-batches, an all-reduce of 2 s, half of it hidden:
# a turn is 2 s, $(3 + 1)$ turns are 8 s, and 1 s of the all-reduce is left: 9 s.

# %%
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    ### BEGIN SOLUTION
    turn = layer * layers / stages
    return turn * (microbatches + stages - 1) + all_reduce * (1 - hidden)
    ### END SOLUTION

check("{{step_seconds}}", step_seconds)

# %% [markdown]
# The whole model is in [labs/cost_seconds.py](../labs/cost_seconds.py). Its constants say how well
# software uses the hardware: an **engine**. Three engines are calibrated, each on the published
# runs of one software (part [10c](10c_published_runs.ipynb)), and a fourth, which the planner takes
# unless you name your software, has the means of their numbers. None of these runs has cp, experts
# or chunks. One number for cp comes from a single run of Llama 3; no published run tests the terms
# of experts and chunks here.

# %%
fastest_of = predict("Llama 3 70B on 64 H100: MFU of the fastest plan, by the cost model",
                     unit="%")

# %%
planned = planner.plan(model_name, gpus, batch)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as "theory" what large products are assumed to reach; and the cost model.
best = planned.best(1)[0]
fastest_of.compare(100 * gpu.reach, 100 * best.mfu, kind="forward", wire="simulated")

# %% tags=["cover", "nbval-ignore-output"]
kinds_of_plans = {
    "dp and ZeRO": lambda p: (p.tp == 1) & (p.pp == 1) & (p.cp == 1),
    "with tp": lambda p: (p.tp > 1) & (p.pp == 1) & (p.cp == 1),
    "with pp": lambda p: (p.tp == 1) & (p.pp > 1) & (p.cp == 1),
    "with tp and pp": lambda p: (p.tp > 1) & (p.pp > 1) & (p.cp == 1),
    "with cp": lambda p: p.cp > 1,
}

def best_of(planned, is_one):
    """The fastest plan of a kind, or None."""
    of = np.broadcast_to(is_one(planned.possible), planned.fits.shape)[planned.ranking]
    return planned.choice(planned.ranking[of][0]) if of.any() else None

choices = [choice for is_one in kinds_of_plans.values() if (choice := best_of(planned, is_one))]
plot_causes({planner.describe_plan(choice.plan): choice.seconds for choice in choices},
            title=f"{model_name} on {gpus}: the fastest plan of each kind")

# %% [markdown]
# *Compute*, the first piece of each bar, is what the model needs. (In a pipeline it is longer: the
# last stage has the output matrix on top, and all others wait for it.) All other pieces are the
# price of a plan. ZeRO 3 alone pays mostly by recomputing: without it, one whole sample would not
# fit (section 4). tp pays with its sums, pp with its messages and its bubble.

# %% tags=["nbval-ignore-output"]
def mfu_if(reach):
    """The MFU of the fastest plan, and its mesh, if large products reach another share."""
    job = replace(planned.job, gpu=replace(planned.job.gpu, reach=reach))
    fastest = planner.PlanSearch(job, planned.gpus).best(1)[0]
    return [f"{reach:.0%}", f"{fastest.mfu:.0%}", planner.describe_plan(fastest.plan)]

Table(["large products reach", "MFU", "fastest plan"], [mfu_if(r) for r in (0.5, 0.6, 0.7)])

# %% [markdown]
# So the MFU is only as good as this one assumption. The fastest plan is the same in all three rows:
# all plans compute equally much.
#
# **On GPUs.** NVIDIA documents a recipe for this model on 64 H100,
# `llama3_70b_pretrain_64gpu_h100_bf16_config` of [Megatron
# Bridge](https://docs.nvidia.com/nemo/megatron-bridge/latest/): tp 4, pp 4, cp 2. What does the
# planner say of that mesh?

# %% tags=["nbval-ignore-output"]
of_llama = planner.plan("llama-3-70b", "64xH100", batch=512)
first = of_llama.best(1)[0]
recipe = best_of(of_llama, lambda p: (p.tp == 4) & (p.pp == 4) & (p.cp == 2))

def times_first(other, hidden=0.0):
    """Return seconds as a multiple of the first plan's, if a share of tp's sums were hidden."""
    one, of_first = (of.seconds["total"] - hidden * of.seconds["tp"] for of in (other, first))
    return one / of_first

print(f"the fastest plan of all: {planner.describe_plan(first.plan)}")
print(f"the fastest with this mesh takes {times_first(recipe):.3f} times as long")
print(f"sums along tp: {first.seconds['tp']:.1f} s in the first plan, {recipe.seconds['tp']:.1f} s "
      f"with this mesh")
print(f"if half of these were hidden: {times_first(recipe, 0.5):.3f} times")
low, high = (x / first.seconds["total"] for x in first.interval)
print(f"published runs of such plans, with software that the engine had not seen:\n"
      f"80 % took {low:.2f} to {high:.2f} times as long as predicted")

# %% [markdown]
# The last lines judge the engine by runs of software that it had not seen: each of the three was
# predicted with the means of the two others. The recipe's mesh is slower by less than such errors,
# so on paper the two are equal. Of the sums along tp this model hides nothing. The recipe hides
# some of them, because it sets `tp_comm_overlap_cfg`
# ([source](https://github.com/NVIDIA-NeMo/Megatron-Bridge), `perf_recipes`). The fourth line tells
# what hiding half of them in both plans would change. And the model does not know that smaller
# pieces of a product run less efficiently. Where plans are that close, run the first few, and then
# choose.

# %% [markdown]
# ## 6 · The planner
#
# `plan(...)` computes all plans, keeps those that fit, and sorts them. In a terminal, the same is
# `python -m pedagogy_lib plan --model llama-3-70b --gpus 64xH100 --batch 512`. There `--model` also
# takes a `config.json` of Hugging Face or a Python file that makes your model, `--cluster` a file
# that describes yours, `--software` the engine that predicts, and `--precision` products in 8 or 4
# bits.
#
# The second column says how far to trust a row: 80 % of the published runs that were predicted like
# it took between these seconds. Each plan that is left out has a reason. If it has several, the
# second table counts the first one.

# %% tags=["nbval-ignore-output"]
asked = f"{model_name} on {gpus}, {batch} samples of {shape.context:,} tokens in a step"
display(Table(planner.HEADS, [planner.row_of(choice) for choice in planned.best(8)], title=asked))
Table(["plans", "reason"],
      [[f"{count:,}", reason] for reason, count in planned.count_rejections().most_common()],
      title="What is impossible, left out, or too large")

# %% [markdown]
# Try it with other GPUs. How does the best plan change with the model, with the number of GPUs, and
# with a smaller GPU? (The next cell tells what we found.)

# %% tags=["nbval-ignore-output"]
def show_best(model, kind, count):
    try:
        planned = planner.plan(model, f"{count}x{kind}", 512)
    except ValueError as error:
        return plot_causes({"no plan fits": {}}, title=str(error).split(":")[0])
    bars = {planner.describe_plan(choice.plan): choice.seconds for choice in planned.best(6)}
    return plot_causes(bars, title=f"{model} on {count} {kind}, 512 samples in a step")

explore(show_best, model=["llama-3-8b", "llama-2-13b", "llama-3-70b", "qwen-2.5-72b"],
        kind=["H100", "A100", "A100-40GB", "H200"], count=[64, 8, 16, 32, 128, 256])

# %% [markdown]
# `llama-3-8b` has two stages on 8 H100. From 16 on it is fastest as copies with ZeRO 2. The 70B
# model fits on 32 H100, but not on 16: ZeRO 3 with everything recomputed. On 64 the first plan is
# dp 2 × tp 4 × pp 8 with nothing recomputed, and with more GPUs dp grows. On GPUs of 40 GB,
# `llama-3-8b` takes tp 2 or 4, and the 70B model on 64 of them goes back to ZeRO 3 with everything
# recomputed.

# %% [markdown]
# ### Exercise {{bill}} · The cost of a training run
#
# What does the whole training cost? A rule of thumb needs no planner: 6 FLOPs for each parameter
# and each token.
#
# Write `bill(parameters, tokens, gpus, peak, mfu, price)`: a model with so many parameters is
# trained on so many tokens, on `gpus` GPUs of `peak` FLOPs a second each, of which the share `mfu`
# becomes model FLOPs. An hour of one GPU costs `price` dollars. It returns a dict with `"days"` on
# the clock, `"gpu_hours"` of all GPUs together, and `"dollars"`.
#
# 10 parameters and 1,440 tokens need 86,400 FLOPs. Two GPUs of peak 5 with an MFU of 0.1 do 1 FLOP
# a second: 86,400 s are 1 day, 48 GPU-hours, and at 3 dollars an hour 144 dollars.

# %%
def bill(parameters, tokens, gpus, peak, mfu, price):
    ### BEGIN SOLUTION
    seconds = 6 * parameters * tokens / (gpus * peak * mfu)
    gpu_hours = gpus * seconds / 3600
    return {"days": seconds / 86400, "gpu_hours": gpu_hours, "dollars": gpu_hours * price}
    ### END SOLUTION

check("{{bill}}", bill)

# %% tags=["nbval-ignore-output"]
print(*planner.describe_training_cost(best, 15e12).split(": "), sep=":\n")
month = 30 * 86400 * best.tokens_per_second
print(f"in a month: {month / 1e9:,.0f} billion tokens")
thumb = bill(float(shape.parameters), 15e12, planned.gpus, gpu.flops, best.mfu, gpu.price)
if thumb:  # once you have written it
    print(f"by the rule of thumb: {thumb['days']:,.1f} days, {thumb['gpu_hours']:,.0f} GPU-hours")

# %% [markdown]
# Llama 3 was trained on about 15 trillion tokens: far too many for 64 GPUs and a month. The planner
# counts more than the rule of thumb, because it counts the scores of attention, too. With long
# contexts they matter. Prices of GPUs differ from one offer to another, so the dollars are only as
# good as the price that you put in.

# %% [markdown]
# ## 7 · Afterwards: answering
#
# A trained model answers. That has two phases, with different limits:
#
# * **Prefill** reads the prompt. All of its tokens go through each matrix together: computing
#   limits it, and with much tp the sums between GPUs.
# * **Decoding** writes one token after another. For each of them, *all* parameters are read, and
#   all keys and values of the text so far. Memory limits it. Several users who are answered
#   together share one reading of the parameters; each has keys and values of its own.
#
# Latent attention (MLA) keeps one vector per token and layer for all heads; tp cannot cut it. Data
# parallel attention, with the experts spread over the same GPUs (09e), can then be better, says
# [vLLM's
# documentation](https://docs.vllm.ai/en/latest/serving/data_parallel_deployment/).

# %%
decoding, serving = lab("decoding"), lab("serving")
model = language_model.Transformer(small.width, small.layers, small.heads, small.context)
kept = sum(room.nbytes for room in decoding.empty_cache(model))
by_formula = (
    float(serving.kv_cache_bytes_per_token(small)) * small.context * 4 / serving.NUMBER
)  # float32
print(f"keys and values of one text: {kept:,} bytes; by formula {by_formula:,.0f}")

# %% [markdown]
# ### Exercise {{most_users}} · How many users fit in memory?
#
# Write `most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens)`. Each of `tp` GPUs
# has `memory` bytes. The parameters, `parameter_bytes` in all, are cut into equal parts. For each
# user, each of `layers` layers keeps a key and a value for each of `tokens` tokens: for each of
# `kv_heads` heads, `size` numbers of 2 bytes. Heads are shared out over the GPUs. tp divides
# `kv_heads`, or is a multiple of it. If it is a multiple, each GPU keeps one whole head.
#
# Return how many users fit at a time. With memory 100,
# parameter_bytes 120, tp 2, 1 layer, 2 heads, size 1, 5 tokens: 40 bytes are left on each GPU, a
# user takes 2 · 1 · 1 · 1 · 5 · 2 = 20 of them: 2 users.

# %%
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    ### BEGIN SOLUTION
    heads = max(1, kv_heads // tp)
    each = 2 * layers * heads * size * tokens * 2
    return max(0, int((memory - parameter_bytes / tp) // each))
    ### END SOLUTION

check("{{most_users}}", most_users)

# %% tags=["nbval-ignore-output"]
servers = [(tp, serving.make_server(model_name, "H100", tp, users))
           for tp in (2, 4, 8) for users in (1, None)]
Table(["tp", *serving.HEADS], [[tp, *serving.row_of(server)] for tp, server in servers],
      title=f"{model_name}, prompts of 2,048 tokens and answers of 512, by the cost model")

# %% [markdown]
# With one user, most of a token's time is reading parameters. More GPUs read faster, but each token
# waits for two sums in each layer, each assumed to take at least 20 µs. So for one user, more GPUs
# are faster, and cost more for each token. With as many users as fit, a token takes longer, and
# costs far less, as all users share one reading of the parameters. Then the prompts, which are read
# one after another, are most of the price.
#
# These are computed limits, with prompts and answers of the same length for all. The table lets
# parameters, keys and values take 90 % of the memory. Software adds its own time.
#
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Verdicts come from the cells above.
slower = ways[1024][1] / ways[8][1] < 1024 / 8  # than the number of GPUs
full, tp_8 = computed / needed, serving.make_server(model_name, "H100", 8).users
of_gpu = float(serving.parameter_bytes(shape)) / 8 / 1e9
put_to_the_test(f"""
- The space of strategies grows combinatorially | lecture slides |
  {"depends" if slower else "right"} | {ways[8][1]:,} plans for 8 GPUs and
  {ways[1024][1]:,} for 1,024; only choices for each layer multiply (section 1, and 10d)
- Gradient checkpointing trades compute for memory | web page |
  {"right" if 1.2 < full <= 4 / 3 else "not here"} | {full:.2f} times the hardware FLOPs if all
  blocks are recomputed, counted while running (section 2); the model FLOPs stay
- 70B inference with TP over 8 GPUs | web page | fits, by arithmetic | {of_gpu:.1f} GB of
  parameters on each GPU, and room for {tp_8} users of 2,560 tokens (section 7); nothing was run
""")

# %% [markdown]
# **Sources.** Williams, Waterman and Patterson 2009, *Roofline*
# ([doi](https://doi.org/10.1145/1498765.1498785)). Narayanan et al. 2021
# ([arXiv](https://arxiv.org/abs/2104.04473)) for the FLOPs of a step. Korthikanti et al. 2022
# ([arXiv](https://arxiv.org/abs/2205.05198)) for activations. Chowdhery et al. 2022, *PaLM*
# ([arXiv](https://arxiv.org/abs/2204.02311)) for MFU. Pope et al. 2022
# ([arXiv](https://arxiv.org/abs/2211.05102)) for inference. Shapes and GPUs with their sources:
# [labs/model_shapes.py](../labs/model_shapes.py) and [labs/gpus.py](../labs/gpus.py).

# %% [markdown]
# ## What you have learnt
#
# * A step needs **6 FLOPs for each parameter and token**, and scores on top. Recomputation raises
#   the hardware FLOPs, not the model FLOPs.
# * A kernel is limited by **computing or by memory**; its intensity says by which.
# * A plan's cost is a **sum of few terms**. The planner computes it for all plans, and gives a
#   reason for each plan that it leaves out. Between plans that are a few percent apart, only a run
#   decides.
# * **Answering** has other limits than training: decoding reads all parameters for each token.
#
# **Your exercises** stand in the cells above.
#
# **Next**: {{next}} predicts plans, and then runs them.

# %%
progress("10")
