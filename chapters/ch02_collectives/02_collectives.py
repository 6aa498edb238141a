# %% [markdown]
# # {{title}}
#
# **What can ranks give each other, and what if they wait for each other?** Every technique of this
# course is a pattern of messages. You begin with two calls, *send* and *receive*, and read what
# ranks say when they wait for each other forever. Then you see what each of PyTorch's collectives
# does, let one run while a rank computes, and make a group.
#
# `check("{{swap}}", swap)` tries your answer to exercise {{swap}} on real ranks. `hint("{{swap}}")` helps, one
# step at each call.

# %% [markdown]
# ![Grids of four ranks and four chunks, before and after each of eight collectives: stripes of
# colour show whose numbers are in each chunk](../assets/covers/02_collectives.png)
#
# *Measured in section 3: what four ranks hold before and after each of eight collectives.*
#
# **After this part you can** send and receive without getting stuck, read a report of a hang, say
# what each collective gives to whom, compute while one is under way, and make a group.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import time

import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Machines, check, hint, lab, launch, plot_holdings, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4

# %% [markdown]
# ## 1 · One message
#
# Two calls are enough to build everything that follows:
#
# * `dist.send(x, dst)` gives the tensor `x` to rank `dst`.
# * `dist.recv(x, src)` fills the tensor `x` with what rank `src` sends.
#
# Over Gloo, both calls wait: the receiver until the message has arrived, and the sender until the
# receiver takes it.
#
# Below, an envelope goes from rank to rank. Rank r puts $10^r$ cents into it, rank 0 one cent and
# rank 1 ten cents, and passes it on. Each rank returns the cents that it has passed on or kept.

# %%
def pass_it_on():
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.zeros(1)
    if rank > 0:
        dist.recv(x, rank - 1)
    x += 10**rank  # cents
    if rank < n - 1:
        dist.send(x, rank + 1)
    return x.item()

# %%
envelope_guess = predict(f"What the last of {world_size} ranks returns", unit="cents")

# %%
cents = launch(pass_it_on, world_size=world_size).values
cents

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was counted.
envelope_guess.compare(sum(10**rank for rank in range(world_size)), cents[-1], wire="counted")

# %% [markdown]
# Nothing but the messages puts the ranks in order. Rank 2 starts at the same time as all others and
# waits in `recv` until rank 1 has sent.
#
# `dist.isend` and `dist.irecv` only *begin* a message and return a **request** at once. Its
# `wait()` returns when the message has gone or has arrived. Until then, do not change the tensor of
# an `isend`, do not read that of an `irecv`, and keep the request: on Gloo, a request that Python
# throws away cancels its message.
#
# A message has one sender and one receiver: it is **point-to-point**. A **collective** is one call
# that all ranks make together, like the all-reduce of part 00.

# %% [markdown]
# ## 2 · Ranks that wait for each other
#
# Two ranks that wait for each other are stuck. On a cluster this is an expensive mistake: a
# thousand GPUs stand still, and for minutes nobody sees an error. Here are three ways to get there.
#
# The third has collectives in it, which ranks match by the order of their calls. In a *broadcast*
# one rank gives its tensor to all, and in an *all-reduce* all get the sum.
#
# What does each rank wait for? Answer for the three functions before you run the second cell. Each
# line of its reports names a rank, its call, and the line of code in which it waits.
# (`device="cpu"`, as this is about Gloo.)

# %%
def both_send_first(x):
    other = 1 - dist.get_rank()
    dist.send(x, other)
    dist.recv(x, other)

def both_receive_first(x):
    other = 1 - dist.get_rank()
    dist.recv(x, other)
    dist.send(x, other)

def another_order(x):
    if dist.get_rank() == 0:
        dist.broadcast(x, 0)
        dist.all_reduce(x)
    else:
        dist.all_reduce(x)
        dist.broadcast(x, 0)

# %%
for mistake in (both_send_first, both_receive_first, another_order):
    try:
        launch(mistake, torch.ones(4), world_size=2, device="cpu", timeout=1)
    except HangError as error:
        print(f"{mistake.__name__}: {error}\n")

