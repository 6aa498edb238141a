# %% [markdown]
# # 02 · Collectives
#
# **How do ranks add up a tensor with nobody in the middle?** Every technique of this course is a
# pattern of messages: broadcasts, gathers, sums. Here you write most of them with nothing but
# *send* and *receive*, count their bytes, and find out why so much of deep learning sums its
# gradients in a ring. At the end your own reduce-scatter sends half of what Gloo's sends.
#
# Exercises stand in cells and in [labs/collectives.py](../labs/collectives.py). Open that file, and
# drag its tab to the right edge of the notebook: then you see both. `check("2.3")` tries an answer
# on real ranks; `hint("2.3")` helps, a step at each call. In this notebook, what you leave open
# runs on our solution.

# %% [markdown]
# ![Time of an all-reduce on 8 ranks over its size, predicted and measured: a tree is faster for
# small tensors, a ring for large ones](../assets/covers/02_collectives.png)
#
# *Measured in section 7: a tree wins for small tensors, a ring for large ones.*
#
# **After this part you can** build collectives from send and receive, predict their bytes and their
# time, and say which algorithm suits which size.
#
# **It takes** about 30 minutes, and 90 more for 12 exercises. **It needs** [chapter
# 00](00_start_here.ipynb).

# %% jupyter={"source_hidden": true}
import math
import queue
import threading
import time
from statistics import median

import numpy as np
import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Table, check, explore, film, hint, lab, launch, measure, plot_against,
    plot_holdings, plot_ring, plot_timeline, predict, progress, put_to_the_test, throttle,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0

# %% [markdown]
# ## 1 · One message
#
# The atoms are two calls. `dist.send(x, dst)` gives `x` to another rank; `dist.recv(x, src)`
# fills `x` with what comes. Both wait: the receiver until the message is there, the sender until
# it is taken. `dist.isend` and `dist.irecv` only *begin*, and return a request. Keep the request
# and call its `.wait()`: only then has the message been sent, or come. (A request that is thrown
# away takes its message with it.) A *collective*, in contrast, is one call that all ranks make
# together, like the all-reduce of chapter 00.

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
# Waiting for each other is how ranks work together, and how they get stuck. Three mistakes that
# everybody makes once. *Both sides send first*, and each waits for the other to receive. *Both
# receive first*. And *collectives in another order*: rank 0 broadcasts (gives its tensor to all)
# and then sums, rank 1 sums and then broadcasts. Read the messages line by line: which line waits,
# in which call, and what follows from that.

# %%
def both_send_first(x):
    dist.send(x, 1 - dist.get_rank())
    dist.recv(x, 1 - dist.get_rank())

def both_receive_first(x):
    dist.recv(x, 1 - dist.get_rank())
    dist.send(x, 1 - dist.get_rank())

def another_order(x):
    if dist.get_rank() == 0:
        dist.broadcast(x, 0)
        dist.all_reduce(x)
    else:
        dist.all_reduce(x)
        dist.broadcast(x, 0)

for mistake in (both_send_first, both_receive_first, another_order):
    try:
        launch(mistake, torch.ones(4), world_size=2, device="cpu", timeout=1)
    except HangError as error:
        print(f"{mistake.__name__}: {error}\n")

# %% [markdown]
# Two ranks that have something for each other begin *both* messages, and wait then.
# `dist.batch_isend_irecv` begins a list of messages, and returns requests to wait for. A message is
# `dist.P2POp(dist.isend, x, peer)` or `dist.P2POp(dist.irecv, x, peer)`.
#
# **On GPUs.** Over Gloo, `isend` and then `recv` does the same. NCCL is different, say PyTorch's
# source and
# [NCCL's documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/p2p.html).
# Single messages between two ranks run in the order of the calls. If both ranks begin with a
# send, each send blocks its GPU until it is received. (A small message may get through a buffer;
# NCCL does not promise it.) In a batch, a send and a receive do not wait for each other. Several
# messages to the same rank keep their order.

