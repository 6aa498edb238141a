# %% [markdown]
# # {{title}}
#
# **What does the loss itself need?** Llama 3 knows 128,256 tokens. For each position of a sample
# the model returns as many numbers, one for each token that could come next: the **logits**. With
# 8,192 positions they may take more memory than all blocks together. You measure what the loss
# makes of them, and then compute it without ever having all of them.

# %% [markdown]
# ![Memory of the loss, by kind: with all logits at once a high bar, mostly activations and
# temporary results; in chunks of fewer and fewer positions the bars sink to what the matrix and its
# gradient take](../assets/covers/05e_a_large_vocabulary.png)
#
# *Measured in section 3: the last layer and the loss of 256 positions, with a vocabulary of
# 128,256.*
#
# **After this part you can** say what a loss costs for any vocabulary, and compute it in chunks,
# with the same gradients.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial

import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_memory, plot_stacks, predict, progress,
)

# %% tags=["parameters"]
vocabulary = 128_256
positions = 256
width = 64

# %%
large = lab("large_vocabulary")

# %% [markdown]
# ## 1 · More than the logits
#
# If you plan a run and forget the loss, it stops with "out of memory" at the end of its first
# forward. So let us see what is there at that moment.
#
# The last layer multiplies `hidden`, of shape (positions, width), by a matrix of shape (vocabulary,
# width). Its result are the logits: positions × vocabulary numbers, here in float32. Then
# `cross_entropy` makes one number of them, and the backward follows. Other tensors of the size of
# the logits appear on the way. At the peak, how many tensors of this size are there, with
# the logits?

# %%
times_logits = predict("Logits, and all tensors of their size, at most", unit="times")

# %%
at_once = {"all at once": large.backward_at_once}
whole = launch(
    large.time_ways, at_once, positions, width, vocabulary, 1, world_size=1, device="cpu"
)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
logits = 4 * positions * vocabulary
peak = whole["all at once"].at_peak[0]
of_their_size = (peak["activations"] + peak["other"]) / logits
times_logits.compare(4, of_their_size, kind="activations")

# %% tags=["nbval-ignore-output"]
plot_memory(whole, "all at once", title="The last layer and the loss: forward and backward")

# %% [markdown]
# Four. The picture shows how they come and go. (Ignore the milliseconds: counting takes time. The
# peak is so short that it is not drawn.)
#
# 1. The forward makes the logits (grey). From them `cross_entropy` makes their log-softmax, and
#    keeps it for the backward (blue).
# 2. The backward makes a gradient of the log-softmax, which is zero but for one number in each row.
# 3. From it and the log-softmax it makes the gradient of the logits.
# 4. Nobody needs the logits any more. But the program, like most training loops, still has a
#    variable `logits`. So they stay.
#
# (`device="cpu"` stands here because bytes are counted as the CPU keeps them.)

# %% [markdown]
# That makes 16 bytes for each logit in float32. In mixed precision the last layer computes in
# bfloat16, and the loss in float32: 2 bytes for the logits, and 4 for each of the three others.
# Together that is $2 + 3 \cdot 4 = 14$ bytes. Let us look, with an eighth of the positions: many
# processors compute slowly in bfloat16.

# %%
mixed = {"mixed": partial(large.backward_at_once, dtype=torch.bfloat16)}
few = positions // 8
run = launch(large.time_ways, mixed, few, width, vocabulary, 1, world_size=1, device="cpu")
peak_mixed = run["mixed"].at_peak[0]
copy_of_matrix = 2 * width * vocabulary  # the matrix in bfloat16 is kept for the backward, too
each = (peak_mixed["activations"] + peak_mixed["other"] - copy_of_matrix) / (few * vocabulary)
print(f"{each:.1f} bytes for each logit")

# %% [markdown]
# So half precision saves little here. What does that mean for models that people train? Here is one
# sample of each, computed with 14 bytes. The last column is for comparison: the inputs of all
# blocks in bfloat16, which is what recomputation (part 05f) keeps.

# %%
Table(["model", "vocabulary", "positions", "logits, and what the loss makes of them",
       "inputs of all blocks"], large.rows_of_models(), note="one sample")

# %% [markdown]
# With Llama 3's vocabulary, the loss of one sample takes 14.7 GB, for the small model as for the
# large one. The losses of six samples at a time do not fit into the 80 GB of an H100, whatever you
# do with the blocks. The larger the vocabulary and the smaller the model, the more the loss is what
# decides.

# %% [markdown]
# ## 2 · A chunk at a time
#
# The loss is a mean over positions, and no position's logits need those of another. So compute the
# logits of a few positions, their loss, go *backward* through them at once, and forget them. Then
# take the next few.
#
# The difficulty is the graph before the last layer. All chunks come from one `hidden`, and the
# backward through the layers before it may run once only. The way out: cut the graph at `hidden`.
# Collect its gradient, and continue when it is complete. You need two calls for that. Here they are
# with three numbers:

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = 10 * x                               # the layers before
leaf = h.detach().requires_grad_()       # the same numbers, and no graph before them
(leaf**2).sum().backward()               # stops at leaf
print("gradient of the leaf:", leaf.grad.tolist(), "of x:", x.grad)
h.backward(leaf.grad)                    # goes on from h, with this gradient
print("gradient of x:", x.grad.tolist())

