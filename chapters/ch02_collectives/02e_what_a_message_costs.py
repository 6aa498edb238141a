# %% [markdown]
# # {{title}}
#
# **How long does a collective take, and can you know it before you run it?** You measure what one
# message costs on this machine. From two numbers you predict whole collectives, and find an
# all-reduce that has few bytes *and* few messages.

# %% [markdown]
# ![Time of one message over its size: flat for small messages, and proportional to the size for
# large ones. A dashed line of two numbers follows
# it](../assets/covers/02e_what_a_message_costs.png)
#
# *Measured in section 1: the time of one message, and the line that two numbers give.*
#
# **After this part you can** measure latency and bandwidth, predict the time of an all-reduce, and
# write one that has few bytes and few messages.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, explore, film, hint, lab, launch, plot_against, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
link_milliseconds = 10.0
link_megabytes_per_second = 20.0

# %% [markdown]
# ## 1 · One message
#
# Gradients are summed in every training step. If you know what that costs, you can plan a run
# before you rent the machines. The usual model has two numbers:
#
# $$t(X) = \alpha + X / B$$
#
# A message of $X$ bytes takes a **latency** of $\alpha$ seconds, however short it is. Its bytes
# take $X/B$ seconds more, at a **bandwidth** of $B$ bytes per second.

# %% [markdown]
# Two ranks of this machine send messages to and fro. Half of the time for there and back is the
# time of one message. Other programs can only add to it, so of 40 rounds the quickest counts.
#
# (A call on a GPU returns before its work is done, and a clock on the CPU would stop too early. So
# the cells with clocks ask for `device="cpu"`.)

# %%
def there_and_back(x):
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        dist.recv(x, 0)
        dist.send(x, 0)

costs, collectives = lab("message_costs"), lab("collectives")
sizes = [2**k for k in range(8, 24)]
both_ways = launch(costs.quickest_of_each, there_and_back, sizes, world_size=2, device="cpu")
times = [seconds / 2 for seconds in both_ways.values[0]]

# %% [markdown]
# A model that was fitted to all points proves nothing. So fit the line to every other size, and
# test it on the sizes between them.

# %% tags=["cover", "nbval-ignore-output"]
alpha, B = costs.fit(sizes[::2], times[::2])
guesses = [alpha + size / B for size in sizes]
misses = [abs(guess / time - 1) for guess, time in zip(guesses, times)][1::2]
print(f"latency {alpha * 1e6:.0f} µs, bandwidth {B / 1e9:.2f} GB/s")
print(f"sizes that were not fitted: half of them are within {median(misses):.0%}, "
      f"all within {max(misses):.0%}")
plot_against(sizes, {"one message": [1e3 * t for t in times]}, "bytes", "time (ms)",
             {"one message": [1e3 * t for t in guesses]}, logarithmic=True,
             title="One message between two ranks of this machine")

# %% [markdown]
# The curve bends near $\alpha B$ bytes: there the bytes take as long as the latency. (For example,
# 30 µs and 8 GB/s give 240 kB.) Far left of this place, size hardly matters: a message of 1 kB
# costs about as much as one of 8 kB. Far right of it, only size matters.

# %% [markdown]
# ## 2 · From a message to an all-reduce
#
# In a collective, messages wait for other messages. Count how many follow each other, and you know
# its time.

# %% [markdown]
# ### Exercise {{all_reduce_seconds}} · All-reduce time, ring versus tree
#
# Write `all_reduce_seconds(how, n, X, alpha, B)`. It returns the seconds that an all-reduce of `X`
# bytes takes on `n` ranks, where `n` may be any number from 2 on. `how` is `"ring"`, or `"tree"`: a
# reduce along a tree, then a broadcast along a tree. A message takes `alpha` seconds plus its bytes
# divided by `B`. Each rank can send and receive at the same time. Adding takes no time.

# %% [markdown]
# For example, take 4 ranks, 8 MB, `alpha` 0.001 s and `B` 1e9 bytes/s. In a ring, 6 messages of 2
# MB follow each other. Each takes 0.001 + 0.002 s, so the answer is 0.018 s. In the trees, 4
# messages of 8 MB follow each other: 4 × (0.001 + 0.008) = 0.036 s.

# %%
def all_reduce_seconds(how, n, X, alpha, B):
    ### BEGIN SOLUTION
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    rounds = (n - 1).bit_length()  # log2(n), rounded up
    return 2 * rounds * (alpha + X / B)
    ### END SOLUTION

check("{{all_reduce_seconds}}", all_reduce_seconds)

# %% [markdown]
# Eight ranks have links of 20 MB/s, and a latency of 10 ms. For small tensors the tree is faster,
# as it has fewer messages one after another. For large ones it is the ring. At which size do both
# take equally long?

# %%
crossing = predict("Ring and tree take equally long on 8 ranks, at", unit="kB")

