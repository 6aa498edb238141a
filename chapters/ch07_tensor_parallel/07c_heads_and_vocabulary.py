# %% [markdown]
# # {{title}}
#
# **How do you cut the rest of a transformer: attention, embedding, and loss?** Attention is a pair
# again, cut by heads. It gets harder when keys and values have fewer heads than there are ranks.
# The embedding and the loss are cut by tokens of the vocabulary, and neither of them ever gathers
# the logits.

# %% [markdown]
# ![Bytes that a rank sends for one transformer block, forward and backward, on one, two and four
# ranks, as a multiple of an activation: nothing, two and three, as in
# theory](../assets/covers/07c_heads_and_vocabulary.png)
#
# *Measured in section 3: what a rank sends for one transformer block.*
#
# **After this part you can** cut attention by heads on any number of ranks, count the sums of a
# block, and compute a loss from logits that no rank has whole.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
width = 64
vocabulary = 8192

# %% [markdown]
# ## 1 · Attention, head by head
#
# In a large model, attention has the most weights after the MLPs. Its heads do not know of each
# other until the output layer. So give each rank some heads. The columns of the layer
# `query_key_value` that belong to these heads are a cut by columns. The rows of the output layer
# that belong to them are a cut by rows. That is a pair again: one sum forward, one sum backward.
#
# Many models use **grouped-query attention**: several query heads share one key head and one value
# head. Such a pair of a key and a value is called a **key-value head** here. It should be on the
# rank of its query heads.

# %% [markdown]
# A model stores queries, keys and values in one **fused** matrix. In which order? The course's
# `Attention` stores the queries of one key-value head, then its key, then its value, and then the
# next head. So a rank's part is one slice of the matrix. GPT-2 stores all queries, then all keys,
# then all values. There, one slice would be wrong.

# %% [markdown]
# ### Exercise {{cut_fused}} · Cut a fused QKV matrix
#
# Write `cut_fused(weight, heads, kv_heads, rank, n)`. `weight` has the rows of all query heads,
# then of all key heads, then of all value heads. Each head has the same number of rows; the columns
# are the inputs. Return one matrix with the rows of rank `rank` of `n`, in the same order: its
# queries, its keys, its values. Rank 0 has the first heads of each kind. `n` divides `kv_heads`,
# and `kv_heads` divides `heads`. Nothing is sent: `rank` and `n` are arguments.

# %% [markdown]
# For example, 4 query heads and 2 key-value heads have one row each. The rows are q0 q1 q2 q3 k0 k1
# v0 v1. Rank 1 of 2 gets q2 q3 k1 v1.

# %%
def cut_fused(weight, heads, kv_heads, rank, n):
    ### BEGIN SOLUTION
    size = len(weight) // (heads + 2 * kv_heads)
    q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
    ### END SOLUTION

check("{{cut_fused}}", cut_fused)

# %% [markdown]
# ## 2 · More ranks than key-value heads
#
# Llama 3 has 8 key-value heads, and some models have only one or two. Must tensor parallelism stop
# at that number? No. **A key-value head may be on several ranks.** Each of them computes the same
# key and value, for query heads of its own. Take 8 query heads, 2 key-value heads and 4 ranks:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | query heads | 0, 1 | 2, 3 | 4, 5 | 6, 7 |
# | key-value head | 0 | 0 | 1 | 1 |

# %% [markdown]
# Query heads 0 to 3 use key-value head 0, and query heads 4 to 7 use head 1. So ranks 0 and 1 share
# head 0.

# %% [markdown]
# What about gradients? In one process, a key gets gradients from all query heads that use it, and
# they are added up. On rank 0, only query heads 0 and 1 use the key. Query heads 2 and 3 use the
# copy on rank 1. So each rank has only a part of the gradient: it is Partial over the ranks that
# share the head. Without a sum, the two copies of the key would drift apart.
#
# Say the four query heads give the gradients 1, 2, 3 and 4 for one number of the key. Rank 0 has 3,
# and rank 1 has 7. Both need 10.

