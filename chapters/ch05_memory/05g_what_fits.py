# %% [markdown]
# # {{title}}
#
# **Will it fit?** You want to know before you rent the GPUs. Here is a calculator for the memory of
# a training step: of one GPU, and of each GPU of a large run. First you take the simplest way to
# need less memory. Then you hold the calculator against small models that really run, use it for
# large ones, and learn what it cannot know.

# %% [markdown]
# ![Bars of bytes by kind for nine small trainings that really ran, each with the outline that
# the calculator predicted, a little higher than the bar](../assets/covers/05g_what_fits.png)
#
# *Measured in section 2: the fullest rank of small trainings of every kind, and, as outlines, what
# the calculator said.*
#
# **After this part you can** predict what a training needs on each GPU, say what such a prediction
# leaves out, and tell allocated from reserved memory.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, plot_stacks, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
width = 64
layers = 4
samples = 16

# %%
what_fits, large = lab("what_fits"), lab("large_vocabulary")
shapes = lab("model_shapes")
text = lab("language_model").standard_library(50_000)

# %% [markdown]
# ## 1 · Fewer samples at a time
#
# If a step does not fit, the simplest way out is **accumulation** (chapter 01): split the batch
# into micro-batches, and add up their gradients. A quarter of the samples at a time needs a quarter
# of the activations. The gradient stays the same, and so do the FLOPs. The price: with few samples
# at a time a GPU has less to do at once, and is used less well.

# %% [markdown]
# ### Exercise {{micro_batches_for}} · The fewest micro-batches that fit
#
# Write `micro_batches_for(batch, limit, fixed, each)`. A step needs `fixed` bytes, whatever the
# size of a micro-batch, and `each` more bytes for every sample that is in memory at the same time.
# A batch of `batch` samples is split into micro-batches, all equally large. Return the smallest
# number of micro-batches with which a step needs at most `limit` bytes. If not even one sample at a
# time fits, raise a `ValueError`. All arguments are whole numbers, at least 1.

# %% [markdown]
# For example, take a batch of 12, a limit of 100, 40 fixed bytes, and 10 for each sample. All 12
# need 40 + 120 bytes. In 2 micro-batches, 6 samples at a time need 40 + 60: that is exactly the
# limit, and fits. The answer is 2. With a limit of 99 it is 3.

