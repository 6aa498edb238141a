# %% [markdown]
# # {{title}}
#
# **Which lines does a training with FSDP2 need, and what happens without each of them?** Part
# [03g](03g_one_whole_program.ipynb) had a whole program for DDP. Here is one for FSDP2:
# [labs/train_fsdp2.py](../labs/train_fsdp2.py). Most of its mistakes raise nothing. You measure
# what each line is for, start the program with torchrun on two machines, and find three mistakes in
# a recipe.

# %% [markdown]
# ![The loss of each step: four ranks on two machines for the first half, three ranks that go on;
# the points lie on one curve](../assets/covers/06i_an_fsdp2_program.png)
#
# *Measured in section 6: four ranks on two machines begin, three ranks go on.*
#
# **After this part you can** write a program for FSDP2 whose weights are those of one process, on
# any number of ranks, and say for a model of 70 billion parameters what fits.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, plot_curves, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
steps = 12

# %%
recipe, symptoms = lab("fsdp2_recipe"), lab("recipe_symptoms")
options = lab("fsdp2_options")
text = lab("language_model").standard_library(50_000)
kept = tempfile.TemporaryDirectory(prefix="train-fsdp2-")
folder = Path(kept.name)

# %% [markdown]
# ## 1 · From shapes to shards
#
# A model that needs FSDP2 does not fit on one GPU. So no rank may make it whole, not even at the
# start. The file does it in four steps:
#
# ```python
# with torch.device("meta"):             # shapes, and no memory
#     model = make_model(options)
# shard(model, mesh, options)            # shapes of shards, and no memory
# model.to_empty(device=device)          # memory for this rank's shards
# fill(model, make_whole)                # rank 0's weights and buffers
# ```
#
# On the **meta device** a tensor has a shape and no numbers. How many models does a rank have after
# each step, with this order, and if each rank makes the whole model first?

# %%
ways = ("whole, then cut", "shapes first")
begun = {way: launch(recipe.start, way, world_size=world_size, device="cpu").values[0]
         for way in ways}
Table(["", "made", "cut by FSDP2", "memory given"],
      [[way, *(f"{models:.2f}" for models in row)] for way, row in begun.items()],
      note="models in the memory of a rank")

# %% [markdown]
# (`device="cpu"` stands in this part where one compares with one process, or counts bytes.)
#
# `to_empty` gives memory and no values. When a training run begins, programs often let each module
# draw its weights anew, on the shards. The file's `fill` makes them on rank 0, which broadcasts
# them: `broadcast_from_rank0=True`.
#
# ### Pretrained weights
#
# Fine-tuning begins with the weights of an earlier run, mostly in safetensors files. They, too,
# could go through rank 0. But `torch.distributed.checkpoint` has a reader for such files, with
# which every rank reads its rows of each tensor. This model lies in two files:

# %% tags=["nbval-ignore-output"]
pretrained, small = lab("pretrained_shards"), ["--width", "128", "--layers", "4"]
if pretrained.HAS_SAFETENSORS:
    pretrained.write_files(folder, small)
    read = launch(pretrained.read_in_each_way, str(folder), small, world_size=4, device="cpu")
Table(["", "sent by rank 0", "held by it", "as in the files, bit by bit"],
      pretrained.compare_ways(read), note="in models; held: at most, besides its shards"
      ) if pretrained.HAS_SAFETENSORS else print(pretrained.NO_SAFETENSORS)

# %% [markdown]
# Rank 0 broadcasts whole tensors, and every rank keeps its rows. With `HuggingFaceStorageReader`
# only the plan is sent. How fast it reads was not measured here. NVIDIA's AutoModel found that of
# PyTorch 2.10 [2 to 4 times as slow](https://github.com/NVIDIA-NeMo/Automodel/pull/3616) as its own
# reader, in one process on CPUs.
#
# The files have **other names** than the model, so the dict that is loaded has theirs (torchtitan
# calls this a *state dict adapter*). A name that the files lack raises an error. **Rows in another
# order** raise nothing: RoPE has two orders (part [07c](07c_heads_and_vocabulary.ipynb)). For files
# in FP8 there is `QuantizedHuggingFaceStorageReader`.

