# %% [markdown]
# # 07 · Tensor parallel
#
# **A model does not fit on one GPU, and ZeRO gathers it for each batch. What if nobody ever
# gathered it?** Each rank keeps a part of every matrix, and computes with this part alone. What
# travels are not weights but activations. This is *tensor parallelism*, as Megatron-LM made it
# known. You begin with one matrix product, and end with a transformer that is trained in parts and
# gives the numbers of one process.
#
# All ranks read the **same** batch: the work on it is split, not the samples.
#
# The second part, [07g · Tensor parallel at work](07g_how_wide.ipynb), has sequence
# parallelism, overlap, decoding, PyTorch's DTensor, and slow links.
#
# Exercises stand in cells and in a lab: [tensor_parallel](../labs/tensor_parallel.py).

# %% [markdown]
# ![Loss of a letter over training steps: one process and four ranks lie on top of each other, and
# two versions with mistakes fall as well](../assets/covers/07_tensor_parallel.png)
#
# *Measured in section 7: four ranks train as one process does. With two of the usual mistakes the
# loss falls as well, so only a comparison with one process finds them.*
#
# **After this part you can** cut a transformer across ranks so that no rank has the whole, and
# gradients still equal one process.
#
# **It takes** about 30 minutes, and 90 more for 14 exercises. **It needs** [02 ·
# Collectives](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, close, draw_product, explore, film_pair, hint, lab, launch, measure,
    plot_bars, plot_curves, plot_masks, plot_pair, predict, progress, put_to_the_test,
    relative_gap,
)

# %% tags=["parameters"]
world_size = 4
width = 64
steps = 15

# %%
labs = "tensor_parallel", "collectives", "language_model"
tensor_parallel, collectives, language_model = map(lab, labs)
text = language_model.standard_library(100_000)
n = world_size

# %% [markdown]
# ## 1 · One product, two cuts
#
# A linear layer is a product $Y = XA$: $X$ has a row for each letter, $A$ a column for each output.
# Two ways give each of $n$ ranks a part of $A$:
#
# * **by columns**: a rank has all of $X$ and some columns of $A$. It computes the same columns of
#   $Y$, complete;
# * **by rows**: a rank has some rows of $A$, and the columns of $X$ that meet them. What it
#   computes is as large as $Y$, but only a summand of it.
#
# So a tensor is on the ranks in one of three ways (the words are PyTorch's). **Replicate**: all of
# it on each. **Shard**: each has a part. **Partial**: each has a summand. Choose a way, and sizes:

# %%
explore(draw_product, way=["columns", "rows", "pair"], n=[4, 1, 2, 3, 8, 16],
        rows=[4, 1, 16, 64], inner=[8, 4, 16, 64], columns=[8, 4, 10, 64],
        labels={"way": "cut by", "n": "ranks", "rows": "rows of X", "inner": "rows of A",
                "columns": "columns of A"},
        highest={"n": 8, "columns": 4})

# %% [markdown]
# Texts disagree on which cut is which, because `nn.Linear` stores $A$ *transposed*: its weight is
# (outputs, inputs). Columns of $A$ are dimension 0 of the weight, rows are dimension 1. In this
# course columns and rows are those of $A$ in $Y = XA$. Both, side by side:

# %%
torch.manual_seed(0)
layer, x = nn.Linear(6, 8, bias=False).double(), torch.randn(3, 6).double()
a = layer.weight.T  # (inputs, outputs)
by_columns, dim_0 = a.tensor_split(n, dim=1), layer.weight.tensor_split(n, dim=0)
by_rows, dim_1 = a.tensor_split(n, dim=0), layer.weight.tensor_split(n, dim=1)
assert all(torch.equal(part, stored.T) for part, stored in zip(by_columns, dim_0))
assert all(torch.equal(part, stored.T) for part, stored in zip(by_rows, dim_1))
joined = torch.cat([x @ part for part in by_columns], dim=1)
added = sum(x_part @ part for x_part, part in zip(x.tensor_split(n, dim=1), by_rows))
Table(["", "part of A, rank 0", "part of layer.weight", "what gives Y", "equals layer(x)"],
      [["columns", str([*by_columns[0].shape]), str([*dim_0[0].shape]), "side by side",
        str(close(joined, layer(x)))],
       ["rows", str([*by_rows[0].shape]), str([*dim_1[0].shape]), "the sum",
        str(close(added, layer(x)))]], note="equal but for rounding")

