# %% [markdown]
# # {{title}}
#
# **Nobody trains with an engine of three hundred lines. Do the engines that people use do the same
# as yours?** You put PyTorch's and DeepSpeed's engines beside your stages: the same model, the same
# steps, the same ranks. You compare what a rank keeps and what it sends, and find a surprise. Then
# you see why PyTorch wrote its FSDP a second time.

# %% [markdown]
# ![What a rank sends in a step with DDP, the three stages by hand, and the engines that people use:
# FSDP2 sends more than the same calls by textbook](../assets/covers/06h_sharding_engines.png)
#
# *Measured in section 1, over Gloo: what a rank sends in a step. Outlines: the same calls by
# textbook.*
#
# **After this part you can** say what FSDP2 and DeepSpeed keep and send, read the names of their
# strategies, and say what a flat parameter cannot do.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import json
import textwrap

from pedagogy_lib import (
    RankError, Table, close, lab, launch, plot_bars, predict, progress, put_to_the_test,
    relative_gap, rounding,
)

# %% tags=["parameters"]
world_size = 4
steps = 5

# %%
engines, compared, flat = lab("sharding_engines"), lab("engines_compared"), lab("flat_parameters")
text = lab("language_model").standard_library(200_000)

# %% [markdown]
# ## 1 · One training, eight engines
#
# * `DDP` you know. `ZeroRedundancyOptimizer` is PyTorch's stage 1.
# * `fully_shard` is **FSDP2**, PyTorch's stage 3. Each block is a unit, and what is in no block,
#   the **root**, is one more. With `reshard_after_forward=False` the parameters stay gathered from
#   the forward to the end of the backward (the row *kept gathered*): more memory, and one
#   all-gather less.
# * On a mesh of 2 × 2 ranks, FSDP2 is *hybrid* (**HSDP**): the row *2 halves*. Parameters are split
#   within each half of the ranks, and gradients are averaged between the halves.
# * "Ours" are the stages of [labs/zero.py](../labs/zero.py).

# %% [markdown]
# How each is made stands in [labs/sharding_engines.py](../labs/sharding_engines.py): a few lines
# each. On $n$ ranks, stage 3 by textbook sends $3(n-1)/n$ models.

# %%
guess = predict(f"FSDP2 on {world_size} ranks over Gloo: sent by a rank in a step", unit="models")

# %% [markdown]
# Each engine takes the same steps in float64, beside one process with the whole batch.
# (`device="cpu"` stands in this part because the operating system counts the bytes.)

# %%
def fits_world(name):
    return world_size % 2 == 0 or "halves" not in name

raced = {name: launch(compared.race, name, text, steps, world_size=world_size, device="cpu")
         for name in engines.ENGINES if fits_world(name)}
found = {name: compared.models_in(name, run) for name, run in raced.items()}
gaps = [gap for run in raced.values() for gap, _ in run.values]
print("all equal one process, but for rounding:", max(gaps) <= rounding(steps=steps))

# %%
HEADS = ["", "parameters", "gradients", "optimizer state", "sent", "by textbook"]
Table(HEADS, [[name, *(f"{x:.2f}" for x in row.values())] for name, row in found.items()],
      note="in models: kept by rank 0 between backward and step, and sent in a step")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
n = world_size
guess.compare(3 * (n - 1) / n, found["FSDP2"]["sent"], kind="communication")

# %% tags=["cover"]
sent, by_textbook = ([row[what] for row in found.values()] for what in ("sent", "by textbook"))
plot_bars(list(found), {"sent": sent}, "models sent by a rank in a step",
          predicted={"sent": by_textbook}, title="Sent, and what the same calls send by textbook")

# %% [markdown]
# The memory is as your formulas say, in these engines as in yours. But look at what is **sent**.
# FSDP2 sends more than stage 3 by textbook. PyTorch's stage 1 sends half as much again as yours.
# Why? Here are the calls of one step:

