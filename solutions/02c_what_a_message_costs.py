# %% [markdown]
# # 02c · What a message costs
#
# **How long does a collective take, and can you know it before you run it?** You measure what one
# message costs on this machine. From two numbers you predict whole collectives, and find an
# all-reduce that has few bytes *and* few messages. Then the model meets 128 small calls, and
# promises far less than they cost.

# %% [markdown]
# ![Time of an all-reduce on 8 ranks over its size, predicted and measured, for a tree, a ring, and
# halving-doubling, which is as fast as the better one or
# faster](../assets/covers/02c_what_a_message_costs.png)
#
# *Measured in section 3: on equal links, halving-doubling is faster than the tree and the ring, or
# as fast.*
#
# **After this part you can** measure latency and bandwidth, predict the time of an all-reduce, say
# when this prediction is worth little, and read the bandwidths that NCCL's benchmarks report.
#
# **It takes** about 25 minutes, and 50 more for 3 exercises. **It needs** parts
# [02](02_collectives.ipynb) and [02b](02b_the_ring.ipynb).

# %% jupyter={"source_hidden": true}
import os
from statistics import median

import numpy as np
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, explore, film, hint, lab, launch, plot_against, plot_exchanges, predict,
    progress, put_to_the_test,
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

# %% tags=["nbval-ignore-output"]
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
# The line bends near $\alpha B$ bytes. To the left of it, size hardly matters: a message of 256
# bytes costs nearly as much as one of some thousands. To the right of it, only size matters.

# %% [markdown]
# ## 2 · From a message to an all-reduce
#
# A collective is a number of messages that wait for each other. Count these, and you know its time.
#
# ### Exercise 2.11
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

check("2.11", all_reduce_seconds)

# %% [markdown]
# Eight ranks have links of 20 MB/s, and a latency of 10 ms. For small tensors the tree is faster,
# as it has fewer messages one after another. For large ones it is the ring. At which size do both
# take equally long?

# %%
crossing = predict("Ring and tree take equally long on 8 ranks, at", unit="kB")

# %%
slow_alpha, slow_B = link_milliseconds / 1e3, link_megabytes_per_second * 1e6
slow_sizes = [12_500 * 2**k for k in range(8)]
slow = launch(costs.on_slow_links,
              {"tree": collectives.all_reduce_tree, "ring": collectives.all_reduce_ring},
              slow_sizes, slow_alpha, slow_B, world_size=8, device="cpu")
found = costs.slowest_rank(slow.values)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
equal = (14 - 6) * slow_alpha * slow_B / (6 - 14 / 8)  # 6 (alpha + X / B) = 14 (alpha + X / 8B)
crossing.compare(equal / 1e3, costs.crossing(slow_sizes, found["tree"], found["ring"]) / 1e3)

# %% tags=["nbval-ignore-output"]
model = {"tree": [1e3 * costs.in_turn(6, size, slow_alpha, slow_B) for size in slow_sizes],
         "ring": [1e3 * costs.in_turn(14, size / 8, slow_alpha, slow_B) for size in slow_sizes]}
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
# In round 1, rank 0 gives its upper half to rank 2, and gets rank 2's lower half. In round 2 it
# does the same with rank 1, and with half of that half. Rounds 3 and 4 give back what is finished.
# A dot is an unfinished number.

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

halving_doubling = lab("halving_doubling").all_reduce_halving_doubling
ways = {"ring": collectives.all_reduce_ring, "halving-doubling": halving_doubling}
seen = launch(film_each, ways, world_size=8).values
by_name = {name: [of_rank[name] for of_rank in seen] for name in ways}

def draw(step):
    return plot_exchanges(by_name, step)

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
# ### Exercise 2.12
#
# Write `all_reduce_halving_doubling(x, group=None)` in
# [labs/halving_doubling.py](../labs/halving_doubling.py). It adds up everybody's `x` in place, and
# returns nothing. `x` is contiguous and has any shape and any length; its halves may differ by one
# element. The group has $n$ = 1, 2, 4, 8, … ranks. Of any other number, the given line
# `need_power_of_two(n)` says that it does not work: some rank would have no partner.
#
# In each round a rank and its partner call the lab's `exchange(outgoing, to, incoming, source,
# group)`. The partners are `rank ^ n//2`, `rank ^ n//4`, …, `rank ^ 1`, and then the same ones in
# the opposite order. (`^` flips one bit: `5 ^ 4` is 1.) The table above is the example. You may
# send $2\log_2 n$ messages and $2\,\frac{n-1}{n}X$ bytes, and no more. Another order of partners
# also passes.

