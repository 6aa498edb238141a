# %% [markdown]
# # {{title}}
#
# **What does the forward leave behind for the backward?** The states of a model have a fixed size.
# Activations do not: they grow with the batch and with the context, and at long contexts they are
# the largest part of all. You find out which tensors an operation keeps, count those of a
# transformer block to the byte, and see what attention may add.

# %% [markdown]
# ![Bytes that one transformer block keeps, over the context length. Attention that stores its
# weights grows with the square of the context; attention that computes them again grows in
# proportion](../assets/covers/05d_activations.png)
#
# *Measured in section 3, with the formula as circles: what one block keeps, with two ways to
# compute attention.*
#
# **After this part you can** say which tensors a layer keeps and why, and predict the activations
# of a transformer to the byte.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_against, plot_bars, plot_stacks, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
width = 64
samples = 16
layers = 4

# %%
kept_tensors, language_model = lab("kept_tensors"), lab("language_model")
llama = lab("llama")

# %% [markdown]
# ## 1 · What an operation keeps
#
# Activations are what makes "out of memory" come in the middle of a step. To have fewer of them,
# you have to know who keeps which tensor, and what for.
#
# Take $y = x \cdot z$, number by number. The gradient of $x$ is the gradient of $y$ times $z$. So
# the backward needs $z$, and for the gradient of $z$ it needs $x$: the product keeps both. For $y =
# x + z$ the gradient of $x$ is the gradient of $y$ itself. The sum keeps nothing.
#
# PyTorch tells everybody who asks: `saved_tensors_hooks` calls a function for each tensor that
# autograd keeps. `shapes_kept_by` uses it. Here `x` and `z` have 4 × 8 numbers, `w` has 8 × 2.

# %%
x, z = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
w = torch.randn(8, 2, requires_grad=True)
operations = {
    "x + z": lambda: x + z, "x * z": lambda: x * z, "3 * x": lambda: 3 * x, "x @ w": lambda: x @ w,
    "relu(x)": lambda: F.relu(x), "gelu(x)": lambda: F.gelu(x),
    "softmax(x)": lambda: x.softmax(-1), "layer_norm(x)": lambda: F.layer_norm(x, (8,)),
}
Table(["operation", "keeps tensors of"],
      [[name, kept_tensors.shapes_kept_by(run)] for name, run in operations.items()])

# %% [markdown]
# * A product keeps both of its factors. If one of them is a parameter, that costs nothing: the
#   parameter is there anyway.
# * ReLU keeps its *result*: where that is 0, no gradient passes. The next layer keeps the same
#   tensor as its input, so together they keep it once. GELU needs its *input*, and the next layer
#   keeps GELU's result: two tensors.
# * A norm keeps its input, and two numbers for each row: the mean, and 1/deviation.
#
# What is kept stays until the backward has used it, or until nobody holds the graph any more (part
# 05).

# %% [markdown]
# ## 2 · What a block keeps
#
# A transformer block has two norms, attention, an MLP that is four times as wide, and two sums. Its
# input has the shape (samples, context, width): $b$ samples of $s$ tokens, and $h$ numbers for
# each. So measure everything in **activations of size $b \cdot s \cdot h$**. How many of them does
# the block keep?

# %%
in_inputs = predict("One block keeps, in times its input", unit="times")

# %%
block = language_model.Block(width, heads=4)
x = torch.randn(samples, 64, width, requires_grad=True)
kept = kept_tensors.count_saved_by_module(block, x)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
in_inputs.compare(16 + (4 + 4) / width, sum(kept.values()) / x.nbytes, kind="activations")

# %%
names = {"norm_1": "norm 1", "attention.query_key_value": "query, key, value",
         "attention": "attention", "attention.output": "output of attention", "norm_2": "norm 2",
         "mlp.0": "mlp.0", "mlp.1": "GELU", "mlp.2": "mlp.2"}
plot_bars(list(names.values()), {"kept": [kept.get(name, 0) / x.nbytes for name in names]},
          "times the block's input", title="What one block keeps for its backward")

