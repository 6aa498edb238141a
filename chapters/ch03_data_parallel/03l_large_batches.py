# %% [markdown]
# # {{title}}
#
# **You have eight GPUs in place of one. Is the training done eight times sooner?** Weak scaling
# gives eight times as many samples in a second (03k): the batch grows. But does a larger batch help
# the training as much? Here you try a rule for the learning rate, and find where it breaks. Then
# you count the steps to a loss, and read from the gradients of the ranks how large a batch is worth
# it.

# %% [markdown]
# ![Training loss over batches of 32 to 256: with a constant learning rate it grows with the batch,
# with linear scaling it stays as low as with the small
# batch](../assets/covers/03l_large_batches.png)
#
# *Measured in section 1: loss after the same number of samples, with five seeds, from a learning
# rate that nobody has tuned. How far does this go?*
#
# **After this part you can** choose a learning rate for a larger batch, measure the noise scale of
# your gradients, and decide what to do with eight GPUs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

import torch

from pedagogy_lib import (
    Table, lab, plot_spreads, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
passes = 12
goal = 0.1

# %% [markdown]
# ## 1 · The same data in fewer steps
#
# On links like those of part 03k, weak scaling looks like the way to go: each rank keeps its
# samples, and the batch grows. But with a batch that is $k$ times as large, the same data give $k$
# times fewer steps. If each step moves the weights as far as before, the training only gets a part
# of the way.

# %% [markdown]
# Goyal et al. (2017) use a simple rule, **linear scaling**: for a batch $k$ times as large, take a
# learning rate $k$ times as large. One large step then goes about as far as $k$ small ones. As
# large rates are dangerous at the beginning, they add a **warm-up**: the rate grows to its full
# size during the first epochs.

# %% [markdown]
# The lab [large_batches](../labs/large_batches.py) tries this in one process, because the gradient
# of a batch is the same whether one rank has it or eight. A small network learns handwritten digits
# with SGD and momentum. A batch of 32 gets a learning rate of 0.05, taken from another program.
# Each training run draws as many samples as 12 passes over the data have, and is repeated with five
# seeds. In the pictures a dot is the median of the seeds, and a bar reaches from the lowest to the
# highest. Batches up to 256 first:

# %%
large_batches, digits = lab("large_batches"), lab("gradient_accumulation").digits()
first = large_batches.try_batches(digits, [32, 64, 128, 256], passes, 0.05, ("constant", "linear"))

# %% tags=["cover", "nbval-ignore-output"]
plot_spreads({"": large_batches.group_by_rule(first, 0)}, "batch", "training loss",
             logarithmic="x",
             title=f"Loss after {passes} passes, with five seeds, from a rate of 0.05")

# %% [markdown]
# A constant rate loses at once, because fewer steps of the same size do not get as far. The linear
# rule keeps the loss of the small batch, and seems to hold. But is that the rule, or is any larger
# rate better here? Nobody has tuned the 0.05. **Tune the baseline before you compare** (03h): the
# lab tries seven constant rates with the small batch.

# %% tags=["nbval-ignore-output"]
at_rate = large_batches.try_rates(digits, 32, passes)
base = large_batches.best_of(at_rate)
print(f"best rate: {base:g}; from 0.05, the rule gives {0.05 * 256 / 32:g} for a batch of 256")
Table(["rate", "median loss", "lowest", "highest"],
      [[f"{rate:g}", *(f"{of(losses):.3f}" for of in (median, min, max))]
       for rate, losses in at_rate.items()], title="A batch of 32, with five seeds")

# %% [markdown]
# If the best rate is well above 0.05, the rule had room: it made a rate larger that was too small.
# Now let it begin with the best rate of the small batch. Which loss do you expect at a batch of
# 256, with 8 times this rate?

# %%
large = predict("Loss with a batch of 256, at 8 times the best rate of 32", unit="loss")

# %%
found = large_batches.try_batches(digits, [32, 64, 128, 256, 512, 1024], passes, base)
losses, accuracies = (large_batches.group_by_rule(found, which) for which in (0, 1))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; the rule would give the loss of the small batch.
large.compare(median(at_rate[base]), median(losses["linear"][256]), kind="other")

# %% tags=["nbval-ignore-output"]
plot_spreads({"": losses}, "batch", "training loss", logarithmic="xy",
             title=f"Loss after {passes} passes, with five seeds, from the best rate")

# %% tags=["nbval-ignore-output"]
Table(["batch", "steps", *losses],
      [[batch, large_batches.steps_of(digits, batch, passes),
        *(f"{100 * median(accuracies[rule][batch]):.1f} %" for rule in accuracies)]
       for batch in found], title="Accuracy on test images, median of five seeds")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the numbers of this run say; the second comparison has seeds of its own.
print(large_batches.describe_rule(losses))
too_large = large_batches.find_break(losses["linear"])
print(large_batches.describe_warm_up(digits, too_large, passes, base))

# %% [markdown]
# The printed lines say where the rule breaks once the small batch is tuned, and whether warm-up
# mends it there. In the first picture the rule held so far because it began below the best rate.
#
# One cause is the rate. $k$ small steps can be replaced by a large one as long as the gradient
# hardly changes on the way, and a step that goes too far leaves this range. Is that the only cause?
# Then a smaller rate would help. So each batch gets what the small one had: seven constant rates,
# of which the best counts.

# %%
tuned = predict("Loss with a batch of 1,024, at the best of seven rates", unit="loss")

# %%
at_best = large_batches.tune_rates(digits, found, passes)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as "theory" the loss of the small batch; and the best of the large one.
tuned.compare(median(at_rate[base]), median(at_best[1024][1]), kind="other")

# %% tags=["nbval-ignore-output"]
print(large_batches.describe_best(at_best))
Table(["batch", "rate", "loss", "rate", "loss", "its seeds"],
      large_batches.rows_of_losses(losses, at_best),
      groups=[("", 1), ("linear rule", 2), ("best of seven rates", 3)],
      title="Training loss, median of five seeds")

# %% [markdown]
# Where the best rate is smaller than that of the rule and ends with a lower loss, the rule's rate
# was too large. Where even the best rate ends far above the small batch, **there are too few steps,
# and no constant rate that we tried makes up for it.**
#
# Goyal et al. trained ResNet-50 on ImageNet with batches of 8,192 on 256 GPUs in one hour, and lost
# no accuracy. They report a scaling efficiency of about 90 % from 8 to 256 GPUs. Beyond 8,192
# their accuracy fell, too.

# %% [markdown]
# ## 2 · Steps to the same loss
#
# With more GPUs you want the same result sooner. So ask the other way round: how many steps does it
# take to reach a loss? Here each rank takes 16 samples. One rank has a batch of 16, eight ranks
# have 128. For each batch the best of the seven rates counts. The goal is a training loss of 0.1.
#
# Eight ranks see eight times as many samples in each step. How many times fewer steps do they need?

# %%
fewer = predict("Steps of one rank, divided by steps of eight ranks", unit="times")

# %%
needed = large_batches.steps_to(goal, digits, [16, 32, 64, 128, 256, 512, 1024])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as "theory" eight times; and counted, medians of five seeds.
fewer.compare(8, median(needed[16]) / median(needed[128]), kind="other")

# %% tags=["nbval-ignore-output"]
Table(["ranks", "batch", "steps", "times fewer", "times as many samples"],
      large_batches.rows_of_ranks(needed), title=f"To a training loss of {goal}, 16 samples a rank")

# %% [markdown]
# The column *times fewer* says how much sooner the training is done, if a step takes as long on
# many ranks as on one. (That is perfect weak scaling. Multiply by the efficiency of part 03k.) The
# column *times as many samples* is the price: it is what you pay in GPU hours.
#
# At first, twice as many ranks need nearly half as many steps, and cost little more. In the end,
# twice as many ranks save hardly a step, and cost twice as much. In between lies the batch that is
# worth it. McCandlish et al. (2018) call it the **critical batch size**.

# %% [markdown]
# ## 3 · Ask the gradients
#
# You do not want to train seven times to find this batch. The gradients of your ranks tell about
# where it is. If the ranks' gradients are nearly the same, more ranks bring nothing new. If they
# are mostly noise, the mean over more ranks is a better direction.
#
# The squared length of the gradient tells how much is noise. *Before* the all-reduce it has the
# noise of one rank's samples. *After* it, most of the noise has averaged out. Take two ranks with
# one sample each, and one weight: gradients 3 and 1. Before, the mean squared length is
# $(9 + 1)/2 = 5{.}$ After, it is $2^2 = 4{.}$

# %% [markdown]
# Averaging $b$ samples divides the noise by $b{.}$ So with $s$ the squared length without any
# noise, and $v$ the noise of one sample:
#
# $$s + v/1 = 5, \qquad s + v/2 = 4$$
#
# That gives $v = 2$ and $s = 3{.}$ The ratio $v/s$ is the **simple noise scale**. At exactly this
# batch size, noise and signal contribute equally to the squared length. (One such measurement is
# very noisy. Add up $v$ and $s$ of many steps, and divide then.)

# %%
v, s = large_batches.noise_and_signal(torch.tensor([[3.0], [1.0]]), samples=1)
print(f"noise {v:.1f}, squared length {s:.1f}, noise scale {v / s:.2f} samples")

# %% [markdown]
# McCandlish et al. derive that the steps to a loss are about
#
# $$\text{fewest} \cdot \left(1 + \frac{\text{noise scale}}{\text{batch}}\right)$$
#
# They derive it for another noise scale, in which the Hessian weights noise and signal. The simple
# one equals it if the loss curves equally in all directions, and takes its place because it is
# cheap to measure. That is a strong assumption ([Merrill et al.
# 2025](https://arxiv.org/abs/2505.23971) test it for language models).
#
# So a batch as large as the noise scale takes twice the fewest steps. Look at the table of section
# 2: at which batch are there twice the fewest steps? This is what you expect as the noise scale.

# %%
noise = predict("Noise scale of the gradients", unit="samples")

# %%
scales = large_batches.noise_along(digits, base, ranks=8, samples=16)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; the batch with twice the fewest steps; and the median of the measured scales.
scale = median(scale for _, scale in scales.values())
noise.compare(large_batches.twice_the_fewest(needed), scale, kind="other")

# %% tags=["nbval-ignore-output"]
Table(["step", "training loss", "noise scale"],
      [[step, f"{loss:.2f}", f"{scale:.0f}"] for step, (loss, scale) in scales.items()],
      title="During one training with a batch of 32")

# %% tags=["nbval-ignore-output"]
by_noise = {"by the noise scale": large_batches.steps_by_noise(needed, scale),
            "half at twice the batch": {b: median(needed[16]) * 16 / b for b in needed}}
plot_spreads({"": {"measured": needed}}, "batch", "steps", logarithmic="xy",
             predicted={"": by_noise}, title=f"Steps to a training loss of {goal}, five seeds")

# %% [markdown]
# Dotted: the formula. Its height comes from the largest batch, its bend from the gradients alone.
# For the smallest batches it says too few steps. Dash-dotted: the steps if twice the batch always
# halved them.
#
# So the gradients of eight ranks tell about where more ranks begin to help less. The noise scale is
# no constant: McCandlish et al. found that it grows as the loss falls. Take it as an order of
# magnitude.
#
# This is a toy. It does not show where the limit is for your model. But you can measure it in your
# own program: two squared lengths in each step, one before the all-reduce and one after it. In DDP
# a communication hook sees both (03e).

# %% [markdown]
# ## 4 · The rule for Adam
#
# Language models are trained with Adam, which divides each gradient by its own typical size. For
# Adam, Malladi et al. (2022) derive a **square-root rule**: a batch $k$ times as large gets
# $\sqrt k$ times the rate. (They also change both $\beta$ and $\epsilon$. Here these stay as they
# are, as in most programs.) Adam gets what SGD had: the same network, data and seeds, and seven
# rates for each batch. A batch of 256 is 8 times as large as the smallest. By the square-root rule,
# its rate grows $\sqrt 8$ times. Where does its loss end, compared with the linear rule's?

# %%
with_root = predict("Adam, batch 256: loss by the linear rule over loss by the square root",
                    unit="times")

# %%
adam_losses, adam_best = large_batches.try_adam(digits, [32, 128, 256, 512, 1024], passes)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as "theory" two rules that are equally good; and medians of five seeds.
by_root, by_line = (median(adam_losses[rule][256]) for rule in ("square root", "linear"))
with_root.compare(1, by_line / by_root, kind="other")

# %% tags=["nbval-ignore-output"]
print(large_batches.compare_seeds(adam_losses, "square root", "linear"))
Table(["batch", *adam_losses, "rate", "loss"],
      large_batches.rows_of_adam(adam_losses, adam_best),
      groups=[("", 1), ("by rule", 3), ("best of seven rates", 2)],
      title=f"Adam: training loss after {passes} passes, median of five seeds")

# %% [markdown]
# The printed lines say with which batches the two rules differ by more than their seeds do, on
# these digits. Compare each rule also with the best of seven rates in its row. Where few steps are
# left, even the best rate does not bring back the small batch's loss, as with SGD.
#
# Malladi et al. derive their rule for rates so small that Adam's path follows a differential
# equation, and for gradients that are mostly noise: for batches below the noise scale of section 3.
# Beyond these it is no more than a first guess: tune around it.

# %% [markdown]
# **In language models**, the batch is not one number. It grows during training, as the noise scale
# does: Llama 3 405B began with batches of 4 million tokens, and went on to 8 and to 16 million
# ([section 3.4.1](https://arxiv.org/abs/2407.21783)). DeepSeek-V3 went from 3,072 sequences to
# 15,360 within its first 469 billion tokens ([section 4.2](https://arxiv.org/abs/2412.19437)).
#
# Many rates follow a *warm-up–stable–decay* schedule ([MiniCPM](https://arxiv.org/abs/2404.06395)):
# the long constant part needs no total number of steps. And large models are too expensive to tune,
# so the rate is tuned on a narrow one and transferred to a wide one
# ([μP](https://arxiv.org/abs/2203.03466)). None of this was tried here.

# %% [markdown]
# ## What to do with eight GPUs
#
# | your batch on one GPU is | then |
# |---|---|
# | far below the noise scale | take 8 times the batch; with SGD up to 8 times the rate, warmed up |
# | about the noise scale | a larger batch still saves steps, and costs more GPU hours |
# | far above it | keep the batch, and divide it (strong scaling, 03k) or the model (07, 08) |
# | unknown, as is the best rate | train side by side, with 8 rates: no all-reduce is needed |
#
# With Adam, begin with $\sqrt 8$ times the rate, and tune around it (section 4).

# %% [markdown]
# ## Put to the test
#
# What a source says about batches.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
middle = {b: median(steps) for b, steps in needed.items()}
fewer_by = {b: middle[16] / steps for b, steps in middle.items()}
put_to_the_test(f"""
- [C086] Data parallel raises throughput, as the batch grows | CS 229S, “Data Parallelism” |
  right | samples per second grow (part 03k, section 2: weak scaling, with computing emulated). How
  soon a loss is reached is another quantity: a loss of {goal} took {middle[16]:g} steps with
  batches of 16, {middle[128]:g} with 128, {middle[1024]:g} with 1024, so with 64 times the batch
  {fewer_by[1024]:.1f} times fewer (section 2, table) | measured: how much throughput grows, since
  it depends on links and overlap; how large a useful batch is depends on model and data
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Goyal et al. 2017, [Accurate, Large Minibatch
# SGD](https://arxiv.org/abs/1706.02677). McCandlish et al. 2018, [An Empirical Model of Large-Batch
# Training](https://arxiv.org/abs/1812.06162). Malladi et al. 2022, [On the SDEs and Scaling Rules
# for Adaptive Gradient Algorithms](https://arxiv.org/abs/2205.10287).

# %% [markdown]
# ## What you have learnt
#
# * For a larger batch, the best **learning rate** grows at most in proportion, up to a limit.
#   **Tune** the small batch first: a rate below the best one lets the rule seem to reach farther.
# * Two things set the limit: the rate becomes too large, and the steps too few. There, seeds
#   differ widely, so one run would not show it.
# * Far below the **noise scale**, twice the batch needs nearly half the steps. Far above it, more
#   ranks bring more samples a second, and no shorter training.
# * The gradients before and after the all-reduce tell it.
# * With Adam, begin with the **square root** of the batch's growth, and tune.
#
# **This part has no exercise.**
#
# **Next**: {{next}}.

# %%
progress("03l")
