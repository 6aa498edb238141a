# %% [markdown]
# # {{title}}
#
# **Nobody trains with a pipeline alone. Does it compose with everything else that training needs:
# replicas with ZeRO, recomputation, dropout, clipping, weights that two stages share?** Some pairs
# cost more than one would think. Some are wrong without any error. You also run PyTorch's own
# pipelines beside yours.

# %% [markdown]
# ![Bytes that a rank sends for its replicas over the number of micro-batches, for four ways: flat
# without ZeRO and with ZeRO stage 1, rising with stages 2 and
# 3](../assets/covers/08j_pipelines_at_work.png)
#
# *Measured in section 2: two replicas of a pipeline with two stages. The lines of no ZeRO and of
# stage 1 lie on each other.*
#
# **After this part you can** choose a ZeRO stage for a pipeline, gather its weights once per step,
# and clip by the norm over all stages. You can say which features of a training go together with a
# pipeline.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import json
import tempfile
import textwrap
from functools import partial
from pathlib import Path

from pedagogy_lib import (
    Table, check, check_schedule, compare_rounds, hint, lab, launch, plot_against, plot_bars,
    plot_schedule, predict, progress, put_to_the_test, rounding, simulate,
)

# %% tags=["parameters"]
world_size = 4

# %%
schedules, pipeline_engines = lab("schedules"), lab("pipeline_engines")
language_model = lab("language_model")
composed_pipelines, pipelines_alone = lab("composed_pipelines"), lab("pipelines_alone")
pipelines_autocast = lab("pipelines_autocast")
text, p, m = language_model.standard_library(100_000), world_size, 2 * world_size

# %% [markdown]
# ## 1 · The real engine
#
# PyTorch has pipelines in `torch.distributed.pipelining`. You give it stages and choose a schedule.
# Its core is short:
#
# ```python
# stage = PipelineStage(my_layers, stage_index, num_stages, device)
# schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=mean_loss)
# schedule.step(inputs)          # on the first rank
# schedule.step()                # in the middle
# schedule.step(target=targets)  # on the last rank
# ```
#
# The same model and the same batch on two ranks: are the gradients those of one process, in
# float64? And what is sent?

# %%
names = pipeline_engines.names_that_run()
runs = {whose: launch(pipeline_engines.gaps, whose, of, text, world_size=2)
        for whose, of in names.items()}

# %% tags=["nbval-ignore-output"]
worst = {(whose, name): max(gaps[name] for gaps in runs[whose].values)
         for whose in names for name in names[whose]}
Table(["whose", "schedule", "as one process, but for rounding", "sent by both ranks"],
      [[whose.replace("ours", "the course's"), name, str(gap <= rounding()),
        f"{sum(runs[whose][name].sent_bytes) / 1e6:.2f} MB"]
       for (whose, name), gap in worst.items()])

# %% [markdown]
# With two chunks on each rank, messages cross more boundaries. In a V, one of these boundaries lies
# within a rank.
#
# Now the idle time. A rank's part of the model takes 40 ms forward, and 40 ms for each half of the
# backward; these times are emulated. Both engines have the same list of actions for ZB-V (08f). The
# course's one is `EagerPipeline` of [pipeline_engines](../labs/pipeline_engines.py): it begins to
# receive one action ahead.

# %% tags=["nbval-ignore-output"]
of_theory = {"GPipe": p - 1, "1F1B": p - 1, "interleaved 1F1B": (p - 1) / 2, "ZB-V": (p - 1) / 6}
idle = {}
for name in of_theory:
    turns = 3 if name == "ZB-V" else 1
    of_ranks = launch(pipeline_engines.time_steps, name, text, m, 0.040, turns, world_size=p,
                      device="cpu").values
    steps = {whose: pipeline_engines.slowest_rank(of_ranks, whose)
             for whose in ("ours", "PyTorch's")}
    idle[name] = {whose: 100 * (1 - 0.120 * m / min(times)) for whose, times in steps.items()}
