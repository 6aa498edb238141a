# %% [markdown]
# # {{title}}
#
# **Can a model be trained with numbers of 8 bits, or of 4?** Newer GPUs multiply such numbers
# faster than those of 16 bits, and fewer bytes travel between ranks. In this part you list the
# numbers that FP8 has, write the cast that MXFP8 needs, train a transformer in emulated FP8, and
# count the bytes of weights and gradients that ranks exchange in 8 bits.

# %% [markdown]
# ![Error of a sum of a trained model's gradients over the number of ranks. A ring that rounds each
# partial sum to 8 bits gets worse with more ranks. An exchange in 8 bits that is summed in float32
# does not, nor does one in bfloat16](../assets/covers/05i_eight_bits_and_four.png)
#
# *Measured in section 4: gradients of 2 to 16 real ranks, summed in three ways.*
#
# **After this part you can** say what FP8, MXFP8 and NVFP4 are, cast a tensor with a scale per
# block, name the products that stay in 16 bits, and send weights and gradients in 8 bits.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, hint, lab, launch, measure, plot_against, predict, progress,
)

# %% tags=["parameters"]
steps = 100
world_size = 4

# %%
narrow, training = lab("narrow_formats"), lab("narrow_training")
wire, pictures = lab("narrow_collectives"), lab("narrow_pictures")
text = lab("language_model").standard_library(200_000)

# %% [markdown]
# ## 1 · Which numbers exist
#
# **FP8** is the name of two formats. **E4M3** has a sign, 4 bits of exponent $e$ and 3 bits of
# fraction $f$, both read as whole numbers. They stand for
#
# $$\left(1 + \tfrac{f}{8}\right) 2^{\,e - 7}, \quad\text{and for}\quad \tfrac{f}{8}\, 2^{-6}
# \quad\text{if } e = 0.$$
#
# The code with all seven of these bits set means nan, and infinity has no code. The largest number
# is therefore $(1 + \frac68)\,2^{8} = 448$. **E5M2** gives one bit of the fraction to the exponent:
# it reaches 57,344 and has infinities. How many different numbers has E4M3, without nan?

# %%
how_many = predict("Different numbers of E4M3, of which each has 8 bits", unit="numbers")

# %% [markdown]
# There are only 256 codes, so we can look at all of them. A tensor of bytes can be read as E4M3
# without changing a bit:

# %%
codes = torch.arange(256).to(torch.uint8)
print(codes[1:7].view(torch.float8_e4m3fn).float().tolist())

