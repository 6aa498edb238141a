# %% [markdown]
# # {{title}}
#
# **Over how many GPUs should you cut a model, and may they be on two machines?** The usual advice
# is: at most one machine. You find out where this advice comes from. You measure what slow links
# cost, with one network card for each machine and with several. Then you calculate the cost for
# real machines.

# %% [markdown]
# ![Time of an all-reduce across two machines with one, two and four network cards: one ring takes
# as long with two cards as with one, and two rings take about half of
# it](../assets/covers/07g_how_wide.png)
#
# *Measured in section 2: an all-reduce of four ranks on two emulated machines. More cards help only
# if several rings use them at once.*
#
# **After this part you can** predict what a slow link costs, count network cards rightly, and say
# why tensor parallelism usually stays within a machine.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from pedagogy_lib import (
    Machines, Table, check, compare_rounds, hint, lab, launch, plot_bars, plot_timeline, predict,
    progress, put_to_the_test, rounding,
)

# %% tags=["parameters"]
card_megabytes_per_second = 12.5
megabytes = 2.0

# %% [markdown]
# ## 1 · Slow links
#
# A step computes for a while, and it waits for sums. Only the waiting depends on the links. Say
# sums take the share $s$ of a step. Then links that are $k$ times slower make the step $1 - s + ks$
# times as long.

# %% [markdown]
# ### Exercise {{slowdown}} · Slowdown of a step across machines
#
# Write `slowdown(compute_seconds, sums, sum_bytes, n, inside, between)`: how many times as long a
# step takes over the links `between` machines, compared with the links `inside` of one.
#
# * A step computes for `compute_seconds`, and makes `sums` all-reduces of `sum_bytes` each. Nothing
#   overlaps.
# * Each all-reduce is a ring on `n` ranks: $2(n-1)$ messages one after another, each of $1/n$ of
#   the tensor, each with a latency.
# * A link is a pair: (bytes per second, seconds of latency). All links of a ring are alike.

# %% [markdown]
# For example, a step computes for 1 s, and makes one sum of 8 bytes on 2 ranks. Inside, links carry
# 8 bytes per second: two messages of 4 bytes take 1 s, so the step takes 2 s. Between machines they
# carry 1 byte per second: the sum takes 8 s, and the step 9 s. The answer is 4.5.

# %%
def slowdown(compute_seconds, sums, sum_bytes, n, inside, between):
    ### BEGIN SOLUTION
    def step_seconds(link):
        bytes_per_second, latency = link
        message = latency + sum_bytes / n / bytes_per_second
        return compute_seconds + sums * 2 * (n - 1) * message
    return step_seconds(between) / step_seconds(inside)
    ### END SOLUTION

check("{{slowdown}}", slowdown)

# %% [markdown]
# Here is a case at its worst: two machines, each with *one* GPU of the model and *one* network
# card. An H100's NVLink carries 450 GB/s in each direction, and a card of 400 Gb/s carries 50 GB/s.
# That is a ratio of nine. Two ranks train a block over throttled links of 9 and 1 MB/s. Products
# are emulated. First the computing alone: blocks of three widths, without their sums.

# %% tags=["nbval-ignore-output"]
wide = lab("wide")
INSIDE, BETWEEN = (9e6, 0.0), (1e6, 0.0)  # bytes per second, latency

def measure_links(links, size):
    return wide.slowest_rank(launch(wide.block_on_links, size, links, world_size=2, device="cpu"))

computing = {size: min(measure_links([None], size)[0]) for size in (32, 64, 128)}
Table(["width", "computing", "sums", "bytes of each"],
      [[size, f"{1e3 * seconds:.0f} ms", 4, 4 * wide.TOKENS * size]
       for size, seconds in computing.items()])

# %%
longer = predict("A step of the block of width 32, over the slow links", unit="times as long")

# %%
seen = {
    size: measure_links([(*INSIDE, 2, BETWEEN), (*INSIDE, 1, BETWEEN)], size) for size in computing
}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
expected = {size: wide.slowdown(seconds, 4, 4 * wide.TOKENS * size, 2, INSIDE, BETWEEN)
            for size, seconds in computing.items()}