# %%
Table(["", "calls of rank 0 in one step"],
      [[name, ", ".join(f"{k} × {call}" for call, k in compared.calls_in(run).items())]
       for name, run in raced.items() if "ours" not in name])

# %% [markdown]
# FSDP2 makes the right calls: each unit is gathered twice, and its gradients are reduce-scattered
# once. So look at one reduce-scatter alone, of a tensor of 4 MB:

# %%
alone = launch(compared.one_reduce_scatter, world_size=world_size, device="cpu")
for label in alone.labels:
    print(f"{label}: {alone[label].sent_bytes[0] / 4e6:.2f} of the tensor's bytes sent")

# %% [markdown]
# On the CPU, Gloo does a reduce-scatter as an all-reduce, and throws most of it away. That is twice
# the bytes. Your ring sends less.
#
# `ZeroRedundancyOptimizer` is another case. It stands beside DDP, and DDP has reduced the whole
# gradients to everybody. Then each owner broadcasts its parameters. That is an all-reduce and an
# all-gather, 3(n−1)/n, on every backend.
#
# **On GPUs** FSDP2's all-gathers and reduce-scatters go to NCCL. Both take one flat tensor in place
# of a list. By the [formulas](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)
# that NVIDIA's tests use, each moves $(n-1)/n$ of it. So on GPUs compare with the column *by
# textbook*. It was computed from the calls; on GPUs it was not measured here.

# %% tags=["nbval-ignore-output"]
times = {name: compared.milliseconds(run) for name, run in raced.items()}
plot_bars(list(times), {"time of a step": list(times.values())}, "time of a step (ms)",
          title=f"A step of the small transformer on {world_size} ranks of this machine")

# %% [markdown]
# These times say little. All ranks share this machine's cores, the model is tiny, and FSDP2's work
# around each message is made for GPUs. (`make bench` lets the engines take turns.)
#
# ## 2 · The names of the first FSDP
#
# Books and many programs still have the first FSDP, the class `FullyShardedDataParallel`. It is
# deprecated. Its strategies had names. What does each of them send?

# %%
run = launch(compared.first_fsdp, text, world_size=world_size, device="cpu")
by_strategy = {name: run[name].sent_bytes[0] / run.values[0] for name in compared.STRATEGIES}
in_words = {"NO_SHARD": "as DDP", "SHARD_GRAD_OP": "kept gathered for the backward",
            "FULL_SHARD": "stage 3"}
Table(["", "models sent", "what it does"],
      [[name, f"{models:.2f}", in_words[name]] for name, models in by_strategy.items()])

# %% [markdown]
# `FULL_SHARD` sends a little less than FSDP2 does above: it keeps the root gathered for the
# backward. (FSDP2 does so, too, if nothing is said. In section 1 it was told to release every
# unit.) The fourth name is `HYBRID_SHARD`, the HSDP of section 1.

# %% [markdown]
# ## 3 · Why FSDP was written anew
#
# The first FSDP does what you did in part 06: it makes all parameters of a unit one **flat
# parameter**, and cuts that into equal parts. FSDP2 cuts *each* parameter along its first
# dimension. What is left on a rank is a **DTensor**: a tensor that knows its whole shape and how it
# is split.
#
# A unit has a `weight` of 3 × 2, a `bias` of 3, and a `scale` of 2 numbers: 11 in all. What has
# each of two ranks?

# %%
rows = []
for how in flat.HOW:
    for rank, has in enumerate(launch(flat.lies_where, how, world_size=2, device="cpu").values):
        rows.append([how, rank, ", ".join(f"{name} {shape}" for name, shape in has.items())])
Table(["", "rank", "has"], rows, note="a name, and the shape of what the rank has of it")

