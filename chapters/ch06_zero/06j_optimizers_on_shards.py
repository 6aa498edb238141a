# %% [markdown]
# # {{title}}
#
# **Adam can step on any shard, and Muon needs a whole matrix. How does Muon run where every rank
# holds only some rows?** There are four ways, and they differ in what they send and compute, and
# one of them takes another step. You write the way that lets each rank work on its own matrices,
# and repair a LARS whose ranks disagree about a norm.

# %% [markdown]
# ![Bars for seven optimizers: how far steps on each rank's rows alone are from the steps of one
# process. SGD and Adam are at zero, Adafactor, LARS and LAMB differ by some percent, Muon by about
# half](../assets/covers/06j_optimizers_on_shards.png)
#
# *Measured in section 1: three steps of seven optimizers, on a matrix whose rows lie on two and on
# three ranks.*
#
# **After this part you can** say for an optimizer what it has to communicate on shards, run Muon
# under ZeRO-1, FSDP2 and tensor parallelism, and say what each way costs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
from torch.distributed.tensor import distribute_tensor

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, predict, progress,
)

# %% tags=["parameters"]
world_size = 4
steps = 100

# %%
muon, measured, pieces = lab("muon_on_shards"), lab("muon_measured"), lab("muon_pieces")
ratios, remainders = lab("trust_ratios"), lab("weight_remainders")
text = lab("language_model").standard_library(200_000)

# %% [markdown]
# ## 1 · What does the step of one number depend on?
#
# ZeRO and FSDP2 give each rank a shard of every parameter, together with the optimizer state for
# it. That needs no further message only if a number's step depends on nothing but this number's
# gradients. Part [05h](05h_optimizers_for_matrices.ipynb) cut a matrix for three optimizers. Here
# are seven, on real ranks: each rank steps three times on its rows of a (128, 32) matrix as if they
# were the whole, and you compare with one process.

# %% tags=["cover", "nbval-ignore-output"]
apart = {f"{n} ranks": measured.shares_apart(
    launch(measured.changes_on_shards, text, world_size=n)) for n in (2, 3)}
for name in apart["2 ranks"]:
    print(f"{name:23}", *(f"{n}: {of[name]:6.1%}  " for n, of in apart.items()))
plot_bars([name.removesuffix(" in blocks") for name in apart["2 ranks"]],
          {n: [100 * share for share in of.values()] for n, of in apart.items()},
          "distance from one process (%)", title="Three steps on each rank's rows alone")

# %% [markdown]
# | a number's step depends on | optimizer | on shards it needs |
# |---|---|---|
# | its own gradients | SGD, Adam | nothing |
# | its block of 256 numbers | Adam in 8 bits | cuts between blocks |
# | its row, its column and three numbers of the matrix | Adafactor | a sum per column, and three |
# | its layer's norm | LARS, LAMB | two sums per layer |
# | its whole matrix | Muon | the matrix, or sums of products |
#
# The 8-bit row depends on the number of ranks: half of this matrix is a whole number of blocks, and
# a third of it is not. Adafactor's three numbers are the mean of its rows' squares and the root
# mean squares of the weight and of the step, because PyTorch's makes steps relative to the weight
# and clips them. No error shows any of these differences.

# %% [markdown]
# ## 2 · Which numbers are one matrix?
#
# Muon makes the singular values of a *matrix* nearly equal, so you have to decide first what counts
# as one. The fused layer of an attention computes queries, keys and values with one weight, whose
# rows belong to three matrices, or to three matrices per head. For one gradient of the small
# transformer, the directions of these choices are far apart:

# %% tags=["nbval-ignore-output"]
for what, share in launch(pieces.directions_apart, text, world_size=1).values[0].items():
    if not what.startswith("blockwise"):
        print(f"{what:8}: {share:.0%} from the direction with Q, K and V apart")
