# %% [markdown]
# # {{title}}
#
# **How do several ranks compute one matrix product, if no rank has the whole matrix?** ZeRO-3
# (chapter 06) cuts the weights, but gathers each of them before it is used. So a layer that is too
# large for one GPU stays too large. In **tensor parallelism** nobody ever gathers a weight. Each
# rank keeps a part of every matrix, and computes with this part alone. What travels are
# activations.
#
# You begin with one product: two ways to cut it, and what each way sends, forward and backward.

# %% [markdown]
# ![Bytes that a rank sends for one layer on four ranks. Cut by columns, it sends nothing
# forward and an all-reduce backward. Cut by rows, it sends an all-reduce forward and nothing
# backward](../assets/covers/07_tensor_parallel.png)
#
# *Measured in section 3: what one layer sends, forward and backward, in each of the two cuts.*
#
# **After this part you can** cut a linear layer by columns or by rows, say which collective it
# needs and where, and write both layers so that all gradients equal one process.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
from torch import nn

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
size = 512

# %% [markdown]
# ## 1 · One product, two cuts
#
# Most parameters of a transformer stand in linear layers. Most of its time goes there, too, unless
# the context is very long. A linear layer is a product $Y = XA$. $X$ has a row for each token, and
# $A$ has a column for each output. There are two ways to give each of $n$ ranks a part of $A$:

# %% [markdown]
# * **By columns.** A rank has all of $X$ and some columns of $A$. It computes the same columns of
#   $Y$, and they are complete.
# * **By rows.** A rank has some rows of $A$, and the columns of $X$ that belong to them. Its result
#   is as large as $Y$, but it is only one summand of $Y$.
#
# Take $X = [1\;\; 2]$, and a matrix $A$ with the rows $[3\;\; 4]$ and $[5\;\; 6]$. Then $Y =
# [13\;\; 16]$. By columns, rank 0 computes 13 and rank 1 computes 16. By rows, rank 0 computes $1
# \cdot [3\;\; 4]$ and rank 1 computes $2 \cdot [5\;\; 6]$. Their sum is $Y$.

# %% [markdown]
# So a tensor can lie on the ranks in three ways. The words are PyTorch's:
#
# * **Replicate**: each rank has all of it.
# * **Shard**: each rank has a part.
# * **Partial**: each rank has a summand.
#
# Choose a cut, the number of ranks, and the sizes:

# %%
explore(lab("split_products").draw_product,
        way=["columns", "rows", "pair"], n=[4, 1, 2, 3, 8, 16],
        rows=[4, 1, 16, 64], inner=[8, 4, 16, 64], columns=[8, 4, 10, 64],
        labels={"way": "cut by", "n": "ranks", "rows": "rows of X", "inner": "rows of A",
                "columns": "columns of A"},
        highest={"n": 8, "columns": 4})

# %% [markdown]
# Texts disagree about which cut is which. The reason is that `nn.Linear` stores $A$ *transposed*:
# its weight has the shape (outputs, inputs). So columns of $A$ are dimension 0 of the weight, and
# rows of $A$ are dimension 1. In this course, columns and rows are always those of $A$ in $Y = XA$.
# Here are both cuts of a layer with 6 inputs and 8 outputs:

# %%
tensor_parallel, measured = lab("tensor_parallel"), lab("tensor_measured")
n = world_size
torch.manual_seed(0)
layer, x = nn.Linear(6, 8, bias=False).double(), torch.randn(3, 6).double()

Table(["cut by", "part of A, rank 0", "part of layer.weight, rank 0", "Y is", "equals layer(x)"],
      measured.tabulate_parts(layer, x, n), note="Equal but for rounding.")

