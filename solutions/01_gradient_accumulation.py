# %% [markdown]
# # 01 · Gradient accumulation
#
# *How can a small memory take a large batch?* A batch of 1024 samples needs the activations of
# 1024 samples at the same time, and they may not fit. So take 8 samples, compute their gradients,
# forget their activations, and go on. The gradients of all 128 small parts add up by themselves;
# then comes one step. The parts are called **micro-batches**.
#
# This takes no second process, and yet it belongs here: chapters 03 and 08 stand on it. First with
# two houses and every decimal, then with any model, then with real data.

# %% [markdown]
# ![Paths of two weights over the contours of the loss: one by one in 32 short steps, accumulated
# in 4 long ones](../assets/covers/01_gradient_accumulation.png)
#
# *Computed in section 2: the same eight houses, with 32 steps and with 4.*
#
# **After this part you can** train with a batch that does not fit in memory, and get the weights
# that the whole batch would have given, unless a layer such as BatchNorm mixes its samples.
#
# **It takes** about 25 minutes, and 35 more for 5 exercises. **It needs** a training loop in
# PyTorch; [chapter 00](00_start_here.ipynb) for the last section.

# %% jupyter={"source_hidden": true}
import math

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, close, draw_graph, draw_paths, explore, hint, lab, launch, measure,
    plot_against, plot_memory, predict, progress, put_to_the_test, relative_gap,
)

# %% tags=["parameters"]
# Of section 8, with real data.
batch_size = 64
micro_batch = 8
learning_rate = 0.2

# %% [markdown]
# ## 1 · Two houses
#
# A model with three parameters predicts the price of a house from its bedrooms $x_1$ and
# bathrooms $x_2$:
#
# $$y = x_1 w_1 + x_2 w_2 + b, \qquad \text{loss} = (y - \text{price})^2$$
#
# The example, its numbers and its digits are from slides on distributed training (named at the
# end). Here PyTorch computes them again, in float64, where nothing gets lost that could be seen.

# %%
HOUSES = [(6.0, 2.0, 15.0), (5.0, 2.0, 12.0)]  # bedrooms, bathrooms, price
START = {"w1": 0.773, "w2": 0.321, "b": 0.067}
ALPHA = 0.001  # the learning rate of this example

def forward(house, w1, w2, b):
    x1, x2, price = house
    nodes = {"z1": x1 * w1, "z2": x2 * w2}
    nodes["y"] = nodes["z1"] + nodes["z2"] + b
    nodes["loss"] = (nodes["y"] - price) ** 2
    for node in nodes.values():
        node.retain_grad()  # autograd would keep gradients for parameters only
    return nodes

# %% [markdown]
# PyTorch remembers how each value was computed: the **computation graph**. Training goes through
# four stages. **forward** computes values and builds the graph. **backward** walks it in the other
# direction and leaves gradients in `.grad`. **step** moves the parameters. **zero_grad** clears the
# gradients: `None` means that there is no tensor at all.
#
# `train` steps after every `every` houses, 1 for one by one, and takes a snapshot after each stage.
# Move the slider from stage to stage. In a backward, read from right to left: a box multiplies the
# gradient that reaches it by the factor on the arrow, and where two arrows meet, gradients are
# added. That is the chain rule, and the reason why `.grad` adds.

# %%
def train(houses, start, alpha, every):
    p = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in start.items()}
    optimizer = torch.optim.SGD(p.values(), lr=alpha)
    for number, house in enumerate(houses, 1):
        nodes = forward(house, **p)
        yield snapshot(number, "forward", p, house, nodes)
        nodes["loss"].backward()
        yield snapshot(number, "backward", p, house, nodes)
        if number % every == 0:
            optimizer.step()
            yield snapshot(number, "step", p)
            optimizer.zero_grad()
            yield snapshot(number, "zero_grad", p)

# %%
def snapshot(number, stage, parameters, house=(), nodes=None):
    tensors = parameters | (nodes or {})
    values = dict(zip(("x1", "x2", "target"), house)) | {n: t.item() for n, t in tensors.items()}
    slopes = {n: t.grad.item() if t.grad is not None else None for n, t in tensors.items()}
    return {"house": number, "stage": stage, "values": values, "gradients": slopes}

