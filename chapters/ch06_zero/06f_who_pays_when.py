# %% [markdown]
# # {{title}}
#
# **ZeRO stage 3 sends three models in a step where DDP sends two. When does the computing have to
# wait for them?** You know the three stages. Now you use them as people do: with micro-batches,
# with smaller and larger units, with recomputation. You count what each of these costs. Then you
# write the part that makes stage 3 usable: its messages travel *while* it computes.

# %% [markdown]
# ![The timeline of two ranks in stage 3: the computing runs with few gaps; below it gathers travel
# ahead of the computing, and reduce-scatters behind it](../assets/covers/06f_who_pays_when.png)
#
# *Measured in section 4: a step of stage 3 with one unit gathered ahead. The upper bars of a rank
# are its computing, the lower bars its messages.*
#
# **After this part you can** say what micro-batches, units and recomputation cost in each stage,
# and let gathers and reduce-scatters travel behind the computing.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, plot_bars, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
counts = [1, 2, 4]  # micro-batches in a step

# %%
prefetch, costs = lab("prefetch"), lab("stage_costs")
text = lab("language_model").standard_library(20_000)

# %% [markdown]
# ## 1 · Micro-batches
#
# A large batch rarely fits at once. So a rank computes it in micro-batches, and adds up the
# gradients (chapter 01). Each micro-batch has a forward and a backward of its own. The optimizer
# takes one step after the last one. What does each stage send meanwhile?
#
# * **DDP** waits under `no_sync`, and sums in the last backward. **Stage 1** sends in the step.
# * **Stage 2** must not keep whole gradients. So it reduces them in every backward.
# * **Stage 3** keeps no parameters. So it also gathers them for every forward and every backward.

# %% [markdown]
# Bytes are counted in **models**: 1 model is the bytes of all parameters. On $n$ ranks, an
# all-gather or a reduce-scatter of a model sends $(n-1)/n$ models from each rank (part
# [02d](02d_bytes_of_all.ipynb)).

# %%
guess = predict(f"ZeRO stage 3, {world_size} ranks, {counts[-1]} micro-batches: sent by a rank",
                unit="models")

# %% [markdown]
# ### Exercise {{models_sent}} · How much each ZeRO stage sends
#
# Write `models_sent(stage, n, micro_batches=1)`. It returns how many models one rank sends in one
# step, up to and including the optimizer's step.
#
# `stage` is 0 for DDP under `no_sync`, and 1, 2 or 3 for the stages of
# [labs/zero.py](../labs/zero.py). `n` is the number of ranks. All collectives are rings, gradients
# have as many bytes as parameters, and padding does not count.
#
# For example, on 2 ranks with 1 micro-batch: DDP's all-reduce sends half a model twice, so
# `models_sent(0, 2)` is 1. In stage 2 the backward reduces (½), and the step gathers the new
# parameters (½): `models_sent(2, 2)` is 1, too. What comes more than once with 3 micro-batches?

# %%
def models_sent(stage, n, micro_batches=1):
    ### BEGIN SOLUTION
    once = (n - 1) / n
    return once * {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}[stage]
    ### END SOLUTION

check("{{models_sent}}", models_sent)

# %% [markdown]
# Now the measurement. The small transformer is trained with each stage, in 1, 2 and 4 micro-batches
# of a step. The operating system counts the bytes. (`device="cpu"` stands in this part because the
# operating system counts bytes of Gloo alone, and because computing is emulated from section 2 on.)

# %%
runs = {stage: launch(costs.accumulate, stage, counts, text, world_size=world_size, device="cpu")
        for stage in costs.STAGES}
models = {
    stage: [costs.count_models_sent(run, f"in {m}") for m in counts] for stage, run in runs.items()
}
Table(["micro-batches", *counts],
      [[stage, *(f"{sent:.2f}" for sent in row)] for stage, row in models.items()],
      note="models sent by a rank in one step")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
guess.compare(3 * counts[-1] * (world_size - 1) / world_size, models["stage 3"][-1],
              kind="communication")

