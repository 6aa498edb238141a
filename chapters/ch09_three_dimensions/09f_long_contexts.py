# %% [markdown]
# # {{title}}
#
# **How does a model read a text that fits into no rank's memory?** Each rank gets a piece of the
# text. All layers but one compute each place by itself. The exception is attention: there every
# place looks at all places before it. Here you write two ways to do attention on several ranks, and
# measure how long a text each of them has room for.

# %% [markdown]
# ![Memory of attention over the length of the context, for three ways: with all keys it is largest,
# in a ring much smaller, by heads with a fused kernel
# smallest](../assets/covers/09f_long_contexts.png)
#
# *Measured in section 6: the most that a rank holds during attention, forward and backward, on four
# ranks. For the ring, theory is exact to the byte.*
#
# **After this part you can** put attention together from pieces, send keys round in a ring, swap
# places for heads, say what each way costs in bytes and memory, and why pieces lie in a zigzag.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_against, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
ranks = 4
budget_megabytes = 8.0  # of a rank, in section 6

# %% [markdown]
# ## 1 · One layer that needs all of it
#
# A layer norm, an MLP, an embedding, the loss: each of them computes one place of the text without
# the others. If rank $r$ has a piece of the places, it computes these layers for its piece, and
# needs nobody. This is **context parallelism**. All ranks have all the weights, so after the
# backward gradients are averaged over the ranks, as in data parallel.

# %% [markdown]
# Four things still have to know of the whole text:
#
# * **Positions** are those in the whole text, also for rotary angles (exercise {{attend_from_piece}}).
# * **Targets** are shifted by one *before* the text is cut. The next letter of a piece's last place
#   is on another rank.
# * **The loss**: the mean of the ranks' means is right only if all ranks have equally many targets.
#   With padding, sum up, and divide by the number of targets on all ranks.
# * **The mask**, if several documents are packed into one text (section 4), and **dropout** in
#   attention.

# %% [markdown]
# Attention is different. A query looks at the keys of all places before it, and most of them are on
# other ranks. Either the keys come to the query, or all places of some heads come together on one
# rank. Why not simply give every rank the whole text? **Fused** attention never stores the scores
# (chapter 05). But it still computes them, and their number grows with the square of the text. The
# other activations of each layer grow with the text, too. So both have to be shared out.

# %% [markdown]
# ## 2 · Attention in pieces
#
# The softmax of a query divides by a sum over all its scores. So how can a rank begin with the keys
# that it has? With scores $s_j$ and values $v_j$, what comes out of attention for one query is
#
# $$o = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}}.$$
#
# Take the keys in two sets, $A$ and $B$. If we know $o_A$ and $\ell_A = \ln \sum_{j \in A}
# e^{s_j}$, and the same of $B$, then the sums above are $e^{\ell_A} o_A + e^{\ell_B} o_B$ and
# $e^{\ell_A} + e^{\ell_B}$. So each set gives two things for each query: $o$, a vector, and $\ell$,
# one number. The code calls them *out* and *lse* (the logarithm of a sum of exponentials).

# %% [markdown]
# ### Exercise {{merge}} · Merge attention over two key sets
#
# Write `merge(out, lse, more, more_lse)` in [labs/long_contexts.py](../labs/long_contexts.py).
#
# * `out` and `more` have the shape (…, size): what came out of each set. `lse` and `more_lse` have
#   the shape (…): the logarithm of the sum of $e^s$ over the set's keys.
# * It returns out and lse of both sets together.
# * Scores may be in the hundreds: $e^{900}$ is infinite, even in float64. Where a set has no keys,
#   its lse is -inf, and its out is 0; the other set has keys then. The arguments do not change.
#
# For example, a query has one key in each set, with the scores ln 1 and ln 3 and the values 0 and
# 8. Then out is (1 × 0 + 3 × 8) / 4 = 6, and lse is ln 4.

# %%
check("{{merge}}")

# %% [markdown]
# ### Exercise {{visible}} · Debug a causal mask across ranks
#
# Which keys may a query see? In one process, a triangle of ones says it: a row for each query, a
# column for each key. Somebody takes the same triangle for each pair of pieces. Below, each piece
# has three places:

# %%
def triangle(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool).tril()

