# %% [markdown]
# # 07g · Tensor parallel at work
#
# **In 07 you cut a transformer. What does that cost, and what do real systems do about it?** Five
# things: cut what lies between the parallel regions as well (sequence parallelism); hide a sum
# behind a product (overlap); decode text from a model that no rank has whole; let PyTorch's engine
# do it all (DTensor); and find out how slow it gets where links are slow.
#
# Exercises stand in a cell and in two labs: [sequence_parallel](../labs/sequence_parallel.py) and
# [decoding](../labs/decoding.py). The engine is in [tensor_engines](../labs/tensor_engines.py).

# %% [markdown]
# ![Memory that one block keeps for its backward on four ranks: less with tensor parallel, less
# again with sequence parallel, least if it gathers
# again](../assets/covers/07g_how_wide.png)
#
# *Measured in section 1, on top of the formula: what one rank of four keeps of a block.*
#
# **After this part you can** cut what tensor parallelism leaves whole, hide a sum behind a product,
# and tell when a slow link makes it pointless.
#
# **It takes** about 25 minutes, and 40 more for 6 exercises. **It needs** [07 · Tensor
# parallel](07_tensor_parallel.ipynb).

# %% jupyter={"source_hidden": true}
import time
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Machines, SlowProducts, Table, check, hint, lab, launch, measure, plot_bars, plot_stacks,
    plot_timeline, predict, progress, put_to_the_test, rounding, throttle,
)

# %% tags=["parameters"]
world_size = 4
width = 64
train_steps = 150

# %%
names = "tensor_parallel", "sequence_parallel", "decoding", "tensor_engines", "language_model"
tensor_parallel, sequence_parallel, decoding, engines, language_model = map(lab, names)
collectives, data_parallel = lab("collectives"), lab("data_parallel")
text = language_model.standard_library(100_000)
n = world_size
heads = 2 * n  # what follows should be cut evenly, for any number of ranks
wide, context = width // heads * heads, 64 // n * n

# %% [markdown]
# ## 1 · Sequence parallel
#
# Between two parallel regions stand a layer norm, an addition, perhaps dropout. Every rank does
# them for all letters, and keeps what they need for the backward: $n$ times the same. What could be
# cut there? A layer norm looks at one letter at a time, with all its features. So letters can be
# cut: each rank takes a **piece of the context**. (Attention, which needs all letters, stays inside
# the region, cut by heads. Other things are called "sequence parallel", too: ring attention and
# Ulysses cut the context inside of attention.)

# %% [markdown]
# With the context in pieces, entering a region takes an all-gather, and leaving it a sum of which
# each rank needs its piece: a reduce-scatter. In the backward each turns into the other. Chapter 02
# had it: an all-reduce *is* a reduce-scatter and an all-gather. So what is sent stays the same, and
# what lies between is done once, not $n$ times. But between regions ranks now have different
# letters: dropout there needs each rank's own stream, the other way round than in 7.14.

# %% [markdown]
# ### Exercise 7.16
#
# In [labs/sequence_parallel.py](../labs/sequence_parallel.py), write `AllGather`. `joined` and
# `summed_piece` are there, the second one on your ring of chapter 02.
#
# ### Exercise 7.17
#
# Write `ReduceScatter` in [labs/sequence_parallel.py](../labs/sequence_parallel.py).

# %%
display(check("7.16"))
check("7.17")

# %% [markdown]
# One thing gets harder. A layer norm's weights are on every rank, and now each rank has used them
# for its piece alone. Their gradients are Partial.
#
# ### Exercise 7.18
#
# Write `sum_partial_gradients` in [labs/sequence_parallel.py](../labs/sequence_parallel.py).

# %%
check("7.18")