# %% [markdown]
# With micro-batches, stage 2 sends more than stage 1, and stage 3 much more than both. So if whole
# gradients fit, stage 1 is the cheaper choice.
#
# FSDP2 lets you choose. After `model.set_requires_gradient_sync(False)` it does not reduce in a
# backward, and keeps whole gradients until the last one. It then sends less, and needs more memory.
# After `set_reshard_after_backward(False)`, gathered units stay for the next micro-batch as well.
#
# ### Exercise {{accumulate_part}} · Debug gradient accumulation in stage 2
#
# This is accumulation in stage 2. Read it. Do not run the check yet: the cell after the function
# shows the symptom.

# %%
def accumulate_part(model, loss_fn, micro_batches):
    n, parameters, total = dist.get_world_size(), list(model.parameters()), 0
    for inputs, targets in micro_batches:
        ### BEGIN SOLUTION
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        ### IT WAS
        # loss = loss_fn(model(inputs), targets) / (len(micro_batches) * n)
        ### END SOLUTION
        gradients = torch.autograd.grad(loss, parameters)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        chunks = list(F.pad(flat, (0, -len(flat) % n)).chunk(n))
        mine = torch.empty_like(chunks[0])
        dist.reduce_scatter(mine, chunks)
        total += mine / n
    return total

# %%
for n in (1, 2, 3):
    run = launch(costs.first_number, accumulate_part, world_size=n, device="cpu")
    got, wanted = run.values[0]
    print(f"on {n} ranks the gradient begins with {got:.4f}; in one process with {wanted:.4f}")

# %% [markdown]
# If these pairs differ, the gradient is wrong. And yet the training looks healthy: Adam divides a
# gradient by its own size, so a factor does not change its steps. It shows with SGD, and with
# clipping.
#
# Mend `accumulate_part`. It gets a model, a loss function, and this rank's micro-batches, pairs of
# inputs and targets. Each rank has equally many, all of one size. It returns this rank's part of
# the mean gradient over the micro-batches of *all* ranks: flat, and padded at the end so that all
# parts are equally long. It leaves nothing in `.grad`.

# %% [markdown]
# For example, 2 ranks have one micro-batch each, with the gradients `[2, 4, 6]` and `[4, 8, 10]`.
# The mean is `[3, 6, 8]`. Rank 0 returns `[3, 6]`, rank 1 `[8, 0]`.

# %%
check("{{accumulate_part}}", accumulate_part)

# %% [markdown]
# ## 2 · How large is a unit?
#
# A **unit** is what stage 3 gathers at once: one layer, a block, or the whole model. A small unit
# needs little memory. What does it cost?
#
# Times on this computer depend on how busy its cores are. So computing is *emulated*: a layer
# sleeps in its forward, and twice as long in its backward. Links are throttled. The messages
# themselves are real, and so is the engine. (Of three runs the quickest is shown: other programs
# only make a run slower.) There are 6 layers. We count time in **forwards** of one layer: a forward
# takes 1, a backward 2. The bytes of a layer take ½ to travel. Each message has a latency of 0.2 on
# top.

# %% [markdown]
# So the computing of a step takes 6 · (1 + 2) = 18 forwards. In stage 3, each unit is gathered
# twice, and its gradients are reduced once. With one unit for each layer, a message takes 0.7.

# %%
by_layer = predict("A unit for each layer, each message waited for: a step takes", unit="forwards")

# %% tags=["nbval-ignore-output"]
sizes = (1, 2, 3, 6)  # layers in a unit
turns = prefetch.take_turns({layers: (0, layers) for layers in sizes})
on_demand = {layers: prefetch.quickest(runs).values[0] for layers, runs in turns.items()}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
by_layer.compare(18 + 3 * 6 * 0.7, on_demand[1][0])

# %% tags=["nbval-ignore-output"]
names = [f"{layers} layer{'s' * (layers > 1)}" for layers in sizes]
plot_bars(names, {"time of a step": [took for took, _ in on_demand.values()]},
          "time of a step (forwards of a layer)", "what a unit is",
          predicted={"time of a step": [18 + 3 * (6 / k * 0.2 + 3) for k in sizes]},
          title="Stage 3, each message waited for (computing emulated)")

