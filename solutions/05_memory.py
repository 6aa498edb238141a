# %% [markdown]
# # 05 · Where the memory goes
#
# **A model of 7 billion parameters is 14 GB in half precision. Why does training it not fit into
# 80 GB?** Because the parameters are a small part. Beside them a step keeps gradients, the
# state of the optimizer, and *activations*: what the forward leaves for the backward. In this
# chapter you count every byte of a step, by kind and over time; hold formulas against the count;
# and find out what half precision, recomputation and accumulation save, and what they cost.
#
# Exercises stand in cells and in a lab: [memory](../labs/memory.py).

# %% [markdown]
# ![Bytes that one transformer block keeps over the context length: attention written out grows
# with the square, with scores computed again it grows in
# proportion](../assets/covers/05_memory.png)
#
# *Measured in section 3, on top of the formula: attention that stores its scores, and attention
# that computes them again.*
#
# **After this part you can** say what the bytes of a training step are for, and which ways make
# which of them fewer.
#
# **It takes** about 30 minutes, and 50 more for 7 exercises. **It needs** [01 · Gradient
# accumulation](01_gradient_accumulation.ipynb).

# %% jupyter={"source_hidden": true}
import time
from contextlib import nullcontext
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, measure, plot_against, plot_bars, plot_memory,
    plot_stacks, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
width = 64
layers = 4
samples = 16

# %%
memory, language_model = lab("memory"), lab("language_model")
text = language_model.standard_library(50_000)
model = language_model.Transformer(width, layers)
parameters = sum(p.numel() for p in model.parameters())
print(f"{parameters:,} parameters")

# %% [markdown]
# ## 1 · Every byte of a step
#
# Here is one step of training, the third one: forward, backward, Adam. `measure` counts every live
# tensor's bytes exactly, and finds out what each is: a parameter; a **gradient** (in some `.grad`);
# **optimizer state**; an **activation** (kept by autograd for the backward); or other, mostly
# temporary results.
#
# The model has Φ parameters in float32: 4Φ bytes. Parameters, gradients and optimizer state
# together are called the **model states**. How many times 4Φ are they?

# %%
def train_three_steps(language_model, text, width, layers, samples, make_optimizer):
    model = language_model.Transformer(width, layers)
    optimizer = make_optimizer(model.parameters())
    for step in range(3):
        inputs, targets = language_model.draw_batch(text, samples, step)
        with measure(f"step {step + 1}"):
            optimizer.zero_grad()
            loss = language_model.mean_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()

# %%
times_parameters = predict("The model states, in times the parameters' bytes", unit="times")

# %%
adam = partial(torch.optim.Adam, lr=1e-3)
trained = launch(train_three_steps, language_model, text, width, layers, samples, adam,
                 world_size=1, device="cpu")
peak = trained["step 3"].peak_bytes[0]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
measured_states = sum(peak[kind] for kind in ("parameters", "gradients", "optimizer_state"))
times_parameters.compare(4, measured_states / peak["parameters"], kind="optimizer_state")

# %% [markdown]
# Four times: the gradients are as large as the parameters, and Adam keeps two numbers more for
# each, the running means of the gradient and of its square. Below, first to the byte; then moment
# by moment, with everything that is no model state.

# %%
tensors = len(list(model.parameters()))
formula = {"parameters": 4 * parameters, "gradients": 4 * parameters,
           "optimizer_state": 8 * parameters + 4 * tensors}
Table(["kind", "formula", "by formula", "measured, at most"],
      [["parameters", "4 Φ", f"{formula['parameters']:,}", f"{peak['parameters']:,}"],
       ["gradients", "4 Φ", f"{formula['gradients']:,}", f"{peak['gradients']:,}"],
       ["optimizer state", "(4 + 4) Φ, and 4 for each tensor's step counter",
        f"{formula['optimizer_state']:,}", f"{peak['optimizer_state']:,}"],
       ["activations", "section 3", "", f"{peak['activations']:,}"]], note="all in bytes")

# %% tags=["nbval-ignore-output"]
plot_memory(trained, "step 3", title="One step of training, byte by byte")

# %% [markdown]
# Activations pile up through the forward, and are freed in the backward, layer by layer, while
# gradients come. The grey there is gradients of activations, which are in nobody's `.grad`. On a
# CPU, the optimizer's step needs hardly more than its state. (On a GPU, Adam takes all tensors at
# once: 4Φ more for a moment.) The highest point is after the forward, with all activations there:
# here a GPU says "out of memory". (First, old gradients are freed. Ignore the milliseconds:
# counting takes time.)
#
# ### Exercise 5.1
#
# Write `bytes_by_kind`: what parameters, gradients and optimizer state take, from the real tensors.
# A parameter may be used twice (*tied*), be frozen, or have no gradient yet. Buffers (BatchNorm has
# some) do not count.

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

