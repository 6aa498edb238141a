# %% [markdown]
# # 01b · A batch in parts
#
# **Into which parts may a batch be cut, and when do the parts give the weights of the whole?** In
# chapter 01, all micro-batches had the same size. Real data is not so tidy. The last micro-batch of
# an epoch is smaller, sentences have different lengths, and some layers mix their samples. In each
# of these cases the simple division is wrong, and nothing reports it.

# %% [markdown]
# ![Memory over time: a tall block of activations for 2048 samples in one go, then four blocks of a
# quarter of its height](../assets/covers/01b_batches_in_parts.png)
#
# *Measured in section 4: the memory of 2048 samples in one go, then in four micro-batches.*
#
# **After this part you can** accumulate over parts of any size and over tokens, say when the result
# equals the large batch, and say what accumulation saves and what it costs.
#
# **It takes** about 25 minutes, and 30 more for 3 exercises. **It needs** chapter
# [01](01_gradient_accumulation.ipynb); for the last section also [00](00_start_here.ipynb).

# %% jupyter={"source_hidden": true}
import math
import statistics

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, measure, plot_against, plot_memory, predict, progress,
    put_to_the_test, relative_gap,
)

# %% tags=["parameters"]
# Of section 6, with real data.
batch_size = 64
micro_batch = 8
learning_rate = 0.2

# %% [markdown]
# ## 1 · Parts of different sizes
#
# Take a batch of 30 samples and a small model. Cut the batch into parts of equal size, then into
# parts of different sizes. Each part's loss is a mean over its samples. As in chapter 01, divide it
# by the number of parts. This is a **mean of means**.

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).double()
x, y = torch.randn(30, 5).double(), torch.randn(30, 1).double()

def mean_of_means(model, loss_fn, parts):
    model.zero_grad()
    for inputs, targets in parts:
        (loss_fn(model(inputs), targets) / len(parts)).backward()

# %%
def gradients_by(way, model, *arguments):
    way(model, *arguments)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

def compare(way, size, model=model):
    parts = [*zip(x.split(size), y.split(size))]
    whole = gradients_by(mean_of_means, model, F.mse_loss, [(x, y)])
    added = gradients_by(way, model, F.mse_loss, parts)
    error = 0 if close(added, whole) else relative_gap(added, whole)
    return [[len(inputs) for inputs, _ in parts], close(added, whole), f"{error:.1%}"]

HEADS = ["parts", "equal to the whole batch, but for rounding", "error"]

# %%
Table(HEADS, [compare(mean_of_means, size) for size in (10, 5, 8, 29)])

# %% [markdown]
# The error is the largest difference, as a share of the largest gradient. Equal parts lose nothing.
# Parts of different sizes give wrong gradients, and no message appears.
#
# A mean of means gives each **part** the same weight. So in the last row, the single sample counts
# as much as the other 29 together.
#
# ### Exercise 1.3
#
# By which factor must each part's mean loss be multiplied, so that the products add up to the mean
# over all samples? `shares` gets `sizes`, a list with the number of samples in each part. It
# returns a list with one factor for each part, in float64 (as Python's own numbers are).
#
# Example: `shares([2, 6])` is `[0.25, 0.75]`.

# %%
def shares(sizes):
    ### BEGIN SOLUTION
    return [size / sum(sizes) for size in sizes]
    ### END SOLUTION

# %%
check("1.3", shares)

# %% [markdown]
# ### Exercise 1.4, in the lab
#
# Write `accumulate` in [labs/gradient_accumulation.py](../labs/gradient_accumulation.py). It gets
#
# * `model`, and `loss_fn(outputs, targets)`, which returns the mean loss over its samples;
# * `micro_batches`, a list of `(inputs, targets)`. Their sizes may differ: the first dimension of
#   `targets` is the number of samples.
#
# It leaves in `.grad` the gradient of the mean loss over **all** samples, and returns this mean
# loss as a Python number. It takes no optimizer step.
#
# One thing may surprise you: unlike `backward()`, `accumulate` first clears what `.grad` held. A
# caller who wants to add must not use it.

