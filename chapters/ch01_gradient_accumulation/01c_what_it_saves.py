# %% [markdown]
# # {{title}}
#
# **What does a batch in parts save, and what does it cost?** It was made to save memory. Here you
# measure how much, what it does to the time, and whether it learns as well as the large batch. Then
# several ranks accumulate together, as in the rest of the course.

# %% [markdown]
# ![Memory over time, by kind: first for 2048 samples in one go, then for four micro-batches of
# 512](../assets/covers/01c_what_it_saves.png)
#
# *Measured in section 1: the memory of 2048 samples in one go, then in four micro-batches.*
#
# **After this part you can** say which part of the memory shrinks with the micro-batch, choose the
# size of a micro-batch, and accumulate on several ranks.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import math

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, close, lab, launch, measure, plot_against, plot_memory, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
# Of section 3, with real data.
batch_size = 64
micro_batch = 8
learning_rate = 0.2
passes = 8

# %% [markdown]
# ## 1 · What it saves
#
# Between its forward and its backward, a layer keeps the **activations** that the backward will
# need. Which tensors are these? PyTorch tells, if asked. Here is what each layer of a small
# classifier keeps for one image of 64 numbers. Parameters are left out.

# %% tags=["nbval-ignore-output"]
accumulation = lab("gradient_accumulation")

# %%
def make_model():
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))

Table(["layer", "keeps", "numbers", "kept by another layer already"],
      accumulation.list_saved_by_layer(make_model(), F.cross_entropy, torch.randn(1, 64),
                                 torch.tensor([3])))

# %% [markdown]
# * A **Linear** keeps its input. The gradient of a weight is made from the input and the gradient
#   that comes back.
# * A **ReLU** keeps its output, to see where it was above zero.
# * The input of the second Linear *is* the output of the first ReLU. It is one tensor, and it
#   counts once.
# * **cross_entropy** keeps the logarithms of 10 probabilities, and the label. (The last row is one
#   number for the whole micro-batch: over how many targets it has averaged.)
#
# Each number takes 4 bytes in float32, and the label takes 8:
#
# $$4\,(64 + 512 + 512 + 10) + 8 = 4400 \text{ bytes for each sample}$$
#
# 2048 samples keep 9.01 MB. How many MB do they keep at most in micro-batches of 128?

# %%
guess = predict("Activations of 2048 samples, in micro-batches of 128", unit="MB")

