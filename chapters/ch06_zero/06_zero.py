# %% [markdown]
# # {{title}}
#
# **Eight GPUs with DDP hold the same optimizer state eight times. What if each held an eighth?**
# Then each GPU could update only an eighth of the model. That is enough, if the GPUs tell each
# other what they have updated. This idea is stage 1 of **ZeRO**, the *zero redundancy optimizer*.
# You write it here. Stage 2 follows in [06c](06c_gradients_in_parts.ipynb), and stage 3, which
# PyTorch calls FSDP, in [06d](06d_parameters_in_parts.ipynb).

# %% [markdown]
# ![Two stacked bars. Under DDP a rank holds parameters, gradients and the whole optimizer state; in
# stage 1 the optimizer state is a quarter of that](../assets/covers/06_zero.png)
#
# *Measured in section 4 on four ranks: what a rank holds between the backward and the step.*
#
# **After this part you can** write stage 1 of ZeRO, and predict what a rank keeps and what it
# sends.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    check, explore, hint, lab, launch, plot_stacks, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
layers = 4
steps = 3

# %%
zero, runs = lab("zero"), lab("zero_runs")
text = lab("language_model").standard_library(20_000)

# %% [markdown]
# ## 1 · The same thing on every rank
#
# Parameters, gradients and optimizer state together are the **model states**. Those of a 7B model
# need 112 GB in mixed precision (chapter 05). DDP puts all of them on every GPU, and a GPU of 80 GB
# has no room for them. So look first at what is there more than once. DDP trains the small
# transformer with Adam on four ranks. What does each rank hold after the backward, before the
# optimizer's step? (Activations are gone by then.)
#
# (`device="cpu"` stands in this chapter where the operating system counts the bytes. With GPUs, all
# other cells run on NCCL.)

# %%
ddp = launch(runs.training, "DDP", text, layers, steps, world_size=world_size, device="cpu")
held = [runs.states_in(peak) for peak in ddp["after the backward"].peak_bytes]
plot_stacks({f"rank {rank}": stack for rank, stack in enumerate(held)},
            title="Model states under DDP")

# %% [markdown]
# All bars are equally high. Their contents are equal, too: chapter 03 has compared the weights.
#
# One copy for all ranks would do. ZeRO cuts a kind of state into as many parts as there are ranks,
# and each rank keeps one part. The part of a rank is its **shard**.
#
# * Stage 1 shards the optimizer state.
# * Stage 2 shards the gradients as well.
# * Stage 3 shards the parameters as well.

# %% [markdown]
# Here everything is in float32. A parameter has 4 bytes, its gradient 4, and Adam keeps 8 bytes for
# it. Stage 1 shards only the last 8. How much of DDP's model states does a rank keep then?

# %%
share = predict(f"Stage 1 on {world_size} ranks: model states of a rank, in percent of DDP's",
                unit="%")

# %% [markdown]
# ## 2 · On how many GPUs does it fit?
#
# In mixed precision a parameter has 2 bytes, its gradient 2, and the optimizer keeps 12: a copy of
# the parameter in float32, and Adam's two numbers (part
# [05b](05b_half_precision.ipynb)). Let the model have Φ parameters, on $N$ ranks. Then a rank
# keeps
#
# | stage | bytes of model states | for very many ranks |
# |---|---|---|
# | DDP | 16 Φ | 16 Φ |
# | 1 | 4 Φ + 12 Φ/N | 4 Φ |
# | 2 | 2 Φ + 14 Φ/N | 2 Φ |
# | 3 | 16 Φ/N | nothing |

# %% [markdown]
# Move the controls. You have 70 billion parameters. Which stage do 8 GPUs with 80 GB need, and
# which stage do 64 of them need? What changes with GPUs of 141 GB? And what if there is no float32
# copy, so that the bytes are 2 + 2 + 8?

# %%
counted = {"2 + 2 + 12 (ZeRO paper)": (2, 2, 12), "2 + 2 + 8 (no copy)": (2, 2, 8),
           "4 + 4 + 8 (float32)": (4, 4, 8), "2 + 4 + 12 (Megatron-LM)": (2, 4, 12)}

def draw(billions, n, each):
    return plot_stacks(runs.stages_by_formula(billions * 1e9, n, counted[each]),
                       limits={"A100, H100 80 GB": 80e9, "H200 141 GB": 141e9},
                       title=f"Model states of a rank: {billions} billion parameters, {n} ranks")