# %%
slow_alpha, slow_B = link_milliseconds / 1e3, link_megabytes_per_second * 1e6
slow_sizes = [12_500 * 2**k for k in range(8)]
slow = launch(costs.time_on_slow_links,
              {"tree": collectives.all_reduce_tree, "ring": collectives.all_reduce_ring},
              slow_sizes, slow_alpha, slow_B, world_size=8, device="cpu")
found = costs.slowest_rank(slow.values)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
equal = (14 - 6) * slow_alpha * slow_B / (6 - 14 / 8)  # 6 (alpha + X / B) = 14 (alpha + X / 8B)
if at := costs.find_crossing(slow_sizes, found["tree"], found["ring"]):
    display(crossing.compare(equal / 1e3, at / 1e3))
else:
    print("The lines do not cross between these sizes: choose other links.")

# %% tags=["nbval-ignore-output"]
model = {
    "tree": [
        1e3 * costs.predict_sequential_time(6, size, slow_alpha, slow_B) for size in slow_sizes
    ],
    "ring": [
        1e3 * costs.predict_sequential_time(14, size / 8, slow_alpha, slow_B) for size in slow_sizes
    ],
}
links = f"links throttled to {link_megabytes_per_second:g} MB/s + {link_milliseconds:g} ms"
plot_against(slow_sizes, found, "bytes", "time (ms)", model, logarithmic=True,
             title=f"All-reduce on 8 ranks, {links}")

# %% [markdown]
# On 8 ranks, 6 messages follow each other in the two trees, and 14 in the ring. Both take equally
# long where $6\,(\alpha + X/B) = 14\,(\alpha + X/8B)$.

# %% [markdown]
# ## 3 · Halving and doubling
#
# Must you choose between few bytes and few messages? No. In **recursive halving and doubling**,
# ranks exchange *parts* of the tensor in pairs. Take four ranks with four numbers each. Rank 0 is
# paired with rank 2 first, then with rank 1.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | at first | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | round 1 | 101 202 · · | 1010 2020 · · | · · 303 404 | · · 3030 4040 |
# | round 2 | 1111 · · · | · 2222 · · | · · 3333 · | · · · 4444 |
# | round 3 | 1111 2222 · · | 1111 2222 · · | · · 3333 4444 | · · 3333 4444 |
# | round 4 | all | all | all | all |
#
# In round 1, rank 0 sends the second half of its numbers to rank 2, and receives the first half of
# rank 2's. In round 2 it does the same with rank 1, and with half of that half. Rounds 3 and 4 give
# back what is finished. A dot is an unfinished number.

# %% [markdown]
# Here are the ring and halving-doubling on eight ranks, side by side. A row is a rank, and a column
# is a chunk. The colours tell whose numbers are in a chunk. Dashed frames are what a rank sends in
# this step, and arrows say to whom. Move the slider.

# %%
def film_each(ways):
    films = {}
    for name, all_reduce in ways.items():
        x = torch.full((dist.get_world_size(),), 2.0 ** dist.get_rank())
        with film(x) as films[name]:
            all_reduce(x)
    return films

pictures = lab("message_pictures")
halving_doubling = lab("halving_doubling").all_reduce_halving_doubling
ways = {"ring": collectives.all_reduce_ring, "halving-doubling": halving_doubling}
seen = launch(film_each, ways, world_size=8).values
by_name = {name: [of_rank[name] for of_rank in seen] for name in ways}

def draw(step):
    return pictures.plot_exchanges(by_name, step)

explore(draw, step=[1, 0, *range(2, 15)])

# %%
halving = predict("Halving-doubling of 100 kB on 8 ranks, on these slow links", unit="ms")

# %% [markdown]
# The first half sends $X/2$, then $X/4$, then $X/8$: together $\frac{n-1}{n}X$, as in a ring. The
# second half sends as much. But each half takes only $\log_2 n$ messages, where a ring takes $n -
# 1$:
#
# $$t = 2\log_2 n\;\alpha + 2\,\frac{n-1}{n}\,\frac{X}{B}$$

# %% [markdown]
# ### Exercise {{all_reduce_halving_doubling}} · All-reduce by halving and doubling
#
# Write `all_reduce_halving_doubling(x, group=None)` in
# [labs/halving_doubling.py](../labs/halving_doubling.py). It adds up everybody's `x` in place, and
# returns nothing. `x` has any shape and any length; its halves may differ by one element. It is
# contiguous, so `x.view(-1)` works. The group has $n$ = 1, 2, 4, 8, … ranks. For any other $n$, the
# line `need_power_of_two(n)`, which is already in the file, raises an error: some rank would have
# no partner. Keep that line.