# %%
def micro_batches_for(batch, limit, fixed, each):
    ### BEGIN SOLUTION
    for count in range(1, batch + 1):
        if batch % count == 0 and fixed + each * (batch // count) <= limit:
            return count
    raise ValueError(f"one sample needs {fixed + each} bytes: more than {limit}")
    ### END SOLUTION

check("{{micro_batches_for}}", micro_batches_for)

# %%
in_parts = {f"{count} micro-batch" + "es" * (count > 1): launch(
    what_fits.accumulate, text, width, layers, samples, count, world_size=1, device="cpu")
    for count in (1, 2, 4)}
plot_stacks({name: run["backwards"].at_peak[0] for name, run in in_parts.items()},
            title="Forwards and backwards at their peak")

# %% [markdown]
# Activations halve with each doubling. But look at the gradients. With one micro-batch there are
# none at the peak: they come as the activations go. From the second micro-batch on, the
# gradients of the first are there.
#
# (`device="cpu"` stands in this part because bytes are counted as the CPU keeps them.)

# %% [markdown]
# ## 2 · A calculator, held against real runs
#
# The calculator is the model of memory of chapter 10, in
# [labs/cost_model.py](../labs/cost_model.py). It adds up, for the fullest rank at the worst moment:
#
# | what | how much |
# |---|---|
# | model states | bytes for each parameter (05, 05b), divided by what ZeRO shards |
# | embedding and last layer | their parameters; in a pipeline on the first and on the last stage |
# | activations | 16 of each block's input (05d), times the micro-batches |
# | recomputation | 1 for each block, and one block again (05f) |
# | logits | 14 or 16 bytes for each (05e), on the last stage |
# | gathered units | with ZeRO 3: two blocks, or twice the embedding, whole for a moment |
#
# Chapters 06 to 08 explain ZeRO's stages, tensor parallelism (tp) and pipelines (pp). Here you only
# need their names: `dp` copies with other samples, `tp` ranks that share each layer, `pp` stages
# with some layers each.

# %% [markdown]
# A calculator that nobody has tested is a guess. So here are thirteen trainings of a small
# transformer, in float32 with Adam: on one rank and on two, with the ways to need less memory, most
# of them one at a time. Each takes two steps, and the second is measured to the byte. How far off
# is the worst prediction?

# %%
worst = predict("The calculator's largest error, in percent of what was measured", unit="%")

# %%
names = list(what_fits.KINDS)
told = {name: what_fits.predict_memory(name) for name in names}
measured = {name: what_fits.measure_memory(name, text) for name in names}

# %% jupyter={"source_hidden": true}
# Your prediction, and what was found: for an error, theory says 0.
errors = {name: what_fits.total_of(told[name]) / what_fits.total_of(measured[name]) - 1
          for name in names}
worst.compare(0, 100 * max(map(abs, errors.values())), kind="activations")

# %% tags=["cover"]
small = names[:9]
plot_stacks({name: measured[name] for name in small}, {name: told[name] for name in small},
            title="Small trainings: measured, and as outlines what the calculator says")

# %%
others = names[9:]
plot_stacks({name: measured[name] for name in others}, {name: told[name] for name in others},
            title="The same with a vocabulary of 4,096")

# %%
is_above = all(error > -0.001 for error in errors.values())
print("the calculator says more than was measured, in all cases:", is_above)
Table(["training", "error"], [[name, f"{error:+.1%}"] for name, error in errors.items()])

# %% [markdown]
# (Whatever is not model state counts as activations here, gradients of activations included.)
#
# Without recomputation the calculator is right to a few percent, and in these thirteen trainings it
# is always on the safe side. Its largest errors come with recomputation. The reason: it adds up the
# logits' moment, the moment of the recomputed block, and the gathered units. In the step these
# moments come one after another. A planner may be too careful by so much; the other way round would
# be worse.

# %% [markdown]
# It does happen. Take the same model, once on four ranks that share each layer, and once on one
# rank with one sample in a micro-batch:

# %%
for name in what_fits.TOO_LITTLE:
    by_run = what_fits.total_of(what_fits.measure_memory(name, text))
    error = what_fits.total_of(what_fits.predict_memory(name)) / by_run - 1
    print(f"{name}: error {error:+.0%}")

# %% [markdown]
# In both the calculator says less than was measured. With one sample in a micro-batch, the
# peak is the averaging of the gradients, when no activations are left. The calculator counts this
# moment only where there are several copies of the model. So leave some room.

# %% [markdown]
# ### A Llama
#
# The models above have GPT-2's blocks. The calculator knows how many parameters other blocks have:
# a model's `Shape` in [labs/model_shapes.py](../labs/model_shapes.py) says whether the MLP is gated
# and how many key-value heads there are. But the 16 inputs that a block keeps are GPT-2's. Here is
# a small Llama on one rank, once with the 16, and once with the formula of part 05d, $8h + 2k + 4f$
# numbers per token:

# %%
llama = what_fits.compare_llama(text)
by_run = what_fits.total_of(llama.pop("measured"))
for block, by_model in llama.items():
    print(f"{block}: error {what_fits.total_of(by_model) / by_run - 1:+.1%}")

# %% [markdown]
# With GPT-2's number the calculator says too little by a fifth, and a planner would run out of
# memory. So from here on it takes Llama's formula for gated models. On a GPU, where RMSNorm is one
# operation, it counts $6h + 2k + 4f$.

# %% [markdown]
# ## 3 · What fits where?
#
# Now models that no laptop holds. Take Llama 2 with 7 billion parameters, in mixed precision with
# Adam: 16 bytes for each parameter, 108 GB. With ZeRO 3, $n$ GPUs share the states. Blocks are
# recomputed, and each GPU computes one sample of 4,096 tokens. With how few GPUs of 80 GB does it
# fit? Try 1, 2, 4, 8 and so on.

# %%
fewest = predict("Llama 2 7B under ZeRO 3: GPUs of 80 GB, at least", unit="GPUs")

# %%
rows = []
for name in ("llama-2-7b", "llama-3-8b", "llama-3-70b", "llama-3-405b"):
    shape = shapes.model_named(name)
    counts = [what_fits.fewest_gpus(shape, 80e9, recomputed="full", in_chunks=chunks)
              for chunks in (False, True)]
    states = 16 * float(shape.parameters)
    for_states = 2 ** int(states / 80e9 - 1e-9).bit_length()  # a power of 2 that holds them
    rows.append([name, f"{states / 1e9:,.0f} GB", for_states, *counts])

# %% jupyter={"source_hidden": true}
# Your prediction, theory (the states alone), and what the calculator says.
states_alone = 16 * float(shapes.model_named("llama-2-7b").parameters) / 80e9
fewest.compare(2 ** int(states_alone - 1e-9).bit_length(), rows[0][3], kind="parameters",
               wire="counted")

# %%
Table(["model", "states", "GPUs for the states", "for everything", "with the loss in chunks"], rows,
      note="GPUs of 80 GB; ZeRO 3, blocks recomputed, one sample of full context on each")

# %% [markdown]
# Compare the last three columns. Only for the first model do the states alone decide. What each GPU
# keeps for its own sample does not shrink with more GPUs, and leaves less room for the states. For
# the largest model it nearly fills a GPU. Then more GPUs hardly help, unless tensor parallelism or
# pipelines cut the sample's activations, too (chapters 07 and 08). For two models the loss in
# chunks (05e) needs fewer GPUs. (What remains of it is left out: 6 bytes for each number of the
# last layer.)
#
# Now play. The left bar is one GPU alone, the right one each GPU of the run.

# %%
GPUS = what_fits.LIMITS

def draw(layers, hidden, vocabulary, context, samples, precision, optimizer, recomputed, dp, stage,
         tp, pp):
    shape = what_fits.shape_of(layers, hidden, context, vocabulary)
    of = partial(what_fits.predict_gpu_memory, shape, samples, precision, optimizer, recomputed)
    billions = float(shape.parameters) / 1e9
    return plot_stacks({"one GPU alone": of(),
                        f"each of {dp * tp * pp} GPUs": of(dp=dp, zero=stage, tp=tp, pp=pp)},
                       limits=GPUS, title=f"{billions:.3g} billion parameters, micro-batches of "
                                          f"{samples} × {context} tokens")

# %% jupyter={"source_hidden": true}
# The choices.
explore(draw, layers=[32, 12, 24, 48, 80, 96], hidden=[4096, 768, 2048, 8192, 12288],
        vocabulary=[32_000, 128_256, 50_257], context=[4096, 1024, 2048, 8192, 32768],
        samples=[1, 2, 4, 8, 16], precision=list(what_fits.PRECISIONS),
        optimizer=list(what_fits.OPTIMIZERS), recomputed=["none", "full"],
        dp=[8, 1, 2, 4, 16, 64, 256], stage=[3, 0, 1, 2], tp=[1, 2, 4, 8], pp=[1, 2, 4, 8],
        labels={"hidden": "width", "context": "context (tokens)",
                "samples": "micro-batch (samples)", "dp": "data parallel (ranks)",
                "stage": "ZeRO stage", "tp": "tensor parallel (ranks)", "pp": "pipeline (stages)"},
        no_effect=lambda dp, **others: {"stage"} if dp == 1 else set())

# %% [markdown]
# What to try:
#
# * What does recomputation change for a context of 32,768?
# * What does a vocabulary of 128,256 change for a small model?
# * Take 96 layers of 12,288: 175 billion parameters. Put one copy on 8 × 8 GPUs, by tensor
#   parallelism and a pipeline.
#
# (*other* is 1 GB on every GPU: assumed, see below.)

# %% [markdown]
# <details><summary>What you can see there</summary>
#
# * Without recomputation the activations take 154 GB, and no GPU of the picture except B300 has
#   room for its share of 8. With it they take 30 GB, and each of the 8 GPUs needs 45 GB.
# * 12 layers of 768 on one GPU, with 4,096 tokens: 14 GB in place of 6 GB. Both the logits and the
#   two large matrices have become four times as large.
# * 65 GB on each of the 64 GPUs, and 47 GB with recomputation.
#
# </details>

# %% [markdown]
# ## 4 · What the calculator leaves out
#
# It counts tensors. A device needs more than its tensors:
#
# * **The allocator.** Freed memory is kept for the next tensor, and may not fit it.
# * **Temporary buffers** inside of operations, such as the workspace of a matrix product.
# * **The optimizer's step.** On a GPU, PyTorch's Adam goes over all tensors together by default,
#   and needs [up to one more copy of the
#   parameters](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html) for a moment.
# * **The CUDA context**: kernels and the driver's tables. **NCCL's buffers**: some for each group.
#   The calculator takes 1 GB for both, which is an assumption.

# %% [markdown]
# The first of these can be seen on a CPU. Take the loss in chunks of part 05e. Its tensors need
# some bytes; by how many does the process grow? And by how many if the operating system gives
# memory to each tensor alone, and takes it back at once?

# %% tags=["nbval-ignore-output"]
sizes = 256, 64, 128_256  # positions, width, vocabulary
chunks = {"chunks of 64": partial(large.backward_in_chunks, size=64)}
run = launch(large.time_ways, chunks, *sizes, 1, world_size=1, device="cpu")
tensors = run["chunks of 64"].peak_bytes[0]["total"] - 4 * sizes[1] * sizes[2]  # without the matrix
grown = {directly: launch(what_fits.process_grows, chunks["chunks of 64"], sizes, directly,
                          world_size=1, device="cpu").values[0] for directly in (False, True)}

# %% tags=["nbval-ignore-output"]
def megabytes(count):
    return f"{count / 1e6:,.0f} MB" if count else "unknown on this system"

Table(["", "at most"], [["its tensors", megabytes(tensors)],
                        ["the process grows by", megabytes(grown[False])],
                        ["the same, each tensor directly from Linux", megabytes(grown[True])]])

# %% [markdown]
# The tensors are the same in all rows. On Linux with glibc, the process grows by far more than its
# tensors need, since freed pieces lie between pieces in use. This is **fragmentation**: there is
# room enough, but not in one piece. In the last row nothing is kept for later, and the process
# needs about what its tensors need. That is slower, as the operating system has to be asked each
# time.

# %% [markdown]
# **On GPUs** asking the driver is so slow that PyTorch has an allocator of its own. Two numbers
# tell what it does:
#
# * **Allocated**: the bytes of live tensors (`torch.cuda.memory_allocated()`).
# * **Reserved**: what PyTorch has taken from the driver (`torch.cuda.memory_reserved()`). It keeps
#   what is freed, for later tensors. `nvidia-smi` shows reserved memory, the context and NCCL.

# %% [markdown]
# A piece that comes from the driver is a **segment**. Several tensors may lie in one. "Out of
# memory" comes when a tensor fits into no free part of a segment, and the driver has no more.
# Before that, PyTorch gives back all segments in which nothing is left, and asks once more. So what
# is lost are holes: free parts between tensors, in segments that are in use. The error tells how
# much is "reserved by PyTorch but unallocated". If that is a lot, set
# `PYTORCH_ALLOC_CONF=expandable_segments:True` (in older versions `PYTORCH_CUDA_ALLOC_CONF`). Then
# segments can grow, and holes can be given back ([PyTorch's notes on
# CUDA](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)).

# %% [markdown]
# To see which line allocated what, record the history of all tensors:
#
# ```python
# torch.cuda.memory._record_memory_history()
# train_a_step()
# torch.cuda.memory._dump_snapshot("step.pickle")
# ```
#
# Drop the file on [pytorch.org/memory_viz](https://pytorch.org/memory_viz). It shows each tensor
# over time, with the lines that made it. NCCL's memory is not in it, as it does not come from
# PyTorch's allocator
# ([documentation](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html)).
#
# The next cell fragments the memory of a GPU, if there is one here. It frees one large tensor, and
# 16 smaller ones take its place in the segment. Then every second one is freed, and a tensor of
# four times their size is wanted. What is free in between is of no use for it.

# %% tags=["nbval-ignore-output"]
rows = launch(what_fits.fragment_a_gpu, world_size=1).values[0]
if rows:
    display(Table(["", "allocated", "reserved", "taken on the GPU"],
                  [[what, *map(megabytes, counts)] for what, *counts in rows]))
else:
    print("no GPU here: nothing to show")

# %% [markdown]
# Recorded on an H100 (torch 2.11), in MiB:
#
# | | allocated | reserved | reserved, expandable |
# |---|---|---|---|
# | 16 tensors of 32 | 512 | 512 | 520 |
# | every second one is freed | 256 | 512 | 520 |
# | one of 128 | 384 | 640 | 640 |
# | `empty_cache()` | 384 | 640 | 520 |
#
# 256 MiB are free, but not 128 in one piece. So PyTorch takes more memory from the driver, with
# either setting. Later, `empty_cache()` finds no empty segment: it can give nothing back. With
# expandable segments it gives back the pieces of the holes that the driver can take: 120 MiB here.

# %% [markdown]
# ## Put to the test
#
# What our sources say about what fits. All figures are computed with the calculator of section 2.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
seven = what_fits.total_of(what_fits.predict_gpu_memory(
    shapes.model_named("llama-2-7b", context=2048), 1, recomputed="full", dp=4, zero=3))
largest = max(GPUS, key=GPUS.get)
llama = shapes.model_named("llama-3-405b")
of_405b = 16 * float(llama.parameters)  # bytes of its states
alone = 2 ** int(of_405b / 80e9 - 1e-9).bit_length()
everything = what_fits.fewest_gpus(llama, 80e9, recomputed="full")
offloaded = 32e9 / (2 + 2 / 8)  # parameters: 2 bytes each, and an eighth of the gradients' 2
fits = "it fits" if seven < 40e9 else "it does not fit"
error = errors["ZeRO 3, recomputed"]
surprises = f"""
- [C112] Fine-tuning 7B on consumer GPUs: ZeRO-3 and gradient checkpointing on 4 A100 of 40 GB |
  web page, “Real-World Applications” | imprecise: {fits}, the label is wrong |
  {seven / 1e9:.0f} GB on each, with logits, gathered units and 1 GB for the context (computed in
  this section, for one sample of 2,048). For a small model with ZeRO 3, recomputed, the
  calculator's error was {error:+.1%} (section 2, table). But an A100 belongs in a data centre |
  computed: a run on such GPUs could need more: fragmentation, workspaces and NCCL's buffers are not
  counted
- [C110] Train models 100× larger than single GPU memory allows | web page, “Advantages” | depends |
  on the number of GPUs. Llama 3 405B has states of {of_405b / 1e9:,.0f} GB, {of_405b / 80e9:.0f}
  times 80 GB. With ZeRO 3, {alone} GPUs hold them, and {everything} GPUs hold what each keeps for
  its own sample, too (section 3, table) | computed: fewer of larger GPUs are enough; offloading to
  NVMe is documented for far larger models (ZeRO-Infinity's paper), not measured
"""

# %% jupyter={"source_hidden": true}
# The table.
put_to_the_test(surprises + f"""
- [C113] ZeRO-2 with CPU offloading on 8 V100, for university clusters | web page, “Real-World
  Applications” | depends | on the model: in 32 GB, parameters of 2 bytes and an eighth of gradients
  of 2 bytes allow {offloaded / 1e9:.0f} billion parameters, less what activations and logits take
  (computed in this section). If the gradients leave too, as in ZeRO-Offload, {32 / 2:.0f} billion |
  computed: V100s of 16 GB hold half as much, and what the allocator and NCCL take is not counted
""", more=f"""
- [C105] No single GPU has 840 GB | book chapter, “The Memory Problem” | right | the largest
  GPU of this part, NVIDIA's {largest}, has {GPUS[largest] / 1e9:.0f} GB by its data sheet of 2025
  (section 3, picture) | documented: a GPU with 840 GB or more would change it
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page). The memory of GPUs: NVIDIA's data sheets.
#
# **To read on.** PyTorch, [Understanding CUDA Memory
# Usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html). Rajbhandari et al. 2020,
# [ZeRO](https://arxiv.org/abs/1910.02054), section 3: where memory goes.

# %% [markdown]
# ## What you have learnt
#
# * **Accumulation** divides activations by the number of micro-batches. With more than one,
#   gradients are there at the peak.
# * A calculator that adds up states, activations, logits and gathered units was right to a few
#   percent for small models, and mostly too careful, above all with recomputation. It is no
#   guarantee: it looks at one moment of the step.
# * With more GPUs, ZeRO 3 makes states smaller. What a GPU keeps for its own sample stays.
# * Leave room for what no calculator counts: fragmentation, temporary buffers, the context, NCCL.
#   **Allocated** is what tensors need, **reserved** is what PyTorch has taken.
#
# **Your exercise** stands in a cell above.
#
# **Next**: {{next}}.

# %%
progress("05g")
