# %% [markdown]
# # {{title}}
#
# **So far all stages took equally long, and messages were free. What if they are not?** In a real
# model the embedding takes hardly any time, and the last layer may take as long as several blocks.
# In a cluster each boundary between stages is a link. You share out layers by time, and find out
# how fast a link has to be.

# %% [markdown]
# ![Timelines of a pipeline on four ranks with equal numbers of layers, and with balanced ones: the
# balanced one idles less and ends earlier](../assets/covers/08g_unequal_stages.png)
#
# *Measured in section 2: layers shared out by number, and by time (computing is emulated).*
#
# **After this part you can** balance the stages of a pipeline, share a large output layer between
# all of them, and tell whether a link is fast enough.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_against, plot_bars, plot_schedule, predict, progress,
    put_to_the_test, rounding, simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, pipeline_parallel = lab("schedules"), lab("pipeline_parallel")
pipeline_balance, zero_bubbles = lab("pipeline_balance"), lab("zero_bubbles")
p, m = world_size, 2 * world_size  # ranks, micro-batches

# %% [markdown]
# ## 1 · What a layer takes
#
# A pipeline is as slow as its slowest stage: all others wait for it, for each micro-batch. So
# first measure the layers. This is a small transformer with 8 blocks on this machine, one layer
# after another, forward and backward.

# %% tags=["nbval-ignore-output"]
small = {"width": 64, "layers": 8, "heads": 4}
seconds = launch(pipeline_balance.layer_times, small, world_size=1).values[0]
plot_bars(["embed.", *(f"block {i}" for i in range(8)), "logits"],
          {"forward and backward": [1e3 * took for took in seconds]}, "time (ms)",
          title="A transformer's layers on this machine")

# %% tags=["nbval-ignore-output"]
print(f"the logits take {seconds[-1] / median(seconds[1:-1]):.2f} of a block")

# %% [markdown]
# Blocks are alike, both ends are not. Here the last layer should be short, as there are only 128
# kinds of tokens. With a vocabulary of 128,000 it is long. In FLOPs for each token, a block
# takes about $24 h^2$ forward, and the logits $2 h v$, where $h$ is the width and $v$ the
# vocabulary. For Llama-3-8B, $h$ = 4096 and $v$ = 128,256. How many blocks are as long as the
# logits?

# %%
blocks = predict("The logits of Llama-3-8B take as long as", unit="blocks")

# %% jupyter={"source_hidden": true}
# Your prediction, the simple formula, and a count with its own block.
h, v, ffn, kv = 4096, 128_256, 14_336, 1024
own_block = 2 * (2 * h * h + 2 * h * kv + 3 * h * ffn)  # queries and output, keys and values, MLP
blocks.compare(2 * h * v / (24 * h * h), 2 * h * v / own_block, kind="forward", wire="counted")

# %% [markdown]
# The second bar counts the matrices of Llama's own block: its keys and values are narrower, and its
# MLP is wider. Either way the logits are as long as two or three blocks.
#
# ## 2 · Balance
#
# Let the last layer take 3, a block 1, and the embedding 0.5. With equal *numbers* of layers, the
# last stage is much slower than the others. Equal *times* are better.

# %% [markdown]
# ### Exercise {{balance}} · Share out the layers
#
# Write `balance(seconds, stages)` in [labs/pipeline_parallel.py](../labs/pipeline_parallel.py).
# `seconds` is a list: what each layer takes, in the order of the model. Return a list of `stages`
# whole numbers: how many layers each stage gets. Stages are made of neighbouring layers, at least
# one in each. The slowest stage has to be as fast as possible. If several answers have an equally
# fast slowest stage, any of them passes. If there are fewer layers than stages, raise a
# `ValueError` that names both numbers.

# %% [markdown]
# For example, `balance([1, 1, 1, 3], 2)` is `[3, 1]`: both stages take 3. And
# `balance([2, 3, 4], 2)` is `[2, 1]`: the slowest stage takes 5, where `[1, 2]` would take 7.
#
# Do not try all cuts. With 60 layers and 10 stages there are more than a thousand million. The same
# question comes up again and again: *what is best for the layers from the $k$-th on, in so many
# stages?* Answer it once for each $k$ and each number of stages. `functools.cache` remembers what a
# function has returned.

# %%
check("{{balance}}")

# %% [markdown]
# Even and balanced, on real ranks. A block's forward takes 10 ms, its backward 20 ms.

