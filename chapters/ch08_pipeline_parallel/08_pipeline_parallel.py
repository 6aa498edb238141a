# %% [markdown]
# # {{title}}
#
# **A model has more layers than fit on one GPU. Give each GPU some of them. Why is almost every GPU
# idle then, and what helps?** Cutting a model between its layers is simple, and little has to be
# sent. But layers compute one after another, and so do the ranks that have them. *Pipeline
# parallelism* cuts the batch as well, so that every rank has something to do.

# %% [markdown]
# ![Timelines of GPipe on four stages, simulated and on real ranks: both have the same
# order](../assets/covers/08_pipeline_parallel.png)
#
# *Measured in section 2: a schedule as it was simulated, and as four real ranks ran it (computing
# is emulated). Numbers are micro-batches; "keeps" says how many of them a rank holds at most.*
#
# **After this part you can** write the schedule of GPipe as a list, run it on real ranks, and
# predict how long they are idle.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from pedagogy_lib import (
    Table, check, hint, lab, plot_against, plot_schedule, predict, progress, put_to_the_test,
    simulate,
)

# %% tags=["parameters"]
world_size = 4
width = 32

# %% [markdown]
# ## 1 · Layers after layers
#
# A model that does not fit on one GPU has to be cut. The first idea is to cut between layers. A
# transformer is a list of layers: the embedding, the blocks, the logits. Cut the list into $p$
# pieces, called **stages**, one for each rank.
#
# A stage gets activations from the rank before it, computes, and hands its own activations to the
# rank after it. In the backward, gradients travel the other way.

# %% [markdown]
# Does each rank have $1/p$ of the parameters? Here are eight blocks, the embedding and the logits,
# cut into stages. Their numbers of layers are as equal as possible:

# %%
schedules, measured = lab("schedules"), lab("pipelines_measured")
p = world_size  # stages
layer_counts, stage_bytes = measured.bytes_of_stages(width, p)
whole = sum(stage_bytes)
Table(["stage", "layers", "parameters", "of the whole", "1 / p"],
      [[str(stage), str(size), f"{kept / 1e3:.1f} kB", f"{kept / whole:.1%}", f"{1 / p:.1%}"]
       for stage, (size, kept) in enumerate(zip(layer_counts, stage_bytes))])

# %% [markdown]
# Only roughly. The numbers of layers differ, and the embedding and the logits have other sizes than
# a block. (With a vocabulary of 128,000 tokens they are large.) Activations come on top. Part
# [08b](08b_one_forward_one_backward.ipynb) counts them.

# %% [markdown]
# Now a batch passes through all stages, forward and back. We want to see when each of four ranks
# works, on a machine that may have only two cores. So computing is **emulated**: each stage really
# computes, and then sleeps until its forward has taken 20 ms, or its backward 40 ms. (A backward
# has two matrix products for each one of the forward.) Processes and messages are real. Pictures
# say where computing is emulated. Emulated ranks need no GPU: the lab asks for `device="cpu"`.
#
# One batch goes through $p$ stages, one stage after another. Which share of all the ranks' time is
# idle?

# %%
idle = predict(f"Idle share, one batch through {p} stages", unit="%")

# %% tags=["nbval-ignore-output"]
pipelines = lab("emulated_pipelines")
naive_simulated, naive = pipelines.emulate(schedules.rows_of(schedules.naive, p, 1))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
idle.compare(theory=100 * (1 - 1 / p), measured=100 * naive.idle_share)

# %% tags=["nbval-ignore-output"]
plot_schedule({"one batch": naive_simulated, "on real ranks": naive})

# %% [markdown]
# At any moment one rank works. So $1/p$ of the time is used, and $1 - 1/p$ is idle. More GPUs make
# the model fit. They make nothing faster.
#
# (The upper timeline is *simulated*: computed from the list of actions and their times alone. The
# lower one was measured on real ranks. Each one tells its idle time in two ways, "of the whole" and
# "over the ideal". Section 3 explains them.)

# %% [markdown]
# ## 2 · Micro-batches: GPipe
#
# Idle GPUs cost as much as busy ones. How can more ranks work at the same time?
#
# Rank 1 waits until rank 0 has done the *whole* batch. It need not. Cut the batch into $m$
# **micro-batches**. When rank 0 is done with micro-batch 0, rank 1 begins with it, and rank 0 goes
# on with micro-batch 1. The gradients of all micro-batches add up, as in chapter 01.

# %% [markdown]
# A **schedule** says which rank does what, in which order. Here it is a list of **actions** for
# each rank: `F3` is the forward of micro-batch 3, `B3` its backward. In the lab, a schedule is a
# function that yields the actions of one rank. This one has no pipeline: each micro-batch goes
# forward and back before the next one begins.

# %%
def naive_schedule(rank, ranks, microbatches):
    for i in range(microbatches):
        yield schedules.Action("F", i)
        yield schedules.Action("B", i)