print("rank 1, its own keys:\n", triangle(1, 1, 3).int(), "\nrank 1, keys of rank 0:\n",
      triangle(1, 0, 3).int())

whole = torch.ones(6, 6).tril()
print("in one process, rows and columns of the same places:\n", whole[3:, :3].int())
print("rank 0, keys of rank 1:\n", triangle(0, 1, 3).int(), "\nin one process:\n",
      whole[:3, 3:].int())

# %% [markdown]
# Mend the function. `rank` has the queries, `source` the keys; each has one piece of `length`
# places, and pieces lie in a row: rank 0 has the first one. It returns a tensor of bool, (length,
# length): True where the query of the row sees the key of the column. A query sees all keys whose
# place in the whole text is not later than its own.

# %%
def visible(rank, source, length):
    ### BEGIN SOLUTION
    places = torch.arange(length)
    return source * length + places <= (rank * length + places).unsqueeze(-1)
    ### IT WAS
    # return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION

check("{{visible}}", visible)

# %% [markdown]
# So there are three kinds of blocks. A rank's own block is a triangle, earlier blocks are full.
# Later blocks are empty, and need not be computed at all. With the bug, rank 1 misses keys that it
# may see. And rank 0 sees keys that are later in the text. These are the letters that it has to
# guess, so its loss can look too good.

# %% [markdown]
# ## 3 · Keys in a ring
#
# In **ring attention** each rank keeps its queries. Keys and values go from rank to rank. In each
# step a rank computes with the keys that it has at the moment, merges the result into its own, and
# passes the keys on. After $n$ steps, with $n - 1$ passes between them, it has seen all keys. It
# never holds more than three pieces of keys: its own, those that it computes with, and those that
# arrive.

# %% [markdown]
# ### Exercise {{ring_attention}} · Ring attention
#
# Write `ring_attention(q, k, v, places, group=None)` in
# [labs/long_contexts.py](../labs/long_contexts.py).
#
# * `q`, `k`, `v`: (samples, heads, places of this rank, size). They do not change.
# * `places` is a list with the places of each rank in the group, ascending tensors of whole
#   numbers; rank r's queries and keys are at `places[r]`.
# * It returns two tensors: what comes out for this rank's queries, shaped as `q`, and their lse,
#   (samples, heads, places of this rank), over all keys at places that are not later.
# * Each rank sends one piece of keys and values $n - 1$ times, to the next rank: first its own,
#   then those that it has received. It never holds more scores than those of one block.

# %% [markdown]
# The lab has what you need:
#
# | | |
# |---|---|
# | `blocks(mine, theirs)` | gives pairs of slices: of places of queries, of places of keys |
# | `attend(q, k, v, q_places, k_places)` | out and lse of one block |
# | `merge(…)` | exercise {{merge}}; the beginning is out 0 and lse -inf |
# | `passed_on([k, v], group)` | sends to the next rank, and gives what came from the one before |
#
# `mine` and `theirs` are the places of two ranks. A pair of slices says what has to be computed:
# the first one cuts dimension 2 of q, the second one that of k and v.
#
# For example, three ranks in a row, two places each. At first rank 2 computes with keys 4 and 5, in
# the next step with 2 and 3, in the last one with 0 and 1. Rank 0 computes in the first step alone,
# and passes on in the others.

# %%
check("{{ring_attention}}")

# %% [markdown]
# The backward is another ring. Scores are computed again, block by block, from the queries, the
# keys and lse. The gradients of keys and values travel with the keys and values. They are passed on
# once more at the end, and so come back to the rank that has these keys. The lab's `RingAttention`
# has this backward.
#
# ### Who waits?
#
# In a row, the queries of rank 0 see half of one block. The queries of the last rank see $n - 1$
# whole blocks, and half of one. In a ring all ranks wait for the slowest one. Count, for each rank,
# the pairs of a query and a key that it sees:

# %%
idle = predict(f"{ranks} ranks in a row: busiest rank's pairs, as a multiple of the mean",
               unit="times")

# %%
long_contexts = lab("long_contexts")

def pairs(layout, context=256, n=ranks):
    """For each rank, how many pairs there are of a query and a key that it sees."""
    places = layout(context, n)
    return [int((mine + 1).sum()) for mine in places]