explore(draw, billions=[70, 0.124, 1.5, 7.5, 13, 175, 1000], n=[8, 1, 2, 4, 16, 64, 256, 1024],
        each=list(counted), labels={"billions": "parameters (billions)", "n": "ranks",
                                    "each": "bytes for each parameter"})

# %% [markdown]
# <details><summary>What you can see there</summary>
#
# On 8 ranks, stage 3 keeps 140 GB. So no stage is enough for 8 GPUs of 80 GB, and of 141 GB hardly
# anything is left. On 64 ranks stage 3 keeps 17.5 GB, and fits. Stages 1 and 2 keep more than 140
# GB with any number of ranks, because every rank has all parameters. Without the copy, stage 3 on 8
# ranks keeps 105 GB. (These are model states alone. Activations and what is gathered come on top.)
#
# </details>

# %% [markdown]
# ### Exercise {{bytes_of_rank}} · Model-state bytes per ZeRO stage
#
# Write `bytes_of_rank(parameters, n, stage, each=(2, 2, 12))`: what each of `n` ranks keeps of a
# model with so many parameters. `stage` is 0 (DDP), 1, 2 or 3. `each` are the bytes for one
# parameter: of itself, of its gradient, of its optimizer state. Return a dict with the keys
# `"parameters"`, `"gradients"` and `"optimizer_state"`. Each value is a number of bytes.
#
# What is sharded is **padded**: zeros are added until every rank has equally many numbers. What is
# not sharded is not padded.
#
# For example, 10 parameters on 4 ranks in stage 1, with `each` (2, 2, 12): a shard has 3 numbers.
# The result is 20, 20 and 36 bytes.

# %%
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    """{"parameters": bytes, "gradients": bytes, "optimizer_state": bytes} that a rank keeps.

    stage  0 is DDP
    each   bytes for one parameter: of itself, of its gradient, of its optimizer state
    """
    ### BEGIN SOLUTION
    shard = -(-parameters // n)
    kinds = ("parameters", "gradients", "optimizer_state")
    is_split = (stage >= 3, stage >= 2, stage >= 1)
    return {kind: size * (shard if split else parameters)
            for kind, size, split in zip(kinds, each, is_split)}
    ### END SOLUTION

# %%
check("{{bytes_of_rank}}", bytes_of_rank)

# %% [markdown]
# ## 3 · One long vector
#
# Which part of the model should a rank update? Adam makes the decision easy. It treats each number
# by itself: the new value of a parameter depends on its own gradient, and on its own two numbers of
# state. So the parameters may be cut anywhere, even in the middle of a matrix. (Some optimizers do
# not allow that, such as Muon of part [05h](05h_optimizers_for_matrices.ipynb). Part
# [06b](06b_whole_tensors.ipynb) deals with them.)
#
# This is how ZeRO cuts. All parameters are made **flat**: one after another in one long vector,
# with zeros at its end until $N$ divides its length. Then the vector is cut into $N$ equal parts.
# With two ranks and the parameters [1, 2, 3] and [4, 5]:
#
# | | rank 0's shard | rank 1's shard |
# |---|---|---|
# | flat vector | 1 2 3 | 4 5 0 |

# %% [markdown]
# A large model gets several such vectors, for instance one for each block. Parameters that share a
# flat vector are a **unit**. They are sent together.

# %% [markdown]
# ### Exercise {{flatten_padded}} · Flatten and pad tensors
#
# In [labs/zero.py](../labs/zero.py), write `flatten_padded(tensors, n)`. `tensors` is a list of one
# or more tensors of any shapes, with the same dtype, on the same device. Return a new tensor of one
# dimension: the numbers of all tensors, one tensor after another, each read row by row. Then come
# zeros until `n` divides the length, and no more zeros than are needed. The result has the dtype
# and the device of the tensors, and shares no memory with them. The tensors and the list stay as
# they are.
#
# `flatten_padded([torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([5.])], 3)` is
# [1, 2, 3, 4, 5, 0].

# %%
check("{{flatten_padded}}")

# %% [markdown]
# ## 4 · Half an all-reduce, twice
#
# To update its shard, a rank needs the mean gradient *of this shard* over all ranks. DDP's
# all-reduce gives it the mean of all numbers, which is more than it needs. A **reduce-scatter**
# gives rank k the sum of part k alone, and sends half as much.
#
# After the optimizer's step, each rank has new numbers in its own shard only. All ranks need all of
# them for the next forward. An **all-gather** does that: the other half. You wrote both in chapter
# 02, as rings. In PyTorch, two calls work on flat vectors:

# %%
reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)