# %%
check("2.12")

# %%
third = launch(costs.on_slow_links, {"halving-doubling": halving_doubling}, slow_sizes, slow_alpha,
               slow_B, 3, world_size=8, device="cpu")
found |= costs.slowest_rank(third.values)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
k = slow_sizes.index(100_000)
model["halving-doubling"] = [1e3 * (6 * slow_alpha + 14 / 8 * size / slow_B)
                             for size in slow_sizes]
halving.compare(model["halving-doubling"][k], found["halving-doubling"][k])

# %% tags=["cover", "nbval-ignore-output"]
plot_against(slow_sizes, found, "bytes", "time (ms)", model, logarithmic=True,
             title=f"All-reduce on 8 ranks, {links}")

# %% [markdown]
# Here halving-doubling has as few messages as the trees, and as few bytes as the ring. Count both
# on eight ranks. (The kernel counts bytes on the wire. It does not see where one of Gloo's own
# messages ends.)

# %%
compared = launch(lab("halving_doubling").compare, 1_600_000, world_size=8, device="cpu")

def row_of(name):
    block, peers = compared[name], compared[name].traffic()[0]
    sends = sum(call.name == "send" for call in block.calls[0]) or "–"
    to = ", ".join(str(rank) for rank, sent in enumerate(peers) if sent > 16_000)
    return [name, f"{max(block.sent_bytes) / 1.6e6:.2f}", sends, to]

Table(["way", "most bytes sent, in X", "messages of rank 0", "rank 0 sends to"],
      [row_of(name) for name in compared.labels])

# %% [markdown]
# As part 02b has found out, Gloo's all-reduce is a ring that runs the other way round.
#
# Why does anybody still use a ring? Three reasons:
#
# * Halving-doubling needs a power of two. Gloo's library has a version that cuts other $n$ into
#   powers of two, say [its
#   documents](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md). MPICH lets the ranks
#   beyond it hand their tensor to a neighbour first.
# * Its largest messages go to the farthest ranks, across the slow links between machines (part
#   02d). Of a ring, one link leaves each machine.
# * A ring can cut its chunks into smaller pieces, and pass on the first piece while the second
#   comes in. Such pipelining hides latencies. The model above does not have it.

# %% [markdown]
# ## 4 · What a call costs
#
# So far the links were slow, and everything else was small beside them. Now take this machine at
# full speed. A neural network with hundreds of small gradients could call `all_reduce` once for
# each. Take 128 calls with 4 kB each, on two ranks. Each call is two messages of 2 kB, one after
# the other. So the model says $128 \cdot 2\,(\alpha + 2000/B)$.

# %%
many_guess = predict("128 all-reduces of 4 kB on 2 ranks, one after another", unit="ms")

# %%
calls = {n: launch(costs.small_calls, world_size=n, device="cpu").values[0] for n in (1, 2, 4)}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the model, and the middle one of nine rounds.
of_call = {n: costs.in_turn(2 * (n - 1), 4000 / n, alpha, B) for n in calls}  # a ring
many_guess.compare(128e3 * of_call[2], 1e3 * calls[2]["total"])

# %% tags=["nbval-ignore-output"]
cores = len(os.sched_getaffinity(0))
Table(["ranks", "model", "first round", "quickest", "middle", "slowest"],
      [[n, *(f"{1e3 * t:.1f} ms" for t in (128 * of_call[n], one["totals"][0], min(one["totals"]),
                                           one["total"], max(one["totals"])))]
       for n, one in calls.items()], title=f"128 calls, in nine rounds, on {cores} cores")

# %% [markdown]
# The rounds differ, though each does the same. Look into the middle one: its 128 calls, sorted by
# their time. A dashed line is the model.

# %% tags=["nbval-ignore-output"]
def constant(milliseconds):
    return lambda number: milliseconds