# %% [markdown]
# The first FSDP has one tensor without names: 11 numbers and one of padding, cut in the middle.
# With `use_orig_params=True` it shows the old names. But each is a flat piece of the long tensor,
# and rank 0 has nothing of `bias`. FSDP2 keeps names and dimensions.
#
# Why does this matter? Three things that people do every day.
#
# **First: train an adapter.** In **LoRA** the model is frozen. Beside some of its matrices stands a
# product of two thin ones, and only these are trained. Here they have 1/23 of all numbers. So each
# rank should reduce the gradients of these alone.

# %%
adapters = predict("FSDP 1, use_orig_params=True: reduced bytes, as a multiple of FSDP2's",
                   unit="times")

# %%
lora = {}
for how in flat.HOW:
    try:
        lora[how] = launch(flat.train_adapters, how, text, world_size=2, device="cpu")
    except RankError as error:
        said = str(error.exception).split(" The following")[0].splitlines()[0]
        print(textwrap.fill(f"{how}: {said}", 88))

# %%
reduced = {how: flat.count_reduced_bytes(run) for how, run in lora.items()}
Table(["", "reduced by a rank", "gradients at most"],
      [[how, f"{reduced[how]:,} bytes", f'{run["backward"].peak_bytes[0]["gradients"]:,} bytes']
       for how, run in lora.items()],
      note="the adapters have {trained:,} bytes, the whole model {all:,}".format(
          **lora["FSDP2"].values[0]))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
sizes = lora["FSDP2"].values[0]
adapters.compare(sizes["in blocks"] / sizes["trained"],
                 reduced["FSDP 1, use_orig_params"] / reduced["FSDP2"], kind="communication")

# %% [markdown]
# A flat parameter has one gradient. So by default the first FSDP refuses a unit in which some
# parameters are frozen. With `use_orig_params=True` it takes the unit, and reduces the gradient of
# *everything* in it: zeros for all that is frozen. Its
# [documentation](https://docs.pytorch.org/docs/stable/fsdp.html) warns of the memory that this
# takes. FSDP2 reduces what is trained, and no more.
#
# **Second: decay matrices only.** AdamW's weight decay pulls weights towards zero. It is usual for
# matrices, and not for biases and norms. The rule in most programs is `p.ndim >= 2`. In this model
# 34,816 of 35,712 numbers are in matrices. How many decay?

# %%
for how in flat.HOW:
    numbers = launch(flat.numbers_that_decay, how, world_size=2, device="cpu").values
    print(f"{how}: {sum(numbers):,} numbers decay")
gap = launch(flat.compare_weight_decay, "FSDP2", text, world_size=2, device="cpu").values[0]
print(f"FSDP2 equals one process with the same groups, to 1e-12: {gap < 1e-12}")

# %% [markdown]
# In the first FSDP every parameter is flat, so nothing decays, and nothing reports it. With FSDP2
# the usual rule works: a DTensor has the dimensions of the whole tensor.
#
# **Third: save a checkpoint.** What does `model.state_dict()` send?

# %%
for how, run in lora.items():
    print(f"{how}: {run['state dict'].sent_bytes[0]:,} bytes sent by a rank for its state_dict()")

# %% [markdown]
# To give parameters their names and shapes back, the first FSDP has to gather them. With FSDP2 each
# rank has named pieces of named tensors. It can write them as they are, and the reader knows which
# piece is whose (part [06g](06g_state_on_disk.ipynb)).
#
# **What does FSDP2 pay for it?** A gathered flat tensor *is* the parameters, as views. FSDP2 copies
# its pieces into one buffer before an all-gather, and out of it afterwards: after the gather, the
# pieces of rank 0 stand before those of rank 1, and no parameter is in one piece. And a parameter
# with fewer rows than ranks leaves ranks with nothing. PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html) says that
# the throughput is similar.