in_a_row = pairs(long_contexts.contiguous_places)

# %% jupyter={"source_hidden": true}
# Your prediction, theory for a long text, and the pairs of 256 places counted.
idle.compare((2 * ranks - 1) / ranks, max(in_a_row) * ranks / sum(in_a_row), kind="forward",
             wire="counted")

# %% [markdown]
# ### Exercise {{zigzag}} · Split the context in zigzag order
#
# Cut the text into $2n$ pieces. Rank $r$ gets piece $r$ and piece $2n - 1 - r$: an early one, with
# little to see, and a late one.
#
# Write `zigzag(context, n)` in [labs/long_contexts.py](../labs/long_contexts.py). It returns a list
# with a tensor for each rank: its places, ascending. $2n$ divides `context`.
#
# For example, 8 places for 2 ranks: [0, 1, 6, 7] and [2, 3, 4, 5].

# %%
display(check("{{zigzag}}"))
zigzag = pairs(long_contexts.zigzag)
Table(["rank", "pairs, in a row", "pairs, zigzag"],
      [[rank, f"{a:,}", f"{b:,}"] for rank, (a, b) in enumerate(zip(in_a_row, zigzag))])

# %% [markdown]
# So with four ranks in a row, a rank would compute for $\frac47$ of the time on average, and wait
# for the rest. In a zigzag nobody waits.
#
# Our `ring_attention` is coarser. It computes whole blocks, and throws away what a query must not
# see. In a row, the ranks compute 1, 2, 3 and 4 blocks: the busiest one computes $4 / 2.5 = 1.6$
# times the mean. In the zigzag a block is half a piece by half a piece. Three ranks compute 9 such
# blocks, and the last one, whose two halves touch, computes 10, or $10 / 9.25 = 1.08$ times the
# mean. If ranks share cores, the gain in time does not show: a rank that waits leaves its core to
# another one.

# %% [markdown]
# ## 4 · Documents and windows
#
# Texts for training are often **packed**: several documents lie in one row, and a query sees only
# keys of its own document. A document of $L$ tokens then has $L (L + 1) / 2$ pairs, so rows of
# equally many tokens differ in work. On two ranks of dp, or in two micro-batches of a pipeline, the
# long one keeps others waiting. Count the pairs with the mask itself:

# %%
def mask_of(lengths):
    """Return a mask, True where a query sees a key: of its own document, and not later."""
    document = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    return (document.unsqueeze(-1) == document).tril()

one, eight = (int(mask_of(lengths).sum()) for lengths in ([4096], 8 * [512]))
print(f"4,096 tokens: one document has {one:,} pairs, eight have {eight:,}: {eight / one:.3f}")

# %% [markdown]
# ### Exercise {{pairs_per_rank}} · Pairs per rank for packed documents (cu_seqlens)
#
# Along cp, work depends on which queries a rank has. Write `pairs_per_rank(cu_seqlens, places)`
# without a mask.
#
# * `cu_seqlens` is a list of **cumulative lengths**: where each document begins, and last the
#   row's length. No document is empty.
# * `places` is a list with an ascending int64 tensor for each rank: its queries' places.
# * Return a list of ints: for each rank, the pairs of one of its queries and a key, on any rank,
#   that this query sees.
#
# For example, `[0, 3, 8]` are documents of 3 and 5 tokens. Rank 0's queries at places 0, 1, 6, 7
# see 1, 2, 4, 5 keys, and rank 1's at 2, 3, 4, 5 see 3, 1, 2, 3. The result is `[12, 9]`.

# %%
def pairs_per_rank(cu_seqlens, places):
    ### BEGIN SOLUTION
    starts = torch.tensor(cu_seqlens)
    return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
            for mine in places]
    ### END SOLUTION

check("{{pairs_per_rank}}", pairs_per_rank)

# %%
# Three documents on four ranks: in pieces, in a zigzag of the row, in a zigzag of each document.
lengths, starts, n = [2560, 1024, 512], [0, 2560, 3584], 4
of_each = [long_contexts.zigzag(length, n) for length in lengths]
layouts = {"in a row": long_contexts.contiguous_places(sum(lengths), n),
           "zigzag of the row": long_contexts.zigzag(sum(lengths), n),
           "zigzag of each document": [torch.cat([start + of[rank] for start, of in
                                                  zip(starts, of_each)]) for rank in range(n)]}
