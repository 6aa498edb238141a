# %% [markdown]
# # {{title}}
#
# **Can a program choose how a model is split, if each stage of the pipeline may be split in its own
# way?** The compiler Alpa does. Here you build a small one. It searches on two levels, and predicts
# what each plan takes. Then the best plans run on real ranks. A search is as good as its cost
# model, and as its levels allow.

# %% [markdown]
# ![Bars of five plans for the same model on eight ranks: what a step takes, predicted as an outline
# and measured as a filled bar. The plan of the search has the lowest
# outline](../assets/covers/10d_small_alpa.png)
#
# *Measured in section 6: a step under five plans, beside what the search predicts.*
#
# **After this part you can** count the plans of a pipeline, let an integer program choose how each
# product is cut, cut the model into stages by dynamic programming, and say what "optimal" means
# there.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import time
from functools import cache
from math import comb, inf, log10

import numpy as np

from pedagogy_lib import (
    Machines, Table, check, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
microbatches = 6
card_megabytes_per_second = 5.0

# %% [markdown]
# ## 1 · How many plans are there?
#
# The planner of this chapter, [labs/planner.py](../labs/planner.py), tries meshes: all stages have
# equally many layers and equally many devices. But the layers of a model may differ. Then the
# stages should differ, too.
#
# A **submesh** is the devices of one stage: 1, 2, 4, … devices of a machine, or all devices of 1,
# 2, 4, … machines. (The paper also allows 3, 5, 6, … machines; powers of two are enough here.) A
# plan now says three things: where the list of layers is cut into stages, which submesh each stage
# gets, and how each product of a stage is cut on its submesh. How many plans are there, before a
# single product is cut?

# %% [markdown]
# ### Exercise {{ways}} · Count the ways to place stages
#
# Write `ways(layers, devices)`. A list of so many layers is cut into stages of consecutive layers,
# at least one layer each. Each stage gets 1, 2, 4, 8, … devices. All devices are used, none twice.
# For each stage only the number of its devices counts. Return the number of ways, a whole number.
#
# For 2 layers on 2 devices it is 2: one stage on 2 devices, or two stages on 1 device each. For 3
# layers on 4 devices it is 6: one stage on 4; two stages on 2 + 2, with 2 places for the cut; three
# stages on 1 + 1 + 2, 1 + 2 + 1 or 2 + 1 + 1.
#
# 48 layers on 64 devices may take a second.

# %%
def ways(layers, devices):
    ### BEGIN SOLUTION
    @cache
    def submeshes(stages, devices):
        if stages == 0:
            return int(devices == 0)
        sizes = [2**k for k in range(devices.bit_length())]
        return sum(submeshes(stages - 1, devices - size) for size in sizes if size <= devices)

    return sum(comb(layers - 1, s - 1) * submeshes(s, devices) for s in range(1, layers + 1))
    ### END SOLUTION

check("{{ways}}", ways)

# %%
digits_of_count = predict("The number of ways for 48 layers on 64 devices has", unit="digits")

# %%
operator_shardings, small_alpa = lab("operator_shardings"), lab("small_alpa")
plan_space, uneven_runs = lab("plan_space"), lab("uneven_runs")
shapes, planner, cost_model = lab("model_shapes"), lab("planner"), lab("cost_model")

def count_plan_ways(devices, layers=48):
    return plan_space.count_ways(layers, devices)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, your function (or, until it is written, the lab's), and the lab's count.
yours = ways(48, 64) or count_plan_ways(64)
digits_of_count.compare(len(str(yours)), len(str(count_plan_ways(64))), wire="counted")

# %%
clusters = [8, 16, 32, 64, 128, 256, 512, 1024]
in_digits = {
    "cuts and submeshes": [log10(count_plan_ways(n)) for n in clusters],
    "and 4 shardings of each product": [
        log10(count_plan_ways(n)) + 96 * log10(4) for n in clusters
    ],
}
plot_bars(list(map(str, clusters)), in_digits, "plans, as a power of ten", "devices",
          title="48 layers of two products each")

# %% [markdown]
# Each layer has two products, and in section 2 each product has four shardings. With them, the
# count has 58 digits more. Nobody can try that. Even a million plans, five minutes each, take
# almost ten years. So plans are computed, not tried. Alpa divides the question into two levels:
#
# * **Intra-operator**: how is each operator of a stage cut, on the devices of this stage?
# * **Inter-operator**: which layers form a stage, and how many devices does it get?
#
# The upper level asks the lower one what each stage takes, and never looks inside.

# %% [markdown]
# ## 2 · The lower level: how is each product cut?
#
# On the $n$ devices of a stage an activation has one of three **layouts**: `whole` on each device;
# cut by `samples`; or cut by `features`. A product of matrices has four **shardings**:
#
# | sharding | takes | gives | sends |
# |---|---|---|---|
# | replicated | whole | whole | nothing; all compute the same |
# | samples | samples | samples | once a step, an all-reduce of its gradients |
# | columns | whole | features | an all-reduce of its input's gradient |
# | rows | features | whole | an all-reduce of its output |
#
# `samples` is data parallel (03), `columns` and `rows` are tensor parallel (07). If one product
# gives another layout than the next one takes, the activation has to be **resharded**.

# %% [markdown]
# ### Exercise {{resharding_bytes}} · Bytes sent by resharding
#
# Write `resharding_bytes(nbytes, n, before, after)` in
# [labs/operator_shardings.py](../labs/operator_shardings.py). An activation of `nbytes` bytes in
# all goes from one layout to another, and its gradient comes back the other way. Return the bytes
# that each of `n` devices sends, forward and backward together. It may be a fraction.
#
# * From `"whole"`, a device takes its part of what it has, and sends nothing.
# * To `"whole"`, it sends n − 1 parts, as in an all-gather.
# * Between `"samples"` and `"features"`, a device has `1/n` of the activation, and each other
#   device needs `1/n` of that.
#
# 800 bytes on 4 devices, from `"samples"` to `"whole"`: forward 3 × 200 bytes; the gradient is
# whole, and each device takes its part. So it is 600.

# %%
check("{{resharding_bytes}}")

# %% [markdown]
# Now every choice has a cost. Computing takes $6 \cdot \text{rows} \cdot \text{inputs} \cdot
# \text{outputs}$ FLOPs forward and backward, shared by $n$ devices (except for `replicated`). A
# ring of $n$ devices takes $2(n-1)(\alpha + \frac{X}{n\beta})$ for an all-reduce of $X$ bytes,
# where $\alpha$ is a link's latency and $\beta$ are its bytes per second.
#
# `samples` pays once a step, so each of $B$ micro-batches bears $\frac1B$ of it. `columns` and
# `rows` pay for every micro-batch, and more for more samples.

# %% [markdown]
# Take a block of two products, 64 → 2,048 → 64, on 4 devices, with 6 micro-batches. What goes into
# the block, and what comes out, is split by samples. A number has 4 bytes. For each micro-batch:
#
# * *Cutting the matrices* costs 2 all-reduces and 2 all-gathers of rows × 64 numbers. (The
#   all-gathers are the resharding from and to `samples`.)
# * *Splitting the samples* costs one all-reduce of 2 × 64 × 2,048 numbers, of which a sixth counts.
#
# An all-reduce sends twice as much as an all-gather of the same tensor. Without latency, from how
# many samples in a micro-batch on is it better to split the samples?

# %%
switch = predict("Samples in a micro-batch from which on samples are split", unit="samples")

# %%
Link, Cluster, Job = operator_shardings.Link, operator_shardings.Cluster, operator_shardings.Job
one_machine = Cluster(1, 4, 1e9, inside=Link(0.0, 1e8), across=Link(0.0, 1e8))
mlp = operator_shardings.mlp
block = mlp(64, 2048)

def solve_block(rows):
    job = Job(one_machine, rows, 6)
    return operator_shardings.solve([block], 4, job)[2]

Table(["samples in a micro-batch", "first product", "second product", "layout behind"],
      [[rows, *solve_block(rows)] for rows in (32, 128, 512, 2048)])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the formulas, and what the integer program chooses.
by_matrices = (2 * 2 + 2) * 3 / 4 * 64 * 4  # for each sample: 2 all-reduces, 2 all-gathers
by_samples = 2 * 3 / 4 * 2 * 64 * 2048 * 4 / 6  # one all-reduce of both matrices
first = next(rows for rows in range(1, 2000) if solve_block(rows)[0] == "samples")
switch.compare(by_samples / by_matrices, first, kind="communication", wire="counted")

# %% [markdown]
# With small micro-batches and large matrices, cut the matrices. With large micro-batches and small
# matrices, split the samples. A stage may have products of both kinds, and then a resharding
# between them has to be worth it. So the shardings of all products of a stage have to be chosen
# *together*.

# %% [markdown]
# Alpa writes this as an **integer program**: it looks for whole numbers that satisfy linear
# equations, and make a linear sum as small as possible. A variable $s_{u,i}$ is 1 if operator $u$
# has its sharding $i$, else 0. With $c_{u,i}$ for its seconds, what all operators take is linear:
# $\sum_{u,i} s_{u,i}\, c_{u,i}$. What resharding takes between $u$ and $v$ is not linear: it is
# paid if $u$ has sharding $i$ *and* $v$ has sharding $j$, so it needs the product $s_{u,i}\,
# s_{v,j}$.
#
# The way out is a variable for each pair: $e_{u,i,v,j}$ is 1 if both are chosen. Which equations
# tie these variables to each other? You write them. A solver (HiGHS, in `scipy.optimize.milp`) does
# the rest.

# %% [markdown]
# ### Exercise {{rules}} · Write an integer program's equations
#
# Write `rules(counts, edges)` in [labs/operator_shardings.py](../labs/operator_shardings.py).
# `counts[u]` is how many ways operator `u` has; `edges` is a list of pairs `(u, v)`.
#
# Variables are tuples, and each is 0 or 1: `(u, i)` is 1 if `u` takes its way `i`; `(u, i, v, j)`
# is 1 if `u` takes `i` and `v` takes `j`, for each edge `(u, v)`.
#
# Return a list of equations. Each is a pair of a dict `{variable: factor}` and a number: the sum of
# factor × variable has to be that number. They have to hold for each choice of exactly one way for
# each operator, with the pairs that follow from it, and for nothing else.
#
# For `counts = [2]` and no edges: `[({(0, 0): 1, (0, 1): 1}, 1)]`. For `[2, 2]` and `[(0, 1)]` the
# equations have 4 solutions.

# %%
check("{{rules}}")

# %% [markdown]
# Does the program find what trying everything finds? Here are random chains of two layers, on 2 and
# on 4 devices: four products, each with four shardings, and the layout between the layers.

# %%
chance, equal, tried = np.random.default_rng(1), 0, 0
for _ in range(20):
    layers = plan_space.random_layers(2, chance)
    job = Job(one_machine, int(2 ** chance.integers(4, 10)), 4)
    for n in (2, 4):
        tried += 1
        by_program = operator_shardings.solve(layers, n, job)[0]
        equal += abs(by_program / plan_space.cheapest_by_trying(layers, n, job) - 1) < 1e-9
print(f"the integer program is as cheap as the cheapest of all choices: {equal} of {tried}")

# %% [markdown]
# ## 3 · The upper level: which layers form a stage?
#
# A stage takes $t_i$ for one micro-batch, forward and backward. The first micro-batch goes through
# all stages. The others follow it, at the pace of the slowest stage. So a step of $B$ micro-batches
# takes
#
# $$T = \sum_i t_i + (B - 1) \cdot \max_i t_i.$$
#
# With stages of 3, 5 and 4 ms and 6 micro-batches, it is 12 + 5 · 5 = 37 ms.
#
# The sum alone would be easy: the best way to cut the remaining layers does not depend on the
# stages before them. With the maximum, it does. Alpa's answer is to try every value that the
# maximum can have: allow no stage that takes longer than this **limit**, and find the smallest sum.
# One of the limits is the right one.

# %% [markdown]
# ### Exercise {{best_stages}} · Find the fastest cut into stages
#
# Write `best_stages(seconds, layers, devices, microbatches)`. `seconds` is a dict: `seconds[first,
# end, size]` is what the layers `first`, …, `end - 1` take as one stage on `size` devices, for one
# micro-batch. A key that is not there is a stage that is not possible. Return a list of such keys,
# in the order of the layers: stages that together have all layers, use exactly `devices` devices,
# and have the smallest $T$.
#
# 2 layers, 2 devices, 3 micro-batches, `{(0, 1, 1): 4, (1, 2, 1): 2, (0, 2, 2): 5}`: two stages
# take 6 + 2 · 4 = 14, one stage takes 5 + 2 · 5 = 15. So it is `[(0, 1, 1), (1, 2, 1)]`.
#
# Of several best plans, return any one. If there is no plan, raise a `ValueError`. 16 layers on 16
# devices may take five seconds.

# %%
def best_stages(seconds, layers, devices, microbatches):
    ### BEGIN SOLUTION
    begins = {}
    for (first, end, size), taken in seconds.items():
        begins.setdefault(first, []).append((taken, end, size))

    def cut_within(limit):
        @cache
        def rest(first, left):
            if first == layers:
                return (0, []) if left == 0 else (inf, [])
            found = [(inf, [])]
            for taken, end, size in begins.get(first, []):
                if size <= left and taken <= limit:
                    total, stages = rest(end, left - size)
                    found.append((taken + total, [(first, end, size), *stages]))
            return min(found)

        total, stages = rest(0, devices)
        return total + (microbatches - 1) * limit, stages

    total, stages = min(map(cut_within, set(seconds.values())), default=(inf, []))
    if total == inf:
        raise ValueError(f"no plan for {layers} layers on {devices} devices")
    return stages
    ### END SOLUTION

check("{{best_stages}}", best_stages)

# %% [markdown]
# [labs/small_alpa.py](../labs/small_alpa.py) does the same with arrays, and joins both levels.
# Equal layers are solved once for each submesh. That is what makes a large model cheap: 48 equal
# layers on 8 machines of 8 devices.

# %% tags=["nbval-ignore-output"]
gpu, links_reach = shapes.gpu_named("H100"), 0.5  # assumed: the share of links' rates
gpus = Cluster(8, 8, gpu.flops * gpu.reach, Link(5e-6, gpu.inside * links_reach),
               Link(2e-5, gpu.across * links_reach), planner.FITS * gpu.memory)
large = Job(gpus, 8192, 64, number_bytes=2)
began = time.perf_counter()
plan = small_alpa.search([mlp(4096, 16384)] * 48, large)
print(f"{time.perf_counter() - began:.1f} s for both levels")
print("devices of each stage:", [stage.devices for stage in plan])
print("layers of each stage: ", [stage.end - stage.first for stage in plan])
print("shardings of products:", {name for stage in plan for names in stage.shardings
                                 for name in names if name in operator_shardings.SHARDINGS})

# %% [markdown]
# Eight equal stages: for equal layers, freedom finds nothing better.
#
# ## 4 · Is it optimal?
#
# One source says that Alpa chooses "the optimal combination". Small cases can be tried completely:
# every cut, every choice of submeshes, every sharding of every product. Here are 30 random models
# of three layers, on 2 machines of 2 devices. For how many of them does the search on two levels
# find a plan as fast as the fastest of all, by its own cost model?

# %%
as_good = predict("Of 30 random models: as fast as the fastest of all plans", unit="models")

# %%
small = Cluster(2, 2, 1e9, Link(2e-4, 2e8), Link(1e-3, 2e7))
chance, found = np.random.default_rng(0), []
for _ in range(30):
    layers = plan_space.random_layers(3, chance)
    job = Job(small, int(2 ** chance.integers(4, 9)), int(chance.choice([1, 2, 4, 8])))
    found.append(plan_space.compare_with_all(layers, job))
optimal = sum(is_best for is_best, _ in found)
longer = [share for _, share in found]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, what follows from the method, and what was counted.
display(as_good.compare(30, optimal, wire="counted"))
lost = [share for share in longer if share > 1e-9]
print(f"not the fastest plan if sends count: {len(lost)} of 30; "
      f"by {100 * max(longer):.0f} % at most, by {100 * sum(longer) / 30:.1f} % on average")

# %% [markdown]
# For all of them, because the integer program is solved exactly, and the upper level tries every
# limit. Such a search is optimal **for what its cost model counts**, where memory is no limit.
#
# What does it not count? Stages send activations to each other. Alpa leaves these sends out,
# "because the cross-stage communication cost is by nature small", and says so (section 7 of the
# paper). But a cut at a wide place then costs more than one at a narrow place, and neighbours on
# two machines more than on one. For the last line above, all plans were ranked again, with the
# sends of one micro-batch through all stages. All other sends are assumed to hide behind computing.

# %% [markdown]
# The search loses more for the same reason: a level sees less than it should.
#
# * A stage here begins and ends by `samples`, whatever its neighbours would like.
# * What is paid once a step is spread over the micro-batches, although it comes at the end, where
#   other stages may still be computing.
# * Where the devices of a submesh lie is decided afterwards.
#
# The small search has two more losses:
#
# * It tests memory after choosing. If the fastest shardings of a stage do not fit, it cuts all
#   matrices, and tries nothing between the two.
# * It knows no reduce-scatter, which could replace each all-reduce between two layouts by samples,
#   at half the bytes: sequence parallelism ([07e](07e_sequence_parallel.ipynb)).

# %% [markdown]
# ## 5 · What does freedom win?
#
# Is the freedom for each stage worth it? Here are models on 8 machines of 8 GPUs, the cluster of
# section 3, with 16 bytes of states for each parameter. The next cell prints which shares of the
# GPU's published figures this cluster assumes. Three plans stand beside each other:
#
# * **Equal stages**: the best plan with as many devices for each stage, as many layers as even cuts
#   allow, and one sharding.
# * **Free cuts**: as many devices for each stage, but any number of layers, and any shardings.
# * **All free**: devices, layers and shardings are chosen for each stage.

# %% jupyter={"source_hidden": true}
# Models whose layers are equal, and models whose layers are not; and what the cluster assumes.
def make_layers(name):
    return operator_shardings.transformer_layers(shapes.model_named(name))

models = {
    "48 equal blocks": [mlp(4096, 16384)] * 48,
    "50 equal blocks": [mlp(4096, 16384)] * 50,
    "Llama 3 8B": make_layers("llama-3-8b"),
    "Llama 2 13B": make_layers("llama-2-13b"),
    "12 blocks, ever wider": [mlp(4096, 2048 * (1 + k)) for k in range(12)],
    "16 blocks, 4 widths": [
        mlp(512 * 2 ** (k // 4), 2048 * 4 ** (k // 4), 512 * 2 ** ((k + 1) // 4)) for k in range(16)
    ],
}
shares = {"FLOPS": gpus.flops / gpu.flops, "memory": gpus.memory / gpu.memory,
          "links' rates": gpus.across.bytes_per_second / gpu.across}
print("of the H100's figures:",
      ", ".join(f"{share:.0%} of its {what}" for what, share in shares.items()))

# %%
rows_won = []
for name, layers in models.items():
    words, equal_stages = plan_space.best_uniform(layers, large)
    free_cuts = plan_space.best_free_cuts(layers, large, gap=1e-3)
    free = small_alpa.search(layers, large, gap=1e-3)
    times = [small_alpa.plan_seconds(of, large) for of in (equal_stages, free_cuts, free)]
    rows_won.append([name, words, *(f"{seconds:.2f} s" for seconds in times),
                     " ".join(str(stage.devices) for stage in free), f"{times[0] / times[2]:.2f}"])

Table(["model", "equal stages", "step", "free cuts", "all free", "its devices", "gain"], rows_won)

# %% [markdown]
# Nothing of this table was measured: it is what the search predicts. For 48 equal blocks freedom
# wins nothing, for 50 next to nothing. For transformers it wins a little: the scores over the
# vocabulary are one layer more, and even cuts do not allow for it. Where layers differ much, as in
# the last two models, it wins a lot, and most of that comes from cuts at other places (*free
# cuts*). Stages on different numbers of devices add most in the last model.
#
# Do not compare these seconds with the planner's: the small search has one axis of devices in a
# stage (Alpa has two, for dp and tp), shards no optimizer, and counts no activations.

# %% [markdown]
# ## 6 · Run it
#
# Only a run tells what predicted seconds are worth. The model is a chain of five blocks, 64 numbers
# wide, which learns handwritten digits. Inside, the blocks have very different widths. It runs on 8
# ranks, on four machines with slow network cards. Computing is emulated: each product takes as long
# as on a device of 0.15 GFLOPS. The rank sleeps for most of this time, so that a few cores are
# enough for eight ranks.

# %%
hiddens, rows = [1024, 2048, 256, 512, 128], 32
layers = tuple(mlp(64, hidden) for hidden in hiddens)
cluster = Cluster(4, 2, 1.5e8, Link(5e-4, 3e8), Link(7e-4, card_megabytes_per_second * 1e6))
job = Job(cluster, rows, microbatches)
plan = small_alpa.search(layers, job)
for stage in plan:
    print(f"layers {stage}: " + "; ".join(", ".join(names[:2]) for names in stage.shardings))

# %% [markdown]
# The search assumes a latency and a rate for each link. Compare them with what your computer
# measures. (A busy computer has longer latencies than the search assumes.)
#
# [labs/uneven_stages.py](../labs/uneven_stages.py) runs such a plan: it reuses the pipeline of
# chapter 08 and the layers of chapter 07. New are stages of several ranks. A stage sends rows, and
# each rank of the next stage gets the rows that it needs, from the ranks that have them.
#
# First, is it right? Two plans train for two steps, in float64, and beside them each rank trains
# the whole model alone.

# %% tags=["nbval-ignore-output"]
machines = Machines.here(4, bytes_per_second=card_megabytes_per_second * 1e6)
links = launch(uneven_runs.measure_links, cluster, world_size=8, machines=machines,
               device="cpu").values[0]
assumed = {"inside": cluster.inside, "across": cluster.across}
Table(["link", "latency: assumed", "measured", "rate: assumed", "measured"],
      [[name, *(f"{1e3 * of.latency:.2f} ms" for of in (assumed[name], link)),
        *(f"{of.bytes_per_second / 1e6:.1f} MB/s" for of in (assumed[name], link))]
       for name, link in links.items()])

# %%
of_tilings = plan_space.best_of_tilings(plan_space.best_plans(layers, job))
gaps = [launch(uneven_runs.compare_with_one_process, plan, hiddens, cluster, rows, microbatches,
               world_size=8, device="cpu").values for _, plan in of_tilings[:2]]
print("losses, weights and gradients equal one process to 1e-12:", max(map(max, gaps)) < 1e-12)

# %% [markdown]
# Now the race of five plans. Three come from the top of the ranking: take the fastest plan of each
# sequence of submeshes, and of these plans the three fastest. Two plans have equal stages: the
# fastest and the slowest plan of this kind. The plans take turns, three steps each, and the
# shortest one counts. How much longer than the best plan does the best plan of equal stages take?

# %%
ratio = predict("A step of the best equal stages, beside a step of the best plan", unit="times")

# %%
equals = sorted(plan_space.uniform_plans(layers, job),
                key=lambda of: small_alpa.plan_seconds(of[1], job))
racers = {"1st": of_tilings[0][1], "2nd": of_tilings[1][1], "3rd": of_tilings[2][1],
          "best equal stages": equals[0][1], "worst equal stages": equals[-1][1]}
raced = launch(uneven_runs.race, racers, hiddens, cluster, rows, microbatches, world_size=8,
               machines=machines, device="cpu", timeout=180).values[0]
measured = {name: min(times) for name, times in raced.items()}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the cost model with sends between stages, and what was measured.
predicted = {
    name: plan_space.seconds_including_sends(layers, plan, job) for name, plan in racers.items()
}
ratio.compare(predicted["best equal stages"] / predicted["1st"],
              measured["best equal stages"] / measured["1st"])

# %% tags=["cover", "nbval-ignore-output"]
plot_bars([f"{name}: {' '.join(str(stage.devices) for stage in plan)}"
           for name, plan in racers.items()],
          {"a step": list(measured.values())}, "a step (s)",
          "plan, and the devices of its stages", predicted={"a step": list(predicted.values())},
          title="Predicted (outlines) and measured on 8 ranks of 4 machines")

# %% [markdown]
# The blocks have very different widths, so equal stages wait for the widest. The search gives the
# widest block half of the devices. These four devices are on two machines, and the matrices are
# large, so the search cuts the matrices there. All other blocks split samples.
#
# The model leaves out two effects that pull in opposite directions. A stage that splits samples
# sums its gradients after its last backward. If other stages still compute then, that costs less
# than predicted. And messages cost more than predicted, as eight processes share this computer's
# cores. So plans that are predicted within a tenth of each other may change places.

# %% tags=["nbval-ignore-output"]
display(Table(["plan", "layers of its stages", "predicted", "measured", "off by"],
              [[name, "; ".join(map(str, plan)), f"{predicted[name]:.2f} s",
                f"{measured[name]:.2f} s", f"{100 * (measured[name] / predicted[name] - 1):+.0f} %"]
               for name, plan in racers.items()]))
# In which pairs of plans is the one that is predicted to be faster also faster?
Table(["pairs of plans", "how many", "in the predicted order", "in the other one", "no difference"],
      uneven_runs.rows_of_pairs(predicted, raced),
      note="no difference: the middle half of the rounds are not a tenth apart")

# %% [markdown]
# The cost model knows three things about this cluster: FLOPS, latency, bytes per second. The
# last table says whether that was enough to rank plans here, where computing is emulated and links
# are slowed down. **On GPUs** a product's time depends on its shape, and kernels overlap with
# communication. Alpa therefore compiles and *measures* the candidates of the upper level: its $t_i$
# are profiled (section 5.2 of the paper). Part [10b](10b_predict_then_run.ipynb) calibrates the
# planner's model.

# %% [markdown]
# *Break it.* Give `Cluster` a wrong network, `Link(7e-4, 1e9)` between machines, search again, and
# run that plan on the slow cards.
#
# <details><summary>What happens?</summary>
#
# For such a fast network, the search takes one stage on all eight devices, and splits all samples.
# It predicts a shorter step than before, and gives no warning. But on the slow cards, the
# all-reduces of all matrices take long. Compare the step with its prediction, and with a step of
# the plan for the right network.
#
# </details>
#
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Figures for the statements: plans listed one by one, for ever more devices; and what trials cost.
def plans_listed(devices, layers=8):
    machine = Cluster(1, devices, 1e9, one_machine.inside, one_machine.across)
    return sum(1 for _ in plan_space.all_stages(layers, machine))

listed = {devices: plans_listed(devices) for devices in (4, 8, 16)}
job_of_planner = cost_model.Job(shapes.model_named("llama-2-13b"), gpu, 1024)
trials = len(planner.PlanSearch(job_of_planner, 64).ranking)  # those that fit
hours = trials * 5 / 60  # five minutes each
kinds = sorted({name for stage in plan for names in stage.shardings for name in names[:2]})
on_two_levels = len(plan) > 1 and "samples" in kinds and {"columns", "rows"} & set(kinds)
equal_to_one = max(map(max, gaps)) < 1e-12
in_own_cost = "right for its own cost model" if optimal == 30 else "not here"
verdict = "imprecise" if lost and optimal == 30 else "not here"
grows = listed[16] > 4 * listed[8] > 16 * listed[4]

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- [C202] Alpa considers inter-operator parallelism (pipeline) and intra-operator parallelism (data
  and tensor) separately | CS 229S, “Automatic Parallelization with Alpa” |
  {"right" if on_two_levels and equal_to_one else "not here"} | as its paper says. The course's
  small Alpa follows the paper: it cut {len(plan)} stages on one level, and chose {", ".join(kinds)}
  within them on the other. On 8 ranks, two such plans equal one process (section 6, runs) |
  documented: nothing, since it is what the paper describes in its section 3. Alpa itself, which
  compiles for GPUs, was not run
- [C203] Alpa chooses the optimal combination of inter-op and intra-op parallelism | CS 229S,
  “Automatic Parallelization with Alpa” | {verdict} | {in_own_cost}, where memory is no
  limit. Beside all plans, a small search like Alpa's found a fastest one for {optimal} of 30
  models. With the sends between stages, which it does not count, {len(lost)} of its 30 plans are
  not the fastest (section 4, runs). The paper: "locally near-optimal" | computed: the seconds are
  those of a cost model. On GPUs Alpa profiles stages (its section 5.2); the two levels stay
- [C204] The space of strategies grows combinatorially, and experiments are slow and expensive | CS
  229S, “Practical Challenges When Deploying Parallelism” | {"right" if grows else "not here"} |
  listed one by one, 8 layers have {listed[4]:,} plans on 4 devices, {listed[8]:,} on 8,
  {listed[16]:,} on 16, before shardings (counted in this section). With equal stages their number
  grows more slowly than that of GPUs (part 10, section 1). For Llama 2 13B on 64 GPUs,
  {trials:,} of them fit; to try all takes {hours:,.0f} hours at five minutes each, and
  {hours * 64 * gpu.price:,.0f} dollars at {gpu.price:.2f} for a GPU's hour (calculated) |
  measured: nothing in the lists. Hours and dollars rest on assumed minutes and prices; nobody tried
  it on GPUs here
""")

# %% [markdown]
# **In JAX** this question has [three answers](https://docs.jax.dev/en/latest/201/sharding.html).
# *Automatic*: you annotate some arrays, and XLA's compiler spreads these layouts over the program
# and adds the collectives ([GSPMD](https://arxiv.org/abs/2105.04663), since 2026
# [Shardy](https://docs.jax.dev/en/latest/shardy_jax_migration.html); they follow your annotations,
# and do not search as Alpa does). *Explicit*: a layout is part of an array's type. *Manual*:
# `shard_map`, where you write the collectives as in this course.
#
# **Sources.** Zheng et al. 2022, *Alpa: Automating Inter- and Intra-Operator Parallelism for
# Distributed Deep Learning* ([arXiv](https://arxiv.org/abs/2201.12023)); its
# [program](https://github.com/alpa-projects/alpa), no longer maintained, whose core is part of XLA
# today, says its page. *CS 229S, lecture 8* (Stanford). Huangfu and Hall 2018, the solver
# [HiGHS](https://highs.dev). Documentation of
# [scipy.optimize.milp](https://docs.scipy.org/doc/scipy/reference/generated/scipy.optimize.milp.html).

# %% [markdown]
# ## What you have learnt
#
# * A pipeline with free stages has far too many plans to try: they are **computed**.
# * **Within a stage** an integer program chooses how each product is cut, and pays for resharding.
# * **Over the stages** dynamic programming minimises the sum, for each limit on the slowest stage.
# * Such a search is optimal for its own cost model, where memory is no limit. It **misses what
#   no level sees**: sends between stages, and where their devices lie.
# * Freedom for each stage wins where **layers differ**, and next to nothing where they are equal.
#
# **Your exercises** stand in the cells above, and in
# [labs/operator_shardings.py](../labs/operator_shardings.py).
#
# **Next**: {{next}}.

# %%
progress("10d")