# %%
Table(["layers in a unit", *sizes],
      [["models gathered at a time", *(f"{most:.2f}" for _, most in on_demand.values())]])

# %% [markdown]
# Small units hold less, and by the formula the step is *slower*. The same bytes travel, but in more
# messages, and each message has its latency. FSDP's authors met the same fact on GPUs: they join
# parameters into units because short messages waste a network ([Zhao et al.
# 2023](https://arxiv.org/abs/2304.11277), section 3.2).
#
# A blog says the opposite: FSDP is faster than DeepSpeed because its units are finer. Finer units
# can only win if their messages travel while something is computed. So this is what you build next.

# %% [markdown]
# ## 3 · A line of jobs
#
# While rank 0 computes a unit, the gather of the next unit could already be on its way. That takes
# a second thread: one thread computes, the other one sends. The smallest tool for this is a **line
# of jobs**. `begin(job)` puts a job, a function without arguments, at the end of the line. It
# returns at once. What it returns is again a function: it waits until that job is done.

# %% tags=["nbval-ignore-output"]
begin, started = prefetch.make_job_queue(), time.perf_counter()
wait_for_a = begin(lambda: time.sleep(0.2))  # a message that takes 200 ms
wait_for_b = begin(lambda: time.sleep(0.2))
time.sleep(0.3)  # meanwhile, 300 ms of computing
wait_for_a()
print(f"a is there after {1e3 * (time.perf_counter() - started):.0f} ms")
wait_for_b()
print(f"b is there after {1e3 * (time.perf_counter() - started):.0f} ms, in place of 700")

# %% [markdown]
# Job `a` was done long before anybody waited for it. Job `b` began when `a` was done, so it took
# until 400 ms.
#
# Why one line, and not a thread for each message? Ranks match messages by their order. With two
# threads, rank 0 might send a gather first, and rank 1 a reduction first. In one line all ranks
# send in the same order.

# %% [markdown]
# Three rules follow.
#
# 1. **Wait before use.** A unit is there when its gather is done, and not when it has begun.
# 2. **Everything that sends is a job.** A message beside the line would get mixed up with those in
#    it.
# 3. **First in line, first served.** If you put the next unit's gather before your own, you wait
#    for both.

# %% [markdown]
# ### Exercise {{prefetching}} · Prefetch and reduce in the background
#
# Fill the three holes of `Prefetching` in [labs/prefetch.py](../labs/prefetch.py). It is stage 3,
# and its messages travel while it computes. All else of `Zero3` stays as it is.
#
# * `need(unit)` is called before a unit computes, in the forward and in the backward. When it
#   returns, the unit is there. The units of `self.ahead()`, those that come next, are on their way:
#   their gathers are in the line, and nobody waits for them. `self.coming` is a dict. For each unit
#   that is there, or on its way, it has the function that waits for its gather. Such a unit is not
#   gathered again.

# %% [markdown]
# * `reduce(unit)` is called when the gradients of a unit are complete. It puts their reduction into
#   the line, `reduce_gradients(taken)`, and does not wait. `taken` is a copy of the unit that
#   has taken over its gradients. The lines around the hole make it, and let go of the unit.
# * `end_backward()` is called when the backward is over. When it returns, all reductions of this
#   backward are done: the optimizer's step comes next. `self.reductions` is an empty list at first.
#   It is yours.
#
# `self.begin(job)` is the line. A job has no arguments: `partial(gather, unit)` makes one. In the
# first step nobody knows what comes next. So `ahead()` is empty, and each gather is waited for.

# %% [markdown]
# For example, let there be three units A, B and C, and `depth` be 1. In the forward the order is A,
# B, C. In the backward it is C, B, A. (C is gathered again in the backward: after its forward the
# engine has let go of it.)
#
# | call | goes into the line | is waited for |
# |---|---|---|
# | `need(A)` | gather A, gather B | A |
# | `need(B)` | gather C | B |
# | `need(C)`, next is C again | – | C |
# | `need(C)`, in the backward | gather C, gather B | C |
# | `reduce(C)` | reduce C | – |
# | `need(B)` | gather A | B |
# | `reduce(B)` | reduce B | – |
# | `need(A)` | – | A |
# | `reduce(A)` | reduce A | – |
# | `end_backward()` | – | C, B, A |