# %% [markdown]
# Names are not all. The lab's files have the course's **fused** layers, but published ones mostly
# have queries, keys and values as separate matrices, and gate and up, too. Such an adapter also
# [joins and splits](https://docs.nvidia.com/nemo/megatron-bridge/latest/apidocs/bridge/bridge.models.conversion.param_mapping.html).
# A **tied** weight is in the files
# [once](https://huggingface.co/docs/safetensors/torch_shared_tensors), so its second name has to be
# left out, as the lab does.
#
# ### Buffers
#
# In each of these ways, a buffer with `persistent=False` is missing, because no state dict has it.
# The table of RoPE is such a buffer in many models. Here is a layer with a table. Only its weights
# get values first, and then its buffers as well:

# %%
for with_buffers in (False, True):
    right = launch(recipe.table_after_start, with_buffers, world_size=2, device="cpu").values
    print(f"buffers filled: {with_buffers!s:5}  the table is right on ranks 0 and 1: {right}")

# %% [markdown]
# Without a value, the table is what this memory held before, on each rank something else, and
# nothing fails. So `fill` broadcasts rank 0's buffers, as
# [LlamaFactory](https://github.com/hiyouga/LlamaFactory/pull/10820) does. In
# [torchtitan](https://github.com/pytorch/torchtitan/blob/6404b932421f5ce382e7dac5ad381b2c17b1373c/torchtitan/models/llama3/model/model.py)
# a model computes its table again, in `init_weights`.
#
# Drawing weights on the shards has a trap on the CPU. A weight is cut over two ranks, and drawn
# after `torch.manual_seed(0)`. Here are the first three numbers of rank 0's part and of rank 1's
# part:

# %%
for numbers in launch(recipe.draw_after_sharding, world_size=2, device="cpu").values[0]:
    print(*(f"{number:.4f}" for number in numbers))

# %% [markdown]
# They are the same: the model has half as many different rows as it should. There is one warning,
# "DTensor random operators may not have complete support on cpu device mesh".
#
# **On GPUs** DTensor gives each rank another place in the sequence of random numbers
# ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_random.py)).
# So the parts differ. But the weight is not the one that a single process draws: on an H100 (torch
# 2.11), two ranks had the first half of it, and another second half.
#
# What if every rank makes the whole model before FSDP2 cuts it? DDP would broadcast rank 0's
# weights. Does FSDP2?

# %%
for seeds_differ in (False, True):
    gap = launch(recipe.different_starts, seeds_differ, world_size=2, device="cpu").values[0]
    print(f"seeds differ: {seeds_differ}; the sharded model is rank 0's: {gap == 0}")

# %% [markdown]
# **FSDP2 does not broadcast.** It cuts what it finds on each rank. With other seeds, the model is
# put together from parts of different models, and nobody says so.
#
# The file's constructor ends with a seed for each rank, because samples on different ranks need
# different masks if the model has dropout (part [03](03_data_parallel.ipynb)).
#
# ## 2 · The root
#
# `fully_shard` on each block makes a unit of it. `fully_shard` on the model makes one more unit,
# the **root**, of all that is left: embeddings, last norm, last layer. The forward ends with the
# root, and the backward begins with it. So FSDP2 keeps it in between, *unless you say otherwise*.
# With three blocks, how many all-gathers does a step have then?

# %%
gathers = predict("3 blocks and a root, nothing said about the root: a step has",
                  unit="all-gathers")

# %%
counted = {
    said: recipe.calls_of(
        launch(recipe.measure_root_resharding, said, text, world_size=2, device="cpu"), "all_gather"
    )
    for said in (None, True, False)
}
for said, count in counted.items():
    print(f"reshard_after_forward={said} for the root: {count} all-gathers")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was counted.
gathers.compare(2 * 3 + 1, counted[None], wire="counted")

# %% [markdown]
# Many recipes make one dict of settings, with `reshard_after_forward=True`, and use it for the
# blocks and the model alike. Then the root is released, and gathered again at once. In a small
# model with a large vocabulary, it is the largest unit.
#
# ## 3 · Precision
#
# The policy of the file says: gather and compute in bfloat16, reduce gradients in float32.