for rank, found in enumerate(launch(pieces.heads_on_ranks, text, world_size=2).values):
    print(f"rank {rank}, its heads alone: {found['heads']:.0%} from one process with a matrix per "
          f"head,\n  {found['Q, K, V']:.0%} from one process with Q, K and V apart")

# %% [markdown]
# PyTorch's Muon takes the fused matrix without complaint. (The course's `MuonAndAdam` of part 05h
# refuses it.) Section 5 asks which choice trains better.
#
# With one matrix **per head** there is a bonus. Tensor parallelism (chapter 07) gives whole heads
# to each rank, so ranks send nothing and still take the step of one process: the last lines.
#
# ## 3 · Four ways to step on a cut matrix
#
# Everything else is cut. FSDP2 gives each rank some rows of every weight, and so does a
# column-parallel layer of tensor parallelism. (A row-parallel layer has columns on each rank, which
# is the same for the transposed matrix.) The momentum needs no other number, so it stays in shards.
# Then there are four ways to make the momentum orthogonal:

# %% [markdown]
# * **Blockwise.** Each rank treats its rows as a matrix, and scales their step by their shape.
#   Nothing is sent, and it is another step.
# * **Duplicated.** An all-gather gives all matrices to all ranks, each rank computes all of them,
#   and keeps its rows.
# * **By owner.** Each matrix is gathered on one rank, its owner, which computes and sends every
#   rank its rows. The work is shared.
# * **Summed Gram matrices.** Newton-Schulz needs $X$ only in $X^T X$ and in products of $X$ with
#   it. If ranks have rows $X_r$, then $X^T X = \sum_r X_r^T X_r$. So each round is an all-reduce of
#   a small matrix, and the large one never travels.

# %% [markdown]
# By owner, the step takes as long as its busiest rank does, so deal the matrices out well.
#
# ### Exercise {{deal_matrices}} · Balance matrices over ranks by their cost
#
# Write `deal_matrices(shapes, n)`. `shapes` is a list of pairs (rows, columns), and `n` the number
# of ranks. The function returns a list with the owner of each matrix, a rank from 0 to n − 1, in
# the order of `shapes`.
#
# With $s$ the shorter and $l$ the longer side, a matrix costs $4\,l\,s^2 + 2\,s^3$: the FLOPs of
# one round of Newton-Schulz. Give out the most expensive matrix first; equally expensive ones keep
# the order of the list. Each goes to the rank that has the lowest total cost so far, and to the
# first of several such ranks.

# %% [markdown]
# For example, `deal_matrices([(1, 1), (1, 3), (2, 1)], 2)` has the costs 6, 14 and 10. Matrix 1
# goes to rank 0, then matrix 2 to rank 1, which has nothing so far, and matrix 0 to rank 1 as well,
# because 10 is less than 14. It returns `[1, 0, 1]`, on every rank alike.

# %%
def deal_matrices(shapes, n):
    ### BEGIN SOLUTION
    costs, loads, owners = [], [0] * n, [0] * len(shapes)
    for shape in shapes:
        short, long = sorted(shape)
        costs.append(4 * long * short**2 + 2 * short**3)
    order = sorted(range(len(shapes)), key=lambda k: -costs[k])
    for k in order:
        owners[k] = loads.index(min(loads))
        loads[owners[k]] += costs[k]
    return owners
    ### END SOLUTION

# %%
check("{{deal_matrices}}", deal_matrices)

# %% [markdown]
# ### Exercise {{orthogonalize_by_owner}} · Orthogonalize each matrix on its owner
#
# Write `orthogonalize_by_owner(shards, owners, group=None)` in
# [labs/muon_on_shards.py](../labs/muon_on_shards.py). `shards` is a list with this rank's rows of
# each matrix, contiguous tensors of two dims. Rank 0 has the first rows, rank 1 the next, and all
# have equally many rows of a matrix. `owners` is the list of the matrices' owners, the same on all
# ranks; they are counted within the group.
#
# The function returns a list with this rank's rows of each orthogonal matrix, in the same order and
# shapes, in new tensors. `orthogonalize(matrix)` of the lab makes a whole matrix orthogonal.