# %% [markdown]
# ### Exercise {{few_heads}} · Share key-value heads between ranks
#
# In [labs/replicated_heads.py](../labs/replicated_heads.py), complete `FewHeads(attention,
# group=None)` in two places. The number of ranks `n` is a multiple of `kv_heads`, and divides
# `heads`.
#
# 1. In `__init__`, set `self.query_heads`, a list of the numbers of this rank's query heads: `heads
#    / n` in a row, and rank 0 has the first ones. Set `self.head`, the number of the key-value head
#    that they use. `rank`, `n`, `heads` and `kv_heads` are there.
# 2. `sum_shared_gradients()` is called once per step, after the last backward. Complete the
#    gradients of the parameters of `self.key_value`, in place. `self.sharers` is the group of the
#    ranks with the same key-value head. Leave all other gradients as they are. You may send an
#    all-reduce of these gradients among the sharers.

# %% [markdown]
# The table of heads and the gradients 1, 2, 3 and 4 above are the example. Output and gradients
# must be those of one process, in float64.

# %%
check("{{few_heads}}")

# %% [markdown]
# Here are 4, 2 and 1 key-value heads on four ranks. The last column counts what a rank sends for
# the shared gradients.

# %%
replicated = lab("replicated_heads")
few = {kv: launch(replicated.try_heads, 64, 8, kv, world_size=4, device="cpu") for kv in (4, 2, 1)}
Table(["key-value heads", "on ranks 0 to 3", "as one process", "sent by rank 0"],
      [[kv, str([of["head"] for of in run.values]), str(all(of["right"] for of in run.values)),
        f"{run['sum'].sent_bytes[0] / 1e3:.1f} kB"] for kv, run in few.items()])

# %% [markdown]
# With 4 key-value heads nothing is shared, and nothing is sent. A key that is on several ranks
# costs memory and computing on each of them. It also costs this sum, once in a step.
#
# **In engines.** vLLM replicates key-value heads in this way ([QKVParallelLinear in
# linear.py](https://github.com/vllm-project/vllm/blob/0036d38de46c5d48fdedeb658dedc0fc0f95677d/vllm/model_executor/layers/linear.py)).
# It only runs models, so it needs no gradients. Megatron Core cuts the fused matrix evenly, gathers
# the activations of queries, keys and values over the ranks, and takes out what a rank needs
# ([attention.py](https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/transformer/attention.py)).

# %% [markdown]
# **Latent attention** (*MLA*) goes further than one key-value head. DeepSeek-V3 stores a single
# vector per token and layer, of 512 numbers and 64 rotated ones, from which other matrices make the
# keys and values of all heads ([vLLM's
# notes](https://docs.vllm.ai/en/v0.10.2/api/vllm/attention/backends/mla/common.html)). Tensor
# parallelism cuts these matrices by heads, but every head needs the whole vector, so that with
# plain tensor parallelism every rank stores it. Modular's engine says that its cache is [duplicated
# on all
# devices](https://docs.modular.com/max/api/python/generated/max.nn.attention.TensorParallelLatentAttentionWithRope/).
# In models with experts, vLLM suggests data parallelism for such attention, and expert or tensor
# parallelism for the experts
# ([documentation](https://docs.vllm.ai/en/latest/serving/data_parallel_deployment/)). Decode
# context parallelism deals the tokens of the cache to the same ranks
# ([SGLang](https://docs.sglang.io/docs/advanced_features/dcp.md)), and merges their results as part
# [09f](09f_long_contexts.ipynb) does.

# %% [markdown]
# ## 3 · A whole block
#
# A transformer block has two pairs, attention and MLP. Layer norms between the pairs, and biases
# behind a sum, are Replicate: every rank has them, and computes the same with them. (A norm
# *inside* attention is different: section 4.) How many all-reduces does a block need, forward and
# backward together?

