# %% [markdown]
# # {{title}}
#
# **With 4 ranks and 8 micro-batches, every rank of 1F1B is idle for 27 % of the time. Can another
# order fill this time?** More micro-batches would help, but they make the batch larger. In this
# part the batch stays as it is. You cut the model into more stages, and the backward into two
# halves. Then you write a schedule that beats 1F1B, and rank it beside those of the papers.

# %% [markdown]
# ![Timelines of 1F1B and of interleaved 1F1B on four real ranks. With two chunks on each rank, the
# grey idle time is shorter](../assets/covers/08e_fill_the_bubble.png)
#
# *Measured in section 1: one and two chunks of the model on each rank (computing is emulated).*
#
# **After this part you can** interleave stages for any number of micro-batches, split a backward,
# and write a schedule under a memory limit.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_against, plot_schedule, predict, progress, rounding,
    simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, zero_bubbles = lab("schedules"), lab("zero_bubbles")
placed_pipelines = lab("placed_pipelines")
Action = schedules.Action
p, m = world_size, 2 * world_size  # ranks, micro-batches
odd = m + 3  # a number of micro-batches that is no multiple of the ranks

# %% [markdown]
# ## 1 · More stages than ranks: interleaved 1F1B
#
# The bubble is as long as $p - 1$ stages need for one micro-batch. Smaller stages make it shorter.
# So cut the model into $vp$ stages, and give each rank $v$ of them. A rank's stages are called its
# **chunks**. With 4 ranks and $v = 2$, rank 0 has stages 0 and 4, rank 1 has stages 1 and 5. A
# micro-batch goes around twice.

# %% [markdown]
# ### Exercise {{turn}} · Order the turns of interleaved 1F1B
#
# Write `turn(k, ranks, chunks, kind="F")` in [labs/schedules.py](../labs/schedules.py). It returns
# the `Action` that is the $k$-th forward of a rank, $k = 0, 1, 2, …$; with `kind="B"` the $k$-th
# backward. All ranks have the same order:
#
# * Micro-batches come in groups of as many as there are ranks.
# * A group goes through chunk 0, then through chunk 1, and so on. Then comes the next group.
# * Backwards take the chunks in the opposite order. Micro-batches stay in order.
#
# For 2 ranks and 2 chunks, where `F3.1` is `Action("F", 3, 1)`, the forward of micro-batch 3 on
# chunk 1, and `F3` is its forward on chunk 0:
#
# | $k$ | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
# |---|---|---|---|---|---|---|---|---|
# | forward | F0 | F1 | F0.1 | F1.1 | F2 | F3 | F2.1 | F3.1 |
# | backward | B0.1 | B1.1 | B0 | B1 | B2.1 | B3.1 | B2 | B3 |

# %%
check("{{turn}}")

# %% [markdown]
# `interleaved` in the same lab makes a schedule of these turns. On real ranks, computing is
# emulated again: a rank's whole part of the model takes 30 ms forward, and 60 ms backward. With two
# chunks, each chunk takes half of it. How much of the time is idle now? (1F1B: $\frac{p-1}{m+p-1}$
# of the whole.)

# %%
less = predict(f"Idle share, interleaved with 2 chunks, {p} ranks, {m} micro-batches", unit="%")

# %% tags=["nbval-ignore-output"]
pace = {"F": 0.030, "B": 0.060, "I": 0.030, "W": 0.030}
runs = {
    name: placed_pipelines.emulate_schedule(name, p, m, pace) for name in ("1F1B", "interleaved")
}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
half = (p - 1) / 2
less.compare(theory=100 * half / (m + half), measured=100 * runs["interleaved"][1].idle_share,
             kind="idle")

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({name: measured for name, (_, measured) in runs.items()})

# %% [markdown]
# In theory the bubble is divided by $v$: over the ideal it is $\frac{1}{v}\,\frac{p-1}{m}$. Expect
# real ranks to gain less, because they pause between actions, and now there are twice as many.
#
# It has two prices. Messages cross $vp - 1$ boundaries in place of $p - 1$. And a rank keeps more:
# "11/2" in the picture means 11 micro-batches, each on one of the two chunks. That is as much as
# 5.5 micro-batches on all layers of the rank. 1F1B keeps 4.

# %% [markdown]
# ## 2 · Any number of micro-batches
#
# `interleaved` refuses a number of micro-batches that is no multiple of the ranks. The report of
# [Llama 3](https://arxiv.org/abs/2407.21783), section 3.3.2, lifts this limit: a group may have any
# size $N$, and the last group has what is left. With 5 micro-batches, 2 chunks and $N = 3$, the
# groups are 0, 1, 2 and 3, 4:
#
# | $k$ | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
# |---|---|---|---|---|---|---|---|---|---|---|
# | forward | F0 | F1 | F2 | F0.1 | F1.1 | F2.1 | F3 | F4 | F3.1 | F4.1 |

