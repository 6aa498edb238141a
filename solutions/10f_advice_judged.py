# %% [markdown]
# # 10f · Advice, judged
#
# **"Start with DDP." "tp 8, pp 4, dp 2 for 70B." "Never use tensor parallelism across machines."**
# Advice of this kind is everywhere, mostly without numbers. Here the planner answers it: how much
# slower is the advised plan than the best one? And when is the difference too small to say?

# %% [markdown]
# ![Three panels of coloured squares: models as rows, numbers of GPUs as columns; the colour is the
# kind of the fastest plan. Small models have DDP, large ones tp and pp; many squares are
# pale](../assets/covers/10f_advice_judged.png)
#
# *Computed in section 4: which kind of plan is the fastest. In a pale square another kind may be as
# fast, as the model of cost is not exact enough.*
#
# **After this part you can** turn advice into a decision with numbers, say when a prediction
# decides nothing, and test on which assumptions a verdict hangs.
#
# **It takes** about 30 minutes, and 35 more for 2 exercises. **It needs** parts
# [09g](09g_sixty_four_ranks.ipynb), [10](10_choosing_a_strategy.ipynb) and
# [10c](10c_published_runs.ipynb).

# %% jupyter={"source_hidden": true}
from itertools import pairwise

import numpy as np

from pedagogy_lib import (
    Table, check, explore, hint, lab, plot_against, plot_bars, plot_causes, plot_map, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
error = 0.25  # predictions that differ by a smaller share decide nothing
factor = 1.5  # by which a number of the engine may be wrong
engines = 40  # whose numbers are all wrong at once

# %% [markdown]
# ## 1 · When does a prediction decide?
#
# Nothing in this part is measured. All seconds are predictions of the model of cost, for
# `Engine()`, an engine with its default numbers. Part 10c holds predictions against published runs,
# one run at a time. Advice is about *two* plans: which one is faster? A model that predicts both
# 20 % too short still tells the faster one.
#
# So take pairs of published runs: the same model, the same batch, the same GPUs, and two plans. The
# planner says which of them is faster, and by what factor. How often is it right?

# %%
close_pairs = predict("Pairs predicted within 10 %: the faster plan is told right", unit="%")

# %%
advice, figures = lab("advice"), lab("advice_figures")
pairs = {name: figures.pairs(runs) for name, runs in figures.timed_runs().items()}
steps = figures.STEPS
shares = {name: [100 * figures.told_right(*of, low, high)[0]
                 for low, high in pairwise(steps)] for name, of in pairs.items()}

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" tossing a coin; and counted, for Megatron-DeepSpeed.
close_pairs.compare(50, shares["Megatron-DeepSpeed"][0], kind="forward", wire="counted")

# %% tags=["nbval-ignore-output"]
plot_bars([f"{low:g} to {high:g}" for low, high in pairwise(steps)], shares,
          "faster plan told right (%)", "predicted ratio of the two plans' seconds",
          title="Pairs of published runs, by how far apart they are predicted")

# %%
for name, of in pairs.items():
    share, count = figures.told_right(*of, 1 + error)
    print(f"{name}: {len(of[0]):,} pairs; of {count:,} that differ by {error:.0%} or more, "
          f"{share:.0%} right")

# %% [markdown]
# Where two predictions nearly agree, the planner is hardly better than a coin. Where they differ by
# a factor of 1.25 or more, it is nearly always right for Megatron-DeepSpeed. For nanotron it needs
# a factor of 2 without pipelines, and with pipelines no factor is enough: a third of these runs
# waited for slow messages, which no plan shows ([10c](10c_published_runs.ipynb)).
#
# So this part gives three verdicts. **Agrees**: the advised plan is faster than all others, by more
# than `error`. **Disagrees**: another plan is faster by more than that. **Cannot be told**: all
# else. They hold for software and networks that behave like those of Megatron-DeepSpeed's runs.

# %%
advice.verdict(100, 140, error), advice.verdict(100, 110, error), advice.verdict(140, 100, error)

# %% [markdown]
# ## 2 · The decision tree
#
# A source has a decision tree, but its picture is lost. Its text and a second source's table say
# what it must have asked: does the model fit into one GPU (DDP)? Do the parameters fit (ZeRO 2)?
# Does one layer fit, and is the model not too large (ZeRO 3)? Else: tp inside a machine, and as
# many stages as needed.
#
# ### Exercise 10.21 · The tree
#
# Write `walk(parameters, layers, memory, gpus, machine=8)` in
# [labs/advice.py](../labs/advice.py). The model has `layers` equal layers with `parameters`
# parameters in all. A GPU has `memory` bytes for states. There are `gpus` GPUs in machines of
# `machine` GPUs. Return a dict with `"dp"`, `"tp"`, `"pp"` and `"zero"`: the first of the following
# answers whose need is at most `memory`.

# %% [markdown]
# Each GPU needs:
#
# 1. dp is all GPUs, zero 0: 18 bytes for each parameter (2 for itself, 4 for its gradient, 12 for
#    the optimizer).
# 2. dp is all GPUs, zero 2: 2 bytes for each parameter, and 16 bytes for a share of `1 / gpus` of
#    them.
# 3. dp is all GPUs, zero 3, only below 100 billion parameters: 18 bytes for that share, and 2 bytes
#    for each parameter of one layer.
# 4. tp is `machine`, or `gpus` if that is smaller. pp is the smallest number that divides `layers`
#    and `gpus // tp`, for which `1 / (tp × pp)` of all parameters fits, with 18 bytes each. dp is
#    what remains, zero 0.

# %% [markdown]
# If nothing fits, raise a `ValueError`.
#
# For example, 100 parameters in 2 layers, on 4 GPUs in machines of 2. The four needs are 1,800
# bytes; 200 + 400 = 600; 450 + 100 = 550; and with tp 2, 900 for one stage, 450 for two. So with a
# memory of 1,000 it is `{"dp": 4, "tp": 1, "pp": 1, "zero": 2}`, with 560 the same with zero 3, and
# with 500 `{"dp": 1, "tp": 2, "pp": 2, "zero": 0}`. With 400 it is a ValueError.

# %%
check("10.21")

# %% [markdown]
# Now walk it for six models on three kinds of GPU. Half of a GPU's memory is for states, so that
# activations have room. A step has about four million tokens. The tree says nothing of
# micro-batches, recomputation and chunks: it gets the best ones. Its plan meets all other plans
# that fit, with cp 1, as the sources know no context parallelism.

# %% tags=["nbval-ignore-output"]
tree = figures.tree_map(["A100-40GB", "H100", "H200"], [8, 64, 512, 1024], error)
plot_map(tree, figures.TREE_KINDS, "GPUs",
         title="Seconds of the tree's plan, over those of the fastest plan")

# %%
cells = [cell for rows in tree.values() for row in rows.values() for cell in row.values()]
ratios = [float(text) for kind, text, _ in cells if text not in ("", "?", "∞")]
for kind in figures.TREE_KINDS:
    print(f"{kind}: {sum(cell[0] == kind for cell in cells)} of {len(cells)}")
print(f"at most 10 % slower than the fastest plan: {sum(r <= 1.1 for r in ratios)} of "
      f"{len(ratios)}; median {np.median(ratios):.2f}, largest {max(ratios):.2f}")

# %% [markdown]
# The tree is better than it looks: its plan is rarely far from the best. It never *wins*, as its
# neighbours, with one number changed, are about as fast.
#
# Where it fails, it fails completely. **It never asks for the batch.** Four million tokens are 512
# samples of 8,192 tokens; no plan gives them to 1,024 copies. And it never asks for the
# activations: 8 billion parameters on few GPUs fit as states, but then everything has to be
# recomputed. A question mark is a case in which the tree finds nothing that fits, and the planner
# does: it fills more than half of the memory with states, or splits them with ZeRO 1 along dp.

# %% [markdown]
# ## 3 · Sentence by sentence
#
# The sources' other advice, for the jobs that they name; where they name none, for one that shows
# it. The ratio is the fastest plan that follows the advice over the fastest one that does not.
# First a number for the head: the sources train 70B on 64 H100 with tp 8, pp 4, dp 2 and a batch of
# 1,024.

# %%
slower = predict("tp 8, pp 4, dp 2 for Llama 3 70B on 64 H100: seconds over the best plan's",
                 unit="times")

# %%
advised = {one.text: one for one in advice.all_advice()}
mesh = advised["70B, 64 H100: tp 8, pp 4, dp 2"]
follows, against = mesh.two()

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" a plan that is as good as the best; and the planner's ratio.
slower.compare(1, follows / against, kind="forward", wire="simulated")

# %% tags=["nbval-ignore-output"]
choices = [mesh.contest.choice(mesh.follows), mesh.contest.choice(mesh.against),
           mesh.contest.choice(mesh.contest.like(tp=1, pp=1, zero=3)),
           mesh.contest.choice(mesh.contest.like(tp=8, pp=1))]
choices = [one for one in choices if one]  # without those that do not fit
plot_causes({figures.in_words(one.plan): one.seconds for one in choices},
            title="70B on 64 H100 in four ways")

# %% [markdown]
# From above: the plan as advised, the fastest one, ZeRO 3, and tp 8 without a pipeline. Plans with
# tp 8 pay with sums along tp; the fastest one has fewer of them, and a deeper pipeline. ZeRO 3 pays
# with recomputation, as its activations would not fit. Seconds are not all: a plan with more room
# left survives a longer sample.

# %%
for one in choices:
    print(f"{figures.in_words(one.plan)}: {one.memory['total'] / 1e9:.0f} GB, most beside "
          f"computing: {one.binds}")

# %% [markdown]
# ### Exercise 10.22 · On what does a verdict hang?
#
# The engine's numbers are assumptions: which share of a link's speed a collective gets, how much of
# dp's time nothing hides. If one of them is wrong, does the verdict change?
#
# Write `flips(judge, engine, names, factor)` in [labs/advice.py](../labs/advice.py). `engine` is a
# frozen dataclass of numbers. `judge(engine)` returns a verdict, a word. For each name in `names`,
# take two other engines: in one this number is divided by `factor`, in the other it is multiplied
# by `factor`. All other numbers stay. Return the list of the names for which at least one of the
# two has another verdict than `engine` itself, in the order of `names`, each once.

# %% [markdown]
# For example, `inside` and `across` are both 0.5, and `judge` says `"agrees"` if `inside` is above
# 0.4, else `"disagrees"`. With the names `("inside", "across")` and the factor 1.5, the first
# engine has an `inside` of 0.333, and the verdict `"disagrees"`. So the result is `["inside"]`.

# %%
check("10.22")

# %% [markdown]
# Here are all verdicts, with the numbers on which they hang. The last column changes all numbers at
# once: how many engines, each number wrong by a random factor of at most `factor`, give the same
# verdict?

# %% tags=["nbval-ignore-output"]
rows = figures.verdict_rows(advised.values(), error, factor, engines)
Table(["advice", "ratio", "verdict", f"hangs on (÷ or × {factor:g})", f"of {engines} engines"],
      rows, title=f"Predicted seconds; differences below {error:.0%} decide nothing")

# %%
words = [row[2] for row in rows]
print(", ".join(f"{word}: {words.count(word)}" for word in dict.fromkeys(words)))
print(f"hang on no single number: {sum(row[3] == 'none' for row in rows)} of {len(rows)}")
slow_messages = advice.replace(advice.Engine(), message=0.25)  # as in nanotron's slow runs, 10c
changed = sum(one.judge(error)(slow_messages) != one.judge(error)(advice.Engine())
              for one in advised.values())
print(f"with messages of 0.25 s between stages: {changed} verdicts change")

# %% [markdown]
# Most verdicts are "cannot be told". That is a result: by the model, very different plans are
# nearly as fast as each other. Whoever claims that one is clearly best knows something that the
# model does not, or has measured it.
#
# And one more warning. With the slow messages of a real cluster, verdicts about pipelines
# change. Measure your messages first (10b).

# %% [markdown]
# ## 4 · Which strategy wins where?
#
# Advice names a model. But the batch, the memory and the network decide as well. Here are all kinds
# of plans, for six models on 8 to 4,096 GPUs, with three kinds of machine. A square is strong in
# colour only if all other kinds are slower by more than `error`.

# %%
machines = {"H100, 50 GB/s for each GPU": figures.with_network("H100"),
            "with 6.25 GB/s": figures.with_network("H100", across=6.25e9),
            "with 50 GB/s, 141 GB of memory": figures.with_network("H200")}
phases = figures.phases(machines, [8, 32, 128, 512, 2048, 4096], error)

# %% tags=["cover", "nbval-ignore-output"]
plot_map(phases, list(figures.KINDS), "GPUs", note="another kind may be as fast",
         title="The kind of the fastest plan; the numbers are tp·pp·dp")

# %%
for panel, models in phases.items():
    found = [cell for row in models.values() for cell in row.values()]
    some = [cell for cell in found if cell[0] != advice.UNFIT]
    print(f"{panel}: {len(some)} of {len(found)} fit, {sum(sure for *_, sure in some)} are sure")

# %% [markdown]
# Read it in three directions. **Down**: a larger model leaves DDP when its states or activations no
# longer fit. **Right**: with the same batch, more GPUs mean fewer samples for each copy, until
# there are not enough of them; then tp and pp use the rest. **Across**: a slower network pushes dp
# and ZeRO 3 out, as their traffic crosses machines; more memory brings DDP back.
#
# ZeRO 3 wins between: the states do not fit, the network is fast, and each GPU has enough samples.
# But there its square is pale.

# %% [markdown]
# ## 5 · tp across machines
#
# "Never use TP across nodes." For Llama 3 the question does not arise: it has 8 heads of keys, and
# the planner cuts none of them. GPT-3 has 96. "10 to 30 times slower layers", says a source. Take
# 16 GPUs and a layer of GPT-3. Two groups with tp 8 work on two samples at once, or one group with
# tp 16 on one after the other. How many times as long does that take?

# %%
layer = predict("Two samples through a layer: tp 16 over two machines, beside tp 8",
                unit="times")

# %%
speeds = [1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9, 200e9, 450e9]
layers = dict(zip(speeds, figures.slower_layer("GPT-3 175B", "H100", speeds)))

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" the source's smallest number; and the model of cost at 50 GB/s.
layer.compare(10, layers[50e9], kind="communication", wire="simulated")

# %%
print(", ".join(f"{times:.1f} with {speed / 1e9:.3g} GB/s"
                for speed, times in layers.items() if speed < 25e9))
lines = figures.by_network("GPT-3 175B", 1024, "H100", 2048, speeds)
enough = [x for x, a, b in zip(speeds, *lines.values()) if b <= (1 + error) * a]
print(f"tp over two machines is within {error:.0%} from {enough[0] / 1e9:g} GB/s on"
      if enough else "no such network is fast enough")

# %% tags=["nbval-ignore-output"]
plot_against([x / 1e9 for x in speeds], lines, "GB/s between machines, for each GPU",
             "seconds of a step", logarithmic=True, title="GPT-3 175B on 1,024 H100")

# %% [markdown]
# With a card of 400 Gb/s (50 GB/s) for each GPU, the layer takes less than twice as long: all eight
# cards of a machine carry a part of each sum. A factor of 10 to 30 needs cards of 10 to 25 Gb/s
# (1.25 to 3.1 GB/s). So the rule is about bandwidth, not about machines. Where 72 GPUs share one
# NVLink network, "inside" means 72
# ([NVIDIA](https://www.nvidia.com/en-us/data-center/gb200-nvl72/)).

# %% [markdown]
# ## 6 · A table of words, in numbers
#
# A source compares strategies by words, from "low" to "highest". Here stand its words beside what
# the model computes for 8 billion parameters on 64 H100, 512 samples, nothing recomputed, one
# sample at a time. "Complexity" has no number: nobody can compute it.

# %%
job = advice.Contest("Llama 3 8B", 64, "H100", 512).job
Table(["strategy", "memory efficiency", "states", "activations", "communication", "exposed",
       "bubble", "a step"],
      figures.strategy_rows(job), title=f"Of {job.gpu.memory / 1e9:.0f} GB on each GPU")

# %%
microbatches = [1, 2, 4, 8]
for m, times in zip(microbatches, figures.zero_3_sends(microbatches)):
    print(f"micro-batches of a rank: {m}; ZeRO 3 sends {times:.3g} times as much as DDP")

# %% [markdown]
# The words mix two things. tp divides the *states* by 8, pp by a little less (its first stage has
# the embedding), ZeRO 3 by 64. tp also divides the *activations*; a pipeline under 1F1B and ZeRO
# hardly do. Here 3D needs the least of both together. And ZeRO 3's communication is not one number:
# one source says 50 % more than DDP, another three times. Both are right, for one and for two
# micro-batches. Engines that reduce once a step send less (06b).

# %% [markdown]
# ## 7 · Your own job
#
# The first bar is the tree's plan, if it has one that is possible. Below it are the fastest plans,
# one for each mesh and stage of ZeRO, here with context parallelism (cp), too. Where nothing fits,
# the planner says how much would.

# %% tags=["nbval-ignore-output"]
def show(model, gpu, gpus, samples):
    bars = figures.best_bars(model, gpus, gpu, samples)
    return plot_causes(bars, title=f"{model} on {gpus} {gpu}, {samples:,} samples in a step")

explore(show, model=["Llama 3 70B", *(name for name in advice.NAMES if name != "Llama 3 70B")],
        gpu=["H100", "A100-40GB", "A100", "H200", "B200", "V100"],
        gpus=[64, 8, 16, 32, 128, 256, 512, 1024], samples=[1024, 64, 128, 256, 512, 2048, 4096],
        labels={"gpu": "kind of GPU", "gpus": "number of GPUs", "samples": "samples in a step"})

# %%
print(figures.why_not(advice.Contest("Llama 3 70B", 64, "H100", 1024).planned))

# %% [markdown]
# ## Put to the test
#
# Verdicts on the sources' sentences. Each is computed above: for other jobs it may be another one.

# %% jupyter={"source_hidden": true}
found = {row[0]: row for row in rows}

def said(text):
    return f"{found[text][2]} | ratio {found[text][1]}"

put_to_the_test(f"""
- Start with DDP if the model fits | web page |
  {said("1.6B, 64 H100: DDP, as it fits")} to the best other plan (section 3)
- Model does not fit: ZeRO 3 | web page |
  {said("70B, 64 H100: ZeRO 3, as it does not fit")}: 70B on 64 H100 (section 3)
- 70B on 64 H100: tp 8, pp 4, dp 2 | web page |
  {said("70B, 64 H100: tp 8, pp 4, dp 2")} with a batch of 1,024 (section 3)
- tp 8, pp 8, dp 16 on 1,024 H100 | web page |
  {said("175B, 1,024 H100: tp 8, pp 8, dp 16")} for GPT-3, {found[
  "405B, 1,024 H100: tp 8, pp 8, dp 16"][1]} for Llama 3 405B (section 3)
- Never use tp across nodes | web page |
  {said("175B, 1,024 H100: tp inside machines only")} with 50 GB/s (sections 3 and 5)
- At least 4 micro-batches for each stage | web page |
  {said("175B, pipelines: 4 micro-batches a stage")} among pipelines of 175B (section 3)
- Fine-tune 7B on 4 A100 40 GB: ZeRO 3, recomputation | web page |
  {said("7B, 4 A100 40 GB: ZeRO 3, recomputation")}, 64 samples of 4,096 tokens (section 3)
- ZeRO 3 sends 3 times as much as DDP | course | depends | 1.5 times for each micro-batch of a rank
  (section 6)
""")

# %% [markdown]
# Three applications are not of this model of cost. Inference with tp has no backward. Experts are
# in chapter 09e. Offload to the CPU needs the speed of another link; without it, ZeRO 2 does not
# fit a 7B model into V100s of 32 GB.
#
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); a course's chapter on data
# parallelism. The published runs and their licences: [labs/published](../labs/published/README.md).

# %% [markdown]
# ## What you have learnt
#
# * A comparison of two predictions has an **error** of its own. Below it, the honest verdict is
#   *cannot be told*.
# * The **decision tree** finds good plans, but it never asks for the batch, the activations and the
#   network.
# * A verdict is worth as much as the assumptions on which it hangs: change them, and **count what
#   flips**.
# * Which strategy wins is a **map**, and its borders move with batch, memory and network.
#
# **Your exercises** stand in [labs/advice.py](../labs/advice.py).
#
# **Next**: chapter 11, the capstone, is still being written; the
# [map](00_start_here.ipynb#7-·-The-map) in chapter 00 has all of them.

# %%
progress("10f")