if len(steps["PyTorch's"]) == len(steps["ours"]):  # PyTorch's ZB-V runs here, and took turns
    ratio = compare_rounds(steps["PyTorch's"], steps["ours"], margin=0.02)
    print(f"ZB-V by PyTorch: {ratio.word}, {ratio} as the course's")

# %% tags=["nbval-ignore-output"]
expected = {name: 100 * bubble / (m + bubble) for name, bubble in of_theory.items()}
shown = {"the course's": "ours", "PyTorch's": "PyTorch's"}
plot_bars(list(idle), {label: [idle[name][whose] for name in idle]
                       for label, whose in shown.items()}, "idle, of the whole (%)",
          predicted={label: [expected[name] for name in idle] for label in shown},
          title=f"{p} ranks, {m} micro-batches; computing emulated")

# %% [markdown]
# Outlines are what the schedule alone would leave idle, so compare a bar with its own outline. What
# lies above has other reasons: layers also compute for real, messages take time, and each action
# runs some Python, which weighs most in ZB-V, with six short actions where 1F1B has two. On a GPU
# with stages of many blocks we expect a smaller share.
#
# If PyTorch's ZB-V idles longer than the course's, a likely reason is I and W (timed with torch
# 2.13): for each micro-batch, its engine walks through the graph in Python to find the part that
# belongs to the weights. The course's engine only splits linear layers.

# %% [markdown]
# ### The message under autocast
#
# A receiver allocates memory before a message arrives, so it has to know the shape and the dtype.
# Under `torch.autocast` a stage that ends with a product returns bfloat16, although its weights are
# float32. The course's pipeline has messages of the weights' dtype, and an option for others (part
# 08c). PyTorch's schedule runs its stages in the first step to learn what they return. Which of
# these give the gradients of one process under autocast?

# %% tags=["nbval-ignore-output"]
for way in pipelines_autocast.WAYS:
    print(textwrap.fill(f"{way}: {pipelines_autocast.outcome_of(way)}", 88))

# %% [markdown]
# The course's pipeline refuses a message that it would misread. PyTorch's schedule keeps what its
# first step has taught it. If that step ran in float32, say to warm up, then a later message of
# half the bytes is written into a float32 buffer: two bfloat16 numbers are read as one, and the
# rest of the buffer is older. The fourth line says whether your version notices it; 2.13 does not,
# over Gloo. So decide on autocast before the first step, or cast a stage's output. (Gloo notices a
# message longer than its buffer.)
#
# **On GPUs** torchtitan does not use autocast with a pipeline alone, and leaves precision to FSDP2,
# according to a [pull request](https://github.com/pytorch/torchtitan/pull/2213). NCCL was not tried.

# %% [markdown]
# ## 2 · Replicas: how often to reduce?
#
# Let there be two replicas of a pipeline with two stages: four ranks. Ranks 0 and 1 are one
# pipeline, ranks 2 and 3 the other. Ranks 0 and 2 have the same stage, so they average their
# gradients. When?
#
# A pipeline goes backward $m$ times in a step. Without ZeRO, or with ZeRO stage 1, gradients add up
# in `.grad`, and are reduced *once*. ZeRO stage 2 keeps only parts of gradients. So it has to
# reduce after *each* backward. ZeRO stage 3 gathers the weights for each forward and each backward,
# too.

# %% [markdown]
# A reduce-scatter over two replicas sends $\frac12$ of a rank's weights, and so does an all-gather.
# How much does a rank send for its replicas in one step with 8 micro-batches, under ZeRO stage 2?

# %%
much = predict("ZeRO stage 2, 8 micro-batches, 2 replicas: sent, beside a rank's weights",
               unit="times")

# %%
counts = [2, 4, 8]
steps = launch(pipelines_alone.measure_steps, counts, world_size=4, device="cpu")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what the operating system counted.
much.compare((8 + 1) / 2, pipelines_alone.models_sent(steps, 2, 8), kind="communication")