# %% [markdown]
# ### Exercise {{cut}} · Cut a tensor along any dimension
#
# In [labs/tensor_parallel.py](../labs/tensor_parallel.py), write `cut(x, dim, group=None,
# together=1)`. It returns this rank's part of a tensor that all ranks have.
#
# * Cut along `dim`, which may be negative. The lab's `part_sizes(length, n, together)` returns a
#   list with the length of each rank's part. Rank 0 has the first part.
# * Groups of `together` neighbouring indices are never torn apart. (In attention, such a group is a
#   head: see part 07c.) `part_sizes(12, 3, together=3)` is `[6, 3, 3]`.
# * The part is contiguous, and it has memory of its own. A view would keep the whole tensor alive,
#   and no byte would be saved.
# * `x` stays as it is, and nothing is sent.

# %% [markdown]
# For example, 3 ranks cut `[10, 20, 30, 40, 50, 60, 70]` along dimension 0. `part_sizes(7, 3)` is
# `[3, 2, 2]`, so rank 1 gets `[40, 50]`.

# %%
check("{{cut}}")

# %% [markdown]
# ## 2 · What the forward sends
#
# Now the same product on real ranks. Cut by columns, it needs no message, as long as nobody asks
# for all of $Y$ in one place. Cut by rows, it needs a sum over the ranks: an all-reduce of $Y$.
# Here $Y$ has 512 × 512 numbers of 8 bytes, which are 2.1 MB. How many bytes does a rank send?
# (Part 02c has the ring.)

# %%
sent = predict(f"Bytes that one of {n} ranks sends to sum Y", unit="MB")

