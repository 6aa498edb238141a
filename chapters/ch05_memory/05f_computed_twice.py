# %% [markdown]
# # {{title}}
#
# **What if activations are not kept, but computed again?** The backward then has to run parts of
# the forward a second time. You pay with time, and get back most of the activations. This is
# **activation checkpointing**, or recomputation. How much of it a run needs depends on what fits:
# [Llama 3](https://arxiv.org/abs/2407.21783) did without for sequences of 8K tokens (section
# 3.3.2), and [DeepSeek-V3](https://arxiv.org/abs/2412.19437) recomputed norms and the
# up-projections of its attention (3.2.3). You write it, find out where it goes wrong, and choose
# what is worth recomputing.

# %% [markdown]
# ![Bars for seven choices of what is recomputed: what is kept for the backward, FLOPs, and time, as
# multiples of a step that recomputes nothing](../assets/covers/05f_computed_twice.png)
#
# *Measured in section 4: what seven choices keep, and what they cost.*
#
# **After this part you can** write a function for autograd, recompute a block with the same
# gradients, also under dropout, and choose which operations to recompute.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from functools import partial
from itertools import combinations

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts,
)

from pedagogy_lib import (
    Table, check, close, hint, lab, launch, plot_against, plot_bars, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
width = 128
layers = 6
samples = 8

# %%
memory, recomputation, budgets = lab("memory"), lab("recomputation"), lab("recompute_budget")
text = lab("language_model").standard_library(50_000)

# %% [markdown]
# ## 1 · A function of your own
#
# To decide what is kept, you have to write the backward yourself. Autograd lets you: a
# `torch.autograd.Function` has two methods. Here is the square, in five lines:

# %%
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)             # what the backward will need
        return x * x

    @staticmethod
    def backward(ctx, grad_output):          # the gradient of what the forward returned
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x           # the gradient of x

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(10 * Square.apply(x)).sum().backward()
print(x.grad.tolist())

# %% [markdown]
# `ctx` carries what you save from the forward to the backward. `grad_output` says how much the loss
# changes with each number that the forward returned: here 10, because of the factor behind it. By
# the chain rule it is multiplied by the derivative, $2x$.
#
# The forward runs *without* a graph: autograd does not look into it. So nothing is kept but what
# you save. That is what we need for recomputation.

# %% [markdown]
# ### Exercise {{power}} · Write the backward of a power
#
# `Power` in [labs/recomputation.py](../labs/recomputation.py) computes `x ** exponent`. Its forward
# stands there. Write its `backward(ctx, grad_output)`.
#
# The forward has two inputs, `exponent` and `x`, so the backward returns two gradients, in this
# order. `exponent` is a plain number, for which the answer is `None`. `x` is a tensor of positive
# numbers, of any shape, and its gradient has the same shape. `exponent` is any number but 0.
# Nothing may be kept but `x`.
#
# For example, `exponent` 3 and `x` = `[2]`: the derivative is $3 x^2 = 12$. If `grad_output` is
# `[10]`, return `None` and `[120]`.

# %%
check("{{power}}")

# %% [markdown]
# ## 2 · Recompute a block
#
# Now the function is a whole block. Keep its input only. In the backward, run its forward again,
# this time with a graph, and go back through that graph at once. A block keeps 16 activations of
# the size of its input (05d). With recomputation each block keeps 1, and one block at a time has
# the 15 others, while its backward runs. To which share do the activations of 8 blocks fall?

# %%
share = predict("Activations of 8 blocks if each is recomputed, in percent", unit="%")

# %% [markdown]
# ### Exercise {{recomputed}} · Recompute a forward in the backward
#
# Write the backward of `Recomputed` in [labs/memory.py](../labs/memory.py).
# `Recomputed.apply(function, x)` returns `function(x)`. The forward stands there: it keeps
# `function`, `x`, and the state of the random number generator, as `ctx.function`,
# `ctx.saved_tensors` and `ctx.chance`.
#
# `function` takes one tensor and returns one tensor, of any shape. It may be a block with weights.
#
# The backward gets `grad_output`, the gradient of what `function` returned. It runs `function` once
# more and goes back through it. It returns two gradients: `None` for `function`, and the gradient
# of `x`. The weights' gradients are added to their `.grad`, as in any backward.