# %% [markdown]
# ```python
# MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
# ```
#
# The shards stay in float32. They are the masters (part [05b](05b_half_precision.ipynb)), and the
# optimizer steps on them. Without `reduce_dtype`, gradients would be summed in bfloat16, with two
# to three digits. For the root the file adds `output_dtype=torch.float32`: the loss wants float32
# logits.
#
# Sources say that stage 3 sends half as much again as DDP. With this policy, too? Compare with DDP
# in float32. For each parameter, count the bytes of each collective: gather, gather, reduce.

# %%
ratio = predict("FSDP2 with this policy sends, as a multiple of DDP in float32",
                unit="times")

# %%
by_way = {way: recipe.bytes_for_each(launch(recipe.measure_precision, way, text, world_size=2,
                                            device="cpu"))
          for way in ("FSDP2", "DDP, float32", "DDP, bfloat16")}
for way, count in by_way.items():
    print(f"{way}: {count:.2f} bytes for each parameter, sent by each of 2 ranks, by textbook")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
ratio.compare((2 + 2 + 4) / (4 + 4), by_way["FSDP2"] / by_way["DDP, float32"],
              kind="communication")

# %% [markdown]
# The same bytes as DDP in float32: 2 + 2 + 4 against 4 + 4. (It is a little less, since the root is
# gathered once.) Against DDP with a model in bfloat16 it is twice as much. So "50 % more" is true
# only if all three collectives have the same dtype.
#
# ### With autocast
#
# A program that comes from one GPU often has `torch.autocast` (part 03g). The policy decides once
# for each unit; autocast decides anew in each operation. What does a step do under one of them, and
# under both? This model has an embedding, two blocks with a norm and products, and a last layer:

# %% tags=["nbval-ignore-output"]
run = launch(options.step_in_each, options.PRECISIONS, world_size=2, device="cpu")
exact, rows = run.values[0]["float32"][1], []
for name, (dtypes, gradients) in run.values[0].items():
    error = (gradients - exact).norm() / exact.norm()
    rows.append([name, *dtypes.values(), *options.bytes_travelling(run, name), f"{error:.1%}"])
Table(["", "weights", "norm", "product", "output", "loss", "gather", "reduce", "error"], rows,
      note="bytes per number when gathered and reduced; error of the gradient against float32")

# %% [markdown]
# * **The policy** turns everything inside a unit into bfloat16: the norm, and without
#   `output_dtype` even the loss.
# * **Autocast** leaves the weights in float32, so that they are gathered with 4 bytes: 12 bytes per
#   parameter where the policy needs 8. Products are in bfloat16, norms and the loss in float32.
# * **Both** travel as the policy says. Autocast only adds the float32 loss.
#
# With `cast_forward_inputs=False` the policy leaves a unit's inputs as they are. A float32 input
# then meets bfloat16 weights, and the first product raises an error, unless autocast casts it.
#
# **On GPUs** autocast keeps [more
# operations](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)
# in float32. torchtitan [leaves precision to FSDP2](https://github.com/pytorch/torchtitan/pull/2213).

# %% [markdown]
# ### Exercise {{bytes_per_number}} · Dtypes under a policy and autocast
#
# Write `bytes_per_number(param, reduce, output, autocast)`. It returns the bytes of a number in
# five places of a step: gathered weights, the result of a product, the model's output, the loss,
# reduced gradients.
#
# `param`, `reduce` and `output` are the policy's dtypes, as bytes: 2 for bfloat16, 4 for float32,
# None where it says nothing. `autocast` tells whether forward and loss are under autocast to
# bfloat16.
#
# Stored weights and inputs are float32. The model ends with a product, and the loss is a
# cross-entropy. Without `reduce_dtype`, gradients are reduced in the dtype of the gathered weights.
#
# For example, `bytes_per_number(2, 4, None, False)` is the row *policy* of the table: it returns
# `(2, 2, 2, 2, 4)`.

# %%
def bytes_per_number(param, reduce, output, autocast):
    ### BEGIN SOLUTION
    weights = param or 4
    product = 2 if autocast else weights
    logits = output or product
    return weights, product, logits, 4 if autocast else logits, reduce or weights
    ### END SOLUTION

check("{{bytes_per_number}}", bytes_per_number)