# %% tags=["cover", "nbval-ignore-output"]
ways = {"no ZeRO": 0, "ZeRO stage 1": 1, "ZeRO stage 2": 2, "ZeRO stage 3": 3}
sent = {way: [pipelines_alone.models_sent(steps, zero, count) for count in counts]
        for way, zero in ways.items()}
theory = {"no ZeRO": [1.0] * 3, "ZeRO stage 1": [1.0] * 3,
          "ZeRO stage 2": [(count + 1) / 2 for count in counts],
          "ZeRO stage 3": [3 * count / 2 for count in counts]}
plot_against(counts, sent, "micro-batches", "sent in a step (× weights)",
             predicted=theory, title="Two stages, two replicas: what replicas send each other")

# %%
Table(["", "sent, 8 micro-batches", "gradients kept at most"],
      [[way, f"{pipelines_alone.models_sent(steps, zero, 8):.1f} × the weights",
        f"{pipelines_alone.gradients_kept(steps, zero, 8):.2f} × the weights"]
       for way, zero in ways.items()])

# %% [markdown]
# ZeRO stage 2 saves nearly a third of the gradients here, and sends 4.5 times as much. With more
# replicas it saves more, up to all gradients but one layer's. But a pipeline's rank has the
# gradients of its own stage alone, so there is less to save.
#
# The lab's ZeRO engines are those of chapter 06, which know nothing of pipelines. An engine that
# does can gather the weights once in a step and reduce the gradients once. In theory it sends as
# much as stage 1, but keeps whole weights and gradients during the step. **So with a pipeline one
# takes ZeRO stage 1, gathers and reduces once in a step, or sends much more.**

# %% [markdown]
# ### Breadth-first: the weights of one chunk at a time
#
# Can a rank gather seldom *and* keep few whole weights? It can if it has several chunks, and the
# schedule is **breadth-first** (08e): all micro-batches go through a chunk before the next one.
# Then only one chunk has to be whole at a time. It is gathered, all its forwards run, and it is
# freed; later the same for its backwards, after which its gradients are reduced. This is why
# [Lamy-Poirier 2022](https://arxiv.org/abs/2211.05953) takes this order together with fully sharded
# data parallelism.
#
# A **plan** below is the row of a rank with `Move("gather", chunk)`, `Move("free", chunk)` and
# `Move("reduce", chunk)` in between. `ShardedPipeline` in
# [labs/sharded_stages.py](../labs/sharded_stages.py) runs it with `gather`, `dispose` and
# `reduce_gradients` of chapter 06.

# %%
sharded = lab("sharded_stages")
Move = sharded.Move

def plan_moves(row):
    plan, held = [], None
    for number, action in enumerate(row):
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        ### BEGIN SOLUTION
        if all(later.chunk != held for later in row[number + 1 :]):
            plan += [Move("reduce", held), Move("free", held)]
            held = None
        ### IT WAS
        # if action.kind == "B":
        #     plan += [Move("reduce", held), Move("free", held)]
        #     held = None
        ### END SOLUTION
    return plan

for count in (2, 4):
    (plan, _), _ = sharded.plan_rows("breadth-first", count, 2, plan_moves)
    print(f"{count} micro-batches, {sharded.count_moves(plan, 'gather')} gathers:")
    print(textwrap.fill(" ".join(map(str, plan)), 80))

# %% [markdown]
# ### Exercise {{plan_moves}} · Debug weights gathered for each micro-batch
#
# The gradients of this plan are right, but it sends more with every micro-batch. The cell above
# shows it for rank 0 and 2 chunks. Mend `plan_moves(row)`. `row` is a list of actions, each with a
# `kind` (`"F"` or `"B"`), a `microbatch` and a `chunk`, in any order that can run. Return a list
# of all these actions, in their order, with `Move`s in between:
#
# * A chunk is whole when an action needs it, and at most one chunk is whole at a time.
# * A chunk is gathered as seldom as this allows, and is not whole in the end.
# * Each chunk is reduced once, after its last backward, while it is whole.

# %% [markdown]
# Until a chunk is reduced, the gradients of its micro-batches add up in `.grad`. For example, for
# F0 F1 B0 B1 of one chunk the plan is gather.0 F0 F1 B0 B1 reduce.0 free.0.

