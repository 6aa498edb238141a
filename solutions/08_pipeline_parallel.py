# %% [markdown]
# # 08 · Pipeline parallel
#
# **A model has more layers than fit on one GPU. Give each GPU some of them, and let the data pass
# through. Why is almost everybody idle then, and what helps?** Cutting between layers sends little:
# one activation for each boundary. But layers come one after another, and so do the ranks.
# *Pipeline parallelism* cuts the batch as well, so that all have something to do.
#
# A **schedule** says which rank does what, and when. Here it is a list: what you print, draw and
# check is what runs.
#
# The second part, [08i · Pipelines at work](08i_pipelines_at_work.ipynb), has other schedules,
# unequal stages, slow links, PipeDream, and PyTorch's own pipelines.
#
# The labs: [schedules](../labs/schedules.py) and [pipeline_parallel](../labs/pipeline_parallel.py).

# %% [markdown]
# ![Timelines of GPipe on four stages with slow links, simulated and on real ranks: both have the
# same order and nearly the same idle time](../assets/covers/08_pipeline_parallel.png)
#
# *From section 5: a schedule as it was simulated, and as four real ranks ran it (computing is
# emulated). Numbers are micro-batches; "keeps" says how many of them a rank holds at most.*
#
# **After this part you can** write GPipe and 1F1B as lists, run them on real ranks, and predict the
# bubble and what each rank keeps.
#
# **It takes** about 25 minutes, and 60 more for 9 exercises. **It needs** [01 · Gradient
# accumulation](01_gradient_accumulation.ipynb) and [02 · Collectives](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
import copy
import itertools

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, check_schedule, close, explore, hint, lab, launch, measure, paced,
    plot_against, plot_bars, plot_schedule, predict, progress, put_to_the_test, simulate,
    timeline_of,
)

# %% tags=["parameters"]
world_size = 4
width = 32
steps = 15

# %%
labs = "schedules", "pipeline_parallel", "language_model"
schedules, pipeline_parallel, language_model = map(lab, labs)
text = language_model.standard_library(100_000)
p = world_size  # stages

# %% [markdown]
# ## 1 · Layers after layers
#
# A transformer is a list of layers: the embedding, the blocks, the scores. Cut the list into $p$
# pieces, called **stages**, one for each rank. A stage gets activations from the rank before it,
# computes, and hands its own to the rank after it. In the backward, gradients go the other way.
#
# Is the memory $1/p$ on each rank? Eight blocks and both ends, in as equal numbers as can be:

# %%
model = language_model.Transformer(width=width, layers=max(8, p))
layers = pipeline_parallel.layers_of(model)
layer_counts = pipeline_parallel.even_sizes(len(layers), p)
stage_bytes = [sum(w.nbytes for w in piece.parameters())
               for piece in pipeline_parallel.pieces_of(layers, layer_counts)]
whole = sum(stage_bytes)
Table(["stage", "layers", "parameters", "of the whole", "1 / p"],
      [[str(stage), str(size), f"{kept / 1e3:.1f} kB", f"{kept / whole:.1%}", f"{1 / p:.1%}"]
       for stage, (size, kept) in enumerate(zip(layer_counts, stage_bytes))])

# %% [markdown]
# Only roughly: the embedding and the scores are other layers than blocks (in models of today they
# are large), and the numbers of layers differ. Activations come on top; more on them below.
#
# Now a batch passes through, forward and back. To see four ranks work on perhaps two cores,
# computing is **emulated**: each stage really computes, and then sleeps until its forward has taken
# 20 ms, its backward 40 ms (for each matrix product of a forward, the backward has two). Processes
# and messages are real. Pictures say where that is so.
#
# Below, `rows` has a list for each rank: what it does. `simulate` computes when each action would
# begin, `timeline_of` reads from a run when it did.

# %%
pace = {"F": 0.020, "B": 0.040}

def emulate(rows, pace=pace, link_seconds=0.0):
    """The simulated timeline of a schedule, and the one that real ranks had."""
    run = launch(pipeline_parallel.one_batch, rows, paced(pace), link_seconds,
                 world_size=len(rows), device="cpu")
    return simulate(rows, pace, link_seconds), timeline_of(run, rows)

