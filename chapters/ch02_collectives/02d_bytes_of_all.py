# %% [markdown]
# # {{title}}
#
# **What does each collective send, and what does a library really do?** Chapters 06 to 09 count who
# sends what. Here you get the four formulas that they use, and measure PyTorch's own collectives
# beside them. Your own ring sends fewer bytes than a library's.

# %% [markdown]
# ![Grid of bytes from each rank to each other: each of four ranks sends to one rank
# only](../assets/covers/02d_bytes_of_all.png)
#
# *Measured in section 1: the bytes that PyTorch's own all-reduce sends from rank to rank.*
#
# **After this part you can** say what each rank has to send in every collective, and find out what
# a library really sends, and by which algorithm. You know what that means for slow network cards.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Machines, Table, check, hint, lab, launch, plot_traffic, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0
card_megabytes_per_second = 40.0

# %% [markdown]
# ## 1 · Which algorithm does a library use?
#
# You want to know what your cluster's library does: which links will it load? In part 02c,
# `dist.all_reduce` sent as many bytes as your ring. Does it use a ring? Bytes cannot tell: other
# algorithms send as many. But they differ in *who talks to whom*. In a ring each rank sends to one
# other rank. In halving-doubling a rank exchanges with one partner in each round, and with another
# one in the next (part 02e). `measure` also knows both ends of each connection.

# %%
collectives, measured = lab("collectives"), lab("collectives_measured")
ways = {"ring": collectives.all_reduce_ring, "dist.all_reduce": dist.all_reduce}
summed = launch(measured.sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")
for name in summed.labels:
    print(f"{name:16} {measured.peers(summed[name])}")

# %% tags=["nbval-ignore-output"]
plot_traffic(summed, "ring", title="Your ring: bytes from rank to rank")

# %% tags=["cover", "nbval-ignore-output"]
plot_traffic(summed, "dist.all_reduce", title="dist.all_reduce: bytes from rank to rank")

# %% [markdown]
# A row is a sender, a column a receiver. (*World* is the group of all ranks, with all bytes that
# they have sent together.) In Gloo's all-reduce every rank sends all its bytes to one other rank.
# These links form a circle. So this *is* a ring. It runs the other way round: each rank sends
# to the one before.

# %% [markdown]
# This is what was found for Gloo, at this version and this size.
#
# **On GPUs**, set `NCCL_DEBUG=INFO` and `NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING` for one run. Then
# NCCL prints its rings, its trees and what it chose. [Its
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) warns of
# leaving such variables in a script.

# %% [markdown]
# ## 2 · Bytes, of all of them
#
# Chapters 06 to 09 are about who sends what, and each of their formulas is made of four: those of
# all-reduce, all-gather, reduce-scatter and all-to-all.

# %% [markdown]
# ### Exercise {{sent_bytes}} · Bytes sent by each collective
#
# `sent_bytes(name, n, X)` returns the bytes that each of `n` ranks must send, if all send the same.
# `name` is `"all_reduce"`, `"all_gather"`, `"reduce_scatter"` or `"all_to_all"`.
#
# `X` is the size of the whole tensor in bytes. In an all-gather this is the result, to which each
# rank brings `X / n`. In the other three it is what each rank brings. In an all-to-all a rank has
# one piece of `X / n` for each rank, itself included. No switch adds, and headers do not count.
# Return the number itself, not rounded: `n` need not divide `X`.
#
# For example, in an all-gather on 2 ranks each brings half, and sends it: `sent_bytes("all_gather",
# 2, 100)` is 50.

# %%
def sent_bytes(name, n, X):
    ### BEGIN SOLUTION
    times_round = 2 if name == "all_reduce" else 1
    return times_round * (n - 1) * X / n
    ### END SOLUTION

check("{{sent_bytes}}", sent_bytes)

# %% [markdown]
# Now PyTorch's own calls, over Gloo. The busiest rank counts: the others wait for it. Your formula
# says what it has to send. What does it send?

# %%
scatter_guess = predict("dist.reduce_scatter on 4 ranks: bytes sent by the busiest rank", unit="X")

# %% [markdown]
# The next table has all of them: bytes sent by the busiest rank, as a multiple of the tensor's size
# $X$. The formula stands in brackets. The calls stand one under the other in
# [labs/collectives_measured.py](../labs/collectives_measured.py). One line is not like the others.
# Which?

# %%
runs = {n: launch(measured.every_collective, collectives, world_size=n, device="cpu")
        for n in (2, 3, 4, 8)}