# %% [markdown]
# * Only its owner orthogonalizes a matrix, and only its owner gathers it.
# * Every shard travels once to the owner, and once back, as a tensor and not as an object.
# * All gathers come first, then all computing, then all scatters, so that owners compute at the
#   same time.
#
# For example, two ranks hold the rows (3, 0) and (0, 4) of one matrix, and rank 1 owns it. Rank 1
# gathers `[[3, 0], [0, 4]]`, makes nearly `[[1, 0], [0, 1]]` of it, and sends the row (1, 0) to
# rank 0. `dist.gather` and `dist.scatter` take a rank of the group as `group_dst` and `group_src`.

# %%
check("{{orthogonalize_by_owner}}")

# %% [markdown]
# How much does each way send? Add up the bytes of all matrices of the model: the all-gather of the
# duplicated way sends $(n-1)/n$ of them from each rank, which is 0.75 on four ranks. How much is it
# by owner, on average? (The cell after the prediction takes a step for the 12 matrices of a
# transformer in each way. `device="cpu"` is there because the operating system counts the bytes.)

# %%
by_owner = predict(f"By owner on {world_size} ranks, a rank sends, in bytes of all matrices",
                   unit="times")

# %%
shapes = measured.shapes_of(measured.make_model(width=64))
runs = {way: launch(measured.try_way, way, shapes, world_size=world_size, device="cpu")
        for way in muon.WAYS}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
n = world_size
whole = 8 * sum(rows * columns for rows, columns in shapes)
by_owner.compare(2 * (n - 1) / n**2, sum(runs["by owner"]["by owner"].sent_bytes) / n / whole,
                 kind="communication")

# %% tags=["nbval-ignore-output"]
Table(["way", "formula", "measured", "formula", "counted", "in memory", "largest distance"],
      measured.rows_of_ways(runs, shapes),
      groups=[("", 1), ("sent by a rank", 2), ("FLOPs of a rank", 2), ("", 2)],
      note="bytes in those of all matrices, FLOPs in those of one process; the busiest rank's")

# %% [markdown]
# The distance is from one process in float64; "none" means less than $10^{-12}$. For matrices of
# $M$ numbers in all, with $k$ columns each, on $n$ ranks:
#
# | way | a rank sends | FLOPs of a rank | whole matrices in memory |
# |---|---|---|---|
# | blockwise | 0 | below $1/n$ | none |
# | duplicated | $\frac{n-1}{n} M$ | all | one at a time |
# | by owner | $\frac{n-1}{n}\cdot\frac{2M}{n}$ | about $1/n$ | $1/n$ of them |
# | summed Grams | $\frac{2(n-1)}{n}\sum 5\,k^2$ | may exceed one process | none |

# %% [markdown]
# By owner sends $n/2$ times less than duplicated, and computes about $n$ times less. Summed Gram
# matrices send less than duplicated only if $10\,k^2$ is less than $k$ times the rows, so for a
# matrix that is cut along a side more than ten times as long as the other. Here none is.
#
# ## 4 · FSDP2, ZeRO-1 and one process
#
# Under FSDP2, parameters, gradients and momentum are DTensors. `full_tensor()` is the all-gather of
# the duplicated way, so Muon takes a few lines. The last one cuts the step like the parameter;
# `src_data_rank=None` says that every rank already has the whole tensor. (Without it, rank 0 would
# scatter its own.)

