# %% [markdown]
# # 02b · The ring
#
# **How do ranks add up a tensor with nobody in the middle?** Data parallel training sums all
# gradients in every step. For a model of a billion parameters in float32 that is 4 GB on each rank.
# Here you write the algorithm that shares this work out equally, and count the bytes of all
# collectives. At the end your own reduce-scatter sends half of what Gloo's sends.

# %% [markdown]
# ![Grids of four ranks and four chunks after each of six steps of a ring all-reduce: stripes of
# colour fill chunk by chunk, and at the end all chunks hold the numbers of all
# ranks](../assets/covers/02b_the_ring.png)
#
# *Recorded in section 2: six steps of a ring all-reduce, and whose numbers are in each chunk.*
#
# **After this part you can** write an all-reduce as a ring, say what each rank sends in every
# collective, and find out which algorithm a library uses.
#
# **It takes** about 25 minutes, and 60 more for 6 exercises. **It needs** [part
# 02](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Machines, Table, check, explore, hint, lab, launch, plot_holdings, plot_ring, plot_traffic,
    predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0
card_megabytes_per_second = 40.0

# %% [markdown]
# ## 1 · Somebody in the middle
#
# The plainest all-reduce is a **star**. Everybody sends its tensor to rank 0. Rank 0 adds up, and
# sends the sum back to each. The lab has it ready made. Let $X$ be the bytes of the tensor and $n$
# the number of ranks. Other ranks send $X$ each. What about rank 0?

# %%
star_guess = predict(f"Star, {world_size} ranks, {megabytes:g} MB: bytes sent by rank 0", unit="MB")

# %%
collectives, measured = lab("collectives"), lab("collectives_measured")
shown = lab("collectives_shown")

