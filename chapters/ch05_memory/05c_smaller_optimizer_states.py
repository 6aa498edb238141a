# %% [markdown]
# # {{title}}
#
# **Can the optimizer keep less?** In float32, Adam's state is half of the model states. In mixed
# precision, with the master, it is three quarters of them. In this part you keep it in 2 bytes and
# in 1, find out what goes wrong then, and mend it.

# %% [markdown]
# ![Adam's mean square over 3,000 steps. In float32 it rises and falls. In bfloat16, rounded to the
# nearest, it stops at 0.25 for ever. Rounded stochastically, it follows
# float32](../assets/covers/05c_smaller_optimizer_states.png)
#
# *Measured in section 1: one number of Adam's state, kept in three ways.*
#
# **After this part you can** round stochastically, keep a tensor in 8 bits by blocks, and say what
# goes wrong when a state is rounded.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_curves, predict, progress,
)

# %% tags=["parameters"]
steps = 150
rate = 2e-3

# %%
small_states = lab("small_states")
text = lab("language_model").standard_library(200_000)

# %% [markdown]
# ## 1 · A state that stays where it is
#
# Adam keeps two running means for each parameter. One of them is the mean square $v$ of the
# gradient $g$:
#
# $$v \leftarrow 0.999\,v + 0.001\,g^2$$
#
# In a step it changes by 0.001 of the difference between $g^2$ and $v$, so very little. In bfloat16
# a number has two to three digits. What becomes of such small changes, if $v$ is kept in bfloat16?
#
# Take a gradient that is always 1, and $v$ = 0 at first. In float32, $v$ is 0.78 $g^2$ after 1,500
# steps.

# %%
at_rest = predict("v in bfloat16, after 1,500 steps with the same gradient", unit="g²")

# %%
def mean_squares(rounded, gradients, copies=1_000):
    """The mean of so many copies of v after each step; `rounded` is how v is kept."""
    v, found = torch.zeros(copies), []
    for gradient in gradients:
        v = rounded(0.999 * v + 0.001 * gradient**2)
        found.append(v.mean().item())
    return found

gradients = [1.0] * 1_500 + [0.1] * 1_500
kept = {"float32": mean_squares(lambda v: v, gradients),
        "bfloat16": mean_squares(lambda v: v.bfloat16().float(), gradients)}