# %% [markdown]
# ### Exercise 2.1
#
# Ranks 0 and 1 are partners, and 2 and 3, and so on. `swap(x)` gives this rank's `x` to its partner
# and returns the partner's; `x` itself stays as it is. One message from each rank, and nobody gets
# stuck. For example, rank 0 has `[1, 2]` and rank 1 `[3, 4]`: then rank 0 returns `[3, 4]`.
#
# The check runs on Gloo, and accepts whatever is right there. On NCCL take a batch. If it is the
# first call in a group, every rank of the group has to take part, says PyTorch's documentation.

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
# ## 2 · A file for seven friends
#
# You have a file of 0.2 MB, and seven friends want it. A computer's link carries 2 MB/s out and 2
# MB/s in at once, so a copy takes 0.1 s. (`throttle` slows messages; pictures say so.) Four ways:
# to one after another; to all at once, a piece to each in turn; along a **tree**, where those who
# have it help; along a **chain**, where each passes on the first of twenty pieces while the second
# comes in. The picture's bars are time in the call, waiting included.
#
# The tree is in the lab. `lab("collectives")` obtains it: your functions where they are written,
# ours where not. Save the file after an edit; the next launch reads it.

# %% tags=["nbval-ignore-output"]
def one_by_one(x):
    if dist.get_rank():
        dist.recv(x, 0)
    else:
        for friend in range(1, dist.get_world_size()):
            dist.send(x, friend)

def all_at_once(x):
    for piece in x.chunk(20):
        one_by_one(piece)

def chain(x):
    rank, sending = dist.get_rank(), []
    for piece in x.chunk(20):
        if rank > 0:
            dist.recv(piece, rank - 1)
        if rank < dist.get_world_size() - 1:
            sending.append(dist.isend(piece, rank + 1))
    for request in sending:
        request.wait()

collectives = lab("collectives")

# %%
chain_guess = predict("The chain: until all seven friends have the file", unit="s")

# %%
def deliver(ways, file_bytes, bytes_per_second):
    with throttle(bytes_per_second):
        for way in ways:
            x = torch.zeros(file_bytes, dtype=torch.uint8)
            x += dist.get_rank() == 0
            dist.barrier()
            with measure(way.__name__):
                way(x)
            assert x.all(), "somebody has not got the file"

