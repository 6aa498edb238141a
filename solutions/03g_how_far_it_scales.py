# %% [markdown]
# # 03g · How far it scales
#
# **When do more ranks help no more?** There are three answers. The hardware gives the first one: a
# step cannot be faster than what binds it. The second comes from dividing: communication does not
# shrink when ranks are added. The third comes from learning: a larger batch needs a larger step,
# and that goes well only up to a point. You measure all three.

# %% [markdown]
# ![Efficiency over the number of ranks in two panels. With strong scaling the efficiency falls
# steeply, with weak scaling it stays high. Two lines of theory show what happens if all
# communication, or none of it, is hidden](../assets/covers/03g_how_far_it_scales.png)
#
# *Measured in section 2 on up to eight ranks: medians, and bars from the fastest step to the
# slowest. Computing is emulated.*
#
# **After this part you can** predict which resource limits a step, tell weak from strong scaling,
# compute an efficiency, and say how large a batch may become.
#
# **It takes** about 30 minutes, and 30 more for 1 exercise. **It needs** [03b · Inside
# DDP](03b_inside_ddp.ipynb) and [02d · Across machines](02d_across_machines.ipynb).

# %% jupyter={"source_hidden": true}
from statistics import median

from pedagogy_lib import (
    Machines, Table, check, hint, lab, launch, plot_spreads, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
samples = 64
card_megabytes_per_second = 50.0
passes = 12

# %% [markdown]
# ## 1 · What binds a step
#
# If you know what limits a step, you know what to buy. A step of DDP needs three things:
# arithmetic, traffic to memory, and traffic to other ranks. Each has a rate, and each rate gives a
# time. Take a model of linear layers with $P$ weights in float32, on $n$ ranks, and $b$ samples on
# each rank.

# %% [markdown]
# * **Arithmetic**: $6\,b\,P$ operations. A weight is multiplied and added once for each sample in
#   the forward, and twice as often in the backward.
# * **Memory**: about $24\,P$ bytes. A float32 has 4 bytes. Forward and backward read each weight,
#   the backward writes its gradient. The step of SGD reads both and writes the weight. These are 6
#   passes.
# * **Network**: $2\,\frac{n-1}{n} \cdot 4P$ bytes, the all-reduce of the gradients.

# %% [markdown]
# The lab [scaling](../labs/scaling.py) measures the three rates with small programs: a product of
# two matrices of 1024 × 1024, a copy of 64 MB, and an all-reduce of 8 MB. Two ranks do each of them
# at the same time.

# %% tags=["nbval-ignore-output"]
scaling = lab("scaling")
sizes = [1, 4, 16, 64, 256]
measured = launch(scaling.measure_all, sizes, world_size=2)
rates, steps, all_reduce, product_rates = measured.values[0]
for name, unit in (("arithmetic", "GFLOP/s"), ("memory", "GB/s"), ("network", "GB/s")):
    print(f"{name:10} {rates[name] / 1e9:6.1f} {unit}")

# %% [markdown]
# With many samples, arithmetic takes longest. With few samples, the all-reduce does. Both times are
# proportional to $P$, so the size of the model cancels. From these rates, how many samples does
# each of the two ranks need until computing takes as long as the all-reduce?

# %%
meet = predict("Computing takes as long as the all-reduce at, on each rank", unit="samples")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and where the measured lines meet.
P, n = scaling.LAYERS * scaling.WIDTH**2, 2
network_seconds = 2 * (n - 1) / n * 4 * P / rates["network"]
computing = [min(steps[b]) for b in sizes]
meet.compare(network_seconds / (6 * P / rates["arithmetic"]),
             scaling.crossing(sizes, [min(all_reduce)] * len(sizes), computing), kind="other")

# %% [markdown]
# Now the whole step, for 1 to 256 samples. The first prediction takes the longer one of arithmetic
# and memory, both from the rates above. It is compared with the fastest of nine rounds, since a
# prediction knows of no other programs. A ratio of 0.5 means that the step took twice as long as
# predicted.
#
# The second prediction mends two things. First, it measures arithmetic at the shape that is really
# used: one row of numbers keeps a processor less busy than 1024 rows. Second, it *adds* the step of
# SGD: the optimizer begins when the backward has ended, so the two do not overlap.

# %%
by_rates = {b: max(6 * b * P / rates["arithmetic"], 24 * P / rates["memory"]) for b in sizes}
by_shape = {b: 6 * b * P / product_rates[b] + 12 * P / rates["memory"] for b in sizes}

# %% tags=["nbval-ignore-output"]
Table(["samples", "fastest", "median", "slowest", "longest of the rates", "at this shape"],
      scaling.ratio_rows(steps, [by_rates, by_shape]),
      groups=[("", 1), ("measured step", 3), ("predicted / fastest", 2)])

# %% tags=["nbval-ignore-output"]
lines = {"forward, backward, step": steps, "all-reduce": dict.fromkeys(sizes, all_reduce)}
theory = {"forward, backward, step": by_shape,
          "all-reduce": dict.fromkeys(sizes, network_seconds)}
in_ms = scaling.in_milliseconds
plot_spreads({"": {name: in_ms(line) for name, line in lines.items()}},
             "samples on each rank", "time (ms)", logarithmic="xy",
             predicted={"": {name: in_ms(line) for name, line in theory.items()}},
             title="One step of four layers of 1024 × 1024 on two ranks")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the numbers of this run say.
print(scaling.what_binds(steps, all_reduce, by_rates, by_shape, network_seconds))

# %% [markdown]
# The rate of the network was measured with 8 MB, and the gradients have 17 MB: a rate holds for the
# size at which it was measured, too.
#
# Dots are medians, bars go from the fastest round to the slowest. Other programs on this computer
# can only make a round slower, so theory has to meet the lower ends.

# %% [markdown]
# Where the line of the all-reduce is above the other, the network binds. Then more samples on each
# rank are nearly free, and so is accumulation (01). Fewer bytes would help (03f). Faster arithmetic
# would not.
#
# A book chapter writes *throughput ≈ min(compute, memory, network)*. A minimum of rates is a
# maximum of times. It is right only if the three run at the same time. What runs one after the
# other adds up. DDP is between the two, as the next section shows.

# %% [markdown]
# **On GPUs** the same arithmetic holds, with other numbers, and tokens in place of samples. Take an
# H100 that computes at 400 TFLOP/s in bfloat16, and a network card of 50 GB/s for each GPU. A
# gradient has 2 bytes. In a large ring, computing takes as long as the all-reduce at
# $\frac{2 \cdot 2}{6} \cdot \frac{400 \cdot 10^{12}}{50 \cdot 10^9} \approx 5{,}300$ tokens on each
# GPU. This is computed, not measured. A small product is inefficient there, too: Megatron-LM's
# [README](https://github.com/NVIDIA/Megatron-LM) of 2024 reports 41 % of the peak for its smallest
# model and 47 to 48 % for its largest, and gives the larger products as the reason.

# %% [markdown]
# ## 2 · Strong and weak scaling
#
# There are two questions about more ranks, and they have different answers.
#
# * **Strong scaling**: the same work, on more ranks. The batch stays at 64 samples, and each rank
#   gets fewer. How much shorter is a step?
# * **Weak scaling**: more work, on more ranks. Each rank keeps 64 samples, so the batch grows. Does
#   a step stay as short?
#
# The **efficiency** is what a rank still does, compared with a run on the fewest ranks. At 1.0
# nothing is lost.

# %% [markdown]
# ### Exercise 3.20 · Efficiency
#
# Write `efficiency(ranks, samples, seconds)`. It gets three lists of the same length. Entry `k`
# belongs to one measurement: a step on `ranks[k]` ranks has `samples[k]` samples, over all ranks
# together, and takes `seconds[k]` seconds.
#
# For each measurement, take the samples that **one rank** gets through in a second. Divide it by
# the same figure of the measurement with the fewest ranks. Return the list of these ratios, in the
# order in which the measurements came. The smallest number of ranks occurs once. It need not stand
# first, and it need not be 1.

# %% [markdown]
# Two examples:
#
# * `efficiency([1, 4], [32, 32], [8.0, 4.0])` is `[1.0, 0.5]`. One rank alone gets through 4
#   samples a second. Each of four ranks gets through 2. This is strong scaling.
# * `efficiency([2, 8], [16, 64], [1.0, 1.25])` is `[1.0, 0.8]`. Each of two ranks gets through 8
#   samples a second, each of eight through 6.4. This is weak scaling.

# %%
def efficiency(ranks, samples, seconds):
    ### BEGIN SOLUTION
    each = [s / t / n for n, s, t in zip(ranks, samples, seconds)]
    of_fewest = each[ranks.index(min(ranks))]
    return [one / of_fewest for one in each]
    ### END SOLUTION

check("3.20", efficiency)

# %% [markdown]
# Eight ranks that compute on a laptop would measure its few cores. So computing is emulated here:
# each product of matrices sleeps as long as it would take at 1 GFLOP/s. Sleeping needs no core. The
# network is not emulated: each rank is on a machine of its own (02d), with a card of 50 MB/s.
# (`device="cpu"` is there for the emulation. Where a system has no such machines, the network is
# fast, and little is lost.)
#
# The model has 4 layers, and its gradients have 1.05 MB. DDP has a bucket for each layer. On one
# rank, 64 samples take about 100 ms.

# %%
flops, link = 1e9, card_megabytes_per_second * 1e6
computing_ms = 1e3 * scaling.predicted_seconds("strong", 1, samples, flops, link)[0]
network_ms = 1e3 * 2 * (8 - 1) / 8 * scaling.model_bytes() / link
print(f"one rank computes for {computing_ms:.0f} ms")
print(f"the all-reduce of 8 ranks takes {network_ms:.0f} ms, by formula")

# %%
faster = predict("Strong scaling, nothing hidden: a step on 1 rank, by one on 8", unit="times")

# %%
counts, times = [1, 2, 4, 8], {"strong": {}, "weak": {}}
for n in counts:
    machines = Machines.here([1] * n, bytes_per_second=link)
    run = launch(scaling.scale, samples, flops, world_size=n, machines=machines, device="cpu")
    for kind, of_rounds in run.values[0].items():
        times[kind][n] = of_rounds

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
strong = {n: median(of_rounds) for n, of_rounds in times["strong"].items()}
faster.compare(computing_ms / (computing_ms / 8 + network_ms), strong[1] / strong[8],
               kind="communication")

# %% tags=["nbval-ignore-output"]
def batch_of(kind, n):
    return samples if kind == "strong" else samples * n

Table(["ranks", *(f"{kind}: {what}" for kind in times for what in ("batch", "step"))],
      [[n, *(cell for kind in times
             for cell in (batch_of(kind, n), f"{1e3 * median(times[kind][n]):.0f} ms"))]
       for n in counts])

# %% tags=["cover", "nbval-ignore-output"]
ends = {kind: [batch_of(kind, n) for n in counts] for kind in times}
measured_efficiency = {
    kind: scaling.efficiencies(counts, ends[kind], times[kind]) for kind in times}
plot_spreads({f"{kind} scaling": {"measured": measured_efficiency[kind]} for kind in times},
             "ranks", "efficiency", logarithmic="x", highest=1.15,
             predicted=scaling.predicted_efficiencies(counts, samples, flops, link),
             title="DDP on 1 to 8 ranks, computing emulated")

# %% [markdown]
# With weak scaling each rank computes for 100 ms, however many ranks there are, and communication
# can hide behind it. With strong scaling the computing becomes shorter, and soon nothing is left to
# hide behind. Eight ranks compute for 12.5 ms each, and the all-reduce takes 37 ms. And eight
# processes of Python share the cores of this computer, too: that may bring the last dots below both
# lines.

# %% [markdown]
# **Amdahl's law** says the same for any program. If a share $s$ of the time does not shrink with
# more ranks, then $n$ ranks are at most
#
# $$\frac{1}{s + (1 - s)/n}$$
#
# times as fast, and infinitely many are $1/s$ times as fast. In DDP the part that does not shrink
# is the all-reduce. It even grows: from $X/B$ for two ranks towards $2X/B$ for many, where $X$ are
# the bytes of the gradients and $B$ is the speed of a link.

# %%
limit = computing_ms / (1e3 * 2 * scaling.model_bytes() / link)
print(f"strong scaling of this training: never more than {limit:.1f} times as fast")

# %% [markdown]
# *Break it.* Set `card_megabytes_per_second` to 200. Which of the two efficiencies changes more?
#
# **On GPUs.** Megatron-LM's [README](https://github.com/NVIDIA/Megatron-LM) of 2024 has strong
# scaling at its best: GPT-3 with a batch of 1,152 sequences, on 96 H100 and then on 4,608. The
# share of the peak that is reached falls from 47 to 42 %. That is an efficiency of 0.89 with 48
# times as many GPUs. There, tensor and pipeline parallelism share the work with data parallelism.

# %% [markdown]
# A measured efficiency may be above 1. Mostly it is noise, which is why the picture has bars. It
# can be real if the work of a rank has changed: a smaller share fits into a cache, or larger
# products are more efficient. Before you believe it, find the reason.

# %% [markdown]
# ## 3 · Large batches
#
# So weak scaling is the way to go: each rank keeps its samples, and the batch grows. But does
# training get better from larger batches? With a batch that is $k$ times as large, the same data
# give $k$ times fewer steps. If each step is as long as before, the training only gets a part of
# the way.

# %% [markdown]
# Goyal et al. (2017) use a simple rule, **linear scaling**: for a batch $k$ times as large, take a
# learning rate $k$ times as large. One large step then goes about as far as $k$ small ones. As
# large rates are dangerous at the beginning, they add a **warm-up**: the rate grows to its full
# size during the first epochs.

# %% [markdown]
# The lab [large_batches](../labs/large_batches.py) tries this in one process. A small network
# learns handwritten digits with SGD and momentum. Its learning rate of 0.05 suits a batch of 32.
# Each training has the same number of samples, 12 passes over the data. Five seeds each.
#
# With a batch of 1,024 there are 16 steps in place of 538. Which loss do you expect with linear
# scaling, if the small batch ends at 0.05?

# %%
large = predict("Loss after 12 passes, batch 1,024, learning rate 32 times as large", unit="loss")

# %%
large_batches, digits = lab("large_batches"), lab("gradient_accumulation").digits()
batches = [32, 64, 128, 256, 512, 1024]
found = large_batches.try_batches(digits, batches, passes)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; the rule would give the loss of the small batch.
losses, accuracies = (large_batches.of_rules(found, which) for which in (0, 1))
large.compare(median(losses["constant"][32]), median(losses["linear"][1024]), kind="other")

# %% tags=["nbval-ignore-output"]
plot_spreads({"": losses}, "batch", "training loss", logarithmic="xy",
             title=f"After {passes} passes over the same data: loss with five seeds")

# %% tags=["nbval-ignore-output"]
Table(["batch", "steps", *losses],
      [[batch, large_batches.steps_of(digits, batch, passes),
        *(f"{100 * median(accuracies[rule][batch]):.1f} %" for rule in accuracies)]
       for batch in batches], title="Accuracy on test images, median of five seeds")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the numbers of this run say.
print(large_batches.what_was_found(losses))

# %% [markdown]
# A constant rate loses at once: fewer steps of the same length do not get there. The linear rule
# repairs this over a wide range of batches. Then it breaks, and all at once: the rate has become
# larger than this network can stand. The seeds, which had agreed, now differ widely.
#
# What the rule assumes explains it. $k$ small steps can be replaced by a large one as long as the
# gradient hardly changes on the way. When the large step goes too far, this is wrong.

# %% [markdown]
# Goyal et al. trained ResNet-50 on ImageNet with batches of 8,192 on 256 GPUs in one hour, and lost
# no accuracy. They report a scaling efficiency of about 90 % from 8 to 256 GPUs. Beyond 8,192
# their accuracy fell, too.
#
# This toy shows that there is a limit. It does not show where the limit is for your model, and it
# says nothing about whether a warm-up helps there: with 16 steps there is hardly time to warm up.
# McCandlish et al. (2018) estimate the limit from the noise of the gradients. The noisier they
# are, the larger a batch may usefully be.

# %% [markdown]
# ## Put to the test
#
# What the sources say about scaling. (To count steps to a loss, the best of several learning rates
# is taken for each batch.)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the statements need.
needed = large_batches.steps_to(0.25, digits, (16, 64, 256, 1024))
at_8 = {kind: median(measured_efficiency[kind][8]) for kind in times}
hidden = scaling.hidden_share(times["weak"][1], times["weak"][8], 8, link)
gpt3, seven = 175e9, 2 * 7 / 8 * 2 * 7e9  # weights; bytes that a rank of 8 sends for 7B in bf16

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(f"""
- [C094] Near-linear scaling with proper configuration | web page, “Advantages & Limitations” |
  depends | efficiency on 8 ranks, computing emulated: weak {at_8["weak"]:.2f}, strong
  {at_8["strong"]:.2f} (section 2)
- [C086] Data parallel raises throughput, as the batch grows | CS 229S, “Data Parallelism” | depends
  | samples per second do grow (section 2). But steps to a loss of 0.25:
  {", ".join(f"{n} with batches of {b}" for b, n in needed.items())} (section 3)
- [C089] Throughput ≈ min(compute, memory, network) | book chapter, “The Efficiency Equation” |
  imprecise | only if all three overlap. DDP on 8 ranks hid {hidden:.0%} of its communication; “min”
  missed a step by up to {scaling.farthest(steps, by_rates)[0]:.1f} times (section 1)
- [C090] Memory bound: use ZeRO-3 or FSDP | book chapter, “The Efficiency Equation” | wrong | that
  bound is a rate, here {rates["memory"] / 1e9:.1f} GB/s (section 1). ZeRO-3 saves room, and sends
  more (06)
""", more=f"""
- [C085] If the model fits in GPU memory, DDP is the fastest | book chapter, “When to Use What?” |
  depends | of the exact ways none sends fewer bytes, and ZeRO-1 can send as few; 06 races them
- [C087] Weights and activations have to fit; GPT-3 does not fit into 80 GB | CS 229S, “Data
  Parallelism” | right | {gpt3 * 2 / 1e9:.0f} GB of weights in 2 bytes; with gradients and Adam's
  state {gpt3 * 16 / 1e12:.1f} TB (05)
- [C088] Communication-intensive: every weight must be synchronized | CS 229S, “Data Parallelism” |
  right | 7B in bf16 on 8 ranks: each sends {seven / 1e9:.1f} GB in a step: {seven / 125e6:.0f} s at
  1 Gbit/s, {seven / 25e9:.2f} s at 25 GB/s
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Goyal et al. 2017, [Accurate, Large Minibatch
# SGD](https://arxiv.org/abs/1706.02677). McCandlish et al. 2018, [An Empirical Model of Large-Batch
# Training](https://arxiv.org/abs/1812.06162). Williams et al. 2009,
# [Roofline](https://doi.org/10.1145/1498765.1498785): arithmetic and memory in one picture; it is
# in 10b, too.

# %% [markdown]
# ## What you have learnt
#
# * Three rates bind a step: **arithmetic, memory, network**. What overlaps counts once, what does
#   not overlap adds up. A rate holds for the shape at which it was measured.
# * **Strong scaling** ends where the all-reduce takes longer than computing. **Weak scaling** hides
#   it longer, and the batch grows.
# * **Efficiency** is what one rank does, beside a run on the fewest ranks. It needs error bars.
# * For a larger batch, the **learning rate** grows in proportion, up to a limit. Beyond it, more
#   ranks bring more samples a second, and no better training.
#
# **Your exercise** stands in the cell above.
#
# **Next**: [03h · When it hangs](03h_when_it_hangs.ipynb).

# %%
progress("03g")
