# %% [markdown]
# # {{title}}
#
# **If a rank holds only half of a matrix, can it update that half without the other?** With Adam it
# can, because Adam looks at each number by itself. In this part you meet two optimizers that look
# at a matrix as a whole, and keep less than Adam. Then you cut a matrix in two, and see what
# becomes of the step. Chapter 06 deals out the work of the optimizer among ranks. There you need
# the answer.

# %% [markdown]
# ![Singular values of a gradient, as bars, and of the same matrix made orthogonal. The gradient's
# values fall from 1 to nearly nothing. Afterwards all that are shown are near
# 1](../assets/covers/05h_optimizers_for_matrices.png)
#
# *Measured in section 2: what Muon makes of a gradient before it steps.*
#
# **After this part you can** say what Adafactor and Muon keep, take Muon's step, and say which
# optimizers can be split among ranks anywhere.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial

import torch

from pedagogy_lib import (
    Table, lab, launch, plot_bars, predict, progress,
)

# %% tags=["parameters"]
steps = 150

# %%
matrix_optimizers = lab("matrix_optimizers")
text = lab("language_model").standard_library(200_000)

# %% [markdown]
# ## 1 · Rows and columns: Adafactor
#
# Adam keeps two numbers for each parameter: running means of its gradient, and of the gradient's
# square. Part [05c](05c_smaller_optimizer_states.ipynb) has rounded these numbers. Another way to
# keep less is to keep *fewer* of them.
#
# A matrix of 1,000 × 1,000 has a million mean squares. **Adafactor** keeps 2,000 numbers in place
# of them: the mean of each row, $r_i$, and the mean of each column, $c_j$. From these it makes an
# estimate of each mean square:
#
# $$v_{ij} \approx \frac{r_i\,c_j}{\text{mean of all}}$$

# %% [markdown]
# For example, take `[[1, 2], [3, 6]]`. The means of its rows are 1.5 and 4.5, those of its columns
# 2 and 4, and the mean of all is 3. The estimate for the corner 6 is 4.5 × 4 / 3 = 6. It is exact,
# because this matrix is a column times a row. How near does it come for a real one? Here is a
# matrix of a small transformer, after 100 steps with Adam:

# %% tags=["nbval-ignore-output"]
v = launch(matrix_optimizers.mean_square, text, world_size=1).values[0]
estimate = torch.outer(v.mean(1), v.mean(0)) / v.mean()
off = (estimate / v).sqrt()  # Adam divides by the root
low, high = off.quantile(torch.tensor([0.05, 0.95])).tolist()
print(f"{tuple(v.shape)}: {v.numel():,} mean squares, estimated from {sum(v.shape)} numbers")
print(f"nine of ten roots are estimated as {low:.2f} to {high:.2f} times what they are")

# %% [markdown]
# So with such an estimate a step is somewhat shorter or longer than Adam's, but of the same order.
# PyTorch has this as `torch.optim.Adafactor`. It keeps no mean of the gradient either. Section 4
# trains with it.

# %% [markdown]
# ## 2 · A whole matrix: Muon
#
# **Muon** keeps one number for each parameter: the momentum, a running sum of gradients. That is
# half of Adam's state. From the momentum matrix it makes an **orthogonal** one, and steps by that.
#
# A matrix stretches vectors, in some directions more than in others. Its **singular values** say
# how much. A gradient has a few large ones, and many small ones. Muon makes all of them 1, and
# keeps the directions. So the step is as long in rare directions as in frequent ones.
#
# For example, `[[3, 1], [1, 3]]` has singular values 4 and 2. Muon makes `[[1, 0], [0, 1]]` of it.

# %% [markdown]
# It takes long to compute singular values. **Newton and Schulz's iteration** needs only products of
# matrices. In each round, every singular value $s$ becomes $a s + b s^3 + c s^5$. With Muon's
# coefficients, five rounds bring all values that are not tiny near to 1.