seen = mask_of(lengths).sum(-1)  # keys of each query
work = {name: [int(seen[mine].sum()) for mine in places] for name, places in layouts.items()}
Table(["layout", "pairs of ranks 0 to 3", "busiest / mean"],
      [[name, ", ".join(f"{count:,}" for count in of), f"{max(of) * n / sum(of):.2f}"]
       for name, of in work.items()])

# %% [markdown]
# The zigzag balances one document. For a row of three, it is worse here than plain pieces, while
# one zigzag per document balances all.
#
# **On GPUs.** Short pieces make kernels less efficient, so WLB-LLM chooses at runtime whether to
# shard each document along cp. It also packs rows of equal work, and reports 1.23 times the speed
# on average ([paper](https://arxiv.org/abs/2503.17924)). Megatron Bridge can pad each document to a
# multiple of 2 · cp
# ([code](https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/0840cdf5d478579608ca95673b04242925677c52/src/megatron/bridge/data/datasets/packed_sequence.py)).
# Its *dynamic context parallelism* gives each packed micro-batch a cp group for its longest
# document
# ([documentation](https://docs.nvidia.com/nemo/megatron-bridge/nightly/training/dynamic-context-parallel.html)).
# None of this was measured here.
#
# ### Layers that see less
#
# In some layers a query sees a **window**: its last 512 places, for example. Whose keys does a rank
# need then?

# %%
def ranks_in_window(places, window):
    """Return for each rank the ranks whose keys its queries see."""
    return [[source for source, theirs in enumerate(places)
             if any(theirs[b][-1] > mine[a][0] - window
                    for a, b in long_contexts.blocks(mine, theirs))] for mine in places]

Table(["layout", "ranks 0 to 3 need the keys of ranks"],
      [[layout.__name__, str(ranks_in_window(layout(4096, 4), 512))]
       for layout in (long_contexts.contiguous_places, long_contexts.zigzag)])

# %% [markdown]
# In a row, a rank needs the last keys of one neighbour and no ring, because this window is no
# longer than a piece. All ranks but the first have equal work. With the zigzag, ranks 1 and 2 need
# two neighbours, and nothing is gained.
#
# **Linear attention** keeps no keys, only the sum of all $k_j v_j^\top$ so far. Rank $r$ computes
# this state of its own piece, $S_r = K_r^\top V_r$. One all-gather brings all states to every
# rank, which adds up those to its left ([LASP-2](https://arxiv.org/abs/2502.07563);
# [labs/linear_attention.py](../labs/linear_attention.py)), so nobody waits in line. Each place
# costs the same, so pieces in a row are the right order, and a zigzag breaks the sum. NVIDIA's
# AutoModel first restores the order
# ([documentation](https://docs.nvidia.com/nemo/automodel/latest/nemo-automodel/nemo_automodel/components/models/qwen3_5_moe/cp_linear_attn)).

# %%
linear = lab("linear_attention")
for layout in (long_contexts.contiguous_places, long_contexts.zigzag):
    runs = {context: launch(linear.compare_linear_attention, layout, context,
                            world_size=ranks, device="cpu") for context in (256, 1024)}
    is_equal = max(max(run.values) for run in runs.values()) < 1e-12
    print(f"{layout.__name__}: values, gradients equal to one process to 1e-12: {is_equal}")
state = 4 * 16 * 16 * 8  # bytes of one rank's, with 4 heads of 16 features
for context, run in runs.items():
    sent = run["states"].sent_bytes[0]
    print(f"{context:,} places: rank 0 sends the bytes of {sent / state:.0f} states forward")

# %% [markdown]
# ## 5 · Heads for places
#
# The other way goes **by heads**. It is known as *Ulysses*, the name of its first engine. Heads do
# not need each other. So before attention, the ranks swap: each rank gives away all heads but its
# own ones, and gets all places of its heads. Attention then is that of one process, with any
# kernel. Afterwards they swap back. Each swap is an all-to-all of equal parts.

