# %% [markdown]
# # {{title}}
#
# **How do you put cut layers one behind the other, so that little is sent?** An MLP is two linear
# layers with a GELU between them. Cut the first by columns and the second by rows, and one sum is
# enough for both. You see why, count what other orders would cost, and find four bugs. None of them
# stops the program.

# %% [markdown]
# ![Bytes that a rank sends for the forward of one MLP on four ranks: the pair sends least, with a
# gather of the hidden features three times as much, and rows first four and a half
# times](../assets/covers/07b_the_pair.png)
#
# *Measured in section 2: three ways to compute the same MLP on four ranks.*
#
# **After this part you can** cut an MLP over ranks with one all-reduce in each direction, and say
# where a sum, a bias, and f belong.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
tokens = 512
width = 64

# %% [markdown]
# ## 1 · Two products, one sum
#
# A transformer has hundreds of linear layers. If each needed a sum of its own, sums would take most
# of the time. An MLP shows how two layers share one:
#
# $$Y = \mathrm{GELU}(XA)\,B$$
#
# Cut $A$ by columns and $B$ by rows. After the first product, a rank has some columns of $XA$, and
# they are complete. GELU looks at each number by itself, so it works on these columns. And these
# are the columns that the rank's rows of $B$ need. So nothing is gathered between the two layers.
# At the end, each rank has a summand of $Y$, and one all-reduce makes $Y$ of them.

# %% [markdown]
# Here is such a pair on two ranks, with small whole numbers, forward and backward. (It has ReLU in
# place of GELU, so that numbers stay whole. The loss is the sum of $Y$.) Move the slider. Look for
# the two moments at which something travels: g in the forward, f in the backward.

# %%
tensor_parallel, measured = lab("tensor_parallel"), lab("tensor_measured")
pictures = lab("pair_pictures")
films = launch(measured.film_mlp, world_size=2).values

def draw_frame(frame):
    return pictures.plot_pair(films, frame)

explore(draw_frame, frame=list(range(1, len(films[0].frames) + 1)))

# %% [markdown]
# ## 2 · What other orders cost
#
# Three ways to compute the forward of the same MLP:
#
# * **pair**: $A$ by columns, then $B$ by rows. One all-reduce of $Y$;
# * **gathered**: the same cuts, but the hidden features are all-gathered in between, as one of our
#   sources has it;
# * **rows first**: $A$ by rows, an all-reduce of the hidden features, GELU, $B$ by columns, and an
#   all-gather of $Y$.
#
# The hidden features are four times as wide as $Y$. An all-reduce of $X$ bytes sends
# $2\frac{n-1}{n}X$ from each rank, and an all-gather of $X$ bytes $\frac{n-1}{n}X$.

# %%
times_more = predict(f"Bytes of “rows first” on {world_size} ranks, as a multiple of the pair's",
                     unit="times")

# %%
n = world_size
paired = launch(measured.three_ways, tokens, width, world_size=n, device="cpu")
sent = {way: paired[way].sent_bytes[0] / 1e3 for way in paired.labels}
print("all three ways give Y:", all(paired.values))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
share = (n - 1) / n * tokens * width * 8 / 1e3  # (n-1)/n of Y's bytes, in kB
theory = {"pair": 2 * share, "gathered": (4 + 2) * share, "rows first": (2 * 4 + 1) * share}
ratio = [of["rows first"] / of["pair"] if n > 1 else 1 for of in (theory, sent)]
times_more.compare(*ratio, kind="communication")

# %% tags=["cover"]
plot_bars(list(theory), {"sent": [sent[way] for way in theory]}, "sent by a rank (kB)",
          predicted={"sent": list(theory.values())},
          title=f"The forward of one MLP on {n} ranks: all three ways give the same Y")

# %% [markdown]
# The pair never has the hidden features in one place, and sends least. In “gathered”, the gather is
# for nothing: afterwards each rank cuts out the part that it had before.

# %% [markdown]
# ### Exercise {{split_mlp}} · Debug a split MLP
#
# A text says: slice the first matrix of an MLP along its rows, and the second one along its
# columns. `split_mlp` follows it.
#
# * All ranks get the same `x` of (tokens, width), `a` of (width, hidden) and `b` of (hidden,
#   width). The number of ranks divides all sizes.
# * On every rank it must return all of $Y = \mathrm{GELU}(XA)\,B$.
# * Each rank must multiply with its own parts of `a` and `b` only.
# * One all-reduce of $Y$ is all that may be sent. `x`, `a` and `b` stay as they are.

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

# %% [markdown]
# Run the next cell first: it shows the symptom. With one rank, the program is right.

# %%
symptoms = lab("tensor_symptoms")
for k in (1, 2, 4):
    errors = launch(symptoms.check_mlp, split_mlp, world_size=k).values
    print(f"{k} rank{'s' * (k > 1)}: Y is off by {max(errors):.0%}")

# %%
check("{{split_mlp}}", split_mlp)

# %% [markdown]
# GELU is not linear: $\mathrm{GELU}(U + V)$ is not $\mathrm{GELU}(U) + \mathrm{GELU}(V)$. **A
# Partial tensor has to be summed before anything that is not linear.** How wrong is $Y$ if it is
# not? Here each rank takes the GELU of its own summand of $XA$, and the sum comes later:

# %%
late = {k: launch(measured.measure_late_sum, tokens, width, world_size=k, device="cpu").values[0]
        for k in (1, 2, 4, 8)}
Table(["ranks", *map(str, late)],
      [["error, as a share of Y", *(f"{error:.0%}" for error in late.values())]],
      note="For random X, A and B.")

