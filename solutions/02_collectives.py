# %% [markdown]
# # 02 · Collectives
#
# **How do eight computers give each other what they have?** Every technique of this course is a
# pattern of messages. Here you build the first patterns from two calls, *send* and *receive*. You
# also read what ranks say when they wait for each other for ever.
#
# Exercises stand in cells and in [labs/collectives.py](../labs/collectives.py). Open that file, and
# drag its tab to the right edge of the notebook: then you see both. `check("2.3")` tries your
# answer on real ranks. `hint("2.3")` helps, one step at each call. A function of a lab that you
# have not written yet is taken from our solution. A half-written one is yours; to run ours instead,
# write `lab("collectives", ours="broadcast_tree")`.

# %% [markdown]
# ![Grids of four ranks and four chunks, before and after each of eight collectives: stripes of
# colour show whose numbers are in each chunk](../assets/covers/02_collectives.png)
#
# *Measured in section 5: what four ranks hold before and after each of eight collectives.*
#
# **After this part you can** send and receive without getting stuck, read a report of a hang, build
# a broadcast and a reduce as trees, and say what each collective gives to whom.
#
# **It takes** about 25 minutes, and 30 more for 4 exercises. **It needs** [part
# 00](00_start_here.ipynb).

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Table, check, hint, lab, launch, plot_holdings, plot_timeline, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
pieces = 20  # of the file, along the chain
latency = 0.0  # seconds from a message's leaving to its arrival

# %% [markdown]
# ## 1 · One message
#
# Two calls are enough to build everything that follows:
#
# * `dist.send(x, dst)` gives the tensor `x` to rank `dst`.
# * `dist.recv(x, src)` fills the tensor `x` with what rank `src` sends.
#
# Over Gloo, both wait. The receiver waits until the message is there. The sender waits until the
# receiver takes it. Below, rank 0 writes a 1 and passes it on. Each rank adds its own digit.

# %%
def pass_it_on():
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.zeros(1)
    if rank > 0:
        dist.recv(x, rank - 1)
    x += 10**rank
    if rank < n - 1:
        dist.send(x, rank + 1)
    return x.item()

launch(pass_it_on, world_size=world_size).values

# %% [markdown]
# `dist.isend` and `dist.irecv` only *begin* a message. They return a **request** at once. Call
# `request.wait()` before you use the tensor: only then has the message gone, or come. Keep the
# request until then. On Gloo, a request that Python throws away cancels its message.
#
# A message has one sender and one receiver. A **collective** is one call that all ranks make
# together, like the all-reduce of part 00.

# %% [markdown]
# ## 2 · Ranks that wait for each other
#
# Two ranks that wait for each other are stuck. On a cluster this is an expensive mistake: a
# thousand GPUs stand still, and for minutes nobody sees an error. Here are two ways to get there.

# %%
def both_send_first(x):
    other = 1 - dist.get_rank()
    dist.send(x, other)
    dist.recv(x, other)

def both_receive_first(x):
    other = 1 - dist.get_rank()
    dist.recv(x, other)
    dist.send(x, other)

# %% [markdown]
# The third way has collectives in it. Ranks match collectives by the order of their calls. In a
# *broadcast* one rank gives its tensor to all. In an *all-reduce* all get the sum. Rank 0
# broadcasts and then sums; rank 1 sums and then broadcasts.

# %%
def another_order(x):
    if dist.get_rank() == 0:
        dist.broadcast(x, 0)
        dist.all_reduce(x)
    else:
        dist.all_reduce(x)
        dist.broadcast(x, 0)

# %% [markdown]
# What does each rank wait for? Answer for the three functions before you run the cell. Then read
# the reports line by line. Each line names a rank, its call, and the line of code in which it
# waits. (`device="cpu"`, as this is about Gloo.)

# %%
for mistake in (both_send_first, both_receive_first, another_order):
    try:
        launch(mistake, torch.ones(4), world_size=2, device="cpu", timeout=1)
    except HangError as error:
        print(f"{mistake.__name__}: {error}\n")

