# %% [markdown]
# # {{title}}
#
# **A model of 7 billion parameters takes 14 GB in half precision, 2 bytes a number. Why does
# training it not fit into 80 GB?** The parameters are a small part of what a training step needs.
# In this part you count every byte of a step: what it is for, and when it is there.

# %% [markdown]
# ![Memory of one training step over time. Parameters, gradients and optimizer state are there at
# the end; activations grow through the forward and shrink through the
# backward](../assets/covers/05_memory.png)
#
# *Measured in section 2: every live tensor of one training step, by kind.*
#
# **After this part you can** say what each byte of a training step is for, count the bytes of the
# model states, and find a program that keeps too much.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, hint, lab, launch, measure, plot_memory, plot_stacks, predict, progress,
)

# %% tags=["parameters"]
width = 64
layers = 4
samples = 16

# %% [markdown]
# ## 1 · Every byte of a step
#
# Whoever runs out of memory has to know what filled it. So let us look into one training step:
# forward, backward, Adam. The model is a small transformer. It reads the source text of Python's
# standard library, character by character, and guesses the next one. All its numbers are float32.

# %%
language_model = lab("language_model")
text = language_model.standard_library(50_000)
model = language_model.Transformer(width, layers)
parameters = sum(p.numel() for p in model.parameters())
print(f"{parameters:,} parameters")

# %% [markdown]
# `measure` counts the bytes of every live tensor exactly. It also finds out what each tensor is:
#
# * a **parameter**,
# * a **gradient**: it is in the `.grad` of some parameter,
# * **optimizer state**: what the optimizer keeps from step to step,
# * an **activation**: a result of the forward that autograd keeps for the backward,
# * or other: mostly temporary results.
#
# Parameters, gradients and optimizer state together are called **model states**.

# %%
def train_three_steps(language_model, text, width, layers, samples, make_optimizer, late=False):
    model = language_model.Transformer(width, layers)
    optimizer = make_optimizer(model.parameters())
    for step in range(3):
        inputs, targets = language_model.draw_batch(text, samples, step)
        with measure(f"step {step + 1}"):
            if not late:
                optimizer.zero_grad()
            loss = language_model.mean_loss(model(inputs), targets)
            if late:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()

# %% [markdown]
# We run three steps. Take the third one: with Adam, how large are the model states, as a multiple
# of the parameters' bytes?

# %%
times_parameters = predict("Model states, as a multiple of the parameters' bytes", unit="times")

# %%
adam = partial(torch.optim.Adam, lr=1e-3)
trained = launch(train_three_steps, language_model, text, width, layers, samples, adam,
                 world_size=1)
peak = trained["step 3"].peak_bytes[0]  # the most bytes of each kind

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
kinds = ("parameters", "gradients", "optimizer_state")
times_parameters.compare(4, sum(peak[kind] for kind in kinds) / peak["parameters"],
                         kind="optimizer_state")

# %% [markdown]
# Four times. Take one parameter in float32, and count what it needs:
#
# | | bytes |
# |---|---|
# | the parameter | 4 |
# | its gradient | 4 |
# | Adam's running mean of the gradient | 4 |
# | Adam's running mean of the gradient's square | 4 |
# | together | 16 |
#
# With Φ parameters, that is 16 Φ bytes. Is this formula right to the byte?

# %%
tensors = len(list(model.parameters()))
formula = {"parameters": 4 * parameters, "gradients": 4 * parameters,
           "optimizer_state": 8 * parameters + 4 * tensors}
Table(["kind", "formula", "bytes by the formula", "bytes measured"],
      [["parameters", "4 Φ", f"{formula['parameters']:,}", f"{peak['parameters']:,}"],
       ["gradients", "4 Φ", f"{formula['gradients']:,}", f"{peak['gradients']:,}"],
       ["optimizer state", "8 Φ + 4 for each tensor",
        f"{formula['optimizer_state']:,}", f"{peak['optimizer_state']:,}"]])

# %% [markdown]
# It is, with one addition. Adam counts its steps, and keeps this number for each parameter tensor
# in a float32 of its own.
#
# A model of 7 billion parameters has 7 × 16 = 112 GB of model states in float32. An H100 has 80 GB,
# and an A100 has 40 or 80. And the activations are not yet counted.

# %% [markdown]
# ## 2 · When is it there?
#
# A step runs out of memory at its peak. So it matters *when* each kind is there. The
# picture shows the third step. (Do not read times from it: counting every tensor takes long.)

