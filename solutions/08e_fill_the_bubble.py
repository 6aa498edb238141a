# %% [markdown]
# # 08e · Fill the bubble
#
# **With 4 ranks and 8 micro-batches, every rank of 1F1B is idle for 27 % of the time. Can another
# order fill this time?** More micro-batches would help, but they make the batch larger. In this
# part the batch stays as it is. You cut the model into more stages, and the backward into two
# halves. Then you write a schedule that beats 1F1B, and rank it beside those of the papers.

# %% [markdown]
# ![Timelines of 1F1B, ZB-H1 and ZB-V on four real ranks. The grey idle time shrinks from the first
# to the last](../assets/covers/08e_fill_the_bubble.png)
#
# *Measured in section 5: three schedules on four ranks, 8 micro-batches (computing is emulated).*
#
# **After this part you can** interleave stages, split a backward, write a schedule under a memory
# limit, and say what "zero bubble" means and what it costs.
#
# **It takes** about 30 minutes, and 75 more for 3 exercises. **It needs** parts
# [08b](08b_one_forward_one_backward.ipynb) and [08c](08c_a_machine_for_schedules.ipynb).

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, check_schedule, explore, hint, lab, launch, plot_bars, plot_schedule, predict,
    progress, put_to_the_test, rounding, simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, zero_bubbles = lab("schedules"), lab("zero_bubbles")
placed_pipelines, pipeline_engines = lab("placed_pipelines"), lab("pipeline_engines")
Action = schedules.Action
p, m = world_size, 2 * world_size  # ranks, micro-batches

# %% [markdown]
# ## 1 · More stages than ranks: interleaved 1F1B
#
# The bubble is as long as $p - 1$ stages need for one micro-batch. Smaller stages make it shorter.
# So cut the model into $vp$ stages, and give each rank $v$ of them. A rank's stages are called its
# **chunks**. With 4 ranks and $v = 2$, rank 0 has stages 0 and 4, rank 1 has stages 1 and 5. A
# micro-batch goes around twice.

# %% [markdown]
# ### Exercise 8.11 · Whose turn is it?
#
# Write `turn(k, ranks, chunks, kind="F")` in [labs/schedules.py](../labs/schedules.py). It returns
# the `Action` that is the $k$-th forward of a rank, $k = 0, 1, 2, …$; with `kind="B"` the $k$-th
# backward. All ranks have the same order:
#
# * Micro-batches come in groups of as many as there are ranks.
# * A group goes through chunk 0, then through chunk 1, and so on. Then comes the next group.
# * Backwards take the chunks in the opposite order. Micro-batches stay in order.
#
# For 2 ranks and 2 chunks (`F3.1` is the forward of micro-batch 3 on chunk 1, `F3` on chunk 0):
#
# | $k$ | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
# |---|---|---|---|---|---|---|---|---|
# | forward | F0 | F1 | F0.1 | F1.1 | F2 | F3 | F2.1 | F3.1 |
# | backward | B0.1 | B1.1 | B0 | B1 | B2.1 | B3.1 | B2 | B3 |

# %%
check("8.11")

# %% [markdown]
# `interleaved` in the same lab makes a schedule of these turns. On real ranks, computing is
# emulated again: a rank's whole part of the model takes 30 ms forward, and 60 ms backward. With two
# chunks, each chunk takes half of it. How much of the time is idle now? (1F1B: $\frac{p-1}{m+p-1}$
# of the whole.)

# %%
less = predict(f"Idle share, interleaved with 2 chunks, {p} ranks, {m} micro-batches", unit="%")

# %% tags=["nbval-ignore-output"]
pace = {"F": 0.030, "B": 0.060, "I": 0.030, "W": 0.030}
runs = {name: placed_pipelines.emulated(name, p, m, pace) for name in ("1F1B", "interleaved")}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
half = (p - 1) / 2
less.compare(theory=100 * half / (m + half), measured=100 * runs["interleaved"][1].idle_share,
             kind="idle")

# %% tags=["nbval-ignore-output"]
plot_schedule({f"{name}, {how}": pair[how == "measured"] for name, pair in runs.items()
               for how in ("simulated", "measured")})