# %%
weights = [0.5, *[1] * max(8, p), 3]  # embedding, blocks, logits
ways = {"even": pipeline_parallel.even_sizes(len(weights), p),
        "balanced": pipeline_parallel.balance(weights, p)}
for way, sizes in ways.items():
    work = pipeline_balance.work_of(weights, sizes)
    print(f"{way:9}{sizes} layers; stages take {work}, their mean is {sum(weights) / p:g}")

# %% tags=["nbval-ignore-output"]
rows = schedules.rows_of(schedules.one_f_one_b, p, m)
balanced = {way: pipeline_balance.emulate_rows(rows, pipeline_balance.pace_of(weights, sizes),
                                           layers=sizes) for way, sizes in ways.items()}

# %% tags=["cover", "nbval-ignore-output"]
plot_schedule({way: real for way, (_, real) in balanced.items()})

# %% [markdown]
# Look at the even stages. The last rank is the slowest one, and hardly idle between its first
# action and its last one. The ranks before it wait for it after each backward and forward.
#
# Is this so for other schedules than 1F1B, too? Here is the idle share for all schedules of parts
# 08 to 08f that have one chunk on a rank: with equal stages, with the balanced ones and with the
# even ones (simulated).

# %%
def idle_with(schedule, work):
    pace = {"F": work, "I": work, "W": work, "B": [2 * one for one in work]}
    return simulate(schedules.rows_of(schedule, p, m), pace).idle_share

works = {"equal stages": [1] * p} | {
    way: pipeline_balance.work_of(weights, ways[way]) for way in ("balanced", "even")}
one_chunk = {"GPipe": schedules.gpipe, "1F1B": schedules.one_f_one_b,
             "ZB-H1": schedules.zero_bubble, "ZB-H2": zero_bubbles.zb_h2}
idle_of = {name: {way: idle_with(schedule, work) for way, work in works.items()}
           for name, schedule in one_chunk.items()}
Table(["schedule", *works], [[name, *(f"{idle:.1%}" for idle in idles.values())]
                             for name, idles in idle_of.items()])

# %% [markdown]
# Balanced stages are not equal stages. A stage has whole layers, so one long layer is a bound for
# all schedules. (Micro-batches may be unequal as well: with packed documents, attention takes
# longer where documents are longer, on *every* stage. No balance of layers helps there; see 09f.)
# What is done about it:
#
# * Give the first and the last stage fewer blocks. Llama 3's authors took one block from each of
#   them, [says their report](https://arxiv.org/abs/2407.21783), section 3.3.2.
# * Cut the logits over several ranks: with tensor parallelism (07c), or over all stages, as [Yeung
#   et al. 2024](https://arxiv.org/abs/2411.05288) do.

# %% [markdown]
# ### An output layer over all stages
#
# How long can one layer be? Let tokens be pairs of characters, which makes a vocabulary of 16,384.
# These are the times of the layers on this machine, forward and backward, and those of the stages
# with the best balance that whole layers allow.

# %% tags=["nbval-ignore-output"]
vocabulary_pipeline = lab("vocabulary_pipeline")
vocabulary_measured = lab("vocabulary_measured")
vocabulary, big = 128 * 128, {"width": 256, "blocks": max(8, p), "heads": 4}
took = launch(vocabulary_measured.layer_seconds, vocabulary, p, big, world_size=1).values[0]
layers = took["layers"]
whole_sizes = pipeline_parallel.balance(layers, p)
before = pipeline_balance.work_of(layers, whole_sizes)
spread = [sum(layers[1:-1]) / p + took["S"] + took["T"]] * p
print(f"the logits take as long as {layers[-1] / median(layers[1:-1]):.1f} blocks")
plot_bars([f"stage {k}" for k in range(p)],
          {"whole layers, balanced": [1e3 * one for one in before],
           "output layer over all stages": [1e3 * one for one in spread]},
          "time (ms)", title=f"Forward and backward of a micro-batch, {vocabulary:,} tokens")