# %% [markdown]
# Example: two parts with 1 and 3 samples and mean losses of 8 and 4. It returns
# $8 \cdot \frac14 + 4 \cdot \frac34 = 5$.
#
# What it may cost: one forward and one backward for each part, and the activations of one part at a
# time.
#
# A **lab** is a program that also runs as it is, under `torchrun`. A function that you have not
# written yet is taken from the solution. The line below says which ones are yours. Save the file
# and run the cells again; you need not restart anything.

# %% tags=["nbval-ignore-output"]
accumulation = lab("gradient_accumulation")
check("1.4")

# %%
Table(HEADS, [compare(accumulation.accumulate, size) for size in (10, 8, 29)])

# %% [markdown]
# ## 2 · When is it the large batch?
#
# The parts give the large batch if the loss of each sample depends on this sample alone. Four
# layers show it. Each stands in the middle of the same model, and `accumulate` weighs the three
# parts of 10 samples correctly.

# %%
LAYERS = {
    "none": nn.Identity(),
    "LayerNorm": nn.LayerNorm(16),
    "Dropout": nn.Dropout(0.5),
    "BatchNorm": nn.BatchNorm1d(16),
}
rows = []
for name, layer in LAYERS.items():
    mixed = nn.Sequential(nn.Linear(5, 16), layer, nn.Tanh(), nn.Linear(16, 1)).double()
    torch.manual_seed(0)
    rows.append([name, compare(accumulation.accumulate, 10, mixed)[1]])
Table(["layer between", "three parts equal the whole batch"], rows)

# %% [markdown]
# **LayerNorm** uses the numbers of one sample only. **BatchNorm** uses the mean and the variance
# over the samples that go through together: with parts of 10, these are other numbers than with 30.
# No factor repairs that. It also updates its running averages once for each part.
#
# **Dropout** draws random masks, and each sample got another mask than before. With several dropout
# layers not even the same seed helps: the whole batch draws layer by layer, accumulation draws part
# by part. The gradients differ, but this is no mistake. Each mask is from the same distribution.
#
# A loss that compares samples, as in contrastive learning, is like BatchNorm: a part has fewer
# samples to compare.

# %% [markdown]
# All cases of this part in one table:
#
# | in the model or in the data | do the parts equal the large batch? |
# |---|---|
# | equal parts, each mean loss divided by their number | yes |
# | parts of different sizes | yes, if each mean is weighed by its share of samples |
# | sentences with padding | yes, if each token counts the same (section 3) |
# | dropout | no: other random masks, but from the same distribution |
# | BatchNorm, losses that compare samples | no, and no factor helps |
# | gradient clipping, `GradScaler` | yes, if done once for each step (chapter 01, section 5) |

# %% [markdown]
# ## 3 · Tokens
#
# With text, parts are often uneven, because sentences have different lengths. To fill a rectangle,
# short ones are **padded** at the end. Padding does not count: `F.cross_entropy` leaves out all
# targets that are −100.
#
# So two micro-batches with equally many *sentences* have different numbers of *tokens*. Here are
# two of them (□ is a token, · is padding). Suppose that both mean losses are averaged as a mean of
# means. How many times as much does a token of the second count as a token of the first?

# %%
lengths = [[12, 11], [3, 2]]
for part in lengths:
    print(*("□" * n + "·" * (max(part) - n) for n in part), sep="\n", end="\n\n")

# %%
guess = predict("Mean of means: a token of the second, against one of the first", unit="times")

# %%
scores = [torch.zeros(sum(part), 30, requires_grad=True) for part in lengths]
for logits in scores:  # one row of 30 scores for each token
    targets = torch.zeros(len(logits), dtype=torch.long)
    (F.cross_entropy(logits, targets) / len(scores)).backward()

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
weights = [logits.grad[0, 0].item() for logits in scores]
guess.compare(theory=(12 + 11) / (3 + 2), measured=weights[1] / weights[0], kind="gradients")

# %% [markdown]
# The remedy: sum the losses of the tokens instead of averaging them, and divide by the number of
# tokens that count in the **whole** batch. This number is known before the first backward, because
# all targets are there.
#
# This is easily overlooked. Hugging Face's `Trainer` took a mean of means until October 2024, says
# [their report](https://huggingface.co/blog/gradient_accumulation).
#
# ### Exercise 1.5, in the lab
#
# In [labs/gradient_accumulation.py](../labs/gradient_accumulation.py), write `accumulate_tokens`.
# It gets `model` and `micro_batches`, a list of `(tokens, targets)`. Both are whole numbers of
# shape (sentences, length). `model(tokens)` returns scores of shape (sentences, length,
# vocabulary). Targets that are −100 (`PADDING`) do not count.