# %% [markdown]
# ## 4 · One step
#
# ```python
# loss = mean_loss(model(inputs), targets)
# loss.backward()
# nn.utils.clip_grad_norm_(model.parameters(), options.clip)
# optimizer.step()
# optimizer.zero_grad()
# ```
#
# It looks like one process. Three things are hidden in it.
#
# * **`model(inputs)`**, and not `model.forward(inputs)`: hooks gather the units, and only a call of
#   the module runs them.
# * **The gradient is the mean** over the ranks. Nobody divides by their number again.
# * **The norm is that of all shards.** After the backward a gradient is a DTensor.
#   `clip_grad_norm_` adds up squares over all ranks. If each rank takes the norm of its own shards,
#   each one clips by another number:

# %%
for rank, found in enumerate(launch(recipe.norms, text, world_size=2, device="cpu").values):
    own, clipped, one_process = found
    print(f"rank {rank}: norm of its own shards {own:.4f}, clip_grad_norm_ finds {clipped:.4f}, "
          f"one process {one_process:.4f}")

# %% [markdown]
# With `--recompute` the file wraps each block in `checkpoint_wrapper` before it is sharded, as
# [torchtitan](https://github.com/pytorch/torchtitan/blob/018740b7aae7846d24954539244c78215dbd181f/torchtitan/models/llama3/infra/parallelize.py)
# does: then a unit is what is recomputed. (Part 06f has shown that it costs no further bytes.)
# torchtitan calls `torch.compile` between the two, on each wrapped block (part
# [06h](06h_sharding_engines.ipynb) compares the orders).
#
# Weight decay goes by `p.ndim >= 2`, and the optimizer is made *after* sharding (exercise {{shard}}
# shows what happens before).
#
# ### Micro-batches, and other meshes
#
# FSDP2 reduces gradients in every backward. After `model.set_requires_gradient_sync(False)` it adds
# them up instead, whole, on each rank (part 06f). After `model.set_reshard_after_backward(False)`,
# units also stay gathered for the next micro-batch. Here is a step of three micro-batches:

# %%
for name, sum_of_512 in launch(options.add_up_ones, world_size=2, device="cpu").values[0].items():
    print(f"policy with {name}: 512 micro-batches of gradient 1/512 give {sum_of_512:g}")
run = launch(options.accumulate_each, text, 3, world_size=4, device="cpu")
exact = run.values[0]["reduced each time"]
Table(["", "reduce-scatters", "models sent", "gradients", "parameters", "gradients equal"],
      [[way, options.calls_named("reduce_scatter", run, way),
        f"{sum(options.models_sent(run, way).values()):.2f}",
        *(f"{options.models_held(kind, run, way):.2f}" for kind in ("gradients", "parameters")),
        close(gradients, exact)] for way, gradients in run.values[0].items()],
      note="4 ranks; sent by textbook; gradients and parameters held at most, in models")

# %% [markdown]
# Reduced once, a step sends less, and each rank keeps all gradients of the model instead of its
# part. The program does this with `--micro-batches`. Without `reduce_dtype` they stay bfloat16
# between micro-batches: in the lines above, 256 + 1 is rounded to 256, again and again.
#
# **On GPUs**, torchtitan reduces in every micro-batch. A maintainer prefers that where memory is
# short ([issue 292](https://github.com/pytorch/torchtitan/issues/292)). With replicas, it delays
# their all-reduce alone, by `set_requires_all_reduce`
# ([4505](https://github.com/pytorch/torchtitan/pull/4505)). A context manager written for DDP does
# nothing to FSDP2, and says nothing
# ([a report](https://github.com/NVIDIA/cosmos-framework/issues/161)).

# %% [markdown]
# ### Exercise {{accumulate_sharded}} · Gradient accumulation with FSDP2
#
# Write `accumulate_sharded(model, loss_fn, micro_batches)`. `model` is sharded by FSDP2 already,
# and has no gradients. `micro_batches` is this rank's list of at least one pair of inputs and
# targets. All have one size, and each rank has equally many. `loss_fn(outputs, targets)` is a mean.
#
# Afterwards each `.grad` has this rank's shard of the mean gradient over all micro-batches of all
# ranks. Each unit reduces once, in the last backward. A plain backward that follows reduces again.
# Micro-batches come one at a time: forward, backward, next. Nothing is returned, and weights, mode
# and all other settings of the model are as before.
#
# For example, two micro-batches on each of two ranks have the gradients 1 and 2, and 3 and 6. The
# mean is 3.