# %% [markdown]
# Without pauses the bubble is divided by $v$. Over the ideal it is $\frac{1}{v}\,\frac{p-1}{m}$.
# Real ranks gain less, as they pause between more actions.
#
# It has two prices. Messages cross $vp - 1$ boundaries in place of $p - 1$. And a rank keeps more:
# "11/2" in the picture are 11 micro-batches on one of two chunks, as much as 5.5 on all its layers.
# 1F1B keeps 4.

# %% [markdown]
# ## 2 · A backward in two halves
#
# A backward computes two things. The rank before waits for one of them. Nobody waits for the other.
# Take a linear layer $y = x A^\top$, and let $g$ be the gradient of $y$:

# %%
x, A, g = torch.tensor([[1., 2.]]), torch.tensor([[3., 4.], [5., 6.]]), torch.tensor([[1., 10.]])
print("I, gradient of the input:   ", (g @ A).tolist(), " needs g and A")
print("W, gradient of the weights: ", (g.T @ x).tolist(), " needs g and x")

# %% [markdown]
# `I` (for *input*) has to travel on, to the rank before. `W` (for *weights*) is needed only when
# the optimizer steps. Until then a rank may do it whenever it has nothing better to do. The price:
# $g$ and $x$ are kept until `W` is done.

# %% [markdown]
# ### Exercise 8.12 · The weights' gradients, later
#
# Write `LaterWeights` in [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), a
# `torch.autograd.Function`.
#
# * `forward(ctx, x, weight, bias, later)` returns `F.linear(x, weight, bias)`. `x` has the shape
#   (samples, …, inputs), `weight` is (outputs, inputs), and `bias` is (outputs,) or `None`.
# * `backward(ctx, gradient)` returns the gradient of `x`, and `None` for the other three. It
#   appends one function without arguments to the list `later`.
# * When that function is called, it *adds* to `weight.grad` and `bias.grad`, without a graph. The
#   lab's `add_weight_gradients(x, gradient, weight, bias)` does this.
#
# Keep `x` with `ctx.save_for_backward`, and nothing else with it. In the example above, `x.grad`
# is `[[53, 64]]` at once, and `weight.grad` is still `None`. After `later[0]()` it is
# `[[1, 2], [10, 20]]`.

# %%
check("8.12")

# %% [markdown]
# Only linear layers are split here. What norms and embeddings compute stays in `I`.
#
# ## 3 · Beat 1F1B
#
# Now it is your turn. The rules of the game:
#
# * A forward takes 1, `I` takes 1, `W` takes 1. (So `B` takes 2.)
# * A micro-batch is kept from its `F` until its `W`. A rank may keep `ranks` of them, as many as
#   1F1B's rank 0 does.
#
# This is 1F1B under these rules. "keeps 4" stands on the right.

# %%
plot_schedule({"1F1B": simulate(schedules.rows_of(schedules.one_f_one_b, p, m))})

# %% [markdown]
# Look at the first backward. Rank 3 does all of B0, then rank 2 does all of B0, and so on. Rank 0
# waits for three whole backwards. If rank 3 does I0 alone, rank 2 can begin one time unit earlier.
# And so can rank 1 after it. Then look at the right end, and at who keeps fewer than 4.

# %% [markdown]
# ### Exercise 8.13 · Half the bubble, the same memory
#
# Write `my_schedule(rank, ranks, microbatches)`. It yields the actions of one rank, as
# `one_f_one_b` did: `Action("F", i)`, `Action("I", i)` and `Action("W", i)`, or `Action("B", i)` if
# you do not split a backward. (A list is fine, too.) Each rank has one chunk. There are at least as
# many micro-batches as ranks.
#
# * Every micro-batch has its F, then its I, then its W on each rank (or its F and its B).
# * No rank keeps more than `ranks` micro-batches at a time.
# * The bubble is at most half of 1F1B's. With 4 ranks and 8 micro-batches, 24 would be a step
#   without any bubble, and 1F1B takes 33. So 28.5 or less passes.

# %% [markdown]
# For example, one valid row for the last of 2 ranks is F0 I0 F1 I1 W0 F2 I2 W1 W2. It keeps 2
# micro-batches. To look at a schedule, draw it: `plot_schedule(simulate(schedules.rows_of(
# my_schedule, 4, 8)))`. Do not look into `zero_bubble` in the lab yet.