# %%
def step(batch, micro_batch):
    model = make_model()
    with measure("step"):
        for _ in range(batch // micro_batch):
            images, labels = torch.randn(micro_batch, 64), torch.randint(10, (micro_batch,))
            loss = F.cross_entropy(model(images), labels)
            (loss * micro_batch / batch).backward()

# %%
sizes = [128, 256, 512, 1024, 2048]
runs = [launch(step, 2048, size, world_size=1) for size in sizes]
kept = [run["step"].peak_bytes[0]["activations"] for run in runs]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
guess.compare(4400 * 128 / 1e6, kept[0] / 1e6, kind="activations")

# %%
for size, most in zip(sizes, kept):
    print(f"micro-batches of {size:4}: {most:9,} bytes = 4400 · {size} + {most - 4400 * size}")

# %% [markdown]
# The bytes are exactly proportional to the micro-batch, but for the 4 bytes of `cross_entropy`'s
# one number.
#
# The next picture shows the memory over time: first 2048 samples in one go, then four micro-batches
# of 512.

# %% tags=["cover", "nbval-ignore-output"]
def both_ways():
    step(2048, 2048)  # to warm up
    step(2048, 512)
    with measure("one batch, then 4 micro-batches"):
        step(2048, 2048)
        step(2048, 512)

plot_memory(launch(both_ways, world_size=1), "one batch, then 4 micro-batches",
            title="2048 samples: in one go, then in four micro-batches")

# %% [markdown]
# Each backward frees the activations of its own forward. The grey area, *other*, comes with the
# backward: most of it is gradients of activations, two of them at a time. Autograd frees each one
# as soon as it is used; no `.grad` ever holds it. The grey area shrinks with the micro-batch, too.
#
# Parameters and gradients stay. So would the **optimizer state**, what an optimizer keeps for each
# parameter: Adam has two averages. Accumulation does nothing for a model that is itself too large.
# Chapter 06 shows what helps then.

# %% [markdown]
# ## 2 · What it costs
#
# The arithmetic is the same, so accumulation should cost no time. Does it? The lab measures one
# step over 1024 samples in five rounds, for each size of a micro-batch: 256 parts of 4 samples, 64
# parts of 16, and so on. It measures without following the memory, which would slow down small
# operations.

# %%
parts_guess = predict("A step in 256 parts of 4, divided by the fastest one", unit="times as long")

# %% tags=["nbval-ignore-output"]
small = [4, 16, 64, 256, 1024]
run = launch(accumulation.time_parts, make_model, 1024, small, world_size=1, device="cpu")
times = accumulation.sort_times(run, small)

# %% tags=["nbval-ignore-output"]
lines = {"slowest of 5": [1e3 * times[size][-1] for size in small],
         "median": [1e3 * times[size][2] for size in small],
         "fastest of 5": [1e3 * times[size][0] for size in small]}
plot_against(small, lines, "samples in a micro-batch", "a step over 1024 samples (ms)",
             logarithmic=True, title="The same arithmetic, in parts of different sizes")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; theory, if nothing but the arithmetic took time; and medians of five.
ratio = accumulation.compare_parts(run, 4, 1024)
print(f"256 parts of 4, compared with one go: {ratio.word}, {ratio}")
medians = dict(zip(small, lines["median"]))
parts_guess.compare(1, medians[4] / min(medians.values()))

# %% [markdown]
# If very small parts are slower, as the line above says, this is a likely reason: each operation
# has a fixed price, because Python, PyTorch and autograd do their bookkeeping once for each part,
# however few samples it has. A product of small matrices also keeps a processor less busy. On a
# CPU, one large batch need not be the fastest: its activations may be too large for the cache.

# %% [markdown]
# > **On GPUs.** The fixed price is starting a **kernel**, a program on the GPU. If the kernels are
# > short, the CPU cannot start them fast enough, and the GPU waits; NVIDIA's [guide to CUDA
# > graphs](https://docs.nvidia.com/dl-cuda-graph/latest) treats this overhead. And a GPU has far
# > more arithmetic units to keep busy. So take the largest micro-batch that fits, and accumulate
# > only for the rest. Accumulation does not improve throughput over a true large batch, says
# > [Hugging Face's documentation](https://huggingface.co/docs/transformers/en/grad_accumulation).
# > The measurement above ran on the CPU, on every machine.

# %% [markdown]
# > The remedy for short kernels is a **CUDA graph**: record the kernels of a step once, and start
# > them all with one call. Megatron Core has three kinds, `--cuda-graph-impl local`,
# > `transformer_engine` and [`full_iteration`](https://docs.nvidia.com/megatron-core/developer-guide/nightly/user-guide/features/cuda_graph.html).
# > A graph needs [the same
# > shapes](https://docs.nvidia.com/nemo/megatron-bridge/nightly/training/cuda-graphs.html) in each
# > step, so texts of varying length need padding, and experts with varying numbers of tokens (09e)
# > make it hard. None of this was measured here.

# %% [markdown]
# > **On GPUs.** Python only queues the work, and runs ahead of the GPU. `loss.item()` waits until
# > the GPU has computed the loss, and the queue runs empty. So do not call it in each micro-batch:
# > add up `loss.detach()`, and read the sum once for each step. PyTorch's
# > [tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html) (“Avoid
# > unnecessary CPU-GPU synchronization”) lists `.item()`, `print` and copies to the CPU. The loops
# > of part 01, sections 1 and 2, print in each round: on a GPU they would wait each time.

# %% [markdown]
# ## 3 · Does it learn?
#
# Real data: 1797 handwritten digits of 8 × 8 pixels, which come with scikit-learn. Every fifth one
# is kept for the test. Three trainings start with the same weights and see the images in the same
# order:
#
# * **one go**: a step for each batch of 64;
# * **accumulated**: the same batches, in micro-batches of 8;
# * **a step for each 8**: no accumulation, so about eight times as many steps.

# %%
data = accumulation.digits()
train = accumulation.train_digits
one_go, wrong_one_go = train(data, batch_size, batch_size, learning_rate, passes)
in_parts, wrong_in_parts = train(data, batch_size, micro_batch, learning_rate, passes)
_, wrong_small_steps = train(data, micro_batch, micro_batch, learning_rate, passes)

taken = passes * math.ceil(len(data[1]) / batch_size)  # optimizer steps
print("accumulated equals one go, but for rounding:", close(in_parts, one_go, steps=taken))
print(f"test images right: {1 - wrong_in_parts[-1] / len(data[3]):.1%}")

# %%
print("as many wrong after each pass:", wrong_in_parts == wrong_one_go)
ways = {"one go, and accumulated": wrong_in_parts,
        f"a step for each {micro_batch}": wrong_small_steps}
plot_against([*range(1, passes + 1)], ways, "passes over the training images",
             f"wrong, of {len(data[3])} test images",
             title="Handwritten digits: images that the model gets wrong")

# %% [markdown]
# Accumulated and one go end with the same weights, but for rounding. The last batch of a pass is
# smaller than the others, and `accumulate` weighs its parts correctly.
#
# A step for each 8 is another training. With the same learning rate it takes eight times as many
# steps. The picture shows how much it learns from each pass with these settings; neither rate was
# tuned, so it does not say which batch is better. A large batch is not a goal in itself. It is what
# many GPUs produce when they work on one step together. Accumulation lets a few GPUs, or one, take
# exactly this step.

# %% [markdown]
# ## 4 · On several ranks
#
# Each rank accumulates over micro-batches of its own, and sends nothing meanwhile. Only before the
# step are the gradients of all ranks added up, by an all-reduce: `average_over_ranks` in the lab.
# It weighs each rank by its number of samples, as `shares` weighs parts.
#
# The model below has 65,000 parameters in float32. A step has 8 micro-batches on each of 4 ranks.
# By the formula of part 00c, how many MB does a rank send in one step if it averages the gradients
# after each micro-batch? And how many if it averages once?

# %%
guess = predict("4 ranks average 65,000 gradients after each of 8 micro-batches: a rank sends",
                unit="MB")

# %%
def once_or_each_time(micro_batches=8):
    model = nn.Linear(64, 1000)
    for label, every in {"once": micro_batches, "each time": 1}.items():
        with measure(label):
            for number in range(1, micro_batches + 1):
                model(torch.randn(8, 64)).square().mean().backward()  # only bytes matter here
                if number % every == 0:
                    accumulation.average_over_ranks(model, 8)

run = launch(once_or_each_time, world_size=4, device="cpu")  # the system counts Gloo's bytes

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
sent = {label: run[label].sent_bytes[0] / 1e6 for label in ("once", "each time")}
guess.compare(8 * 2 * 3 / 4 * 65_000 * 4 / 1e6, sent["each time"], kind="communication")

# %% tags=["nbval-ignore-output"]
print(f"averaging once: {sent['once']:.2f} MB; each time: {sent['each time']:.2f} MB")

# %% [markdown]
# About eight times the bytes, for the same step.
#
# And do four ranks that accumulate equal one process? Each step has 96 samples: 12 micro-batches of
# 8 on one rank, or 3 on each of four.

# %%
def train_on_ranks(data):
    model, accuracy, work = accumulation.train_classifier(data, passes=5)
    return nn.utils.parameters_to_vector(model.parameters()).detach(), accuracy, work

worlds = {n: launch(train_on_ranks, data, world_size=n, device="cpu").values for n in (1, 4)}
alone, accuracy, _ = worlds[1][0]
print(f"test images right, one process: {accuracy:.1%}")
print(f"on 4 ranks: {worlds[4][0][2]}")
equal = all(close(weights, alone, steps=75) for weights, *_ in worlds[4])
print("four ranks equal one process, but for rounding:", equal)

# %% [markdown]
# They do. `DistributedDataParallel` averages after every backward, unless it is told not to: part
# 03d shows `no_sync`. Pipelines need micro-batches to keep all their ranks busy (chapter 08).
#
# Once both exercises of the lab are solved, run it as a program in a terminal, from the folder of
# the course: `torchrun --nproc-per-node 4 labs/gradient_accumulation.py`. It trains longer than the
# cells above, so it reaches another accuracy.

# %% [markdown]
# ## Put to the test
#
# One statement on ranks that accumulate, and what was found.

# %% jupyter={"source_hidden": true}
# The verdicts are computed from what was measured above.
put_to_the_test(f"""
- DDP with gradient accumulation, for batch size flexibility | web page, “Real-World Applications” |
  {"right" if equal else "wrong"} | by hand, without DDP: 96 samples in micro-batches of 8 give the
  same weights on one rank and on four (section 4). DDP itself: part 03d
""")

# %% [markdown]
# **To read on.** [GPipe](https://arxiv.org/abs/1811.06965), for micro-batches in pipelines.
# PyTorch's [tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html).

# %% [markdown]
# ## What you have learnt
#
# * **Activations** shrink with the micro-batch. Parameters, gradients and optimizer state stay.
# * Very small parts cost time.
# * A large batch is not a goal in itself. It is what many GPUs produce when they take one step
#   together.
# * Several ranks accumulate without a message, and average once for each step.
#
# **This part has no exercise.** It runs on the `accumulate` that you wrote in part
# [01b](01b_batches_in_parts.ipynb).
#
# **Next**: {{next}}.

# %%
progress("01c")