# %% [markdown]
# `detach()` cuts. `h.backward(gradient)` continues: here no loss gives the gradient of `h`, you
# pass it. The gradient of the sum of $(10x)^2$ is $200x$, as it should be.

# %% [markdown]
# ### Exercise {{backward_in_chunks}} · Cross-entropy in chunks
#
# Write `backward_in_chunks(hidden, weight, targets, size)` in
# [labs/large_vocabulary.py](../labs/large_vocabulary.py).
#
# * `hidden` has the shape (positions, width). Other layers have computed it, and have a graph.
# * `weight` is a parameter of shape (vocabulary, width). The logits are `hidden @ weight.T`.
# * `targets` has the shape (positions,): the right token of each position.
# * `size` is how many positions a chunk has. The last chunk has fewer if `size` does not divide.
#
# It returns the mean loss over all positions: a number, or a tensor without a graph. And it does
# the whole backward. Afterwards the gradients have been added to `.grad` of `weight`, and of
# everything that `hidden` was computed from. What was in `.grad` before stays in the sum.

# %% [markdown]
# It must equal `F.cross_entropy(hidden @ weight.T, targets)` with `backward()`, in float64, where
# no target is ignored. (The solution also handles bfloat16, and −100 for ignored targets.) But
# never more than one chunk of logits may be alive, with what the loss makes of it. The backward of
# the layers before `hidden` may run once. Do not change `hidden`, `weight` or `targets`.
#
# An example by hand: two tokens, width 1, `weight` = `[[0], [0]]`, `hidden` = `[[2], [4]]`,
# `targets` = `[0, 1]`, `size` 1. All logits are 0, so each token has the probability 1/2. Each
# position's loss is $\ln 2 = 0.693$, and so is the mean.

# %% [markdown]
# The gradient of a position's logits is its probabilities, minus 1 at the target, divided by 2
# positions: `[-0.25, 0.25]` and `[0.25, -0.25]`. Times `hidden`, that adds `[[-0.5], [0.5]]` and
# then `[[1], [-1]]` to `weight.grad`. Together: `[[0.5], [-0.5]]`. The gradient of `hidden` is 0,
# as `weight` is.

# %%
check("{{backward_in_chunks}}")

# %% [markdown]
# ## 3 · What it saves, and what it costs
#
# First: are these the same gradients? Then the bytes, for chunks of fewer and fewer positions. Take
# the peak of the loss with all logits at once as 100 %: the matrix, logits, and
# everything else. How many percent do chunks of 16 of the 256 positions need, with the matrix and
# its gradient?

# %%
in_percent = predict("Memory with chunks of 16 positions, in percent of all at once", unit="%")

