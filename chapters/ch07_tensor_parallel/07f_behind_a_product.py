# %% [markdown]
# # {{title}}
#
# **Do the ranks have to wait for each sum?** The next layer of a block needs the sum before it. But
# some other work does not need this sum, in the backward and even in the forward. You let messages
# travel while a product is computed. Then you turn to the opposite case: decoding, where there is
# hardly anything to compute, and every message is small.

# %% [markdown]
# ![Timeline of two ranks: a backward that waits for its sum takes three products long, and one that
# computes meanwhile takes two](../assets/covers/07f_behind_a_product.png)
#
# *Measured in section 1, with emulated computing and throttled links: the same backward, waiting
# for its sum, and computing meanwhile.*
#
# **After this part you can** overlap a sum with a product in the backward, say how a gather is
# overlapped in the forward, and tell what decoding with tensor parallelism costs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, plot_timeline, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
width = 64
train_steps = 150
milliseconds = 56.0

# %% [markdown]
# ## 1 · A sum behind a product
#
# In the backward of a column layer, two products are computed:
#
# * the gradient of $X$. It has to be summed over the ranks, and the backward of all earlier layers
#   waits for it;
# * the gradient of $A$. Nobody waits for it.
#
# So compute the gradient of $X$ first, begin its sum, and compute the gradient of $A$ meanwhile.

# %% [markdown]
# ### Exercise {{overlapped_product}} · Overlap an all-reduce with a product
#
# Write the `backward(ctx, gradient)` of `OverlappedProduct` in
# [labs/sequence_parallel.py](../labs/sequence_parallel.py). `forward` is there. It computes $XA +
# b$ and leaves `ctx.group`, `ctx.begin` and `ctx.has_bias`; `x, weight = ctx.saved_tensors`.

# %% [markdown]
# * `x` has the shape (…, inputs), and `weight` has (outputs of this rank, inputs). `gradient` has
#   the shape (…, outputs of this rank).
# * `ctx.begin(tensor, ctx.group)` begins to add up that tensor in place, and returns a function.
#   Calling that function waits for the end. Until then, do not use the tensor.
# * The lab's `gradients_of_layer(gradient, x, has_bias)` returns the gradients of weight and bias.
# * Return five values: the summed gradient of `x`, those of `weight` and `bias` (None without a
#   bias), and None for `group` and for `begin`. The order of work counts: begin, compute, wait.

# %%
check("{{overlapped_product}}")

# %% [markdown]
# To *see* the overlap, computing is emulated, as in 03c: within `SlowProducts`, each matrix product
# takes 56 ms. Links are throttled so that the sum takes as long as one product. Your ring of
# chapter 02 carries it, in a thread.
#
# Count time in products. Without overlap, this backward takes 1 + 1 + 1 products: two are computed,
# and one is spent waiting. How much shorter is it with overlap?

# %%
shorter = predict("How much shorter overlap makes the backward of a column layer", unit="%")

# %% tags=["nbval-ignore-output"]
products, seconds = lab("async_products"), milliseconds / 1e3
overlap = launch(products.backward_of, 384, seconds, world_size=2, device="cpu")
took = {label: min(overlap[label].rounds) for label in ("waiting", "meanwhile")}
print(*(f"{label}: {1e3 * t:.0f} ms" for label, t in took.items()), sep="; ")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
shorter.compare(theory=100 / 3, measured=100 * (1 - took["meanwhile"] / took["waiting"]),
                kind="communication")

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(overlap, ["waiting", "meanwhile", "product", "all_reduce"], below=["all_reduce"],
              title="Backward of a column layer, six times: waiting, and meanwhile (emulated)")

# %% [markdown]
# ## 2 · A gather behind products
#
# And in the forward? A row layer's sum is needed at once: no product waits beside it. But with
# sequence parallelism (07e) the forward begins with an all-gather of pieces, and then a product.
# **You can multiply a tall matrix a few rows at a time.** A rank has its own piece at once. So it
# multiplies that one while the next piece comes in. Then it multiplies the next one, and so on.
# This is called **asynchronous tensor parallelism**.

# %% [markdown]
# Say there are 4 ranks. A piece takes as long to travel as its product takes to compute. Waiting
# takes 3 messages and then 4 products. How many such steps does it take if each message travels
# behind a product?

# %%
steps = predict("Steps of a gather and its product on 4 ranks, overlapped (waiting: 7)",
                unit="steps")