# %% [markdown]
# You need not handle exceptions. After an exception in a micro-batch the setting stays off, and
# turning it on again is not enough: FSDP2 keeps what earlier micro-batches have added up, where
# `zero_grad` does not find it, and the next backward adds to it. So resume from a checkpoint.

# %%
def accumulate_sharded(model, loss_fn, micro_batches):
    ### BEGIN SOLUTION
    count = len(micro_batches)
    for number, (inputs, targets) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == count - 1)
        (loss_fn(model(inputs), targets) / count).backward()
    ### END SOLUTION

check("{{accumulate_sharded}}", accumulate_sharded)

# %% [markdown]
# `reshard_after_forward` may also be a **number**: 2 on 4 ranks means that after the forward each
# unit stays split over 2 ranks, so that the backward gathers it from one neighbour. And a mesh of 2
# × 2 ranks makes two **replicas** (HSDP, part 06h). By textbook, what travels where, and what is
# kept in between?

# %%
run = launch(options.step_on_each_mesh, text, world_size=4, device="cpu")
exact, _ = run.values[0]["True"]
Table(["reshard_after_forward", "models sent", "parameters kept in between", "gradients equal"],
      [[name, options.sent_where(run, name),
        f"{options.models_held('parameters', run, f'{name}: between'):.2f} models",
        close(gradients, exact)] for name, (gradients, _) in run.values[0].items()])

# %% [markdown]
# With 2, the backward's gathers stay among two ranks, which can be those of one machine, and half
# of each block's parameters is kept. With False nothing is gathered again, and all are kept. With
# two replicas, gathers and reduce-scatters never leave a half, and an all-reduce of the shards
# joins the halves. The program has `--replicas`.
#
# ## 5 · The checkpoint
#
# Every rank writes its own shards, with `torch.distributed.checkpoint` (part
# [06g](06g_state_on_disk.ipynb)). `get_state_dict` gives model and optimizer under the names of the
# model, as DTensors. So three ranks can read what four have written.

# %% [markdown]
# * **All ranks call it.** Rank 0 alone would wait for the others.
# * **Under another name first** (part 03g). When all ranks have written, rank 0 sets the old folder
#   aside, gives the new one its name, and only then deletes the old one. Whenever the program is
#   killed, one of the two is whole, and `resume` finds it.
# * **Whole weights**, to publish them: `get_model_state_dict` with `full_state_dict=True` and
#   `cpu_offload=True`. All ranks call it, rank 0 gets the tensors, in the memory of its CPU.

# %% [markdown]
# ### To the sampler
#
# In reinforcement learning a sampler writes texts with the weights that the trainer has just
# changed. Each shards the model in its own way, so the layout changes in every step: a
# [refit](https://nvidia-nemo.github.io/blog/2025/08/12/nemo-rl-refit-performance). No rank needs
# the whole model. Tensors travel in buckets, or each rank gets the parts that it needs, as in
# exercise {{parts_to_read}}
# ([Megatron](https://docs.nvidia.com/megatron-core/developer-guide/nightly/apidocs/core/core.resharding.refit.html)
# keeps the plan). [vLLM](https://docs.vllm.ai/en/latest/training/weight_transfer/) takes weights
# over NCCL from other GPUs, or over CUDA IPC on the same ones. Moonshot
# [reports](https://github.com/MoonshotAI/checkpoint-engine) about 20 s for a trillion parameters on
# thousands of GPUs.

# %% [markdown]
# Equal weights do not give equal probabilities, because the sampler has other kernels. That alone
# can make training collapse ([Zhong et al. 2026](https://arxiv.org/abs/2605.14220)). With experts,
# a token may even get other experts, so the sampler's choices are
# [replayed](https://docs.nvidia.com/nemo/rl/0.8.0/guides/router-replay.html) in training. None of
# this was tried here.
#
# ## 6 · Two machines, and one process
#
# Now torchrun starts the file on two machines, two ranks on each. In float64, so that the weights
# can be compared. On real machines it is the line of part 03g, with `labs/train_fsdp2.py` at its
# end.

