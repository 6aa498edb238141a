# %% [markdown]
# # {{title}}
#
# **Into which parts may a batch be cut, and when do the parts give the same gradient as the whole
# batch?** In part 01, all micro-batches had the same size. Real data is not so tidy. The last
# micro-batch of an epoch is smaller, sentences have different lengths, and some layers mix their
# samples. In each of these cases the simple division is wrong, and nothing reports it.

# %% [markdown]
# ![Bars of the share of one token in the gradient, for sentences of 9, 7, 4 and 2 tokens: low in
# the first micro-batch and high in the second, where an outline has the same height for
# all](../assets/covers/01b_batches_in_parts.png)
#
# *Measured in section 3: in a mean of means, a token of a short micro-batch counts too much.*
#
# **After this part you can** accumulate over parts of any size and over tokens, and say when the
# result equals the large batch.
#
# {{takes}} ("Equal, but for rounding" is explained in [00c](00c_what_to_believe.ipynb).)

# %% jupyter={"source_hidden": true}
import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, close, hint, lab, plot_bars, predict, progress, put_to_the_test, relative_gap,
)

# %% tags=["parameters"]
part_size = 8  # of section 1

# %% [markdown]
# ## 1 · Parts of different sizes
#
# Take a batch of 30 samples and a small model. Cut the batch into parts of equal size, then into
# parts of different sizes. Each part's loss is a mean over its samples. As in part 01, divide it by
# the number of parts. This is a **mean of means**.

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

def row_for(way, size, model=model):
    parts = [*zip(x.split(size), y.split(size))]
    whole = gradients_by(mean_of_means, model, F.mse_loss, [(x, y)])
    added = gradients_by(way, model, F.mse_loss, parts)
    error = 0 if close(added, whole) else relative_gap(added, whole)
    return [[len(inputs) for inputs, _ in parts], close(added, whole), f"{error:.1%}"]

# %% [markdown]
# The last row of the next table will have two parts, of 29 samples and of 1. The single sample
# should have a share of 1/30 in the mean, as every other sample. Which share does it get?

# %%
single_guess = predict("In a mean of means of 29 and 1 samples, the single sample has", unit="%")

# %%
HEADS = ["parts", "equal to the whole batch, but for rounding", "error"]
Table(HEADS, [row_for(mean_of_means, size) for size in (10, 5, part_size, 29)])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured: how much a loss counts is its own gradient.
losses = torch.zeros(30, requires_grad=True)
sum(part.mean() / 2 for part in losses.split(29)).backward()
single_guess.compare(100 / 2, 100 * losses.grad[-1].item(), kind="gradients")

# %% [markdown]
# The error is the largest difference, as a share of the largest gradient. Equal parts lose nothing.
# Parts of different sizes give wrong gradients, and no message appears.
#
# A mean of means gives each **part** the same weight. So in the last row, the single sample counts
# as much as the other 29 together.

# %% [markdown]
# ### Exercise {{shares}} · How much each micro-batch counts
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
check("{{shares}}", shares)

# %% [markdown]
# ### Exercise {{accumulate}} · Accumulate micro-batches of any size
#
# This function stands in a lab: a program that also runs as it is, under `torchrun`. Open
# [labs/gradient_accumulation.py](../labs/gradient_accumulation.py), find `def accumulate`, and
# write in place of the three dots. You need not read the rest of the file. `accumulate` gets
#
# * `model`, and `loss_fn(outputs, targets)`, the mean loss over its samples, all of which count;
# * `micro_batches`, a list of `(inputs, targets)` of different sizes, none empty. The first
#   dimension of `targets` is the number of samples.
#
# It leaves in `.grad` the gradient of the mean loss over **all** samples, and returns this mean
# loss as a number. (A tensor without a graph passes, too.) It takes no optimizer step.