# %% [markdown]
# The cure is to begin *both* messages and to wait after that. `dist.batch_isend_irecv` begins a
# list of messages, in any order, and returns their requests. An entry of the list is
# `dist.P2POp(dist.isend, x, peer)` or `dist.P2POp(dist.irecv, x, peer)`. Several messages to the
# same rank arrive in their order in the list.

# %% [markdown]
# **On GPUs** you use the NCCL backend, and three things differ, according to the documentation of
# [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations)
# (1, 3) and [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html) (2).
#
# 1. A call returns once its work is queued on a CUDA **stream**, and `wait()` makes that stream
#    wait, not Python. A hang therefore shows later than the line that caused it.
# 2. A single send blocks its stream until the other side receives. If both ranks begin with
#    `isend`, both can wait forever, although this works over Gloo. The messages of a batch do not
#    block each other, so that a batch is right on both backends.
# 3. Before the first batch, call `torch.cuda.set_device`. If a batch is a group's first call, all
#    its ranks take part.

# %% [markdown]
# ### Exercise {{swap}} · Swap tensors with a partner
#
# Ranks 0 and 1 are partners, and so are 2 and 3, 4 and 5, and so on. The number of ranks is even.
# `swap(x)` runs on each of them. `x` is a tensor; the partner's has the same shape and dtype.
# Return the partner's `x` as a new tensor, and leave your own `x` as it is. Each rank may send one
# message, which holds its `x` and nothing else. Use the calls of this part, and no collective.
#
# For example: rank 0 calls `swap` with `[1, 2]` and rank 1 with `[3, 4]`. Then rank 0 returns
# `[3, 4]`, and rank 1 returns `[1, 2]`.
#
# The check runs on Gloo and accepts whatever is right there.