# %% [markdown]
# The second run has to draw the same random numbers as the first. Before it, set the generator to
# `ctx.chance`. Afterwards, the generator must be where it was before the backward, so that the rest
# of the program draws what it would have drawn. `torch.random.fork_rng(devices=[])` does the
# latter.
#
# Autograd records nothing during a backward, unless you enable it again with
# `torch.enable_grad()`. And the `x` that was kept still belongs to the graph before it: `detach()`
# cuts it off, as in 05e.
#
# Nothing but `x` may be kept between the forward and the backward, and `function` may run once in
# each. For example, `function` is $3x$ and `grad_output` is `[10]`: return `None` and `[30]`.

# %%
check("{{recomputed}}")

# %% [markdown]
# Now a transformer of 8 blocks. Its attention, its MLPs or its blocks are recomputed; or nothing
# is.

# %%
eight = launch(recomputation.compare, recomputation.WHOLE, text, 64, 8, samples, 2, world_size=1,
               device="cpu")
plain, *_ = eight.values[0]["nothing recomputed"]
kept = {way: eight[way].peak_bytes[0]["activations"] for way in recomputation.WHOLE}
for way in recomputation.WHOLE:
    same = torch.equal(eight.values[0][way][0], plain)
    print(f"{way:18} {kept[way]:>11,} bytes of activations, the same gradients: {same}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
input_bytes = samples * 64 * 64 * 4
share.compare(100 * (8 + 15) / (8 * 16), 100 * kept["blocks"] / (8 * 16 * input_bytes),
              kind="activations")

# %% [markdown]
# The same gradients to the last bit, with less than a fifth of the activations. (`device="cpu"`
# stands here because the bytes are counted as the CPU keeps them.)
#
# ## 3 · Where it goes wrong
#
# Recomputation assumes that the second run does the same as the first. **Dropout** does not, unless
# somebody takes care: it draws new random numbers. Here the generator's state is forgotten:

# %%
class Careless(memory.Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        ctx.chance = torch.get_rng_state()   # the state of now, not that of the forward
        return memory.Recomputed.backward(ctx, grad_output)

def gradient_with(call):
    torch.manual_seed(0)
    x = torch.ones(1, 8, requires_grad=True)
    y = call(nn.Dropout(0.5), x)
    y.sum().backward()
    return y.detach()[0].tolist(), x.grad[0].tolist()

# %%
ways = {"not recomputed": lambda f, x: f(x), "recomputed": memory.recompute_in_backward,
        "recomputed, other numbers": Careless.apply}
Table(["", "output", "gradient"],
      [[name, *(" ".join(f"{v:g}" for v in values) for values in gradient_with(call))]
       for name, call in ways.items()])

# %% [markdown]
# The outputs are equal, and so is the loss. No error comes. But in the last row the gradient
# belongs to another mask than the output: three numbers that were dropped get a gradient. A check
# of losses would never find this. Compare *gradients*, with dropout switched on.
#
# The stages of a pipeline (chapter 08) recompute, too, and have to restore the generator in the
# same way.
#
# The setting of `torch.autocast` has to be restored, too. `loss.backward()` is usually called
# outside of the autocast block, so the second run would compute in float32. PyTorch's `checkpoint`
# turns autocast on again; `Recomputed` does not.

# %% [markdown]
# The second trap is in *how* the backward runs. `Recomputed` starts a whole backward inside of the
# backward. PyTorch calls this the **reentrant** way. Its `checkpoint` also knows another one,
# `use_reentrant=False`: the tensors that autograd keeps are thrown away, and when the backward asks
# for the first of them, the forward runs again to make them. There is one backward only.
#
# Two questions tell them apart. A weight is used by *two* recomputed parts: how often does autograd
# report its gradient as complete? And does a weight get a gradient if the *input* of its part needs
# none, such as a batch of data?

# %% tags=["nbval-ignore-output"]
variants = {
    "not recomputed": lambda f, x: f(x),
    "memory.recompute_in_backward": memory.recompute_in_backward,
    "PyTorch, reentrant": partial(checkpoint, use_reentrant=True),
    "PyTorch, not reentrant": partial(checkpoint, use_reentrant=False),
}
batch, weight = torch.randn(3, 4), torch.randn(4, 4)
Table(["way", "its gradient is reported", "input without gradient: the weight gets one"],
      [[name, f"{recomputation.count_hook_calls(way, weight, batch)} ×",
        recomputation.gets_gradient(way, batch)] for name, way in variants.items()])

# %% [markdown]
# * In a reentrant backward, the hook of a shared weight fires twice, and the first time the
#   gradient is half done. An engine that reduces gradients as soon as they are reported sends half
#   of a gradient. ZeRO 2 in part 06c has to take care of this.
# * With an input that needs no gradient, the reentrant way gives the weights none at all. PyTorch
#   warns; our function does not even warn.
#
# So PyTorch recommends
# [`use_reentrant=False`](https://docs.pytorch.org/docs/stable/checkpoint.html). `Recomputed` is
# there to show the idea in a few lines.

# %% [markdown]
# ## 4 · What is worth recomputing?
#
# Not everything costs the same. Matrix products take nearly all FLOPs of a block. Norms and GELU
# take hardly any, yet their inputs are kept. **Selective** recomputation keeps what is expensive to
# compute, and recomputes what is cheap.
#
# In PyTorch you write a **policy**: a function that PyTorch asks, for each operation, whether to
# keep its result. Here is one, used for a small MLP. (`aten.mm` and `aten.addmm` are PyTorch's
# names for a product of matrices, without and with a bias.)

# %%
def keep_products(context, operation, *arguments, **named):
    is_product = str(operation) in ("aten.mm.default", "aten.addmm.default")
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE

contexts = partial(create_selective_checkpoint_contexts, keep_products)
mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
y = checkpoint(mlp, torch.ones(1, 8), use_reentrant=False, context_fn=contexts)

# %% [markdown]
# Think first. A block's products are: query, key and value together (3 activations of the input's
# size), the output of attention (1), and the two layers of the MLP (4 and 1). If their results are
# kept, with the block's input: how many activations of the input's size does a block keep, in place
# of 16?

# %%
with_products = predict("A block that keeps the results of its products, in times its input",
                        unit="times")

# %%
ways = recomputation.WAYS
run = launch(recomputation.compare, ways, text, width, layers, samples, world_size=1, device="cpu",
             timeout=120)
found = run.values[0]
input_bytes = samples * 64 * width * 4
of_block = {way: recomputation.bytes_saved(run, way) / input_bytes / layers for way in ways}
more_flops = {way: found[way][2] / found[ways[0]][2] for way in ways}
print("the same gradients:", all(torch.equal(found[way][0], found[ways[0]][0]) for way in ways))

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
with_products.compare(1 + 3 + 1 + 4 + 1, of_block["all but products"], kind="activations")

# %% [markdown]
# (Measured is what the forward leaves, divided by the number of blocks. Embedding and logits are in
# it: half of an activation.) Here are the bytes, FLOPs and seconds of all ways, as multiples of a
# step that recomputes nothing:

# %% tags=["cover", "nbval-ignore-output"]
first = ways[0]
times = {way: min(found[way][1]) / min(found[first][1]) for way in ways}
pictured = [way for way in ways if way not in ("blocks, reentrant", "all but both")]
plot_bars(pictured,
          {"kept for the backward": [of_block[way] / of_block[first] for way in pictured],
           "FLOPs": [more_flops[way] for way in pictured],
           "time": [times[way] for way in pictured]},
          "times a step without", title="What is recomputed, and what it costs")

# %% tags=["nbval-ignore-output"]
slower = recomputation.find_slower_than_flops(found)
print("clearly longer than their FLOPs say:", *(slower or ["none"]), sep="\n    ")
Table(["recomputed", "kept for each block", "FLOPs", "time here"],
      [[way, f"{of_block[way]:.1f}", f"{more_flops[way]:.2f} ×", f"{times[way]:.2f} ×"]
       for way in ways],
      note="in times the block's input; in times a step without, the quickest of five")

# %% [markdown]
# The table:
#
# * **Whole blocks** cost a third more FLOPs: the forward is a third of forward and backward.
# * **Not reentrant costs less.** PyTorch stops the second run as soon as the last kept tensor is
#   there. It does not run the block's last product again, a third of the forward: 2/9 more FLOPs in
#   place of 1/3.
# * **All but products** costs hardly any FLOPs, and saves more than a third. In FLOPs that is the
#   best bargain. In seconds it may be none: PyTorch asks the policy, in Python, for each operation.
# * **All but attention** should pay with long contexts, where attention's scores are most of the
#   arithmetic. By its FLOPs, it does not at 64 tokens.

# %% [markdown]
# With frozen matrices, as in fine-tuning with adapters, the backward computes no gradients of them.
# Then the forward is half of forward and backward:

# %%
frozen = launch(recomputation.more_flops_if_frozen, text, width, layers, samples, world_size=1,
                device="cpu").values[0]
for way, times_as_many in frozen.items():
    print(f"matrices of the blocks frozen, {way:21}: {times_as_many:.2f} × the FLOPs")

# %% [markdown]
# (PyTorch's counter leaves out the scores of the CPU's attention. At 64 tokens they are few.)
#
# FLOPs are not time. Norms and GELU have hardly any FLOPs, and yet take time, since they read and
# write memory. And PyTorch's way asks Python for each tensor that is kept. So in small blocks, such
# as these, the seconds need not follow the FLOPs: see the line above the table. In larger blocks we
# expect them to follow better (section 5).

# %% [markdown]
# ## 5 · How long is a segment?
#
# A **segment** is what is recomputed as a whole. It may be longer than a block. With $L$ layers in
# $k$ segments, $k$ inputs are kept. While a segment's backward runs, what its $L/k$ layers keep
# comes on top. Where a layer keeps as much as its input, that is $k + L/k$. Here are 64 such
# layers, each a product and a tanh. How many segments are best?

# %%
best = predict("Fewest activations for 64 layers: with how many segments?", unit="segments")

# %%
segments = [1, 2, 4, 8, 16, 32, 64]
runs = [launch(recomputation.go_through, k, world_size=1, device="cpu") for k in segments]
most = [run["forward and backward"].peak_bytes[0]["activations"] / run.values[0] for run in runs]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
best.compare(8, segments[most.index(min(most))], kind="activations")

# %%
plot_against(segments, {"activations": most}, "segments of 64 layers",
             "at most, in times a layer's input",
             {"activations": [k + 64 / k for k in segments]}, logarithmic=True,
             title="Activations when segments are computed again")

# %% [markdown]
# Too few segments are bad, and so are too many. $k + L/k$ is least for $k = \sqrt{L}$: 64 layers
# then need 16 activations in place of 64 ([Chen et al. 2016](https://arxiv.org/abs/1604.06174)). A
# transformer's block keeps 16 times its input. With $L$ blocks that is $k + 16\,L/k$, which is
# least for $k = 4\sqrt{L}$. So with up to 16 blocks, one block is the best segment. With 64 blocks,
# segments of two blocks are better: $32 + 32 = 64$ in place of $64 + 16 = 80$.

# %% [markdown]
# **On GPUs**
#
# * Megatron-LM's selective recomputation began with the inside of attention, for 2.7 % more FLOPs
#   in GPT-3 ([paper](https://arxiv.org/abs/2205.05198), section 5). Fused attention recomputes its
#   inside anyway, so little is left to save there. NVIDIA [now
#   advises](https://docs.nvidia.com/nemo/megatron-bridge/0.7.0/training/activation-recomputation.html)
#   to compare it with an empty list, and to choose `mla_up_proj` for latent attention, `moe_act`
#   and `layernorm` for experts. DeepSeek-V3's choice (above) is of this kind.

# %% [markdown]
# * torchtitan has a list of operations whose results are always kept, such as attention and
#   collectives, and keeps those products that a list names
#   ([source](https://github.com/pytorch/torchtitan/blob/01db32e97d28d588eccadf527155d2201797d0b8/torchtitan/distributed/activation_checkpoint.py)).
# * A collective inside of a recomputed block runs again in the backward. With tensor parallelism
#   that is up to half as much communication again (chapter 07), unless the policy keeps its result.
# * The generator of the GPU has a state of its own. PyTorch's `checkpoint` restores both;
#   `Recomputed` knows the CPU's alone.

# %% [markdown]
# *Measured on an H100* (torch 2.11): six such blocks in bfloat16, forward and backward, in times
# the step that recomputes nothing.
#
# | recomputed | width 1,024, 4 × 1,024 tokens | width 4,096, 2 × 2,048 tokens |
# |---|---|---|
# | blocks, reentrant | 1.64 | 1.34 |
# | blocks, not reentrant | 2.74 | 1.27 |
# | all but attention | 4.25 | 1.25 |
# | all but products | 4.41 | 1.09 |
#
# On the right the kernels are long, and the seconds follow the FLOPs. On the left they are so short
# that the GPU waits for Python, which asks for each tensor and each operation (CUDA graphs, 01c,
# are a remedy). There a selective policy is the slowest choice of all.

# %% [markdown]
# ## 6 · Under a memory budget
#
# A step has to fit, and what fits anyway need not be recomputed. So the question becomes: which
# parts, for the fewest FLOPs? With equal blocks any of them will do. This model has unequal parts.
# As in models for images, four tokens become one that is twice as wide, so that the first parts
# keep most and the last ones compute most:

# %%
parts = budgets.measure_parts()
Table(["part", "tokens, width, inside", "recomputing it frees", "and adds"],
      [[number, shape, f"{size:,} bytes", f"{flops:,} FLOPs"]
       for number, (shape, (size, flops)) in enumerate(zip(budgets.PARTS, parts))])

# %% [markdown]
# ### Exercise {{choose_recomputed}} · Choose what to recompute under a memory budget
#
# Write `choose_recomputed(parts, budget)`. `parts` is a list of at most 12 pairs: the bytes that a
# part keeps, and the FLOPs that recomputing it adds, positive numbers. It returns the indices of
# the parts to recompute, in ascending order. The bytes of the other parts together may be at most
# `budget`, which is 0 or more, and the FLOPs are the fewest with which that can be done. (No two
# choices tie.) It may try every choice.
#
# For example, with the parts (6, 5), (5, 3) and (4, 3) and the budget 9, return `[0]`: parts 1 and
# 2 keep 9 bytes, and 5 FLOPs are added. Recomputing both of the others would add 6.

# %%
def choose_recomputed(parts, budget):
    ### BEGIN SOLUTION
    numbers = range(len(parts))
    sets = [chosen for count in range(len(parts) + 1) for chosen in combinations(numbers, count)]
    fits = [chosen for chosen in sets
            if sum(parts[k][0] for k in numbers if k not in chosen) <= budget]
    return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
    ### END SOLUTION

check("{{choose_recomputed}}", choose_recomputed)

# %% [markdown]
# Does a prediction from the parts hold for the whole model? Here the parts are chosen by PyTorch's
# own solver of this problem, and by a greedy rule: most bytes per FLOP first.

# %%
total, (kept_all, flops_all, exact) = sum(size for size, _ in parts), budgets.take_step()
rows = []
for allowed in (1, 0.8, 0.6, 0.4, 0.2, 0):
    best = budgets.recompute_by_solver(parts, allowed * total)
    greedy = budgets.recompute_greedily(parts, allowed * total)
    kept_now, flops_now, gradients = budgets.take_step(best)
    freed = sum(parts[k][0] for k in best)
    rows.append([f"{allowed:.0%}", best, f"{flops_now / flops_all - 1:.1%}",
                 f"{sum(parts[k][1] for k in greedy) / flops_all:.1%}",
                 kept_now == kept_all - freed, torch.equal(gradients, exact)])
Table(["budget", "recomputed", "FLOPs added", "greedily", "bytes as predicted", "same gradients"],
      rows)

# %% [markdown]
# The bytes add up exactly, and so do the FLOPs. The greedy rule is often right; it pays too much
# where its last part frees more than is needed.
#
# A compiler knows single operations, of which a part has six. `torch.compile` solves the same
# problem for them, if `torch._functorch.config.activation_memory_budget` is below 1. (Its graphs
# run here without generated code.) What does it keep, and what does its backward compute?

# %%
compiled = launch(budgets.compile_under_budgets, (1, 0.8, 0.6, 0.4, 0.2, 0), world_size=1,
                  device="cpu").values[0]
_, first_flops, _ = compiled[1]
Table(["budget", "kept of what is kept without", "FLOPs added", "gradients equal"],
      [[f"{allowed:.0%}", f"{kept_now / kept_all:.0%}",
        f"{(flops_now - first_flops) / flops_all:.1%}", close(gradients, exact)]
       for allowed, (kept_now, flops_now, gradients) in compiled.items()])

# %% [markdown]
# Down to some budget the compiler adds no FLOPs of products at all, because it recomputes norms and
# GELUs first: section 4's bargain, found without a policy. Below it, products follow. At 0 it keeps
# the model's input alone.
#
# **On GPUs** PyTorch's [blog](https://pytorch.org/blog/activation-checkpointing-techniques/)
# describes the option. By its
# [source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_functorch/config.py) FLOPs stand
# for time, unless you choose `"profile"`, which measures each operation. A third way is to *move*
# activations (part [05d](05d_activations.ipynb)).

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
blocks, cheap = "blocks, not reentrant", "all but products"
saved = of_block[ways[0]] / of_block["blocks"]
same = all(torch.equal(found[way][0], found[first][0]) for way in ways)
is_trade = saved > 2 and more_flops["blocks"] > 1.2 and same
verdict = "right" if is_trade else "not seen here"
put_to_the_test(f"""
- [C108] Gradient checkpointing trades compute for memory: activations are recomputed |
  web page, “Best Practices” | {verdict} | a block keeps {of_block[ways[0]]:.1f} times its input.
  Recomputed as a whole it keeps {of_block["blocks"]:.1f}, for {more_flops["blocks"]:.2f} times the
  FLOPs, and {times["blocks"]:.2f} times the time here. One can choose how much to trade: all but
  its products recomputed, {of_block[cheap]:.1f} for {more_flops[cheap]:.2f} times the FLOPs
  (section 4, table). The gradients are the same to the last bit (section 4, run) | measured: the
  time. On an H100 small blocks took more than the FLOPs say, large ones about as much (section 5);
  bytes and FLOPs are expected to follow the same rule
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Chen et al. 2016, [Training Deep Nets with Sublinear Memory
# Cost](https://arxiv.org/abs/1604.06174). Korthikanti et al. 2022, [Reducing Activation
# Recomputation](https://arxiv.org/abs/2205.05198). PyTorch's
# [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html).

# %% [markdown]
# ## What you have learnt
#
# * **Recomputation** keeps a block's input alone, and runs its forward again in the backward. It
#   costs up to a third more FLOPs, and up to half if most weights are frozen. Gradients stay the
#   same, if random numbers do.
# * The **reentrant** way reports the gradients of shared weights twice. Take `use_reentrant=False`.
# * A **selective policy** keeps the results of products, and recomputes what is cheap.
# * Of $L$ equal layers, $\sqrt{L}$ segments need the fewest activations.
# * **Under a budget**, bytes and FLOPs of parts add up, and the best choice is a knapsack problem,
#   which `torch.compile` solves for single operations.
#
# **Your exercises** stand in [labs/recomputation.py](../labs/recomputation.py) and
# [labs/memory.py](../labs/memory.py), and {{choose_recomputed}} in a cell above.
#
# **Next**: {{next}}.

# %%
progress("05f")
