# %% [markdown]
# # {{title}}
#
# **What does tensor parallelism leave whole, and can that be cut, too?** Between the parallel
# regions stand layer norms, additions, and perhaps dropout. Every rank does them for all tokens,
# and keeps what they need for the backward. On eight ranks, that is eight times the same. In
# **sequence parallelism** each rank does them for a piece of the context. You write it, and measure
# what it saves and what it sends. At the end, PyTorch's engine does the same.

# %% [markdown]
# ![Memory that one block keeps for its backward on one of four ranks: less with tensor parallel,
# less again with sequence parallel, and least if it gathers
# again](../assets/covers/07e_sequence_parallel.png)
#
# *Measured in section 3: what one process keeps of a block, and what one rank of four keeps. The
# outlines are the formula.*
#
# **After this part you can** cut the context between the parallel regions, complete the gradients
# of what is whole, say what this costs, and cut a model with PyTorch's DTensor.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_stacks, predict, progress, put_to_the_test, rounding,
)

# %% tags=["parameters"]
world_size = 4
width = 64

# %% [markdown]
# ## 1 · Pieces of the context
#
# Activations often need more memory than weights (part 05d). Tensor parallelism cuts the
# activations inside of its regions, and leaves those between the regions whole. How could these be
# cut?
#
# A layer norm looks at one token at a time, with all its features. So do an addition and dropout.
# So the *tokens* can be cut: rank 0 takes the first piece of the context, rank 1 the next one.
# Attention needs all tokens. It stays inside of the region, and is cut by heads.
#
# (Other methods are called “sequence parallel”, too: ring attention and Ulysses cut the context
# inside of attention. Part 09f has them.)

# %% [markdown]
# With pieces of the context between the regions, other collectives stand at the borders of a
# region:
#
# | | tensor parallel | sequence parallel |
# |---|---|---|
# | into the region, forward | nothing | **all-gather** of the pieces |
# | into the region, backward | all-reduce | **reduce-scatter** |
# | out of the region, forward | all-reduce | **reduce-scatter** |
# | out of the region, backward | nothing | **all-gather** |
#
# Chapter 02 has found that an all-reduce *is* a reduce-scatter and an all-gather. So the same bytes
# are sent. But the work between the regions is done once, and not $n$ times.

# %% [markdown]
# Take two ranks, one sample, one feature and a context of 2. Rank 0 has the piece [1], and rank 1
# has [2]. Both enter the region with [1, 2]. Inside, they compute the summands [10, 20] and [30,
# 40]. On the way out they are added up: [40, 60]. Rank 0 goes on with [40], and rank 1 with [60].
#
# In the backward, rank 0 has a gradient for its [40], and rank 1 for its [60]. Inside of the region
# both ranks need both gradients.

# %% [markdown]
# ### Exercise {{all_gather}} · Enter the region with an all-gather
#
# In [labs/sequence_parallel.py](../labs/sequence_parallel.py), write `AllGather`, a
# `torch.autograd.Function`. The context is dimension 1.
#
# * `forward(ctx, piece, group=None)` gets this rank's piece, (samples, context / n, …). It returns
#   all pieces in the order of ranks, (samples, context, …). The lab's `joined(piece, group)` does
#   it.
# * `backward(ctx, gradient)` gets a gradient for the whole context. It came through this rank's
#   part of the layer alone, so it is one summand. Return the gradient of the piece, and None for
#   `group`. The lab's `summed_piece(x, group)` adds up over the ranks, and returns this rank's
#   piece.

# %% [markdown]
# In the example, say rank 0's backward gets [1, 2] and rank 1's gets [3, 4]. Rank 0 returns [4],
# and rank 1 returns [6].

# %% [markdown]
# ### Exercise {{reduce_scatter}} · Leave the region with a reduce-scatter
#
# Write `ReduceScatter` in [the same lab](../labs/sequence_parallel.py), with the same two
# functions.
#
# * `forward(ctx, x, group=None)` gets this rank's summand for the whole context. It returns this
#   rank's piece of the sum.
# * `backward(ctx, gradient)` gets the gradient of this rank's piece. Return the gradient of `x`,
#   for the whole context, and None.
#
# Say rank 0's backward gets [5] and rank 1's gets [6]. Both return [5, 6].

# %%
display(check("{{all_gather}}"))
check("{{reduce_scatter}}")