# %% [markdown]
# ### Exercise 7.1
#
# In [labs/tensor_parallel.py](../labs/tensor_parallel.py), write `cut`: this rank's part of a
# tensor. The part has to have memory of its own. Why? A view of a part keeps the whole alive, and
# then no byte is saved.

# %%
check("7.1")

# %% [markdown]
# On real ranks, the same product in both ways. Cut by columns it needs no message as long as nobody
# asks for all of $Y$ in one place. Cut by rows it needs a sum: an all-reduce of $Y$. How many bytes
# does a rank send in it? ($Y$ is 512 × 512, in float64: 2.1 MB. The ring of chapter 02.)

# %%
sent = predict(f"Bytes that a rank sends to sum Y over {n} ranks", unit="MB")

# %%
def two_ways(tensor_parallel, size):
    torch.set_default_dtype(torch.float64)
    x, a = torch.randn(size, size), torch.randn(size, size)  # the same on all ranks
    with measure("columns"):
        columns = x @ tensor_parallel.cut(a, 1)
    with measure("rows"):
        summand = tensor_parallel.cut(x, 1) @ tensor_parallel.cut(a, 0)
        y = summand.clone()
        dist.all_reduce(y)
    y_here = x @ a
    return {"columns": close(columns, tensor_parallel.cut(y_here, 1)),
            "one summand": close(summand, y_here), "sum": close(y, y_here)}

products = launch(two_ways, tensor_parallel, 512, world_size=n, device="cpu")
equal = products.values[0]
print("columns sent", products["columns"].sent_bytes[0], "bytes")
print("but for rounding: columns are those of Y:", equal["columns"])
print("the sum is Y:", equal["sum"], "| one summand is Y:", equal["one summand"])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
sent.compare(theory=2 * (n - 1) / n * 512 * 512 * 8 / 1e6,
             measured=products["rows"].sent_bytes[0] / 1e6, kind="communication")

# %% [markdown]
# ## 2 · Backward: f and g
#
# Now the gradients. Let $L$ be the loss, and $A = [A_0\ A_1 \dots]$ be cut **by columns**. Every
# rank reads all of $X$, so $X$ acts on the loss through every $A_r$, and by the chain rule
#
# $$\frac{\partial L}{\partial X} = \sum_r \frac{\partial L}{\partial Y_r} A_r^T .$$
#
# Rank $r$ can compute one summand: its gradient of $X$ is Partial. **The backward of a cut by
# columns needs an all-reduce of $X$'s size.** Cut **by rows** it is the other way round: the
# forward needs the all-reduce; the backward, $\partial L / \partial X_r = \partial L / \partial Y
# \cdot A_r^T$, needs none. The gradient of $A_r$ is $X^T\, \partial L / \partial Y_r$, or by rows
# $X_r^T\, \partial L / \partial Y$: both factors are on the rank, and nothing is sent for it.

# %% [markdown]
# Megatron-LM packs this into two small functions, *conjugate* to each other. **f** stands before
# the columns: forward it does nothing, backward it sums. **g** stands after the rows: forward it
# sums, backward it does nothing. Between the two is the **parallel region**, where ranks have
# different features.
#
# ### Exercise 7.2
#
# In [labs/tensor_parallel.py](../labs/tensor_parallel.py), write `Copy`, f, as a
# `torch.autograd.Function`. `forward` gets `ctx`, where it can leave what `backward` needs;
# `backward` gets the gradient of the output, and returns one gradient for each argument of
# `forward`, None for what is no tensor.
#
# ### Exercise 7.3
#
# Write `AllReduce`, g, in [labs/tensor_parallel.py](../labs/tensor_parallel.py). Why is its
# backward no all-reduce? After the sum all ranks compute the same *one* loss, not $n$ losses.

# %%
display(check("7.2"))
check("7.3")