# %% [markdown]
# ### Exercise {{order_forwards}} · Order forwards in groups of any size
#
# Write `order_forwards(microbatches, chunks, size)` in [labs/schedules.py](../labs/schedules.py).
# Return a list of pairs of `int`, (micro-batch, chunk), one for each forward of a rank, in order.
# Micro-batches come in groups of `size`, and the last group has those that are left, even if it is
# a single one. A group goes through chunk 0, then through chunk 1, and so on, before the next group
# begins. `size` may be larger than `microbatches`; then all of them are one group.
#
# For example, `order_forwards(3, 2, 2)` is `[(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]`.

# %%
check("{{order_forwards}}")

# %% [markdown]
# `interleaved_in_groups` in the same lab makes a schedule of it. A rank warms up with $2 (p - 1 -
# r) + (v - 1) N$ forwards: the last rank has its first backward when a group has gone through all
# chunks but one, and each rank before it needs two forwards more. With its next forward, rank 0
# then keeps the most. How many micro-batches is that, if a forward of one chunk counts as $1/v$?

# %%
kept = predict(f"Rank 0 keeps, {p} ranks, {odd} micro-batches, 2 chunks, groups of {p + 2}",
               unit="micro-batches")

# %%
groups = lab("grouped_schedules")
rows_of = {size: schedules.rows_of(schedules.interleaved_in_groups, p, odd, size=size)
           for size in (p, p + 2)}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what the schedule keeps.
kept.compare((2 * (p - 1) + p + 2 + 1) / 2, groups.most_kept(rows_of[p + 2]) / 2,
             kind="activations", wire="counted")

# %%
Table(["N", "groups", "bubble (forwards)", "rank 0 keeps"],
      [groups.describe_size(p, odd, 2, size) for size in range(1, odd + 1)])

# %% [markdown]
# Read the table by its smallest group.
#
# * **Each group has at least $p$ micro-batches**: the bubble is $\frac{p-1}{v}$ times a forward and
#   a backward, as if nothing were left over.
# * **The last group has fewer**: the bubble is longer. A rank goes through a short group before its
#   first micro-batch has come round, and then it waits. (It may even hang.)
# * **All of several groups have fewer**: with $N \le p - 2$ the ranks hang, with $N = p - 1$ they
#   may. The warm-up ends before a micro-batch has come round. A single group runs.
#
# If $N \ge p$, rank 0 keeps $\frac{2(p-1) + (v-1)N + 1}{v}$ micro-batches, or all $m$ if these are
# fewer. So take the smallest $N$ of the first kind.

# %% [markdown]
# Here are both kinds on real ranks, whose computing is emulated.

# %% tags=["nbval-ignore-output"]
halves = {kind: seconds / 2 for kind, seconds in pace.items()}  # of one chunk
emulate = lab("emulated_pipelines").emulate
plot_schedule({f"{odd} micro-batches, N = {size}": emulate(rows, halves)[1]
               for size, rows in rows_of.items()})

# %% [markdown]
# And the gradients and the loss, beside those of one process in float64:

# %%
cases = [(odd, p), (odd, p + 2), (odd, odd), (p - 1, p), (odd, "breadth-first")]
of_ranks = launch(groups.try_groups, cases, world_size=p).values
Table(["micro-batches", "N", "as one process, up to rounding"],
      [[str(count), str(size), str(all(of[count, size] <= rounding() for of in of_ranks))]
       for count, size in cases])

# %% [markdown]
# What is a larger group good for? A micro-batch needs $p$ turns to come round, and a rank needs it
# again after $N$ turns. The other $N - p$ turns are slack for slow messages. $N = p$ is
# **depth-first**. With $N = m$, all forwards of a chunk precede those of the next one, as in
# **breadth-first**, which also runs all forwards before the first backward, and keeps all of them.