# %% [markdown]
# In each round a rank and its partner call the lab's `exchange(outgoing, to, incoming, source,
# group)`. The partners are `rank ^ n//2`, `rank ^ n//4`, …, `rank ^ 1`, and then the same ones in
# the opposite order. (`^` flips one bit: `5 ^ 4` is 1.) The table above is the example. A rank may
# send $2\log_2 n$ messages and $2\,\frac{n-1}{n}X$ bytes, in the dtype of `x`, and no more. Another
# order of partners also passes.

# %%
check("{{all_reduce_halving_doubling}}")

# %%
third = launch(costs.time_on_slow_links, {"halving-doubling": halving_doubling}, slow_sizes,
               slow_alpha, slow_B, world_size=8, device="cpu")
found |= costs.slowest_rank(third.values)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
k = slow_sizes.index(100_000)
model["halving-doubling"] = [1e3 * (6 * slow_alpha + 14 / 8 * size / slow_B)
                             for size in slow_sizes]
halving.compare(model["halving-doubling"][k], found["halving-doubling"][k])

# %% tags=["nbval-ignore-output"]
plot_against(slow_sizes, found, "bytes", "time (ms)", model, logarithmic=True,
             title=f"All-reduce on 8 ranks, {links}")

# %% [markdown]
# The dashed lines count the links alone, and by them halving-doubling is never slower than the tree
# or the ring. What lies above them is the work of this machine's cores, which eight ranks share.
#
# Now count bytes and messages on eight ranks. (The list of calls holds messages that are written in
# Python. Part 02f counts those inside of Gloo, too.)

# %%
compared = launch(lab("halving_doubling").compare, 1_600_000, world_size=8, device="cpu")

Table(["way", "most bytes sent, in X", "rank 0 sends", "and receives", "it sends to"],
      lab("halving_doubling").rows_of_messages(compared, 1_600_000))

# %% [markdown]
# In the trees, rank 0 first receives three messages, and then sends three. They follow each other:
# that makes 6. In the ring and in halving-doubling, a rank sends and receives at the same time. So
# 14 messages follow each other in the ring, and 6 in halving-doubling. So halving-doubling has as
# few messages in turn as the trees, and as few bytes as the ring.
#
# (Part 02d found out that Gloo's all-reduce is a ring that runs the other way round.)

# %% [markdown]
# Why does anybody still use a ring? Three reasons:
#
# * Halving-doubling needs a power of two. Other numbers of ranks need more steps.
# * It has other partners in each round. In the order above, the largest messages go to the farthest
#   ranks, across the slow links between machines. The halving-doubling of Gloo's library and of
#   MPICH begins with the nearest rank instead (part 02g), [say Gloo's
#   documents](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md) and MPICH's source. A
#   ring has the same two neighbours all the time.
# * A ring can cut its chunks into smaller pieces, and pass on the first piece while the second
#   comes in. For large tensors, such pipelining hides latencies. The model above does not have it.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the time of collectives, and what was found in this part.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
of_bytes = [14 / 8 * size / slow_B * 1e3 for size in slow_sizes]  # ms, of 2 (n - 1) / n X bytes
in_use = [one / took for one, took in zip(of_bytes, found["ring"])]
nearly = 9 * 8 * slow_alpha * slow_B  # 14 / 8 X / B is nine tenths of 14 (alpha + X / 8B)
put_to_the_test(f"""
- [C042] A ring uses equal links fully, but is slow for many messages |
  handwritten notes, “Ring AllReduce” |
  {"depends on the size" if in_use[-1] > 2 * in_use[0] else "not decided here"} | on 8 ranks with
  {links}, a ring used {in_use[0]:.0%} of its links for {slow_sizes[0] / 1e3:g} kB, and
  {in_use[-1]:.0%} for {slow_sizes[-1] / 1e6:g} MB (section 2, picture); by the model, 90 % from
  {nearly / 1e6:.3g} MB on. Each call has 14 messages in turn, where halving-doubling has 6
  (section 3, table) | measured: on throttled links; NVLink's and InfiniBand's latencies are
  microseconds, so on GPUs much smaller tensors than here are expected to fill the links
""")

# %% [markdown]
# **Source.** Handwritten notes.
#
# **To read on.** Thakur, Rabenseifner and Gropp, [Optimization of collective communication
# operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: which algorithm for which
# size.

# %% [markdown]
# ## What you have learnt
#
# * A message of $X$ bytes takes $\alpha + X/B$: for a small one latency decides, for a large one
#   bandwidth.
# * Count the messages that wait for each other, and you can predict a collective on slow links.
# * Trees have few messages, rings few bytes. **Halving-doubling** has few of both, if the number of
#   ranks is a power of two and all links are equal.
#
# **Your exercises**: {{all_reduce_seconds}} stands in a cell above, and
# [labs/halving_doubling.py](../labs/halving_doubling.py) has {{all_reduce_halving_doubling}}.
#
# **Next**: {{next}}.

# %%
progress("02e")