# %% [markdown]
# Here is the same list with its reasons. A tensor counts once, for the first layer that keeps it.
# `mlp.0` and `mlp.2` are the two matrices of the MLP.
#
# | layer | keeps | size |
# |---|---|---|
# | `norm_1` | its input; a mean and a 1/deviation for each token | 1 |
# | query, key, value | its input | 1 |
# | attention | query, key, value; its result; a number for each token and head | 3 + 1 |
# | output of attention | its input is attention's result, which is kept already | 0 |
# | `norm_2` | its input; a mean and a 1/deviation for each token | 1 |
# | `mlp.0` | its input | 1 |
# | GELU | its input, four times as wide | 4 |
# | `mlp.2` | its input, four times as wide | 4 |

# %% [markdown]
# The two sums keep nothing. What the block returns is not in the list either: the next block's norm
# keeps it. The MLP has 9 of the 16.
#
# Attention's number for each token and head is the **log-sum-exp**: the logarithm of the sum of the
# exponentials of this token's attention scores. With it the backward can compute any attention
# weight again, without the whole row of scores.

# %% [markdown]
# ### Exercise {{kept_by_block}} · Activation bytes of a transformer block
#
# Write `kept_by_block(samples, context, width, heads, size=4)`. It returns the exact number of
# bytes that the block above keeps on a CPU. `samples`, `context`, `width` and `heads` are whole
# numbers. Each number has `size` bytes (4 or 8): those of the norms and the log-sum-exp, too.
# Parameters do not count. You need no tensors: compute with numbers alone.
#
# For example, take 1 sample of 2 tokens, a width of 4, and 2 heads. In 4-byte numbers the block
# keeps 560 bytes: 280 for each token.

# %%
def kept_by_block(samples, context, width, heads, size=4):
    ### BEGIN SOLUTION
    tokens = samples * context
    return tokens * (16 * width + 4 + heads) * size
    ### END SOLUTION

check("{{kept_by_block}}", kept_by_block)

# %% [markdown]
# ## 3 · Attention that stores its weights
#
# Papers often give another formula for a block: $34\,sbh + 5\,as^2b$ bytes, with $a$ heads, in
# numbers of 2 bytes ([Korthikanti et al. 2022](https://arxiv.org/abs/2205.05198)). Its first term
# is your 16 times 2 bytes, and two masks of dropout, of a byte a number: 34. (This block has no
# dropout.)
#
# The second term belongs to attention that is written out. It stores a weight for each pair of
# tokens and each head. With dropout it keeps the weights, a mask, and the result: 2 + 1 + 2 bytes.
# The function `scaled_dot_product_attention` computes the weights again instead.
#
# Here are both, in float32 and without dropout: the weights then take $4\,as^2b$ bytes.

# %% tags=["cover"]
contexts = [64, 128, 256, 512]
backends = {"attention that stores its weights": SDPBackend.MATH,
            "weights computed again": SDPBackend.FLASH_ATTENTION}
measured = {
    name: [
        kept_tensors.measure_attention_backend(backend, context, width) / 1e6
        for context in contexts
    ]
    for name, backend in backends.items()
}
plain = [2 * c * (16 * width + 4) * 4 / 1e6 for c in contexts]  # two samples
formula = {"attention that stores its weights":
               [most + 2 * 4 * c**2 * 4 / 1e6 for most, c in zip(plain, contexts)],
           "weights computed again":
               [most + 2 * 4 * c * 4 / 1e6 for most, c in zip(plain, contexts)]}
plot_against(contexts, measured, "context (tokens)", "kept by one block (MB)", formula,
             logarithmic=True, title="Activations of one block: two samples, 4 heads")

# %% jupyter={"source_hidden": true}
stored, again = (measured[name][-1] for name in backends)
print(f"context {contexts[-1]}: {stored:.1f} MB and {again:.1f} MB, {stored / again:.1f} times")

# %% [markdown]
# One curve grows with the square of the context, the other in proportion. With 8,192 tokens and 32
# heads, the attention weights of one block alone would be 8.6 GB in float32, or 4.3 GB in half
# precision. 32 such blocks would keep 137 GB of them for a single sample.