# %% [markdown]
# It leaves in `.grad` the gradient of the mean cross-entropy over all tokens that count, in all
# micro-batches together, and returns this mean as a Python number. It clears `.grad` first, and
# keeps one micro-batch's activations at a time.
#
# Example: three tokens of the first micro-batch count, with losses 1, 2 and 3, and one of the
# second, with a loss of 6. It returns $(1 + 2 + 3 + 6) / 4 = 3$.
#
# A micro-batch may be nothing but padding. `count_tokens(targets)`, in the same file, says how many
# targets count. `F.cross_entropy` wants scores of shape (n, vocabulary) and targets of shape (n).

# %% tags=["nbval-ignore-output"]
check("1.5")

# %%
torch.manual_seed(0)
words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30)).double()
tokens, targets = torch.randint(30, (2, 4, 12))
for row, length in enumerate([12, 11, 3, 2]):
    targets[row, length:] = -100
halves = [*zip(tokens.split(2), targets.split(2))]

def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

# %%
whole = gradients_by(mean_of_means, words, token_loss, [(tokens, targets)])
by_means = gradients_by(mean_of_means, words, token_loss, halves)
by_tokens = gradients_by(accumulation.accumulate_tokens, words, halves)
print(f"mean of means: off by {relative_gap(by_means, whole):.0%}")
print("accumulate_tokens: equal to the whole batch, but for rounding:", close(by_tokens, whole))

# %% [markdown]
# ## 4 · What it saves
#
# Between its forward and its backward, a layer keeps what the backward will need: its
# **activations**. Which tensors are these? PyTorch tells, if asked. Here is what each layer of a
# small classifier keeps for one image of 64 numbers. Parameters are left out.

# %%
def make_model():
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))

Table(["layer", "keeps", "numbers", "kept by another layer already"],
      accumulation.kept_by_layer(make_model(), F.cross_entropy, torch.randn(1, 64),
                                 torch.tensor([3])))

# %% [markdown]
# * A **Linear** keeps its input. The gradient of a weight is made from the input and the gradient
#   that comes back.
# * A **ReLU** keeps its output, to see where it was above zero.
# * The input of the second Linear *is* the output of the first ReLU. It is one tensor, and it
#   counts once.
# * **cross_entropy** keeps the logarithms of 10 probabilities, and the label.
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
print("measured, less 4400 bytes for each sample:", [m - 4400 * n for m, n in zip(kept, sizes)])
plot_against(sizes, {"activations": [m / 1e6 for m in kept]}, "samples in a micro-batch",
             "activations at most (MB)", {"activations": [4400 * n / 1e6 for n in sizes]},
             title="2048 samples, in micro-batches of different sizes")

# %% [markdown]
# Exactly proportional, but for 4 bytes: `cross_entropy` also keeps one number, over how many
# targets it has averaged.
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
# Each backward frees the activations of its own forward. The grey area, *other*, lives only for a
# moment: most of it is gradients of activations, which autograd frees as soon as they are used.
#
# Parameters and gradients stay. So would the optimizer's state. Accumulation does nothing for a
# model that is itself too large; chapter 06 shows what helps then.

# %% [markdown]
# ## 5 · What it costs
#
# The arithmetic is the same, so accumulation should cost no time. Does it? The cell measures one
# step over 1024 samples in five rounds, for each size of a micro-batch. `memory=False` leaves out
# the bench's own accounting, which would slow down small operations.