# %%
check("{{prefetching}}")

# %% [markdown]
# ## 4 · A film: how far ahead, how large a unit
#
# First a case that you can compute in your head. There are 6 layers, each a unit. A message takes ½
# forward, with no latency. If each message is waited for, the step takes 18 + 3 · 6 · ½ = 27. With
# one unit gathered ahead, which messages are still waited for? Nothing can hide the first gather of
# the forward. The last layer is gathered again for its backward, at once. And after the last
# backward one reduction is left.

# %%
shorter = predict("With one unit gathered ahead, a step is shorter by", unit="%")

# %% tags=["nbval-ignore-output"]
raced = prefetch.take_turns({how: (how, 1, prefetch.EVEN, 0.0)
                             for how in ("stage 1", "stage 2", 0, 1)}, rounds=4)
stages = {how: prefetch.quickest(runs) for how, runs in raced.items()}
took = {how: run.values[0][0] for how, run in stages.items()}
ways = {0: "stage 3, each unit waited for", 1: "stage 3, one unit ahead"}
for how, forwards in took.items():
    print(f"{ways.get(how, how)}: {forwards:.1f} forwards")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
shorter.compare(100 * (1 - (18 + 3 * 0.5) / 27), 100 * (1 - took[1] / took[0]))

# %% tags=["nbval-ignore-output"]
MESSAGES = ("gather", "reduce-scatter")
LANES = ["forward", "backward", *MESSAGES]
until = max(stages[how]["step"].seconds[0] for how in (0, 1))
plot_timeline(stages[0], LANES, below=MESSAGES, until=until,
              title="Stage 3, each message waited for (computing emulated)")

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(stages[1], LANES, below=MESSAGES, until=until,
              title="Stage 3, one unit gathered ahead (computing emulated)")

# %% [markdown]
# The upper bars of a rank are its computing, the lower bars its messages. In the first picture they
# take turns. In the second the computing runs through. Gathers travel ahead of it, reduce-scatters
# behind it.
#
# Now let the layers differ. Every second one has most of the parameters: its bytes take 1.3
# forwards to travel. The bytes of the others take 0.1. (In a model with experts, layers differ in
# this way: chapter 09.) The latency is 0.2 again. Move the controls: how many units are gathered
# **ahead**, and how many layers are in a unit? Everything was recorded from real ranks.

# %% tags=["nbval-ignore-output"]
every = {(depth, layers): (depth, layers, prefetch.UNEVEN) for layers in sizes
         for depth in (0, 1, 2)}
filmed = prefetch.take_turns(every, rounds=2)
film = {key: prefetch.quickest(runs) for key, runs in filmed.items()}
whole = max(run["step"].seconds[0] for run in film.values())

# %% tags=["nbval-ignore-output"]
def draw(ahead, layers):
    run = film[ahead, layers]
    forwards, most = run.values[0]
    return plot_timeline(run, LANES, below=MESSAGES, until=whole,
                         title=f"A step of {forwards:.0f} forwards, at most {most:.2f} models "
                               f"gathered ({ahead} ahead, layers in a unit: {layers})")

explore(draw, ahead=[1, 0, 2], layers=list(sizes), labels={"ahead": "units gathered ahead",
                                                            "layers": "layers in a unit"})

# %% tags=["nbval-ignore-output"]
Table(["layers in a unit", *(f"{depth} ahead" for depth in (0, 1, 2))],
      [[layers, *("{:.0f} forwards, {:.2f} models".format(*film[depth, layers].values[0])
                  for depth in (0, 1, 2))] for layers in sizes],
      note="time of a step, and parameters gathered at a time; at least 18 forwards")