check("5.1", bytes_by_kind)

# %% [markdown]
# Adam keeps 8 bytes for each parameter. Others keep more, or less. Here is what real optimizers
# keep after a step, in float32:

# %%
def kept_for_each(make_optimizer, size=256):
    weight = nn.Parameter(torch.ones(size, size))
    weight.grad = torch.ones(size, size)
    optimizer = make_optimizer([weight])
    optimizer.step()
    kept = [x for x in optimizer.state[weight].values() if torch.is_tensor(x)]
    return sum(x.nbytes for x in kept if x.numel() > 1) / weight.numel()

optimizers = {
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam, AdamW": adam,
    "Adam with amsgrad": partial(adam, amsgrad=True),
    "Adafactor": partial(torch.optim.Adafactor, lr=0.1),
}
state_for_each = {name: kept_for_each(make) for name, make in optimizers.items()}
Table(["optimizer", "state for each parameter"],
      [[name, f"{count:.2f} bytes"] for name, count in state_for_each.items()])

# %% [markdown]
# Adafactor keeps the mean square of each row and each column of a weight, in place of each number.
#
# ### Exercise 5.2
#
# Published teaching code: training, with the mean loss on validation batches after each step. The
# numbers are right, but it needs far more memory than training alone, and more with each step: two
# lists keep what they should not. At no time is more to be kept than a step of training needs. (The
# model has neither dropout nor BatchNorm: evaluation mode is no matter here.) Find the bugs.

# %%
def train_and_validate(model, loss_fn, batches, validation, optimizer):
    """Returns the mean validation loss after each step, as floats."""
    means = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad()
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

check("5.2", train_and_validate)

# %% [markdown]
# ## 2 · Half precision: 12, 16, 18 or 20 bytes
#
# Numbers of 2 bytes come in two kinds, with a bit for the sign each. float16 has 5 bits for the
# exponent and 10 for the digits; **bfloat16** has 8 and 7: the range of a float32, with two to
# three decimal digits. Is a step in 2-byte numbers half as large? It depends on what else is kept.
# Here are four conventions that are all called *mixed precision*, made of tensors, with Adam:

# %%
half, single = torch.bfloat16, torch.float32
conventions = {  # what there is one number of for each parameter
    "all float32": {"parameters": [single], "gradients": [single],
                    "optimizer_state": [single] * 2},
    "all bfloat16": {"parameters": [half], "gradients": [half], "optimizer_state": [half] * 2},
    "12 bytes": {"parameters": [half], "gradients": [half], "optimizer_state": [single] * 2},
    "16 bytes": {"parameters": [half], "gradients": [half], "optimizer_state": [single] * 3},
    "18 bytes": {"parameters": [half], "gradients": [single], "optimizer_state": [single] * 3},
    "20 bytes": {"parameters": [half], "gradients": [half, single],
                 "optimizer_state": [single] * 3},
}

def made_of(kinds, numbers):
    """{kind: bytes}, of tensors that are made, counted, and forgotten."""
    return {kind: sum(torch.empty(numbers, dtype=dtype).nbytes for dtype in dtypes)
            for kind, dtypes in kinds.items()}

stacks = {name: made_of(kinds, parameters) for name, kinds in conventions.items()}
bytes_each = {name: sum(stack.values()) / parameters for name, stack in stacks.items()}
plot_stacks(stacks, title=f"Model states of {parameters:,} parameters, with Adam")

# %% [markdown]
# - **16**: parameters and gradients in half precision; the optimizer has a float32 copy of the
#   parameters, the **master**, and both its means: 2 + 2 + (4 + 4 + 4). The ZeRO paper's count.
# - **12**: the same without a master. A book chapter counts like this.
# - **18**: gradients are summed up in float32 (Megatron-LM in bfloat16).
# - **20**: gradients in both.
#
# With K for all that the optimizer needs, these are (2 + 2 + K) bytes, or (2 + 4 + K). None of them
# is smaller than plain float32, except the one without a master. Can we do without?

# %%
def moved(make_step, dtype, rate=1e-4, steps=10):
    """How far steps have moved a weight, and the share of its numbers that have moved at all."""
    torch.manual_seed(0)
    weight = nn.Parameter((0.1 * torch.randn(100_000)).to(dtype))
    start, step = weight.detach().clone(), make_step([weight], rate)
    for _ in range(steps):
        weight.grad = torch.ones_like(weight)  # always downhill in the same direction
        step()
    change = (weight - start).detach().float()
    return change.abs().mean().item(), (change != 0).float().mean().item()

def adam_step(weights, rate):
    return torch.optim.Adam(weights, lr=rate).step

def mixed_step(weights, rate):
    return memory.MixedPrecision(weights, partial(torch.optim.Adam, lr=rate)).step

