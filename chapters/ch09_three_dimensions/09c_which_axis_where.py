# %% [markdown]
# # {{title}}
#
# **Two machines, a slow network between them, and three axes: which one may use the network?** The
# result of the training is the same for every order of the axes. The time is not. Here you compute
# what each axis sends, try all six orders, and read the command lines of real clusters.

# %% [markdown]
# ![Bars of six orders of the axes: bytes that leave a machine in one step, by formula as an
# outline, and filled as the operating system counted them. Two orders have high bars, two lower
# ones, two the lowest](../assets/covers/09c_which_axis_where.png)
#
# *Measured in section 3: bytes that leave a machine in one step, for each order of the axes. The
# first axis uses the network.*
#
# **After this part you can** say what each axis sends and how often, choose the order of ranks, and
# check a command line for a cluster before it costs anything.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from collections import Counter
from itertools import permutations

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Machines, Table, check, compare_rounds, hint, lab, launch, plot_bars, plot_traffic, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
width = 64
context = 64
card_megabytes_per_second = 10.0

# %% [markdown]
# ## 1 · What each axis sends
#
# Take one rank of a mesh, and one step. Three numbers decide how many bytes it sends:
#
# * $A$, the bytes of the activations between two layers, for all samples of this rank's copy of the
#   model: samples × context × width × 4 bytes in float32.
# * $L$, the number of transformer blocks of its stage.
# * $P$, the bytes of the parameters that the rank has.
#
# The chapters before have measured what follows from them:
#
# | axis | what travels | a rank sends |
# |---|---|---|
# | tp | in each block 2 all-reduces of $A$ forward, 2 backward | $4 L \cdot 2\frac{tp-1}{tp} A$ |
# | pp | activations to the next stage, their gradients to the one before | $A$ to each |
# | dp | an all-reduce of the gradients | $2\frac{dp-1}{dp} P$ |

# %% [markdown]
# ### Exercise {{sent_bytes_of_axes}} · Bytes sent along each axis
#
# Write `sent_bytes`. It gets `sizes`, a dict with the number of ranks along "dp", "pp" and "tp";
# `stage`, the number of this rank's stage, from 0 on; and the three numbers of above:
# `activation_bytes`, `blocks` and `parameter_bytes`. It returns a dict with the bytes that this
# rank sends along "dp", "pp" and "tp" in one step, by the table. The first stage has nobody before
# it, and the last one nobody after it.
#
# For sizes dp 2, pp 2, tp 2, stage 0, an $A$ of 100 bytes, 3 blocks and a $P$ of 1,000 bytes, it is
# `{"dp": 1000, "pp": 100, "tp": 1200}`.

# %%
def sent_bytes(sizes, stage, activation_bytes, blocks, parameter_bytes):
    ### BEGIN SOLUTION
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    neighbours = (stage > 0) + (stage < pp - 1)
    return {
        "dp": 2 * (dp - 1) / dp * parameter_bytes,
        "pp": neighbours * activation_bytes,
        "tp": 4 * blocks * 2 * (tp - 1) / tp * activation_bytes,
    }
    ### END SOLUTION

check("{{sent_bytes_of_axes}}", sent_bytes)

# %% [markdown]
# Now the measurement. Which axis sends most in the model of this chapter, and by how much?

# %%
tp_over_dp = predict("Bytes sent along tp, as a multiple of those along dp", unit="times")

# %%
three_dimensions, meshes = lab("three_dimensions"), lab("meshes")
text = lab("language_model").standard_library(100_000)
sizes, blocks, samples = {"dp": 2, "pp": 2, "tp": 2}, 4, 16

def one_step(three_dimensions, sizes, text, width, context, samples, memory=True):
    of_model = {"width": width, "context": context, "layers": blocks, "tied": False}
    return three_dimensions.one_step(sizes, text, 4, samples, memory, **of_model)

run = launch(one_step, three_dimensions, sizes, text, width, context, samples, world_size=8,
             device="cpu")