# %% [markdown]
# The second bars are what this section is about: each stage has equally many blocks, and the rows
# of the output layer for $1/p$ of the tokens. (Blocks count with their mean time. The embedding is
# cut in the same way; its look-up is left out.)
#
# Stage $r$ needs the last stage's output $y$, and computes its logits $s_v$ from it. Their highest
# one is $m_r$. If it takes each exp relative to $m_r$, it need not wait for any other stage. Its
# first pass, **S**, gives for each target
#
# * three numbers: $m_r$, $\sum_v e^{s_v - m_r}$, and the target's logit if its row is here, else 0;
# * a vector: $\sum_v e^{s_v - m_r}\, w_v$, where $w_v$ is row $v$ of the output layer.

# %% [markdown]
# The loss is $\log \sum_v e^{s_v} - s_t$ over the tokens of all stages, as in 07c. Its gradient
# with respect to $y$ is $\sum_v P_v w_v - w_t$, where $P_v$ is the probability of token $v$. The
# last stage can compute both from what the stages send, so a micro-batch waits for all stages only
# once. It then tells them $\log \sum_v e^{s_v}$, with which each stage computes the gradient of its
# own rows: this is **T**.

# %% [markdown]
# ### Exercise {{merge_parts}} · Merge the parts of a split softmax
#
# Write `merge_parts(statistics, vectors)` in
# [labs/vocabulary_pipeline.py](../labs/vocabulary_pipeline.py), which runs on the last stage.
# `statistics` has the shape (stages, 3, targets): of each stage $m_r$, the sum of exp, and the
# target's logit, or 0 if another stage has it. `vectors` has the shape (stages, targets, width).
# Return three tensors:
#
# * the loss of each target, (targets,);
# * $\log \sum_v e^{s_v}$ over the tokens of all stages, (targets,);
# * $\sum_v P_v w_v$ over the tokens of all stages, (targets, width).
#
# They have the dtype of `vectors`. Logits may be in the thousands and as far apart, between stages
# or targets, and no exp may overflow. Nothing is sent.

# %% [markdown]
# For example, stage 0 has the logits 0 and 0 with the rows 1 and 3 (the width is 1), and stage 1
# the logit $\log 2$ with the row 5. The target is the first token. Stage 0 gives $m = 0$, sum 2,
# logit 0 and vector $1 + 3 = 4$. Stage 1 gives $m = \log 2$, sum 1, 0 and vector 5. The sum of exp
# is $2 + 2 = 4$, so the loss is $\log 4 - 0$. The probabilities are ¼, ¼ and ½, so the third result
# is ¼ + ¾ + 2½ = 3.5.

# %%
check("{{merge_parts}}")

# %% [markdown]
# When should a stage run S and T? A list scheduler finds an order: again and again, it takes the
# action that can begin earliest. Here a block takes 1 forward, as above. How many
# micro-batches have to be kept, so that the bubble does not grow with their number?

# %%
output_schedules = lab("vocabulary_schedules")
in_blocks = pipeline_parallel.even_sizes(len(weights) - 2, p)
work = [size + weights[0] / p for size in in_blocks]  # with a part of the embedding
times = {"F": work, "B": [2 * one for one in work], "S": 2 * weights[-1] / p,
         "T": weights[-1] / p}

def schedule_with(extra, count):
    return output_schedules.list_schedule(p, count, times, extra)

Table(["rank 0 keeps", f"bubble, {m} micro-batches", f"{2 * m} micro-batches"],
      [[p + extra, *(f"{output_schedules.bubble_of(*schedule_with(extra, count)):.4g}"
                     for count in (m, 2 * m))] for extra in (0, 1, 2)])

# %% [markdown]
# As many as under 1F1B are too few: each backward on the last rank waits for every rank's S, and
# meanwhile all ranks have nothing to go forward with. **One more** is enough. (The paper counts the
# same for a single barrier: $p + 1$.) Now on real ranks, where a block's forward takes 10 ms:

# %% tags=["nbval-ignore-output"]
pace_of_rank = {kind: [0.010 * one for one in of] if isinstance(of, list) else 0.010 * of
                for kind, of in times.items()}
output_rows, _ = output_schedules.list_schedule(p, m, pace_of_rank)
run = launch(vocabulary_measured.run_step, output_rows, pace_of_rank, world_size=p, device="cpu")
real = balanced["balanced"][1]
lab("output_passes").plot_output_passes({
    "whole layers, balanced": ([[schedules.Action(*one) for one in row] for row in real.rows],
                               real.spans),
    "output layer over all stages": (output_rows, vocabulary_measured.spans_of(run)),
}, "The same model in two ways, on real ranks")