# %% [markdown]
# One batch as it is, stage after stage. How much of the ranks' time is idle?

# %%
idle = predict(f"Idle share, one batch through {p} stages", unit="%")

# %% tags=["nbval-ignore-output"]
naive_simulated, naive = emulate(schedules.rows_of(schedules.naive, p, 1))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
idle.compare(theory=100 * (1 - 1 / p), measured=100 * naive.idle_share)

# %% tags=["nbval-ignore-output"]
plot_schedule({"one batch": naive_simulated, "on real ranks": naive})

# %% [markdown]
# At any moment one rank works: $1/p$ is in use, $1 - 1/p$ is idle. More GPUs make the model fit;
# they make nothing faster.
#
# ## 2 · Micro-batches: GPipe
#
# A stage waits for the *whole* batch of the stage before. It need not: cut the batch into $m$
# **micro-batches**: as soon as the first stage is done with number 0, the second one begins with
# it, and the first goes on with number 1. Gradients add up, as in chapter 01.
#
# A schedule is a row of **actions** for each rank: `F3` is the forward of micro-batch 3, `B3` its
# backward. In the lab, a generator makes a row: `yield Action("F", 3)`.
#
# ### Exercise 8.1
#
# In [labs/schedules.py](../labs/schedules.py), write `gpipe`: on every rank all forwards, and then
# all backwards, in order.

# %%
check("8.1")

# %%
for rank, row in enumerate(schedules.rows_of(schedules.gpipe, p, 4)):
    print(f"rank {rank}:", *row)
plot_schedule(simulate(schedules.rows_of(schedules.gpipe, p, 4)), title="GPipe, 4 micro-batches")

# %% [markdown]
# An action begins when its rank is done with the one before, and what it needs is there; the
# picture was drawn from that alone. Idle time is the **bubble**: before a rank's first forward,
# between its last forward and its first backward, and after its last backward; together as long as
# $p - 1$ forwards and backwards, on each rank.
#
# Texts mix two measures of it:
#
# * as a share of the **whole** of all the ranks' time;
# * over the **ideal**, in which nobody waits: idle time for each second of work.
#
# ### Exercise 8.2
#
# Write both for GPipe, with $p$ stages and $m$ micro-batches, as shares (0.25, not 25): first of
# the whole, then over the ideal. And with a single stage?

# %%
def bubble(stages, microbatches):
    """The idle share of the whole, and the idle time over the ideal."""
    ### BEGIN SOLUTION
    idle = stages - 1
    return idle / (microbatches + idle), idle / microbatches
    ### END SOLUTION

check("8.2", bubble)

# %% [markdown]
# On real ranks, with $p$, $2p$ and $4p$ micro-batches. (A micro-batch takes 20 and 40 ms in all our
# pictures, so more of them are a larger batch. 8 of them without a pipeline, one after another
# through 4 stages, would take 8 × 240 ms = 1.92 s. How long do they take below?)

# %%
counts = [p, 2 * p, 4 * p]
timelines = {m: emulate(schedules.rows_of(schedules.gpipe, p, m)) for m in counts}
gpipe_simulated, gpipe_run = timelines[2 * p]

# %% tags=["nbval-ignore-output"]
plot_schedule({"GPipe": gpipe_simulated, "on real ranks": gpipe_run})

# %% tags=["nbval-ignore-output"]
lines = {"share of the whole": [timelines[m][1].idle_share for m in counts],
         "over the ideal": [timelines[m][1].overhead for m in counts]}
formulas = {"share of the whole": [(p - 1) / (m + p - 1) for m in counts],
            "over the ideal": [(p - 1) / m for m in counts]}
plot_against(counts, lines, "micro-batches", "bubble", predicted=formulas,
             title=f"One bubble, two conventions: GPipe on {p} ranks (emulated)")