# %%
how_many = predict("All-reduces of one block, forward and backward", unit="all-reduces")

# %%
measured = lab("tensor_measured")
blocks = {k: launch(measured.split_block, width, 8, 4, world_size=k, device="cpu")
          for k in (1, 2, 4)}
print("output and all gradients are those of one process, but for rounding:",
      all(all(run.values) for run in blocks.values()))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
made = {k: [len(run[way].calls[0]) for way in ("forward", "backward")] for k, run in blocks.items()}
how_many.compare(theory=4, measured=sum(made[4]))

# %% tags=["cover"]
x_bytes, ways = 8 * 64 * width * 8, ("forward", "backward")  # 8 samples of 64 tokens, float64
multiples = {way: [run[way].sent_bytes[0] / x_bytes for run in blocks.values()] for way in ways}
theory = [2 * 2 * (k - 1) / k for k in blocks]
plot_bars([f"{k} rank{'s' * (k > 1)}" for k in blocks], multiples,
          "sent by a rank,\nas a multiple of x", predicted=dict.fromkeys(ways, theory),
          title="One transformer block: two all-reduces forward, two backward")

# %% [markdown]
# Two forward and two backward, whatever the number of ranks. Each has the size of one activation
# $x$: samples × context × width. No weight ever travels.
#
# Compare this with ZeRO-3, which sends weights. Let the group train on $T$ tokens in a step: with
# tensor parallelism every rank reads all of them, and under ZeRO-3 each rank reads $T/n$. Let $w$
# be the width, so that a block's matrices have $12 w^2$ numbers. Leave out the factor
# $\frac{n-1}{n}$, which both have. Then a rank sends, for one block:

# %% [markdown]
# * tensor parallel: four all-reduces of $Tw$ numbers. An all-reduce sends twice its tensor, so
#   these are $8\,Tw$;
# * ZeRO-3: the weights gathered twice, and the gradients reduced once: $3 \cdot 12 w^2 = 36\,w^2$.
#
# Both are equal at $T = 4.5\,w$, where ZeRO-3's ranks read $4.5\,w/n$ tokens each. With fewer
# tokens in the group's step, tensor parallelism sends less.

# %% [markdown]
# But there is another difference. ZeRO-3 knows in advance which weights come next, so it can fetch
# them early, while it computes. Activations do not exist in advance, so all ranks wait for each sum
# in a block. (Part [07f](07f_behind_a_product.ipynb) finds some work to do meanwhile.)

# %% [markdown]
# ## 4 · Rotary positions and gates
#
# The block above is GPT-2's. Llama's is the base of most newer models. It has grouped heads,
# RMSNorm (part 05d), no biases, and two things that have to be cut: rotary positions and a gated
# MLP.
#
# **Rotary positions** (*RoPE*) replace the table of positions. Two numbers of a head are a pair.
# In queries and keys at place $p$ of the context, pair $i$ is rotated by the angle $p \, \theta_i$:
#
# $$(a, b) \rightarrow (a \cos p\theta_i - b \sin p\theta_i, \; b \cos p\theta_i + a \sin
# p\theta_i), \qquad \theta_i = \text{base}^{-2i / \text{size}} .$$
#
# If a query at place $m$ meets a key at place $n$, their product depends on $m - n$ alone, because
# rotating both by the same angle changes no product. So a score knows how far apart two tokens are.

# %% [markdown]
# ### Exercise {{rotate}} · Rotate queries and keys by their positions (RoPE)
#
# Write `rotate(x, places, base=10_000.0)` in [labs/llama.py](../labs/llama.py). `x` has the shape
# (…, places, size), where `size`, that of a head, is even. `places` is an int64 tensor with the
# place of each token in the whole context. On a rank with a piece of the context, it need not begin
# with 0.
#
# Number $i$ of a head's first half and number $i$ of its second half are pair $i$, as in the
# `transformers` package. Compute angles in float64, because places may be large numbers, and rotate
# in at least float32: if `x` is bfloat16, round once, at the end. Return a new tensor with the
# shape and the dtype of `x`, through which gradients flow back to `x`.