# %% tags=["cover", "nbval-ignore-output"]
plot_memory(trained, "step 3", title="One step of training, byte by byte")

# %% [markdown]
# Read it from left to right:
#
# 1. First, `zero_grad` frees the gradients of the step before.
# 2. In the forward, activations pile up, layer after layer.
# 3. In the backward, they are freed, in the opposite order. At the same time gradients appear.
# 4. The optimizer's step needs hardly more than its state.
#
# The grey area is other memory. The thin grey strip that never goes away is the text: 50,000
# characters of 8 bytes each. The wider grey area in the backward is mostly gradients of
# activations. Autograd frees them as soon as they are used; no `.grad` ever holds them.

# %% [markdown]
# Here, the peak is the end of the forward, or just after it: all activations are there.
# That depends on the sizes. In a large model with few samples, gradients may be larger than
# activations. Then the peak is at the end of the backward.
#
# Which step is the fullest? A program that has survived its first step may still fail in the
# second. Look at the peak of each step:

# %%
plot_stacks({step: trained[step].at_peak[0] for step in ("step 1", "step 2", "step 3")},
            title="Each step at its peak")

# %% [markdown]
# Adam makes its state in its first `step()`, when most activations are gone. So the peak
# of step 1 has no optimizer state. Step 2 has it from the beginning, and needs 8 Φ bytes more. From
# then on, all steps are alike. Before you start a long run, try at least two steps.
#
# No bar has gradients: `zero_grad` has freed the old ones, and the new ones come later. If you call
# `zero_grad` after the forward instead, old gradients and all activations are in memory together at
# that moment: 4 Φ bytes more. By how much does the peak of the third step rise?

# %%
late = launch(train_three_steps, language_model, text, width, layers, samples, adam, True,
              world_size=1)
more = late["step 3"].peak_bytes[0]["total"] - peak["total"]
print(f"zero_grad after the forward: the peak is {more / 1e6:.2f} MB higher, "
      f"{more / formula['gradients']:.2f} × 4 Φ")

# %% [markdown]
# It rises by less than 4 Φ where the peak comes later, when `zero_grad` has freed the old gradients
# and the loss's backward needs temporary tensors. In either case it costs nothing to call it first.

# %% [markdown]
# **On GPUs.** Two things differ from this picture.
#
# * By default, PyTorch's optimizers treat all tensors in one go there (`foreach`). This needs about
#   4 Φ bytes more for a moment, [says the
#   documentation](https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html). With
#   `fused=True` it does not. Measured on an H100 (torch 2.11), 64 matrices of 1,024 × 1,024: 4.0 Φ
#   more and 4.3 ms by default, nothing more and 1.3 ms with `fused=True`. With `foreach=False` it
#   is 0.2 Φ more, and 6.3 ms.
# * The numbers here are bytes of tensors. PyTorch takes memory from the GPU in larger pieces, and
#   keeps them. Part 05g looks at the difference.

# %% [markdown]
# ### Exercise {{bytes_by_kind}} · Count model-state bytes by kind
#
# Write `bytes_by_kind(model, optimizer)`. `model` is any `nn.Module`, and `optimizer` any optimizer
# of PyTorch. It returns a dict with three whole numbers, under the keys `"parameters"`,
# `"gradients"` and `"optimizer_state"`: the bytes of the tensors that exist *now*. It changes
# nothing. Every tensor `x` knows its bytes: `x.nbytes`.
#
# * A parameter may be used twice in a model (*tied*). It is one tensor, and counts once.
# * A parameter may be frozen. It counts.
# * A parameter may have no gradient yet. Then its `.grad` is None, and takes no bytes.
# * Buffers, such as BatchNorm's running means, do not count.

# %% [markdown]
# `optimizer.state` has a dict for each parameter that has been stepped. The values of this dict are
# the state. Some of them may be numbers instead of tensors: they do not count.
#
# For example, `nn.Linear(2, 1)` in float32 has 2 weights and 1 bias. That is 3 numbers in 2
# tensors.
#
# | | parameters | gradients | optimizer state |
# |---|---|---|---|
# | at first | 12 | 0 | 0 |
# | after `backward()` | 12 | 12 | 0 |
# | after a `step()` of Adam | 12 | 12 | 2 × 12 + 2 × 4 = 32 |
# | after `zero_grad()` | 12 | 0 | 32 |