# %% [markdown]
# ## 3 · The bias
#
# A row layer has a bias, too. The next program was mended by somebody who had read that the bias
# counts $n$ times if every rank adds it before the sum. So it adds $1/n$ of it on each rank. The
# output is right now.
#
# ### Exercise {{row_layer}} · Debug a row-parallel layer
#
# `row_layer` gets this rank's inputs `x` of (…, inputs / n), this rank's `weight` of (outputs,
# inputs / n), as `nn.Linear` stores it, and all of `bias`, of (outputs,). On every rank, the output
# and the gradients of `x`, `weight` and `bias` must be those of one process. Nothing may be sent in
# the backward. `tensor_parallel.AllReduce` is yours of {{all_reduce}}.

# %%
def row_layer(x, weight, bias):
    ### BEGIN SOLUTION
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
    ### IT WAS
    # share = bias / dist.get_world_size()
    # return tensor_parallel.AllReduce.apply(F.linear(x, weight, share))
    ### END SOLUTION

# %% [markdown]
# The symptom:

# %%
Table(["on 4 ranks", "output", "gradient of bias"],
      symptoms.rows_of(launch(symptoms.check_row_layer, row_layer, world_size=4)))

# %%
check("{{row_layer}}", row_layer)

# %% [markdown]
# ## 4 · Where the parallel region begins
#
# ### Exercise {{residual_mlp}} · Debug a residual MLP
#
# This is the second half of a transformer's block: a layer norm, a pair, and the input is added
# again. It was trained for weeks, and the loss fell.
#
# `residual_mlp` gets
#
# * `x` of (…, width) and a module `norm`, both the same on all ranks
# * this rank's `up` of (hidden / n, width) and `down` of (width, hidden / n), as `nn.Linear` stores
#   them
# * all of `bias`, of (width,).
#
# On every rank, the output and *all* gradients must be those of one process: those of `x`, of the
# norm's two parameters, of `up`, `down` and `bias`.

# %%
def residual_mlp(x, norm, up, down, bias):
    ### BEGIN SOLUTION
    h = tensor_parallel.Copy.apply(norm(x))
    ### IT WAS
    # h = norm(x)
    ### END SOLUTION
    hidden = F.gelu(F.linear(h, up))
    return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias

# %%
Table(["on 4 ranks", "output", "gradient of norm.weight", "gradient of up"],
      symptoms.rows_of(launch(symptoms.check_residual_mlp, residual_mlp, world_size=4)))

# %%
check("{{residual_mlp}}", residual_mlp)

# %% [markdown]
# With this bug, each rank updates the norm's weights with another gradient. The ranks' copies begin
# equal, and drift apart. No error tells so, because no rank compares its copy with another.
#
# ## 5 · In place
#
# ### Exercise {{sum_of_experts}} · Debug a sum of experts
#
# In this layer each rank has one small network of its own, an **expert**. (Chapter 09 has more of
# them.) Its output is the sum of all experts' outputs: $\sum_r \mathrm{ReLU}(X A_r)$. The program
# calls `SumOfExperts.apply(F.relu(x @ a))`.
#
# `forward(ctx, y)` must return the sum of all ranks' `y`. `backward(ctx, gradient)` must return the
# gradient of `y`. The gradients of whatever stood before `y` must be right, too. Both methods leave
# their arguments as they are.

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

# %%
Table(["on 4 ranks", "output", "gradient of its matrix"],
      symptoms.rows_of(launch(symptoms.check_experts, SumOfExperts, world_size=4)))

# %%
check("{{sum_of_experts}}", SumOfExperts)

# %% [markdown]
# **On GPUs** this bug is the same: `dist.all_reduce` works in place over NCCL as over Gloo. DTensor
# uses other functions, which return new tensors: PyTorch's [functional
# collectives](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/_functional_collectives.py).

# %% [markdown]
# ## Put to the test
#
# What our sources say about the pair, and what was found.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
least = min(sent, key=sent.get)
gathers = [call.name for call in paired["pair"].calls[0] if "gather" in call.name]
put_to_the_test(f"""
- [C154] Pairing needs one all-gather and one all-reduce in an MLP |
  web page, “Column vs Row Parallel” | {"wrong" if not gathers and least == "pair" else "right"} |
  the pair's forward made {len(gathers)} all-gathers (measured in this section). A rank sends
  {sent["pair"] / 1e3:.3g} MB in it, {sent["gathered"] / 1e3:.3g} MB with an all-gather in between,
  and {sent["rows first"] / 1e3:.3g} MB with rows first (section 2, picture) | measured: nothing in
  the calls. With sequence parallelism the sum becomes a reduce-scatter and an all-gather of the
  same bytes (part 07e)
- [C158] Slice w1 along rows, and w2 along columns | blog, “Q1: How does FSDP compare to Tensor
  Parallelism?” | {"depends on what is stored" if late[4] > 0.01 else "not seen here"} | right for
  what nn.Linear stores, dimension 0 and then 1. For A in Y = XA it is the other way round, as the
  web page says: rows of A first, without a sum before GELU, is off by {late[4]:.0%} on 4 ranks
  (section 2, table) | measured: nothing, since it is
  algebra
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *The Evolution of Data
# Parallelism* (blog).
#
# **To read on.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019, section 3.

# %% [markdown]
# ## What you have learnt
#
# * **By columns, then by rows**: nothing is sent between the two, and one all-reduce follows. The
#   backward has one, too.
# * A Partial tensor is summed **before** anything that is not linear, and before the bias.
# * **f** stands before the first cut layer, where all ranks still have the same $X$. Without it,
#   norms drift apart, and the loss still falls.
# * What autograd has kept must not be overwritten. `dist.all_reduce` writes in place.
#
# **Your exercises** stand in the cells above.
#
# **Next**: {{next}}.

# %%
progress("07b")
