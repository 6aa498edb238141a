# %% [markdown]
# # {{title}}
#
# **What does the step of a cluster look like, and what changes when it grows?** Here 64 processes
# on 8 machines take a training step, on this computer. Then the same mesh grows to 16,384 ranks, on
# paper and in the simulator. At the end we test published advice on combining strategies.

# %% [markdown]
# ![Squares of the bytes that each of 64 ranks sends to each other one, along three
# axes; machines are shaded](../assets/covers/09g_sixty_four_ranks.png)
#
# *Measured in section 1: who sends how much to whom, in one step on 4 × 4 × 4 ranks of 8 machines.*
#
# **After this part you can** read the traffic of a large mesh, say what of a model lies on a rank,
# lay out experts over the same ranks in another way than attention, limit their tokens to a few
# nodes, and say why a cluster cannot grow for ever with the same batch.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Machines, Table, check, compare_rounds, hint, lab, launch, plot_against, plot_bars,
    plot_traffic, predict, progress, put_to_the_test, simulate,
)

# %% tags=["parameters"]
length = 4  # of each of the three axes
machine_count = 8

# %% [markdown]
# ## 1 · One step
#
# A transformer of 4 blocks is trained on a mesh of dp 4 × pp 4 × tp 4: four copies, each in four
# stages, each cut into four parts. All of it runs on this computer, as 64 processes on 8 machines
# of chapter 02g, with eight ranks each. How many bytes does a machine send to others in a step?
#
# Count along the axes, for the order dp pp tp. A machine has two whole tp groups of four ranks. So
# nothing of tp leaves it. Four stages make three pairs of neighbours, and one of the three pairs is
# on two machines. All members of a dp group are on different machines.

# %% [markdown]
# And how much does each axis carry? Call $A$ the bytes of the activations between two layers, of
# all samples of a copy: 16 samples × 32 places × width 32 × 4 bytes are 65.5 kB. Along pp, each
# pair of neighbouring ranks sends $A$ forward, and as much back. Along tp, the four stages together
# make 18 all-reduces of $A$ in a step: four in each of 4 blocks, one behind the embedding, and one
# before the output. Along dp, each rank makes an all-reduce of its gradients.

# %%
meshes, three_dimensions = lab("meshes"), lab("three_dimensions")
text = lab("language_model").standard_library(20_000)
sizes = dict.fromkeys(("dp", "pp", "tp"), length)
world_size = length**3
machines = Machines.here(machine_count)

# %%
factor = predict("Bytes that leave machines: tp as the slowest axis, beside dp", unit="times")

# %%
runs = {order: launch(three_dimensions.one_step, dict.fromkeys(order.split(), length), text, 4,
                      16 * length, False, world_size=world_size, machines=machines, device="cpu",
                      timeout=180) for order in ("dp pp tp", "tp pp dp")}

# %% jupyter={"source_hidden": true}
# What leaves each machine, measured and by the formulas of 09c.
per_machine = world_size // machine_count