def both_halves(length):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = torch.arange(1.0, length + 1) * 10**rank  # this rank's gradients
    shard, everything = torch.empty(length // n), torch.empty(length)
    reduce_scatter(shard, flat)  # the sum of part `rank`
    all_gather(everything, -shard)  # all parts, one after another
    return shard.tolist(), everything.tolist()

for rank, (shard, everything) in enumerate(launch(both_halves, 4, world_size=2).values):
    print(f"rank {rank}: reduce-scatter {shard}, then all-gather {everything}")

# %% [markdown]
# (PyTorch 2.13 calls them `reduce_scatter_single` and `all_gather_single`. Older versions have the
# names `reduce_scatter_tensor` and `all_gather_into_tensor`, which you will meet in most code.)
#
# > **On GPUs** these calls are NCCL's `ncclReduceScatter` and `ncclAllGather` ([its
# > documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/collectives.html)).
# > Over Gloo, PyTorch's reduce-scatter sends as much as a whole all-reduce, as part
# > [02d](02d_bytes_of_all.ipynb) has measured. That is why the lab takes your own rings.
#
# So stage 1 sends a reduce-scatter of the gradients and an all-gather of the parameters. How much
# is that on four ranks, as a multiple of the model's bytes?

# %%
models = predict(f"Stage 1: a rank of {world_size} sends in a step", unit="models")

# %% [markdown]
# ### Exercise {{reduce_gradients}} · Reduce gradients into shards
#
# In [labs/zero.py](../labs/zero.py), write `reduce_gradients(unit)`. The class `Unit` stands there:
#
# * `unit.parameters` is a list. Each `.grad` is this rank's gradient, or None if the parameter had
#   no part in the loss. None counts as zeros: `gradients_of(unit)` returns a list of flat
#   gradients.
# * `unit.shard` is a parameter of one dimension: this rank's part of the unit. The optimizer steps
#   on it. `unit.rank`, `unit.n` and `unit.group` tell the rank, the number of ranks and the group.
#
# Afterwards `unit.shard.grad` is this rank's part of the *mean* gradient. If there was a
# `unit.shard.grad` already, the new part is added to it. No parameter of the unit has a gradient
# any more. Nothing else stays in memory: no flat vector of gradients.

# %% [markdown]
# Use `reduce_scatter_ring(chunks, group)` of chapter 02: it takes a list of n tensors, and leaves
# the sum of chunk k on rank k, in place. A rank may send $\frac{n-1}{n}$ of the unit's bytes. Every
# rank calls it, whatever gradients it has.
#
# For example, two ranks, and a unit with one parameter of three numbers. Its gradient is [2, 4, 6]
# on rank 0 and [4, 4, 4] on rank 1. The mean is [3, 4, 5]. It is padded to [3, 4, 5, 0]. Rank 0
# gets [3, 4], and rank 1 gets [5, 0]. After the same call with the same gradients again, rank 0 has
# [6, 8].

# %% [markdown]
# ### Exercise {{zero1}} · Write ZeRO stage 1
#
# In [labs/zero.py](../labs/zero.py), write two methods of `Zero1`. `self.units` is a dict whose
# values are the units. `self.optimizer` steps on their shards. A shard is a view into `unit.flat`,
# and so are the parameters: when the optimizer changes a shard, this rank's part of the model has
# changed.
#
# * `update()` is called when the shards have their gradients. It takes one step of the optimizer.
#   Then all ranks get all new numbers: `all_gather_ring(unit.chunks, unit.group)` of chapter 02,
#   where `unit.chunks` is `unit.flat` cut into n views. No shard has a gradient afterwards (None,
#   not zeros).
# * `step()` is called after one or more backwards, which have added to the `.grad` of the
#   parameters. It reduces all units, and calls `update()`.

# %% [markdown]
# All ranks go through the units in the same order. A step may send $2\frac{n-1}{n}$ of the model,
# and an `update()` half of that. The optimizer's state never travels.
#
# For example, two ranks, SGD with rate 1, and one parameter [10, 20]. The gradients are [2, 2] and
# [4, 6], so the mean is [3, 4]. Rank 0 updates its shard to [7], and rank 1 to [16]. After the
# all-gather both have [7, 16].

# %%
display(check("{{reduce_gradients}}"), check("{{zero1}}"))

# %%
stage_1 = launch(runs.training, "stage 1", text, layers, steps, world_size=world_size,
                 device="cpu")
for name, run in {"DDP": ddp, "stage 1": stage_1}.items():
    print(f"{name} sends {runs.count_models_sent(run):.2f} models in a step")

# %% jupyter={"source_hidden": true}
# Your two predictions, theory, and what was measured.
both = {name: runs.states_in(run["after the backward"].peak_bytes[0])
        for name, run in {"DDP": ddp, "stage 1": stage_1}.items()}
held = [sum(stack.values()) for stack in both.values()]
display(share.compare(100 * (8 + 8 / world_size) / 16, 100 * held[1] / held[0]),
        models.compare(2 * (world_size - 1) / world_size, runs.count_models_sent(stage_1),
                       kind="communication"))

# %% tags=["cover"]
model_bytes = stage_1.values[0]["model"]
formula = runs.stages_by_formula(model_bytes / 4, world_size)
plot_stacks(both, {name: formula[name] for name in both},
            title=f"What each of {world_size} ranks holds before the step")

# %% [markdown]
# Less memory, and the same bytes on the wire. Is the result right as well? Five steps in float64 on
# all ranks, beside one process that has the whole batch:

# %%
equal = launch(runs.equals_one_process, "stage 1", text, world_size=world_size).values
print(f"{world_size} ranks equal one process, but for rounding: {all(equal)}")

# %% [markdown]
# ## 5 · Who works less, and who waits
#
# Forward and backward are computed as under DDP. The optimizer's step is shared out: a rank runs
# Adam for its shard only.

# %%
for name, run in {"DDP": ddp, "stage 1": stage_1}.items():
    print(f"{name}: the optimizer of rank 0 updates {run.values[0]['updated']:,} numbers")

# %% [markdown]
# A step of stage 1 may still take longer than one of DDP. DDP's all-reduce runs while the backward
# goes on (part [03c](03c_inside_ddp.ipynb)). The reduce-scatter of your class begins after it. The
# engines of [06h](06h_sharding_engines.ipynb) begin earlier.
#
# Some texts say that stage 1 gathers optimizer states before the step. It does not. The state of a
# shard stays on its rank from the first step to the last. What is gathered are parameters. Look at
# the bytes: reduce-scatter and all-gather already account for all that is sent. Adam's states would
# add two models times $\frac{n-1}{n}$.

# %%
n = world_size
print(f"sent: {runs.count_models_sent(stage_1):.2f} models")
print(f"reduce-scatter and all-gather of a model: {2 * (n - 1) / n:.2f}")
print(f"with an all-gather of Adam's states it would be {4 * (n - 1) / n:.2f}")

# %% [markdown]
# More ranks help stage 1 less and less, since parameters and gradients stay whole. Here are one,
# two and four ranks, measured:

# %%
on_ranks = {ranks: launch(runs.training, "stage 1", text, layers, world_size=ranks, device="cpu")
            for ranks in (1, 2)} | {world_size: stage_1}
of_ranks = {ranks: sum(runs.states_in(run["after the backward"].peak_bytes[0]).values())
            for ranks, run in on_ranks.items()}
for ranks, kept in of_ranks.items():
    print(f"ranks: {ranks}, model states of each: {kept / model_bytes:.2f} models")

# %% [markdown]
# ## Put to the test
#
# What our sources say about stage 1, and what was found.

# %% jupyter={"source_hidden": true}
# Figures for the statements below.
def measure_both_halves(zero, runs, text):
    from pedagogy_lib import measure
    model = runs.Transformer(layers=layers)
    engine = zero.Zero1(model, runs.ADAM, list(model.blocks))
    inputs, targets = runs.share_of_rank(runs.draw_batch(text, 16, 0))
    runs.mean_loss(model(inputs), targets).backward()
    with measure("gradients", memory=False):
        for unit in engine.units.values():
            zero.reduce_gradients(unit)
    with measure("parameters", memory=False):
        engine.update()  # the optimizer's step, and what comes after it

apart = launch(measure_both_halves, zero, runs, text, world_size=world_size, device="cpu")
reduced, gathered = (apart[what].sent_bytes[0] / model_bytes for what in apart.labels)
stage_3 = {ranks: launch(runs.training, "stage 3", text, layers, world_size=ranks, device="cpu")
           for ranks in (2, world_size)}
sharded = {ranks: sum(runs.states_in(run["after the backward"].peak_bytes[0]).values())
           / model_bytes for ranks, run in stage_3.items()}
sent, sent_ddp = runs.count_models_sent(stage_1), runs.count_models_sent(ddp)
updated, of_all = stage_1.values[0]["updated"], ddp.values[0]["updated"]

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
halves = 2 * (n - 1) / n
gathers = "wrong" if sent < 1.25 * halves else "right"
surprises = f"""
- [C122] ZeRO-1 gathers the optimizer states | book chapter, “ZeRO-1: Shard Optimizer States”; blog,
  “DeepSpeed Zero” | {gathers} | our stage 1 sends {sent:.2f} models. Gradients and parameters alone
  are {halves:.2f}; with Adam's states it would be {2 * halves:.2f} (section 5, run). PyTorch's and
  DeepSpeed's stage 1 gather no states either (calls in part 06h, sections 1 and 4) | measured:
  nothing in what is gathered; how many bytes NCCL sends for it depends on its algorithm
- [C131] ZeRO-1 is cheap since optimizer states are rarely accessed | web page, “Communication
  Tradeoff” | {"wrong" if gathers == "wrong" else "right"} reason | each step reads and writes the
  states of all numbers of a rank's part: {updated:,} (section 5, run). It is cheap since it sends
  the two halves of an all-reduce: {sent:.2f} models, DDP {sent_ddp:.2f} (section 4, run) |
  measured: nothing in the reason; how much of the sending is hidden behind computing may differ
"""

# %% jupyter={"source_hidden": true}
# The table.
put_to_the_test(surprises + f"""
- [C142] ZeRO splits the storage, not the computation | handwritten notes, “Zero Redundancy
  Optimizer” | {"imprecise" if updated < of_all else "right"} | true of forward and backward, which
  run as under DDP. But the optimizer's step is split: a rank updates {updated:,} of {of_all:,}
  numbers (section 5, run) | measured: nothing, since the part follows from the method
""", more=f"""
- [C123] At the end of the step, the updated parameters are gathered | CS 229S, “ZeRO” |
  {"right" if all(equal) and gathered > 0.45 * halves else "not seen"} | our stage 1 sends
  {reduced:.2f} models of gradients, and {gathered:.2f} of parameters from the optimizer's step on
  (measured in this section). Then {world_size} ranks equal one process: {all(equal)} (section 4,
  run). Stage 3 gathers before it computes (part 06d) | measured: nothing in the method. PyTorch's
  ZeroRedundancyOptimizer broadcasts each part in place of a gather, by its source on GPUs too
- [C143] Nearly linear memory savings | handwritten notes, “Zero Redundancy Optimizer” |
  {"depends" if of_ranks[2] > 1.2 * sharded[2] * model_bytes else "not seen"} | on the stage. On
  {", ".join(map(str, of_ranks))} ranks stage 1 keeps
  {", ".join(f"{kept / model_bytes:.2f}" for kept in of_ranks.values())} models (section 5, run).
  Stage 3 keeps {", ".join(f"{kept:.2f} on {ranks}" for ranks, kept in sharded.items())} ranks, in
  proportion (measured in this section) | measured: nothing for model states. Activations are not
  split, so a GPU's whole memory shrinks less
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Data Parallelism Deep Dive*
# (book chapter); *CS 229S, lecture 8* (Stanford); *The Evolution of Data Parallelism* (blog);
# handwritten notes.
#
# **To read on.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020: section 5.1 is
# stage 1, and section 7 counts what is sent.

# %% [markdown]
# ## What you have learnt
#
# * Under DDP every rank keeps the same model states. ZeRO's stages 1, 2 and 3 **shard** optimizer
#   state, gradients and parameters, one kind after another.
# * Parameters of a **unit** lie in one flat vector, padded and cut into equal parts. That works for
#   optimizers that treat each number by itself.
# * Stage 1 is a reduce-scatter, a step of each rank on its own shard, and an all-gather. It sends
#   as much as DDP, and equals one process.
# * Its memory cannot fall below parameters and gradients: 4 of 16 bytes in mixed precision.
#
# **Your exercises**: {{bytes_of_rank}} stands in a cell above. The others are in
# [labs/zero.py](../labs/zero.py).
#
# **Next**: {{next}}.

# %%
progress("06")