# %% tags=["nbval-ignore-output"]
def timed(batch, sizes, rounds):
    model = make_model()
    for number in range(rounds + 1):  # the first round warms up
        for size in sizes:
            with measure(f"{size}, round {number}", memory=False, wire=False):
                for _ in range(batch // size):
                    images, labels = torch.randn(size, 64), torch.randint(10, (size,))
                    (F.cross_entropy(model(images), labels) * size / batch).backward()

small, rounds = [4, 16, 64, 256, 1024], range(1, 6)
run = launch(timed, 1024, small, len(rounds), world_size=1)
times = {size: sorted(1e3 * run[f"{size}, round {r}"].seconds[0] for r in rounds) for size in small}

# %% tags=["nbval-ignore-output"]
lines = {"slowest of 5": [times[size][-1] for size in small],
         "median": [statistics.median(times[size]) for size in small],
         "fastest of 5": [times[size][0] for size in small]}
plot_against(small, lines, "samples in a micro-batch", "a step over 1024 samples (ms)",
             logarithmic=True, title="The same arithmetic, in parts of different sizes")

# %% tags=["nbval-ignore-output"]
medians = dict(zip(small, lines["median"]))
best = min(medians, key=medians.get)
slower = {size: medians[size] / medians[best] for size in small}
print(f"fastest here: parts of {best}; in parts of 4, a step takes {slower[4]:.1f} times as long,")
print(f"in one go {slower[1024]:.1f} times")

# %% [markdown]
# Very small parts are slow. Each operation has a fixed price: Python, PyTorch and autograd do their
# bookkeeping once for each part, however few samples it has. A product of small matrices also keeps
# a processor less busy. On a CPU, one large batch need not be the fastest: its activations may be
# too large for the cache.

# %% [markdown]
# > **On GPUs.** The fixed price is starting a **kernel**, a program on the GPU. If the kernels are
# > short, the CPU cannot start them fast enough, and the GPU waits; NVIDIA's [guide to CUDA
# > graphs](https://docs.nvidia.com/dl-cuda-graph/latest) treats this overhead. And a GPU has far
# > more arithmetic units to keep busy. So take the largest micro-batch that fits, and accumulate
# > only for the rest. Accumulation does not improve throughput over a true large batch, says
# > [Hugging Face's documentation](https://huggingface.co/docs/transformers/en/grad_accumulation).
# > Nothing of this was measured here.

# %% [markdown]
# ## 6 · Does it learn?
#
# Real data: 1797 handwritten digits of 8 × 8 pixels, which come with scikit-learn. Every fifth one
# is kept for the test. Three trainings start with the same weights and see the images in the same
# order:
#
# * **one go**: a step for each batch of 64;
# * **accumulated**: the same batches, in micro-batches of 8;
# * **a step for each 8**: no accumulation, so eight times as many steps.

# %%
data = accumulation.digits()
train = accumulation.train_digits
one_go, wrong_one_go = train(data, batch_size, batch_size, learning_rate)
in_parts, wrong_in_parts = train(data, batch_size, micro_batch, learning_rate)
small_steps, wrong_small_steps = train(data, micro_batch, micro_batch, learning_rate)

taken = 8 * math.ceil(len(data[1]) / batch_size)  # optimizer steps in 8 passes
print("accumulated equals one go, but for rounding:", close(in_parts, one_go, steps=taken))
print(f"test images right: {1 - wrong_in_parts[-1] / len(data[3]):.1%}")

# %%
ways = {"accumulated": wrong_in_parts, "one go": wrong_one_go,
        f"a step for each {micro_batch}": wrong_small_steps}
plot_against([*range(1, 9)], ways, "passes over the training images",
             f"wrong, of {len(data[3])} test images",
             title="Handwritten digits: one go lies on top of accumulated")

# %% [markdown]
# Accumulated and one go end with the same weights, but for rounding. The last batch of a pass is
# smaller than the others, and `accumulate` weighs its parts correctly.
#
# A step for each 8 is another training. With the same learning rate it takes eight times as many
# steps, and with these settings it learns faster from each pass. So a large batch is no aim in
# itself. It is what many GPUs produce when they work on one step together. Accumulation lets a few
# GPUs, or one, take exactly this step.

# %% [markdown]
# ## 7 · On several ranks
#
# Each rank accumulates over micro-batches of its own, and sends nothing meanwhile. Only before the
# step are the gradients of all ranks added up, by an all-reduce: `average_over_ranks` in the lab.
# It weighs each rank by its number of samples, as `shares` weighs parts.
#
# Suppose that a step has 8 micro-batches on each of 4 ranks. How many times as many bytes does a
# rank send if it averages the gradients after each micro-batch, instead of once?

# %%
guess = predict("Bytes sent: averaging after each micro-batch, against once", unit="times")

# %%
def once_or_each_time(micro_batches=8):
    model = nn.Linear(64, 1000)
    for label, every in {"once": micro_batches, "each time": 1}.items():
        with measure(label):
            for number in range(1, micro_batches + 1):
                model(torch.randn(8, 64)).square().mean().backward()  # only bytes matter here
                if number % every == 0:
                    accumulation.average_over_ranks(model, 8)

run = launch(once_or_each_time, world_size=4, device="cpu")  # the kernel counts Gloo's bytes

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
guess.compare(8, run["each time"].sent_bytes[0] / run["once"].sent_bytes[0], kind="communication")

# %% [markdown]
# And do four ranks that accumulate equal one process? Each step has 96 samples: 12 micro-batches of
# 8 on one rank, or 3 on each of four.

# %%
def train_on_ranks(data):
    model, accuracy, work = accumulation.train_classifier(data, passes=5)
    return nn.utils.parameters_to_vector(model.parameters()).detach(), accuracy, work

worlds = {n: launch(train_on_ranks, data, world_size=n).values for n in (1, 4)}
alone, accuracy, _ = worlds[1][0]
print(f"test images right: {accuracy:.1%}; with 4 ranks: {worlds[4][0][2]}")
equal = all(close(weights, alone, steps=15) for weights, *_ in worlds[4])
print("four ranks equal one process, but for rounding:", equal)

# %% [markdown]
# They do. `DistributedDataParallel` averages after every backward unless it is told not to; chapter
# 03b shows `no_sync`. Pipelines need micro-batches to keep all their stages busy; see chapter 08.
#
# Once both exercises of the lab are solved, run it as a program in a terminal:
# `torchrun --nproc-per-node 4 labs/gradient_accumulation.py`. It trains longer than the cells
# above, so its accuracy is another one.

# %% [markdown]
# ## Put to the test
#
# Three statements on batches in parts, and what was found.

# %% jupyter={"source_hidden": true}
# The verdicts are computed from what was measured above.
uneven, weighed = compare(mean_of_means, 29), compare(accumulation.accumulate, 29)
is_same = dict(rows)
holds = weighed[1] and equal
put_to_the_test(f"""
- Gradient accumulation is supposed to be equivalent to training on the full batch | Hugging Face,
  “Fixing Gradient Accumulation” (October 2024) |
  {"right" if all(is_same.values()) and uneven[1] else "depends"} | a mean of means is off by
  {uneven[2]} for parts of 29 and 1, and by {relative_gap(by_means, whole):.0%} for tokens (sections
  1 and 3). Equal parts are right, {"also" if is_same["BatchNorm"] else "but not"} with BatchNorm
  (section 2)
- [C051] The gradient of a batch is the mean of the gradients of its shards, weighted by their
  sizes | book chapter, “The Core Insight: Gradient Averaging” |
  {"right" if holds else "wrong"} | equal, but for rounding, for parts of 29 and 1 (section 1), and
  for four ranks (section 7); not with BatchNorm (section 2)
- DDP with gradient accumulation, for batch size flexibility | web page, “Real-World Applications” |
  {"right" if equal else "wrong"} | 96 samples in micro-batches of 8 give the same weights on one
  rank and on four (section 7); DDP itself is in chapter 03b
""")

# %% [markdown]
# **Sources.** [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation), on
# the mean of means in a library that many use, and how it was found.
#
# **To read on.** [GPipe](https://arxiv.org/abs/1811.06965), for micro-batches in pipelines.
# PyTorch's [tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html).

# %% [markdown]
# ## What you have learnt
#
# * Weigh each part's mean loss by its **share of the samples**; for text, of the tokens that count.
#   A mean of means is wrong as soon as parts differ.
# * Done right, the weights equal those of the large batch, but for rounding. BatchNorm and losses
#   that compare samples are the exceptions, and dropout draws other masks.
# * **Activations** shrink with the micro-batch. Parameters, gradients and optimizer state stay.
# * Very small parts cost time. Several ranks accumulate in silence and average once for each step.
#
# **Your exercises**: 1.3 stands in a cell above, and
# [labs/gradient_accumulation.py](../labs/gradient_accumulation.py) has 1.4 and 1.5. Chapters 03 and
# 08 run on it.
#
# **Next**: [02 · Collectives](02_collectives.ipynb).

# %%
progress("01b")