# %%
formats = {"float16": torch.float16, "bfloat16": torch.bfloat16,
           "E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}
numbers = {name: narrow.list_numbers(dtype) for name, dtype in formats.items()}
Table(["format", "numbers", "largest", "smallest above 0", "next after 1"],
      [[name, f"{len(of):,}", f"{of[-1]:.3g}", f"{of[of > 0][0]:.2g}", f"{of[of > 1][0]:.5g}"]
       for name, of in numbers.items()])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and the table of all codes.
# Of 256 codes two are nan, with either sign, and 0 and −0 are the same number.
how_many.compare(theory=256 - 2 - 1, measured=len(numbers["E4M3"]), kind="parameters")

# %%
pictures.plot_numbers(title="The numbers of five formats")

# %% [markdown]
# Each row is a format, and each line one of its numbers. From one power of two to the next, E4M3
# has 8 numbers and E5M2 has 4, so rounding changes a number by up to a 16th or an 8th of it. Below
# $2^{-6}$ and $2^{-14}$ they have fewer. **E2M1** has 4 bits, for 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a
# sign.
#
# What happens to a number outside this range? A small one becomes 0. For a large one it depends on
# the format, and on the version of PyTorch:

# %% tags=["nbval-ignore-output"]
x = torch.tensor([1e-3, 5e-4, 448.0, 500.0, 70_000.0, torch.inf])
for name in ("E4M3", "E5M2"):
    print(f"PyTorch {torch.__version__}, {name}: {x.to(formats[name]).float().tolist()}")

# %% [markdown]
# In E4M3, PyTorch 2.13 makes 448 of everything larger, even of infinity. Versions before [this
# change](https://github.com/pytorch/pytorch/pull/178817) made nan of it. The first hides an
# overflow from a loss scaler (05b), and the second destroys the tensor. Cast nothing that does not
# fit.

# %% [markdown]
# ## 2 · Scales
#
# The remedy is to divide by a **scale** before the cast, so that the largest magnitude (called
# *amax* in programs) becomes 448, and to multiply by it afterwards. The formats differ in which
# numbers share a scale, and in how the scale is stored:
#
# | | numbers | share a scale | the scale is | bits per number |
# |---|---|---|---|---|
# | FP8, per tensor | E4M3 or E5M2 | a tensor | float32 | 8 |
# | FP8, per row | E4M3 | a row | float32, or a power of two | 8 and a little |
# | FP8, per block | E4M3 | 1 × 128 activations, 128 × 128 weights | float32 | 8.25 and 8.002 |
# | MXFP8 | E4M3 | 32 neighbours | E8M0: a power of two | 8.25 |
# | MXFP4 | E2M1 | 32 neighbours | E8M0: a power of two | 4.25 |
# | NVFP4 | E2M1 | 16 neighbours | E4M3, times a float32 per tensor | 4.5 |

# %% [markdown]
# What does one outlier do to the numbers around it? Take 32 × 128 normally distributed numbers and
# make one of them larger and larger. Half of all numbers are off by at most:

# %%
outliers = [10.0 ** (1 + sixth / 6) for sixth in range(37)]
names = ("E4M3, per tensor", "E4M3, per row", "MXFP8 (E4M3)", "E2M1, per tensor", "MXFP4 (E2M1)",
         "NVFP4 (E2M1)")
plot_against(outliers, {name: [100 * narrow.median_error(narrow.FORMATS[name], outlier)
                               for outlier in outliers] for name in names},
             "the largest number", "median error (%)", logarithmic=True,
             title="One outlier among 4,096 numbers")

# %% [markdown]
# Each number of E4M3 has its own exponent, so a single scale is enough until an outlier is 10,000
# times as large as the rest. With 4 bits, an outlier of 20 makes 0 of more than half of the
# numbers. Scales per row or per block confine the damage to the row or the block.
#
# NVFP4 has a limit, too. Its block scales are E4M3, so they reach from 448 down to 0.002. Where the
# outlier's block needs 448, the scales of all other blocks round to 0.

# %% [markdown]
# ### Exercise {{mxfp8}} · Cast to MXFP8 and back
#
# Write `quantize` and `dequantize` of the class `MXFP8` in
# [labs/narrow_formats.py](../labs/narrow_formats.py). `self.block` is the number of numbers in a
# block, 32 by default.

# %% [markdown]
# `quantize(x)` gets a tensor in float32 or bfloat16 with at least one dimension, not empty, and
# leaves it as it is. Blocks lie along the last dimension, and the last block of a row may be
# shorter. It returns `elements, scales`:
#
# * `scales`, `torch.float8_e8m0fnu`, one per block: the shape of `x`, with the number of blocks of
#   a row in place of the last dimension. A scale is the smallest power of two, from $2^{-127}$ on,
#   for which the block's largest magnitude divided by it does not exceed 448.
# * `elements`, `torch.float8_e4m3fn`, in the shape of `x`: each number divided by the scale of its
#   block, rounded to the nearest.

# %% [markdown]
# In a block of zeros all elements are 0, and any power of two will do as its scale. If a block has
# an inf or a nan, its scale is nan, so that the whole block comes back as nan and the loss shows
# it. Its elements may be anything.
#
# `dequantize(elements, scales)` returns each element times the scale of its block, in float32. It
# may use nothing but these two tensors and `self.block`. For example, with blocks of 2:
#
# | | block 0 | block 1 | block 2 |
# |---|---|---|---|
# | `x` | 448, −3 | 450, 0.1 | 7 |
# | `scales` | 1 | 2 | 0.015625 |
# | `elements` | 448, −3 | 224, 0.05078125 | 448 |
# | comes back | 448, −3 | 448, 0.1015625 | 7 |
#
# (450 / 2 = 225 lies between 224 and 240.) PyTorch computes hardly anything with these dtypes:
# `.to(…)` and `.float()` convert them.

# %%
check("{{mxfp8}}")

# %% [markdown]
# How far off are the three products of a linear layer then? Their inputs are those of our
# transformer after some steps, and each product is summed in float32. *Not scaled* means that the
# numbers are cast as they are.

# %% tags=["nbval-ignore-output"]
errors = launch(narrow.compare_formats, text, world_size=1, device="cpu").values[0]
Table(["numbers", "output", "gradient of the input", "gradient of the weight"],
      [[name, *(f"{error:.1%}" for error in off)] for name, off in errors.items()],
      note="off by this share of the product's length")

# %% [markdown]
# Gradients are small, because the loss is a mean over all tokens of a batch. Without a scale they
# all become 0 in E4M3, and many of them in E5M2. With any scale, 8 bits were off by a few per cent
# here. Numbers of 4 bits have hardly any range, so with them blocks matter most.

# %% [markdown]
# ## 3 · Training in FP8
#
# Not everything is rounded to 8 bits. Recipes take the linear layers of the blocks, where most of
# the FLOPs are. Embeddings, the last layer, norms, softmax and the products inside attention stay
# in 16 or 32 bits. In our training, so do master weights, gradients of weights and Adam's means:
# model states do not shrink here. (Other recipes narrow some of them, see **On GPUs**.)
#
# Most CPUs have no such instructions, so our products are **emulated**: both inputs are cast to the
# format and back, and then multiplied in float32. Real ones round the same inputs. Where PyTorch
# has the real product on a CPU, the lab compares the two:

# %% tags=["nbval-ignore-output"]
x, weight = torch.randn(64, 128), torch.randn(96, 128)
for share in ("tensor", "row", 32):
    print(f"scales per {share}: {training.compare_with_torch(x, weight, share)}")

# %% [markdown]
# Numbers are the largest difference, relative to the largest result. PyTorch 2.13 multiplies E4M3
# with scales per tensor or row on a CPU (`torch.nn.functional.scaled_mm`), and the results agree.
# It refuses blocks of 32, for which it needs a GPU.
#
# A scale belongs to numbers that are *summed*. The forward sums over the features of a token, and
# the gradient of the weight over tokens, so an input is cast twice, by rows and by columns, and so
# are weights and gradients. The columns of the input may be cast in the forward already. Then
# autograd keeps these in place of the input, in so many bytes per number:

# %%
for name in ("float32", "bfloat16", "E4M3, per tensor", "MXFP8 (E4M3)"):
    print(f"{name:17} {training.count_saved(name):.3f}")

# %% [markdown]
# Now train a small transformer in eight ways, with the same data and seeds. The baseline is
# bfloat16, emulated likewise. All ways tune their learning rate by the same rule: starting from
# 0.008, the best rate is doubled and halved until both neighbours are worse. Then five other seeds
# are trained with it.

# %%
ways = ("bfloat16", "E4M3, per tensor", "E4M3, gradients E5M2, per tensor", "E4M3, per row",
        "MXFP8 (E4M3)", "NVFP4 (E2M1)", "E2M1, per tensor", "E4M3, not scaled")
trained = launch(training.compare_trainings, ways, text, steps, world_size=2,
                 timeout=300.0).values[0]

# %% tags=["nbval-ignore-output"]
Table(["products in", "best rate", "loss at the end, minus bfloat16's, of each seed",
       "their mean", "in words"], training.loss_rows(trained))

# %% [markdown]
# The first row has the losses themselves, in brackets. Losses of two seeds differ far more than
# those of two ways with one seed, so look at these gaps, and at their mean with its standard error.
# A loss is called higher if the mean is more than five standard errors above 0. With five seeds,
# chance alone does that, or the opposite, in about one of 20 such tables.
#
# Where the table sees no difference, that holds for this tiny model and so few steps, and it proves
# nothing about large ones. Without scales, gradients became 0 in section 2, and a layer that gets
# only zeros learns nothing. The layers outside the blocks still learn.

# %% [markdown]
# ## 4 · Eight bits on the wire
#
# With ZeRO stage 3 and FSDP (chapter 06), ranks gather each weight before they use it. If the
# product casts it to 8 bits anyway, it may as well travel in 8 bits. Gloo refuses, however:

# %% tags=["nbval-ignore-output"]
for dtype in (torch.bfloat16, torch.float8_e4m3fn):
    told = launch(wire.try_collectives, dtype, world_size=2, device="cpu").values[0]
    print(f"{dtype}:", *(f"  {name}: {answer}" for name, answer in told.items()), sep="\n")

# %% [markdown]
# To copy numbers one need not understand them. `x.view(torch.uint8)` has the same bytes under a
# dtype that Gloo knows, so an all-gather and an all-to-all work. A sum of such bytes would be
# nonsense.
#
# How many bytes does an all-gather of a weight in MXFP8 send, scales included?

# %%
share = predict("All-gather in MXFP8: bytes in percent of bfloat16's", unit="%")

# %%
gathered = launch(wire.measure_gathers, world_size=world_size, device="cpu")
for name, off in gathered.values[0].items():
    print(f"{name:8} {gathered[name].sent_bytes[0] / 1e6:.2f} MB sent by rank 0, "
          f"off by {off:.2%}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the operating system counted.
sent = {name: gathered[name].sent_bytes[0] for name in gathered.values[0]}
share.compare(theory=100 * (1 + 1 / 32) / 2, measured=100 * sent["MXFP8"] / sent["bfloat16"],
              kind="communication")

# %% [markdown]
# Blocks lie inside rows, and each rank has whole rows. The scale of a block therefore travels with
# it, and for the forward ranks need not agree on anything. The backward needs the same weight with
# blocks along *columns*. A rank can cast these, too, if it has a multiple of 32 rows; otherwise a
# block lies on two ranks, which have to agree on its scale. With one scale per tensor all ranks
# have to.

# %% [markdown]
# ### Exercise {{gather_weights}} · Debug an FP8 all-gather
#
# `gather_weights(shard, group=None)` is called on all ranks of a group. `shard` is this rank's part
# of a weight: float32, not empty, in any number of dimensions, the same shape on all ranks. It
# returns the whole weight in float32, the shards one after another along dimension 0, as one
# process would cast it: with one scale, the largest magnitude of the *whole* weight divided by 448.
# All numbers are divided by it, rounded to E4M3, and multiplied by it. The scale of a weight of
# zeros may be any other number, and a scale below $10^{-12}$ may be larger.

# %% [markdown]
# `shard` does not change. A byte per number may travel, and a few bytes for the scale.
#
# For example, rank 0 has [448, 14] and rank 1 has [7, 1]: the scale is 1, all four numbers exist in
# E4M3, and both ranks return [448, 14, 7, 1]. The second cell shows what they return instead.
# Besides, a shard of zeros becomes nan. Find two bugs.

# %%
def gather_weights(shard, group=None):
    largest = shard.abs().max()
    ### BEGIN SOLUTION
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    scale = torch.where(largest > 0, largest / 448, 1.0)
    ### IT WAS
    # scale = largest / 448
    ### END SOLUTION
    elements = (shard / scale).to(torch.float8_e4m3fn)
    parts = [torch.empty_like(elements) for _ in range(dist.get_world_size(group))]
    dist.all_gather([part.view(torch.uint8) for part in parts], elements.view(torch.uint8),
                    group=group)
    return torch.cat(parts).float() * scale

# %%
def gather_four_numbers(gather_weights):
    shards = [[448.0, 14.0], [7.0, 1.0]]
    return gather_weights(torch.tensor(shards[dist.get_rank()])).tolist()

print(*launch(gather_four_numbers, gather_weights, world_size=2, device="cpu").values, sep="\n")

# %%
check("{{gather_weights}}", gather_weights)

# %% [markdown]
# ### Sums
#
# Gradients are summed. Suppose that a collective could add E4M3 and round each partial sum. Adding
# 1 thirty times gives:

# %%
print(wire.count_up(30))

# %% [markdown]
# From 16 on, neighbours are 2 apart, and 17 is rounded back to 16. So the numbers should *travel*
# in 8 bits and be *summed* in more. Each rank sends its part of the gradient to the rank that sums
# this part, in an all-to-all, and every number is rounded once. The alternative is the ring of
# chapter 02, in which partial sums travel and each hop rounds again. Both send the same bytes. In
# both, a rank adds its own part as it is.

# %% tags=["cover", "nbval-ignore-output"]
counts, kind = [2, 4, 8, 16], "a trained model"
weights = launch(wire.train_weights, text, steps, world_size=1, device="cpu").values[0]
summed = {n: launch(wire.measure_sums, text, weights, world_size=n, device="cpu") for n in counts}
plot_against(counts, {way: [100 * summed[n].values[0][kind][way] for n in counts]
                      for way in wire.WAYS_TO_SUM},
             "ranks", "error of the sum (%)", logarithmic=True,
             title=f"Gradients after {steps} steps, summed over ranks")

# %% [markdown]
# The error is the length of the difference to a sum in float64, as a share of the sum's length. In
# the ring it grows, because every hop rounds a larger sum. If each number is rounded once, it
# depends on the gradients. Here are the bytes sent, and other gradients, exchanged in MXFP8:

# %% tags=["nbval-ignore-output"]
run, (_, exchanged, _) = summed[4], wire.WAYS_TO_SUM
for way in wire.WAYS_TO_SUM:
    print(f"{run.world_size} ranks, {way}: {run[way].sent_bytes[0] / 1e3:.0f} kB sent by rank 0")
Table(["gradients of", *(f"{n} ranks" for n in counts)],
      [[kind, *(f"{summed[n].values[0][kind][exchanged]:.2%}" for n in counts)]
       for kind in summed[2].values[0]])

# %% [markdown]
# The errors of $n$ ranks are independent, so together they grow as $\sqrt{n}$. A sum of noise does
# so, too, and the share stays: it rises a little, since with more ranks a smaller part of the sum
# is a rank's own. Where ranks agree, the sum grows as $n$, and the share falls: most for a new
# model, whose ranks agree most here.

# %% [markdown]
# **On GPUs**
#
# * An H100's [data sheet](https://www.nvidia.com/en-us/data-center/h100/) gives FP8 twice the peak
#   of 16 bits. Of NVIDIA's GPUs, those from Blackwell on (B200) multiply MXFP8 and NVFP4
#   ([Transformer Engine's
#   table](https://nvidia.github.io/TransformerEngine/support_matrix.html)). Its recipes with a
#   scale per tensor take E4M3 forward and E5M2 backward by default, while its
#   [MXFP8](https://nvidia.github.io/TransformerEngine/features/low_precision_training/mxfp8/mxfp8.html)
#   takes E4M3 for both.
# * [Delayed
#   scaling](https://nvidia.github.io/TransformerEngine/features/low_precision_training/fp8_delayed_scaling/fp8_delayed_scaling.html)
#   takes a tensor's scale from the amax of earlier steps, which saves a pass over it; what exceeds
#   the range is clipped. We scale by the tensor itself (*current* scaling).

# %% [markdown]
# * By default, Transformer Engine [saves
#   inputs](https://nvidia.github.io/TransformerEngine/features/low_precision_training/performance_considerations/performance_considerations.html)
#   in FP8 for the backward, in half the bytes of bfloat16, and it can store weights in FP8 beside
#   float32 masters. So does Megatron-Core with
#   [`fp8_param_gather`](https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.distributed.distributed_data_parallel_config.html).
#   Part [05c](05c_smaller_optimizer_states.ipynb) has Adam's means in 8 bits.
# * [Mishra et al. 2025](https://arxiv.org/abs/2506.08027) trained 8 billion parameters in MXFP8 on
#   15 trillion tokens. They round scales up, as you do, because rounding them down, as the OCP
#   specification suggests, could let training diverge.

# %% [markdown]
# * [DeepSeek-V3](https://arxiv.org/abs/2412.19437) (3.3) multiplied in E4M3, with scales [per
#   block](https://nvidia.github.io/TransformerEngine/features/low_precision_training/fp8_blockwise_scaling/fp8_blockwise_scaling.html).
#   Embeddings, the last layer, norms and attention stayed in 16 or 32 bits, masters and gradients
#   in float32, and Adam's means in bfloat16. On Hopper, sums of FP8 products kept about 14 bits
#   (3.3.2), so partial sums went to float32 after every 128 numbers.
# * [NVIDIA 2025](https://arxiv.org/abs/2509.25149) trained 12 billion parameters in NVFP4 on 10
#   trillion tokens, with gradients rounded stochastically (05c), a random rotation against outliers
#   (Hadamard transforms) and some layers in more bits. Weights had a scale per 16 × 16, so that
#   forward and backward multiply the same numbers. Our NVFP4 had none of these.
# * [Nemotron 3 Super](https://arxiv.org/abs/2604.12374), with 120 billion parameters, was
#   pre-trained in NVFP4 on 25 trillion tokens.

# %% [markdown]
# * [torchao](https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html)
#   has recipes with scales per tensor and per row (rounded to powers of two), and one that leaves
#   the gradient of the weight in more bits. By
#   [default](https://docs.pytorch.org/ao/stable/generated/torchao.float8.Float8LinearConfig.html)
#   only the forward sums in the faster, less exact way (`use_fast_accum`). With FSDP2,
#   weights may be gathered in FP8, and the amax of all weights is reduced
#   in one all-reduce
#   ([torchtitan](https://github.com/pytorch/torchtitan/blob/06fe2901ed7b4641bf008463bd883360ee927eba/docs/float8.md)).
# * NCCL has [E4M3 and
#   E5M2](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/nccl4py/types.html) among its
#   types, from Hopper on.
#
# None of this was measured here, and nothing here was measured on a GPU: neither speed nor the
# rounding inside its products.

# %% [markdown]
# **Sources.** None of the course's five sources speaks of 8 or 4 bits.
#
# **To read on.** Micikevicius et al. 2022, [FP8 Formats for Deep
# Learning](https://arxiv.org/abs/2209.05433). Rouhani et al. 2023, [Microscaling Data
# Formats](https://arxiv.org/abs/2310.10537).

# %% [markdown]
# ## What you have learnt
#
# * **E4M3** has 253 numbers from −448 to 448, and **E5M2** has more range and fewer digits.
# * A **scale** per tensor, row or block makes numbers fit. **MXFP8** and **MXFP4** have a power of
#   two per 32 numbers, **NVFP4** an E4M3 per 16. Four bits need blocks; eight bits need a scale.
# * Products of linear layers are narrow, and so may be the inputs that they save. Our masters,
#   gradients and means stayed as large as they were.
# * Send bytes as they are, and **sum in float32**: partial sums in 8 bits get worse with every
#   rank. All ranks have to agree on the scale of a tensor.
#
# **Your exercises**: {{gather_weights}} is in a cell above, and {{mxfp8}} in
# [labs/narrow_formats.py](../labs/narrow_formats.py).
#
# **Next**: {{next}}.

# %%
progress("05i")