measured = {axis: sum(map(sum, run["step"].traffic(axis))) for axis in sizes}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
a, p = samples / 2 * context * width * 4, sum(run.values) / 8
# Of all eight ranks. Beside the blocks: one all-reduce behind the embedding, one before the output.
theory = {"tp": 8 * (4 * blocks / 2 + 1) * a, "pp": 8 * a, "dp": 8 * p}
tp_over_dp.compare(theory["tp"] / theory["dp"], measured["tp"] / measured["dp"],
                   kind="communication")

# %% tags=["nbval-ignore-output"]
calls = Counter(call.group for call in run["step"].calls[0])
Table(["axis", "by formula", "measured", "calls of rank 0"],
      [[axis, f"{theory[axis] / 1e6:.2f} MB", f"{measured[axis] / 1e6:.2f} MB", calls[axis]]
       for axis in ("tp", "pp", "dp")], title="One step, sent by all ranks")

# %% [markdown]
# The formula here has one all-reduce of $A$ more than the table, for each stage of this small
# model: the first stage has the embedding, the last one the output. In a model with many blocks
# these two do not matter. The measured bytes are a little more: each message has a header, and the
# loss needs two small all-reduces.
#
# The last column is how often rank 0 talks. It talks along tp in every layer of every micro-batch,
# along pp twice for each micro-batch, along dp once a step. The number of calls counts beside the
# bytes, because each call costs a latency.

# %% [markdown]
# Which axis sends most depends on the model and the batch. What dp sends depends on the parameters,
# what tp and pp send on the batch. With half the batch, tp and pp send half as much, and dp sends
# the same. With twice the width, dp sends about four times as much, and tp twice as much.

# %% [markdown]
# ## 2 · Which bytes leave a machine?
#
# Ranks are numbered machine by machine. With two machines of four ranks, 0 to 3 are on machine 0.
# Write the axes from the slowest to the fastest. In the order dp pp tp, the dp groups are [0, 4],
# [1, 5], and so on: each of them is on two machines. In the order tp pp dp, the tp groups are
# [0, 4], [1, 5], and so on.

# %% [markdown]
# ### Exercise {{leaving_bytes}} · Mesh bytes leaving each machine
#
# Write `leaving_bytes`. It gets `sizes`, a dict whose last axis changes fastest; `per_machine`, how
# many ranks each machine has; and `sent`, a dict with the bytes that each rank sends along each
# axis. It returns a list with the bytes that leave each machine, machine 0 first.
#
# Every member of a group sends its bytes to the *next* one in the group's list, and the last one to
# the first, as in a ring. Only what goes to a rank of another machine counts.
# `meshes.groups_along(axis, sizes)` gives the groups: exercise {{groups_along}}.
#
# For sizes `{"dp": 2, "tp": 2}`, 2 ranks on each machine, and `{"dp": 10, "tp": 300}`, each rank
# sends 10 bytes to the other machine and 300 inside: `[20, 20]`. For the order
# `{"tp": 2, "dp": 2}` it is `[600, 600]`.