# %% [markdown]
# What to expect on a quiet machine:
#
# * **0 ahead**: small units are the slowest, as in section 2.
# * **2 ahead**: small units are the fastest. A large unit has a long first gather and a long last
#   reduction, with nothing to hide them behind. One unit for the whole model overlaps nothing.
# * **1 ahead is not enough for unequal units.** While a light layer computes, a heavy one cannot be
#   fetched in time. Two ahead give it longer. Units of two layers are alike, and gain nothing from
#   a second one ahead.
# * **The price is memory.** With $d$ ahead, up to $d + 1$ units are there at a time. With 80 blocks
#   a unit is only an eightieth of the model.

# %% [markdown]
# **On GPUs** it is the same idea, with streams in place of threads. FSDP2 gathers in one CUDA
# stream and reduces in another, says its
# [source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py)
# (PyTorch 2.13). So its reduce-scatters are hidden, too. By default both go through one NCCL
# communicator, which does one collective after another: one line.
# (`set_separate_reduce_scatter_group` gives reductions a line of their own.)
#
# In the backward FSDP2 gathers one unit ahead. In the forward the CPU runs ahead of the GPU, and
# starts the next gather by itself. `set_modules_to_forward_prefetch` and
# `set_modules_to_backward_prefetch` take a list of units: with two or more you get the depth 2 of
# the film, and "more reserved memory"
# ([documentation](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)).

# %% [markdown]
# *Still on GPUs.* Of reduce-scatters, FSDP2 keeps one in flight: the next one waits until the
# gradients of the one before may be freed. (`set_reduce_scatter_max_input_buffers` allows more, as
# an experiment, for more memory.) And the last block's gather at the start of the backward, the gap
# in your picture? Give that block `reshard_after_forward=False`. Then its parameters stay from its
# forward to its backward. For the root, what is in no block, this is FSDP2's default.
#
# In a profiler's trace of a slow run, look at the row of computing. Expect three gaps: at the start
# of the forward, at the start of the backward, and at the end of the backward. They are the three
# messages that nothing hides.

# %% [markdown]
# ## 5 · With recomputation
#
# Stage 3 divides the model states by $n$. Activations stay, and soon they are the largest part. So
# in practice stage 3 goes with recomputation (part [05f](05f_computed_twice.ipynb)): a block keeps
# its input, and its forward runs again in the backward. Does this second forward take another
# all-gather?

# %%
both = {name: launch(costs.measure_recomputation, name != "stage 3", text, world_size=world_size,
                     device="cpu") for name in ("stage 3", "blocks recomputed")}
for name, run in both.items():
    print(f"{name}: {costs.count_models_sent(run, 'step'):.2f} models sent")



# %% [markdown]
# No. The unit is gathered when its backward begins, and stays until its gradients are reduced. The
# second forward lies in between. So recomputation costs arithmetic, and no bytes. (The lab takes
# `checkpoint(block, x, use_reentrant=False)`. With `use_reentrant=True`, `Zero3` gathers each block
# once more: the second forward begins and ends before `before_backward` is called.)

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What the table takes, and what it folds.
time_of = {key: run.values[0][0] for key, run in film.items()}
corners = {key: every[key] for key in every if key[0] != 1 and key[1] in (1, 6)}
again = {key: filmed[key] + runs for key, runs in prefetch.take_turns(corners, 2).items()}
finer = [prefetch.compare_steps(again, (depth, 1), (depth, 6)).word for depth in (0, 2)]
most = counts[-1]
told = {m: ", ".join(f"{row[counts.index(m)]:.2f}" for row in models.values())
        for m in (counts[0], most)}
never = abs(models["stage 1"][-1] / models["DDP"][-1] - 1) < 0.05
alike = abs(models["stage 2"][0] / models["stage 1"][0] - 1) < 0.05  # with one micro-batch
slower = {prefetch.compare_steps(raced, 0, stage).word == "slower"  # all wait for each message
          for stage in ("stage 1", "stage 2")}