moves = {"float32": moved(adam_step, single), "bfloat16 alone": moved(adam_step, half),
         "bfloat16, master in float32": moved(mixed_step, half)}
Table(["Adam on", "ten steps of 0.0001 have moved weights by", "weights that have moved"],
      [[name, f"{far:.5f}", f"{share:.0%}"] for name, (far, share) in moves.items()])

# %% [markdown]
# A bfloat16 near 0.1 has neighbours 0.0005 away. A step of 0.0001 is less than half of that, and is
# rounded away: time after time most weights stay where they are. (Those near 0 have closer
# neighbours.) The master collects small steps, until they are enough.
#
# ### Exercise 5.3
#
# Write the class `MixedPrecision` in [labs/memory.py](../labs/memory.py). (Until then, the course
# uses its own.)

# %%
check("5.3")

# %% [markdown]
# What about `torch.autocast`, the usual way to mixed precision? It leaves parameters in float32,
# and casts them to half precision where they are used. Let us measure a step in four layouts:

# %%
def step_in(layout, memory, language_model, text, width, layers, samples):
    model = language_model.Transformer(width, layers)
    adam = partial(torch.optim.Adam, lr=1e-3)
    if layout in ("bfloat16 alone", "bfloat16, master"):
        model.bfloat16()
    parameters = list(model.parameters())
    is_mixed = layout == "bfloat16, master"
    optimizer = memory.MixedPrecision(parameters, adam) if is_mixed else adam(parameters)
    casting = torch.autocast("cpu", torch.bfloat16, enabled=layout == "autocast")
    inputs, targets = language_model.draw_batch(text, samples, 0)
    for label in ("first", layout):
        with measure(f"{label}, until the step"):
            with casting:
                scores = model(inputs)
            loss = language_model.mean_loss(scores.float(), targets)
            del scores
            loss.backward()
        optimizer.step()
        model.zero_grad()

# %%
layouts = ("float32", "autocast", "bfloat16, master", "bfloat16 alone")
fullest, at_peak = {}, {}
for layout in layouts:
    run = launch(step_in, layout, memory, language_model, text, width, layers, samples,
                 world_size=1, device="cpu")
    block = run[f"{layout}, until the step"]
    fullest[layout], at_peak[layout] = block.peak_bytes[0], block.at_peak[0]
plot_stacks(at_peak, title="Forward and backward, at their highest point")

# %%
kinds = ("parameters", "gradients", "optimizer_state")
Table(["", "parameters", "gradients", "optimizer state", "states", "activations"],
      [[layout, *(f"{peak[kind] / parameters:.2f}" for kind in kinds),
        f"{sum(peak[kind] for kind in kinds) / parameters:.1f}",
        f"{peak['activations'] / fullest['float32']['activations']:.2f} of float32"]
       for layout, peak in fullest.items()], note="bytes for each parameter, the most of each kind")

# %% [markdown]
# Two things to take away. Model states do not shrink, unless one does without float32: 16 bytes
# with float32, with autocast, and with masters (which `measure` counts as parameters here). What
# shrinks is the activations. With autocast they shrink less: what goes from block to block stays in
# float32, and so do the inputs of the norms; and copies of the weights in half precision come on
# top.
#
# And time? On a GPU, half precision is several times as fast. A CPU without instructions for
# bfloat16 is much slower with it. Here:

# %% tags=["nbval-ignore-output"]
def seconds_for(dtype, size=256, rounds=9):
    x, times = torch.ones(size, size, dtype=dtype), []
    for _ in range(rounds):
        began = time.perf_counter()
        x @ x
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return median(times)

def both_precisions(seconds_for):
    return seconds_for(torch.float32), seconds_for(torch.bfloat16)

in_float32, in_bfloat16 = launch(both_precisions, seconds_for, world_size=1).values[0]
print(f"a matrix product takes {1e3 * in_float32:.2f} ms in float32, {1e3 * in_bfloat16:.2f} ms "
      f"in bfloat16:\nabout {in_bfloat16 / in_float32:.1f} times as long")

# %% [markdown]
# ### Small gradients
#
# float16 has finer steps, but a narrow range: above 65,504 there is only infinity, below 0.00006 it
# loses digits, and below 0.00000003 there is only 0. In a float16 backward it is above all the
# gradients of *activations* that are so small, as each is one letter's share of the mean loss; they
# are rounded layer after layer. Here is what becomes of those in our transformer, if the loss is
# multiplied by some factor first. (By linearity all gradients grow by this factor. They are divided
# by it later, in float32.)

