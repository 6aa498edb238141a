# %% [markdown]
# # 08i · Pipelines at work
#
# **A pipeline of equal stages, with free messages, is a picture. What do real ones do about the
# bubble, unequal layers, slow links, and weights that change on the way?** Here are the size of a
# micro-batch; two schedules with a smaller bubble; stages balanced by time; PipeDream, which
# never waits; slices of a sequence; and PyTorch's own pipelines, beside yours.
#
# It goes on from [08 · Pipeline parallel](08_pipeline_parallel.ipynb). Exercises stand in cells and
# in the labs [schedules](../labs/schedules.py), [pipeline_parallel](../labs/pipeline_parallel.py),
# [pipedream](../labs/pipedream.py) and [sequence_slices](../labs/sequence_slices.py).

# %% [markdown]
# ![Timelines of a pipeline on four ranks with equal numbers of layers, and with balanced ones: the
# balanced one idles less and ends earlier](../assets/covers/08i_pipelines_at_work.png)
#
# *Measured in section 4: layers shared out by number, and by time (computing is emulated).*
#
# **After this part you can** choose micro-batches, balance stages, and say what each newer schedule
# gains and what it pays.
#
# **It takes** about 25 minutes, and 50 more for 7 exercises. **It needs** [08 · Pipeline
# parallel](08_pipeline_parallel.ipynb).

# %% jupyter={"source_hidden": true}
import copy
import json
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    SlowLayer, Table, check, check_schedule, close, hint, lab, launch, measure, paced,
    plot_against, plot_bars, plot_curves, plot_schedule, predict, progress, put_to_the_test,
    rounding, save_trace, simulate, timeline_of,
)

# %% tags=["parameters"]
world_size = 4
microbatches = 80

# %%
labs = "schedules", "pipeline_parallel", "pipedream", "sequence_slices", "language_model"
schedules, pipeline_parallel, pipedream, sequence_slices, language_model = map(lab, labs)
pipeline_engines = lab("pipeline_engines")
text = language_model.standard_library(100_000)
p = world_size  # stages

# %% [markdown]
# ## 1 · How large is a micro-batch?
#
# More micro-batches make the bubble smaller. But each is smaller, and small products use a
# processor badly: each weight that comes from memory is used for fewer numbers (its *arithmetic
# intensity* is lower), and every operation has a cost of its own. So there is a best size. What a
# micro-batch of $b$ samples costs on this machine, for one of two stages of a model, forward and
# backward:

# %% tags=["nbval-ignore-output"]
def times_of(pipeline_parallel, language_model, sizes, of_model):
    """On one rank: {b: seconds} of the slower one of two stages, forward and backward."""
    layers, seconds = pipeline_parallel.layers_of(language_model.Transformer(**of_model)), {}
    shape = of_model["context"], of_model["width"]
    for piece in pipeline_parallel.pieces_of(layers, [2, 2]):
        stage, best = pipeline_parallel.Stage(piece), {}
        for b in [*sizes] * 8:  # in turns: a disturbance does not meet one size alone
            x = torch.randn(b, *shape)
            x = torch.zeros(b, shape[0], dtype=torch.int64) if piece[0] is layers[0] else x
            began = time.perf_counter()
            stage.backward(0, torch.ones_like(stage.forward(0, x)))
            took = time.perf_counter() - began
            best[b] = min(best.get(b, took), took)
        seconds = {b: max(seconds.get(b, 0), took) for b, took in best.items()}
    return seconds

two_stages = {"width": 64, "layers": 2, "heads": 4, "context": 64}
seconds_of = launch(times_of, pipeline_parallel, language_model, [1, 2, 4, 8, 16, 32], two_stages,
                    world_size=1, device="cpu").values[0]
Table(["samples", "forward and backward", "for each sample"],
      [[str(b), f"{1e3 * took:.2f} ms", f"{1e3 * took / b:.2f} ms"]
       for b, took in seconds_of.items()])

# %% [markdown]
# ### Exercise 8.10
#
# Given such a table, which size of micro-batches, of those in it, makes the shortest step? A batch
# has `samples` samples, in micro-batches of equal size: only sizes that divide it count. All stages
# are as fast as the table says.

