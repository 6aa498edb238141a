# %% [markdown]
# # {{title}}
#
# **How many micro-batches does a rank have to keep, and which schedule keeps fewer?** GPipe needs
# many micro-batches for a small bubble, and memory for all of them. Here you write 1F1B. It has the
# same bubble, and keeps much less.

# %% [markdown]
# ![Bars of the activations on each of four ranks: GPipe takes most on all ranks, 1F1B less on each
# further rank, and GPipe with recomputation
# little](../assets/covers/08b_one_forward_one_backward.png)
#
# *Measured in section 3: the most that activations take on each rank, in three ways.*
#
# **After this part you can** count what a schedule keeps, write 1F1B, recompute a stage without
# spoiling its gradients, and check a schedule before it runs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from pedagogy_lib import (
    Table, check, check_schedule, explore, hint, lab, plot_bars, plot_schedule, predict, progress,
    put_to_the_test, simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, measured = lab("schedules"), lab("pipelines_measured")
p = world_size  # stages

# %% [markdown]
# ## 1 · What a schedule keeps
#
# Memory decides how many layers fit on a rank, and how many micro-batches. The forward of a
# micro-batch keeps activations for its backward. The backward releases them. How many micro-batches
# does a rank keep at the worst moment?

# %% [markdown]
# ### Exercise {{most_kept}} · The most micro-batches held at once
#
# Write `most_kept(row)`. `row` is the list of actions of one rank. Return the largest number of
# micro-batches whose activations it holds at once; 0 for an empty row. Each action has
# `action.kind`, one of four letters:
#
# * `"F"`, a forward, keeps one micro-batch.
# * `"B"`, a whole backward, releases one.
# * Some schedules do a backward in two halves. `"I"` computes the gradient of the input, and
#   releases nothing. `"W"` computes the gradients of the weights, and releases one.
#
# For example, `F0 F1 B0 F2 B1 B2` holds 1, 2, 1, 2, 1 and 0, so the answer is 2. `F0 I0 F1 W0 I1
# W1` holds 1, 1, 2, 1, 1 and 0, so it is 2 as well.

# %% [markdown]
# In some schedules a rank has several pieces of the model, called **chunks**. `F3.1` is the forward
# of micro-batch 3 with chunk 1. A micro-batch that has gone through two chunks of a rank counts
# twice: each chunk has kept activations of its own.

# %%
def most_kept(row):
    """The largest number of micro-batches that a rank holds at once."""
    ### BEGIN SOLUTION
    kept = most = 0
    for action in row:
        kept += (action.kind == "F") - (action.kind in "BW")
        most = max(most, kept)
    return most
    ### END SOLUTION

check("{{most_kept}}", most_kept)

# %% [markdown]
# GPipe does all forwards first, so each rank keeps all $m$ micro-batches.

# %% [markdown]
# ## 2 · 1F1B
#
# Nothing forces a rank to do all forwards first. The output of the last rank is the loss, so it can
# go back at once, after each forward. **1F1B** (one forward, one backward) begins each backward as
# early as it can:
#
# 1. A rank **warms up** with as many forwards as there are ranks after it: rank 0 of 4 with 3
#    forwards, rank 3 with none.
# 2. Then it takes turns: one forward, and the backward of the oldest micro-batch that it keeps.
# 3. When no forwards are left, it does the backwards that are left, the oldest first.

# %%
most = predict(f"Of 16 micro-batches on {p} stages, under 1F1B rank 0 keeps at most",
               unit="micro-batches")

# %% [markdown]
# ### Exercise {{one_f_one_b}} · Write the 1F1B schedule
#
# In [labs/schedules.py](../labs/schedules.py), write `one_f_one_b(rank, ranks, microbatches)`. It
# yields the actions of one rank, `Action("F", i)` and `Action("B", i)`, as the three steps above
# say. Forwards come in the order of their numbers, and so do backwards.
#
# For example, with 2 ranks and 3 micro-batches rank 0 does `F0 F1 B0 F2 B1 B2`, and rank 1 does `F0
# B0 F1 B1 F2 B2`. There may be fewer micro-batches than the warm-up would take. Then a rank warms
# up with all of them.

# %%
check("{{one_f_one_b}}")

# %%
kept = measured.count_kept(["GPipe", "1F1B"], p, 16)
print(kept)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
most.compare(theory=min(16, p), measured=kept["1F1B"][0])

# %% [markdown]
# Real ranks have counted what they kept. Stage $s$ keeps $\min(m, p - s)$ micro-batches. The last
# stage keeps a single one, however many micro-batches there are. And the bubble?

# %% tags=["nbval-ignore-output"]
pipelines = lab("emulated_pipelines")
rows = {name: schedules.rows_of(schedules.SCHEDULES[name], p, 2 * p) for name in ("GPipe", "1F1B")}
both = {name: pipelines.emulate(of) for name, of in rows.items()}
for name, (simulated, real) in both.items():
    print(f"{name}: idle {simulated.idle_share:.1%} simulated, {real.idle_share:.1%} measured")