# %%
def swap(x):
    ### BEGIN SOLUTION
    partner, received = dist.get_rank() ^ 1, torch.empty_like(x)
    messages = [dist.P2POp(dist.isend, x, partner), dist.P2POp(dist.irecv, received, partner)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return received
    ### END SOLUTION

check("{{swap}}", swap)

# %% [markdown]
# ## 3 · Who holds what
#
# Every chapter uses the names of PyTorch's collectives. Here are two in full. In a **scatter** the
# root hands out its chunks, one to each rank. In a **reduce-scatter** every rank has all chunks,
# and rank k gets the sum of all chunks k.
#
# For the picture, rank r fills its chunks with $2^r$: 1, 2, 4 or 8. The bits of a sum then tell
# whose numbers are in it: 5 = 1 + 4 has those of ranks 0 and 2. A row is a rank and a column a
# chunk. Nothing is drawn by hand: the lab [collectives_shown](../labs/collectives_shown.py), a file
# that `lab` loads, records what each rank had before the call and after it.

# %%
def scatter(x):
    mine = torch.zeros(1)
    pieces = list(x.split(1)) if dist.get_rank() == 0 else None
    dist.scatter(mine, pieces, src=0)
    return mine

def reduce_scatter(x):
    mine = torch.zeros(1)
    dist.reduce_scatter(mine, list(x.split(1)))
    return mine

shown = lab("collectives_shown")
two = launch(shown.record_chunks, [scatter, reduce_scatter], world_size=4)
plot_holdings(shown.grids(two.values))

# %% [markdown]
# After the scatter, rank 2 has chunk 2 of rank 0. After the reduce-scatter it has chunk 2 with the
# numbers of all ranks in it. A frame marks a chunk that is complete.
#
# And here are all eight, as the lab calls them. Broadcast, scatter, gather and reduce have a root,
# here rank 0. What the other ranks hold after a reduce is not defined, and not shown. In the
# all-to-all each chunk shows the number that it had at the start.

# %% tags=["cover"]
eight = launch(shown.record_chunks, shown.EIGHT, world_size=4)
holdings = shown.grids(eight.values)
plot_holdings(holdings)

# %% [markdown]
# | collective | afterwards | used for | chapter |
# |---|---|---|---|
# | broadcast | all have the root's tensor | equal weights at the start | 03 |
# | scatter | rank k has the root's chunk k | handing out work | |
# | gather | the root has each rank's chunk | saving in one place | 04 |
# | reduce | the root has the sum | a loss to print | |
# | reduce-scatter | rank k has the sum of all chunks k | gradients, a part for each rank | 06 |
# | all-gather | all have each rank's chunk | weights, of which each rank has a part | 06 |
# | all-reduce | all have the sum | gradients | 03, 07 |
# | all-to-all | rank k has chunk k of each rank | each token to its expert's rank | 09 |
#
# After a reduce-scatter, every rank has a chunk of the sum, and an all-gather gives these chunks to
# all. *Together they are an all-reduce*, and part 02c builds one in this way.

# %% [markdown]
# ## 4 · Calls that only begin
#
# A rank that waits for a message could compute in the meantime. With `async_op=True`, a collective
# of tensors returns as soon as it has begun. (Those of objects, in part 02d, and
# `monitored_barrier`, in 03m, have no such option.) What it returns is a **Work**:
#
# ```python
# work = dist.all_reduce(x, async_op=True)
# y = compute()   # leaves x alone
# work.wait()     # from here on, x holds the sum
# ```
#
# Two ranks compute for about 60 ms, and they add up 2 MB. Each rank is on its own machine, whose
# network card sends 20 MB/s ([part 02g](02g_across_machines.ipynb) tells how), and sends 2 MB for
# the all-reduce, which takes 2 / 20 s = 100 ms. One after the other takes 160 ms. How long do both
# take if the all-reduce begins first?

# %%
overlap_guess = predict("Computing for 60 ms while an all-reduce of 100 ms is under way", unit="ms")

# %% tags=["nbval-ignore-output"]
calls = lab("collectives_called")
cards = Machines.here(2, bytes_per_second=20e6)
orders = launch(calls.compare_orders, 500_000, 0.06, world_size=2, machines=cards, device="cpu")
plot_timeline(orders, ["compute", "all_reduce", "wait"], below=["all_reduce"],
              title="First computing and then an all-reduce; then both at the same time")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: the fastest of four rounds.
again = launch(calls.compare_orders, 500_000, 0.06, 4, world_size=2, machines=cards, device="cpu")
overlap_guess.compare(100, 1e3 * min(again["meanwhile"].rounds), kind="communication")

# %% [markdown]
# The upper bar of a rank is its Python program, and the lower bar is the all-reduce. The program
# multiplies matrices while a thread of Gloo carries the message, which needs little of a core at
# this speed. Both take as long as the longer of the two, and only the bar *wait* is left of the
# message's time. (On a system without such machines, there is little to hide.)
#
# *Break it.* Until `wait()` has returned, the tensor belongs to the call. Below, each of two ranks
# brings ones, and rank 1 is 0.2 s late. Rank 0 reads `x` before it waits, and in the second run it
# also writes 100 into `x`. Which sum do the ranks get?

# %% tags=["nbval-ignore-output"]
def touch_too_early(is_written):
    x = torch.ones(3)
    if dist.get_rank() == 1:
        time.sleep(0.2)
    work = dist.all_reduce(x, async_op=True)
    seen = x.tolist()
    if is_written and dist.get_rank() == 0:
        x.fill_(100.0)
    work.wait()
    return seen, x.tolist()

for is_written in (False, True):
    values = launch(touch_too_early, is_written, world_size=2, device="cpu").values
    for rank, (seen, summed) in enumerate(values):
        print(f"rank {rank} read {seen}, and after wait() {summed}")

# %% [markdown]
# Rank 0 read its own ones, because the sum had not arrived. (A rank may also read a sum of which
# only a part has arrived.) In the second run, **both** ranks have 101 and not 2: Gloo sends the
# numbers that `x` has when they are sent. There is no error and no warning, and where ranks are
# rarely late, the mistake is rare.
#
# **On GPUs** `wait()` lets the kernels that are queued after it on the current stream see the sum.
# Reading or writing `x` on another stream, without `wait()` there, is the same mistake.

# %% [markdown]
# ### Exercise {{sum_meanwhile}} · Overlap an all-reduce with computing
#
# `sum_meanwhile(x, compute, group=None)` runs on each rank of the group. `x` is a contiguous
# tensor, of the same shape and dtype on all ranks. `compute` is a function without arguments, which
# leaves `x` alone and raises no error. (If it may raise one, wait in a `finally:`.) Begin to add up
# `x` over the group, call `compute()` once while the sum is under way, and wait for the sum.
# Afterwards `x` holds the sum, and the function returns what `compute()` has returned. Make
# one all-reduce of `x`, and no other call.
#
# For example, `x` is [1] on rank 0 and [2] on rank 1, and `compute()` returns 7 on both. Then both
# ranks return 7, and their `x` is [3].

# %%
def sum_meanwhile(x, compute, group=None):
    ### BEGIN SOLUTION
    work = dist.all_reduce(x, group=group, async_op=True)
    result = compute()
    work.wait()
    return result
    ### END SOLUTION

check("{{sum_meanwhile}}", sum_meanwhile)

# %% [markdown]
# ### Exercise {{sum_in_flight}} · Debug all-reduces in flight
#
# `sum_in_flight(tensors, group=None)` adds up each tensor of a list over the group. All sums are to
# be under way at the same time: begin all of them, and only then wait for them. The result is a
# list of new tensors, one sum for each tensor. The list may be empty, and its tensors stay as they
# are. They are contiguous and have one dtype; their shapes may differ from each other, but not from
# rank to rank.
#
# The cell tries it on two ranks, which bring [1], [10], [100] and [2], [20], [200]. The sums should
# be [3], [30] and [300]. Find the bugs.

# %% tags=["nbval-ignore-output"]
def sum_in_flight(tensors, group=None):
    ### BEGIN SOLUTION
    sums = [x.clone() for x in tensors]
    works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
    for work in works:
        work.wait()
    ### IT WAS
    # sums, buffer = [], torch.empty_like(tensors[0])
    # for x in tensors:
    #     buffer.copy_(x)
    #     work = dist.all_reduce(buffer, group=group, async_op=True)
    #     sums.append(buffer)
    # work.wait()
    ### END SOLUTION
    return sums

def try_in_flight():
    return sum_in_flight([torch.tensor([10**k * (1.0 + dist.get_rank())]) for k in range(3)])

for rank, sums in enumerate(launch(try_in_flight, world_size=2, device="cpu").values):
    print(f"rank {rank}:", [x.tolist() for x in sums])

# %%
check("{{sum_in_flight}}", sum_in_flight)

# %% [markdown]
# ## 5 · A group is made by all
#
# A collective among some ranks needs a **process group**, which `dist.new_group(ranks)` makes.
# According to [PyTorch](https://docs.pytorch.org/docs/stable/distributed.html#groups), *all* ranks
# of the world call it, members or not, and they make their groups in the same order. What happens
# if only the members call it? Below, ranks 0 and 1 make a group of two and use it. Then all four
# ranks make a group of four.

# %% tags=["nbval-ignore-output"]
def make_among_members():
    if dist.get_rank() < 2:
        pair = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(1), group=pair)
    everybody = dist.new_group([0, 1, 2, 3])
    dist.all_reduce(torch.ones(1), group=everybody)