# %% tags=["nbval-ignore-output"]
def slopes_in(language_model, text, steps=15):
    """The gradients of what the linear layers return, after some steps of training."""
    torch.manual_seed(0)
    model = language_model.Transformer(32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        inputs, targets = language_model.draw_batch(text, 16, step)
        optimizer.zero_grad()
        language_model.mean_loss(model(inputs), targets).backward()
        optimizer.step()
    slopes = []
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear)):
        layer.register_full_backward_hook(lambda layer, ours, slope: slopes.append(slope[0]))
    language_model.mean_loss(model(inputs), targets).backward()
    return torch.cat([slope.reshape(-1) for slope in slopes])

slopes = launch(slopes_in, language_model, text, world_size=1, device="cpu").values[0]
powers = list(range(0, 33, 2))
as_float16 = [(slopes * 2.0**power).half() for power in powers]
shares = {"become 0": lambda x: x == 0,
          "lose digits (below 0.00006)": lambda x: (x != 0) & (x.abs() < 2**-14),
          "become infinite": torch.isinf}
plot_against(powers, {name: [100 * is_so(x).float().mean().item() for x in as_float16]
                      for name, is_so in shares.items()},
             "the loss is multiplied by 2 to the power of", "gradients (%)",
             title="Gradients of a transformer's activations in float16")

# %% [markdown]
# In between there is a range in which hardly anything is lost. So the factor is made as large as it
# may be, and smaller whenever something becomes infinite: **loss scaling**. bfloat16 has the range
# of float32, and needs none.
#
# ### Exercise 5.4
#
# Write `LossScaler` in [labs/memory.py](../labs/memory.py).

# %%
display(check("5.4"))

def gradient_with(scale):
    """A sum of small products in float16; its true gradient is 2e-9."""
    weight = nn.Parameter(torch.ones(3))
    x = torch.full((3,), 2e-4, dtype=torch.float16)
    loss = 1e-5 * (weight.half() * x).float().sum()
    scaler = memory.LossScaler(scale)
    (scaler.scale * loss).backward()
    was_taken = scaler.step([weight], take_step=lambda: None)
    return was_taken, weight.grad[0].item()

for scale in (1.0, 2.0**16, 2.0**40):
    was_taken, gradient = gradient_with(scale)
    print(f"factor {scale:g}: step taken: {was_taken}, gradient {gradient:.2g}")

# %% [markdown]
# ## 3 · Activations
#
# What does each layer keep for the backward? PyTorch tells everybody who asks:
# `saved_tensors_hooks` calls a function for each tensor that autograd keeps. Memory that two layers
# share counts for the first one, and parameters do not count.

# %%
def kept_by_layer(model, *inputs):
    """{module: bytes that it keeps for the backward}, for modules without parts of their own."""
    kept, seen, now = {}, {p.untyped_storage()._cdata for p in model.parameters()}, [""]

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            kept[now[-1]] = kept.get(now[-1], 0) + storage.nbytes()
        return tensor

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda module, inputs, name=name: now.append(name))
        module.register_forward_hook(lambda module, inputs, output: now.pop() and None)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model(*inputs)
    return kept

block = language_model.Block(width, heads=4)
x = torch.randn(samples, 64, width, requires_grad=True)
kept = kept_by_layer(block, x)
names = {"norm_1": "norm 1", "attention.query_key_value": "query, key, value",
         "attention": "attention", "attention.output": "output of attention", "norm_2": "norm 2",
         "mlp.0": "mlp.0", "mlp.1": "GELU", "mlp.2": "mlp.2"}
plot_bars(list(names.values()), {"kept": [kept.get(name, 0) / x.nbytes for name in names]},
          "times the block's input", title="What one block keeps for its backward")

# %% [markdown]
# Take the block's input, (samples, context, width), as the unit. For its weight's gradient, a
# linear layer needs its input. For its input's gradient it needs its weight, which is there anyway.
# So:
#
# | layer | keeps | units |
# |---|---|---|
# | `norm_1` | its input; a mean and a scale for each letter | 1 |
# | query, key, value | its input | 1 |
# | attention | query, key, value; its result; a log-sum-exp for each letter and head | 3 + 1 |
# | output of attention | its input is attention's result: kept already | 0 |
# | `norm_2` | its input; a mean and a scale for each letter | 1 |
# | `mlp.0`, GELU, `mlp.2` | their inputs; the latter two are 4 times as wide | 1 + 4 + 4 |
#
# An addition needs neither of its inputs: residuals keep nothing of their own. (A letter's
# log-sum-exp is one number: the logarithm of the sum of its scores' exponentials.)
#
# ### Exercise 5.7
#
# Write `kept_by_block`: the exact number of bytes on a CPU, if a number has `size` bytes (4 or 8).

# %%
def kept_by_block(samples, context, width, heads, size=4):
    ### BEGIN SOLUTION
    letters = samples * context
    return letters * (16 * width + 4 + heads) * size
    ### END SOLUTION

check("5.7", kept_by_block)