names = {n: f"{n} rank{'s' * (n > 1)}" for n in calls}
plot_against(range(1, 129), {names[n]: [1e3 * t for t in sorted(one["each"])]
                             for n, one in calls.items()}, "calls, the quickest first",
             "time of a call (ms)", {names[n]: constant(1e3 * of_call[n]) for n in (2, 4)},
             logarithmic="y", title="128 all-reduces of 4 kB, one after another")

# %% [markdown]
# Where does the time of a call go? First, how much of it is the call itself? A world of one rank
# has nobody to wait for. And with `async_op=True` a call returns at once: the rest is waiting.

# %% tags=["nbval-ignore-output"]
others = {n: launch(costs.begun_and_done, world_size=n, device="cpu").values[0] for n in calls}
Table(["ranks", "to begin it", "after a pause", "in a row", "all begun at once", "model"],
      [[n, *(f"{1e6 * t:.0f} µs" for t in (
          others[n]["begun"], others[n]["after a pause"], median(one["each"]), others[n]["done"],
          of_call[n]))] for n, one in calls.items()], title="One all-reduce of 4 kB")

# %% [markdown]
# Beginning a call costs little, with any number of ranks. So the time is in the waiting. Does the
# call before it make a call slower? Compare it with one after a pause, when all ranks are idle. If
# the one after a pause is quicker, calls in a row disturb each other. If it is slower, threads that
# have slept for long need more time to wake.

# %% [markdown]
# What do the ranks do meanwhile? A collective passes several threads of each rank: the one that
# runs Python, one that works on Gloo's collectives, and one that listens to the network. (A single
# message does without the second one.) Each thread *sleeps* until the one before it is done. Then
# the kernel has to wake it, and that costs a core some microseconds.
#
# So count the sleeps, and the **CPU time** of all threads. Section 1's message there and back
# stands beside the all-reduces. For the model it is the same as an all-reduce on two ranks: two
# messages one after another.

# %% tags=["nbval-ignore-output"]
ping_pong = launch(costs.small_calls, there_and_back, world_size=2, device="cpu").values[0]
cases = {"there and back": (2, 2, ping_pong, 2 * (alpha + 4000 / B)),
         **{f"all-reduce, {names[n]}": (n, 2 * n * (n - 1), calls[n], of_call[n]) for n in calls}}
least = {name: n * one["cpu"] / min(n, cores) for name, (n, _, one, _) in cases.items()}
Table(["", "messages of all", "sleeps of a rank", "model", "CPU time by cores", "quickest call",
       "middle call"],
      [[name, count, f"{one['sleeps']:.1f}", *(f"{1e6 * t:.0f} µs" for t in (
          of_model, least[name], min(one["each"]), median(one["each"])))]
       for name, (n, count, one, of_model) in cases.items()])

# %% [markdown]
# The last column is what really happened. The model counts the messages that *follow* each other.
# CPU time counts *all* messages. In an all-reduce on two ranks four messages travel, two at a time;
# there and back only two do. A network's link carries one message each way at the same time. Here
# the cores are the links, and they do the work of both. With four ranks, 24 messages share them.
#
# So $\alpha$ is no property of a wire here: it is the time that threads need to wake each other.
# The **LogP** model ([Culler and others, 1993](https://doi.org/10.1145/155332.155333)) gives that
# its own letter. Beside the latency L it has an *overhead* o: what a message costs the processor.

# %% [markdown]
# Three parts remain that no line of the table explains:
#
# * the first round is often slower than the later ones;
# * other programs on this machine take the cores for milliseconds, as the slowest calls show. In an
#   all-reduce all ranks then wait for one;
# * **skew**: ranks do not begin a call at the same moment, and the early ones wait.
#
# One thing is sure: on this machine no link makes many small calls slow. What each *call* costs
# does. The remedy is fewer calls: section 6.

