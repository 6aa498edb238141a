# %% [markdown]
# # {{title}}
#
# **Does a whole transformer in parts train as one process does?** So far you cut layers. A whole
# model has more: dropout, first weights, a norm of all gradients for clipping. In each of them,
# what is right on one GPU is wrong on several. You mend them, train the model, and find which
# mistakes nobody would notice.

# %% [markdown]
# ![Loss over training steps: one process and four ranks lie on top of each other, and two versions
# with mistakes fall as well](../assets/covers/07d_a_model_in_parts.png)
#
# *Measured in section 4: four ranks train as one process does. With two common mistakes the loss
# falls as well. Only a comparison with one process finds them.*
#
# **After this part you can** draw random numbers in a model that is cut, clip its gradients by
# their global norm, and test that it trains as one process does.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.nn.functional as F

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, plot_curves, predict, progress, put_to_the_test,
    relative_gap,
)

# %% tags=["parameters"]
world_size = 4
width = 64
steps = 15

# %% [markdown]
# ## 1 · Dropout
#
# Dropout sets random features to zero. On $n$ ranks there are two kinds of places for it:
#
# * **Outside** of the parallel region all ranks compute the same. They must draw the **same**
#   random numbers, or their copies of $x$ drift apart.
# * **Inside**, each rank has features of its own. The ranks must draw **different** numbers.
#
# All ranks begin with the same seed, so by default they draw the same everywhere. Here are the
# masks for a hidden layer of 64 features and 16 samples. The ranks' features stand side by side.

# %%
tensor_parallel, parts = lab("tensor_parallel"), lab("model_in_parts")
n = world_size
drawn = {what: launch(parts.masks, own, world_size=n).values
         for what, own in (("one stream for all", False), ("a stream of its own", True))}
lab("dropout_masks").plot_masks(drawn, title=f"Which hidden features {n} ranks keep")

# %% [markdown]
# With one stream for all, feature 0 of rank 0 is dropped whenever feature 0 of rank 1 is. The mask
# has only a quarter of its randomness on four ranks. Nothing fails, and no loss tells you.
#
# So Megatron-LM keeps two streams of random numbers on each rank. The lab's `OwnRandomness` does
# the same. Within `with randomness:` all random numbers come from the rank's own stream. Afterwards
# the common stream goes on as if nothing had been drawn. (If there are several copies of the
# model, each copy needs other numbers in both streams, because it has other samples: part 03.)

# %% [markdown]
# ### Exercise {{dropped_mlp}} · Debug dropout with tensor parallelism
#
# `dropped_mlp(hidden, weight, p, randomness)` is the second half of an MLP. `hidden` has the shape
# (samples, hidden / n), and `weight` has (width, hidden / n), as `nn.Linear` stores it. Dropout
# with probability `p` comes before the product, and again behind the sum. All ranks have the same
# seed. `randomness` is an `OwnRandomness`.
#
# * All ranks return the same $y$ of (samples, width).
# * What one rank drops of `hidden` is independent of what another rank drops. Each call draws anew.
# * The common stream goes on as if only the second dropout had drawn from it.

# %%
def dropped_mlp(hidden, weight, p, randomness):
    ### BEGIN SOLUTION
    with randomness:
        hidden = F.dropout(hidden, p)
    ### IT WAS
    # hidden = F.dropout(hidden, p)
    ### END SOLUTION
    y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
    return F.dropout(y, p)

# %% [markdown]
# First the symptom: in how many positions do ranks 0 and 1 do the same? With independent masks and
# $p = 0.5$, these are about half of the positions of `hidden`. In `y`, they must be all.

# %% tags=["nbval-ignore-output"]
alike = launch(parts.compare_dropout, dropped_mlp, world_size=2).values[0]
print("ranks 0 and 1 do the same:", *(f"{share} of {name}" for name, share in alike.items()))

# %%
check("{{dropped_mlp}}", dropped_mlp)

# %% [markdown]
# ### Dropout and recomputation
#
# Part 05f computes activations again in the backward. Then dropout has to draw the same numbers
# again. `torch.utils.checkpoint` restores the common stream. It knows nothing of a second one:

# %%
off = launch(parts.dropout_recomputed, world_size=n).values[0]
for way, gap in off.items():
    print(f"{way}: gradients are {'right' if gap < 1e-12 else 'wrong'}")

# %% [markdown]
# The lab's `recompute_with_streams` notes the state of the rank's own stream before the forward,
# and goes back to it for the second one. Megatron-LM has a `checkpoint` of its own for the same
# reason
# ([random.py](https://github.com/NVIDIA/Megatron-LM/blob/cf547dea839f709ec2f147da0679d663da3c20da/megatron/core/tensor_parallel/random.py)).

# %% [markdown]
# ## 2 · The first weights
#
# First weights are random numbers, too. They should not depend on $n$, or no run could be compared
# with another one. Here every rank makes the whole model from the same seed, and then cuts it. That
# is exact. But for a moment the whole model has to fit. If each layer is cut as soon as it is made,
# only one layer has to fit.
#
# What is left on a rank?

# %%
sizes = launch(parts.sizes_of, width, world_size=n).values[0]
total, mine = map(sum, zip(*sizes.values()))
Table(["parameter", "whole", "on rank 0", "share"],
      [*([name, a, b, f"{b / a:.3f}"] for name, (a, b) in sizes.items()),
       ["together", total, mine, f"{mine / total:.3f}"]])

# %% [markdown]
# (In the course's model, `letters` is the embedding of tokens, and `places` the embedding of
# positions.) Matrices are cut. Norms, the positions' embedding, and biases behind a sum are on
# every rank. So a rank keeps a little more than $1/n$. In a large model the difference is small:
# what is cut grows with width², and the rest with width.

# %% [markdown]
# ## 3 · The norm of all gradients
#
# **Clipping** shortens the gradients if their norm is too large. The norm is the length of one
# vector: the gradients of *all* parameters, one after another. If each rank took the norm of what
# it has, each would clip differently.
#
# ### Exercise {{gradient_norm}} · Compute the whole model's gradient norm
#
# Write `gradient_norm(model, group=None)` in [labs/tensor_parallel.py](../labs/tensor_parallel.py).
# It returns the length of the whole model's gradient, as a tensor with one number, the same on
# every rank.

# %% [markdown]
# * A parameter with the attribute `cut_dim` is cut: each rank has another part. `cut_dim` may be 0.
# * All other parameters, and their gradients, are the same on every rank. They count once.
# * A gradient that is None counts as zeros. A rank may have no gradient at all, and another rank
#   may have one. The model may have no cut parameter, or no whole one.
# * The check's gradients are float64, and `torch.zeros(())` alone is float32. In float16 the square
#   of 300 would be infinite, so the solution squares in float32 at least: `sum_of_squares(x)` of
#   the lab.
# * Send one all-reduce of one number. The lab's `summed(x, group)` returns a sum over the ranks.
#   Change no gradient.

# %% [markdown]
# For example, rank 0 has a cut parameter with the gradient [2], and rank 1 has its other part with
# [4]. Both have a whole one with the gradient [4]. The norm is $\sqrt{2^2 + 4^2 + 4^2} = 6$.

# %%
check("{{gradient_norm}}")

# %% [markdown]
# ## 4 · Trained in parts
#
# Now the whole model is trained, in one process and on ranks: from the same weights, on the same
# tokens. And it is trained twice with a mistake. Once f is left out, so the backward's all-reduce
# is missing. Once each rank reads other tokens, as in data parallel training. Will the loss still
# fall? Will it be the same on all ranks?

# %%
text, by_autocast = lab("language_model").standard_library(100_000), lab("tensor_autocast")
right = f"{n} ranks"
ways = {"one process": (1, ""), right: (n, ""), parts.NO_F: (n, parts.NO_F),
        parts.OTHER_TOKENS: (n, parts.OTHER_TOKENS)}
runs = {name: launch(parts.train_in_parts, text, width, steps, mistake, world_size=k)
        for name, (k, mistake) in ways.items()}

# %% tags=["cover", "nbval-ignore-output"]
curves = {name: (list(range(1, steps + 1)), run.values[0][0]) for name, run in runs.items()}
plot_curves({f"two blocks of width {width}": curves}, "step", "loss of a token",
            title="The loss falls with the mistakes, too")