ways = [one_by_one, all_at_once, collectives.broadcast_tree, chain]
friends = launch(deliver, ways, 200_000, 2e6, world_size=8, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
copy = 200_000 / 2e6  # seconds for the file over one link
theory = {"one_by_one": 7 * copy, "all_at_once": 7 * copy, "broadcast_tree": 3 * copy,
          "chain": (6 + 20) * copy / 20}
took = {name: max(friends[name].seconds) for name in theory}
chain_guess.compare(theory["chain"], took["chain"])

# %% tags=["nbval-ignore-output"]
plot_timeline(friends, title="A file from rank 0 to seven friends, in four ways")

# %% tags=["nbval-ignore-output"]
links = 8 * 2e6  # bytes that all eight could send in a second
Table(["way", "theory", "measured", "share of the links in use"],
      [[name, f"{theory[name]:.2f} s", f"{took[name]:.2f} s",
        f"{sum(friends[name].sent_bytes) / links / took[name]:.0%}"] for name in theory])

# %% [markdown]
# The first two: 7 copies leave by the same link. The tree doubles those who have it in each round;
# but in its first round six of eight only wait. In the chain, once it is filled, *everybody sends
# and receives all the time*. With many pieces, it needs little more than the time of one copy:
#
# $$t_\text{chain} = (n - 2 + p)\,\frac{X}{p\,B} \;\to\; \frac{X}{B}$$
#
# with $n$ computers, $X$ bytes, links of $B$ bytes/s, and $p$ pieces. *Break it*: write 1, or 100,
# in place of the 20 in `chain`; then a latency, `throttle(bytes_per_second, 0.005)` in `deliver`.
#
# ### Exercise 2.2
#
# `n` computers, one of which has a file of `megabytes`; links of `megabytes_per_second`. How many
# seconds until all have it, along a tree? `n` need not be a power of two.

# %%
def tree_seconds(n, megabytes, megabytes_per_second):
    ### BEGIN SOLUTION
    return math.ceil(math.log2(n)) * megabytes / megabytes_per_second
    ### END SOLUTION

check("2.2", tree_seconds)

# %% [markdown]
# ## 3 · Trees
#
# ### Exercise 2.3
#
# In [labs/collectives.py](../labs/collectives.py), write `broadcast_tree`, with the `send` and
# `receive` of that file. One rank has the tensor: the **root**. In the first round one rank can
# send, in the second two, then four. Its docstring says what the function equals and what it may
# cost.
#
# A word on `group`. A collective may be for some ranks only: a *process group*. In it, ranks are
# numbered anew, from 0 to n − 1. The lab's `send` and `receive` take these numbers, so your
# function works in every group if it passes `group` on. (`None` is the group of all.)

# %%
check("2.3")

# %% [markdown]
# A **reduce** goes the other way: sums flow to the root, in a tree too. Eight ranks have a number
# each. What do pairs add up to, then fours, then all eight? Here `reduce_tree` runs in groups of
# two, of four, and in the whole world. (`dist.new_group` makes a group; all ranks have to call it,
# also those that are not in it.)
#
# ### Exercise 2.4
#
# Write `reduce_tree` in [labs/collectives.py](../labs/collectives.py). For example, neighbours make
# pairs in the first round, and one of each pair is done. The check stands below the numbers.

# %%
numbers = [0.1, -0.2, -0.3, 0.5, -0.6, -0.1, 0.2, 0.3]

def sums_in_groups(collectives, numbers):
    rank, sums = dist.get_rank(), []
    for size in (2, 4, 8):
        groups = [dist.new_group(range(first, first + size)) for first in range(0, 8, size)]
        x = torch.tensor(numbers[rank], dtype=torch.float64)
        collectives.reduce_tree(x, 0, groups[rank // size])
        sums.append(x.item())
    return sums

sums = launch(sums_in_groups, collectives, numbers, world_size=8).values
levels = {size: [sums[rank][k] for rank in range(0, 8, size)] for k, size in enumerate((2, 4, 8))}
for size, level in levels.items():
    print(f"sums of {size}:", *(f"{number:.1f}" for number in level))

# %%
check("2.4")

# %% [markdown]
# ## 4 · Who holds what
#
# The collectives have names. For the pictures, each rank fills its chunks with $2^\text{rank}$:
# then the bits of a sum tell whose numbers are in it. Nothing below is drawn by hand; it is what
# the ranks really had before and after. The first four have a **root**, here rank 0. (In a reduce,
# what the others are left with is open, and not shown. In the all-to-all, each chunk also shows the
# number that it had at the start.)

# %%
def who_holds_what(operations):
    rank, n = dist.get_rank(), dist.get_world_size()
    full = torch.full((n,), 2.0**rank)
    has = {"all": full, "root": full * (rank == 0), "own": full * torch.eye(n)[rank],
           "numbered": full + (torch.arange(n) + 1) / 10}
    seen = {}
    for name, (start, operation) in operations.items():
        x = has[start].clone()
        seen[f"{name}: before"] = x.tolist()
        operation(x, list(x.split(1)), rank)
        seen[f"{name}: after"] = x.tolist()
    return seen

def grids(seen):
    return {title: [of_rank[title] for of_rank in seen] for title in seen[0]}

# %%
operations = {
    "broadcast": ("root", lambda x, chunks, rank: dist.broadcast(x, 0)),
    "scatter": ("root", lambda x, chunks, rank: dist.scatter(
        chunks[rank], chunks if rank == 0 else None, 0)),
    "gather": ("own", lambda x, chunks, rank: dist.gather(
        chunks[rank].clone(), chunks if rank == 0 else None, 0)),
    "reduce": ("all", lambda x, chunks, rank: (dist.reduce(x, 0), x.mul_(rank == 0))),
    "reduce_scatter": ("all", lambda x, chunks, rank: dist.reduce_scatter(
        chunks[rank], [chunk.clone() for chunk in chunks])),
    "all_gather": ("own", lambda x, chunks, rank: dist.all_gather(chunks, chunks[rank].clone())),
    "all_reduce": ("all", lambda x, chunks, rank: dist.all_reduce(x)),
    "all_to_all": ("numbered", lambda x, chunks, rank: dist.all_to_all_single(x, x.clone())),
}
holdings = grids(launch(who_holds_what, operations, world_size=4, device="cpu").values)
plot_holdings(holdings)

# %% [markdown]
# | collective | afterwards | chapter |
# |---|---|---|
# | broadcast | everybody has the root's tensor | 03 |
# | scatter | rank k has the root's chunk k | |
# | gather | the root has everybody's chunk | 04 |
# | reduce | the root has the sum | |
# | reduce-scatter | rank k has the sum of all chunks k | 06 |
# | all-gather | everybody has everybody's chunk | 06 |
# | all-reduce | everybody has the sum | 03, 07 |
# | all-to-all | rank k has chunk k of everybody | 09 |
#
# Look at the third row of pictures: after a reduce-scatter, every rank has a chunk of the sum; an
# all-gather of these would give all chunks to everybody. *Together they are an all-reduce.*
#
# ## 5 · All-reduce: star, tree, ring
#
# The plainest way: everybody sends to rank 0, which adds up and sends the sum back: a **star**. The
# lab has it, ready made, and also a pair of trees (a reduce, then a broadcast). Your ring will be
# the third way. How many bytes does rank 0 of the star send, how many every other, and how many do
# all send together?

# %%
def sum_up(ways, nbytes):
    n = dist.get_world_size()
    for name, all_reduce in ways.items():
        x = torch.full((nbytes // 8,), dist.get_rank() + 1.0, dtype=torch.float64)
        dist.barrier()
        with measure(name):
            all_reduce(x)
        assert (x == n * (n + 1) / 2).all()

ways = {"star": collectives.all_reduce_star, "tree": collectives.all_reduce_tree,
        "ring": collectives.all_reduce_ring, "dist.all_reduce": dist.all_reduce}
summed = launch(sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")
Table(["way", "sent by rank 0", "by another, at most", "by all together", "in X"],
      [[name, *(f"{b / 1e6:.2f} MB" for b in (sent[0], max(sent[1:]), sum(sent))),
        f"{sum(sent) / 1e6 / megabytes:.2f}"]
       for name in ways for sent in [summed[name].sent_bytes]])

# %% [markdown]
# In the **ring** every rank talks to its two neighbours only: it sends to the next one and receives
# from the one before. The tensor is cut into $n$ chunks, so that all ranks have something to send
# in every step. Below is a film of the lab's `all_reduce_ring` on four ranks, a chunk for each.
# Move the slider. Where is the sum of chunk 0 after three steps? Which chunk does a rank pass on?

# %%
def film_the_ring(collectives):
    x = torch.full((dist.get_world_size(),), 2.0 ** dist.get_rank())
    with film(x) as seen:
        collectives.all_reduce_ring(x)
    return seen

films = launch(film_the_ring, collectives, world_size=4, device="cpu").values

def draw_ring(step):
    return plot_ring(films, step)

explore(draw_ring, step=[1, 0, *range(2, len(films[0].frames))])

# %%
plot_holdings({f"after step {step}" if step else "at the start": [f.frames[step] for f in films]
               for step in range(len(films[0].frames))})

# %% [markdown]
# The first three steps **add**, until rank $k$ has the complete chunk $k$: a reduce-scatter. The
# last three **replace**: complete chunks travel round, an all-gather. Each is $n-1$ messages of
# $X/n$, so every rank sends $2\,(n-1)\,X/n$. All together send $2(n-1)X$, as in the star and the
# tree; but the ring shares it out *equally*. No way to sum has a busiest rank that sends less
# (Patarasuk and Yuan, 2009).
#
# ### Exercise 2.5
#
# In step `step` of the reduce-scatter, which chunk does `rank` send to its next neighbour? Steps
# count from 0 to n−2 here: the film's step 1 is `step=0`. Rank $k$ is to end with the complete
# chunk $k$. The check plays the ring with your numbers.

# %%
def chunk_to_send(rank, step, n):
    ### BEGIN SOLUTION
    return (rank - step - 1) % n
    ### END SOLUTION

check("2.5", chunk_to_send)

# %% [markdown]
# ### Exercise 2.6
#
# Write `reduce_scatter_ring` in [labs/collectives.py](../labs/collectives.py). `exchange`, in the
# same file, sends to one rank and receives from another in one batch. What comes in needs a tensor
# of its own, to be added. Write into the tensors that are in the list: `chunks[k] = …` would only
# put another one there.
#
# ### Exercise 2.7
#
# Write `all_gather_ring` in [labs/collectives.py](../labs/collectives.py): at the start rank k has
# only chunk k.
#
# ### Exercise 2.8
#
# In [labs/collectives.py](../labs/collectives.py), write `all_reduce_ring` from these two. `x` has
# any shape, and its length need not be a multiple of n: flatten it with `x.view(-1)`, and look at
# `torch.tensor_split` (it gives a tuple; the other two take a list). When your three pass, run the
# film above again: it is yours now.

# %%
display(check("2.6"), check("2.7"), check("2.8"))

# %% [markdown]
# ## 6 · Bytes, of all of them
#
# What the rank that sends most has sent, in tensor sizes $X$, beside the formula (in brackets). The
# kernel counts it, so this runs on the CPU everywhere. One line is not like the others.

# %%
def traffic(collectives):
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.ones(240_000, dtype=torch.float64)
    chunks, mine = list(x.chunk(n)), torch.ones(240_000 // n, dtype=torch.float64)
    at_root = chunks if rank == 0 else None
    ways = {
        "broadcast": lambda: dist.broadcast(x, 0),
        "reduce": lambda: dist.reduce(x, 0),
        "scatter": lambda: dist.scatter(mine, at_root, 0),
        "gather": lambda: dist.gather(mine, at_root, 0),
        "all_gather": lambda: dist.all_gather(chunks, mine),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
        "all_reduce": lambda: dist.all_reduce(x),
        "reduce_scatter": lambda: dist.reduce_scatter(mine, chunks),
        "reduce to each owner": lambda: [dist.reduce(chunks[k], k) for k in range(n)],
        "ring: all_reduce": lambda: collectives.all_reduce_ring(x),
        "ring: reduce_scatter": lambda: collectives.reduce_scatter_ring(chunks),
    }
    for name, way in ways.items():
        with measure(name):
            way()

# %% jupyter={"source_hidden": true}
# Formulas, as shares of X, and bytes of all collectives on 2, 3, 4 and 8 ranks.
formulas = {
    "broadcast": lambda n: math.ceil(math.log2(n)), "reduce": lambda n: 1,
    "scatter": lambda n: (n - 1) / n, "gather": lambda n: 1 / n,
    "all_gather": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
    "ring: all_reduce": lambda n: 2 * (n - 1) / n,
    "ring: reduce_scatter": lambda n: (n - 1) / n,
}
sent = {n: launch(traffic, collectives, world_size=n, device="cpu") for n in (2, 3, 4, 8)}
in_x = {name: {n: max(run[name].sent_bytes) / 1.92e6 for n, run in sent.items()}
        for name in sent[2].labels}
Table(["", *(f"{n} ranks" for n in sent)],
      [[name, *(f"{in_x[name][n]:.3f} ({formula(n):.3f})" for n in sent)]
       for name, formula in formulas.items()])

# %% [markdown]
# **Gloo's `reduce_scatter` sends twice what it has to.** It *is* an all-reduce (`torch.profiler`
# shows it), of which each rank keeps a chunk. Your ring, ten lines of Python, sends half of that.
# Whoever measures FSDP on Gloo (chapter 06) measures this as well.
#
# The broadcast's root sends $\lceil\log_2 n\rceil$ copies: a tree. The reduce is the first half of
# a ring, then a gather.
#
# ### Exercise 2.9
#
# `sent_bytes(name, n, X)`: what each rank must send, if all send the same, for `"all_reduce"`,
# `"all_gather"`, `"reduce_scatter"` and `"all_to_all"` on `n` ranks. `X` is the bytes of the whole
# tensor: the result in an all-gather, the input elsewhere.
#
# ### Exercise 2.10
#
# Write `all_to_all` in [labs/collectives.py](../labs/collectives.py): each rank has a piece for
# every other. No ring: send each straight to its receiver.

# %%
def sent_bytes(name, n, X):
    ### BEGIN SOLUTION
    times_round = 2 if name == "all_reduce" else 1
    return times_round * (n - 1) * X / n
    ### END SOLUTION

check("2.9", sent_bytes)

# %%
check("2.10")

# %% [markdown]
# ## 7 · Latency and bandwidth
#
# How long does a message take? A straight line is the usual model: a **latency** $\alpha$ that each
# message costs, however short, and $X/B$ for its bytes. Time some sizes between two ranks of *this*
# machine, fit the line to every other one of them (so that all count the same, in percent), and
# predict the rest.

# %% tags=["nbval-ignore-output"]
def ping_pong(sizes, rounds=40):
    quickest, other = [math.inf] * len(sizes), 1 - dist.get_rank()
    for _ in range(rounds):  # other programs can only add: the quickest round is the machine's
        for k, size in enumerate(sizes):
            x, began = torch.zeros(size, dtype=torch.uint8), time.perf_counter()
            for turn in (0, 1):
                if dist.get_rank() == turn:
                    dist.send(x, other)
                else:
                    dist.recv(x, other)
            quickest[k] = min(quickest[k], (time.perf_counter() - began) / 2)
    return quickest

sizes = [2**k for k in range(8, 24)]
times = np.array(launch(ping_pong, sizes, world_size=2, device="cpu").values[0])
per_byte, alpha = np.polyfit(sizes[::2], times[::2], 1, w=1 / times[::2])
guesses = alpha + np.array(sizes) * per_byte
error = np.median(np.abs(guesses / times - 1)[1::2])
print(f"latency {alpha * 1e6:.0f} µs, bandwidth {1e-9 / per_byte:.2f} GB/s")
print(f"on sizes that were not fitted, half of the predictions are within {error:.0%}")
plot_against(sizes, {"one message": 1e3 * times}, "bytes", "time (ms)",
             {"one message": 1e3 * guesses}, logarithmic=True,
             title="Latency and bandwidth of this machine")

# %% [markdown]
# To the left of the bend, at about $\alpha B$, size hardly matters: a message of one byte costs as
# much as one of thousands. That is why many small messages are slow. Here are 128 all-reduces of
# 4 kB, and one of 512 kB: the same bytes.

# %% tags=["nbval-ignore-output"]
def many_or_one():
    x = torch.zeros(128, 1000)
    for row in x[:2]:
        dist.all_reduce(row)
    with measure("128 small", memory=False):
        for row in x:
            dist.all_reduce(row)
    with measure("one large", memory=False):
        dist.all_reduce(x)

small = launch(many_or_one, world_size=2, device="cpu")
many, one = (max(small[label].seconds) for label in ("128 small", "one large"))
print(f"128 small ones take {many / one:.0f} times as long as one large: "
      f"{many * 1e3:.1f} ms and {one * 1e3:.1f} ms")

# %% [markdown]
# ### Exercise 2.11
#
# `all_reduce_seconds(how, n, X, alpha, B)`: how long does an all-reduce of `X` bytes take on `n`
# ranks, if `how` is `"ring"` or `"tree"` (a reduce, then a broadcast)? Each message takes `alpha`
# plus its bytes over `B`; adding numbers takes no time.

# %%
def all_reduce_seconds(how, n, X, alpha, B):
    ### BEGIN SOLUTION
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    return 2 * math.ceil(math.log2(n)) * (alpha + X / B)
    ### END SOLUTION

check("2.11", all_reduce_seconds)

# %% [markdown]
# So neither is always better. What its busiest rank does one after the other, are few bytes in many
# messages for the ring, and many bytes in few messages for the tree. Links of 10 ms and 20 MB/s,
# eight ranks: with $\lceil\log_2 8\rceil = 3$ rounds the two cost the same where $6\,(\alpha + X/B)
# = 14\,(\alpha + X/8B)$. Predicted, then run:

# %% tags=["cover", "nbval-ignore-output"]
def both_ways(collectives, sizes, alpha, bandwidth):
    with throttle(bandwidth, alpha):
        for size in [4, *sizes]:  # the first one opens the connections
            for name in ("tree", "ring"):
                x = torch.zeros(size // 4)
                dist.barrier()
                with measure(f"{name} {size}", memory=False):
                    getattr(collectives, f"all_reduce_{name}")(x)

slow_sizes = [12_500 * 2**k for k in range(8)]
slow = launch(both_ways, collectives, slow_sizes, 0.010, 20e6, world_size=8, device="cpu")
found = {name: [1e3 * max(slow[f"{name} {size}"].seconds) for size in slow_sizes]
         for name in ("tree", "ring")}
expected = {"tree": [6 * (10 + 1e3 * x / 20e6) for x in slow_sizes],
            "ring": [14 * (10 + 1e3 * x / 8 / 20e6) for x in slow_sizes]}
cross = (14 - 6) * 0.010 * 20e6 / (6 - 14 / 8)
print(f"predicted to be equal at {cross / 1e3:.0f} kB")
plot_against(slow_sizes, found, "bytes", "time (ms)", expected, logarithmic=True,
             title="All-reduce on 8 ranks, links throttled to 20 MB/s + 10 ms")

# %% [markdown]
# Libraries choose by size, as this picture suggests. And your own ring, at full speed, beside
# Gloo's, which is written in C++? Below, also what it is made of: messages (two all-gathers send as
# many), new tensors for what comes in, and additions. The last line is the ring on a few bytes:
# what latency and Python cost, whatever the size.

# %% tags=["nbval-ignore-output"]
def anatomy(collectives, nbytes):
    n, x = dist.get_world_size(), torch.zeros(nbytes // 4)
    chunks = x.chunk(n)
    ways = {"dist.all_reduce": lambda: dist.all_reduce(x),
            "your ring": lambda: collectives.all_reduce_ring(x),
            "- messages": lambda: [collectives.all_gather_ring(chunks) for _ in range(2)],
            "- new tensors": lambda: [torch.ones_like(chunks[0]) for _ in range(n - 1)],
            "- additions": lambda: [chunks[0].add_(chunks[0]) for _ in range(n - 1)],
            "- a tiny ring": lambda: collectives.all_reduce_ring(x[:n])}
    for _ in range(9):
        for name, way in ways.items():
            dist.barrier()
            with measure(name, memory=False):
                way()

parts = launch(anatomy, collectives, 8_000_000, world_size=2, device="cpu")
for name in parts.labels:
    print(f"{name:16}{median(end - begin for begin, end in parts[name].spans[0]) * 1e3:7.2f} ms")

# %% [markdown]
# ### Exercise 2.12
#
# A model has hundreds of gradients, many of them small. Write `all_reduce_buckets` in
# [labs/collectives.py](../labs/collectives.py): pack them into buckets, and sum a bucket at a time
# with your ring. It is what DDP does (chapter 03).

# %%
check("2.12")

# %% [markdown]
# ## Put to the test
#
# What our sources say about collectives, and what was measured or computed in this notebook just
# now. First, the file and the trees.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
copies = {way: f"{took[way] / copy:.1f} copies' time" for way in took}
put_to_the_test(f"""
- 5 MB to 7 friends one after another at 1 MB/s: 5 s in all, and on the next slide 35 s |
  PyTorch slides | contradicts itself | {copies["one_by_one"]}, so about 7 × 5 s (section 2)
- To all 7 at once gives each 143 kB/s, and still takes 35 s | PyTorch slides | right |
  {copies["all_at_once"]}; 1 MB/s / 7 = {1000 / 7:.0f} kB/s
- A tree reaches 8 ranks in 5, 10, 15 s | PyTorch slides | depends |
  {copies["broadcast_tree"]}, if each has a link of its own and passes on whole copies. A chain
  of 20 pieces takes {copies["chain"]}; of 100 pieces, {(6 + 100) / 100:.2f} in theory
- Divide and conquer avoids idle time | PyTorch slides | imprecise |
  7 copies in 3 rounds on 8 links use {7 / 24:.0%} of their time; a chain of 20 pieces uses
  {7 * 20 / 8 / 26:.0%}
- The tree's sums of .1 -.2 -.3 .5 -.6 -.1 .2 .3 are -.1 .2 -.7 .5, then .1 -.2, then -.1 |
  PyTorch slides | right | {"; ".join(" ".join(f"{v:.1f}" for v in lv) for lv in levels.values())}
- A reduce on 8 ranks takes 3 steps: its time is logarithmic in the number of ranks |
  PyTorch slides | depends | so is a tree's: {math.ceil(math.log2(8))} messages of X one after
  another. Gloo's reduce is no tree: no rank sends more than {in_x["reduce"][8]:.2f} X
""")

# %% jupyter={"source_hidden": true}
flat, tree, ring = 2 * 7 * 5, 2 * 3 * 5, 2 * 7 / 8 * 5
steps, calls = len(films[0].moves), summed["ring"].calls[0]
peers = {name: {f"rank {call.peer}" for call in calls if call.name == name}.pop()
         for name in ("send", "recv")}
put_to_the_test(f"""
- All-reduce is a reduce to one node, then a broadcast | PyTorch slides; book chapter |
  imprecise | the result is that; of the traffic it is a bad picture. 5 MB on 8 ranks at 1 MB/s:
  star {flat} s, two trees {tree} s, ring {ring} s
- All-reduce is usually faster than a reduce followed by a broadcast | PyTorch slides | depends |
  large tensors, yes: the busiest of 8 ranks sends {in_x["all_reduce"][8]:.2f} X, against
  {in_x["reduce"][8]:.2f} X and {in_x["broadcast"][8]:.2f} X; small ones, no (section 7)
- All-reduce = reduce-scatter + all-gather | handwritten notes; CS 229S | right |
  in the lab's ring {in_x["ring: reduce_scatter"][4]:.2f} X + {in_x["all_gather"][4]:.2f} X =
  {in_x["ring: all_reduce"][4]:.2f} X on 4 ranks
- A ring all-reduce runs 2 (N - 1) iterations | CS 229S | right | {steps} on 4 ranks (the film)
- In each iteration a node sends to 2 of its peers | CS 229S | wrong |
  rank 0 sends to {peers["send"]} alone, and receives from {peers["recv"]} alone
- The first N - 1 iterations add, the next N - 1 overwrite | CS 229S; handwritten notes | right |
  rank 0 after each has {" ".join(str(f.count(15.0)) for f in films[0].frames)} complete chunks of 4
""")

# %% jupyter={"source_hidden": true}
total = sum(summed["ring"].sent_bytes) / (megabytes * 1e6)
put_to_the_test(f"""
- Each rank sends 2 (N - 1) X / N | CS 229S; handwritten notes | right |
  {", ".join(f"{x:.3f} X on {n}" for n, x in in_x["ring: all_reduce"].items())} ranks
- and this is the “total volume” | CS 229S | imprecise |
  it is one rank's; all {world_size} together sent {total:.2f} X
- A ring takes 2 (N - 1) X / (N B) | CS 229S | imprecise |
  only for large tensors: without the latency, 12.5 kB on section 7's links would take
  {14 / 8 * 12_500 / 20e6 * 1e3:.1f} ms, with it {(14 * 0.010 + 14 / 8 * 12_500 / 20e6) * 1e3:.1f}
- A ring uses equal links fully, but is slow for many messages | handwritten notes | right |
  2 (N - 1) latencies each time: {steps} messages on 4 ranks for one number as for a million
- After a reduce-scatter rank k has the sum of chunk k; an all-gather gives everybody all |
  handwritten notes | right | section 4; but Gloo's reduce-scatter sends
  {in_x["reduce_scatter"][4]:.2f} X on 4 ranks, where {in_x["ring: reduce_scatter"][4]:.2f} X
  will do
- In a scatter, rank 1 gets chunk 0, and rank 2 chunk 1 | handwritten notes | wrong |
  rank 1 got chunk {holdings["scatter: after"][1].index(1.0)}, and the root keeps chunk 0
""")

# %% jupyter={"source_hidden": true}
def ring_of_threads(n=4):
    """A ring all-reduce of one number from each of n threads, over queues."""
    pipes, sums = [queue.Queue() for _ in range(n)], [0] * n

    def member(rank):
        passing = sums[rank] = rank + 1
        for _ in range(n - 1):
            pipes[(rank + 1) % n].put(passing)
            passing = pipes[rank].get()
            sums[rank] += passing

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums

# %% jupyter={"source_hidden": true}
def all_reduce_of_ranks(op):
    x = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(x, op)
    return x.item()

ops = {op: launch(all_reduce_of_ranks, getattr(dist.ReduceOp, op), device="cpu").values[0]
       for op in ("SUM", "AVG", "MAX")}
owners = in_x["reduce to each owner"][4]
put_to_the_test(f"""
- Gather: one collects all; broadcast: one to all; reduce: the result on one rank |
  handwritten notes | right | section 4
- Reduce is not for gradients, as only one rank gets the result | handwritten notes | imprecise |
  one reduce for each chunk's owner is a reduce-scatter, as ZeRO needs: {owners:.2f} X on 4 ranks
- The operation of an all-reduce may be sum, mean or max | handwritten notes | depends |
  on the backend: here, for ranks 0 to 3, sum {ops["SUM"]:g}, mean {ops["AVG"]:g}, max
  {ops["MAX"]:g}. Portable: the sum, then divide
- All-reduce averages gradients | web page; CS 229S | imprecise |
  it sums: {ops["SUM"]:g} for ranks 0 to 3. DDP divides
- All nodes send their gradients to one node, and get the total back | PyTorch slides |
  wrong for DDP | sent by ranks 0 to {world_size - 1}:
  {" ".join(f"{b / 1e6 / megabytes:.2f}" for b in summed["dist.all_reduce"].sent_bytes)} X
- Rings became possible with multi-process | blog | imprecise |
  four threads of this notebook summed 1 to 4 in a ring: {ring_of_threads()}
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); handwritten notes.
#
# **To read on.** Patarasuk and Yuan, [Bandwidth optimal all-reduce
# algorithms](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why $2(n-1)/n$ is the least.
# Sergeev and Del Balso, [Horovod](https://arxiv.org/abs/1802.05799), 2018: the ring comes to deep
# learning. Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication Operations in
# MPICH*, 2005: which algorithm for which size.

# %% [markdown]
# ## What you have learnt
#
# * Two messages that wait for each other hang. Begin both, then wait.
# * In a ring all-reduce each of $n$ ranks sends $2(n-1)/n$ times the tensor: never twice as much.
# * An all-reduce is a reduce-scatter and an all-gather. Gloo's own reduce-scatter, at the version
#   tested, sends twice what yours does.
# * A message of $X$ bytes takes $\alpha + X/B$, a latency and its bytes over the bandwidth. A tree
#   has fewer messages one after the other, a ring fewer bytes on its busiest rank.
#
# **Your exercises**: those in cells above, and [labs/collectives.py](../labs/collectives.py); later
# chapters run on your ring.
#
# **Next**: [02d · Across machines](02d_across_machines.ipynb).

# %%
progress("02")