# %%
class GatheringMuon:
    def __init__(self, matrices, rate, momentum=0.95):
        self.matrices, self.rate, self.momentum = matrices, rate, momentum
        self.speeds = [torch.zeros_like(p) for p in matrices]

    @torch.no_grad()
    def step(self):
        for p, speed in zip(self.matrices, self.speeds):
            speed.lerp_(p.grad, 1 - self.momentum)
            aim = p.grad.lerp(speed, self.momentum).full_tensor()
            step = muon.scale_of(*p.shape) * muon.orthogonalize(aim)
            p -= self.rate * distribute_tensor(step, p.device_mesh, p.placements,
                                               src_data_rank=None)

# %% [markdown]
# The lab's `ShardedMuon` does the same with each of the four ways (and refuses meshes with
# replicas, HSDP). Its `FlatMuon` is Muon with stage 1 of ZeRO (part [06](06_zero.ipynb)): a flat
# vector, cut wherever it falls, even within a row. The momentum is gathered for the step, and each
# rank orthogonalizes only the matrices of which it has a part. Three steps of a transformer on
# three ranks, where rows do not divide evenly, compared with one process in float64:

# %%
compared = (GatheringMuon, "FSDP2, duplicated", "FSDP2, by owner", "FSDP2, summed Grams",
            "ZeRO-1, flat", "FSDP2, blockwise")
of_ranks = launch(measured.gaps_of_engines, compared, text, world_size=3).values
for engine, gaps in zip(compared, zip(*of_ranks)):
    print(f"{getattr(engine, '__name__', engine):20} as one process: {max(gaps) < 1e-12}")

# %% [markdown]
# A flat vector has an advantage over rows: it cuts few matrices. How many of the 12 matrices does
# each of four ranks orthogonalize?

# %%
found = launch(measured.count_flat, text, world_size=world_size).values
print(f"{found[0][1]} of 12 matrices are cut; ranks orthogonalize "
      + ", ".join(str(count) for count, _ in found))

# %% [markdown]
# On $n$ ranks at most $n - 1$ matrices are cut. `FlatMuon` gathers the whole momentum all the same,
# which is simple, and sends $3(n-1)/n$ models per step where Adam sends $2(n-1)/n$. Gathering only
# the cut matrices would send far less.
#
# **And PyTorch's own Muon?** `torch.optim.Muon` has no line about ranks, but its products of
# DTensors communicate by themselves. One step on a matrix that is cut by rows over four ranks, in
# float32:

# %% tags=["nbval-ignore-output"]
rows = []
for shape in ((256, 64), (64, 256)):
    run = launch(measured.step_pytorchs, shape, world_size=4, device="cpu")
    cut, whole_matrix = run.values[0]
    calls = [call.name for call in run["step"].calls[0]]
    rows.append([shape, ", ".join(f"{calls.count(c)} × {c}" for c in sorted(set(calls))),
                 f"{run['step'].sent_bytes[0] / (4 * shape[0] * shape[1]):.1f}",
                 f"{cut:.1%}", f"{whole_matrix:.1%}"])
Table(["matrix", "calls", "sent by a rank, in matrices", "on DTensors", "on the whole"], rows,
      groups=[("", 3), ("distance from float64", 2)])

# %% [markdown]
# It is right as far as bfloat16 can tell, and communicates in *every* round: with this version it
# sums Gram matrices where the long side is cut, and otherwise gathers again and again. The
# duplicated way would send 0.75 matrices.

# %% [markdown]
# ## 5 · Does another matrix train worse?
#
# Blockwise is free and takes another step, as does the fused matrix. That does not mean that it
# trains worse. A small transformer trains with each choice, and each one gets the best of five
# learning rates, a factor of $\sqrt2$ apart. (One process emulates the ranks' pieces. Per head and
# blockwise on 4, the fused layer has the same pieces, since the model has four heads.)
#
# Two things change when a matrix is cut: its direction, and the factor
# $\sqrt{\max(1, \text{rows}/\text{columns})}$ by which PyTorch's Muon scales a step. The last row
# leaves the factor as it was.