# %% [markdown]
# The list and its tensors belong to the caller: leave them as they are. Unlike `backward()`,
# `accumulate` first clears what `.grad` held before.
#
# Example: two parts with 1 and 3 samples and mean losses of 8 and 4. It returns
# $8 \cdot \frac14 + 4 \cdot \frac34 = 5$.
#
# What it may cost: one forward and one backward for each part, and the activations of one part at a
# time. (On a GPU, one `.item()` at the end is cheaper than one for each part: part 01c.)
#
# Save the file, and run the next cells again; you need not restart anything. A function of the lab
# that you have not written yet is taken from the solution. The first line below says which ones are
# yours.

# %% tags=["nbval-ignore-output"]
accumulation = lab("gradient_accumulation")
check("{{accumulate}}")

# %%
Table(HEADS, [row_for(accumulation.accumulate, size) for size in (10, part_size, 29)])

# %% [markdown]
# ## 2 · Which layers allow it?
#
# With some layers no weighing helps, and a training in parts is another training. So you have to
# know which ones.
#
# The parts give the gradient of the large batch if the loss of each sample depends on this sample
# alone. The next cell tries a model with nothing in the middle, and then with LayerNorm, Dropout
# and BatchNorm there. `accumulate` weighs the three parts of 10 samples correctly.

# %%
layers_guess = predict("LayerNorm, Dropout, BatchNorm: in how many of them do the parts differ",
                       unit="of 3")

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
    rows.append([name, row_for(accumulation.accumulate, 10, mixed)[1]])
Table(["layer between", "three parts equal the whole batch"], rows)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
layers_guess.compare(2, sum(not equal for _, equal in rows[1:]), kind="gradients")

# %% [markdown]
# **LayerNorm** uses the numbers of one sample only. **BatchNorm** uses the mean and the variance
# over the samples that go through together: with parts of 10, these are other numbers than with 30.
# No factor repairs that. It also updates its running averages once for each part.
#
# **Dropout** draws random masks. In parts, each sample got another mask than in the whole batch.
# With several dropout layers the same seed does not help: the whole batch draws all masks of the
# first layer, then all of the second. Accumulation draws the masks of all layers for part 1, then
# for part 2. The gradients differ, but this is no mistake. Each mask is from the same distribution.

# %% [markdown]
# *Contrastive learning* has a loss that compares the samples of a batch with each other. A part has
# fewer samples to compare, and no factor mends that. Here another order of work does: compute all
# outputs in parts, without activations, then the loss and its gradient with respect to the outputs,
# and then forward and backward of one part after another. This is GradCache ([Gao et al.
# 2021](https://arxiv.org/abs/2101.06983)), at the price of a second forward, which needs the random
# state of the first if there is dropout. It was not tried here.

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
guess = predict("A token of the second counts more than one of the first, by a factor of",
                unit="times")

# %%
def weight_of_a_token(lengths):
    """In each micro-batch: the gradient of one token's score, which tells how much it counts."""
    scores = [torch.zeros(sum(part), 30, requires_grad=True) for part in lengths]
    for logits in scores:  # one row of 30 scores for each token
        targets = torch.zeros(len(logits), dtype=torch.long)
        (F.cross_entropy(logits, targets) / len(scores)).backward()
    return [logits.grad[0, 0].item() for logits in scores]

long, short = weight_of_a_token(lengths)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
guess.compare(theory=(12 + 11) / (3 + 2), measured=short / long, kind="gradients")

# %% [markdown]
# One token of the short micro-batch counts as much as 4.6 tokens of the long one. The next picture
# shows the same for sentences of other lengths.

# %% tags=["cover"]
others = [[9, 7], [4, 2]]
pairs = [(n, weight) for part, weight in zip(others, weight_of_a_token(others)) for n in part]
total = sum(n * weight for n, weight in pairs)
plot_bars([f"sentence of {n}" for n, _ in pairs],
          {"mean of means": [100 * weight / total for _, weight in pairs]},
          "share of one token in the gradient (%)",
          predicted={"mean of means": [100 / sum(n for n, _ in pairs)] * 4},
          title="A token of a short micro-batch counts too much (outline: all count the same)")

