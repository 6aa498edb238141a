# %% [markdown]
# # {{title}}
#
# **A rank needs the mean gradient of its own part only. Why keep all the others until the step?**
# In stage 1 whole gradients wait for the step, on every rank. In stage 2 they are reduced while the
# backward goes on, and freed at once. You write stage 2, see how far the gradients fall, and learn
# when that lowers the peak of memory.

# %% [markdown]
# ![Gradients on a rank over one step. In stage 1 they grow to one model; in stage 2 they go up and
# down below half of a model](../assets/covers/06c_gradients_in_parts.png)
#
# *Measured in section 2: the bytes of gradients on rank 0, from the beginning of a step to its
# end.*
#
# **After this part you can** write stage 2 of ZeRO, say which memory it saves and when, and tell
# when a gradient is complete.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    check, explore, hint, lab, launch, plot_curves, plot_stacks, predict, progress,
)

# %% tags=["parameters"]
world_size = 4
layers = 4

# %%
zero, runs, complete = lab("zero"), lab("zero_runs"), lab("complete_gradients")
text = lab("language_model").standard_library(20_000)

# %% [markdown]
# ## 1 · Reduced as soon as it is complete
#
# A 7B model in bf16 has 14 GB of gradients. Of these, a rank of eight needs less than 2 GB in its
# step. The rest is worth saving.
#
# A backward begins with the last layer. When all gradients of a unit are there, nothing more will
# be added to them. So stage 2 reduces them at once: the rank keeps its own part of the mean, and
# frees the rest. Then the backward goes on with the unit before. Each block of the transformer is a
# unit. What is in no block is a unit, too: embeddings, last norm, last layer.

# %% [markdown]
# At which moment does a rank hold most gradients, and how much is that? In stage 1 it is one model,
# at the end of the backward. Take four ranks, and the lab's transformer with four blocks. A block
# has 23 % of the parameters, and the rest 9 %.

# %%
at_most = predict("Stage 2: gradients of a rank at most, in percent of a model", unit="%")

# %% [markdown]
# ### Exercise {{zero2}} · Write ZeRO stage 2
#
# In [labs/zero.py](../labs/zero.py), write two methods of `Zero2`, a subclass of `Zero1`.
#
# * `is_ready(unit, parameter)` is called when the gradient of `parameter`, which is in `unit`, is
#   complete. (PyTorch's hooks lead to it; section 4 tells how.)
# * `end_backward()` is called when a backward is over.
#
# Two attributes are there during a backward. `self.left` is a list of the units that are still to
# be reduced, in the order of the model; the last one comes first. `self.missing[unit]` is the set
# of its parameters whose gradients are not complete.

# %% [markdown]
# `is_ready` takes the parameter out of the set. Then it reduces, with `self.reduce(unit)`, all
# units whose turn it is and from which nothing is missing, and takes each out of `self.left`.
# `end_backward` reduces what is left, from the last unit to the first: a parameter may have had no
# part in the loss.
#
# All ranks reduce in the same order, since ranks match collectives by the order of their calls. A
# unit that is complete too early waits for its turn. Take three units, A, B and C:
#
# | complete | `self.left` before | reduced now |
# |---|---|---|
# | B | A B C | nothing: it is C's turn |
# | C | A B C | C, then B |
# | the backward ends | A | A |
#
# Every unit is reduced in each backward, also on a rank that has no gradient of it.

# %%
check("{{zero2}}")

# %% [markdown]
# Here is a step of stage 2, recorded from four real ranks. Each row is a rank, and each column a
# unit. (`rest` is what is in no block.) Colours show which parts of the parameters and of the
# gradients are there. Go through the backward: gradients of a unit come, become a shard, and are
# gone.

# %%
pictures = lab("unit_pictures")
films = launch(runs.film_step, "stage 2", text, world_size=world_size).values

def draw_units(frame):
    return pictures.plot_units(films, frame)

explore(draw_units, frame=list(range(1, len(films[0].frames) + 1)))

# %% [markdown]
# ## 2 · How much does it save?
#
# Now the lab's transformer, with both stages. The picture shows only the gradients: whole ones and
# shards together. (`device="cpu"` stands here because the operating system counts the bytes that
# are sent.)

# %%
of_stage = {stage: launch(runs.training, stage, text, layers, world_size=world_size, device="cpu")
            for stage in ("stage 1", "stage 2")}