# %%
def equal_to_one_process(name):
    losses, weights = zip(*runs[name].values)
    return all(x == losses[0] for x in losses), all(close(w, alone, steps) for w in weights)

alone = runs["one process"].values[0][1]
Table(["", "the same loss on all ranks", "weights of one process, but for rounding"],
      [[name, *equal_to_one_process(name)] for name in (right, parts.NO_F, parts.OTHER_TOKENS)],
      note=f"After {steps} steps.")

# %% [markdown]
# With either mistake the loss falls. It is even the same on all ranks, because it is summed over
# them. But the weights are wrong. Weights that should be the same on all ranks get another gradient
# on each. And cut weights are trained with wrong gradients, which no comparison among ranks can
# show.
#
# **The test that finds both is a comparison with one process**, in float64: values and gradients.

# %% [markdown]
# ## 5 · What composes
#
# Tensor parallelism is rarely used alone. Here it is combined with what chapters 01 and 05 have.
# Each line compares all gradients with one process, in float64. The last column has what a rank
# sends in forward and backward, as a multiple of the plain step.
#
# The plain step makes ten sums of an activation: four in each of two blocks, one for the embedding,
# and one for the last layer. With recomputation of the blocks, their forward happens again in the
# backward. What does that send?

# %%
again = predict("What a step with recomputation sends", unit="plain steps")

# %%
step = {what: launch(parts.check_combination, what, text, world_size=2, device="cpu")
        for what in parts.COMPOSED}
plain = step["plain"]["step"].sent_bytes[0]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
again.compare(theory=12 / 10, measured=step["recomputation"]["step"].sent_bytes[0] / plain,
              kind="communication")

# %%
Table(["tensor parallel and", "gradients of one process", "sent"],
      [[what, str(all(run.values)), f"{run['step'].sent_bytes[0] / plain:.2f}"]
       for what, run in step.items()])

# %% [markdown]
# Recomputation makes twelve sums. Each of the two blocks has two sums in its forward, and only the
# first one comes again: no backward needs the result of the second one, and PyTorch's `checkpoint`
# stops before it. All ranks compute again at the same moment, so these sums meet. Accumulation
# sends the same tensors in more messages, and each message has a header.
#
# With accumulation, what completes gradients (`sum_shared_gradients` of 07c, and 07e's sum of
# partial gradients) is called **once per step**, after the last backward. It sums what is in
# `.grad`, so a call after each backward would sum the earlier sums again.

# %% [markdown]
# ### Under autocast
#
# Autocast decides in each operation, and a sum over ranks follows an operation. So a row-parallel
# layer's product is rounded to bfloat16, and *then* summed. How many bytes does a number have in
# each sum of a step? And which of the summed numbers would fit into two bytes, because they are
# bfloat16 numbers already?

# %%
under = {name: launch(by_autocast.step_under, autocast, text, world_size=2, device="cpu").values[0]
         for name, autocast in (("float32", False), ("autocast", True))}
Table(["", "", "sums", "bytes per number", "of these bfloat16 numbers"],
      [[name, phase, count, size, f"{share:.0%}"] for name, (sums, *_) in under.items()
       for (phase, size, share), count in sums.items()],
      note="all-reduces of an activation by rank 0, in a step; zeros are not counted")

# %% [markdown]
# The blocks' forward sums are halved. The five of the backward have four bytes **only because the
# parallel region is entered before autocast's cast**: in the backward, the cast widens each rank's
# part to float32 before it is summed. The parts have been rounded to bfloat16, so half of these
# bytes carry nothing, and only their sum is exact. Casting first would halve the bytes, at the
# price of a rounded sum. Nothing has rounded what the embedding adds up, in its forward.
#
# How far are the gradients from those of one process?

# %% tags=["nbval-ignore-output"]
Table(["", "2 ranks", "1 process", "2 ranks and 1 process"],
      [[name, *(f"{by_autocast.error_of(*pair):.1e}" for pair in
                ((split, exact), (alike, exact), (split, alike)))]
       for name, (_, split, alike, exact) in under.items()],
      note="relative errors of all gradients: against float32 in one process; of the two")

