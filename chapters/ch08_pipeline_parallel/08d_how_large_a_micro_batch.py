# %% [markdown]
# # {{title}}
#
# **A batch can be cut into many small micro-batches or into few large ones. Which size makes the
# shortest step?** Many make the bubble small. But a small micro-batch uses a processor badly. You
# measure both sides, and write the function that chooses.

# %% [markdown]
# ![Time of a step over the samples of a micro-batch, measured and predicted, for six sizes from 1
# to 32 samples](../assets/covers/08d_how_large_a_micro_batch.png)
#
# *Measured in section 2: a step of 32 samples on two stages, with micro-batches of six sizes.*
#
# **After this part you can** measure what a micro-batch costs, and choose its size for a batch and
# a number of stages.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

from pedagogy_lib import (
    Table, check, compare_rounds, hint, lab, launch, plot_against, predict, progress,
    put_to_the_test, simulate,
)

# %% tags=["parameters"]
rounds = 12

# %% [markdown]
# ## 1 · What a micro-batch costs
#
# In part 08 each micro-batch took the same time, whatever its size. Real ones do not. Two samples
# take less than twice the time of one, for two reasons.
#
# * Every operation costs something before it computes: Python calls it, and a GPU launches a
#   kernel.
# * A weight that comes from memory is used for all samples of a micro-batch. With more samples
#   there is more computing for each byte that is read. That ratio is called **arithmetic
#   intensity**.

# %% [markdown]
# A small transformer is cut into two stages, with one block each. How long does a micro-batch of
# $b$ samples take, forward and backward, on the slower stage? The quickest of several rounds
# counts, as other programs can only add to it. (Here real computing is timed on the CPU, so the
# cells of this part ask for `device="cpu"`.)

# %% tags=["nbval-ignore-output"]
sizes = lab("micro_batch_sizes")
all_rounds = launch(sizes.times_of, sizes.SIZES, rounds, world_size=1, device="cpu").values[0]
seconds_of = {b: min(times) for b, times in all_rounds.items()}
Table(["samples", "forward and backward", "for each sample"],
      [[str(b), f"{1e3 * took:.2f} ms", f"{1e3 * took / b:.2f} ms"]
       for b, took in seconds_of.items()])

# %% [markdown]
# Read the last column from top to bottom. Where is a sample most expensive, and from which size on
# do larger micro-batches gain little? If a sample costs most where it is alone, this column says:
# take large ones. The bubble says: take small ones.

# %% [markdown]
# > **On GPUs** this is stronger. An H100 can do about 295 operations in bfloat16 in the time in
# > which it reads one byte: 989 TFLOP/s over 3.35 TB/s. ([NVIDIA's
# > page](https://www.nvidia.com/en-us/data-center/h100/) gives twice as many FLOP/s, for sparse
# > weights.) A product with $t$ tokens does $2t$ operations for each weight, and reads 2 bytes for
# > it: $t$ operations a byte. So with less than about 300 tokens in a micro-batch the memory sets
# > the pace, and half the tokens take as long. (One sample of a large model has thousands of
# > tokens. Short slices of a sample, in part [08i](08i_slices_of_a_sequence.ipynb), bring the limit
# > back.) All this is calculated.

# %% [markdown]
# > Measured once, on an H100 SXM with torch 2.11: a product with a matrix of 8192 × 32,768 took 183
# > µs for 100 tokens, 193 µs for 200, 303 µs for 400, and 721 µs for 1,024.

# %% [markdown]
# ## 2 · The best size
#
# A step of $m$ micro-batches on $p$ stages takes as long as $m + p - 1$ of them, forward and back
# (part 08). Say a micro-batch of 1 sample takes 3 s, of 2 samples 4 s, and of 4 samples 7 s. There
# are 4 samples and 3 stages.

# %%
best = predict("Which size makes the shortest step?", unit="samples")