# %% tags=["cover", "nbval-ignore-output"]
plot_curves({f"rank 0 of {world_size}": {stage: runs.course_of(run, "gradients")
                                          for stage, run in of_stage.items()}},
            "changes of memory so far (%)", "gradients (models)",
            title="Gradients on a rank, from the beginning of a step to its end")

# %% jupyter={"source_hidden": true}
# Your prediction, theory (one block, the rest, and shards of the other blocks), and measured.
n, units = world_size, of_stage["stage 2"].values[0]["units"]
model_bytes = of_stage["stage 2"].values[0]["model"]
most = of_stage["stage 2"]["step"].peak_bytes[0]["gradients"]
rest, *blocks = units
others = sum(units) - rest - blocks[-1]
at_most.compare(100 * (rest + max(blocks) + others / n) / model_bytes, 100 * most / model_bytes,
                kind="gradients")

# %%
for stage, run in of_stage.items():
    peak = run["step"].peak_bytes[0]["gradients"] / run.values[0]["model"]
    sent = runs.count_models_sent(run)
    print(f"{stage}: gradients at most {peak:.2f} models; sent {sent:.2f} models")

# %% [markdown]
# Theory counts the last moment before a reduction: the block next to the input and the rest are
# whole, and the other blocks are shards. Measured is less, since the embeddings' gradients come
# after this block's: of the rest, only the last norm and the last layer have gradients then. With 4
# blocks that is much of the model. With 80 blocks, two units are little, and the gradients come
# close to $1/n$ of a model.
#
# What is sent is the same as in stage 1: each unit's gradients are reduced once, and its parameters
# are gathered once. (With several micro-batches stage 2 reduces after each of them. Part
# [06f](06f_who_pays_when.ipynb) has the bill.)

# %% [markdown]
# ## 3 · When does the peak fall?
#
# Memory has to be large enough for the peak of a step. So stage 2 helps only if gradients
# are there at this moment. When is that? Two trainings, both in both stages:
#
# * with 16 samples, 4 on each rank, and all activations kept,
# * with 4 samples, 1 on each rank, and each block recomputed in the backward
#   (part [05f](05f_computed_twice.ipynb)).
#
# For which of them is the peak of stage 2 lower than that of stage 1?

# %% tags=["nbval-ignore-output"]
small = {stage: launch(runs.training, stage, text, layers, 2, 4, True, world_size=world_size,
                       device="cpu") for stage in of_stage}
at_peak = {f"{stage}, {how}": run["step"].at_peak[0]
           for how, pair in {"16 samples": of_stage, "4 samples, recomputed": small}.items()
           for stage, run in pair.items()}
plot_stacks(at_peak, title=f"Rank 0 of {world_size} at the peak of its step")

# %% [markdown]
# In the two bars on the left, the peak is where the forward ends. Activations fill the memory, and
# there are no gradients yet. Stage 2 does not lower this peak at all. In the two bars on the right
# there are few activations, and the peak comes when most gradients are there. So stage 2 lowers it.
#
# Which case is yours? Take a 7B model in bf16, with recomputation, and a sequence of 4,096 tokens.
# By the table of part [05e](05e_a_large_vocabulary.ipynb), the inputs of its blocks and the loss
# take about 3 GB. Gradients take 14 GB. Then the peak is at the end of the backward, and stage 2
# saves most of these 14 GB.

# %% [markdown]
# > **On GPUs** three things differ.
# >
# > * Memory that a tensor has freed stays with PyTorch's allocator, and `nvidia-smi` still counts
# >   it. `torch.cuda.memory_allocated()` tells what tensors use, says the
# >   [documentation](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management).
# > * Engines do not wait for the reduction: it runs beside the backward (part
# >   [06f](06f_who_pays_when.ipynb)). So the gradients of one or two units more are there.
# > * DeepSpeed reduces buckets of `reduce_bucket_size` numbers in place of units: by default 500
# >   million, which is 1 GB in bf16
# >   ([its configuration](https://www.deepspeed.ai/docs/config-json/)).