plot_schedule({name: simulated for name, (simulated, _) in both.items()})

# %% [markdown]
# The bubble has not changed: filling the pipeline and draining it take as long as before. **1F1B is
# GPipe with less memory, not with less idle time.**
#
# You may read that GPipe's bubble is $\frac{p-1}{m}$ and 1F1B's is $\frac{p-1}{m+p-1}$, and that
# 1F1B's is smaller. These are the two measures of part 08, for one bubble.

# %% [markdown]
# ## 3 · In bytes
#
# Does the number of micro-batches tell how many bytes are kept? Here each rank really computes, and
# has one block. The outlines are predicted: what one micro-batch takes on a rank, times how many it
# keeps.
#
# The third way is GPipe as in its paper. It **recomputes**, as in chapter 05: a stage keeps the
# *input* of each micro-batch, and computes its forward once more before its backward.

# %% tags=["cover", "nbval-ignore-output"]
found, theory = measured.activations_of(p, 2 * p)
plot_bars([f"rank {rank}" for rank in range(p)], found, "activations at most (kB)",
          predicted=theory, title=f"What is kept: {2 * p} micro-batches on {p} ranks")

# %% [markdown]
# Look at the ranks from left to right. GPipe keeps all micro-batches everywhere. (The first and the
# last rank have the ends of the model, too.) Under 1F1B each further rank keeps one micro-batch
# less.
#
# Recomputed GPipe keeps all activations of *one* micro-batch, and the inputs of the others. That is
# less than 1F1B keeps, but not on the last rank. There 1F1B keeps one micro-batch as well, and no
# inputs of others.

# %% [markdown]
# So "memory is $1/p$" is roughly right for weights. For activations it depends on the schedule.
# Under 1F1B the first rank keeps $p$ micro-batches of its $1/p$ of the layers. That is about as
# much as one rank with the whole model keeps of one micro-batch.

# %% [markdown]
# ## 4 · Computed twice, with dropout
#
# A recomputed stage has to compute the *same* forward again. Dropout draws random numbers, and
# until the backward comes, other micro-batches have drawn theirs. So the lab's `RecomputingStage`
# keeps the state of the random generator with each input. It sets this state before it computes
# again, and puts the generator back where it was afterwards.
#
# What happens without that? Three micro-batches go through one stage, a linear layer and dropout:
# all forwards, then all backwards. The table compares its outputs and its gradients with those of a
# stage that keeps all activations and computes nothing twice.

# %%
dropout = lab("dropout_recomputed")
kinds = {"with the state": dropout.RecomputingStage, "without": dropout.NoStateStage}
far = {(way, rate): dropout.measure_deviation(kind, rate)
       for way, kind in kinds.items() for rate in (0.0, 0.5)}
Table(["generator", "dropout", "outputs differ by", "gradients differ by"],
      [[way, str(rate), *(f"{share:.0%}" for share in shares)]
       for (way, rate), shares in far.items()])

# %% [markdown]
# Without the state, outputs and loss are right, and the gradients are wrong. The forward dropped
# some numbers, and the backward belongs to a forward that dropped others. No error says so.
#
# PyTorch's `torch.utils.checkpoint` keeps the state by default
# ([`preserve_rng_state=True`](https://docs.pytorch.org/docs/stable/checkpoint.html)).
#
# > **On GPUs** each device has a generator of its own. Whoever computes again on a GPU has to set
# > the GPU's state: `RecomputingStage` takes the generator of the device where its input is.

# %% [markdown]
# ## 5 · A rule in place of three loops
#
# 1F1B can be written shorter. Rank $r$ of $p$ has room for $\min(m, p - r)$ micro-batches. While
# there is room it goes forward, else it goes back. Somebody wrote that down. The gradients are
# right, but a GPU with just enough memory for 1F1B would run out of memory.

# %%
def one_f_one_b(rank, ranks, microbatches):
    """1F1B: forward while there is room, else back."""
    room = min(microbatches, ranks - rank)
    forwards = backwards = 0
    while backwards < microbatches:
        ### BEGIN SOLUTION
        has_room = forwards - backwards < room
        ### IT WAS
        # has_room = forwards - backwards <= room
        ### END SOLUTION
        if has_room and forwards < microbatches:
            yield schedules.Action("F", forwards)
            forwards += 1
        else:
            yield schedules.Action("B", backwards)
            backwards += 1

# %%
of_rule = schedules.rows_of(one_f_one_b, 4, 8)
print("room for", [4, 3, 2, 1], "- it keeps", simulate(of_rule).most_kept)
print("rank 3:", *of_rule[3])

# %% [markdown]
# ### Exercise {{repair_one_f_one_b}} · Debug a compact 1F1B schedule
#
# Run the two cells above. They show the room on each of 4 ranks, what the ranks keep, and what the
# last rank does. Mend the function, so that no rank ever keeps more than it has room for, and no
# step takes longer than 1F1B's.

# %%
check("{{repair_one_f_one_b}}", one_f_one_b)