# %%
def my_schedule(rank, ranks, microbatches):
    ### BEGIN SOLUTION
    warm_up = ranks - 1 - rank
    put_off = rank  # ranks - rank are kept by 1F1B, so there is room for so many more
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        if i >= put_off:
            yield Action("W", i - put_off)
    for i in range(microbatches - put_off, microbatches):
        yield Action("W", i)
    ### END SOLUTION

check("8.13", my_schedule)

# %% [markdown]
# Your schedule beside the published ones, the shortest step first. (As long as it cannot run, it is
# not in the table.) Section 4 explains the names.

# %%
Table(["schedule", "a step takes", "idle", "kept", f"fits into {p}"],
      zero_bubbles.ranking(my_schedule, p, m, most=p))

# %% [markdown]
# The last rank cannot begin before its first micro-batch has passed all ranks before it. That takes
# $p - 1$, and its work takes $3m$. So with one chunk on each rank, no step is shorter than $3m + p
# - 1$, which is 27 for 4 ranks and 8 micro-batches. The shorter ones have two chunks.
#
# ## 4 · What the papers have found
#
# **ZB-H1** is 1F1B in halves. Rank $r$ puts each `W` off by $r$ micro-batches. So each rank keeps
# $p$, no more than 1F1B's first one. In [labs/zero_bubbles.py](../labs/zero_bubbles.py) a schedule
# is a text of letters. `"F" * 3 + "FIW" * 5` is: three forwards, then five times F, I, W.

# %%
h1 = schedules.rows_of(zero_bubbles.zb_h1, p, m)
for rank, row in enumerate(h1):
    print(f"rank {rank}:", "".join(action.kind for action in row))
plot_schedule({"ZB-H1": simulate(h1)})

# %% [markdown]
# The bubble has shrunk from $(p-1)(t_F + t_I + t_W)$ to $(p-1)(t_F + t_I - t_W)$: a third, if all
# three take equally long.
#
# **ZB-H2** warms up with twice as many forwards, and puts `W` off by $2r$. Is its bubble smaller?
# In one step, no. But look at two steps, one after the other, without a pause between them:

# %%
h2 = schedules.rows_of(zero_bubbles.zb_h2, p, m)
plot_schedule({f"{name}, two steps": simulate(zero_bubbles.twice(rows), zero_bubbles.HALVES,
                                             unit="forwards")
               for name, rows in (("ZB-H1", h1), ("ZB-H2", h2))}, most_inches=1.3)

# %% [markdown]
# With ZB-H2 each rank begins later than the one before, and ends later by as much. So in a long
# run, no rank is ever idle between its steps: this is the **zero bubble**. It has two prices:
#
# * Rank 0 keeps $2p - 1$ micro-batches, nearly twice as many.
# * No rank may wait for others between two steps. But clipping by the global norm needs a sum over
#   all ranks *before* the optimizer steps. So does the test for `inf` in mixed precision. The
#   paper's way out: each rank steps at once, and takes the step back if the sum says so.

# %% [markdown]
# **ZB-V** needs no more memory than 1F1B. It cuts the model into $2p$ stages, and lays them out as
# a V: down to the last rank, and up again. Rank 0 has the first stage *and* the last one. A
# micro-batch comes back to it after its forward, so the backward begins on rank 0, with no wait for
# other ranks. And where a micro-batch of chunk 0 is kept for long, one of chunk 1 is kept for a
# short time: all ranks keep equally much.
#
# `simulate`, `check_schedule` and the machine of 08c have to know which rank has which stage. For
# them, `stages[rank]` is the list of a rank's stages, one for each chunk.

# %%
v_rows, v_stages = zero_bubbles.rows_and_stages("ZB-V", p, m)
check_schedule(v_rows, most_kept=2 * p, stages=v_stages)  # 2p of half a rank's layers
print(v_stages)
print("rank 0:", *v_rows[0][:12], "…")

# %%
idle_v = predict(f"Idle share, ZB-V, {p} ranks, {m} micro-batches, F = I = W", unit="%")

# %%
dual_rows, dual_stages = zero_bubbles.rows_and_stages("DualPipeV", p, m)
timelines = {"ZB-V": simulate(v_rows, zero_bubbles.seconds_of_chunks(v_rows), unit="forwards",
                              stages=v_stages),
             "DualPipeV": simulate(dual_rows, zero_bubbles.seconds_of_chunks(dual_rows),
                                   unit="forwards", stages=dual_stages)}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was simulated.