# %%
shares, many = [0, 0.1, 0.2, 0.3], 4 * p
sizes = {f"N = {size}": schedules.rows_of(schedules.interleaved_in_groups, p, many, size=size)
         for size in (p, p + p // 2, 2 * p)}
plot_against(shares, {f"{name}, keeps {groups.most_kept(rows) / 2:g}":
                      [groups.bubble_of(rows, 2, share) for share in shares]
                      for name, rows in sizes.items()},
             "time of a message (forwards)", "bubble (forwards)",
             title=f"{p} ranks, {many} micro-batches, 2 chunks (simulated)")

# %% [markdown]
# Larger groups hide more of the messages and keep more activations. In these simulations, $N = 2p$
# is the useful end: larger groups hide nothing more. Llama 3's report looks for the best size
# between both orders.
#
# **On GPUs.** Megatron Core has the option `--microbatch-group-size-per-virtual-pipeline-stage` for
# $N$. It [raises an
# error](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/pipeline_parallel/schedules.py)
# if $N$ is below $p$ or above $m$, or if the last group has fewer than $p$ micro-batches, which
# "introduces dependency bubbles". In torch 2.13, `ScheduleInterleaved1F1B` makes $\lfloor m/p
# \rfloor$ groups, and refuses $m$ unless they are equally large; `ScheduleLoopedBFS` is
# breadth-first. None of this was measured here.

# %% [markdown]
# ## 3 · A backward in two halves
#
# A backward computes two gradients. The rank before waits for one of them. No rank waits for the
# other one. Take a linear layer $y = x A^\top$, and let $g$ be the gradient of $y$:

# %%
x, A, g = torch.tensor([[1., 2.]]), torch.tensor([[3., 4.], [5., 6.]]), torch.tensor([[1., 10.]])
print("I, gradient of the input:   ", (g @ A).tolist(), " needs g and A")
print("W, gradient of the weights: ", (g.T @ x).tolist(), " needs g and x")

# %% [markdown]
# `I` (for *input*) has to travel on, to the rank before. `W` (for *weights*) is needed only when
# the optimizer steps. Until then, a rank may do it whenever it would be idle. The price: $g$ and
# $x$ are kept until `W` is done.

# %% [markdown]
# ### Exercise {{later_weights}} · Defer the weights' gradients
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
# Keep `x` with `ctx.save_for_backward`, and the rest as attributes: `ctx.weight = weight`. (What
# `save_for_backward` gives back may be another tensor object, and `.grad` belongs to the parameter
# itself.) In the example above, `x.grad` is `[[53, 64]]` at once, and `weight.grad` is still
# `None`. After `later[0]()` it is `[[1, 2], [10, 20]]`.

# %%
check("{{later_weights}}")

# %% [markdown]
# Only plain linear layers are split here. What norms and embeddings compute stays in `I`.
#
# ## 4 · Beat 1F1B
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
# waits for three whole backwards. If rank 3 does I0 alone, rank 2 can begin its backward one time
# unit earlier. If rank 2 does the same, rank 1 gains two. Then look at the right end of the
# picture, and at the ranks that keep fewer than 4.

# %% [markdown]
# ### Exercise {{my_schedule}} · Half the bubble, the same memory
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
# my_schedule, 4, 8)))`. Do not look at `zero_bubble` in labs/schedules.py yet, nor at
# labs/zero_bubbles.py: there are answers.

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

check("{{my_schedule}}", my_schedule)

# %% [markdown]
# Your schedule beside the published ones, the shortest step first. (A schedule of yours that cannot
# run is not in the table.) The next part explains the names.

# %%
Table(["schedule", "a step takes", "idle", "kept", f"fits into {p}"],
      zero_bubbles.tabulate_ranking(my_schedule, p, m, most=p))

# %% [markdown]
# The last rank cannot begin before its first micro-batch has passed all ranks before it. That takes
# $p - 1$, and its work takes $3m$. So with one chunk on each rank, no step is shorter than $3m + p
# - 1$, which is 27 for 4 ranks and 8 micro-batches. Only with more chunks, as in ZB-V, can it be
# shorter.

# %% [markdown]
# **To read on.** Narayanan et al. 2021, [Efficient Large-Scale Language Model
# Training](https://arxiv.org/abs/2104.04473), section 2.2: interleaving. Lamy-Poirier 2022,
# [Breadth-First Pipeline Parallelism](https://arxiv.org/abs/2211.05953).

# %% [markdown]
# ## What you have learnt
#
# * **Interleaving** divides the bubble by the number of chunks. It sends more, and keeps more.
# * It takes any number of micro-batches in groups of $N$, if each group has at least $p$ of them.
#   Larger groups hide slow messages, and keep more.
# * A backward has two halves. Other ranks wait only for `I`. `W` fills time that was idle, and
#   keeps memory until it is done.
# * With one chunk on each rank, no step is shorter than $3m + p - 1$, if F, I and W take 1 each.
#
# **Your exercises**: [labs/schedules.py](../labs/schedules.py) has {{turn}} and {{order_forwards}},
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py) has {{later_weights}}, and a cell above
# {{my_schedule}}.
#
# **Next**: {{next}}.

# %%
progress("08e")