# %% [markdown]
# What does a block keep for the backward? In $u$, the bytes of its input (samples × context × width
# × 4), and leaving small things aside:
#
# | | one process | tensor parallel | sequence parallel | gathered again |
# |---|---|---|---|---|
# | inputs of the norms | 2 | 2 | 2/n | 2/n |
# | outputs of the norms | 2 | 2 | 2, gathered | 2/n |
# | queries, keys, values | 3 | 3/n | 3/n | 3/n |
# | attention's result | 1 | 1/n | 1/n | 1/n |
# | GELU's input and output | 8 | 8/n | 8/n | 8/n |
# | together | 16 | 4 + 12/n | 2 + 14/n | 16/n |
#
# A linear layer keeps its input, and that has been gathered. Megatron-LM keeps only its piece, and
# gathers **again** in the backward: one all-gather more in each of the two regions. How much more
# does a block send, in percent?

# %%
more = predict("What a block that gathers again sends in addition", unit="%")

# %%
def try_block(way, sequence_parallel, samples, context, sizes):
    model = sequence_parallel.split_model(way, **sizes)
    n = dist.get_world_size() if way.startswith("sequence") else 1
    x = torch.randn(samples, context // n, sizes["width"], requires_grad=True)
    with measure("step"):
        y = model.blocks[0](x)
        with measure("kept"):  # what is alive between forward and backward
            pass
        y.sum().backward()

sizes = {"width": wide, "layers": 1, "heads": heads}
one = {"one process": launch(try_block, "tensor parallel", sequence_parallel, 4, context, sizes,
                             world_size=1, device="cpu")}
ways = {way: launch(try_block, way, sequence_parallel, 4, context, sizes, world_size=n,
                    device="cpu") for way in sequence_parallel.WAYS if way != "overlapped"}

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
u = 4 * context * wide * 4
sent = {way: run["step"].sent_bytes[0] / u for way, run in ways.items()}
again, once = sent["sequence parallel, gathered again"], sent["sequence parallel"]
more.compare(theory=25 if n > 1 else 0, measured=100 * (again / once - 1) if n > 1 else 0,
             kind="communication")

# %% tags=["cover"]
letters, bytes_of = 4 * context, {}
bytes_of["one process"] = 4 * letters * (16 * wide + 4 + heads)
bytes_of["tensor parallel"] = 4 * letters * (4 * wide + 4 + (12 * wide + heads) / n)
bytes_of["sequence parallel"] = 4 * letters * (2 * wide + (14 * wide + 4 + heads) / n)
bytes_of["sequence parallel, gathered again"] = bytes_of["one process"] / n
kept = {way: run["kept"].at_peak[0]["activations"] for way, run in (one | ways).items()}

def stacks(sizes):
    return {way.replace(", ", ",\n"): {"activations": size} for way, size in sizes.items()}

plot_stacks(stacks(kept), stacks(bytes_of),
            title=f"What a rank keeps of a block for its backward: alone, and as one of {n}")

# %%
Table(["", "kept", "by the formula", "in u", "sent, in u", "sent, in theory"],
      [[way, kept[way], f"{bytes_of[way]:.0f}", f"{kept[way] / u:.2f}", f"{sent[way]:.2f}",
        f"{(5 if 'again' in way else 4) * 2 * (n - 1) / n:g}"] for way in ways],
      note="one block, forward and backward, in bytes. Kept beyond the multiples of u: two numbers "
           "for each letter and norm, one for each letter and head. Sent beyond theory: headers.")

# %% [markdown]
# Two regions, each an all-gather and a reduce-scatter, forward and again backward: eight halves of
# an all-reduce, as many as in tensor parallelism. One all-gather more in each makes ten, 25 % more.
# So one hears that sequence parallelism costs no bytes, and that it divides all activations by n;
# both are true, but not at once. (Megatron-LM hides the gathers behind a product; section 4.2.2 of
# its paper says so.)

# %% [markdown]
# ## 2 · Overlap: a sum behind a product
#
# In the backward of a column layer, two products wait to be computed: the gradient of $X$, which
# has to be summed and for which the layers before are waiting; and the gradient of $A$, for which
# nobody waits. So: first the one of $X$; begin its sum; compute the one of $A$ meanwhile.
#
# ### Exercise 7.19
#
# Write the backward of `OverlappedProduct` in
# [labs/sequence_parallel.py](../labs/sequence_parallel.py).

# %%
check("7.19")

# %% [markdown]
# To *see* it, computing is emulated, as in 03c: `with SlowProducts(2e9):` makes each matrix product
# take as long as a device of 2 GFLOPS would, in the backward, too. Links are throttled so that the
# sum takes as long as one product, and your ring carries it in a thread. With a product as the
# unit, the backward takes $1 + 1 + 1$ without overlap. And with it? By how many percent is it
# shorter?

# %%
SIZE, FLOPS = 384, 2e9
product_seconds = 2 * SIZE**3 / FLOPS

def backward_of(sequence_parallel, collectives, data_parallel, size, seconds):
    def ring(x, group=None):
        with measure("all_reduce", memory=False):
            collectives.all_reduce_ring(x, group)

    ways = {"waiting": lambda x, group: ring(x) or (lambda: None),
            "meanwhile": data_parallel.in_background(ring)}
    x, weight = torch.randn(2, size, size).requires_grad_().unbind()
    with throttle(x.nbytes / seconds):
        collectives.all_reduce_ring(torch.ones(4))  # the first messages open the connections
        for label, begin in ways.items():
            y = sequence_parallel.OverlappedProduct.apply(x, weight, None, None, begin).sum()
            dist.barrier()
            with SlowProducts(2 * size**3 / seconds), measure(label, memory=False):
                y.backward()

# %%
shorter = predict("What overlap spares of a column layer's backward", unit="%")

# %% tags=["nbval-ignore-output"]
overlap = launch(backward_of, sequence_parallel, collectives, data_parallel, SIZE,
                 product_seconds, world_size=2, device="cpu")
took = {label: max(overlap[label].seconds) for label in ("waiting", "meanwhile")}
print(*(f"{label}: {1e3 * t:.0f} ms" for label, t in took.items()), sep="; ")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
shorter.compare(theory=100 / 3, measured=100 * (1 - took["meanwhile"] / took["waiting"]),
                kind="communication")

# %% tags=["nbval-ignore-output"]
plot_timeline(overlap, ["waiting", "meanwhile", "product", "all_reduce"], below=["all_reduce"],
              title="Backward of a column layer: waiting for the sum, and meanwhile (emulated)")

# %% [markdown]
# In the forward there is nothing to overlap with in this way: what follows needs the sum at once.
# That is why links inside of a node matter so much.
#
# ## 3 · Decoding
#
# A model writes text one letter at a time. It keeps the keys and values of all letters before, the
# **cache**: so each new letter costs one row of each product. With heads cut, the cache is cut,
# too: each rank has the keys and values of its heads, without doing anything for it.
#
# ### Exercise 7.20
#
# In [labs/decoding.py](../labs/decoding.py), write `likeliest`: the letter with the highest score
# over all ranks, without gathering scores.

# %%
check("7.20")

# %% [markdown]
# A small model, trained in one process for some seconds, then decodes on 1, 2 and 4 ranks. Not a
# letter may differ. For each letter, a rank sums an activation of one letter: once for the
# embedding, twice for each of two layers; and each rank tells all others its best letter, 16 bytes.
# How many bytes of tensors does it send for each letter that comes next, on 2 ranks, in float64?

# %%
per_letter = predict("Bytes of tensors that one of 2 ranks sends for the next letter", unit="B")

# %%
SIZES = {"width": width, "heads": 8, "kv_heads": 4}
beginning, letters = "def ", 44

def one_process(decoding, language_model, text, steps, sizes, beginning, letters):
    model = decoding.trained(text, steps, **sizes).double()
    return model.state_dict(), language_model.continue_text(model, beginning, letters)

state, alone = launch(one_process, decoding, language_model, text, train_steps, SIZES, beginning,
                      letters, world_size=1, device="cpu").values[0]
print(alone)

# %%
def try_decoding(decoding, tensor_parallel, language_model, state, sizes, beginning, letters):
    torch.set_default_dtype(torch.float64)
    model = language_model.Transformer(**sizes)
    model.load_state_dict(state)
    tensor_parallel.parallelize(model)
    decoding.decode(model, beginning, 2)
    with measure("decode", memory=False):
        said = decoding.decode(model, beginning, letters)
    with measure("one sum", memory=False):
        dist.all_reduce(torch.ones(sizes["width"]))
    weights = sum(p.nbytes for p in model.parameters())
    return said, weights, sum(room.nbytes for room in decoding.empty_cache(model))

decoded = {k: launch(try_decoding, decoding, tensor_parallel, language_model, state, SIZES,
                     beginning, letters, world_size=k, device="cpu") for k in (1, 2, 4)}
for k, run in decoded.items():
    same = {said for said, *_ in run.values} == {alone}
    print(f"{k} rank{'s' * (k > 1)}: the same {letters} letters as one process: {same}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
def in_theory(k):
    """Bytes that one of k ranks sends for the next letter."""
    sums = (2 * 2 + 1) * 2 * (k - 1) / k * width * 8  # two blocks and the embedding
    return sums + (k - 1) * 16

def for_a_letter(k):
    """Measured: at first the beginning went through as well, as so many letters more."""
    return decoded[k]["decode"].sent_bytes[0] / (letters + len(beginning) - 1)

per_letter.compare(theory=in_theory(2), measured=for_a_letter(2), kind="communication")

# %% tags=["nbval-ignore-output"]
print(f"one sum of {width * 8} bytes by itself: {decoded[2]['one sum'].sent_bytes[0]} bytes sent")
told = [[k, f"{weights / 1e3:.0f} kB", f"{cache / 1e3:.1f} kB",
         f"{for_a_letter(k):.0f}", f"{in_theory(k):.0f}"]
        for k, run in decoded.items() for _, weights, cache in run.values[:1]]
Table(["ranks", "weights of a rank", "its cache", "bytes sent for a letter", "in theory"], told)

# %% tags=["nbval-ignore-output"]
speeds = {k: letters / max(run["decode"].seconds) for k, run in decoded.items()}
plot_bars([f"{k} rank{'s' * (k > 1)}" for k in speeds], {"letters": list(speeds.values())},
          "letters per second", title="Decoding a small model with tensor parallelism")

# %% [markdown]
# More than twice as many as in theory on 2 ranks, more than three times on 4: Gloo puts a header
# before each of its messages, and cuts even a small sum into several. (A training step's tensors
# are larger, and headers do not show.) Bytes are few, but *messages* are many, five small sums and
# a gather for each letter, and each takes its latency. This model is far too small to gain.
#
# A large one is bound by memory: for each token all weights are read once, and $n$ GPUs read them
# $n$ times as fast, but for the sums. Llama with 70 billion parameters in 2 bytes has 140 GB:

# %%
gpu_bytes, weights_70b = 3.35e12, 70e9 * 2  # an H100 reads 3.35 TB/s (NVIDIA's data sheet)
for k in (1, 2, 4, 8):
    print(f"{k} GPU{'s' * (k > 1)}: {weights_70b / k / 1e9:g} GB of weights each; for one text at "
          f"most {gpu_bytes * k / weights_70b:.0f} tokens per second")

# %% [markdown]
# ## 4 · The real engine
#
# PyTorch has all this. A `DTensor` is a tensor with a placement on a mesh of ranks: Replicate,
# Shard or Partial. `parallelize_module` takes a *plan*: which module is cut how. Here is the one
# that does what `parallelize` does; nothing in the model is rewritten. (For the loss there is
# `loss_parallel()`: within it, cross-entropy does what yours does.)

# %%
for name, style in engines.tensor_plan(language_model.Transformer(layers=1)).items():
    print(f"{name:36} {type(style).__name__}")

# %%
def try_engine(name, engines, language_model, text, context, sizes):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    alone = language_model.Transformer(**sizes)
    model, loss_of, complete = engines.ready(name, engines.mesh_of_all(), **sizes)
    inputs, targets = language_model.draw_batch(text, 8, 0, context)
    language_model.mean_loss(alone(inputs), targets).backward()
    for label in ("first", "step", "timed", "timed", "timed"):
        model.zero_grad()
        with engines.split_loss(name), measure(label, memory=label == "step"):
            loss_of(model(inputs), targets).backward()
            if complete:
                complete(model)
    return max(engines.difference(a, b) for a, b in zip(model.parameters(), alone.parameters()))

sizes = {"width": wide, "heads": heads, "kv_heads": n}
raced = {name: launch(try_engine, name, engines, language_model, text, context, sizes,
                      world_size=n, device="cpu")
         for name in ("tensor parallel", "sequence parallel", *engines.PLANS)}

# %%
x_bytes = 8 * context * wide * 8
assert all(max(run.values) <= rounding() for run in raced.values())
sums = {name: 15 if "DTensor, s" in name else 10 for name in raced}
Table(["", "sent, in activations", "in theory", "activations at most"],
      [[name, f"{run['step'].sent_bytes[0] / x_bytes:.2f}", f"{sums[name] * 2 * (n - 1) / n:g}",
        f"{run['step'].peak_bytes[0]['activations'] / 1e6:.2f} MB"] for name, run in raced.items()],
      note="one step of the transformer, in float64. All gradients are those of one process, "
           "but for rounding.")

# %% tags=["nbval-ignore-output"]
times = {name: 1e3 * median(end - start for rank in run["timed"].spans for start, end in rank)
         for name, run in raced.items()}
plot_bars(list(times), {"time of a step": list(times.values())}, "time of a step (ms)",
          title=f"The small transformer on {n} ranks, by hand and by DTensor")

# %% [markdown]
# The same numbers, the same bytes: ten sums of an activation, two in each block forward and two
# backward, embedding and last layer; the loss adds small ones. Only DTensor's sequence parallelism
# sends more on this machine, because Gloo's reduce-scatter is an all-reduce (chapter 02), and your
# ring is not. DTensor works out at each operation what placement comes out, and that takes Python
# some time. Sequence parallelism is slow here in either way: a ring from Python is many small
# messages, and Gloo's reduce-scatter sends twice as much. On GPUs each is one call of NCCL.

# %% [markdown]
# ## 5 · Slow links
#
# A step computes for a while, and it waits for sums. Only the second part depends on links. If sums
# take the share $s$ of a step, links that are $k$ times slower make it $1 - s + ks$ times longer:
# Amdahl's law, the other way round.
#
# ### Exercise 7.21
#
# Write `slowdown`: how many times as long a step takes if its sums go over slower links. All sums
# are rings: 2(n-1) messages one after another, each of 1/n of the tensor, each with a latency.
# Links are given as (bytes per second, seconds of latency).

# %%
def slowdown(compute_seconds, sums, sum_bytes, n, inside, between):
    ### BEGIN SOLUTION
    def step_seconds(link):
        bytes_per_second, latency = link
        message = latency + sum_bytes / n / bytes_per_second
        return compute_seconds + sums * 2 * (n - 1) * message
    return step_seconds(between) / step_seconds(inside)
    ### END SOLUTION

check("7.21", slowdown)

# %% [markdown]
# Now for real. Two ranks train a block on throttled links, first on one node, then on two. An H100
# has NVLink with 450 GB/s in each direction and a network card with 50: the same ratio here, with 9
# and 1 MB/s. The sums go through your ring, for only messages can be throttled; products are slow,
# as in section 2. First, blocks of three widths with their sums left out:

# %%
class RingSum:
    """enter and leave, with the ring of chapter 02 in place of dist.all_reduce; or with nothing."""

    def __init__(self, tensor_parallel, collectives, is_on=True):
        self.functions, self.is_on = tensor_parallel, is_on
        self.ring = collectives.all_reduce_ring

    def total(self, x, group=None):
        total = x.clone(memory_format=torch.contiguous_format)
        if self.is_on:
            self.ring(total, group)
        return total

    def enter(self, x, group=None):
        return self.functions.Copy.apply(x, group, self.total)

    def leave(self, x, group=None):
        return self.functions.AllReduce.apply(x, group, self.total)

# %%
INSIDE, BETWEEN = (9e6, 0.0), (1e6, 0.0)  # bytes per second, latency

def on_links(RingSum, tensor_parallel, collectives, language_model, size, links):
    """Seconds of a block's step, of 4 x 64 letters, for each of some links; None: without sums."""
    seconds, mode = [], SlowProducts(4e8)
    for link in links:
        sums = RingSum(tensor_parallel, collectives, is_on=link is not None)
        block = language_model.Block(size, 8)
        tensor_parallel.parallelize_attention(block.attention, None, sums.enter, sums.leave)
        tensor_parallel.parallelize_mlp(block.mlp, None, sums.enter, sums.leave)
        x = torch.randn(4, 64, size, requires_grad=True)
        with throttle(*link) if link else nullcontext():
            for _ in range(3):
                dist.barrier()
                began = time.perf_counter()
                with mode:
                    block(x).sum().backward()
                seconds.append(time.perf_counter() - began)
    return [min(seconds[k : k + 3]) for k in range(0, len(seconds), 3)]

def slowest(links, size):
    run = launch(on_links, RingSum, tensor_parallel, collectives, language_model, size, links,
                 world_size=2, device="cpu")
    return [max(of_ranks) for of_ranks in zip(*run.values)]

# %% tags=["nbval-ignore-output"]
computing = {size: slowest([None], size)[0] for size in (32, 64, 128)}
Table(["width", "computing", "sums", "bytes of each"],
      [[size, f"{1e3 * seconds:.0f} ms", 4, 4 * 64 * size * 4]
       for size, seconds in computing.items()])

# %%
longer = predict("A step of the block of width 32, on two nodes beside one", unit="times as long")

# %%
seen = {size: slowest([(*INSIDE, 2, BETWEEN), (*INSIDE, 1, BETWEEN)], size) for size in computing}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
def as_long(computing, sums, sum_bytes, n, *links):
    """Exercise 7.21."""
    inside, between = (computing + sums * 2 * (n - 1) * (latency + sum_bytes / n / bytes_per_second)
                       for bytes_per_second, latency in links)
    return between / inside

expected = {size: as_long(seconds, 4, 4 * 64 * size * 4, 2, INSIDE, BETWEEN)
            for size, seconds in computing.items()}
measured = {size: two / one for size, (one, two) in seen.items()}
longer.compare(expected[32], measured[32], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_bars([f"width {size}" for size in seen], {"measured": list(measured.values())},
          "times as long on two nodes", predicted={"measured": list(expected.values())},
          title="One block on 2 ranks: links nine times slower (throttled, computing emulated)")

# %% [markdown]
# Nine times slower links do not make a step nine times longer, because it also computes; and the
# wider the block, the less: computing grows with width², sums with width. What does that mean for
# real machines? A block of a model with 70 billion parameters (width 8192), 4096 letters, on 8 GPUs
# in bfloat16, at half of an H100's 989 TFLOPS (without attention's own products); and when it
# decodes, where a GPU has to read its weights for one letter:

# %%
def of_h100(letters, width, n, inside, between):
    flops = 6 * 12 * width**2 * letters  # forward and backward of a block's matrices
    return as_long(flops / n / (0.5 * 989e12), 4, letters * width * 2, n, inside, between)

nvlink, infiniband = (450e9, 2e-6), (50e9, 5e-6)  # B/s in each direction, of a GPU; latency
judged = {f"width {size}, 4096 letters": of_h100(4096, size, 8, nvlink, infiniband)
          for size in (8192, 4096, 1024)}
read_seconds = 12 * 8192**2 * 2 / 8 / gpu_bytes  # a block's weights, of one GPU
judged["width 8192, decoding one letter"] = as_long(read_seconds, 2, 8192 * 2, 8, nvlink,
                                                    infiniband)
Table(["a block on 8 GPUs", "times as long over InfiniBand"],
      [[name, f"{times:.1f}"] for name, times in judged.items()],
      note="calculated: H100, NVLink 450 GB/s and 2 µs, one NDR card of 50 GB/s and 5 µs for each "
           "GPU, no overlap; the latencies are assumed")

# %% [markdown]
# So one has to say what is computed. The full factor of nine is reached only by a step that
# computes nothing. In decoding, messages are tiny, and latency decides.
#
# Above, messages were throttled and products slowed down, so that both links are slow in the same
# ratio as an H100's. Nothing is emulated below: four ranks train the small transformer on one
# machine, then on two with network cards of 25 MB/s (chapter 02g). With your layers and with
# DTensor, ten sums of an activation of $X$ bytes cross the cards in a step. The ring of four ranks
# sends $1.5\,X$ out of each machine for each.

# %%
card_speed, four = 25e6, {"width": 64, "heads": 4, "kv_heads": 4}

def on_machines(ranks):
    machines = Machines.here(ranks, bytes_per_second=card_speed)
    return {name: launch(try_engine, name, engines, language_model, text, 64, four, world_size=4,
                         machines=machines, device="cpu")
            for name in ("tensor parallel", "DTensor")}

inside, across = on_machines([4]), on_machines([2, 2])

# %% tags=["nbval-ignore-output"]
def step_seconds(run):
    return median(end - start for rank in run["timed"].spans for start, end in rank)

crossing = 10 * 1.5 * 8 * 64 * 64 * 8  # samples, letters, width, bytes of a number
Table(["", "leaves a machine, in theory", "its card counted", "these bytes / speed",
       "a step inside", "a step across"],
      [[name, f"{crossing / 1e6:.2f} MB",
        " and ".join(f"{card.sent_bytes / 1e6:.2f} MB" for card in run["step"].cards) or "–",
        f"{1e3 * crossing / card_speed:.0f} ms", f"{1e3 * step_seconds(inside[name]):.0f} ms",
        f"{1e3 * step_seconds(run):.0f} ms"] for name, run in across.items()])

# %% [markdown]
# By hand or by DTensor, the same bytes cross, and a step waits for them: it cannot be shorter than
# they need at the speed of the cards. (It need not be as long as both together. Four ranks share
# this computer's cores, and while some wait for a card, others compute.)
#
# ## 6 · Busy ranks
#
# Layers can also be split *between* ranks: rank 0 has the first half, rank 1 the second. Then one
# waits while the other computes (chapter 08 will do something about it). Cut within layers, all
# ranks compute all the time, but for the sums. Both, with two layers on two ranks, and slow
# products:

# %%
def split_between(x, layers):
    """Two layers, one on each of two ranks."""
    if dist.get_rank() == 0:
        hidden = x @ layers[0]
        with measure("send", memory=False):
            dist.send(hidden, 1)
    else:
        hidden = torch.empty_like(x)
        dist.recv(hidden, 0)
        hidden @ layers[1]

def split_within(x, layers):
    """Two layers, half of each on each of two ranks."""
    rank = dist.get_rank()
    y = (x @ layers[0].chunk(2, dim=1)[rank]) @ layers[1].chunk(2, dim=0)[rank]
    with measure("all_reduce", memory=False):
        dist.all_reduce(y)

def both_splits(size, flops, **splits):
    x, layers = torch.randn(size, size), torch.randn(2, size, size)
    dist.all_reduce(torch.ones(1))  # the first messages open the connections
    (dist.send if dist.get_rank() == 0 else dist.recv)(torch.ones(1), 1 - dist.get_rank())
    for name, split in splits.items():
        dist.barrier()
        with SlowProducts(flops), measure(name, memory=False):
            split(x, layers)

# %% tags=["nbval-ignore-output"]
splits = {"layer after layer": split_between, "cut within": split_within}
busy = launch(lambda: both_splits(SIZE, FLOPS, **splits), world_size=2, device="cpu")

def share_busy(run, name):
    """The share of the time in a block in which the ranks compute."""
    start = min(spans[0][0] for spans in run[name].spans)
    end = max(spans[0][1] for spans in run[name].spans)
    inside = sum(b - a for spans in run["product"].spans for a, b in spans if start <= a <= end)
    return inside / (end - start) / 2

for name in splits:
    print(f"{name}: the ranks compute {share_busy(busy, name):.0%} of the time")
plot_timeline(busy, [*splits, "product", "send", "all_reduce"],
              title="Two layers on two ranks: one after another, then cut within (emulated)")

# %% [markdown]
# ## Put to the test
#
# What our sources say about tensor parallelism at work, and what was found.

# %% jupyter={"source_hidden": true}
ratios = {"A100 to HDR": (300, 25), "H100 to NDR": (450, 50)}
put_to_the_test(f"""
- NVLink has 600 GB/s, 600 and more | web page | depends | A100: 300 in each direction, H100
  450 (NVIDIA's data sheets, which add both directions up); not tested
- InfiniBand has 100 to 400 GB/s | web page | wrong unit | gigabits: NDR 400 Gb/s / 8 =
  {400 / 8:g} GB/s a port, HDR 200 / 8 = {200 / 8:g}
- Across nodes a layer is 10 to 30 times slower, for InfiniBand's latency | web page | depends | the
  links: {", ".join(f"{name} {a / b:g}" for name, (a, b) in ratios.items())} times slower. A block:
  {", ".join(f"{name} {times:.1f}" for name, times in judged.items())} (section 5);
  bandwidth decides for large activations, latency for tiny ones
- Never use tensor parallelism across nodes without NVSwitch | web page | depends | (it connects the
  GPUs of a node at full speed) a good default: calculated
  {judged["width 8192, 4096 letters"]:.1f} times as long, without overlap
- It must be written by hand into attention | CS 229S | depends | DTensor does it by a plan, with
  the same gradients; by hand it is two layers (07)
- 70B for inference on 8 GPUs | web page | right | {weights_70b / 8 / 1e9:g} GB of weights each; the
  tiny model's text on 2 and 4 ranks is one process's
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
within, between = (share_busy(busy, name) for name in ("cut within", "layer after layer"))
put_to_the_test(f"""
- Tensor parallelism keeps ranks busy, unlike layers after layers | CS 229S |
  {"right" if within > 1.2 * between else "not in this run"} | busy: {within:.0%} of the time, and
  {between:.0%}
- Frequent all-reduces need extremely fast connections | CS 229S | depends | on how much is computed
  between them; links nine times slower, measured:
  {", ".join(f"{x:.1f}" for x in measured.values())} times as long for widths
  {", ".join(map(str, measured))}
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford). Figures of GPUs: NVIDIA's data sheets of A100, H100 and Quantum-2.
#
# **To read on.** Korthikanti et al.,
# [Reducing Activation Recomputation](https://arxiv.org/abs/2205.05198), 2022: sequence parallelism.
# Pope et al., [Efficiently Scaling Transformer Inference](https://arxiv.org/abs/2211.05102), 2022.
# PyTorch's [DTensor](https://docs.pytorch.org/docs/stable/distributed.tensor.html).

# %% [markdown]
# ## What you have learnt
#
# * Sequence parallelism sends as many bytes, and keeps less between the regions.
# * A backward has work that needs no sum: while it is done, the sum can travel.
# * Decoding sends few bytes for each letter, in many messages.
# * How much a slow link costs depends on how much is computed between two sums, so on the width.
#
# **Your exercises**: those in cells above, and
# [labs/sequence_parallel.py](../labs/sequence_parallel.py) and
# [labs/decoding.py](../labs/decoding.py).
#
# **Next**: [08 · Pipeline parallel](08_pipeline_parallel.ipynb).

# %%
progress("07g")