one_by_one = list(train(HOUSES, START, ALPHA, every=1))
for number in (1, 2):
    print(f"house {number}:", " → ".join(s["stage"] for s in one_by_one if s["house"] == number))

# %%
def show_stage(stages, number):
    now, before = stages[number - 1], stages[max(number - 2, 0)]
    title = f"Stage {number} of {len(stages)}, house {now['house']}: {now['stage']}"
    return draw_graph(now["stage"], now["values"], now["gradients"], before["gradients"], title)

explore(lambda stage: show_stage(one_by_one, stage), stage=[2, 1, 3, 4, 5, 6, 7, 8])

# %% [markdown]
# ### Exercise 1.1
#
# Compute the three gradients of one house yourself, without autograd, as three numbers in the
# order $w_1, w_2, b$. Write in place of the three dots. The cell after it tries your function on
# other houses, and tells what a wrong answer has misunderstood. `hint("1.1")` gives the first
# hint of three; called again, the next. Each exercise has two or three.

# %%
def house_gradients(x1, x2, price, w1, w2, b):
    ### BEGIN SOLUTION
    slope = 2 * (x1 * w1 + x2 * w2 + b - price)
    return slope * x1, slope * x2, slope
    ### END SOLUTION

# %%
check("1.1", house_gradients)

# %% [markdown]
# ## 2 · Accumulate
#
# Now leave out the step and the zero after the first house. Its gradients stay in `.grad`, and
# those of the second house are *added*: that is what `backward()` always does. You only see it
# when nobody clears.
#
# One by one, $w_1$ grew from 0.773 to 0.9563: by 183.3 thousandths. By how much does one step with
# the gradients of both move it? You can calculate it: the first gradient is −115.836, the second
# house has 5 bedrooms, and is predicted at $y = 4.574$ instead of 12.

# %%
guess = predict("After one step with the gradients of both houses, w1 is larger by",
                unit="thousandths")

# %%
accumulated = list(train(HOUSES, START, ALPHA, every=2))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
growth = accumulated[-1]["values"]["w1"] - START["w1"]
theory = -ALPHA * (-115.836 + 5 * 2 * (4.574 - 12))
guess.compare(1000 * theory, 1000 * growth, kind="parameters")

# %%
explore(lambda stage: show_stage(accumulated, stage), stage=[4, 1, 2, 3, 5, 6])

# %% [markdown]
# Same data, same learning rate, other weights. The first gradient is the same in both loops. The
# second is not: one by one, it is taken at weights that have already moved, where the error is
# smaller. So accumulation is **not** a cheaper way to do the same steps. It is another algorithm:
# fewer and longer steps, each along the gradient of all the data. Whether that learns better,
# section 8 asks.
#
# Below, both seen from above. Two houses hardly disagree. The second picture has eight invented
# ones that do (and no $b$): one by one, each pulls to its own side, and the path zigzags.
# Accumulated, each of only 4 steps goes along the steepest descent of them all.

# %%
def path(stages):
    moves = [s["values"] for s in stages if s["stage"] in ("forward", "step")]
    places = [(values["w1"], values["w2"]) for values in moves]
    return [place for i, place in enumerate(places) if i == 0 or place != places[i - 1]]

def loss_of_both(w1, w2, b=START["b"]):
    return sum((x1 * w1 + x2 * w2 + b - price) ** 2 for x1, x2, price in HOUSES)

draw_paths(loss_of_both, {"one by one": path(one_by_one), "accumulated": path(accumulated)},
           "w1", "w2", f"loss of both, at b = {START['b']}", "One pass over two houses")

# %% tags=["cover"]
generator = torch.Generator().manual_seed(1)
x = torch.randn(8, 2, generator=generator).double() * torch.tensor([1.0, 0.6])
price = x.sum(1) + 0.4 * torch.randn(8, generator=generator).double()