# %% [markdown]
# ## 2 · What is whole on every rank
#
# One thing gets harder. A layer norm's weights are on every rank. In tensor parallelism each rank
# used them for all tokens, and had the whole gradient. Now each rank uses them for its piece alone.
# Their gradients are Partial.
#
# ### Exercise {{sum_partial_gradients}} · Sum partial gradients over ranks
#
# Write `sum_partial_gradients(model, group=None)` in
# [labs/sequence_parallel.py](../labs/sequence_parallel.py). It is called once per step, after the
# last backward, and returns nothing.

# %% [markdown]
# * Parameters with the attribute `cut_dim`, which may be 0, are cut. Their gradients are complete.
# * All others are whole: norms, biases behind a sum, the positions' embedding. Add up their
#   gradients over the ranks, in place: not the mean.
# * Some parameters are frozen, or have None for a gradient, on all ranks alike. It stays None.
#
# For example, rank 0 has the gradient [1, 2] for a norm's weight, and rank 1 has [3, 4]. Both need
# [4, 6].

# %%
check("{{sum_partial_gradients}}")

# %% [markdown]
# (Between the regions, ranks now have different tokens. So dropout there needs each rank's own
# stream of random numbers. In {{dropped_mlp}} it needed the common one.)
#
# Here is a whole model, cut in each of the lab's ways, beside one process, in float64. Section 3
# explains “gathered again”, and part 07f explains “overlapped”.

# %%
sequence, measured = lab("sequence_parallel"), lab("sequence_measured")
text, n = lab("language_model").standard_library(20_000), world_size
heads = 2 * n  # cut evenly, for any number of ranks
sizes = {"width": width // heads * heads, "heads": heads}
context = 64 // n * n

# %%
checked = {way: launch(measured.compare_one_process, way, text, sizes | {"context": context},
                       world_size=n).values[0] for way in sequence.WAYS}
Table(["way", "gradients of one process", "norm of all gradients"],
      [[way, str(of["gradients"]), str(of["norm"])] for way, of in checked.items()])

# %% [markdown]
# ### A Llama in pieces
#
# Llama's model (part 07c) has an RMSNorm where ours has a layer norm. Its weight is whole on every
# rank, so that your sum completes its gradient (and those of QK-norm). And its rotary angles?
# Queries and keys exist only inside of the region, where the context has been gathered, so every
# rank rotates its heads at all places, as one process does. Nothing has to change:

# %%
llama = lab("llama")
few = sizes | {"context": context, "kv_heads": n}  # two query heads share a key-value head
for way in sequence.WAYS:
    of = launch(measured.compare_one_process, way, text, few, llama.Llama, world_size=n).values[0]
    print(f"{way}: gradients of one process {of['gradients']}, norm {of['norm']}")

# %% [markdown]
# Attention can also start *outside* of a region, from pieces. In **context parallelism** (part 09f)
# every rank has all the weights. It computes queries, keys and values of its piece and gathers the
# keys and values of the others. There, angles need the place at which the piece begins, and this
# bug is silent.

# %% [markdown]
# ### Exercise {{attend_from_piece}} · Debug rotary positions with pieces of the context
#
# `attend_from_piece(q, k, v)` gets this rank's queries, keys and values, each of (samples, heads,
# context / n, size), not yet rotated. Rank 0 has the first piece of the context. It must return the
# causal attention of the rank's queries to all keys, as one process computes it with RoPE, and the
# gradients of `q`, `k` and `v` must be those of one process. `llama.rotate` is yours of {{rotate}};
# `gather_context` applies your `AllGather`. Keys and values are gathered once, and nothing else is
# sent.

# %%
def attend_from_piece(q, k, v):
    rank, n, length = dist.get_rank(), dist.get_world_size(), q.shape[2]
    ### BEGIN SOLUTION
    places = rank * length + torch.arange(length)
    q, k = (llama.rotate(x, places) for x in (q, k))
    ### IT WAS
    # q, k = (llama.rotate(x, torch.arange(length)) for x in (q, k))
    ### END SOLUTION
    k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v))
    sees = torch.arange(n * length) <= (rank * length + torch.arange(length)).unsqueeze(-1)
    return F.scaled_dot_product_attention(q, k, v, sees)

# %% [markdown]
# First the symptom. Look at which ranks are wrong:

# %%
symptoms = lab("tensor_symptoms")
Table([f"on {n} ranks", "output", "gradient of its keys"],
      symptoms.rows_of(launch(symptoms.check_piece, attend_from_piece, world_size=n)))