for step in (250, 500, 1_000, 1_500, 3_000):
    print(f"after {step:5} steps: float32 {kept['float32'][step - 1]:.3f}, "
          f"bfloat16 {kept['bfloat16'][step - 1]:.3f}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
at_rest.compare(0.25, kept["bfloat16"][1_499], kind="optimizer_state")

# %% [markdown]
# It stops at 0.25 $g^2$, and never moves again, even when the gradients become ten times smaller.
# From 0.25 on, neighbours in bfloat16 are 0.00195 apart. A change has to be at least half of that
# to be seen. But $v$ wants to change by 0.001 × (1 − 0.25) = 0.00075. Each step begins at 0.25, and
# is rounded back to 0.25.
#
# It cannot fall either: 0.999 $v$ is nearer to $v$ than to the next number below.

# %% [markdown]
# Rounding to the nearest loses each small change. **Stochastic rounding** keeps it on average: a
# number that has gone a quarter of the way to its upper neighbour becomes this neighbour with a
# probability of a quarter. One result may be off by more than before. The mean of many is right.

# %% [markdown]
# ### Exercise {{round_stochastically}} · Round stochastically to bfloat16
#
# Write `round_stochastically(x)` in [labs/small_states.py](../labs/small_states.py). `x` is a
# float32 tensor of any shape, with magnitudes below 1e38. The function returns a bfloat16 tensor of
# the same shape, and does not change `x`.
#
# Each number of `x` lies between two neighbours in bfloat16. It becomes the upper one with a
# probability of
#
# $$\frac{x - \text{lower}}{\text{upper} - \text{lower}},$$
#
# else the lower one. A number that bfloat16 has stays as it is. Each number has a chance of its
# own, and each call draws anew.

# %% [markdown]
# For example, 1 and 1.0078125 are neighbours in bfloat16.
#
# | x | becomes 1 | becomes 1.0078125 |
# |---|---|---|
# | 1 | always | never |
# | 1.001953125 | with probability ¾ | with probability ¼ |
# | 1.00390625 | with probability ½ | with probability ½ |
#
# There is a short way. A float32 has 32 bits, and a bfloat16 is the upper 16 of them. So cutting
# off the lower 16 bits gives the neighbour that is nearer to 0. `x.view(torch.int32)` shows the
# bits of `x` as whole numbers, and `y.view(torch.float32)` goes back. Add a random number of 16
# bits before you cut: how often is there a carry into the upper half?

# %%
check("{{round_stochastically}}")

# %% tags=["cover", "nbval-ignore-output"]
kept["bfloat16, stochastic"] = mean_squares(
    lambda v: small_states.round_stochastically(v).float(), gradients)
every_tenth = range(10, len(gradients) + 1, 10)
plot_curves({"gradient 1, and 0.1 from step 1,500 on": {
    name: (every_tenth, [of[step - 1] for step in every_tenth]) for name, of in kept.items()}},
    "step", "mean of 1,000 copies of v", title="Adam's mean square, kept in three ways")

# %% [markdown]
# With stochastic rounding, the mean of 1,000 copies follows float32, in both directions.

# %% [markdown]
# ## 2 · What does it cost in training?
#
# Now a real training: a small transformer on the source text of the standard library, 150 steps of
# Adam. The lab has an Adam whose state can be kept in several ways. It always computes in float32;
# only what it *keeps* is rounded. There are five ways:
#
# * everything in float32;
# * the two means in bfloat16, rounded to the nearest, or stochastically;
# * the two means *and the weights* in bfloat16, without a master, rounded to the nearest, or
#   stochastically.
#
# All use the same learning rate, and the same batches for a seed. There are three seeds. (The sixth
# way of the next cell waits for section 3.)

# %%
ways = ("float32", "bfloat16 states", "bfloat16 states, stochastic", "all bfloat16",
        "all bfloat16, stochastic", "8 bits, roots")
trained = launch(small_states.trainings, ways, text, steps, rate, world_size=3)
Table(["Adam", "parameters", "gradients", "optimizer state", "together"],
      small_states.byte_rows(trained, ways[:5]), note="bytes for each parameter, measured")

# %% tags=["nbval-ignore-output"]
columns = ["Adam", "loss at the end, minus that of float32, for each seed", "in words",
           "mean squares at rest"]
Table(columns, small_states.loss_rows(trained, ways[:5]))

# %% [markdown]
# The first row shows, in brackets, the loss itself. *At rest* are mean squares that were the same
# 20 steps before. (Those in float32 belong to characters that were never seen: they are 0.)
#
# A loss is called higher if it is so with each seed, by more than a hundredth: by about so much
# seeds differ. What to expect:
#
# * With only the states in bfloat16, more mean squares are at rest. But 150 steps are few, and a
#   step depends only on the root of $v$.
# * With the weights in bfloat16, too, rounding to the nearest loses small steps, as in 05b.
# * Rounded stochastically, the same 8 bytes for each parameter keep small steps on average.

# %% [markdown]
# Where the last row shows no difference, stochastic rounding does what mixed precision with a
# master could not do: it halves the bytes.
#
# This was a tiny model, 150 steps and one learning rate, which was not tuned. With larger steps
# fewer of them get lost: set `rate` to 0.01 above, and look again. Large models lower their rate in
# the course of training. Then steps become smaller, and more get lost.

# %% [markdown]
# **On several ranks.** Replicas stay equal because their steps are equal. Now a step draws random
# numbers, and ranks draw different ones on purpose, for dropout for example (chapter 03). Here two
# ranks train in bfloat16 with the mean gradient, rounded stochastically in three ways. How many
# weights differ between the two afterwards, and by how much?

# %% tags=["nbval-ignore-output"]
for who in small_states.STREAMS:
    share, gap = launch(small_states.train_replicas, who, text, 60, rate, world_size=2).values[1]
    print(f"{who:32} {share:4.0%} of the weights differ, by {gap:.1%} of their length")

# %% [markdown]
# In the first way each rank soon has another model, and no error says so. In the second, the lab's
# Adam seeds the rounding of a tensor with the number of its steps and its place among the tensors,
# so that all ranks draw the same numbers, as [Ozkara et al.
# 2025](https://arxiv.org/abs/2502.20566) do. In the third, only the owner of a tensor rounds it and
# sends the result, as with ZeRO (chapter 06).

# %% [markdown]
# ## 3 · Eight bits, by blocks
#
# A whole number from −127 to 127 takes one byte. So keep a tensor as such **codes**, and one
# **scale** that says what a code of 1 is worth. If the largest magnitude is 12.7, the scale is 0.1,
# and 3.14 becomes code 31.
#
# But a tensor may have one number of 1,000. Then the scale is 7.9, and everything below 3.9 becomes
# 0. The remedy is one scale for each **block** of, say, 256 numbers. Then one large number spoils
# only its own block.
#
# Adam's state consists of two tensors like that. How many bytes is that for each parameter?

# %%
state_bytes = predict("Two means in 8 bits, a float32 scale for each 256 numbers", unit="bytes")

# %% [markdown]
# ### Exercise {{eight_bits}} · Pack numbers into eight bits
#
# Write `pack` and `unpack` of the class `EightBits` in
# [labs/small_states.py](../labs/small_states.py). `self.block` is the number of numbers in a block.
#
# `pack(x)` gets a float32 tensor of any shape, not empty, and does not change it. It takes the
# numbers of `x` one after another, as `x.flatten()` does, and cuts them into blocks. The last block
# may be shorter. It returns two tensors:
#
# * `scales`, float32, one for each block: the block's largest magnitude, divided by 127.
# * `codes`, int8, one for each number of `x`: the number divided by its block's scale, rounded to
#   the nearest whole number.
#
# They are returned as `codes, scales`. A block of zeros has scale 0 and codes 0.

# %% [markdown]
# `unpack(codes, scales, shape)` gets these two, and the shape of `x`. It returns each code times
# the scale of its block: a float32 tensor of this shape.
#
# For example, with blocks of 2:
#
# | | block 0 | block 1 | block 2 |
# |---|---|---|---|
# | `x` | 254, −3 | 0, 0 | 0.127 |
# | `scales` | 2 | 0 | 0.001 |
# | `codes` | 127, −2 | 0, 0 | 127 |
# | `unpack` gives | 254, −4 | 0, 0 | 0.127 |
#
# (−3 / 2 is −1.5, as near to −1 as to −2. Either may come out.) No byte more than these codes and
# scales may be kept.

# %%
check("{{eight_bits}}")

# %% [markdown]
# Take 1,024 numbers of about 1, and replace one of them by 1,000. How far off is the median number
# when it comes back?

# %%
torch.manual_seed(0)
x = torch.randn(1_024)
x[100] = 1_000.0
for block in (1_024, 256, 64):
    eight_bits = small_states.EightBits(block)
    back = eight_bits.unpack(*eight_bits.pack(x), x.shape)
    off = ((back - x).abs() / x.abs()).median().item()
    print(f"blocks of {block:5}: half of the numbers are off by at most {off:.2%}")

# %% [markdown]
# With one block, most numbers become 0: they are off by 100 %. Now keep both of Adam's means in
# such blocks, and train.

# %% tags=["nbval-ignore-output"]
careless = launch(small_states.trainings, ["8 bits"], text, 60, rate, world_size=1).values[0]
print(f"Adam with both means in 8 bits: loss {careless['8 bits'][0]:,.1f} after 60 steps")

# %% [markdown]
# Something breaks: the loss is no number any more, or far above $\ln 128 = 4.85$, the loss of a
# model that guesses among 128 characters. Which of the two means is it? The mean of the squares:
#
# Adam's step is $m / \sqrt v$, with the mean $m$ of the gradient. In a block, squares differ by
# many orders of magnitude. All below 1/254 of the largest become 0. Then Adam divides by nearly
# nothing, and this weight jumps far away. `EightBitRoots` in the lab mends it with two changes:
#
# * It keeps the root of $v$. Roots differ by half as many orders of magnitude.
# * No root comes back as 0. Code 0 stands for half a scale.

# %% tags=["nbval-ignore-output"]
Table(columns, small_states.loss_rows(trained, ["float32", "8 bits, roots"]))

# %%
shapes = [p.shape for p in small_states.Transformer(small_states.WIDTH, small_states.LAYERS)
          .parameters()]
numbers = sum(shape.numel() for shape in shapes)
blocks = sum(-(-shape.numel() // small_states.BLOCK) for shape in shapes)
measured = trained["8 bits, roots"].peak_bytes[0]["optimizer_state"]
print(f"2 × ({numbers:,} codes + 4 × {blocks} scales) = {2 * (numbers + 4 * blocks):,} bytes; "
      f"measured {measured:,}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
state_bytes.compare(2 * (1 + 4 / 256), measured / numbers, kind="optimizer_state")

# %% [markdown]
# That is a quarter of the state in float32. (More than 2.03 bytes were measured because small
# tensors have blocks that are not full.)
#
# It is not the same training as in float32: small roots are coarse, so some steps have another
# length. The table says whether the losses differ by more than a hundredth, with this one learning
# rate. Do not expect the same of another model.

# %% [markdown]
# **On GPUs** nobody writes these loops by hand.
#
# * [bitsandbytes](https://huggingface.co/docs/bitsandbytes/v0.50.0/reference/optim/optim_overview)
#   0.50 has `Adam8bit` and others. Its 256 codes do not stand for equally spaced numbers: they are
#   closer to each other near 0. Tensors of fewer than 4,096 numbers stay in 32 bits there.
# * [torchao](https://github.com/pytorch/ao/blob/072500abcfbdec15a429eb53160c63fb92534b85/torchao/optim/README.md)
#   has `AdamW8bit`, with blocks of 256, and `_AdamW(…, bf16_stochastic_round=True)` for bfloat16
#   weights. Its page reports Llama 2 7B, fine-tuned in bfloat16 on an A100 (torch 2.4): at most
#   51.6 GB with PyTorch's AdamW, 39.1 GB with 8 bits. (Results on a test are there, too, but of one
#   seed.) The course has not measured this.

# %% [markdown]
# **Sources.** None of the course's five sources speaks of smaller states.
#
# **To read on.** Dettmers et al. 2021, [8-bit Optimizers via Block-wise
# Quantization](https://arxiv.org/abs/2110.02861). Zamirai et al. 2020, [Revisiting BFloat16
# Training](https://arxiv.org/abs/2010.06192): stochastic rounding.

# %% [markdown]
# ## What you have learnt
#
# * In bfloat16, rounded to the nearest, a small change of a state is lost each time. **Stochastic
#   rounding** keeps it on average, with 8 bytes for each parameter in place of 16. Replicas have to
#   draw the same numbers for it.
# * **8 bits by blocks** take a quarter of the state. Take care that no mean square becomes 0.
# * Both keep as many numbers as Adam, in fewer bytes. Part
#   [05h](05h_optimizers_for_matrices.ipynb) has optimizers that keep fewer numbers.
#
# **Your exercises** stand in [labs/small_states.py](../labs/small_states.py).
#
# **Next**: {{next}}.

# %%
progress("05c")