def walk(size, passes=4, alpha=0.04):
    places = [torch.tensor([-1.0, -1.0]).double()]
    for some, paid in [*zip(x.split(size), price.split(size))] * passes:
        places.append(places[-1] - alpha * 2 * some.T @ (some @ places[-1] - paid))
    return torch.stack(places)

def loss_of_eight(w1, w2):
    return sum((a * w1 + b * w2 - paid) ** 2 for (a, b), paid in zip(x.tolist(), price.tolist()))

draw_paths(loss_of_eight, {"one by one": walk(1), "accumulated": walk(8)}, "w1", "w2",
           "loss of all eight", "Four passes over eight houses")

# %% [markdown]
# ## 3 · Every decimal
#
# What the slides print, typed from them, beside what autograd finds. "Same" means: rounded to as
# many digits as the slides print, it is the printed number. Which one is off?

# %%
SLIDES = {
    "one by one": {
        1: "z1 4.638 z2 0.642 y 5.347 loss 93.180", 2: "w1 -115.836 w2 -38.612 b -19.306",
        3: "w1 0.8888 w2 0.3596 b 0.0863", 5: "z1 4.444 z2 0.719 y 5.249 loss 45.5664",
        6: "w1 -67.5029 w2 -27.0012 b -13.5006", 7: "w1 0.9563 w2 0.3866 b 0.0998",
    },
    "accumulated": {
        3: "z1 3.8650 z2 0.6420 y 4.5740 loss 55.1455",
        4: "w1 -190.096 w2 -68.3160 b -34.1580", 5: "w1 0.9631 w2 0.3893 b 0.1012",
    },
}
LOOPS = {"one by one": one_by_one, "accumulated": accumulated}

# %%
def beside(loop, stage):
    now, words = LOOPS[loop][stage - 1], SLIDES[loop][stage].split()
    exact = now["gradients" if now["stage"] == "backward" else "values"]
    return [[name, slide, exact[name], f"{exact[name]:.{len(slide.split('.')[1])}f}" == slide]
            for name, slide in zip(words[::2], words[1::2])]

Table(["loop", "stage", "of", "slides", "autograd", "same"],
      [[loop, f"{stage} {LOOPS[loop][stage - 1]['stage']}", name, slide, f"{exact:.10g}", same]
       for loop in SLIDES for stage in SLIDES[loop]
       for name, slide, exact, same in beside(loop, stage)],
      note="From a prediction of 5.249 for a price of 12 follow a loss of "
           f"{(5.249 - 12) ** 2:.4f} and a gradient of b of {2 * (5.249 - 12):.4f}.")

# %% [markdown]
# One digit: the second house's prediction is 5.24971, which rounds to 5.250; the slides have 5.249,
# cut off. Only the printed number was cut, for the loss and the gradient beside it do not follow
# from 5.249 (the line below the table): their program went on with every decimal. A habit worth
# having: compute the next number from the printed one, and see whether it fits.

# %% [markdown]
# ## 4 · Sum or mean?
#
# `backward()` adds. So accumulated gradients are those of the **sum** of the losses. But a loss
# function like `nn.MSELoss()` gives the **mean** over its batch. To take the step of one large
# batch, divide each micro-batch's loss by their number $k$ before its backward:
#
# $$\nabla\,\frac1k\sum_{i=1}^{k} L_i = \sum_{i=1}^{k} \nabla\,\frac{L_i}{k}$$

# %%
def one_step(loss_fn, parts, divide=1):
    layer, houses = nn.Linear(2, 1).double(), torch.tensor(HOUSES, dtype=torch.float64)
    start = torch.tensor([*START.values()], dtype=torch.float64)
    nn.utils.vector_to_parameters(start, layer.parameters())
    for rows in parts:
        (loss_fn(layer(houses[rows, :2]), houses[rows, 2:]) / divide).backward()
    torch.optim.SGD(layer.parameters(), lr=ALPHA).step()
    return [f"{w:.6f}" for w in nn.utils.parameters_to_vector(layer.parameters()).tolist()]

mean, total = nn.MSELoss(), nn.MSELoss(reduction="sum")
steps = {"two backwards": one_step(mean, [[0], [1]]),
         "one batch, sum": one_step(total, [[0, 1]]),
         "two backwards, each loss / 2": one_step(mean, [[0], [1]], divide=2),
         "one batch, mean": one_step(mean, [[0, 1]])}