wait = (p - 1) / 2
idle_v.compare(100 * wait / (3 * m + wait), 100 * timelines["ZB-V"].idle_share, kind="idle",
               wire="simulated")

# %%
plot_schedule(timelines)

# %% [markdown]
# Only the start is idle: rank $r$ waits for its first micro-batch, for $r$ half forwards. In a long
# run nothing is idle.
#
# **DualPipeV** is DeepSeek-V3's DualPipe, cut in half. (DualPipe itself keeps two copies of the
# model, and sends micro-batches in from both ends.) It pairs a forward of one chunk with a backward
# of the other one. They belong to different micro-batches, so one can compute while the other's
# messages travel. DeepSeek-V3 has experts on many machines, and their messages take about as long
# as the computation, says its report. The simulator does a pair one after the other, and knows no
# such messages. So this picture does not show what DualPipe is for.

# %% [markdown]
# All of them, with F = I = W = 1. "A further step" is what a step takes in a long run, if ranks do
# not wait for each other between steps.

# %%
judged = zero_bubbles.judged(zero_bubbles.SCHEDULES, p, m)
Table(["schedule", "a step", "idle", "a further step", "kept"],
      [[name, f"{one.length:g}", f"{one.idle:.1%}", f"{one.further:g}", f"{one.kept:g}"]
       for name, one in judged.items()])

# %% [markdown]
# Are these really the published schedules? PyTorch has ZB-V and DualPipeV, too. A schedule object
# there holds the order of all ranks. We read it, and compare it with our lists:

# %%
theirs = launch(pipeline_engines.orders, ["ZB-V", "DualPipeV"], m, world_size=p).values[0]
for name, rows in theirs.items():
    ours = zero_bubbles.rows_and_stages(name, p, m)[0]
    print(f"{name}: the same {sum(map(len, ours))} actions in the same order:", rows == ours)

# %% [markdown]
# ## 5 · On real ranks
#
# The machine of 08c runs all of these lists. First the question that matters most: are the
# gradients those of one process, in float64?

# %%
names = list(zero_bubbles.SCHEDULES)
found = launch(placed_pipelines.gaps, names, m, world_size=p).values
for name in names:
    print(f"{name:12} equal, but for rounding:", all(gap[name] <= rounding() for gap in found))

# %% [markdown]
# And the time. F, I and W take 30 ms each on a rank's whole part of the model.

# %% tags=["nbval-ignore-output"]
runs |= {name: placed_pipelines.emulated(name, p, m, pace) for name in names[2:]}
plot_bars(names, {"measured": [100 * runs[name][1].idle_share for name in names]},
          "idle, of the whole (%)",
          predicted={"measured": [100 * runs[name][0].idle_share for name in names]},
          title=f"{p} ranks, {m} micro-batches; computing emulated")

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({name: runs[name][1] for name in ("1F1B", "ZB-H1", "ZB-V")})

# %% [markdown]
# Outlines are simulated, bars are measured. What is measured on top are pauses between actions:
# messages, and threads that wake up. A chunk is half as long, so a pause weighs twice as much.

# %% [markdown]
# ## 6 · Times as they are
#
# F = I = W was an assumption. Here are two blocks of a transformer on this machine, computed for
# real. In the table, each schedule's step is given over the ideal, in which nobody waits.

# %% tags=["nbval-ignore-output"]
seconds = launch(placed_pipelines.seconds_of_kinds, world_size=1, device="cpu").values[0]
print(", ".join(f"{kind} {1e3 * seconds[kind]:.1f} ms" for kind in "FIW"))
ideal = m * sum(seconds[kind] for kind in "FIW")
real = zero_bubbles.judged(names, p, m, seconds)
Table(["schedule", "a step", "with F = I = W", "a further step", "with F = I = W"],
      [[name, *(f"+{took / of - 1:.1%}" for took, of in (
          (real[name].length, ideal), (judged[name].length, 3 * m),
          (real[name].further, ideal), (judged[name].further, 3 * m)))] for name in names])

# %% [markdown]
# The zero is gone. Attention's softmax has an `I`, and no weights. So `I` takes longer than `W`,
# and where a `W` was to fill a gap, it is too short. Longer samples make attention larger, and the
# difference, too. PyTorch's class says so in its docstring. The papers' code therefore measures F,
# I and W first, and searches an order for them.
#
# Try it: the times of I and W, in forwards.