# %% tags=["nbval-ignore-output"]
tried = launch(pieces.tune_rates, text, steps, world_size=3).values
rates = pieces.best_rates(tried)
raced = launch(pieces.train_ways, text, steps, rates, world_size=3).values
Table(["one matrix is", "best rate", "loss, minus that of Q, K, V", "range of seeds", "in words"],
      pieces.rows(raced, rates))

# %% [markdown]
# A loss is called higher or lower if the mean of six seeds is so by more than four standard errors:
# by chance alone in fewer than one of 20 such tables. Read the last two rows together: on four
# ranks, the tall matrix of an MLP is cut into squares, and their factor is half as large. So what
# looks like a price of blockwise directions can be one of a layer's rate.
#
# This is a tiny model after few steps: on four ranks, a piece of a square matrix has 8 rows here,
# and hundreds in a large one. The table cannot show which choice is best elsewhere.
# Megatron-Core's [default](https://docs.nvidia.com/megatron-core/developer-guide/nightly/apidocs/core/core.optimizer.optimizer_config.html)
# is blockwise; Dion's library and torchtitan gather.

# %% [markdown]
# ## 6 · A norm for each layer: LARS and LAMB
#
# In part [03l](03l_large_batches.ipynb) the rates that the linear rule gives were too large for the
# largest batches. **LARS** and **LAMB** were made for large batches: they let each layer's step be
# as long as a share of the layer's own weights,
#
# $$w \leftarrow w - \text{rate}\;\frac{\lVert w\rVert}{\lVert s\rVert}\,s,$$
#
# where $s$ is the layer's gradient (LARS, with momentum behind the ratio) or Adam's step (LAMB).
# The fraction is the **trust ratio**. It makes a step as long near a minimum as far from it, so the
# rate has to fall.

# %% [markdown]
# Take the digits of part 03l again, with a small and a large batch and five seeds. Each optimizer
# gets the best of 12 trials: six rates, each twice the one before, which stay constant or fall
# linearly to 0. Biases step without a ratio, as in many recipes.

# %% tags=["nbval-ignore-output"]
batches, digits = (128, 1024), lab("gradient_accumulation").digits()
tried = launch(ratios.tune_share, digits, batches, 12, world_size=2).values
tuned = ratios.find_best(tried, batches)
print(ratios.describe_ratios(tuned))
Table(["batch", "optimizer", "best rate", "schedule", "median loss", "its seeds"],
      ratios.rows_of(tuned))

# %% [markdown]
# The printed lines compare seed by seed, with a margin of a tenth. Here no ratio was better with
# each seed than one tuned rate for all layers, even where its median is lower. (At a constant rate
# alone, both are worse with the small batch, since their steps do not shrink.) And none brings the
# large batch near the loss of the small one: 16 steps are too few, as in 03l. This network has two
# layers. You et al. report gains for ResNet-50 and BERT with batches of about 32,000, with warm-up
# and weight decay, which were not tried here.

# %% [markdown]
# On shards, each layer needs two numbers from all ranks, so all layers together need one all-reduce
# of a few bytes. It is easily forgotten, except with DTensors, whose `norm()` is that of the whole.

# %% [markdown]
# ### Exercise {{take_lars_step}} · Debug LARS on sharded weights
#
# `take_lars_step(weights, gradients, rate, group=None)` takes one step of LARS without momentum.
# `weights` and `gradients` are lists with this rank's part of each layer, flat float64 tensors. A
# rank may have no number of a layer; its part is empty then. The ranks' parts together are the
# layer.
#
# It changes `weights` in place, by rate × trust ratio × gradient, and leaves `gradients` as they
# are. Each layer has one trust ratio, the norm of all its weights divided by the norm of all its
# gradients, or 1 where one of the two is zero. It may send two numbers per layer, in one call.

# %% [markdown]
# For example, rank 0 has the weight 3 and rank 1 the weight 4 of one layer; the gradients are 0.8
# and 0.6, and the rate is 0.1. The norms are 5 and 1, so the ratio is 5. The weights become 2.6 and
# 3.7. A colleague has written the function below; the second cell shows which ratios it takes.