# %%
def best_size(seconds_of, samples, stages):
    """The b in seconds_of, {b: seconds of forward and backward}, with the shortest step."""
    ### BEGIN SOLUTION
    def step_seconds(size):
        return (samples // size + stages - 1) * seconds_of[size]
    return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
    ### END SOLUTION

check("8.10", best_size)

# %% [markdown]
# Predicted and measured: batches of 32 samples, two stages, real computing on two ranks.

# %% tags=["nbval-ignore-output"]
def step_times(pipeline_parallel, language_model, schedules, sizes, of_model, samples=32):
    torch.manual_seed(0)
    pipeline = pipeline_parallel.my_pipeline(language_model.Transformer(**of_model))
    text = language_model.standard_library(20_000)
    batch = language_model.draw_batch(text, samples, 0, of_model["context"])
    seconds = {}
    for b in [*sizes, *sizes, *sizes]:
        row = list(schedules.one_f_one_b(pipeline.rank, pipeline.ranks, samples // b))
        dist.barrier()
        began = time.perf_counter()
        pipeline.step(row, *(part.split(b) for part in batch))
        took = time.perf_counter() - began
        seconds[b] = min(seconds.get(b, took), took)
    return seconds

by_rank = launch(step_times, pipeline_parallel, language_model, schedules, list(seconds_of),
                 two_stages, world_size=2, device="cpu").values
measured = [1e3 * max(of_rank[b] for of_rank in by_rank) for b in seconds_of]
expected = [1e3 * (32 // b + 1) * took for b, took in seconds_of.items()]
plot_against(list(seconds_of), {"a step": measured}, "samples in a micro-batch", "time (ms)",
             predicted={"a step": expected}, logarithmic=True,
             title="Two stages, 32 samples: which micro-batches?")

# %% [markdown]
# Small micro-batches take longer than predicted: the table knows nothing of messages, two for each
# micro-batch, nor of two ranks that share one memory. Both push the best size up.
#
# A rule of GPipe's paper, which texts repeat: at least four times as many micro-batches as stages.
# That leaves $\frac{p-1}{5p-1}$ of the whole idle, 11 % for two stages and nearly 20 % for many: no
# law, a place to begin. How far beyond it one can go depends on the batch that training can bear,
# and on the picture above.

# %% [markdown]
# ## 2 · More stages than ranks: interleaved 1F1B
#
# The bubble is $p - 1$ times what a stage takes. Smaller stages shrink it: cut the model into $v p$
# stages, and give each rank $v$ of them, called **chunks**. Rank 0 gets stages 0 and $p$, rank 1
# gets 1 and $p + 1$, and so on: a micro-batch goes round $v$ times. What does that cost?
#
# ### Exercise 8.11
#
# Micro-batches go in groups of $p$: a group passes the first chunk, then the second; then comes the
# next group. Backwards take the chunks the other way round. (`F3.1` is the forward of micro-batch 3
# with chunk 1, `F3` with chunk 0.) In [labs/schedules.py](../labs/schedules.py), write `turn`:
# which forward, or backward, is the $k$-th one of a rank, from $k = 0$ on. `interleaved` uses it.

# %%
check("8.11")

# %% tags=["nbval-ignore-output"]
pace = {"F": 0.030, "B": 0.060}

def emulate(rows, pace=pace, link_seconds=0.0, layers=None, waits=False):
    """The simulated timeline of a schedule, and the one that real ranks had."""
    run = launch(pipeline_parallel.one_batch, rows, paced(pace), link_seconds, layers, waits,
                 world_size=len(rows), device="cpu")
    return simulate(rows, pace, link_seconds, waits), timeline_of(run, rows)

m = 2 * p
halves = {kind: seconds / 2 for kind, seconds in pace.items()}  # each chunk is half a stage
one_chunk = emulate(schedules.rows_of(schedules.one_f_one_b, p, m))
two_chunks = emulate(schedules.rows_of(schedules.interleaved, p, m), halves)
plot_schedule({"1F1B": one_chunk[1], "v = 2, simulated": two_chunks[0], "v = 2": two_chunks[1]})

# %% [markdown]
# Without pauses the bubble is divided by $v$: $\frac{1}{v}\,\frac{p-1}{m}$ over the ideal. Real
# ranks gain less: they pause between more actions. The price: messages over $vp-1$ boundaries, not
# $p-1$; and more is kept ("11/2": 11 of half a rank's layers).
#
# ## 3 · A backward in two halves: zero bubble
#
# A backward computes the gradient of its input (`I`), for which the rank before waits, and those of
# the weights (`W`), for which nobody waits. So `W` can fill idle time: the lab's `zero_bubble` is
# 1F1B where rank $r$ puts it off by $r$ micro-batches. No rank keeps more than 1F1B's rank 0.
#
# ### Exercise 8.12
#
# In [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), write `LaterWeights`: a linear layer
# whose backward gives $x$'s gradient, and leaves a function that computes the others. (Only linear
# layers are split.)

# %%
check("8.12")

# %% [markdown]
# Say a forward takes 30 ms, and each half of the backward 30 ms. Waiting is only for forwards and
# first halves. How much is idle? (1F1B: $\frac{p-1}{m+p-1}$ of the whole.)

# %%
small_bubble = predict(f"Idle share with zero bubble, {p} ranks, {m} micro-batches", unit="%")

# %% tags=["nbval-ignore-output"]
of_halves = {"F": 0.030, "I": 0.030, "W": 0.030}
split_simulated, split_run = emulate(schedules.rows_of(schedules.zero_bubble, p, m), of_halves)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
third = (p - 1) / 3
small_bubble.compare(theory=100 * third / (m + third), measured=100 * split_run.idle_share)

# %% tags=["nbval-ignore-output"]
plot_schedule({"1F1B": one_chunk[1], "zero bubble": split_run})

# %% [markdown]
# The bubble is $(p-1)(t_F + t_I - t_W)$ in place of $(p-1)(t_F + t_I + t_W)$: a third, where the
# three take the same time (and there are at least as many micro-batches as ranks). The name
# promises more than this schedule keeps; its paper has others that come nearer to none, with more
# memory, and without a common moment at which the optimizer steps.
#
# ## 4 · Unequal stages
#
# The slowest stage sets the pace: all others wait for it, in any schedule. Embedding, blocks and
# scores are different layers. What does each take on this machine?

# %% tags=["nbval-ignore-output"]
def layer_times(pipeline_parallel, language_model, of_model, samples=4):
    """On one rank: the seconds of each layer's forward and backward, the best of ten."""
    layers, seconds = pipeline_parallel.layers_of(language_model.Transformer(**of_model)), []
    x, _ = language_model.draw_batch(language_model.standard_library(20_000), samples, 0)
    for layer in layers:
        stage, best = pipeline_parallel.Stage(torch.nn.Sequential(layer)), float("inf")
        for _ in range(10):
            began = time.perf_counter()
            y = stage.forward(0, x)
            stage.backward(0, torch.ones_like(y))
            best = min(best, time.perf_counter() - began)
        seconds.append(best)
        x = y
    return seconds

seconds = launch(layer_times, pipeline_parallel, language_model,
                 {"width": 64, "layers": 8, "heads": 4}, world_size=1, device="cpu").values[0]
plot_bars(["letters", *(f"block {i}" for i in range(8)), "scores"],
          {"forward and backward": [1e3 * took for took in seconds]}, "time (ms)",
          title="A transformer's layers on this machine")

# %% [markdown]
# ### Exercise 8.14
#
# Write `balance` in [labs/pipeline_parallel.py](../labs/pipeline_parallel.py): how many layers each
# stage gets, so that the slowest stage is as fast as can be. Do not try all cuts: what is best for
# the layers from the $k$-th on, in so many stages, is needed again and again.

# %%
check("8.14")

# %% [markdown]
# A model whose scores take much longer than a block, as they do with a vocabulary of a hundred
# thousand words: the last one of ten layers is as long as three blocks. Even numbers of layers, and
# balanced ones, both on the timeline (a block's forward takes 10 ms here, its backward 20 ms):

# %%
weights = [0.5, *[1] * max(8, p), 3]  # embedding, blocks, scores; a block takes 1

def stage_pace(layers):
    ends = torch.tensor(layers).cumsum(0).tolist()
    work = [sum(weights[end - size:end]) for size, end in zip(layers, ends)]
    return {"F": [0.010 * of for of in work], "B": [0.020 * of for of in work]}

ways = {"even": pipeline_parallel.even_sizes(len(weights), p),
        "balanced": pipeline_parallel.balance(weights, p)}
rows = schedules.rows_of(schedules.one_f_one_b, p, m)
balanced = {way: emulate(rows, stage_pace(layers), layers=layers) for way, layers in ways.items()}
for way, layers in ways.items():
    slowest = max(stage_pace(layers)["F"]) / 0.010
    print(f"{way}: {layers} layers; the slowest stage takes {slowest:g} blocks,",
          f"the mean is {sum(weights) / p:g}")

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({way: real for way, (_, real) in balanced.items()})

# %% [markdown]
# Balanced is not equal: layers cannot be cut, and one long layer is a bound for all. (Megatron
# splits the vocabulary with tensor parallelism; some leave a block out of the first and the last
# stage.)
#
# ## 5 · Links
#
# A boundary carries a micro-batch's activations: samples × letters × width numbers, forward, and as
# many back. That does not depend on how many layers a stage has. So pipelines bear slow links
# better than tensor parallelism, whose messages come in each layer. What if a message takes half a
# forward? Either the sender waits until it has left, or it goes on and computes the next:

# %% tags=["nbval-ignore-output"]
slow_rows = schedules.rows_of(schedules.gpipe, p, m)
message_seconds = 0.5 * pace["F"]
of_senders = {name: emulate(slow_rows, link_seconds=message_seconds, waits=waits)
              for name, waits in (("waits", True), ("goes on", False))}
plot_schedule({f"{name}{real}": pair[bool(real)] for name, pair in of_senders.items()
               for real in ("", ", really")})

# %% [markdown]
# If messages leave while their sender computes, each boundary is paid when the pipeline fills, and
# when it drains, and not for every micro-batch. With 1F1B it is different: its rows are so tight
# that a rank waits for each gradient, and a message's time shows again and again. If each rank
# warms up with *two* forwards for each rank after it, there is slack again (its line lies on
# GPipe's), and more is kept:

# %%
def with_slack(rank, ranks, microbatches):
    """1F1B with a warm-up twice as long."""
    warm_up = min(2 * (ranks - 1 - rank), microbatches)
    rows = [schedules.Action("F", i) for i in range(warm_up)]
    for i in range(microbatches):
        more = warm_up + i < microbatches
        rows += [schedules.Action("F", warm_up + i)] * more + [schedules.Action("B", i)]
    return rows

of_links = {"GPipe": slow_rows, "1F1B": schedules.rows_of(schedules.one_f_one_b, p, m),
            "1F1B with slack": schedules.rows_of(with_slack, p, m)}
print("kept:", {name: simulate(rows).most_kept for name, rows in of_links.items()})
shares = [0, 0.1, 0.25, 0.5, 1]
added = {name: [simulate(rows, pace, share * pace["F"]).seconds / simulate(rows, pace).seconds - 1
                for share in shares] for name, rows in of_links.items()}
plot_against(shares, added, "time of a message, in forwards", "step longer by (share)",
             title=f"Slow links, {p} stages, {m} micro-batches (simulated)")

# %% [markdown]
# One all-reduce is needed after all, where two stages have the same weights: many models use the
# embedding's weights for the scores, too, and these are on the first and the last rank. Each has a
# part of the gradient. With and without adding them up:

# %%
def tied_step(pipeline_parallel, language_model, schedules, text, add_up):
    """Whether the tied weights' gradient is that of one process."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    split = language_model.Transformer(tied=True, layers=max(2, dist.get_world_size() - 2))
    alone = copy.deepcopy(split)
    inputs, targets = language_model.draw_batch(text, 8, 0)
    language_model.mean_loss(alone(inputs), targets).backward()
    pipeline, ends = pipeline_parallel.my_pipeline(split), pipeline_parallel.ends_of()
    row = list(schedules.one_f_one_b(pipeline.rank, pipeline.ranks, 4))
    pipeline.step(row, inputs.tensor_split(4), targets.tensor_split(4))
    if pipeline.rank not in (0, pipeline.ranks - 1):
        return True
    if add_up and pipeline.ranks > 1:
        pipeline_parallel.sum_tied(split.letters.weight, ends)
    return close(split.letters.weight.grad, alone.letters.weight.grad)

for add_up in (False, True):
    equal = launch(tied_step, pipeline_parallel, language_model, schedules, text, add_up,
                   world_size=p, device="cpu").values
    print("added up" if add_up else "each its own", "| equal to one process:", all(equal))

# %% [markdown]
# ## 6 · Never wait: PipeDream
#
# The bubble comes from the *flush*: all wait for the last gradient, then weights change for all.
# PipeDream never flushes. Each micro-batch is a batch of its own; a stage changes its weights after
# each backward. When a micro-batch's gradient comes back to a rank, the weights there have changed
# since its forward. How late is a gradient? How many updates came between the version that a
# micro-batch went through and the one that its gradient changed?

# %%
late = predict(f"Updates that rank 0's gradients are late by, with {p} stages", unit="updates")

# %% [markdown]
# A gradient is right only if the backward goes through *the weights of the forward*. So each stage
# keeps a version for each micro-batch under way: **weight stashing**.
#
# ### Exercise 8.15
#
# In [labs/pipedream.py](../labs/pipedream.py), write the holes of `StashingStage`. Versions are
# dictionaries of tensors that never change.

# %%
check("8.15")

# %%
def in_float64(program, *args):
    torch.set_default_dtype(torch.float64)
    return program(*args)

dreams = {way: launch(in_float64, pipedream.program, way, text, microbatches, world_size=p,
                      device="cpu") for way in ("stashing", "two versions")}
for way, run in dreams.items():
    print(way, "| late by", [delay for _, delay, _ in run.values], "updates | versions kept",
          [versions for *_, versions in run.values])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
late.compare(theory=p - 1, measured=dreams["stashing"].values[0][1])

# %% [markdown]
# After the first ones, rank $s$ is $p - 1 - s$ updates late; it keeps $p - s$ versions of its
# weights. (With four stages, micro-batch 5 meets on rank 0 weights that know of numbers up to 1,
# and on the last rank up to 4.) The second way is **PipeDream-2BW**: one update for every $p$
# micro-batches, and a micro-batch goes through the version before the newest. Every gradient is
# late by one update, on all ranks, and two versions are enough: $w_{t+1} = w_t - \eta\, \nabla
# L(w_{t-1})$.
#
# What does it do to training? Beside each way the same on one rank, with nothing late: an update
# for each micro-batch, and one for every $p$ of them. Two learning rates:

# %%
def smooth(run):
    return torch.tensor(run.values[-1][0]).unfold(0, 10, 5).mean(1).tolist()  # means of ten

def curves(lr):
    ways = {"each, nothing late": ("stashing", 1), "each, stashing": ("stashing", p),
            f"every {p}, nothing late": ("accumulating", 1),
            f"every {p}, two versions": ("two versions", p)}
    return {name: smooth(dreams[way] if ranks == p > 1 and lr == 0.3 else launch(
        in_float64, pipedream.program, way, text, microbatches, 4, lr, p, world_size=ranks,
        device="cpu")) for name, (way, ranks) in ways.items()}

xs = list(range(10, microbatches + 1, 5))
panels = {f"learning rate {lr:g}": {name: (xs, ys) for name, ys in curves(lr).items()}
          for lr in (0.1, 0.3)}
plot_curves(panels, "micro-batches", "loss", title=f"SGD with late gradients, {p} stages")

# %% [markdown]
# With four stages, stashing costs nothing that could be seen here. Fewer updates cost something;
# and that all ranks are late by one of these large ones costs more, the more so with large steps.
#
# ### Exercise 8.16: find the bug
#
# A new tensor for each version takes memory, somebody thought, and changed the weights in place. No
# error, and the loss falls. Mend it: micro-batches under way have to go back through the weights
# that they went forward through. Weights, delays and numbers of versions are to be those of
# `StashingStage`: an old version leaves `self.weights`, and `version` counts the updates.

# %%
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        ### BEGIN SOLUTION
        self.weights[self.version] = {
            name: (weight.detach() - self.lr * gradients[name]).requires_grad_()
            for name, weight in weights.items()
        }
        ### IT WAS
        # for name, weight in weights.items():
        #     weight.data -= self.lr * gradients[name]
        # self.weights[self.version] = weights
        ### END SOLUTION

check("8.16", InPlaceStage)

# %% [markdown]
# Without `.data` autograd would have raised an error: it counts the changes of each tensor that a
# backward needs. `.data` hides them.
#
# ## 7 · Slices of a sequence
#
# One long sample cannot be cut into micro-batches. But a causal model reads it from left to right:
# what the first half gives does not depend on the second. So *slices of the sequence* can go
# through the stages, one after another, as TeraPipe does. A slice's attention looks at the keys and
# values of all slices before it. In the backward the last slice comes first: it leaves gradients
# for the keys and values that it looked at. (Later slices look at more, and take longer: TeraPipe
# makes them shorter.)
#
# ### Exercise 8.18
#
# In [labs/sequence_slices.py](../labs/sequence_slices.py), write `SlicedStage.backward`.

# %%
check("8.18")

# %%
plot_schedule({"one sample, 8 slices": simulate(
    schedules.rows_of(sequence_slices.slice_by_slice, p, 8))})

# %% [markdown]
# One sample, in slices, through two stages, in float64. Is it the same as all at once?

# %%
loss, squares = launch(in_float64, sequence_slices.alone, text, 2, world_size=1,
                       device="cpu").values[0]
sliced = {k: launch(in_float64, sequence_slices.program, k, text, world_size=2,
                    device="cpu").values for k in (1, 3, 8)}
Table(["slices", "loss", "equal, but for rounding", "sum of squared gradients: both stages equal"],
      [[str(k), f"{ranks[-1][0]:.4f}", str(close(ranks[-1][0], loss)),
        str(close([found for _, found in ranks], squares))] for k, ranks in sliced.items()])

# %% [markdown]
# For a model whose letters look both ways it cannot work: what the first slice gives would depend
# on letters that come later. The same attention, of 16 letters, all at once and in two slices:

# %%
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 1, 16, 8, dtype=torch.float64)
at_once = {way: F.scaled_dot_product_attention(q, k, v, is_causal=way == "causal")
           for way in ("causal", "both ways")}
seen = torch.ones(8, 16, dtype=torch.bool).tril(8)  # the second half sees the first, and itself
half = [x[:, :, :8] for x in (q, k, v)]
first = {"causal": F.scaled_dot_product_attention(*half, is_causal=True),
         "both ways": F.scaled_dot_product_attention(*half)}
second = {"causal": F.scaled_dot_product_attention(q[:, :, 8:], k, v, attn_mask=seen),
          "both ways": F.scaled_dot_product_attention(q[:, :, 8:], k, v)}
Table(["attention", "first slice equal, but for rounding", "second slice"],
      [[way, *(str(close(part, all_of)) for part, all_of in
               zip((first[way], second[way]), at_once[way].split(8, dim=2)))] for way in at_once])

# %% [markdown]
# ## 8 · The real engine
#
# `torch.distributed.pipelining` has stages and schedules, too. The same model, the same batch:
# gradients beside those of one process, for five of its schedules, and for yours. (In the V-shaped
# one stages go to the last rank and back, so one boundary lies within a rank.)

# %%
def against_one_process(pipeline_engines, language_model, whose, names, text):
    torch.set_default_dtype(torch.float64)
    inputs, targets = language_model.draw_batch(text, 8, 0)
    off = {}
    for name in names:
        split, alone = (pipeline_engines.small_model(whose, name) for _ in range(2))
        language_model.mean_loss(alone(inputs), targets).backward()
        engine = pipeline_engines.ready(whose, name, split, 4)
        with measure(name, memory=False):
            engine.step(inputs, targets)
        off[name] = pipeline_engines.difference(engine, split, alone)
    return off

names = {"ours": list(pipeline_engines.SCHEDULES), "PyTorch's": list(pipeline_engines.ENGINES)}
runs = {whose: launch(against_one_process, pipeline_engines, language_model, whose, of, text,
                      world_size=2, device="cpu") for whose, of in names.items()}
Table(["whose", "schedule", "gradients equal, but for rounding", "sent by both ranks"],
      [[whose, name, str(max(off[name] for off in runs[whose].values) <= rounding()),
        f"{sum(runs[whose][name].sent_bytes) / 1e6:.2f} MB"] for whose in names
       for name in names[whose]])

# %% [markdown]
# And the bubble, with a layer in each stage that takes 40 ms forward, and 40 ms for each half of
# the backward. The idle share comes from how long a step took. (What the other layers really
# compute comes on top, and counts as idle here, for both.) PyTorch's zero bubble is the V-shaped
# one.

# %% tags=["nbval-ignore-output"]
def paced_steps(pipeline_engines, language_model, names, text, m):
    """The seconds of a step of each engine, {whose: …}; names: of our schedule and of theirs."""
    sizes, seconds = {"width": 16, "heads": 2, "context": 8}, {}
    inputs, targets = language_model.draw_batch(text, m, 0, sizes["context"])
    for whose, name in names.items():
        model = pipeline_engines.small_model(whose, name, **sizes)
        engine = pipeline_engines.ready(whose, name, model, m)
        engine.step(inputs, targets)  # to warm up; PyTorch's ranks tell each other the shapes
        for piece in engine.pieces:  # one, or two that take half as long
            pause, later = 0.040 / len(engine.pieces), getattr(piece, "later", None)
            piece.append(SlowLayer(pause, pause, pause, later))
        dist.barrier()
        began = time.perf_counter()
        engine.step(inputs, targets)
        seconds[whose] = time.perf_counter() - began
    return seconds

# %% tags=["nbval-ignore-output"]
theirs = {name: name for name in ("GPipe", "1F1B", "interleaved 1F1B")}
theirs["zero bubble"] = "zero bubble, V-shaped"
idle = {}
for name, other in theirs.items():
    ranks = launch(paced_steps, pipeline_engines, language_model,
                   {"ours": name, "PyTorch's": other}, text, m, world_size=p, device="cpu").values
    idle[name] = {whose: 100 * (1 - m * 0.120 / max(of[whose] for of in ranks))
                  for whose in ranks[0]}
bubbles = p - 1, p - 1, (p - 1) / 2, (p - 1) / 3  # in micro-batches
plot_bars(list(idle), {one: [idle[name][one] for name in idle] for one in ("ours", "PyTorch's")},
          "idle, of the whole (%)", predicted={"ours": [100 * b / (m + b) for b in bubbles]},
          title=f"{p} stages, {m} micro-batches; computing emulated")

# %% [markdown]
# Any timeline can be written to a file that a trace viewer opens: at
# [ui.perfetto.dev](https://ui.perfetto.dev), "Open trace file". Nothing leaves the browser. A whole
# run with all its measured blocks can be saved as well. Here the file is removed at once. With
# `save_trace(split_run, "zero_bubble.json")` it stays, beside this notebook.

# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory() as folder:
    trace = save_trace(split_run, Path(folder) / "zero_bubble.json")
    print(f"{len(json.loads(trace.read_text())['traceEvents'])} events")

# %% [markdown]
# Rows are only lists, so schedules of machines that nobody has at home can be checked and drawn:
# 64 ranks, 512 micro-batches, 65,536 actions. (They are narrower than a pixel: colours mix, forward
# with backward, and at last backward with idle.) Where are the bubbles, and where is memory?

# %%
many = schedules.rows_of(schedules.one_f_one_b, 64, 512)
check_schedule(many, most_kept=[64 - rank for rank in range(64)])
plot_schedule({"1F1B, 64 stages": simulate(many)})

# %% [markdown]
# ## Put to the test
#
# What our sources say about pipelines at work, and what was found.

# %% jupyter={"source_hidden": true}
judged = {stages: (stages - 1) / (5 * stages - 1) for stages in (4, 64)}
enough = simulate(schedules.rows_of(schedules.gpipe, 4, 512)).idle_share
late_by = ", ".join(str(delay) for _, delay, _ in dreams["stashing"].values)
put_to_the_test(f"""
- Take at least 4 times as many micro-batches as stages | web page | depends | a rule of GPipe's;
  idle is still {", ".join(f"{share:.1%} ({stages} stages)" for stages, share in judged.items())}
- With micro-batches utilisation stays poor | survey; CS 229S | depends | on how many: with 512 for
  4 stages {enough:.1%} are idle (simulated)
- The choice of GPipe or 1F1B changes the bubble | CS 229S | imprecise | not between these two (08);
  over the ideal, simulated: 1F1B {one_chunk[0].overhead:.1%}, interleaved
  {two_chunks[0].overhead:.1%}, zero bubble {split_simulated.overhead:.1%}
- TeraPipe works inside of a sequence | CS 229S | right for causal models | in 8 slices the loss is
  {sliced[8][-1][0]:.4f}, at once {loss:.4f}; not where letters look both ways
- Unequal stages add bubbles under any schedule | web page | right | the slowest of
  {ways["even"]} layers takes {max(stage_pace(ways["even"])["F"]) / 0.010:g} blocks' time, balanced
  {max(stage_pace(ways["balanced"])["F"]) / 0.010:g}
- A synchronous pipeline is called PipeDream | CS 229S | imprecise | the first PipeDream has no
  flush: gradients are {late_by} updates late
- 1F1B is from 2006.09503 | CS 229S | imprecise | with a flush, yes; the order is PipeDream's, 2019
- Pipelines if a model spans several servers, tensor parallelism within a fast one | CS 229S |
  plausible | not measured as a whole: messages, section 5, and 07g; ZeRO-3 is the third way (06)
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
best = list(seconds_of)[measured.index(min(measured))]
by_sample = {b: took / b for b, took in seconds_of.items()}
put_to_the_test(f"""
- Larger micro-batches have a higher arithmetic intensity, smaller ones a smaller bubble |
  CS 229S | {"right, by time" if by_sample[1] > by_sample[32] else "not in this run"} | a sample
  takes {1e3 * by_sample[1]:.2f} ms alone, {1e3 * by_sample[32]:.2f} ms among 32; best of 32 samples
  on two stages, this time: {best} in a micro-batch
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford); *Distributed training* (survey).
#
# **To read on.** Qi et al., [Zero Bubble Pipeline
# Parallelism](https://arxiv.org/abs/2401.10241), 2023. Li et al.,
# [TeraPipe](https://arxiv.org/abs/2102.07988), 2021. PyTorch's
# [pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html).

# %% [markdown]
# ## What you have learnt
#
# * Interleaving makes the bubble smaller and sends more. A split backward fills the bubble with
#   gradients of weights.
# * The slowest stage sets the pace, so share layers out by time, not by number.
# * PipeDream never waits, and pays with gradients that are some updates late. Stashed weights keep
#   forward and backward consistent.
# * PyTorch's schedules idled about as much as yours, in section 8, where computing is emulated.
#
# **Your exercises**: those in cells above, and [labs/schedules.py](../labs/schedules.py),
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py),
# [labs/pipedream.py](../labs/pipedream.py) and
# [labs/sequence_slices.py](../labs/sequence_slices.py).
#
# **Next**: [09 · Three dimensions](09_three_dimensions.ipynb).

# %%
progress("08i")