# %% [markdown]
# For example, a head of 4 numbers has the pairs (0, 2) and (1, 3), which are rotated by $p$ and by
# $p / 100$. The head [1, 0, 0, 0] becomes $[\cos p, 0, \sin p, 0]$: at place 0 it stays as it is.

# %%
check("{{rotate}}")

# %% [markdown]
# The angles depend on the place and on the number's index in its head, and every head has the same
# ones. So a rank rotates its own heads, and **sends nothing**. A key-value head that is on several
# ranks is rotated alike on each of them.
#
# **In engines.** For contexts that are longer than in training, models take a larger base, or
# divide speeds by a factor: all of them, or the slow ones (*YaRN*), as in `transformers`
# ([modeling_rope_utils.py](https://github.com/huggingface/transformers/blob/0044e3b3facff1a1ad60b235c69d5b45beae75a4/src/transformers/modeling_rope_utils.py)).
# Meta's checkpoints of Llama have pairs of *neighbours*, numbers 2i and 2i + 1. A
# [converter](https://github.com/huggingface/transformers/blob/01cc9cd9d804d368d553c093c4eb0646320545bb/src/transformers/models/llama/convert_llama_weights_to_hf.py)
# reorders the rows of their query and key matrices (`permute`). If that is left out, nothing fails,
# and the scores are wrong.

# %% [markdown]
# The **gated MLP** has two first matrices, one for the gate and one for its factor, and gate $j$
# needs factor $j$. Cut both by columns, and they meet on the same rank. The lab stores them in one
# matrix whose rows take turns: gate 0, factor 0, gate 1, factor 1, and so on. A rank's part is one
# slice with an even number of rows, and the region is entered once. If each matrix entered alone,
# the backward would sum the gradient of $x$ twice.

# %%
llama = lab("llama")
llama_blocks = {k: launch(measured.split_block, width, 8, 4, 64, llama.LlamaBlock, world_size=k,
                          device="cpu") for k in (1, 2, 4)}
print("a Llama block is that of one process, but for rounding:",
      all(all(run.values) for run in llama_blocks.values()))

# %%
def multiple(run):
    return f"{sum(run[way].sent_bytes[0] for way in ways) / x_bytes:.1f} x"

Table(["ranks", "all-reduces, forward", "backward", "sent", "sent by the block above"],
      [[k, *(len(run[way].calls[0]) for way in ways), multiple(run), multiple(blocks[k])]
       for k, run in llama_blocks.items()])

# %% [markdown]
# ### A norm inside attention (QK-norm)
#
# **QK-norm** normalises each query and each key over its head, before it is rotated. [Qwen
# 3](https://github.com/huggingface/transformers/blob/000c33fdfde12e1ffafbfcdb3c926df5727a00b6/src/transformers/models/qwen3/modeling_qwen3.py)
# does so, and so does the lab with `qk_norm`. All heads share the norm's weight, which has as many
# numbers as a head. Every rank has all of it, but uses it for its own heads alone. So its gradient
# is Partial, like that of a shared key.
#
# Say the heads of rank 0 give the gradient 1 for one number of the weight, and those of rank 1 give
# 2. Both ranks need 3. The lab's `sum_norm_gradients` adds up, once per step. Here is a small Llama
# in 4 parts, without this sum and with it:

# %%
norms, text = lab("head_norms"), lab("language_model").standard_library(20_000)
sizes = {"width": width, "heads": 8, "kv_heads": 4}
normed = {name: launch(norms.train_with_head_norms, text, sizes, 20, complete, world_size=4,
                       device="cpu").values[0]
          for name, complete in (("without", None), ("with the sum", norms.sum_norm_gradients))}