# %% [markdown]
# *Beyond adapters.* Trained parameters of one unit have to have one dtype. A frozen one may have
# another: a base model in bfloat16, with adapters in float32. (For this, PyTorch's source has an
# assertion, "FSDP expects uniform original parameter dtype". It looks at trained parameters.)
#
# ## 4 · DeepSpeed
#
# **DeepSpeed** has all three stages. It is optional here: `python3 tools/setup.py deepspeed`
# installs it, and the next cells race it, too. (In float32: its gradients never travel in float64.
# The record of this part was made with version 0.19.8.)

# %% tags=["nbval-ignore-output"]
deep = {name: launch(compared.race, name, text, steps, world_size=world_size, device="cpu")
        for name in (engines.DEEPSPEED if engines.HAS_DEEPSPEED else ())}
if not deep:
    print(engines.NO_DEEPSPEED)
Table([*HEADS, "time"],
      [[name, *(f"{x:.2f}" for x in compared.models_in(name, run).values()),
        f"{compared.milliseconds(run):.0f} ms"] for name, run in deep.items()]) if deep else None

# %% tags=["nbval-ignore-output"]
Table(["", "calls of rank 0 in one step"],
      [[name, ", ".join(f"{k} × {call}" for call, k in compared.calls_in(run).items())]
       for name, run in deep.items()]) if deep else None

# %% [markdown]
# * **Stages 1 and 2** all-reduce the gradients, and then gather the parameters: $3(n-1)/n$ models
#   on every backend. `"use_multi_rank_bucket_allreduce": false` makes them reduce to the owner
#   alone.
# * **Stage 3** does not release a parameter if fewer than a billion numbers are used before it
#   comes again, and never releases one of up to 100,000 numbers. So in a small model everything
#   that was gathered stays whole. With three keys at 0 it is the paper's stage 3, in the row
#   *released*.
# * What is missing in these columns stands under other names. DeepSpeed keeps shards in flat
#   buffers of its own, and `measure` counts these as *other*.

# %% [markdown]
# The blog of part 06f says that DeepSpeed's units are coarser than FSDP's. Look at the calls. Stage
# 3 of DeepSpeed gathers each *parameter* by itself: in this model 53 or more all-gathers in a step.
# FSDP2 has 10. DeepSpeed is the finer one. It joins small gathers by its prefetch bucket.
#
# **Settings are a JSON file.** These are the keys of a web page, with numbers where it has "auto":

# %%
print(compared.DEEPSPEED_JSON)
section = json.loads(compared.DEEPSPEED_JSON)["zero_optimization"]

# %% tags=["nbval-ignore-output"]
if engines.HAS_DEEPSPEED:
    off, auto_stage, auto_bucket = launch(compared.run_section, section, text, world_size=2,
                                          device="cpu").values[0]
    print(f"zero_optimization runs, {off:.0e} from one process\n"
          f"\"auto\" means stage {auto_stage}, and a bucket of {auto_bucket:,} numbers")

# %% [markdown]
# Three traps. **"auto"** is for Hugging Face's Trainer, which fills it in. DeepSpeed alone silently
# takes its default, and stage 0 is no sharding at all. **A batch size** has to stand there.
# **Clipping** depends on the version: if you say nothing, 0.19.0 does not clip, and 0.19.8 clips at
# 1.0 (`GRADIENT_CLIPPING_DEFAULT` in its `runtime/constants.py`). So write the number.

# %% [markdown]
# ## 5 · FSDP2 and torch.compile
#
# FSDP2 gathers and releases a unit in hooks, which are Python and communication. A graph contains
# neither. So one compiles each block, and the hooks run around its graph. With recomputation there
# are three wrappers, and the order counts. Here they are applied from the inside out, on two ranks,
# to three equal blocks. (These graphs run without generated code, so no C++ compiler is needed.)

# %%
compiled = lab("compiled_fsdp2")
orders = launch(compiled.try_orders, world_size=2, device="cpu").values[0]
exact = orders.pop(None)[2]
Table(["from the inside out", "graphs compiled", "the graph recomputes", "gradients equal"],
      [[order, graphs, recomputes, close(gradients, exact)]
       for order, (graphs, recomputes, gradients) in orders.items()])