# %% [markdown]
# It is the *same* bubble. $\frac{p-1}{m+p-1}$ is the share of the whole, and $\frac{p-1}{m}$ is
# over the ideal: with 4 stages and 8 micro-batches, 27 % or 37.5 %. Ask which one a text means.
#
# Measurements lie above the formulas, the more so with more micro-batches: each pays for its
# messages.
#
# ## 3 · What is kept: 1F1B
#
# A forward keeps its activations until its backward. How many micro-batches are kept at a time?
#
# ### Exercise 8.3
#
# From a row, the most micro-batches that the rank keeps at a time; 0 for an empty row. `F` keeps
# one. It is released by its `B`; or, where the backward has two halves, `I` (the input's gradient)
# and `W` (the weights'), by its `W`. (A micro-batch in two pieces of the model counts twice.)

# %%
def most_kept(row):
    """The most micro-batches kept at a time by a rank that does these actions."""
    ### BEGIN SOLUTION
    kept = most = 0
    for action in row:
        kept += (action.kind == "F") - (action.kind in "BW")
        most = max(most, kept)
    return most
    ### END SOLUTION

check("8.3", most_kept)

# %% [markdown]
# GPipe keeps all $m$. So it needs many micro-batches for a small bubble, and memory for all of
# them. But nothing forces a rank to do all forwards first. The last rank could go back at once: its
# output is the loss. **1F1B** (one forward, one backward) begins each backward as early as it can:
# a rank *warms up* with as many forwards as there are ranks after it; then each further forward is
# followed by the oldest backward.

# %%
most = predict(f"Micro-batches that rank 0 keeps under 1F1B: {p} stages, 16 of them", unit="of 16")

# %% [markdown]
# ### Exercise 8.4
#
# Write `one_f_one_b` in [labs/schedules.py](../labs/schedules.py).

# %%
check("8.4")

# %%
sixteen = {name: schedules.rows_of(schedules.SCHEDULES[name], p, 16) for name in ("GPipe", "1F1B")}
kept = {name: launch(pipeline_parallel.one_batch, rows, world_size=p, device="cpu").values
        for name, rows in sixteen.items()}
print(kept)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
most.compare(theory=min(16, p), measured=kept["1F1B"][0])

# %% [markdown]
# Stage $s$ keeps $\min(m, p - s)$, the last one a single micro-batch, however many there are. And
# the bubble?

# %% tags=["nbval-ignore-output"]
both = {name: schedules.rows_of(schedules.SCHEDULES[name], p, 2 * p) for name in sixteen}
side_by_side = {"GPipe": timelines[2 * p], "1F1B": emulate(both["1F1B"])}
for name, (simulated, real) in side_by_side.items():
    print(f"{name}: idle {simulated.idle_share:.1%} simulated, {real.idle_share:.1%} measured")
plot_schedule({name: simulated for name, (simulated, _) in side_by_side.items()})

# %% [markdown]
# The bubble has not changed: filling and draining take as long as before. **1F1B is GPipe with
# less memory, not with less idle time.** A text says that GPipe's bubble is $\frac{p-1}{m}$ and
# 1F1B's $\frac{p-1}{m+p-1}$, and so smaller. These are the two conventions for one bubble.
#
# In bytes, on ranks that really compute: the most that activations take on each rank, beside what
# one micro-batch takes there times how many are kept. The third way is GPipe as in its paper: it
# recomputes. Only each stage's input is kept, as in chapter 05, and what is between comes once more
# before the backward.

# %%
def one_step(pipeline_parallel, language_model, row_of, sizes, samples, recompute=False):
    """On a rank: a step without a pace; what it sends and keeps is measured."""
    torch.manual_seed(0)
    make = pipeline_parallel.RecomputingStage if recompute else pipeline_parallel.Stage
    model = language_model.Transformer(**sizes)
    layers = [3] if len(row_of) == 1 else [2] + [1] * (len(row_of) - 2) + [2]  # a block for each
    pipeline = pipeline_parallel.my_pipeline(model, layers, make=make)
    row = row_of[pipeline.rank]
    m = 1 + max(action.microbatch for action in row)
    text = language_model.standard_library(20_000)
    batch = language_model.draw_batch(text, samples, 0, sizes["context"])
    with measure("step"):
        pipeline.step(row, *(part.tensor_split(m) for part in batch))

sizes = {"width": 32, "layers": p, "heads": 2, "context": 16}

def most_activations(rows, m, recompute=False):
    run = launch(one_step, pipeline_parallel, language_model, rows, sizes, 2 * m, recompute,
                 world_size=p, device="cpu")
    return [peak["activations"] for peak in run["step"].peak_bytes]