# %% [markdown]
# The cure: two ranks that have something for each other begin *both* messages, and wait after that.
# `dist.batch_isend_irecv` begins a list of messages and returns their requests. An entry of the
# list is `dist.P2POp(dist.isend, x, peer)` or `dist.P2POp(dist.irecv, x, peer)`. The order of sends
# and receives in the list does not matter. Several messages to the same rank arrive in the order in
# which they stand there.

# %% [markdown]
# **On GPUs** you use the NCCL backend, and three things differ.
#
# 1. A call returns once its work is in the queue of a CUDA **stream**. `wait()` then makes the
#    current stream wait, not Python, [say PyTorch's
#    docs](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations).
#    So Python runs ahead, and a hang shows later than the line that caused it.
# 2. A single send blocks its stream until the other side receives, [says NCCL's
#    documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html). If both
#    ranks begin with `isend`, both can wait for ever. Over Gloo the same code works.
# 3. The messages of a batch [do not block each
#    other](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/p2p.html). So a batch is
#    right on both backends. If it is the first call in a group, all its ranks have to take part.

# %% [markdown]
# ### Exercise 2.1
#
# Ranks 0 and 1 are partners, and so are 2 and 3, 4 and 5, and so on. The number of ranks is even.
# `swap(x)` runs on each of them. `x` is a tensor; the partner's has the same shape and dtype.
# Return the partner's `x` as a new tensor, and leave your own `x` as it is. Each rank may send one
# message. Use the calls of this section, and no collective.
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

check("2.1", swap)

# %% [markdown]
# ## 3 · A file for seven friends
#
# At the start of training one rank has the weights, and all others need them. How fast can that be?
# Take a file of 0.2 MB and seven friends. Each computer's link carries 2 MB/s out, and at the same
# time 2 MB/s in. So one copy over one link takes 0.1 s.
#
# The links here are emulated: `throttle` makes each message take as long as such a link would. It
# works on the CPU only. The pictures say so.
#
# Two ways come to mind first. Send the file to one friend after another. Or cut it into pieces, and
# send a piece to each friend in turn, so that all are served at once.

# %%
def one_by_one(x):
    if dist.get_rank():
        dist.recv(x, 0)
    else:
        for friend in range(1, dist.get_world_size()):
            dist.send(x, friend)

def all_at_once(x):
    for piece in x.chunk(20):
        one_by_one(piece)

# %% [markdown]
# In both, rank 0 does all the sending. Two other ways let the friends help.
#
# * Along a **tree**: whoever has the file gives a copy to somebody who has not.
# * Along a **chain**: rank 0 sends to rank 1, rank 1 to rank 2, and so on. The file is cut into
#   pieces. Each rank passes on the first piece while the second one comes in.
#
# The tree is in the lab; you write it in section 4.

# %%
def chain(x, pieces=pieces):
    rank, n, sending = dist.get_rank(), dist.get_world_size(), []
    for piece in x.chunk(pieces):
        if rank > 0:
            dist.recv(piece, rank - 1)
        if rank < n - 1:
            sending.append(dist.isend(piece, rank + 1))
    for request in sending:
        request.wait()

collectives, shown = lab("collectives"), lab("collectives_shown")

# %% [markdown]
# Rank 7 is at the end of the chain. A piece has to pass seven links to get there, and there are
# twenty pieces. When has rank 7 all of them?

# %%
chain_guess = predict("The chain: until all seven friends have the file", unit="s")