# %% [markdown]
# Texts often give another formula: *34 sbh + 5 as²b* bytes for a layer (Korthikanti et al. 2022; s
# the context, b the samples, h the width, a the heads), for numbers of 2 bytes. 34 is our 16 times
# 2, and two masks of dropout, of a byte each. The other term is for attention written out: it keeps
# the weight of every letter for every other, and dropout's mask and result: (2 + 1 + 2) a s² b.
# `scaled_dot_product_attention` computes the weights again instead. Both in our block, which has no
# dropout, in float32, for longer and longer contexts:

# %% tags=["cover"]
def kept_with(backend, context, samples=2, heads=4):
    torch.manual_seed(0)
    x = torch.randn(samples, context, width, requires_grad=True)
    with sdpa_kernel(backend):
        return sum(kept_by_layer(language_model.Block(width, heads), x).values())

units = sum(kept.values()) / x.nbytes
print(f"our block keeps {sum(kept.values()):,} bytes: {units:.2f} times its input")
contexts = [64, 128, 256, 512]
in_proportion = [(16 * width + 4) * 2 * c * 4 / 1e6 for c in contexts]
plot_against(
    contexts,
    {"attention written out": [kept_with(SDPBackend.MATH, c) / 1e6 for c in contexts],
     "scores computed again": [kept_with(SDPBackend.FLASH_ATTENTION, c) / 1e6 for c in contexts]},
    "context (letters)", "kept by one block (MB)",
    {"attention written out": [same + 4 * c**2 * 2 * 4 / 1e6
                               for c, same in zip(contexts, in_proportion)],
     "scores computed again": [same + 4 * c * 2 * 4 / 1e6
                               for c, same in zip(contexts, in_proportion)]},
    logarithmic=True, title="Activations of one block, two samples, 4 heads")

# %% [markdown]
# One has a part that grows with the square of the context, the other grows in proportion. And with
# the samples, activations grow in proportion; model states do not:

# %%
def most_with(samples):
    found = launch(train_three_steps, language_model, text, width, layers, samples, adam,
                   world_size=1, device="cpu")
    return found["step 3"].at_peak[0]

by_samples = {count: most_with(count) for count in (4, 8, 16, 32)}
each = (by_samples[32]["activations"] - by_samples[4]["activations"]) / 28
print(f"each sample adds {each:,.0f} bytes of activations")
plot_stacks({f"{count} samples": peak for count, peak in by_samples.items()},
            title="A training step at its highest point")

# %% [markdown]
# ## 4 · Computed twice instead of kept
#
# **Activation checkpointing**, or recomputation: of a block, keep only the input. In the backward,
# run its forward again, this time keeping everything, and go back through it at once. So only one
# block at a time has its activations: 1 unit of every block is kept in place of 16, and, once, 15
# more (the block's input is there already). With 8 blocks, to what share do their activations fall?
# And how much longer does a step take?
#
# ### Exercise 5.10
#
# Write `Recomputed` in [labs/memory.py](../labs/memory.py).

# %%
check("5.10")

# %%
def prepared(way, memory, language_model, width, layers):
    torch.manual_seed(0)
    model = language_model.Transformer(width, layers)
    recompute = {"nothing": [], "attention": [block.attention for block in model.blocks],
                 "mlp": [block.mlp for block in model.blocks], "every block": model.blocks}
    memory.recompute_modules(recompute.get(way, []))
    if way == "every block, by torch":
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model

def race(prepared, ways, memory, language_model, text, width, samples, layers=8, rounds=8):
    """{way: (its gradients, seconds of its fastest step)}; all ways take turns."""
    models = {way: prepared(way, memory, language_model, width, layers) for way in ways}
    inputs, targets = language_model.draw_batch(text, samples, 0)
    times = {way: [] for way in ways}
    for number in range(rounds):
        for way, model in models.items():
            model.zero_grad()
            began = time.perf_counter()
            with measure(way) if number == 0 else nullcontext():
                language_model.mean_loss(model(inputs), targets).backward()
            times[way].append(time.perf_counter() - began)
    return {way: (torch.cat([p.grad.view(-1) for p in model.parameters()]), min(times[way][2:]))
            for way, model in models.items()}

# %%
share = predict("Activations of 8 blocks if each is recomputed, in percent", unit="%")

# %%
ways = ("nothing", "attention", "mlp", "every block", "every block, by torch")
raced = launch(race, prepared, ways, memory, language_model, text, width, samples, world_size=1,
               device="cpu")