# %% [markdown]
# In the first picture, the long last layer fills a stage of its own, and others wait for the
# longest stage. In the second one, every rank has a part of it. Does it compute the same, in
# float64, with unequal parts of a vocabulary of 37 tokens?

# %%
found = launch(vocabulary_pipeline.gap, 37, m - 1, world_size=p).values
print("loss and all gradients as one process, up to rounding:", max(found) <= rounding())

# %% [markdown]
# What does it send? Per token, the last rank sends $y$ to all others, and each of these sends it
# the vector, the target's row and three numbers, next to an activation and a gradient for its
# neighbours. Rank 0 looks up a micro-batch right before its forward: the vector of a token comes
# from the rank that has its row, and the gradient goes back there.

# %%
sizes, samples = {"width": 256, "blocks": p, "heads": 4}, 2
sends = [launch(vocabulary_measured.run_step, output_rows, {}, vocabulary, samples, sizes,
                world_size=p, device="cpu")]
sends.append(launch(vocabulary_measured.run_whole, [2] + [1] * (p - 2) + [2], m, vocabulary,
                    samples, sizes, world_size=p, device="cpu"))
spread_run, whole_run = (one["step"] for one in sends)

# %% tags=["nbval-ignore-output"]
planned = vocabulary_measured.plan_bytes(p, m, samples, vocabulary, sizes["width"])  # in bytes
shown = [(step, kind) for kind in ("parameters", "total") for step in (whole_run, spread_run)]
Table(["rank", "sent, whole", "spread", "planned", "parameters, whole", "spread", "total, whole",
       "spread"],
      [[rank, *(f"{step.sent_bytes[rank] / 1e6:.2f}" for step in (whole_run, spread_run)),
        f"{planned[rank] / 1e6:.2f}", *(f"{step.peak_bytes[rank][kind] / 1e6:.0f}"
                                        for step, kind in shown)] for rank in range(p)],
      note="In MB, of a step.")

# %% [markdown]
# With whole layers, the first and the last rank have the two large matrices and their gradients,
# and the last one also the logits. Spread, all ranks have about equally much, however many
# micro-batches there are, and tied weights are one parameter. The price is more bytes from every
# rank, and one more micro-batch in flight.
#
# **On GPUs.** Yeung et al. use collectives, and two variants with one or two barriers, which keep
# $p + 1$ and $p + 2$ micro-batches. They report 5 to 51 % more throughput than other ways
# ([paper](https://arxiv.org/abs/2411.05288),
# [code](https://github.com/sail-sg/VocabularyParallelism)).

# %% [markdown]
# Megatron Core places whole layers instead, by a
# [string](https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/features/pipeline_parallel_layout.html).
# In `"Et*3|(tt|)*29,m|L"`, `|` separates stages, `E` is the embedding, `t` a block, and `L` the
# loss, which has its own stage here. The `m` is a layer for **multi-token prediction** (MTP), with
# which DeepSeek-V3 was trained: another block, which predicts one token further ahead and makes a
# second pass through the shared output layer. By default MTP layers are on the last stage, which is
# long already. The string may move them to another stage, where `m` is alone here
# ([guide](https://docs.nvidia.com/megatron-core/developer-guide/nightly/user-guide/features/multi_token_prediction.html)),
# but that stage then needs the embedding, too
# ([source](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/models/gpt/gpt_model.py)).
# None of this was measured here.

# %% [markdown]
# ## 3 · Links
#
# A boundary carries the activations of a micro-batch forward, and as many numbers back (08c). What
# if a message takes half as long as a forward? Either the sender waits until the message has left,
# or it goes on with the next micro-batch. Here are both under GPipe:

# %% tags=["nbval-ignore-output"]
pace = {"F": 0.030, "B": 0.060}
gpipe = schedules.rows_of(schedules.gpipe, p, m)
senders = {name: pipeline_balance.emulate_rows(gpipe, pace, 0.5 * pace["F"], waits=waits)
           for name, waits in (("the sender waits", True), ("the sender goes on", False))}
plot_schedule({f"{name}{', on real ranks' * real}": pair[real] for name, pair in senders.items()
               for real in (False, True)}, most_inches=1)

# %% [markdown]
# If the sender goes on, a boundary costs the time of two messages in a step: one when the pipeline
# fills, and one when it drains. All other messages travel while ranks compute.
#
# 1F1B is different. A rank needs each gradient soon after its neighbour has computed it, so it
# waits for many messages. It helps to warm up with *two* forwards for each rank that comes after.
# This gives 1F1B **slack**: a gradient may come somewhat later, and nobody waits. But ranks keep
# more:

# %%
def schedule_with_slack(rank, ranks, microbatches):
    """1F1B with a warm-up twice as long, in letters."""
    warm_up = min(2 * (ranks - 1 - rank), microbatches)
    letters = "F" * warm_up + "FB" * (microbatches - warm_up) + "B" * warm_up
    return zero_bubbles.actions_of(letters, microbatches)

of_links = {
    "GPipe": gpipe,
    "1F1B": rows,
    "1F1B with slack": schedules.rows_of(schedule_with_slack, p, m),
}
print("kept:", {name: simulate(of).most_kept for name, of in of_links.items()})
shares = [0, 0.1, 0.25, 0.5, 1]
plot_against(shares, {name: [100 * pipeline_balance.step_longer_by(of, share) for share in shares]
                      for name, of in of_links.items()},
             "time of a message (forwards)", "step longer by (%)",
             title=f"Slow links, {p} stages, {m} micro-batches (simulated)")

# %% [markdown]
# The line of GPipe lies behind the line of 1F1B with slack. So with slack, 1F1B loses no more time
# than GPipe, and keeps fewer micro-batches. Without slack it loses most.
#
# ## 4 · How fast is fast enough?
#
# Take a stage of $l$ blocks of width $h$. For each token it computes $24\,h^2\,l$ FLOPs forward,
# and sends $2h$ bytes in bfloat16. With a GPU that reaches $C$ FLOPs a second, and a link of $B$
# bytes a second, a message takes this share of a forward:
#
# $$\frac{2h/B}{24\,h^2\,l/C} = \frac{C}{12\,h\,l\,B}$$
#
# The number of tokens cancels out. Wide models with many blocks on a stage have relatively small
# messages.

# %%
share_guess = predict("h = 8192, 10 blocks, 400 TFLOP/s, 50 GB/s: message, in % of a forward",
                      unit="%")

# %%
models = {"8192 wide, 10 blocks on a stage": (8192, 10), "4096 wide, 8 blocks": (4096, 8),
          "4096 wide, 1 block": (4096, 1), "1024 wide, 1 block": (1024, 1)}
links = {"Ethernet, 1.25 GB/s": 1.25e9, "InfiniBand, 50 GB/s": 50e9, "NVLink, 450 GB/s": 450e9}
share_of = {(name, link): pipeline_balance.message_share(*of, 400e12, links[link])
            for name, of in models.items() for link in links}

def format_share(share):
    return f"{share:.2g} (+{pipeline_balance.step_longer_by(rows, share):.1%})"

Table(["a stage", *links],
      [[name, *(format_share(share_of[name, link]) for link in links)] for name in models])

# %% jupyter={"source_hidden": true}
# Your prediction, the formula, and tokens, bytes and FLOPs counted one by one.
tokens = 4096
message = tokens * 8192 * 2 / 50e9
forward = sum(2 * tokens * 12 * 8192**2 for _ in range(10)) / 400e12
share_guess.compare(100 * 400e12 / (12 * 8192 * 10 * 50e9), 100 * message / forward,
                    kind="communication", wire="counted")

# %% [markdown]
# The table gives a message's time in forwards, and in brackets how much longer a step of 1F1B is
# (simulated). 400 TFLOP/s is assumed: it is about 40 % of an H100's 989, as in [Llama 3's
# report](https://arxiv.org/abs/2407.21783), section 3.3. 1.25 GB/s is Ethernet of 10 Gbit/s. 50
# GB/s is a network card of 400 Gbit/s (InfiniBand NDR), one for each GPU. 450 GB/s is an H100's
# NVLink, one way. (NVIDIA gives 900 GB/s, for both directions together.)

# %% [markdown]
# For wide models with many blocks on a stage, the network card is enough. It is not enough for one
# narrow block on a stage. Interleaving with very many chunks makes such short stages, so it has its
# limit there.
#
# Do the brackets hold on real ranks? We throttle the links so that a message takes the last share
# in the column of InfiniBand, and run 1F1B. (Computing is emulated. Of two runs the faster counts.)

# %% tags=["nbval-ignore-output"]
def step_seconds(share):
    runs = [pipeline_balance.emulate_rows(rows, pace, share * pace["F"])[1] for _ in range(2)]
    return min(run.seconds for run in runs)