# %% [markdown]
# * **Three equal blocks need one graph.** That is why one compiles blocks, and not the whole model.
# * **Compiled around the recomputation**, the graph knows of it, and recomputes by itself. Inside
#   of it, the compiled forward runs twice.
# * **Compiled around the unit**, the block is one graph as well. FSDP2's hooks stay outside of it.
# * **Recomputed around the unit** and compiled around both, there is no graph at all. FSDP2's hooks
#   are now inside of what is recomputed, where a graph cannot be interrupted for them, so the
#   tracer gives up. Gradients are right, and nothing reports it.
#
# What does compiling cost? Now Inductor generates code, on one rank, and the first of four steps
# pays for it:

# %% tags=["nbval-ignore-output"]
if missing := compiled.why_no_compiler():
    print(missing)
else:
    trained = {way: launch(compiled.train, way == "compiled", world_size=1, device="cpu",
                           timeout=180).values[0] for way in ("as it is", "compiled")}
    display(Table(["", "first step", "the quickest other one", "the same weights, to 1e-5"],
                  [[way, f"{first:.2f} s", f"{1e3 * min(others):.1f} ms",
                    relative_gap(weights, trained["as it is"][1]) < 1e-5]
                   for way, ((first, *others), weights) in trained.items()]))

# %% [markdown]
# The weights are the same up to float32's rounding: a compiler adds up in another order. This model
# is far too small to gain anything. Read the first column: it is paid again in each process that
# starts, unless the compiler's cache has the code (it was switched off here).
#
# **On GPUs** torchtitan applies recomputation, compiles each block, and then shards, in this order
# ([source](https://github.com/pytorch/torchtitan/blob/018740b7aae7846d24954539244c78215dbd181f/torchtitan/models/llama3/infra/parallelize.py)):
# repeated blocks are compiled once, says a comment there.

# %% [markdown]
# **When one rank recompiles.** A new shape of an input needs a new graph. If only one rank gets
# such an input, the others wait for it in their next collective. Here the second of two ranks has a
# longer batch in the second step. Compiling takes 1.5 s (a pause stands for the compiler), and
# FSDP2's collectives give up after 0.75 s:

# %% tags=["nbval-ignore-output"]
recompiling, rows = lab("recompiling_ranks"), []
for guarded in (False, True):
    (own, end), (other, _) = launch(recompiling.recompile_on_one_rank, guarded, world_size=2,
                                    device="cpu").values
    rows.append(["on" if guarded else "off", f"{own} and {other}", end])
Table(["guard collectives", "graphs on ranks 0 and 1", "rank 0"], rows)

# %% [markdown]
# With [guard
# collectives](https://docs.pytorch.org/docs/stable/generated/torch.compiler.set_enable_guard_collectives.html),
# ranks ask each other before each call of compiled code whether one of them must recompile, and
# then all do. That costs a collective per call, and hangs if ranks make different calls.
# `TORCH_COMPILER_COLLECTIVES=1` lets ranks compare sizes while they compile, so that a size that
# differs between them is dynamic from then on, according to its
# [source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/config.py). On GPUs the
# waiting ends with NCCL's timeout.
#
# One compiles blocks because of FSDP2's hooks. In [SimpleFSDP](https://arxiv.org/abs/2411.00284) a
# graph holds the collectives as well, and torchtitan's experimental
# [GraphTrainer](https://github.com/pytorch/torchtitan/tree/main/torchtitan/experiments/graph_trainer)
# captures a whole step. Neither was tried here.