# %% [markdown]
# ### Exercise 7.4
#
# Now the layers, in [labs/tensor_parallel.py](../labs/tensor_parallel.py). `ColumnLinear`: f, then
# a product with some columns; its bias is cut like them. `part_of` makes a parameter that is cut.
#
# ### Exercise 7.5
#
# `RowLinear`, in [labs/tensor_parallel.py](../labs/tensor_parallel.py): a product with some rows,
# then g; its bias is not cut.

# %%
display(check("7.4"))
check("7.5")

# %% [markdown]
# ## 3 · The pair
#
# An MLP is two linear layers with GELU in between: $Y = \mathrm{GELU}(XA)\,B$. Cut $A$ by columns
# and $B$ by rows. What the first layer leaves on a rank, some columns of $XA$, is what the second
# one needs there: the same columns. GELU treats each number by itself, so it can work on a part.
# Nothing is gathered in between. Forward and backward of your layers, on two ranks, small enough to
# see each number (with ReLU, so that they stay whole; the loss is the sum of $Y$):

# %%
def film_mlp(tensor_parallel):
    torch.manual_seed(1)  # all ranks make the same layers
    up, down = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    for layer in (up, down):
        layer.weight.data = torch.randint(-2, 3, (4, 4)).float()
    column, row = tensor_parallel.ColumnLinear(up), tensor_parallel.RowLinear(down)
    return film_pair(column, row, torch.randint(-2, 3, (2, 4)).float(), F.relu)

films = launch(film_mlp, tensor_parallel, world_size=2, device="cpu").values

def draw_frame(frame):
    return plot_pair(films, frame)

explore(draw_frame, frame=list(range(1, len(films[0].frames) + 1)))

# %% [markdown]
# What would other pairings cost? Say the same MLP is computed in three ways, forward only:
#
# * **pair**: columns, then rows; one all-reduce of $Y$;
# * **gathered**: columns, then an all-gather of the hidden features, as some texts have it, and
#   then rows;
# * **rows first**: rows, all-reduce of the hidden features, GELU, columns, all-gather of $Y$.
#
# The hidden features are four times as wide as $X$ and $Y$. How many times as much as the pair does
# "rows first" send?

# %%
times_more = predict(f"Bytes of rows first, on {n} ranks, in those of the pair", unit="times")

# %%
def gathered(part, sizes, all_gather_ring=collectives.all_gather_ring):
    parts = [part.new_empty(len(part), size) for size in sizes]
    parts[dist.get_rank()].copy_(part)
    all_gather_ring(parts)  # of chapter 02: parts may differ in length
    return torch.cat(parts, dim=1)

def three_ways(x, a, b, cut, part_sizes, gathered):
    n = dist.get_world_size()
    with measure("pair", memory=False):
        pair = F.gelu(x @ cut(a, 1)) @ cut(b, 0)
        dist.all_reduce(pair)
    with measure("gathered", memory=False):
        hidden = gathered(F.gelu(x @ cut(a, 1)), part_sizes(a.shape[1], n))
        between = cut(hidden, 1) @ cut(b, 0)
        dist.all_reduce(between)
    with measure("rows first", memory=False):
        hidden = cut(x, 1) @ cut(a, 0)
        dist.all_reduce(hidden)
        rows_first = gathered(F.gelu(hidden) @ cut(b, 1), part_sizes(b.shape[1], n))
    return close([pair, between, rows_first], [F.gelu(x @ a) @ b] * 3)

# %%
def mlp_matrices(letters, width):
    draw = torch.Generator().manual_seed(0)
    shapes = (letters, width), (width, 4 * width), (4 * width, width)
    return [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]

paired = launch(three_ways, *mlp_matrices(512, 64), tensor_parallel.cut,
                tensor_parallel.part_sizes, gathered, world_size=n, device="cpu")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
y_bytes, share = 512 * 64 * 8, (n - 1) / n
theory = {"pair": 2 * share * y_bytes, "gathered": (4 + 2) * share * y_bytes,
          "rows first": (2 * 4 + 1) * share * y_bytes}