# %%
def take_lars_step(weights, gradients, rate, group=None):
    pairs = list(zip(weights, gradients))
    ### BEGIN SOLUTION
    squares = torch.stack([x.square().sum() for pair in pairs for x in pair])
    dist.all_reduce(squares, group=group)
    norms = squares.sqrt().view(-1, 2)
    ### IT WAS
    # norms = torch.stack([x.norm() for pair in pairs for x in pair]).view(-1, 2)
    ### END SOLUTION
    for (w, g), (of_weight, of_gradient) in zip(pairs, norms):
        is_positive = of_weight > 0 and of_gradient > 0
        w -= rate * (of_weight / of_gradient if is_positive else 1.0) * g

# %%
found = launch(ratios.try_shards, take_lars_step, world_size=2).values
print("right ratios:", *(f"{ratio:.3f}" for ratio in ratios.right_ratios()))
for rank, (own, gap) in enumerate(found):
    print(f"rank {rank} took:", *(f"{ratio:.3f}" for ratio in own),
          f"  its weights are right: {gap < 1e-12}")

# %%
check("{{take_lars_step}}", take_lars_step)

# %% [markdown]
# ## 7 · Masters in 16 bits more
#
# Last, a state that can be cut anywhere. Mixed precision keeps a bfloat16 weight and a float32
# master (part [05b](05b_half_precision.ipynb)), and half of the master's bits are the weight's. So
# keep the other half alone, the **remainder**: 2 bytes in place of 4.
#
# Rounding makes it look difficult, because a weight may be rounded up. Read the remainder as a
# *signed* number, and it is the distance from the rounded weight:

# %%
x = torch.tensor([1.0, 1.001953125, 1.00579, -3.14159265, 1e-30])
weight, remainder = remainders.split_float32(x)
for number, w, r in zip(x.tolist(), weight.tolist(), remainder.tolist()):
    print(f"{number:12.7g} = bfloat16 {w:12.7g} and {r:6} steps of a float32")
print("joined again, the same bits:", torch.equal(remainders.join_float32(weight, remainder), x))

# %% [markdown]
# A weight and its remainder are one number. Edit the weight alone, by loading a bfloat16 checkpoint
# or an average of weights, and the next step starts from a number that nobody has chosen:

# %%
weight[2] = 2.0
print(remainders.join_float32(weight, remainder)[2].item())

# %% [markdown]
# So after an edit, set the remainder to 0.
#
# Adam trains a bfloat16 transformer with masters, with remainders, and with remainders and both
# means in bfloat16 (rounded to the nearest, as in part [05c](05c_smaller_optimizer_states.ipynb)).
# For half as many steps as in section 5, each way gets the best of three rates and then three new
# seeds. (Remainders take the masters' rate, because they train as masters do, to the last bit.)