# %% [markdown]
# ## 4 · When is a gradient complete?
#
# Stage 2 frees a gradient in the middle of the backward. If something is added to it later, that is
# lost. When is a gradient complete? Autograd calls a parameter's hook when it has added to `.grad`.
# In a plain backward that happens once, even for a weight that is used twice: autograd waits for
# both uses.
#
# Recomputation can change that. Here two layers share a weight. The lab runs them in three ways,
# and notes the norm of the weight's gradient whenever its hook is called. (The **norm** is the
# square root of the sum of the squares of all numbers.)

# %%
for way in complete.WAYS:
    told = ", then ".join(f"{share:.0%}" for share in complete.portions(way))
    print(f"{way}: {told} of the whole gradient's norm")

# %% [markdown]
# The **reentrant** way, like your `Recomputed` of chapter 05, runs a backward of its own inside of
# the outer backward. Each of these inner backwards adds its portion by itself. So the hook is
# called twice, and the first time the gradient is not complete. (PyTorch recommends
# `use_reentrant=False`, the third way. It has no inner backward.)
#
# What happens if an engine takes the first portion for all of it? `Hasty` does. The model has three
# recomputed layers, of which two are the same module.

# %%
for kind in (runs.Hasty, zero.Zero2):
    gap = launch(runs.gap_with_recomputation, kind, world_size=2).values[0]
    print(f"{kind.__name__}: as one process, but for rounding: {gap < 1e-12}")

# %% [markdown]
# `Zero2` counts the calls of each unit's module, in
# [complete_gradients](../labs/complete_gradients.py). A unit is complete when the backward has gone
# through all of these calls. Until then `is_ready` is not called, whatever the hooks say. So stage
# 2 and recomputation work together. In the reentrant way, all ranks have to use each recomputed
# unit equally often, because it may be reduced once for each use.
#
# The lesson holds for every engine: a hook says that a gradient has *grown*. Whether it is complete
# depends on who else will add to it.

# %% [markdown]
# ### Exercise {{reduce_and_free}} · Debug gradient memory in stage 2
#
# This is one reduction of stage 2. `reduce_and_free(parameters)` is called on all ranks after a
# backward. Every parameter has a gradient. It returns this rank's part of the mean gradient, flat:
# gradients one after another, zeros at the end until $n$ divides the length, cut into $n$ equal
# parts, of which rank $k$ gets part $k$.

# %% [markdown]
# Afterwards no parameter has a gradient: `.grad` is None. And nothing stays in memory except the
# returned part, which keeps its own bytes alive and no more. (What is sent does not matter here.
# The parameters do not change.)
#
# For example, gradients [2, 4] and [6] on rank 0, [0, 0] and [2] on rank 1: the mean is [1, 2, 4].
# Rank 0 gets [1, 2], and rank 1 gets [4, 0].
#
# The numbers are right. The memory is as in stage 1. The second cell shows how many bytes the
# returned part keeps alive on two ranks, and which gradients are left. Find two bugs.

# %%
def reduce_and_free(parameters):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
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

# %%
def what_is_left(reduce_and_free):
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (2, 1)]
    for p, values in zip(parameters, ([2.0, 4.0], [6.0])):
        p.grad = torch.tensor(values)
    part = reduce_and_free(parameters)
    alive = part.untyped_storage().nbytes()
    return f"{part.tolist()}, {part.nbytes} bytes, keeps {alive} alive; gradients left: " \
           f"{[p.grad.tolist() for p in parameters if p.grad is not None]}"

print(*launch(what_is_left, reduce_and_free, world_size=2).values, sep="\n")

# %%
check("{{reduce_and_free}}", reduce_and_free)

# %% [markdown]
# **To read on.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020, section 5.2.
# PyTorch on [the two ways of
# checkpointing](https://docs.pytorch.org/docs/stable/checkpoint.html).

# %% [markdown]
# ## What you have learnt
#
# * Stage 2 reduces a unit's gradients when they are complete, from the last unit to the first, and
#   frees them. A rank then holds a unit or two, and shards.
# * It sends as much as stage 1. It lowers the peak of memory where gradients make the peak: with
#   recomputation and small batches.
# * A hook says that a gradient has grown. With reentrant recomputation it may grow in several
#   portions, and an engine has to wait for the last one.
# * A view keeps the whole memory behind it alive, and a gradient of zeros is as large as any other.
#
# **Your exercises**: {{reduce_and_free}} stands in a cell above, and {{zero2}} in [labs/zero.py](../labs/zero.py).
#
# **Next**: {{next}}.

# %%
progress("06c")