assert all(paired.values)
times_more.compare(theory=theory["rows first"] / theory["pair"] if n > 1 else 1,
                   measured=paired["rows first"].sent_bytes[0] / paired["pair"].sent_bytes[0]
                   if n > 1 else 1, kind="communication")

# %%
plot_bars(list(theory), {"sent": [paired[way].sent_bytes[0] / 1e3 for way in theory]},
          "sent by a rank (kB)", predicted={"sent": [theory[way] / 1e3 for way in theory]},
          title=f"One MLP, forward, on {n} ranks: all three give the same Y")

# %% [markdown]
# All three are right. The pair never has the hidden features whole, and sends least. (Gathering and
# cutting again, as "gathered" does, is work for nothing: each rank had the part that it needs.)
#
# ### Exercise 7.6: find the bug
#
# A text says: slice the first matrix of an MLP along its rows, and the second one along its
# columns. This program does, for $Y = \mathrm{GELU}(XA)\,B$ with `x` of (letters, width). Mend it:
# on every rank all of $Y$; each rank multiplies with its parts of A and B alone; and one
# all-reduce of $Y$ is all that is sent. The number of ranks divides all sizes.

# %%
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    hidden = F.gelu(x @ a.chunk(n, dim=1)[rank])
    y = hidden @ b.chunk(n, dim=0)[rank]
    dist.all_reduce(y)
    return y
    ### IT WAS
    # hidden = F.gelu(x.chunk(n, dim=1)[rank] @ a.chunk(n, dim=0)[rank])
    # mine = hidden @ b.chunk(n, dim=1)[rank]
    # parts = [torch.empty_like(mine) for _ in range(n)]
    # dist.all_gather(parts, mine)
    # return torch.cat(parts, dim=1)
    ### END SOLUTION

check("7.6", split_mlp)

# %% [markdown]
# GELU is not linear: $\mathrm{GELU}(U + V)$ is not $\mathrm{GELU}(U) + \mathrm{GELU}(V)$. A Partial
# tensor has to be summed before anything that is not linear. How wrong is it, if it is not? For
# this random $X$ and $A$, the more so the more summands there are:

# %%
def summed_too_late(x, a, b, cut):
    y = F.gelu(x @ a) @ b
    late = F.gelu(cut(x, 1) @ cut(a, 0))
    dist.all_reduce(late)
    return ((late @ b - y).norm() / y.norm()).item()

late = {k: launch(summed_too_late, *mlp_matrices(512, 64), tensor_parallel.cut, world_size=k,
                  device="cpu").values[0] for k in (1, 2, 4, 8)}
Table(["ranks", *map(str, late)],
      [["error, in lengths of Y", *(f"{error:.2f}" for error in late.values())]])

# %% [markdown]
# ### Exercise 7.7: find the bug
#
# A row layer: `x` is this rank's inputs, `weight` the matrix's rows for them (as `nn.Linear` stores
# them), `bias` is whole. Output and all gradients are to be those of one process, on every rank.
# Nothing needs to be sent in the backward.

# %%
def row_layer(x, weight, bias):  # (…, inputs / n), (outputs, inputs / n), (outputs,)
    ### BEGIN SOLUTION
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
    ### IT WAS
    # return tensor_parallel.AllReduce.apply(F.linear(x, weight, bias))
    ### END SOLUTION

check("7.7", row_layer)

# %% [markdown]
# ### Exercise 7.8: find the bug
#
# The second half of a block: layer norm, a pair, and what came in is added again. `up` and `down`
# are this rank's parts. It has been trained for weeks, and the loss went down. Output and all
# gradients are to be those of one process, on every rank.

# %%
def residual_mlp(x, norm, up, down, bias):  # up (hidden / n, width), down (width, hidden / n)
    ### BEGIN SOLUTION
    h = tensor_parallel.Copy.apply(norm(x))
    ### IT WAS
    # h = norm(x)
    ### END SOLUTION
    hidden = F.gelu(F.linear(h, up))
    return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias

check("7.8", residual_mlp)

# %% [markdown]
# ### Exercise 7.9: find the bug
#
# Each rank has one expert, and the layer's output is the sum of what all experts say:
# $\sum_r \mathrm{ReLU}(X A_r)$. This is how they are added up:
# `SumOfExperts.apply(F.relu(x @ a))`. The output is right. Is the gradient?