# %%
def leaving_bytes(sizes, per_machine, sent):
    ### BEGIN SOLUTION
    ranks_of_all = meshes.groups_along(tuple(sizes), sizes)[0]
    totals = [0] * (len(ranks_of_all) // per_machine)
    for axis in sizes:
        for ranks in meshes.groups_along(axis, sizes):
            for rank, following in zip(ranks, ranks[1:] + ranks[:1]):
                if rank // per_machine != following // per_machine:
                    totals[rank // per_machine] += sent[axis]
    return totals
    ### END SOLUTION

check("{{leaving_bytes}}", leaving_bytes)

# %% [markdown]
# ## 3 · All six orders
#
# Three axes have six orders. Each is tried on two machines whose cards carry 10 MB/s, with the same
# model and the same batch. How much worse is the worst order?

# %%
worse = predict("Bytes that leave a machine: the worst order, beside the best one", unit="times")

# %%
machines = Machines.here(2, bytes_per_second=card_megabytes_per_second * 1e6)
orders = {" ".join(order): dict.fromkeys(order, 2) for order in permutations(sizes)}
runs = {order: launch(one_step, three_dimensions, on, text, width, context, samples, False,
                      world_size=8, machines=machines, device="cpu")
        for order, on in orders.items()}

# %%
def leaves_machine(run):
    """What the ranks 0 to 3 have sent to the ranks 4 to 7, whatever carried it."""
    return sum(sent for row in run["step"].traffic()[:4] for sent in row[4:])

def predict_crossing_bytes(on):
    """From the first axis: each of the four ranks sends to its partner on the other machine."""
    return theory[next(iter(on))] / 2

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
measured_leaving = {order: leaves_machine(run) for order, run in runs.items()}
formula_leaving = {order: predict_crossing_bytes(on) for order, on in orders.items()}
worse.compare(max(formula_leaving.values()) / min(formula_leaving.values()),
              max(measured_leaving.values()) / min(measured_leaving.values()),
              kind="communication")

# %% tags=["cover", "nbval-ignore-output"]
plot_bars(list(orders), {"measured": [measured_leaving[o] / 1e6 for o in orders]},
          "leaves machine 0 (MB)",
          predicted={"measured": [formula_leaving[o] / 1e6 for o in orders]},
          title="Six orders of the axes, slowest axis first")

# %% tags=["nbval-ignore-output"]
Table(["order", "leaves a machine", "its card alone needs", "the step took"],
      [[order, f"{measured_leaving[order] / 1e6:.2f} MB",
        f"{1e3 * measured_leaving[order] / (card_megabytes_per_second * 1e6):.0f} ms",
        f"{1e3 * max(run['step'].seconds):.0f} ms"] for order, run in runs.items()],
      title="Slowest axis first")

# %% [markdown]
# Only the first axis decides here how many bytes leave a machine. Its length is the number of
# machines, so its groups, and no others, are on two machines. With tp in front, most bytes leave a
# machine, and the next layer waits for each of these calls. Where the card alone needs only a small
# part of the step, as it should with pp or dp in front, the order with fewest bytes need not be the
# fastest one: compare the last two columns.
#
# Two pictures of the same training follow: the order that sends least, and the one that sends most.
# Shaded fields are machines. The area of each square is what one rank sends to another one.

# %% tags=["nbval-ignore-output"]
best, worst = (pick(measured_leaving, key=measured_leaving.get) for pick in (min, max))
plot_traffic(runs[best], "step", list(sizes), title=f"Order {best}")

# %% tags=["nbval-ignore-output"]
plot_traffic(runs[worst], "step", list(sizes), title=f"Order {worst}")

# %% [markdown]
# Whether dp or pp sends less depends on sizes: pp sends $A$ to each neighbour, dp between $P$ and
# $2P$. So compare a batch with a model. Here is a large model: 70 billion parameters on tp 8 × pp 4
# × dp 2, 1,024 samples of 4,096 tokens in a step, width 8,192, 80 blocks, in bfloat16.

# %%
large = {"A": 512 * 4096 * 8192 * 2, "P": 70e9 / (8 * 4) * 2}  # bytes; 512 samples for each copy
sent_large = {"tp": 4 * 20 * 2 * 7 / 8 * large["A"], "pp": 2 * large["A"],
              "dp": 2 * 1 / 2 * large["P"]}
Table(["axis", "one GPU sends in a step", "at 50 GB/s", "at 0.125 GB/s"],
      [[axis, f"{nbytes / 1e9:,.1f} GB", f"{nbytes / 50e9:,.2f} s", f"{nbytes / 0.125e9:,.0f} s"]
       for axis, nbytes in sent_large.items()],
      title="By the formulas of section 1, for a stage in the middle")

# %% [markdown]
# 50 GB/s is a network card of 400 Gb/s for each GPU, 0.125 GB/s one of 1 Gb/s. Along tp even 50
# GB/s would cost more than a minute and a half in each step: this traffic belongs on the links
# inside of a machine. Along dp fewest bytes travel. One source says that **"DP works over a network
# of any bandwidth"**. That is true only beside the other axes: over 1 Gb/s the gradients alone take
# half a minute, and twice that if they are in float32.

# %% [markdown]
# Bytes are not everything. What pp sends is spread over the whole step, and can travel while other
# micro-batches are computed. What dp sends comes at the end, unless it is hidden behind the
# backward (03c). And an engine may send less than these formulas say: with Megatron-LM's
# scatter/gather, each rank along tp sends only its part of $A$ to the next stage, says [its
# paper](https://arxiv.org/abs/2104.04473).

# %% [markdown]
# The rule of many texts is *TP inside a machine, PP across machines, DP anywhere*. Our measurement
# supports its first part. For PP and DP it says: compare $A$ and $P$.
#
# **On GPUs.** Inside of a machine NVLink carries many times as much as a network card (02g, 07g).
# This was not measured here.

# %% [markdown]
# ## 4 · Command lines
#
# One of our sources shows how to train "Llama 70B on 64 H100" with Megatron-LM. This is its command
# line. (The source calls the program `train.py`; in Megatron-LM it is `pretrain_gpt.py`.)
#
# ```
# python train.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4
#     --data-parallel-size 2 --micro-batch-size 1 --global-batch-size 1024
#     --num-layers 80 --hidden-size 8192 --num-attention-heads 64
# ```
#
# A wrong number in such a line costs 64 GPUs for as long as it takes to fail. So check it first.

# %% [markdown]
# ### Exercise {{derive}} · Derive the remaining parallel sizes
#
# Write `derive(arguments, world_size)`. `arguments` is a dict with the whole numbers `"tp"`,
# `"pp"`, `"micro_batch"` (samples of a micro-batch), `"global_batch"` (samples of a step),
# `"layers"` and `"heads"`. It returns a dict with four whole numbers:
#
# * `"dp"`: how many copies of the model the world has room for;
# * `"layers"`: how many each stage gets;
# * `"heads"`: how many each rank along tp gets;
# * `"microbatches"`: how many each copy goes through in one step.
#
# If one of these four is no whole number, it raises a `ValueError`. For tp 8, pp 4, micro-batch 1,
# global batch 1024, 80 layers, 64 heads and 64 ranks, the result is dp 2, 20 layers, 8 heads and
# 512 micro-batches.

# %%
def derive(arguments, world_size):
    ### BEGIN SOLUTION
    def share(total, parts, what):
        if total % parts:
            raise ValueError(f"{total} {what} cannot be divided by {parts}")
        return total // parts

    dp = share(world_size, arguments["tp"] * arguments["pp"], "ranks")
    return {
        "dp": dp,
        "layers": share(arguments["layers"], arguments["pp"], "layers"),
        "heads": share(arguments["heads"], arguments["tp"], "heads"),
        "microbatches": share(arguments["global_batch"], arguments["micro_batch"] * dp, "samples"),
    }
    ### END SOLUTION

check("{{derive}}", derive)

# %% [markdown]
# So the sizes of that line fit. But Megatron-LM has no option `--data-parallel-size`: it derives
# this number, as you did. The program has to be started with `torchrun` on every machine. And the
# model is not Llama: it would have no grouped-query attention, and an MLP of another shape. How
# large would it be?

# %% [markdown]
# ### Exercise {{llama_parameters}} · Parameters of a Llama model
#
# Write `llama_parameters(layers, width, heads, kv_heads, hidden, vocabulary)`: how many parameters
# a model of the Llama family has. Nothing has a bias.
#
# * Attention: the queries and the output each have a matrix width × width. Keys and values each
#   have a matrix width × (kv_heads × width / heads), as several heads of queries share one of keys.
# * The MLP has three matrices width × hidden.
# * Each block has two norms of width numbers; one more norm follows the last block.
# * The embedding and the output each have a matrix vocabulary × width; they are not tied.
#
# With 1 layer, width 4, 2 heads, 1 head of keys, hidden 8, vocabulary 10: attention
# $16 + 16 + 8 + 8$, MLP $96$, norms $8 + 4$, embedding and output $80$: together 236.

# %%
def llama_parameters(layers, width, heads, kv_heads, hidden, vocabulary):
    ### BEGIN SOLUTION
    attention = 2 * width**2 + 2 * width * kv_heads * (width // heads)
    block = attention + 3 * width * hidden + 2 * width
    return layers * block + width + 2 * vocabulary * width
    ### END SOLUTION

check("{{llama_parameters}}", llama_parameters)

# %%
llama_2_70b = llama_parameters(80, 8192, 64, 8, 28672, 32000)
as_in_the_line = 12 * 80 * 8192**2  # blocks with 4 × width in the MLP, and as many keys as queries
told = f"{llama_2_70b / 1e9:.2f}" if llama_2_70b else "more"  # until you have written the function
Table(["", "parameters"],
      [["Llama 2 70B, by its published shape", f"{told} billion"],
       ["what the line describes", f"{as_in_the_line / 1e9:.2f} billion"]])

# %% [markdown]
# The second number leaves out the embedding and the output: the line says nothing of a vocabulary.
#
# For Llama 2 70B the line also needs `--group-query-attention --num-query-groups 8`,
# `--ffn-hidden-size 28672`, `--swiglu`, `--seq-length 4096`, `--normalization RMSNorm`,
# `--untie-embeddings-and-output-weights`, `--disable-bias-linear`, and rotary positions.
#
# Here is a mesh of the same lengths, 8 × 4 × 2, in three engines. The names are those of their
# documentation in 2025; none was run here. (torchtitan gave up its TOML in February 2026: 10e.)
#
# | | Megatron-LM | torchtitan, `[parallelism]` | DeepSpeed |
# |---|---|---|---|
# | tp 8 | `--tensor-model-parallel-size 8` | `tensor_parallel_degree = 8` | `num_mp=8` |
# | pp 4 | `--pipeline-model-parallel-size 4` | `pipeline_parallel_degree = 4` | `num_pp=4` |
# | dp 2 | derived | `data_parallel_shard_degree = 2` | `num_dp=2` |
#
# The names in the last column are arguments of `PipeModelDataParallelTopology(…)`, which numbers
# the ranks. It cuts no layer: layers that are cut along tp come from another library. torchtitan's
# copies are sharded as by FSDP: beside tp or pp it refuses `data_parallel_replicate_degree` alone,
# says its source.

# %% [markdown]
# Which order of axes do these engines have? DeepSpeed's topology has the axes pipe, data, model.
# The last one changes fastest, so the ranks of a tp group (model) are neighbours. Megatron-LM has
# an option for the order. Its default is `tp-cp-ep-dp-pp`, fastest axis *first*. Read such a list
# twice: both directions are in use.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# PyTorch's profiler beside steps with dp across machines, on cards of this rate and of a tenth.
def profile_step(three_dimensions, quiet, on, text, width, context, samples):
    """Of each of two steps: its seconds on this rank, and of what is in it, by name."""
    model = three_dimensions.whole_model(width=width, context=context, layers=blocks, tied=False)
    mesh, found = three_dimensions.Mesh(on, three_dimensions.JOINT), []
    engine = three_dimensions.ThreeDimensions(model, mesh, 4, three_dimensions.adam)
    batch = three_dimensions.draw_batch(text, samples, 0, context)
    engine.step(*batch)  # opens connections
    engine.set_watch(torch.profiler.record_function)
    for _ in range(2):
        dist.barrier()
        with quiet(), torch.profiler.profile() as seen, torch.profiler.record_function("step"):
            engine.step(*batch)
        found.append({event.key: event.cpu_time_total / 1e6 for event in seen.key_averages()})
    return found

rates = [card_megabytes_per_second * 1e6, card_megabytes_per_second * 1e5]
quiet = lab("collectives_measured").suppress_output
profiles = {rate: [] for rate in rates}
for rate in rates * 2:  # in turns
    profiles[rate] += launch(
        profile_step, three_dimensions, quiet, orders["dp pp tp"], text, width, context, samples,
        world_size=8, machines=Machines.here(2, bytes_per_second=rate), device="cpu").values[0]
fast, slow = (min(of_rate, key=lambda seconds: seconds["step"]) for of_rate in profiles.values())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
is_tp_worst = worst.split()[0] == "tp"
talks = calls["tp"] > calls["pp"] > calls["dp"]
dp = "average over dp"
of_dp = [[seconds[dp] for seconds in profiles[rate]] for rate in reversed(rates)]
is_slower = machines and compare_rounds(*of_dp).low > 2
network = ("imprecise" if is_slower else "not refuted") if machines else "not tested"
surprises = f"""
- [C192] TP communicates very often, PP less, DP rarely | web page, “Communication Hierarchy” |
  {"right" if talks else "not here"} | rank 0 of 2 × 2 × 2 made {calls["tp"]} calls along
  tp, {calls["pp"]} along pp and {calls["dp"]} along dp in a step (section 1, table) | measured:
  nothing, since the program makes these calls. Sequence parallelism makes more of them along tp
  (part 07e)
- Use TP within nodes, PP across nodes, DP anywhere | web page |
  {"right" if is_tp_worst else "not here"} for tp; else it depends | of six orders, those with tp
  across the network sent most; whether pp or dp sends less depends on batch and model (section 3)
- [C191] The best interconnect for DP is a network of any bandwidth | web page, “Communication
  Hierarchy” | {network} | it works, at a price: over cards of {rates[1] / 1e6:g} MB/s the average
  took {slow[dp]:.2f} s of a step of {slow["step"]:.2f} s, over {rates[0] / 1e6:g} MB/s
  {fast[dp]:.2f} of {fast["step"]:.2f} s (the shortest of four steps each, profiled in turns in this
  section). With 70B parameters on 8 × 4 × 2 GPUs, each sends {sent_large["dp"] / 1e9:.1f} GB in a
  step (calculated: section 3, table) | measured: how much it costs. With overlap, as in DDP over
  NCCL, the backward is expected to hide a part
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
sums = slow["gloo:all_reduce"] / slow["step"]
products = sum(slow.get(name, 0) for name in ("aten::mm", "aten::addmm")) / slow["step"]
put_to_the_test(surprises + f"""
- [C201] Profile with Nsight Systems, to see whether computing or communication is the limit, before
  adding parallelism | web page, “Best Practices” | not tested | it needs a GPU, and was not run.
  PyTorch's profiler shows what a step waits for: over cards of {rates[1] / 1e6:g} MB/s, rank 0
  spent {sums:.0%} of it in all-reduces, waiting included, and {products:.1%} in products of
  matrices (a profile in this section) | documented: Nsight Systems shows a program's kernels on a
  time line, says NVIDIA's documentation. Whether to look first is advice, which no run decided
- Llama 70B on 64 H100: a command line with --data-parallel-size 2 | web page | wrong | dp is
  derived; and the line describes a model of {as_in_the_line / 1e9:.1f} billion parameters, where
  Llama 2 70B has {told} (section 4)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page). Touvron et al. 2023, *Llama 2*
# ([arXiv](https://arxiv.org/abs/2307.09288)). Documentation of
# [Megatron-LM](https://docs.nvidia.com/megatron-core/developer-guide/latest/),
# [torchtitan](https://github.com/pytorch/torchtitan) and
# [DeepSpeed](https://deepspeed.readthedocs.io/en/latest/pipeline.html).

# %% [markdown]
# ## What you have learnt
#
# * Along **tp** and **pp** the batch decides what is sent, along **dp** the parameters.
# * Along tp a rank talks in every layer, along pp for every micro-batch, along dp **once a step**.
# * The groups of the **first axis** of the order cross machines. If this axis is shorter than the
#   number of machines, the groups of the second one do, too. Do not put tp there. Between dp and
#   pp, compare the bytes of a batch's activations with those of a rank's parameters. Where both are
#   few, time the step.
# * **Check a command line** by arithmetic: dp is what is left, and everything has to divide.
#
# **Your exercises** stand in the cells above.
#
# **Next**: {{next}}.

# %%
progress("09c")