hides = prefetch.compare_steps(raced, 1, 0).judge("right", "wrong here")
grows = models["stage 3"][-1] > 1.2 * models["stage 2"][-1] > 1.2 * models["stage 1"][-1]
more = f"""
- Fetching ahead hides communication | FSDP's paper, section 3.3 |
  {hides} | {took[0]:.1f} forwards, then {took[1]:.1f} (section 4, run); the computing alone takes
  18
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
surprises = f"""
- [C137] ZeRO-3 is slow because its units are too coarse; FSDP's are finer, hence better | blog,
  “DeepSpeed Zero” and “Fully Sharded Data Parallel” |
  {"depends on overlap" if finer == ["slower", "quicker"] else "not seen here"}; its premise is
  wrong | 6 layers, as 6 units against 1: {time_of[0, 1]:.0f} against {time_of[0, 6]:.0f} forwards
  if each message is waited for, {time_of[2, 1]:.0f} against {time_of[2, 6]:.0f} with two units
  ahead (section 4, table; computing emulated). And DeepSpeed gathers in smaller pieces than FSDP2
  (calls counted in part 06h, sections 1 and 4) | measured: which size is best, since latency and
  speed of the links differ; NCCL and fast links were not measured
- [C134] Speed: ZeRO 1 > 2 > 3 | web note, “Deepspeed ZeRO Data Parallel” |
  {"in part" if slower == {True} else "not decided here"} | if each message is waited for, a step
  takes, in forwards of a layer: stage 1 {took["stage 1"]:.1f}, stage 2 {took["stage 2"]:.1f},
  stage 3 {took[0]:.1f} (section 4, run; computing emulated). Stages 1 and 2 wait for equally many
  bytes, so their difference is noise. With overlap the order is not decided here: stage 3 takes
  {took[1]:.1f} with one unit gathered ahead, and stages 1 and 2 were not run with overlap |
  measured: the order, with engines that overlap all stages. Expected are stages 1 and 2 alike, and
  3 slower on slow links
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises + f"""
- [C132] Each ZeRO stage costs more communication | web page, “Communication Tradeoff” |
  {"wrong" if never else "right"} | stage 1 sends what DDP sends. DDP and stages 1 to 3 send
  {told[counts[0]]} models with {counts[0]} micro-batch, and {told[most]} with {most} (section 1,
  table) | measured: nothing, where a reduce-scatter sends half of an all-reduce, as in the rings of
  this run. NCCL has one of its own (its documentation), Gloo has not (part 06h, section 1)
- [C133] Bandwidth needed, communication overhead: ZeRO 3 > 2 > 1 | web note, “Deepspeed ZeRO Data
  Parallel” |
  {("depends on micro-batches" if grows else "wrong") if alike else "right"} |
  stages 1, 2 and 3 send {told[counts[0]].partition(", ")[2]} models in a step of {counts[0]}
  micro-batch, and {told[most].partition(", ")[2]} with {most} (section 1, table) |
  measured: nothing in the models sent; an engine may keep gradients whole over micro-batches, and
  then stage 2 sends no more
""", more=more)

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *The Evolution of Data
# Parallelism* (blog); a web note on types of distributed training.
#
# **To read on.** Zhao et al. 2023, [PyTorch FSDP](https://arxiv.org/abs/2304.11277): units,
# prefetching, and how long a message has to be. PyTorch's [FSDP2
# tutorial](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html): prefetching with
# its pictures.

# %% [markdown]
# ## What you have learnt
#
# * With $m$ micro-batches stage 2 reduces $m$ times, and stage 3 sends everything $m$ times. Stage
#   1 and DDP send once.
# * Small units hold little, and cost latency. Whether they are faster depends on overlap.
# * In a **line of jobs** gathers travel ahead of the computing, and reduce-scatters behind it.
#   Three messages stay exposed: the first gather of the forward, the first of the backward, and the
#   last reduction.
# * Each unit gathered ahead costs its memory. It pays where units differ.
# * Recomputation costs no bytes.
#
# **Your exercises**: two in cells above, and [labs/prefetch.py](../labs/prefetch.py).
#
# **Next**: {{next}}.

# %%
progress("06f")