def judge(gap):
    return "right" if gap < 1e-12 else f"off by {gap:.0%}"

kinds = ["matrices", "norms between regions", "norms of heads"]
Table(["", *kinds, "loss, steps 1 and 20", "copies apart by"],
      [[name, *(judge(of["gaps"][kind]) for kind in kinds),
        f"{of['split'][0]:.2f}, {of['split'][-1]:.2f}", f"{of['apart']:.2g}"]
       for name, of in normed.items()], note="Gradients of the first step, beside one process.")

# %% [markdown]
# Without the sum, the first step's other gradients are right, and here the loss falls alike to two
# decimals. Of what a run usually prints, nothing shows the fault: the ranks train different norms,
# and a checkpoint of rank 0's copy is a model that never ran.
#
# **In engines.** Megatron Core finds these norms by their names and sums their gradients over the
# tensor-parallel ranks
# ([finalize_model_grads.py](https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/distributed/finalize_model_grads.py)).
# [OLMo
# 2](https://github.com/huggingface/transformers/blob/000c33fdfde12e1ffafbfcdb3c926df5727a00b6/src/transformers/models/olmo2/modeling_olmo2.py)
# normalises over all heads together. Its weights can be cut like the heads, but each token's sum of
# squares is Partial, so the forward needs a sum, too.

# %% [markdown]
# ## 5 · The vocabulary
#
# The embedding and the last layer have a row for each token of the vocabulary. Large models often
# have 100,000 tokens and more, so these two layers are among the largest. Both are cut by
# tokens: each rank has some rows. The lab's `part_sizes` says how many.
#
# (The course's model reads characters, so its vocabulary has 128 tokens.)

# %% [markdown]
# ### Exercise {{vocabulary_embedding}} · Write a vocabulary-parallel embedding
#
# In [labs/tensor_parallel.py](../labs/tensor_parallel.py), write the `forward(tokens)` of
# `VocabularyEmbedding`. `tokens` is an int64 tensor of any shape, the same on every rank. Return
# all rows, of shape (…, width), the same on every rank.
#
# `self.weight` has this rank's rows, and `self.first` is the number of the first one. A rank looks
# up the tokens that it has, and takes zeros for all others. Then `self.leave(rows, self.group)`
# adds up, once. Other ranks' tokens must not give this rank's weights a gradient. `tokens` stays as
# it is. (A token outside the vocabulary is refused before your lines.)

# %% [markdown]
# For example, rank 0 has the rows of tokens 0 and 1, and rank 1 those of 2 and 3. For the tokens
# `[3, 0]`, rank 0 adds [zeros, row 0], and rank 1 adds [row 3, zeros].

# %% [markdown]
# ### Exercise {{split_cross_entropy}} · Compute cross-entropy from split logits
#
# The last layer is a `ColumnLinear`: each rank gets the **logits** of some tokens. The loss of one
# target $t$ with the logits $s_v$ is
#
# $$\log \sum_v e^{s_v} - s_t .$$
#
# Gathering all logits would cost their size. But the sum over all tokens is a sum of the ranks'
# sums, and only one rank has $s_t$. Write `split_cross_entropy(logits, targets, group=None,
# vocabulary=128)` in [labs/tensor_parallel.py](../labs/tensor_parallel.py).

# %% [markdown]
# * `logits` has the shape (…, tokens of this rank). `targets` has the shape (…), int64, the same on
#   every rank. `first`, the number of this rank's first token, is computed already.
# * Return the mean loss over all targets, as one number with a gradient, the same on every rank.
# * $e^s$ overflows for large $s$. So take away the highest logit of each target first, the highest
#   of all ranks. It cancels out in the result, and needs no gradient (`detach`).
# * Send all-reduces of at most three numbers for each target in the forward, and nothing in the
#   backward.