try:
    launch(make_among_members, world_size=4, device="cpu", timeout=1)
except HangError as error:
    print(error)

# %% [markdown]
# The group of two works, and then the ranks hang in lines that are right. PyTorch numbers groups as
# they are made, and the members find each other under that number. The group of four is number 2
# for ranks 0 and 1 and number 1 for ranks 2 and 3, so they look for each other in different places.
# The report can only name the lines in which they wait: compare which groups each rank has made
# *before*.
#
# There are two cures. Either all ranks call `new_group` for every group, or the members alone call
# it with `use_local_synchronization=True`, which names a group after its ranks instead of counting:

# %%
def make_locally():
    mine = [0, 1] if dist.get_rank() < 2 else [2, 3]
    pair = dist.new_group(mine, use_local_synchronization=True)
    x = torch.tensor(10.0 ** dist.get_rank())
    dist.all_reduce(x, group=pair)
    return x.item()

launch(make_locally, world_size=4, device="cpu").values

# %% [markdown]
# If a rank makes several groups that share ranks, their order still matters: PyTorch warns that
# this option can end in a deadlock unless all ranks keep to one order. Part
# [09](09_three_dimensions.ipynb) makes all the groups of a mesh.
#
# `dist.split_group` divides a group into several; all its ranks call it with the same lists
# (experimental, and not over Gloo). `dist.destroy_process_group(group)` ends a group, and without
# an argument all of them: call that at the end of each process, or NCCL [may hang when it
# exits](https://docs.pytorch.org/docs/stable/distributed.html#shutdown).

