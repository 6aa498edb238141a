# %% [markdown]
# # {{title}}
#
# **How can a small memory take a large batch?** To train on 1024 samples at once, a GPU keeps the
# results of all layers for 1024 samples. These results are the **activations**, and they may not
# fit. So take 8 samples, compute their gradients, free their activations, and go on with the next
# 8. The gradients of all 128 small parts add up. Then take one optimizer step.
#
# This is **gradient accumulation**, and the small parts are called **micro-batches**. It needs no
# second process. Data parallel training (chapter 03) and pipelines (chapter 08) build on it.

# %% [markdown]
# ![Paths of two weights over the contours of the loss: one by one in 32 short steps, accumulated
# in 4 long ones](../assets/covers/01_gradient_accumulation.png)
#
# *Computed in section 2: the same eight houses, with 32 steps and with 4.*
#
# **After this part you can** say what `backward()` adds to, when to step and when to clear, and by
# which number to divide the loss.
#
# {{takes}} Nothing here runs on several ranks.

# %% jupyter={"source_hidden": true}
import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, explore, hint, lab, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
# For the eight houses of section 2.
passes = 4
learning_rate = 0.04

# %% [markdown]
# ## 1 · Two houses
#
# We start with a model so small that you can check every number by hand. It has three parameters,
# $w_1$, $w_2$ and $b$. It predicts the price $y$ of a house from its bedrooms $x_1$ and its
# bathrooms $x_2$:
#
# $$y = x_1 w_1 + x_2 w_2 + b, \qquad \text{loss} = (y - \text{price})^2$$
#
# The houses and the first weights come from slides on distributed training (named at the end). We
# use float64, which keeps about 16 digits.

# %%
HOUSES = [(6.0, 2.0, 15.0), (5.0, 2.0, 12.0)]  # bedrooms, bathrooms, price

def first_weights():
    weights = torch.tensor([0.773, 0.321, 0.067], dtype=torch.float64)
    return [weight.requires_grad_() for weight in weights.unbind()]

# %%
w1, w2, b = first_weights()
optimizer = torch.optim.SGD([w1, w2, b], lr=0.001)
for x1, x2, price in HOUSES:
    loss = (x1 * w1 + x2 * w2 + b - price) ** 2  # forward
    loss.backward()
    optimizer.step()
    print(f"loss {loss:.4f}, gradient of w1 {w1.grad:9.4f}, after the step w1 = {w1:.4f}")
    optimizer.zero_grad()

# %% [markdown]
# Each house needs four calls. **forward** computes the loss, and PyTorch notes how each value was
# computed: the **computation graph**. **backward** goes through this graph in the
# opposite direction, and adds the gradients to `.grad`. **step** moves the parameters against their
# gradients. **zero_grad** clears them: `.grad` is `None` again.
#
# A **lab** is a program in labs/ that the notebooks use. The lab
# [two_houses](../labs/two_houses.py) runs the same loop and takes a snapshot after each call. Move
# the slider from snapshot to snapshot.
#
# How to read a backward: start at the loss, on the right, whose own gradient is 1. Follow the
# arrows to the left. Multiply the gradient by the factor on each arrow. This is the chain rule.

# %%
houses, graph = lab("two_houses"), lab("computation_graph")
one_by_one = list(houses.snapshots(every=1))

def show_one_by_one(snapshot):
    return graph.draw_graph(*houses.select_snapshot(one_by_one, snapshot))

explore(show_one_by_one, snapshot=[2, 1, 3, 4, 5, 6, 7, 8])

# %% [markdown]
# ### Exercise {{house_gradients}} · Gradients by hand
#
# Write `house_gradients(x1, x2, price, w1, w2, b)`. It computes the three gradients of one house by
# hand. (The check compares them with autograd.) The function gets the house (`x1`, `x2`, `price`)
# and the weights (`w1`, `w2`, `b`): six numbers. It returns three numbers: the derivatives of the
# loss by $w_1$, by $w_2$ and by $b$, in this order.
#
# Example: `house_gradients(2, 1, 10, 3.0, 1.0, 0.0)`. The prediction is
# $y = 2 \cdot 3 + 1 \cdot 1 + 0 = 7$, and the price is 10. The answer is `(-12.0, -6.0, -6.0)`.
#
# Write in place of the three dots. The next cell tries your function on other houses, and explains
# what is wrong. `hint("{{house_gradients}}")` gives a first hint; call it again for the next.

# %%
def house_gradients(x1, x2, price, w1, w2, b):
    ### BEGIN SOLUTION
    slope = 2 * (x1 * w1 + x2 * w2 + b - price)
    return slope * x1, slope * x2, slope
    ### END SOLUTION

# %%
check("{{house_gradients}}", house_gradients)