Table(["one step", *START], [[how, *weights] for how, weights in steps.items()])

# %% [markdown]
# Whoever forgets the division trains with a learning rate that is $k$ times too large. Plain SGD
# may diverge. Adam all but hides the mistake, since it divides by the size of the gradients.
#
# ### Exercise 1.2
#
# Write the loop for any model. `micro_batches` is a list of (inputs, targets), all equally large,
# and `loss_fn` a mean. After every `every` of them (it may be 1), take one step with the gradients
# of the mean over these, and clear. Their number is a multiple of `every`, and `.grad` is clean at
# the start. Small memory is the aim: one backward for each micro-batch. The check compares with
# training on large batches, counts the steps, and measures the activations.

# %%
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    ### BEGIN SOLUTION
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets)
        (loss / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    ### END SOLUTION

# %%
check("1.2", train_accumulated)

# %% [markdown]
# ## 5 · Parts of different sizes
#
# The same for any model, and 30 samples. Divide each micro-batch's mean loss by their number $k$,
# and compare with the gradients of the whole batch, in float64.

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).double()
x, y = torch.randn(30, 5).double(), torch.randn(30, 1).double()

def pieces_of(size):
    return [*zip(x.split(size), y.split(size))]

def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

def mean_of_means(model, loss_fn, pieces):
    model.zero_grad()
    for inputs, targets in pieces:
        (loss_fn(model(inputs), targets) / len(pieces)).backward()

# %%
def against_whole(way, size):
    mean_of_means(model, F.mse_loss, [(x, y)])
    whole = gradients(model)
    way(model, F.mse_loss, pieces_of(size))
    equal, gap = close(gradients(model), whole), relative_gap(gradients(model), whole)
    sizes = [len(inputs) for inputs, _ in pieces_of(size)]
    return [sizes, equal, "none" if equal else f"{gap:.1%}"]

heads = ["micro-batches", "equal to the whole batch, but for rounding", "error"]
Table(heads, [against_whole(mean_of_means, size) for size in (10, 5, 8, 29)])

# %% [markdown]
# Equal parts: nothing of the result is lost. Uneven parts: wrong, by 6% to 86% of the largest
# gradient. A mean of means gives each *micro-batch* the same say, and so the one sample of the last
# row as much as the other 29. Training still seems to work. *Break it*: two cells up, put
# `nn.BatchNorm1d(16)` after the first layer, and one cell up take out the 29 (a single sample is
# refused). Now equal parts differ, too. Undo both.
#
# ### Exercise 1.3
#
# By which factor has each micro-batch's mean loss to be multiplied, so that they add up to the mean
# over all samples? `sizes` is a list such as `[8, 8, 8, 6]`; return a list of factors.

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
# Open [labs/gradient_accumulation.py](../labs/gradient_accumulation.py) and write `accumulate`,
# with parts of any size. A **lab** is a program that later runs as it is, under `torchrun`. What
# you have not written yet is taken from the solution, and the line below says whose is whose. Save
# the file, and run the cells again: nothing need be restarted.

# %% tags=["nbval-ignore-output"]
accumulation = lab("gradient_accumulation")
check("1.4")

# %%
Table(heads, [against_whole(accumulation.accumulate, size) for size in (10, 8, 29, 1)])

# %% [markdown]
# ## 6 · Tokens
#
# Sentences differ in length, and are padded to fill a rectangle. Padding does not count:
# `F.cross_entropy` leaves out targets of −100. So micro-batches with equally many *sentences* have
# different numbers of *tokens*. Below are two of them (□ a token, · padding). If the losses of both
# are averaged as a mean of means: how many times as much does a token of the second count?

# %%
lengths = [[12, 11], [3, 2]]
for piece in lengths:
    print(*("□" * n + "·" * (max(piece) - n) for n in piece), sep="\n", end="\n\n")

# %%
guess = predict("Mean of means: a token of the second, against one of the first", unit="times")