# %% [markdown]
# Before your lines, targets of -100 are left out, as `F.cross_entropy` does, and a target outside
# the vocabulary is refused on every rank.
#
# For example, rank 0 has the logits [0, 1] and rank 1 has [3]. The target is token 1. The highest
# logit is 3, so rank 0's sum is $e^{-3} + e^{-2}$, and rank 1's is 1. The loss is $\log(e^{-3} +
# e^{-2} + 1) - (1 - 3) \approx 2.17$.

# %%
display(check("{{vocabulary_embedding}}"))
check("{{split_cross_entropy}}")

# %% [markdown]
# What does it save? Take 512 targets and a vocabulary of 8,192. One way is yours, and the other one
# gathers the logits first:

# %%
losses = launch(measured.two_losses, 512, vocabulary, world_size=world_size, device="cpu")
assert all(losses.values)  # the same loss, but for rounding
share = 8 * (world_size - 1) / world_size / 1e3
numbers = {"split": 3 * 512 * 2 * share, "gathered": 512 * vocabulary * share}
Table(["", "sent by a rank", "in theory", "peak memory"],
      [[way, f"{losses[way].sent_bytes[0] / 1e3:,.1f} kB", f"{kB:,.1f} kB",
        f"{losses[way].peak_bytes[0]['total'] / 1e6:.0f} MB"] for way, kB in numbers.items()],
      note="Forward only, in float64.")

# %% [markdown]
# Your loss sends three numbers for each target, however large the vocabulary is. (Gloo's headers
# come on top, about 1 kB for each all-reduce. In small messages they show.)
#
# **On GPUs.** PyTorch's context manager `loss_parallel()` does the same for DTensors ([its
# documentation](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html)). Part
# [07e](07e_sequence_parallel.ipynb) uses it.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the sums of a block, and what was found.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
sums = [call for way in ways for call in blocks[4][way].calls[0]]
is_activation = {call.tensor_bytes for call in sums} == {x_bytes}
put_to_the_test(f"""
- [C153] Tensor parallelism communicates after every layer | web page, “High Bandwidth Required” and
  “Three Dimensions of Parallelism” | {"imprecise" if made[4] == [2, 2] else "right"} | after every
  pair of linear layers. A block of four such layers made {made[4][0]} all-reduces forward and
  {made[4][1]} backward on 4 ranks (counted in section 3's run) | measured: nothing in the number of
  sums; with sequence parallelism each becomes a reduce-scatter and an all-gather
- [C157] The all-reduces after attention and MLP synchronise the weights |
  CS 229S, “Tensor Model Parallelism for LLMs” | {"wrong" if is_activation else "right"} |
  they sum activations: each of a block's {len(sums)} all-reduces has {sums[0].tensor_bytes} bytes =
  samples × context × width × 8 (measured in this section). There is no other message, and the
  gradients of all weights are those of one process (section 3, run) | measured: nothing, since the
  calls are those of the program
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford).
#
# **To read on.** Ainslie et al., [GQA](https://arxiv.org/abs/2305.13245), 2023. Narayanan et al.,
# [Efficient Large-Scale Training](https://arxiv.org/abs/2104.04473), 2021.

# %% [markdown]
# ## What you have learnt
#
# * Attention is a pair, cut by **heads**. How a fused matrix is cut depends on the order of its
#   rows.
# * A **key-value head** may be on several ranks. Its gradient is the sum over them. So is that of a
#   norm **inside** attention, over all ranks.
# * A block takes two all-reduces forward and two backward, each of one activation. So does a
#   Llama block, because **rotary angles** depend on places and not on heads.
# * Embedding and loss are cut by **tokens**. The loss sends three numbers for each target, and the
#   logits stay where they are.
#
# **Your exercises**: {{cut_fused}} stands in a cell above. The others are in
# [labs/replicated_heads.py](../labs/replicated_heads.py), [labs/llama.py](../labs/llama.py) and
# [labs/tensor_parallel.py](../labs/tensor_parallel.py).
#
# **Next**: {{next}}.

# %%
progress("07c")