# %% [markdown]
# ## 4 · Llama's block
#
# The block above is GPT-2's. Llama's, the base of most newer models, differs in five ways:
#
# * **Gated MLP** (*SwiGLU*). It has three matrices: $\text{silu}(x W_g) \cdot (x W_u)$, times
#   $W_d$, where silu is a smooth function like GELU.
# * **RMSNorm**. It divides $x$ by $\sqrt{\text{mean}(x^2)}$, and subtracts no mean.
# * **Rotary positions** (*RoPE*). Queries and keys are rotated by angles that depend on their
#   positions (part 07c), so that there is no table of positions.
# * **Grouped heads**. Several query heads share a key and a value, which are fewer then.
# * **No biases**.

# %% [markdown]
# Begin with the MLP, which has most of the 16. So that the gated one has as many parameters as the
# plain one, its inside is 8/3 times as wide instead of 4 times. Does it keep less, since it is
# narrower?

# %%
gated = predict("Llama's MLP keeps, in times its input", unit="times")

# %%
mlps = kept_tensors.compare_mlps(width=192)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
gated.compare(1 + 4 * 8 / 3, mlps["gated, 8/3 × as wide"][1], kind="activations")

# %%
Table(["MLP", "parameters", "keeps, in times its input"],
      [[name, f"{count:,}", f"{times:.2f}"] for name, (count, times) in mlps.items()])

# %% [markdown]
# It keeps more. Four tensors are 8/3 times as wide: the input of silu, both factors of the product,
# and the input of the last matrix. The plain MLP keeps two tensors, each 4 times as wide.
#
# The rule is the same for any block you meet: go through its operations, ask what each needs for
# its backward, and count each tensor once. Here is the whole block next to the one of section 2,
# with 4 query heads that share 2 keys and values:

# %%
llama_block = llama.LlamaBlock(width, heads=4, kv_heads=2)
llama_kept = kept_tensors.count_saved_by_module(llama_block, x)
plot_bars(["activation" if name == "mlp.1" else of for name, of in names.items()],
          {which: [count.get(name, 0) / x.nbytes for name in names]
           for which, count in {"GPT-2's block": kept, "Llama's block": llama_kept}.items()},
          "times the block's input", title="What two blocks keep for their backward")

# %% [markdown]
# Let $h$ be the width, $k$ that of all keys together, $f$ the one inside the MLP, and let a head
# have $d$ numbers. For each token, the block keeps
#
# | layer | keeps | numbers |
# |---|---|---|
# | `norm_1` and `norm_2`, each | its input; this input divided; a 1/root | 2 h + 1 |
# | query, key, value | its input | h |
# | attention | rotated query and key, value; its result; a number for each head | 2 h + 2 k + a |
# | `mlp.0` | its input | h |
# | silu and product | silu's input and result, the other factor | 3 f |
# | `mlp.2` | its input | f |
#
# The rotation adds no activation. It keeps a cosine and a sine for each position and number of a
# head, for queries and again for keys, and all samples and heads share them: $4sd$ numbers.

# %%
shapes = [(2, 16, 64, 4, 2, 170), (1, 8, 32, 8, 1, 50), (3, 20, 48, 6, 6, 128)]
for shape in shapes:
    count, context, of_width, *rest = shape
    input_x = torch.randn(count, context, of_width, requires_grad=True)
    found = kept_tensors.count_saved_by_module(llama.LlamaBlock(of_width, *rest), input_x)
    print(f"{sum(found.values()):,} bytes, by the formula "
          f"{kept_tensors.kept_by_llama_block(*shape):,}")
with torch.autocast(x.device.type, torch.bfloat16):
    half = sum(kept_tensors.count_saved_by_module(llama_block, x).values()) / x.nbytes
casts = sum(2 * p.numel() for p in llama_block.parameters() if p.ndim == 2) / x.nbytes
print(f"the block of the picture keeps {sum(llama_kept.values()) / x.nbytes:.2f} times its input;\n"
      f"under autocast {half:.2f} times, of which {casts:.2f} are casts of its weights")

# %% [markdown]
# The formula is exact in float32 and in float64, but not under autocast: there norms keep float32,
# products keep bfloat16, and the casts of weights do not shrink with the number of tokens.
#
# RMSNorm computes less than a layer norm and keeps nearly twice as much here, because PyTorch
# computes it on a CPU by several operations, of which two keep a tensor. Layer norm is one
# operation, which knows that it can compute the divided input again. Grouped heads save little: two
# of the tensors shrink from $h$ to $k$ numbers. Their gain is in generating text, where all keys
# and values are kept.