# %% [markdown]
# ### Exercise {{swap_keys_and_values}} · Swap which dimension is split
#
# Write `swap(x, split, join, group=None)` in [labs/long_contexts.py](../labs/long_contexts.py). It
# cuts `x` along dimension `split` into n equal parts, sends part r to rank r, and joins what comes
# along dimension `join`, in the order of the ranks. `x` has any shape, and need not be contiguous;
# n divides its size along `split`. `x` does not change. Each rank sends $\frac{n-1}{n}$ of `x`.
#
# For example, two ranks with (heads, places): rank 0 has [[a, b], [c, d]] for places 0 and 1, rank
# 1 has [[e, f], [g, h]] for places 2 and 3. With `split=0, join=1`, rank 0 gets [[a, b, e, f]]: all
# four places of the first head.

# %%
check("{{swap_keys_and_values}}")

# %% [markdown]
# ### Equal to one process
#
# A transformer with tied embeddings, in float64, for three steps: each rank has a piece of every
# text, in a row or in a zigzag. Beside it, each rank trains the whole model with whole texts. *All
# keys* is the simplest way, with which the others are compared: every rank gathers all keys and
# values, and computes the scores of its queries with all of them.

# %%
text = long_contexts.standard_library(100_000)
for way in long_contexts.WAYS:
    for layout in (long_contexts.contiguous_places, long_contexts.zigzag):
        found = launch(long_contexts.compare_with_one_process, way, layout, text, world_size=ranks,
                       device="cpu").values
        is_equal = max(gap for *_, gap in found) < 1e-12
        print(f"{way}, {layout.__name__}: equal to one process to 1e-12: {is_equal}")

# %% [markdown]
# ## 6 · How long a text fits?
#
# ### Exercise {{largest_context}} · The longest context that fits
#
# Write `largest_context(budget, n, heads, size, way)`: the longest context, a multiple of `n`, for
# which one rank's attention has room in `budget` bytes. Everything is in float32, 4 bytes a number,
# of one sample. Count the scores, and queries, keys and values, with `size` numbers for each place
# and head:
#
# | `way` | scores of a rank | queries | keys, and again values |
# |---|---|---|---|
# | `"one process"` | heads × C × C | C places, all heads | the same |
# | `"all keys"` | heads × C/n × C | C/n places, all heads | C places, all heads |
# | `"by heads"` | heads/n × C × C | C places, heads/n heads | the same |
# | `"ring"` | heads × C/n × C/n | C/n places, all heads | the same |

# %% [markdown]
# For `"by heads"`, `n` divides `heads`. If not even `n` places fit, it is 0. For example, 2 ranks,
# 2 heads, size 4, 10,000 bytes, in a ring: with C = 60 a rank has 30 places, so 2 × 30 × 30 scores
# and 3 × 2 × 30 × 4 other numbers, together 2,520, or 10,080 bytes. That is too much; C = 58 fits.

# %%
def largest_context(budget, n, heads, size, way):
    ### BEGIN SOLUTION
    def count_bytes(context):
        piece = context // n
        if way == "one process":
            return 4 * heads * (context**2 + 3 * context * size)
        if way == "all keys":
            return 4 * heads * (piece * context + (piece + 2 * context) * size)
        if way == "by heads":
            return 4 * heads // n * (context**2 + 3 * context * size)
        return 4 * heads * (piece**2 + 3 * piece * size)

    context = 0
    while count_bytes(context + n) <= budget:
        context += n
    return context
    ### END SOLUTION

check("{{largest_context}}", largest_context)

# %% [markdown]
# Where scores take most of the room, twice as many ranks read a text that is $\sqrt 2$ times as
# long with all keys or by heads, and twice as long in a ring. Now we measure attention, forward and
# backward, with 4 heads of 16 features, in longer and longer texts. Our `attend_by_heads` uses
# PyTorch's fused attention, which stores no scores. Our ring and `attend_to_all_keys` store them.