def sum_outgoing_bytes(run):
    traffic = run["step"].traffic()
    return [sum(traffic[a][b] for a in range(world_size) if a // per_machine == machine
                for b in range(world_size) if b // per_machine != machine)
            for machine in range(machine_count)]

def predict_crossing_bytes(order):
    """From the groups: pieces of a ring or a line that cross, times what each of them carries."""
    on = dict.fromkeys(order.split(), length)
    A = 16 * 32 * 32 * 4  # bytes: 16 samples of a copy, 32 places, width 32, float32
    P, total = sum(runs[order].values) / world_size, 0
    round_trip = 2 * (length - 1) / length
    all_reduces = (4 * 4 + 2) / length  # of 4 blocks and two ends, shared out over stages
    of_rank = {"tp": all_reduces * round_trip * A, "dp": round_trip * P}
    for axis in on:
        for ranks in meshes.groups_along(axis, on):
            following = ranks[1:] + (ranks[:1] if axis != "pp" else [])
            crossing = sum(a // per_machine != b // per_machine for a, b in zip(ranks, following))
            total += crossing * (of_rank[axis] if axis != "pp" else 2 * A)
    return total

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the formulas, and what was measured.
measured = {order: sum_outgoing_bytes(run) for order, run in runs.items()}
factor.compare(predict_crossing_bytes("tp pp dp") / predict_crossing_bytes("dp pp tp"),
               sum(measured["tp pp dp"]) / sum(measured["dp pp tp"]), kind="communication")

# %% tags=["nbval-ignore-output"]
plot_bars([f"machine {m}" for m in range(machine_count)],
          {order: [sent / 1e6 for sent in of] for order, of in measured.items()},
          "sent to other machines (MB)", title="One step, slowest axis first")

# %% [markdown]
# With this model and batch, about 8 times as many bytes leave the machines if tp crosses them.
#
# Why do even machines send more? Embedding, four blocks and output are six layers. Four stages get
# two, two, one and one of them: embedding and block, two blocks, one block, the output alone.
# Machines 0, 2, 4 and 6 have the first two stages, and so three of the four blocks. Unequal stages
# also wait for each other. So Llama 3 gives its first and its last stage one layer less
# ([paper](https://arxiv.org/abs/2407.21783), section 3.3.2).

# %% [markdown]
# All ranks together look like this. Shaded fields are machines. The area of each square is what
# one rank sends to another one. (The tiny squares beside the large ones of tp are messages of Gloo
# itself: a rank tells the one before it that it is ready to receive.) Is the step right? Below, the
# mesh takes two steps in float64, with tied embeddings, clipping, dropout and accumulation, and
# each rank also trains the whole model alone.

# %% tags=["cover", "nbval-ignore-output"]
plot_traffic(runs["dp pp tp"], "step", ["dp", "pp", "tp"],
             title=f"{world_size} ranks on {machine_count} machines, order dp pp tp")

# %%
found = launch(three_dimensions.compare_with_one_process, sizes, text, 2, 2, 4 * length,
               world_size=world_size, machines=machines, device="cpu", timeout=180).values
print(f"{world_size} ranks equal one process to 1e-12: {max(gap for *_, gap in found) < 1e-12}")

# %% [markdown]
# ## 2 · What lies on a rank?
#
# ### Exercise {{state_bytes}} · Model-state bytes on a mesh
#
# Write `state_bytes(parameters, sizes, stage)`: the bytes of model states that one rank keeps.
# `parameters` is the number of the whole model's parameters, `sizes` a dict with `"dp"`, `"pp"` and
# `"tp"`, and `stage` that of ZeRO along dp. A parameter has 2 bytes, its gradient 2, and the
# optimizer keeps 12 for it (chapter 05). Stage 0 shards nothing, stage 1 the optimizer's bytes,
# stage 2 the gradients' as well, stage 3 all (chapter 06). Everything divides evenly, and tp and pp
# share out all parameters.
#
# For example, 9,600 parameters on dp 2 × pp 2 × tp 2: a rank has 2,400 of them. In stage 0 it keeps
# 38,400 bytes; in stage 1 it is 2,400 × (4 + 6), 24,000.

# %%
def state_bytes(parameters, sizes, stage):
    ### BEGIN SOLUTION
    part = parameters / (sizes["tp"] * sizes["pp"])
    sharded = (0, 12, 14, 16)[stage]
    return part * (16 - sharded + sharded / sizes["dp"])
    ### END SOLUTION

check("{{state_bytes}}", state_bytes)

# %% [markdown]
# A source compares strategies in a table, from "low" to "highest". Here is such a table in numbers:
# a model of 7 billion parameters on 64 GPUs, 32 layers of width 4,096, bfloat16, a step of 1,024
# samples of 4,096 tokens. It tells what one GPU keeps, and sends in a step, by the formulas of
# chapters 03 to 09c. Bytes along tp stay inside a machine, so compare the columns of pp and dp.

# %%
def estimate_layout(sizes, stage, parts=1, once=False, parameters=7e9, layers=32, width=4096,
             samples=1024, tokens=4096):
    """GB of states, GB sent along tp, pp, dp, and the bubble's share with 1F1B, sample by sample.

    parts  into how many a copy's samples are divided; ZeRO 3 gathers twice and reduces once for
           each of them (06f); once: it reduces once a step, and keeps whole gradients till then
    """
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    part = parameters / (tp * pp)
    kept = three_dimensions.state_bytes(parameters, sizes, stage) + once * 2 * part * (1 - 1 / dp)
    A = samples / dp * tokens * width * 2  # bytes of one layer's activations, of a copy
    along_dp = (2 * parts + (1 if once else parts) if stage == 3 else 2) * (dp - 1) / dp * 2 * part
    along_tp = 4 * layers / pp * 2 * (tp - 1) / tp * A
    along_pp = 2 * A * (pp > 1)
    bubble = (pp - 1) / (samples / dp + pp - 1)
    return [f"{kept / 1e9:,.1f} GB",
            *(f"{sent / 1e9:,.1f} GB" for sent in (along_tp, along_pp, along_dp)), f"{bubble:.1%}"]

# %%
strategies = {
    "DDP": ({"dp": 64, "pp": 1, "tp": 1}, 0), "ZeRO 1": ({"dp": 64, "pp": 1, "tp": 1}, 1),
    "ZeRO 3": ({"dp": 64, "pp": 1, "tp": 1}, 3),
    "ZeRO 3, 16 micro-batches": ({"dp": 64, "pp": 1, "tp": 1}, 3, 16),
    "the same, reduced once": ({"dp": 64, "pp": 1, "tp": 1}, 3, 16, True),
    "tp 8 × dp 8": ({"dp": 8, "pp": 1, "tp": 8}, 0),
    "pp 8 × dp 8": ({"dp": 8, "pp": 8, "tp": 1}, 0),
    "3D: 4 × 4 × 4": ({"dp": 4, "pp": 4, "tp": 4}, 0),
    "3D and ZeRO 1": ({"dp": 4, "pp": 4, "tp": 4}, 1),
}
Table(["strategy", "states on a GPU", "along tp", "along pp", "along dp", "bubble"],
      [[name, *estimate_layout(*how)] for name, how in strategies.items()])

# %% [markdown]
# The source says that 3D has the highest memory efficiency. For states that is not so: ZeRO 3 keeps
# a quarter of what 3D keeps. ZeRO 3 also sends little, if a GPU's 16 samples fit into memory at
# once. If they are computed one after the other, it gathers the parameters and reduces the
# gradients for each of them, and sends 16 times as much. (FSDP2 can reduce once a step. Then it
# sends less, and keeps whole gradients.)

# %% [markdown]
# Why then more than one dimension? There are two reasons. First, ZeRO shards no sample's
# **activations**. tp cuts them (all of them with sequence parallelism, 07e), and so does cp (09f).
# pp does not under 1F1B: its first stage keeps $p$ micro-batches of $\frac1p$ of the layers (08).
# Second, a batch of 1,024 samples can be dealt to 64 copies, but not to 16,384.

# %% [markdown]
# ## 3 · Experts on the same ranks
#
# In a mixture of experts (09d, 09e) most parameters are in experts, and few are in attention. Why
# should both be cut in the same way? Tensor parallelism suits attention. It makes the experts'
# products narrow, and experts can be spread over ranks whole. So Megatron-Core lays out attention
# as tp × cp × dp, and experts as etp × ep × edp, **over the same ranks**. It calls this *parallel
# folding*. Here are 8 ranks, with attention on dp 4 × tp 2:

# %%
folded, attention = lab("folded_experts"), {"dp": 4, "tp": 2}
experts_mesh = folded.FOLDS["etp 1 × ep 4 × edp 2"]
Table(["mesh", "axis", "groups"],
      [[name, axis, "  ".join(str(ranks) for ranks in meshes.groups_along(axis, on))]
       for name, on in (("attention", attention), ("experts", experts_mesh))
       for axis, size in on.items() if size > 1], title="Two meshes over the same 8 ranks")

# %% [markdown]
# Both ranks of a tp group have the same tokens when attention is done. Each takes half of them,
# routes these, sends them along ep, and gathers the other half's results afterwards. Which ranks
# have something that a gradient lacks after the backward?
#
# | parameter | its gradient has | is summed along |
# |---|---|---|
# | attention's matrices, cut along tp | one copy's samples | dp |
# | norms, embeddings | one copy's samples, on each rank along tp | dp |
# | router, shared expert | one rank's part of the tokens | dp × tp |
# | experts | all tokens of its ep group | edp |
#
# 09e divided all sums by the number of ranks, because each rank had a loss. Here a copy has one
# loss on all its tp ranks, so there are dp losses. If an expert's gradient is divided by all 8
# ranks, how large is it?

# %%
too_small = predict("An expert's gradient divided by all ranks, beside the right one", unit="%")

# %%
few_letters = lab("language_model").standard_library(100_000)
mistaken = launch(folded.compare_with_one_process, attention, experts_mesh, few_letters, 1, 8, 31,
                  True, world_size=8, device="cpu").values[0]
for name, on in folded.FOLDS.items():
    gaps_of = launch(folded.compare_with_one_process, attention, on, few_letters, world_size=8,
                     device="cpu").values
    worst = max(gap for of_rank in gaps_of for gap, _ in of_rank.values())
    print(f"{name}: equal to one process to 1e-12: {worst < 1e-12}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and the measured gradient, as a share of that of one process.
too_small.compare(100 * attention["dp"] / 8, 100 * mistaken["experts gradient"][1],
                  kind="gradients")

# %% tags=["nbval-ignore-output"]
steps = {name: launch(folded.measure_step, attention, on, few_letters, world_size=8, device="cpu")
         for name, on in folded.FOLDS.items()}
Table(["experts", "parameters on a rank", "columns of an expert there", "rank 0 sends in a step"],
      [[name, f"{run.values[0][0]:,}", run.values[0][1], f"{run['step'].sent_bytes[0]:,} B"]
       for name, run in steps.items()], title="8 experts, attention on dp 4 × tp 2")

# %% [markdown]
# The first row is not folded: etp is tp. (The lab sends each row to all slices of its expert;
# engines gather rows along etp.) The second one keeps as many parameters on a rank, and whole
# experts. With ep 8 there are no copies of an expert, so its gradients do not travel at all.
# Without folding, ep could be dp at most, which is 4 here.

# %% [markdown]
# ### Few nodes for each token
#
# Along ep, rows cross machines. With 4 experts for each token and 4 nodes, most tokens need three
# nodes or so, whichever way experts are laid out. DeepSeek-V3 limits this: a token's 8 experts are
# on 4 nodes at most.
#
# ### Exercise {{route_within_nodes}} · Route to experts on a few nodes
#
# Write `route_within_nodes(scores, k, nodes, most, bias=None)` in
# [labs/expert_nodes.py](../labs/expert_nodes.py). It is `route` of 09d with one more rule: a
# token's `k` experts are on `most` nodes at most. `scores` is (tokens, n), where there may be no
# tokens, and scores may be far below 0. Node 0 has the first n / nodes experts, node 1 the next
# ones, and so on.

# %% [markdown]
# * A node counts as much as the sum of its ceil(k / most) best scores. A token gets the `most`
#   nodes that count most, and never more, even if nodes count equally.
# * Its experts are the `k` best of these nodes, the best one first. There are enough of them.
# * `bias`, one number per expert or None, is added to the scores in both choices. The weights are
#   the softmax of the scores over **all** experts, as in `route`.
#
# For example, scores [5, 1, 4, 3] on two nodes, k = 2. With `most=2` a token gets the experts
# [0, 2]. With `most=1` node 0 counts 5 + 1 = 6 and node 1 counts 4 + 3 = 7, so it gets [2, 3].

# %%
check("{{route_within_nodes}}")

# %% [markdown]
# Now 8 ranks on 4 nodes, 16 experts, k 4. `RemoteExperts` of 09e sends a row for each *choice*. The
# lab's `TwoHopLayer` sends a row once to each *node*, to the rank with the same place there, which
# hands it on; weighted sums come back in the same way. How many bytes pass from node to node?

# %% tags=["nbval-ignore-output"]
nodes = lab("expert_nodes")
kinds = {"a row per choice": 0, "a row per node": 4}  # weights that travel with a row
sent = {(kind, limit): launch(nodes.send_tokens, kind, limit, world_size=8, device="cpu")
        for kind in kinds for limit in (None, 2)}
Table(["sent", "nodes of a token", "rows across", "bytes, theory", "measured"],
      [[kind, "any" if limit is None else f"at most {limit}", f"{sum(run.values):,}",
        f"{sum(run.values) * 4 * (64 + 64 + kinds[kind]):,}",
        f"{nodes.bytes_between_nodes(run):,}"] for (kind, limit), run in sent.items()],
      note="one forward, there and back, width 64 in float32")

# %% [markdown]
# The limit alone saves nothing: a token still sends four rows, of which two may go to the same
# node. One row per node saves a quarter here, and both together a half. All four ways equal one
# process to $10^{-12}$ in the course's tests, outputs and gradients. Does the limit cost the model
# anything? Five seeds, each on its own rank, train with each limit on the same batches:

# %% tags=["nbval-ignore-output"]
trained = {limit: launch(nodes.train_own_seed, few_letters, limit, world_size=5,
                         device="cpu").values for limit in (None, 2, 1)}

def judge_loss(limit):
    ratio = compare_rounds(*([loss for loss, _ in trained[which]] for which in (limit, None)),
                           margin=0.005)
    return ratio.judge("lower", "higher") if limit else ""

Table(["nodes of a token", "loss, five seeds", "by more than 0.5 %?", "busiest, over the mean"],
      [["any" if limit is None else limit, f"{min(of)[0]:.2f} to {max(of)[0]:.2f}",
        judge_loss(limit), f"{min(b for _, b in of):.1f} to {max(b for _, b in of):.1f} times"]
       for limit, of in trained.items()], note="32 experts, mean of the last 20 of 80 steps")

# %% [markdown]
# A token may now choose among fewer experts: 16 of 32, or the 8 of one node. Each seed is compared
# with itself, and a difference counts if it is larger than 0.5 % in nearly all of them. The rate
# was not tuned for each limit, and so few steps of a small model say little about a large one.
#
# **On GPUs.** Megatron-Core documents both: folding with `--expert-tensor-parallel-size`, where ep
# × etp ranks are a part of dp × cp × tp, and `--moe-router-num-groups` with
# `--moe-router-group-topk` ([its
# README](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/transformer/moe/README.md)).
# A group counts by its k // most best scores, [rounded
# down](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/transformer/moe/moe_utils.py).
# [DeepSeek-V3](https://arxiv.org/abs/2412.19437) (2.1.2, 3.2) sends a row over InfiniBand once per
# node, and on over NVLink. None of this was measured here.

# %% [markdown]
# ## 4 · Up to 16,384 ranks
#
# Llama 3's largest model has 405 billion parameters. For texts of 8,192 tokens, its training used
# tp 8 and pp 16, with dp 64 or 128, and 16 million tokens in a step
# ([paper](https://arxiv.org/abs/2407.21783), table 4). Keep the batch, 2,048 samples, and let dp
# grow. What happens to the bubble? We simulate one pipeline of 16 stages. All other pipelines do
# the same at the same time.

# %%
idle = predict("Bubble's share of the step on 16,384 ranks, with 1F1B", unit="%")

# %%
schedules = lab("schedules")
dps = [1, 4, 16, 64, 128]
worlds = [8 * 16 * dp for dp in dps]
simulated = {
    "1F1B": [simulate(schedules.rows_of(schedules.one_f_one_b, 16, 2048 // dp)).idle_share
             for dp in dps],
    "interleaved, 8 chunks": [
        simulate(schedules.rows_of(schedules.interleaved, 16, 2048 // dp, chunks=8)).idle_share
        for dp in dps],
}

# %% jupyter={"source_hidden": true}
# Your prediction, the formula of chapter 08, and the simulator.
microbatches = 2048 // dps[-1]
idle.compare(100 * 15 / (microbatches + 15), 100 * simulated["1F1B"][-1], kind="idle",
             wire="simulated")

# %%
plot_against(worlds, {name: [100 * share for share in of] for name, of in simulated.items()},
             "ranks", "bubble's share of the step (%)", logarithmic=True,
             predicted={name: [100 * 15 / (chunks * 2048 / dp + 15) for dp in dps]
                        for name, chunks in zip(simulated, (1, 8))},
             title="The same batch on more ranks: tp 8 × pp 16 × dp")

# %% [markdown]
# With the same batch on more ranks, each copy has fewer micro-batches, and the pipeline hardly
# fills. On 16,384 ranks 1F1B would idle for 48 % of the step. Interleaving helps, and costs
# messages: with 8 chunks, 8 times as many. A larger batch helps, too, until the model learns less
# from each sample (03l).
#
# Beyond 100,000 GPUs even starting takes work. [NCCLX](https://arxiv.org/abs/2510.20171), Meta's
# library for such clusters, has options for a fast initialisation and for channels that are set up
# only when needed ([code](https://github.com/meta-pytorch/torchcomms/tree/main/comms/ncclx)).
#
# And gradients and parameters have to travel, however short the step gets. Llama 3 reduces its
# gradients in float32, 4 bytes each. For the parameters, we assume bfloat16, 2 bytes each.

# %%
def row_of(dp):
    step = 6 * 405e9 * 2048 * 8192 / (128 * dp) / 400e12  # seconds at 400 TFLOPS
    along_dp = (dp - 1) / dp * (4 + 2) * 405e9 / 128 / 50e9  # seconds at 50 GB/s, in a ring
    return [f"{128 * dp:,}", 2048 // dp, f"{step:,.1f} s", f"{along_dp:.2f} s",
            f"{along_dp / step:.1%}"]

Table(["ranks", "micro-batches of a copy", "a step at 400 TFLOPS", "along dp", "of the step"],
      [row_of(dp) for dp in dps], title="On paper: 400 TFLOPS and 50 GB/s for each GPU")

# %% [markdown]
# Nothing of this table was measured here. 400 TFLOPS is the paper's figure for whole steps on
# 16,384 GPUs, bubble and waiting included. 50 GB/s is a network card of 400 Gb/s. On 8,192 GPUs the
# paper reports 430 TFLOPS. So each of 16,384 GPUs does 7 % less, and the paper gives the reason:
# fewer micro-batches for each copy. What does our simulator say to that? With 8 chunks, which is
# our assumption, this share of the step is not bubble, at dp 128 and at dp 64. It explains 5 of the
# 7 %. Chapter 10 builds a fuller model of a step, and compares it with published runs.

# %%
busy = {dp: 1 - idle for dp, idle in zip(dps, simulated["interleaved, 8 chunks"])}
print(f"interleaved: {busy[128]:.3f} / {busy[64]:.3f} = {busy[128] / busy[64]:.3f}; "
      f"published: 400 / 430 = {400 / 430:.3f}")

# %% [markdown]
# ## 5 · Other sums
#
# "Different strategies have different numerical behaviors", says a source. How different? The same
# training, on the same batches, in float32 and in float64:

# %%
def losses_on(three_dimensions, sizes, text, dtype, steps=6):
    torch.set_default_dtype(dtype)
    mesh = three_dimensions.Mesh(sizes, three_dimensions.JOINT)
    engine = three_dimensions.ThreeDimensions(three_dimensions.whole_model(), mesh, 2,
                                              three_dimensions.adam, 0.5)
    return [engine.step(*three_dimensions.draw_batch(text, 16, k, 32)) for k in range(steps)]

gaps = {}
for dtype in (torch.float32, torch.float64):
    meshes_of_4 = [dict(zip(("dp", "pp", "tp"), lengths))
                   for lengths in ((4, 1, 1), (1, 4, 1), (1, 1, 4), (2, 1, 2))]
    losses = [launch(losses_on, three_dimensions, sizes_of_4, text, dtype, world_size=4,
                     device="cpu").values[0] for sizes_of_4 in meshes_of_4]
    gaps[dtype] = max(abs(a - b) / a for of in losses[1:] for a, b in zip(losses[0], of))
print("dp 4, pp 4, tp 4 and dp 2 × tp 2 agree to 1e-12 in float64:", gaps[torch.float64] < 1e-12)

# %% tags=["nbval-ignore-output"]
print(f"largest difference of a loss: {gaps[torch.float32]:.0e} in float32, "
      f"{gaps[torch.float64]:.0e} in float64")

# %% [markdown]
# Sums are taken in another order, so they round differently. In float32 the difference shows in the
# seventh or eighth digit. A number in bfloat16 has only two or three digits. This difference is no
# mistake: do not expect two strategies to give the same weights bit for bit.

# %% [markdown]
# ## Put to the test
#
# Strategies, practices, pitfalls and limits that a source lists, beside what this course has found.

# %% jupyter={"source_hidden": true}
# The source's table, measured: one model and batch on 8 ranks, memory and bytes of each rank.
def run_one_step(three_dimensions, on, text, samples, memory):
    of_model = {"tied": False, "width": 64, "heads": 8, "layers": 6, "context": 64}
    return three_dimensions.one_step(on, text, 8 // on["dp"], samples, memory, **of_model)

zero_runs = lab("zero_runs")
by_name = {"DDP": "DDP", "ZeRO 1": "stage 1", "ZeRO 3": "stage 3"}
tried = {name: launch(zero_runs.training, stage, text, 6, 3, 16, world_size=8, device="cpu")
         for name, stage in by_name.items()}
for name, lengths, samples in (("tp", (1, 1, 8), 16), ("pp", (1, 8, 1), 16), ("3D", (2, 2, 2), 16),
                               ("tp, 64", (1, 1, 8), 64), ("pp, 64", (1, 8, 1), 64)):
    on = dict(zip(("dp", "pp", "tp"), lengths))
    tried[name] = launch(
        run_one_step, three_dimensions, on, text, samples, samples == 16, world_size=8, device="cpu"
    )
sends = {name: max(run["step"].sent_bytes) for name, run in tried.items()}
sends = {name: f"{sent / sends['DDP']:.1f}" for name, sent in sends.items()}
peaks = {name: [peak for peak in run["step"].peak_bytes if peak] for name, run in tried.items()}
held, acts = ({name: max(peak[kind] for peak in of) / 1e3 for name, of in peaks.items() if of}
              for kind in ("total", "activations"))
told_held = {name: f"{held[name]:,.0f} kB ({acts[name]:,.0f})" for name in held}

# %% jupyter={"source_hidden": true}
more = sum(measured["tp pp dp"]) / sum(measured["dp pp tp"])
put_to_the_test(f"""
- Start with DDP, and add complexity when needed | web page | right | it needs the fewest lines;
  it sends little, and ends where the states do not fit (section 2, chapter 05)
- Never use TP across nodes; it makes layers 10 to 30 times slower | web page | depends | on links
  and sizes; here it sent {more:.1f} times as much over the cards (section 1); times on slow cards
  are in 02g and 07g
- Profile before optimising | web page | right | Nsight is for GPUs; here `measure`, `plot_timeline`
  and torch.profiler say what a step waits for (03c, 09c)
- At least 4 micro-batches for each stage | web page | a rule of thumb | 16 stages and 64
  micro-batches idle for {15 / (64 + 15):.0%} of the time in 1F1B; interleaving needs fewer (08e)
- Recomputation trades compute for memory; mixed precision halves memory | web page | half right |
  recomputation: chapter 05. Mixed precision with masters keeps 16 bytes a parameter, as before (05)
- Mismatched sizes cause deadlocks | web page | wrong here | an error on every rank (part 09)
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements on strategies, and what was found.
differ = gaps[torch.float32] > gaps[torch.float64]
best = min(held, key=held.get)
on_64 = {name: estimate_layout(*strategies[name])[0] for name in strategies}
strategies_said = f"""
- [C193] Communication: DDP low, ZeRO-1/2 low to medium, PP medium, ZeRO-3 high, TP very high | web
  page, “Strategy Comparison” |
  {"depends" if float(sends["tp, 64"]) > 2 * float(sends["tp"]) else "not refuted"} | on the batch.
  In multiples of DDP's bytes, the busiest of 8 ranks sent with 16 samples: ZeRO 1
  {sends["ZeRO 1"]}, ZeRO 3 {sends["ZeRO 3"]}, TP {sends["tp"]}, PP {sends["pp"]}, 3D {sends["3D"]};
  with 64 samples TP {sends["tp, 64"]}, PP {sends["pp, 64"]} (runs in this section) | measured: how
  long the bytes take, since it depends on links. NCCL is expected to send as many in a ring
- [C200] 3D parallelism has the highest memory efficiency | web page, “Strategy Comparison” |
  {"right" if best == "3D" else "wrong"} here | the most that one of 8 ranks held in a step (in
  brackets the most of activations): 3D {told_held["3D"]}, TP 8 {told_held["tp"]}, ZeRO 3
  {told_held["ZeRO 3"]}, PP 8 {told_held["pp"]} (runs in this section). On paper, one of 64 GPUs
  keeps states of {on_64["3D: 4 × 4 × 4"]} with 3D, {on_64["ZeRO 3"]} with ZeRO 3 (by formula)
  | measured: the order. Bytes are expected to be the same. On more GPUs than a machine has, TP
  alone is slow, and then 3D is expected to keep fewer activations than ZeRO 3
- [C198] Different parallelism strategies have different numerical behaviors | web page, “Advantages
  & Limitations” | {"right" if differ else "not seen here"} | losses of four meshes differ by up to
  {gaps[torch.float32]:.0e} in float32, {gaps[torch.float64]:.0e} in float64 (section 5, run): the
  order of sums | measured: how much. On GPUs larger differences are expected where numbers have 16
  bits
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(strategies_said + """
- [C194] Production-proven at scale by GPT-4, Llama and PaLM | web page, “Advantages & Limitations”
  | imprecise | GPT-4's training is not published; PaLM used no pipeline, and Llama 3 used tp, cp,
  pp and FSDP, say their papers | documented: nothing, since it is about what was used: PaLM's paper
  has it in its section 4, Llama 3's in its section 3.3
- [C195] DeepSpeed and NeMo support 3D parallelism out of the box | web note, “2D & 3D Parallelism”
  | imprecise | NeMo's documentation combines all three. DeepSpeed's says that 3D needs non-trivial
  changes of a model's code, and that models like GPT have been ported; its “AutoTP Training” cuts
  matrices without such changes, with ZeRO 0 to 2 (the source of 0.19.8 says: with 3, too) |
  documented: nothing that a run on GPUs would decide; it rests on NeMo's “Parallelisms”, and on
  DeepSpeed's “Training your large model with DeepSpeed” and “Automatic Tensor Parallelism
  (Training)”
- ZeRO-3 fragments memory | web page | documented | of GPU allocators; 06d shows which units come
  and go, in which order
- Unbalanced stages cause bubbles | web page | right | 08g, with a balance that you compute
- Models 100 times larger than one GPU's memory | web page | right for states | they are divided
  by all ranks (section 2); a layer's activations are not, unless tp or cp cuts them (07e, 09f)
- Near-linear scaling with proper configuration | web page | not with the same batch | section 4
- PTD parallelism scales to thousands of GPUs | lecture | right, says its paper | 3,072 A100, at
  52 % of their peak (arXiv 2104.04473)
- Debugging is hard, engineering complex | web page | right | chapter 04; six bugs of chapter 09
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page). Llama Team 2024, *The Llama 3
# Herd of Models* ([arXiv](https://arxiv.org/abs/2407.21783)). Narayanan et al. 2021
# ([arXiv](https://arxiv.org/abs/2104.04473)). Chowdhery et al. 2022, *PaLM*
# ([arXiv](https://arxiv.org/abs/2204.02311)).

# %% [markdown]
# ## What you have learnt
#
# * A mesh of 64 ranks works as a mesh of 8 does: **the order of the axes** decides what leaves a
#   machine.
# * A rank's **states** are divided by tp × pp, and by dp as far as ZeRO goes. ZeRO shards no
#   sample's **activations**: tp and cp do.
# * With the **same batch**, a larger cluster has fewer micro-batches per copy: the bubble grows.
# * Attention and experts may have **two meshes over the same ranks**. Routing to **few nodes**
#   saves bytes if a row travels once per node.
# * Different strategies add up in another order. In float64 they agree to rounding.
#
# **Your exercises**: {{state_bytes}} is in a cell above, and {{route_within_nodes}} in
# [labs/expert_nodes.py](../labs/expert_nodes.py).
#
# **Next**: {{next}} asks which plan to take.

# %%
progress("09g")