print("rank 0 of 4:", *naive_schedule(0, 4, 3))

# %% [markdown]
# ### Exercise {{gpipe}} · Write the GPipe schedule
#
# In [labs/schedules.py](../labs/schedules.py), write `gpipe(rank, ranks, microbatches)`. It yields
# the actions of one rank: all forwards, from micro-batch 0 to the last one, and then all backwards,
# in the same order. For example, with 3 micro-batches every rank does `F0 F1 F2 B0 B1 B2`. An
# action is `Action("F", i)` or `Action("B", i)`. You need not care who waits for whom: a rank waits
# by itself until its input has come.

# %%
check("{{gpipe}}")

# %%
for rank, row in enumerate(schedules.rows_of(schedules.gpipe, p, 4)):
    print(f"rank {rank}:", *row)
plot_schedule(simulate(schedules.rows_of(schedules.gpipe, p, 4)), title="GPipe, 4 micro-batches")

# %% [markdown]
# The picture follows from the lists and one rule: an action begins when its rank is done with the
# action before, and what it needs has come.
#
# Idle time in a pipeline is called the **bubble**. A rank is idle before its first forward, between
# its last forward and its first backward, and after its last backward. Compare the rows: rank 0
# idles only in the middle, the last rank only at the ends. Each rank is idle for the same time.

# %% [markdown]
# Without a pipeline, 8 micro-batches go through 4 stages one after another. That takes 8 × 4 × 60
# ms = 1.92 s. How long does GPipe take with the same micro-batches?

# %%
takes = predict(f"GPipe: {2 * p} micro-batches through {p} stages", unit="s")

# %% tags=["nbval-ignore-output"]
counts = [p, 2 * p, 4 * p]
timelines = {m: pipelines.emulate(schedules.rows_of(schedules.gpipe, p, m)) for m in counts}
gpipe_simulated, gpipe = timelines[2 * p]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
takes.compare(theory=(2 * p + p - 1) * 0.060, measured=gpipe.seconds)

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({"GPipe": gpipe_simulated, "on real ranks": gpipe})

# %% [markdown]
# The last rank begins when $p - 1$ forwards have come before it. Then it works without a break, for
# $m$ forwards and $m$ backwards. At the end, its last gradient passes through the $p - 1$ ranks
# before it, with one backward on each. A forward and a backward together take 60 ms, so a step
# takes $(m + p - 1) \cdot 60$ ms. With 8 micro-batches and 4 stages that is 0.66 s in place of 1.92
# s.

# %% [markdown]
# ## 3 · One bubble, two measures
#
# Which number tells how bad a bubble is? Texts use two, and do not say which one. Take ranks that
# work for 8 hours and are idle for 2.
#
# * As a share of the **whole** time: 2 of 10 hours, 20 %.
# * Over the **ideal**, in which nobody is idle: 2 hours for 8 hours of work, 25 %.

# %% [markdown]
# ### Exercise {{bubble}} · Two measures of GPipe's bubble
#
# Write `bubble(stages, microbatches)` for GPipe. It returns two numbers: the idle share of the
# whole time, and the idle time over the ideal. Both are shares: 0.25, not 25. All stages take the
# same time, a backward may take any time, and messages take none. One stage alone has no bubble.
#
# For example, take 2 stages and 2 micro-batches. Each rank works for 2 micro-batches, and is idle
# for as long as 1 micro-batch takes, forward and back. So `bubble(2, 2)` is `(1/3, 1/2)`.

# %%
def bubble(stages, microbatches):
    """The idle share of the whole time, and the idle time over the ideal."""
    ### BEGIN SOLUTION
    idle = stages - 1
    return idle / (microbatches + idle), idle / microbatches
    ### END SOLUTION

check("{{bubble}}", bubble)

# %% [markdown]
# Your function beside the real ranks, with as many micro-batches as stages, twice and four times as
# many:

# %% tags=["nbval-ignore-output"]
lines = {"share of the whole": [timelines[m][1].idle_share for m in counts],
         "over the ideal": [timelines[m][1].overhead for m in counts]}
yours = [bubble(p, m) for m in counts] if bubble(p, p) else []
formulas = dict(zip(lines, zip(*yours)))
plot_against(counts, lines, "micro-batches", "bubble", predicted=formulas,
             title=f"One bubble, two measures: GPipe on {p} ranks (emulated)")

# %% [markdown]
# It is the *same* bubble. Its share of the whole is $\frac{p-1}{m+p-1}$; over the ideal it is
# $\frac{p-1}{m}$. With 4 stages and 8 micro-batches these are 27 % and 37.5 %. When a text gives a
# number for a bubble, ask which of the two measures it uses.
#
# Expect measured values somewhat above the formulas. Messages take time, and a sleep lasts a little
# longer than was asked for. How much above differs from run to run.

