# %% [markdown]
# # {{title}}
#
# **One long sample cannot be cut into micro-batches. How can all stages of a pipeline work on it at
# the same time?** Cut the sample itself. Slices of its tokens go through the stages one after
# another. Later slices look back at the keys and values of earlier ones. So gradients have to come
# back through these keys and values, and that is the part that you write.

# %% [markdown]
# ![Three slices. Forward, each slice looks at its own keys and values and at those of all slices
# before it. Backward, gradients take the same arrows in the other
# direction](../assets/covers/08i_slices_of_a_sequence.png)
#
# *From section 3: what looks at what in the forward, and the way of the gradients.*
#
# **After this part you can** run a pipeline inside of one sample, send gradients back through the
# keys and values of earlier slices, and say for which models it works.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_against, plot_schedule, predict, progress,
    put_to_the_test, simulate,
)

# %% tags=["parameters"]
world_size = 4
tokens = 4096

# %% [markdown]
# ## 1 · One sample, many slices
#
# Models read longer and longer texts. With a million tokens in a sample, a batch may be one sample.
# Then there is one micro-batch, and $1 - 1/p$ of a pipeline is idle.
#
# But a *causal* model reads from left to right: what it computes for a token depends on that token
# and on earlier ones alone. So the first half of a sample can go to the next stage while this stage
# computes the second half. TeraPipe does that. A piece of neighbouring tokens is a **slice** here.

# %% [markdown]
# Slices go forward from left to right. What order do their backwards have? Later slices have looked
# at earlier ones, so the gradient of an earlier slice is complete only when all later slices have
# gone back. The *last* slice comes first.

# %%
schedules, slices = lab("schedules"), lab("sequence_slices")
p = world_size  # stages
eight = simulate(schedules.rows_of(slices.slice_by_slice, p, 8))
plot_schedule({"one sample, 8 slices": eight})

# %% [markdown]
# It looks like GPipe with the backwards in the opposite order. The bubble is as long as GPipe's
# with 8 micro-batches. And each rank keeps as much as under GPipe: all 8 slices. 1F1B is not
# possible inside of one sample: no slice can go back before the last one has gone forward.

# %%
idle = predict(f"Idle share, one sample in 16 slices through {p} stages", unit="%")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was simulated.
sixteen = simulate(schedules.rows_of(slices.slice_by_slice, p, 16))
idle.compare(100 * (p - 1) / (16 + p - 1), 100 * sixteen.idle_share, wire="simulated")

# %% [markdown]
# ## 2 · For which models?
#
# A pipeline of slices gives something else than the model if a slice needs what comes later. Here
# is the attention of 16 tokens, at once and in two slices of 8. In causal attention the second
# slice looks at all keys so far. In the other attention, as in BERT, tokens look both ways.

# %%
tried = lab("slices_measured")
found = {"causal": tried.compare_two_slices(True), "both ways": tried.compare_two_slices(False)}
Table(["attention", "first slice as at once", "second slice as at once"],
      [[name, *map(str, same)] for name, same in found.items()])

# %% [markdown]
# Where tokens look both ways, the first slice would have to look at keys that nobody has computed
# yet. So slices are for causal models.

# %% [markdown]
# ## 3 · The way back
#
# Here are three slices in the attention of one block. On the left is the forward. Each slice makes
# keys and values, and looks at its own (blue arrows) and at those of all slices before it (orange
# arrows). On the right is the backward. A gradient takes each arrow in the other direction.

# %% tags=["cover"]
lab("slice_gradients").draw_slices(3)

# %% [markdown]
# Look at the keys of slice 0 on the right. Three arrows end there: from slice 2, from slice 1, and
# from slice 0 itself. All three gradients have to be added before they go on to the input.
#
# So a slice has *two* outputs. One goes to the next stage, and its gradient comes back from there.
# The other output is its keys and values, and their gradient comes from later slices on the *same*
# rank.

# %% [markdown]
# How does a gradient wait on a rank until its slice goes back? With the trick of `Stage`: a leaf.
# Later slices do not look at the keys themselves, which have a graph. They look at `seen`, a leaf
# with the same numbers. Their backwards end there, and add their gradients up in `seen.grad`.

# %% [markdown]
# ### Exercise {{back_through_both}} · Backpropagate through two slices
#
# A warm-up with two slices, and keys alone. The forward stands below.
#
# * `first(x1)` returns two tensors, the output `y1` and the `key`. They share a graph.
# * `second(x2, seen)` returns the output `y2`. It looks at the key of the first slice, through the
#   leaf `seen`.
#
# Complete `back_through_both(first, second, x1, x2, slope1, slope2)`. `slope1` and `slope2` are the
# gradients of `y1` and `y2`, of the same shapes; the next stage has sent them. Return the gradients
# of `x1` and `x2`. The second slice goes back first. Each graph may be gone through once:
# `torch.autograd.backward([a, b], [gradient of a, gradient of b])` goes back from two outputs
# together.

# %% [markdown]
# For example, let `first(x)` return $2x$ and the key $3x$, and let `second(x, key)` return x times
# the key. With `x1` = 1 and `x2` = 5, the key is 3, `y1` is 2 and `y2` is 15. Let `slope1` be 4 and
# `slope2` be 2.
#
# * Going back from `y2`, the gradient of `x2` is 3 × 2 = 6, and 5 × 2 = 10 arrives at `seen`.
# * Then `x1` gets 2 × 4 = 8 through `y1`, and 3 × 10 = 30 through the key: together 38.
#
# The function returns 38 and 6.