# %% [markdown]
# Two ranks are as far from float32 as one process is. But each rank rounds a *part* of a sum, and
# the sum of parts is rounded again. Does that grow with the ranks?

# %% tags=["nbval-ignore-output"]
by_ranks = {k: launch(by_autocast.row_product_errors, world_size=k, device="cpu").values[0]
            for k in (1, 2, 4, 8)}
Table(["ranks", *by_ranks[1]],
      [[k, *(f"{error:.2%}" for error in errors.values())] for k, errors in by_ranks.items()],
      note="relative error of a product of 64 × 4,096 by 4,096 × 64 numbers, against float64")

# %% [markdown]
# Summed in bfloat16, the error grows with the ranks, here over Gloo. Cast to float32 for the sum,
# it stays what rounding the parts costs, and the message has twice the bytes.
#
# **On GPUs** torchtitan leaves precision to FSDP2. With tensor parallelism alone it warns, and
# turns mixed precision off, according to a [pull
# request](https://github.com/pytorch/torchtitan/pull/2213) that would allow autocast there. How
# NCCL rounds inside a sum was not measured here.

# %% [markdown]
# Tensor parallel with ZeRO stands in part 07g, with data parallel and pipelines in chapter 09.
#
# Shared key-value heads ({{few_heads}}) need one thing more. They are on *some* ranks, and your
# `gradient_norm` only knows parts that are on one rank, and parameters that are on all. It counts a
# shared head once for each rank that has it. The lab's `norm_with_copies` divides each square by
# the number of ranks that have it:

# %%
norms = launch(parts.norms_with_shared_heads, text, world_size=n).values[0]
Table(["norm of all gradients, with shared heads", ""],
      [[way, f"{norm:.4f}"] for way, norm in norms.items()])

# %% [markdown]
# With the larger norm, all ranks would clip too much. They would still agree with each other.

# %% [markdown]
# ## Put to the test
#
# What our sources say about a model in parts, and what was found.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
peak = {name: runs[name]["step"].peak_bytes[0]["total"] for name in ("one process", right)}
others = runs[parts.OTHER_TOKENS].values[0][1]
wrong_by = max(relative_gap(others[name], alone[name]) for name in alone)
put_to_the_test(f"""
- [C160] A rank's memory is 1/N | web page, “Three Dimensions of Parallelism” |
  {"imprecise" if mine / total > 1.001 / n else "right"} | on {n} ranks: {mine / total:.3f} of this
  small model's parameters (section 2, table), and {peak[right] / peak["one process"]:.1f} of a
  step's peak (measured in this section). Activations outside of the parallel region are whole on
  every rank (07e cuts them) | measured: nothing in the parameters' share, which comes closer to 1/N
  in wide models. The CUDA context and NCCL's buffers are not split
- [C167] Model parallelism replicates the input | CS 229S, “Model Parallelism” |
  {"right" if wrong_by > 0.01 else "wrong"} for tensor parallelism | with other tokens on each rank,
  the weights are not those of one process (section 4, table): a tensor is off by up to
  {wrong_by:.0%} (computed in this section from section 4's run). In a pipeline the first stage
  alone reads the tokens | measured: nothing, since the sums add up parts of one result
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford).
#
# **To read on.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019, appendix
# B.2: model parallel random number generation. PyTorch's [tutorial on tensor
# parallelism](https://docs.pytorch.org/tutorials/intermediate/TP_tutorial.html).

# %% [markdown]
# ## What you have learnt
#
# * Inside of the parallel region each rank needs a **stream of random numbers of its own**, and
#   outside one for all. Recomputation has to restore both.
# * The **norm of all gradients** is the root of a sum of squares. Each number counts once, however
#   many ranks have it.
# * A loss that falls, and is the same on all ranks, proves nothing. Compare with one process.
#
# **Your exercises**: {{dropped_mlp}} stands in a cell above, and
# [labs/tensor_parallel.py](../labs/tensor_parallel.py) has {{gradient_norm}}.
#
# **Next**: {{next}}.

# %%
progress("07d")