# %% [markdown]
# ## 6 · Checked before it runs
#
# A wrong schedule hangs, or it fails on a GPU that costs money. But it is only a list, so it can be
# checked at once. `check_schedule` looks for three mistakes, and tells the first one:
#
# * an action that is missing, comes twice, or comes before what it needs on its rank
# * ranks that wait for each other for ever
# * with `most_kept=`, a rank that keeps too much.

# %%
check_schedule(schedules.rows_of(schedules.one_f_one_b, 4, 8), most_kept=[4, 3, 2, 1])

# %% [markdown]
# These two ranks would hang. Do you see why?

# %%
F, B = (lambda i: schedules.Action("F", i)), (lambda i: schedules.Action("B", i))
stuck = [[F(0), B(0), F(1), B(1)], [F(0), F(1), B(0), B(1)]]
for rank, row in enumerate(stuck):
    print(f"rank {rank}:", *row)

# %%
try:
    check_schedule(stuck)
except ValueError as error:
    print(error)

# %% [markdown]
# Rank 0 wants a gradient before it goes on, and rank 1 wants a second activation before it sends
# the gradient.

# %% [markdown]
# ## 7 · Try schedules
#
# Choose a schedule, the stages, the micro-batches, how many times a forward a backward takes, and
# the time of a message (in forwards). The button runs what you see on real ranks, up to 256
# micro-batches on all ranks together, and puts what was measured below it.
#
# The interleaved schedule has several chunks of the model on each rank: "keeps 11/2" are 11 of half
# a rank's layers. Part [08e](08e_fill_the_bubble.ipynb) explains it, and part
# [08f](08f_zero_bubble.ipynb) the zero bubble.

# %%
def draw(schedule, **chosen):
    return plot_schedule(
        {schedule: pipelines.simulate_schedule(schedule, **chosen)}, most_inches=2.8
    )

def run(schedule, **chosen):
    return plot_schedule(dict(zip((schedule, "on real ranks"),
                                  pipelines.run_on_ranks(schedule, **chosen))))

explore(draw, run, no_effect=pipelines.no_effect, **pipelines.CHOICES)

# %% [markdown]
# ## Put to the test
#
# What our sources say about GPipe and 1F1B, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
bubbles = {name: [one.idle_share for one in pair] for name, pair in both.items()}
turns = pipelines.take_turns({name: (of,) for name, of in rows.items()})
measured = pipelines.compare_idle(turns, "1F1B", "GPipe").word
same = abs(bubbles["GPipe"][0] - bubbles["1F1B"][0]) < 1e-9 and measured != "quicker"
told = "; ".join(f"{name} {one:.1%}, {other:.1%}" for name, (one, other) in bubbles.items())
surprises = f"""
- [C172] 1F1B's bubble is (p-1)/(m+p-1), GPipe's (p-1)/m | web page, “The Bubble Problem” |
  {"imprecise" if same else "not seen here"} | one bubble, told in two measures, so 1F1B's is not
  smaller. Of the whole, simulated and measured: {told} (section 2, run; computing emulated). In
  three more rounds in turns: {measured.replace("quicker", "smaller").replace("slower", "larger")} |
  measured: nothing in the order of actions. Where messages take time, the two schedules differ
  (part 08g, section 3)
- [C174] 1F1B keeps p micro-batches, whatever m is | web page, “1F1B Memory Advantage” |
  {"right as a bound" if max(kept["1F1B"]) == min(16, p) else "wrong"} | stage s keeps
  min(m, p - s): {kept["1F1B"]} of 16 (section 2, run) | measured: nothing, since it follows from
  the order of actions
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C173] GPipe keeps the activations of m micro-batches | web page, “1F1B Memory Advantage” |
  {"right without recomputation" if set(kept["GPipe"]) == {16} else "wrong"} | {kept["GPipe"]} of 16
  (section 2, run). GPipe's paper recomputes: then it is the inputs of m, and all of one (section 3,
  picture) | measured: nothing, since it follows from the order of actions
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Harlap et al., [PipeDream](https://arxiv.org/abs/1806.03377), 2018, where the
# order of 1F1B comes from. Narayanan et al., [Memory-Efficient Pipeline-Parallel DNN
# Training](https://arxiv.org/abs/2006.09503), 2020: 1F1B with a *flush*, where all backwards end
# before the weights change.

# %% [markdown]
# ## What you have learnt
#
# * GPipe keeps the activations of $m$ micro-batches. Stage $s$ of 1F1B keeps those of $p - s$ at
#   most.
# * Both have the same bubble.
# * A stage that is recomputed has to draw the same random numbers again. Otherwise gradients are
#   wrong, and no error says so.
# * A schedule can be checked before it runs: for order, for deadlocks, and for memory.
#
# **Your exercises**: {{most_kept}} and {{repair_one_f_one_b}} stand in cells above, and {{one_f_one_b}} in
# [labs/schedules.py](../labs/schedules.py).
#
# **Next**: {{next}}.

# %%
progress("08b")