# %% jupyter={"source_hidden": true}
# Your prediction, and the size with the shortest of three steps.
steps = {b: (4 // b + 3 - 1) * took for b, took in {1: 3, 2: 4, 4: 7}.items()}
best.compare(theory=2, measured=min(steps, key=steps.get), wire="counted")

# %% [markdown]
# With 1 sample each there are 4 micro-batches: a step takes $(4 + 2) \cdot 3 = 18$ s. With 2
# samples it takes $(2 + 2) \cdot 4 = 16$ s. With all 4 in one it takes $(1 + 2) \cdot 7 = 21$ s.

# %% [markdown]
# ### Exercise {{best_size}} · The best micro-batch size
#
# Write `best_size(seconds_of, samples, stages)`. `seconds_of` is a dictionary like the table above:
# {size of a micro-batch: seconds of its forward and backward on a stage}. All stages are equally
# fast. A batch has `samples` samples, in micro-batches of one size: only sizes that divide
# `samples` count, and at least one of them does. Return the size, one of the keys, with which a
# step is shortest.
#
# The example above is `best_size({1: 3.0, 2: 4.0, 4: 7.0}, samples=4, stages=3)`, which is 2. With
# `samples=6` the size 4 does not count.

# %%
def best_size(seconds_of, samples, stages):
    """The size of a micro-batch, of those in seconds_of, with the shortest step."""
    ### BEGIN SOLUTION
    def step_seconds(size):
        return (samples // size + stages - 1) * seconds_of[size]
    return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
    ### END SOLUTION

check("{{best_size}}", best_size)

# %% [markdown]
# Predicted from the table and measured: batches of 32 samples under 1F1B, on two ranks that really
# compute.

# %% tags=["nbval-ignore-output"]
of_ranks = launch(sizes.step_times, world_size=2, device="cpu").values
of_steps = sizes.slowest_rank(of_ranks)
measured = {b: 1e3 * min(times) for b, times in of_steps.items()}
expected = {b: 1e3 * (32 // b + 1) * took for b, took in seconds_of.items()}

# %% tags=["cover", "nbval-ignore-output"]
plot_against(list(measured), {"a step": list(measured.values())}, "samples in a micro-batch",
             "time (ms)", predicted={"a step": list(expected.values())}, logarithmic=True,
             title="Two stages, 32 samples: which micro-batches?")

# %% tags=["nbval-ignore-output"]
fastest = sizes.name_quickest(of_steps)  # more than one if no difference was seen
print(f"best size: predicted {min(expected, key=expected.get)} samples, measured {fastest}")
print("measured / predicted:", *(f"{measured[b] / expected[b]:.1f}" for b in measured))

# %% [markdown]
# The last line begins with the smallest micro-batches. The prediction leaves out messages, two for
# each micro-batch and boundary. It also leaves out that the ranks share one memory and a few cores.
# (And it takes both stages to be as slow as the slower one. So the ratio may even be less than 1.)
#
# Where the ratio is larger on the left than on the right, messages are the likely reason: small
# micro-batches have most of them. Messages make large micro-batches better, so the best size may be
# larger than predicted.

# %% [markdown]
# ## 3 · A rule of thumb
#
# Texts repeat a rule of GPipe's paper: take at least four times as many micro-batches as stages.
# What is left idle then?

# %%
left = predict("Idle share with 64 stages and 256 micro-batches", unit="%")

# %%
schedules = lab("schedules")
rule = {p: simulate(schedules.rows_of(schedules.one_f_one_b, p, 4 * p)).idle_share
        for p in (2, 4, 16, 64)}
print("idle:", ", ".join(f"{p} stages {share:.1%}" for p, share in rule.items()))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was simulated.
left.compare(theory=100 * 63 / (5 * 64 - 1), measured=100 * rule[64], wire="simulated")

# %% [markdown]
# The rule leaves $\frac{p-1}{5p-1}$ of the whole time idle: 11 % with two stages, and nearly 20 %
# with many. It is a place to begin, and no law. How many more micro-batches you can have depends on
# two things: on the batch that training can bear, as a larger batch may need more samples for the
# same loss (part [03l](03l_large_batches.ipynb)), and on the picture above.

# %% [markdown]
# ## Put to the test
#
# What our sources say about micro-batches, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Figures for the statements below.
by_sample = {b: 1e3 * took / b for b, took in seconds_of.items()}
cheaper = compare_rounds(*([took / b for took in all_rounds[b]] for b in (32, 1))).word == "quicker"
many = simulate(schedules.rows_of(schedules.gpipe, 4, 512)).idle_share
pipelines, pace = lab("emulated_pipelines"), {"F": 0.010, "B": 0.020}
turns = pipelines.take_turns({m: (schedules.rows_of(schedules.gpipe, 4, m), pace)
                              for m in (4, 16, 64)})
idle_with = {m: median(one.idle_share for one in of) for m, of in turns.items()}
smaller = pipelines.compare_idle(turns, 64, 4).high < 0.7
falls = pipelines.compare_idle(turns, 16, 64).low > 1.3

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
surprises = f"""
- [C175] Use at least 4 times as many micro-batches as stages | web page, “Best Practices” |
  {"depends" if falls else "not decided by this run"} | on what idle time one accepts, and on what
  small micro-batches cost. With 16 for 4 stages {idle_with[16]:.0%} of the time was idle, and
  {idle_with[64]:.0%} with 64 (medians of three rounds in this section; computing emulated). The
  rule leaves {rule[4]:.1%} with 4 stages, {rule[64]:.1%} with 64 (section 3, run; simulated). On
  two stages, where it asks for 8 micro-batches, 32 samples were fastest in micro-batches of
  {fastest} (section 2, run) | measured: the best number. Expected: a GPU loses more with small
  products than a CPU does
- [C176] Micro-batches reduce idle time, but utilisation stays poor | web note, “Pipeline Parallel
  (Model Parallel)”; CS 229S, “Pipeline Parallelism” |
  {"depends on how many" if smaller else "not decided by this run"} | on
  4 ranks {idle_with[4]:.0%} was idle with 4 micro-batches, and {idle_with[64]:.0%} with 64
  (measured in this section; computing emulated). With 512 it would be {many:.1%} (simulated) |
  measured: nothing in the rule; samples for so many micro-batches, and messages that take time, set
  a limit
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C178] Larger micro-batches have a higher arithmetic intensity, smaller ones a smaller bubble |
  CS 229S, “Pipeline Parallelism” |
  {"right, by time" if cheaper and smaller else "not seen in this run"} | a sample takes
  {by_sample[1]:.2f} ms alone, and {by_sample[32]:.2f} ms among 32 (section 1, table): intensity
  shows in this time. On 4 ranks {idle_with[4]:.0%} was idle with 4 micro-batches, and
  {idle_with[64]:.0%} with 64 (measured in this section; computing emulated) | measured: how much.
  Expected: a GPU needs larger products than a CPU to be busy
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford); a web note on types of distributed training.
#
# **To read on.** Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), 2018: the rule, and how
# it was measured.

# %% [markdown]
# ## What you have learnt
#
# * A sample costs less in a larger micro-batch, and the bubble is smaller with smaller ones. So
#   there is a best size between them.
# * Measure a table of sizes once. The step takes $m + p - 1$ times what the table says, and
#   messages come on top.
# * Four micro-batches for each stage still leave up to 20 % idle.
#
# **Your exercise** stands in a cell above: 8.10.
#
# **Next**: {{next}}.

# %%
progress("08d")