# %% tags=["nbval-ignore-output"]
forward = launch(products.forward_of, 96, 384, seconds, world_size=4, device="cpu")
print("both ways give the same product:", all(forward.values))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
steps.compare(theory=4, measured=min(forward["meanwhile"].rounds) / seconds)

# %% tags=["nbval-ignore-output"]
plot_timeline(forward, ["waiting", "meanwhile", "product", "wait"],
              title="A gather and its product on 4 ranks: waiting, and meanwhile (emulated)")

# %% [markdown]
# The purple blocks are waits for a message. Where few are left in “meanwhile”, most messages travel
# behind a product.

# %% [markdown]
# The way out of a region is cut alike: a reduce-scatter passes sums of pieces on while the next
# piece's product is computed.
#
# **On GPUs.** It only pays if the smaller products run as fast as the large one, and if the copies
# take no part of the GPU that computes. PyTorch has `fused_all_gather_matmul` and
# `fused_matmul_reduce_scatter` for this, on **symmetric memory**: memory that GPUs of a machine can
# read from each other. Their
# [documentation](https://docs.pytorch.org/docs/main/distributed/symmetric_memory.html) calls them
# alpha (read in October 2026). `torch.compile` can put them in place of an all-gather and a product
# ([the change that began
# it](https://github.com/pytorch/pytorch/commit/2dd269986027ea25c092f769ef8e9524920aaef6)). The
# switch is private and off in PyTorch 2.13: `torch._inductor.config._micro_pipeline_tp`, which
# [NVIDIA's AutoModel](https://docs.nvidia.com/nemo/automodel/nemo-automodel/nemo_automodel/shared/tp_linear)
# uses. None of this was measured here.

# %% [markdown]
# ## 3 · Decoding
#
# A model writes text one token at a time. It keeps the keys and values of all tokens before, the
# **key-value cache**. So for each new token, each product has one row only. With heads cut, the
# cache is cut, too: each rank keeps the keys and values of its own heads, and nothing is sent.
# (Part 07c has two exceptions: ranks that share a key-value head each keep it, and in latent
# attention all heads read one vector per token, so that with plain tensor parallelism every rank
# keeps the whole cache.)
#
# ### Exercise {{likeliest}} · Find the likeliest token across ranks
#
# In [labs/decoding.py](../labs/decoding.py), write `likeliest(logits, first, group=None)`: the
# token with the highest logit over all ranks.

# %% [markdown]
# * `logits` has the shape (samples, tokens of this rank), in any floating dtype. Ranks may have
#   different numbers of tokens. `first` is the number of this rank's first token.
# * Return one int64 token for each sample, the same on every rank. Of equal logits, the token with
#   the lowest number counts.
# * You may send an all-gather of two numbers for each sample.
#
# For example, rank 0 has the logits [1, 5], and rank 1 has [7, 0]. The answer is token 2.

# %%
check("{{likeliest}}")

# %%
decoding, text = lab("decoding_measured"), lab("language_model").standard_library(100_000)

# %% [markdown]
# A small model is trained in one process for some seconds. Then it decodes on 1, 2 and 4 ranks. Not
# one token may differ. For each token, a rank sums one token's activation five times: once for the
# embedding, and twice for each of two layers. And it tells all others its best token, 16 bytes. How
# many bytes does one of 2 ranks send for the next token? The width is 64, in float64. Count tensors
# alone. In the measurement, Gloo's headers come on top.

# %%
per_token = predict("Bytes that one of 2 ranks sends for the next token", unit="B")

# %% tags=["nbval-ignore-output"]
SIZES, beginning, tokens = {"width": width, "heads": 8, "kv_heads": 4}, "def ", 44
state, alone = launch(decoding.train_and_continue, text, train_steps, SIZES, beginning, tokens,
                      world_size=1).values[0]
print(alone)

# %%
decoded = {k: launch(decoding.measure_decode, state, SIZES, beginning, tokens, world_size=k,
                     device="cpu") for k in (1, 2, 4)}