Table(["", *(f"{n} ranks" for n in runs)], measured.rows_of_bytes(runs))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, what has to be sent, and what was measured.
scatter_guess.compare(3 / 4, measured.busiest(runs[4], "reduce_scatter"), kind="communication")

# %% [markdown]
# (Some figures are higher than the formula in their last digits. These are headers: Gloo sends some
# with each message.)
#
# **Gloo's `reduce_scatter` sends twice what it has to.** What does it do? Ask who talks to whom,
# and ask PyTorch's profiler for the names of the calls that Gloo has made.

# %%
for name in ("all_reduce", "reduce_scatter", "reduce"):
    print(f"{name:16} {measured.peers(runs[4][name])}")
print(launch(measured.gloos_names, world_size=2, device="cpu").values[0])

# %% [markdown]
# It runs a whole all-reduce, of which each rank keeps a chunk. Your ring, a few lines of Python,
# sends half of that. Whoever measures FSDP over Gloo (chapter 06) measures this as well. NCCL has a
# reduce-scatter of its own.
#
# The table tells more. The broadcast's root sends $\lceil\log_2 n\rceil$ copies: a tree. In the
# reduce, the busiest rank sends one $X$. By its links it is a ring, and after that every rank sends
# its finished chunk to rank 0. So it is a reduce-scatter and then a gather, and no tree.

# %% [markdown]
# ### Exercise {{all_to_all}} · Exchange pieces in an all-to-all
#
# In [labs/collectives.py](../labs/collectives.py), write `all_to_all(outputs, inputs, group)`. Both
# are lists of $n$ contiguous tensors. Rank i's `inputs[j]` becomes rank j's `outputs[i]`. Tensors
# may differ in length. `outputs[i]` already has the length of the tensor that rank i sends to this
# rank. What it held before is lost. `inputs` stay as they are, and both lists keep their tensors,
# in their order. Each rank may send $n-1$ messages, each straight to its receiver, in the dtype of
# the tensor. What a rank has for itself is copied.
#
# For example, rank 0 has inputs `[[1], [2]]`, and rank 1 `[[3], [4]]`. Afterwards rank 0 has
# outputs `[[1], [3]]`, and rank 1 `[[2], [4]]`.

# %%
check("{{all_to_all}}")

# %% [markdown]
# ## 3 · And the time?
#
# The time depends on which messages wait for each other. On one laptop, ranks share the cores, and
# no link is slow: times there say little. So give each rank a machine of its own, with a slow
# network card; [part 02g](02g_across_machines.ipynb) tells how. (Where this system does not allow
# that, the cell says so, and then the times below are those of one machine.)
#
# Four ways, on 2, 4 and 8 ranks, 1 MB each: your tree, Gloo's reduce, a reduce and then a
# broadcast, and an all-reduce. At the card's speed of 40 MB/s one copy takes 25 ms.

# %% [markdown]
# Your `reduce_tree` should take one copy's time for each of its $\log_2 n$ rounds: on 8 ranks three
# times as long as on 2. Gloo's reduce is a reduce-scatter and then a gather. How much longer does
# it take on 8 ranks than on 2?

# %%
reduce_guess = predict("Gloo's reduce on 8 ranks: how many times as long as on 2?", unit="times")

# %% tags=["nbval-ignore-output"]
machines = Machines.here(8, bytes_per_second=card_megabytes_per_second * 1e6)
sums = launch(measured.time_on_slow_cards, collectives, [1_000_000], world_size=8,
              machines=machines, device="cpu")
times = measured.max_over_ranks(sums.values)
heads = ["quickest and slowest of 5", "2 ranks", "4 ranks", "8 ranks"]
Table(heads, measured.rows_of_time(times, 1_000_000), title="1 MB")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: the quickest rounds, as others wait for a core.
took = {key: min(rounds) for key, rounds in times.items()}
two, eight = (took[n, 1_000_000, "reduce"] for n in (2, 8))
reduce_guess.compare((2 * 7 / 8) / (2 * 1 / 2), eight / two)

# %% [markdown]
# On slow cards bytes decide. The tree's time grows with $\log_2 n$: 1, 2, 3 copies. Gloo's reduce
# is a reduce-scatter and then a gather. Each takes the time of $(n-1)/n$ copies, so both together
# take less than two copies. This is also the time of an all-reduce, so that over Gloo a reduce
# saves bytes and no time.
#
# A reduce and then a broadcast take longer than an all-reduce, since Gloo's broadcast is a tree of
# whole tensors. The gap grows with $n$. The last section says what the rounds above show of it.