# %%
contexts = [256, 512, 1024, 2048]
kernels = {"ring": "scores stored", "by heads": "fused kernel", "all keys": "scores stored"}
peaks, times, sent = {}, {}, {}
for way in long_contexts.WAYS:
    runs = [launch(long_contexts.attention_alone, way, long_contexts.contiguous_places, context,
                   world_size=ranks, device="cpu") for context in contexts]
    peaks[way] = [max(p["total"] for p in run["attention"].peak_bytes) for run in runs]
    times[way] = [max(run.values) for run in runs]
    sent[way] = runs[-1]["attention"].sent_bytes[0]
computed = [max(long_contexts.bytes_of_ring(context, ranks, rank, 4, 16)[1]
                for rank in range(ranks)) for context in contexts]
print("ring: measured bytes equal the formula's, for each length:", peaks["ring"] == computed)

# %% tags=["cover", "nbval-ignore-output"]
plot_against(contexts, {f"{way} ({kernels[way]})": [peak / 1e6 for peak in of]
                        for way, of in peaks.items()},
             "places in the text", "most memory of a rank (MB)", logarithmic=True,
             predicted={"ring (scores stored)": [nbytes / 1e6 for nbytes in computed]},
             title=f"Attention on {ranks} ranks, forward and backward")

# %% [markdown]
# The ring's formula counts each tensor alive at the worst moment: twice the scores of one block,
# nine tensors of the size of the rank's queries, two received ones, and a few small ones
# (`bytes_of_ring`).
#
# **Two different things** are in this picture. *All keys* and *ring* differ by the way: the ring
# stores the scores of one block, all keys those of a whole row of blocks. *Ring* and *by heads*
# differ by the kernel, as one stores scores. Rings in real engines use fused kernels, and are
# expected to hold about as much as *by heads*: without its scores, the formula leaves eleven
# tensors, 1.4 MB for 2,048 places.
#
# Which of the four lengths fits into a budget?

# %% tags=["nbval-ignore-output"]
def longest(way):
    fits = [c for c, peak in zip(contexts, peaks[way]) if peak <= budget_megabytes * 1e6]
    at_least = "at least " if contexts[-1] in fits else ""
    return f"{at_least}{max(fits, default=0):,} places"

Table(["way", f"longest within {budget_megabytes:g} MB", "sent by rank 0, 2,048 places",
       "time, 2,048 places"],
      [[way, longest(way), f"{sent[way] / 1e6:.2f} MB",
        f"{1e3 * times[way][-1]:.0f} ms"] for way in peaks])

# %% [markdown]
# With $T$ the bytes of one rank's queries, a rank sends, forward and backward:
#
# * in a ring $2(n-1)T$ forward, and $4(n-1)T + 2T$ backward, in float32 (with 16 bits, our
#   gradients of keys and values still travel in float32);
# * by heads $8\,\frac{n-1}{n}\,T$: four swaps forward and four backward;
# * with all keys $2(n-1)T$ forward, and as much backward in a reduce-scatter. Ours makes an
#   all-reduce, which sends twice as much.
#
# If ranks are added for the same text, $T$ shrinks as $\frac1n$: in a ring each rank still sends
# nearly 6 times the queries of the **whole text**, by heads less than 8 times those of its
# **piece**.

# %% [markdown]
# **What speaks for a ring?** By heads, $n$ is at most the number of heads, or of heads of keys if
# heads share keys, as in most models today, and keys are not copied (as in 07c). Tp takes its
# share first: with 8 heads of keys and tp 8, nothing is left. A ring has no such limit, and its
# messages can travel while a block is computed (ours wait). By heads, in turn, all ranks compute
# equally much without a zigzag.
#
# **PyTorch's own** `torch.distributed.tensor.experimental.context_parallel` lays places in a
# zigzag, and gathers all keys or passes them on (`set_rotate_method("alltoall")`). It is made for
# fused CUDA kernels. If it does not run here, the error says what PyTorch lacks:

# %% tags=["nbval-ignore-output"]
print(launch(long_contexts.try_context_parallel, world_size=2, device="cpu").values[0])

# %% [markdown]
# ## 7 · Which of them is which?
#
# Three kinds of parallelism split something along the text. The picture has the activations of one
# transformer block. "Between the two" is what lies before and after attention and MLP: layer norms,
# dropout, the residual sums. Which rank has which activations?

# %%
lab("context_splits").draw_context_splits(ranks)