# %%
check("{{attend_from_piece}}", attend_from_piece)

# %% [markdown]
# A score depends on the distance of two places. With the bug, distances inside a piece are right,
# and between pieces they are too small by a multiple of the piece's length. (Add the same number to
# the places of *all* ranks, and nothing changes.) Does training show it? Here is a small Llama in
# one process, once with right places and once with those that the ranks counted:

# %% tags=["nbval-ignore-output"]
counted = {"right places": None, f"{n} pieces, each from 0": torch.arange(64) % (64 // n)}
for what, places in counted.items():
    first, *_, last = llama.train(llama.make_model(places), text, steps=40)
    print(f"{what}: loss {first:.2f} to {last:.2f}")

# %% [markdown]
# Both losses fall, because a model can also learn with wrong distances. Only the comparison with
# one process finds the bug.
#
# **In engines.** Megatron Core takes a rank's part of the table of angles
# ([get_pos_emb_on_this_cp_rank](https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.models.common.embeddings.rope_utils.html)).
# In the `transformers` package a model counts from 0 unless it is given `position_ids`
# ([modeling_llama.py](https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/llama/modeling_llama.py)),
# so a rank with a piece has to pass the places of its tokens.

# %% [markdown]
# ## 3 · What it saves, and what it sends
#
# What does a block keep for its backward? Let $a$ be the bytes of one activation: samples × context
# × width × 4. Small things are left out.

# %% [markdown]
# | | one process | tensor parallel | sequence parallel | gathered again |
# |---|---|---|---|---|
# | inputs of the norms | 2 | 2 | 2/n | 2/n |
# | outputs of the norms | 2 | 2 | 2, gathered | 2/n |
# | queries, keys, values | 3 | 3/n | 3/n | 3/n |
# | attention's result | 1 | 1/n | 1/n | 1/n |
# | GELU's input and output | 8 | 8/n | 8/n | 8/n |
# | together, times $a$ | 16 | 4 + 12/n | 2 + 14/n | 16/n |

# %% [markdown]
# Why are the outputs of the norms still whole in sequence parallelism? A linear layer keeps its
# input for the backward, and its input has been gathered. Megatron-LM keeps only the rank's piece,
# and gathers it **again** in the backward. That is one more all-gather in each of the two regions.
# How much more does such a block send, in percent?

# %%
more = predict("What a block that gathers again sends in addition", unit="%")

# %%
one = launch(measured.one_block, "tensor parallel", context, sizes, world_size=1, device="cpu")
ways = {way: launch(measured.one_block, way, context, sizes, world_size=n, device="cpu")
        for way in measured.KEPT}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
a = measured.SAMPLES * context * sizes["width"] * 4
sent = {way: run["step"].sent_bytes[0] / a for way, run in ways.items()}
once, again = sent["sequence parallel"], sent["sequence parallel, gathered again"]
more.compare(theory=25 if n > 1 else 0, measured=100 * (again / once - 1) if n > 1 else 0,
             kind="communication")

# %% tags=["cover"]
formula = measured.compute_activation_bytes(context, sizes["width"], heads, n)
kept = {way: run["kept"].at_peak[0]["activations"]
        for way, run in ({"one process": one} | ways).items()}

def stacks(sizes):
    return {way.replace(", ", ",\n"): {"activations": size} for way, size in sizes.items()}

plot_stacks(stacks(kept), stacks(formula),
            title=f"What a rank keeps of a block for its backward: alone, and as one of {n}")

# %%
Table(["", "kept, in a", "by the formula", "sent, in a", "in theory"],
      [[way, f"{kept[way] / a:.2f}", f"{formula[way] / a:.2f}", f"{sent[way]:.2f}",
        f"{(5 if 'again' in way else 4) * 2 * (n - 1) / n:g}"] for way in ways],
      note="One block, forward and backward. Beside multiples of a it keeps two numbers for each "
           "token and norm, and one for each token and head. Messages have headers.")

# %% [markdown]
# Two regions have an all-gather and a reduce-scatter each, in the forward and again in the
# backward. These are eight halves of an all-reduce, as many as in tensor parallelism. One
# all-gather more in each region makes ten: 25 % more.
#
# One hears that sequence parallelism costs no bytes, and that it divides all activations by $n$.
# **Both are true, but not at once.** (Megatron-LM overlaps the second gather with a product, says
# section 4.2.2 of its paper.)

# %% [markdown]
# **On GPUs.** PyTorch has both collectives for one whole tensor: `dist.all_gather_into_tensor` and
# `dist.reduce_scatter_tensor`. NCCL does each as one call. Gloo's reduce-scatter is an all-reduce,
# and sends twice as much (part 02d). So the lab uses your ring for it.

# %% [markdown]
# ## 4 · The real engine
#
# You need not write all this for each model. In PyTorch, `parallelize_module` takes a **plan**:
# which module is cut how. It makes `DTensor`s of the parameters, with the placements of part 07.
# Nothing in the model is rewritten. Here is the plan that does what your `parallelize` does:

# %%
engines = lab("tensor_engines")
for name, style in engines.tensor_plan(lab("language_model").Transformer(layers=1)).items():
    print(f"{name:36} {type(style).__name__}")

# %% [markdown]
# (For the loss there is `loss_parallel()`. Within it, cross-entropy does what yours of {{split_cross_entropy}} does. A
# second plan adds sequence parallelism.) Your versions and PyTorch's do one step of the
# transformer, in float64:

# %%
names = "tensor parallel", "sequence parallel", *engines.PLANS
beside = {name: launch(engines.one_step, name, text, context, sizes, world_size=n, device="cpu")
          for name in names}
print("all gradients are those of one process, but for rounding:",
      all(max(run.values) <= rounding() for run in beside.values()))

# %%
x_bytes = 8 * context * sizes["width"] * 8  # one activation, of 8 samples in float64
sums = {name: 15 if "DTensor, s" in name else 10 for name in beside}
Table(["", "sent, in activations", "in theory", "activations at most"],
      [[name, f"{run['step'].sent_bytes[0] / x_bytes:.2f}",
        f"{sums[name] * 2 * (n - 1) / n:g}",
        f"{run['step'].peak_bytes[0]['activations'] / 1e6:.2f} MB"]
       for name, run in beside.items()])

# %% [markdown]
# The engine finds the same gradients. In tensor parallelism it sends the same bytes: ten sums of an
# activation. Each of the two blocks has two forward and two backward, and embedding and last layer
# have one each. DTensor's sequence parallelism sends half as much again here, because Gloo's
# reduce-scatter is an all-reduce.

# %% [markdown]
# ## Put to the test
#
# Our sources say nothing of sequence parallelism. Here is what one says about engines.

# %% jupyter={"source_hidden": true}
# A statement of a source, and what was found.
plan = engines.tensor_plan(engines.Transformer(layers=1))
gap = max(beside["DTensor"].values)
same = "same" if gap <= rounding() else "other"
put_to_the_test(f"""
- [C166] It must be written by hand into the attention module | CS 229S, “Tensor Model
  Parallelism” | {"depends" if same == "same" else "right"} | DTensor does it by a plan of
  {len(plan)} entries for one block and both ends (section 4), with the {same} gradients but for
  rounding. A rank sends {beside["DTensor"]["step"].sent_bytes[0] / x_bytes:.2f} activations; by
  hand, {beside["tensor parallel"]["step"].sent_bytes[0] / x_bytes:.2f} (section 4, table) |
  measured: nothing, since the same plan runs over NCCL (PyTorch's tutorial on tensor parallel)
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** PyTorch's [DTensor](https://docs.pytorch.org/docs/stable/distributed.tensor.html).
# Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
# Models](https://arxiv.org/abs/2205.05198), 2022, section 4.2.

# %% [markdown]
# ## What you have learnt
#
# * Between the regions each rank has a **piece of the context**. Norms, additions and dropout are
#   done once.
# * All-gather and reduce-scatter take the place of the all-reduces, and send the same bytes.
# * Gradients of what is **whole** on every rank are Partial now. They are summed after the
#   backward. **Rotary angles** need the place where a rank's piece begins, unless the context is
#   gathered before queries and keys are computed.
# * A block keeps $2 + 14/n$ activations, or $16/n$ if it gathers again and sends a quarter more.
# * PyTorch's engine cuts a model by a **plan**, with the same gradients.
#
# **Your exercises**: {{attend_from_piece}} stands in a cell above. The others are in
# [labs/sequence_parallel.py](../labs/sequence_parallel.py).
#
# **Next**: {{next}}.

# %%
progress("07e")