# %% [markdown]
# All this holds for large tensors. For small ones bytes do not count, but messages do: [part
# 02e](02e_what_a_message_costs.ipynb) measures what one costs.
#
# *Break it.* Set `card_megabytes_per_second = 20.0` and run this section again. Which times double?
# (About all of them: at this size, a card's bytes take most of the time.)

# %% [markdown]
# ## 4 · Objects
#
# `dist.all_gather_object` and its relatives take any Python object: a file name, a dict of losses,
# even a model's state dict. PyTorch pickles the object into bytes and makes two all-gathers. The
# first one gathers the lengths of the pickles, and the second one the pickles, padded to the
# longest.
#
# Four ranks gather the states of four models of 1 MB, so that each rank ends up with four states.
# As tensors, this takes the four states and one copy, the packed tensor that is sent. How much
# memory do objects take, the rank's own state not counted?

# %%
object_guess = predict("all_gather_object on 4 ranks: memory on each rank", unit="states")

# %% tags=["nbval-ignore-output"]
called = lab("collectives_called")
objects = launch(called.measure_objects, world_size=4, device="cpu")
print("the same states in both ways:", all(is_same for _, is_same in objects.values))
state_bytes, _ = objects.values[0]
Table(["", "bytes sent (states)", "memory (states)", "fastest round"],
      called.rows_of_ways(objects, state_bytes, state_bytes))

# %% jupyter={"source_hidden": true}
# Your prediction; as theory, four states, four received pickles and the own one; and measured.
alive = objects["all_gather_object: memory"].peak_bytes[0]["total"]
object_guess.compare(2 * 4 + 1, alive / state_bytes - 1, kind="communication")

# %% [markdown]
# The bytes on the wire are nearly the same, because each of these tensors owns its memory, and then
# its pickle is hardly larger. But all pickles and all states exist at the same time, and packing
# and unpacking take time on every rank. (Memory counts tensors alone; the pickles' own buffers in
# Python come on top.)
#
# A view takes its whole storage along, so `.clone()` it first. Here two ranks gather ten numbers,
# 40 bytes, out of a flat buffer of 4 MB:

# %%
views = launch(called.measure_view, world_size=2, device="cpu")
for name in views.labels:
    print(f"{name}: rank 0 sends {views[name].sent_bytes[0]:,} bytes")

# %% [markdown]
# So take objects for small things, such as names and numbers, and tensors for tensors. A sharded
# checkpoint gathers none of its tensors: each rank writes its own shard, and only plans and keys
# travel as objects (part [04b](04b_sharded_checkpoints.ipynb)). There is one more reason.
# Unpickling can run code, so that a rank which receives objects trusts all others ([PyTorch warns
# of it](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object)).
#
# **On GPUs** with NCCL, the same page says, pickles travel through the GPU: each rank copies them
# to its current device first, so `torch.cuda.set_device` has to come before.

# %% [markdown]
# ## Put to the test
#
# What our sources say about collectives, and what was measured here just now. A click opens the
# statements that hold no surprise.

# %% jupyter={"source_hidden": true}
in_x = {name: {n: measured.busiest(run, name) for n, run in runs.items()}
        for name in runs[2].labels}
ops = {op: launch(measured.all_reduce_of_ranks, op, world_size=4, device="cpu").values
       for op in ("SUM", "AVG", "MAX")}
on_all = {op: " or ".join(f"{x:g}" for x in sorted(set(values))) for op, values in ops.items()}
halves = launch(measured.measure_two_halves, collectives, world_size=4, device="cpu")
same, half = all(halves.values), [measured.busiest(halves, name) for name in halves.labels]
whole = in_x["ring: all_reduce"][4]
near = all(abs(sent / measured.X_BYTES - 2 * (n - 1) / n) < 0.01
           for n, run in runs.items() for sent in run["ring: all_reduce"].sent_bytes)