# %%
class SumOfExperts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        ### BEGIN SOLUTION
        total = y.clone()
        dist.all_reduce(total)
        return total
        ### IT WAS
        # dist.all_reduce(y)
        # return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        return gradient

check("7.9", SumOfExperts)

# %% [markdown]
# ## 4 · Attention, head by head
#
# Heads do not know of each other until the output layer. Give each rank some heads: their rows of
# `query_key_value` are a cut by columns, the output layer's matching inputs a cut by rows: a pair
# again. In **grouped-query** attention several heads of queries share a key and a value: they stay
# together, so there can be no more ranks than heads of keys.
#
# ### Exercise 7.10
#
# Our `Attention` stores a head's queries, its key, its value, then the next head's: one slice is
# enough. GPT-2 stores all queries, then all keys, then all values. Write `cut_fused`, which gives a
# rank its rows of such a matrix, in the same order (rank 0: the first heads). The number of ranks
# divides `kv_heads`.

# %%
def cut_fused(weight, heads, kv_heads, rank, n):  # ((heads + 2 * kv_heads) * size, width)
    ### BEGIN SOLUTION
    size = len(weight) // (heads + 2 * kv_heads)
    q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
    ### END SOLUTION

check("7.10", cut_fused)

# %% [markdown]
# A whole transformer block has two pairs, attention and MLP. Layer norms and the biases after a sum
# are Replicate: every rank has them, and computes the same with them. How many all-reduces does a
# block need, forward and backward together?

# %%
how_many = predict("All-reduces of one block, forward and backward", unit="all-reduces")

# %%
def try_block(tensor_parallel, language_model, width, heads, kv_heads):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    one = language_model.Block(width, heads, kv_heads)
    split = language_model.Block(width, heads, kv_heads)
    split.load_state_dict(one.state_dict())
    tensor_parallel.parallelize_attention(split.attention)
    tensor_parallel.parallelize_mlp(split.mlp)
    x, upstream = torch.randn(2, 8, 64, width).unbind()
    inputs = x.clone().requires_grad_(), x.clone().requires_grad_()
    with measure("forward"):
        y = split(inputs[0])
    with measure("backward"):
        (y * upstream).sum().backward()
    wanted = one(inputs[1])
    (wanted * upstream).sum().backward()
    pairs = [(y, wanted), (inputs[0].grad, inputs[1].grad)]
    pairs += [(tensor_parallel.whole(p, of=p.grad), q.grad)
              for p, q in zip(split.parameters(), one.parameters())]
    return all(close(a, b) for a, b in pairs)

# %%
blocks = {k: launch(try_block, tensor_parallel, language_model, width, 8, 4, world_size=k,
                    device="cpu") for k in (1, 2, 4)}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
four, x_bytes = blocks[4], 8 * 64 * width * 8
how_many.compare(theory=4, measured=len(four["forward"].calls[0]) + len(four["backward"].calls[0]))

# %%
def sent_and_theory(block, k):
    return f"{block.sent_bytes[0] / x_bytes:.2f} ({2 * 2 * (k - 1) / k:g})"

assert all(all(run.values) for run in blocks.values())
Table(["ranks", "all-reduces forward", "all-reduces backward", "sent forward", "sent backward"],
      [[k, len(run["forward"].calls[0]), len(run["backward"].calls[0]),
        sent_and_theory(run["forward"], k), sent_and_theory(run["backward"], k)]
       for k, run in blocks.items()],
      note="sent by a rank, in bytes of x; in brackets the theory, 2 · 2(n-1)/n. Output and all "
           "gradients are those of one process, but for rounding.")

# %% [markdown]
# Two forward, two backward, whatever the number of ranks, each of an activation's size. No weight
# and no weight's gradient ever travels. That is the trade: ZeRO-3 sends weights, tensor parallelism
# activations. For $T$ letters in a batch, a block's activations are $8 T w$ numbers times
# $(n-1)/n$, its weights, gathered twice and their gradients reduced once, $36 w^2$: the same at
# $T = 4.5 w$. And a sum has to be waited for: ZeRO-3 can fetch the next weights early, since it
# knows them in advance; activations nobody knows in advance.