# %%
scores = [torch.zeros(sum(piece), 30, requires_grad=True) for piece in lengths]
for logits in scores:
    targets = torch.zeros(len(logits), dtype=torch.long)
    (F.cross_entropy(logits, targets) / len(scores)).backward()

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
weights = [logits.grad[0, 0].item() for logits in scores]
guess.compare(theory=(12 + 11) / (3 + 2), measured=weights[1] / weights[0], kind="gradients")

# %% [markdown]
# Right is to divide by all tokens that count, in the whole batch. They are known before the first
# backward: the targets are there. Easily overlooked: Hugging Face's `Trainer` took means of means
# until October 2024.
#
# ### Exercise 1.5, in the lab
#
# In [labs/gradient_accumulation.py](../labs/gradient_accumulation.py), write `accumulate_tokens`;
# `count_tokens`, in the same file, tells how many targets count. One of the micro-batches in the
# check is nothing but padding.

# %% tags=["nbval-ignore-output"]
check("1.5")

# %%
torch.manual_seed(0)
words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30)).double()
tokens, targets = torch.randint(30, (2, 4, 12))
for row, length in enumerate([12, 11, 3, 2]):
    targets[row, length:] = -100

def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

def gradients_by(way, *arguments):
    way(words, *arguments)
    return gradients(words)

whole = gradients_by(mean_of_means, token_loss, [(tokens, targets)])
halves = [*zip(tokens.split(2), targets.split(2))]
by_means = gradients_by(mean_of_means, token_loss, halves)
by_tokens = gradients_by(accumulation.accumulate_tokens, halves)
print(f"mean of means: off by {relative_gap(by_means, whole):.0%}")
print("accumulate_tokens: equal to the whole batch, but for rounding:", close(by_tokens, whole))

# %% [markdown]
# ## 7 · What it saves
#
# Between forward and backward, each layer keeps what its backward will need: the **activations**.
# They grow with the number of samples. For each sample, this model keeps its input and the outputs
# of two ReLUs and of the softmax, 4 bytes for each number, and 8 for the label:
#
# $$4\,(64 + 512 + 512 + 10) + 8 = 4400 \text{ bytes}$$