# %%
one = most_activations(schedules.rows_of(schedules.gpipe, p, 1), 1)
found = {name: most_activations(of, 2 * p) for name, of in both.items()}
predicted = {name: [count * size / 1e3 for count, size in zip(simulate(both[name]).most_kept, one)]
             for name in found}
found["GPipe, recomputed"] = most_activations(both["GPipe"], 2 * p, recompute=True)
input_bytes = [0] + [2 * 16 * 32 * 4] * (p - 1)  # of a micro-batch; letters are not copied
predicted["GPipe, recomputed"] = [(size + (2 * p - 1) * more) / 1e3
                                  for size, more in zip(one, input_bytes)]
plot_bars([f"rank {rank}" for rank in range(p)],
          {name: [size / 1e3 for size in of_ranks] for name, of_ranks in found.items()},
          "activations at most (kB)", predicted=predicted,
          title=f"What is kept: {2 * p} micro-batches on {p} ranks")

# %% [markdown]
# Each rank has one block here; the first and the last have the ends of the model, too. So "memory
# is $1/p$" is right for weights, roughly. For activations it depends on the schedule: under 1F1B
# the first rank keeps $p$ micro-batches of its $1/p$ of the layers, about as much as a single rank
# with the whole model keeps of one.
#
# ### Exercise 8.5: find the bug
#
# This 1F1B runs, and its gradients are right. On a machine with memory for 1F1B, just enough, it
# fails: rank $r$ of $p$ has room for $\min(m, p - r)$ micro-batches. Mend it. No step may take
# longer than 1F1B's.

# %%
Action = schedules.Action

def one_f_one_b(rank, ranks, microbatches):
    ### BEGIN SOLUTION
    warm_up = min(ranks - 1 - rank, microbatches)
    ### IT WAS
    # warm_up = min(ranks - rank, microbatches)
    ### END SOLUTION
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(warm_up, microbatches):
        yield Action("F", i)
        yield Action("B", i - warm_up)
    for i in range(microbatches - warm_up, microbatches):
        yield Action("B", i)

check("8.5", one_f_one_b)

# %% [markdown]
# A schedule can be checked without running it: is each action there once, after what it needs on
# its rank? Does nobody wait for ever? And, with `most_kept=`, does nobody keep too much?
# `check_schedule` says the first thing that is wrong. These two ranks would hang. Do you see why?

# %%
stuck = [[Action("F", 0), Action("B", 0), Action("F", 1), Action("B", 1)],
         [Action("F", 0), Action("F", 1), Action("B", 0), Action("B", 1)]]
for rank, row in enumerate(stuck):
    print(f"rank {rank}:", *row)
try:
    check_schedule(stuck)
except ValueError as error:
    print(error)

# %% [markdown]
# ## 4 · The machine that runs a schedule
#
# Now the part that computes. A `Stage` is a piece of the model. Its forward gives an output to be
# sent, and keeps the input and the graph; its backward takes the gradient of that output, from the
# next rank, and gives that of the input, for the rank before. Autograd ends at the borders: your
# messages carry what it would.
#
# ### Exercise 8.6
#
# In [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), write `Stage.forward` and
# `Stage.backward`.

# %%
check("8.6")