# %% [markdown]
# ## 5 · Two bandwidths
#
# For large tensors, $\alpha$ does not matter. How fast is an all-reduce then? NCCL's benchmarks,
# [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), report two
# numbers. If an all-reduce of $S$ bytes takes $t$ seconds on $n$ ranks:
#
# * the **algorithm bandwidth** is $S/t$. It tells you how long your tensor will take;
# * the **bus bandwidth** is $2\,\frac{n-1}{n}\,\frac{S}{t}$. These are the bytes that each rank has
#   to send, by the time. It can be compared with the speed of a link, and with other $n$.
#
# For a reduce-scatter or an all-gather the factor is $\frac{n-1}{n}$, for a broadcast 1.

# %% tags=["nbval-ignore-output"]
def sum_up(x):
    dist.all_reduce(x.view(torch.float32))

summed = {n: launch(costs.quickest_of_each, sum_up, sizes, 10, world_size=n, device="cpu").values[0]
          for n in (2, 4)}

def gigabytes_per_second(seconds, factor=1.0):
    return [factor * size / t / 1e9 for size, t in zip(sizes, seconds)]

plot_against(sizes, {
    "one message": gigabytes_per_second(times),
    "2 ranks, both": gigabytes_per_second(summed[2]),
    "4 ranks, algorithm": gigabytes_per_second(summed[4]),
    "4 ranks, bus": gigabytes_per_second(summed[4], 2 * 3 / 4),
}, "bytes", "bandwidth (GB/s)", logarithmic=True, title="Bandwidth of all-reduces on this machine")

# %% [markdown]
# On two ranks the factor is 1, so both bandwidths are the same. An all-reduce stays below the
# bandwidth of one message, though a ring sends as many bytes at a time. Why? Take an all-reduce of
# 8 MB on two ranks apart. Each rank sends one half, twice. It also receives at the same time, and
# adds up one half.

# %% tags=["nbval-ignore-output"]
parts = launch(costs.anatomy, 8_000_000, world_size=2, device="cpu").values
parts = {name: float(np.mean([of_rank[name] for of_rank in parts])) for name in parts[0]}
whole, exchanged = parts["all-reduce"], parts["halves, both ways"]
one_way = parts["a half, one way"]
print(f"both ways at once takes {exchanged / one_way:.1f} times as long as one way")
print("two exchanges and an addition take "
      f"{(2 * exchanged + parts['adding a half']) / whole:.0%} of the all-reduce's time")
Table(["part", "time", "share of the all-reduce"],
      [[name, f"{1e3 * t:.2f} ms", f"{t / whole:.0%}"] for name, t in parts.items()])

# %% [markdown]
# A message on one machine is copied twice by its cores: the sender copies it into the kernel, and
# the receiver copies it out. While one message travels one way, two cores share that work. While
# two messages travel both ways, the same cores have twice as much to copy. The model was fitted to
# one message at a time, so it promises too much. Adding comes on top. What the parts leave is not
# explained here.

# %% [markdown]
# ## 6 · Buckets
#
# A model has hundreds of gradients, and many of them are small. Section 4 has shown what one call
# for each of them costs. The remedy is to pack small tensors into one large one: a **bucket**. DDP
# does that (part 03b).

# %% [markdown]
# ### Exercise 2.13
#
# Write `all_reduce_buckets(tensors, bucket_bytes, group=None)` in
# [labs/collectives.py](../labs/collectives.py). It adds up each of the tensors in place, with your
# ring, one bucket at a time, and returns nothing. The tensors are contiguous, have one dtype and
# any shapes. There may be none.
#
# A bucket takes the tensors in their order, for as long as they fit into `bucket_bytes`. A bucket
# may be exactly full. A tensor that is larger than `bucket_bytes` has a bucket of its own, as a
# whole. Once a bucket is closed, it takes no more. For example, with `bucket_bytes` 100 and tensors
# of 60, 40, 20, 300 and 10 bytes, the buckets have 100, 20, 300 and 10 bytes. You may make one
# all-reduce for each bucket.

# %%
check("2.13")

# %% [markdown]
# The same 128 tensors of 4 kB again, with the lab's ring on two ranks. How large should a bucket
# be? The model counts two messages for each bucket.

# %% tags=["nbval-ignore-output"]
bucket_sizes = [4000 * 2**k for k in range(8)]
packed = launch(costs.in_buckets, collectives.all_reduce_buckets, bucket_sizes, world_size=2,
                device="cpu").values[0]