plain_gradients, plain_seconds = raced.values[0]["nothing"]
activations = {way: raced[way].peak_bytes[0]["activations"] for way in ways}
seconds = {way: raced.values[0][way][1] / plain_seconds for way in ways}
for way in ways:
    same = torch.equal(raced.values[0][way][0], plain_gradients)
    print(f"recomputing {way}: {activations[way]:,} bytes, the same gradients: {same}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
unit = samples * 64 * width * 4
share.compare(100 * (8 + units - 1) / (8 * units),
              100 * activations["every block"] / (8 * units * unit), kind="activations")

# %% tags=["nbval-ignore-output"]
plot_bars(ways, {"activations": [activations[way] / activations["nothing"] for way in ways],
                 "time": [seconds[way] for way in ways]},
          "of a step without", title="What is recomputed: memory and time")

# %% [markdown]
# If only arithmetic counted, recomputing every block would take a third more time: a forward is a
# third of forward and backward. *Selective* recomputation chooses what costs little to compute and
# much to keep: for attention written out these are the scores, with which this attention has
# dispensed already. The mlp has 9 of a block's 16 units, and two thirds of its arithmetic.
#
# A segment may also be longer. With $L$ layers in $k$ segments, $k$ inputs are kept, and, once,
# what $L/k$ layers keep: too few segments are bad, and too many as well. Where a layer keeps as
# much as its input, $k + L/k$ is least for $k = \sqrt{L}$. Here are 64 such layers, a product and a
# tanh.

# %%
def go_through(memory, segments, layers=64, width=128):
    parts = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)]
    x = torch.randn(32, width, requires_grad=True)
    with measure("forward and backward"):
        y, length = x, layers // segments
        for first in range(0, layers, length):
            y = memory.recomputed(nn.Sequential(*parts[first : first + length]), y)
        y.sum().backward()
    return x.nbytes

segments = [1, 2, 4, 8, 16, 32, 64]
found = [launch(go_through, memory, k, world_size=1, device="cpu") for k in segments]
plot_against(segments, {"activations": [run["forward and backward"].peak_bytes[0]["activations"]
                                        / run.values[0] for run in found]},
             "segments of 64 layers", "at most, in units (a layer's input)",
             {"activations": [k + 64 / k for k in segments]}, logarithmic=True,
             title="Activations when segments are computed again")

# %% [markdown]
# ## 5 · Fewer samples at a time
#
# The other way out you know from chapter 01: accumulation. Micro-batches of a quarter need a
# quarter of the activations, and the gradient is the same. It costs no arithmetic; but a small
# micro-batch keeps a GPU less busy, the model states stay as large as they are, and from the
# second micro-batch on the gradients are there at the highest point, too.
#
# ### Exercise 5.11
#
# Write `micro_batches_for`: into how few micro-batches, all equally large, must a batch be split,
# so that a step fits into `limit` bytes? A step needs `fixed` bytes, and `each` more for every
# sample that is in memory at once; exactly `limit` still fits. If not even one sample does, raise a
# ValueError.