# %%
check("{{plan_moves}}", plan_moves)

# %% [markdown]
# Let a rank have $v = 4$ chunks, and room for one of them at a time. How many gathers does a
# breadth-first step with 8 micro-batches need?

# %%
gathers = predict("Breadth-first, 4 chunks, one whole at a time, 8 micro-batches", unit="gathers")

# %%
plans = {}
for order in sharded.ORDERS:
    for room, most in (("one", 1), ("two", 2), ("all", 4)):
        for count in (4, 8):
            plans[f"{order}, {room}, {count}"] = sharded.plan_rows(
                order, count, 4, partial(sharded.plan_with_room, most=most))
run = launch(sharded.measure_plans, plans, 4, world_size=4, device="cpu")
first = {name: of_ranks[0] for name, (of_ranks, _) in plans.items()}  # rank 0's plans

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what the plan has.
gathers.compare(2 * 4 - 1, sharded.count_moves(first["breadth-first, one, 8"], "gather"),
                kind="communication", wire="counted")

# %% [markdown]
# Each chunk is gathered twice, but the last one only once: its backwards follow its forwards. Here
# two pipelines of two ranks are replicas. "Room" is how many chunks may be whole at a time, and the
# chunk that is needed latest is freed first.

# %% tags=["nbval-ignore-output"]
names = [name for name in plans if name.endswith(", 8")]
kinds = ("parameters", "gradients", "activations")
Table(["order, room", "gathers, m = 4", "m = 8", "sent (planned), m = 8", *kinds],
      [[name.removesuffix(", 8"),
        *(sharded.count_moves(first[name[:-1] + count], "gather") for count in "48"),
        f"{sharded.models_sent(run, name):.2f} ({sharded.models_planned(run, first[name]):.2f})",
        *(f"{sharded.peak_kilobytes(run, name, kind):,.0f} kB" for kind in kinds)]
       for name in names],
      note="Of rank 0, with peak memory; sent to its replica, as a multiple of its weights.")

# %% [markdown]
# With room for one chunk, breadth-first gathers $2v - 1$ times, whatever $m$ is, while depth-first
# changes its chunk again and again. If all chunks stay whole, both gather $v$ times. The price of
# breadth-first is that every micro-batch is kept on all chunks, as under GPipe. In exchange, whole
# gradients exist for one chunk at a time. To prefetch a chunk while another one computes (06f), a
# rank needs room for two. This lab gathers when a chunk is needed, so it hides no gather.

# %%
gaps = {order: launch(sharded.gap_of_plan, order, 3, 2, plan_moves, world_size=4).values
        for order in sharded.ORDERS}
for order, of_ranks in gaps.items():
    print(f"{order}: weights as one process after two steps:", max(of_ranks) <= rounding())

# %% [markdown]
# **On GPUs.** DeepSpeed refuses the pair: its pipeline engine asserts that ["ZeRO-2 and ZeRO-3 are
# incompatible with pipeline
# parallelism"](https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/pipe/engine.py).
# torchtitan uses FSDP2 with pipelines, and by default [does not reshard after the
# forward](https://github.com/pytorch/torchtitan/blob/main/torchtitan/distributed/fsdp.py), "to
# avoid per-microbatch all-gathers": gathered weights stay for the whole step. PyTorch's pipelines
# reduce gradients once, after the last micro-batch (`perform_reduce_grad` in torch 2.13). This is
# the way that gathers and reduces once. For FSDP2 stages, its schedules of several chunks put
# `UNSHARD` and `RESHARD` into the list of actions, with at most three stages whole by default
# (`_add_unshard_reshard` in torch 2.13). Nothing of this box was measured here.

# %% [markdown]
# ## 3 · Weights on two ranks, and one norm for all
#
# Many models use the embedding's weights for the logits, too: the weights are **tied**. In a
# pipeline, the first and the last rank have them. Each gets a part of the gradient. So one
# all-reduce is needed after all, between these two. Without it and with it:

# %%
apart = launch(pipelines_alone.ends_apart, world_size=4).values
for way, number in (("each its own", 1), ("added up", 0)):
    print(f"{way:14} gradients", pipelines_alone.describe_gap(apart, number, rounding()))

# %% [markdown]
# **Clipping** scales all gradients if their norm is too large. This is the norm over *the whole
# model*, and each rank has only its stages. So each rank adds up its squares, and an all-reduce of
# a single number adds up those sums. Four mistakes are easy to make:
#
# * Each rank clips by its own norm. Then stages are scaled differently.
# * Replicas, which have the same gradients, are counted twice.
# * A tied weight, which two ranks have, is counted twice.
# * Squares are computed in float16, where that of 300 is infinite.
#
# Take a rank with the gradients 3 and 4, and another one with 12. Their own norms are 5 and 12, and
# the norm of the model is $\sqrt{9 + 16 + 144} = 13$.

# %%
def compute_clipped_norm(rows):
    import torch.distributed as dist
    import torch
    gradient = torch.tensor(rows[dist.get_rank()])
    norm = composed_pipelines.clip([(gradient, 1.0)], most=6.5, groups=[None])
    return norm, [round(x, 3) for x in gradient.tolist()]

print(launch(compute_clipped_norm, [[3.0, 4.0], [12.0]], world_size=2).values)

# %% [markdown]
# `clip` in [labs/composed_pipelines.py](../labs/composed_pipelines.py) does this over the stages of
# a pipeline and over ZeRO's shards, and counts a tied weight once. If the norm is infinite or nan,
# all ranks raise an error, and no gradient has changed. Clipping is also why ranks wait for each
# other between steps, and why "zero bubble" is not quite zero (08f).

# %% [markdown]
# ## 4 · Every pair
#
# Now all features, in pairs. Each pair is trained on four ranks (2 stages, 2 replicas), and
# compared with one process in float64: with its gradients, its `clip_grad_norm_` and its SGD.
# Dropout with recomputation needs the generator's state of each micro-batch, as in part 08b.

# %%
tried = launch(pipelines_alone.try_pairs, pipelines_alone.pairs(), 1, world_size=4).values
Table(["", *pipelines_alone.FEATURES], pipelines_alone.rows_of_pairs(tried, rounding()))

# %% [markdown]
# "yes": equal, but for rounding. "no": refused. A dash: both are choices of one kind, two schedules
# or two stages of ZeRO. A refusal says why, and what to do instead:

# %%
for sentence in pipelines_alone.refusals(tried):
    print(sentence)

# %% [markdown]
# (One combination of three features is refused as well: tied weights with ZeRO and ZB-V. In a V,
# one rank has both ends of the model.)
#
# Both reasons are of one kind. ZeRO stages 2 and 3 reduce and cut a gradient as soon as autograd
# has it. A split backward computes it later. And the two parts of a tied weight's gradient have to
# be added before they are cut.
#
# ## 5 · A large one
#
# Rows are only lists. So schedules of machines that nobody has at home can be checked and drawn: 64
# ranks, 512 micro-batches, 65,536 actions. (They are narrower than a pixel: colours mix.)

# %%
many = schedules.rows_of(schedules.one_f_one_b, 64, 512)
check_schedule(many, most_kept=[64 - rank for rank in range(64)])
plot_schedule({"1F1B, 64 stages": simulate(many)})

# %% [markdown]
# A timeline can be written to a file that a trace viewer opens: at
# [ui.perfetto.dev](https://ui.perfetto.dev), "Open trace file". Nothing leaves the browser. With
# `traces.save_trace(timeline, "zb_h1.json")` the file stays beside this notebook.

# %% tags=["nbval-ignore-output"]
traces = lab("traces")
timeline = simulate(schedules.rows_of(schedules.zero_bubble, p, m))
with tempfile.TemporaryDirectory() as folder:
    trace = traces.save_trace(timeline, Path(folder) / "zb_h1.json")
    print(f"{len(json.loads(trace.read_text())['traceEvents'])} events")