ratios = {size: compare_rounds(two, one) for size, (one, two) in seen.items()}  # round by round
measured = {size: ratio.median for size, ratio in ratios.items()}
longer.compare(expected[32], measured[32], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_bars([f"width {size}" for size in seen], {"measured": list(measured.values())},
          "times as long", predicted={"measured": list(expected.values())},
          title="One block on 2 ranks over links nine times slower (throttled, emulated)")

# %% [markdown]
# Links that are nine times slower do not make a step nine times as long, because the step also
# computes. The wider the block, the less links matter: computing grows with width², and sums with
# width.
#
# The measured bars may be lower than the outlines. A sum over processes takes some time beyond its
# bytes, on quick and on slow links alike. The formula leaves this time out, as the latency in it is
# 0. Both steps are longer by it, so their ratio is smaller.

# %% [markdown]
# ## 2 · Several cards
#
# But a machine with eight GPUs rarely has one card. Machines for training often have eight: one for
# each GPU. The first cards of all machines share a switch, the second cards another one: these are
# **rails** (part 02g). Does an all-reduce use all cards?

# %% [markdown]
# *One* ring does not. It enters a machine through one card, visits all GPUs, and leaves through one
# card. So NCCL makes several rings, its **channels**, and each has a part of the tensor. Each ring
# visits the GPUs of a machine over NVLink, and crosses to the next machine on another card. An NCCL
# developer describes it in [issue 412](https://github.com/NVIDIA/nccl/issues/412) of NCCL: it “is
# able to aggregate the bandwidth of multiple NICs”, if NVLink carries at least as much as all cards
# together.

# %% [markdown]
# Here you can do the same with Gloo. `Machines(2, …, cards=2)` gives each machine two cards, and
# each has a network of its own, as a rail has. Gloo takes the cards in turns: one collective over
# the first card, the next one over the second. So cut the tensor into parts, and begin an
# all-reduce of each. The lab's `all_reduce_channels` has three lines:
#
# ```python
# parts = x.view(-1).tensor_split(channels)
# for request in [dist.all_reduce(part, group=group, async_op=True) for part in parts]:
#     request.wait()
# ```

# %% [markdown]
# Four ranks on two machines add up 2 MB. A ring sends $1.5 \times 2 = 3$ MB out of each machine
# (part 02g). A card carries 12.5 MB/s, so with one card that takes 240 ms. How long does it take
# with two cards and two rings?

# %%
with_two = predict(f"All-reduce of {megabytes:g} MB on 2 × 2 ranks, two cards and two rings",
                   unit="ms")

# %%
speed, nbytes = card_megabytes_per_second * 1e6, int(megabytes * 1e6)

def add_up(cards, rings):
    machines = Machines.here(2, bytes_per_second=speed, cards=cards)
    return launch(wide.sum_in_channels, nbytes, rings, world_size=4, machines=machines,
                  device="cpu")

tried = {(cards, rings): add_up(cards, rings) for cards, rings in ((1, 1), (2, 1), (2, 2), (4, 4))}
print("all sums are right:", all(all(run.values) for run in tried.values()))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
took = {of: 1e3 * min(run["sum"].rounds) for of, run in tried.items()}
theory = {(cards, rings): 1e3 * 1.5 * nbytes / speed / min(cards, rings) for cards, rings in tried}
with_two.compare(theory[2, 2], took[2, 2])

# %% tags=["cover", "nbval-ignore-output"]
plot_bars([f"{cards} card{'s' * (cards > 1)}, {rings} ring{'s' * (rings > 1)}"
           for cards, rings in tried], {"all-reduce": list(took.values())}, "time (ms)",
          predicted={"all-reduce": list(theory.values())},
          title=f"{megabytes:g} MB on 2 machines, cards of {card_megabytes_per_second:g} MB/s each")

# %% tags=["nbval-ignore-output"]
Table(["cards", "rings", "a machine's cards sent", "of their full speed"],
      [[cards, rings, f"{run['sum'].cards[0].sent_bytes / 3 / 1e6:.2f} MB",
        f"{run['sum'].cards[0].busy:.0%}"] for (cards, rings), run in tried.items()
       if run["sum"].cards], note="In each of three rounds, counted by Linux.")

# %% [markdown]
# The second card is idle as long as there is one ring: together, two cards then reach half of their
# speed at most. With two rings both cards work at once, and the all-reduce should take half the
# time. With four cards and four rings it should take a quarter. Compare each bar with its outline.
# The last column of the table says how busy the cards were; the rest of the time they waited. The
# likely reason is this computer's few cores, which carry and add up all messages. The bytes stay
# the same. **So what counts between two machines is the speed of all their cards together.**

# %% [markdown]
# Now a whole training step. Nothing is emulated but the cards: four ranks train the small
# transformer with your layers. It makes ten sums of an activation of $X$ bytes, so a ring of four
# ranks sends $15\,X$ out of each machine in a step.

# %%
small = {"width": 64, "heads": 4, "kv_heads": 4}

def step_on(machines, channels):
    return launch(wide.step_in_channels, text, small, channels, world_size=4, machines=machines,
                  device="cpu")

text = lab("language_model").standard_library(100_000)
places = {"one machine": step_on(Machines.here([4]), 1)}
for cards in (1, 2):
    across = Machines.here(2, bytes_per_second=25e6, cards=cards)
    places[f"two, {cards} card{'s' * (cards > 1)} each"] = step_on(across, cards)

# %% tags=["nbval-ignore-output"]
crossing = 15 * 8 * 64 * 64 * 8  # samples, tokens, width, bytes of a number
steps = {place: 1e3 * min(run["step"].rounds) for place, run in places.items()}
least = [0.0] + [1e3 * crossing / 25e6 / cards for cards in (1, 2)]
Table(["machines", "its cards sent", "at their full speed", "a step", "times as long"],
      [[place, f"{run['step'].cards[0].sent_bytes / 5 / 1e6:.2f} MB" if run["step"].cards else "–",
        f"{at_least:.0f} ms", f"{steps[place]:.0f} ms",
        f"{steps[place] / steps['one machine']:.1f}"]
       for (place, run), at_least in zip(places.items(), least)],
      note="Cards of 25 MB/s each. Embedding, last layer and loss are in it.")

# %% [markdown]
# A step across machines cannot be shorter than its bytes need at the speed of all cards together.
# With a second card, these bytes need half as long. Do not expect that of the whole step: compare
# the last two rows. The rest of it is computing, and four ranks share this computer's cores.
# Besides, each sum is now two all-reduces.

# %% [markdown]
# ## 3 · Real machines, calculated
#
# What does that mean for H100s? Take a block of width 8192, as in a model of 70 billion parameters,
# on 8 GPUs. The block reads 4096 tokens in bfloat16. The GPUs compute at half of 989 TFLOPS. (This
# half is assumed, and attention's own products are left out.) The 8 GPUs are on one machine, or on
# several, with one card of 50 GB/s for each GPU. All cards of a machine are used at once. So
# between machines with $c$ cards each, the rings together carry $50\,c$ GB/s, and at most what
# NVLink carries.

# %% [markdown]
# For decoding one token, messages are tiny. There a tree is better than a ring: $2 \log_2 8 = 6$
# messages follow each other, and not 14. A message's latency is assumed: 2 µs inside of a machine,
# and 5 µs between two. All six messages are counted as messages between machines. On two machines,
# fewer of them are, so the last row is an upper bound.

# %%
def block_of(tokens, width, cards, latency=1e-6):
    """Times as long over machines with so many GPUs, and cards, each; no overlap."""
    compute = 6 * 12 * width**2 * tokens / 8 / (0.5 * 989e12)  # forward and backward, one of 8 GPUs
    nvlink, network = (450e9, 2 * latency), (min(cards * 50e9, 450e9), 5 * latency)
    return wide.slowdown(compute, 4, tokens * width * 2, 8, nvlink, network)

def compute_decode_ratio(width):
    """The same of two sums in a tree, and reading a block's weights in bfloat16 at 3.35 TB/s."""
    read = 12 * width**2 * 2 / 8 / 3.35e12
    return (read + 2 * 6 * 5e-6) / (read + 2 * 6 * 2e-6)

judged = {
    f"training, width {size}": [block_of(4096, size, cards) for cards in (4, 2, 1)]
    for size in (8192, 4096, 1024)
} | {"decoding, width 8192": 3 * [compute_decode_ratio(8192)]}
Table(["a block on 8 GPUs", "2 machines, 4 cards each", "4 machines, 2 each", "8 machines, 1 each"],
      [[name, *(f"{times:.1f}" for times in row)] for name, row in judged.items()],
      note="Times as long as on one machine. Calculated, not measured; bandwidths from "
           "NVIDIA's data sheets.")

# %% [markdown]
# With one GPU on each machine, a step takes 2.4 times as long. With four GPUs and four cards, it
# takes 1.2 times as long. So “between machines” is not one number: it depends on how many cards
# there are for each ring, and on how much is computed between two sums.

# %% [markdown]
# ### Why at most a machine, then?
#
# Three reasons are left:
#
# * **Bandwidth**, where a machine has few cards. With one for all GPUs, links are nine times
#   slower, as in section 1. With one for each of eight GPUs, they carry 8 × 50 = 400 GB/s together,
#   nearly as much as NVLink's 450.
# * **Latency.** In decoding, messages are small. Then more cards do not help: the last row of the
#   table does not depend on the number of cards.
# * **Less to compute.** With twice the ranks, each computes half as much between two sums. A sum
#   takes as long as before. This holds inside of a machine, too:

# %%
def share_of_sums(k, tokens=4096, width=8192):
    """The share of a step that ring sums take over NVLink on k GPUs, without overlap."""
    compute = 6 * 12 * width**2 * tokens / k / (0.5 * 989e12)
    waiting = 4 * 2 * (k - 1) * (2e-6 + tokens * width * 2 / k / 450e9)
    return waiting / (compute + waiting)

Table(["GPUs", "sums' share of a step"],
      [[k, f"{share_of_sums(k):.0%}"] for k in (2, 4, 8, 16, 72)],
      note="Calculated: a block of width 8192, 4096 tokens, NVLink of an H100.")

# %% [markdown]
# So, by this calculation, cut a model over no more GPUs than its memory needs, even within a
# machine. NVIDIA's GB200 NVL72 joins 72 GPUs by NVLink, across many computers
# ([NVIDIA](https://www.nvidia.com/en-us/data-center/gb200-nvl72/)). Within these 72, the first two
# reasons do not hold, and the third one stays.

# %% [markdown]
# **What became of tensor parallelism?** Published runs are consistent with this. DeepSeek-V3 was
# trained without it, because its authors found it costly and saved memory in other ways
# ([report](https://arxiv.org/abs/2412.19437), section 3.2). In [NVIDIA's table of
# runs](https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/00b7660be0254ac6f95f44164ddd0c3e9cc798ed/docs/performance-summary.md),
# all models with experts on B200, GB200 and GB300 have tp 1. Llama 3 70B takes tp 4 and pp 8 on 64
# H100s, but FSDP alone on 64 GB200s, whose GPUs have more memory. Llama 3.1 405B still takes tp 2
# to 8. The table's rows are tuned by one vendor, mostly in FP8, and their batches differ, so that
# the reasons given here are only a guess. None of this was measured here.

# %% [markdown]
# ## 4 · Busy ranks
#
# What is the alternative? Layers can be dealt *to* ranks: rank 0 has the first half of them, and
# rank 1 the second half. Little is sent then. But one rank waits while the other computes. (Chapter
# 08 does something about it.) With a cut *within* layers, all ranks compute all the time, but for
# the sums. Here are both, with two layers on two ranks, and emulated products:

# %% tags=["nbval-ignore-output"]
busy = launch(wide.both_splits, 384, 2e9, world_size=2, device="cpu")
for name in wide.SPLITS:
    print(f"{name}: the ranks compute {wide.shares_busy(busy, name)[0]:.0%} of the time")
plot_timeline(busy, [*wide.SPLITS, "product", "send", "all_reduce"],
              title="Two layers on two ranks: one after another, then cut within (emulated)")

# %% [markdown]
# ## 5 · And the other machines?
#
# If a model is cut over one machine, what do the others do? They have *copies* of it, with ZeRO
# over the copies. Take two copies of two ranks each: ranks 0 and 1 are a copy, and so are ranks 2
# and 3. Ranks 0 and 2 have the same parts of all matrices. They are one group of ZeRO, and ranks 1
# and 3 are the other one.
#
# The order counts: **first cut the matrices, then ZeRO**. ZeRO makes one flat tensor of a unit.
# After that, nobody can find the rows of a matrix. Two sums need care, too:

# %% [markdown]
# * **Clipping.** What is cut is on one rank of a copy, and what is whole is on all of them. In the
#   norm, each number counts once.
# * **Sequence parallel.** Gradients of norms are Partial (07e). ZeRO stages 2 and 3 cut them before
#   the backward is over. But sums may come in any order: first over the copies, then over the parts
#   of a copy. So `complete` in [labs/tensor_zero.py](../labs/tensor_zero.py) adds up shards.
#
# Each pair of features trains for two steps, on four ranks and in one process, in float64. A cell
# of the table lists the stages of ZeRO with which the weights are the same as in one process:

# %%
tensor_zero = lab("tensor_zero_alone")
tried = launch(tensor_zero.try_pairs, tensor_zero.pairs(), world_size=4, device="cpu").values
Table(["", *tensor_zero.FEATURES], tensor_zero.rows_of_pairs(tried, rounding(steps=2)),
      note="2 copies in 2 parts. On the diagonal: the feature by itself.")

# %% [markdown]
# (In this test a dropout's mask is drawn for each sample as a whole, and each rank takes its part.
# So one process can draw the same.) What does not go together says so:

# %%
for ranks, *what in tensor_zero.REFUSED.values():
    print(launch(tensor_zero.refusal, *what, world_size=ranks, device="cpu").values[0])

# %% [markdown]
# ## Put to the test
#
# What our sources say about links and tensor parallelism, and what was found.

# %% jupyter={"source_hidden": true}
# One ring and two over two cards, in turns.
race = launch(wide.race_channels, nbytes, (1, 2), world_size=4, device="cpu",
              machines=Machines.here(2, bytes_per_second=speed, cards=2))  # rings in turns
fast = compare_rounds(race["2"].rounds[1:], race["1"].rounds[1:]).word == "quicker"

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
all_times = [times for row in judged.values() for times in row]
real = f"{min(all_times):.1f} to {max(all_times):.1f}"
not_ten = max(all_times) < 10 and max(ratio.high for ratio in ratios.values()) < 10
cards_told = f"{took[2, 1]:.3g} ms in one ring, {took[2, 2]:.3g} in two (section 2, picture)"
of_width = {size: f"{judged[f'training, width {size}'][0]:.1f}" for size in (8192, 1024)}
surprises = f"""
- [C163] Tensor parallelism across nodes is 10 to 30 times slower for each layer, because of
  InfiniBand's latency | web page, “Tensor Parallel Across Nodes” |
  {"depends on the cards" if not_ten else "not refuted"} | not with a card for each H100, which is
  nine times slower than its NVLink: more than nine times cannot come of that. Over such links a
  step took {", ".join(f"{x:.3g}" for x in measured.values())} times as long with three widths
  (section 1, picture; computing emulated). Calculated for H100s: {real} times (section 3, table).
  In training with 4,096 tokens, not for latency: of {block_of(4096, 8192, 1):.2f} times,
  {block_of(4096, 8192, 1, 0):.2f} are left without any (calculated in this section) | measured:
  with fewer or slower cards, or none but Ethernet, 10 times are possible. No real InfiniBand or
  NVLink was measured
- [C164] Never use tensor parallelism across nodes without NVSwitch | web page, “Best Practices” |
  {"depends" if fast else "not decided by this run"} | a good default; the cards decide. A
  step took {", ".join(f"{t:.0f}" for t in steps.values())} ms on one machine, and on two with one
  and two cards each (section 2, table). Over two cards, an all-reduce took {cards_told}. On H100s
  on 2 machines with 4 cards each, a block takes {of_width[8192]} times as long at width 8192,
  {of_width[1024]} at 1024 (calculated: section 3, table) | measured: NVSwitch that spans machines,
  as in NVL72 racks (NVIDIA), is what the statement allows. It was not measured, nor was InfiniBand
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
within, between = (wide.shares_busy(busy, name)[0] for name in ("cut within", "layer after layer"))
again = launch(wide.both_splits, 384, 2e9, 6, world_size=2, device="cpu")
busier = compare_rounds(*(wide.shares_busy(again, name)[1:]
                          for name in ("cut within", "layer after layer")))
put_to_the_test(surprises + f"""
- [C161] NVLink has 600 GB/s, 600 and more | web page, “Communication Hierarchy”, “High Bandwidth
  Required” and “Three Dimensions of Parallelism” | depends | on the GPU, and on what is counted.
  A100: 600, or 300 in each direction; H100: 900, or 450 | documented: NVIDIA's data sheets, which
  add up both directions. What NCCL reaches is expected to be less
- [C165] Tensor parallelism keeps GPUs busy, unlike layers one after another | CS 229S, “Tensor
  Model Parallelism” | {"right" if busier.low > 1.2 else "not in this run"} | cut
  within layers, two ranks compute {within:.0%} of the time; layer after layer, {between:.0%}
  (section 4, run; computing emulated) | measured: how busy, since it depends on the links;
  micro-batches help layers one after another (part 08)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford). Bandwidths: NVIDIA's data sheets of
# [H100](https://www.nvidia.com/en-us/data-center/h100/) and A100.
#
# **To read on.** NVIDIA's [documentation of NCCL's
# variables](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html), `NCCL_CROSS_NIC`:
# rails.

# %% [markdown]
# ## What you have learnt
#
# * What a slow link costs depends on how much is computed between two sums, so on the width.
# * One ring uses one card of a machine. **Several rings use all cards at once.** Count them
#   together.
# * Tensor parallelism stays within a machine for three reasons: bandwidth where there are fewer
#   cards than GPUs, latency, and less to compute for each rank. The third one holds everywhere.
# * Other machines have copies, with **ZeRO** over them. First cut, then ZeRO.
#
# **Your exercise** stands in a cell above.
#
# **Next**: {{next}}.

# %%
progress("07g")
