# %% [markdown]
# # {{title}}
#
# **Does half precision halve the memory?** Numbers of 2 bytes in place of 4: that sounds like half
# of everything. In this part you count what mixed precision really keeps, find out why it keeps a
# copy in float32, and write the two helpers that make it work.

# %% [markdown]
# ![Share of gradients over the factor by which the loss is multiplied. With a small factor many
# lose digits in float16, with a large one they become infinite; between lies a wide range where
# nearly nothing is lost](../assets/covers/05b_half_precision.png)
#
# *Measured in section 5: what becomes of the gradients of a transformer's activations in float16,
# if the loss is multiplied by a factor first.*
#
# **After this part you can** say what 12, 16, 18 and 20 bytes for each parameter consist of, train
# in bfloat16 with float32 masters, and write a loss scaler.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial
from statistics import median

import torch
from torch import nn

from pedagogy_lib import (
    Table, check, compare_rounds, hint, lab, launch, plot_against, plot_stacks, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
width = 64
layers = 4
samples = 16

# %%
memory, half_precision = lab("memory"), lab("half_precision")
language_model = lab("language_model")
text = language_model.standard_library(50_000)
parameters = sum(p.numel() for p in language_model.Transformer(width, layers).parameters())

# %% [markdown]
# ## 1 · Two kinds of half
#
# A number in floating point has a sign, an exponent and a fraction, like 1.25 × 2³ in binary. The
# exponent's bits say how large or small it can be. The fraction's bits say how fine it is. With 16
# bits in all, you can have more of the one or more of the other.

# %%
formats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
bits = {"float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7)}  # exponent, fraction
Table(["", "exponent, fraction", "largest", "smallest with all digits", "next after 1"],
      [[name, "{} bits, {} bits".format(*bits[name]), f"{of.max:.3g}", f"{of.tiny:.1g}",
        f"{1 + of.eps:.7f}"] for name, dtype in formats.items() for of in [torch.finfo(dtype)]])

# %% [markdown]
# **bfloat16** has the range of float32, but only two to three decimal digits. **float16** has three
# to four, but a narrow range. Both take 2 bytes.
#
# In part 05 a training step kept 16 bytes for each parameter, all in float32. Published language
# models are trained in *mixed precision*: forward and backward run in a 2-byte format, with Adam.
# How many bytes of model states does such a training keep for each parameter?

# %%
bytes_for_each = predict("Mixed precision, Adam: bytes of model states for each parameter",
                         unit="bytes")

# %% [markdown]
# ## 2 · 12, 16, 18 or 20 bytes
#
# It depends on what is kept in float32 as well. These are the ways that you find in papers and
# programs:
#
# | | parameter | gradient | float32 copy | two means | bytes |
# |---|---|---|---|---|---|
# | all float32 | 4 | 4 | – | 4 + 4 | 16 |
# | all bfloat16 | 2 | 2 | – | 2 + 2 | 8 |
# | mixed, 12 bytes | 2 | 2 | – | 4 + 4 | 12 |
# | mixed, 16 bytes | 2 | 2 | 4 | 4 + 4 | 16 |
# | mixed, 18 bytes | 2 | 4 | 4 | 4 + 4 | 18 |
# | mixed, 20 bytes | 2 | 2 and 4 | 4 | 4 + 4 | 20 |
#
# The float32 copy of a parameter is its **master**. The optimizer steps on it.

# %% [markdown]
# Who counts like this?
#
# * **16** is the count of the [ZeRO paper](https://arxiv.org/abs/1910.02054).
# * **18** and **20** are in [Megatron-LM's documentation](https://github.com/NVIDIA/Megatron-LM/blob/50b073cc788271efb5d4fbc92d987aeed2384f4f/docs/source/api-guide/dist_optimizer.md).
#   With 18, gradients are summed up in float32. With 20, there is a gradient in both formats.
# * **12** is in one of the course's sources. It has no master.
#
# Let us make real tensors of each kind, for the model of part 05, and count them.

# %%
stacks = {
    name: half_precision.count_tensor_bytes(name, parameters) for name in half_precision.CONVENTIONS
}
plot_stacks(stacks, title=f"Model states of {parameters:,} parameters, with Adam")

# %% [markdown]
# Mixed precision with a master is as large as plain float32, or larger. Why do some sum up
# gradients in float32? With gradient accumulation, `.grad` is the sum of many micro-batches'
# gradients. Here so many gradients of similar size are added up in bfloat16:

# %%
for micro_batches in (8, 64, 512, 1_024):
    lost = half_precision.share_lost(micro_batches)
    print(f"{micro_batches:5,} micro-batches: {lost:.1%} of the sum is lost")

# %% [markdown]
# A sum of 256 has neighbours 2 apart in bfloat16, and a sum of 512 neighbours 4 apart, so that
# adding 1 no longer changes it. With 16 bytes, keep micro-batches few; with many, sum in float32.
#
# Only the ways without a master are smaller. Is the master really needed?

# %% [markdown]
# ## 3 · Why a master
#
# A weight of 0.1 in bfloat16 has neighbours 0.0005 away. A step of 0.0001 is less than half of
# that, so the sum is rounded back to 0.1. The next step begins at 0.1 again.
#
# Try it: 100,000 weights, most of them between −0.2 and 0.2, and ten steps of Adam. The gradient is
# always 1, so each step has the size of the learning rate, 0.0001. Together they should move each
# weight by 0.001.

# %%
def adam_step(weights, rate):
    return torch.optim.Adam(weights, lr=rate).step

def make_mixed_step(weights, rate):
    return memory.MixedPrecision(weights, partial(torch.optim.Adam, lr=rate)).step

measure_movement = half_precision.measure_movement
moves = {"float32": measure_movement(adam_step, torch.float32),
         "bfloat16 alone": measure_movement(adam_step, torch.bfloat16),
         "bfloat16, master in float32": measure_movement(make_mixed_step, torch.bfloat16)}
Table(["Adam on", "ten steps have moved weights by, on average", "weights that have moved"],
      [[name, f"{far:.5f}", f"{share:.0%}"] for name, (far, share) in moves.items()])

# %% [markdown]
# In bfloat16 alone, most weights stay where they are, time after time. (The ones near 0 have closer
# neighbours, and do move.) The master collects small steps, until they are large enough to be seen
# in bfloat16.
#
# Part 05c shows another way out, without a master.

# %% [markdown]
# ### Exercise {{mixed_precision}} · An optimizer with master weights
#
# Write the class `MixedPrecision` in [labs/memory.py](../labs/memory.py). (Until then, the course
# uses its own solution.)
#
# * `MixedPrecision(parameters, make_optimizer)` gets the parameters of a model in bfloat16 or
#   float16, as a list or a generator. It makes `self.masters`, a list with a float32 copy of each,
#   in the same order; frozen ones may be left out. `make_optimizer(self.masters)` returns an
#   optimizer that steps on the copies. They are tensors of their own: leaves, as PyTorch says, with
#   no graph to the parameter.
# * `step()` gives each parameter's gradient to its master, in float32. It lets the optimizer step
#   once. Then it rounds each master into its parameter, in place.

# %% [markdown]
# After `step()`, no parameter and no master has a gradient: `.grad` is None, not a tensor of zeros.
# A parameter without a gradient gives its master none, and stays as it is. Nothing else writes into
# the parameters. (If `load_state_dict` does, masters that know nothing of it undo it. The solution
# compares the two before each step.) In a step with Adam there may be at most 20 bytes for each
# parameter in memory: 16, and 4 for the gradient in float32. (What Adam itself needs for one
# parameter at a time may come on top.)

# %% [markdown]
# For example, take SGD with a rate of 1, and a weight of 1 whose gradient is always −0.003. The
# next bfloat16 after 1 is 1.0078.
#
# | | master | weight in bfloat16 | without master |
# |---|---|---|---|
# | at first | 1.000 | 1 | 1 |
# | after step 1 | 1.003 | 1 | 1 |
# | after step 2 | 1.006 | 1.0078 | 1 |

# %%
check("{{mixed_precision}}")

# %% [markdown]
# ## 4 · Measured in training
#
# The usual way to mixed precision in PyTorch is not in the table of section 2. `torch.autocast`
# leaves the parameters in float32. It casts them to half precision where they are used. The
# backward needs the casts again, so they are kept until then. Let us measure a training step in
# four ways: float32, autocast, bfloat16 with masters, and bfloat16 alone. We take the second step,
# because Adam's state is there from the beginning, and measure its forward and backward. (The lab
# tells `measure` that masters belong to the optimizer.)

# %%
fullest, at_peak = {}, {}
for layout in half_precision.LAYOUTS:
    run = launch(half_precision.two_steps, layout, text, width, layers, samples, world_size=1)
    fullest[layout], at_peak[layout] = run[layout].peak_bytes[0], run[layout].at_peak[0]
plot_stacks(at_peak, title="Forward and backward, at their peak")

# %%
kinds = ("parameters", "gradients", "optimizer_state")
states = {layout: sum(peak[kind] for kind in kinds) / parameters
          for layout, peak in fullest.items()}
of_float32 = {layout: peak["activations"] / fullest["float32"]["activations"]
              for layout, peak in fullest.items()}
Table(["", "parameters", "gradients", "optimizer state", "states", "activations"],
      [[layout, *(f"{peak[kind] / parameters:.2f}" for kind in kinds), f"{states[layout]:.1f}",
        f"{of_float32[layout]:.2f} of float32"] for layout, peak in fullest.items()],
      note="bytes for each parameter, the most of each kind")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured (with masters).
bytes_for_each.compare(2 + 2 + 12, states["bfloat16, master"], kind="optimizer_state")

# %% [markdown]
# So half precision does not halve the model states. They take 16 bytes for each parameter in
# float32, with autocast, and with masters.
#
# What becomes smaller is the activations. In bfloat16, with or without masters, they are about half
# as large. With autocast they shrink less, for two reasons. What goes from block to block stays in
# float32, and so do the inputs of the norms. And the casts of the weights come on top.

# %% [markdown]
# ### And time?
#
# The other reason for half precision is speed. It depends on what the processor has instructions
# for.

# %% tags=["nbval-ignore-output"]
in_float32, in_bfloat16 = launch(half_precision.both_products, world_size=1).values[0]
ratio = compare_rounds(in_bfloat16, in_float32)
fast = f"{ratio.word}, {ratio} as in float32"
print(f"a product of two matrices takes {1e3 * median(in_float32):.2f} ms in float32 "
      f"and {1e3 * median(in_bfloat16):.2f} ms in bfloat16.\nIn bfloat16: {fast}")

# %% [markdown]
# **On GPUs.** An A100's tensor cores make 312 TFLOP/s in bfloat16 and float16, and 156 in TF32, a
# format that PyTorch can use for float32 products. Without tensor cores, float32 has 19.5 TFLOP/s.
# These are the [data sheet's](https://www.nvidia.com/en-us/data-center/a100/) peaks, not
# measurements. PyTorch uses TF32 for products only if you allow it, with
# `torch.set_float32_matmul_precision("high")`. So by these peaks half precision on an A100 is up to
# 16 times as fast as float32. With this line it is up to 2 times as fast. For 8 B200,
# [NVIDIA](https://www.nvidia.com/en-us/data-center/hgx/) lists 600 TFLOP/s in float32 and 36,000
# in 16 bits with sparsity, half of which remains without it, so the factor of 16 is 30 there. FP8
# doubles it (part [05i](05i_eight_bits_and_four.ipynb)).

# %% [markdown]
# ## 5 · Small gradients
#
# With float16 there is one more problem. Above 65,504 it has only infinity. Below 0.00006 it loses
# digits, and below 0.00000003 it has only 0.
#
# Which numbers of a backward are that small? Above all the gradients of *activations*. Each of them
# is one token's share of the mean loss over thousands of tokens. In a float16 backward they are
# rounded in each layer.
#
# There is a simple remedy. Multiply the loss by a factor before the backward. Then all gradients
# are multiplied by it. Divide the parameters' gradients by it afterwards, in float32. Which factor
# is good for our transformer?

# %% tags=["cover", "nbval-ignore-output"]
gradients = launch(half_precision.activation_gradients, text, world_size=1).values[0]
powers = list(range(0, 33, 2))
as_float16 = [(gradients * 2.0**power).half() for power in powers]
shares = {"become 0": lambda x: x == 0,
          "lose digits": lambda x: (x != 0) & (x.abs() < 2**-14),
          "become infinite": torch.isinf}
plot_against(powers, {name: [100 * is_so(x).float().mean().item() for x in as_float16]
                      for name, is_so in shares.items()},
             "the loss is multiplied by 2 to the power of", "gradients (%)",
             title="Gradients of a transformer's activations in float16")

# %% [markdown]
# Between both ends there is a range in which hardly anything is lost. But nobody knows it
# beforehand, and it moves in the course of training. So the factor is tried: it is doubled now and
# then, and halved whenever something becomes infinite. This is **loss scaling**. bfloat16 has the
# range of float32 and needs no such factor.

# %% [markdown]
# ### Exercise {{loss_scaler}} · A loss scaler
#
# Write the method `step` of `LossScaler` in [labs/memory.py](../labs/memory.py). The caller has
# multiplied the loss by `self.scale` and has run the backward. `step(parameters, take_step)` gets
# the parameters, as `model.parameters()` gives them, and a function without arguments that takes
# the optimizer's step. All `.grad` are in float32, or None.
#
# 1. Divide the gradients by `self.scale`. None stays None.
# 2. If all numbers of all gradients are finite (neither infinite nor nan), call `take_step()` once,
#    and return True.
# 3. Else call nothing, halve `self.scale`, and return False.
# 4. After `self.window` steps in a row that were taken, double `self.scale`. Then a new row begins.
#    A refused step ends the row, too. `self.good` is there to count.

# %% [markdown]
# After a refused step, it does not matter what is left in `.grad`: the caller clears it.
#
# For example, with `scale` 8 and `window` 2:
#
# | step | gradients | returns | `scale` afterwards |
# |---|---|---|---|
# | 1 | finite | True | 8 |
# | 2 | finite | True | 16 |
# | 3 | one is inf | False | 8 |
# | 4 | finite | True | 8 |
# | 5 | one is nan | False | 4 |

# %%
check("{{loss_scaler}}")

# %% [markdown]
# Now try it on a gradient that float16 alone would lose: a sum of three products whose gradient is
# 0.000000002.

# %%
def gradient_with(scale):
    weight = nn.Parameter(torch.ones(3))
    x = torch.full((3,), 2e-4, dtype=torch.float16)
    loss = 1e-5 * (weight.half() * x).float().sum()
    scaler = memory.LossScaler(scale)
    (scaler.scale * loss).backward()
    was_taken = scaler.step([weight], take_step=lambda: None)
    return was_taken, weight.grad[0].item()

# %%
for scale in (1.0, 2.0**16, 2.0**40):
    was_taken, gradient = gradient_with(scale)
    print(f"factor {scale:g}: step taken: {was_taken}, gradient {gradient:.2g}")

# %% [markdown]
# With a factor of 1 the gradient is 0, with 65,536 it is right, and with a factor that is too large
# the step is refused. PyTorch has this as `torch.amp.GradScaler`.
#
# Numbers of 8 and of 4 bits need a scale for every tensor, or for every few numbers of it: part
# [05i](05i_eight_bits_and_four.ipynb) trains with them.

# %% [markdown]
# ## Put to the test
#
# What our sources say about half precision, and what was found in this part.

# %% jupyter={"source_hidden": true}
# The states of 70 billion parameters, for which a source gives 840 GB.
billions = 70
for name in ("12 bytes", "16 bytes"):
    each = half_precision.count_tensor_bytes(name, 1)
    told = ", ".join(f"{kind.replace('_', ' ')} {billions * of} GB" for kind, of in each.items())
    print(f"{name}, together {billions * sum(each.values()):g} GB:\n  {told}")

with_master = states["bfloat16, master"]
moved = moves["bfloat16 alone"][1]
gradients_each = fullest["bfloat16, master"]["gradients"] / parameters
k_of = {name: half_precision.multiplier(make, memory.MixedPrecision) for name, make in
        {"SGD": partial(torch.optim.SGD, lr=0.1),
         "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
         "Adam": torch.optim.Adam}.items()}
as_told = [round(k) for k in k_of.values()] == [4, 8, 12]  # masters, momentum, two means

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
halves = with_master < 0.6 * states["float32"]
surprises = f"""
- [C106] Mixed precision halves memory | web page, “Best Practices” |
  {"right" if halves else "in part"} | not model states: they take {states["float32"]:.1f} bytes for
  each parameter in float32, {states["autocast"]:.1f} with autocast, {with_master:.1f} in bfloat16
  with masters. Activations: {of_float32["autocast"]:.2f} of float32 with autocast,
  {of_float32["bfloat16, master"]:.2f} in bfloat16 (section 4, table) | measured: nothing for model
  states, whose bytes follow from their dtypes. Activations depend on the kernels too: an H100's
  are in part 05d, section 5
- [C102] 70B with Adam: 140 + 140 + 560 = 840 GB | book chapter, “The Memory Problem” |
  contradicts the web page and CS 229S | it adds up, with 12 bytes for each parameter and no
  master. Trained with masters it was {with_master:.1f} bytes (section 4, table), so
  {with_master * billions:,.0f} GB. Without, only {moved:.0%} of bfloat16 weights moved in ten small
  steps (section 3, table) | measured: nothing, since a number has as many bytes on a GPU.
  Another optimizer or format would change both sums (part 05c)
- [C107] Mixed precision doubles throughput on tensor cores | web page, “Best Practices” | depends |
  on what one compares with: by an A100's data sheet a product is 2 times as fast as in TF32, and 16
  times as fast as in float32 without tensor cores (section 4, On GPUs). On this computer, in
  bfloat16: {fast} (section 4, run) | documented: the ratio is a peak of one GPU's data sheet;
  a whole training step has other operations too, and the course did not measure it there
- [C104] 16 Φ are just parameters and optimizer states | CS 229S, “Data Parallelism” | imprecise |
  {gradients_each:.2f} of {with_master:.1f} bytes are gradients (section 4, table) | measured:
  nothing, since gradients are tensors on any device
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C103] Mixed-precision Adam: 2 + 2 + 12 = 16 bytes for each parameter | web page, “Memory
  Breakdown”; CS 229S, “Data Parallelism” | {"right" if abs(with_master - 16) < 0.1 else "wrong"} |
  {with_master:.1f} bytes in training (section 4, table). Others count 18 or 20 (section 2) |
  measured: nothing in the bytes. A program may keep more, such as gradients in float32:
  Megatron-LM's documentation counts 18 or 20
- [C151] States are (2 + 2 + K) Φ, with K for the optimizer | CS 229S, “Data Parallelism” |
  {"right" if as_told else "not seen here"} | with real optimizers and masters in float32, K is
  {", ".join(f"{k:.0f} ({name})" for name, k in k_of.items())} (measured in this section) |
  measured: nothing, since an optimizer keeps the same tensors on a GPU
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Micikevicius et al. 2018, [Mixed Precision
# Training](https://arxiv.org/abs/1710.03740). Kalamkar et al. 2019, [A Study of BFLOAT16 for Deep
# Learning Training](https://arxiv.org/abs/1905.12322). Rajbhandari et al. 2020,
# [ZeRO](https://arxiv.org/abs/1910.02054), section 3.

# %% [markdown]
# ## What you have learnt
#
# * **bfloat16** has the range of float32 and few digits. **float16** has more digits and a narrow
#   range.
# * With a float32 **master**, mixed precision keeps 16 bytes for each parameter, or 18, or 20. That
#   is no less than plain float32. Activations are what becomes smaller.
# * Without a master, small steps are rounded away.
# * In float16 small gradients become 0. **Loss scaling** saves them.
#
# **Your exercises** stand in [labs/memory.py](../labs/memory.py).
#
# **Next**: {{next}}.

# %%
progress("05b")