# %%
words = ["--precision", "float64", "--recompute", "--folder", str(folder / "checkpoint")]
run = recipe.run_on_machines(folder, [*words, "--steps", str(steps // 2), "--every", "1"])
for machine, said in enumerate(run.output):
    print(f"machine {machine}:", *recipe.lines_of(said), sep="\n  ")

# %% [markdown]
# Three ranks go on from the files of four. And one process, without FSDP2, trains with all samples.

# %%
later = launch(
    recipe.run_training, text, [*words, "--steps", str(steps)], world_size=3, device="cpu"
)
alone = launch(recipe.train_one_process, text, ["--precision", "float64", "--steps", str(steps)],
               world_size=1, device="cpu").values[0]
gap = recipe.largest_gap(later.values[0][1], alone)
print(f"weights after {steps} steps, as one process to 1e-10: {gap < 1e-10}")
in_one_go = launch(recipe.run_training, text, ["--precision", "float64", "--steps", str(steps)],
                   world_size=1, device="cpu").values[0][0]

# %% tags=["cover", "nbval-ignore-output"]
half = len(in_one_go) - len(later.values[0][0])
shown = {int(line.split()[1][:-1]): float(line.split()[-1])
         for line in recipe.lines_of(run.output[0]) if line.startswith("step")}
plot_curves({"": {
    "FSDP2 on 1 rank": (range(1, steps + 1), in_one_go),
    "4 ranks on 2 machines": (list(shown), list(shown.values())),
    "3 ranks go on": (range(half + 1, steps + 1), later.values[0][0]),
}}, "step", "mean loss", title="One training with FSDP2, on 1, 4 and 3 ranks")

# %% [markdown]
# One curve, on any number of ranks. Run it yourself: `torchrun --nproc-per-node 2
# labs/train_fsdp2.py --precision bfloat16`. Then leave out a line. Sections 1 to 5 say what to
# expect, and that mostly nobody tells you.
#
# ### Exercise {{prepare}} · Debug an FSDP2 training recipe
#
# A colleague has written `prepare`. The loss goes down. Here are its symptoms beside one process.
# Read the function, then the table.

# %%
def prepare(make_model, mesh, make_optimizer, limit):
    model = make_model()
    ### BEGIN SOLUTION
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), 0)
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh)
    ### IT WAS
    # for unit in (*model.blocks, model):
    #     fully_shard(unit, mesh=mesh, reshard_after_forward=True)
    ### END SOLUTION
    optimizer = make_optimizer(model.parameters())

    def step(inputs, targets):
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        ### BEGIN SOLUTION
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        ### IT WAS
        # norm = nn.utils.get_total_norm([p.grad.to_local() for p in model.parameters()])
        # nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
        ### END SOLUTION
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return model, step

# %%
here = launch(symptoms.symptoms, prepare, world_size=2, device="cpu").values[0]
wanted = launch(symptoms.right_symptoms, world_size=1, device="cpu").values[0]
names = ("loss of the first step", "weights move by, nothing clipped", "weights move by, limit 0.1",
         "all-gathers in a step")
Table(["", "this recipe, 2 ranks", "right"],
      [[name, f"{a:.4g}", f"{b:.4g}"] for name, a, b in zip(names, here, wanted)])

# %% [markdown]
# Rows 1, 3 and 4 of the table show a mistake each, as long as they differ. Row 2 follows from row
# 1. Mend `prepare`. It gets
#
# * `make_model()`, which gives a model with `model.blocks`, with other weights on each rank (the
#   check's model has no buffers),
# * `mesh`, of one dimension: all ranks,
# * `make_optimizer(parameters)`, and `limit`, the largest norm of the gradient.

# %% [markdown]
# It returns the sharded model and the function `step`. Each block is a unit, and the rest the
# root. At the start the model has rank 0's weights. `step` takes this rank's inputs and targets. It
# follows the mean over all ranks, clipped by the norm of the whole gradient, and clears the
# gradients. It returns this rank's loss, without a graph. A step gathers each block twice, and the
# root once.
#
# For example, rank 0 has a weight `[[1], [2]]`, rank 1 `[[3], [4]]`. The sharded weight is
# `[[1], [2]]`; the colleague's is `[[1], [4]]`. If the shards of the mean gradient are 3 and 4,
# with the limit 1, clipping gives 0.6 and 0.8; the colleague's ranks get 1 and 1.