# %% [markdown]
# ## Put to the test
#
# D is the bytes of all parameters, in the words of a book chapter.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the tables take.
once = (n - 1) / n
in_models = {name: row["sent"] for name, row in found.items()}
textbook = {name: row["by textbook"] for name, row in found.items()}
times_ddp = in_models["ours, stage 3"] / in_models["DDP"] if n > 1 else 1.5
small = engines.make_model()
model_bytes = sum(w.nbytes for w in small.parameters())
block = sum(w.nbytes for w in small.blocks[0].parameters()) / model_bytes
most = raced["FSDP2"]["step"].peak_bytes[0]["parameters"] / model_bytes / 2  # float64
shapes = {how: ", ".join(has for of, _, has in rows if of == how) for how in flat.HOW}
auto = (f'takes its defaults: a bucket of {auto_bucket:,} numbers for "auto"'
        if deep else "was not tried in this run")

# %% jupyter={"source_hidden": true}
# What is sent in the forward, the backward and the step, and what the first FSDP keeps.
PHASES = ("forward", "backward", "step")
phases, total = {}, {}
for name in ("DDP", "ZeroRedundancyOptimizer", "ours, stage 1", "ours, stage 2", "ours, stage 3"):
    one = launch(compared.measure_phases, name, text, world_size=world_size, device="cpu")
    by_phase = [one[phase].sent_bytes[0] / one.values[0] for phase in PHASES]
    phases[name] = ", ".join(f"{sent:.2f}" for sent in by_phase)
    total[name] = sum(by_phase)
kept = {}
for name in compared.STRATEGIES:
    one = launch(compared.first_fsdp, text, (name,), world_size=world_size, device="cpu")
    kept[name] = one[f"{name}, kept"].peak_bytes[0]["parameters"] / one.values[0]
fsdp_times = in_models["FSDP2"] / max(in_models["DDP"], 1e-9)
defaults = [compared.models_in(name, run)["sent"] for name, run in deep.items()][:2]
by_deepspeed = (" DeepSpeed's stages 1 and 2 send {:.2f} and {:.2f} by default (section 4, table)"
                .format(*defaults) if deep else "")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What is folded.
more = f"""
- [C130] ZeRO-3 is about 50 % more communication than DDP | web page, “Communication Tradeoff”;
  CS 229S, “ZeRO” | {"right if all travels in one dtype" if times_ddp < 2 else "wrong"} | our stage
  3 sends {in_models["ours, stage 3"]:.2f} models, DDP {in_models["DDP"]:.2f} (section 1, table).
  Other dtypes give other factors (part 06i, section 3) | measured: the factor of FSDP2,
  {fsdp_times:.2f} over Gloo; 1.5 is expected over NCCL, which has a reduce-scatter of
  its own (its documentation)
- [C138] FSDP has one unit whole at a time | blog, “Fully Sharded Data Parallel” |
  {"imprecise" if most > 1.05 * (1 / n + block) else "right"} | FSDP2 has {most:.2f} models of
  parameters at most: {1 / n:.2f} are shards, {block:.2f} a block, and the root's unit stays
  (measured in this section). An engine that gathers one unit ahead has one more (part 06f, section
  4) | measured: more is expected, since FSDP gathers ahead in a CUDA stream of its own (PyTorch's
  notes on FSDP)
- [C140] SHARD_GRAD_OP is ZeRO-2 | book chapter, “FSDP: PyTorch’s ZeRO Implementation” |
  {"imprecise" if kept["SHARD_GRAD_OP"] < 0.9 else "right"} | after the backward a rank keeps
  {kept["SHARD_GRAD_OP"]:.2f} models of parameters with SHARD_GRAD_OP (measured in this section),
  and {found["ours, stage 2"]["parameters"]:.2f} with our stage 2 (section 1, table): it splits the
  parameters, too | measured: nothing, since it is how the strategy is defined (its documentation)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What is folded, the second part.
more += f"""- [C126] ZeRO-1: 2 D in the backward and D in the step | book chapter, “Communication
  Volume Comparison” | depends on the program | in forward, backward and step a rank sends
  {phases["ZeroRedundancyOptimizer"]} models with PyTorch's ZeroRedundancyOptimizer, as told; with
  our stage 1 {phases["ours, stage 1"]}, which is D + D (measured in this section; a ring sends
  (n - 1)/n of D, {once:g} on {n} ranks) | measured: nothing in the models sent, where a
  reduce-scatter sends half of an all-reduce, as in our rings; Gloo's own does not