# %%
def draw_it(schedule, ranks, microbatches, input_half, weight_half):
    rows, stages = zero_bubbles.rows_and_stages(schedule, ranks, microbatches)
    times = {"F": 1, "I": input_half, "W": weight_half, "B": input_half + weight_half}
    pace = zero_bubbles.seconds_of_chunks(rows, times)
    return plot_schedule({schedule: simulate(rows, pace, unit="forwards", stages=stages)},
                         most_inches=2.8)

explore(draw_it, schedule=["ZB-V", *(name for name in names if name != "ZB-V")],
        ranks=[4, 2, 6, 8], microbatches=[24, 48], input_half=[1.5, 1, 2],
        weight_half=[0.5, 1, 0.75], labels={"microbatches": "micro-batches",
        "input_half": "I (forwards)", "weight_half": "W (forwards)"})

# %% [markdown]
# **On GPUs.** Kernels of a GPU take time to start, and a half is two smaller kernels. So a split
# backward also costs something that no picture here shows.
#
# PyTorch has `ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble` and `ScheduleDualPipeV`
# (compared above). They split a backward themselves, and not for linear layers alone. They do not
# work on stages that were compiled with `torch.compile`: see [issue
# 161904](https://github.com/pytorch/pytorch/issues/161904) and torch 2.13's source.

# %% [markdown]
# The [authors' repository](https://github.com/sail-sg/zero-bubble-pipeline-parallelism) is a fork
# of Megatron-LM, with the step that can be taken back. The same authors' V-Half and V-Min keep
# $\lfloor\frac{p+2}{2}\rfloor$ and $\lfloor\frac{p+4}{3}\rfloor$ micro-batches in place of $p$.
# Their idle shares are about $\frac{p}{2m}$ and $\frac{2p}{3m}$ with F = I = W, says [their
# page](https://huggingface.co/spaces/sail/pipeline-parallelism-with-controllable-memory).
# [DeepSeek's code](https://github.com/deepseek-ai/DualPipe) leaves it to you to write the function
# that runs a forward and a backward at once. Nothing of this box was measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
over = {name: f"{name} {one.timeline.overhead:.1%}" for name, one in judged.items()}
gpipe = simulate(schedules.rows_of(schedules.gpipe, p, m), zero_bubbles.HALVES).overhead
changes = abs(gpipe - judged["1F1B"].timeline.overhead) > 1e-9
put_to_the_test(f"""
- [C179] Which schedule one takes, GPipe or 1F1B, changes the size of the bubble | CS 229S, lecture
  8, “Pipeline Parallelism” | {"right" if changes else "imprecise"} | not between these two: GPipe
  {gpipe:.1%} over the ideal, 1F1B the same. Others do change it: {"; ".join(
      over[name] for name in names[1:])} (simulated in section 4, run in section 5)
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Narayanan et al. 2021, [Efficient Large-Scale Language Model
# Training](https://arxiv.org/abs/2104.04473), section 2.2: interleaving. Qi et al. 2024, [Zero
# Bubble Pipeline Parallelism](https://arxiv.org/abs/2401.10241): ZB-H1 and ZB-H2 in section 2, ZB-V
# in section 6; [Pipeline Parallelism with Controllable
# Memory](https://arxiv.org/abs/2405.15362). DeepSeek-AI 2024, [DeepSeek-V3 Technical
# Report](https://arxiv.org/abs/2412.19437), section 3.2.1: DualPipe.

# %% [markdown]
# ## What you have learnt
#
# * **Interleaving** divides the bubble by the number of chunks. It sends more, and keeps more.
# * Others wait only for `I`. `W` fills time that was idle, and keeps memory until then.
# * With one chunk on each rank, no step is shorter than $3m + p - 1$. ZB-H1 reaches that with
#   1F1B's memory.
# * **Zero bubble** means a long run without waits between steps, where F = I = W. Clipping by the
#   global norm is such a wait.
# * A **V** puts the first and the last stage on one rank. All ranks then keep equally much.
#
# **Your exercises**: [labs/schedules.py](../labs/schedules.py) has 8.11,
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py) has 8.12, and a cell above 8.13.
#
# **Next**: [08f · Unequal stages](08f_unequal_stages.ipynb).

# %%
progress("08e")