# %% tags=["nbval-ignore-output"]
ways = [one_by_one, all_at_once, collectives.broadcast_tree, chain]
friends = launch(shown.deliver, ways, 200_000, 2e6, latency, world_size=8, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
copy = 200_000 / 2e6  # seconds for the file over one link
theory = {"one_by_one": 7 * copy + latency, "all_at_once": 7 * copy + latency,
          "broadcast_tree": 3 * (copy + latency),
          "chain": (6 + pieces) * copy / pieces + 7 * latency}
took = {name: max(friends[name].seconds) for name in theory}
chain_guess.compare(theory["chain"], took["chain"])

# %% tags=["nbval-ignore-output"]
plot_timeline(friends, title="A file from rank 0 to seven friends, in four ways")

# %% [markdown]
# A bar is the time that a rank spends in the call, waiting included. Seven copies leave rank 0 by
# the same link in the first two ways: 7 × 0.1 s. It makes no difference whether they leave one
# after another or side by side.
#
# Along the tree, the number of those who have the file doubles in each **round**: 1, 2, 4, 8. So
# three rounds do. In the chain, *everybody sends and receives all the time* once it is filled.

# %% tags=["nbval-ignore-output"]
links = 8 * 2e6  # bytes that all eight could send in a second
Table(["way", "theory", "measured", "share of the links in use"],
      [[name, f"{theory[name]:.2f} s", f"{took[name]:.2f} s",
        f"{sum(friends[name].sent_bytes) / links / took[name]:.0%}"] for name in theory])

# %% [markdown]
# Let $n$ be the number of computers, $X$ the bytes of the file, $B$ the bytes per second of a link,
# and $p$ the number of pieces. One piece takes $X/(pB)$. The last rank has the first piece after
# $n-1$ of these times, and then one more piece after each further one:
#
# $$t_\text{chain} = (n - 1 + p - 1)\,\frac{X}{p\,B}$$
#
# With many pieces this approaches $X/B$, the time of a single copy. Does it in practice?

# %% tags=["nbval-ignore-output"]
counts = [1, 5, 20, 100, 200]
by_pieces = launch(shown.deliver_in_pieces, chain, counts, 200_000, 2e6, world_size=8,
                   device="cpu")
Table(["pieces", "theory", "measured"],
      [[p, f"{(6 + p) * copy / p:.3f} s", f"{max(seconds):.3f} s"]
       for p, seconds in zip(counts, zip(*by_pieces.values))])

# %% [markdown]
# In theory, more pieces are always better. Measured, the gap grows with their number: each message
# also costs the processor some time, and 200 pieces make 1400 messages. [Part
# 02c](02c_what_a_message_costs.ipynb) measures that cost.
#
# *Break it.* Set `pieces = 1` or `latency = 0.005` in the cell of parameters, and run again from
# there. Which way suffers most?

# %% [markdown]
# ### Exercise 2.2
#
# One of `n` computers has a file of `megabytes`. Every link carries `megabytes_per_second`, in each
# direction. Return the seconds until all `n` have the whole file, along a tree in which whoever has
# the file gives a copy away in every round. `n` is 1 or more, and need not be a power of two.
#
# For example, `tree_seconds(4, 6.0, 2.0)` is 6.0: two rounds of 3 s.

# %%
def tree_seconds(n, megabytes, megabytes_per_second):
    ### BEGIN SOLUTION
    rounds = (n - 1).bit_length()
    return rounds * megabytes / megabytes_per_second
    ### END SOLUTION

check("2.2", tree_seconds)

# %% [markdown]
# ## 4 · Trees
#
# A collective may be for some ranks only: a **process group**. Chapter 09 splits a thousand ranks
# into hundreds of them. In a group, ranks are numbered anew, from 0 to n − 1. The lab's `send` and
# `receive` take these numbers. So your functions work in every group if they hand `group` to every
# call that takes it. (`None` is the group of all ranks.)

# %% [markdown]
# ### Exercise 2.3
#
# In [labs/collectives.py](../labs/collectives.py), write `broadcast_tree(x, root, group)`. The
# **root** is the rank that has the tensor. `x` is a tensor of the same shape on every rank. The
# function returns nothing: afterwards every rank's `x` holds the root's numbers. It may send $n-1$
# messages of the whole `x`, and needs $\lceil\log_2 n\rceil$ rounds. Use the `send` and `receive`
# of that file. They begin a message and return its request.
#
# For example, with 4 ranks and root 0: in round 1 rank 0 sends to rank 1. In round 2 rank 0 sends
# to rank 2, and rank 1 to rank 3. With 3 ranks, one of them has nothing to do in round 2. The root
# may be any rank.

# %%
check("2.3")

# %% [markdown]
# A **reduce** goes the other way: everybody's numbers flow to the root, and are added up on their
# way. Take eight ranks with a number each. What do pairs of neighbours add up to? Groups of four?
# All eight? The cell runs the lab's `reduce_tree` in groups of each size. `dist.new_group` makes a
# group, and all ranks have to call it, also those that are not in it.

# %%
numbers = [0.1, -0.2, -0.3, 0.5, -0.6, -0.1, 0.2, 0.3]
sums = launch(shown.sums_in_groups, collectives.reduce_tree, numbers, world_size=8).values
levels = {size: [sums[rank][k] for rank in range(0, 8, size)] for k, size in enumerate((2, 4, 8))}
for size, level in levels.items():
    print(f"sums of {size}:", *(f"{number:.1f}" for number in level))

# %% [markdown]
# ### Exercise 2.4
#
# In the same [labs/collectives.py](../labs/collectives.py), write `reduce_tree(x, root, group)`.
# `x` has the same shape on every rank. Afterwards the root's `x` holds the sum of everybody's; what
# the other ranks' hold is up to you. It may send $n-1$ messages of the whole `x`, in
# $\lceil\log_2 n\rceil$ rounds.
#
# For example, 4 ranks hold 1, 2, 3, 4, and the root is 0. In round 1 rank 1 sends 2 to rank 0, and
# rank 3 sends 4 to rank 2. Ranks 0 and 2 now hold 3 and 7. In round 2 rank 2 sends 7 to rank 0,
# which holds 10.

# %%
check("2.4")

# %% [markdown]
# ## 5 · Who holds what
#
# Now the collectives that PyTorch has. Their names are used in every chapter, so it pays to see
# once what each of them does. Here are two in full. In a **scatter** the root hands out its chunks,
# one to each rank. In a **reduce-scatter** everybody has all chunks; rank k gets the sum of all
# chunks k.

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

# %% [markdown]
# For the picture, rank r fills its chunks with $2^r$: 1, 2, 4, 8. Then the bits of a sum tell whose
# numbers are in it. A row is a rank, a column a chunk. Nothing is drawn by hand: you see what the
# ranks really had before, and what the call gave them.

# %%
two = launch(shown.before_and_after, [scatter, reduce_scatter], world_size=4)
plot_holdings(shown.grids(two.values))

# %% [markdown]
# After the scatter, rank 2 has chunk 2 of rank 0. After the reduce-scatter it has chunk 2 with the
# numbers of all ranks in it. A frame marks a chunk that is complete.
#
# And here are all eight. Broadcast, scatter, gather and reduce have a root, here rank 0. After a
# reduce, what the others hold is not defined, and not shown. In the all-to-all each chunk shows the
# number that it had at the start. The calls stand in
# [labs/collectives_shown.py](../labs/collectives_shown.py).

# %% tags=["cover"]
eight = launch(shown.before_and_after, shown.EIGHT, world_size=4)
holdings = shown.grids(eight.values)
plot_holdings(holdings)

# %% [markdown]
# | collective | afterwards | used for | chapter |
# |---|---|---|---|
# | broadcast | everybody has the root's tensor | equal weights at the start | 03 |
# | scatter | rank k has the root's chunk k | handing out work | |
# | gather | the root has everybody's chunk | saving in one place | 04 |
# | reduce | the root has the sum | a loss to print | |
# | reduce-scatter | rank k has the sum of all chunks k | gradients, a part for each rank | 06 |
# | all-gather | everybody has everybody's chunk | weights, of which each rank has a part | 06 |
# | all-reduce | everybody has the sum | gradients | 03, 07 |
# | all-to-all | rank k has chunk k of everybody | sorting samples by rank | 09 |
#
# Look at reduce-scatter and all-gather, one after the other. After the first, every rank has a
# chunk of the sum. The second gives these chunks to everybody. *Together they are an all-reduce*,
# and the next part builds one in this way.

# %% [markdown]
# ## Put to the test
#
# What our sources say about messages and trees, and what was measured here just now. A click opens
# the statements that hold no surprise.

# %% jupyter={"source_hidden": true}
copies = {way: f"{took[way] / copy:.1f} copies' time" for way in took}
got_by = holdings["scatter: after"][1].index(1.0)

# %% jupyter={"source_hidden": true}
surprises = f"""
- [C027] 5 MB to 7 friends one after another at 1 MB/s: 5 s in all; on the next slide 35 s |
  PyTorch slides, “Point-To-Point” | contradicts itself |
  {copies["one_by_one"]}, so about 7 × 5 s; 5 s is one copy (section 3, table)
- [C029] A tree reaches 8 ranks in 5, 10, 15 s |
  PyTorch slides, “Collective Communication: Broadcast” | depends |
  {copies["broadcast_tree"]}, if each has a link of its own and passes on whole copies. A chain of
  {pieces} pieces took {copies["chain"]} (section 3, table)
- [C030] Divide and conquer avoids idle time |
  PyTorch slides, “Collective Communication: Broadcast” | imprecise |
  7 copies in 3 rounds on 8 links use {7 / 24:.0%} of their time; in the first round six of eight
  ranks only wait (section 3, timeline)
- [C044] In a scatter, rank 1 gets chunk 0, and rank 2 chunk 1 |
  handwritten notes, “Communication Primitives” | {"right" if got_by == 0 else "wrong"} |
  rank 1 got chunk {got_by}; the root keeps chunk 0 (section 5, pictures)"""

# %% jupyter={"source_hidden": true}
others = f"""
- [C028] To all 7 at once gives each 143 kB/s, and still takes 35 s |
  PyTorch slides, “Point-To-Point” | right |
  {copies["all_at_once"]}; 1 MB/s / 7 = {1000 / 7:.0f} kB/s (section 3, table)
- [C031] Pairs of .1 -.2 -.3 .5 -.6 -.1 .2 .3 add up to -.1 .2 -.7 .5, then .1 -.2, then -.1 |
  PyTorch slides, “Collective Communication: Reduce” | right |
  {"; ".join(" ".join(f"{v:.1f}" for v in level) for level in levels.values())} (section 4)
- [C045] Gather: one collects all; broadcast: one to all; reduce: the result on one rank |
  handwritten notes, “Communication Primitives” | right | section 5, pictures
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises, more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); handwritten notes.
#
# **To read on.** PyTorch,
# [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html); NVIDIA, [NCCL user
# guide](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html). Thakur, Rabenseifner
# and Gropp, [Optimization of Collective Communication Operations in
# MPICH](https://doi.org/10.1177/1094342005051521), 2005: trees and other algorithms, and which one
# for which size.

# %% [markdown]
# ## What you have learnt
#
# * Two ranks that wait for each other hang. Begin both messages, then wait; on NCCL begin them in
#   one batch.
# * All ranks make the same collectives in the same order.
# * A tree doubles those who have something in each round. It needs $\lceil\log_2 n\rceil$ rounds.
# * A chain of many pieces uses all links at once, and takes little more than one copy.
# * A reduce-scatter and then an all-gather are an all-reduce.
#
# **Your exercises**: those in cells above, and [labs/collectives.py](../labs/collectives.py). Later
# chapters run on what you write there.
#
# **Next**: [02b · The ring](02b_the_ring.ipynb).

# %%
progress("02")