# %%
def bytes_by_kind(model, optimizer):
    """{"parameters": bytes, "gradients": bytes, "optimizer_state": bytes}, as they are now."""
    ### BEGIN SOLUTION
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    state = [x for kept in optimizer.state.values() for x in kept.values() if torch.is_tensor(x)]
    return {"parameters": sum(p.nbytes for p in model.parameters()),
            "gradients": sum(gradient.nbytes for gradient in gradients),
            "optimizer_state": sum(x.nbytes for x in state)}
    ### END SOLUTION

# %%
check("{{bytes_by_kind}}", bytes_by_kind)

# %% [markdown]
# ## 3 · Other optimizers
#
# Half of the model states is Adam's. Other optimizers keep more, or less. Here is what PyTorch's
# own keep after one step, for a matrix of 256 × 256 in float32. (Small counters are left out.)

# %%
def count_state_bytes(make_optimizer, size=256):
    weight = nn.Parameter(torch.ones(size, size))
    weight.grad = torch.ones(size, size)
    optimizer = make_optimizer([weight])
    optimizer.step()
    kept = [x for x in optimizer.state[weight].values() if torch.is_tensor(x)]
    return sum(x.nbytes for x in kept if x.numel() > 1) / weight.numel()

# %%
optimizers = {
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam, AdamW": adam,
    "Adam with amsgrad": partial(adam, amsgrad=True),
    "Adafactor": partial(torch.optim.Adafactor, lr=0.1),
}
Table(["optimizer", "state for each parameter"],
      [[name, f"{count_state_bytes(make):.2f} bytes"] for name, make in optimizers.items()])

# %% [markdown]
# Momentum is one number for each parameter, and Adam keeps two. `amsgrad` also keeps the largest
# mean square so far. Adafactor keeps the mean square of each row and of each column of a matrix, in
# place of each number's. Part 05h shows how that can work.

# %% [markdown]
# ## 4 · Who holds a graph?
#
# An activation lives as long as somebody needs the graph that it belongs to. After `backward()`
# nobody does. But a loss that was never used for a backward still holds its graph, with all
# activations of its forward. Keep ten such losses in a list, and ten forwards stay in memory.

# %% [markdown]
# ### Exercise {{train_and_validate}} · Debug memory that grows every step
#
# `train_and_validate` trains on each batch, and after each step it takes the mean loss over all
# batches of `validation`. It returns these means as a list of floats, one for each step.
#
# The numbers are right. But it needs far more memory than training alone, and more with each step.
# Two lists keep what they should not. Mend it: at no time may it keep more than one step of
# training needs. Do not change which numbers it returns, nor how it trains. (The model has neither
# dropout nor BatchNorm, so you need not switch to evaluation mode.)

# %%
def train_and_validate(model, loss_fn, batches, validation, optimizer):
    """Returns the mean validation loss after each step, as floats."""
    means = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        ### BEGIN SOLUTION
        with torch.no_grad():
            losses = [loss_fn(model(x), y).item() for x, y in validation]
        means.append(sum(losses) / len(losses))
    return means
        ### IT WAS
        # losses = [loss_fn(model(x), y) for x, y in validation]
        # means.append(sum(losses) / len(losses))
    # return [float(mean) for mean in means]
        ### END SOLUTION

# %% [markdown]
# The symptom first. Watch how the peak grows: with the number of steps, and with the
# number of validation batches.

# %%
def fullest(train_and_validate, steps, validations):
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1))
    batches = [(torch.ones(500, 64), torch.ones(500, 1))] * max(steps, validations)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with measure("training"):
        train_and_validate(model, F.mse_loss, batches[:steps], batches[:validations], optimizer)

# %%
for steps, validations in [(2, 1), (8, 1), (8, 4)]:
    run = launch(fullest, train_and_validate, steps, validations, world_size=1)
    most = run["training"].peak_bytes[0]["activations"]
    print(f"{steps} steps, {validations} validation batches: at most {most:,} bytes of activations")

# %%
check("{{train_and_validate}}", train_and_validate)

# %% [markdown]
# ## What you have learnt
#
# * **Model states** are parameters, gradients and optimizer state. In float32 with Adam they take
#   16 bytes for each parameter.
# * **Activations** grow through the forward and shrink through the backward. With them, a step has
#   its peak at the end of the forward, or later if gradients are larger.
# * Adam's state appears in the first `step()`. So the second step is fuller than the first.
# * A loss that somebody keeps holds its graph. Keep `loss.item()`, and compute what needs no
#   backward under `torch.no_grad()`.
#
# **Your exercises** stand in cells above.
#
# **Next**: {{next}}.

# %%
progress("05")
