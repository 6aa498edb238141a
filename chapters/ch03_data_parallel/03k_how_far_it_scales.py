# %% [markdown]
# # {{title}}
#
# **When do more ranks help no more?** One answer comes from the hardware: arithmetic, memory or
# network limits a step. Another one comes from dividing the work: computing shrinks when ranks are
# added, and communication does not. You measure both here. (A third answer comes from learning: see
# the next part.)

# %% [markdown]
# ![Efficiency of weak scaling over the number of ranks, 1 to 8. The measured line begins at 1 and
# falls. Two lines of theory show what happens if all communication, or none of it, is
# hidden](../assets/covers/03k_how_far_it_scales.png)
#
# *Measured in section 2 on up to eight ranks: medians, and bars from the fastest step to the
# slowest. Computing is emulated.*
#
# **After this part you can** predict which resource limits a step, tell weak from strong scaling,
# compute an efficiency, say how many ranks are too many, and find a slow rank in traces.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    Machines, Table, check, compare_rounds, hint, lab, launch, measure, plot_spreads, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
samples = 64
card_megabytes_per_second = 50.0

# %% [markdown]
# ## 1 · What limits a step
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
#   reads and writes of $P$ numbers.
# * **Network**: $2\,\frac{n-1}{n} \cdot 4P$ bytes, the all-reduce of the gradients.
#
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
# proportional to $P$, so the size of the model cancels:
#
# $$\frac{6\,b\,P}{\text{arithmetic}} = \frac{2\,\frac{n-1}{n} \cdot 4P}{\text{network}}$$
#
# Take the rates printed above, and $n = 2{.}$ At which $b$ does computing take as long as the
# all-reduce?

# %%
meet = predict("Samples on each rank at which computing takes as long as the all-reduce",
               unit="samples")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and where the measured medians meet.
P, n = scaling.LAYERS * scaling.WIDTH**2, 2
network_seconds = 2 * (n - 1) / n * 4 * P / rates["network"]
computing = [median(steps[b]) for b in sizes]
meet.compare(
    network_seconds / (6 * P / rates["arithmetic"]),
    scaling.find_crossing(sizes, [median(all_reduce)] * len(sizes), computing),
    kind="other",
)

# %% [markdown]
# Now the whole step, for 1 to 256 samples. The first prediction takes the longer of two times,
# arithmetic and memory, both from the rates above. It is compared with the fastest of 15 rounds,
# since other programs can only make a round slower. A ratio of 0.5 means that the step took twice
# as long as predicted.
#
# The second prediction improves two things. First, it measures arithmetic at the shape that is
# really used: one row of numbers keeps a processor less busy than 1024 rows. Second, it *adds* the
# step of SGD: the optimizer begins when the backward has ended, so the two do not overlap.

# %%
by_rates = {b: max(6 * b * P / rates["arithmetic"], 24 * P / rates["memory"]) for b in sizes}
# SGD does three of the six reads and writes: 12 bytes for each weight.
by_shape = {b: 6 * b * P / product_rates[b] + 12 * P / rates["memory"] for b in sizes}

# %% tags=["nbval-ignore-output"]
Table(["samples", "fastest", "median", "slowest", "longest of the rates", "at this shape"],
      scaling.ratio_rows(steps, [by_rates, by_shape]),
      groups=[("", 1), ("measured step", 3), ("predicted / fastest", 2)])

# %% tags=["nbval-ignore-output"]
lines = {"forward, backward, step": steps, "all-reduce": dict.fromkeys(sizes, all_reduce)}
theory = {"forward, backward, step": by_shape,
          "all-reduce": dict.fromkeys(sizes, network_seconds)}
in_ms = scaling.convert_to_ms
plot_spreads({"": {name: in_ms(line) for name, line in lines.items()}},
             "samples on each rank", "time (ms)", logarithmic="xy",
             predicted={"": {name: in_ms(line) for name, line in theory.items()}},
             title="One step of four layers of 1024 × 1024 on two ranks")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the numbers of this run say.
print(scaling.what_limits(steps, all_reduce, by_rates, by_shape, network_seconds))