for k, run in decoded.items():
    same = {said for said, *_ in run.values} == {alone}
    print(f"{k} rank{'s' * (k > 1)}: the same {tokens} tokens as one process: {same}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
went_through = tokens + len(beginning) - 1  # at first the beginning went through as well
sent = {k: run["decode"].sent_bytes[0] / went_through for k, run in decoded.items()}
per_token.compare(theory=decoding.bytes_of_next(2, width), measured=sent[2], kind="communication")

# %% tags=["nbval-ignore-output"]
alone_bytes = decoded[2]["one sum"].sent_bytes[0]
Table(["ranks", "weights of a rank", "its cache", "sent for a token", "in theory"],
      [[k, f"{weights / 1e3:.0f} kB", f"{cache / 1e3:.1f} kB", f"{sent[k]:.0f} B",
        f"{decoding.bytes_of_next(k, width):.0f} B"]
       for k, run in decoded.items() for _, weights, cache in run.values[:1]],
      note=f"One sum of {width * 8} bytes by itself: a rank of two sends {alone_bytes} bytes.")

# %% [markdown]
# More is sent than in theory: Gloo puts a header before each of its messages, and cuts even a small
# sum into several. (A training step's tensors are larger. There, headers hardly show.) The bytes
# are few. But the *messages* are many: five small sums and a gather for each token, and each has
# its latency.

# %% tags=["nbval-ignore-output"]
speeds = {k: tokens / max(run["decode"].seconds) for k, run in decoded.items()}
plot_bars([f"{k} rank{'s' * (k > 1)}" for k in speeds], {"tokens": list(speeds.values())},
          "tokens per second", title="Decoding a small model with tensor parallelism, on the CPU")

# %% [markdown]
# Do not expect a gain: the model is tiny, and the ranks share this computer's cores. A large model
# is bound by memory: for each token, all weights are read once. $n$ GPUs together read them $n$
# times as fast, but for the sums. A model of 70 billion parameters in 2 bytes has 140 GB. An H100
# SXM reads 3.35 TB/s, says [NVIDIA's data sheet](https://www.nvidia.com/en-us/data-center/h100/).
# So these are upper bounds for one text, calculated and not measured. (An H100 has 80 GB, so the
# model does not fit on one. The first row is there for comparison alone.)

# %%
gpu_bytes, weights_70b = 3.35e12, 70e9 * 2
Table(["GPUs", "weights of each", "tokens per second, at most"],
      [[k, f"{weights_70b / k / 1e9:g} GB", f"{gpu_bytes * k / weights_70b:.0f}"]
       for k in (1, 2, 4, 8)])

# %% [markdown]
# **On GPUs**, the sums of decoding are just as small. So we expect latency to decide there, too.
# NCCL has trees beside its rings (part 02e). On some machines the NVLink switch itself adds up
# ([`NCCL_NVLS_ENABLE`](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html)). vLLM
# has an [all-reduce of its
# own](https://github.com/vllm-project/vllm/blob/0ad80649d36672284c95b5e1ae73447d9d5f207f/vllm/distributed/device_communicators/custom_all_reduce.py)
# for small tensors. None of this was measured here.

# %% [markdown]
# ## Put to the test
#
# What our sources say about inference with tensor parallelism, and what was found.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
fits = weights_70b / 8 <= 80e9
same = all({said for said, *_ in run.values} == {alone} for run in decoded.values())
of_one, of_four = (decoded[k].values[0][1] / 1e3 for k in (1, 4))
put_to_the_test(f"""
- [C168] Tensor parallelism for a 70B model across 8 GPUs | web page, “Multi-GPU Inference” |
  {"right" if fits and same else "wrong"} | 70 billion in 2 bytes are
  {weights_70b / 8 / 1e9:g} GB on each of 8 GPUs (calculated: section 3, last table), and the cache
  comes on top. A tiny model on 2 and 4 ranks writes the text of one process: {same} (section 3,
  run); a rank of 4 has {of_four:.0f} of {of_one:.0f} kB of weights (section 3, table) | computed:
  no 70B model was run here. How fast it writes, and how long its contexts may be, depends on GPUs
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Wang et al., [Overlap Communication with Dependent Computation via
# Decomposition](https://dl.acm.org/doi/10.1145/3567955.3567959), 2023. Pope et al., [Efficiently
# Scaling Transformer Inference](https://arxiv.org/abs/2211.05102), 2022.

# %% [markdown]
# ## What you have learnt
#
# * In the backward, the gradient of $A$ needs no sum. While it is computed, the sum of $X$'s
#   gradient travels.
# * In the forward, a gather is cut into pieces: **asynchronous tensor parallelism** multiplies one
#   piece while the next one travels.
# * Decoding sends few bytes for each token, in many small messages. Latency decides.
#
# **Your exercises**: [labs/sequence_parallel.py](../labs/sequence_parallel.py) has {{overlapped_product}}, and
# [labs/decoding.py](../labs/decoding.py) has {{likeliest}}.
#
# **Next**: {{next}}.

# %%
progress("07f")