# %%
def back_through_both(first, second, x1, x2, slope1, slope2):
    x1, x2 = (x.detach().requires_grad_() for x in (x1, x2))
    y1, key = first(x1)
    seen = key.detach().requires_grad_()  # the same numbers, as a leaf
    y2 = second(x2, seen)
    ### BEGIN SOLUTION
    y2.backward(slope2)
    torch.autograd.backward([y1, key], [slope1, seen.grad])
    return x1.grad, x2.grad
    ### END SOLUTION

check("{{back_through_both}}", back_through_both)

# %% [markdown]
# Now the same for a whole stage. It has several blocks, each with keys *and* values, and any number
# of slices. For each block there is a `past` in `self.pasts.values()`, with two lists:
#
# | | what it is | as in {{back_through_both}} |
# |---|---|---|
# | `past.made[i]` | the pair (keys, values) of slice i, with their graph | `key` |
# | `past.seen[i]` | the same numbers as a pair of leaves | `seen` |
#
# The forward is written: it adds a pair to each list for every slice.

# %% [markdown]
# ### Exercise {{sliced_stage}} · Write a sliced stage's backward
#
# In [labs/sequence_slices.py](../labs/sequence_slices.py), write `SlicedStage.backward(i,
# gradient)`. As in {{stage}}, it takes the pair (input, output) of slice `i` out of `self.kept`. It adds
# the weights' gradients to `.grad`. It returns the gradient of the input, which is None for tokens.
# `gradient` belongs to the output; it is None on the last stage.
#
# The slice's keys and values in all blocks are outputs, too. Their gradients are in
# `past.seen[i][0].grad` and `past.seen[i][1].grad`. These are None for the last slice, as nobody
# has looked at it: leave such outputs out. All outputs go back in *one* `torch.autograd.backward`,
# so that the graph is gone through once.

# %% [markdown]
# For example, a stage with two blocks goes back with slice 0 of 2. Then there are five outputs: the
# slice's output, and keys and values of each block. With slice 1, the last one, there is one
# output.

# %%
check("{{sliced_stage}}")

# %% [markdown]
# One sample, in slices, through two stages, in float64. Are the loss, and the sum of all squared
# gradients of a stage, those of one process that has the whole sample?

# %%
text = lab("language_model").standard_library(100_000)
rows = tried.compare_slices(text, (1, 3, 8))
Table(["slices", "loss", "loss as at once", "squared gradients of both stages as at once"], rows)

# %% [markdown]
# ## 4 · Later slices take longer
#
# Eight slices of equal length are not equally much work. The products with weights are the same for
# each slice. But the eighth slice looks at eight times as many keys as the first one. Here is the
# attention alone, in eight slices, beside a line that is proportional to the keys.

# %% tags=["nbval-ignore-output"]
seconds = launch(tried.attention_seconds, 8, tokens, world_size=1, device="cpu").values[0]
keys = [tokens // 8 * (i + 1) for i in range(8)]
line = [1e3 * sum(seconds) * k / sum(keys) for k in keys]
plot_against(keys, {"a slice": [1e3 * took for took in seconds]}, "keys so far", "time (ms)",
             predicted={"a slice": line}, title=f"Attention of a slice of {tokens // 8} tokens")

# %% [markdown]
# So equal slices make unequal steps, and a pipeline waits for its slowest step. TeraPipe makes
# later slices shorter. How much that matters depends on the width. A block's forward on $s$ tokens
# does $24\,s\,h^2$ operations in its products, and $4\,s\,h$ for each key that they look at. How
# much more work is the last of eight equal slices than the first one?

# %%
for width, length in ((1024, 4096), (4096, 4096), (4096, 131_072), (8192, 1_048_576)):
    work = tried.work_of_slices([length // 8] * 8, width)
    print(f"width {width:5}, {length:9,} tokens: {work[-1] / work[0]:.2f} times")

# %% [markdown]
# With a width of 4096 and 4096 tokens, slices of equal length are good enough. With a million
# tokens they are not.
#
# > **On GPUs** slices must not become too short. Below about 300 tokens an H100's memory sets the
# > pace, and not its products (computed and measured in part
# > [08d](08d_how_large_a_micro_batch.ipynb)). There, a product with weights took about as long for
# > 100 tokens as for 200.

# %% [markdown]
# ## Put to the test
#
# What our sources say about slices, and what was found here.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
as_at_once = all(row[2] == row[3] == "True" for row in rows)
needs_causal = found["causal"][0] and not found["both ways"][0]
put_to_the_test(f"""
- [C182] A pipeline can work inside of a sequence, in slices of its tokens | CS 229S, “Pipeline
  Parallelism for LLMs” | {"right for causal models" if as_at_once and needs_causal else "wrong"} |
  in 1, 3 and 8 slices the loss and the sums of squared gradients are those of one process:
  {as_at_once} (section 3, table).
  Where tokens look both ways, the first slice gets what it would get at once:
  {found["both ways"][0]} (section 2, table) | measured: nothing in the result; whether it is faster
  depends on how well a GPU computes short slices
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Li et al., [TeraPipe](https://arxiv.org/abs/2102.07988), 2021. Sun et al. 2024,
# [Seq1F1B](https://arxiv.org/abs/2406.03488): 1F1B with slices.

# %% [markdown]
# ## What you have learnt
#
# * A causal model can be a pipeline inside of one sample: slices go forward from left to right, and
#   back from right to left.
# * The keys and values of a slice are outputs, too. Their gradients come from later slices, and
#   wait in leaves.
# * All outputs of a slice go back together, so that its graph is gone through once.
# * Later slices look at more keys. In long samples they should be shorter.
#
# **Your exercises**: {{back_through_both}} stands in a cell above, and {{sliced_stage}} in
# [labs/sequence_slices.py](../labs/sequence_slices.py).
#
# **Next**: {{next}}.

# %%
progress("08i")
