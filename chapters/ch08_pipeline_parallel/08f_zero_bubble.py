# %% [markdown]
# # {{title}}
#
# **Some papers promise a pipeline in which no rank is ever idle. What do they mean, and what does
# it cost?** You have halved the bubble in part 08e. Here are the schedules of the papers. You see
# what each one keeps, and how much of the bubble is left: on real ranks, and with measured times of
# F, I and W.

# %% [markdown]
# ![Timelines of 1F1B, ZB-H1 and ZB-V on four real ranks. The grey idle time shrinks from the first
# to the last](../assets/covers/08f_zero_bubble.png)
#
# *Measured in section 4: three schedules on four ranks, 8 micro-batches (computing is emulated).*
#
# **After this part you can** read the schedules of the papers, say what "zero bubble" means, and
# what it costs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

from pedagogy_lib import (
    Table, check_schedule, explore, lab, launch, plot_bars, plot_schedule, predict, progress,
    put_to_the_test, rounding, simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, zero_bubbles = lab("schedules"), lab("zero_bubbles")
placed_pipelines, pipeline_engines = lab("placed_pipelines"), lab("pipeline_engines")
p, m = world_size, 2 * world_size  # ranks, micro-batches

# %% [markdown]
# ## 1 · A third of the bubble: ZB-H1
#
# **ZB-H1** is 1F1B with its backward in two halves: `I` for the gradient of the input, `W` for the
# gradients of the weights (08e). Rank $r$ puts each `W` off by $r$ micro-batches. So each rank
# keeps $p$ of them, no more than 1F1B's first rank.
#
# It is the schedule of exercise {{my_schedule}}, `zero_bubble` in
# [labs/schedules.py](../labs/schedules.py). Further schedules, in
# [labs/zero_bubbles.py](../labs/zero_bubbles.py), are texts of letters: `"F" * 3 + "FIW" * 5` means
# three forwards, then five times F, I, W.

# %%
h1 = schedules.rows_of(schedules.zero_bubble, p, m)
for rank, row in enumerate(h1):
    print(f"rank {rank}:", "".join(action.kind for action in row))
plot_schedule({"ZB-H1": simulate(h1)})

# %% [markdown]
# Let $t_F$, $t_I$ and $t_W$ be the times of F, I and W. 1F1B's bubble is $(p-1)(t_F + t_I + t_W)$,
# and ZB-H1's bubble is $(p-1)(t_F + t_I - t_W)$. If all three take equally long, ZB-H1's is a third
# of 1F1B's.

# %% [markdown]
# ## 2 · No bubble in a long run: ZB-H2
#
# **ZB-H2** warms up with twice as many forwards, and puts `W` off by $2r$ micro-batches. Is its
# bubble smaller? In one step, no. But look at two steps, one after the other. No rank waits for
# others between its steps:

# %%
h2 = schedules.rows_of(zero_bubbles.zb_h2, p, m)
plot_schedule({f"{name}, two steps": simulate(zero_bubbles.twice(rows), zero_bubbles.HALVES,
                                             unit="forwards")
               for name, rows in (("ZB-H1", h1), ("ZB-H2", h2))}, most_inches=1.3)

# %% [markdown]
# With ZB-H2 each rank begins later than the rank before it, and ends later by the same time. So
# its second step begins when its first one ends. In a long run no rank is ever idle: this is the
# **zero bubble**. It has two prices:
#
# * Each rank keeps up to $2p - 1$ micro-batches, nearly twice as many.
# * No rank may wait for others between two steps. But clipping by the global norm needs a sum over
#   all ranks *before* the optimizer steps. So does the test for `inf` in mixed precision. The
#   paper's way out: each rank steps at once, and takes the step back if the sum says so.

# %% [markdown]
# ## 3 · A V, and both ways: ZB-V, DualPipeV and DualPipe
#
# Can a long run be without a bubble *and* without more memory? **ZB-V** cuts the model into $2p$
# stages, and lays them out as a V: down to the last rank, and up again. Rank 0 has the first stage
# *and* the last one.
#
# * A micro-batch ends its forward on rank 0. So its backward begins there at once.
# * A rank keeps what it computed on the way down for a long time, and what it computed on the way
#   up for a short time. On rank 0 these two times differ most, on the last rank least. So all ranks
#   keep equally much.

# %% [markdown]
# `simulate`, `check_schedule` and the machine of 08c have to know which rank has which stage. For
# them, `stages[rank]` is the list of a rank's stages, one for each chunk. In the list of actions,
# `F0.1` is the forward of micro-batch 0 on chunk 1, the way up.

# %%
v_rows, v_stages = zero_bubbles.rows_and_stages("ZB-V", p, m)
check_schedule(v_rows, most_kept=2 * p, stages=v_stages)  # 2p of half a rank's layers
print(v_stages)
print("rank 0:", *v_rows[0][:12], "…")

# %%
idle_v = predict(f"Idle share, ZB-V, {p} ranks, {m} micro-batches, F = I = W", unit="%")

# %%
timelines = {name: zero_bubbles.simulate_schedule(name, p, m)
             for name in ("ZB-V", "DualPipeV", "DualPipe")
             if zero_bubbles.can_run(name, p, m)}  # DualPipe takes an even number of ranks

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was simulated.
wait = (p - 1) / 2
idle_v.compare(100 * wait / (3 * m + wait), 100 * timelines["ZB-V"].idle_share, kind="idle",
               wire="simulated")

# %%
plot_schedule(timelines)

# %% [markdown]
# In ZB-V, rank $r$ waits only at the start, for its first micro-batch: for $r$ half forwards. In a
# long run nothing is idle.
#
# **DualPipe**, of DeepSeek-V3, has no V. It has two copies of the model: rank $r$ has stage $r$ of
# the one, and stage $p-1-r$ of the other. Half of the micro-batches go down through the first copy,
# the others up through the second one. So each rank has twice as many parameters. (For DeepSeek-V3
# this is not much, says its report: its experts are on many ranks.) After the backward, ranks $r$
# and $p-1-r$ sum their gradients.

# %% [markdown]
# In DualPipe's picture the lower half of the ranks does what the upper half does, in the mirror.
# **DualPipeV** is such an upper half alone, as a V. So one copy is enough. Two replicas of it, each
# on half of the ranks, take as long as DualPipe, and keep as much.

# %% [markdown]
# DualPipe and DualPipeV pair a forward of one chunk with a backward of the other one. The two
# belong to different micro-batches, so one can compute while the other's messages travel.
# DeepSeek-V3 has experts on many machines (09e), and their messages take about as long as the
# computation, says its report. As in [DeepSeek's
# code](https://github.com/deepseek-ai/DualPipe), a pair is one block here: it begins when the
# inputs of both have arrived, and both results leave at its end. In the picture above no message
# takes time, so a block takes $t_{F\&B} = t_F + t_B$.

# %% [markdown]
# The README of that code gives DualPipe's bubble as $(p/2 - 1)(t_{F\&B} + t_B - 3 t_W)$, where $t_B
# = t_I + t_W$. DualPipeV has $2p$ stages of half the length, so its bubble is $\frac{p - 1}{2}
# (t_{F\&B} + t_B - 3 t_W)$. Blocks lengthen a bubble, because each one waits for two inputs. If a
# pair ran one after the other, its first result would leave earlier:

# %%
for name, published in (("DualPipeV", p - 1), ("DualPipe", p - 2)):  # with F = I = W = 1
    if name in timelines:
        rows, stages = zero_bubbles.rows_and_stages(name, p, m)
        apart = simulate(rows, zero_bubbles.seconds_of_chunks(rows), stages=stages)
        print(f"{name}: bubble {timelines[name].seconds - 3 * m:g}, published {published}; "
              f"one after the other {apart.seconds - 3 * m:g}")

# %% [markdown]
# ### Inside a pair: messages of one chunk while the other computes
#
# What is a pair for? In a layer with experts on other ranks (09e), a forward has four pieces:
# attention, **dispatch** of the tokens to their experts, the MLP of the experts, and **combine**,
# which brings their results back. Dispatch and combine are all-to-alls. The backward has the same
# pieces in the opposite order, and of attention and MLP it has two halves, I and W. Let each piece
# of computing take 1, and each all-to-all 1.5, so that a layer computes and sends for equally long.
# How long is a pair of two chunks with 4 such layers, if the best order is taken?

# %%
pair_guess = predict("A forward and a backward of 4 layers as one block", unit="pieces")

# %%
overlapped, message, layers = lab("overlapped_blocks"), 1.5, 4
forward, backward = overlapped.forward_pieces(layers), overlapped.backward_pieces(layers)
alone = {name: overlapped.run_pieces([of], message)
         for name, of in (("a forward alone", forward), ("a backward alone", backward))}
pair = overlapped.run_pieces([forward, backward], message)

# %% jupyter={"source_hidden": true}
# Your prediction, the bound of computing and of messages, and what was simulated.
busy = [sum(end - begin for _, piece, begin, end in pair if piece.sends == sends)
        for sends in (False, True)]
pair_guess.compare(max(busy), overlapped.length_of(pair), kind="communication", wire="simulated")

# %%
lab("block_pictures").plot_blocks(alone | {"both as one block": pair})

# %% [markdown]
# A forward alone computes or sends, never both, because each piece needs the one before. In a pair,
# one chunk's messages travel while the other one computes. The order was found by a simple rule:
# take what can begin first, and gradients of weights last. The longer row is then a bound: the sum
# of all computing, or of all messages. (Figure 4 of DeepSeek-V3's report draws such a block, with
# the messages of the pipeline in it, too.)
#
# For other times of a message:

# %%
times_of = {took: overlapped.times_of_blocks(layers, took) for took in (0, 0.5, 1, 1.5, 2, 3)}
Table(["an all-to-all takes", "F alone", "B alone", "F + B", "F&B, one block", "saved"],
      [[f"{took:g}", f"{of['F']:g}", f"{of['B']:g}", f"{of['F'] + of['B']:g}", f"{of['F&B']:g}",
        f"{1 - of['F&B'] / (of['F'] + of['B']):.0%}"] for took, of in times_of.items()])

# %% [markdown]
# And the whole schedule, with a message of 1.5? Each chunk has the 4 layers. In the second timeline
# the two of a pair run one after the other. (A B computes its W while its messages travel. An I has
# all messages and no W, so here it takes as long as a forward.)

# %%
name = "DualPipe" if zero_bubbles.can_run("DualPipe", p, m) else "DualPipeV"
both = {way: overlapped.simulate_step(name, p, m, times_of[1.5], joined)
        for way, joined in (("pairs as blocks", True), ("one after the other", False))}
plot_schedule({f"{name}, {way}": line for way, line in both.items()}, most_inches=1.3)

# %%
joined = both["pairs as blocks"]
idle = [joined.seconds - busy for busy in joined.busy_seconds]
print(f"{name}: idle for {min(idle):.4g} to {max(idle):.4g} forwards, by rank; the README's bubble "
      f"{overlapped.published_bubble(name, p, times_of[1.5]):.4g}")
for way, line in both.items():
    share = min(overlapped.computing_shares(line, times_of[1.5]))
    print(f"{way}: no action for {line.idle_share:.0%} of the time,",
          f"processors compute for {share:.0%}")

# %% [markdown]
# The timelines show what occupies a rank, and an action occupies it even while it waits for an
# all-to-all that nothing hides. This is why processors compute for less of the time than the
# timelines suggest.
#
# With messages, ranks idle for different times, since they have different numbers of actions
# outside of pairs, where messages are not hidden. The README's formula gives one number for all. It
# assumes that B takes as long as I and W together, and it is exact here if no message takes time.

# %% [markdown]
# All of them, with F = I = W = 1. "A further step" is what a step takes in a long run, if ranks do
# not wait for each other between steps. "Kept" is the most that a rank keeps: where a micro-batch
# goes through both chunks of a rank, it counts as a half on each of them.

# %%
judged = zero_bubbles.score_schedules([*zero_bubbles.SCHEDULES, *zero_bubbles.TWO_COPIES], p, m)
Table(["schedule", "a step", "idle", "a further step", "kept", "copies of the model"],
      [[name, f"{one.length:g}", f"{one.idle:.1%}", f"{one.further:g}", f"{one.kept:g}",
        one.copies] for name, one in judged.items()])

# %% [markdown]
# Not every model with experts is trained with DualPipe, and the last column is one reason. Kimi
# K2's authors kept the interleaved schedule of 08e, with more micro-batches in its warm-up: these
# let an all-to-all of one micro-batch overlap with another one's computing. DualPipe, they say,
# "doubles the memory required for parameters and gradients", and needs more parallelism to make up
# for it ([report](https://arxiv.org/abs/2507.20534), on parallelism).

# %% [markdown]
# Are these really the published schedules? PyTorch has ZB-V and DualPipeV, too. A schedule object
# there holds the order of all ranks. We read it, and compare it with our lists. (It has no
# DualPipe. The course's tests compare ours with the picture in DeepSeek's repository.)

# %%
theirs = launch(pipeline_engines.orders, ["ZB-V", "DualPipeV"], m, world_size=p).values[0]
for name, rows in theirs.items():
    ours = zero_bubbles.rows_and_stages(name, p, m)[0]
    print(f"{name}: the same {sum(map(len, ours))} actions in the same order:", rows == ours)

# %% [markdown]
# ## 4 · On real ranks
#
# The machine of 08c runs all of these lists, with a pair as one block. First the question that
# matters most: are the gradients those of one process, in float64? (DualPipe's after the sum over
# both copies.)

# %%
names = list(judged)
found = launch(placed_pipelines.gaps, names, m, world_size=p).values
for name in names:
    print(f"{name:12} equal, but for rounding:", all(gap[name] <= rounding() for gap in found))

# %% [markdown]
# And the time. F, I and W take 30 ms each on a rank's whole part of the model.

# %% tags=["nbval-ignore-output"]
pace = {"F": 0.030, "B": 0.060, "I": 0.030, "W": 0.030}
runs = {name: placed_pipelines.emulate_schedule(name, p, m, pace) for name in names}
plot_bars(names, {"measured": [100 * runs[name][1].idle_share for name in names]},
          "idle, of the whole (%)",
          predicted={"measured": [100 * runs[name][0].idle_share for name in names]},
          title=f"{p} ranks, {m} micro-batches; computing emulated")

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({name: runs[name][1] for name in ("1F1B", "ZB-H1", "ZB-V")})

# %% [markdown]
# Outlines are simulated, bars are measured. Bars are higher because of pauses between actions:
# messages, and threads that wake up. Where a micro-batch goes through two chunks of a rank, an
# action is half as long, so a pause weighs twice as much.

# %% [markdown]
# ## 5 · Times as they are
#
# F = I = W was an assumption. Here are the times of two blocks of a transformer on this machine.
# The table gives how much longer a step is than the ideal, in which nobody waits: simulated with
# these times, and with equal ones.

# %% tags=["nbval-ignore-output"]
seconds = launch(placed_pipelines.seconds_of_kinds, world_size=1, device="cpu").values[0]
print(", ".join(f"{kind} {1e3 * seconds[kind]:.1f} ms" for kind in "FIW"))
ideal = m * sum(seconds[kind] for kind in "FIW")
real = zero_bubbles.score_schedules(names, p, m, seconds)
Table(["schedule", "a step", "with F = I = W", "a further step", "with F = I = W"],
      [[name, *(f"+{took / of - 1:.1%}" for took, of in (
          (real[name].length, ideal), (judged[name].length, 3 * m),
          (real[name].further, ideal), (judged[name].further, 3 * m)))] for name in names])

# %% [markdown]
# Where `I` takes longer than `W`, the zero is gone: a `W` is too short for the gap that it should
# fill. A reason to expect this is attention's softmax, which has an `I`, and no weights. In longer
# samples attention is larger, and so is the difference. The papers' code therefore measures F, I
# and W first, and searches an order for them.
#
# Try it: choose the times of I and W, in forwards.

# %%
def draw_it(schedule, ranks, microbatches, input_half, weight_half):
    times = {"F": 1, "I": input_half, "W": weight_half, "B": input_half + weight_half}
    timeline = zero_bubbles.simulate_schedule(schedule, ranks, microbatches, times)
    return plot_schedule({schedule: timeline}, most_inches=2.8)

explore(draw_it, schedule=["ZB-V", *(name for name in names if name != "ZB-V")],
        ranks=[4, 2, 6, 8], microbatches=[24, 48], input_half=[1.5, 1, 2],
        weight_half=[0.5, 1, 0.75], labels={"microbatches": "micro-batches",
        "input_half": "I (forwards)", "weight_half": "W (forwards)"})

# %% [markdown]
# 1F1B and the interleaved schedule idle for the same share with all these times: they do not split
# a backward. ZB-V idles least where I and W take 1 each, and more with each longer I or shorter W.
#
# **On GPUs.** A kernel takes time to start, and a backward in two halves has more kernels than a
# whole one. So a split backward also costs something that no picture here shows.
#
# PyTorch has `ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble` and `ScheduleDualPipeV`
# (compared above). They split a backward themselves, and not for linear layers alone. They do not
# work on stages that were compiled with `torch.compile`: see [issue
# 161904](https://github.com/pytorch/pytorch/issues/161904) and torch 2.13's source.

# %% [markdown]
# The [authors' repository](https://github.com/sail-sg/zero-bubble-pipeline-parallelism) is a fork
# of Megatron-LM, with the step that can be taken back. The same authors' V-Half and V-Min keep
# about a half and a third of $p$ micro-batches, for a larger bubble, says [their
# page](https://huggingface.co/spaces/sail/pipeline-parallelism-with-controllable-memory).
# [DeepSeek's code](https://github.com/deepseek-ai/DualPipe) leaves it to you to write the function
# that runs a forward and a backward at once. Their [profile
# data](https://github.com/deepseek-ai/profile-data) show such a pair: 4 layers in each chunk,
# experts on 64 ranks, and no messages of the pipeline. Megatron Core has a like way for its
# interleaved schedule, with [`--overlap-moe-expert-parallel-comm` and
# `--delay-wgrad-compute`](https://docs.nvidia.com/megatron-core/developer-guide/nightly/user-guide/features/moe_a2a_overlap.html).
# Nothing of this box was measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
idle_of = {name: (one.idle, runs[name][1].idle_share) for name, one in judged.items()}
told = [f"{name} {one:.1%}, {other:.1%}" for name, (one, other) in idle_of.items()]
of_gpipe = schedules.rows_of(schedules.gpipe, p, m)
gpipe = simulate(of_gpipe, zero_bubbles.HALVES).idle_share
changes = abs(gpipe - idle_of["1F1B"][0]) > 1e-9
turns = {"ZB-H1": [], "GPipe": []}
for _ in range(3):
    turns["ZB-H1"].append(placed_pipelines.emulate_schedule("ZB-H1", p, m, pace)[1])
    turns["GPipe"].append(lab("emulated_pipelines").emulate(of_gpipe, pace)[1])
on_ranks = median(one.idle_share for one in turns["GPipe"])
others = lab("emulated_pipelines").compare_idle(turns, "ZB-H1", "GPipe").word == "quicker"
put_to_the_test(f"""
- [C179] Which micro-batches or layers are executed at each step, the schedule, will impact the size
  of the bubble | CS 229S, “Pipeline Parallelism” |
  {"right" if others else "not decided by this run"} | simulated (section 3, table) and measured
  (section 4, picture; computing emulated): {"; ".join(told)}. GPipe, the other schedule that the
  slide draws, {"differs from" if changes else "is like"} 1F1B by the order of actions: it idles for
  {gpipe:.1%} of the time, simulated, and {on_ranks:.1%} on ranks (median of three runs in this
  section, in turns with ZB-H1) |
  measured: nothing in the order of actions; messages that take time change each bubble in another
  way (part 08g, section 3)
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Qi et al. 2024, [Zero Bubble Pipeline
# Parallelism](https://arxiv.org/abs/2401.10241): ZB-H1 and ZB-H2 in section 2, ZB-V in section 6;
# [Pipeline Parallelism with Controllable
# Memory](https://arxiv.org/abs/2405.15362). DeepSeek-AI 2024, [DeepSeek-V3 Technical
# Report](https://arxiv.org/abs/2412.19437), section 3.2.1: DualPipe. Qi et al. 2025, [DualPipe
# could be better without the Dual](https://huggingface.co/blog/ufotalent/cut-in-half): DualPipeV.

# %% [markdown]
# ## What you have learnt
#
# * ZB-H1 keeps as much as 1F1B's first rank, and has a third of its bubble, if F, I and W take
#   equally long.
# * **Zero bubble** means a long run without waits between steps, where F = I = W. Clipping by the
#   global norm is such a wait.
# * A **V** puts the first and the last stage on one rank. All ranks then keep equally much.
# * **DualPipe** sends micro-batches in from both ends. Its price is a second copy of the model. A
#   pair is one block, so that one chunk's messages travel while the other one computes.
# * Real ranks pause between actions, and `I` may take longer than `W`: some of the bubble comes
#   back.
#
# **Next**: {{next}}.

# %%
progress("08f")