# %% [markdown]
# Weights: with tensor parallel each rank has a part of them, with context parallel all of them.
#
# Sequence parallelism helps tensor parallelism: it shares out what lies between attention and MLP,
# within the same group. Context parallelism is an axis of its own. It splits the text everywhere,
# and every rank keeps all weights. ZeRO shards them, over dp and cp together. (Jacobs et al. use
# the name *sequence parallelism* for the way by heads.)
#
# Where does context parallelism, **cp** for short, stand in the mesh? Attention waits for it in
# every layer, as for tp. So cp comes next to tp, on fast links. Llama 3's order, fastest first, is
# tp, cp, pp, dp.

# %% [markdown]
# **On GPUs.** Megatron-LM has `--context-parallel-size` and `--sequence-parallel` as two options.
# Its `--cp-comm-type` is `p2p` (a ring), `all_gather`, `a2a` (by heads), or `a2a+p2p`: by heads
# inside a machine and a ring between machines
# ([documentation](https://docs.nvidia.com/megatron-core/developer-guide/latest/)).
#
# In its final stages of pre-training Llama 3 read 131,072 places with cp 16, in the zigzag of
# exercise {{zigzag}}, and gathered all keys ([paper](https://arxiv.org/abs/2407.21783), section 3.3.2).
# The paper gives two reasons. Masks between documents are easier that way. And keys are small: in
# its largest model 16 heads share each of them. None of this was measured here.

# %% [markdown]
# ## Put to the test
#
# What is said about this, beside what this notebook has found.

# %% jupyter={"source_hidden": true}
gain = peaks["all keys"][-1] / peaks["ring"][-1]
queries = 4 * 4 * 16 * contexts[-1] / ranks  # bytes of a rank's piece
two = launch(long_contexts.attention_alone, "by heads", long_contexts.contiguous_places,
             2 * contexts[-1] // ranks, world_size=2, device="cpu")
of_2, of_all = two["attention"].sent_bytes[0] / queries, sent["by heads"] / queries
at_most_8 = abs(of_2 / 4 - 1) < 0.02 and abs(of_all / (8 * (ranks - 1) / ranks) - 1) < 0.02
put_to_the_test(f"""
- A ring needs memory for one block of keys at a time | Liu et al. 2023 |
  {"right; ours also stores scores" if peaks["ring"] == computed else "not here"} | keys and values
  as they say; at 2,048 places {gain:.1f} times less than with all keys. Their attention inside a
  block is blockwise, too; this lab stores a block's scores, which grow with the square of a piece
  (section 6)
- By heads, bytes do not grow with the number of ranks | Jacobs et al. 2023 |
  {"right, up to a bound" if at_most_8 else "not here"}, for a piece of given length | it is
  8 (n - 1) / n times the queries of a piece; measured {of_2:.2f} with 2 ranks, {of_all:.2f} with
  {ranks} (section 6)
""")

# %% [markdown]
# **Sources.** Liu et al. 2023, *Ring Attention with Blockwise Transformers*
# ([arXiv](https://arxiv.org/abs/2310.01889)). Jacobs et al. 2023, *DeepSpeed Ulysses*
# ([arXiv](https://arxiv.org/abs/2309.14509)). Brandon et al. 2023, *Striped Attention*
# ([arXiv](https://arxiv.org/abs/2311.09431)): deals places out in turns, another way to balance.
# Llama Team 2024, *The Llama 3 Herd of Models* ([arXiv](https://arxiv.org/abs/2407.21783)).

# %% [markdown]
# ## What you have learnt
#
# * Attention to sets of keys can be **merged**: each set gives what comes out, and the logarithm of
#   its sum.
# * In a **ring**, keys come to the queries. A rank holds the scores of one block (in the backward
#   twice), and three pieces of keys.
# * **By heads**, all-to-alls surround an ordinary attention. There are at most as many ranks as
#   heads, or as heads of keys if these are not copied.
# * In causal attention late places see more keys. A **zigzag** gives each rank an early and a late
#   piece, so that all compute equally much: of one document. One zigzag per document balances
#   **packed** ones.
#
# **Your exercises** stand in [labs/long_contexts.py](../labs/long_contexts.py), and three in cells
# above.
#
# **Next**: {{next}}.

# %%
progress("09f")