# %%
products = launch(measured.two_ways, size, world_size=n, device="cpu")
print("columns:", products["columns"].sent_bytes[0], "bytes sent")
for what, is_equal in products.values[0].items():
    print(f"{what}: equal to one process, but for rounding: {is_equal}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
sent.compare(theory=2 * (n - 1) / n * size**2 * 8 / 1e6,
             measured=products["rows"].sent_bytes[0] / 1e6, kind="communication")

# %% [markdown]
# One summand alone is not $Y$; it only has the same shape. That is what makes Partial tensors
# dangerous: no error tells you that the sum is missing.
#
# PyTorch's `DTensor` knows the three ways as **placements**. It works out the placement of a
# product from the placements of its factors:

# %%
# On the CPU: with ranks that shared a GPU, over Gloo, DTensor crashed (torch 2.11).
placements = launch(measured.products_of_dtensors, 64, world_size=n, device="cpu").values[0]
Table(["X", "A", "Y = X @ A"], placements, title="What DTensor finds out by itself")

# %% [markdown]
# ## 3 · What the backward sends: f and g
#
# Training needs gradients, too. Take one input $x = 3$ and two outputs. $A = [2\;\; 5]$ is cut by
# columns: rank 0 has the 2, and rank 1 has the 5. The loss is $L = y_0 + y_1 = 2x + 5x$. So the
# gradient of $x$ is 7. But rank 0 only knows the 2, and rank 1 only knows the 5.

# %% [markdown]
# In general, let $A = [A_0\ A_1 \dots]$ be cut by columns, and $Y_r = X A_r$ be the part of rank
# $r$. $X$ acts on the loss through every $A_r$. By the chain rule
#
# $$\frac{\partial L}{\partial X} = \sum_r \frac{\partial L}{\partial Y_r} A_r^T .$$
#
# Rank $r$ can compute one summand of it: its gradient of $X$ is Partial. **So a cut by columns
# needs an all-reduce in the backward**, of the size of $X$.

# %% [markdown]
# Cut **by rows** it is the other way round. The forward has the all-reduce. In the backward, rank
# $r$ needs the gradient of its own columns $X_r$ alone. It is $\partial L / \partial Y \cdot
# A_r^T$. Behind the sum every rank has all of $\partial L / \partial Y$, so **nothing is sent**.
#
# And the gradient of a rank's weights? By columns it is $X^T\, \partial L / \partial Y_r$, and by
# rows $X_r^T\, \partial L / \partial Y$. In both cases the rank has both factors. So the gradient
# of a cut weight is never sent.

# %% [markdown]
# Megatron-LM packs the two sums into two small functions. Between them is the **parallel region**,
# where ranks have different features.
#
# | | where it stands | forward | backward |
# |---|---|---|---|
# | **f** | before a cut by columns | does nothing | sums the gradients |
# | **g** | behind a cut by rows | sums the activations | does nothing |
#
# Each one's forward is the other one's backward. In the lab, f is called `Copy`, and g is called
# `AllReduce`.

# %% [markdown]
# ### Exercise {{copy}} · Enter the parallel region
#
# In [labs/tensor_parallel.py](../labs/tensor_parallel.py), write `Copy`, a
# `torch.autograd.Function` with two static methods.
#
# * `forward(ctx, x, group=None, total=summed)` returns `x` as it is, without a copy:
#   `x.view_as(x)`. In `ctx` it leaves what the backward will need. It keeps no tensor.
# * `backward(ctx, gradient)` returns one gradient for each argument of `forward`: the sum over the
#   ranks for `x`, and None for `group` and for `total`. Use `total(gradient, group)`: it returns
#   the sum in a new tensor. Leave `gradient` itself as it is; other parts of the graph may need it.
#
# In the example above, rank 0's backward gets 2, rank 1's gets 5, and both return 7.

# %% [markdown]
# ### Exercise {{all_reduce}} · Leave the parallel region
#
# Write `AllReduce` in [labs/tensor_parallel.py](../labs/tensor_parallel.py), with the same
# arguments. `forward` returns `total(x, group)`. `backward` returns the gradient as it is, and None
# twice.
#
# Why is its backward no all-reduce? Behind the sum, all ranks compute the same *one* loss, not $n$
# losses. If $y = a_0 + a_1$ and $L = 10\,y$, then the gradient of $a_0$ is 10. A sum over two ranks
# would make 20 of it.

# %%
display(check("{{copy}}"))
check("{{all_reduce}}")

# %% [markdown]
# ### Exercise {{column_linear}} · Write a column-parallel linear layer
#
# With f and g, a cut layer has a few lines. In
# [labs/tensor_parallel.py](../labs/tensor_parallel.py), write `ColumnLinear(linear, group=None,
# together=1, enter=enter)`.
#
# * `linear` is the whole layer, the same on all ranks. It may have no bias, and may be frozen.
# * The layer keeps `self.weight` and `self.bias`: this rank's parts, or None if there is no bias.
#   The lab's `part_of(parameter, dim, group, together)` makes such a part. It cuts a parameter, and
#   notes how it was cut.
# * `forward(x)` gets all of `x` on every rank, of shape (…, inputs). It returns this rank's columns
#   of the output. `self.enter(x, self.group)` is f.
# * The backward may send one all-reduce of `x`, and the forward nothing.

# %% [markdown]
# ### Exercise {{row_linear}} · Write a row-parallel linear layer
#
# In [the same lab](../labs/tensor_parallel.py), write `RowLinear(linear, group=None, together=1,
# leave=leave)`.
#
# * `self.weight` is this rank's part. `self.bias` is *all* of the bias, a parameter on every rank,
#   or None.
# * `forward(x)` gets this rank's columns of the input. It returns all of the output, the same on
#   every rank. `self.leave(y, self.group)` is g.
# * In the output the bias counts once, and on every rank it gets the gradient that one process
#   would give it.
# * The forward may send one all-reduce of the output, and the backward nothing.
#
# For example, take two ranks with the summands 13 and 16, and a bias of 1. Both return 30.

# %%
display(check("{{column_linear}}"))
check("{{row_linear}}")

# %% [markdown]
# What do your two layers send, forward and backward?

# %% tags=["cover"]
layers = launch(measured.both_directions, 64, 256, world_size=n, device="cpu")
assert all(layers.values)  # output and gradients are those of nn.Linear
ways, sums = ("columns", "rows"), 2 * (n - 1) / n * 64 * 256 * 8 / 1e3
theory = {"forward": [0, sums], "backward": [sums, 0]}
kilobytes = {when: [layers[f"{way}, {when}"].sent_bytes[0] / 1e3 for way in ways]
             for when in theory}
plot_bars([f"cut by {way}" for way in ways], kilobytes, "sent by a rank (kB)", predicted=theory,
          title=f"One linear layer of 256 × 256, 64 tokens, on {n} ranks")

# %% [markdown]
# Both cuts send the same amount, but at different times. The next part puts one behind the other.
#
# **On GPUs.** Tensor parallelism usually runs in 16 bits. Then each rank rounds its summand before
# the sum, and the sum is rounded again. So a cut by rows in bfloat16 gives slightly other numbers
# than one GPU does. Here is how far $Y$ is from the exact product, measured on this CPU. (One rank
# rounds once, at the end.)

# %% tags=["nbval-ignore-output"]
off = {k: launch(measured.row_cut_in_bfloat16, size, world_size=k).values[0] for k in (1, 2, 4, 8)}
Table(["ranks", *map(str, off)], [["error, as a share of Y", *(f"{x:.2%}" for x in off.values())]])

# %% [markdown]
# ## Put to the test
#
# What our sources say about cutting a matrix, and what was found.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
def my_quarter(tensor_parallel):
    whole = torch.empty(4096, 16384, device="meta")  # a shape without memory
    return [*tensor_parallel.cut(whole, 1).shape]

quarters = launch(my_quarter, tensor_parallel, world_size=4, device="cpu").values
is_four = quarters == 4 * [[4096, 4096]]
columns_sent, facts = products["columns"].sent_bytes[0], products.values[0]
rows_sent = products["rows"].sent_bytes[0] / 1e6
surprises = f"""
- [C152] A matrix of 4096 × 16384 on 4 GPUs gives four of 4096 × 4096 |
  web page, “Three Dimensions of Parallelism” | {"right" if is_four else "wrong"} |
  cut by columns, each of 4 ranks has {quarters[0]} (measured in this section) | measured: nothing,
  since shapes are the same on any device
- [C155] A column-parallel layer all-gathers its output | web page, “Column vs Row Parallel” |
  {"depends" if facts["columns"] and not columns_sent else "right"} | only if what follows needs
  all of the output. The product by columns sent {columns_sent} bytes, and each rank's columns were
  right: {facts["columns"]} (section 2, run) | measured: nothing, since the columns do not depend on
  each other
"""

# %% jupyter={"source_hidden": true}
# The table.
put_to_the_test(surprises + f"""
- [C156] In a row-parallel layer the input is split already, and an all-reduce adds up |
  web page, “Column vs Row Parallel” |
  {"right" if facts["sum"] and not facts["one summand"] else "wrong"} | the sum is Y:
  {facts["sum"]}; one summand is Y: {facts["one summand"]} (section 2, run). The bias is added once,
  behind the sum (exercise {{row_linear}}) | measured: nothing; only rounding differs with the order in which
  NCCL adds up
- [C159] Split a weight tensor into N chunks, and aggregate the results by all-reduce |
  web note, “Tensor Parallel” |
  {"imprecise" if facts["columns"] and not columns_sent else "right"} | that is the cut by rows:
  {rows_sent:.4g} MB sent by each of {n} ranks. Cut by columns, {columns_sent} bytes: the results
  are put side by side, or stay where they are (section 2, run) | measured: nothing in which sums
  are needed
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); a web note on types of
# distributed training.
#
# **To read on.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019: f and g.
# PyTorch's [DTensor](https://docs.pytorch.org/docs/stable/distributed.tensor.html): the placements.

# %% [markdown]
# ## What you have learnt
#
# * By **columns**, a rank computes some outputs completely. By **rows**, it computes one summand of
#   all outputs.
# * A column layer needs an all-reduce in its backward, and a row layer in its forward. **f** and
#   **g** are these two sums.
# * Parts of weights, and their gradients, stay where they are. Activations and their gradients
#   travel.
# * A Partial tensor looks like a finished one. Nothing but a comparison tells that the sum is
#   missing.
#
# **Your exercises** stand in [labs/tensor_parallel.py](../labs/tensor_parallel.py).
#
# **Next**: {{next}}.

# %%
progress("07")