- [C127] DDP 2 D, ZeRO-2 D + D | book chapter, “Communication Volume Comparison” |
  {"right by the method" if abs(total["ours, stage 2"] - 2 * once) < 0.1 else "not seen here"} |
  in forward, backward and step DDP sends {phases["DDP"]} models, our stage 2
  {phases["ours, stage 2"]} (measured in this section; a ring sends (n - 1)/n of D,
  {once:g} on {n} ranks).{by_deepspeed} |
  measured: nothing for rings; NCCL has other algorithms, too (its documentation)
- [C141] NO_SHARD is like DDP | book chapter, “FSDP: PyTorch’s ZeRO Implementation” |
  {"right" if abs(by_strategy["NO_SHARD"] - in_models["DDP"]) < 0.1 else "not seen here"} | it
  sends {by_strategy["NO_SHARD"]:.2f} models (section 2, table), and keeps {kept["NO_SHARD"]:.2f} of
  parameters (measured in this section). DDP sends {in_models["DDP"]:.2f}, and keeps
  {found["DDP"]["parameters"]:.2f} (section 1, table) | measured: nothing in the bytes; how much is
  hidden behind the backward may differ
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What is folded, the third part.
more += f"""- [C148] FSDP ignores a tensor's shape and frees weights after use; tensor parallel cuts
  along a dimension of the product, and keeps its part | blog, “Q1: How does FSDP compare to Tensor
  Parallelism?” | {"right for the first FSDP" if "_flat" in shapes["FSDP 1"] else "not seen here"} |
  on two ranks it has {shapes["FSDP 1"]}. FSDP2 cuts each tensor along its first dimension:
  {shapes["FSDP2"]} (section 3, table). After use each of {n} ranks keeps {kept["FULL_SHARD"]:.2f}
  of the parameters (measured in this section). Tensor parallel's parts are in part 07d, section 2 |
  measured: nothing, since shapes are the same on any device
- [C144] ZeRO-3 fragments memory; contiguous_gradients and prefetch tuning cure it | web page,
  “Memory Fragmentation with ZeRO-3” | imprecise | by DeepSpeed's configuration reference,
  contiguous_gradients copies gradients into one buffer, against fragmentation in the backward. That
  is not the gathered parameters; and the prefetch bucket says how many numbers are fetched ahead |
  documented: how far memory fragments is a matter of the GPU's allocator, which a CPU does not
  show: this was not tested
- [C146] DeepSpeed has more options to offload, FSDP is better integrated | web page, “ZeRO vs FSDP”
  | right, by their documentation | to NVMe, DeepSpeed alone; FSDP2's parameters are DTensors, which
  PyTorch's optimizers, clipping and checkpoints take as they are (part 06i, sections 4 and 5) |
  documented: nothing, since both are options of a program; they stand in DeepSpeed's reference
  (offload_param: "cpu" or "nvme") and in PyTorch's (CPUOffloadPolicy)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What is in view.
surprises = f"""
- [C128] ZeRO-3: 2 D in the forward, 2 D in the backward, D in the step | book chapter,
  “Communication Volume Comparison” |
  {"wrong" if abs(total["ours, stage 3"] - 3 * once) < 0.1 else "not seen here"} | in forward,
  backward and step our stage 3 sends {phases["ours, stage 3"]} models: D, 2 D, and nothing
  (measured in this section; a ring sends (n - 1)/n of D, {once:g} on {n} ranks) | measured:
  nothing in our stage 3; an engine that keeps units gathered sends less