# %% [markdown]
# ## 2 · Leave out the step in between
#
# Now both houses go through forward and backward **before** the optimizer steps. Nobody clears the
# gradients after the first house. So the second backward finds them in `.grad`, and adds its own.
#
# With a step after each house, $w_1$ went from 0.7730 to 0.9563. Where does it go with one step for
# both houses? You can compute it:
#
# * The learning rate is 0.001.
# * The first house has a gradient of −115.836 for $w_1$.
# * The second house has 5 bedrooms. With the first weights, its prediction is $y = 4.574$, and its
#   price is 12.

# %%
guess = predict("One step with the gradients of both houses takes w1 from 0.773 to", unit="w1")

# %%
w1, w2, b = first_weights()
optimizer = torch.optim.SGD([w1, w2, b], lr=0.001)
for x1, x2, price in HOUSES:
    loss = (x1 * w1 + x2 * w2 + b - price) ** 2
    loss.backward()  # adds to .grad
    print(f"loss {loss:.4f}, gradient of w1 is now {w1.grad:9.4f}")
optimizer.step()  # once, after the loop
print(f"after the step w1 = {w1:.4f}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
theory = 0.001 * (115.836 - 5 * 2 * (4.574 - 12))
guess.compare(0.773 + theory, w1.item(), kind="parameters")

# %%
accumulated = list(houses.snapshots(every=2))

def show_accumulated(snapshot):
    return graph.draw_graph(*houses.select_snapshot(accumulated, snapshot))

explore(show_accumulated, snapshot=[4, 1, 2, 3, 5, 6])

# %% [markdown]
# Why does `backward()` add? A model may use a parameter twice. It then gets a gradient from each
# use, and the chain rule asks for their sum. Two backwards are the same case: autograd adds.
#
# The two loops end at different weights. The first gradient is the same in both. The second one is
# not: one by one, $w_1$ has already moved when the second house comes, and the error is smaller.
# So accumulation is not a cheaper way to take the same steps. It takes fewer steps, each with the
# gradients of all the data.

# %% [markdown]
# The two houses pull in nearly the same direction. The next picture has eight invented houses that
# disagree, and only two weights. One by one, each house pulls to its own side, and the path
# zigzags. Accumulated, each step follows the gradient of the loss of all eight.
#
# Darker means a larger loss. Both axes have the same scale. So you can see that each accumulated
# step starts at a right angle to the contour: the gradient points along the steepest slope.

# %% tags=["cover"]
walks = {"one by one": houses.walk(1, passes, learning_rate),
         "accumulated": houses.walk(8, passes, learning_rate)}
lab("loss_paths").draw_paths(
    houses.loss_of_eight, walks, "w1", "w2", "loss of all eight",
    f"{passes} passes over eight houses", equal=True,
)

# %% [markdown]
# Do not read from this that accumulation learns more from a pass. Both paths have the same learning
# rate, and here gradients are **added**. So an accumulated step is up to eight times as long as a
# single one. With the mean of the eight gradients it would be an eighth of that.
#
# *Break it.* Set `learning_rate = 0.04 / 8` at the top, and run the cell of the picture again. Now
# accumulated steps are as long as with the mean, and four do not come far. Then set 0.2. One by one
# still comes close to the minimum. What do the longer steps do? (Each jumps over the minimum, and
# lands farther from it than before: the training diverges.)

# %% [markdown]
# ## 3 · Sum or mean?
#
# Accumulation needs one division. If you forget it, the steps have another length, and no message
# appears.
#
# So far, each house had a loss of its own, and the gradients were added. In practice a loss
# function such as `nn.MSELoss()` returns the **mean** over its batch. Take one step in two ways,
# both with `nn.MSELoss()`:
#
# 1. Two backwards, with one house each.
# 2. One backward, with both houses in one batch.
#
# How many times as far does the first way move $w_1$?

# %%
guess = predict("How far w1 moves with two backwards, divided by how far it moves with one",
                unit="times")

# %%
data = torch.tensor(HOUSES, dtype=torch.float64)
mean, total = nn.MSELoss(), nn.MSELoss(reduction="sum")

def one_step(loss_fn, parts, divide_by=1):
    layer = nn.Linear(2, 1).double()
    nn.utils.vector_to_parameters(torch.stack(first_weights()), layer.parameters())
    for rows in parts:
        loss = loss_fn(layer(data[rows, :2]), data[rows, 2:])
        (loss / divide_by).backward()
    torch.optim.SGD(layer.parameters(), lr=0.001).step()
    return nn.utils.parameters_to_vector(layer.parameters()).tolist()

# %%
steps = {
    "two backwards": one_step(mean, [[0], [1]]),
    "one backward, sum": one_step(total, [[0, 1]]),
    "two backwards, each loss / 2": one_step(mean, [[0], [1]], divide_by=2),
    "one backward, mean": one_step(mean, [[0, 1]]),
}
Table(["one step", "w1", "w2", "b"],
      [[how, *(f"{weight:.6f}" for weight in weights)] for how, weights in steps.items()])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
moved = {how: weights[0] - 0.773 for how, weights in steps.items()}
guess.compare(2, moved["two backwards"] / moved["one backward, mean"], kind="parameters")

# %% [markdown]
# Accumulated gradients are the gradients of the **sum** of the losses. A batch usually asks for the
# **mean**. With $k$ equally large micro-batches and their mean losses $L_1, \dots, L_k$, the mean
# over the whole batch is $\frac1k \sum_i L_i$. So divide each loss by $k$ before its backward:
#
# $$\nabla\,\frac1k\sum_{i=1}^{k} L_i = \sum_{i=1}^{k} \nabla\,\frac{L_i}{k}$$
#
# ($\nabla L$ is the gradient of $L$.) What happens if you forget the division? Every gradient is
# $k$ times too large. So the first step of SGD is $k$ times as long as it should be. Adam divides
# each gradient by an average of its own size. How many times as long is the first step of Adam
# without the division? Decide before you run the next two cells. Here $k = 8$.

# %%
def length_of_first_step(make_optimizer, divide_by, k=8):
    torch.manual_seed(0)
    layer = nn.Linear(3, 1).double()
    before = layer.weight.detach().clone()
    optimizer = make_optimizer(layer.parameters(), lr=0.01)
    for _ in range(k):
        inputs, targets = torch.randn(4, 3).double(), torch.randn(4, 1).double()
        (F.mse_loss(layer(inputs), targets) / divide_by).backward()
    optimizer.step()
    return (layer.weight - before).norm().item()

# %%
for optimizer in (torch.optim.SGD, torch.optim.Adam):
    with_it, without_it = (length_of_first_step(optimizer, divide_by) for divide_by in (8, 1))
    print(f"{optimizer.__name__:4} without the division: {without_it / with_it:.3f} times as long")

# %% [markdown]
# SGD takes a step that is $k$ times too long, and may diverge. In Adam the factor cancels, and the
# mistake is hard to see. It comes back as soon as gradients are clipped at a fixed norm, or another
# optimizer is used.

# %% [markdown]
# ### Exercise {{train_accumulated}} · Accumulate gradients in a training loop
#
# Write `train_accumulated(model, loss_fn, micro_batches, optimizer, every)`, a training loop for
# any model. It gets
#
# * `model`, `optimizer`, and `loss_fn(outputs, targets)`, which returns a mean;
# * `micro_batches`, a list of `(inputs, targets)`, all with equally many samples;
# * `every`, the number of micro-batches for one step (it may be 1). It divides the length of the
#   list.
#
# It returns nothing. At the start, `.grad` is clean. Each step takes the gradient of the mean loss
# over its `every` micro-batches, with the optimizer as it was given. At the end of the function,
# `.grad` is clean again: `None` or zeros. The list is the caller's: leave it as it is.

# %% [markdown]
# Example: 4 micro-batches and `every=2`. Backward, backward, step, clear; backward, backward, step,
# clear. If the first two have mean losses of 3 and 5, the first step follows the gradient of 4.
#
# What it may cost: one forward and one backward for each micro-batch, and never the activations of
# two micro-batches at a time. The check compares the weights with training on large batches, counts
# steps, forwards and backwards, looks into `.grad` at the end, and measures the memory.

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
check("{{train_accumulated}}", train_accumulated)

# %% [markdown]
# The weights equal those of the large batches *but for rounding*: micro-batches add the same
# samples in another order (part [00c](00c_what_to_believe.ipynb), section 1).
#
# ## 4 · Once for each step
#
# Two more operations must wait until **all** micro-batches of a step are in `.grad`. **Clipping**
# shortens a gradient whose norm, its length, is too large. **Loss scaling** multiplies the loss by
# a large number, so that small gradients do not become zero in float16 (chapter 05).
#
# First clipping. Suppose that a loop clips after each backward. What does the gradient look like
# then?

# %%
torch.manual_seed(0)
model = nn.Linear(3, 1, bias=False)
micro_batches = [(torch.randn(4, 3), 3 * torch.randn(4, 1)) for _ in range(3)]
for after_each in (False, True):
    model.zero_grad()
    for inputs, targets in micro_batches:
        (F.mse_loss(model(inputs), targets) / len(micro_batches)).backward()
        if after_each:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    print("clipped after each part:" if after_each else "clipped once:           ",
          *(f"{slope:6.3f}" for slope in model.weight.grad.flatten()))

# %% [markdown]
# Both gradients have the same length, and no message appears. But the second one points elsewhere.
# The first micro-batch's gradient was shortened three times, the last one's only once. So the last
# one counts more.
#
# Now loss scaling. Before anybody clips, the gradients must be divided by the large number again:
# they are **unscaled**. PyTorch's `GradScaler` scales and unscales. It works on the CPU, too. The
# first cell below is right.
#
# The second one unscales after each micro-batch. So its second backward adds scaled gradients to
# unscaled ones, and nobody can separate them again. The scaler notices when it is asked to unscale
# a second time. It does **not** notice if you unscale only once, but after the first micro-batch.

# %%
def train_scaled(model, micro_batches, optimizer, scaler):
    for inputs, targets in micro_batches:
        loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()  # .grad holds scaled gradients
    scaler.unscale_(optimizer)  # once, when all have been added
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    scaler.step(optimizer)  # leaves the step out if a gradient is inf or nan
    scaler.update()
    optimizer.zero_grad()

# %%
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
optimizer.zero_grad()  # the cell above has left clipped gradients
train_scaled(model, micro_batches, optimizer, scaler)  # no message
try:
    for inputs, targets in micro_batches:
        scaler.scale(F.mse_loss(model(inputs), targets)).backward()
        scaler.unscale_(optimizer)  # too early
except RuntimeError as error:
    print(error)

# %% [markdown]
# > **On GPUs.** With float16, unscale and clip once for each step, says PyTorch's [page of AMP
# > examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html) (“Gradient
# > accumulation”). bfloat16 has the range of float32, and is usually trained without a scaler. But
# > `.grad` in bfloat16 loses small parts of a long sum, so accumulate in float32 (part 05b).

# %% [markdown]
# ## Put to the test
#
# What the slides say about this example, and what was found here. *Imprecise* means: right, if a
# condition is added.

# %% jupyter={"source_hidden": true}
# The verdicts are computed from what was measured above.
def ends(seen):
    return ", ".join(f"{seen[-1]['values'][name]:.4f}" for name in houses.START)

taken = [sum(s["call"] == "step" for s in seen) for seen in (one_by_one, accumulated)]
w1_of = {how: f"{weights[0]:.6f}" for how, weights in steps.items()}
is_sum = w1_of["two backwards"] == w1_of["one backward, sum"] != w1_of["one backward, mean"]
cleared = set(one_by_one[3]["gradients"].values())  # of w1, w2 and b
printed = {(loop, number): houses.entry(loop, number)
           for loop, numbers in houses.PRINTED.items() for number in numbers}

# %% jupyter={"source_hidden": true}
put_to_the_test(printed.pop(("one by one", 5)) + f"""
- [C024] Accumulated gradients are summed | PyTorch slides, “Gradient descent (with accumulation)” |
  {"right, if no loss is divided" if is_sum else "wrong"} | w1 ends at {w1_of["two backwards"]}, as
  with the sum over one batch. The mean over the batch wants each loss divided by 2:
  {w1_of["one backward, mean"]} (section 3, table) | measured: nothing; autograd adds to .grad on
  every device
- [C025] optimizer.zero sets the gradients to zero | PyTorch slides, “Computational graph: step 1
  (optimizer.zero)” | {"imprecise" if cleared == {None} else "right"} | the method is called
  zero_grad, and it leaves {", ".join(map(str, cleared))} in the .grad of all three parameters, not
  a tensor of zeros (section 1, slider, snapshot 4) |
  measured: nothing about GPUs; zero_grad(set_to_none=False) leaves zeros, on every device
""", more=f"""
- [C026] Without accumulation, parameters change after every item; with it, after every batch |
  PyTorch slides, “Gradient descent (without accumulation)”; “Gradient descent (with accumulation)”
  | {"right" if taken == [2, 1] else "wrong"} | {taken[0]} steps and {taken[1]} step for two houses.
  They end at {ends(one_by_one)} (section 1, slider) and at {ends(accumulated)} (section 2, slider)
  | measured: nothing; who calls step decides, not the device
""" + "".join(printed.values()))

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)), for the houses and all
# their printed digits.
#
# **To read on.** *torch.autograd*, on
# [how gradients accumulate](https://docs.pytorch.org/docs/stable/notes/autograd.html).
# [AMP examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html), a page of PyTorch's
# documentation.

# %% [markdown]
# ## What you have learnt
#
# * `backward()` adds to `.grad`, until somebody clears it. So many small backwards make one large
#   gradient.
# * Accumulation takes fewer steps, not the same steps at a lower price.
# * Added gradients belong to the **sum** of the losses. For the mean over $k$ equal micro-batches,
#   divide each loss by $k$.
# * Unscale, clip, step and clear once for each step, after the last micro-batch.
#
# **Your exercises** stand in cells above.
#
# **Next**: {{next}}. Micro-batches of different sizes and sentences of different lengths need more
# than a division by $k$.

# %%
progress("01")