# %% [markdown]
# Dots are medians, bars go from the fastest round to the slowest. Other programs can only make a
# round slower. So theory should meet the lower ends of the bars, if at least one round was
# undisturbed. (The rate of the network was measured with 8 MB, and the gradients have 4 · 1,024 ·
# 1,024 numbers of 4 bytes, 17 MB. A rate is only valid near the size at which it was measured.)

# %% [markdown]
# Where the line of the all-reduce is above the other, the network limits the step. If communication
# is overlapped, more samples on each rank are then nearly free, and so is accumulation (01). Fewer
# bytes would help (03j). Faster arithmetic would not.
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
# model and 47 to 48 % for its largest. It gives the larger products as the reason.

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
# How much does one rank get done in a second? The **efficiency** is this number, divided by the
# same number of the run with the fewest ranks. At 1.0 nothing is lost.

# %% [markdown]
# ### Exercise {{efficiency}} · Scaling efficiency
#
# Write `efficiency(ranks, samples, seconds)`. It gets three lists of the same length. Entry `k`
# belongs to one measurement: a step on `ranks[k]` ranks has `samples[k]` samples, over all ranks
# together, and takes `seconds[k]` seconds.
#
# For each measurement, take the samples that **one rank** gets through in a second. Divide it by
# the same figure of the measurement with the fewest ranks. Return the list of these ratios, in the
# order in which the measurements came. The smallest number of ranks occurs once. It need not stand
# first, and it need not be 1. Other numbers of ranks may occur more than once.

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

check("{{efficiency}}", efficiency)

# %% [markdown]
# Eight ranks that compute on a laptop would measure its few cores. So computing is emulated here:
# each product of matrices sleeps as long as it would take at 1 GFLOP/s. Sleeping needs no core. The
# network is not emulated: each rank is on a machine of its own (02g), with a card of 50 MB/s.
# (`device="cpu"` is there for the emulation. Where a system has no such machines, the network is
# fast, and little is lost.)
#
# The model has 4 layers, and its gradients about a megabyte. DDP has a bucket for each layer. With
# the same formulas as in section 1, one step takes:

# %%
flops, link = 1e9, card_megabytes_per_second * 1e6
computing_ms = 1e3 * scaling.predict_seconds("strong", 1, samples, flops, link)[0]
network_ms = 1e3 * 2 * (8 - 1) / 8 * scaling.model_bytes() / link
print(f"one rank computes for {computing_ms:.0f} ms")
print(f"the all-reduce of 8 ranks takes {network_ms:.0f} ms, by formula")

# %%
faster = predict("Strong scaling, nothing hidden: a step on 1 rank, divided by one on 8",
                 unit="times")

# %% [markdown]
# And a second prediction. DDP can hide its all-reduce behind the backward (03c). Suppose that all
# of it is hidden, as far as this is possible: a step then takes the *longer* one of computing and
# all-reduce. On $n$ ranks, computing takes $1/n$ of its time on one rank. The all-reduce takes
# $2\,\frac{n-1}{n}\,X/B{.}$ ($X$ are the bytes of the gradients, $B$ is the speed of a link.)
# On which number of ranks is a step shortest?

# %%
best = predict("Strong scaling, if all is hidden: a step is shortest on", unit="ranks")

# %%
counts, times = [1, 2, 4, 8], {"strong": {}, "weak": {}}
for n in counts * 2:  # in turns
    machines = Machines.here([1] * n, bytes_per_second=link)
    run = launch(scaling.scale, samples, flops, 4, world_size=n, machines=machines, device="cpu")
    for kind, of_rounds in run.values[0].items():
        times[kind][n] = times[kind].get(n, []) + of_rounds

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your first prediction, theory, and what was measured.
strong = {n: median(of_rounds) for n, of_rounds in times["strong"].items()}
faster.compare(computing_ms / (computing_ms / 8 + network_ms), strong[1] / strong[8],
               kind="communication")

# %% tags=["nbval-ignore-output"]
batches = {"strong": [samples] * len(counts), "weak": [samples * n for n in counts]}
Table(["ranks", "batch", "step", "batch", "step"], scaling.rows_of_steps(times, batches),
      groups=[("", 1), ("strong scaling", 2), ("weak scaling", 2)])