# %%
check("{{prepare}}", prepare)

# %% [markdown]
# ## 7 · 70 billion on 8 GPUs
#
# What do 8 GPUs keep of a model with 70 billion parameters? A book chapter has a table. Computed
# again: with its own 2 + 2 + 8 bytes for each parameter, and with the 2 + 2 + 12 that a float32
# master needs (part 05b).

# %%
def table_for(billions, n, each):
    kinds = ("parameters", "gradients", "optimizer_state")
    split = {"DDP": (), "stage 1": kinds[2:], "stage 2": kinds[1:], "stage 3": kinds}
    return {stage: {kind: 1e9 * billions * size / (n if kind in cut else 1)
                    for kind, size in zip(kinds, each)} for stage, cut in split.items()}

with_12, with_16 = table_for(70, 8, (2, 2, 8)), table_for(70, 8, (2, 2, 12))
gigabytes = {name: [sum(stack.values()) / 1e9 for stack in table.values()]
             for name, table in (("12 bytes", with_12), ("16 bytes", with_16))}
Table(["", "book chapter", "12 bytes", "16 bytes"],
      [[stage, f"{book} GB", f"{a:g} GB", f"{b:g} GB"] for stage, book, a, b in
       zip(with_12, (840, 350, 210, 105), gigabytes["12 bytes"], gigabytes["16 bytes"])])

# %% [markdown]
# The book's 210 GB are 140 + 560/8. It has divided the gradients away altogether; with their shard
# it is 227.5.
#
# FSDP2 keeps float32 shards (4 bytes), their gradients (4) and Adam's states (8): 16 bytes as well.
# What do they leave free on GPUs of four kinds, and what else has to fit? For the second question,
# part [05g](05g_what_fits.ipynb) has a calculator:

# %%
sizes = {"H100": 80, "H200": 141, "B200": 180, "B300": 288}  # GB, as NVIDIA writes them
states = {n: sum(table_for(70, n, (4, 4, 8))["stage 3"].values()) / 1e9 for n in (8, 16)}
what_fits, shapes = lab("what_fits"), lab("model_shapes")
for tokens in (1024, 8192):
    needed = what_fits.predict_gpu_memory(shapes.model_named("Llama-3-70B", context=tokens), 1,
                                          recomputed=what_fits.FULL, dp=8, zero=3)
    others = sum(needed[kind] for kind in ("communication", "activations", "other")) / 1e9
    print(f"besides the states, a recomputed sample of {tokens:,} tokens needs {others:.1f} GB")
Table(["of each GPU's memory is left", *(f"{n} GPUs" for n in states)],
      [[f"{name}, {size} GB", *(f"{size - held:g} GB" if size > held else "too little"
                                for held in states.values())] for name, size in sizes.items()])

# %% [markdown]
# The sizes are nominal ([NVIDIA's
# table](https://docs.nvidia.com/nim/large-language-models/2.0.6/day-0/support-matrix-day-0.html)).
# Drivers [report somewhat more](https://github.com/modal-labs/modal-client/pull/2797): an H100
# 81,559 MiB, which are 85.5 · 10⁹ bytes. The printed needs are gathered units, activations, logits
# and 1 GB, assumed for CUDA and NCCL. FSDP2 needs more: its root stays gathered next to the blocks,
# and a unit's gradient is whole until it is reduced. Adam needs a copy of its shard for a moment,
# unless `fused=True`.
#
# So do not count on 8 H200, even for a short context: take more GPUs, offload the optimizer (part
# 06g), or take states of fewer bytes (part [05c](05c_smaller_optimizer_states.ipynb)). 8 B200 leave
# room for the short context, and 8 B300 for the long one as well. None of this was tried here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# What 8 ranks keep for each parameter of a small model in mixed precision, with ZeRO of chapter 06.
kept.cleanup()
composing = lab("composing")