wide, *_, narrow = (share_of[name, "InfiniBand, 50 GB/s"] for name in models)
longer = step_seconds(narrow) / step_seconds(0.0) - 1
print(f"a message takes {narrow:.0%} of a forward; a step is longer by",
      f"{pipeline_balance.step_longer_by(rows, narrow):.0%} (simulated), {longer:.0%} (measured)")

# %% [markdown]
# **On GPUs.** A stage boundary between two machines uses one card of each. In a machine with eight
# GPUs and eight cards, eight pipelines cross the boundary side by side, each through a card of its
# own (09c). Inside of a machine, NVLink is faster by far, but a pipeline of wide stages with many
# blocks gains little from it: see the first rows of the table. That is why tensor parallelism gets
# NVLink, and pipelines get the network.
#
# With NCCL, a send or a receive is usually a kernel (profilers show `ncclDevKernel_SendRecv`). It
# occupies a part of the GPU while it waits, so even a hidden message is never quite free. None of
# this was measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
slowest = {way: max(pipeline_balance.work_of(weights, sizes)) for way, sizes in ways.items()}
adds = all(idle["even"] > idle["equal stages"] for idle in idle_of.values())
idle_real = {way: real.idle_share for way, (_, real) in balanced.items()}
turns = {way: [] for way in ways}
for way in [*ways] * 3:
    turns[way].append(pipeline_balance.emulate_rows(
        rows, pipeline_balance.pace_of(weights, ways[way]), layers=ways[way])[1])
adds = adds and lab("emulated_pipelines").compare_idle(turns, "even", "balanced").word == "slower"
told_idle = "; ".join(f"{name} {idle['equal stages']:.1%} and {idle['even']:.1%}"
                      for name, idle in idle_of.items())
surprises = f"""
- [C181] Traffic of a pipeline is medium, and InfiniBand is enough | web page, “Strategy
  Comparison” and “Communication Hierarchy” | {"depends" if narrow > 0.1 > wide else "right"} | on
  width and blocks of a stage. For 50 GB/s and 400 TFLOP/s a message takes {wide:.2g} of a forward
  with 10 blocks of width 8192, which makes a simulated step of 1F1B
  {pipeline_balance.step_longer_by(rows, wide):.1%} longer, and {narrow:.2g} with one block of width
  1024 (section 4, table). With links throttled to the second share, the step took {longer:.0%}
  longer (section 4, run; computing emulated) | computed: the shares are from data sheets and an
  assumed 400 TFLOP/s; faster GPUs make messages longer in forwards. No InfiniBand was measured
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises + f"""
- [C183] Stages with different costs create bubbles even with good scheduling | web page,
  “Unbalanced Pipeline Stages” | {"right" if adds else "not seen here"} | under 1F1B on {p} ranks,
  {idle_real["even"]:.1%} of the time was idle with {ways["even"]} layers, and
  {idle_real["balanced"]:.1%} with {ways["balanced"]}, which are balanced (section 2, picture;
  computing emulated). Simulated, with equal stages and with even numbers of layers: {told_idle}
  (section 2, table) | measured: nothing in the rule, since the slowest stage sets the pace
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Harlap et al. 2018, [PipeDream](https://arxiv.org/abs/1806.03377), section 3.2:
# sharing out layers by measured times. Llama Team 2024, [The Llama 3 Herd of
# Models](https://arxiv.org/abs/2407.21783), section 3.3.

# %% [markdown]
# ## What you have learnt
#
# * The slowest stage sets the pace of all, under every schedule. Share layers out by time, not by
#   number.
# * A long output layer is cut by tokens over all stages. Each backward on the last rank then waits
#   once for all ranks, so one more micro-batch is kept.
# * Messages that leave while their sender computes cost little under GPipe. Under 1F1B they cost
#   more, unless it has **slack**.
# * A message takes $C / (12\,h\,l\,B)$ forwards. For wide models with many blocks on a stage, a
#   network card is enough.
#
# **Your exercises**: {{balance}} is in [labs/pipeline_parallel.py](../labs/pipeline_parallel.py),
# and {{merge_parts}} in [labs/vocabulary_pipeline.py](../labs/vocabulary_pipeline.py).
#
# **Next**: {{next}}.

# %%
progress("08g")