# %% tags=["cover", "nbval-ignore-output"]
efficiency_of = {
    kind: scaling.efficiencies(counts, batches[kind], times[kind]) for kind in times}
theory = scaling.predict_efficiencies(range(1, 9), samples, flops, link)
plot_spreads({"": {"measured": efficiency_of["weak"]}}, "ranks", "efficiency", logarithmic="x",
             highest=1.15, predicted={"": theory["weak scaling"]},
             title="Weak scaling: DDP on 1 to 8 ranks, computing emulated")

# %% tags=["nbval-ignore-output"]
print(scaling.how_it_scaled(times, efficiency_of))
plot_spreads({"": {"measured": efficiency_of["strong"]}}, "ranks", "efficiency", logarithmic="x",
             highest=1.15, predicted={"": theory["strong scaling"]},
             title="Strong scaling: DDP on 1 to 8 ranks, computing emulated")

# %% [markdown]
# Dotted: everything overlaps, and a step takes the longer one of computing and all-reduce.
# Dash-dotted: nothing overlaps, and a step takes their sum. DDP hides a part, so it may lie between
# them. But eight processes of Python also share the cores of this computer, and that may bring the
# last dots below both lines.
#
# With weak scaling each rank computes for the same time, however many ranks there are, and
# communication can hide behind it. With strong scaling the computing becomes shorter, and soon
# there is little left to hide behind.

# %% [markdown]
# ## 3 · How many ranks are too many
#
# Strong scaling has an end. It is good to know it before you buy. Here is the theory with all
# communication hidden, beside your second prediction:

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your second prediction, theory for 1 to 64 ranks, and the best one of those measured.
gains = scaling.times_as_fast(range(1, 65), samples, flops, link)
best.compare(max(gains, key=gains.get), min(strong, key=strong.get), kind="communication")

# %%
top = max(gains, key=gains.get)
limit = computing_ms / (1e3 * 2 * scaling.model_bytes() / link)
print(f"at best {gains[top]:.1f} times as fast, on {top} ranks; with very many {limit:.1f} times")
Table(["ranks", "computing", "all-reduce", "times as fast"],
      scaling.rows_of_limit([1, 2, 3, 4, 5, 8, 16, 64], samples, flops, link),
      title="Strong scaling by theory, all communication hidden")

# %% [markdown]
# So more ranks first help, and then **make the step longer again**. Computing goes on shrinking,
# but the all-reduce grows: from $X/B$ on two ranks towards $2X/B$ on many. Where the two times
# meet, more ranks help no more.
#
# *Try it.* Set `card_megabytes_per_second` to 200, and run this part again. Strong scaling gains
# most: a faster card shortens what computing could not hide. By the formula, a step is then
# shortest on 11 ranks, more than are measured here.

# %% [markdown]
# **Amdahl's law** is about another limit: work that one rank has, too, and that does not shrink
# when ranks are added. If it is a share $s$ of the time on one rank, then $n$ ranks are at most
#
# $$\frac{1}{s + (1 - s)/n}$$
#
# times as fast. In DDP, the optimizer's step is such work: each rank updates all weights. If it
# takes 5 % of a step on one rank, no number of ranks is more than $1/0.05 = 20$ times as fast. An
# all-reduce is worse than that: one rank has none of it, and it comes on top with the second rank.

# %% [markdown]
# **On GPUs.** Megatron-LM's [README](https://github.com/NVIDIA/Megatron-LM) of 2024 has strong
# scaling at its best: GPT-3 with a batch of 1,152 sequences, on 96 H100 and then on 4,608. The
# share of the peak that is reached falls from 47 to 42 %. That is an efficiency of 0.89 with 48
# times as many GPUs. There, tensor and pipeline parallelism share the work with data parallelism.
#
# A measured efficiency may be above 1. Mostly it is noise, which is why the picture has bars. It
# can be real if the work of a rank has changed: a smaller share fits into a cache, or larger
# products are more efficient. Before you believe it, find the reason.