# %% jupyter={"source_hidden": true}
facts = measured.facts_of_time(times, 1_000_000)
surprises = f"""
- [C032] A reduce on 8 ranks takes 3 steps: its time is logarithmic in the number of ranks |
  PyTorch slides, “Collective Communication: Reduce” | {facts["logarithmic"]} | along a tree
  it is: 1 MB on 2, 4 and 8 ranks took {facts["tree"]} ms. Gloo's reduce is no tree, and took
  {facts["reduce"]} ms (section 3, table, quickest of 5) | measured: over slow cards; NCCL is
  expected to reduce in pieces along a ring, whose time hardly grows with ranks for large tensors
- [C034] All-reduce is generally faster than a reduce followed by a broadcast |
  PyTorch slides, “Collective Communication: All-Reduce” | {facts["faster"]} | 8 ranks, 1 MB each,
  on slow cards: {facts["all_reduce"]} ms, and {facts["both"]} ms for a reduce and then a broadcast
  (section 3, table, quickest of 5) | measured: over Gloo, whose broadcast is a tree of whole
  tensors; NCCL's moves pieces, so on GPUs a smaller gap is expected
"""

# %% jupyter={"source_hidden": true}
surprises += f"""- [C046] Reduce is not for gradients, as only one rank gets the result |
  handwritten notes, “Reduce” | imprecise | where each rank needs one chunk of the sum, as in ZeRO,
  one reduce to each chunk's owner will do. On 4 ranks the busiest sent
  {in_x["a reduce to each owner"][4]:.2f} X for all of them (counted in the run of section 2), and
  {in_x["all_reduce"][4]:.3f} X in an all-reduce (section 2, table) | measured: nothing; over NCCL,
  too, each owner can be the root of a reduce of its chunk
- [C048] All-reduce averages gradients | web page, “Communication Collectives”; CS 229S, “Data
  parallelism” | {"imprecise" if ops["SUM"] == [6] * 4 else "right"} | it sums: all ranks got
  {on_all["SUM"]} of 0, 1, 2 and 3 (a run in this section). DDP divides (part 03, section 1) |
  measured: over Gloo; the default operation is SUM on every backend (PyTorch's documentation), and
  NCCL can average if it is asked
"""

# %% jupyter={"source_hidden": true}
by_ranks = ", ".join(f"{x:.3f} X on {n}" for n, x in in_x["ring: all_reduce"].items())
others = f"""
- [C035] All-reduce = reduce-scatter + all-gather | handwritten notes, “AllReduce” |
  {"right" if same and abs(sum(half) - whole) < 0.01 else "not here"} | rings of both, one after the
  other, gave all 4 ranks the sums of dist.all_reduce: {same}. The busiest rank sent
  {half[0]:.3f} X and {half[1]:.3f} X (a run in this section), and in a ring all-reduce
  {whole:.3f} X (section 2, table) | measured: nothing about the result; NCCL's ring has both halves
  in one call, and its trees have two other ones, a reduce and a broadcast
- [C039] Each rank sends 2 (N - 1) X / N | CS 229S, “Ring All-reduce Efficiency Analysis”;
  handwritten notes, “Communication Overhead” | {"right" if near else "not here"} | each rank of a
  ring sent that within 0.01 X (counted in the run of section 2), and the busiest {by_ranks} ranks
  (section 2, table) | measured: nothing about a ring; where a switch adds up (NVLink SHARP), less
  is expected
- [C047] The operation of an all-reduce may be sum, mean or max | handwritten notes, “AllReduce” |
  {"right over Gloo" if [*on_all.values()] == ["6", "1.5", "3"] else "depends"} | of 0, 1,
  2 and 3 all ranks got the sum {on_all["SUM"]}, the mean {on_all["AVG"]} and the maximum
  {on_all["MAX"]} (a run in this section). Portable: the sum, then divide | measured: over NCCL
  nothing is expected to change; PyTorch's documentation promises the mean over NCCL alone
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises, more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Distributed Parallelism in Deep Learning* (web page); handwritten notes.

# %% [markdown]
# ## What you have learnt
#
# * All-gather, reduce-scatter and all-to-all send $(n-1)/n$ times the tensor, half of an
#   all-reduce.
# * Bytes alone do not tell which algorithm a library uses. Who talks to whom tells more: Gloo's
#   all-reduce is a ring.
# * Gloo's own reduce-scatter, at the version tested, sends twice what it has to.
# * A library may do something else than a call's name says. Measure it.
# * Collectives of objects pickle them, a view with its whole storage. They are for names and
#   numbers, not for a model's state.
#
# **Your exercises**: {{sent_bytes}} stands in a cell above, and [labs/collectives.py](../labs/collectives.py)
# has {{all_to_all}}.
#
# **Next**: {{next}}.

# %%
progress("02d")