# %% [markdown]
# More micro-batches make the bubble as small as you like. What is the price? Each micro-batch that
# has gone forward keeps its activations until it goes back. Look at "keeps" in the pictures: GPipe
# keeps all of them. The next part changes that.

# %% [markdown]
# ## Put to the test
#
# What our sources say about cutting a model by layers, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Figures for the statements below.
m = 2 * p
share, over = (p - 1) / (m + p - 1), (p - 1) / m
seen = "right" if p > 1 and naive.idle_share > 0.9 * (1 - 1 / p) else "not seen here"
fits = abs(gpipe_simulated.overhead - over) < 1e-9 < abs(gpipe_simulated.idle_share - over)
in_turn = all(end <= start + 1e-6 for spans in gpipe.spans
              for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:]))
taken = {len({i for _, i, *_ in row}) for row in gpipe.rows}
told_turns = "one after another" if in_turn else "several at a time"
kilobytes = ", ".join(f"{size / 1e3:.1f}" for size in stage_bytes)
model = measured.Transformer(width=width, layers=8)
first, *blocks, last = [sum(w.nbytes for w in layer.parameters())
                        for layer in measured.layers_of(model)]
equal = [sum(blocks[k : k + 2]) + first * (k == 0) + last * (k == 6) for k in (0, 2, 4, 6)]
llamas = {size: lab("model_shapes").model_named(f"llama-{size}") for size in ("8B", "70B")}
outside = {size: 2 * of.embedding_parameters / of.parameters for size, of in llamas.items()}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
surprises = f"""
- [C169] 32 layers over 4 stages are 8 each, and memory is that of 1/P of the layers | web page,
  “Three Dimensions of Parallelism” |
  {"imprecise" if max(equal) > 1.01 * sum(equal) / 4 else "right"} | of blocks yes, of bytes no:
  with 2 of 8 blocks each, embedding and logits at the ends, 4 stages have
  {min(equal) / sum(equal):.1%} to {max(equal) / sum(equal):.1%} of the parameters (measured in this
  section), and activations depend on the schedule (part 08b, section 3) | measured: nothing in the
  rule; embedding and logits are {outside["8B"]:.0%} of Llama 3 8B and {outside["70B"]:.0%} of Llama
  3 70B (computed from their published shapes), so stages of larger models come closer to 1/P
- [C171] GPipe's bubble is (p-1)/m | web page, “The Bubble Problem” |
  {"right over the ideal, not of the whole" if fits else "right, of one stage"} | with {m}
  micro-batches on {p} ranks it is {over:.1%} over the ideal, simulated, and {gpipe.overhead:.1%}
  measured. Of the whole it is {share:.1%}, and {gpipe.idle_share:.1%} measured (section 2, picture;
  computing emulated) | measured: nothing in the order of actions; messages that take time make the
  bubble larger
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C170] Without micro-batches about 75 % is idle with 4 stages | web page, “The Bubble Problem” |
  {seen} | 1 - 1/p; with {p} stages {1 - 1 / p:.1%}, measured {naive.idle_share:.1%} (section 1,
  picture; computing emulated) | measured: nothing, since one stage waits for the other on GPUs too
- [C177] Slicing a model vertically severely lowers utilisation | CS 229S, “Model Parallelism” |
  {seen} | one of {p} ranks works at a time: {naive.idle_share:.1%} of the time was idle (section 1,
  picture). With {4 * p} micro-batches it was {timelines[4 * p][1].idle_share:.2f} of the time
  (section 3, picture; computing emulated) | measured: nothing, since one stage waits for the other
  on GPUs, too; micro-batches of another size change the second figure
- [C185] Weights are split across space, the input across time | CS 229S, “What are the main
  techniques for parallelizing LLMs?” | {"right" if in_turn and taken == {m} else "not seen here"} |
  the stages have {kilobytes} kB of parameters (section 1, table). Each rank took all of
  {max(taken)} micro-batches, {told_turns} (counted in the run of section 2) | measured: nothing,
  since it is what a pipeline is
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford).
#
# **To read on.** Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), 2018. Narayanan et al.,
# [Efficient Large-Scale Language Model Training](https://arxiv.org/abs/2104.04473), 2021, section
# 2.2: the bubble in formulas.

# %% [markdown]
# ## What you have learnt
#
# * A model that is cut by layers fits, but without micro-batches only one of $p$ stages works at a
#   time.
# * With $m$ micro-batches, GPipe is idle for $(p-1)/(m+p-1)$ of the whole time, which is $(p-1)/m$
#   over the ideal.
# * A schedule is data. The list that you print and draw is the list that ranks run.
#
# **Your exercises**: {{bubble}} stands in a cell above, and {{gpipe}} in
# [labs/schedules.py](../labs/schedules.py).
#
# **Next**: {{next}}.

# %%
progress("08")