# %% [markdown]
# ## 4 · Read a trace
#
# An efficiency says how much is lost, and not where. PyTorch's profiler writes a **trace** for each
# rank: a JSON file with the start and the duration of everything that ran. Two quantities in it
# explain most losses:
#
# * **Exposed communication** is time in which a rank communicates and does not compute. This part
#   of the communication adds to the time of a step.
# * **Skew** is the time between the first and the last rank that come to a collective. A rank that
#   comes early waits *inside* the call, so that its trace shows a long all-reduce.

# %% [markdown]
# ### Exercise {{exposed_seconds}} · Exposed communication from a trace
#
# In [labs/rank_traces.py](../labs/rank_traces.py), write `exposed_seconds(communication,
# computing)`. Both are lists of spans, (start, end) in seconds, in any order. Spans of the same
# list may overlap each other, since several messages can be under way at a time, and each list may
# be empty. Return for how many seconds at least one span of `communication` is under way and none
# of `computing`.
#
# For example, communication has the spans (0, 4) and (3, 6), and computing has (1, 2) and (5, 9).
# From 0 to 6 a message is under way. Computing covers 1 to 2 and 5 to 6. The result is 4.

# %%
check("{{exposed_seconds}}")

# %% [markdown]
# Now record real traces: four ranks with DDP as in section 2, three steps, on cards of the same
# speed. Rank 2 computes 1.5 times as long as the others. (Computing is emulated as before.) DDP
# keeps the ranks in step, so all steps take equally long, and each rank's step is its computing and
# its exposed communication. By how many milliseconds a step is communication exposed longer on rank
# 0 than on rank 2?

# %%
traces = lab("rank_traces")
alone = traces.predict_computing(samples, flops)  # seconds of a step
print(f"rank 0 computes for {1e3 * alone:.0f} ms in a step")

# %%
more_exposed = predict("Exposed on rank 0, minus exposed on rank 2, in a step", unit="ms")

# %% tags=["nbval-ignore-output"]
machines = Machines.here([1] * 4, bytes_per_second=link)
recorded = launch(traces.record, samples, flops, 2, world_size=4, machines=machines,
                  device="cpu").values
Table(["rank", "computes", "communicates", "exposed"], traces.rows_of_traces(recorded),
      title="Three steps of four ranks, from their traces: time per step")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory (what rank 2 computes longer), and what the traces say.
exposed = [1e3 * traces.exposed_seconds(*trace) / traces.STEPS for trace in recorded]
more_exposed.compare(1e3 * alone * 0.5, exposed[0] - exposed[2], kind="communication")

# %% [markdown]
# The table would accuse the wrong ranks: ranks 0, 1 and 3 spend much time in communication, and
# rank 2 little. Their network is as fast as rank 2's. They wait for rank 2, and a trace shows
# waiting as communication. When did each rank come to each all-reduce?
#
# On a cluster, each machine has its own clock. All ranks leave an all-reduce at nearly the same
# time, though, and that sets the clocks: `align_clocks` shifts each trace until the ends agree in
# the median. (Here the ranks share one clock, so the shift that is printed is its error.)

# %% tags=["nbval-ignore-output"]
shifts = [1e3 * (after.communication[0][0] - before.communication[0][0])
          for before, after in zip(recorded, traces.align_clocks(recorded))]
print("shifted by", ", ".join(f"{ms:.1f}" for ms in shifts), "ms")
Table(["all-reduce", "first rank", "last rank", "skew", "ms on ranks 0 to 3"],
      traces.rows_of_arrivals(recorded))

# %% [markdown]
# The call is *shortest* on the rank that comes last, because nothing is left to wait for. **To find
# a slow rank, look for the shortest collective.** The last column also holds the cost of the
# message itself: about the shortest time in a row.
#
# With several process groups (chapter 09) this finds only the next suspect: a rank may come last
# because it has waited in a collective of *another* group. Then look for the shortest call in that
# group, and so on.