# %% [markdown]
# The remedy: sum the losses of the tokens instead of averaging them, and divide by the number of
# tokens that count in the **whole** batch. This number is known before the first backward, because
# all targets are there.
#
# This is easily overlooked. Hugging Face's `Trainer` took a mean of means until October 2024, says
# [their report](https://huggingface.co/blog/gradient_accumulation).

# %% [markdown]
# ### Exercise {{accumulate_tokens}} · Accumulate micro-batches with padded tokens
#
# In [labs/gradient_accumulation.py](../labs/gradient_accumulation.py), write `accumulate_tokens`.
# It gets `model` and `micro_batches`, a list of `(tokens, targets)`. Both are tensors of integers,
# of shape (sentences, length). `model(tokens)` returns scores of shape (sentences, length,
# vocabulary). Targets that are −100 (`PADDING`) do not count.

# %% [markdown]
# It leaves in `.grad` the gradient of the mean cross-entropy over all tokens that count, in all
# micro-batches together, and returns this mean as a Python number. It clears `.grad` first, and
# keeps one micro-batch's activations at a time.
#
# Example: three tokens of the first micro-batch count, with losses 1, 2 and 3, and one of the
# second, with a loss of 6. It returns $(1 + 2 + 3 + 6) / 4 = 3$.
#
# A micro-batch may contain nothing but padding. `count_tokens(targets)`, in the same file, says how
# many targets count. `F.cross_entropy` wants scores of shape (n, vocabulary) and targets of shape
# (n).

# %% tags=["nbval-ignore-output"]
check("{{accumulate_tokens}}")

# %% [markdown]
# Long texts are often cut into micro-batches by a budget of tokens, instead of a number of
# sentences: [dynamic
# batching](https://docs.nvidia.com/nemo/rl/0.8.0/design-docs/sequence-packing-and-dynamic-batching.html).
# Ranks may then have different numbers of micro-batches. Where each micro-batch has a collective,
# the others hang, unless the rank with fewer adds micro-batches of padding, which
# `accumulate_tokens` accepts. Part 03f divides by the tokens of all ranks.

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
# All cases of this part in one table:
#
# | in the model or in the data | do the parts give its gradient? |
# |---|---|
# | equal parts, each mean loss divided by their number | yes |
# | parts of different sizes | yes, if each mean is weighed by its share of samples |
# | sentences with padding | yes, if each token counts the same |
# | dropout | no: other random masks, but from the same distribution |
# | BatchNorm | no, and no factor helps |
# | losses that compare samples | no, and no factor helps; GradCache does |
# | gradient clipping, `GradScaler` | yes, if done once for each step (part 01, section 4) |

# %% [markdown]
# ## Put to the test
#
# A statement on batches in parts, and what was found.

# %% jupyter={"source_hidden": true}
# The verdicts are computed from what was measured above.
uneven = row_for(mean_of_means, 29)
is_same = dict(rows)
put_to_the_test(f"""
- Gradient accumulation is supposed to be equivalent to training on the full batch | Hugging Face,
  “Fixing Gradient Accumulation” (October 2024) |
  {"right" if all(is_same.values()) and uneven[1] else "depends"} | a mean of means is off by
  {uneven[2]} for parts of 29 and 1, and by {relative_gap(by_means, whole):.0%} for tokens (sections
  1 and 3). Equal parts are right, {"also" if is_same["BatchNorm"] else "but not"} with BatchNorm
  (section 2)
""")

# %% [markdown]
# **Sources.** [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation), on
# the mean of means in a library that many use, and how it was found.

# %% [markdown]
# ## What you have learnt
#
# * Weigh each part's mean loss by its **share of the samples**; for text, of the tokens that count.
#   A mean of means is wrong as soon as parts differ.
# * Weighed like this, the gradient equals that of the large batch, but for rounding.
# * BatchNorm and losses that compare samples are the exceptions, because no factor helps. Dropout
#   draws other masks.
#
# **Your exercises**: {{shares}} stands in a cell above, and
# [labs/gradient_accumulation.py](../labs/gradient_accumulation.py) has {{accumulate}} and {{accumulate_tokens}}. Chapters 03 and
# 08 run on it.
#
# **Next**: {{next}}.

# %%
progress("01b")