- [C129] ZeRO-3 communicates 3 times as much as DDP | book chapter, “Communication Volume
  Comparison” and “Key Takeaways” | {"wrong" if times_ddp < 2 else "right"}, and its own table says
  5 D against 2 D | DDP sends {in_models["DDP"]:.2f} models, our stage 3
  {in_models["ours, stage 3"]:.2f}, FSDP2 over Gloo {in_models["FSDP2"]:.2f} (section 1, table):
  {times_ddp:.2f} and {fsdp_times:.2f} times as much | measured: FSDP2's factor; 1.5 is
  expected over NCCL, which has a reduce-scatter of its own (its documentation)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises + f"""
- [C125] ZeRO-2 cuts communication from 3 θ to 2 θ (θ: the number of parameters) | blog, “DeepSpeed
  Zero” | depends on the program | 3 θ is stage 1 with an all-reduce: ZeroRedundancyOptimizer of
  PyTorch sends {in_models["ZeroRedundancyOptimizer"]:.2f} models. With a reduce-scatter, our
  stages 1 and 2 send {in_models["ours, stage 1"]:.2f} and {in_models["ours, stage 2"]:.2f} (section
  1, table).{by_deepspeed} | measured: nothing in which collectives a program calls; how many bytes
  NCCL sends for them depends on its algorithm
- [C139] FSDP is ZeRO-3 | web page, “ZeRO vs FSDP”; web note, “Types of distributed training”; book
  chapter, “FSDP: PyTorch’s ZeRO Implementation” | imprecise | it is one of FSDP2's settings.
  Released after use it sends {textbook["FSDP2"]:.2f} models by textbook, as stage 3; kept gathered
  {textbook["FSDP2, kept gathered"]:.2f}, as stage 2. In 2 halves a rank keeps
  {found.get("FSDP2, 2 halves", found["FSDP2"])["parameters"]:.2f} of the parameters in place of
  {found["FSDP2"]["parameters"]:.2f} (section 1, table) | measured: nothing in the shares kept. Over
  Gloo, whose reduce-scatter sends twice its bytes, FSDP2 sends more than the textbook says; over
  NCCL the textbook's figures are expected
- [C145] DeepSpeed takes a JSON with "auto" values | web page, “DeepSpeed ZeRO-3 Configuration” |
  depends on who reads it | Hugging Face's Trainer fills them in (its documentation); DeepSpeed
  alone {auto} (section 4, run) | {"measured" if deep else "documented"}: nothing, since DeepSpeed
  reads its configuration in the same way on GPUs
""", more=more)

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *The Evolution of Data Parallelism*
# (blog); *Distributed Parallelism in Deep Learning* (web page); a web note on types of distributed
# training.
#
# **To read on.** torchtitan's [FSDP1 →
# FSDP2](https://github.com/pytorch/torchtitan/blob/main/docs/fsdp.md), a table of what became of
# each argument. Zhao et al. 2023, [PyTorch FSDP](https://arxiv.org/abs/2304.11277). DeepSpeed's
# [configuration](https://www.deepspeed.ai/docs/config-json/). Hu et al. 2021,
# [LoRA](https://arxiv.org/abs/2106.09685).

# %% [markdown]
# ## What you have learnt
#
# * FSDP2 and DeepSpeed give the numbers of your stages, and keep what your formulas say.
# * Over Gloo FSDP2 sends more: Gloo's reduce-scatter is an all-reduce.
# * The first FSDP makes a unit one **flat parameter**. FSDP2 cuts each parameter along its first
#   dimension, into a **DTensor**. So frozen weights, weight decay by group and checkpoints work.
# * A default can silently turn off the sharding that you asked for: count calls and bytes.
# * From the inside out: recompute, compile, shard. Never compile a recomputation that has a unit
#   inside: nothing is compiled then.
#
# **Next**: {{next}}.

# %%
progress("06h")