def count_state_bytes(stage):
    run = launch(composing.watch, stage, text, True, False, 1, world_size=8, device="cpu")
    states = composing.states_of(run["after the backward"], run.values[0], 8)
    return sum(states.values()) / sum(run.values[0])

each = {stage: count_state_bytes(stage) for stage in ("stage 1", "stage 2", "stage 3")}
of_70 = {stage: 70 * size for stage, size in each.items()}
no_master = {stage: 70 * (size - 4 / 8) for stage, size in each.items()}  # 12 bytes in all
kept_each = ", ".join(f"{size:.2f}" for size in each.values())
has_two_limits = each["stage 2"] < 2 + 2 < each["stage 1"]  # bytes; 2 + 2: nothing split

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
def verdict(stage, told):
    as_told = abs(no_master[stage] - told) < 0.1
    return "depends on what is counted" if as_told else "wrong"

surprises = f"""
- [C117] 70B on 8 GPUs, ZeRO-1: 350 GB | book chapter, “Memory Comparison” |
  {verdict("stage 1", 350)} | each of 8 ranks keeps {each["stage 1"]:.2f} bytes for each parameter
  (measured in this section). For 70 billion that is {of_70["stage 1"]:.0f} GB; without masters
  {no_master["stage 1"]:.0f} GB (section 7, table) | measured: nothing for the states of 70 billion,
  which are a product; buffers come on top
- [C118] 70B on 8 GPUs, ZeRO-2: 210 GB | book chapter, “Memory Comparison” |
  {verdict("stage 2", 210)} | each of 8 ranks keeps {each["stage 2"]:.2f} bytes for each parameter
  (measured in this section). For 70 billion that is {of_70["stage 2"]:.1f} GB; without masters
  {no_master["stage 2"]:.1f} GB (section 7, table): the chapter leaves out the gradients' shard |
  measured: nothing for the states of 70 billion, which are a product; buffers come on top
"""

# %% jupyter={"source_hidden": true}
# The table.
put_to_the_test(surprises + f"""
- [C119] 70B on 8 GPUs, ZeRO-3: 105 GB | book chapter, “Memory Comparison” |
  {verdict("stage 3", 105)} | each of 8 ranks keeps {each["stage 3"]:.2f} bytes for each parameter
  (measured in this section). For 70 billion that is {of_70["stage 3"]:.0f} GB; without masters
  {no_master["stage 3"]:.0f} GB (section 7, table) | measured: nothing for the states of 70 billion,
  which are a product; gathered units come on top
- [C147] The model and gradients fit: ZeRO-2; not: ZeRO-3; above 100B: with tensor parallel | book
  chapter, “When to Use What?” | {"depends" if has_two_limits else "not seen here"} | on 8 ranks
  stages 1, 2 and 3 keep {kept_each} bytes for each parameter (measured in this section); parameters
  and whole gradients alone are 4. Where these 4 fit, stage 2 fits; where {each["stage 1"]:.2f} fit,
  stage 1 does, and with micro-batches it sends less (part 06f, section 1). Above 100B a pipeline is
  another choice (part 08j, section 6) | measured: the choice, since speed of links and GPUs decides
  it there; that was not measured
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *CS 229S, lecture 8* (Stanford).
#
# **To read on.** PyTorch's [FSDP2
# tutorial](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html) and its
# [documentation](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html). Its
# [state dicts](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) for any number of
# ranks.

# %% [markdown]
# ## What you have learnt
#
# * **Shapes first**: meta device, `fully_shard`, `to_empty`, then weights and buffers. FSDP2 does
#   not broadcast by itself.
# * Blocks first, then the model. Say nothing about the **root**.
# * Gather in bfloat16, reduce in float32: 8 bytes for each parameter, as DDP in float32. Autocast
#   in place of the policy gathers float32.
# * Gradients are means, reduced in every backward unless you say otherwise. `clip_grad_norm_` takes
#   the norm of all shards.
# * Every rank writes its shards, and any number of ranks reads them. So it is with safetensors
#   files: no rank reads the whole model.
#
# **Your exercises**, {{bytes_per_number}}, {{accumulate_sharded}} and {{prepare}}, stand in cells
# above. The program is
# [labs/train_fsdp2.py](../labs/train_fsdp2.py).
#
# **Next**: {{next}}.

# %%
progress("06i")