# %% [markdown]
# ### Exercise 8.7
#
# A `Pipeline` goes through its row, and does each action. In
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), write `Pipeline.forward` (get the
# input, compute, pass the output on; on the last stage the loss goes to `self.losses`, and nothing
# is sent) and `Pipeline.receive` (a tensor of `self.dtype`, filled with what comes). `send` and the
# backward are written: look at them first.

# %%
check("8.7")

# %% [markdown]
# Is all this the same as one process? Loss and gradients, in float64, for all schedules of the lab
# that you have met, also with micro-batches of different sizes:

# %%
def compare(schedules, pipeline_parallel, language_model, names, counts, sizes):
    """For each schedule and number of micro-batches: are gradients and loss one process's?"""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    alone = language_model.Transformer(**sizes)
    split = copy.deepcopy(alone)
    text = language_model.standard_library(20_000)
    inputs, targets = language_model.draw_batch(text, 8, 0, sizes["context"])
    loss = language_model.mean_loss(alone(inputs), targets)
    loss.backward()
    pipeline, equal = pipeline_parallel.my_pipeline(split), {}
    for name, m in itertools.product(names, counts):
        split.zero_grad()
        row = list(schedules.SCHEDULES[name](pipeline.rank, pipeline.ranks, m))
        found = pipeline.step(row, inputs.tensor_split(m), targets.tensor_split(m))
        pairs = zip(split.parameters(), alone.parameters())
        gradients = all(close(p.grad, q.grad) for p, q in pairs if p.grad is not None)
        is_last = pipeline.rank == pipeline.ranks - 1
        equal[name, m] = gradients, not is_last or close(found, loss.item())
    return equal

compared = launch(compare, schedules, pipeline_parallel, language_model,
                  ["naive", "GPipe", "1F1B"], [1, 3, 8], sizes, world_size=p, device="cpu").values
Table(["schedule", "micro-batches", "gradients equal, but for rounding", "loss"],
      [[*map(str, key), *(str(all(of_rank[key][part] for of_rank in compared)) for part in (0, 1))]
       for key in compared[0]])

# %% [markdown]
# What travels: for each micro-batch and boundary its activations forward, and a gradient of the
# same size back. No all-reduce, and nobody talks to anybody but its neighbours. How much does a
# rank with two neighbours send in a step, with 16 samples of 64 letters and a width of 256 numbers
# of 4 bytes?

# %%
guess = predict("Sent in a step by a rank with two neighbours", unit="MB")

# %%
wide, samples = {"width": 256, "layers": p, "heads": 4, "context": 64}, 16
crossing = launch(one_step, pipeline_parallel, language_model,
                  schedules.rows_of(schedules.one_f_one_b, p, 8), wide, samples, world_size=p,
                  device="cpu")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
one_way = samples * wide["context"] * wide["width"] * 4
boundaries = [(rank < p - 1) + (rank > 0) for rank in range(p)]
busiest = boundaries.index(max(boundaries))
guess.compare(theory=max(boundaries) * one_way / 1e6,
              measured=crossing["step"].sent_bytes[busiest] / 1e6, kind="communication")

# %%
calls = crossing["step"].calls[busiest]
print(f"calls of rank {busiest}:", sorted({f"{call.name}, peer {call.peer}" for call in calls}))
Table(["rank", "boundaries", "predicted", "sent, in that"],
      [[str(rank), str(count), f"{count * one_way / 1e6:.2f} MB",
        f"{sent / (count * one_way):.3f}" if count else "–"]
       for rank, (count, sent) in enumerate(zip(boundaries, crossing["step"].sent_bytes))])

# %% [markdown]
# (What is more than predicted are headers, 144 bytes for each message.) Whether that is much or
# little depends on the model: data parallelism would send parameters in place of activations.
#
# And a whole training, with the same batches, on $p$ ranks and on one:

# %%
def trained(pipeline_parallel, language_model, schedules, text, sizes, steps):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    pipeline = pipeline_parallel.my_pipeline(language_model.Transformer(**sizes))
    return pipeline_parallel.train(pipeline, schedules.one_f_one_b, text, steps)[:2]

layers_enough = {"width": width, "layers": max(4, p)}
losses = {k: launch(trained, pipeline_parallel, language_model, schedules, text, layers_enough,
                    steps, world_size=k, device="cpu").values[-1] for k in (1, p)}
Table(["ranks", "loss at first", f"after {steps} steps"],
      [[str(k), *(f"{loss:.3f}" for loss in of)] for k, of in losses.items()])

# %% [markdown]
# ### Exercise 8.8: find the bug
#
# The last stage computes the loss of each micro-batch; its gradients add up to those of the batch.
# This is what somebody has called for each. SGD went well with a small learning rate, and Adam went
# as well as ever. With more micro-batches SGD exploded. (Your `Pipeline` weighs them right.) Mend
# it: a batch's loss is the mean over all its letters, and micro-batches may be unequally large.
# (`mean_loss` is the mean over the letters that it gets.)

# %%
mean_loss = language_model.mean_loss

def part_of_loss(scores, targets, batch_samples):  # of one micro-batch; samples of the whole batch
    ### BEGIN SOLUTION
    return mean_loss(scores, targets) * len(targets) / batch_samples
    ### IT WAS
    # return mean_loss(scores, targets)
    ### END SOLUTION

check("8.8", part_of_loss)

# %% [markdown]
# Adam divides a gradient by its own size, so its steps do not feel the factor $m$; SGD and clipping
# of gradients do. The loss that was reported was $m$ times too large as well: a loss at first that
# is far from $\ln(\text{letters})$ is a warning.
#
# ### Exercise 8.9: find the bug
#
# In the middle of 1F1B two neighbours have something for each other: the first an activation, the
# second a gradient. Both call this function; any two ranks may be neighbours.
# After it `outgoing` may be overwritten, and `incoming` is filled. Run the check, read where each
# rank waits, and mend it, with a batch as in chapter 02. The check runs on Gloo, and accepts
# other ways that work there.

# %%
def exchange(outgoing, incoming, rank, peer):
    """Send `outgoing` to the peer; fill `incoming` with what the peer sends, and return it."""
    ### BEGIN SOLUTION
    messages = [dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    ### IT WAS
    # dist.send(outgoing, peer)
    # dist.recv(incoming, peer)
    ### END SOLUTION
    return incoming

check("8.9", exchange)

# %% [markdown]
# Why does your `Pipeline` not hang like that? Its `send` only begins the message, and goes on. That
# is enough on Gloo, where all of this is measured.
#
# **On GPUs** it would not be. On NCCL, single messages between two ranks run in the order of the
# calls, say its documentation and PyTorch's source. An activation and a gradient that cross
# would wait for each other. So on NCCL the lab takes a group for each direction (`lines_of`). Real
# engines put both messages into one batch, as you did: NCCL's documentation warns of groups that
# work at the same time.

# %% [markdown]
# ## 5 · Try schedules
#
# Choose a schedule, stages, micro-batches, how many times a forward a backward takes, and the time
# of a message (in forwards). The interleaved schedule has several *chunks* of the model on each
# rank (others ignore that): "keeps 11/2" are 11 of half a rank's layers. It and the zero bubble are
# the matter of 08i. The button runs what you see on real ranks, up to 256 micro-batches on all
# together, with a forward of 20 ms, and lays what was measured under it.

# %%
def rows_for(schedule, stages, microbatches, chunks):
    more = {"chunks": chunks} if schedule == "interleaved 1F1B" else {}
    return schedules.rows_of(schedules.SCHEDULES[schedule], stages, microbatches, **more)

def seconds_for(schedule, backward, chunks, forward=1.0):
    share = forward / (chunks if schedule == "interleaved 1F1B" else 1)
    return {"F": share, "B": backward * share, "I": backward / 2 * share, "W": backward / 2 * share}

def draw_it(schedule, stages, microbatches, backward, chunks, message):
    seconds = seconds_for(schedule, backward, chunks)
    rows = rows_for(schedule, stages, microbatches, chunks)
    return plot_schedule({schedule: simulate(rows, seconds, message, unit="forwards")},
                         most_inches=2.8)

def run_it(schedule, stages, microbatches, backward, chunks, message):
    if stages * microbatches > 256:
        raise ValueError("that would take long: choose fewer stages or micro-batches")
    pace = seconds_for(schedule, backward, chunks, forward=0.02)
    rows = rows_for(schedule, stages, microbatches, chunks)
    simulated, real = emulate(rows, pace, message * 0.02)
    return plot_schedule({schedule: simulated, "on real ranks": real})

# %%
def no_effect(schedule, stages, **others):
    chunks = [] if schedule == "interleaved 1F1B" else ["chunks"]
    return chunks + (["message"] if stages == 1 else [])

explore(draw_it, run_it, schedule=["1F1B", "GPipe", "interleaved 1F1B", "zero bubble", "naive"],
        stages=[4, 1, 2, 3, 6, 8, 16], microbatches=[8, 1, 2, 4, 6, 12, 16, 32, 64],
        backward=[2, 1, 3], chunks=[2, 3, 4], message=[0, 0.25, 0.5, 1], no_effect=no_effect,
        labels={"microbatches": "micro-batches", "backward": "backward (forwards)",
                "chunks": "chunks on each rank", "message": "message (forwards)"},
        highest={"stages": 16})

# %% tags=["cover", "nbval-ignore-output"]
run_it("GPipe", p, 2 * p, 2, 2, 0.25)

# %% [markdown]
# ## Put to the test
#
# What our sources say about the matter of this chapter, and what was found. (More of them in 08i.)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
seen = "right" if p > 1 else "nothing to see on one rank"
shares = {name: [one.idle_share for one in pair] for name, pair in side_by_side.items()}
put_to_the_test(f"""
- 32 layers over 4 stages are 8 each, and memory is 1/P | web page | imprecise | layers yes; stages
  have {min(stage_bytes) / whole:.0%} to {max(stage_bytes) / whole:.0%} of the parameters here, and
  activations depend on the schedule (section 3)
- Without micro-batches about 75 % is idle with 4 stages | web page | {seen} | 1 - 1/p; with {p}
  {1 - 1 / p:.1%}, measured {naive.idle_share:.1%}
- GPipe's bubble is (p-1)/m | web page | right over the ideal | as a share of the whole it is
  (p-1)/(m+p-1); measured with {2 * p} micro-batches: {gpipe_run.overhead:.3f} and
  {gpipe_run.idle_share:.3f}, theory {(p - 1) / 2 / p:.3f} and {(p - 1) / (3 * p - 1):.3f}
- 1F1B's bubble is (p-1)/(m+p-1), and so smaller | web page | contradicts: the same bubble, in the
  other convention | of the whole, simulated and measured: {"; ".join(
      f"{name} {simulated:.3f}, {real:.3f}" for name, (simulated, real) in shares.items())}
""")

# %% jupyter={"source_hidden": true}
parameters = sum(w.nbytes for w in language_model.Transformer(**wide).parameters())
all_reduced = 2 * (p - 1) / p * parameters
put_to_the_test(f"""
- GPipe keeps the activations of m micro-batches | web page | right | without recomputation:
  {kept["GPipe"]} of 16; with it, the inputs of m and all of one (section 3)
- 1F1B keeps those of p, whatever m is | web page | right as a bound | stage s keeps min(m, p - s):
  {kept["1F1B"]} of 16
- Cutting by layers lowers utilisation severely | CS 229S | {seen} | to 1/p, without micro-batches
- Weights are split in space, the input in time | CS 229S | right | the timelines above
- Pipelines need messages from rank to rank, and no all-reduce | CS 229S | {seen} | all calls of the
  busiest rank: {", ".join(sorted({call.name for call in calls}))}. Weights that two stages share
  need one: 08i
- Traffic is medium | web page | depends | a rank sent at most
  {max(crossing["step"].sent_bytes) / 1e6:.1f} MB here; data parallel would send
  {all_reduced / 1e6:.1f} MB of gradients of this model. More samples change the first alone
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford).
#
# **To read on.** Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), 2018. Narayanan et al.,
# [PipeDream](https://arxiv.org/abs/1806.03377), 2019;
# [PipeDream-2BW](https://arxiv.org/abs/2006.09503), 2020, where 1F1B with a flush comes from (all
# backwards end before the weights change);
# [Efficient Large-Scale Language Model Training](https://arxiv.org/abs/2104.04473), 2021, section
# 2.2: the bubble in formulas.

# %% [markdown]
# ## What you have learnt
#
# * Without micro-batches only one of $p$ stages works at a time.
# * With $m$ micro-batches the idle share is $(p-1)/(m+p-1)$, for GPipe and for 1F1B alike, where
#   stages are equal and messages take no time.
# * GPipe keeps the activations of $m$ micro-batches, stage $s$ of 1F1B those of at most $p-s$.
# * A schedule is data. The list that you print and draw is the one that ranks run, and it gives the
#   gradients of one process.
#
# **Your exercises**: those in cells above, and [labs/schedules.py](../labs/schedules.py) and
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py).
#
# **Next**: [08i · Pipelines at work](08i_pipelines_at_work.ipynb).

# %%
progress("08")