ways = {"star": collectives.all_reduce_star, "tree": collectives.all_reduce_tree}
summed = launch(measured.sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
star_guess.compare((world_size - 1) * megabytes, summed["star"].sent_bytes[0] / 1e6,
                   kind="communication")

# %%
def bytes_sent(run):
    return Table(["way", "sent by rank 0", "by another, at most", "by all together"],
                 [[name, *(f"{b / 1e6:.2f} MB" for b in (sent[0], max(sent[1:]), sum(sent)))]
                  for name in run.labels for sent in [run[name].sent_bytes]])

bytes_sent(summed)

# %% [markdown]
# (The kernel counts the bytes on each rank, so these cells run on the CPU.) Rank 0 of the star is a
# **hot spot**: all sums wait for its link, and with more ranks it gets worse. Two trees, a reduce
# and then a broadcast, take some of this load from rank 0. But they send whole tensors, too, and in
# most rounds many ranks have nothing to do.
#
# All together send $2\,(n-1)\,X$ in both: every rank but one has to give its numbers away once, and
# has to get the sum once. Can all ranks have an equal share of that?

# %% [markdown]
# ## 2 · The ring
#
# Put the ranks in a **ring**. Each rank sends to the next one only, and receives from the one
# before. Cut the tensor into $n$ chunks. Then every rank has something to send in every step.
#
# Below is a film of the lab's `all_reduce_ring` on four ranks, with one chunk for each. Move the
# slider. Where is the sum of chunk 0 complete first? Which chunk does a rank pass on?

# %%
films = launch(shown.film_of, collectives.all_reduce_ring, world_size=4, device="cpu").values

def draw_ring(step):
    return plot_ring(films, step)

explore(draw_ring, step=[1, 0, *range(2, len(films[0].frames))])

# %% [markdown]
# All steps side by side. A row is a rank, a column a chunk. Stripes tell whose numbers are in it,
# and a frame marks a complete sum.

# %% tags=["cover"]
plot_holdings({f"after step {step}" if step else "at the start": [f.frames[step] for f in films]
               for step in range(len(films[0].frames))})

# %% [markdown]
# The first $n-1$ steps **add**. After them rank $k$ has the complete sum of chunk $k$, and nobody
# has all: this half is a reduce-scatter. The other $n-1$ steps **replace**: complete chunks travel
# round until everybody has all of them. This half is an all-gather.
#
# Follow chunk 0. It begins on rank 1. Rank 1 sends it to rank 2, which adds its own numbers and
# passes the sum on. When it comes to rank 0, everybody's numbers are in it.

# %%
ring_guess = predict(f"Ring, {world_size} ranks, {megabytes:g} MB: bytes sent by each rank",
                     unit="MB")

# %% [markdown]
# ### Exercise 2.5
#
# `chunk_to_send(rank, step, n)`: in the reduce-scatter round a ring of `n` ranks, which chunk does
# `rank` send to rank + 1? Return its number, from 0 to n − 1. `step` counts from 1, as in the film,
# to n − 1. Rank $k$ has to end with the complete chunk $k$.
#
# For example, `chunk_to_send(1, 1, 4)` is 0: in step 1, rank 1 sends chunk 0. The check plays the
# ring with your numbers.

# %%
def chunk_to_send(rank, step, n):
    ### BEGIN SOLUTION
    return (rank - step) % n
    ### END SOLUTION

check("2.5", chunk_to_send)

# %% [markdown]
# ### Exercise 2.6
#
# In [labs/collectives.py](../labs/collectives.py), write `reduce_scatter_ring(chunks, group)`.
# `chunks` is a list of $n$ tensors. Chunk k is as long on every rank; other chunks may be longer or
# shorter. Afterwards `chunks[k]` of rank k holds the sum of everybody's `chunks[k]`. What the other
# chunks hold then is up to you. It may send $n-1$ messages, all to the next rank.
#
# For example, 2 ranks hold `[[1], [2]]` and `[[10], [20]]`. Rank 0 ends with 11 in `chunks[0]`, and
# rank 1 with 22 in `chunks[1]`.
#
# `exchange`, in the same file, sends one tensor and receives another in one batch. Receive into a
# tensor of its own. Then add it to the tensor that is in the list: `chunks[k] = …` would only put
# another tensor there.

# %% [markdown]
# ### Exercise 2.7
#
# In [labs/collectives.py](../labs/collectives.py), write `all_gather_ring(chunks, group)`. `chunks`
# is a list as in 2.6. At the start only `chunks[k]` of rank k counts. Afterwards every rank's
# `chunks[k]` holds what rank k brought. It may send $n-1$ messages, all to the next rank. For
# example, rank 0 brings `[7]` as chunk 0 and rank 1 `[8]` as chunk 1: then both hold `[[7], [8]]`.

# %% [markdown]
# ### Exercise 2.8
#
# In [labs/collectives.py](../labs/collectives.py), write `all_reduce_ring(x, group)` from
# these two. Afterwards every rank's `x` holds the sum. `x` has any shape, and its length need not
# be a multiple of $n$. `x.view(-1)` is flat and shares the memory of `x`. `torch.tensor_split` cuts
# it into chunks that differ by one element at most. It returns a tuple; the other two take a list.

# %%
display(check("2.6"), check("2.7"), check("2.8"))

# %% [markdown]
# When your three pass, run the film above again: it is your ring now. And how many bytes does each
# of its ranks send?

# %%
ways = {"star": collectives.all_reduce_star, "tree": collectives.all_reduce_tree,
        "ring": collectives.all_reduce_ring, "dist.all_reduce": dist.all_reduce}
summed = launch(measured.sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
ring_guess.compare(2 * (world_size - 1) / world_size * megabytes,
                   max(summed["ring"].sent_bytes) / 1e6, kind="communication")

# %%
bytes_sent(summed)

# %% [markdown]
# Each of the $2\,(n-1)$ messages of a rank has $X/n$ bytes. So every rank sends
# $2\,(n-1)/n \cdot X$. That is less than $2X$, however many ranks there are. All together send as
# much as in the star, but in equal shares.
#
# Can the busiest rank send still less? Not if the ranks themselves do the adding: Patarasuk and
# Yuan proved it in 2009. The ring is not the only way to reach this bound. *Halving-doubling* has
# the same bytes in fewer messages; you will meet it in [part 02c](02c_what_a_message_costs.ipynb),
# with the question which of them is faster.

# %% [markdown]
# **On GPUs**, NCCL has rings, trees and more, and chooses for each call. [Its
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) lists them
# under `NCCL_ALGO`. It cuts a tensor over several *channels*. More channels take more of the GPU's
# processors away from computing.
#
# * Its tree is a *double binary tree*: each half of the tensor takes a tree of its own, in pieces,
#   as in the chain of part 02. So there are few rounds and no hot spot, [says NVIDIA's
#   blog](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/).
# * Some switches add by themselves: *SHARP*, and *NVLS* with NVLink. Then a rank sends its tensor
#   about once, not nearly twice. The bound above counts [sends between
#   ranks](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), so it does not hold
#   there.

# %% [markdown]
# ## 3 · Which algorithm does a library use?
#
# `dist.all_reduce` has sent the same bytes as your ring. Does it use a ring? Bytes cannot tell:
# halving-doubling would send as many. But the algorithms differ in *who talks to whom*. In a ring
# each rank sends to one other rank. In halving-doubling it sends to two others if there are four
# ranks, and to three if there are eight. The bench knows both ends of each connection.

# %%
for name in summed.labels:
    print(f"{name:16} {measured.peers(summed[name])}")

# %% tags=["nbval-ignore-output"]
plot_traffic(summed, "dist.all_reduce", title="dist.all_reduce: bytes from rank to rank")

# %% [markdown]
# Every rank of Gloo's all-reduce sends all its bytes to one other rank, and these links form a
# circle. So this *is* a ring. It runs the other way round: each rank sends to the one before.
#
# This is what was found for Gloo, at this version and this size. On NCCL, set `NCCL_DEBUG=INFO` and
# `NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING` to see its rings, its trees and what it chose.

# %% [markdown]
# ## 4 · Bytes, of all of them
#
# Chapters 06 to 09 are about who sends what, and each of their formulas is made of four: those of
# all-reduce, all-gather, reduce-scatter and all-to-all.
#
# ### Exercise 2.9
#
# `sent_bytes(name, n, X)` returns the bytes that each of `n` ranks must send, if all send the same.
# `name` is `"all_reduce"`, `"all_gather"`, `"reduce_scatter"` or `"all_to_all"`. `X` is the bytes
# of the whole tensor: in an all-gather of the result, elsewhere of what a rank brings. In an
# all-to-all a rank has one piece of `X / n` for each rank, itself included. No switch adds, and
# headers do not count.
#
# For example, in an all-gather on 2 ranks each brings half, and sends it: `sent_bytes("all_gather",
# 2, 100)` is 50.

# %%
def sent_bytes(name, n, X):
    ### BEGIN SOLUTION
    times_round = 2 if name == "all_reduce" else 1
    return times_round * (n - 1) * X / n
    ### END SOLUTION

check("2.9", sent_bytes)

# %% [markdown]
# And now all of them, measured: bytes sent by the busiest rank, as a multiple of the tensor's size
# $X$. The formula stands in brackets. The calls stand one under the other in
# [labs/collectives_measured.py](../labs/collectives_measured.py). One line is not like the others.
# Which?

# %%
runs = {n: launch(measured.every_collective, collectives, world_size=n, device="cpu")
        for n in (2, 3, 4, 8)}
Table(["", *(f"{n} ranks" for n in runs)], measured.rows_of_bytes(runs))

# %% [markdown]
# **Gloo's `reduce_scatter` sends twice what it has to.** What does it do? Ask who talks to whom,
# and ask PyTorch's profiler for the names of the calls that Gloo has made.

# %%
for name in ("all_reduce", "reduce_scatter", "reduce"):
    print(f"{name:16} {measured.peers(runs[4][name])}")
print(launch(measured.gloos_names, world_size=2, device="cpu").values[0])

# %% [markdown]
# It is a whole all-reduce, of which each rank keeps a chunk. Your ring, ten lines of Python, sends
# half of that. Whoever measures FSDP over Gloo (chapter 06) measures this as well. NCCL has a
# reduce-scatter of its own.
#
# The table tells more. The broadcast's root sends $\lceil\log_2 n\rceil$ copies: a tree. In the
# reduce, the busiest rank sends one $X$. By its links it is a ring, and after that everybody sends
# the finished chunk to rank 0. So it is a reduce-scatter and a gather, and no tree.

# %% [markdown]
# ### Exercise 2.10
#
# In [labs/collectives.py](../labs/collectives.py), write `all_to_all(outputs, inputs, group)`. Both
# are lists of $n$ tensors. Rank i's `inputs[j]` becomes rank j's `outputs[i]`. Tensors may differ
# in length, but `outputs[i]` has the length of what comes. `inputs` stay as they are. It may send
# $n-1$ messages, each straight to its receiver; what a rank has for itself is copied.
#
# For example, rank 0 has inputs `[[1], [2]]`, and rank 1 `[[3], [4]]`. Afterwards rank 0 has
# outputs `[[1], [3]]`, and rank 1 `[[2], [4]]`.

# %%
check("2.10")

# %% [markdown]
# ## 5 · And the time?
#
# On one laptop, ranks share the cores, and no link is slow: times there say little. So give each
# rank a machine of its own, with a slow network card. (Where this system does not allow that, the
# cell says so, and then the times below are those of one machine.) Four ways to sum, on 2, 4 and 8
# ranks, 1 MB each. At the card's speed one copy takes 25 ms.
#
# Your `reduce_tree` should take one copy's time for each of its $\log_2 n$ rounds. What about
# Gloo's reduce?

# %%
reduce_guess = predict("Gloo's reduce: time on 8 ranks, as a multiple of 2 ranks", unit="times")

# %% tags=["nbval-ignore-output"]
machines = Machines.here(8, bytes_per_second=card_megabytes_per_second * 1e6)
sums = launch(measured.on_slow_cards, collectives, [4, 1_000_000], world_size=8, machines=machines,
              device="cpu")
times = measured.until_the_last(sums.values)
heads = ["quickest and slowest of 5", "2 ranks", "4 ranks", "8 ranks"]
Table(heads, measured.rows_of_time(times, 1_000_000), title="1 MB")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: the quickest rounds, as others wait for a core.
took = {key: min(rounds) for key, rounds in times.items()}
two, eight = (took[n, 1_000_000, "reduce"] for n in (2, 8))
reduce_guess.compare((2 * 7 / 8) / (2 * 1 / 2), eight / two)

# %% [markdown]
# The tree's time grows with $\log_2 n$: 1, 2, 3 copies. Gloo's reduce is a reduce-scatter and then
# a gather. Each takes the time of $(n-1)/n$ copies, so both together take less than two. This is
# also the time of an all-reduce: over Gloo, a reduce saves nothing.
#
# A reduce and then a broadcast, which is a tree, take longer than an all-reduce here, and the gap
# grows with $n$. And for small tensors? The same four ways with 4 bytes, where no card is slow:

# %% tags=["nbval-ignore-output"]
Table(heads, measured.rows_of_time(times, 4), title="4 bytes")

# %% [markdown]
# These times are messages, and processes that wait for a core. Compare the quickest and the slowest
# round of one way, before you compare two ways. [Part 02c](02c_what_a_message_costs.ipynb) looks at
# small messages again, with a latency that is known.
#
# *Break it.* Set `card_megabytes_per_second = 20.0` and run this section again. Which times double?

# %% [markdown]
# ## Put to the test
#
# What our sources say about sums, and what was measured here just now. A click opens the statements
# that hold no surprise.

# %% jupyter={"source_hidden": true}
in_x = {name: {n: measured.busiest(run, name) for n, run in runs.items()}
        for name in runs[2].labels}
ops = {op: launch(measured.all_reduce_of_ranks, op, world_size=4, device="cpu").values[0]
       for op in ("SUM", "AVG", "MAX")}
total = sum(summed["ring"].sent_bytes) / (megabytes * 1e6)
sent_by_all = " ".join(f"{b / 1e6 / megabytes:.2f}" for b in summed["dist.all_reduce"].sent_bytes)
to = measured.receivers(summed["ring"])
to_0 = [rank for rank, its in enumerate(to) if 0 in its]

# %% jupyter={"source_hidden": true}
large, small, both = 1_000_000, 4, "reduce, then broadcast"
ms = {key: f"{1e3 * seconds:.0f}" for key, seconds in took.items()}
tree_grows = [took[n, large, "reduce along a tree"] / took[2, large, "reduce along a tree"]
              for n in (4, 8)]
saved = took[8, large, both] / took[8, large, "all_reduce"]
rounds = [times[8, small, name] for name in ("all_reduce", both)]
overlap = max(map(min, rounds)) <= min(map(max, rounds))

# %% jupyter={"source_hidden": true}
surprises = f"""
- [C032] A reduce on 8 ranks takes 3 steps: its time is logarithmic in the number of ranks |
  PyTorch slides, “Collective Communication: Reduce” | depends | so is a tree's: 4 ranks take
  {tree_grows[0]:.1f} times as long as 2, and 8 take {tree_grows[1]:.1f}. Gloo's is no tree: on 2,
  4, 8 ranks {", ".join(ms[n, large, "reduce"] for n in (2, 4, 8))} ms (section 5, table)
- [C033] All-reduce is a reduce to one node, then a broadcast |
  PyTorch slides, “Collective Communication: All-Reduce” | imprecise | the result is that, not the
  traffic. 5 MB on 8 ranks at 1 MB/s, by the bytes of sections 1 and 2: star {2 * 7 * 5} s, two
  trees {2 * 3 * 5} s, ring {2 * 7 / 8 * 5} s
- [C034] All-reduce is generally faster than a reduce followed by a broadcast |
  PyTorch slides, “Collective Communication: All-Reduce” |
  {"right for large tensors" if saved > 1.2 else "not to be seen here"} | 8 ranks, 1 MB each:
  {ms[8, large, "all_reduce"]} against {ms[8, large, both]} ms. With 4 bytes the rounds of both
  {"overlap: no difference to be seen" if overlap else "differ"} (section 5, tables)"""

# %% jupyter={"source_hidden": true}
surprises += f"""
- [C037] In each iteration a node sends to 2 of its peers | CS 229S, “All-reduce Algorithm” |
  {"wrong" if len(to[0]) == 1 else "right"} | rank 0 sends to rank {to[0][0]} alone, and receives
  from rank {to_0[0]} alone (section 3)
- [C040] 2 (N - 1) X / N is the “total volume” | CS 229S, “Ring All-reduce Efficiency Analysis” |
  imprecise | it is one rank's; all {world_size} together sent {total:.2f} X (section 2, table)
- [C046] Reduce is not for gradients, as only one rank gets the result |
  handwritten notes, “Communication Primitives” | imprecise | one reduce for each chunk's owner is a
  reduce-scatter, as ZeRO needs: {in_x["a reduce to each owner"][4]:.2f} X on 4 ranks (section 4)
- [C049] All nodes send their gradients to one node, and get the total back |
  PyTorch slides, “Collective Communication Primitives” | wrong for DDP | ranks 0 to
  {world_size - 1} of an all-reduce sent {sent_by_all} X: nobody is in the middle (section 3)
- [C050] Rings became possible with multi-process | blog, “Distributed Data Parallelism” |
  imprecise | four threads of this notebook summed 1 to 4 in a ring: {measured.ring_of_threads()}"""

# %% jupyter={"source_hidden": true}
others = f"""
- [C035] All-reduce = reduce-scatter + all-gather |
  handwritten notes, “Communication Primitives” | right |
  the lab's ring: {in_x["ring: reduce_scatter"][4]:.2f} X + {in_x["all_gather"][4]:.2f} X =
  {in_x["ring: all_reduce"][4]:.2f} X on 4 ranks (section 4, table)
- [C036] A ring all-reduce runs 2 (N - 1) iterations | CS 229S, “All-reduce Algorithm” | right |
  {len(films[0].moves)} on 4 ranks (section 2, film)
- [C038] The first N - 1 iterations add, the next N - 1 overwrite |
  CS 229S, “All-reduce Algorithm”; handwritten notes, “Ring All-Reduce” | right | after each, rank 0
  has {" ".join(str(f.count(15.0)) for f in films[0].frames)} complete chunks of 4 (section 2, film)
- [C039] Each rank sends 2 (N - 1) X / N |
  CS 229S, “Ring All-reduce Efficiency Analysis”; handwritten notes, “Communication Overhead” |
  right | {", ".join(f"{x:.3f} X on {n}" for n, x in in_x["ring: all_reduce"].items())} ranks
  (section 4, table)"""

# %% jupyter={"source_hidden": true}
others += f"""
- [C043] After a reduce-scatter rank k has the sum of chunk k; an all-gather gives everybody all |
  handwritten notes, “Reduce Scatter”, “All Gather” | right | part 02, section 5. But Gloo's
  reduce-scatter sends {in_x["reduce_scatter"][4]:.2f} X on 4 ranks, where
  {in_x["ring: reduce_scatter"][4]:.2f} X will do (section 4, table)
- [C047] The operation of an all-reduce may be sum, mean or max |
  handwritten notes, “Communication Primitives” | depends | on the backend: here, for ranks 0 to 3,
  sum {ops["SUM"]:g}, mean {ops["AVG"]:g}, max {ops["MAX"]:g}. Portable: the sum, then divide
- [C048] All-reduce averages gradients | web page, “Communication Collectives”; CS 229S, “Data
  parallelism” | imprecise | it sums: {ops["SUM"]:g} for ranks 0 to 3. DDP divides (part 03)
- [C078] DDP uses a ring all-reduce with two neighbours |
  handwritten notes, “Data Parallelism”; blog, “Distributed Data Parallelism” | depends | on the
  backend. Gloo's is a ring: {measured.peers(summed["dist.all_reduce"])} (section 3). NCCL chooses
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises, more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Distributed Parallelism in Deep Learning* (web page); *The Evolution of Data
# Parallelism* (blog); handwritten notes.
#
# **To read on.** Patarasuk and Yuan, [Bandwidth optimal all-reduce
# algorithms](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why $2(n-1)/n$ is the least among
# ranks that do the adding. Gibiansky, *Bringing HPC techniques to deep learning* (Baidu), 2017, and
# Sergeev and Del Balso, [Horovod](https://arxiv.org/abs/1802.05799), 2018: rings for gradients.

# %% [markdown]
# ## What you have learnt
#
# * In a ring all-reduce each of $n$ ranks sends $2(n-1)/n$ times the tensor: never twice as much.
#   No rank is in the middle.
# * All-gather, reduce-scatter and all-to-all send half of that.
# * Bytes do not tell an algorithm; who talks to whom does. Gloo's all-reduce is a ring.
# * Gloo's own reduce-scatter, at the version tested, sends twice what yours does.
# * A library may do something else than a call's name says. Measure it.
#
# **Your exercises**: those in cells above, and [labs/collectives.py](../labs/collectives.py). Later
# chapters run on your ring.
#
# **Next**: [02c · What a message costs](02c_what_a_message_costs.ipynb).

# %%
progress("02b")