# %% tags=["nbval-ignore-output"]
tried = launch(remainders.tune_rates, text, steps // 2, world_size=3).values
rates = remainders.best_rates(tried)
raced = launch(remainders.compare, text, steps // 2, rates, world_size=3).values
Table(["Adam with", "weight", "master", "means", "together", "rate", "loss for each seed",
       "next to masters"], remainders.rows_of(raced, rates),
      groups=[("", 1), ("bytes kept per parameter", 4), ("", 3)])

# %% [markdown]
# Remainders change nothing, to the last bit, and save 2 bytes of 14 per parameter. Means in
# bfloat16 save 4 more and round, so that row is a measurement of this model and these steps alone.
#
# All of this is per number, so any cut will do. What is saved depends on who keeps bfloat16 weights
# *beside* masters. In one process that is everyone. With stage 1 of ZeRO, each rank has all weights
# and $1/n$ of the masters, so a rank saves $2/n$ bytes per parameter. FSDP2's shards *are* the
# float32 masters: 4 + 8 bytes in shards, and 2 + 2 + 8 with remainders, which saves nothing.

# %% [markdown]
# > **On GPUs**, by documentation alone:
# >
# > * Moonshot trained Moonlight with Muon on [ZeRO-1 shards](https://arxiv.org/abs/2502.16982), with
# >   weight decay and steps as long as AdamW's: in
# >   [PyTorch](https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html),
# >   `weight_decay` and `adjust_lr_fn="match_rms_adamw"`. Kimi K2's
# >   [MuonClip](https://arxiv.org/abs/2507.20534) also shrinks queries and keys, per head.
# > * Megatron-Core has
# >   [blockwise, duplicated and distributed](https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.optimizer.muon.html);
# >   its distributed mode [sums Gram
# >   matrices](https://github.com/NVIDIA-NeMo/Emerging-Optimizers/blob/a045ea1aac7d3a88f4c689d6d959595cb93e06ab/emerging_optimizers/orthogonalized_optimizers/muon_utils.py).
# >   A newer [layer-sharded
# >   Muon](https://docs.nvidia.com/megatron-core/developer-guide/nightly/apidocs/core/core.optimizer.layer_sharded_muon.html)
# >   has owners.

# %% [markdown]
# > * So have [Dion's Muon](https://github.com/microsoft/dion), which can treat heads apart
# >   (`num_heads`), and [torchtitan's](https://github.com/pytorch/torchtitan/pull/4060), which packs
# >   shards into all-to-alls, and treats heads apart in its recipes for Kimi and Moonlight. [Keller
# >   Jordan's](https://github.com/KellerJordan/Muon/blob/00ba60d3a0d188993831f86e4d62597bb0e9b21c/muon.py)
# >   deals out whole matrices of replicas.
# > * FSDP2 can cut another dimension, evenly
# >   ([`shard_placement_fn`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)).
# > * Shampoo and SOAP need whole matrices, too: Meta's has
# >   [distributors](https://github.com/facebookresearch/optimizers/issues/61) for FSDP2.
# > * DeepSpeed's flat shards gave LAMB [other
# >   norms](https://github.com/deepspeedai/DeepSpeed/issues/490): the bug of section 6.
# > * Megatron-Core's precision-aware Adam keeps [remainders](https://docs.nvidia.com/megatron-core/developer-guide/nightly/apidocs/core/core.optimizer.optimizer_config.html) by default.

# %% [markdown]
# **Sources.** None of the course's five sources speaks of these optimizers on shards.
#
# **To read on.** Liu et al. 2025, [Muon is Scalable for LLM
# Training](https://arxiv.org/abs/2502.16982). Ahn et al. 2025,
# [Dion](https://arxiv.org/abs/2504.05295). You et al. 2017,
# [LARS](https://arxiv.org/abs/1708.03888); You et al. 2019,
# [LAMB](https://arxiv.org/abs/1904.00962).

# %% [markdown]
# ## What you have learnt
#
# * Ask what the step of *one number* depends on: on its own gradients, a block, a row, a layer's
#   norm, or a whole matrix. The last four communicate on shards, or become another optimizer.
# * **Muon by owner** gathers each matrix on one rank: $n/2$ times fewer bytes than gathering it
#   everywhere, and the work is shared. Balance owners by FLOPs.
# * **Blockwise** takes another step, of another length. Per head, tensor-parallel ranks need no
#   message.
# * LARS and LAMB need one all-reduce of two numbers per layer, and a rate that falls.
# * A bfloat16 weight and a 16-bit **remainder** are a float32 master, exactly.
#
# **Your exercises**: {{deal_matrices}} and {{take_lars_step}} in cells above, and
# {{orthogonalize_by_owner}} in [labs/muon_on_shards.py](../labs/muon_on_shards.py).
#
# **Next**: {{next}}.

# %%
progress("06j")
