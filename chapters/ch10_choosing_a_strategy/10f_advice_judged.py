# %% [markdown]
# # {{title}}
#
# **"Start with DDP." "tp 8, pp 4, dp 2 for 70B." "Never use tensor parallelism across machines."**
# Advice of this kind is everywhere, mostly without numbers. Here the planner judges it: how much
# slower is the advised plan than the best one? And when is the difference too small to decide?

# %% [markdown]
# ![Three panels of coloured squares: models as rows, numbers of GPUs as columns; the colour is the
# kind of the fastest plan, and it is pale where another kind may be as
# fast](../assets/covers/10f_advice_judged.png)
#
# *Computed in section 4: which kind of plan is the fastest. In a pale square another kind may be as
# fast: the cost model is not exact enough to decide.*
#
# **After this part you can** turn advice into a decision with numbers, say when a prediction
# decides nothing, and test which assumptions a verdict depends on.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from itertools import pairwise

import numpy as np

from pedagogy_lib import (
    Table, check, explore, hint, lab, plot_against, plot_bars, plot_causes, plot_map, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
error = 0.25  # two predictions on one machine that differ by a smaller share decide nothing
error_across = 0.5  # the same on more machines
factor = 1.5  # each number of an engine may be wrong by this factor
engines = 40  # so many engines are tried in which all numbers are wrong at once

# %% [markdown]
# ## 1 · When does a prediction decide?
#
# This part runs no training. All its seconds are predictions of the cost model of part 10. What
# this model assumes about software are the numbers of an **engine**: here `Engine()`, with default
# numbers. Part 10c compares such predictions with published runs, one run at a time.
#
# Advice is about *two* plans: which one is faster? A model that predicts both 20 % too short still
# names the faster one. So take pairs of published runs: the same model, the same batch, the same
# GPUs, and two plans. The planner says which of them is faster, and by what factor. How often is
# it right?

# %%
close_pairs = predict("One machine, predictions within 10 %: the faster plan is named", unit="%")

# %%
advice, figures = lab("advice"), lab("advice_figures")
runs = figures.group_timed_runs()
pairs = {name: figures.pairs(of) for name, of in runs.items()}
steps = figures.STEPS
shares = {name: [100 * figures.share_ranked_right(*of, low, high)[0]
                 for low, high in pairwise(steps)] for name, of in pairs.items()}

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" tossing a coin; and counted, for Megatron-DeepSpeed.
close_pairs.compare(50, shares["Megatron-DeepSpeed, one machine"][0], kind="forward",
                    wire="counted")

# %% tags=["nbval-ignore-output"]
plot_bars([f"{low:g} to {high:g}" for low, high in pairwise(steps)], shares,
          "faster plan named (%)", "predicted ratio of the two plans' seconds",
          title="Pairs of published runs, by how far apart they are predicted")

# %%
errors = error, error_across
Table(["runs", "pairs", *(f"{x:.0%} apart: right" for x in errors), "95 % from"],
      figures.scope_rows(pairs, errors), title="How often the faster plan is named")

# %%
for name, of in runs.items():
    print(f"{name}: {min(of.plan.ranks):.0f} to {max(of.plan.ranks):.0f} GPUs")

# %% [markdown]
# The first bars are pairs whose predictions nearly agree. There the model helps little: a coin
# would name the faster plan in half of the pairs. Predictions that are far apart decide more, and
# on one machine they decide sooner than on more. The last column says from which ratio on. The
# model is worst for nanotron's pipelines: many of these runs waited for slow messages, which no
# plan shows ([10c](10c_published_runs.ipynb)).

# %% [markdown]
# So this part gives three verdicts. **Agrees**: the best plan that follows the advice is faster
# than all other plans, by more than an error. **Disagrees**: another plan is faster, by more than
# this error. **Cannot be told**: neither of the two.
#
# The error depends on the scope: `error` for one machine, `error_across` for more. The first one is
# measured. The second one is a choice, because hardly any pair of Megatron-DeepSpeed's runs on more
# machines is so far apart; nanotron's runs without a pipeline support it, and its pipelines do not.
# More GPUs than these runs had, and other kinds of GPUs, are an extrapolation.

# %%
advice.verdict(100, 140, error), advice.verdict(100, 110, error), advice.verdict(140, 100, error)

# %% [markdown]
# ## 2 · The decision tree
#
# A web page shows a decision tree as a picture. This course has only the page's text. The text, and
# the table of a book's chapter, suggest these questions. Does the whole state fit into one GPU?
# Then take DDP. Do at least the parameters fit? Then take ZeRO 2. Does one layer fit, and is the
# model not too large? Then take ZeRO 3. Otherwise take tp inside a machine, and as many stages as
# needed.

# %% [markdown]
# ### Exercise {{walk}} · Choose a plan by decision tree
#
# Write `walk(parameters, layers, memory, gpus, machine=8)` in
# [labs/advice.py](../labs/advice.py). The model has `layers` equal layers with `parameters`
# parameters in all. A GPU has `memory` bytes for states. There are `gpus` GPUs in machines of
# `machine` GPUs: some full machines, or a part of one. Return a dict with `"dp"`, `"tp"`, `"pp"`
# and `"zero"`: the first of the following answers that needs at most `memory` bytes on each GPU.

# %% [markdown]
# The answers in their order. In answers 1 to 3, dp is all GPUs, and tp and pp are 1:
#
# 1. zero 0. A GPU needs 18 bytes for each parameter: 2 for itself, 4 for its gradient, 12 for the
#    optimizer.
# 2. zero 2. A GPU needs 2 bytes for each parameter. A share of `1 / gpus` of the parameters needs
#    16 bytes more for each.
# 3. zero 3, only below 100 billion parameters. A GPU needs 18 bytes for each parameter of its
#    share, and 2 bytes for each parameter of one layer.

# %% [markdown]
# The last answer cuts the model:
#
# 4. zero 0. tp is `machine`, or `gpus` if that is smaller. A GPU needs 18 bytes for each of
#    `1 / (tp × pp)` of all parameters. pp is the smallest number that fits and divides both
#    `layers` and `gpus // tp`. dp is what remains: `gpus // (tp × pp)`.
#
# If nothing fits, raise a `ValueError`.
#
# For example, 100 parameters in 2 layers, on 4 GPUs in machines of 2. The four needs are 1,800
# bytes; 200 + 400 = 600; 450 + 100 = 550; and with tp 2, 900 for one stage, 450 for two. So with a
# memory of 1,000 it is `{"dp": 4, "tp": 1, "pp": 1, "zero": 2}`, with 560 the same with zero 3, and
# with 500 `{"dp": 1, "tp": 2, "pp": 2, "zero": 0}`. With 400 it is a ValueError.

# %%
check("{{walk}}")

# %% [markdown]
# Now walk the tree for six models on three kinds of GPU. Half of a GPU's memory is for states, so
# that activations have room. A step has about four million tokens. The tree says nothing about
# micro-batches, recomputation and chunks: it gets the best ones. Then compare its plan with all
# other plans that fit, without context parallelism (cp 1), which the sources do not know.
#
# Llama 3 405B has 128 layers here in place of 126: the tree knows only stages of equal length.

# %% tags=["nbval-ignore-output"]
tree = figures.tree_map(["A100-40GB", "H100", "H200"], [8, 64, 512, 1024], errors)
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
# Where the tree has a possible plan, the last line says how far it is from the fastest one. For
# *agrees*, all other plans would have to be much slower. That is a hard test: a plan with one
# number changed is often about as fast.

# %% [markdown]
# Two questions are missing in the tree. **The batch**: four million tokens are 512 samples of 8,192
# tokens, and dp alone cannot share them out to 1,024 copies (∞). **The activations**: where the
# states fit, everything may have to be recomputed to make room for the activations.
#
# At a question mark the tree finds nothing that fits, and the planner does. The planner may fill
# more than half of the memory with states, or cut them with ZeRO 1 along dp.

# %% [markdown]
# ## 3 · Sentence by sentence
#
# Now the sources' other advice, for the jobs that they name. Where they name no job, the course
# chose one. The **ratio** divides the seconds of the fastest plan that follows the advice by those
# of the fastest plan that does not. Below 1, following the advice is faster. Plans that split the
# context (cp) are left out, as the advice knows none, but for Llama 3 405B, which was trained so.
#
# One example first. A web page trains "Llama 70B" on 64 H100 with tp 8, pp 4, dp 2 and a batch of
# 1,024. Here it is Llama 3 70B, with 8,192 tokens in a sample: the page names no length.

# %%
slower = predict("70B on 64 H100, tp 8 pp 4 dp 2: seconds over those of the best other plan",
                 unit="times")

# %%
advised = {one.text: one for one in advice.all_advice()}
mesh = advised["70B, 64 H100: tp 8, pp 4, dp 2"]
follows, against = mesh.two()

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" a plan that is as good as the best; and the planner's ratio.
slower.compare(1, follows / against, kind="forward", wire="simulated")

# %% tags=["nbval-ignore-output"]
kinds = {"as advised": mesh.follows, "the fastest other": mesh.against,
         "ZeRO 3": mesh.contest.match_sizes(tp=1, pp=1, zero=3),
         "no pipeline": mesh.contest.match_sizes(tp=8, pp=1)}
choices = {name: mesh.contest.choice(these) for name, these in kinds.items()}
choices = {name: one for name, one in choices.items() if one}  # without those that do not fit
plot_causes({f"{name}: {figures.describe_plan(one.plan)}": one.seconds
             for name, one in choices.items()}, title="Llama 3 70B on 64 H100: one step")

# %% [markdown]
# Each bar shows on what a plan spends time, beside computing. With the same tp, a pipeline saves no
# sums along tp: each rank has fewer layers, and as many times more micro-batches go through them. A
# smaller tp saves sums. A pipeline has a bubble, but its gradients are averaged once in a step,
# while ZeRO 2 reduces them after each micro-batch. ZeRO 3 sends parameters, and may have to
# recompute, as it cuts no activations. A plan with more memory left has room for longer samples.
# The machine decides, too: for Llama 3 70B, [NVIDIA's
# published configurations](https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/00b7660be0254ac6f95f44164ddd0c3e9cc798ed/docs/performance-summary.md)
# are tp 4, pp 8 on 64 H100 (batch 128), and FSDP alone on 64 GB200 (256), both in FP8.

# %%
for name, one in choices.items():
    print(f"{name}: {one.memory['total'] / 1e9:.0f} GB of 80; most beside computing: {one.binds}, "
          f"{one.seconds[one.binds] / one.seconds['total']:.0%} of the step")

# %% [markdown]
# ### Exercise {{flips}} · What does a verdict depend on?
#
# The engine's numbers are assumptions, such as `inside`: the share of a link's speed that a
# collective reaches inside a machine. If one is wrong, does the verdict change?
#
# Write `flips(judge, engine, names, factor)` in [labs/advice.py](../labs/advice.py). `engine` is a
# frozen dataclass of numbers. `judge(engine)` returns a verdict, a word. For each name in `names`,
# make two other engines with `dataclasses.replace`: in one this number is divided by `factor`, in
# the other it is multiplied by `factor`. All other numbers stay. Return a list of names, in the
# order of `names`, each once: those for which at least one of the two engines has another verdict
# than `engine` itself.

# %% [markdown]
# For example, an engine has two numbers, `inside` and `across`, both 0.5. `judge` says `"agrees"`
# if `inside` is above 0.4, else `"disagrees"`. The names are `("inside", "across")`, and the
# factor is 1.5. Divided, `inside` is 0.333, and the verdict becomes `"disagrees"`: so `inside` is
# in the list. With `across` at 0.333 or 0.75 the verdict stays. The result is `["inside"]`.

# %%
check("{{flips}}")

# %% [markdown]
# Here are all verdicts. "Depends on" names each number of the engine that changes the verdict if it
# alone is wrong by `factor`. For the last column all numbers are wrong at once, each by a random
# factor of at most `factor`. The column says how many of such engines give the same verdict.

# %% tags=["nbval-ignore-output"]
rows = figures.verdict_rows(advised.values(), errors, factor, engines)
Table(["advice", "ratio", "verdict", f"depends on (÷ or × {factor:g})", f"of {engines} engines"],
      rows, title=f"Below {error:.0%}, across machines below {error_across:.0%}, nothing is sure")

# %%
words = [row[2] for row in rows]
print(", ".join(f"{word}: {words.count(word)}" for word in dict.fromkeys(words)))
print(f"depend on no single number: {sum(row[3] == 'none' for row in rows)} of {len(rows)}")
slow_messages = advice.replace(advice.Engine(), message=0.25)  # as in nanotron's slow runs, 10c
changed = sum(one.judge(errors)(slow_messages) != one.judge(errors)(advice.Engine())
              for one in advised.values())
print(f"with messages of 0.25 s between stages: {changed} of {len(rows)} verdicts change")

# %% [markdown]
# Each "cannot be told" is a result: by the model, very different plans are nearly as fast as each
# other, or not far enough apart for its error. To claim that one of them is clearly best, you have
# to measure, or to know more than the model does. And the plan that looks best among many inexact
# predictions is probably predicted too fast. So a ratio a little above 1 is no proof against advice
# that names a single plan.
#
# The last line is a warning. It takes messages as slow as in some published runs. They make every
# pipeline slower, and change several verdicts. Measure your messages first (10b).

# %% [markdown]
# ## 4 · Which strategy wins where?
#
# Advice names a model. But the batch, the memory and the network decide as well. Here are all kinds
# of plans that split no context, for six models on 8 to 4,096 GPUs, with three kinds of machine,
# and always about four million tokens in a step. A square is strong in colour only if all other
# kinds are slower by more than the error of its scope.

# %%
machines = {"H100: 80 GB, 50 GB/s for each": figures.change_gpu("H100"),
            "H100: 80 GB, 6.25 GB/s": figures.change_gpu("H100", across=6.25e9),
            "H200: 141 GB, 50 GB/s": figures.change_gpu("H200")}
phases = figures.phases(machines, [8, 32, 128, 512, 2048, 4096], errors)

# %% tags=["cover", "nbval-ignore-output"]
plot_map(phases, list(figures.KINDS), "GPUs", note="another kind may be as fast",
         title="The kind of the fastest plan; the numbers are tp·pp·dp")

# %%
for panel, models in phases.items():
    found = [cell for row in models.values() for cell in row.values()]
    some = [cell for cell in found if cell[0] != advice.UNFIT]
    print(f"{panel}: {len(some)} of {len(found)} fit, {sum(sure for *_, sure in some)} are sure")
    print("  fastest:", ", ".join(f"{kind} {sum(cell[0] == kind for cell in some)}"
                                  for kind in figures.KINDS))

# %% [markdown]
# Read it in three directions.
#
# * **Down**, models grow: DDP ends where states or activations no longer fit.
# * **To the right**, GPUs are added, and the batch stays: a copy has fewer samples. When there are
#   more GPUs than samples, dp cannot use them alone. Then tp and pp do.
# * **From panel to panel**: dp's traffic crosses machines, so a slower network makes plans with a
#   large dp slower. ZeRO 3 sends most. More memory makes room for more copies of the states.
#
# The printed lines count for each panel which kind wins, and how many of the squares are sure.

# %% [markdown]
# ## 5 · tp across machines
#
# Never use tp across machines, says the web page: layers become 10 to 30 times slower. For Llama 3
# the planner has no plan with tp above 8: the model has 8 heads of keys, and the planner cuts no
# head. GPT-3 has 96 heads.
#
# Take 16 GPUs, and two samples that go through one layer of GPT-3. In the first way, two groups
# with tp 8, each inside a machine, work on one sample each. In the second way, one group with tp
# 16, over two machines, works on one sample after the other. How many times as long does the second
# way take?

# %%
layer = predict("Two samples through a layer: seconds with tp 16 over those with tp 8",
                unit="times")

# %%
speeds = [1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9, 200e9]  # bytes/s of each GPU
layers = dict(zip(speeds, figures.slower_layer("GPT-3 175B", "H100", speeds)))

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" the source's smallest number; and the cost model at 50 GB/s.
layer.compare(10, layers[50e9], kind="communication", wire="simulated")

# %%
print("GB/s of each GPU:", ", ".join(f"{speed / 1e9:.3g}" for speed in layers))
print("times as long:   ", ", ".join(f"{times:.1f}" for times in layers.values()))
ten = [speed for speed, times in layers.items() if times >= 10]
print(f"10 times and more: up to {max(ten) / 1e9:.3g} GB/s" if ten else "never 10 times")
lines = figures.time_tp_by_network("GPT-3 175B", 1024, "H100", 2048, speeds)
enough = [x for x, a, b in zip(speeds, *lines.values()) if b <= (1 + error) * a]
print(f"a whole step, tp over two machines: at most {error:.0%} slower",
      f"from {enough[0] / 1e9:g} GB/s on" if enough else "with none of these networks")

# %% tags=["nbval-ignore-output"]
plot_against([x / 1e9 for x in speeds], lines, "GB/s between machines, for each GPU",
             "seconds of a step", logarithmic=True, title="GPT-3 175B on 1,024 H100")

# %% [markdown]
# In machines with eight H100, each GPU usually has a card of 400 Gb/s, 50 GB/s. All eight carry a
# part of each sum, and together they are nearly as fast as one GPU's NVLink. The source's factors
# need far slower cards, as the printed line says. So a first reason for the rule is **bandwidth**,
# not the border of a machine.
#
# But the predicted ratio does not reach 1, however fast the network is: then a sum waits for the
# links inside a machine. With tp 16 a GPU computes half as long for each sample, and each sum takes
# as long as before. The same is expected inside an NVLink network of 72
# GPUs ([NVIDIA](https://www.nvidia.com/en-us/data-center/gb200-nvl72/)).

# %% [markdown]
# ## 6 · A table of words, in numbers
#
# The web page compares strategies in words, from "low" to "highest". The table has its words beside
# what the model computes for 8 billion parameters on 64 H100: 512 samples, nothing recomputed,
# micro-batches of one sample. **Exposed** are the seconds of communication that no computing hides.
# The page's column "complexity" is left out: no formula gives it. Where states and activations
# exceed the memory, the plan does not fit. Its seconds are then for a GPU with more memory.

# %%
job = advice.Contest("Llama 3 8B", 64, "H100", 512).job
microbatches = [1, 2, 4, 8]
sends = figures.zero_3_sends(microbatches)
for m, times in zip(microbatches, sends):
    print(f"micro-batches of a rank: {m}; ZeRO 3 sends {times:.3g} times as much as DDP")
Table(["strategy", "memory efficiency", "states", "activations", "communication", "exposed",
       "bubble", "a step"],
      figures.strategy_rows(job), title=f"Of {job.gpu.memory / 1e9:.0f} GB on each GPU")

# %% [markdown]
# "Memory efficiency" mixes two things. Of the *states*, a rank keeps an eighth with tp here, and a
# little more with pp: one of the stages has the embedding. With ZeRO 3 it keeps a 64th, and the
# layers that it has gathered come on top. Of the *activations*, a rank keeps an eighth with tp and
# sequence parallelism. ZeRO cuts none, and a pipeline under 1F1B hardly any.

# %% [markdown]
# ZeRO 3's communication is not one number, either. Two sources say one and a half times that of
# DDP, which is right for one micro-batch. A book says three times (06h), which is right for *two*,
# by the model. Both hold where gradients are sent in 16 bits: in float32, DDP sends more, and the
# two are equal for one micro-batch. Engines that reduce once a step send less (06f).

# %% [markdown]
# ## 7 · Your own job
#
# Choose a job. The first bar is the tree's plan, if it is possible and fits. Below it are the
# fastest plans, one for each mesh and stage of ZeRO. Here plans may have context parallelism (cp),
# too. Where nothing fits, the planner says how many GPUs would be enough.

# %% tags=["nbval-ignore-output"]
def show(model, gpu, gpus, samples):
    bars = figures.best_bars(model, gpus, gpu, samples)
    return plot_causes(bars, title=f"{model} on {gpus} {gpu}, {samples:,} samples in a step")

explore(show, model=["Llama 3 70B", *(name for name in advice.NAMES if name != "Llama 3 70B")],
        gpu=["H100", "A100-40GB", "A100", "H200", "B200", "V100"],
        gpus=[64, 8, 16, 32, 128, 256, 512, 1024], samples=[1024, 64, 128, 256, 512, 2048, 4096],
        labels={"gpu": "kind of GPU", "gpus": "number of GPUs", "samples": "samples in a step"})

# %% [markdown]
# ## Put to the test
#
# Verdicts on the sources' sentences, each computed above. For another job it may be another one.
# The sources' other practices and pitfalls are in [10g](10g_practices_and_pitfalls.ipynb).

# %% jupyter={"source_hidden": true}
found = {row[0]: row for row in rows}

def format_verdict(text):
    return f"{found[text][2]} | ratio {found[text][1]}"

put_to_the_test(f"""
- Start with DDP if the model fits | web page |
  {format_verdict("1.6B, 64 H100: DDP, as it fits")} to the best other plan (section 3)
- Model does not fit: ZeRO 3 | web page |
  {format_verdict("70B, 64 H100: ZeRO 3, as it does not fit")}: 70B on 64 H100 (section 3)
- 70B on 64 H100: tp 8, pp 4, dp 2 | web page |
  {format_verdict("70B, 64 H100: tp 8, pp 4, dp 2")} with a batch of 1,024 (section 3). On GB200 the
  published configuration (FP8, a batch of 256) is FSDP alone
- tp 8, pp 8, dp 16 on 1,024 H100 | web page |
  {format_verdict("175B, 1,024 H100: tp 8, pp 8, dp 16")} for GPT-3, {found[
  "405B, 1,024 H100: tp 8, pp 8, dp 16"][1]} for Llama 3 405B (section 3)
- Never use tp across nodes | web page |
  {format_verdict("175B, 1,024 H100: tp inside machines only")} with 50 GB/s (sections 3 and 5)
- At least 4 micro-batches for each stage | web page |
  {format_verdict("175B, pipelines: 4 micro-batches a stage")} among pipelines of 175B (section 3)
- Fine-tune 7B on 4 A100 40 GB: ZeRO 3, recomputation | web page |
  {format_verdict("7B, 4 A100 40 GB: ZeRO 3, recomputation")}, 64 samples of 4,096 tokens (section
  3)
- ZeRO 3 sends 3 times as much as DDP | book chapter | depends |
  {sends[0]:.3g} times with one micro-batch of a rank, {sends[1]:.3g} with two (section 6)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); a course's chapter on data
# parallelism. The published runs and their licences: [labs/published](../labs/published/README.md).

# %% [markdown]
# ## What you have learnt
#
# * A comparison of two predictions has an **error** of its own. Below it, the honest verdict is
#   *cannot be told*.
# * The **decision tree** asks for states alone. It does not ask for the batch, the activations and
#   the network.
# * A verdict is worth as much as its assumptions: change them, and **count the verdicts that
#   change**.
# * Which strategy wins is a **map**, and its borders move with batch, memory and network.
#
# **Your exercises** stand in [labs/advice.py](../labs/advice.py).
#
# **Next**: {{next}}.

# %%
progress("10f")