# %% [markdown]
# ## 5 · Letters
#
# The embedding and the last layer have a row for each letter of the vocabulary; in a language model
# of today that is 100,000 and more. Both are cut by letters.
#
# ### Exercise 7.12
#
# Write the forward of `VocabularyEmbedding` in
# [labs/tensor_parallel.py](../labs/tensor_parallel.py): for letters that are another rank's, this
# one adds zeros.
#
# ### Exercise 7.13
#
# Now the loss. The last layer is a `ColumnLinear`: each rank gets the scores of some letters.
# Cross-entropy needs $\log \sum_v e^{s_v} - s_\text{target}$ over all letters $v$. Gathering the
# scores would cost their size; but a sum can be had from each rank's own sum. Write
# `split_cross_entropy` in [labs/tensor_parallel.py](../labs/tensor_parallel.py). Which numbers have
# to be summed, and of which do you need the highest?

# %%
display(check("7.12"))
check("7.13")

# %% [markdown]
# What does that save? A batch of 8 × 64 letters, and a vocabulary of 8,192: what a rank sends for
# the loss, and how much memory it takes at most, beside gathering the scores first.

# %%
def try_losses(tensor_parallel, gathered, letters):
    sizes = tensor_parallel.part_sizes(letters, dist.get_world_size())
    targets = torch.randint(letters, (512,))  # the same on all ranks
    torch.manual_seed(dist.get_rank())
    scores = torch.randn(512, sizes[dist.get_rank()], dtype=torch.float64)
    with measure("split"), torch.no_grad():
        loss = tensor_parallel.split_cross_entropy(scores, targets, letters=letters)
    with measure("gathered"), torch.no_grad():
        wanted = F.cross_entropy(gathered(scores, sizes), targets)
    return close(loss, wanted)

losses = launch(try_losses, tensor_parallel, gathered, 8192, world_size=n, device="cpu")
assert all(losses.values)
numbers = {"split": 3 * 512 * 2, "gathered": 512 * 8192}  # times (n-1)/n, 8 bytes each
Table(["", "sent by a rank", "in theory", "memory at most"],
      [[way, f"{losses[way].sent_bytes[0] / 1e3:.1f} kB",
        f"{numbers[way] * 8 * (n - 1) / n / 1e3:.1f} kB",
        f"{losses[way].peak_bytes[0]['total'] / 1e6:.0f} MB"] for way in ("split", "gathered")],
      note="forward only; the same loss, but for rounding")

# %% [markdown]
# ## 6 · Dropout and other randomness
#
# On $n$ ranks there are two kinds of places to draw a random number. Outside of the parallel region
# all ranks compute the same: they must draw the **same** numbers, or their copies drift apart.
# Inside, each has features of its own: they must draw **different** numbers. All ranks begin with
# one seed, so by default they draw the same everywhere. These are the masks of dropout for a hidden
# layer of 64 features, for 16 samples, side by side as the features are:

# %%
def masks(tensor_parallel, own):
    torch.manual_seed(0)  # one seed for all ranks
    hidden = torch.ones(16, 64 // dist.get_world_size())
    if not own:
        return F.dropout(hidden, 0.5) > 0
    with tensor_parallel.OwnRandomness(seed=0):
        return F.dropout(hidden, 0.5) > 0

drawn = {what: launch(masks, tensor_parallel, own, world_size=n, device="cpu").values
         for what, own in (("one stream for all", False), ("a stream of its own", True))}
plot_masks(drawn, title=f"Which hidden features {n} ranks keep")

# %% [markdown]
# With one stream, feature 0 of rank 0 is dropped whenever feature 0 of rank 1 is: the mask has only
# 1/n of its randomness. Nothing fails, and no number usually watched tells of it. Megatron-LM keeps
# two streams. So does our `OwnRandomness`: `with randomness:` draws from the rank's own one.
#
# ### Exercise 7.14: find the bug
#
# The second half of an MLP, with dropout before and after it. All ranks start with the same seed.
# They are to return the same, but what one drops of its hidden features must have nothing to do
# with what another drops; and each call draws anew. The stream that they have in common is to go on
# as if only the last dropout had drawn from it.

# %%
def dropped_mlp(hidden, weight, p, randomness):  # (samples, hidden / n), (width, hidden / n)
    ### BEGIN SOLUTION
    with randomness:
        hidden = F.dropout(hidden, p)
    ### IT WAS
    # hidden = F.dropout(hidden, p)
    ### END SOLUTION
    y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
    return F.dropout(y, p)

check("7.14", dropped_mlp)

# %% [markdown]
# Weights are random numbers, too, when a model is made. They should not depend on $n$, or no run
# could be compared with another. Here every rank makes the whole model from one seed, and cuts it:
# exact, but for that moment the whole has to fit. If each layer is cut as soon as it is made, only
# one layer has to.
#
# ## 7 · A model in parts
#
# `parallelize` cuts the whole transformer. What has a rank left of each parameter?

# %%
def sizes_of(tensor_parallel, language_model, width):
    model = language_model.Transformer(width, layers=1, heads=8)
    whole = {name: p.numel() for name, p in model.named_parameters()}
    tensor_parallel.parallelize(model)
    return {name: (whole[name], p.numel()) for name, p in model.named_parameters()}

sizes = launch(sizes_of, tensor_parallel, language_model, width, world_size=n,
               device="cpu").values[0]
total, mine = map(sum, zip(*sizes.values()))
Table(["parameter", "whole", "on rank 0", "share"],
      [*([name, a, b, f"{b / a:.3f}"] for name, (a, b) in sizes.items()),
       ["together", total, mine, f"{mine / total:.3f}"]])

# %% [markdown]
# Matrices are cut; norms, the places' embedding, and what is added after a sum are not: a rank
# keeps a little more than 1/n. In large models that is next to nothing: what is cut grows with
# width², the rest with width.
#
# ### Exercise 7.15
#
# Write `gradient_norm` in [labs/tensor_parallel.py](../labs/tensor_parallel.py): the norm (the
# length) of the whole gradient, for clipping. Some parameters are cut, some are the same on all
# ranks.

# %%
check("7.15")

# %% [markdown]
# Now it is trained, on one process and on ranks, from the same weights on the same letters. And
# twice with a mistake: `enter` does nothing, so that the backward's all-reduce is missing; or each
# rank reads letters of its own, as in data parallel training. Will the loss fall? Will it be the
# same on all ranks?

# %%
def train_split(tensor_parallel, language_model, text, width, steps, mistake=""):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = language_model.Transformer(width, heads=8)
    enter = (lambda x, group: x) if mistake == NOT_SUMMED else tensor_parallel.enter
    tensor_parallel.parallelize(model, enter=enter)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for step in range(steps):
        other = 1000 * dist.get_rank() if mistake == OTHER_LETTERS else 0
        inputs, targets = language_model.draw_batch(text, 8, step + other)
        with measure("step") if step == steps - 1 else nullcontext():
            loss = tensor_parallel.split_cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: tensor_parallel.whole(p) for name, p in model.named_parameters()}

NOT_SUMMED, OTHER_LETTERS = "nothing summed backward", "other letters on each rank"

# %% tags=["cover"]
ways = {"one process": (1, ""), f"{n} ranks": (n, ""), NOT_SUMMED: (n, NOT_SUMMED),
        OTHER_LETTERS: (n, OTHER_LETTERS)}
runs = {name: launch(train_split, tensor_parallel, language_model, text, width, steps, mistake,
                     world_size=k, device="cpu") for name, (k, mistake) in ways.items()}
curves = {name: (list(range(1, steps + 1)), run.values[0][0]) for name, run in runs.items()}
plot_curves({f"two blocks of width {width}": curves}, "step", "loss of a letter",
            title="The loss falls with the mistakes, too")

# %%
alone = runs["one process"].values[0][1]

right = f"{n} ranks"

def what_is_equal(name):
    losses, weights = zip(*runs[name].values)
    return all(x == losses[0] for x in losses), all(close(w, alone, steps) for w in weights)