# %% [markdown]
# ## 6 · Pipeline, ZeRO or tensor parallel?
#
# A model does not fit on one GPU. What does each way send? A small transformer (width 64, 4 blocks)
# on two ranks, one step, with few tokens and with many. Stage 3 takes the batch as one micro-batch,
# since it gathers and reduces for each (section 2). Tensor parallelism (07d) makes four all-reduces
# of the activations in each block, and two more at the ends of the model.

# %%
samples = [16, 512, 1024]
sends = launch(pipelines_alone.measure_against_zero, samples, world_size=2, device="cpu")

def kilobytes(way, count):
    return sends[f"{way}, {count}"].sent_bytes[0] / 1e3

three = ("pipeline", "tensor parallel", "ZeRO 3")
Table(["way", *(f"{8 * count:,} tokens" for count in samples)],
      [[way, *(f"{kilobytes(way, count):,.0f} kB" for count in samples)] for way in three])

# %% [markdown]
# A pipeline and tensor parallelism send in proportion to the tokens, while what ZeRO stage 3 sends
# does not depend on them. With how many tokens does stage 3 begin to send less than each of them?

# %%
for way in ("tensor parallel", "pipeline"):
    per_token = kilobytes(way, samples[-1]) / (8 * samples[-1])
    print(f"less than {way}: from {kilobytes('ZeRO 3', samples[-1]) / per_token:,.0f} tokens")

# %% [markdown]
# With few tokens the pipeline sends least, and with many ZeRO stage 3, which has no bubble, but
# needs the memory for all activations of one micro-batch. By the formulas, a wider model moves both
# limits up. On a slow link between servers, these two are the choice: a pipeline, or ZeRO stage 3
# with a large batch.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
sent_kb = {way: [kilobytes(way, count) for count in samples] for way in three}
least = [min(sent_kb, key=lambda way: sent_kb[way][i]) for i in (0, -1)]
told = {way: ", ".join(f"{size:,.0f}" for size in sizes) for way, sizes in sent_kb.items()}
tokens = ", ".join(f"{8 * count:,}" for count in samples)
put_to_the_test(f"""
- [C186] Pipelines if the model does not fit and there are several servers or no fast network;
  tensor parallelism within one fast server | CS 229S, “Summary of Different Parallelism Approaches”
  | {"depends" if least == ["pipeline", "ZeRO 3"] else "not seen here"} | with the fewest tokens
  {least[0]} sends least, with the most {least[1]}. With {tokens} tokens a rank sends
  {told["pipeline"]} kB in a pipeline, {told["ZeRO 3"]} kB under ZeRO stage 3 in one micro-batch,
  and {told["tensor parallel"]} kB with tensor parallelism (section 6, table). ZeRO stage 3 is a
  third way that this slide leaves out | measured:
  nothing in what is sent; which way is fastest depends on links, GPUs and batch
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** PyTorch's
# [pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html). Rajbhandari et al.
# 2020, [ZeRO](https://arxiv.org/abs/1910.02054). Huang et al. 2018,
# [GPipe](https://arxiv.org/abs/1811.06965), section 2.3: recomputation.

# %% [markdown]
# ## What you have learnt
#
# * With a pipeline, ZeRO stage 1 reduces once in a step. Stages 2 and 3 pay for each micro-batch,
#   unless the engine gathers and reduces once in a step.
# * **Breadth-first** needs the weights of one chunk at a time, so it gathers $2v - 1$ times in a
#   step, whatever the number of micro-batches. It keeps all activations.
# * The norm for clipping runs over all stages and shards, and counts tied weights once.
# * What does not go together should say so. Everything else is compared with one process.
# * Compare an engine's idle time with what its schedule alone would leave.
#
# **Your exercise**, {{plan_moves}}, is in a cell above.
#
# **To change**: in [labs/composed_pipelines.py](../labs/composed_pipelines.py),
# `DataParallelPipeline` is a training with all of this.
#
# **Next**: {{next}}.

# %%
progress("08j")