# %% [markdown]
# In a layer of **experts** (part [09d](09d_experts.ipynb)) each token goes to $k$ of
# them. Their rows, insides and outputs are kept $k$ times, even if each is $k$ times narrower, so
# that the FLOPs are those of one MLP, which keeps 9 times its input here:

# %%
experts = lab("experts")
for k in (1, 2, 4, 8):
    layer = experts.ExpertLayer(width, n=8, k=k, hidden=4 * width // k)
    kept = sum(kept_tensors.count_saved_by_module(layer, x).values()) / x.nbytes
    print(f"{k} of 8 experts, {layer.mlps.up.shape[-1]} wide inside: "
          f"keeps {kept:.1f} times its input; at least {k * (2 + 2 * 4 / k) + 1:g}")

# %% [markdown]
# ## 5 · What grows, and what does not
#
# Samples and context multiply activations. Model states do not know of them. Here is a whole
# training step at its peak, with more and more samples:

# %%
def measure_peak(count, context=64):
    run = launch(kept_tensors.most_of_steps, count, context, width, layers, world_size=1,
                 device="cpu")
    return run["step"].at_peak[0]

by_samples = {count: measure_peak(count) for count in (4, 8, 16, 32)}
plot_stacks({f"{count} samples": peak for count, peak in by_samples.items()},
            title="A training step at its peak")

# %%
each = (by_samples[32]["activations"] - by_samples[4]["activations"]) / 28
blocks = layers * kept_by_block(1, 64, width, 4) if kept_by_block(1, 1, 1, 1) else 0
print(f"each sample adds {each:,.0f} bytes of activations; "
      f"the blocks' formula: {blocks:,} bytes")

# %% [markdown]
# (`device="cpu"` stands here because bytes are counted as the CPU keeps them.) The formula counts
# the blocks only. The rest is what the model keeps outside of them: the inputs of the last norm and
# of the last layer, and the **logits**, one number for each token and each entry of the vocabulary.
# Our vocabulary has 128 characters. Part 05e takes one of 128,256.

# %% [markdown]
# **On GPUs** the rule is the same, and some sizes differ.
#
# * In half precision the log-sum-exp and the numbers of the norms stay in float32. So a block in
#   bfloat16 keeps $2 \cdot 16\,h + 4\,(4 + a)$ bytes for each token, with $a$ heads. On an H100
#   (torch 2.11, width 1,024, 16 heads, 4 × 1,024 tokens) this was right to the byte, and in float32
#   your formula was.
# * Under autocast more is kept than half: norms run in float32, so they keep inputs of 4 bytes
#   ([autocast's
#   list](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)). On
#   that H100 it was 42 bytes for each number of the block's input, of which 6 are casts of weights.
#   In float32 it was 64.

# %% [markdown]
# *Still on GPUs.* PyTorch has RMSNorm as one operation for them, whose backward takes the input and
# one number for each token, according to its [table of
# derivatives](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/derivatives.yaml)
# (`_fused_rms_norm`). A block of Llama's then keeps $2h$ numbers fewer for each token. This was not
# measured here.
#
# A compiler such as `torch.compile` may keep other tensors: it chooses what to
# keep and what to compute again. Measure there, instead of counting.

# %% [markdown]
# ## 6 · Activation offloading
#
# What is kept need not stay where it was computed. **Offloading** moves saved tensors to another
# memory, on GPUs that of the host, and brings each back when its backward needs it. Autograd has
# two hooks for it: one gets each tensor that is saved, and returns what to keep in its place; the
# other turns that into the tensor again.
#
# PyTorch's `torch.autograd.graph.save_on_cpu` moves everything. A CPU has no second memory, so here
# the *host* is an array that does not count as a tensor. Bytes are measured, and speed is not.

# %%
offloading, text = lab("offloading"), language_model.standard_library(20_000)
moved = {way: launch(offloading.step_in, way, text, width, layers, samples, world_size=1,
                     device="cpu") for way in offloading.WAYS}
exact = moved["kept"].values[0][0]
Table(["", "left on the device", "moved out", "moved back", "same gradients"],
      [[way, *(f"{count / 1e6:.2f} MB" for count in (offloading.left_on_device(run, way),
                                                     *run.values[0][1:])),
        torch.equal(run.values[0][0], exact)] for way, run in moved.items()])

# %% [markdown]
# Hardly anything is left, and the gradients are equal to the last bit. But moving everything
# moves more than was kept: autograd saves a tensor once for each operation that needs it, although
# it is in memory only once, and it saves weights, which stay on the device anyway. The careful way
# stores each memory once, and leaves weights and tensors below 1 kB where they are. (It brings a
# memory back for each tensor in it. Under autocast, casts of weights move.)
#
# Is there time to move? In a block, a token keeps $16\,h$ numbers of 2 bytes, and its forward takes
# $24\,h^2$ FLOPs in products. So both are equally long at one width:

# %%
def hiding_width(flops_per_second, bytes_per_second):
    return 16 * 2 * flops_per_second / (24 * bytes_per_second)

for link, speed in {"64 GB/s": 64e9, "450 GB/s": 450e9}.items():
    print(f"400 TFLOP/s, host at {link}: the forward hides the moving from a width of "
          f"{hiding_width(400e12, speed):,.0f} on")

# %% [markdown]
# **On GPUs** a PCIe 5 slot with 16 lanes moves 128 GB/s, and each NVLink-C2C link of a GB200, which
# has a CPU and two GPUs, 900: both directions together, according to [Transformer
# Engine](https://github.com/NVIDIA/TransformerEngine/blob/080c0dccc3d5de700a531e0a9c40c01a0e87965c/docs/features/other_optimizations/cpu_offloading/cpu_offloading.rst).
# It offloads layers asynchronously, while the next ones compute. (The 400 TFLOP/s are assumed.)
# `save_on_cpu(pin_memory=True)` copies into pinned memory, from which copies can run beside
# kernels. Megatron Core moves [single
# modules](https://docs.nvidia.com/megatron-core/developer-guide/0.18.1/user-guide/features/fine_grained_activation_offloading.html),
# those of experts among them. How much of it is hidden was not measured here.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# A statement of the sources, and what was found.
states = {count: sum(peak[kind] for kind in ("parameters", "optimizer_state"))
          for count, peak in by_samples.items()}
grows = by_samples[32]["activations"] > 6 * by_samples[4]["activations"]
verdict = "right" if grows and len(set(states.values())) == 1 else "not seen here"
activations = ", ".join(f"{peak['activations'] / 1e6:.2f}" for peak in by_samples.values())
weights, adams = (by_samples[4][kind] for kind in ("parameters", "optimizer_state"))
put_to_the_test(f"""
- [C109] A bigger batch leads to out of memory | PyTorch slides, “What is distributed training?” |
  {verdict} | activations of {", ".join(map(str, by_samples))} samples: {activations} MB;
  parameters stay at {weights / 1e3:.2f} kB, and optimizer state at {adams / 1e6:.2f} MB (section 5,
  picture). So any memory is full at some size | measured: how many bytes a sample adds: an H100
  kept other sizes in half precision and under autocast (section 5). Not that they add up
""")

# %% [markdown]
# **Source.** *Distributed training with PyTorch* (slides of a video course).
#
# **To read on.** Korthikanti et al. 2022, [Reducing Activation
# Recomputation](https://arxiv.org/abs/2205.05198): the formula with 34. Dao et al. 2022,
# [FlashAttention](https://arxiv.org/abs/2205.14135): how attention does without stored weights.

# %% [markdown]
# ## What you have learnt
#
# * An operation keeps what its backward needs: a product both factors, a sum nothing, GELU its
#   input. A tensor that two layers keep is there once.
# * A transformer block keeps 16 activations of the size of its input, and Llama's block keeps more,
#   above all for its gate. Attention that stores its weights adds a part that grows with the square
#   of the context.
# * Activations grow with samples and context. Model states do not.
# * **Offloading** moves what is kept to another memory. Move each memory once, and no weights.
#
# **Your exercise** stands in a cell above.
#
# **Next**: {{next}}.

# %%
progress("05d")