# %%
def step(batch, micro_batch):
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                          nn.Linear(512, 10))
    with measure("step"):
        for _ in range(batch // micro_batch):
            images, labels = torch.randn(micro_batch, 64), torch.randint(10, (micro_batch,))
            loss = F.cross_entropy(model(images), labels)
            (loss * micro_batch / batch).backward()

# %%
guess = predict("2048 samples keep 9.01 MB of activations. In micro-batches of 128?", unit="MB")

# %%
sizes = [128, 256, 512, 1024, 2048]
peaks = [launch(step, 2048, size, world_size=1, device="cpu")["step"].peak_bytes[0]
         for size in sizes]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
measured = [peak["activations"] for peak in peaks]
guess.compare(4400 * 128 / 1e6, measured[0] / 1e6, kind="activations")

# %%
print("measured, less 4400 bytes for each sample:", [m - 4400 * n for m, n in zip(measured, sizes)])
plot_against(sizes, {"activations": [m / 1e6 for m in measured]}, "samples in a micro-batch",
             "activations at most (MB)", {"activations": [4400 * n / 1e6 for n in sizes]},
             title="2048 samples, in micro-batches of different sizes")

# %% tags=["nbval-ignore-output"]
def both_ways():
    step(2048, 2048)  # to warm up
    step(2048, 512)
    with measure("one batch, then 4 micro-batches"):
        step(2048, 2048)
        step(2048, 512)

plot_memory(launch(both_ways, world_size=1, device="cpu"), "one batch, then 4 micro-batches",
            title="2048 samples: in one go, then in four micro-batches")

# %% [markdown]
# Exactly proportional, but for 4 bytes: `cross_entropy` stores how many targets it averaged over.
# Each backward eats up the activations of its own forward; the grey "other" lives briefly, above
# all the backward's gradients of activations. Parameters and gradients live through every later
# forward, and so would the optimizer's state: accumulation does nothing for a model that is itself
# too large (chapter 06 does). What it costs is time: the arithmetic is the same, but small matrix
# products keep a processor less busy. Do not read that off this picture. *Break it*: how long does
# `step(2048, 4)` take, and how long `step(2048, 2048)`, with `memory=False` in its `measure`?

# %% [markdown]
# ## 8 · Does it learn?
#
# 1797 real handwritten digits of 8 × 8 pixels, which come with scikit-learn. Every fifth one is
# kept for the test. Three ways with the same first weights and the same order: a step for each
# batch of 64, in one go; the same in micro-batches of 8, accumulated; and a step for each 8.

# %%
images, labels, test_images, test_labels = data = accumulation.digits()

def train_digits(batch, micro_batch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
    optimizer, wrong = torch.optim.SGD(model.parameters(), lr=learning_rate), []
    for _ in range(8):
        for some in torch.randperm(len(labels)).split(batch):
            parts = [(images[i], labels[i]) for i in some.split(micro_batch)]
            accumulation.accumulate(model, F.cross_entropy, parts)
            optimizer.step()
        with torch.no_grad():  # only looked at: nothing is kept for a backward
            wrong.append((model(test_images).argmax(1) != test_labels).sum().item())
    return nn.utils.parameters_to_vector(model.parameters()).detach(), wrong

# %%
one_go, wrong_one_go = train_digits(batch_size, batch_size)
in_parts, wrong_in_parts = train_digits(batch_size, micro_batch)
small_steps, wrong_small_steps = train_digits(micro_batch, micro_batch)
taken = 8 * math.ceil(len(labels) / batch_size)  # optimizer steps
print("accumulated equals one go, but for rounding:", close(in_parts, one_go, steps=taken))
print(f"test images right: {1 - wrong_in_parts[-1] / len(test_labels):.1%}")

# %%
ways = {"accumulated": wrong_in_parts, "one go": wrong_one_go,
        f"a step for each {micro_batch}": wrong_small_steps}
plot_against([*range(1, 9)], ways, "passes over the training images",
             f"wrong, of {len(test_labels)} test images",
             title="Handwritten digits: one go lies on top of accumulated")

# %% [markdown]
# The accumulated weights are those of one go, with an eighth of its activations. (In float32 they
# differ by rounding.) A step for each 8 is another algorithm, with eight times as many steps. A
# large batch is no aim in itself: it is what many GPUs at work on one step amount to, and
# accumulation lets a few, or one, take the same step.
#
# ## 9 · On several ranks
#
# Each rank accumulates over micro-batches of its own, without a word to the others. Only then are
# gradients added up, by an all-reduce; `average_over_ranks` in the lab does that. How many bytes
# does it save, with 8 micro-batches? And are four ranks still one?

# %%
def once_or_each_time(micro_batches=8):
    model = nn.Linear(64, 1000)
    for label, every in {"once": micro_batches, "each time": 1}.items():
        with measure(label):
            for number in range(1, micro_batches + 1):
                # Only bytes are looked at here: the gradients are not divided.
                model(torch.randn(8, 64)).square().mean().backward()
                if number % every == 0:
                    accumulation.average_over_ranks(model, 8)

run = launch(once_or_each_time, world_size=4)
ratio = run["each time"].sent_bytes[0] / run["once"].sent_bytes[0]
print(f"an all-reduce after each micro-batch sends {ratio:.1f} times the bytes of one at the end")

# %%
def train_on_ranks(data):
    model, accuracy, work = accumulation.train_classifier(data, passes=5)
    return nn.utils.parameters_to_vector(model.parameters()).detach(), accuracy, work

worlds = {n: launch(train_on_ranks, data, world_size=n, device="cpu").values for n in (1, 4)}
alone, accuracy, _ = worlds[1][0]
equal = all(close(weights, alone, steps=15) for weights, *_ in worlds[4])
print(f"test images right: {accuracy:.1%}")
print(f"with 4 ranks: {worlds[4][0][2]}")
print("four ranks equal one process, but for rounding:", equal)

# %% [markdown]
# 96 samples are 12 micro-batches of 8 on one rank, or 3 on each of four, and the weights are the
# same. (DDP has to be told to be silent that long: `no_sync`, chapter 03. Pipelines need
# micro-batches to keep all stages busy: chapter 08.) As a program, in a terminal, once both
# exercises are solved: `torchrun --nproc-per-node 4 labs/gradient_accumulation.py`. Its accuracy,
# the one above and that of section 8 come from different settings: batches, learning rates, passes.
#
# ## Put to the test
#
# What the slides say about this example, and what was found. *Right*, *wrong*, or *imprecise*:
# right with a condition that is missing.

# %% jupyter={"source_hidden": true}
def verdict(loop, stage):
    wrong = [f"{name} is {exact:.10g}" for name, _, exact, same in beside(loop, stage) if not same]
    return f"wrong digit | {'; '.join(wrong)}" if wrong else "right | " + ", ".join(
        f"{name} {exact:.10g}" for name, _, exact, _ in beside(loop, stage))

put_to_the_test("".join(f"""
- House {LOOPS[loop][stage - 1]["house"]}, {loop}, {LOOPS[loop][stage - 1]["stage"]}:
  {SLIDES[loop][stage]} | PyTorch slides | {verdict(loop, stage)}
""" for loop in SLIDES for stage in SLIDES[loop]))

# %% jupyter={"source_hidden": true}
rounded = {name: round(one_by_one[3]["values"][name], 4) for name in START}
slope = 2 * (5 * rounded["w1"] + 2 * rounded["w2"] + rounded["b"] - 12)
exact, cleared = one_by_one[5]["gradients"]["w1"], one_by_one[7]["gradients"]["w1"]
ends = {loop: ", ".join(f"{stages[-1]['values'][n]:.4f}" for n in START)
        for loop, stages in LOOPS.items()}
count = {loop: sum(s["stage"] == "step" for s in LOOPS[loop]) for loop in LOOPS}
w1 = {how: weights[0] for how, weights in steps.items()}
put_to_the_test(f"""
- One step for both houses ends elsewhere than two steps | PyTorch slides | right |
  w1, w2, b: {ends["accumulated"]}, against {ends["one by one"]} (section 2). Their gradient of w1
  for house 2, {exact:.4f}, comes from unrounded weights: printed ones give {5 * slope:.4f}
- Accumulated gradients are summed | PyTorch slides | imprecise | w1 ends at {w1["two backwards"]},
  as with the sum over one batch ({w1["one batch, sum"]}). A mean loss wants each part divided:
  {w1["two backwards, each loss / 2"]}, as one batch ({w1["one batch, mean"]}; section 4)
- optimizer.zero sets gradients to 0 | PyTorch slides | imprecise | the
  method is called zero_grad, and it leaves {cleared}, no tensor of zeros (section 1)
- Without accumulation parameters change after each item, with it after each batch |
  PyTorch slides | right | {count["one by one"]} steps and {count["accumulated"]} step for
  {len(HOUSES)} houses
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)), for the houses and all
# their printed digits.
#
# **To read on.** [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation),
# on the mean of means in a library that many use, and how it was found.
# [GPipe](https://arxiv.org/abs/1811.06965), for micro-batches in pipelines. *torch.autograd*, on
# [how gradients accumulate](https://docs.pytorch.org/docs/stable/notes/autograd.html).

# %% [markdown]
# ## What you have learnt
#
# * `.grad` adds up over backwards until it is cleared. So many small backwards make one large
#   batch.
# * The loss of a part has to be weighed by its share of the batch. A mean of means is wrong as soon
#   as parts differ in size, or samples in tokens.
# * Activations shrink with the micro-batch. Parameters, gradients and optimizer state stay.
# * Done right, the weights equal those of one go, but for rounding. BatchNorm is an exception: it
#   sees the samples of one micro-batch.
#
# **Your exercises**: those in cells above, and
# [labs/gradient_accumulation.py](../labs/gradient_accumulation.py) has exercises 1.4 and 1.5;
# chapters 03 and 08 run on it.
#
# **Next**: [02 · Collectives](02_collectives.ipynb).

# %%
progress("01")