# %% [markdown]
# ## Put to the test
#
# What our sources say about collectives, and what was measured here just now. A click opens the
# statement that holds no surprise.

# %% jupyter={"source_hidden": true}
got = [row.index(1.0) for row in holdings["scatter: after"]]
held = {call.split(":")[0]: [sum(1 for chunk in row if chunk) for row in rows]
        for call, rows in holdings.items() if call.endswith("after")}  # chunks on each rank
roots = {"gather": [4, 0, 0, 0], "broadcast": [4, 4, 4, 4]}

def has_the_sum():
    x = torch.full((4,), 2.0 ** dist.get_rank())
    dist.reduce(x, dst=0)
    return bool((x == 15).all())

sums = launch(has_the_sum, world_size=4).values
have_it = ", ".join(str(rank) for rank, has in enumerate(sums) if has)
as_words = {call: ", ".join(map(str, chunks)) for call, chunks in held.items()}
summed = [row.index(15.0) for row in holdings["reduce_scatter: after"]]  # 15 = 1 + 2 + 4 + 8
surprising = f"""
- [C044] In a scatter, rank 1 gets chunk 0, and rank 2 chunk 1 | handwritten notes, “Scatter” |
  {"right" if got[1:3] == [0, 1] else "wrong, as we read the handwriting"} | ranks 0 to
  {len(got) - 1} got chunks {", ".join(map(str, got))}: the root keeps chunk 0 (section 3, second
  picture) | measured: nothing about GPUs; rank k gets entry k of the root's list, on every backend
"""

# %% jupyter={"source_hidden": true}
put_to_the_test(surprising, more=f"""
- [C045] Gather: one collects all; broadcast: one to all; reduce: the result on one rank |
  handwritten notes, “Gather”, “Broadcast”, “Reduce” |
  {"right" if all(held[call] == chunks for call, chunks in roots.items()) and have_it == "0"
  else "not here"} | ranks 0 to 3 held {as_words["gather"]} chunks after a gather to rank 0, and
  {as_words["broadcast"]} after its broadcast (section 3, second picture). After a reduce, of all
  ranks rank {have_it} had all four sums (a run in this section) | measured: nothing; NCCL's
  collectives are defined alike, and what a reduce leaves on the other ranks is open
- [C043] After a reduce-scatter rank k has the sum of chunk k; an all-gather gives everybody all |
  handwritten notes, “Reduce Scatter”, “AllGather” |
  {"right" if (summed, held["all_gather"]) == ([0, 1, 2, 3], [4] * 4) else "not here"} | ranks 0 to
  3 had the sums of chunks {", ".join(map(str, summed))}; after an all-gather each held
  {max(held["all_gather"])} chunks (section 3, second picture) | measured: nothing about who holds
  what; NCCL has a reduce-scatter of its own, and Gloo runs an all-reduce for it (part 02d, section
  2)
""")

# %% [markdown]
# **Source.** Handwritten notes.
#
# **To read on.** PyTorch,
# [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html); NVIDIA, [NCCL user
# guide](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html).

# %% [markdown]
# ## What you have learnt
#
# * Two ranks that wait for each other hang. Begin both messages, then wait; on NCCL begin them in
#   one batch.
# * All ranks call the same collectives in the same order, and that includes `new_group`.
# * A reduce-scatter and then an all-gather are an all-reduce.
# * With `async_op=True` a call only begins. Until `work.wait()` has returned, its tensor must be
#   neither read nor written; in that time a rank can compute.
#
# **Your exercises** are in cells above.
#
# **Next**: {{next}}.

# %%
progress("02")