# %% [markdown]
# **On GPUs** the same lab reads traces with kernels: `python labs/rank_traces.py rank0.json.gz …`.
# It goes by their names: a kernel with "nccl" in its name communicates, and any other kernel
# computes, also one of another library for communication, such as NVSHMEM or DeepEP. Copies
# (`gpu_memcpy`) count as neither. `nsys profile`, of [Nsight
# Systems](https://docs.nvidia.com/nsight-systems/UserGuide/index.html), also records calls to the
# operating system, ranges of `torch.cuda.nvtx.range` and, with `--nic-metrics`, the network cards.
#
# [Holistic Trace Analysis](https://github.com/facebookresearch/HolisticTraceAnalysis) reads traces
# of whole jobs; its tests include [samples of two ranks of
# 128](https://github.com/facebookresearch/HolisticTraceAnalysis/tree/f4d0062c382f42bd8a74838bcdad1916c7d5d2da/tests/data/trace_filter).
# In them, we found an NCCL kernel that ends on both ranks in the same microsecond. It took 62.8 ms
# on rank 0 and 57.9 ms on rank 1, which came 4.9 ms later.

# %% [markdown]
# ## Put to the test
#
# What the sources say about scaling, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Steps of three engines on two ranks, in turn: models that rank 0 sends, and seconds of rounds.
ENGINES = ("DDP", "ZeRO-1", "FSDP2")

