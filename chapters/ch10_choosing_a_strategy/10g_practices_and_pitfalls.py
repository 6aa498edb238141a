# %% [markdown]
# # {{title}}
#
# **"Always use mixed precision." "Offload to the CPU." "Save after every epoch."** Such advice
# chooses no mesh, so [10f](10f_advice_judged.ipynb) did not judge it. Which advice can a cost
# model decide? Where in this course was the rest measured? And what can nobody test on this
# computer? This part answers every practice and every pitfall of the sources.

# %% [markdown]
# ![Horizontal bars, one for each plan of a model of 7 billion parameters on 8 GPUs, divided by
# what the seconds of a step are spent on](../assets/covers/10g_practices_and_pitfalls.png)
#
# *Computed in section 3: a step on eight old GPUs, with the optimizer on the CPUs and without.*
#
# **After this part you can** say what a practice saves and costs for *your* job: mixed precision,
# recomputing, offload, accumulation, and how often to save.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

from pedagogy_lib import (
    Table, check, hint, lab, plot_against, plot_causes, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
link = 8e9  # bytes per second and direction between a V100 and the memory of its CPUs
host = 2 * 4 * 8 * 2.4e9  # of that memory: 2 CPUs, each with 4 channels of 8 bytes, 2.4e9 a second
storage = 2e12  # bytes per second of the storage for checkpoints, for all GPUs together

# %% [markdown]
# ## 1 · Mixed precision
#
# A source says: it halves the memory, doubles the throughput, and is always worth it. Chapter 05
# found another number for the *states*: 16 bytes for each parameter in float32, and 16 to 18 in
# mixed precision, as the optimizer keeps a copy in float32. Activations do become smaller. How much
# memory is it in all?
#
# Take GPT-2 XL on 8 A100, with the fastest plan that fits in float32.

# %%
smaller = predict("Mixed precision: memory of GPT-2 XL, of that in float32", unit="%")

# %%
advice, practices = lab("advice"), lab("practices")
jobs, slower = {}, 312 / 156  # products in TF32
for name, count in {"GPT-2 XL": 8, "Llama 3 8B": 64, "GPT-3 175B": 1024}.items():
    contest = advice.Contest(name, count, "A100")
    jobs[f"{name}, {count:,} A100"] = contest.job, practices.float32_plan(contest, slower)
rows, ratios = practices.compare_precisions(jobs, slower)

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" a half; and the cost model.
of_memory, of_time = ratios["GPT-2 XL, 8 A100"]
smaller.compare(50, 100 * of_memory, kind="activations", wire="simulated")

# %%
Table(["job", "numbers", "states", "the rest", "a step"], rows,
      title="One GPU: bytes that it needs, and predicted seconds, with the same plan")

# %%
for name, (of_memory, of_time) in ratios.items():
    print(f"{name}: mixed precision needs {of_memory:.0%} of the memory, {of_time:.0%} of the time")

# %% [markdown]
# How is that computed? For products of matrices, an A100's peak is 312 · 10¹² FLOPs a second in
# bfloat16, and 156 · 10¹² in TF32 ([data sheet](https://www.nvidia.com/en-us/data-center/a100/)).
# PyTorch uses TF32 for products of float32 matrices only if you tell it to. Without TF32 the peak
# is 19.5 · 10¹². All other kernels, and all messages, move twice as many bytes in float32.

# %% [markdown]
# So throughput doubles here by assumption: with the same plan, products, traffic and messages are
# all said to take half as long, and nothing was measured. Memory halves only as far as activations
# do. The table has both parts. Where ZeRO cuts the optimizer's states, the copy in float32 is cut,
# too, and what stays whole has half the bytes. The memory that becomes free may allow a faster
# plan, which is not counted here. No cost model can tell whether the loss falls as well as in
# float32. Chapter 05 has a case in which it does not.

# %% [markdown]
# Does FP8 double it again? [NVIDIA's
# table](https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/00b7660be0254ac6f95f44164ddd0c3e9cc798ed/docs/performance-summary.md)
# has measured pre-training. The two GB300 rows differ in nothing but precision:

# %%
published = {  # model, 256 GPUs, precision: pp, ep, samples in a step, tokens/s per GPU
    "GB300, bfloat16": (2, 32, 4096, 3848), "GB300, MXFP8": (2, 32, 4096, 4357),
    "GB200, bfloat16": (4, 64, 4096, 3139), "GB200, MXFP8": (8, 32, 4096, 4018),
}
base = {name: published[f"{name.split(',')[0]}, bfloat16"][-1] for name in published}
Table(["256 GPUs", "pp", "ep", "samples", "tokens/s per GPU", "of bfloat16"],
      [[name, *row, f"{row[-1] / base[name]:.2f} times"] for name, row in published.items()],
      title="DeepSeek-V3, sequences of 4,096 tokens, experts forced to equal loads")

# %% [markdown]
# It did not double there: the GB300 rows give the factor of FP8 for this model and these settings.
# The GB200 rows differ in pp and ep, too, so their larger factor is not that of FP8 alone. None of
# this was measured here.
#
# In a GB200 system an NVLink domain has 72 GPUs, and in a B200 machine 8. The same page has both in
# MXFP8:

# %%
domains = {"B200, 8": (16, 8, 2048, 2139), "GB200, 72": published["GB200, MXFP8"]}
Table(["GPUs, NVLink domain", "pp", "ep", "samples", "tokens/s per GPU"],
      [[name, *row] for name, row in domains.items()], title="DeepSeek-V3, 256 GPUs, MXFP8")

# %% [markdown]
# GB200 is nearly 2 times as fast, with other pp, ep and batch, so this is an upper guess of what
# the larger domain is worth to experts.

# %% [markdown]
# ## 2 · Recomputing
#
# "Essential for very deep models." In a deep model each layer keeps activations. But deep models
# also have many GPUs, and tp, pp and ZeRO make room. So ask the planner: for which jobs do plans
# fit *only* if layers are recomputed? It takes all models and GPUs of 10f's tree, first without
# context parallelism (cp), as the tree does, and then with it.

# %%
jobs = ["A100-40GB", "H100", "H200"], [8, 64, 512, 1024]
found, with_cp = (practices.compare_recomputation(*jobs, cp) for cp in (False, True))
only, only_with_cp = ([job for job in of if job[2] == float("inf")] for of in (found, with_cp))
deep = [job for job in found if job[1] >= 80]
needed = sum(job in only for job in deep)
costs = [again / without for _, _, without, again in found if max(without, again) < float("inf")]
print(f"without cp, {len(only)} of {len(found)} jobs fit only with recomputation:")
print("\n".join(f"  {name}, {layers} layers" for name, layers, *_ in only))
print(f"of jobs with 80 layers and more, {needed} of {len(deep)}")
print(f"elsewhere recomputing everything takes {min(costs):.2f} to {max(costs):.2f} times as "
      f"long, median {median(costs):.2f}")
print(f"with cp, {len(only_with_cp)} of {len(with_cp)} jobs fit only so")

# %% [markdown]
# The numbers compare the fastest plan with all layers recomputed and the fastest one with none, and
# their meshes may differ. By arithmetic alone, a step with all recomputed takes up to 4/3 as long.
# A number below 1 is no mistake: the memory that recomputing frees may allow a mesh that sends
# less. In between, half or a quarter of the layers may be recomputed.

# %% [markdown]
# The list has only some of the jobs of the same depth, so that depth alone does not decide. What
# matters is the memory that the states leave, and what else makes room for activations: the last
# line counts again with plans that split the context. Recomputing is the way out when nothing else
# fits, and has a price otherwise (05f, 10).

# %% [markdown]
# ## 3 · Offload to the CPU
#
# "ZeRO 2 with CPU offloading on 8 V100, for university clusters." With **offload**, the optimizer's
# states lie in the CPUs' memory, and the CPUs take the optimizer's step
# ([ZeRO-Offload](https://www.deepspeed.ai/tutorials/zero-offload/)). The GPU has more room. But
# gradients have to leave it over PCIe, and new parameters have to come back. What does a step wait
# for?

# %% [markdown]
# ### Exercise {{offload}} · How long offloading delays a step
#
# Write `offload(parameters, ranks, link, host, backward)` in
# [labs/practices.py](../labs/practices.py). One machine has `ranks` ranks, and each of them has an
# equal share of the `parameters`. Return a dict with the seconds for which the GPUs wait, under the
# keys `"gradients"`, `"update"` and `"parameters"`. They follow one another:

# %% [markdown]
# * `"gradients"`: a rank sends 2 bytes for each parameter of its share, over its own link of `link`
#   bytes per second. This starts together with a backward of `backward` seconds. The GPUs wait for
#   what is not finished when the backward ends.
# * `"update"`: then the CPUs read and write 28 bytes for each parameter of the whole model. All
#   ranks share their memory, with `host` bytes per second.
# * `"parameters"`: then a rank gets 2 bytes for each parameter of its share, over its link.

# %% [markdown]
# For example, 100 parameters on 4 ranks, with `link` 10, `host` 200 and `backward` 3. A share has
# 25 parameters, so its gradients take 50 / 10 = 5 seconds, of which the backward hides 3. The
# update takes 2,800 / 200 = 14 seconds. So it is
# `{"gradients": 2, "update": 14, "parameters": 5}`. With a `backward` of 8, `"gradients"` is 0.
#
# The 28 bytes: a gradient is read (2), three numbers in float32 are read and written (12 + 12), and
# a parameter is written in 16 bits (2).

# %%
check("{{offload}}")

# %% [markdown]
# Now 7 billion parameters on 8 V100 of 32 GB, 64 samples of 4,096 tokens. A V100 has PCIe 3.0 with
# 16 lanes: 16 GB/s in each direction. In a
# [DGX-1](https://images.nvidia.com/content/pdf/dgx1-v100-system-architecture-whitepaper.pdf) two
# GPUs share one such connection, so `link` is half of it. Both numbers are peaks. Real copies are
# slower.

# %%
old = advice.Contest("llama-2-7b", 8, "V100", 64)
ways = practices.four_ways(old, link, host)
for name, choice in ways.items():
    print(f"{name}:", f"{choice.memory['total'] / 1e9:.0f} GB, {choice.seconds['total']:.1f} s a "
          f"step\n  {practices.describe_plan(choice.plan, micro_batch=True)}"
          if choice else "does not fit")

# %% tags=["cover", "nbval-ignore-output"]
plot_causes({name: choice.seconds for name, choice in ways.items() if choice},
            title="7B on 8 V100. The CPUs' work counts as optimizer")

# %%
waits = practices.plan_offload(old, link, host)[1]
offloaded, fastest = (ways[name].seconds["total"] for name in ("ZeRO 2, offloaded", "the fastest"))
print("the GPUs wait:", ", ".join(f"{what} {time:.2f} s" for what, time in waits.items()),
      f"({sum(waits.values()) / offloaded:.0%} of the step)")
print(f"offload beside the fastest plan without it: {offloaded / fastest:.2f} times as long,",
      f"the advice {advice.verdict(offloaded, fastest, old.error())}")

# %% [markdown]
# A step has many micro-batches, and the CPUs work once in each step. So the wait hardly grows with
# the batch. Offload makes a plan *possible* that does not fit otherwise. Whether it is a good plan
# is another question: compare it with the other bars, which keep all states on the GPUs.
#
# The model does not count the CPUs' own computing, slower copies, and gradients that leave after
# each micro-batch. Offload to NVMe drives is not computed: their speed differs by machine. Part 06g
# keeps states in files, and shows that the result is the same.

# %% [markdown]
# ## 4 · How often to save
#
# "Save every few iterations, for example every epoch." Chapter 04 has the answer as a formula: it
# depends on how long a saving takes, and how often something fails. Llama 3's authors report both:
# 419 unexpected interruptions in 54 days on 16,384 GPUs, and storage of 2 TB/s
# ([paper](https://arxiv.org/abs/2407.21783), sections 3.3.1 and 3.3.4). A checkpoint has 14 bytes
# for each of 405 billion parameters.

# %%
often = predict("405B on 16,384 GPUs: best time from one saving to the next", unit="min")

# %%
each_fails = 16384 * 54 * 86400 / 419  # seconds of one GPU
period, lost = practices.best_period(
    practices.checkpoint_seconds("Llama 3 405B", storage), each_fails / 16384
)

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" Young's formula; and the lowest point of Daly's curve, chapter 04.
young = (2 * practices.checkpoint_seconds("Llama 3 405B", storage) * each_fails / 16384) ** 0.5
often.compare(young / 60, period / 60, wire="simulated")

# %%
clusters = {"Llama 3 8B": 64, "Llama 3 70B": 1024, "Llama 3 405B": 16384}
Table(["model", "GPUs", "fails every", "a saving", "best: every", "lost then", "every hour",
       "every day"], practices.checkpoint_rows(clusters, each_fails, storage),
      title=f"Share of the time that is lost; storage of {storage / 1e12:g} TB/s")

# %%
Table(["model", "GPUs", "fails every", "a saving", "best: every", "lost then", "every hour",
       "every day"], practices.checkpoint_rows(clusters, each_fails, storage / 100),
      title=f"The same with storage of {storage / 1e9 / 100:g} GB/s")

# %% tags=["nbval-ignore-output"]
periods = [60 * 2**k for k in range(3, 12)]
large = {name: count for name, count in clusters.items() if count > 100}
shares = practices.percent_lost(large, periods, each_fails, storage / 100)
plot_against([p / 60 for p in periods], shares, "minutes from one saving to the next",
             "share of the time lost (%)", logarithmic=True,
             title=f"Savings and lost work, with storage of {storage / 1e9 / 100:g} GB/s")

# %% [markdown]
# These numbers rest on two assumptions: each GPU fails as often as one of Llama 3's, however many
# there are, and a restart takes no time. Real restarts take time, too.
#
# An **epoch**, one pass over the data, is no unit for this: for a model that sees most of its data
# once, an epoch is the whole training. Take the seconds of a saving, the seconds between failures,
# and the formula. With slow storage, saving in the background helps most: training waits only for a
# copy, and goes on while it is written (04).

# %% [markdown]
# ## 5 · Micro-batches and accumulation
#
# "Larger micro-batches have a higher arithmetic intensity, smaller ones a smaller bubble." Both are
# true. Which counts more? Here are two pipelines, each with its batch of four million tokens.

# %% tags=["nbval-ignore-output"]
Plan, sizes = practices.Plan, [1, 2, 4, 8, 16]
small = advice.Contest("GPT-2 XL", 64, "H100").job
of_small = practices.time_micro_batches(small, Plan(16, pp=4), sizes)
plot_causes(of_small, title="One step of GPT-2 XL on 64 H100 with 4 stages")

# %%
huge = advice.Contest("GPT-3 175B", 1024, "H100").job
of_large = practices.time_micro_batches(huge, Plan(16, tp=8, pp=8), sizes)
best = {}
for name, bars in {"GPT-2 XL": of_small, "GPT-3 175B": of_large}.items():
    best[name] = min(bars, key=lambda size: bars[size]["total"])
    print(f"{name}: {best[name]} is the fastest. Seconds for {', '.join(map(str, sizes))}:")
    print("  " + ", ".join(f"{bar['total']:.2f}" for bar in bars.values()))

# %% [markdown]
# In a small model, the kernels of one sample are so short that starting them takes longer (launch).
# A CUDA graph starts many of them with one call (01c, section 2), which the model does not count.
# In a large model one sample keeps the GPU busy, and a larger micro-batch only makes the bubble
# longer. (This comparison ignores memory.)
#
# **Accumulation** makes the batch independent of the number of GPUs: more micro-batches before each
# step. It is worth it if gradients are averaged once, under `no_sync` (03d).

# %%
plan, counts = Plan(64), [1, 4, 16]
accumulated = practices.compare_accumulation(
    advice.Contest("GPT-2 XL", 64, "V100").job, plan, counts
)
for m, (each, once) in zip(counts, accumulated):
    print(f"GPT-2 XL, 64 V100, {m:2} micro-batches: {each:.2f} s along dp if averaged after each, "
          f"{once:.2f} once")

# %% [markdown]
# ## 6 · More GPUs
#
# "Near-linear scaling with the proper configuration." Each number of GPUs has its own fastest plan.
# Does a GPU still do as much when there are more of them?

# %% tags=["nbval-ignore-output"]
counts = [128, 256, 512, 1024, 2048, 4096]
scaled = practices.predict_scaling("GPT-3 175B", "H100", counts, batch_each=4)
plot_against(counts, scaled, "GPUs", "speed of each GPU, beside 128", logarithmic=True,
             title="GPT-3 175B on H100, always with the fastest plan")

# %%
for line, each in scaled.items():
    print(f"{line}: with {counts[-1]:,} GPUs each does {each[-1]:.0%} of what it did with 128")
real = lab("published_runs").published_scaling()
fewest, most = min(real), max(real)
print(f"published, 1B with dp alone: with {most} H100 each does {real[most] / real[fewest]:.0%} "
      f"of what it did with {fewest}")
others = [64, 256, 1024, 2048]
for name in ("Llama 3 70B", "Llama 3 8B"):
    told = practices.carry_over_plan(name, "H100", 64, others)
    print(f"{name}, the plan for 64 GPUs with a larger dp, over the best one:")
    print("  " + ", ".join(f"{n:,}: {ratio:.2f}" if ratio < 1e9 else f"{n:,}: impossible"
                           for n, ratio in told))

# %% [markdown]
# If the batch grows with the GPUs, each GPU has as many samples as before, and the model sees no
# loss: its rings are as fast on 4,096 GPUs as on 128. Real ones may not be: the published series
# falls. (It begins inside one machine. Its source states no batch, so that 10c leaves it out, and
# fewer samples for each rank may be another cause.) Sooner or later a larger batch also needs more
# samples for the same loss (03l). With the *same* batch, bubbles and sums weigh more.

# %% [markdown]
# The lines for Llama 3 answer "tune for every configuration". A plan for few GPUs may stay good,
# become slow, or become impossible. So plan anew for each number of GPUs. Learning rate and batch
# are tuned by training. No cost model helps there.

# %% [markdown]
# ## Put to the test
#
# First the advice of this part. Then, folded, every other practice and pitfall of the sources, and
# the section that answers it. *Computed* means: by the cost model, for the job that is named.

# %% jupyter={"source_hidden": true}
memories, times = zip(*[(100 * memory, 100 * time) for memory, time in ratios.values()])
put_to_the_test(f"""
- Mixed precision halves memory | web page | {"right" if max(memories) < 55 else "in part"} |
  computed: {min(memories):.0f} to {max(memories):.0f} % of float32's, for three jobs (section 1)
- and doubles throughput | web page | assumed, not tested | on an A100 with TF32, the cost model is
  given half the time for products, traffic and messages, and so finds {min(times):.0f} to
  {max(times):.0f} % of the time (section 1)
- Gradient checkpointing is essential for very deep models | web page |
  {"right" if needed == len(deep) else "depends on memory, not on depth"} | computed: {needed} of
  {len(deep)} jobs with 80 layers or more; with cp, {len(only_with_cp)} of all (section 2)
- 8 V100: ZeRO-2 with CPU offload | web page |
  {advice.verdict(offloaded, fastest, old.error())} | computed for 7B: {offloaded / fastest:.2f}
  times the seconds of the fastest plan without offload; ZeRO 2 alone
  {"fits, too" if ways["ZeRO 2"] else "does not fit"} (section 3)
- Save every few iterations, such as every epoch | PyTorch slides | the epoch is no unit |
  405B on 16,384 GPUs: every {practices.describe_seconds(period)}; lost: {lost:.1%} (section 4)
- Large micro-batches for intensity, small ones for the bubble | CS 229S | right, both | computed:
  best for GPT-2 XL is {best["GPT-2 XL"]}, for GPT-3 {best["GPT-3 175B"]} (section 5)
- DDP with gradient accumulation, for flexible batches | web page | right, under no_sync | computed:
  {accumulated[-1][0] / accumulated[-1][1]:.0f} times the seconds along dp without it (section 5)
- Near-linear scaling with proper configuration | web page | depends on the batch | computed: the
  speed of a GPU falls to {scaled["the same batch"][-1]:.0%} from 128 to 4,096 with the same batch;
  {scaled["a batch that grows"][-1]:.0%} if it grows. Published, dp alone, from {fewest} to {most}:
  {real[most] / real[fewest]:.0%} (section 6)
""")

# %% jupyter={"source_hidden": true}
name, parameters = practices.largest_layer()
put_to_the_test(f"""
- Start with DDP; add complexity when it is needed | web page; book chapter | see there |
  10f, section 3: the planner's ratio for a small model
- The table: DDP, ZeRO-2, ZeRO-3, ZeRO-3 with tensor parallelism | book chapter | see there |
  10f, section 2: walked for six models on three kinds of GPU
- tp inside machines, pp across them, dp anywhere | web page | tp: right; else depends | bytes of
  all six orders: 09c, section 3; seconds: 10f, sections 3 to 5
- tp across machines makes layers 10 to 30 times slower | web page | depends | on the network: 10f,
  section 5; measured over slow links: 07g
- Tensor parallelism when one layer is too large for a GPU | web page; book chapter | right, and
  rare | computed: the largest layer of the dense shapes in labs/model_shapes.py, {name}'s, has
  {parameters / 1e9:.1f} billion parameters: {2 * parameters / 1e9:.0f} GB in bfloat16
- At least 4 micro-batches for each stage | web page | depends | 08d; with seconds: 10f, section 3
- tp on one fast server, pp on several or without fast links | CS 229S | depends | 10f, section 4:
  which kind wins where
- A tool such as Alpa helps to choose | CS 229S | right, within its cost model | 10d
- Pipelines load very large models, but use GPUs poorly | web note | depends | on the number of
  micro-batches: measured in 08
""", fold="Choosing a plan")

# %% jupyter={"source_hidden": true}
grown = practices.predict_scaling("Llama 3 8B", "H100", [8, 512], 8)["the same batch"][-1]
put_to_the_test(f"""
- DDP rather than DataParallel, even on one machine | web note; handwritten notes | right, says
  PyTorch's documentation | emulated in 03i; DataParallel itself does nothing on CPUs
- Synchronous updates avoid stale weights; asynchronous ones only look fast | handwritten notes |
  depends | measured: staleness and loss, 03h, sections 3 and 4
- Start all ranks with equal weights, and average gradients | book chapter; PyTorch slides | right |
  equal to one process: 03. A sum is another learning rate: 01
- Gradients in buckets, sent during the backward | book chapter; PyTorch slides | right | measured:
  03c, section 1. Its 25 MB are a default, not a law
- Accumulate under no_sync | PyTorch slides | right | bytes: 03d; seconds: section 5 here
- find_unused_parameters=True for dynamic graphs | web page | right | it sends more: 03e, section 3
- Reduce is not for gradients, all-reduce is | handwritten notes | imprecise | ZeRO needs a reduce
  to each owner: 02d, section 2
- Rings are slow for many small messages | handwritten notes | right | latencies counted in 02e
- Compute-bound: more GPUs with DDP | book chapter | depends | computed: 8B with 64 samples, each of
  512 H100 does {grown:.0%} of what it did among 8
- Memory-bound: ZeRO-3; network-bound: another topology | book chapter | mixes two things | the
  bound is of bandwidth, ZeRO saves capacity: 03k. Slower networks: 10f, section 4
- Distribute if the model, the batch or the time is too large | PyTorch slides | imprecise | 00b
""", fold="Data parallelism")

# %% jupyter={"source_hidden": true}
needs = {name: 18 * float(practices.shape_of(name).parameters) / 80e9 for name in advice.NAMES}
largest = max(needs, key=needs.get)
put_to_the_test(f"""
- Choose the stage by the model's size, and escalate | book chapter | depends | size alone is not
  enough: 10f, section 2
- Speed ZeRO 1 > 2 > 3, needed bandwidth the other way round | web note | depends | measured: 06f
- ZeRO 3 sends 1.5 times, or 3 times, as much as DDP | four sources | 1.5 for one micro-batch |
  counted: 06h; for several micro-batches: 10f, section 6
- ZeRO-3 fragments memory: contiguous_gradients, and tuned prefetching | web page |
  documented, for gradients | not tested: CPUs' allocators differ. DeepSpeed copies gradients into
  one buffer (its config page); that option is not about gathered parameters
- Small units hide communication better; so FSDP beats DeepSpeed | blog | wrong, by themselves |
  measured: 06f, section 4
- ZeRO-3 may be far slower than DDP | blog | depends | on micro-batches and network: 10f, section 4
- DeepSpeed for options and offload, FSDP for PyTorch | web page | right, by their documentation |
  06h; what each can express: 10e
- fp16 with a loss_scale_window of 100 | web page | not tested | DeepSpeed's default is 1000 (its
  config page); bfloat16 needs no loss scaling: 05b
- Offload to CPU and NVMe extends memory | web page | right | section 3; files: 06g
- Models 100 times as large as one GPU's memory | web page |
  {"right, with as many GPUs" if needs[largest] < 100 else "right"} | computed: states of {largest}
  are {needs[largest]:.0f} times the memory of an H100; activations come on top
""", fold="ZeRO and FSDP")

# %% jupyter={"source_hidden": true}
slow = practices.slower_network("GPT-3 175B", 1024, "H100", 6.25e9)
put_to_the_test(f"""
- Profile before optimizing, with Nsight Systems | web page | not tested | it is for GPUs and was
  not run; `measure`: 03c; torch.profiler: 09c; a roofline: 10, section 3
- Wrong sizes of the mesh end in deadlocks | web page | wrong | an error at once; a skipped call
  hangs: 09
- dp groups span everything | web page | wrong | printed in 09
- Balance the stages; profile the layers | web page | right | measured: 08g. Computed: the output of
  Llama 3 8B has as many weights as {practices.end_in_layers("Llama 3 8B"):.1f} of its layers
- High-bandwidth networks are required | web page |
  {"right" if slow > 1 + advice.ERRORS[1] else "cannot be told"} | computed: 175B on 1,024 H100
  takes {slow:.2f} times as long with 6.25 GB/s for each GPU in place of 50, each with its best plan
- Only rank 0 saves; storage is shared | PyTorch slides | for DDP alone | 04b
- Ranks may change over a restart | PyTorch slides | right | measured: 04d
- Debugging is hard | web page | right | how to find out: 04c; six bugs: 09
- Engineering is complex | web page | cannot be computed | count lines yourself: 03 and 09b
- Strategies differ in their numbers | web page | right | in the last digits: 09g, section 4
- Tune hyperparameters for each configuration | web page | half | the plan: section 6. Learning rate
  and batch: by training, 03l. Clipping needs the norm over all ranks: 09b
""", fold="Running it")

# %% jupyter={"source_hidden": true}
put_to_the_test("""
- Fine-tune 7B on 4 A100; 8 · 8 · 16 on 1,024 H100; 70B on 64 H100 | web page | see there | 10f,
  section 3
- Serve 70B with tp over 8 GPUs | web page | fits, by arithmetic | 10, section 7; measured with a
  small model: 07f
- Experts: expert parallelism with dp | web page | right | measured: 09e
- Trade memory for computing | web page | right | section 2; 05f
- Communication limits scaling | web page | right | section 6; 10c
- PyTorch, DeepSpeed, Megatron-LM and NeMo support it | web page; web note | right | which option of
  which engine: 10e. NeMo was not tried
- Proven by GPT-4, Llama and PaLM | web page | imprecise | 09g
- Tensor parallelism keeps GPUs busy, but synchronises often | CS 229S | right | measured: 07g
- Partition layers, and GPUs idle | CS 229S | right | measured: 08
- Trying strategies is expensive | CS 229S | right at scale | 10d; few runs may do: 10b
""", fold="Applications and promises")

# %% [markdown]
# Three things in this advice cannot be tested here, and the tables say so: memory that GPUs'
# allocators fragment, NVIDIA's profiler, and complexity.
#
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); slides of a course on DDP in
# PyTorch; CS 229S, lecture 8; a book's chapter on data parallelism; a web note, a blog, handwritten
# notes. DeepSpeed's [configuration](https://www.deepspeed.ai/docs/config-json/) (read in 2026).
# Rajbhandari et al. 2021, [ZeRO-Infinity](https://arxiv.org/abs/2104.07857), on NVMe.

# %% [markdown]
# ## What you have learnt
#
# * **Mixed precision** shrinks activations, and speeds products up. States stay about as large.
# * **Recomputing** and **offload** make a plan possible. Whether it is the best one, the planner
#   says.
# * **How often to save** follows from the seconds of a saving and of a failure, not from epochs.
# * A **micro-batch** is too small if starting the kernels takes longer than the kernels, and too
#   large if the bubble grows.
# * Advice without a job, a batch and a network has no verdict.
#
# **Your exercise** stands in [labs/practices.py](../labs/practices.py).
#
# **Next**: {{next}}.

# %%
progress("10g")