# %%
def orthogonalize(matrix, rounds=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / matrix.norm()  # now no singular value is above 1
    for _ in range(rounds):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x

# %% tags=["cover", "nbval-ignore-output"]
gradient = launch(matrix_optimizers.gradient_of, text, world_size=1).values[0]  # 128 × 32
before = torch.linalg.svdvals(gradient)
after = torch.linalg.svdvals(orthogonalize(gradient))
shown = [0, 1, 3, 7, 15, 23, 30]
plot_bars([f"number {k + 1}" for k in shown],
          {"gradient, divided by its largest": (before / before[0])[shown].tolist(),
           "made orthogonal": after[shown].tolist()},
          "singular value", title="Singular values of a matrix, before and after")

# %% [markdown]
# The gradient's values differ by a factor of more than a hundred. Afterwards all that are drawn are
# near 1. (Number 32 is not drawn: it is thousands of times smaller than the first, and stays
# small.)

# %% [markdown]
# PyTorch has Muon, too, since 2025. It computes the iteration in bfloat16, and takes matrices only,
# [says its documentation](https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html).
# Embeddings, the last layer, norms and biases go to another optimizer, mostly AdamW. Does PyTorch
# take the step that you have just computed?

# %% tags=["nbval-ignore-output"]
change = matrix_optimizers.change  # of a weight of zeros, by the first step with this gradient
if hasattr(torch.optim, "Muon"):
    alone = {"lr": 1.0, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False}
    pytorchs = partial(change, partial(torch.optim.Muon, **alone))
    theirs, ours = pytorchs(gradient), orthogonalize(gradient)
    alike = torch.cosine_similarity(theirs.flatten(), ours.flatten(), dim=0)
    factor = theirs.norm() / ours.norm()
    print(f"the same direction: cosine {alike:.3f}; {factor:.2f} times as long")

# %% [markdown]
# The same direction, as far as bfloat16 can tell. The length is multiplied by $\sqrt{128 / 32} =
# 2$: PyTorch adapts the learning rate to the shape of the matrix.

# %% [markdown]
# ## 3 · A matrix in halves
#
# Now the question of the next chapter. There, each rank keeps the optimizer state of *a part* of
# the parameters, and takes the step for this part. May such a part end in the middle of a matrix?
#
# Try it: cut the gradient (128 × 32) into two halves, an upper and a lower one. Give each half to
# the optimizer alone, and put the two steps together. How far is that from the step of the whole?
# Take the length of the difference, as a share of the length of the whole step. (The length of a
# matrix is the root of the sum of its squares.) If nothing changes, it is 0 %.

# %%
apart = predict("Muon: the step of two halves differs from the whole step by", unit="%")

# %%
def pieces_apart(step_for, matrix, n=2):
    """How far the steps of n pieces are from the step of the whole, as a share of it."""
    whole = step_for(matrix)
    pieces = torch.cat([step_for(piece) for piece in matrix.chunk(n)])
    return ((pieces - whole).norm() / whole.norm()).item()

# %% tags=["nbval-ignore-output"]
steps_of = {
    "Adam": partial(change, partial(torch.optim.Adam, lr=1.0)),
    "Adafactor": partial(change, partial(torch.optim.Adafactor, lr=1.0)),
    "Muon": orthogonalize,
}
differ = {name: pieces_apart(step_for, gradient) for name, step_for in steps_of.items()}
for name, share in differ.items():
    print(f"{name:10} two halves differ from the whole by {share:.0%}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory (of the length alone), and what was measured.
apart.compare(100 * (2**0.5 - 1), 100 * differ["Muon"], kind="optimizer_state")

# %% [markdown]
# Two things go wrong with Muon:
#
# * **The length.** Each half has 32 singular values, as the whole has. Make all of them 1, and each
#   half is as long as the whole. Both together are $\sqrt 2$ times as long. That alone is a
#   difference of 41 %: the theory in the picture above. Directions that differ come on top.
# * **The directions.** Cut `[[3, 1], [1, 3]]` into its rows. A row has one singular value, its
#   length. So (3, 1) becomes (0.95, 0.32), but the step of the whole has (1, 0) there.
#
# PyTorch's factor for the shape mends the length of these halves. It cannot mend the directions:

# %% tags=["nbval-ignore-output"]
if hasattr(torch.optim, "Muon"):
    halves = torch.cat([pytorchs(half) for half in gradient.chunk(2)])
    print(f"PyTorch's Muon: two halves are {halves.norm() / theirs.norm():.2f} times as long as "
          f"the whole,\nand differ from it by {pieces_apart(pytorchs, gradient):.0%}")

# %% [markdown]
# * **Adam** may be cut anywhere, even in the middle of a row. Each number has its own step.
# * **Adafactor** needs the means of whole columns, and the lengths of the whole weight and step.
#   Ranks with half of the rows each could add up these few numbers.
# * **Muon** needs the whole matrix. The singular values of two halves say little about those of
#   the whole. So a rank has to get whole matrices, or the matrix is gathered before each step.
#   Part [06b](06b_whole_tensors.ipynb) is about that.

# %% [markdown]
# What counts as one matrix is a choice, too. The attention of this model computes queries, keys and
# values with one fused matrix. Muon may step on it as it is, or on its three parts. And with more
# ranks, the pieces of a matrix become smaller:

# %% tags=["nbval-ignore-output"]
fused = launch(matrix_optimizers.attention_gradient_of, text, world_size=1).values[0]  # 96 × 32
print(f"queries, keys and values apart: {pieces_apart(orthogonalize, fused, 3):.0%} "
      "from the fused step")
for n in (4, 8):
    print(f"{n} pieces of the first matrix: {pieces_apart(orthogonalize, gradient, n):.0%} "
          "from the whole step")

# %% [markdown]
# Muon's author found that it [works better](https://kellerjordan.github.io/posts/muon/) on queries,
# keys and values apart. Megatron-LM therefore splits them by default (`muon_split_qkv` of [its
# settings](https://github.com/NVIDIA/Megatron-LM/blob/0075637cdbb05f45fe6f7a96e008d64237698907/megatron/core/optimizer/optimizer_config.py)),
# and so does this part's lab. Where tensor parallelism has cut a matrix, Megatron-LM's default is
# *blockwise*: each rank steps on its piece alone (`muon_tp_mode`).

# %% [markdown]
# ## 4 · Bytes and loss
#
# Last, train a small transformer with all three, on the source text of the standard library. They
# are different optimizers, so each one needs a learning rate of its own. Each of three ranks tries
# one rate, all with the same seed. Then the best rate is used with three new seeds. Muon is for the
# matrices of the blocks; the other parameters go to Adam. (The programs are in
# [labs/matrix_optimizers.py](../labs/matrix_optimizers.py).)

# %% tags=["nbval-ignore-output"]
tried = launch(matrix_optimizers.tune_rates, text, steps, world_size=3).values
rates = matrix_optimizers.best_rates(tried)
raced = launch(matrix_optimizers.trainings, text, steps, rates, world_size=3)
numbers = matrix_optimizers.parameters_of_the_model()
Table(["optimizer", "state for each parameter", "best rate", "loss at the end, for each seed"],
      matrix_optimizers.rows(raced, rates, numbers))

# %% [markdown]
# Read the first column of numbers: it is exact. The losses are of a tiny model after few steps, and
# do not say which optimizer is best for yours. They do say that a model can be trained with much
# less state than Adam's.
#
# (Muon's state is larger than 4 bytes because Adam keeps 8 for everything outside of the blocks. In
# this tiny model that is a large share.)

# %% [markdown]
# **Sources.** None of the course's five sources speaks of these optimizers.
#
# **To read on.** Shazeer and Stern 2018, [Adafactor](https://arxiv.org/abs/1804.04235). Jordan
# 2024, [Muon](https://kellerjordan.github.io/posts/muon/). Liu et al. 2025,
# [Muon is Scalable for LLM Training](https://arxiv.org/abs/2502.16982): weight decay, and steps as
# long as AdamW's. Kimi Team 2025, [Kimi K2](https://arxiv.org/abs/2507.20534): QK-Clip shrinks the
# queries and keys of a head whose scores grow too large under Muon.

# %% [markdown]
# ## What you have learnt
#
# * **Adafactor** estimates mean squares from the means of rows and columns. Its state is tiny.
# * **Muon** keeps half of Adam's state. It makes all **singular values** of a matrix nearly equal.
# * Adam's step for a number depends on nothing but this number's gradients: cut its state anywhere.
#   With Muon two halves of a matrix take another step than the whole, in length and in direction.
#   Give it queries, keys and values as separate matrices.
#
# **Next**: {{next}}.

# %%
progress("05h")