expected = [costs.in_turn(2 * 512_000 / size, size / 2, alpha, B) for size in bucket_sizes]
plot_against(bucket_sizes, {"128 tensors": [1e3 * t for t in packed]}, "bytes of a bucket",
             "time (ms)", {"128 tensors": [1e3 * t for t in expected]}, logarithmic=True,
             title="128 tensors of 4 kB, in buckets, on two ranks")

# %% [markdown]
# Larger buckets save calls, until copying and sending the bytes costs more than the calls that are
# left. Then a still larger bucket gains nothing. And it has a price that this picture does not
# show: a bucket can only be sent when its last gradient is there (part 03b).

# %% [markdown]
# **On GPUs.** NCCL predicts, too. [Its
# source](https://github.com/NVIDIA/nccl/blob/5067397c2676d5aed50042fc39e5c8ee96eb0027/src/graph/tuning.cc)
# (version 2.30) has a table of latencies and bandwidths. For each size, it takes the algorithm and
# the **protocol** with the shortest time. A step of a ring over NVLink counts 0.6 µs with the
# protocol LL, 1.9 with LL128, 3.4 with Simple. But LL is counted with half of the bandwidth at
# most, LL128 with 92 %. Each call costs 7, 14 or 8 µs on top.
#
# Its algorithms are rings, trees and sums inside the switch (NVLS), says [its
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) under
# `NCCL_ALGO`.

# %% [markdown]
# NCCL's tree joins machines. It is a [double binary
# tree](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/): two
# trees at once, each with half of the data, so that all links are used. Where the switch adds,
# $2(n-1)/n$ is no longer the least.
#
# Three more differences on GPUs:
#
# * A call returns when its kernel is queued on a **stream**. Synchronize before you read a clock.
# * NCCL's kernels run on parts of the GPU that could compute meanwhile. `NCCL_MAX_CTAS` limits how
#   many. More of them may be faster, says its documentation.
# * A collective is cut into **channels**, and each such part of the GPU works on one. Part 02d
#   tells how channels share network cards.
#
# None of this was measured here.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the time of collectives, and what was found in this part.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
put_to_the_test(f"""
- [C041] A ring takes 2 (N - 1) X / (N B) | CS 229S, “Ring All-reduce Efficiency Analysis” |
  imprecise | without the latency, 12.5 kB on 8 ranks would take
  {14 / 8 * 12_500 / slow_B * 1e3:.1f} ms on the slow links, with it
  {1e3 * costs.in_turn(14, 12_500 / 8, slow_alpha, slow_B):.1f} (picture in section 2). At
  full speed, copying and adding come on top (table in section 5)
- [C042] A ring uses equal links fully, but is slow for many messages |
  handwritten notes, “Ring AllReduce” | right | 2 (N - 1) latencies in each call: on 8 ranks, 14
  messages for 12.5 kB as for 1.6 MB (section 2). Halving-doubling has 6 (section 3)
""")

# %% [markdown]
# **Sources.** *CS 229S, lecture 8* (Stanford); handwritten notes.
#
# **To read on.** Thakur, Rabenseifner and Gropp, [Optimization of collective communication
# operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: which algorithm for which
# size. Hu and others, [Demystifying NCCL](https://arxiv.org/abs/2507.04786), 2025: protocols,
# channels and algorithms, from the source. NCCL's benchmarks on [their two
# bandwidths](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

# %% [markdown]
# ## What you have learnt
#
# * A message of $X$ bytes takes $\alpha + X/B$. Count the messages that wait for each other, and
#   you can predict a collective on slow links.
# * Trees have few messages, rings few bytes. **Halving-doubling** has both, if the number of ranks
#   is a power of two and all links are equal.
# * On one machine, $\alpha$ is the time in which threads wake each other. Messages share the cores,
#   so small calls cost more. Pack small tensors into **buckets**.
# * **Algorithm bandwidth** is the tensor by the time. **Bus bandwidth** is what each rank has to
#   send by the time: compare that with your links.
#
# **Your exercises** stand in the cells above, in [labs/collectives.py](../labs/collectives.py) and
# [labs/halving_doubling.py](../labs/halving_doubling.py).
#
# **Next**: [02d · Across machines](02d_across_machines.ipynb).

# %%
progress("02c")