def race(engines, rounds=12):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer

    mesh, adam = init_device_mesh("cpu", (dist.get_world_size(),)), torch.optim.Adam
    made = {}
    for engine in engines:
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))
        nbytes = sum(p.nbytes for p in model.parameters())
        for module in [*model, model] if engine == "FSDP2" else []:
            fully_shard(module, mesh=mesh)
        run_model = model if engine == "FSDP2" else DistributedDataParallel(model)
        of = partial(ZeroRedundancyOptimizer, optimizer_class=adam) if engine == "ZeRO-1" else adam
        made[engine] = run_model, of(model.parameters())
    for engine, (run_model, optimizer) in [*made.items()] * rounds:
        dist.barrier()
        with measure(engine, memory=False):
            run_model(torch.ones(32, 512)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return nbytes * rounds

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
raced = launch(race, ENGINES, world_size=2, device="cpu")
sent = {name: raced[name].sent_bytes[0] / raced.values[0] for name in ENGINES}
took = {name: raced[name].rounds[1:] for name in ENGINES}
by_engine = ", ".join(f"{name} {models:.2f} models in {1e3 * median(took[name]):.1f} ms"
                      for name, models in sent.items())
words = {name: compare_rounds(took["DDP"], took[name]).word for name in ENGINES[1:]}
by_time = ", ".join(f"against {name}: {said}" for name, said in words.items())
least = min(sent, key=sent.get)
memory_ms = {what: 1e3 * seconds for what, seconds in
             (("predicted", 24 * P / rates["memory"]), ("measured", min(steps[1])))}
missed = scaling.farthest(steps, by_rates)[0]
if_hidden = "right here" if missed < 1.2 else "not decided here"

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the statements need.
at_8 = {kind: median(efficiency_of[kind][8]) for kind in times}
hidden, mostly = scaling.compute_overlap_share(times["weak"][1], times["weak"][8], 8, link)
strong_to_weak = compare_rounds(efficiency_of["strong"][8], efficiency_of["weak"][8])
gpt3, seven = 175e9, 2 * 7 / 8 * 2 * 7e9  # weights; bytes that a rank of 8 sends for 7B in bf16
more = f"""
- [C085] If the model fits in GPU memory, DDP is the fastest | book chapter, “When to Use What?” |
  {scaling.judge_fastest(words)} | of PyTorch's engines on 2 ranks, {least} sent the fewest bytes:
  {by_engine} (medians of a run in this section). DDP's time round by round, {by_time}. ZeRO-1 by
  hand sends as few bytes as DDP (part 06h, section 1) |
  measured: over Gloo, whose reduce-scatter sends twice its bytes; on GPUs FSDP2 is expected to come
  nearer, and ZeRO-1 to compete
- [C087] With data parallelism alone, a model has to fit into the memory of one GPU | CS 229S, “Data
  Parallelism”; web note, “Types of distributed training” | right | CS 229S's example, GPT-3 on a
  GPU of 80 GB, does not fit: its weights alone have {gpt3 * 2 / 1e9:.0f} GB, with 2 bytes each.
  With gradients and Adam's state, 16 bytes each, it is {gpt3 * 16 / 1e12:.1f} TB | computed: from
  GPT-3's 175 billion parameters; a GPU with more than 350 GB would hold the weights
- [C088] Communication-intensive: every weight must be synchronized | CS 229S, “Data Parallelism” |
  {"right" if abs(sent["DDP"] - 1) < 0.1 else "not seen here"} | on 2 ranks DDP sent
  {sent["DDP"]:.2f} models in a step, 2 (n - 1) / n (a run in this section). So 7B in bf16 on 8
  ranks: {seven / 1e9:.1f} GB each, {seven / 125e6:.0f} s at 1 Gbit/s, {seven / 25e9:.2f} s at
  25 GB/s (computed) | measured: nothing about a ring's bytes; where a switch adds up (NVLink
  SHARP), a rank is expected to send less
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The statements, and what was found.
put_to_the_test(f"""
- [C094] Near-linear scaling with proper configuration | web page, “Advantages & Limitations” |
  {"depends" if strong_to_weak.high < 0.7 else "not decided here"} | efficiency of DDP on
  8 ranks, computing emulated: {at_8["weak"]:.2f} if the batch grows with the ranks (weak scaling),
  {at_8["strong"]:.2f} if it stays (strong; section 2, run) | measured: on slowed links; on GPUs the
  numbers differ. Megatron-LM's README reports strong scaling from 47 % of the peak on 96 H100s to
  42 % on 4,608
- [C089] Throughput ≈ min(compute, memory, network) | book chapter, “The Efficiency Equation” |
  {"imprecise" if mostly < 0.95 else if_hidden} | only if all three overlap. With weak scaling
  DDP on 8 ranks hid {hidden:.0%} of its communication (computed in this section, from section 2's
  quickest steps). The longest of arithmetic and memory missed a step by up to {missed:.1f}
  times (section 1, run) | measured: on this CPU; GPUs are expected to overlap more, so that “min”
  comes nearer, and stays a bound
- [C090] Memory bound: use ZeRO-3 or FSDP | book chapter, “The Efficiency Equation” |
  {"depends" if sent["FSDP2"] > sent["DDP"] else "not seen here"} | on which bound is meant. For the
  memory's size it is right (chapter 06). In the chapter's equation the bound is a rate: by the rate
  measured here a step with 1 sample takes {memory_ms["predicted"]:.1f} ms (computed in this
  section); it took {memory_ms["measured"]:.1f} ms (section 1, table). FSDP2 does not lessen that
  traffic, and on 2 ranks it sends {sent["FSDP2"]:.2f} models where DDP sends {sent["DDP"]:.2f} (a
  run in this section) | measured: over Gloo; with NCCL's reduce-scatter FSDP2 is expected to send
  1.50 models on 2 ranks, still more than DDP. A GPU's memory has a rate and a size, too
""", more=more)

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *CS 229S, lecture 8* (Stanford); a web note on types of distributed
# training.
#
# **To read on.** Williams et al. 2009,
# [Roofline](https://doi.org/10.1145/1498765.1498785): arithmetic and memory in one picture; it is
# in part 10, too.

# %% [markdown]
# ## What you have learnt
#
# * Three rates limit a step: **arithmetic, memory, network**. What overlaps counts once, what does
#   not overlap adds up. A rate holds for the shape at which it was measured.
# * **Strong scaling** ends where the all-reduce takes longer than computing: more ranks then make a
#   step longer. **Weak scaling** hides the all-reduce longer, and the batch grows.
# * **Efficiency** is the work of one rank in a second, beside a run on the fewest ranks. It needs
#   error bars.
# * A **trace** tells exposed communication and skew. In a group, a slow rank has the shortest
#   collectives, because the others wait for it in theirs.
#
# **Your exercises**: {{efficiency}} is in a cell above, and [labs/rank_traces.py](../labs/rank_traces.py) has
# {{exposed_seconds}}.
#
# **Next**: {{next}}.

# %%
progress("03k")