# %%
sizes = [positions // 4, positions // 16]
in_chunks = large.ways_in_chunks(sizes)
for name, way in in_chunks.items():
    print(f"chunks of {name}: as all at once, in float64: {large.is_as_at_once(way)}")

# %% [markdown]
# In bfloat16 it depends on where the chunks' gradients are added up. How far is the gradient of the
# matrix from the one computed in float32?

# %%
added = {"all at once": large.backward_at_once,
         "chunks of 1, autograd adds": partial(large.add_by_autograd, size=1),
         "chunks of 1, as in the exercise": partial(large.backward_in_chunks, size=1)}
for name, way in added.items():
    print(f"{name:31} {large.bfloat16_error(way):.2%}")

# %% [markdown]
# Autograd adds in the dtype of the matrix, and every addition is rounded to two or three digits.
# The solution keeps the sum in float32 until the last chunk.

# %%
ways = at_once | in_chunks
run = launch(large.time_ways, ways, positions, width, vocabulary, world_size=1, device="cpu",
             timeout=120)
peaks = {name: run[name].at_peak[0] for name in ways}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
matrix = 4 * width * vocabulary
of_chunk = logits * sizes[-1] / positions
told = max(2 * matrix + 3 * of_chunk, 3 * matrix + of_chunk)  # before and in the gradient's product
smallest = run[f"{sizes[-1]} positions"].peak_bytes[0]["total"]
in_percent.compare(100 * told / (matrix + 4 * logits),
                   100 * smallest / run["all at once"].peak_bytes[0]["total"], kind="activations")

# %% tags=["cover", "nbval-ignore-output"]
plot_stacks({"all at once" if name == "all at once" else f"chunks of {name}": peak
             for name, peak in peaks.items()},
            title=f"Loss of {positions} positions, vocabulary {vocabulary:,}: at most")

# %% [markdown]
# The logits are nearly gone. What remains is the matrix, its gradient, and for a moment one more
# tensor of that size: each chunk's backward computes its part of the gradient first, and then adds
# it. So a chunk smaller than about `width` positions saves little more: its logits are smaller than
# the matrix.

# %% tags=["nbval-ignore-output"]
seconds = run.values[0]
Table(["way", "memory at most", "time"],
      [[name, f"{run[name].peak_bytes[0]['total'] / 1e6:,.0f} MB",
        f"{seconds[name] / seconds['all at once']:.2f} × all at once"] for name in ways])

# %% [markdown]
# Chunks compute the same products, no more. Their price is elsewhere: each chunk reads the whole
# matrix, and adds to the whole gradient. The smaller the chunks, the more of the time goes there.
# On a CPU, large chunks may even be faster than all at once: their tensors stay in the caches.
#
# PyTorch 2.13 has the same as a function, `F.linear_cross_entropy`, if you give it
# `options=nn.LinearCrossEntropyOptions(…)`. Then it computes the gradients in the forward already,
# in chunks, and the backward only hands them on. Without `options` it makes all logits, says its
# [documentation](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.linear_cross_entropy.html).

# %% tags=["nbval-ignore-output"]
if large.torch_has_it():
    by_torch = partial(large.backward_by_torch, size=sizes[0])
    print(f"F.linear_cross_entropy, as all at once in float64: {large.is_as_at_once(by_torch)}")
else:
    print(f"PyTorch {torch.__version__} does not have F.linear_cross_entropy yet")

# %% [markdown]
# `measure` sees what operations return, and this function works inside of one operation. So let the
# operating system count instead: by how much does the process grow during the step?

# %% tags=["nbval-ignore-output"]
ways_grown = {"all at once": large.backward_at_once,
              f"chunks of {sizes[0]}": partial(large.backward_in_chunks, size=sizes[0])}
if large.torch_has_it():
    ways_grown["PyTorch's function"] = by_torch
for name, way in ways_grown.items():
    grown = launch(large.process_bytes_of, way, positions, width, vocabulary, world_size=1,
                   device="cpu").values[0]
    print(f"{name:20}", f"{grown / 1e6:4.0f} MB" if grown else "only Linux tells")

# %% [markdown]
# Chunks may make the process grow by more than their tensors take (the table before). What is freed
# goes back to the C library's allocator. It may not find room there for the next tensor, and asks
# the operating system for more. Part 05g measures the same chunks without this allocator, and says
# what PyTorch does on GPUs.

# %% [markdown]
# **On GPUs** the same is done in fused kernels, so that no chunk's logits go through slow memory
# more often than needed.
#
# * [Liger Kernel](https://github.com/linkedin/Liger-Kernel) has a fused linear cross-entropy that
#   works in chunks and computes the gradients in the forward.
# * [Cut Cross-Entropy](https://arxiv.org/abs/2411.09009) (Apple, 2024) never writes logits to the
#   GPU's memory at all. For Gemma 2 with 2 billion parameters its authors report 24 GB for the loss
#   before, and 1 MB after.
# * Megatron-LM's fused loss works in place: its
#   [documentation](https://docs.nvidia.com/megatron-core/developer-guide/nightly/apidocs/core/core.ops.loss.fused_cross_entropy.html)
#   says that the logits are overwritten by their exponentials. Chapter 10's cost model takes 10
#   bytes for each logit of such an engine: 2 for the logit in bfloat16, 4 for its exponential, and
#   4 for its gradient.

# %% [markdown]
# None of these was measured here. This was measured on an H100 (torch 2.11; 2,048 positions, width
# 2,048, the vocabulary above): all at once takes 16.0 bytes for each logit in float32, and in mixed
# precision 14.0 beside the copy of the matrix. Chunks to which autograd adds cost more time there
# than on a CPU. In mixed precision, chunks of 512 positions took 1.7 times as long as all at once,
# of 128 positions 4.9 times, and of 32 positions 18 times. So take large chunks, or a fused kernel.

# %% [markdown]
# Two other ways divide the logits among ranks. With tensor parallelism each rank has some columns
# of them (part 07c). With a pipeline only the last stage has any (part 08g): it may need fewer
# blocks than the others.

# %% [markdown]
# ## What you have learnt
#
# * Logits are positions × vocabulary numbers. The loss makes three more tensors of their size: 16
#   bytes for each logit in float32, 14 in mixed precision.
# * With a vocabulary of 128,256, that is 14.7 GB for one sample of 8,192 tokens.
# * Computed in **chunks of positions**, forward and backward, the logits are never all there, and
#   the gradients stay the same. Cut the graph with `detach()`, and continue with
#   `hidden.backward(gradient)`.
#
# **Your exercise** stands in [labs/large_vocabulary.py](../labs/large_vocabulary.py).
#
# **Next**: {{next}}.

# %%
progress("05e")