# %%
def micro_batches_for(batch, limit, fixed, each):
    ### BEGIN SOLUTION
    for count in range(1, batch + 1):
        if batch % count == 0 and fixed + each * (batch // count) <= limit:
            return count
    raise ValueError(f"one sample needs {fixed + each} bytes: more than {limit}")
    ### END SOLUTION

display(check("5.11", micro_batches_for))

def accumulate(language_model, text, width, layers, samples, count):
    model = language_model.Transformer(width, layers)
    parts = list(zip(*(x.chunk(count) for x in language_model.draw_batch(text, samples, 0))))
    with measure("backwards"):
        for inputs, targets in parts:
            (language_model.mean_loss(model(inputs), targets) / count).backward()

in_parts = {f"{count} micro-batch" + "es" * (count > 1): launch(
    accumulate, language_model, text, width, layers, samples, count, world_size=1, device="cpu")
    for count in (1, 2, 4)}
plot_stacks({name: run["backwards"].at_peak[0] for name, run in in_parts.items()},
            title="Forwards and backwards at their highest point")

# %% [markdown]
# ## 6 · What fits where?
#
# Now the same count for models that no laptop holds. A transformer with $L$ layers of width $h$ has
# about $12 L h^2$ parameters, and those of its vocabulary. What a layer keeps is what you measured,
# some 16 numbers for each letter and unit of width; half precision has 2 bytes for each. The
# calculator also knows what later chapters teach: `dp` ranks with another part of the batch each,
# over which ZeRO's `stage` splits the model states (chapter 06); `tp` ranks that share each layer
# (07); `pp` stages that have some layers each (08). What is shown is the fullest GPU, an upper
# bound without temporary results and the vocabulary's scores.

# %%
def parameters_of(layers, hidden, vocabulary=32_000):
    return 12 * layers * hidden**2 + vocabulary * hidden

def states_of(numbers, precision, optimizer, dp, stage):
    """{kind: bytes} of the model states for so many parameters on a GPU."""
    state = {"SGD": 0, "SGD with momentum": 4, "Adam": 8}[optimizer]
    weight, gradient, master = {"float32": (4, 4, 0), "mixed, 16 bytes": (2, 2, 4),
                                "mixed, 18 bytes": (2, 4, 4)}[precision]
    return {"parameters": weight * numbers / (dp if stage >= 3 else 1),
            "gradients": gradient * numbers / (dp if stage >= 2 else 1),
            "optimizer_state": (master + state) * numbers / (dp if stage >= 1 else 1)}

def activations_of(layers, hidden, context, samples, precision, recomputed, tp, in_flight=1):
    """Bytes for so many micro-batches; with tp, 4 of a block's 16 units stay whole."""
    unit = samples * context * hidden * (4 if precision == "float32" else 2)
    block = unit * (4 + (units - 4) / tp)
    if recomputed == "every block":
        return in_flight * layers * unit + block - unit  # one at a time is recomputed
    return in_flight * layers * block

def fullest_gpu(layers, hidden, context, samples, precision, optimizer, recomputed, dp, stage, tp,
                pp):
    """{kind: bytes}; a pipeline's first stage has activations of pp micro-batches (1F1B)."""
    numbers = parameters_of(layers, hidden) / tp / pp
    activations = activations_of(layers / pp, hidden, context, samples, precision, recomputed, tp,
                                 in_flight=pp)
    return {**states_of(numbers, precision, optimizer, dp, stage), "activations": activations}

# %%
in_words = {"hidden": "width", "context": "context (letters)", "samples": "micro-batch (samples)",
            "dp": "data parallel (ranks)", "stage": "ZeRO stage", "tp": "tensor parallel (ranks)",
            "pp": "pipeline (stages)"}
gpus = {"V100 32 GB": 32e9, "A100 80 GB": 80e9, "H200 141 GB": 141e9, "B300 288 GB": 288e9}

def draw(layers, hidden, context, samples, precision, optimizer, recomputed, dp, stage, tp, pp):
    count = parameters_of(layers, hidden) / 1e9
    choice = (layers, hidden, context, samples, precision, optimizer, recomputed)
    return plot_stacks({"one GPU alone": fullest_gpu(*choice, 1, 0, 1, 1),
                        f"each of {dp * tp * pp} GPUs": fullest_gpu(*choice, dp, stage, tp, pp)},
                       limits=gpus, title=f"{layers} layers of {hidden}: {count:.3g} billion "
                                          f"parameters, micro-batches of {samples} × {context}")

explore(draw, layers=[32, 12, 24, 48, 80, 96], hidden=[4096, 768, 2048, 8192, 12288],
        context=[4096, 1024, 2048, 8192, 32768], samples=[1, 2, 4, 8, 16],
        precision=["mixed, 16 bytes", "mixed, 18 bytes", "float32"],
        optimizer=["Adam", "SGD with momentum", "SGD"], recomputed=["nothing", "every block"],
        dp=[8, 1, 2, 4, 16, 64, 256], stage=[3, 0, 1, 2], tp=[1, 2, 4, 8], pp=[1, 2, 4, 8],
        labels=in_words, no_effect=lambda dp, **others: {"stage"} if dp == 1 else set())

# %% [markdown]
# Try: the smallest number of GPUs for 7 billion parameters (32 layers of 4096) with stage 0 and 80
# GB (2, by tensor parallelism or by a pipeline; data parallelism helps nothing); what recomputation
# changes there; 175 billion (96 of 12288) with tensor parallelism on 8 ranks and 8 stages. And hold
# the calculator against a measurement: our model, in float32 with Adam, the most of each kind.

# %%
ours = {**states_of(parameters, "float32", "Adam", 1, 0),
        "activations": activations_of(layers, width, 64, samples, "float32", "nothing", 1)}
measured = {kind: peak[kind] for kind in ours}
plot_stacks({"our model": measured}, {"our model": ours},
            title="A step of our model: calculator and measurement")

# %% [markdown]
# States to the byte (but for Adam's counters). Activations have on top what the model keeps outside
# of its blocks: the scores for each possible next letter, above all. The sum is an upper bound: of
# one batch, the gradients come as the activations go. With accumulation it is reached.

# %% [markdown]
# ## Put to the test
#
# What our sources say about memory, and what was found. First, the states of 70 billion parameters,
# for which a book chapter gives 840 GB:

# %% jupyter={"source_hidden": true}
billions = 70
for name in ("12 bytes", "16 bytes"):
    told = ", ".join(f"{kind.replace('_', ' ')} {billions * size} GB"
                     for kind, size in made_of(conventions[name], 1).items())
    print(f"{name}, together {billions * bytes_each[name]:g} GB:\n  {told}")

def gb(count, digits=0):
    return f"{count / 1e9:,.{digits}f} GB"

of_float32 = {layout: peak["activations"] / fullest["float32"]["activations"]
              for layout, peak in fullest.items()}
mixed_states = sum(fullest["bfloat16, master"][kind] for kind in kinds) / parameters
put_to_the_test(f"""
- 70B with Adam: 140 + 140 + 560 = 840 GB | book chapter | contradicts others | adds up, with 12
  bytes for each parameter and no float32 master: with it {bytes_each["16 bytes"] * 70:,.0f} GB.
  Without, {1 - moves["bfloat16 alone"][1]:.0%} of bfloat16 weights did not move in ten small steps
- Mixed-precision Adam: 2 + 2 + 12 = 16 bytes for each parameter | web page; CS 229S | right |
  measured in training: {mixed_states:.1f}; others count 18 or 20
- 16 Φ are just parameters and optimizer state | CS 229S | imprecise | 2 Φ of them are gradients
- No single GPU has 840 GB | book chapter | right | the largest that we know of (2025) has
  {gb(max(gpus.values()))}
""")

# %% jupyter={"source_hidden": true}
seven_on_4 = sum(states_of(7e9, "mixed, 16 bytes", "Adam", 4, 3).values())
seven_recomputed = activations_of(32, 4096, 2048, 1, "mixed, 16 bytes", "every block", 1)
offloaded = 32e9 / (2 + 2 / 8)  # parameters that fit a V100: 2 bytes each, and an eighth of 2
put_to_the_test(f"""
- Mixed precision halves memory | web page | wrong for model states | {bytes_each["all float32"]:g}
  bytes in float32, {mixed_states:.0f} mixed. Activations: {of_float32["autocast"]:.2f} of float32
  with autocast, {of_float32["bfloat16, master"]:.2f} in bfloat16
- Multiplier K: states are (2 + 2 + K) Φ | CS 229S | right | from real optimizers: K is
  {", ".join(f"{count + 4:.0f} ({name})" for name, count in list(state_for_each.items())[:3])}
- Gradient checkpointing trades compute for memory | web page | right | every block:
  {activations["every block"] / activations["nothing"]:.0%} of the activations, the same gradients
- A bigger batch leads to out of memory | PyTorch slides | right | activations of 4, 8, 16, 32
  samples: {", ".join(f"{p['activations'] / 1e6:.1f}" for p in by_samples.values())} MB; the states
  stay
- CPU and NVMe offload extend memory | web page | right | chapter 06h keeps the optimizer's state in
  a file
- Trains models 100 times larger than one GPU's memory | web page | depends | on the number of
  GPUs: stage 3 divides states by N; states of 100 memories need over 100 GPUs, or offload
- 7B with ZeRO-3 and checkpointing on 4 A100 of 40 GB, "consumer GPUs" | web page | wrong label |
  fits: {gb(seven_on_4)} of states for each, {gb(seven_recomputed, 1)} of activations (one sample of
  2048). But an A100 belongs in a data centre
- ZeRO-2 with CPU offload on 8 V100, for clusters | web page | depends | with 32 GB: up to
  {offloaded / 1e9:.0f} billion parameters, less what activations take
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(f"""
- Mixed precision doubles throughput | web page | depends | on the machine: here a matrix product
  in bfloat16 takes {in_bfloat16 / in_float32:.2f} times as long as in float32. Data sheets: an A100
  has 312 TFLOP/s in bfloat16, 156 in TF32, 19.5 in float32
- Checkpointing costs time | web page | right | every block: {seconds["every block"]:.2f} times the
  time here; if only arithmetic counted, 1.33
""")

# %% [markdown]
# **Sources.** *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *CS 229S, lecture 8* (Stanford); *Distributed training with PyTorch* (slides
# of a video course).
#
# **To read on.** Micikevicius et al., [Mixed Precision Training](https://arxiv.org/abs/1710.03740),
# 2018. Chen et al., [Training Deep Nets with Sublinear Memory
# Cost](https://arxiv.org/abs/1604.06174), 2016. Korthikanti et al., [Reducing Activation
# Recomputation](https://arxiv.org/abs/2205.05198), 2022: the formula with 34, and what tensor
# parallelism does to it. Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), 2020,
# section 3: where memory goes.

# %% [markdown]
# ## What you have learnt
#
# * Parameters, gradients and Adam's state take 16 bytes for each parameter in float32. Mixed
#   precision keeps a float32 copy of the weights, so it takes no less.
# * Activations grow with samples and context. They are what mixed precision makes smaller.
# * Float16 loses small gradients. Multiplying the loss saves them. Bfloat16 does not need it.
# * Recomputation trades a second forward for most of the activations, and the gradients stay the
#   same.
#
# **Your exercises**: those in cells above, and [labs/memory.py](../labs/memory.py).
#
# **Next**: [06 · ZeRO and FSDP](06_zero.ipynb).

# %%
progress("05")