Table(["", "the same loss on all ranks", "weights of one process, but for rounding"],
      [[name, *what_is_equal(name)] for name in (right, NOT_SUMMED, OTHER_LETTERS)],
      note=f"after {steps} steps")

# %% [markdown]
# With either mistake the loss falls, and is the same on all ranks, because it is summed over them.
# But the weights are wrong: each rank has its own gradients for what should be the same on all, and
# what is cut is trained on wrong ones, too, which no comparison of ranks shows. What helps is the
# test that stands everywhere in this chapter: compare with one process.
#
# ## Put to the test
#
# What our sources say about tensor parallelism, and what was found.

# %% jupyter={"source_hidden": true}
kB = {way: paired[way].sent_bytes[0] / 1e3 for way in theory}
put_to_the_test(f"""
- A 4096 × 16384 matrix on 4 GPUs: four of 4096 × 4096 | web page | right | a cut by columns:
  {[*torch.empty(4096, 16384, device="meta").tensor_split(4, dim=1)[0].shape]}
- Communication after every layer | web page | imprecise | after every pair: 2 all-reduces in a
  block's forward and 2 in its backward; counted {len(four["forward"].calls[0])} and
  {len(four["backward"].calls[0])}
- The pair has one all-gather and one all-reduce in an MLP | web page | wrong | no all-gather:
  {kB["pair"]:.0f} kB sent; with one {kB["gathered"]:.0f}, rows first {kB["rows first"]:.0f}
- A column layer all-gathers its output | web page | depends | only if what follows needs all of it:
  in section 1 columns sent {products["columns"].sent_bytes[0]} bytes
- A row layer's input is split already, and an all-reduce sums | web page | right | the sum equals
  one process's; the bias is added once, after it (7.7)
- Split a tensor in N chunks, and all-reduce the results | web note | imprecise | rows are summed;
  columns are put side by side, or left where they are
""")

# %% jupyter={"source_hidden": true}
peak = {name: runs[name]["step"].peak_bytes[0]["total"] for name in ("one process", right)}
others = runs[OTHER_LETTERS].values[0][1]
put_to_the_test(f"""
- The all-reduces after attention and MLP synchronise the weights | CS 229S | wrong | they sum
  activations (backward: their gradients): {four["forward"].calls[0][0].tensor_bytes} bytes each =
  samples × context × width × 8; no weight is sent
- Slice w1 along rows, w2 along columns | blog | wrong for Y = XA | right for what nn.Linear stores,
  dimensions 0 and 1. Rows first without a sum before GELU: off by {late[4]:.0%} on 4 ranks
- A rank's memory is 1/N | web page | imprecise | {mine / total:.3f} of this small model's
  parameters on {n} ranks, and {peak[right] / peak["one process"]:.1f} of a step's peak: activations
  outside of the parallel region are whole on every rank (07g cuts them)
- Model parallelism replicates the input | CS 229S | right for this one | with other letters on each
  rank the loss falls and is equal on all ranks, but the weights are not those of one process: off
  by up to {max(relative_gap(others[name], alone[name]) for name in alone):.0%}
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford); *The Evolution of Data Parallelism* (blog); a web note on types of distributed
# training.
#
# **To read on.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019: f, g, and
# the pair. Narayanan et al., [Efficient Large-Scale Training](https://arxiv.org/abs/2104.04473),
# 2021. PyTorch's [tutorial on tensor parallelism](https://docs.pytorch.org/tutorials/intermediate/TP_tutorial.html).

# %% [markdown]
# ## What you have learnt
#
# * By columns, then by rows: between the two nothing is sent, and one all-reduce follows.
# * f and g are each other's backward: one does nothing forward and sums backward, the other the
#   reverse.
# * A block takes two all-reduces in its forward and two in its backward, of activations and not of
#   weights.
# * Embedding and loss can be cut by letters. Dropout inside the region needs a stream for each
#   rank, outside one for all.
#
# **Your exercises**: those in cells above, and
# [labs/tensor_parallel.py](../labs/tensor_parallel.py).
#
# **Next**: [07g · Tensor parallel at work](07g_how_wide.ipynb).

# %%
progress("07")
